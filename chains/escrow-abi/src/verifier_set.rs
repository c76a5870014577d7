//! The word of a verifier set, as the escrow judges it (ADR 147).

use alloy::primitives::{Address, B256};

use events::{Account, verifier_set::SetAttestation};

use crate::signature;

/// Whether `attestation`, hex with 0x, is the word of the set whose id `releaser` is, under `digest`: as many of its members as its
/// threshold asks for signed, each with its own key. `address` is how the chain's family reads an account.
pub fn holds<E>(
    releaser: &Account,
    digest: B256,
    attestation: &str,
    address: impl Fn(&Account) -> Result<Address, E>,
) -> bool {
    let Some(word) = SetAttestation::parse(releaser.family(), attestation) else { return false };
    word.id == *releaser
        && word
            .signatures
            .iter()
            .all(|(member, bytes)| address(member).is_ok_and(|member| signature::is_of_key(member, digest, bytes)))
}
