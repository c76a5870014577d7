//! A journaled transaction by itself: its bytes, its signature, its fee payer.

use ed25519_dalek::{Signature, VerifyingKey};

use events::event::TransactionPrepared;
use gateway_program::Key;

use crate::{program::text, transaction::wire_of};

/// A journaled transaction must be the one whose first signature was journaled with it, signed by its fee payer; otherwise
/// the reason.
///
/// # Errors
/// What is wrong.
pub fn check_prepared(transaction: &TransactionPrepared) -> Result<(), String> {
    let raw = wire_of(&transaction.raw).ok_or("its bytes are not hex")?;
    let (signature, fee_payer, message) = wire(&raw).ok_or("its bytes are not a transaction")?;
    let found = bs58::encode(signature).into_string();
    if found != transaction.transaction_hash {
        return Err(format!("its first signature is {found}, not {}", transaction.transaction_hash));
    }
    let sender = text(&fee_payer);
    if sender != transaction.sender.as_str() {
        return Err(format!("its fee payer is {sender}, not {}", transaction.sender));
    }
    let holds = VerifyingKey::from_bytes(&fee_payer)
        .is_ok_and(|fee_payer| fee_payer.verify_strict(message, &Signature::from_bytes(&signature)).is_ok());
    if holds { Ok(()) } else { Err(format!("its first signature is not that of {sender}")) }
}

/// The first signature of a transaction's wire form, its fee payer, and the message that both are about.
fn wire(raw: &[u8]) -> Option<([u8; 64], Key, &[u8])> {
    let (signatures, rest) = short_length(raw)?;
    let signature = rest.get(..64)?.try_into().ok()?;
    let message = rest.get(signatures.checked_mul(64)?..)?;
    // A versioned message begins with its version, its highest bit set; then come three counts and the keys.
    let after_version = if message.first()? & 0x80 == 0 { message } else { &message[1..] };
    let (keys, rest) = short_length(after_version.get(3..)?)?;
    let fee_payer = rest.get(..32)?.try_into().ok()?;
    (signatures > 0 && keys > 0).then_some((signature, fee_payer, message))
}

/// A length of one to three bytes, 7 bits each, lowest first; and what comes behind it.
fn short_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0;
    for place in 0..3 {
        let byte = *bytes.get(place)?;
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((length, &bytes[place + 1..]));
        }
    }
    None
}
