//! Squatting: whose a quote-request's id is, and what a repetition must have in common with the batch.

use events::selection::SelectorKey;

use super::*;

const SECRET: &str = "9hVb0sT3cQx7Lm2ZkW5n";

async fn with_secret(gateway: &Gateway, body: &Value, secrets: &[&str]) -> Answer {
    let mut request = Request::post(PATH).header("content-type", "application/json");
    for secret in secrets {
        request = request.header("caller-secret", *secret);
    }
    gateway.send(request.body(body.to_string().into()).unwrap()).await
}

fn id_of(answer: &Answer) -> QuoteRequestId {
    answer.body["quote_request_id"].as_str().unwrap().parse().unwrap()
}

/// Everything that a batch stands on besides its economics and its deadlines, each with another order or spelling of it.
fn stated() -> Vec<(&'static str, &'static str, Value, Value)> {
    let verifier = |endpoint: &str| json!({"account": TRUSTED, "endpoint": endpoint});
    vec![
        (
            "settler_requirements.whitelist",
            "/settler_requirements",
            json!({"whitelist": ["did:web:a", "did:web:b"]}),
            json!({"whitelist": ["did:web:b", "did:web:a"]}),
        ),
        (
            "settler_requirements.blacklist",
            "/settler_requirements",
            json!({"blacklist": ["did:web:a", "did:web:b"]}),
            json!({"blacklist": ["did:web:b", "did:web:a"]}),
        ),
        ("settler_auth_required", "/settler_auth_required", json!({"kyc": true}), json!({"kyc": true, "aml": false})),
        (
            "fulfillment_verifier",
            "/fulfillment_verifier",
            verifier("https://verifier.example"),
            verifier("https://verifier.example:443"),
        ),
        ("quote_selector", "/quote_selector", json!(SELECTOR), json!(SELECTOR.to_lowercase())),
        ("escrow_contract_address", "/escrow_contract_address", json!(TRUSTED), json!(TRUSTED.to_lowercase())),
        ("fulfillment_proxy", "/fulfillment_proxy", json!(TRUSTED), json!(TRUSTED.to_lowercase())),
    ]
}

#[tokio::test]
async fn nothing_that_a_caller_asks_for_is_dropped_in_silence() {
    for (member, pointer, value, spelled_otherwise) in stated() {
        let gateway = Gateway::new();
        let plain = quote_request();
        let [mut stated, mut respelled] = [plain.clone(), plain.clone()];
        set(&mut stated, pointer, value);
        set(&mut respelled, pointer, spelled_otherwise);
        for (opened, asked) in [(&plain, &stated), (&stated, &plain)] {
            let gateway = Gateway::new();
            gateway.post_to(PATH, opened).await.expect(200);
            for blind in [false, true] {
                gateway.payments.set_blind(blind);
                let answer = gateway.post_to(PATH, asked).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
                assert!(answer.message().starts_with(&format!("{member}: ")), "{answer:?}");
                // The way out is told, and is one.
                assert!(answer.message().contains("Caller-Secret"), "{answer:?}");
            }
            let own = with_secret(&gateway, asked, &[SECRET]).await.expect(200);
            assert_eq!(own.body["idempotent_replay"], false);
        }
        let original = gateway.post_to(PATH, &stated).await.expect(200);
        let replay = gateway.post_to(PATH, &respelled).await.expect(200);
        assert_eq!(replay.body["idempotent_replay"], true, "{member}");
        assert_eq!(id_of(&replay), id_of(&original));
    }
}

#[tokio::test]
async fn a_configuration_that_changed_since_has_no_say() {
    let (before, identifiers) = (Gateway::new(), Arc::new(MemoryIdentifiers::default()));
    let opened = before.post_to(PATH, &quote_request()).await.expect(200);
    let after = Gateway::sharing(before.journal.clone(), identifiers, |config| {
        config.chains[0].chain.common_mut().escrow_contract = TRUSTED.parse().unwrap();
        config.verifier.endpoint = Some("https://elsewhere.example".to_owned());
    });
    let replay = after.post_to(PATH, &quote_request()).await.expect(200);
    assert_eq!((replay.body["idempotent_replay"].clone(), id_of(&replay)), (json!(true), id_of(&opened)));
}

#[tokio::test]
async fn a_secret_keeps_an_id_from_everybody_else() {
    let gateway = Gateway::new();
    // The squatter was first, with settlers of its own.
    let mut squatted = quote_request();
    set(&mut squatted, "/settler_requirements", json!({"whitelist": ["did:web:mine"]}));
    set(&mut squatted, "/quote_selector", json!(SELECTOR));
    let squatters = gateway.post_to(PATH, &squatted).await.expect(200);
    gateway.post_to(PATH, &quote_request()).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");

    let own = with_secret(&gateway, &quote_request(), &[SECRET]).await.expect(200);
    assert_eq!(own.body["idempotent_replay"], false);
    assert_ne!(id_of(&own), id_of(&squatters));
    // A retry finds it, by the secret alone, though the first answer was lost.
    let retry = with_secret(&gateway, &quote_request(), &[SECRET]).await.expect(200);
    assert_eq!((retry.body["idempotent_replay"].clone(), id_of(&retry)), (json!(true), id_of(&own)));
    // Another secret, or none, is another caller.
    for secrets in [&["another-secret-of-somebody"] as &[&str], &[]] {
        assert_ne!(
            with_secret(&gateway, &squatted, secrets).await.expect(200).body["quote_request_id"],
            json!(id_of(&own))
        );
    }

    let opened = state_of(&gateway, &id_of(&own)).await.opened;
    assert_eq!(opened.caller_secret_hash, Some(Hash32::sha256(SECRET)));
    assert_eq!(opened.derived_id(), id_of(&own));
    // The payer, and nobody else, is who asks; the secret is nowhere.
    assert_eq!(opened.originator, format!("eip155:{PAYER}"));
    assert!(!serde_json::to_string(&opened).unwrap().contains(SECRET));
    let squatters = state_of(&gateway, &id_of(&squatters)).await.opened;
    assert_eq!(squatters.selector, Some(SELECTOR.parse::<SelectorKey>().unwrap()));
    assert_eq!(squatters.caller_secret_hash, None);
}

#[tokio::test]
async fn a_secret_has_a_form() {
    let gateway = Gateway::new();
    for secrets in [
        &["fifteen-letters"] as &[&str],
        &["a secret with spaces"],
        &[""],
        &[&"x".repeat(129)],
        &[SECRET, SECRET],
        &["ümlauts-are-not-visible-ascii"],
    ] {
        let answer = with_secret(&gateway, &quote_request(), secrets).await.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().starts_with("Caller-Secret: "), "{answer:?}");
    }
    for secret in ["sixteen-letters!", &"~".repeat(128)] {
        with_secret(&gateway, &quote_request(), &[secret]).await.expect(200);
    }
}
