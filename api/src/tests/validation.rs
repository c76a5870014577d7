//! Validation: every rule of a submission is kept and its field named, and what was asked for is what is journaled.

use serde_json::json;

use app::authorization::registry::Authorizers;
use journal::ShardLog;

use super::{
    bad_bodies::{
        Edit::{Remove, Set},
        bad_bodies, good_edits,
    },
    *,
};

#[tokio::test]
async fn every_rule_is_kept_and_its_field_named() {
    let gateway = Gateway::new();
    let bodies = bad_bodies();
    assert!(bodies.len() >= 150, "{}", bodies.len());
    for (edit, code, field) in bodies {
        let body = match &edit {
            Set(pointer, value) => with(pointer, value.clone()),
            Remove(pointer) => without(pointer),
        };
        let answer = gateway.post(&body).await;
        let what = match &edit {
            Set(pointer, value) => format!("{pointer} = {value}"),
            Remove(pointer) => format!("without {pointer}"),
        };
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
async fn whatever_the_contract_allows_is_accepted() {
    let gateway = Gateway::new();
    for (i, (pointer, value)) in good_edits().into_iter().enumerate() {
        let mut body = with(pointer, value.clone());
        if pointer != "/request_id" {
            set(&mut body, "/request_id", json!(format!("order-{i}")));
        }
        let answer = gateway.post(&body).await;
        assert_eq!(answer.status.as_u16(), 200, "{pointer} = {value}: {answer:?}");
        assert_eq!(answer.body["idempotent_replay"], false, "{pointer} = {value}: {answer:?}");
        assert_eq!(answer.body["status"], "pending", "{pointer} = {value}: {answer:?}");
    }
}

#[tokio::test]
async fn a_code_of_the_contract_wins_over_the_general_one() {
    let gateway = Gateway::new();
    let mut body = without("/version");
    set(&mut body, "/quote_selector", json!("someone"));
    gateway.post(&body).await.expect_error(400, "INVALID_REQUEST");
    set(&mut body, "/destination/0/account", json!("bob"));
    gateway.post(&body).await.expect_error(400, "INVALID_DESTINATION_ACCOUNT");
    set(&mut body, "/source/asset_identifier", json!("USDC"));
    gateway.post(&body).await.expect_error(400, "INVALID_SOURCE_ASSET");
    set(&mut body, "/request_id", json!("a b"));
    gateway.post(&body).await.expect_error(400, "INVALID_REQUEST_ID");
    // What cannot be judged for another fault is not guessed at.
    let mut body = with("/source/asset_identifier", json!("eip155:1/slip44:60"));
    set(&mut body, "/escrow_contract_address", json!(PAYER));
    gateway.post(&body).await.expect_error(400, "UNSUPPORTED_ASSET");
}

#[tokio::test]
async fn a_past_deadline_yields_to_a_bad_signature() {
    let gateway = Gateway::new();
    let mut body = with("/quote_deadline", json!("2029-01-01T00:00:00Z"));
    gateway.post(&body).await.expect_error(400, "INVALID_DEADLINE");
    set(&mut body, "/sender_auth/signed_messages/0/signature", json!(FORGED));
    gateway.post(&body).await.expect_error(401, "INVALID_SENDER_AUTH");
    set(&mut body, "/version", json!("2.0"));
    gateway.post(&body).await.expect_error(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn deadlines_leave_room() {
    let gateway = Gateway::configured(|config| config.deadlines.settlement_ms_min = 1_000);
    // Apart by whole seconds and still too near.
    let mut body = with("/quote_deadline", json!("2030-01-01T00:01:00.900Z"));
    set(&mut body, "/fulfillment_deadline", json!("2030-01-01T00:01:01.100Z"));
    let answer = gateway.post(&body).await.expect_error(400, "INVALID_DEADLINE");
    assert!(answer.message().starts_with("fulfillment_deadline: "), "{answer:?}");
    // In order is a matter of the body, so a bad signature does not hide it.
    let mut body = with("/fulfillment_deadline", json!("2030-01-01T00:01:00Z"));
    set(&mut body, "/sender_auth/signed_messages/0/signature", json!(FORGED));
    gateway.post(&body).await.expect_error(400, "INVALID_DEADLINE");
}

/// Chains count in whole seconds: only a payment for whose deposit there is none is refused, whatever else it says.
#[tokio::test]
async fn deadlines_in_one_second_leave_none_for_a_deposit() {
    let journal = MemoryJournal::new(4);
    let evm: Arc<dyn Authorizer> = Arc::new(LenientAuthorizer);
    let authorizer = Arc::new(Authorizers::new([(Family::Evm, evm)]));
    let gateway = Gateway::with_parts(Arc::new(journal.clone()), journal, authorizer, |_| {});
    for fulfillment in ["00:01:00.000000001Z", "00:01:00.001Z", "00:01:00.400Z", "00:01:00.999Z"] {
        let body = with("/fulfillment_deadline", json!(format!("2030-01-01T{fulfillment}")));
        let mut unsigned = body.clone();
        unsigned.as_object_mut().unwrap().remove("sender_auth");
        for (path, body) in
            [("/v1/payments", &body), ("/v1/payments/verify", &body), ("/v1/payments/prepare", &unsigned)]
        {
            let answer = gateway.post_to(path, body).await.expect_error(400, "INVALID_DEADLINE");
            let rule = "fulfillment_deadline: must lie in a later second than quote_deadline";
            assert!(answer.message().starts_with(rule), "{path} {fulfillment}: {answer:?}");
        }
    }
    let mut body = with("/quote_deadline", json!("2030-01-01T00:00:59.9995Z"));
    set(&mut body, "/fulfillment_deadline", json!("2030-01-01T00:01:00.0005Z"));
    gateway.post(&body).await.expect(200);
    // A retry's deadlines are exempt, so these are not a reason to refuse it.
    set(&mut body, "/fulfillment_deadline", json!("2030-01-01T00:00:59.9999Z"));
    assert_eq!(gateway.post(&body).await.expect(200).body["idempotent_replay"], true);
}

/// They are a set, so that a repeated item changes nothing, not even what is signed.
#[tokio::test]
async fn a_repeated_destination_is_the_same_payment() {
    let gateway = Gateway::new();
    let once = gateway.post(&body()).await.expect(200);
    let mut repeated = body();
    let item = repeated["destination"][0].clone();
    repeated["destination"] = json!(vec![item; 16]);
    let again = gateway.post(&repeated).await.expect(200);
    assert_eq!((&again.body["payment_id"], &again.body["idempotent_replay"]), (&once.body["payment_id"], &json!(true)));
    set(&mut repeated, "/request_id", json!("order-2"));
    let other = gateway.post(&repeated).await.expect(200).payment_id();
    let [one, two] = [gateway.submitted(once.payment_id().as_str()).await, gateway.submitted(other.as_str()).await];
    assert_eq!((one.terms_hash, one.terms.destination().len()), (two.terms_hash, two.terms.destination().len()));
    assert_eq!(two.fulfillment_proxies.len(), 1);
}

/// What a payer says beside its signatures is kept as it came, and bounded, as it is passed on to others.
#[tokio::test]
async fn payloads_are_kept_and_have_a_limit() {
    let gateway = Gateway::new();
    let payload = |bytes: usize| json!({"note": "x".repeat(bytes - r#"{"note":""}"#.len())});
    let mut body = with("/sender_auth/signed_messages/0/payload", payload(8_000));
    set(
        &mut body,
        "/sender_auth/signed_messages/1",
        json!({"message": "0x33", "signature": "0x44", "payload": payload(193)}),
    );
    let answer = gateway.post(&body).await.expect_error(413, "REQUEST_TOO_LARGE");
    assert!(
        answer.message().starts_with("sender_auth.signed_messages: payloads must have at most 8192 "),
        "{answer:?}"
    );
    set(&mut body, "/sender_auth/signed_messages/1/payload", payload(192));
    let accepted = gateway.post(&body).await.expect(200);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    let kept: Vec<Value> = events::Payload::of_request(&submitted.request)
        .iter()
        .map(|payload| serde_json::from_str(payload.as_str()).unwrap())
        .collect();
    assert_eq!(kept, [payload(8_000), payload(192)]);
}

/// No account is one of two families of chains, so a request for several names one proxy for each.
#[tokio::test]
async fn a_proxy_can_be_named_for_each_chain() {
    let gateway = Gateway::new();
    let mut body = with("/destination/1", json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT}));
    set(&mut body, "/fulfillment_proxies", json!({"eip155:31338": TRUSTED}));
    let accepted = gateway.post(&body).await.expect(200);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    let asset = |index: usize| submitted.terms.destination()[index].asset().to_string();
    assert_eq!((asset(0), asset(1)), (SOURCE_ASSET.to_owned(), DESTINATION_ASSET.to_owned()));
    assert_eq!(submitted.fulfillment_proxies.iter().map(events::Account::as_str).collect::<Vec<_>>(), [PROXY, TRUSTED]);
    set(&mut body, "/fulfillment_proxy", json!(PROXY));
    let answer = gateway.post(&body).await.expect_error(400, "INVALID_REQUEST");
    assert!(answer.message().starts_with("fulfillment_proxies: must not be given together with"), "{answer:?}");
}

#[tokio::test]
async fn what_was_asked_for_is_what_is_journaled() {
    let gateway = Gateway::new();
    let mut body = body();
    set(&mut body, "/destination/1", json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT}));
    set(&mut body, "/settler_auth_required", json!({"kyc": true, "aml": true, "none": false}));
    set(&mut body, "/settler_requirements", json!({"whitelist": ["did:web:a"], "blacklist": ["did:web:b"]}));
    set(&mut body, "/fulfillment_verifier", json!({"account": TRUSTED, "endpoint": "https://verifier.example"}));
    set(&mut body, "/escrow_contract_address", json!(TRUSTED));
    let text = format!(" {body} ");
    let answer = gateway.post_text(text.clone()).await.expect(200);
    let payment_id = answer.payment_id();
    assert_eq!(payment_id, PaymentId::derive(&format!("eip155:{PAYER}"), "order-1"));
    let submitted = gateway.submitted(payment_id.as_str()).await;
    assert_eq!(submitted.payment_id, payment_id);
    assert_eq!(submitted.originator, format!("eip155:{PAYER}"));
    assert_eq!(submitted.terms_hash, submitted.terms.hash());
    // Sorted by asset, whatever the order in the body.
    assert_eq!(submitted.terms.destination()[0].asset().to_string(), SOURCE_ASSET);
    assert_eq!(submitted.fulfillment_proxies.iter().map(events::Account::as_str).collect::<Vec<_>>(), [PROXY, PROXY]);
    assert_eq!(submitted.required_policies, ["aml", "kyc"]);
    assert_eq!(submitted.whitelist[0].as_str(), "did:web:a");
    assert_eq!(submitted.blacklist[0].as_str(), "did:web:b");
    assert_eq!((submitted.verifier.account.as_str(), submitted.escrow.releaser.as_str()), (TRUSTED, TRUSTED));
    assert_eq!(submitted.verifier.endpoint, "https://verifier.example");
    assert_eq!(submitted.escrow.contract.as_str(), TRUSTED);
    // The slowest of the chains decides: 3600 s on the source, 7200 s on the other.
    assert_eq!(submitted.escrow.refund_after - submitted.escrow.fulfillment_deadline, 7_200);
    assert_eq!(submitted.submitted_at, at("2030-01-01T00:00:00Z"));
    assert_eq!(submitted.request, text);
}

#[tokio::test]
async fn a_proxy_is_needed_on_every_destination_chain() {
    let gateway = Gateway::new();
    // Trusted on the one destination chain and not on the other.
    let mut body = with("/fulfillment_proxy", json!(TRUSTED));
    gateway.post(&body).await.expect(200);
    set(&mut body, "/destination/1", json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT}));
    set(&mut body, "/request_id", json!("order-2"));
    gateway.post(&body).await.expect_error(400, "UNTRUSTED_PROXY");
}
