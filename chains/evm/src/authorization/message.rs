//! What a payer signs for one deposit, of each scheme.

use alloy::primitives::{B256, U256, keccak256};
use serde_json::Value;

use events::Amount;

use super::{
    AuthorizationError, Scheme,
    permit2_message::PermitMessage,
    transfer::{CarriedOutBy, TransferMessage},
    typed_data::{self, Object},
};

/// One message that authorizes a deposit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// To Permit2.
    Permit(PermitMessage),
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
        let whole = Object::typed_data(&value)?;
        match scheme {
            Scheme::EvmPermit2Escrow => typed_data::read(true, &whole).map(Self::Permit),
            Scheme::EvmPermit2 => typed_data::read(false, &whole).map(Self::Permit),
            Scheme::EvmEip3009 => TransferMessage::read(&whole, CarriedOutBy::Payee).map(Self::Transfer),
            Scheme::EvmX402Exact => TransferMessage::read(&whole, CarriedOutBy::Anyone).map(Self::Transfer),
        }
    }

    /// The typed data, for `eth_signTypedData_v4`.
    pub fn render(&self) -> Value {
        match self {
            Self::Permit(permit) => typed_data::render(permit),
            Self::Transfer(transfer) => transfer.render(),
        }
    }

    /// The most that may be drawn, smallest unit, as it is signed.
    pub fn amount(&self) -> U256 {
        match self {
            Self::Permit(permit) => permit.amount,
            Self::Transfer(transfer) => transfer.value,
        }
    }

    /// The same, which is not zero.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`].
    pub fn permitted(&self) -> Result<Amount, AuthorizationError> {
        let field = match self {
            Self::Permit(_) => "message.permitted.amount",
            Self::Transfer(_) => "message.value",
        };
        Amount::new(self.amount()).ok_or_else(|| AuthorizationError::malformed(field, "must not be zero"))
    }

    /// The nonce, as a number.
    pub fn nonce(&self) -> U256 {
        match self {
            Self::Permit(permit) => permit.nonce,
            Self::Transfer(transfer) => transfer.nonce.into(),
        }
    }

    /// What is hashed and signed: 0x19 0x01, the domain's hash, the message's hash (EIP-712).
    fn preimage(&self) -> [u8; 66] {
        let (domain, hash) = match self {
            Self::Permit(permit) => (permit.domain(), permit.hash_struct()),
            Self::Transfer(transfer) => (transfer.domain(), transfer.hash_struct()),
        };
        let mut preimage = [0; 66];
        preimage[..2].copy_from_slice(&[0x19, 0x01]);
        preimage[2..34].copy_from_slice(domain.separator().as_slice());
        preimage[34..].copy_from_slice(hash.as_slice());
        preimage
    }

    /// The EIP-712 digest.
    pub fn digest(&self) -> B256 {
        keccak256(self.preimage())
    }

    /// Compares a `0x1901…` preimage with the rebuilt one.
    ///
    /// # Errors
    /// [`AuthorizationError`].
    pub fn check_preimage(&self, text: &str) -> Result<(), AuthorizationError> {
        const FORM: &str = "must be EIP-712 typed-data JSON or 66 bytes 0x1901… in hex";
        let malformed = || AuthorizationError::malformed("message_prehash", FORM);
        let bytes = hex::decode(text.strip_prefix("0x").ok_or_else(malformed)?).map_err(|_| malformed())?;
        if bytes.len() != 66 || bytes[..2] != [0x19, 0x01] {
            return Err(malformed());
        }
        let rebuilt = self.preimage();
        for (field, part) in [("message_prehash.domainSeparator", 2..34), ("message_prehash.structHash", 34..66)] {
            let (expected, found) = (&rebuilt[part.clone()], &bytes[part]);
            if expected != found {
                let hex = |bytes: &[u8]| format!("0x{}", hex::encode(bytes));
                return Err(AuthorizationError::mismatch(field, hex(expected), hex(found)));
            }
        }
        Ok(())
    }
}
