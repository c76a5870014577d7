//! Prepared transactions: what a payer is given to sign, and what of it is its own to choose.

use alloy::sol_types::SolCall;
use serde_json::json;

use chains_tron::authorization::{LIFETIME_MS_MAX, REACH_MS};
use escrow_abi::contracts::DevToken::approveCall;

use super::*;

#[test]
fn what_is_prepared_says_what_it_does() {
    let prepared = prepared(&spend());
    let [approval, deposit] = prepared.messages.as_slice() else { panic!("{prepared:?}") };
    assert_eq!(
        approval.payload,
        json!({
            "function": "approve(address,uint256)",
            "contract": TOKEN,
            "spender": spend().escrow.contract,
            "amount": "110",
            "fee_limit_sun": 5 * TRX,
            "expiration_ms": FULFILLMENT_DEADLINE * 1_000,
        })
    );
    let function = deposit.payload["function"].as_str().unwrap();
    assert!(function.starts_with("depositOwn((bytes32,"), "{function}");
    let mut shown = deposit.payload.clone();
    shown.as_object_mut().unwrap().remove("function");
    assert_eq!(
        shown,
        json!({
            "contract": spend().escrow.contract,
            "token": TOKEN,
            "amount": "110",
            "reserve_deadline": FULFILLMENT_DEADLINE,
            "refund_after": REFUND_AFTER,
            "fee_limit_sun": 60 * TRX,
            "expiration_ms": FULFILLMENT_DEADLINE * 1_000,
        })
    );
    // Another payment of the same cap at the same time has an approval of its own: the network takes none twice.
    let other = SpendRequest { payment_id: PaymentId::derive("tron:x", "order-2"), ..spend() };
    let other = prepare(&other, &Choice::default(), &environment(), &reserver()).unwrap();
    assert_ne!(other.messages[APPROVAL].id, approval.id);
    assert_eq!(other.messages[APPROVAL].payload, approval.payload);
    // What is shown chooses the same again.
    let choice = Choice::from_payload(Some(&deposit.payload)).unwrap();
    assert_eq!(prepare(&spend(), &choice, &environment(), &reserver()).unwrap(), prepared);
}

/// What is prepared is sent back as it is, and what contradicts the transaction is refused by its name.
#[test]
fn a_payload_says_what_its_transaction_does_or_other_things() {
    let prepared = prepared(&spend());
    let said: Vec<_> = prepared
        .messages
        .iter()
        .map(|own| SignedMessage { payload: Some(own.payload.clone()), ..message(&own.raw_data, &payer()) })
        .collect();
    let authorized = authorize(&spend(), &said).unwrap();
    assert_eq!(authorized, authorize(&spend(), &good()).unwrap());
    let saying = |index: usize, name: &str, value: serde_json::Value| {
        let mut messages = said.clone();
        messages[index].payload.as_mut().unwrap()[name] = value;
        messages
    };
    for (index, name, value) in [
        (APPROVAL, "function", json!("transfer(address,uint256)")),
        (APPROVAL, "contract", json!(spend().escrow.contract)),
        (APPROVAL, "spender", json!(TOKEN)),
        (APPROVAL, "amount", json!("1")),
        (APPROVAL, "fee_limit_sun", json!(1)),
        (APPROVAL, "expiration_ms", json!(null)),
        (DEPOSIT, "function", json!("depositOwn")),
        (DEPOSIT, "contract", json!(TOKEN)),
        (DEPOSIT, "token", json!(spend().escrow.contract)),
        (DEPOSIT, "amount", json!(109)),
        (DEPOSIT, "permitted_amount", json!("111")),
        (DEPOSIT, "reserve_deadline", json!(FULFILLMENT_DEADLINE - 1)),
        (DEPOSIT, "refund_after", json!((REFUND_AFTER + 1).to_string())),
        (DEPOSIT, "fee_limit_sun", json!({})),
        (DEPOSIT, "expiration_ms", json!(FULFILLMENT_DEADLINE)),
    ] {
        refused_at(&saying(index, name, value), index, &format!("payload.{name}"));
    }
    for (index, name, value) in [
        (APPROVAL, "amount", json!(110)),
        (DEPOSIT, "amount", json!("0x6e")),
        (DEPOSIT, "permitted_amount", json!("110")),
        (DEPOSIT, "refund_after", json!(REFUND_AFTER.to_string())),
        (DEPOSIT, "note", json!({"order": 7})),
        (APPROVAL, "token", json!("mine")),
    ] {
        assert_eq!(authorize(&spend(), &saying(index, name, value)).unwrap(), authorized, "{name}");
    }
}

#[test]
fn what_the_payer_chooses_is_signed_for() {
    let spend = uncapped(spend());
    let missing = prepare(&spend, &Choice::default(), &environment(), &reserver()).unwrap_err();
    assert_eq!(missing.field(), "payload.permitted_amount");
    let payload = json!({
        "reserve_deadline": QUOTE_DEADLINE + 100,
        "refund_after": (REFUND_AFTER + 1).to_string(),
        "permitted_amount": "0x7b",
        "fee_limit_sun": 77 * TRX,
        "expiration_ms": (QUOTE_DEADLINE + 300) * 1_000,
        "note": {"a": [1]},
    });
    let choice = Choice::from_payload(Some(&payload)).unwrap();
    let prepared = prepare(&spend, &choice, &environment(), &reserver()).unwrap();
    assert_eq!(prepared.messages[DEPOSIT].payload["permitted_amount"], "123");
    assert_eq!(draft(&signed(&prepared)[DEPOSIT]).fee_limit_sun, 77 * TRX);
    let (authorization, plan) = authorize(&spend, &signed(&prepared)).unwrap();
    assert_eq!((plan.reserve_deadline, plan.refund_after), (QUOTE_DEADLINE + 100, REFUND_AFTER + 1));
    let own = tron((authorization, plan));
    assert_eq!((own.amount.to_string().as_str(), own.deposit.expires_at), ("123", (QUOTE_DEADLINE + 300) * 1_000));
    // It is the deposit that says how much; an approval of another amount is none for it.
    let mut more = draft(&signed(&prepared)[APPROVAL]);
    more.call.data = approveCall { spender: Address::repeat_byte(0xe5), value: U256::from(124) }.abi_encode();
    let messages = [message(&more.raw_data(), &payer()), signed(&prepared)[DEPOSIT].clone()];
    assert_eq!(refused(&spend, &messages).error.field(), "message_prehash.approve.value");
}

#[test]
fn a_choice_that_breaks_a_rule_is_refused_by_its_name() {
    let lifetime = environment().reference.time_ms + LIFETIME_MS_MAX;
    let expiration = |ms: u64| json!({"expiration_ms": ms});
    for (payload, field) in [
        (json!({"reserve_deadline": QUOTE_DEADLINE}), "payload.reserve_deadline"),
        (json!({"reserve_deadline": FULFILLMENT_DEADLINE + 1}), "payload.reserve_deadline"),
        (json!({"reserve_deadline": -1}), "payload.reserve_deadline"),
        (json!({"refund_after": REFUND_AFTER - 1}), "payload.refund_after"),
        (json!({"refund_after": "0x1000000000000"}), "payload.refund_after"),
        (json!({"refund_after": "soon"}), "payload.refund_after"),
        (json!({"permitted_amount": "0"}), "payload.permitted_amount"),
        (json!({"permitted_amount": [1]}), "payload.permitted_amount"),
        (json!({"fee_limit_sun": 0}), "payload.fee_limit_sun"),
        (json!({"fee_limit_sun": 15_000 * TRX + 1}), "payload.fee_limit_sun"),
        (json!({"fee_limit_sun": "0x8000000000000000"}), "payload.fee_limit_sun"),
        (expiration(QUOTE_DEADLINE * 1_000 + REACH_MS), "payload.expiration_ms"),
        (expiration(lifetime + 1), "payload.expiration_ms"),
        (json!({"expiration_ms": "tomorrow"}), "payload.expiration_ms"),
    ] {
        let choice = Choice::from_payload(Some(&payload));
        let error = choice.and_then(|choice| prepare(&spend(), &choice, &environment(), &reserver())).unwrap_err();
        assert_eq!(error.field(), field, "{payload}: {error}");
    }
    for edge in [QUOTE_DEADLINE * 1_000 + REACH_MS + 1, lifetime] {
        let choice = Choice::from_payload(Some(&expiration(edge))).unwrap();
        let prepared = prepare(&spend(), &choice, &environment(), &reserver()).unwrap();
        authorize(&spend(), &signed(&prepared)).unwrap();
    }
}

#[test]
fn a_request_that_no_transaction_can_fit_is_refused() {
    let prepared = |spend: &SpendRequest| prepare(spend, &Choice::default(), &environment(), &reserver());
    let field = |spend: &SpendRequest| prepared(spend).unwrap_err().field().to_owned();
    let source = |text: &str| {
        let owned = OwnedAsset::new(text.parse().unwrap(), &account(&payer())).unwrap();
        let Terms { fulfillment_amount, max_source_amount, .. } = spend().terms;
        let terms = Terms::new(owned, spend().terms.destination().to_vec(), fulfillment_amount, max_source_amount);
        SpendRequest { terms, ..spend() }
    };
    assert_eq!(field(&source(&format!("{CHAIN}/slip44:195"))), "source.asset_identifier");
    // Another escrow's reserver cannot open this one.
    let error = prepare(&spend(), &Choice::default(), &environment(), &key(3)).unwrap_err();
    assert_eq!(error.field(), "reserver");
    // An auction that no transaction outlives, and one that one just does.
    let latest = environment().reference.time_ms / 1_000 + (LIFETIME_MS_MAX - REACH_MS) / 1_000;
    let long = |quote_deadline: u64| SpendRequest {
        quote_deadline: from_unix_seconds(quote_deadline).unwrap(),
        fulfillment_deadline: from_unix_seconds(quote_deadline + 600).unwrap(),
        ..spend()
    };
    assert_eq!(field(&long(latest)), "quote_deadline");
    let spend = long(latest - 1);
    let prepared = prepared(&spend).unwrap();
    let (_, plan) = authorize(&spend, &signed(&prepared)).unwrap();
    // It expires before the reservation's window does, as late as the network takes.
    let expiration_ms = draft(&signed(&prepared)[DEPOSIT]).expiration_ms;
    assert_eq!(expiration_ms, environment().reference.time_ms + LIFETIME_MS_MAX);
    assert!(expiration_ms < plan.reserve_deadline * 1_000);
    // Where the reservation's window is shorter than a transaction takes to its block, it may expire later.
    let short = Choice { reserve_deadline: Some(QUOTE_DEADLINE + 1), ..Choice::default() };
    let prepared = prepare(&self::spend(), &short, &environment(), &reserver()).unwrap();
    assert_eq!(draft(&signed(&prepared)[DEPOSIT]).expiration_ms, QUOTE_DEADLINE * 1_000 + REACH_MS + 1);
    authorize(&self::spend(), &signed(&prepared)).unwrap();
}
