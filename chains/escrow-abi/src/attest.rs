//! Releasers' statements to escrows as they are signed, and the signing of what escrows take with a secp256k1 key.

use alloy::primitives::{Address, B256, keccak256};

use events::Account;
use sagas::ports::{Statement, Transient};
use signer::{Hash, Secp256k1Key};

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
    #[error(transparent)]
    Key(#[from] signer::SignError),
}

impl From<SignError> for Transient {
    fn from(error: SignError) -> Self {
        match error {
            SignError::Convert(error) => error.into(),
            SignError::Key(error) => error.into(),
        }
    }
}

/// The signature of `key` over `preimage`, hashed with Keccak-256: 65 bytes, hex with 0x.
///
/// # Errors
/// [`signer::SignError`].
pub async fn sign_preimage(key: &Secp256k1Key, preimage: &[u8]) -> Result<String, signer::SignError> {
    let signature = key.sign(Hash::Keccak256, preimage).await?;
    Ok(format!("0x{}", hex::encode(signature.as_bytes())))
}

/// What is hashed and signed for a releaser's statement in the domain of the escrow at `escrow` on the chain with the EIP-712 id
/// `chain`. `address` is how the chain's family reads an account.
///
/// # Errors
/// What `address` says of the account that is to be paid.
pub fn statement_preimage<E>(
    statement: &Statement,
    chain: u64,
    escrow: Address,
    address: impl FnOnce(&Account) -> Result<Address, E>,
) -> Result<[u8; 66], E> {
    let domain = escrow_domain(chain, escrow);
    Ok(match statement {
        Statement::Delivery { payment_id, quote_hash, payout_account } => {
            let message = Delivery {
                paymentId: word(payment_id.on_chain()),
                quoteHash: word(*quote_hash),
                settler: address(payout_account)?,
            };
            eip712::preimage(&message, &domain)
        }
        Statement::NonDelivery { payment_id, quote_hash } => {
            let message = NonDelivery { paymentId: word(payment_id.on_chain()), quoteHash: word(*quote_hash) };
            eip712::preimage(&message, &domain)
        }
    })
}

/// The digest of a releaser's statement: see [`statement_preimage`].
///
/// # Errors
/// As there.
pub fn statement_digest<E>(
    statement: &Statement,
    chain: u64,
    escrow: Address,
    address: impl FnOnce(&Account) -> Result<Address, E>,
) -> Result<B256, E> {
    statement_preimage(statement, chain, escrow, address).map(keccak256)
}
