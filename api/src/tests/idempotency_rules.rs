//! The idempotency rules of the contract, each by its number. Those that need processes are in `tests/idempotency.rs`.

use serde_json::json;

use journal::{ShardLog, StreamStore, memory::Fault};

use super::{
    reads::{DOCUMENT, awarded, closed, confirmed, failed, no_quotes, prepared, secured, seen},
    *,
};

const PAYMENTS: &str = "/v1/payments";
const QUOTE_REQUESTS: &str = "/v1/payments/quote-requests";

/// Both writes that the rules are for, with a body in which everything is in order.
fn writes() -> [(&'static str, Value); 2] {
    [(PAYMENTS, body()), (QUOTE_REQUESTS, without("/sender_auth"))]
}

/// The id of what a write created or found.
fn id(answer: &Answer) -> String {
    let id = answer.body.get("payment_id").or_else(|| answer.body.get("quote_request_id"));
    id.and_then(Value::as_str).unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

fn replay(answer: &Answer) -> bool {
    answer.body["idempotent_replay"].as_bool().unwrap_or_else(|| panic!("no boolean: {answer:?}"))
}

fn changed(body: &Value, pointer: &str, value: &Value) -> Value {
    let mut body = body.clone();
    set(&mut body, pointer, value.clone());
    body
}

fn lacking(body: &Value, name: &str) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().remove(name).unwrap();
    body
}

#[tokio::test]
async fn rule_1_the_key_is_the_body_s_request_id() {
    for (path, body) in writes() {
        let gateway = Gateway::new();
        let longest = "x".repeat(128);
        for good in ["a", "order-7", "2024.12_A-z", "...", "7f1c3b1e-2f5a-4d5e-9d5c-0a1b2c3d4e5f", &longest] {
            let request = changed(&body, "/request_id", &json!(good));
            assert!(!replay(&gateway.post_to(path, &request).await.expect(200)), "{good}");
        }
        for bad in ["", "a b", "a/b", "a:b", "a#b", "ä", "a\n", "a\u{0}", "a,b", "%41", &"x".repeat(129)] {
            let request = changed(&body, "/request_id", &json!(bad));
            gateway.post_to(path, &request).await.expect_error(400, "INVALID_REQUEST_ID");
        }
        // A header of that name means nothing.
        let post = |key: &str| {
            let request = Request::post(path).header("content-type", "application/json").header("idempotency-key", key);
            gateway.send(request.body(body.to_string().into()).unwrap())
        };
        assert!(!replay(&post("one").await.expect(200)));
        assert!(replay(&post("another").await.expect(200)));
    }
}

#[tokio::test]
async fn rule_2_keys_belong_to_an_originator_and_to_payments_or_quote_requests() {
    let gateway = Gateway::new();
    let mut ids = Vec::new();
    for (path, body) in writes() {
        for payer in [PAYER, RECIPIENT] {
            let answer = gateway.post_to(path, &changed(&body, "/source/account", &json!(payer))).await.expect(200);
            assert!(!replay(&answer), "{path} {payer}");
            ids.push(id(&answer));
        }
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    // Other terms under the id of the other kind are not a mismatch either.
    let gateway = Gateway::new();
    gateway.post(&body()).await.expect(200);
    let other = changed(&without("/sender_auth"), "/fulfillment_amount", &json!("5"));
    assert!(!replay(&gateway.post_to(QUOTE_REQUESTS, &other).await.expect(200)));
}

#[tokio::test]
async fn rule_3_the_same_economics_return_the_original_and_create_nothing() {
    for (path, body) in writes() {
        let gateway = Gateway::new();
        let first = gateway.post_to(path, &body).await.expect(200);
        for blind in [false, true] {
            gateway.payments.set_blind(blind);
            for _ in 0..3 {
                let again = gateway.post_to(path, &body).await.expect(200);
                assert!(replay(&again) && id(&again) == id(&first), "{again:?}");
            }
        }
        let heads = futures::future::join_all((0..4).map(|shard| gateway.journal.head(shard))).await;
        let commits: u64 = heads.into_iter().map(Result::unwrap).sum();
        assert_eq!(commits, 1, "{path}");
    }
    // With the status that it has now.
    let gateway = Gateway::new();
    let first = gateway.post(&body()).await.expect(200);
    assert_eq!(first.body["status"], "pending");
    gateway.append(&first.payment_id(), vec![closed(&[]), awarded(DOCUMENT), prepared(), secured(), seen()]).await;
    assert_eq!(gateway.post(&body()).await.expect(200).body["status"], "finalizing");
}

#[tokio::test]
async fn rule_4_every_write_says_whether_it_is_a_replay() {
    for (path, body) in writes() {
        let gateway = Gateway::new();
        for expected in [false, true, true] {
            assert_eq!(gateway.post_to(path, &body).await.expect(200).body["idempotent_replay"], json!(expected));
        }
    }
}

#[tokio::test]
async fn rule_5_changed_economics_are_a_mismatch() {
    let second = json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT});
    for (path, body) in writes() {
        let gateway = Gateway::new();
        gateway.post_to(path, &body).await.expect(200);
        for (pointer, value) in [
            // Another asset under the same account.
            ("/source/asset_identifier", json!(DESTINATION_ASSET)),
            ("/destination/0/asset_identifier", json!(SOURCE_ASSET)),
            ("/destination/0/account", json!(PAYER)),
            ("/destination/1", second.clone()),
            ("/fulfillment_amount", json!("1000001")),
            ("/fulfillment_amount", json!("999999")),
            ("/max_source_amount", json!("1099999")),
            ("/max_source_amount", json!("1100001")),
        ] {
            for blind in [false, true] {
                gateway.payments.set_blind(blind);
                let answer = gateway.post_to(path, &changed(&body, pointer, &value)).await;
                let answer = answer.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
                assert_eq!(answer.body["request_id_reusable"], false, "{pointer}");
                assert_eq!(answer.body["retry_classification"], "RETRY_WITH_NEW_REQUEST_ID", "{pointer}");
            }
        }
        gateway.payments.set_blind(false);
        let uncapped = lacking(&body, "max_source_amount");
        gateway.post_to(path, &uncapped).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
        assert!(replay(&gateway.post_to(path, &body).await.expect(200)));

        // Absent and then added, even as large as it can be.
        let gateway = Gateway::new();
        gateway.post_to(path, &uncapped).await.expect(200);
        gateway.post_to(path, &body).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
        assert!(replay(&gateway.post_to(path, &uncapped).await.expect(200)));

        // Destinations are a set: their order means nothing, one more or one less does.
        let gateway = Gateway::new();
        let mut two = changed(&body, "/destination/1", &second);
        gateway.post_to(path, &two).await.expect(200);
        two["destination"].as_array_mut().unwrap().reverse();
        assert!(replay(&gateway.post_to(path, &two).await.expect(200)));
        let third = json!({"asset_identifier": SOURCE_ASSET, "account": PAYER});
        let three = changed(&two, "/destination/2", &third);
        gateway.post_to(path, &three).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
        gateway.post_to(path, &body).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");

        // Another way of writing the same is the same.
        let gateway = Gateway::new();
        gateway.post_to(path, &body).await.expect(200);
        for (pointer, value) in [
            ("/source/account", json!("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")),
            ("/source/asset_identifier", json!(SOURCE_ASSET.replace("31337", "031337"))),
            ("/destination/0/account", json!("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")),
        ] {
            assert!(replay(&gateway.post_to(path, &changed(&body, pointer, &value)).await.expect(200)), "{pointer}");
        }
    }
}

#[tokio::test]
async fn rule_6_deadlines_and_signature_may_differ_and_expire() {
    for (path, body) in writes() {
        let gateway = Gateway::new();
        let first = gateway.post_to(path, &body).await.expect(200);
        let mut retries = vec![
            changed(&body, "/quote_deadline", &json!("2030-01-01T00:02:00Z")),
            changed(&body, "/fulfillment_deadline", &json!("2030-01-02T00:00:00Z")),
            changed(&body, "/quote_deadline", &json!("2020-01-01T00:00:00Z")),
        ];
        let mut expired = changed(&body, "/quote_deadline", &json!("2020-01-01T00:00:00Z"));
        set(&mut expired, "/fulfillment_deadline", json!("2020-01-01T00:00:09Z"));
        retries.push(expired);
        if path == PAYMENTS {
            retries.push(changed(&body, "/sender_auth/signed_messages/0/signature", &json!("0x33")));
        }
        for time in ["2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z"] {
            gateway.clock.set(time);
            for blind in [false, true] {
                gateway.payments.set_blind(blind);
                for retry in retries.iter().chain([&body]) {
                    let answer = gateway.post_to(path, retry).await.expect(200);
                    assert!(replay(&answer) && id(&answer) == id(&first), "{retry}");
                }
            }
        }
        // What is new needs deadlines in the future.
        let new = changed(&body, "/request_id", &json!("order-2"));
        gateway.post_to(path, &new).await.expect_error(400, "INVALID_DEADLINE");
    }
    // The original window is neither extended nor cut.
    let gateway = Gateway::new();
    let first = gateway.post(&body()).await.expect(200);
    gateway.post(&with("/fulfillment_deadline", json!("2030-06-01T00:00:00Z"))).await.expect(200);
    let submitted = gateway.submitted(first.payment_id().as_str()).await;
    assert_eq!(submitted.fulfillment_deadline, at("2030-01-01T00:10:00Z"));
}

/// It takes a proven originator to have several accounts under one key, so the other account's payment is put into the
/// journal as it will be then.
#[tokio::test]
async fn rule_7_an_id_in_use_by_another_account_is_taken() {
    let gateway = Gateway::new();
    let foreign = gateway.post(&with("/source/account", json!(RECIPIENT))).await.expect(200);
    let mut submitted = gateway.submitted(foreign.payment_id().as_str()).await;
    submitted.payment_id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-1");
    let taken = submitted.payment_id.clone();
    gateway.append(&taken, vec![PaymentEvent::Submitted(Box::new(submitted))]).await;
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        // Whatever else differs, the account is what is said.
        for body in [body(), with("/fulfillment_amount", json!("5"))] {
            let answer = gateway.post(&body).await.expect_error(409, "REQUEST_ID_TAKEN");
            assert!(answer.body.get("payment_id").is_none());
            assert_eq!(answer.body["retry_classification"], "RETRY_WITH_NEW_REQUEST_ID");
        }
    }
}

#[tokio::test]
async fn rule_8_failed_is_terminal_and_a_new_attempt_needs_a_new_id() {
    let gateway = Gateway::new();
    let first = gateway.post(&body()).await.expect(200);
    gateway.append(&first.payment_id(), vec![closed(&[]), failed(no_quotes())]).await;
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        let again = gateway.post(&body()).await.expect(200);
        assert!(replay(&again) && id(&again) == id(&first));
        assert_eq!(
            (&again.body["status"], &again.body["error"]["code"]),
            (&json!("failed"), &json!("NO_QUOTES_RECEIVED"))
        );
        assert_eq!(again.body["error"]["request_id_reusable"], false);
    }
    let fresh = gateway.post(&with("/request_id", json!("order-1-again"))).await.expect(200);
    assert!(!replay(&fresh) && id(&fresh) != id(&first));
    assert_eq!(gateway.journal.load(&first.payment_id().into()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn rule_9_a_completed_payment_is_still_replayed() {
    let gateway = Gateway::new();
    let first = gateway.post(&body()).await.expect(200);
    let events = vec![closed(&[]), awarded(DOCUMENT), prepared(), secured(), seen(), confirmed()];
    gateway.append(&first.payment_id(), events).await;
    gateway.clock.set("2040-01-01T00:00:00Z");
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        let again = gateway.post(&body()).await.expect(200);
        assert!(replay(&again) && id(&again) == id(&first));
        assert_eq!(again.body["status"], "completed");
        assert!(again.body["fulfillment_confirmation"].is_object(), "{again:?}");
    }
}

#[tokio::test]
async fn rule_10_after_a_503_nothing_is_there_and_the_same_id_is_free() {
    for (path, body) in writes() {
        let gateway = Gateway::new();
        let empty = || async {
            let heads = futures::future::join_all((0..4).map(|shard| gateway.journal.head(shard))).await;
            heads.into_iter().map(Result::unwrap).sum::<u64>() == 0
        };
        gateway.journal.inject(Fault::Unavailable);
        let answer = gateway.post_to(path, &body).await.expect_error(503, "SERVICE_UNAVAILABLE");
        assert_eq!(answer.body["request_id_reusable"], true);
        assert!(empty().await, "{path}");
        gateway.pause.send_replace(true);
        gateway.post_to(path, &body).await.expect_error(503, "SERVICE_PAUSED");
        assert!(empty().await, "{path}");
        gateway.pause.send_replace(false);
        assert!(!replay(&gateway.post_to(path, &body).await.expect(200)));
    }
}

#[tokio::test]
async fn rule_11_a_replayed_quote_request_echoes_the_original() {
    let gateway = Gateway::new();
    let (path, body) = writes()[1].clone();
    let first = gateway.post_to(path, &body).await.expect(200);
    let mut retry = changed(&body, "/quote_deadline", &json!("2030-01-01T00:03:00Z"));
    set(&mut retry, "/fulfillment_deadline", json!("2031-01-01T00:00:00Z"));
    for time in ["2030-01-01T00:00:00Z", "2032-01-01T00:00:00Z"] {
        gateway.clock.set(time);
        let again = gateway.post_to(path, &retry).await.expect(200);
        assert!(replay(&again));
        for member in [
            "quote_request_id",
            "source",
            "destination",
            "fulfillment_amount",
            "max_source_amount",
            "quote_deadline",
            "fulfillment_deadline",
        ] {
            assert_eq!(again.body[member], first.body[member], "{member}");
        }
        let deadline = again.body["fulfillment_deadline"].as_str().unwrap();
        assert_eq!(at(deadline), at("2030-01-01T00:10:00Z"));
    }
}
