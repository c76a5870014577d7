//! Authorization by Permit2: every altered field is refused and named, every allowed form is read.

use alloy::{primitives::B256, signers::SignerSync};
use anyhow::Result;
use serde_json::{Value, json};

use chains_evm::authorization::{
    AuthorizationError, Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest, authorize, prepare,
};
use events::{Hash32, OwnedAsset, PaymentId, Terms, event::Authorization, time::from_unix_seconds};

use crate::support::{key, sign, text};

const QUOTE_DEADLINE: u64 = 1_800_000_000;
const FULFILLMENT_DEADLINE: u64 = 1_800_000_600;
const REFUND_AFTER: u64 = 1_800_001_500;
const TOKEN: &str = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
const OTHER: &str = "0x00000000000000000000000000000000000000ff";
const SCHEMES: [Scheme; 2] = [Scheme::EvmPermit2Escrow, Scheme::EvmPermit2];

fn spend(scheme: Scheme) -> SpendRequest {
    let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), &text(&key(10))).unwrap();
    SpendRequest {
        scheme,
        payment_id: PaymentId::derive("eip155:0xabc", "order-1"),
        terms: Terms::new(
            owned(&format!("eip155:1/erc20:{TOKEN}")),
            vec![owned("eip155:10/slip44:60")],
            "100".parse().unwrap(),
            Some("110".parse().unwrap()),
        ),
        quote_deadline: from_unix_seconds(QUOTE_DEADLINE).unwrap(),
        fulfillment_deadline: from_unix_seconds(FULFILLMENT_DEADLINE).unwrap(),
        escrow: EscrowSettings {
            contract: "0x1000000000000000000000000000000000000001".parse().unwrap(),
            reserver: "0x2000000000000000000000000000000000000002".parse().unwrap(),
            releaser: "0x3000000000000000000000000000000000000003".parse().unwrap(),
            permit2: "0x000000000022D473030F116dDEE9F6B43aC78BA3".parse().unwrap(),
            refund_delay_seconds: REFUND_AFTER - FULFILLMENT_DEADLINE,
        },
        quote_hash: Hash32::ZERO,
        token: None,
    }
}

fn signed(spend: &SpendRequest) -> SignedMessage {
    let prepared = prepare(spend, &Choice::default()).unwrap();
    sign(&key(10), prepared.digest, Some(prepared.typed_data.to_string())).unwrap()
}

/// The error that a submission with typed data changed by `alter` gets. Fields are compared before the digest and the
/// signature, so that the error names the field.
fn altered(scheme: Scheme, alter: impl FnOnce(&mut Value)) -> AuthorizationError {
    let spend = spend(scheme);
    let mut message = signed(&spend);
    let mut data: Value = serde_json::from_str(message.message_prehash.as_deref().unwrap()).unwrap();
    alter(&mut data);
    message.message_prehash = Some(data.to_string());
    authorize(&spend, &message).expect_err(&data.to_string())
}

#[test]
fn what_was_prepared_and_signed_is_authorized() {
    for scheme in SCHEMES {
        let spend = spend(scheme);
        let (authorization, plan) = authorize(&spend, &signed(&spend)).unwrap();
        assert_eq!(plan.reserve_deadline, FULFILLMENT_DEADLINE);
        assert_eq!(plan.fulfillment_deadline, FULFILLMENT_DEADLINE);
        assert_eq!(plan.refund_after, REFUND_AFTER);
        assert_eq!(plan.contract, spend.escrow.contract);
        let permit = match (scheme, &authorization) {
            (Scheme::EvmPermit2Escrow, Authorization::EvmPermit2Escrow(permit)) => permit,
            (Scheme::EvmPermit2, Authorization::EvmPermit2(permit)) => permit,
            other => panic!("{other:?}"),
        };
        assert_eq!(permit.amount.to_string(), "110");
        assert_eq!(permit.deadline, FULFILLMENT_DEADLINE);
        let bound = [spend.payment_id.on_chain().0, spend.terms.hash().0].concat();
        assert_eq!(permit.nonce, Hash32::keccak256(bound));
    }
}

#[test]
fn every_altered_field_is_refused_and_named() {
    let word = "0x0101010101010101010101010101010101010101010101010101010101010101";
    let common: &[(&str, &str, Value)] = &[
        ("/domain/chainId", "domain.chainId", json!(2)),
        ("/domain/name", "domain.name", json!("Permit3")),
        ("/domain/verifyingContract", "domain.verifyingContract", json!(OTHER)),
        ("/message/permitted/token", "message.permitted.token", json!(OTHER)),
        ("/message/permitted/amount", "message.permitted.amount", json!("111")),
        ("/message/permitted/amount", "message.permitted.amount", json!("109")),
        ("/message/spender", "message.spender", json!(OTHER)),
        ("/message/nonce", "message.nonce", json!("1")),
        ("/message/deadline", "message.deadline", json!(FULFILLMENT_DEADLINE - 1)),
        ("/message/deadline", "message.deadline", json!("0x10000000000000000")),
        ("/message/deadline", "message.deadline", json!(1.5)),
        ("/message/deadline", "message.deadline", json!("-1")),
        ("/message/spender", "message.spender", json!("0x12")),
        ("/primaryType", "primaryType", json!("PermitBatchTransferFrom")),
    ];
    let witness: &[(&str, &str, Value)] = &[
        ("paymentId", "message.witness.paymentId", json!(word)),
        ("termsHash", "message.witness.termsHash", json!(word)),
        ("quoteHash", "message.witness.quoteHash", json!(word)),
        ("payer", "message.witness.payer", json!(OTHER)),
        ("reserver", "message.witness.reserver", json!(OTHER)),
        ("releaser", "message.witness.releaser", json!(OTHER)),
        ("reserveDeadline", "message.witness.reserveDeadline", json!(QUOTE_DEADLINE)),
        ("reserveDeadline", "message.witness.reserveDeadline", json!(FULFILLMENT_DEADLINE + 1)),
        ("fulfillmentDeadline", "message.witness.fulfillmentDeadline", json!(FULFILLMENT_DEADLINE + 1)),
        ("fulfillmentDeadline", "message.witness.fulfillmentDeadline", json!(FULFILLMENT_DEADLINE - 1)),
        ("refundAfter", "message.witness.refundAfter", json!(REFUND_AFTER - 1)),
        ("refundAfter", "message.witness.refundAfter", json!("0x1000000000000")),
    ];
    for scheme in SCHEMES {
        for (pointer, field, value) in common {
            let error = altered(scheme, |data| *data.pointer_mut(pointer).unwrap() = value.clone());
            assert_eq!(error.field(), *field, "{value}: {error}");
        }
    }
    for (name, field, value) in witness {
        let error = altered(Scheme::EvmPermit2Escrow, |data| data["message"]["witness"][*name] = value.clone());
        assert_eq!(error.field(), *field, "{value}: {error}");
    }
}

#[test]
fn foreign_types_and_members_are_refused() {
    type Alteration = fn(&mut Value);
    let cases: &[(&str, Alteration)] = &[
        ("types.Evil", |data| data["types"]["Evil"] = json!([])),
        ("types.TokenPermissions", |data| data["types"]["TokenPermissions"][1]["type"] = json!("uint128")),
        ("types.TokenPermissions", |data| data["types"]["TokenPermissions"].as_array_mut().unwrap().reverse()),
        ("types.GatewayDeposit", |data| data["types"]["GatewayDeposit"][0]["name"] = json!("payment")),
        ("types.EIP712Domain", |data| {
            data["types"]["EIP712Domain"].as_array_mut().unwrap().push(json!({"name": "salt", "type": "bytes32"}));
        }),
        ("domain.salt", |data| data["domain"]["salt"] = json!("0x00")),
        ("domain.version", |data| data["domain"]["version"] = json!("1")),
        ("domain.chainId", |data| drop(data["domain"].as_object_mut().unwrap().remove("chainId"))),
        ("message.memo", |data| data["message"]["memo"] = json!("free money")),
        ("message.witness.memo", |data| data["message"]["witness"]["memo"] = json!(1)),
        ("message_prehash.extra", |data| data["extra"] = json!(1)),
        ("message.witness", |data| data["message"]["witness"] = json!([])),
    ];
    for (field, alter) in cases {
        let error = altered(Scheme::EvmPermit2Escrow, alter);
        assert_eq!(error.field(), *field, "{error}");
    }
    let spend = spend(Scheme::EvmPermit2Escrow);
    let mut message = signed(&spend);
    let doubled = message.message_prehash.as_deref().unwrap().replacen('{', r#"{"primaryType":"x","#, 1);
    message.message_prehash = Some(doubled);
    assert_eq!(authorize(&spend, &message).unwrap_err().field(), "message_prehash");
    // One scheme's message is not the other's.
    let plain = signed(&self::spend(Scheme::EvmPermit2));
    assert_eq!(authorize(&spend, &plain).unwrap_err().field(), "primaryType");
}

#[test]
fn every_term_of_the_request_is_bound() {
    let other_id = PaymentId::derive("eip155:0xabc", "order-2");
    for scheme in SCHEMES {
        let original = spend(scheme);
        let message = signed(&original);
        let mut changed = Vec::new();
        changed.push(SpendRequest { payment_id: other_id.clone(), ..original.clone() });
        let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), OTHER).unwrap();
        let terms = |amount: &str, cap: Option<&str>, destination: &str| {
            Terms::new(
                original.terms.source.clone(),
                vec![owned(destination)],
                amount.parse().unwrap(),
                cap.map(|cap| cap.parse().unwrap()),
            )
        };
        for terms in [
            terms("101", Some("110"), "eip155:10/slip44:60"),
            terms("100", Some("111"), "eip155:10/slip44:60"),
            terms("100", None, "eip155:10/slip44:60"),
            terms("100", Some("110"), "eip155:11/slip44:60"),
        ] {
            changed.push(SpendRequest { terms, ..original.clone() });
        }
        let later = from_unix_seconds(FULFILLMENT_DEADLINE + 60).unwrap();
        changed.push(SpendRequest { fulfillment_deadline: later, ..original.clone() });
        for spend in changed {
            assert!(authorize(&spend, &message).is_err(), "{spend:?}");
        }
    }
    let original = spend(Scheme::EvmPermit2Escrow);
    let message = signed(&original);
    let quoted = SpendRequest { quote_hash: Hash32([1; 32]), ..original.clone() };
    assert_eq!(authorize(&quoted, &message).unwrap_err().field(), "message.witness.quoteHash");
    assert!(authorize(&quoted, &signed(&quoted)).is_ok());
    let mut patient = original.clone();
    patient.escrow.refund_delay_seconds += 1;
    assert_eq!(authorize(&patient, &message).unwrap_err().field(), "message.witness.refundAfter");
}

#[test]
fn all_forms_of_the_prehash_mean_the_same() -> Result<()> {
    for scheme in SCHEMES {
        let spend = spend(scheme);
        let original = signed(&spend);
        let expected = authorize(&spend, &original)?;
        let data: Value = serde_json::from_str(original.message_prehash.as_deref().unwrap())?;

        let mut numbers = data.clone();
        numbers["domain"]["chainId"] = json!("0x1");
        numbers["message"]["permitted"]["amount"] = json!(110);
        numbers["message"]["deadline"] = json!(format!("{FULFILLMENT_DEADLINE:#x}"));
        let mut bare = data.clone();
        bare["types"].as_object_mut().unwrap().remove("EIP712Domain");
        let preimage = preimage(&data)?;
        for prehash in [
            Some(numbers.to_string()),
            Some(bare.to_string()),
            Some(format!(" {data:#} ")),
            Some(bare_numbers(&data)),
            Some(preimage.clone()),
            None,
        ] {
            let message = SignedMessage { message_prehash: prehash, ..original.clone() };
            assert_eq!(authorize(&spend, &message)?, expected, "{:?}", message.message_prehash);
        }

        // Of 256 bits the last counts, too.
        let nonce = data["message"]["nonce"].as_str().unwrap();
        let other = format!("{}{}", &nonce[..nonce.len() - 1], if nonce.ends_with('7') { '8' } else { '7' });
        let prehash = bare_numbers(&data).replace(nonce, &other);
        let message = SignedMessage { message_prehash: Some(prehash), ..original.clone() };
        assert_eq!(authorize(&spend, &message).unwrap_err().field(), "message.nonce");

        let mut forged = preimage.clone().into_bytes();
        forged[10] = if forged[10] == b'0' { b'1' } else { b'0' };
        for (prehash, field) in [
            (String::from_utf8(forged)?, "message_prehash.domainSeparator"),
            (format!("{}00", &preimage[..preimage.len() - 2]), "message_prehash.structHash"),
            (format!("{preimage}00"), "message_prehash"),
            (preimage.replacen("0x1901", "0x1900", 1), "message_prehash"),
            ("nonsense".to_owned(), "message_prehash"),
        ] {
            let message = SignedMessage { message_prehash: Some(prehash), ..original.clone() };
            assert_eq!(authorize(&spend, &message).unwrap_err().field(), field);
        }
    }
    Ok(())
}

#[test]
fn the_payer_may_choose_within_the_windows() -> Result<()> {
    let spend = spend(Scheme::EvmPermit2Escrow);
    let choice = Choice {
        reserve_deadline: Some(QUOTE_DEADLINE + 1),
        refund_after: Some(REFUND_AFTER + 60),
        permit_deadline: Some(FULFILLMENT_DEADLINE + 5),
        ..Choice::default()
    };
    let prepared = prepare(&spend, &choice)?;
    let mut message = sign(&key(10), prepared.digest, None)?;
    assert_eq!(authorize(&spend, &message).unwrap_err().field(), "message", "the choice is not known");
    message.payload = Some(prepared.payload.clone());
    let (_, plan) = authorize(&spend, &message)?;
    assert_eq!((plan.reserve_deadline, plan.refund_after), (QUOTE_DEADLINE + 1, REFUND_AFTER + 60));
    let strings = json!({
        "reserve_deadline": (QUOTE_DEADLINE + 1).to_string(),
        "refund_after": format!("{:#x}", REFUND_AFTER + 60),
        "permit_deadline": FULFILLMENT_DEADLINE + 5,
        "anything": "else",
    });
    message.payload = Some(strings);
    assert!(authorize(&spend, &message).is_ok());
    message.payload = Some(json!({"refund_after": "soon"}));
    assert_eq!(authorize(&spend, &message).unwrap_err().field(), "payload.refund_after");
    Ok(())
}

#[test]
fn windows_that_nobody_signed_cannot_be_chosen() {
    let spend = spend(Scheme::EvmPermit2);
    let mut message = signed(&spend);
    for field in ["reserve_deadline", "refund_after"] {
        message.payload = Some(json!({field: REFUND_AFTER + 3600}));
        assert_eq!(authorize(&spend, &message).unwrap_err().field(), format!("payload.{field}"));
    }
}

#[test]
fn without_a_cap_the_permitted_amount_is_the_cap() -> Result<()> {
    for scheme in SCHEMES {
        let mut spend = spend(scheme);
        spend.terms.max_source_amount = None;
        assert_eq!(prepare(&spend, &Choice::default()).unwrap_err().field(), "payload.permitted_amount");
        let choice = Choice { permitted_amount: Some("777".parse()?), ..Choice::default() };
        let prepared = prepare(&spend, &choice)?;
        let typed = sign(&key(10), prepared.digest, Some(prepared.typed_data.to_string()))?;
        let short = SignedMessage { message_prehash: None, payload: Some(prepared.payload), ..typed.clone() };
        for message in [typed, short] {
            assert_eq!(authorize(&spend, &message)?.0.permitted().to_string(), "777");
        }
    }
    Ok(())
}

#[test]
fn only_the_payers_sound_signature_counts() -> Result<()> {
    let spend = spend(Scheme::EvmPermit2Escrow);
    let original = signed(&spend);
    let bytes = hex::decode(&original.signature[2..])?;
    let with =
        |signature: Vec<u8>| SignedMessage { signature: format!("0x{}", hex::encode(signature)), ..original.clone() };
    let stored = |message: &SignedMessage| match authorize(&spend, message).map(|(authorization, _)| authorization) {
        Ok(Authorization::EvmPermit2Escrow(permit)) => permit.signature,
        other => panic!("{other:?}"),
    };
    let mut low_v = bytes.clone();
    low_v[64] -= 27;
    assert_eq!(stored(&with(low_v)), original.signature, "Permit2 knows v 27 and 28 only");
    let digest: Hash32 = original.message.parse()?;
    let compact = key(10).sign_hash_sync(&B256::from(digest.0))?.as_erc2098().to_vec();
    assert_eq!(stored(&with(compact.clone())), format!("0x{}", hex::encode(compact)));

    let stranger = sign(&key(11), digest, original.message_prehash.clone())?;
    let error = authorize(&spend, &stranger).unwrap_err();
    assert!(matches!(error, AuthorizationError::Signer { .. }) && error.may_be_contract(), "{error}");
    let mut bad_v = bytes.clone();
    bad_v[64] = 35;
    for signature in [bad_v, bytes[..63].to_vec(), vec![0; 65]] {
        assert_eq!(authorize(&spend, &with(signature)).unwrap_err().field(), "signature");
    }
    let wrapped = [bytes, B256::repeat_byte(0).to_vec(), hex::decode("6492".repeat(16))?].concat();
    let error = authorize(&spend, &with(wrapped)).unwrap_err();
    assert!(error.to_string().contains("ERC-6492") && error.may_be_contract(), "only the chain can judge it: {error}");
    let mismatched = SignedMessage { message: Hash32([9; 32]).to_string(), ..original };
    assert_eq!(authorize(&spend, &mismatched).unwrap_err().field(), "message");
    Ok(())
}

#[test]
fn only_erc20_sources_on_evm_can_be_permitted() {
    let original = spend(Scheme::EvmPermit2Escrow);
    let coin = OwnedAsset::new("eip155:1/slip44:60".parse().unwrap(), OTHER).unwrap();
    let mut spend = original.clone();
    spend.terms.source = coin;
    assert_eq!(prepare(&spend, &Choice::default()).unwrap_err().field(), "source.asset_identifier");
    let mut spend = original;
    spend.escrow.contract = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t".parse().unwrap();
    assert_eq!(prepare(&spend, &Choice::default()).unwrap_err().field(), "escrow_contract_address");
}

/// The typed data as `json.dumps` of Python writes it from integers: every number bare, of whatever length.
fn bare_numbers(data: &Value) -> String {
    let mut text = data.to_string();
    for name in ["amount", "nonce", "deadline", "reserveDeadline", "fulfillmentDeadline", "refundAfter"] {
        if let Some((before, rest)) = text.split_once(&format!("\"{name}\":\"")) {
            let (digits, after) = rest.split_once('"').unwrap();
            text = format!("{before}\"{name}\": {digits}{after}");
        }
    }
    let nonce = data["message"]["nonce"].as_str().unwrap();
    assert!(nonce.len() > 20 && text.contains(&format!(": {nonce}")), "{text}");
    text
}

/// `0x1901 ‖ domainSeparator ‖ structHash` by an encoder that shares nothing with the one under test.
fn preimage(data: &Value) -> Result<String> {
    fn hash(bytes: impl AsRef<[u8]>) -> Vec<u8> {
        Hash32::keccak256(bytes).0.to_vec()
    }
    fn word(kind: &str, value: &Value, data: &Value) -> Vec<u8> {
        let text = value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
        match kind {
            "string" => hash(text),
            "address" => [vec![0; 12], hex::decode(&text[2..]).unwrap()].concat(),
            "bytes32" => hex::decode(&text[2..]).unwrap(),
            kind if kind.starts_with("uint") => {
                alloy::primitives::U256::from_str_radix(&text, 10).unwrap().to_be_bytes::<32>().to_vec()
            }
            kind => structure(kind, value, data),
        }
    }
    fn signature(kind: &str, data: &Value) -> String {
        let members = data["types"][kind].as_array().unwrap();
        let members = members
            .iter()
            .map(|member| format!("{} {}", member["type"].as_str().unwrap(), member["name"].as_str().unwrap()));
        format!("{kind}({})", members.collect::<Vec<_>>().join(","))
    }
    fn structure(kind: &str, value: &Value, data: &Value) -> Vec<u8> {
        let members = data["types"][kind].as_array().unwrap();
        let mut referenced: Vec<&str> = members
            .iter()
            .map(|member| member["type"].as_str().unwrap())
            .filter(|kind| data["types"].get(kind).is_some())
            .collect();
        referenced.sort_unstable();
        let mut types = signature(kind, data);
        types.extend(referenced.into_iter().map(|kind| signature(kind, data)));
        let mut encoded = hash(types);
        for member in members {
            let name = member["name"].as_str().unwrap();
            encoded.extend(word(member["type"].as_str().unwrap(), &value[name], data));
        }
        hash(encoded)
    }
    let primary = data["primaryType"].as_str().unwrap();
    let parts = [
        vec![0x19, 0x01],
        structure("EIP712Domain", &data["domain"], data),
        structure(primary, &data["message"], data),
    ];
    Ok(format!("0x{}", hex::encode(parts.concat())))
}
