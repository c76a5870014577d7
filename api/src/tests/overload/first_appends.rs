//! First appends that are under way or of unknown outcome, and what refusals say of their ids meanwhile.

use super::*;

const QUOTES: &str = "/v1/payments/quote-requests";

impl Environment {
    /// Sends a body and goes away once `begun` appends have begun.
    async fn leave(&self, path: &str, body: &Value, begun: usize) {
        let (gateway, path, body) = (self.gateway.clone(), path.to_owned(), body.clone());
        let gone = tokio::spawn(async move { gateway.post_to(&path, &body).await });
        self.begun(begun).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
}

fn batch(request_id: &str) -> Value {
    changed(&quote_request(), "/request_id", json!(request_id))
}

fn changed(body: &Value, pointer: &str, value: Value) -> Value {
    let mut body = body.clone();
    set(&mut body, pointer, value);
    body
}

/// Requests that are refused at every place where the journal is asked for the id.
fn refusals(payment: &Value, batch: &Value) -> [(&'static str, Value); 6] {
    let (version, late) = (json!("2.0"), json!("2029-01-01T00:00:00Z"));
    [
        ("/v1/payments", changed(payment, "/version", version.clone())),
        ("/v1/payments", changed(payment, "/quote_deadline", late.clone())),
        ("/v1/payments/verify", changed(payment, "/quote_deadline", late.clone())),
        ("/v1/payments/prepare", changed(payment, "/version", version.clone())),
        (QUOTES, changed(batch, "/version", version)),
        (QUOTES, changed(batch, "/quote_deadline", late)),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_id_is_not_free_while_its_first_append_is_under_way() {
    let environment = Environment::new(|config| config.http.writes_in_flight_max = 8);
    let gateway = &environment.gateway;
    environment.leave("/v1/payments", &order("order-gone"), 1).await;
    environment.leave(QUOTES, &batch("batch-gone"), 2).await;
    assert_eq!(environment.stored("order-gone").await, 0);
    for (path, body) in refusals(&order("order-gone"), &batch("batch-gone")) {
        let refused = gateway.post_to(path, &body).await.expect(400);
        assert!(refused.body.get("request_id_reusable").is_none(), "{path}: {refused:?}");
    }
    for (path, body) in refusals(&order("order-other"), &batch("batch-other")) {
        let refused = gateway.post_to(path, &body).await.expect(400);
        assert_eq!(refused.body["request_id_reusable"], true, "{path}: {refused:?}");
    }
    environment.slow.gate.add_permits(10);
    environment.free((8, 1)).await;
    for (path, body) in refusals(&order("order-gone"), &batch("batch-gone")) {
        let refused = gateway.post_to(path, &body).await;
        if refused.status != StatusCode::OK {
            assert_eq!(refused.body["request_id_reusable"], false, "{path}: {refused:?}");
        }
    }
    // What is certain not to be stored leaves its id free.
    environment.slow.journal.inject(Fault::Unavailable);
    gateway.post(&order("order-lost")).await.expect_error(503, "SERVICE_UNAVAILABLE");
    let refused = gateway.post(&changed(&order("order-lost"), "/version", json!("2.0"))).await.expect(400);
    assert_eq!(refused.body["request_id_reusable"], true, "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn an_id_is_not_free_for_a_while_after_an_append_of_unknown_outcome() {
    let environment = Environment::new(|_| {});
    environment.gateway.post(&order("order-1")).await.expect_error(500, "OUTCOME_UNKNOWN");
    let flag = async || {
        let bad = changed(&order("order-1"), "/version", json!("2.0"));
        environment.gateway.post(&bad).await.expect(400).body.get("request_id_reusable").cloned()
    };
    assert_eq!(flag().await, None);
    tokio::time::advance(Duration::from_secs(290)).await;
    assert_eq!(flag().await, None);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(flag().await, Some(json!(true)));
}

#[tokio::test(start_paused = true)]
async fn an_award_under_way_keeps_its_id_and_one_that_the_batch_names_has_spent_it() {
    let environment = Environment::new(|config| config.http.writes_in_flight_max = 8);
    let gateway = &environment.gateway;
    environment.slow.gate.add_permits(1);
    let batch = open_batch(gateway).await;
    let (path, award) = (batch.award_path(), award_body("order-1", &batch.quote_ids[0]));
    environment.leave(&path, &award, 2).await;
    let bad = changed(&award, "/version", json!("2.0"));
    let refused = gateway.post_to(&path, &bad).await.expect_error(400, "INVALID_REQUEST");
    assert!(refused.body.get("request_id_reusable").is_none(), "{refused:?}");

    // The batch is awarded, and the payment cannot begin.
    environment.slow.gate.add_permits(1);
    environment.begun(3).await;
    (0..3).for_each(|_| environment.slow.journal.inject(Fault::Unavailable));
    environment.slow.gate.add_permits(3);
    // It is tried again after pauses, and the clock goes on only while everybody sleeps.
    while gateway.state.writes.free() != (8, 1) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(environment.stored("order-1").await, 0);
    let refused = gateway.post_to(&path, &bad).await.expect_error(400, "INVALID_REQUEST");
    assert_eq!(refused.body["request_id_reusable"], false, "{refused:?}");
    assert_eq!(refused.payment_id(), payment_id("order-1"));

    environment.slow.gate.add_permits(10);
    assert_eq!(gateway.post_to(&path, &award).await.expect(200).body["idempotent_replay"], false);
    assert_eq!(environment.stored("order-1").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_another_call_may_open_is_not_given_back() {
    let environment = Environment::new(|config| {
        config.limits.exempt = Networks::default();
        config.http.writes_in_flight_max = 64;
        // One for each address.
        config.http.quote_requests_open_max = 16;
    });
    let ask = |request_id: &str| {
        let (gateway, body) = (environment.gateway.clone(), batch(request_id));
        tokio::spawn(async move { gateway.post_to(QUOTES, &body).await })
    };
    let loser = ask("batch-1");
    environment.begun(1).await;
    let winner = ask("batch-1");
    environment.begun(2).await;
    environment.slow.journal.inject(Fault::Unavailable);
    environment.slow.gate.add_permits(1);
    loser.await.unwrap().expect_error(503, "SERVICE_UNAVAILABLE");
    let refused = ask("batch-2").await.unwrap().expect_error(429, "RATE_LIMITED");
    assert!(refused.message().contains("open quote-requests"), "{refused:?}");
    // The last one gives it back.
    environment.slow.journal.inject(Fault::Unavailable);
    environment.slow.gate.add_permits(10);
    winner.await.unwrap().expect_error(503, "SERVICE_UNAVAILABLE");
    ask("batch-2").await.unwrap().expect(200);
}
