//! EVM chains: signatures, wrappers, typed data, logs, refusals.

use std::sync::LazyLock;

use alloy::{
    primitives::{Address, B256, Bytes, Log, LogData, U256, aliases::U40},
    sol_types::{SolEventInterface, SolValue},
};
use chains_evm::{
    auditor::check_prepared,
    authorization::{self, AuthorizationError, Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest},
};
use escrow_abi::{
    contracts::{FulfillmentProxy::FulfillmentProxyEvents, GatewayEscrow::GatewayEscrowEvents},
    record::{self, EscrowTerms},
    reservations, revert, signature,
};
use events::{Account, Amount, ChainId, Family, Hash32, OwnedAsset, PaymentId, Terms};
use serde_json::Value;

use crate::input::{Parts, choice, text};

/// Signatures of keys in 65 and 64 bytes, and of contract accounts in the wrapper of ERC-6492.
pub fn signatures(bytes: &[u8]) {
    let digest = B256::repeat_byte(0x5a);
    if let Ok(parsed) = signature::parse(bytes) {
        let canonical = signature::canonical(&parsed);
        assert_eq!(canonical.len(), 65);
        assert_eq!(signature::parse(&canonical).as_ref(), Ok(&parsed), "the one form is the same signature");
        if let Ok(signer) = signature::recover(&parsed, digest) {
            assert!(signature::is_of_key(signer, digest, &canonical));
            assert!(!signature::is_of_key(signer, B256::ZERO, &canonical), "a signature is over one digest");
            // The other s of the same signature is not taken.
            let mut other = canonical.to_vec();
            let order = U256::from_be_bytes(ORDER);
            let s = U256::from_be_slice(&other[32..64]);
            other[32..64].copy_from_slice(&(order - s).to_be_bytes::<32>());
            other[64] = 55 - other[64];
            assert!(signature::parse(&other).is_err(), "a signature has one s");
        }
    }
    if let Ok(wrapped) = signature::unwrap_erc6492(bytes) {
        assert!(signature::is_erc6492(bytes));
        assert_eq!(signature::unwrap_erc6492(&wrapped.encode()).as_ref(), Ok(&wrapped));
    }
    if let Some(text) = text(bytes)
        && let Ok(read) = signature::bytes(text)
    {
        assert!(!read.is_empty() && text.len() == 2 + 2 * read.len());
    }
}

/// Order of secp256k1.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xba, 0xae, 0xdc,
    0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
];

/// The account whose key is 1, which the committed examples are signed with.
pub const PAYER: &str = "0x7e5f4552091a69125d5dfcb7b8c2659029395bdf";

/// A spend that is asked for on an EVM chain.
pub fn spend(scheme: Scheme, max_source_amount: Option<Amount>) -> Option<SpendRequest> {
    let account = |byte: u8| Account::from_bytes(Family::Evm, &[byte; 20]);
    let owned = |asset: &str, account: &str| OwnedAsset::new(asset.parse().ok()?, account).ok();
    let source = owned("eip155:31337/erc20:0x5fbdb2315678afecb367f032d93f642f64180aa3", PAYER)?;
    let destination = owned("eip155:31338/erc20:0x5fbdb2315678afecb367f032d93f642f64180aa3", PAYER)?;
    Some(SpendRequest {
        scheme,
        payment_id: PaymentId::derive("fuzz", "1"),
        terms: Terms::new(source, vec![destination], "1000".parse().ok()?, max_source_amount),
        quote_deadline: chrono::DateTime::from_timestamp(1_800_000_000, 0)?,
        fulfillment_deadline: chrono::DateTime::from_timestamp(1_800_000_600, 0)?,
        escrow: EscrowSettings {
            contract: account(0x11)?,
            reserver: account(0x22)?,
            releaser: account(0x33)?,
            permit2: account(0x44)?,
            refund_delay_seconds: 600,
        },
        quote_hash: Hash32::ZERO,
        token: None,
    })
}

/// The signed message in a JSON object of the four members that a request has.
pub fn signed_message(value: &Value) -> (String, Option<String>, String, Option<Value>) {
    let member = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let payload = value.get("payload").filter(|payload| payload.is_object()).cloned();
    (member("message").unwrap_or_default(), member("message_prehash"), member("signature").unwrap_or_default(), payload)
}

/// A Permit2 authorization, or what a merchant asks for under a mandate: typed data as JSON or as `0x1901…`, the digest, the signature, the payer's choices.
pub fn typed_data(bytes: &[u8]) {
    static SPENDS: LazyLock<Vec<SpendRequest>> = LazyLock::new(|| {
        let capped = || Amount::new(U256::from(2_000));
        let schemes = [Scheme::EvmPermit2Escrow, Scheme::EvmPermit2, Scheme::EvmPermit2Mandate];
        schemes.into_iter().flat_map(|scheme| [spend(scheme, None), spend(scheme, capped())]).flatten().collect()
    });
    let Some(value) = text(bytes).and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return };
    let (message, message_prehash, signature, payload) = signed_message(&value);
    let signed = SignedMessage { message, message_prehash, signature, payload };
    for spend in SPENDS.iter() {
        match authorization::authorize(spend, &signed) {
            Ok((_, plan)) => {
                assert_eq!(plan.contract, spend.escrow.contract);
                assert!(plan.reserve_deadline <= plan.fulfillment_deadline, "{plan:?}");
                assert!(plan.refund_after >= plan.fulfillment_deadline + spend.escrow.refund_delay_seconds, "{plan:?}");
                assert_eq!(
                    authorization::authorize(spend, &signed).map(|(_, plan)| plan),
                    Ok(plan),
                    "it is judged alike"
                );
            }
            Err(error) => named(&error),
        }
        // Whatever a payer chooses, what it is given to sign is what is then expected of it.
        if let Ok(choice) = Choice::from_payload(signed.payload.as_ref())
            && let Ok(prepared) = authorization::prepare(spend, &choice)
        {
            let unsigned = SignedMessage {
                message: prepared.digest.to_string(),
                message_prehash: Some(prepared.typed_data.to_string()),
                signature: format!("0x{}", "00".repeat(65)),
                payload: Some(prepared.payload.clone()),
            };
            let refused = authorization::authorize(spend, &unsigned).err();
            assert!(refused.is_some_and(|error| error.field() == "signature"), "all but the signature is right");
        }
    }
}

fn named(error: &AuthorizationError) {
    assert!(!error.field().is_empty() && !error.to_string().is_empty());
}

/// Logs of the contracts, the record that is rebuilt of them, and what a contract returned.
pub fn logs(bytes: &[u8]) {
    let Some((kind, rest)) = choice(bytes) else { return };
    let mut parts = Parts(rest);
    match kind {
        b'r' => {
            if let Some(words) = revert::describe(rest) {
                assert!(!words.is_empty());
            }
            let refusal = revert::Revert::new(Bytes::copy_from_slice(rest), "reverted");
            assert!(refusal.reason.chars().count() <= 400);
        }
        b't' => {
            // Terms out of calldata: no word of them is believed unless they hash to what is stored.
            let Ok(escrow) = escrow_abi::contracts::GatewayEscrow::Escrow::abi_decode(rest) else { return };
            let terms = EscrowTerms(escrow);
            for (state, round) in [(1, 0), (2, 1), (3, 1), (4, 0), (4, 1)] {
                let block = U40::from(1);
                let stored = record::Stored {
                    state,
                    round,
                    depositedAt: block,
                    reservedAt: block,
                    endedAt: block,
                    commitment: terms.commitment(),
                };
                if let Ok(Some(record)) = record::read(&stored, &terms, &ChainId::evm(1)) {
                    assert_eq!(record.chain_id, ChainId::evm(1));
                }
            }
        }
        _ => {
            let address = Address::repeat_byte(1);
            let mut logs = Vec::new();
            while !parts.0.is_empty() && logs.len() < 8 {
                let count = usize::from(parts.byte()) % 5;
                let topics = (0..count).map(|_| B256::from(parts.array::<32>())).collect();
                let data = Bytes::copy_from_slice(parts.counted());
                logs.push(Log { address, data: LogData::new_unchecked(topics, data) });
            }
            for log in &logs {
                if let Ok(event) = GatewayEscrowEvents::decode_log(log) {
                    assert_eq!(event.address, address);
                    if let GatewayEscrowEvents::Deposited(deposited) = &event.data {
                        let terms = EscrowTerms::told_by(deposited);
                        assert!(terms.are_told_by(deposited), "an event tells its own terms");
                    }
                }
                let _ = FulfillmentProxyEvents::decode_log(log).is_ok();
            }
            let places = logs.iter().enumerate();
            if let Ok(told) = reservations::in_order(places, address, B256::repeat_byte(2)) {
                assert!(told.windows(2).all(|pair| pair[0].place < pair[1].place));
            }
        }
    }
}

/// A journaled transaction's bytes against what was journaled with them, in the members of the event.
pub fn prepared(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(transaction) = serde_json::from_str::<events::event::TransactionPrepared>(text) else { return };
    for checked in [
        check_prepared(&transaction),
        chains_solana::auditor::check_prepared(&transaction),
        chains_tron::auditor::check_prepared(&transaction),
    ] {
        assert!(checked.is_ok() || checked.is_err_and(|reason| !reason.is_empty()));
    }
}
