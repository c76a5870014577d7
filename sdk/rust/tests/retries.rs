//! Retries: the same bytes until there is an answer, and what only its caller can decide at once.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use events::{OwnedAsset, PaymentId, QuoteRequestId, failure::RetryClassification};
use gateway_client::{Error, Gateway, Next, Order, Status, Submission, Windows};

use crate::scripted::{Answer, Scripted, refusal};

fn order() -> Order {
    let owned =
        |asset: &str| OwnedAsset::new(asset.parse().unwrap(), "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed").unwrap();
    Order::new(
        owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
        vec![owned("eip155:10/slip44:60")],
        "5".parse().unwrap(),
        Some("6".parse().unwrap()),
        chrono::Utc::now(),
        Windows::default(),
    )
}

fn submission() -> Submission {
    Submission::new(&order().under("order-1"), json!({"message_scheme": "EVM_PERMIT2_ESCROW"})).unwrap()
}

fn accepted(id: &PaymentId) -> Value {
    json!({"payment_id": id, "status": "pending", "idempotent_replay": true, "later": {"member": 1}})
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[tokio::test]
async fn a_submission_is_sent_with_the_same_bytes_until_its_outcome_is_known() {
    let submission = submission();
    let gateway = Scripted::start([
        Answer::Text(502, "<html>"),
        Answer::Json(500, json!({"error": "a panic"})),
        Answer::Json(500, refusal("OUTCOME_UNKNOWN")),
        Answer::With(429, ("retry-after", "1"), refusal("RATE_LIMITED")),
        Answer::Text(200, "cut off"),
        Answer::With(200, ("x-position", "7"), accepted(&submission.payment_id)),
    ])
    .await;
    let began = Instant::now();
    let payment = gateway.client.submit(&submission, soon()).await.unwrap();
    assert_eq!((payment.status, payment.idempotent_replay), (Status::Pending, Some(true)));
    assert_eq!((payment.position.as_deref(), &payment.more["later"]["member"]), (Some("7"), &json!(1)));
    assert!(began.elapsed() >= Duration::from_secs(1), "Retry-After was not honoured");
    let asked = gateway.asked();
    assert_eq!(asked.len(), 6);
    for one in &asked {
        assert_eq!((one.path.as_str(), &one.body[..]), ("/base/v1/payments", submission.body.as_bytes()));
        assert_eq!(one.headers["prefer"], "wait=25");
    }
}

#[tokio::test]
async fn the_secret_of_a_batch_goes_along_with_the_question_for_its_address() {
    let (order, secret) = (order(), gateway_client::caller_secret());
    let id = QuoteRequestId::derive("eip155:0x1", "order-1");
    let mut batch = order.body().unwrap();
    batch.extend([("quote_request_id".to_owned(), json!(id)), ("status".to_owned(), json!("collecting"))]);
    let given = accepted(&submission().payment_id);
    let gateway = Scripted::start([
        Answer::Json(200, Value::Object(batch.clone())),
        Answer::Json(200, given.clone()),
        Answer::Json(200, Value::Object(batch)),
        Answer::Json(200, given),
    ])
    .await;
    for secret in [Some(secret.as_str()), None] {
        gateway.client.open(&order, secret).await.unwrap();
        gateway.client.deposit_address(&id, None, None, secret).await.unwrap();
    }
    let asked = gateway.asked();
    assert_eq!(asked[1].path, format!("/base/v1/payments/quote-requests/{id}/address"));
    let sent: Vec<_> = asked.iter().map(|one| one.headers.get("caller-secret").map(|sent| sent.as_bytes())).collect();
    let secret = Some(secret.as_bytes());
    assert_eq!(sent, [secret, secret, None, None]);
    for illegal in ["correct horse battery", "kein-schlüssel-hier", "too-short"] {
        let error = gateway.client.open(&order, Some(illegal)).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    assert_eq!(gateway.asked().len(), 4);
}

#[tokio::test]
async fn what_only_its_caller_can_decide_is_returned_at_once() {
    for (status, classification, next) in [
        (400, "NOT_RETRYABLE_FIX_REQUEST", Next::FixRequest),
        (400, "RETRY_AFTER_DELAY", Next::ChangeThenSend),
        (409, "RETRY_WITH_NEW_REQUEST_ID", Next::NewRequestId),
        (409, "RECONCILE_THEN_DECIDE", Next::Reconcile),
        (403, "NOT_RETRYABLE", Next::GiveUp),
        (401, "A_LATER_WORD", Next::Unclassified),
    ] {
        let mut body = refusal("SOME_CODE");
        body["retry_classification"] = classification.into();
        body["request_id_reusable"] = true.into();
        body["docs_url"] = "https://pay.example/docs/errors#SOME_CODE".into();
        let gateway = Scripted::start([Answer::Json(status, body)]).await;
        let error = gateway.client.submit(&submission(), soon()).await.unwrap_err();
        assert!(!error.is_unknown(), "{error}");
        let refusal = error.refusal().unwrap();
        assert_eq!((refusal.next(), refusal.status, refusal.code.as_str()), (next, status, "SOME_CODE"));
        assert_eq!((refusal.field(), refusal.request_id_reusable), (Some("destination[0].account"), Some(true)));
        assert!(refusal.docs_url.as_deref().is_some_and(|url| url.ends_with("#SOME_CODE")));
        assert_eq!(gateway.asked().len(), 1);
    }
    assert_eq!(serde_json::to_value(RetryClassification::NotRetryable).unwrap(), "NOT_RETRYABLE");
}

#[tokio::test]
async fn silence_up_to_the_end_is_unknown_and_a_pause_is_not() {
    let submission = submission();
    let nobody = Gateway::new("http://127.0.0.1:1").unwrap();
    let until = || Instant::now() + Duration::from_millis(700);
    let error = nobody.submit(&submission, until()).await.unwrap_err();
    assert!(error.is_unknown() && matches!(error, Error::NoAnswer(_)), "{error}");
    let paused = Scripted::start([]).await;
    let error = paused.client.submit(&submission, until()).await.unwrap_err();
    assert!(!error.is_unknown() && paused.asked().len() >= 2, "{error}");
    // Whoever redirects is not a gateway, and is sent nothing more.
    let elsewhere = ("location", "http://127.0.0.1:1/v1/payments");
    let redirects = Scripted::start([Answer::With(307, elsewhere, json!({}))]).await;
    let error = redirects.client.submit(&submission, soon()).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("307")), "{error}");
    // Nor is one that answers about another payment.
    let other = PaymentId::derive("eip155:0x1", "another");
    let liar = Scripted::start([Answer::Json(200, accepted(&other))]).await;
    let error = liar.client.submit(&submission, soon()).await.unwrap_err();
    assert!(matches!(&error, Error::Mismatch(mismatch) if mismatch.field == "payment_id"), "{error}");
}

#[tokio::test]
async fn a_payment_is_read_from_where_it_was_seen_until_it_is_over() {
    let id = submission().payment_id;
    let status = |status: &str| json!({"payment_id": id, "status": status, "updated_at": "2027-01-15T08:00:10Z"});
    let failed = json!({
        "payment_id": id, "status": "failed",
        "error": {"code": "NO_QUOTES_RECEIVED", "message": "…", "retry_classification": "RETRY_WITH_NEW_REQUEST_ID"},
    });
    let gateway = Scripted::start([
        Answer::With(200, ("x-position", "3"), status("pending")),
        Answer::Text(502, "away"),
        Answer::With(200, ("x-position", "5"), status("finalizing")),
        Answer::Json(200, failed),
    ])
    .await;
    let payment = gateway.client.wait(&id, soon()).await.unwrap();
    assert_eq!(payment.status, Status::Failed);
    assert_eq!(payment.error.unwrap().next(), Next::NewRequestId);
    let positions: Vec<_> = gateway.asked().iter().map(|one| one.headers.get("x-position").cloned()).collect();
    let seen = |text: &'static str| Some(text.parse().unwrap());
    assert_eq!(positions, [None, seen("3"), seen("3"), seen("5")]);

    let gateway = Scripted::start([Answer::Json(200, status("pending"))]).await;
    let payment = gateway.client.wait(&id, Instant::now()).await.unwrap();
    assert_eq!(payment.status, Status::Pending, "time was up");
}

#[test]
fn a_gateway_has_an_address_of_the_web() {
    for wrong in ["", "pay.example", "ftp://pay.example", "https://pay.example/?a=1", "https://pay.example/#a"] {
        assert!(Gateway::new(wrong).is_err(), "{wrong}");
    }
    assert!(Gateway::new("https://pay.example/gateway/").is_ok());
}
