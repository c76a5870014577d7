//! Signing what escrows are told, with a secp256k1 key.

use alloy::{
    primitives::B256,
    signers::{SignerSync, local::PrivateKeySigner},
};

use crate::contracts::ConvertError;

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
