//! Authorization by Permit2: every altered member is refused and named, every allowed form means the same.

mod forms;

use alloy::{primitives::keccak256, sol_types::SolStruct};
use serde_json::{Value, json};

use chains_tron::{
    address::parse_address,
    authorization::{PreparedPermit, authorize_permit, prepare_permit},
};
use escrow_abi::{
    contracts::{time, word},
    eip712::{GatewayDeposit, PermitWitnessTransferFrom, TokenPermissions, permit2_domain},
};
use events::event::Permit2;

use super::*;
use crate::support::permitted;

/// SUN.io's, on mainnet.
const PERMIT2: &str = "TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9";
const CHAIN_ID: u64 = 728_126_428;
const OTHER: Address = Address::repeat_byte(0xff);

fn spend() -> SpendRequest {
    let mut spend = super::spend();
    spend.escrow.permit2 = Some(PERMIT2.parse().unwrap());
    spend
}

fn prepared(spend: &SpendRequest) -> PreparedPermit {
    prepare_permit(spend, &Choice::default()).unwrap()
}

fn signed(prepared: &PreparedPermit) -> SignedMessage {
    permitted::signed(prepared, &payer())
}

/// A message that holds.
fn good() -> SignedMessage {
    signed(&prepared(&spend()))
}

fn data(message: &SignedMessage) -> Value {
    serde_json::from_str(message.message_prehash.as_deref().unwrap()).unwrap()
}

fn with_prehash(prehash: impl Into<String>) -> SignedMessage {
    SignedMessage { message_prehash: Some(prehash.into()), ..good() }
}

#[track_caller]
fn refused(spend: &SpendRequest, message: &SignedMessage) -> AuthorizationError {
    authorize_permit(spend, message).expect_err("nothing may be accepted")
}

/// The error that typed data gets which `alter` changed. Members are compared before the digest and the signature.
#[track_caller]
fn altered(alter: impl FnOnce(&mut Value)) -> AuthorizationError {
    let mut data = data(&good());
    alter(&mut data);
    refused(&spend(), &with_prehash(data.to_string()))
}

fn permit((authorization, _): &(Authorization, EscrowPlan)) -> &Permit2 {
    match authorization {
        Authorization::TronPermit2Escrow(permit) => permit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_prepared_and_signed_is_authorized() {
    let spend = spend();
    let prepared = prepared(&spend);
    let authorized = authorize_permit(&spend, &good()).unwrap();
    let (permit, plan) = (permit(&authorized), &authorized.1);
    assert_eq!(authorized.0.scheme(), "TRON_PERMIT2_ESCROW");
    assert_eq!((plan, &plan.contract), (&prepared.plan, &spend.escrow.contract));
    assert_eq!((plan.reserve_deadline, plan.fulfillment_deadline), (FULFILLMENT_DEADLINE, FULFILLMENT_DEADLINE));
    assert_eq!((plan.refund_after, plan.chain_id.as_str()), (REFUND_AFTER, CHAIN));
    assert_eq!([&plan.reserver, &plan.releaser], [&spend.escrow.reserver, &spend.escrow.releaser]);
    assert_eq!((permit.amount.to_string().as_str(), permit.deadline), ("110", FULFILLMENT_DEADLINE));
    let bound = [spend.payment_id.on_chain().0, spend.terms.hash().0].concat();
    assert_eq!((permit.nonce, prepared.nonce), (Hash32::keccak256(bound), permit.nonce));
    assert_eq!((permit.quote_hash, &permit.allowance, prepared.amount), (Hash32::ZERO, &None, permit.amount));
    assert_eq!(permit.signature, good().signature);
    let payload = json!({
        "reserve_deadline": FULFILLMENT_DEADLINE, "refund_after": REFUND_AFTER, "permit_deadline": FULFILLMENT_DEADLINE,
    });
    assert_eq!(prepared.payload, payload);
}

/// Rebuilt by the bindings of the contracts: a wallet of TIP-712 hashes an address's twenty bytes.
#[test]
fn the_digest_is_that_of_eip_712_whatever_form_addresses_have() {
    let (spend, prepared) = (spend(), prepared(&spend()));
    let of = |account: &events::Account| parse_address(account.as_str()).unwrap();
    let message = PermitWitnessTransferFrom {
        permitted: TokenPermissions { token: parse_address(TOKEN).unwrap(), amount: U256::from(110) },
        spender: of(&spend.escrow.contract),
        nonce: U256::from_be_bytes(prepared.nonce.0),
        deadline: U256::from(FULFILLMENT_DEADLINE),
        witness: GatewayDeposit {
            paymentId: word(spend.payment_id.on_chain()),
            termsHash: word(spend.terms.hash()),
            quoteHash: B256::ZERO,
            payer: payer().address(),
            reserver: reserver().address(),
            releaser: key(3).address(),
            reserveDeadline: time(FULFILLMENT_DEADLINE).unwrap(),
            fulfillmentDeadline: time(FULFILLMENT_DEADLINE).unwrap(),
            refundAfter: time(REFUND_AFTER).unwrap(),
        },
    };
    let digest = message.eip712_signing_hash(&permit2_domain(CHAIN_ID, parse_address(PERMIT2).unwrap()));
    assert_eq!(prepared.digest.0, digest.0);
    assert_eq!(keccak256(prepared.preimage), digest);
    // What a wallet shows.
    let data = &prepared.typed_data;
    assert_eq!(data["domain"], json!({"name": "Permit2", "chainId": CHAIN_ID, "verifyingContract": PERMIT2}));
    assert_eq!(data["primaryType"], "PermitWitnessTransferFrom");
    assert_eq!(data["message"]["permitted"], json!({"token": TOKEN, "amount": "110"}));
    assert_eq!(data["message"]["spender"], spend.escrow.contract.as_str());
    assert_eq!(data["message"]["witness"]["payer"], account(&payer()));
    assert_eq!(data["message"]["witness"]["reserver"], account(&reserver()));
    assert_eq!(data["message"]["witness"]["releaser"], account(&key(3)));
}

/// The members that are addresses.
const ADDRESSES: [(&str, &str); 6] = [
    ("/domain/verifyingContract", "domain.verifyingContract"),
    ("/message/permitted/token", "message.permitted.token"),
    ("/message/spender", "message.spender"),
    ("/message/witness/payer", "message.witness.payer"),
    ("/message/witness/reserver", "message.witness.reserver"),
    ("/message/witness/releaser", "message.witness.releaser"),
];

#[test]
fn every_altered_member_is_refused_and_named() {
    let other_word = B256::repeat_byte(1).to_string();
    let numbers: [(&str, &str, Value); 21] = [
        ("/domain/chainId", "domain.chainId", json!(1)),
        ("/domain/chainId", "domain.chainId", json!("3448148188")),
        // 2⁶⁴ and the chain's own: what is cut off would be the same.
        ("/domain/chainId", "domain.chainId", json!("0x1000000002b6653dc")),
        ("/domain/name", "domain.name", json!("Permit3")),
        ("/message/permitted/amount", "message.permitted.amount", json!("111")),
        ("/message/permitted/amount", "message.permitted.amount", json!("109")),
        ("/message/permitted/amount", "message.permitted.amount", json!(110.5)),
        ("/message/nonce", "message.nonce", json!("1")),
        ("/message/deadline", "message.deadline", json!(FULFILLMENT_DEADLINE - 1)),
        ("/message/deadline", "message.deadline", json!("0x10000000000000000")),
        ("/message/witness/paymentId", "message.witness.paymentId", json!(other_word)),
        ("/message/witness/termsHash", "message.witness.termsHash", json!(other_word)),
        ("/message/witness/quoteHash", "message.witness.quoteHash", json!(other_word)),
        ("/message/witness/reserveDeadline", "message.witness.reserveDeadline", json!(QUOTE_DEADLINE)),
        ("/message/witness/reserveDeadline", "message.witness.reserveDeadline", json!(FULFILLMENT_DEADLINE + 1)),
        (
            "/message/witness/fulfillmentDeadline",
            "message.witness.fulfillmentDeadline",
            json!(FULFILLMENT_DEADLINE - 1),
        ),
        (
            "/message/witness/fulfillmentDeadline",
            "message.witness.fulfillmentDeadline",
            json!(FULFILLMENT_DEADLINE + 1),
        ),
        ("/message/witness/refundAfter", "message.witness.refundAfter", json!(REFUND_AFTER - 1)),
        ("/message/witness/refundAfter", "message.witness.refundAfter", json!("0x1000000000000")),
        ("/primaryType", "primaryType", json!("PermitTransferFrom")),
        ("/message/witness", "message.witness", json!([])),
    ];
    for (pointer, field, value) in &numbers {
        let error = altered(|data| *data.pointer_mut(pointer).unwrap() = value.clone());
        assert_eq!(error.field(), *field, "{value}: {error}");
    }
    for (pointer, field) in ADDRESSES {
        for value in [text(OTHER), OTHER.to_string(), format!("{:#x}", Address::ZERO)] {
            let error = altered(|data| *data.pointer_mut(pointer).unwrap() = json!(value));
            assert_eq!(error.field(), field, "{value}: {error}");
            // Both are written as Tron's people write them.
            let says = error.to_string();
            assert!(matches!(error, AuthorizationError::Mismatch { .. }) && says.contains("not T"), "{says}");
        }
    }
}

/// One account has one form, but for hex of its twenty bytes: nothing is taken that another reader would take for another account.
#[test]
fn an_address_is_base58check_or_the_hex_of_its_twenty_bytes() {
    for (pointer, field) in ADDRESSES {
        let written = data(&good()).pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let address = parse_address(&written).unwrap();
        let hex = hex::encode(address);
        for same in [format!("0x{hex}"), format!("0x{}", hex.to_uppercase()), address.to_string()] {
            let mut data = data(&good());
            *data.pointer_mut(pointer).unwrap() = json!(same);
            let authorized = authorize_permit(&spend(), &with_prehash(data.to_string())).unwrap();
            assert_eq!(authorized, authorize_permit(&spend(), &good()).unwrap(), "{same}");
        }
        let last = if written.ends_with('a') { 'b' } else { 'a' };
        let broken = format!("{}{last}", &written[..written.len() - 1]);
        for bad in [
            broken.as_str(),
            &format!("41{hex}"),
            &format!("0x41{hex}"),
            &hex,
            &format!("0x{}", &hex[1..]),
            &format!(" {written}"),
            &format!("1{written}"),
            &written.to_lowercase(),
            // The same bytes with another prefix.
            &bs58::encode([&[0xa0], address.as_slice()].concat()).with_check().into_string(),
            &bs58::encode([&[0x41], address.as_slice()].concat()).into_string(),
            "",
        ] {
            let error = altered(|data| *data.pointer_mut(pointer).unwrap() = json!(bad));
            let rule = "must be an address, T… in Base58Check, or its 20 bytes as 0x followed by 40 hex digits";
            assert_eq!(error.to_string(), format!("{field} {rule}"), "{bad}");
        }
        for bad in [json!(7), json!([written]), Value::Null] {
            assert_eq!(altered(|data| *data.pointer_mut(pointer).unwrap() = bad).field(), field);
        }
    }
}

#[test]
fn foreign_types_and_members_are_refused() {
    type Alter = fn(&mut Value);
    let alterations: [(&str, Alter); 16] = [
        ("types.Evil", |data| data["types"]["Evil"] = json!([])),
        ("types.TokenPermissions", |data| data["types"]["TokenPermissions"][1]["type"] = json!("uint128")),
        ("types.TokenPermissions", |data| data["types"]["TokenPermissions"].as_array_mut().unwrap().reverse()),
        // TIP-712 has a type of Tron's own, which is hashed as a number.
        ("types.TokenPermissions", |data| data["types"]["TokenPermissions"][0]["type"] = json!("trcToken")),
        ("types.GatewayDeposit", |data| data["types"]["GatewayDeposit"][0]["name"] = json!("payment")),
        ("types.GatewayDeposit", |data| {
            data["types"]["GatewayDeposit"].as_array_mut().unwrap().push(json!({"name": "memo", "type": "string"}));
        }),
        ("types.PermitWitnessTransferFrom", |data| {
            drop(data["types"].as_object_mut().unwrap().remove("PermitWitnessTransferFrom"));
        }),
        ("types.EIP712Domain", |data| {
            data["types"]["EIP712Domain"].as_array_mut().unwrap().push(json!({"name": "salt", "type": "bytes32"}));
        }),
        ("types", |data| data["types"] = json!([])),
        ("domain.salt", |data| data["domain"]["salt"] = json!("0x00")),
        ("domain.version", |data| data["domain"]["version"] = json!("1")),
        ("domain.chainId", |data| drop(data["domain"].as_object_mut().unwrap().remove("chainId"))),
        ("message.memo", |data| data["message"]["memo"] = json!("free money")),
        ("message.witness.memo", |data| data["message"]["witness"]["memo"] = json!(1)),
        ("permitted.expiration", |data| data["message"]["permitted"]["expiration"] = json!(1)),
        ("message_prehash.extra", |data| data["extra"] = json!(1)),
    ];
    for (field, alter) in alterations {
        let error = altered(alter);
        assert!(error.field().ends_with(field), "{field}: {error}");
    }
    // A key that stands twice, of which readers take either.
    let text = good().message_prehash.unwrap();
    for (key, value) in [("primaryType", "\"x\""), ("types", "{}"), ("domain", "{}"), ("message", "{}")] {
        let doubled = text.replacen('{', &format!("{{\"{key}\":{value},"), 1);
        assert_eq!(refused(&spend(), &with_prehash(doubled)).field(), "message_prehash", "{key}");
    }
    let inner = text.replacen("\"spender\":", &format!("\"spender\":\"{}\",\"spender\":", super::text(OTHER)), 1);
    assert_ne!(inner, text);
    assert_eq!(refused(&spend(), &with_prehash(inner)).field(), "message_prehash");
    let long = format!("{}{}", text, " ".repeat(20_000));
    authorize_permit(&spend(), &with_prehash(long)).unwrap();
    let long = text.replacen('{', &format!("{{{}", " ".repeat(20_000)), 1);
    assert_eq!(refused(&spend(), &with_prehash(long)).field(), "message_prehash");
}

#[test]
fn only_the_payers_sound_signature_counts() {
    let original = good();
    let bytes = hex::decode(&original.signature[2..]).unwrap();
    let with =
        |signature: Vec<u8>| SignedMessage { signature: format!("0x{}", hex::encode(signature)), ..original.clone() };
    // As some wallets of Tron write `v`, and in the short form: what is kept is what Permit2 takes.
    let mut low_v = bytes.clone();
    low_v[64] -= 27;
    let mut compact = bytes[..64].to_vec();
    compact[32] |= low_v[64] << 7;
    for form in [low_v, compact] {
        let authorized = authorize_permit(&spend(), &with(form)).unwrap();
        assert_eq!(permit(&authorized).signature, original.signature);
    }
    let stranger = permitted::signed(&prepared(&spend()), &key(7));
    let error = refused(&spend(), &stranger);
    assert_eq!(error.field(), "signature", "{error}");
    assert!(matches!(error, AuthorizationError::Signer { .. }), "{error}");
    assert!(error.to_string().contains(&account(&key(7))), "{error}");
    let v = |v: u8| [&bytes[..64], &[v]].concat();
    for signature in [
        high_s(&bytes),
        v(55 - bytes[64]),
        v(29),
        v(35),
        bytes[..63].to_vec(),
        [&bytes[..], &[0]].concat(),
        vec![0; 65],
        Vec::new(),
        // What a contract judges, or one that is not there yet.
        [bytes.clone(), hex::decode("6492".repeat(16)).unwrap()].concat(),
    ] {
        assert_eq!(refused(&spend(), &with(signature.clone())).field(), "signature", "{}", hex::encode(signature));
    }
    let bare = SignedMessage { signature: hex::encode(&bytes), ..original.clone() };
    assert_eq!(refused(&spend(), &bare).field(), "signature");
    // A digest that is not the message's, whatever was signed.
    for message in [Hash32([9; 32]).to_string(), "0x12".to_owned(), String::new()] {
        let message = SignedMessage { message, ..original.clone() };
        assert_eq!(refused(&spend(), &message).field(), "message");
    }
}

#[test]
fn another_payments_message_is_not_this_ones() {
    let other = |change: fn(&mut SpendRequest)| {
        let mut spend = spend();
        change(&mut spend);
        spend
    };
    let terms = |amount: &str, cap: Option<&str>| {
        let Terms { ref source, .. } = spend().terms;
        let cap = cap.map(|cap| cap.parse().unwrap());
        let terms = Terms::new(source.clone(), spend().terms.destination().to_vec(), amount.parse().unwrap(), cap);
        SpendRequest { terms, ..spend() }
    };
    let second = |seconds| from_unix_seconds(seconds).unwrap();
    for (spend, field, without) in [
        (other(|spend| spend.payment_id = PaymentId::derive("tron:x", "order-2")), "message.nonce", "message"),
        (terms("101", Some("110")), "message.nonce", "message"),
        (terms("100", None), "message.nonce", "payload.permitted_amount"),
        (terms("100", Some("109")), "message.permitted.amount", "message"),
        (other(|spend| spend.quote_hash = Hash32([7; 32])), "message.witness.quoteHash", "message"),
        (other(|spend| spend.escrow.reserver = holder(&key(7))), "message.witness.reserver", "message"),
        (other(|spend| spend.escrow.releaser = holder(&key(7))), "message.witness.releaser", "message"),
        (other(|spend| spend.escrow.contract = holder(&key(7))), "message.spender", "message"),
        (other(|spend| spend.escrow.permit2 = Some(holder(&key(7)))), "domain.verifyingContract", "message"),
        (other(|spend| spend.escrow.refund_delay_seconds += 1), "message.witness.refundAfter", "message"),
        (
            SpendRequest { fulfillment_deadline: second(FULFILLMENT_DEADLINE + 1), ..spend() },
            "message.witness.fulfillmentDeadline",
            "message",
        ),
        (
            SpendRequest { quote_deadline: second(FULFILLMENT_DEADLINE), ..spend() },
            "message.witness.reserveDeadline",
            "payload.reserve_deadline",
        ),
        (
            SpendRequest { terms: spend_of("tron:3448148188", TOKEN, PERMIT2).terms, ..spend() },
            "domain.chainId",
            "message",
        ),
    ] {
        let error = refused(&spend, &good());
        assert_eq!(error.field(), field, "{error}");
        // Without a prehash it is the digest that differs, unless nothing can be rebuilt to have one.
        let bare = SignedMessage { message_prehash: None, payload: None, ..good() };
        let error = refused(&spend, &bare);
        assert_eq!(error.field(), without, "{field}: {error}");
    }
    let quoted = other(|spend| spend.quote_hash = Hash32([7; 32]));
    let authorized = authorize_permit(&quoted, &signed(&prepared(&quoted))).unwrap();
    assert_eq!(permit(&authorized).quote_hash, Hash32([7; 32]));
}

#[test]
fn without_a_permit2_and_for_what_is_no_token_there_is_no_permit() {
    let none = super::spend();
    for error in
        [refused(&none, &good()), prepare_permit(&none, &Choice::default()).expect_err("nothing may be prepared")]
    {
        assert_eq!(error.field(), "message_scheme", "{error}");
        assert!(error.to_string().contains("no Permit2"), "{error}");
    }
    let mut foreign = spend();
    foreign.escrow.permit2 = Some("0x000000000022d473030f116ddee9f6b43ac78ba3".parse().unwrap());
    assert_eq!(refused(&foreign, &good()).field(), "permit2");
    let mut coin = spend();
    let source = OwnedAsset::new(format!("{CHAIN}/slip44:195").parse().unwrap(), &account(&payer())).unwrap();
    coin.terms = Terms::new(source, coin.terms.destination().to_vec(), "100".parse().unwrap(), None);
    assert_eq!(prepare_permit(&coin, &Choice::default()).unwrap_err().field(), "source.asset_identifier");
    // The transactions of the other scheme are none of this one's, and the other way round.
    for message in super::good() {
        assert_eq!(refused(&spend(), &message).field(), "message_prehash");
    }
    let denied = authorize(&spend(), &[good()]).expect_err("nothing may be accepted");
    let said = (denied.message, denied.error.to_string());
    assert_eq!(said, (Some(0), "message_prehash must be the transaction's raw_data in hex".to_owned()));
}
