//! Admission control through the routes: what policies decline, what a pause stops, and a journal that is away.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use chains::readiness::{Look, ReadinessProbe};
use events::ChainId;
use sagas::ports::Transient;

use super::{doubles::AwayJournal, *};

const POLICIES: &str = r#"
@id("anyone") permit (principal, action, resource);
@id("not-a-whole-million") forbid (principal, action, resource) when { resource.amount == "1000001" };
@id("no-batches-of-seven") forbid (principal, action, resource)
when { context.stage == "quote_request" && resource.amount == "7" };
"#;

/// A gateway with a policy set and a deny list.
fn guarded(deny: &str) -> (Gateway, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).map(|()| path).unwrap()
    };
    let (policies, deny) = (write("policies.cedar", POLICIES), write("deny.txt", deny));
    let gateway = Gateway::configured(|config| {
        config.counterparty.policy_file = Some(policies);
        config.counterparty.deny_list = Some(deny);
    });
    (gateway, directory)
}

fn quote_request() -> Value {
    without("/sender_auth")
}

const QUOTE_REQUESTS: &str = "/v1/payments/quote-requests";

#[tokio::test]
async fn what_permitted_a_payment_is_journaled() {
    let (gateway, _files) = guarded("");
    let accepted = gateway.post(&body()).await.expect(200);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    let decision = submitted.counterparty.unwrap();
    assert_eq!(decision.policies, ["anyone"]);
    assert_ne!(decision.policy_set, Hash32::ZERO);

    let open = Gateway::new();
    let accepted = open.post(&body()).await.expect(200);
    assert_eq!(open.submitted(accepted.payment_id().as_str()).await.counterparty, None);
}

#[tokio::test]
async fn a_declined_payment_is_told_nothing_and_leaves_nothing() {
    let (gateway, _files) = guarded("did:web:unwanted.example\n0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed # recipient");
    let answer = gateway.post(&body()).await.expect_error(403, "PAYMENT_DECLINED");
    assert_eq!(answer.body["request_id_reusable"], true);
    assert_eq!(answer.body["retry_classification"], "NOT_RETRYABLE");
    assert!(answer.body.get("payment_id").is_none());

    let (gateway, _files) = guarded("");
    let by_policy = gateway.post(&with("/fulfillment_amount", json!("1000001"))).await;
    let by_policy = by_policy.expect_error(403, "PAYMENT_DECLINED");
    // Neither says which rule it was, so that the two cannot be told apart.
    assert_eq!(answer.message(), by_policy.message());
    for leak in ["polic", "deny", "list", "whole-million"] {
        assert!(!by_policy.text.to_lowercase().contains(leak), "{leak}: {}", by_policy.text);
    }
    let payment_id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-1");
    assert!(gateway.journal.load(&payment_id.into()).await.unwrap().is_empty());
    // The id is free: the same request with a sum that is wanted.
    assert_eq!(gateway.post(&body()).await.expect(200).body["idempotent_replay"], false);

    gateway.post_to(QUOTE_REQUESTS, &quote_request()).await.expect(200);
    let mut seven = quote_request();
    seven["fulfillment_amount"] = json!("7");
    seven["request_id"] = json!("order-7");
    gateway.post_to(QUOTE_REQUESTS, &seven).await.expect_error(403, "PAYMENT_DECLINED");
}

/// Before it come signature, existing payment and deadlines; behind it only the append.
#[tokio::test]
async fn counterparties_are_judged_last_and_for_new_payments_only() {
    let (gateway, _files) = guarded("");
    let unwanted = with("/fulfillment_amount", json!("1000001"));
    let mut forged = unwanted.clone();
    set(&mut forged, "/sender_auth/signed_messages/0/signature", json!(FORGED));
    gateway.post(&forged).await.expect_error(401, "INVALID_SENDER_AUTH");
    let mut late = unwanted.clone();
    set(&mut late, "/quote_deadline", json!("2029-01-01T00:00:00Z"));
    gateway.post(&late).await.expect_error(400, "INVALID_DEADLINE");
    gateway.post(&unwanted).await.expect_error(403, "PAYMENT_DECLINED");

    // Accepted before it was unwanted: a replay, whatever the read model knows.
    let before = Gateway::new();
    let accepted = before.post(&unwanted).await.expect(200);
    let submitted = before.submitted(accepted.payment_id().as_str()).await;
    gateway.append(&accepted.payment_id(), vec![PaymentEvent::Submitted(Box::new(submitted))]).await;
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        assert_eq!(gateway.post(&unwanted).await.expect(200).body["idempotent_replay"], true);
    }
}

#[tokio::test]
async fn a_pause_stops_what_is_new_and_nothing_else() {
    let gateway = Gateway::new();
    let before = gateway.post(&body()).await.expect(200);
    gateway.post_to(QUOTE_REQUESTS, &quote_request()).await.expect(200);
    gateway.pause.send_replace(true);

    let new = with("/request_id", json!("order-2"));
    let answer = gateway.post(&new).await.expect_error(503, "SERVICE_PAUSED");
    assert_eq!(answer.body["request_id_reusable"], true);
    assert_eq!(answer.body["retry_classification"], "RETRY_AFTER_DELAY");
    let mut batch = quote_request();
    batch["request_id"] = json!("order-2");
    gateway.post_to(QUOTE_REQUESTS, &batch).await.expect_error(503, "SERVICE_PAUSED");
    // A 503 says that nothing was accepted, which is not so of what exists.
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        assert_eq!(gateway.post(&body()).await.expect(200).body["idempotent_replay"], true);
        let replay = gateway.post_to(QUOTE_REQUESTS, &quote_request()).await.expect(200);
        assert_eq!(replay.body["idempotent_replay"], true);
    }
    gateway.get(&format!("/v1/payments/{}/status", before.payment_id())).await.expect(200);
    gateway.get("/v1/defaults").await.expect(200);
    gateway.post_to("/v1/payments/verify", &new).await.expect(200);

    gateway.pause.send_replace(false);
    assert_eq!(gateway.post(&new).await.expect(200).body["idempotent_replay"], false);
    assert_eq!(gateway.post_to(QUOTE_REQUESTS, &batch).await.expect(200).body["idempotent_replay"], false);
}

/// What every look at a chain finds.
struct Found(ChainId, Look);

#[async_trait]
impl ReadinessProbe for Found {
    fn chain_id(&self) -> &ChainId {
        &self.0
    }

    async fn look(&self, _: bool) -> Result<Look, Transient> {
        Ok(self.1)
    }
}

/// Looks at the chain of an asset as often as makes it what was found.
async fn look(gateway: &Gateway, asset: &str, found: Look) {
    let chain = asset.split_once('/').unwrap().0.parse().unwrap();
    let probe = Found(chain, found);
    for _ in 0..3 {
        gateway.chains.look(&probe, Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn a_chain_that_is_not_ready_refuses_what_is_new_on_it_and_nothing_else() {
    for asset in [SOURCE_ASSET, DESTINATION_ASSET] {
        let gateway = Gateway::new();
        let before = gateway.post(&body()).await.expect(200);
        gateway.post_to(QUOTE_REQUESTS, &quote_request()).await.expect(200);
        look(&gateway, asset, Look::ContractMissing).await;

        let new = with("/request_id", json!("order-2"));
        let answer = gateway.post(&new).await.expect_error(503, "CHAIN_UNAVAILABLE");
        assert_eq!(answer.body["request_id_reusable"], true);
        assert!(answer.headers.contains_key("retry-after"));
        let chain = asset.split_once('/').unwrap().0;
        assert!(answer.message().contains(chain), "{}", answer.text);
        let mut batch = quote_request();
        batch["request_id"] = json!("order-2");
        gateway.post_to(QUOTE_REQUESTS, &batch).await.expect_error(503, "CHAIN_UNAVAILABLE");
        let payment_id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-2");
        assert!(gateway.journal.load(&payment_id.into()).await.unwrap().is_empty());

        // Replays and reads go on, and the gateway stays where clients are sent.
        for blind in [false, true] {
            gateway.payments.set_blind(blind);
            assert_eq!(gateway.post(&body()).await.expect(200).body["idempotent_replay"], true);
            let replay = gateway.post_to(QUOTE_REQUESTS, &quote_request()).await.expect(200);
            assert_eq!(replay.body["idempotent_replay"], true);
        }
        gateway.get(&format!("/v1/payments/{}/status", before.payment_id())).await.expect(200);
        let ready = gateway.get("/readyz").await.expect(200).body;
        let chains = ready["chains"].as_array().unwrap();
        let of_chain = chains.iter().find(|one| one["chain_id"] == chain).unwrap();
        assert_eq!((&of_chain["ready"], &of_chain["cause"]), (&json!(false), &json!("contract_missing")));
        assert!(chains.iter().filter(|one| one["ready"] == true).count() == chains.len() - 1, "{ready}");

        look(&gateway, asset, Look::Head(1)).await;
        assert_eq!(gateway.post(&new).await.expect(200).body["idempotent_replay"], false);
        assert_eq!(gateway.post_to(QUOTE_REQUESTS, &batch).await.expect(200).body["idempotent_replay"], false);
    }
}

#[tokio::test]
async fn while_the_journal_is_away_a_view_that_is_behind_is_shown_and_nothing_is_said_to_be_missing() {
    let kept = MemoryJournal::new(4);
    let away = AwayJournal::of(&kept);
    away.set_away(true);
    let before = Gateway::with_journal(Arc::new(kept.clone()), kept.clone(), |_| {});
    let known = before.post(&body()).await.expect(200).payment_id();
    let gateway = Gateway::with_journal(away, kept, |_| {});
    let unknown = PaymentId::derive(&format!("eip155:{PAYER}"), "never");
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        gateway.get(&format!("/v1/payments/{known}/status")).await.expect(200);
        gateway.get(&format!("/v1/payments/{unknown}/status")).await.expect_error(503, "SERVICE_UNAVAILABLE");
    }
    gateway.post(&with("/request_id", json!("order-2"))).await.expect_error(503, "SERVICE_UNAVAILABLE");
}
