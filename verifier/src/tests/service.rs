//! Verifier service: its wire form, its refusals, and a judge that panics.

use super::*;

#[tokio::test]
async fn the_service_speaks_plain_json() {
    let listening = Listening::judge(FixedJudge::attesting(GOOD_SIGNATURE)).await;
    let body = request_body().to_string();
    for path in [DELIVERY_ATTESTATION_PATH, NON_DELIVERY_ATTESTATION_PATH] {
        let (status, answer) = listening.post(path, "application/json; charset=utf-8", body.clone()).await;
        let expected = json!({
            "version": "1.0", "status": "attested", "signature": GOOD_SIGNATURE, "follows_reassignments": true,
        });
        assert_eq!((status, answer), (StatusCode::OK, expected));
    }
    let health = reqwest::get(format!("{}/healthz", listening.origin())).await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    assert_eq!(health.json::<Value>().await.unwrap(), json!({"status": "ok"}));
}

#[tokio::test]
async fn what_the_service_refuses_it_refuses_in_one_shape() {
    let judge = FixedJudge::attesting(GOOD_SIGNATURE);
    let listening = Listening::judge(judge.clone()).await;
    let altered = |name: &str, value: Value| {
        let mut body = request_body();
        body[name] = value;
        body.to_string()
    };
    let json_type = "application/json";
    let path = DELIVERY_ATTESTATION_PATH;
    let bad = StatusCode::BAD_REQUEST;
    let cases = [
        (path, json_type, String::new(), bad, "INVALID_REQUEST"),
        (path, json_type, "{".to_owned(), bad, "INVALID_REQUEST"),
        (path, "text/plain", request_body().to_string(), bad, "INVALID_REQUEST"),
        (path, json_type, altered("payment_id", json!("pay_1")), bad, "INVALID_REQUEST"),
        (path, json_type, altered("version", json!("2.0")), bad, "INVALID_REQUEST"),
        (path, json_type, altered("quote", Value::Null), bad, "INVALID_REQUEST"),
        (path, json_type, format!(r#"{{"quote":"a",{}"#, &request_body().to_string()[1..]), bad, "INVALID_REQUEST"),
        (path, json_type, "x".repeat(MESSAGE_BYTES_MAX + 1), StatusCode::PAYLOAD_TOO_LARGE, "REQUEST_TOO_LARGE"),
        ("/v1/attestations", json_type, String::new(), StatusCode::NOT_FOUND, "NOT_FOUND"),
        ("/healthz", json_type, String::new(), StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
    ];
    for (path, content_type, body, status, code) in cases {
        let about = format!("{path} {content_type} {body:.60}");
        let (answered, problem) = listening.post(path, content_type, body).await;
        assert_eq!((answered, problem["code"].as_str()), (status, Some(code)), "{about}");
        assert!(problem["message"].as_str().is_some_and(|message| message.len() <= 500), "{about}");
    }
    assert!(judge.shown.lock().unwrap().is_empty());
}

struct PanickingJudge;

#[async_trait]
impl Judge for PanickingJudge {
    fn screen(&self, _: &VerificationCase) -> Result<(), String> {
        Ok(())
    }

    async fn delivery(&self, _: &VerificationCase) -> Result<Verdict, Transient> {
        panic!("a bug")
    }

    async fn non_delivery(&self, _: &VerificationCase) -> Result<Verdict, Transient> {
        panic!("a bug")
    }
}

#[tokio::test]
async fn a_bug_is_an_answer_and_not_the_end() {
    let listening = Listening::judge(Arc::new(PanickingJudge)).await;
    for _ in 0..2 {
        let (status, problem) =
            listening.post(DELIVERY_ATTESTATION_PATH, "application/json", request_body().to_string()).await;
        assert_eq!((status, &problem["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("INTERNAL_ERROR")));
    }
}
