//! Shapes: bodies, paths and methods that are refused, and the headers and members that every answer has.

use axum::body::Bytes;
use serde_json::json;

use app::error::Code;
use journal::StreamStore;

use super::*;
use crate::routes::ROUTES;

#[tokio::test]
async fn bodies_that_are_not_a_json_object_are_refused() {
    let gateway = Gateway::new();
    for (text, said) in [
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "object"),
        ("null", "object"),
        ("{} {}", "JSON"),
        (r#"{"version":"1.0","version":"1.0"}"#, "`version` stands twice"),
        (r#"{"source":{"account":"a","account":"b"}}"#, "`account` stands twice"),
    ] {
        let answer = gateway.post_text(text).await.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().contains(said), "{text}: {answer:?}");
    }
    let answer = gateway.post_text(vec![b'{', 0xff, b'}']).await.expect_error(400, "INVALID_REQUEST");
    assert!(answer.message().contains("UTF-8"));
    let deep = "[".repeat(100_000 / 2);
    gateway.post_text(deep).await.expect_error(400, "INVALID_REQUEST");
    let key = "k".repeat(2_000);
    gateway.post_text(format!(r#"{{"{key}":1,"{key}":2}}"#)).await.expect_error(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn the_content_type_must_be_json() {
    let gateway = Gateway::new();
    let post = |content_type: Option<&str>| {
        let mut request = Request::post("/v1/payments");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        gateway.send(request.body(body().to_string().into()).unwrap())
    };
    for bad in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp")] {
        let answer = post(bad).await.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().starts_with("Content-Type "), "{bad:?}: {answer:?}");
    }
    for good in ["application/json", "Application/JSON; charset=utf-8", "application/json;charset=UTF-8"] {
        post(Some(good)).await.expect(200);
    }
}

#[tokio::test]
async fn large_bodies_are_refused_before_anything_else() {
    let gateway = Gateway::configured(|config| config.http.body_bytes_max = 2_048);
    let text = body().to_string();
    let padded = |bytes: usize| format!("{text}{}", " ".repeat(bytes - text.len()));
    gateway.post_text(padded(2_048)).await.expect(200);
    let answer = gateway.post_text(padded(2_049)).await.expect_error(413, "REQUEST_TOO_LARGE");
    assert!(answer.message().contains("2048"));
    // A body that does not say its length, of another type.
    let chunks = (0..64).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1_024])));
    let request = Request::post("/v1/payments").body(Body::from_stream(futures::stream::iter(chunks))).unwrap();
    gateway.send(request).await.expect_error(413, "REQUEST_TOO_LARGE");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let gateway = Gateway::configured(|config| config.http.body_ms_max = 1);
    let never = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let request = Request::post("/v1/payments").header("content-type", "application/json").body(never).unwrap();
    let answer = gateway.send(request).await.expect_error(400, "INVALID_REQUEST");
    assert!(answer.message().contains("did not arrive"));
}

#[tokio::test]
async fn unknown_paths_and_methods_are_errors_of_the_contract() {
    let gateway = Gateway::new();
    for path in ["/v1", "/v1/payments/", "/v1/payment", "/v2/payments", "/V1/PAYMENTS"] {
        gateway.get(path).await.expect_error(404, "NOT_FOUND");
    }
    for route in ROUTES {
        let path = route.path.replace("{paymentId}", "pay_x").replace("{quoteRequestId}", "qrq_x");
        // A webhook can be deleted, and whatever stands in the place of its id is taken for one.
        let is_webhooks = path.starts_with("/v1/webhooks/");
        for method in ["PUT", "DELETE", "PATCH"].into_iter().filter(|method| !(is_webhooks && *method == "DELETE")) {
            let request = Request::builder().method(method).uri(&path).body(Body::empty()).unwrap();
            let answer = gateway.send(request).await.expect_error(405, "METHOD_NOT_ALLOWED");
            let allowed = answer.headers["allow"].to_str().unwrap();
            assert!(allowed.contains(route.method.as_str()), "{path}: {allowed}");
        }
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error_that_says_nothing() {
    let gateway = Gateway::new();
    let panicking = with("/sender_auth/signed_messages/0/signature", json!(PANICKING));
    let answer = gateway.post(&panicking).await.expect_error(500, "INTERNAL_ERROR");
    assert_eq!(answer.body["retry_classification"], "RECONCILE_THEN_DECIDE");
    assert!(!answer.text.contains("secrets"));
    gateway.post(&body()).await.expect(200);
}

#[tokio::test]
async fn a_signature_that_cannot_be_judged_is_not_refused() {
    let gateway = Gateway::new();
    let unjudged = with("/sender_auth/signed_messages/0/signature", json!(UNJUDGED));
    let answer = gateway.post(&unjudged).await.expect_error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(!answer.text.contains("secret.internal"));
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let gateway = Gateway::new();
    let get = |id: Option<&str>| {
        let mut request = Request::get("/healthz");
        if let Some(id) = id {
            request = request.header("X-Request-Id", id);
        }
        gateway.send(request.body(Body::empty()).unwrap())
    };
    let long = "a".repeat(128);
    for own in ["4bf92f35-77b3-4da6", "a", "x_1.y:z", &long] {
        assert_eq!(get(Some(own)).await.headers["x-request-id"], own);
    }
    let too_long = "a".repeat(129);
    let mut generated = std::collections::BTreeSet::new();
    for foul in [None, Some(""), Some("a b"), Some("{\"a\":1}"), Some(&too_long)] {
        let answer = get(foul).await.expect(200);
        let id = answer.headers["x-request-id"].to_str().unwrap().to_owned();
        assert!(id.starts_with("req_") && generated.insert(id), "{foul:?}");
    }
    // The journal knows the payment by it.
    let request =
        Request::post("/v1/payments").header("content-type", "application/json").header("x-request-id", "mine");
    let answer = gateway.send(request.body(body().to_string().into()).unwrap()).await.expect(200);
    assert_eq!(gateway.journal.load(&answer.payment_id().into()).await.unwrap()[0].correlation, "mine");
}

#[tokio::test]
async fn probes_say_how_the_gateway_is() {
    let gateway = Gateway::new();
    assert_eq!(gateway.get("/healthz").await.expect(200).body, json!({"status": "ok"}));
    let chains = json!(["eip155:31337", "eip155:31338"].map(|chain| json!({"chain_id": chain, "ready": true})));
    assert_eq!(gateway.get("/readyz").await.expect(200).body, json!({"status": "ready", "chains": chains}));
    let alarm = "journal shard 3 ends at 20, but had commits up to 60";
    *gateway.ready.1.lock().unwrap() = vec![alarm.to_owned()];
    let ready = gateway.get("/readyz").await.expect(200).body;
    assert_eq!(ready, json!({"status": "ready", "alarms": [alarm], "chains": chains}));
    *gateway.ready.0.lock().unwrap() = Err("NATS is not connected".to_owned());
    let answer = gateway.get("/readyz").await.expect_error(503, "NOT_READY");
    assert_eq!(answer.message(), format!("NATS is not connected; {alarm}"));
    gateway.ready.1.lock().unwrap().clear();
    let answer = gateway.get("/readyz").await.expect_error(503, "NOT_READY");
    assert_eq!(answer.message(), "NATS is not connected");
    gateway.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn defaults_are_the_configured_chains() {
    let gateway = Gateway::new();
    let all = gateway.get("/v1/defaults").await.expect(200).body;
    let chains = all["chains"].as_object().unwrap();
    assert_eq!(chains.keys().collect::<Vec<_>>(), ["eip155:31337", "eip155:31338"]);
    let expected = json!({
        "family": "evm",
        "quote_selector": "",
        "fulfillment_verifier": single_verifier(VERIFIER, "http://127.0.0.1:8090"),
        "escrow_contract_address": ESCROW,
        "fulfillment_proxy": PROXY,
        "escrow_contract_addresses": [ESCROW, TRUSTED],
        "fulfillment_proxy_addresses": [PROXY],
        "fulfillment_verifiers": [
            single_verifier(VERIFIER, "http://127.0.0.1:8090"),
            single_verifier(TRUSTED, "https://verifier.example"),
        ],
        "settler_policies": ["aml", "kyc"],
        "reserver": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
        "releaser": VERIFIER,
        "permit2": "0x000000000022d473030f116ddee9f6b43ac78ba3",
        "message_schemes": ["EVM_PERMIT2_ESCROW", "EVM_PERMIT2_BATCH", "EVM_PERMIT2_MANDATE", "EVM_EIP3009"],
        "refund_delay_seconds": 3600,
        "deadlines": deadline_limits(),
        "required_depth": "finalized",
        "assets": [{"asset_identifier": SOURCE_ASSET, "symbol": "USDC", "decimals": 6}],
    });
    assert_eq!(chains["eip155:31337"], expected);
    for query in
        ["chain_id=eip155:31337", "chain_id=eip155%3A31337", "chain_id=eip155:031337", "x=1&chain_id=eip155:31337"]
    {
        assert_eq!(gateway.get(&format!("/v1/defaults?{query}")).await.expect(200).body, expected, "{query}");
    }
    for query in ["chain_id=eip155:1", "chain_id=", "chain_id=nonsense", "chain_id=solana:abc"] {
        gateway.get(&format!("/v1/defaults?{query}")).await.expect_error(404, "CHAIN_NOT_SUPPORTED");
    }
    let twice = "/v1/defaults?chain_id=eip155:31337&chain_id=eip155:31338";
    gateway.get(twice).await.expect_error(400, "INVALID_REQUEST");
    let depth = Gateway::configured(|config| {
        config.chains[0].chain.common_mut().required_depth = chains::config::Depth::Confirmations(3);
    });
    let one = depth.get("/v1/defaults?chain_id=eip155:31337").await.expect(200).body;
    assert_eq!(one["required_depth"], 3);
}

/// What `/v1/defaults` shows can be sent back as it is.
#[tokio::test]
async fn defaults_can_be_named_in_a_request() {
    let gateway = Gateway::new();
    let defaults = gateway.get("/v1/defaults?chain_id=eip155:31337").await.expect(200).body;
    let mut body = body();
    for name in ["quote_selector", "fulfillment_verifier", "escrow_contract_address", "fulfillment_proxy"] {
        set(&mut body, &format!("/{name}"), defaults[name].clone());
    }
    gateway.post(&body).await.expect(200);
}

#[test]
fn every_decline_of_the_own_settler_is_in_the_table() {
    use settler::quoting::Decline::*;
    for decline in [
        UnsupportedCorridor,
        UntrustedContract,
        UntrustedVerifier,
        PolicyNotHeld,
        DeadlineTooShort,
        PriceAboveCap,
        InsufficientLiquidity,
        TemporarilyUnavailable,
    ] {
        assert!(Code::find(decline.code()).is_some(), "{}", decline.code());
    }
}
