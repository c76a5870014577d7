//! Browsers: what pages of other origins, and callers with preferences, get.

use super::*;

const ORIGIN: &str = "https://shop.example";

#[tokio::test]
async fn a_page_of_any_origin_may_call_and_read_what_it_needs() {
    let gateway = Gateway::new();
    let preflight = Request::options("/v1/payments")
        .header("origin", ORIGIN)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,prefer,x-request-id");
    let answer = gateway.send(preflight.body(Body::empty()).unwrap()).await.expect(200);
    assert_eq!(answer.headers["access-control-allow-origin"], "*");
    let allowed = answer.headers["access-control-allow-headers"].to_str().unwrap();
    for header in ["content-type", "prefer", "x-request-id", "last-event-id", "x-position", "traceparent"] {
        assert!(allowed.split(',').any(|name| name == header), "{header}: {allowed}");
    }
    assert_eq!(answer.headers["access-control-allow-methods"], "GET,POST,DELETE");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    assert!(answer.headers.contains_key("x-request-id"));

    let good = gateway.post_from(ORIGIN, &body()).await.expect(200);
    let bad = gateway.post_from(ORIGIN, &json!({})).await.expect_error(400, "INVALID_REQUEST");
    let panicking = with("/sender_auth/signed_messages/0/signature", json!(PANICKING));
    let panicked = gateway.post_from(ORIGIN, &panicking).await.expect_error(500, "INTERNAL_ERROR");
    let missing = Request::get("/v1/nothing").header("origin", ORIGIN);
    let missing = gateway.send(missing.body(Body::empty()).unwrap()).await.expect_error(404, "NOT_FOUND");
    for answer in [good, bad, panicked, missing] {
        assert_eq!(answer.headers["access-control-allow-origin"], "*", "{answer:?}");
        let exposed = answer.headers["access-control-expose-headers"].to_str().unwrap();
        for header in ["x-request-id", "retry-after", "preference-applied", "x-position"] {
            assert!(exposed.split(',').any(|name| name == header), "{header}: {exposed}");
        }
    }
}

#[tokio::test]
async fn a_preference_that_is_kept_is_said_to_be() {
    let gateway = Gateway::configured(|config| config.http.hold_ms_max = 20_000);
    for (n, (prefer, applied)) in [
        (Some("wait=0"), Some("wait=0")),
        (Some("handling=lenient, Wait=\"0\""), Some("wait=0")),
        (Some("wait=soon"), None),
        (None, None),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request = Request::post("/v1/payments").header("content-type", "application/json");
        if let Some(prefer) = prefer {
            request = request.header("prefer", prefer);
        }
        gateway.stopping.cancel();
        let body = with("/request_id", json!(format!("order-{n}"))).to_string();
        let answer = gateway.send(request.body(body.into()).unwrap()).await.expect(200);
        let said = answer.headers.get("preference-applied").map(|value| value.to_str().unwrap());
        assert_eq!(said, applied, "{prefer:?}");
    }
    // Longer than anything is held here.
    let request = Request::post("/v1/payments").header("content-type", "application/json").header("prefer", "wait=60");
    let answer = gateway.send(request.body(body().to_string().into()).unwrap()).await.expect(200);
    assert!(!answer.headers.contains_key("preference-applied"));
}

#[tokio::test]
async fn every_response_bears_a_request_id() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    for (method, path) in [
        ("GET", "/healthz".to_owned()),
        ("GET", "/readyz".to_owned()),
        ("GET", "/v1/defaults".to_owned()),
        ("GET", format!("/v1/payments/{id}/status")),
        ("GET", format!("/v1/payments/{id}/timeline")),
        ("GET", format!("/v1/payments/resolve?request_id=order-1&account={PAYER}")),
        ("HEAD", format!("/v1/payments/{id}/status")),
        ("DELETE", "/v1/payments".to_owned()),
        ("GET", "/nothing".to_owned()),
        ("GET", "/v1/payments/%ff/status".to_owned()),
        ("POST", "/v1/payments/verify".to_owned()),
        ("POST", "/v1/payments/prepare".to_owned()),
    ] {
        let request = Request::builder().method(method).uri(&path).header("x-request-id", "mine-1");
        let answer = gateway.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.headers["x-request-id"], "mine-1", "{method} {path}");
        let anonymous = Request::builder().method(method).uri(&path).body(Body::empty()).unwrap();
        assert!(!gateway.send(anonymous).await.headers["x-request-id"].is_empty(), "{method} {path}");
    }
}

impl Gateway {
    async fn post_from(&self, origin: &str, body: &Value) -> Answer {
        let request = Request::post("/v1/payments").header("content-type", "application/json").header("origin", origin);
        self.send(request.body(body.to_string().into()).unwrap()).await
    }
}
