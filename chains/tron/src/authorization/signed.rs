//! A transaction as the payer signed it.

use serde_json::Value;

use escrow_abi::signature;
use events::event::PayerTransaction;

use super::{AuthorizationError, terms::Expected};
use crate::transaction::{self, Draft, SIGNATURE_BYTES};

/// Longest `raw_data` that is read, in bytes. A deposit's are below a thousand.
const RAW_BYTES_MAX: usize = 4_096;

/// What the payer signed, as it came (spec 2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedMessage {
    /// The transaction's id, hex with or without 0x.
    pub message: String,
    /// Its `raw_data`, hex with or without 0x; it cannot be rebuilt, so it may not be absent.
    pub message_prehash: Option<String>,
    /// The signature over the id, 65 bytes as hex with 0x.
    pub signature: String,
    /// What the transaction does, as [`super::prepare`] says it. It may say less, or other things besides, and must not
    /// contradict the transaction.
    pub payload: Option<Value>,
}

/// A transaction that the payer signed.
pub(super) struct SignedTransaction {
    /// All that it says.
    pub draft: Draft,
    /// As it is kept.
    pub transaction: PayerTransaction,
}

impl SignedTransaction {
    /// Reads a message, and checks all but what is called.
    pub fn read(expected: &Expected, signed: &SignedMessage) -> Result<Self, AuthorizationError> {
        let raw_data = raw_data(signed.message_prehash.as_deref())?;
        let decoded = transaction::read(&raw_data)?;
        let stated = hex::decode(digits(&signed.message)).ok().filter(|bytes| bytes.len() == 32).ok_or_else(|| {
            AuthorizationError::malformed("message", "must be a transaction's id, 64 hex digits with or without 0x")
        })?;
        if stated != decoded.id.as_slice() {
            let found = format!("0x{}", hex::encode(stated));
            let expected = format!("{}, the SHA-256 of message_prehash", decoded.id);
            return Err(AuthorizationError::mismatch("message", expected, found));
        }
        expected.check_envelope(&decoded.draft)?;
        let bytes = signature::bytes(&signed.signature)?;
        if bytes.len() != SIGNATURE_BYTES {
            return Err(AuthorizationError::malformed("signature", format!("must have {SIGNATURE_BYTES} bytes")));
        }
        let parsed = signature::by_key(&bytes, decoded.id, expected.payer)?;
        let transaction = PayerTransaction {
            transaction_hash: decoded.id.to_string(),
            raw: format!("0x{}", hex::encode(transaction::assemble(&raw_data, &parsed.as_bytes()))),
            expires_at: decoded.draft.expiration_ms,
        };
        Ok(Self { draft: decoded.draft, transaction })
    }
}

/// Whether a message in front of a deposit is meant as its approval: a call of the token, or anything that the payer signed
/// but another call of the escrow. What else stands there is of no matter.
pub(super) fn is_meant_as_approval(expected: &Expected, signed: &SignedMessage) -> bool {
    let decoded = raw_data(signed.message_prehash.as_deref()).ok().and_then(|bytes| transaction::read(&bytes).ok());
    match decoded.map(|decoded| decoded.draft.call.contract) {
        Some(contract) if contract == expected.token => true,
        Some(contract) if contract == expected.escrow => false,
        Some(_) | None => is_signed_by_payer(expected, signed),
    }
}

fn is_signed_by_payer(expected: &Expected, signed: &SignedMessage) -> bool {
    let id: Option<[u8; 32]> = hex::decode(digits(&signed.message)).ok().and_then(|bytes| bytes.try_into().ok());
    let parsed = signature::bytes(&signed.signature).ok().and_then(|bytes| signature::parse(&bytes).ok());
    let signer = id.zip(parsed).and_then(|(id, parsed)| signature::recover(&parsed, id.into()).ok());
    signer == Some(expected.payer)
}

fn raw_data(prehash: Option<&str>) -> Result<Vec<u8>, AuthorizationError> {
    let malformed = |reason: String| AuthorizationError::malformed("message_prehash", reason);
    let text = prehash.ok_or_else(|| malformed("is needed: the transaction's raw_data in hex".to_owned()))?;
    let digits = digits(text);
    if digits.len() > 2 * RAW_BYTES_MAX {
        return Err(malformed(format!("must have at most {RAW_BYTES_MAX} bytes")));
    }
    hex::decode(digits).map_err(|_| malformed("must be the transaction's raw_data in hex".to_owned()))
}

/// The hex digits of `text`, which Tron's tools write without 0x.
fn digits(text: &str) -> &str {
    text.strip_prefix("0x").unwrap_or(text)
}
