//! Batches: many payments in one body and by one signature, each with an outcome of its own.

use std::time::Duration;

use alloy::signers::local::PrivateKeySigner;
use chains_evm::authorization::{EscrowSettings, Scheme, SpendRequest, prepare_batch};
use serde_json::{Value, json};
use tokio::time::Instant;

use events::{Account, Hash32, OwnedAsset, PaymentId};
use gateway_client::{BatchSubmission, Error, Key, Order, PERMIT2, Pins, Status, Windows, pay_batch};

use crate::scripted::{Answer, Scripted, refusal};

const USDC: &str = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
const DEADLINE: u64 = 1_900_000_000;

fn orders(payer: &str) -> Vec<Order> {
    let to = OwnedAsset::new("eip155:10/slip44:60".parse().unwrap(), payer).unwrap();
    let order = Order::new(
        OwnedAsset::new(USDC.parse().unwrap(), payer).unwrap(),
        vec![to],
        "5".parse().unwrap(),
        Some("6".parse().unwrap()),
        chrono::Utc::now(),
        Windows::default(),
    );
    let mut orders: Vec<Order> = (1..=3).map(|at| order.clone().under(format!("wages-{at}"))).collect();
    orders[2].fulfillment_amount = "6".parse().unwrap();
    orders[1].members.insert("settler_auth_required".to_owned(), json!(true));
    orders
}

fn submission() -> BatchSubmission {
    let orders = orders("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed");
    BatchSubmission::new(&orders, DEADLINE, json!({"message_scheme": "EVM_PERMIT2_BATCH"})).unwrap()
}

/// The payment, or what it is refused with.
fn of(id: &PaymentId, refused: Option<&str>, retry: &str) -> Value {
    match refused {
        None => {
            json!({"payment_id": id, "payment": {"payment_id": id, "status": "pending", "idempotent_replay": true}})
        }
        Some(code) => {
            let mut error = refusal(code);
            error["retry_classification"] = retry.into();
            error["payment_id"] = json!(id);
            json!({"payment_id": id, "error": error})
        }
    }
}

fn answer(ids: &[PaymentId], refused: [Option<&str>; 3], retry: &str) -> Answer {
    let payments = ids.iter().zip(refused).map(|(id, refused)| of(id, refused, retry));
    Answer::Json(200, json!({"payments": payments.collect::<Vec<_>>()}))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[test]
fn what_all_payments_have_in_common_is_written_once() {
    let submission = submission();
    let body: Value = serde_json::from_str(&submission.body).unwrap();
    assert_eq!((&body["version"], &body["reserve_deadline"]), (&json!("1.0"), &json!(DEADLINE)));
    assert_eq!(body["source"]["asset_identifier"], USDC);
    assert_eq!(
        body["payments"],
        json!([
            {"request_id": "wages-1", "fulfillment_amount": "5"},
            {"request_id": "wages-2", "fulfillment_amount": "5", "settler_auth_required": true},
            {"request_id": "wages-3", "fulfillment_amount": "6"},
        ])
    );
    let kept = serde_json::to_string(&submission).unwrap();
    assert_eq!(serde_json::from_str::<BatchSubmission>(&kept).unwrap(), submission);
    // One alone has all in common with itself, but for its id.
    let one = BatchSubmission::new(&orders("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed")[..1], 1, json!({})).unwrap();
    assert!(one.body.contains(r#""payments":[{"request_id":"wages-1"}]"#), "{}", one.body);
}

#[tokio::test]
async fn a_batch_is_sent_with_the_same_bytes_until_each_outcome_is_known() {
    let submission = submission();
    let ids = &submission.payment_ids;
    let gateway = Scripted::start([
        Answer::Text(502, "<html>"),
        Answer::With(429, ("retry-after", "1"), refusal("RATE_LIMITED")),
        Answer::Json(200, json!({"payments": [{"payment_id": ids[0]}]})),
        answer(ids, [None, Some("RATE_LIMITED"), Some("INSUFFICIENT_FUNDS")], "RETRY_AFTER_DELAY"),
        answer(ids, [None, Some("OUTCOME_UNKNOWN"), Some("INSUFFICIENT_FUNDS")], "RECONCILE_THEN_DECIDE"),
        answer(ids, [None, None, Some("INSUFFICIENT_FUNDS")], "RETRY_AFTER_DELAY"),
    ])
    .await;
    let payments = gateway.client.submit_batch(&submission, soon()).await.unwrap();
    assert_eq!(payments.iter().map(|one| one.payment_id.clone()).collect::<Vec<_>>(), *ids);
    assert_eq!(payments[1].outcome.as_ref().unwrap().status, Status::Pending);
    let refusal = payments[2].outcome.as_ref().unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.next()), ("INSUFFICIENT_FUNDS", gateway_client::Next::ChangeThenSend));
    let asked = gateway.asked();
    assert_eq!(asked.len(), 6);
    for one in &asked {
        assert_eq!((one.path.as_str(), &one.body[..]), ("/base/v1/payments/batches", submission.body.as_bytes()));
    }
}

#[tokio::test]
async fn what_was_answered_of_each_payment_stands_when_the_whole_is_refused_later() {
    let submission = submission();
    let ids = &submission.payment_ids;
    let partly = answer(ids, [None, None, Some("SERVICE_UNAVAILABLE")], "RETRY_AFTER_DELAY");
    let gateway = Scripted::start([partly.clone(), Answer::Json(401, refusal("INVALID_SENDER_AUTH"))]).await;
    let payments = gateway.client.submit_batch(&submission, soon()).await.unwrap();
    assert!(payments[1].outcome.is_ok());
    assert_eq!(payments[2].outcome.as_ref().unwrap_err().status, 503);
    // Nor is it asked for ever.
    let gateway = Scripted::start([partly]).await;
    let payments = gateway.client.submit_batch(&submission, Instant::now()).await.unwrap();
    assert_eq!((payments.len(), gateway.asked().len()), (3, 1));
    // The whole is refused as any submission is.
    let gateway = Scripted::start([Answer::Json(400, refusal("INVALID_REQUEST"))]).await;
    let error = gateway.client.submit_batch(&submission, soon()).await.unwrap_err();
    assert_eq!(error.refusal().map(|refusal| refusal.code.as_str()), Some("INVALID_REQUEST"));
}

#[tokio::test]
async fn an_answer_about_other_payments_is_none() {
    let submission = submission();
    let ids = &submission.payment_ids;
    let other = PaymentId::derive("eip155:0x1", "another");
    let swapped = [ids[1].clone(), ids[0].clone(), ids[2].clone()];
    let within = json!({"payments": [
        {"payment_id": ids[0], "payment": {"payment_id": other, "status": "pending"}},
        of(&ids[1], None, ""),
        of(&ids[2], None, ""),
    ]});
    for (wrong, field) in [
        (answer(&swapped, [None; 3], ""), "payments[0].payment_id"),
        (answer(&ids[..2], [None; 3], ""), "payments"),
        (Answer::Json(200, within), "payments[0].payment_id"),
    ] {
        let gateway = Scripted::start([wrong]).await;
        let error = gateway.client.submit_batch(&submission, soon()).await.unwrap_err();
        assert!(matches!(&error, Error::Mismatch(mismatch) if mismatch.field == field), "{field}: {error}");
    }
}

fn account(digit: u8) -> Account {
    format!("0x{}", format!("{digit:x}").repeat(40)).parse().unwrap()
}

/// What the gateway uses on a chain.
fn defaults(refund_delay_seconds: u64) -> Answer {
    let body = json!({
        "escrow_contract_address": account(1),
        "reserver": account(2),
        "releaser": account(3),
        "permit2": PERMIT2,
        "refund_delay_seconds": refund_delay_seconds,
        "assets": [],
    });
    Answer::Json(200, body)
}

/// What a gateway answers that has these orders signed for into this escrow.
fn prepared(orders: &[Order], escrow: &Account) -> Answer {
    let spends = orders.iter().map(|order| SpendRequest {
        scheme: Scheme::EvmPermit2Batch,
        payment_id: order.payment_id(),
        terms: order.terms(),
        quote_deadline: order.quote_deadline,
        fulfillment_deadline: order.fulfillment_deadline,
        escrow: EscrowSettings {
            contract: escrow.clone(),
            reserver: account(2),
            releaser: account(3),
            permit2: PERMIT2.parse().unwrap(),
            refund_delay_seconds: 900,
        },
        quote_hash: Hash32::ZERO,
        token: None,
    });
    let own = prepare_batch(&spends.collect::<Vec<_>>(), None).unwrap();
    let body = json!({
        "message_scheme": "EVM_PERMIT2_BATCH",
        "signed_messages": [{"message": own.digest, "message_prehash": own.typed_data.to_string(), "payload": {}}],
        "reserve_deadline": own.members[0].plan.reserve_deadline,
        "payments": orders.iter().map(|order| json!({"payment_id": order.payment_id()})).collect::<Vec<_>>(),
        "approvals": [],
    });
    Answer::Json(200, body)
}

#[tokio::test]
async fn a_batch_is_prepared_compared_signed_and_submitted() {
    let local = PrivateKeySigner::random();
    let orders = orders(&format!("{:#x}", local.address()));
    let key = Key::Secp256k1(local.into());
    let ids: Vec<PaymentId> = orders.iter().map(Order::payment_id).collect();
    let accepted = answer(&ids, [None; 3], "");
    let script = [defaults(600), defaults(900), prepared(&orders, &account(1)), accepted];
    let gateway = Scripted::start(script).await;
    let payments = pay_batch(&gateway.client, &orders, &key, &Pins::default()).await.unwrap();
    assert!(payments.iter().all(|one| one.outcome.is_ok()));
    let asked = gateway.asked();
    let paths: Vec<&str> = asked.iter().map(|one| one.path.trim_start_matches("/base/v1/")).collect();
    let chains = ["defaults?chain_id=eip155%3A1", "defaults?chain_id=eip155%3A10"];
    assert_eq!(paths, [chains[0], chains[1], "payments/batches/prepare", "payments/batches"]);
    let body = |at: usize| serde_json::from_slice::<Value>(&asked[at].body).unwrap();
    let (unsigned, mut signed) = (body(2), body(3));
    let auth = signed.as_object_mut().unwrap().remove("sender_auth").unwrap();
    assert_eq!(unsigned, signed, "what was prepared is what is submitted");
    assert_eq!(unsigned["reserve_deadline"], json!(orders[0].fulfillment_seconds()));
    assert_eq!(auth["signed_messages"].as_array().map(Vec::len), Some(1), "one signature");

    // Into another escrow than the gateway itself says, nothing is signed, and nothing is submitted.
    let gateway = Scripted::start([defaults(600), defaults(900), prepared(&orders, &account(8))]).await;
    let error = pay_batch(&gateway.client, &orders, &key, &Pins::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Mismatch(wrong) if wrong.field == "message.witness.escrow"), "{error}");
    assert_eq!(gateway.asked().len(), 3);

    // What is no batch, or not what is pinned, is not asked for.
    let gateway = Scripted::start([defaults(600), defaults(900)]).await;
    let mut no_batch = orders.clone();
    no_batch[2].max_source_amount = None;
    let error = pay_batch(&gateway.client, &no_batch, &key, &Pins::default()).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)) && gateway.asked().is_empty());
    let pins = Pins { escrow: Some(account(8)), ..Pins::default() };
    let error = pay_batch(&gateway.client, &orders, &key, &pins).await.unwrap_err();
    assert!(matches!(error, Error::Mismatch(wrong) if wrong.field == "escrow") && gateway.asked().len() == 2);
}
