//! For programs off the chain: addresses, digests and ready instructions.

mod address;
mod build;
mod offer;
mod size;

use sha2::{Digest as _, Sha256};

use crate::{
    Hash, Key,
    message::{Delivery, Deposit, Domain, Fulfillment, NonDelivery, Offer},
    verifier_set::VerifierSet,
};

pub use address::{
    Address, associated_token_address, config_address, delegate_address, deposit_address, escrow_address,
    find_program_address, fulfillment_address, offer_address, program_data_address, vault_address,
};
pub use build::{
    AccountMeta, DepositAccounts, EscrowAccounts, Instruction, approve_checked, by_set, cancel,
    create_associated_token, deposit_and_reserve, deposit_from_address, ed25519, ed25519_of_set, fulfill_native,
    fulfill_token, give_back, give_back_lamports, give_back_of, given_back_to, initialize, paid_to, reassign,
    reclaim_escrow, reclaim_fulfillment, refund, release, return_remainder, with_vault,
};
pub use offer::{collect, collect_lamports, collect_of, collected_to, deposit_from_offer};
pub use size::{TRANSACTION_BYTES_MAX, fits};

/// A message that is signed over its digest.
pub trait Message {
    /// The digest in `domain`: the 32 bytes that the Ed25519 signature is over.
    fn digest(&self, domain: &Domain) -> Hash;

    /// The bytes whose SHA-256 is the digest.
    fn preimage(&self, domain: &Domain) -> alloc::vec::Vec<u8>;
}

macro_rules! messages {
    ($($name:ty),*) => {
        $(
            impl Message for $name {
                fn digest(&self, domain: &Domain) -> Hash {
                    sha256(&domain.preimage(&self.to_bytes()))
                }

                fn preimage(&self, domain: &Domain) -> alloc::vec::Vec<u8> {
                    domain.preimage(&self.to_bytes()).concat()
                }
            }
        )*
    };
}

messages!(Deposit, Delivery, NonDelivery);

impl Deposit {
    /// The hash that a deposit address is found from; see [`Self::address_preimage`].
    pub fn address_hash(&self) -> Hash {
        sha256(&Self::address_preimage(&self.to_bytes()))
    }
}

impl Offer {
    /// The hash that the address of the offer is found from; see [`Self::address_preimage`].
    pub fn address_hash(&self) -> Hash {
        sha256(&Self::address_preimage(&self.to_bytes()))
    }
}

impl Fulfillment {
    /// The delivery's once-only key at the program.
    pub fn key(&self, program_id: &Key) -> Hash {
        sha256(&Self::preimage(program_id, &self.to_bytes()))
    }
}

impl VerifierSet<'_> {
    /// The key that stands for the set as a releaser. It is a hash: nobody can sign with it.
    pub fn id(&self) -> Key {
        sha256(&self.preimage(&self.head()))
    }
}

pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}
