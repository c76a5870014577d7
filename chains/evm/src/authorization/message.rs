//! What a payer signs for one deposit, of each scheme.

use alloy::primitives::{B256, U256, keccak256};
use serde_json::Value;

use escrow_abi::{
    mandates::ChargeMessage,
    payment_batches::BatchMessage,
    permit2::PermitMessage,
    typed_data::{self, HEX, Object},
};
use events::Amount;

use super::{
    AuthorizationError, Scheme,
    transfer::{CarriedOutBy, TransferMessage},
};

/// One message that authorizes a deposit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// To Permit2.
    Permit(PermitMessage),
    /// To Permit2, for a batch of payments.
    Batch(BatchMessage),
    /// To the contract of mandates, by a merchant.
    Charge(ChargeMessage),
    /// To the token (ERC-3009).
    Transfer(TransferMessage),
}

impl Message {
    /// Reads the typed data of one message of `scheme`.
    ///
    /// # Errors
    /// [`AuthorizationError`], naming the member.
    pub fn read(scheme: Scheme, text: &str) -> Result<Self, AuthorizationError> {
        let value = typed_data::parse(text)?;
        let whole = Object::typed_data(&value, &HEX)?;
        Ok(match scheme {
            Scheme::EvmPermit2Escrow => Self::Permit(PermitMessage::read(&whole, true)?),
            Scheme::EvmPermit2 => Self::Permit(PermitMessage::read(&whole, false)?),
            Scheme::EvmPermit2Batch => Self::Batch(BatchMessage::read(&whole)?),
            Scheme::EvmPermit2Mandate => Self::Charge(ChargeMessage::read(&whole)?),
            Scheme::EvmEip3009 => Self::Transfer(TransferMessage::read(&whole, CarriedOutBy::Payee)?),
            Scheme::EvmX402Exact => Self::Transfer(TransferMessage::read(&whole, CarriedOutBy::Anyone)?),
        })
    }

    /// The typed data, for `eth_signTypedData_v4`.
    pub fn render(&self) -> Value {
        match self {
            Self::Permit(permit) => permit.render(&HEX),
            Self::Batch(batch) => batch.render(&HEX),
            Self::Charge(charge) => charge.render(&HEX),
            Self::Transfer(transfer) => transfer.render(),
        }
    }

    /// The most that may be drawn, smallest unit, as it is signed; of a batch, of all tokens together.
    pub fn amount(&self) -> U256 {
        match self {
            Self::Permit(permit) => permit.amount,
            Self::Batch(batch) => {
                batch.permitted.iter().fold(U256::ZERO, |sum, (_, amount)| sum.saturating_add(*amount))
            }
            Self::Charge(charge) => charge.amount,
            Self::Transfer(transfer) => transfer.value,
        }
    }

    /// The same, which is not zero.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`].
    pub fn permitted(&self) -> Result<Amount, AuthorizationError> {
        let field = match self {
            Self::Permit(_) | Self::Batch(_) => "message.permitted.amount",
            Self::Charge(_) => "message.amount",
            Self::Transfer(_) => "message.value",
        };
        Amount::new(self.amount()).ok_or_else(|| AuthorizationError::malformed(field, "must not be zero"))
    }

    /// The nonce, as a number. A charge has none: it is the payment's id, which the escrow takes once.
    pub fn nonce(&self) -> U256 {
        match self {
            Self::Permit(permit) => permit.nonce,
            Self::Batch(batch) => batch.nonce,
            Self::Charge(charge) => charge.payment_id.into(),
            Self::Transfer(transfer) => transfer.nonce.into(),
        }
    }

    /// What is hashed and signed: 0x19 0x01, the domain's hash, the message's hash (EIP-712).
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`] for what no contract holds.
    fn preimage(&self) -> Result<[u8; 66], AuthorizationError> {
        Ok(match self {
            Self::Permit(permit) => permit.preimage(),
            Self::Batch(batch) => batch.preimage(),
            Self::Charge(charge) => {
                charge.preimage().map_err(|error| AuthorizationError::malformed("message", error.to_string()))?
            }
            Self::Transfer(transfer) => transfer.preimage(),
        })
    }

    /// The EIP-712 digest.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`] for what no contract holds.
    pub fn digest(&self) -> Result<B256, AuthorizationError> {
        Ok(keccak256(self.preimage()?))
    }

    /// Compares a `0x1901…` preimage with the rebuilt one.
    ///
    /// # Errors
    /// [`AuthorizationError`].
    pub fn check_preimage(&self, text: &str) -> Result<(), AuthorizationError> {
        Ok(typed_data::check_preimage(text, &self.preimage()?)?)
    }
}
