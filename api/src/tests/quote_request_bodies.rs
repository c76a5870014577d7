//! The bodies of quote-requests and awards: every rule kept, every field named.

use serde_json::{Value, json};

use journal::ShardLog;

use super::{
    bad_bodies::{
        Edit::{self, Remove, Set},
        bad_bodies, credential_auth,
    },
    quote_requests::{award_body, open_batch, quote_request},
    *,
};

/// Bodies of quote-requests that break one rule each, with the code and the field of the answer: those that a payment
/// breaks too, apart from `sender_auth`, and those of the envelope.
fn bad_quote_requests() -> Vec<(Edit, &'static str, &'static str)> {
    let shared = bad_bodies().into_iter().filter(|(edit, ..)| {
        let (Set(pointer, _) | Remove(pointer)) = edit;
        !pointer.starts_with("/sender_auth")
    });
    let credential = |pointer: &str, value: Value| {
        let mut credential = credential_auth()["verifiable_credential"].clone();
        set(&mut credential, pointer, value);
        json!([credential])
    };
    let own = [
        (Set("/@context", json!(null)), "INVALID_REQUEST", "@context"),
        (Set("/@context", json!("https://www.w3.org/ns/credentials/v2")), "INVALID_REQUEST", "@context"),
        (Set("/@context", json!({})), "INVALID_REQUEST", "@context"),
        (Set("/@context", json!(["https://x.example", 1])), "INVALID_REQUEST", "@context[1]"),
        (Set("/@context", json!([{}])), "INVALID_REQUEST", "@context[0]"),
        // What nothing is said with.
        (Set("/@context", json!(["https://www.w3.org/ns/credentials/v2"])), "INVALID_REQUEST", "@context"),
        (Set("/@context", json!(vec!["https://x.example"; 33])), "INVALID_REQUEST", "@context"),
        (Set("/verifiableCredential", json!(null)), "INVALID_REQUEST", "verifiableCredential"),
        (Set("/verifiableCredential", json!({})), "INVALID_REQUEST", "verifiableCredential"),
        (Set("/verifiableCredential", json!(["x"])), "INVALID_REQUEST", "verifiableCredential[0]"),
        (Set("/verifiableCredential", json!([{}])), "INVALID_REQUEST", "verifiableCredential[0].@context"),
        (
            Set("/verifiableCredential", credential("/@context", json!(["https://x.example"]))),
            "INVALID_REQUEST",
            "verifiableCredential[0].@context",
        ),
        (
            Set("/verifiableCredential", credential("/type", json!(["Other"]))),
            "INVALID_REQUEST",
            "verifiableCredential[0].type",
        ),
        (Set("/verifiableCredential", credential("/id", json!(1))), "INVALID_REQUEST", "verifiableCredential[0].id"),
        (
            Set("/verifiableCredential", credential("/issuer", json!([]))),
            "INVALID_REQUEST",
            "verifiableCredential[0].issuer",
        ),
        (
            Set("/verifiableCredential", credential("/issuanceDate", json!("yesterday"))),
            "INVALID_REQUEST",
            "verifiableCredential[0].issuanceDate",
        ),
        (
            Set("/verifiableCredential", credential("/credentialSubject", json!([]))),
            "INVALID_REQUEST",
            "verifiableCredential[0].credentialSubject",
        ),
        (
            Set("/verifiableCredential", credential("/proof", json!(null))),
            "INVALID_REQUEST",
            "verifiableCredential[0].proof",
        ),
        (Set("/proof", json!("z")), "INVALID_REQUEST", "proof"),
        (Set("/proof", json!([1])), "INVALID_REQUEST", "proof"),
        (Set("/proof", json!([{}, "z"])), "INVALID_REQUEST", "proof"),
        (Set("/proof", json!(null)), "INVALID_REQUEST", "proof"),
        (Set("/verifiableCredential", json!(vec![json!({}); 17])), "INVALID_REQUEST", "verifiableCredential"),
    ];
    shared.chain(own).collect()
}

fn apply(edit: &Edit, mut body: Value) -> (Value, String) {
    match edit {
        Set(pointer, value) => {
            set(&mut body, pointer, value.clone());
            (body, format!("{pointer} = {value}"))
        }
        Remove(pointer) => {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            body.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
            (body, format!("without {pointer}"))
        }
    }
}

#[tokio::test]
async fn every_rule_of_a_quote_request_is_kept_and_its_field_named() {
    let gateway = Gateway::new();
    let bodies = bad_quote_requests();
    assert!(bodies.len() >= 120, "{}", bodies.len());
    for (edit, code, field) in bodies {
        let (body, what) = apply(&edit, quote_request());
        let answer = gateway.post_to("/v1/payments/quote-requests", &body).await;
        assert_eq!((answer.status.as_u16(), answer.body["code"].as_str()), (400, Some(code)), "{what}: {answer:?}");
        assert!(answer.message().starts_with(&format!("{field}: ")), "{what}: {answer:?}");
        let answer = answer.expect_error(400, code);
        edit.check_flag(&answer);
        assert_eq!(answer.body["retry_classification"], "NOT_RETRYABLE_FIX_REQUEST", "{what}");
    }
    for shard in 0..gateway.journal.shards() {
        assert_eq!(gateway.journal.head(shard).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn whatever_the_contract_allows_in_a_quote_request_is_accepted() {
    let gateway = Gateway::new();
    let edits = [
        ("/@context", json!([])),
        // No deposit could be made between these, but quotes can be asked for.
        ("/fulfillment_deadline", json!("2030-01-01T00:01:00.001Z")),
        ("/fulfillment_deadline", json!("2030-01-01T00:01:00.400Z")),
        ("/fulfillment_deadline", json!("2030-01-01T00:01:00.999Z")),
        ("/verifiableCredential", json!([])),
        // An unknown member here, whatever is in it.
        ("/sender_auth", json!({"message_scheme": "NONE", "signed_messages": []})),
        ("/sender_auth", json!(null)),
        ("/max_source_amount", json!("1")),
        ("/settler_auth_required", json!({"kyc": true})),
        ("/quote_deadline", json!("2030-01-01t01:01:00.123456+01:00")),
        ("/unknown", json!({"proof": {}})),
    ];
    for (i, (pointer, value)) in edits.into_iter().enumerate() {
        let mut body = quote_request();
        set(&mut body, pointer, value.clone());
        set(&mut body, "/request_id", json!(format!("batch-{i}")));
        let answer = gateway.post_to("/v1/payments/quote-requests", &body).await;
        assert_eq!(answer.status.as_u16(), 200, "{pointer} = {value}: {answer:?}");
        assert_eq!(answer.body["idempotent_replay"], false, "{pointer} = {value}: {answer:?}");
        assert_eq!(answer.body["status"], "collecting", "{pointer} = {value}: {answer:?}");
    }
}

#[tokio::test]
async fn wait_is_true_or_false_and_given_once() {
    let gateway = Gateway::configured(|config| config.http.quotes_hold_ms_max = 0);
    for query in
        ["wait=", "wait=1", "wait=yes", "wait=TRUE", "wait=true%20", "wait=null", "wait=true&wait=true", "wait"]
    {
        let answer = gateway.post_to(&format!("/v1/payments/quote-requests?{query}"), &quote_request()).await;
        let answer = answer.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().starts_with("wait: "), "{query}: {answer:?}");
    }
    for query in ["wait=true", "wait=false", "other=1", ""] {
        gateway.post_to(&format!("/v1/payments/quote-requests?{query}"), &quote_request()).await.expect(200);
    }
}

#[tokio::test]
async fn every_rule_of_an_award_is_kept_and_its_field_named() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let path = batch.award_path();
    let shared = bad_bodies().into_iter().filter(|(edit, ..)| {
        let (Set(pointer, _) | Remove(pointer)) = edit;
        ["/version", "/request_id", "/sender_auth"].iter().any(|name| pointer.starts_with(name))
    });
    let own = [
        (Remove("/quote_id"), "INVALID_REQUEST", "quote_id"),
        (Set("/quote_id", json!(null)), "INVALID_REQUEST", "quote_id"),
        (Set("/quote_id", json!(1)), "INVALID_REQUEST", "quote_id"),
        (Set("/quote_id", json!("")), "INVALID_REQUEST", "quote_id"),
        (Set("/quote_id", json!("q".repeat(129))), "INVALID_REQUEST", "quote_id"),
    ];
    let bodies: Vec<_> = shared.chain(own).collect();
    assert!(bodies.len() >= 40, "{}", bodies.len());
    for (edit, code, field) in bodies {
        let (body, what) = apply(&edit, award_body("order-1", &batch.quote_ids[0]));
        let answer = gateway.post_to(&path, &body).await;
        assert_eq!((answer.status.as_u16(), answer.body["code"].as_str()), (400, Some(code)), "{what}: {answer:?}");
        assert!(answer.message().starts_with(&format!("{field}: ")), "{what}: {answer:?}");
        answer.expect_error(400, code);
    }
    assert_eq!(gateway.get(&batch.path()).await.expect(200).body["status"], "ready");
}
