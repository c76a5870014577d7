//! Digests of releasers' statements to escrows, and their signing with a secp256k1 key.

use alloy::{
    primitives::{Address, B256},
    signers::{SignerSync, local::PrivateKeySigner},
};

use events::Account;
use sagas::ports::Statement;

use crate::{
    contracts::{ConvertError, word},
    eip712::{self, Delivery, NonDelivery, escrow_domain},
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

/// The digest of a releaser's statement in the domain of the escrow at `escrow` on the chain with the EIP-712 id `chain`.
/// `address` is how the chain's family reads an account.
///
/// # Errors
/// What `address` says of the account that is to be paid.
pub fn statement_digest<E>(
    statement: &Statement,
    chain: u64,
    escrow: Address,
    address: impl FnOnce(&Account) -> Result<Address, E>,
) -> Result<B256, E> {
    let domain = escrow_domain(chain, escrow);
    Ok(match statement {
        Statement::Delivery { payment_id, quote_hash, payout_account } => {
            let message = Delivery {
                paymentId: word(payment_id.on_chain()),
                quoteHash: word(*quote_hash),
                settler: address(payout_account)?,
            };
            eip712::digest(&message, &domain)
        }
        Statement::NonDelivery { payment_id, quote_hash } => {
            let message = NonDelivery { paymentId: word(payment_id.on_chain()), quoteHash: word(*quote_hash) };
            eip712::digest(&message, &domain)
        }
    })
}
