//! Signing what escrows are told: the reserver's award, the releaser's word about a delivery.

use alloy::{
    primitives::{Address, B256},
    signers::{SignerSync, local::PrivateKeySigner},
};

use sagas::ports::Statement;

use super::{
    contracts::ConvertError,
    eip712::{self, Admission, escrow_domain},
    reads::statement_digest,
    signature,
};

/// Why nothing was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// What should be signed does not fit the contract's types.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The key did not sign.
    #[error("key: {0}")]
    Key(String),
}

/// The signature of `signer` over a digest: 65 bytes, hex with 0x.
///
/// # Errors
/// [`SignError::Key`].
pub fn sign_digest(signer: &PrivateKeySigner, digest: B256) -> Result<String, SignError> {
    let signature = signer.sign_hash_sync(&digest).map_err(|error| SignError::Key(error.to_string()))?;
    Ok(format!("0x{}", hex::encode(signature.as_bytes())))
}

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
    sign_digest(signer, statement_digest(statement, evm_id, escrow)?)
}

/// Whether `signature` is a statement signed by the key of `releaser`. A contract account must be asked on its chain:
/// see [`super::node::Node::attestation_holds`].
pub fn verify_statement(
    releaser: Address,
    statement: &Statement,
    evm_id: u64,
    escrow: Address,
    signature: &str,
) -> bool {
    match (statement_digest(statement, evm_id, escrow), signature::bytes(signature)) {
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
