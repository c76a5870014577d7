//! Tron: transactions in protobuf, addresses, authorizations.

use std::sync::LazyLock;

use chains_tron::{
    address,
    authorization::{self, AuthorizationError, Choice, EscrowSettings, SignedMessage, SpendRequest},
    transaction::{self, Decoded},
};
use events::{Account, Family, Hash32, OwnedAsset, PaymentId, Terms};
use serde_json::Value;

use crate::{evm::signed_message, input::text};

/// What was read writes the bytes that were read: there is one encoding.
fn exact(decoded: &Decoded, raw_data: &[u8]) {
    assert_eq!(decoded.draft.raw_data(), raw_data, "there is one encoding");
    assert_eq!(decoded.id, transaction::id(raw_data));
}

/// `raw_data`, and whole transactions.
pub fn transactions(bytes: &[u8]) {
    if let Ok(decoded) = transaction::read(bytes) {
        exact(&decoded, bytes);
    }
    if let Ok((decoded, signature)) = transaction::read_signed(bytes) {
        exact(&decoded, &decoded.draft.raw_data());
        if let Ok(whole) = <[u8; transaction::SIGNATURE_BYTES]>::try_from(signature.as_slice()) {
            assert_eq!(transaction::assemble(&decoded.draft.raw_data(), &whole), bytes);
        }
        if let Some(signer) = transaction::signer(decoded.id, &signature) {
            assert_eq!(signature.len(), transaction::SIGNATURE_BYTES);
            assert!(!signer.is_zero());
        }
    }
}

/// Addresses in every form in which they come.
pub fn addresses(bytes: &[u8]) {
    if let Some(read) = address::from_bytes(bytes) {
        assert_eq!(address::bytes(read), bytes);
    }
    let Some(text) = text(bytes) else { return };
    if let Ok(read) = address::parse_address(text) {
        assert_eq!(address::text(read), text, "an address has one text");
        assert_eq!(address::account(read).map(|account| account.to_string()).as_deref(), Some(text));
    }
    if let Some(read) = address::from_api(text) {
        assert_eq!(address::api(read), text.to_ascii_lowercase());
    }
    if let Ok(asset) = text.parse::<events::AssetId>() {
        let _ = (address::trc20(&asset).is_ok(), address::token_or_coin(&asset).is_ok());
    }
}

/// A spend that is asked for on Tron.
pub fn spend() -> Option<SpendRequest> {
    let account = |byte: u8| Account::from_bytes(Family::Tron, &[byte; 20]);
    let asset = "tron:3448148188/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
    // The account of the key 1.
    let payer = [
        0x7e, 0x5f, 0x45, 0x52, 0x09, 0x1a, 0x69, 0x12, 0x5d, 0x5d, 0xfc, 0xb7, 0xb8, 0xc2, 0x65, 0x90, 0x29, 0x39,
        0x5b, 0xdf,
    ];
    let payer = Account::from_bytes(Family::Tron, &payer)?;
    let owned = || OwnedAsset::new(asset.parse().ok()?, payer.as_str()).ok();
    Some(SpendRequest {
        payment_id: PaymentId::derive("fuzz", "1"),
        terms: Terms::new(owned()?, vec![owned()?], "1000".parse().ok()?, None),
        quote_deadline: chrono::DateTime::from_timestamp(1_800_000_000, 0)?,
        fulfillment_deadline: chrono::DateTime::from_timestamp(1_800_000_600, 0)?,
        escrow: EscrowSettings {
            contract: account(0x11)?,
            reserver: account(0x22)?,
            releaser: account(0x33)?,
            permit2: account(0x44),
            refund_delay_seconds: 600,
        },
        quote_hash: Hash32::ZERO,
    })
}

/// A list of transactions that a payer signed: an array of signed messages.
pub fn authorizations(bytes: &[u8]) {
    static SPEND: LazyLock<Option<SpendRequest>> = LazyLock::new(spend);
    let Some(spend) = SPEND.as_ref() else { panic!("the example is no spend") };
    let Some(Value::Array(messages)) = text(bytes).and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return;
    };
    let signed: Vec<SignedMessage> = messages
        .iter()
        .take(16)
        .map(|value| {
            let (message, message_prehash, signature, payload) = signed_message(value);
            SignedMessage { message, message_prehash, signature, payload }
        })
        .collect();
    match authorization::authorize(spend, &signed) {
        Ok((_, plan)) => assert!(plan.reserve_deadline <= plan.fulfillment_deadline, "{plan:?}"),
        Err(denied) => {
            assert!(denied.message.is_none_or(|index| index < signed.len()), "{denied:?} names no message");
            assert!(!denied.error.field().is_empty());
        }
    }
}

/// An authorization by Permit2: typed data as JSON or as `0x1901…`, the digest, the signature, the payer's choices.
pub fn typed_data(bytes: &[u8]) {
    static SPENDS: LazyLock<Vec<SpendRequest>> = LazyLock::new(|| {
        let mut both: Vec<SpendRequest> = [spend(), spend()].into_iter().flatten().collect();
        if let Some(capped) = both.first_mut() {
            capped.terms.max_source_amount = "2000".parse().ok();
        }
        both
    });
    let Some(value) = text(bytes).and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return };
    let (message, message_prehash, signature, payload) = signed_message(&value);
    let signed = SignedMessage { message, message_prehash, signature, payload };
    for spend in SPENDS.iter() {
        match authorization::authorize_permit(spend, &signed) {
            Ok((_, plan)) => {
                assert_eq!(plan.contract, spend.escrow.contract);
                assert!(plan.reserve_deadline <= plan.fulfillment_deadline, "{plan:?}");
                assert!(plan.refund_after >= plan.fulfillment_deadline + spend.escrow.refund_delay_seconds, "{plan:?}");
            }
            Err(error) => assert!(!error.field().is_empty() && !error.to_string().is_empty()),
        }
        // Whatever a payer chooses, what it is given to sign is what is then expected of it.
        if let Ok(choice) = Choice::from_payload(signed.payload.as_ref())
            && let Ok(prepared) = authorization::prepare_permit(spend, &choice)
        {
            let unsigned = SignedMessage {
                message: prepared.digest.to_string(),
                message_prehash: Some(prepared.typed_data.to_string()),
                signature: format!("0x{}", "00".repeat(65)),
                payload: Some(prepared.payload.clone()),
            };
            let refused = authorization::authorize_permit(spend, &unsigned).err();
            let is_unsigned = matches!(refused, Some(AuthorizationError::Signature(_)));
            assert!(is_unsigned, "all but the signature is right: {refused:?}");
        }
    }
}
