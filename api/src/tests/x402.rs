//! x402 through the router: payments from their message to their outcome, and every answer's shape.

mod identifiers;
mod originators;
mod refusals;
mod supported;
mod verifier_sets;

use data_encoding::BASE64;
use serde_json::json;

use super::{
    reads::{awarded, closed, confirmed, failed, no_quotes, prepared, secured, seen},
    *,
};

const VERIFY: &str = "/x402/v1/verify";
const SETTLE: &str = "/x402/v1/settle";
const TOKEN: &str = "0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0";
const RESERVER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const IDENTIFIER: &str = "pay_7d5d747be160e280";

/// A gateway that answers a settle at once.
fn gateway() -> Gateway {
    Gateway::configured(|config| config.x402.settle_hold_ms_max = 0)
}

fn requirements() -> Value {
    json!({
        "scheme": "gw-escrow",
        "network": "eip155:31337",
        "asset": TOKEN,
        "payTo": RECIPIENT,
        "amount": "1100000",
        "maxTimeoutSeconds": 60,
        "extra": {"gw": {
            "destination": {"network": "eip155:31338", "asset": TOKEN, "address": RECIPIENT},
            "fulfillmentAmount": "1000000",
            "escrow": ESCROW,
            "fulfillmentProxy": PROXY,
            "reserver": RESERVER,
            "releaser": VERIFIER,
            "fulfillmentVerifierEndpoint": "http://127.0.0.1:8090",
            "quoteDeadlineSeconds": 60,
            "fulfillmentDeadlineSeconds": 600,
            "svmSignatureClusterId": "",
        }},
    })
}

/// A message in which everything is in order.
fn message() -> Value {
    json!({
        "x402Version": 2,
        "paymentPayload": {
            "x402Version": 2,
            "accepted": requirements(),
            "payload": {"paymentRequest": body()},
        },
        "paymentRequirements": requirements(),
    })
}

/// [`message`] for another payment request.
pub(super) fn message_of(request: &Value) -> Value {
    edited("/paymentPayload/payload/paymentRequest", request)
}

/// [`message`] with a value at a JSON pointer, or without it.
fn edited(pointer: &str, value: &Value) -> Value {
    let mut message = message();
    edit(&mut message, pointer, value);
    message
}

fn edit(message: &mut Value, pointer: &str, value: &Value) {
    if value == "REMOVED" {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        message.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    } else {
        set(message, pointer, value.clone());
    }
}

/// [`message`] with the same change in the requirement and in what the payer accepted.
fn required(pointer: &str, value: &Value) -> Value {
    let mut message = message();
    for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
        edit(&mut message, &format!("{at}{pointer}"), value);
    }
    message
}

fn requested(pointer: &str, value: &Value) -> Value {
    edited(&format!("/paymentPayload/payload/paymentRequest{pointer}"), value)
}

fn identified(mut message: Value, identifier: &str) -> Value {
    message["paymentPayload"]["extensions"] =
        json!({"payment-identifier": {"info": {"required": true, "id": identifier}}});
    message
}

/// Sends a message to both calls and checks the refusal's shape in each.
async fn refused(gateway: &Gateway, message: &Value, status: u16, reason: &str) -> String {
    let verified = gateway.post_to(VERIFY, message).await.expect(status);
    assert_eq!((&verified.body["isValid"], &verified.body["invalidReason"]), (&json!(false), &json!(reason)));
    let settled = gateway.post_to(SETTLE, message).await.expect(status);
    let body = &settled.body;
    assert_eq!((&body["success"], &body["errorReason"]), (&json!(false), &json!(reason)), "{settled:?}");
    assert_eq!(body["transaction"], "");
    assert!(body["network"].is_string() && body.get("fulfillmentConfirmation").is_none(), "{settled:?}");
    assert_eq!(body["errorMessage"], verified.body["invalidMessage"]);
    assert_eq!(body["extensions"], verified.body["extensions"]);
    assert_eq!(body["extensions"]["gw"]["state"], "rejected");
    let code = body["extensions"]["gw"]["code"].as_str().unwrap();
    assert_eq!(body["extensions"]["gw"]["docsUrl"], format!("https://pay.example/docs/errors#{code}"));
    assert!(body["extensions"]["gw"]["retryClassification"].is_string(), "{settled:?}");
    mirrored(&settled);
    for answer in [&verified, &settled] {
        assert_eq!(answer.headers.contains_key("retry-after"), status == 503, "{answer:?}");
        assert_eq!(answer.headers["content-type"], "application/json");
    }
    body["errorMessage"].as_str().unwrap().to_owned()
}

/// The header has the body, every byte of it.
#[track_caller]
fn mirrored(answer: &Answer) {
    let header = answer.headers["payment-response"].as_bytes();
    assert_eq!(BASE64.decode(header).unwrap(), answer.text.as_bytes());
}

/// What settling a payment is answered with before its delivery.
fn pending(id: &PaymentId, replay: bool) -> Value {
    json!({
        "success": false,
        "errorReason": "settlement_pending",
        "transaction": "",
        "network": "eip155:31338",
        "payer": PAYER,
        "extensions": {"gw": {
            "paymentId": id,
            "heldSeconds": 0,
            "state": "pending",
            "statusUrl": format!("https://pay.example/v1/payments/{id}/status"),
            "idempotentReplay": replay,
            "code": "SETTLEMENT_PENDING",
            "retryClassification": "RETRY_AFTER_DELAY",
            "docsUrl": "https://pay.example/docs/errors#SETTLEMENT_PENDING",
        }},
    })
}

/// What it is answered with after, where `status` is the status read.
fn completed(id: &PaymentId, delivery: &str, status: &Value) -> Value {
    json!({
        "success": true,
        "transaction": delivery,
        "network": "eip155:31338",
        "payer": PAYER,
        "extensions": {"gw": {
            "paymentId": id,
            "state": "completed",
            "statusUrl": format!("https://pay.example/v1/payments/{id}/status"),
            "idempotentReplay": true,
            "transactions": status["transactions"],
            "fulfillmentConfirmation": status["fulfillment_confirmation"],
        }},
        "fulfillmentConfirmation": status["fulfillment_confirmation"],
    })
}

#[tokio::test]
async fn a_payment_that_came_another_way_keeps_the_windows_of_the_requirement() {
    for (pointer, late, member) in [
        ("/quote_deadline", "2030-01-01T00:01:31Z", "quoteDeadlineSeconds"),
        ("/fulfillment_deadline", "2030-01-01T00:10:31Z", "fulfillmentDeadlineSeconds"),
    ] {
        let gateway = gateway();
        let long = with(pointer, json!(late));
        let id = gateway.post(&long).await.expect(200).payment_id();
        // As it was submitted, and with deadlines that the merchant takes.
        for request in [&long, &body()] {
            for message in [message_of(request), identified(message_of(request), IDENTIFIER)] {
                for blind in [false, true, false] {
                    gateway.payments.set_blind(blind);
                    let rule = refused(&gateway, &message, 200, "payment_requirements_mismatch").await;
                    assert!(rule.contains(&format!("extra.gw.{member}: differs")), "{rule}");
                }
            }
        }
        // A merchant who leaves them open takes the payment.
        let mut open = required(&format!("/extra/gw/{member}"), &json!("REMOVED"));
        edit(&mut open, "/paymentPayload/payload/paymentRequest", &long);
        let settled = gateway.post_to(SETTLE, &open).await.expect(200).body;
        assert_eq!(settled["extensions"]["gw"]["paymentId"], json!(id), "{settled}");
        assert_eq!(settled["extensions"]["gw"]["idempotentReplay"], true, "{settled}");
    }
    // The tolerance is that of a payment that is new.
    let gateway = gateway();
    let edge = with("/fulfillment_deadline", json!("2030-01-01T00:10:30Z"));
    let id = gateway.post(&edge).await.expect(200).payment_id();
    let settled = gateway.post_to(SETTLE, &message_of(&edge)).await.expect(200).body;
    assert_eq!(settled["extensions"]["gw"]["paymentId"], json!(id), "{settled}");
    // A domain of signatures is Solana's.
    let other = required("/extra/gw/svmSignatureClusterId", &json!("101"));
    let rule = refused(&gateway, &other, 200, "payment_requirements_mismatch").await;
    assert!(rule.contains("extra.gw.svmSignatureClusterId: differs"), "{rule}");
}

#[tokio::test]
async fn a_payment_is_verified_settled_and_told_for_ever() {
    let gateway = gateway();
    let verified = gateway.post_to(VERIFY, &message()).await.expect(200).body;
    let id: PaymentId = verified["extensions"]["gw"]["paymentId"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        verified,
        json!({
            "isValid": true,
            "payer": PAYER,
            "extensions": {"gw": {"paymentId": id, "idempotentReplay": false}},
        })
    );
    gateway.get(&format!("/v1/payments/{id}/status")).await.expect(404);

    let settle = async || {
        let answer = gateway.post_to(SETTLE, &message()).await.expect(200);
        mirrored(&answer);
        answer.body
    };
    let mut answer = settle().await;
    assert!(answer.as_object_mut().unwrap().remove("errorMessage").unwrap().is_string());
    assert_eq!(answer, pending(&id, false));
    let submitted = gateway.submitted(id.as_str()).await;
    assert_eq!((submitted.request_id.as_str(), submitted.request), ("order-1", body().to_string()));

    gateway.append(&id, vec![closed(&[]), awarded(reads::DOCUMENT), prepared()]).await;
    let deposit = Hash32([1; 32]).to_string();
    let mut answer = settle().await;
    answer.as_object_mut().unwrap().remove("errorMessage");
    let mut expected = pending(&id, true);
    expected["extensions"]["gw"]["transactions"] =
        json!({"deposit": {"transaction_hash": deposit, "chain_id": "eip155:31337"}});
    assert_eq!(answer, expected);

    gateway.append(&id, vec![secured(), seen()]).await;
    let answer = settle().await;
    // What `transaction` names, on the destination, is final.
    assert_eq!((&answer["transaction"], &answer["success"]), (&json!(""), &json!(false)));
    assert_eq!(answer["extensions"]["gw"]["state"], "finalizing");
    assert_eq!(answer["extensions"]["gw"]["transactions"]["deposit"]["transaction_hash"], deposit);

    gateway.append(&id, vec![confirmed()]).await;
    let answer = settle().await;
    let delivery = Hash32([2; 32]).to_string();
    let status = gateway.get(&format!("/v1/payments/{id}/status")).await.expect(200).body;
    assert_eq!(answer, completed(&id, &delivery, &status));
    assert_eq!(answer["fulfillmentConfirmation"]["destination_tx_hash"], delivery);

    // Deadlines and funds are of no interest any more.
    gateway.clock.set("2031-01-01T00:00:00Z");
    gateway.funds.set(0, 0);
    assert_eq!(settle().await, answer);
    let known = gateway.post_to(VERIFY, &message()).await.expect(200).body;
    assert_eq!(known["isValid"], true);
    assert_eq!(known["extensions"], answer["extensions"]);
}

#[tokio::test]
async fn a_failed_payment_stays_failed() {
    let gateway = gateway();
    let pending = gateway.post_to(SETTLE, &message()).await.expect(200).body;
    let id: PaymentId = pending["extensions"]["gw"]["paymentId"].as_str().unwrap().parse().unwrap();
    gateway.append(&id, vec![failed(no_quotes())]).await;
    let answer = gateway.post_to(SETTLE, &message()).await.expect(200);
    mirrored(&answer);
    let gw = &answer.body["extensions"]["gw"];
    assert_eq!(answer.body["success"], false);
    assert_eq!(answer.body["errorReason"], "no_quotes_received");
    assert_eq!(answer.body["errorMessage"], "nobody offered");
    assert_eq!((&answer.body["transaction"], &answer.body["network"]), (&json!(""), &json!("eip155:31338")));
    assert_eq!((&gw["state"], &gw["code"]), (&json!("failed"), &json!("NO_QUOTES_RECEIVED")));
    assert_eq!(gw["retryClassification"], "RETRY_WITH_NEW_REQUEST_ID");
    assert_eq!(gw["error"]["message"], "nobody offered");
    let known = gateway.post_to(VERIFY, &message()).await.expect(200).body;
    assert_eq!((&known["isValid"], &known["invalidReason"]), (&json!(false), &json!("no_quotes_received")));
}

/// What a requirement may leave out or write in another way.
#[tokio::test]
async fn requirements_have_more_than_one_form() {
    let gateway = gateway();
    for (pointer, value) in [
        ("/asset", json!(SOURCE_ASSET)),
        ("/asset", json!("0x9FE46736679D2D9A65F0992F2272DE9F3C7FA6E0")),
        ("/payTo", json!("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")),
        ("/payTo", json!(ESCROW)),
        ("/maxTimeoutSeconds", json!(1)),
        ("/description", json!("of no interest")),
        ("/extra/name", json!("of no interest")),
        ("/extra/gw/destination/asset", json!(DESTINATION_ASSET)),
        ("/extra/gw/destination/address", json!("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")),
        ("/extra/gw/escrow", json!("0x5FbDB2315678afecb367f032d93F642f64180aa3")),
        ("/extra/gw/escrow", json!("")),
        ("/extra/gw/escrow", json!("REMOVED")),
        ("/extra/gw/fulfillmentProxy", json!("REMOVED")),
        ("/extra/gw/reserver", json!("REMOVED")),
        ("/extra/gw/releaser", json!("REMOVED")),
        ("/extra/gw/fulfillmentVerifierEndpoint", json!("REMOVED")),
        ("/extra/gw/quoteDeadlineSeconds", json!("REMOVED")),
        ("/extra/gw/fulfillmentDeadlineSeconds", json!("REMOVED")),
        // Within the tolerance for clocks.
        ("/extra/gw/quoteDeadlineSeconds", json!(30)),
        ("/extra/gw/fulfillmentDeadlineSeconds", json!(570)),
        ("/extra/gw/svmSignatureClusterId", json!("REMOVED")),
    ] {
        let answer = gateway.post_to(VERIFY, &required(pointer, &value)).await.expect(200);
        assert_eq!(answer.body["isValid"], true, "{pointer} = {value}: {answer:?}");
    }
    // What was accepted may hold more in `extra`.
    for (pointer, value) in [("/extra/name", json!("more")), ("/extra/gw/note", json!({"and": "more"}))] {
        let message = edited(&format!("/paymentPayload/accepted{pointer}"), &value);
        let answer = gateway.post_to(VERIFY, &message).await.expect(200);
        assert_eq!(answer.body["isValid"], true, "{pointer}: {answer:?}");
    }
    // Contracts that are trusted besides, when both sides name them.
    for (member, field, value) in [
        ("escrow", "/escrow_contract_address", json!(TRUSTED)),
        ("fulfillmentProxy", "/fulfillment_proxy", json!(TRUSTED)),
    ] {
        let mut message = required(&format!("/extra/gw/{member}"), &value);
        set(&mut message, &format!("/paymentPayload/payload/paymentRequest{field}"), value);
        let answer = gateway.post_to(VERIFY, &message).await.expect(200);
        assert_eq!(answer.body["isValid"], true, "{member}: {answer:?}");
    }
    let mut message = required("/extra/gw/releaser", &json!(TRUSTED));
    for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
        set(&mut message, &format!("{at}/extra/gw/fulfillmentVerifierEndpoint"), json!("https://verifier.example"));
    }
    let verifier = json!({"account": TRUSTED, "endpoint": "https://verifier.example"});
    set(&mut message, "/paymentPayload/payload/paymentRequest/fulfillment_verifier", verifier);
    let answer = gateway.post_to(VERIFY, &message).await.expect(200);
    assert_eq!(answer.body["isValid"], true, "{answer:?}");
}

#[tokio::test]
async fn a_request_id_has_one_payment_here_too() {
    let gateway = gateway();
    let submitted = gateway.post(&body()).await.expect(200);
    let settled = gateway.post_to(SETTLE, &message()).await.expect(200).body;
    assert_eq!(settled["extensions"]["gw"]["paymentId"], submitted.body["payment_id"]);
    assert_eq!(settled["extensions"]["gw"]["idempotentReplay"], true);
    // Other terms under it.
    let mut message = required("/amount", &json!("1200000"));
    set(&mut message, "/paymentPayload/payload/paymentRequest/max_source_amount", json!("1200000"));
    for path in [VERIFY, SETTLE] {
        let answer = gateway.post_to(path, &message).await.expect(409).body;
        let reason = answer.get("invalidReason").or(answer.get("errorReason"));
        assert_eq!(reason, Some(&json!("idempotency_terms_mismatch")));
        assert_eq!(answer["extensions"]["gw"]["paymentId"], submitted.body["payment_id"]);
    }
}

#[tokio::test]
async fn two_settles_at_once_are_one_payment() {
    let gateway = gateway();
    let (one, two) = (identified(message(), IDENTIFIER), identified(message(), IDENTIFIER));
    let (one, two) = tokio::join!(gateway.post_to(SETTLE, &one), gateway.post_to(SETTLE, &two));
    let replays = [one, two].map(|answer| answer.expect(200).body["extensions"]["gw"]["idempotentReplay"] == true);
    assert!(replays == [false, true] || replays == [true, false], "{replays:?}");
}

#[tokio::test]
async fn a_settle_is_held_until_it_is_delivered_or_the_time_is_over() {
    let gateway = Gateway::configured(|config| config.x402.settle_hold_ms_max = 60_000);
    let id: PaymentId = gateway.post(&body()).await.expect(200).payment_id();
    let held = required("/maxTimeoutSeconds", &json!(50));
    let settle = gateway.post_to(SETTLE, &held);
    let deliver = async {
        gateway.append(&id, vec![closed(&[]), awarded(reads::DOCUMENT), prepared()]).await;
        gateway.append(&id, vec![secured(), seen()]).await;
        gateway.append(&id, vec![confirmed()]).await;
    };
    let (answer, ()) = tokio::join!(settle, deliver);
    assert_eq!(answer.expect(200).body["success"], true);

    // Nothing happens to this one.
    let mut short = required("/maxTimeoutSeconds", &json!(1));
    set(&mut short, "/paymentPayload/payload/paymentRequest/request_id", json!("order-2"));
    let answer = gateway.post_to(SETTLE, &short).await.expect(200);
    assert_eq!(answer.body["errorReason"], "settlement_pending");
    // It was held for as long as the merchant asked for.
    assert_eq!(answer.body["extensions"]["gw"].get("heldSeconds"), None, "{answer:?}");
    // Nor does it wait where the caller does not want to.
    let mut impatient = required("/maxTimeoutSeconds", &json!(1_000_000));
    set(&mut impatient, "/paymentPayload/payload/paymentRequest/request_id", json!("order-3"));
    let request = Request::post(SETTLE).header("content-type", "application/json").header("prefer", "wait=0");
    let answer = gateway.send(request.body(impatient.to_string().into()).unwrap()).await.expect(200);
    assert_eq!(answer.body["errorReason"], "settlement_pending");
    assert_eq!(answer.body["extensions"]["gw"]["heldSeconds"], 0);

    // What the gateway's bound cuts it to is said beforehand and afterwards.
    let gateway = Gateway::configured(|config| config.x402.settle_hold_ms_max = 1_000);
    let answer = gateway.post_to(SETTLE, &required("/maxTimeoutSeconds", &json!(2))).await.expect(200);
    assert_eq!(answer.body["errorReason"], "settlement_pending");
    assert_eq!(answer.body["extensions"]["gw"]["heldSeconds"], 1);
    let supported = gateway.get("/x402/v1/supported").await.expect(200);
    assert_eq!(supported.body["kinds"][0]["extra"]["gw"]["maxTimeoutSeconds"], 1);
}

/// Whoever has seen a message can repeat it, so repetitions leave half of the places to those who pay.
#[tokio::test]
async fn replays_of_a_settle_are_held_as_what_nobody_proved() {
    let gateway = Arc::new(Gateway::configured(|config| {
        config.limits.exempt = Networks::default();
        config.x402.settle_hold_ms_max = 60_000;
        config.http.holds_max = 2;
    }));
    let settle = |from: &str, request_id: &str| {
        limits::request(from, "POST", SETTLE, Some(&requested("/request_id", &json!(request_id))))
    };
    let spawn = |request: Request<Body>| {
        let gateway = gateway.clone();
        tokio::spawn(async move { gateway.send(request).await })
    };
    let held = async |count: usize| {
        while gateway.state.long_polls.available_permits() != 2 - count {
            tokio::task::yield_now().await;
        }
    };
    let mut first = settle("198.51.100.1", "order-1");
    first.headers_mut().insert("prefer", "wait=0".parse().unwrap());
    gateway.send(first).await.expect(200);
    let replay = spawn(settle("198.51.100.1", "order-1"));
    held(1).await;
    // The next one is answered at once, from wherever it comes.
    let answer = gateway.send(settle("198.51.100.2", "order-1")).await.expect(200);
    assert_eq!(answer.body["extensions"]["gw"]["idempotentReplay"], true);
    assert!(!replay.is_finished());
    // The control: a payment of one's own is held.
    let paying = spawn(settle("203.0.113.1", "order-2"));
    held(2).await;
    assert!(!paying.is_finished());
    gateway.stopping.cancel();
    for held in [replay, paying] {
        held.await.unwrap().expect(200);
    }
}

#[tokio::test]
async fn an_outcome_that_is_not_known_is_said_to_be_so() {
    let journal = Arc::new(idempotency::Unresolvable::unknown());
    let gateway = Gateway::with_journal(journal, MemoryJournal::new(4), |config| config.x402.settle_hold_ms_max = 0);
    let answer = gateway.post_to(SETTLE, &message()).await.expect(500);
    assert_eq!(answer.body["errorReason"], "outcome_unknown");
    assert_eq!(answer.body["extensions"]["gw"]["state"], "unknown");
    assert_eq!(answer.body["extensions"]["gw"]["retryClassification"], "RECONCILE_THEN_DECIDE");
    assert!(answer.body["extensions"]["gw"]["paymentId"].is_string());
    mirrored(&answer);
}

#[tokio::test]
async fn the_status_is_a_page_for_browsers() {
    let gateway = gateway();
    let settled = gateway.post_to(SETTLE, &message()).await.expect(200).body;
    let url = settled["extensions"]["gw"]["statusUrl"].as_str().unwrap();
    let path = url.strip_prefix("https://pay.example").unwrap().to_owned();
    let browse = async || {
        let request = Request::get(&path).header("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
        let answer = gateway.send(request.body(Body::empty()).unwrap()).await.expect(200);
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
        assert!(answer.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
        assert!(answer.headers.get_all("vary").iter().any(|value| value.to_str().unwrap().contains("accept")));
        assert_eq!(answer.text.matches("<script").count(), 1, "{}", answer.text);
        answer.text
    };
    let id: PaymentId = settled["extensions"]["gw"]["paymentId"].as_str().unwrap().parse().unwrap();
    let page = browse().await;
    assert!(page.contains("Payment pending") && page.contains(id.as_str()), "{page}");
    assert!(page.contains("http-equiv=\"refresh\""), "{page}");
    let mut failure = no_quotes();
    failure.message = "<b>nobody & nothing</b>".to_owned();
    gateway.append(&id, vec![failed(failure)]).await;
    let page = browse().await;
    assert!(page.contains("Payment failed") && page.contains("&lt;b&gt;nobody &amp; nothing&lt;/b&gt;"), "{page}");
    assert!(page.contains("https://pay.example/docs/errors#NO_QUOTES_RECEIVED"), "{page}");
    assert!(!page.contains("http-equiv"), "{page}");
    assert_eq!(gateway.get(&path).await.expect(200).body["status"], "failed");
}
