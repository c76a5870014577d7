//! Signatures for the escrow: the reserver's award, the releaser's statement about a delivery.

use alloy::{primitives::Address, signers::local::PrivateKeySigner};

use escrow_abi::{
    attest::{SignError, sign_digest, statement_digest},
    contracts::address,
    eip712::{self, Admission, escrow_domain},
    signature,
};
use sagas::ports::Statement;

/// The releaser's signed statement for the escrow at `escrow` on the chain `evm_id`.
///
/// # Errors
/// [`SignError`].
pub fn sign_statement(
    signer: &PrivateKeySigner,
    statement: &Statement,
    evm_id: u64,
    escrow: Address,
) -> Result<String, SignError> {
    sign_digest(signer, statement_digest(statement, evm_id, escrow, address)?)
}

/// Whether `signature` is a statement signed by the key of `releaser`. A contract account must be asked on its chain:
/// see [`super::escrows::Escrows::attestation_holds`].
pub fn verify_statement(
    releaser: Address,
    statement: &Statement,
    evm_id: u64,
    escrow: Address,
    signature: &str,
) -> bool {
    match (statement_digest(statement, evm_id, escrow, address), signature::bytes(signature)) {
        (Ok(digest), Ok(bytes)) => signature::is_of_key(releaser, digest, &bytes),
        _ => false,
    }
}

/// The reserver's signed award together with the deposit, its token and its end, for deposits with a permit.
///
/// # Errors
/// [`SignError::Key`].
pub fn sign_admission(
    signer: &PrivateKeySigner,
    admission: &Admission,
    evm_id: u64,
    escrow: Address,
) -> Result<String, SignError> {
    sign_digest(signer, eip712::digest(admission, &escrow_domain(evm_id, escrow)))
}
