//! Rate limits: what one caller may ask for, through the router; the bounds of connections are the listener's.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use serde_json::json;

use net::callers::limits::RateConfig;

use super::{quote_requests::quote_request, *};

pub(super) const QUOTE_REQUESTS: &str = "/v1/payments/quote-requests";
pub(super) const ATTACKER: &str = "198.51.100.1";
pub(super) const VICTIM: &str = "203.0.113.1";
const PROXY: &str = "10.0.0.1";

/// A gateway whose budgets hold so much at once and get next to nothing back.
pub(super) fn limited(change: impl FnOnce(&mut GatewayConfig)) -> Gateway {
    Gateway::configured(|config| {
        let limits = &mut config.limits;
        limits.exempt = Networks::default();
        limits.trusted_proxies = Networks::parse(["10.0.0.0/8"]).unwrap();
        for (rate, burst) in
            [(&mut limits.reads, 10), (&mut limits.writes, 5), (&mut limits.unsigned, 24), (&mut limits.accepted, 3)]
        {
            *rate = RateConfig { per_second: 1, burst };
        }
        change(config);
    })
}

pub(super) fn request(from: &str, method: &str, path: &str, body: Option<&Value>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let mut request = request.body(body.map_or_else(Body::empty, |body| body.to_string().into())).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(from.parse().unwrap(), 4711)));
    request
}

async fn get(gateway: &Gateway, from: &str, path: &str) -> Answer {
    gateway.send(request(from, "GET", path, None)).await
}

pub(super) async fn post(gateway: &Gateway, from: &str, path: &str, body: &Value) -> Answer {
    gateway.send(request(from, "POST", path, Some(body))).await
}

pub(super) fn order(n: usize) -> Value {
    with("/request_id", json!(format!("order-{n}")))
}

pub(super) fn batch(n: usize) -> Value {
    let mut body = quote_request();
    set(&mut body, "/request_id", json!(format!("batch-{n}")));
    body
}

/// Calls until it is refused, and how often that was answered otherwise before.
pub(super) async fn flood<F: Future<Output = Answer>>(call: impl Fn(usize) -> F) -> (usize, Answer) {
    for n in 0..1_000 {
        let answer = call(n).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return (n, answer);
        }
    }
    panic!("a thousand calls were answered");
}

#[track_caller]
pub(super) fn assert_limited(answer: Answer, budget: &str) {
    let answer = answer.expect_error(429, "RATE_LIMITED");
    assert_eq!(answer.body["retry_classification"], "RETRY_AFTER_DELAY");
    // Nobody may conclude from this that there is no payment.
    assert!(answer.body.get("request_id_reusable").is_none(), "{answer:?}");
    let after: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&after), "{answer:?}");
    let (policy, left) = (&answer.headers["ratelimit-policy"], &answer.headers["ratelimit"]);
    assert!(policy.to_str().unwrap().contains(&format!("\"{budget}\";q=")), "{answer:?}");
    assert!(left.to_str().unwrap().contains(&format!("\"{budget}\";r=0;t={after}")), "{answer:?}");
}

#[tokio::test]
async fn a_flood_of_one_kind_leaves_everything_else() {
    let gateway = limited(|_| ());
    let accepted = post(&gateway, ATTACKER, "/v1/payments", &order(0)).await.expect(200);
    assert_eq!(accepted.headers["ratelimit-policy"], r#""writes";q=5;w=5, "accepted";q=3;w=3"#);
    assert_eq!(accepted.headers["ratelimit"], r#""writes";r=4;t=1, "accepted";r=2;t=1"#);
    let status = format!("/v1/payments/{}/status", accepted.payment_id());

    // What nobody signed is dear: two batches of eleven units out of 24, and no third.
    let (opened, refused) = flood(async |n| post(&gateway, ATTACKER, QUOTE_REQUESTS, &batch(n)).await).await;
    assert_eq!(opened, 2);
    assert_limited(refused, "unsigned");
    // The one behind the same address replays and reads.
    let replay = post(&gateway, ATTACKER, "/v1/payments", &order(0)).await.expect(200);
    assert_eq!(replay.body["idempotent_replay"], true);
    get(&gateway, ATTACKER, &status).await.expect(200);

    let (submitted, refused) = flood(async |_| post(&gateway, ATTACKER, "/v1/payments", &json!({})).await).await;
    assert!((3..=4).contains(&submitted), "{submitted}");
    assert_limited(refused, "writes");
    get(&gateway, ATTACKER, &status).await.expect(200);

    let (read, refused) = flood(async |_| get(&gateway, ATTACKER, "/no/such/path").await).await;
    assert!((8..=9).contains(&read), "{read}");
    assert_limited(refused, "reads");
    for method in ["DELETE", "POST"] {
        let refused = gateway.send(request(ATTACKER, method, &status, None)).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{method}");
    }

    // Whoever calls from elsewhere is served all the same.
    get(&gateway, VICTIM, &status).await.expect(200);
    post(&gateway, VICTIM, QUOTE_REQUESTS, &batch(9)).await.expect(200);
    post(&gateway, VICTIM, "/v1/payments", &order(1)).await.expect(200);
    // And so is whoever calls through the proxy, however many do.
    for n in 1..30 {
        let mut request = request(PROXY, "GET", &status, None);
        let header = format!("{ATTACKER}, 192.0.2.{n}");
        request.headers_mut().insert("x-forwarded-for", header.parse().unwrap());
        gateway.send(request).await.expect(200);
    }
    // But not by a word of his own.
    let mut forged = request(ATTACKER, "GET", &status, None);
    forged.headers_mut().insert("x-forwarded-for", "192.0.2.77".parse().unwrap());
    gateway.send(forged).await.expect(429);
}

#[tokio::test]
async fn a_payer_is_counted_from_wherever_he_calls_and_nobody_else_can_spend_his_budget() {
    let gateway = limited(|_| ());
    let from = |n: usize| format!("192.0.2.{}", n + 1);
    let begun = std::time::Instant::now();
    let (accepted, refused) = flood(async |n| post(&gateway, &from(n), "/v1/payments", &order(n)).await).await;
    // What comes back with each second, on a machine that takes some.
    let most = 4 + usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!((3..=most).contains(&accepted), "{accepted} of {most}");
    assert_limited(refused, "accepted");
    // Replays of the same bodies, and rehearsals, by whoever has seen them, cost the payer nothing.
    let other = "0x1111111111111111111111111111111111111111";
    let mut fresh = order(0);
    set(&mut fresh, "/source/account", json!(other));
    for n in 0..8 {
        post(&gateway, &from(100 + n), "/v1/payments", &order(0)).await.expect(200);
        post(&gateway, &from(120 + n), "/v1/payments/verify", &fresh).await.expect(200);
    }
    let answer = post(&gateway, &from(200), "/v1/payments", &fresh).await.expect(200);
    assert_eq!(answer.headers["ratelimit"], r#""writes";r=4;t=1, "accepted";r=2;t=1"#);
}

#[tokio::test]
async fn facilitators_are_refused_in_their_own_shape() {
    let gateway = limited(|config| config.limits.unsigned.burst = 20);
    for (path, word) in [("/x402/v1/verify", "invalidReason"), ("/x402/v1/settle", "errorReason")] {
        let (_, refused) = flood(async |_| post(&gateway, ATTACKER, path, &json!({})).await).await;
        assert_eq!(refused.body[word], "rate_limited", "{refused:?}");
        assert_eq!(refused.body["extensions"]["gw"]["retryClassification"], "RETRY_AFTER_DELAY", "{refused:?}");
        assert!(
            refused.headers.contains_key("retry-after") && refused.headers.contains_key("ratelimit"),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn streams_and_holds_of_one_caller_are_its_own() {
    let gateway = limited(|config| {
        config.http.hold_ms_max = 30_000;
        config.limits.event_streams_per_address_max = 1;
        config.limits.holds_per_address_max = 1;
        config.http.holds_max = 2;
    });
    let gateway = Arc::new(gateway);
    let prefer = |mut request: Request<Body>, wait: &'static str| {
        request.headers_mut().insert("prefer", wait.parse().unwrap());
        request
    };
    let submission = |from: &str, n: usize| request(from, "POST", "/v1/payments", Some(&order(n)));
    let accepted = gateway.send(prefer(submission(ATTACKER, 0), "wait=0")).await.expect(200);

    let events = format!("/v1/payments/{}/events", accepted.payment_id());
    let stream = gateway.router.clone().oneshot(request(ATTACKER, "GET", &events, None)).await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    let refused = get(&gateway, ATTACKER, &events).await.expect_error(429, "RATE_LIMITED");
    assert!(refused.message().contains("event streams"), "{refused:?}");
    let other = gateway.router.clone().oneshot(request(VICTIM, "GET", &events, None)).await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);
    // With the connection the stream ends, and somebody behind the same address has its place.
    drop(stream);
    let again = gateway.router.clone().oneshot(request(ATTACKER, "GET", &events, None)).await.unwrap();
    assert_eq!(again.status(), StatusCode::OK);

    let held = tokio::spawn({
        let (gateway, request) = (gateway.clone(), submission(ATTACKER, 1));
        async move { gateway.send(request).await }
    });
    while gateway.state.long_polls.available_permits() > 1 {
        tokio::task::yield_now().await;
    }
    // A second one of his is answered at once, and takes nobody's place.
    gateway.send(submission(ATTACKER, 2)).await.expect(200);
    assert_eq!(gateway.state.long_polls.available_permits(), 1);
    assert!(!held.is_finished());
    let other = tokio::spawn({
        let (gateway, request) = (gateway.clone(), {
            let mut body = order(1);
            set(&mut body, "/source/account", json!("0x1111111111111111111111111111111111111111"));
            request(VICTIM, "POST", "/v1/payments", Some(&body))
        });
        async move { gateway.send(request).await }
    });
    while gateway.state.long_polls.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    gateway.stopping.cancel();
    held.await.unwrap().expect(200);
    other.await.unwrap().expect(200);
}
