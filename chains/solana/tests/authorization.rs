//! Authorization by a payer on Solana: every altered field is refused and named, every allowed form is read.

use ed25519_dalek::{Signer, SigningKey};
use proptest::prelude::*;
use serde_json::{Value, json};

use chains_solana::{
    authorization::{
        AuthorizationError, Choice, ClusterId, Delegation, EscrowSettings, SignedMessage, SpendRequest,
        allowance_delegate, authorize, prepare, wallet_key,
    },
    keys::account,
    program::ConvertError,
};
use events::{
    Account, Family, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, SolanaSpend},
    time::from_unix_seconds,
};

const QUOTE_DEADLINE: u64 = 1_800_000_000;
const FULFILLMENT_DEADLINE: u64 = 1_800_000_600;
const REFUND_AFTER: u64 = 1_800_001_500;
const CHAIN: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const CLUSTER: &str = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
const TOKEN: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
/// The order of the group that Ed25519 signatures live in, little endian.
const GROUP_ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

fn payer() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn delegate() -> SigningKey {
    SigningKey::from_bytes(&[8; 32])
}

fn base58(byte: u8) -> String {
    bs58::encode([byte; 32]).into_string()
}

fn solana(byte: u8) -> Account {
    base58(byte).parse().unwrap()
}

/// The address that draws for deposits that `signer` signs.
fn drawn_by(signer: &SigningKey) -> Account {
    allowance_delegate(&solana(1), &account(signer).parse().unwrap()).unwrap()
}

fn spend_by(source: &str) -> SpendRequest {
    let owned = |asset: &str| OwnedAsset::new(format!("{CHAIN}/{asset}").parse().unwrap(), source).unwrap();
    SpendRequest {
        payment_id: PaymentId::derive(&format!("solana:{source}"), "order-1"),
        terms: Terms::new(
            owned(&format!("token:{TOKEN}")),
            vec![owned("slip44:501")],
            "100".parse().unwrap(),
            Some("110".parse().unwrap()),
        ),
        quote_deadline: from_unix_seconds(QUOTE_DEADLINE).unwrap(),
        fulfillment_deadline: from_unix_seconds(FULFILLMENT_DEADLINE).unwrap(),
        cluster_id: ClusterId::parse(CLUSTER).unwrap(),
        escrow: EscrowSettings {
            program: solana(1),
            reserver: solana(2),
            releaser: solana(3),
            refund_delay_seconds: REFUND_AFTER - FULFILLMENT_DEADLINE,
        },
        quote_hash: Hash32::ZERO,
    }
}

fn spend() -> SpendRequest {
    spend_by(&account(&payer()))
}

fn uncapped() -> SpendRequest {
    let spend = spend();
    let terms = Terms::new(
        spend.terms.source.clone(),
        spend.terms.destination().to_vec(),
        spend.terms.fulfillment_amount,
        None,
    );
    SpendRequest { terms, ..spend }
}

/// What is prepared for `payload`, signed by `key`.
fn signed_with(spend: &SpendRequest, key: &SigningKey, payload: Value) -> SignedMessage {
    let prepared = prepare(spend, &Choice::from_payload(Some(&payload)).unwrap()).unwrap();
    SignedMessage {
        message: prepared.digest.to_string(),
        message_prehash: Some(format!("0x{}", hex::encode(prepared.preimage))),
        signature: format!("0x{}", hex::encode(key.sign(&prepared.digest.0).to_bytes())),
        payload: Some(prepared.payload),
    }
}

fn signed(spend: &SpendRequest) -> SignedMessage {
    signed_with(spend, &payer(), json!({}))
}

/// The error for what is prepared under `payload`, or for what is signed with the payload changed to it.
fn refused(spend: &SpendRequest, payload: Value) -> AuthorizationError {
    let choice = Choice::from_payload(Some(&payload));
    let prepared = choice.and_then(|choice| prepare(spend, &choice)).expect_err("nothing may be prepared");
    let message = SignedMessage { payload: Some(payload), ..signed(&self::spend()) };
    assert_eq!(authorize(spend, &message).expect_err("nothing may be accepted"), prepared);
    prepared
}

#[test]
fn what_was_prepared_and_signed_is_authorized() {
    let spend = spend();
    let message = signed(&spend);
    let (authorization, plan) = authorize(&spend, &message).unwrap();
    assert_eq!((plan.reserve_deadline, plan.fulfillment_deadline), (FULFILLMENT_DEADLINE, FULFILLMENT_DEADLINE));
    assert_eq!((plan.refund_after, plan.chain_id.as_str()), (REFUND_AFTER, CHAIN));
    assert_eq!((&plan.contract, &plan.reserver), (&spend.escrow.program, &spend.escrow.reserver));
    assert_eq!(plan.releaser, spend.escrow.releaser);
    let Authorization::Solana(spent) = &authorization else { panic!("{authorization:?}") };
    assert_eq!((spent.amount.to_string().as_str(), spent.quote_hash), ("110", Hash32::ZERO));
    assert_eq!((spent.signer.as_str(), &spent.signature), (&*account(&payer()), &message.signature));
    assert_eq!(Delegation::of(spend.terms.source.account(), &plan.contract, spent), Ok(None));
    assert_eq!(message.payload.as_ref().unwrap()["allowance_delegate"], drawn_by(&payer()).as_str());

    // The digest alone is enough where the payer chose nothing.
    let short = SignedMessage { message_prehash: None, payload: None, ..message.clone() };
    assert_eq!(authorize(&spend, &short).unwrap(), (authorization.clone(), plan.clone()));
    // Members that are not ours are the caller's.
    let mut payload = message.payload.clone().unwrap();
    payload["note"] = json!({"a": [1]});
    let noted = SignedMessage { payload: Some(payload), ..message };
    assert_eq!(authorize(&spend, &noted).unwrap(), (authorization, plan));
}

#[test]
fn a_delegate_signer_signs_for_the_payer_and_for_nobody_else() {
    let spend = spend();
    let named = json!({"delegate_signer": account(&delegate())});
    let message = signed_with(&spend, &delegate(), named.clone());
    let (authorization, plan) = authorize(&spend, &message).unwrap();
    let Authorization::Solana(spent) = &authorization else { panic!("{authorization:?}") };
    assert_eq!(spent.signer.as_str(), account(&delegate()));
    let delegation = Delegation::of(spend.terms.source.account(), &plan.contract, spent).unwrap().unwrap();
    assert_eq!(delegation.signer.as_str(), account(&delegate()));
    assert_eq!(delegation.address, drawn_by(&delegate()));
    // What cannot be a delegation is not the payer's own signature.
    let elsewhere: Account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".parse().unwrap();
    let refused = Err(ConvertError::Account(elsewhere.to_string()));
    assert_eq!(Delegation::of(spend.terms.source.account(), &elsewhere, spent), refused);
    let signed = SolanaSpend { signer: elsewhere, ..spent.clone() };
    assert_eq!(Delegation::of(spend.terms.source.account(), &plan.contract, &signed), refused);

    // The payer's key where a delegate signer is named, and the delegate signer's where none is.
    let by_payer = signed_with(&spend, &payer(), named);
    assert_eq!(authorize(&spend, &by_payer).unwrap_err().field(), "signature");
    let unnamed = signed_with(&spend, &delegate(), json!({}));
    assert_eq!(authorize(&spend, &unnamed).unwrap_err().field(), "signature");
    // Naming the payer itself is naming nobody.
    let itself = signed_with(&spend, &payer(), json!({"delegate_signer": account(&payer())}));
    let (Authorization::Solana(spent), plan) = authorize(&spend, &itself).unwrap() else { panic!() };
    assert_eq!(Delegation::of(spend.terms.source.account(), &plan.contract, &spent), Ok(None));
}

#[test]
fn a_payer_that_is_no_key_needs_a_delegate_signer() {
    let spend = spend_by(drawn_by(&payer()).as_str());
    assert_eq!(wallet_key(spend.terms.source.account()), None);
    assert_eq!(refused(&spend, json!({})).field(), "source.account");
    let message = signed_with(&spend, &delegate(), json!({"delegate_signer": account(&delegate())}));
    authorize(&spend, &message).unwrap();
}

#[test]
fn only_keys_that_somebody_holds_are_wallets() {
    let wallet = |text: &str| wallet_key(&Account::parse(Family::Solana, text).unwrap()).is_some();
    assert!(wallet(&account(&payer())));
    assert!(!wallet(drawn_by(&payer()).as_str()), "an address off the curve");
    // The neutral point, and a point of order 2: anybody can sign for them.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut order_two = [0xff; 32];
    (order_two[0], order_two[31]) = (0xec, 0x7f);
    // The neutral point again, written with a coordinate above the field's modulus.
    let mut unreduced = [0xff; 32];
    (unreduced[0], unreduced[31]) = (0xee, 0x7f);
    for point in [neutral, order_two, unreduced] {
        let text = bs58::encode(point).into_string();
        assert!(!wallet(&text), "{text}");
        let error = Choice::from_payload(Some(&json!({"delegate_signer": text}))).unwrap_err();
        assert_eq!(error.to_string(), "payload.delegate_signer must be an Ed25519 public key");
    }
    assert_eq!(wallet_key(&Account::parse(Family::Evm, "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed").unwrap()), None);
}

#[test]
fn what_the_payer_chooses_keeps_the_windows() {
    for (payload, field, says) in [
        (json!({"reserve_deadline": QUOTE_DEADLINE}), "payload.reserve_deadline", "after quote_deadline, 1800000000"),
        (json!({"reserve_deadline": "1800000601"}), "payload.reserve_deadline", "at most fulfillment_deadline"),
        (json!({"refund_after": "1800001499"}), "payload.refund_after", "at least 1800001500, 900 s after"),
        (json!({"refund_after": "0x1000000000000"}), "payload.refund_after", "must fit 48 bits"),
        (json!({"refund_after": "18446744073709551616"}), "payload.refund_after", "at most 64 bits"),
        (json!({"refund_after": -1}), "payload.refund_after", "a whole number"),
        (json!({"refund_after": "soon"}), "payload.refund_after", "a whole number"),
        (json!({"refund_after": ""}), "payload.refund_after", "a whole number"),
        (json!({"refund_after": "0x"}), "payload.refund_after", "a whole number"),
        (json!({"refund_after": "+1800001500"}), "payload.refund_after", "a whole number"),
        (json!({"refund_after": null}), "payload.refund_after", "a whole number"),
        (json!({"delegate_signer": "abc"}), "payload.delegate_signer", "the Base58 form of 32 bytes"),
        (json!({"delegate_signer": 7}), "payload.delegate_signer", "the Base58 form of 32 bytes"),
        (json!({"allowance_delegate": base58(9)}), "payload.allowance_delegate", &base58(9)),
        (json!({"permitted_amount": "0"}), "payload.permitted_amount", "must not be zero"),
        (json!({"permitted_amount": "18446744073709551616"}), "payload.permitted_amount", "at most 64 bits"),
    ] {
        let error = refused(&spend(), payload);
        assert_eq!(error.field(), field, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let chosen = json!({"reserve_deadline": "0x6b49d201", "refund_after": 1_900_000_000});
    let (_, plan) = authorize(&spend(), &signed_with(&spend(), &payer(), chosen)).unwrap();
    assert_eq!((plan.reserve_deadline, plan.refund_after), (QUOTE_DEADLINE + 1, 1_900_000_000));
}

#[test]
fn the_cap_is_the_terms_or_the_payers() {
    assert_eq!(refused(&uncapped(), json!({})).field(), "payload.permitted_amount");
    let message = signed_with(&uncapped(), &payer(), json!({"permitted_amount": u64::MAX}));
    assert_eq!(message.payload.as_ref().unwrap()["permitted_amount"], u64::MAX.to_string());
    let (authorization, _) = authorize(&uncapped(), &message).unwrap();
    assert_eq!(authorization.permitted().to_string(), u64::MAX.to_string());

    // Where the terms have a cap, it is the cap.
    let message = signed_with(&spend(), &payer(), json!({"permitted_amount": "5000"}));
    let (authorization, _) = authorize(&spend(), &message).unwrap();
    assert_eq!(authorization.permitted().to_string(), "110");
    let wide = Terms::new(
        spend().terms.source,
        spend().terms.destination().to_vec(),
        "1".parse().unwrap(),
        Some("18446744073709551616".parse().unwrap()),
    );
    assert_eq!(refused(&SpendRequest { terms: wide, ..spend() }, json!({})).field(), "max_source_amount");
}

#[test]
fn what_is_no_spend_on_solana_is_refused() {
    let sources = [
        OwnedAsset::new(format!("{CHAIN}/slip44:501").parse().unwrap(), &account(&payer())),
        OwnedAsset::new(format!("{CHAIN}/token:{TOKEN}x").parse().unwrap(), &account(&payer())),
        OwnedAsset::new(
            "eip155:1/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v".parse().unwrap(),
            "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        ),
    ];
    for source in sources {
        let terms = Terms::new(source.unwrap(), spend().terms.destination().to_vec(), "1".parse().unwrap(), None);
        assert_eq!(refused(&SpendRequest { terms, ..spend() }, json!({})).field(), "source.asset_identifier");
    }
    for (change, field) in [
        ((|escrow, other| escrow.program = other) as fn(&mut EscrowSettings, Account), "escrow_contract_address"),
        (|escrow, other| escrow.reserver = other, "reserver"),
        (|escrow, other| escrow.releaser = other, "fulfillment_verifier.account"),
    ] {
        let mut spend = spend();
        change(&mut spend.escrow, "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".parse().unwrap());
        assert_eq!(refused(&spend, json!({})).field(), field);
    }
}

#[test]
fn the_forms_are_the_documented_ones() {
    let spend = spend();
    let good = signed(&spend);
    let digits = &good.signature[2..];
    let prehash = good.message_prehash.clone().unwrap();
    for (change, field) in [
        ((|message: &mut SignedMessage| message.message = message.message[2..].to_owned()) as fn(&mut _), "message"),
        (|message| message.message = "0x12".to_owned(), "message"),
        (|message| message.signature = message.signature[2..].to_owned(), "signature"),
        (|message| message.signature.truncate(128), "signature"),
        (|message| message.signature.push_str("00"), "signature"),
        (|message| message.message_prehash = Some(String::new()), "message_prehash"),
        (|message| message.message_prehash = Some("{}".to_owned()), "message_prehash"),
        (|message| message.message_prehash.as_mut().unwrap().push_str("00"), "message_prehash"),
        (|message| message.message_prehash = message.message_prehash.as_ref().map(|text| text[2..].to_owned()), {
            "message_prehash"
        }),
    ] {
        let mut message = good.clone();
        change(&mut message);
        let error = authorize(&spend, &message).unwrap_err();
        assert!(matches!(&error, AuthorizationError::Malformed { field: named, .. } if named == field), "{error}");
    }
    // Upper case is the same hex.
    let upper = SignedMessage {
        signature: format!("0x{}", digits.to_uppercase()),
        message_prehash: Some(format!("0x{}", prehash[2..].to_uppercase())),
        ..good
    };
    let (authorization, _) = authorize(&spend, &upper).unwrap();
    let Authorization::Solana(spent) = authorization else { panic!() };
    assert_eq!(spent.signature, format!("0x{digits}"), "kept in one form");
}

/// Whoever changes a signature into another that lax verifiers take must not have a second one.
#[test]
fn a_signature_has_one_form() {
    let spend = spend();
    let good = signed(&spend);
    let mut bytes: [u8; 64] = hex::decode(&good.signature[2..]).unwrap().try_into().unwrap();
    let mut carry = 0;
    for (byte, order) in bytes[32..].iter_mut().zip(GROUP_ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        (*byte, carry) = ((sum & 0xff) as u8, sum >> 8);
    }
    let twin = SignedMessage { signature: format!("0x{}", hex::encode(bytes)), ..good };
    assert_eq!(authorize(&spend, &twin).unwrap_err().field(), "signature");
}

/// The fields of the preimage with where they end.
const FIELDS: [(&str, usize); 16] = [
    ("prefix", 9),
    ("domain_version", 10),
    ("cluster_id", 42),
    ("program_id", 74),
    ("kind", 75),
    ("payment_id", 107),
    ("terms_hash", 139),
    ("quote_hash", 171),
    ("payer", 203),
    ("mint", 235),
    ("amount", 243),
    ("reserver", 275),
    ("releaser", 307),
    ("reserve_deadline", 315),
    ("fulfillment_deadline", 323),
    ("refund_after", 331),
];

proptest! {
    /// Any bit of the preimage: refused by the field's name; and refused when everything else is made to fit it.
    #[test]
    fn any_bit_flipped_in_what_was_signed_is_refused(bit in 0..331_usize * 8) {
        let spend = spend();
        let good = signed(&spend);
        let mut preimage = hex::decode(&good.message_prehash.as_ref().unwrap()[2..]).unwrap();
        preimage[bit / 8] ^= 1 << (bit % 8);
        let flipped = format!("0x{}", hex::encode(&preimage));
        let (field, _) = FIELDS.into_iter().find(|(_, end)| bit / 8 < *end).unwrap();
        let one = SignedMessage { message_prehash: Some(flipped.clone()), ..good.clone() };
        let error = authorize(&spend, &one).unwrap_err();
        prop_assert_eq!(error.field(), format!("message_prehash.{field}"));
        let digest = Hash32::sha256(&preimage);
        let forged = SignedMessage {
            message: digest.to_string(),
            message_prehash: Some(flipped),
            signature: format!("0x{}", hex::encode(payer().sign(&digest.0).to_bytes())),
            payload: good.payload,
        };
        prop_assert!(authorize(&spend, &forged).is_err());
        let bare = SignedMessage { message_prehash: None, ..forged };
        prop_assert!(authorize(&spend, &bare).is_err());
    }

    #[test]
    fn any_bit_flipped_in_the_signature_is_refused(bit in 0..512_usize) {
        let spend = spend();
        let good = signed(&spend);
        let mut bytes = hex::decode(&good.signature[2..]).unwrap();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let forged = SignedMessage { signature: format!("0x{}", hex::encode(bytes)), ..good };
        let error = authorize(&spend, &forged).unwrap_err();
        prop_assert_eq!(error.field(), "signature");
    }

    /// A signature counts for the request it was made for and for no other: any part of the request changed.
    #[test]
    fn any_part_of_the_request_changed_is_refused(part in 0..12_usize, byte in 10..=255_u8) {
        let (good, mut spend) = (signed(&spend()), spend());
        let later = |seconds: u64| from_unix_seconds(seconds + u64::from(byte)).unwrap();
        let terms = &spend.terms;
        let (source, to, gets, cap) =
            (terms.source.clone(), terms.destination().to_vec(), terms.fulfillment_amount, terms.max_source_amount);
        let other = |asset: String, account: &str| OwnedAsset::new(asset.parse().unwrap(), account).unwrap();
        let mint = format!("{CHAIN}/token:{TOKEN}");
        match part {
            0 => spend.cluster_id = ClusterId::from([byte; 32]),
            1 => spend.escrow.program = solana(byte),
            2 => spend.escrow.reserver = solana(byte),
            3 => spend.escrow.releaser = solana(byte),
            4 => spend.payment_id = PaymentId::derive("solana:x", &byte.to_string()),
            5 => spend.quote_hash = Hash32([byte; 32]),
            6 => spend.fulfillment_deadline = later(FULFILLMENT_DEADLINE),
            7 => spend.terms = Terms::new(source, to, byte.to_string().parse().unwrap(), Some("111".parse().unwrap())),
            8 => spend.terms = Terms::new(other(mint, &account(&SigningKey::from_bytes(&[byte; 32]))), to, gets, cap),
            9 => {
                let mint = format!("{CHAIN}/token:{}", base58(byte));
                spend.terms = Terms::new(other(mint, &account(&payer())), to, gets, cap);
            }
            10 => {
                let to = vec![other(mint, &account(&SigningKey::from_bytes(&[byte; 32])))];
                spend.terms = Terms::new(source, to, gets, cap);
            }
            _ => spend.escrow.refund_delay_seconds += u64::from(byte),
        }
        prop_assert!(authorize(&spend, &good).is_err());
        let bare = SignedMessage { message_prehash: None, payload: None, ..good };
        prop_assert!(authorize(&spend, &bare).is_err());
    }
}
