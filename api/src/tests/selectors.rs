//! Requests that name a quote selector.

use chrono::TimeDelta;

use super::{quote_requests::quote_request, *};

#[tokio::test]
async fn a_trusted_selector_is_journaled_in_one_form_with_its_time() {
    let gateway = Gateway::new();
    for (request_id, named) in [("a", SELECTOR.to_owned()), ("b", SELECTOR.to_lowercase())] {
        let mut body = with("/quote_selector", named.into());
        set(&mut body, "/request_id", json!(request_id));
        let id = gateway.post(&body).await.expect(200).payment_id();
        let submitted = gateway.submitted(id.as_str()).await;
        let selector = submitted.selector.unwrap();
        assert_eq!(selector.key.to_string(), SELECTOR.to_lowercase());
        assert_eq!(selector.answer_by, submitted.quote_deadline + TimeDelta::seconds(5));
    }
    let id = gateway.post(&with("/quote_selector", json!(""))).await.expect(200).payment_id();
    assert_eq!(gateway.submitted(id.as_str()).await.selector, None);
}

#[tokio::test]
async fn half_of_the_time_for_the_deposit_is_left_for_the_deposit() {
    let gateway = Gateway::configured(|config| config.trust.selector_ms_max = 60_000);
    let mut body = with("/quote_selector", json!(SELECTOR));
    set(&mut body, "/quote_deadline", json!("2030-01-01T00:09:50Z"));
    let id = gateway.post(&body).await.expect(200).payment_id();
    let submitted = gateway.submitted(id.as_str()).await;
    let end = i64::try_from(submitted.escrow.reserve_deadline).unwrap();
    let left = TimeDelta::seconds(end - submitted.quote_deadline.timestamp());
    assert!(left > TimeDelta::zero() && left < TimeDelta::seconds(120), "{left}");
    assert_eq!(submitted.selector.unwrap().answer_by, submitted.quote_deadline + left / 2);
}

#[tokio::test]
async fn a_quote_request_may_name_a_trusted_selector_and_its_caller_chooses() {
    let gateway = Gateway::new();
    let mut body = quote_request();
    set(&mut body, "/quote_selector", json!(SELECTOR));
    let path = "/v1/payments/quote-requests";
    gateway.post_to(path, &body).await.expect(200);
    // Another one is another request, trusted or not.
    set(&mut body, "/quote_selector", json!("0x0000000000000000000000000000000000000001"));
    gateway.post_to(path, &body).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
    set(&mut body, "/request_id", json!("batch-2"));
    gateway.post_to(path, &body).await.expect_error(400, "UNTRUSTED_SELECTOR");
}
