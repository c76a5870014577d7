//! Solana: data of the program's instructions and accounts, token accounts, attestations, authorizations.

use std::sync::LazyLock;

use chains_solana::{
    authorization::{self, Choice, EscrowSettings, SignedMessage, SpendRequest},
    exact::ExactTransfer,
};
use events::{Account, Family, Hash32, OwnedAsset, PaymentId, Terms};
use gateway_program::{
    account::{Config, Escrow, FulfillmentRecord, State},
    ed25519, ids,
    instruction::{
        Attested, DepositAndReserve, DepositFromAddress, Fulfill, GiveBack, Initialize, Reassign, Reservation, Tag,
        terms_of_lamports,
    },
    log, message, rules,
    token::{Mint, TokenAccount},
    verifier_set::VerifierSet,
};
use serde_json::Value;

use crate::{
    evm::signed_message,
    input::{Parts, text},
};

/// What was read of bytes writes them.
macro_rules! exact {
    ($bytes:expr; $($kind:ty),*) => {$(
        if let Some(read) = <$kind>::from_bytes($bytes) {
            assert_eq!(read.to_bytes().as_slice(), $bytes, stringify!($kind));
        }
    )*};
}

/// Instruction data, as the program reads it before it believes anything.
pub fn instructions(bytes: &[u8]) {
    exact!(bytes; Initialize, DepositAndReserve, Reassign, Fulfill, Reservation);
    exact!(bytes; message::Deposit, message::Delivery, message::NonDelivery, message::Fulfillment);
    let Some((first, rest)) = bytes.split_first() else { return };
    if let Some(tag) = Tag::from_byte(*first) {
        assert_eq!(tag as u8, *first);
    }
    if let Ok(attested) = Attested::from_bytes(rest) {
        assert_eq!(attested.ed25519_index, rest[0]);
        if let Some(set) = attested.set {
            assert_eq!(VerifierSet::new(set.threshold(), set.members()), Ok(set));
            let written = [&set.head()[..], set.members().as_flattened()].concat();
            assert_eq!(written, rest[1..], "a set has one form");
        }
    }
    if let Ok((reassign, attested)) = Reassign::with_word(bytes) {
        assert_eq!(reassign.to_bytes().as_slice(), &bytes[..Reassign::SIZE]);
        assert_eq!(attested.ed25519_index, bytes[Reassign::SIZE]);
    }
    if let Some(deposit) = DepositAndReserve::from_bytes(bytes) {
        for now in [0, deposit.reserve_deadline, u64::MAX] {
            let _ = rules::deposit(&deposit, &[1; 32], &[2; 32], now).is_ok();
        }
    }
    by_address(bytes);
}

/// Instructions about deposit addresses: terms, and what comes behind them.
fn by_address(bytes: &[u8]) {
    let is_written = |terms: &message::Deposit, tag: Tag, rest: &[u8]| {
        assert_eq!([&[tag as u8], &terms.to_bytes()[..], rest].concat(), bytes, "{tag:?}");
    };
    if let Some(call) = DepositFromAddress::from_bytes(bytes) {
        is_written(&call.terms, Tag::DepositFromAddress, &call.reservation.to_bytes());
        let as_signed = call.as_signed();
        assert_eq!((as_signed.cap, as_signed.payer), (call.terms.amount, call.terms.payer));
        for now in [0, as_signed.reserve_deadline, u64::MAX] {
            let _ = rules::deposit(&as_signed, &[1; 32], &[2; 32], now).is_ok();
        }
    }
    if let Some(GiveBack { terms, closes }) = GiveBack::from_bytes(bytes) {
        is_written(&terms, Tag::GiveBack, &[u8::from(closes)]);
    }
    if let Some(terms) = terms_of_lamports(bytes) {
        is_written(&terms, Tag::GiveBackLamports, &[]);
    }
}

/// Accounts of the program, its logs, mints and token accounts.
pub fn accounts(bytes: &[u8]) {
    exact!(bytes; Config, Escrow, FulfillmentRecord);
    exact!(bytes; log::Deposited, log::Reserved, log::Released, log::Refunded, log::Fulfilled, log::Reassigned,
        log::RemainderReturned, log::GivenBack);
    if let Some(escrow) = Escrow::from_bytes(bytes) {
        let ended = escrow.state().is_some_and(|state| matches!(state, State::Released | State::Refunded));
        let before = escrow.clone().before_end();
        assert!(!ended || before.state() == Some(State::Reserved), "{escrow:?}");
        assert_eq!(before.clone().before_end(), before, "it does not end twice");
        assert!(escrow.remainder() <= escrow.deposited);
    }
    for owner in [ids::TOKEN_PROGRAM, ids::TOKEN_2022_PROGRAM, [9; 32]] {
        if Mint::parse(&owner, bytes).is_ok() {
            assert!(ids::is_token_program(&owner) && Mint::known(&owner, bytes).is_ok());
        }
        if let Ok(account) = TokenAccount::parse(&owner, bytes) {
            assert!(ids::is_token_program(&owner));
            assert!(account.delegate.is_some() || account.delegated_amount == 0);
        }
    }
    let _ = TokenAccount::demands_memo(bytes);
}

/// An instruction of the precompile: nothing but the one form proves anything.
pub fn attestations(bytes: &[u8]) {
    let mut parts = Parts(bytes);
    let (key, digest) = (parts.array::<32>(), parts.array::<32>());
    let data = parts.0;
    if ed25519::check(data, &key, &digest).is_ok() {
        let mut signature = [0; 64];
        signature.copy_from_slice(&data[data.len() - 96..data.len() - 32]);
        assert_eq!(ed25519::data(&key, &signature, &digest).as_slice(), data, "there is one form");
    }
    let members = [[1; 32], [2; 32], key];
    let mut members = members.to_vec();
    members.sort_unstable();
    members.dedup();
    for threshold in 1..=2 {
        let Ok(set) = VerifierSet::new(threshold, &members) else { continue };
        if ed25519::check_set(data, &set, &digest).is_ok() {
            assert_eq!(data[0], threshold);
            assert!(ed25519::check_set(data, &set, &[0xaa; 32]).is_err() || digest == [0xaa; 32]);
        }
    }
}

/// A spend that is asked for on Solana.
pub fn spend() -> Option<SpendRequest> {
    let account = |byte: u8| Account::from_bytes(Family::Solana, &[byte; 32]);
    let payer = Account::from_bytes(Family::Solana, &PAYER_KEY)?;
    let asset = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
    let source = OwnedAsset::new(asset.parse().ok()?, payer.as_str()).ok()?;
    let destination = OwnedAsset::new(asset.parse().ok()?, payer.as_str()).ok()?;
    Some(SpendRequest {
        payment_id: PaymentId::derive("fuzz", "1"),
        terms: Terms::new(source, vec![destination], "1000".parse().ok()?, None),
        quote_deadline: chrono::DateTime::from_timestamp(1_800_000_000, 0)?,
        fulfillment_deadline: chrono::DateTime::from_timestamp(1_800_000_600, 0)?,
        cluster_id: [7; 32].into(),
        escrow: EscrowSettings {
            program: account(0x11)?,
            reserver: account(0x22)?,
            releaser: account(0x33)?,
            refund_delay_seconds: 600,
        },
        quote_hash: Hash32::ZERO,
    })
}

/// The Ed25519 key of the seed of 32 bytes 7.
const PAYER_KEY: [u8; 32] = [
    0xea, 0x4a, 0x6c, 0x63, 0xe2, 0x9c, 0x52, 0x0a, 0xbe, 0xf5, 0x50, 0x7b, 0x13, 0x2e, 0xc5, 0xf9, 0x95, 0x47, 0x76,
    0xae, 0xbe, 0xbe, 0x7b, 0x92, 0x42, 0x1e, 0xea, 0x69, 0x14, 0x46, 0xd2, 0x2c,
];

/// A transaction that a client of x402 signed, in the form in which it is sent. The mutations find no signatures, so bytes that hold are those
/// of the corpus.
pub fn purchases(bytes: &[u8]) {
    match ExactTransfer::read(bytes) {
        Ok(transfer) => {
            // All but the fee payer's signature, behind the byte that counts signatures, is what was read.
            let kept = transfer.unsigned();
            assert_eq!((&kept[..1], &kept[1..65], &kept[65..]), (&bytes[..1], &[0; 64][..], &bytes[65..]));
            // That signature is no part of it.
            assert_eq!(ExactTransfer::read(&kept).map(|again| again.unsigned()), Ok(kept));
            assert_eq!(transfer.message(), &bytes[129..]);
            assert_ne!(transfer.buyer(), transfer.fee_payer());
        }
        Err(error) => assert!(error.to_string().starts_with("transaction: ")),
    }
}

/// An authorization on Solana: the ordered bytes, their digest, the signature, the payer's choices.
pub fn authorizations(bytes: &[u8]) {
    static SPEND: LazyLock<Option<SpendRequest>> = LazyLock::new(spend);
    let Some(spend) = SPEND.as_ref() else { panic!("the example is no spend") };
    let Some(value) = text(bytes).and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return };
    let (message, message_prehash, signature, payload) = signed_message(&value);
    let signed = SignedMessage { message, message_prehash, signature, payload };
    match authorization::authorize(spend, &signed) {
        Ok((_, plan)) => {
            assert!(plan.reserve_deadline <= plan.fulfillment_deadline, "{plan:?}");
            assert!(plan.refund_after >= plan.fulfillment_deadline + spend.escrow.refund_delay_seconds, "{plan:?}");
        }
        Err(error) => assert!(!error.field().is_empty() && !error.to_string().is_empty()),
    }
    if let Ok(choice) = Choice::from_payload(signed.payload.as_ref())
        && let Ok(prepared) = authorization::prepare(spend, &choice)
    {
        let hex: String = prepared.preimage.iter().map(|byte| format!("{byte:02x}")).collect();
        let unsigned = SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: Some(format!("0x{hex}")),
            signature: format!("0x{}", "00".repeat(64)),
            payload: Some(prepared.payload.clone()),
        };
        let refused = authorization::authorize(spend, &unsigned).err();
        assert!(refused.is_some_and(|error| error.field() == "signature"), "all but the signature is right");
    }
}
