//! Histories of payments whose payer deposits by a transaction of its own, as on Tron.

use events::{
    OwnedAsset, Terms,
    event::{
        DepositMined, DepositRuledOut, EscrowOpened, EscrowSecured, PayerStep, PayerTransaction, PayerTransactionSent,
        TronSpend, VerifierRef,
    },
};

use super::{super::event_streams::Stream, *};

/// A payment whose payer deposits by a transaction of its own, and that failed in the auction.
async fn unsold(gateway: &Gateway) -> PaymentId {
    let id = PaymentId::derive("tests", "own");
    let PaymentEvent::Failed(failure) = failed(no_quotes()) else { unreachable!() };
    gateway.append(&id, vec![payer_deposit_submitted(&id)]).await;
    gateway.append(&id, vec![closed(&[]), PaymentEvent::Failed(failure)]).await;
    id
}

fn payer_deposit_submitted(id: &PaymentId) -> PaymentEvent {
    let payer = "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top";
    let owned = |asset: &str, account: &str| OwnedAsset::new(asset.parse().unwrap(), account).unwrap();
    let terms = Terms::new(
        owned("tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", payer),
        vec![owned("eip155:31338/slip44:60", RECIPIENT)],
        "4".parse().unwrap(),
        Some("5".parse().unwrap()),
    );
    let deposit =
        PayerTransaction { transaction_hash: Hash32([1; 32]).to_string(), raw: "0x0a".to_owned(), expires_at: 0 };
    let amount = "5".parse().unwrap();
    let spend = TronSpend { amount, quote_hash: Hash32::ZERO, approval: None, deposit };
    let time = at("2030-01-01T00:00:00Z");
    PaymentEvent::Submitted(Box::new(Submitted {
        payment_id: id.clone(),
        request_id: "own".to_owned(),
        originator: "tests".to_owned(),
        terms_hash: terms.hash(),
        quote_deadline: time,
        fulfillment_deadline: time,
        authorization: Authorization::Tron(spend),
        escrow: EscrowPlan {
            chain_id: terms.source.asset().chain().clone(),
            contract: payer.parse().unwrap(),
            reserver: payer.parse().unwrap(),
            releaser: payer.parse().unwrap(),
            reserve_deadline: 1_893_456_060,
            fulfillment_deadline: 1_893_456_120,
            refund_after: 1_893_456_180,
        },
        terms,
        fulfillment_proxies: vec![VERIFIER.parse().unwrap()],
        verifier: VerifierRef::single(VERIFIER.parse().unwrap(), "https://verifier.example".to_owned()),
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        selector: None,
        counterparty: None,
        identities: Vec::new(),
        submitted_at: time,
        request: "{}".to_owned(),
    }))
}

fn opened() -> PaymentEvent {
    let inclusion = Inclusion { chain_id: "tron:728126428".parse().unwrap(), ..inclusion(1, 1) };
    PaymentEvent::EscrowOpened(EscrowOpened { inclusion, amount: "5".parse().unwrap(), reserved_for: None })
}

/// On Tron the payer's own transaction is the deposit from when it is sent (spec 2.7), and the gateway's reservation another.
#[tokio::test]
async fn the_payers_own_transactions_are_shown_and_the_reservation_is_one_of_its_own() {
    let gateway = Gateway::new();
    let id = PaymentId::derive("tests", "own");
    let chain: ChainId = "tron:728126428".parse().unwrap();
    let [own, approval, reserved] = [1, 5, 6].map(|byte| Hash32([byte; 32]).to_string());
    let sent = |step, hash: &String| {
        PaymentEvent::PayerTransactionSent(PayerTransactionSent {
            step,
            chain_id: chain.clone(),
            transaction_hash: hash.clone(),
            sent_at: at("2030-01-01T00:00:10Z"),
        })
    };
    let shown = |hash: &String, block: Option<(u64, bool)>| {
        let mut shown = json!({"transaction_hash": hash, "chain_id": chain});
        if let Some((block, settled)) = block {
            shown["block_number"] = json!(block);
            shown["settled"] = json!(settled);
        }
        shown
    };
    let included = |hash: &String, n| Inclusion {
        chain_id: chain.clone(),
        transaction_hash: hash.clone(),
        block_number: n,
        ..inclusion(31_337, 1)
    };
    let last = async || {
        let status = gateway.get(&format!("/v1/payments/{id}/status")).await.expect(200).body;
        let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
        let entry = timeline["entries"].as_array().unwrap().last().unwrap().clone();
        (status["transactions"].clone(), entry["transactions"].clone())
    };
    gateway.append(&id, vec![payer_deposit_submitted(&id)]).await;
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    gateway.append(&id, vec![sent(PayerStep::Approval, &approval)]).await;
    assert_eq!(last().await, (Value::Null, json!({"approval": shown(&approval, None)})));
    gateway.append(&id, vec![sent(PayerStep::Deposit, &own)]).await;
    let deposit = json!({"deposit": shown(&own, None)});
    assert_eq!(last().await, (deposit.clone(), deposit));

    let PaymentEvent::DepositPrepared(prepared) = prepared() else { unreachable!() };
    let prepared = TransactionPrepared { chain_id: chain.clone(), transaction_hash: reserved.clone(), ..prepared };
    gateway.append(&id, vec![PaymentEvent::DepositPrepared(prepared)]).await;
    let reservation = shown(&reserved, None);
    let both = json!({"deposit": shown(&own, None), "reservation": reservation});
    assert_eq!(last().await, (both, json!({"reservation": reservation})));
    let mined = DepositMined { inclusion: included(&own, 7) };
    gateway.append(&id, vec![PaymentEvent::DepositMined(mined)]).await;
    let deposit = shown(&own, Some((7, false)));
    let both = json!({"deposit": deposit, "reservation": reservation});
    assert_eq!(last().await, (both, json!({"deposit": deposit})));
    let secured = EscrowSecured {
        inclusion: included(&reserved, 8),
        amount: "5".parse().unwrap(),
        deposit: Some(Box::new(included(&own, 7))),
    };
    gateway.append(&id, vec![PaymentEvent::EscrowSecured(secured)]).await;
    let both = json!({"deposit": shown(&own, Some((7, true))), "reservation": shown(&reserved, Some((8, true)))});
    assert_eq!(last().await, (both.clone(), both));

    gateway.append(&id, vec![seen(), confirmed()]).await;
    let status = gateway.get(&format!("/v1/payments/{id}/status")).await.expect(200).body;
    let receipt = &status["fulfillment_confirmation"];
    assert_eq!((&receipt["source_tx_hash"], &receipt["source_block_number"]), (&json!(own), &json!(7)));
}

#[tokio::test]
async fn a_payer_deposit_is_told_of_after_the_failure_live_and_later() {
    let gateway = Gateway::new();
    let id = unsold(&gateway).await;
    let path = format!("/v1/payments/{id}/timeline");
    let watched = gateway.get(&path).await.expect(200).body;
    assert_eq!((&watched["status"], &watched["at_rest"]), (&json!("failed"), &json!(false)));
    assert_eq!(watched["entries"][0]["data"]["message_scheme"], "TRON");
    let failure = &watched["entries"][2];
    assert_eq!((&failure["event"], &failure["data"]["refund"]), (&json!("Failed"), &json!("nothing_due")));
    assert_eq!(failure["cause"], "no_quotes");
    let summary = failure["summary"].as_str().unwrap();
    assert!(summary.contains("watched") && !summary.contains("No money was taken"), "{summary}");

    // A stream stays open for what may still come, and ends with it.
    let mut stream = Stream::follow(&gateway, &id, Some("2.0")).await;
    assert_eq!(stream.next().await.unwrap().1["event"], "Failed");
    gateway.append(&id, vec![opened()]).await;
    let (event_id, entry) = stream.next().await.unwrap();
    assert_eq!(
        (event_id.as_str(), &entry["event"], &entry["status"]),
        ("3.0", &json!("EscrowOpened"), &json!("failed"))
    );
    assert_eq!((&entry["data"]["amount"], &entry["data"]["block_time"]), (&json!("5"), &json!("2030-01-01T00:02:00Z")));
    let deposit = json!({
        "transaction_hash": Hash32([1; 32]).to_string(), "chain_id": "tron:728126428", "block_number": 1, "settled": true,
    });
    assert_eq!(entry["transactions"], json!({"deposit": deposit}));
    let status = gateway.get(&format!("/v1/payments/{id}/status")).await.expect(200).body;
    assert_eq!((&status["status"], &status["transactions"]["deposit"]), (&json!("failed"), &deposit));
    assert_eq!(status["error"], failure["data"]["error"], "why it failed stays");
    let refunded = EscrowRefunded { inclusion: inclusion(31_337, 4), amount: "5".parse().unwrap(), claims: Vec::new() };
    gateway.append(&id, vec![PaymentEvent::EscrowRefunded(refunded)]).await;
    assert_eq!(stream.next().await.unwrap().1["event"], "EscrowRefunded");
    assert_eq!(stream.next().await, None);
    let done = gateway.get(&path).await.expect(200).body;
    assert_eq!(done["at_rest"], true);
    for hidden in ["raw", "0x0a"] {
        assert!(!done.to_string().contains(hidden), "{hidden}");
    }
}

#[tokio::test]
async fn a_payer_deposit_that_never_came_is_told_of_too() {
    let gateway = Gateway::new();
    let id = unsold(&gateway).await;
    let ruled_out = DepositRuledOut { ruled_out_at: at("2030-01-01T00:01:01Z"), left: None };
    let mut stream = Stream::follow(&gateway, &id, Some("2.1")).await;
    gateway.append(&id, vec![PaymentEvent::DepositRuledOut(ruled_out)]).await;
    let entry = stream.next().await.unwrap().1;
    assert_eq!((&entry["event"], &entry["status"]), (&json!("DepositRuledOut"), &json!("failed")));
    assert_eq!(entry["cause"], "not_deposited");
    assert!(entry["summary"].as_str().unwrap().contains("No money was taken"));
    assert_eq!((entry.get("transactions"), entry.get("data")), (None, None));
    assert_eq!(stream.next().await, None);
    let done = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    assert_eq!((&done["status"], &done["at_rest"]), (&json!("failed"), &json!(true)));
}

#[tokio::test]
async fn the_transaction_of_a_payer_deposit_s_reservation_is_told_as_what_it_is() {
    let gateway = Gateway::new();
    let id = PaymentId::derive("tests", "own");
    gateway.append(&id, vec![payer_deposit_submitted(&id)]).await;
    for events in [vec![closed(&[]), awarded(DOCUMENT)], vec![prepared()], vec![secured()]] {
        gateway.append(&id, events).await;
    }
    let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    let entry = &timeline["entries"][3];
    assert_eq!(entry["event"], "DepositPrepared");
    assert!(entry["summary"].as_str().unwrap().contains("reservation"), "{entry}");
}
