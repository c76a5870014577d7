//! Refused retries: what a request is answered with that would be refused and whose payment exists already, and what every
//! refusal says of its id.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;

use chains::config::{ChainConfig, EvmConfig};
use journal::ShardLog;
use net::callers::limits::RateConfig;

use super::{
    doubles::AwayJournal,
    identities::{enveloped, holder},
    quote_requests::{award_body, open_batch, open_batch_of, quote_request},
    *,
};

const PAYMENTS: &str = "/v1/payments";
const VERIFY: &str = "/v1/payments/verify";
const PREPARE: &str = "/v1/payments/prepare";
const QUOTES: &str = "/v1/payments/quote-requests";

/// Takes the one signature that stands for exactly what is signed, as a wallet's would; see [`Binding::signature`].
#[derive(Default)]
struct Binding {
    /// A contract account that takes no signature any more.
    broken: AtomicBool,
}

impl Binding {
    /// The signature over payment, contracts, accounts, deadline and a refund window of so many seconds.
    fn signature(request: &AuthorizationRequest<'_>, window: u64) -> String {
        let AuthorizationRequest { payment_id, terms_hash, escrow_contract, reserver, releaser, .. } = request;
        let deadline = unix_seconds(request.fulfillment_deadline);
        let signed = format!(
            "{payment_id} {terms_hash} {escrow_contract} {reserver} {releaser} {deadline} {window} {}",
            request.quote_hash
        );
        Hash32::sha256(signed).to_string()
    }
}

#[async_trait]
impl Authorizer for Binding {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        let signed = &request.signed_messages[0];
        let window = signed.payload.as_ref().and_then(|payload| payload["window"].as_u64()).unwrap_or_default();
        if self.broken.load(Ordering::SeqCst) || signed.signature != Self::signature(request, window) {
            return Err(AuthorizeError::Refused("signature is not that of the payer".to_owned()));
        }
        if window < request.refund_delay_seconds {
            return Err(AuthorizeError::Refused("the refund window opens too early".to_owned()));
        }
        let Authorized { authorization, escrow } = LenientAuthorizer.authorize(request).await?;
        Ok(Authorized {
            authorization,
            escrow: EscrowPlan { refund_after: escrow.fulfillment_deadline + window, ..escrow },
        })
    }

    async fn confirm(&self, _: &AuthorizationRequest<'_>, _: &Authorized) -> Result<(), AuthorizeError> {
        Ok(())
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        let mut prepared = LenientAuthorizer.prepare(request, payload).await?;
        let window = request.refund_delay_seconds;
        prepared.messages[0].message = Self::signature(request, window);
        prepared.messages[0].payload.insert("window".to_owned(), json!(window));
        Ok(prepared)
    }
}

/// Gateways on one journal, each with a configuration of its own.
struct Stage {
    journal: MemoryJournal,
    binding: Arc<Binding>,
}

impl Stage {
    fn new() -> Self {
        Self { journal: MemoryJournal::new(4), binding: Arc::new(Binding::default()) }
    }

    fn gateway(&self, change: impl FnOnce(&mut GatewayConfig)) -> Gateway {
        Gateway::with_parts(Arc::new(self.journal.clone()), self.journal.clone(), self.binding.clone(), |config| {
            config.x402.settle_hold_ms_max = 0;
            change(config);
        })
    }

    async fn commits(&self) -> u64 {
        let heads = futures::future::join_all((0..4).map(|shard| self.journal.head(shard))).await;
        heads.into_iter().map(Result::unwrap).sum()
    }
}

/// `body` signed for what `gateway` asks for.
async fn signed(gateway: &Gateway, body: &Value) -> Value {
    let mut unsigned = body.clone();
    unsigned.as_object_mut().unwrap().remove("sender_auth");
    let prepared = gateway.post_to(PREPARE, &unsigned).await.expect(200);
    let mut message = prepared.body["signed_messages"][0].clone();
    message["signature"] = message["message"].clone();
    let mut body = body.clone();
    body["sender_auth"] = json!({"message_scheme": prepared.body["message_scheme"], "signed_messages": [message]});
    body
}

fn changed(body: &Value, pointer: &str, value: Value) -> Value {
    let mut body = body.clone();
    set(&mut body, pointer, value);
    body
}

fn evm(config: &mut GatewayConfig, chain: usize) -> &mut EvmConfig {
    match &mut config.chains[chain].chain {
        ChainConfig::Evm(chain) => chain,
        _ => panic!("the chains are EVM chains"),
    }
}

/// A change of the configuration, and its name.
type Change = (&'static str, fn(&mut GatewayConfig));

/// What may have changed since a payment was accepted.
fn changes() -> Vec<Change> {
    vec![
        ("the asset is delisted", |config| evm(config, 0).common.assets.clear()),
        ("the destination's asset is delisted", |config| evm(config, 1).common.assets.clear()),
        ("the reserver is another", |config| evm(config, 0).common.reserver = TRUSTED.parse().unwrap()),
        ("the verifier is another", |config| evm(config, 0).common.releaser = TRUSTED.parse().unwrap()),
        ("the escrow is another", |config| evm(config, 0).common.escrow_contract = RECIPIENT.parse().unwrap()),
        ("the refund delay is longer", |config| evm(config, 1).common.refund_delay_seconds = 50_000),
        ("the recipient is a contract", |config| evm(config, 1).common.fulfillment_proxy = RECIPIENT.parse().unwrap()),
    ]
}

#[track_caller]
fn assert_exists(answer: Answer, status: u16, code: &str, payment_id: &PaymentId) {
    let answer = answer.expect_error(status, code);
    assert_eq!(
        (&answer.body["request_id_reusable"], answer.payment_id()),
        (&json!(false), payment_id.clone()),
        "{answer:?}"
    );
    assert!(answer.body.get("status").is_none() && !answer.text.contains("pending"), "{answer:?}");
}

#[tokio::test]
async fn what_is_unchanged_is_a_replay_whatever_the_configuration_says_now() {
    for (what, change) in changes() {
        let stage = Stage::new();
        let before = stage.gateway(|_| {});
        let first = signed(&before, &body()).await;
        // The payer signs again, for other deadlines, by what it was told at first.
        let again = changed(&body(), "/fulfillment_deadline", json!("2030-01-01T00:11:00Z"));
        let again = signed(&before, &again).await;
        let id = before.post(&first).await.expect(200).payment_id();
        let later = changed(&first, "/quote_deadline", json!("2020-01-01T00:00:00Z"));

        let now = stage.gateway(change);
        for blind in [false, true] {
            now.payments.set_blind(blind);
            for retry in [&first, &later, &again] {
                let replay = now.post(retry).await;
                assert_eq!(replay.status, 200, "{what}: {replay:?}");
                assert_eq!((replay.payment_id(), &replay.body["idempotent_replay"]), (id.clone(), &json!(true)));
                let verified = now.post_to(VERIFY, retry).await.expect(200);
                assert_eq!((verified.payment_id(), &verified.body["status"]), (id.clone(), &json!("pending")));
            }
            let forged = changed(&first, "/sender_auth/signed_messages/0/signature", json!("0x99"));
            let dearer = changed(&first, "/max_source_amount", json!("1100001"));
            for path in [PAYMENTS, VERIFY] {
                assert_exists(now.post_to(path, &forged).await, 401, "INVALID_SENDER_AUTH", &id);
                assert_exists(now.post_to(path, &dearer).await, 409, "IDEMPOTENCY_TERMS_MISMATCH", &id);
            }
        }
        assert_eq!(stage.commits().await, 1, "{what}");
        // What is new has to be as the configuration asks.
        let new = now.post(&changed(&first, "/request_id", json!("order-2"))).await;
        assert!(new.status.is_client_error(), "{what}: {new:?}");
        assert_eq!(new.body["request_id_reusable"], true, "{what}: {new:?}");
        assert!(new.body.get("payment_id").is_none(), "{what}: {new:?}");
    }
}

#[tokio::test]
async fn a_contract_account_that_signs_no_more_has_its_payment_by_the_signature_that_was_taken() {
    let stage = Stage::new();
    let gateway = stage.gateway(|_| {});
    let first = signed(&gateway, &body()).await;
    let id = gateway.post(&first).await.expect(200).payment_id();
    let other = signed(&gateway, &changed(&body(), "/fulfillment_deadline", json!("2030-01-01T00:11:00Z"))).await;
    stage.binding.broken.store(true, Ordering::SeqCst);
    let upper = first["sender_auth"]["signed_messages"][0]["signature"].as_str().unwrap().to_uppercase();
    let upper = changed(&first, "/sender_auth/signed_messages/0/signature", json!(upper.replacen("0X", "0x", 1)));
    for retry in [&first, &upper] {
        let replay = gateway.post(retry).await.expect(200);
        assert_eq!((replay.payment_id(), &replay.body["idempotent_replay"]), (id.clone(), &json!(true)));
    }
    assert_exists(gateway.post(&other).await, 401, "INVALID_SENDER_AUTH", &id);
    assert_eq!(stage.commits().await, 1);
}

#[tokio::test]
async fn changed_economics_are_a_mismatch_before_the_signature_is_judged() {
    let stage = Stage::new();
    let gateway = stage.gateway(|_| {});
    let first = signed(&gateway, &body()).await;
    let id = gateway.post(&first).await.expect(200).payment_id();
    for (pointer, value) in [
        ("/max_source_amount", json!("1099999")),
        ("/fulfillment_amount", json!("1")),
        ("/destination/0/account", json!(PAYER)),
        ("/destination/0/asset_identifier", json!("eip155:999/erc20:0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0")),
        ("/source/asset_identifier", json!("eip155:31337/erc20:0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9")),
    ] {
        for path in [PAYMENTS, VERIFY] {
            let answer = gateway.post_to(path, &changed(&first, pointer, value.clone())).await;
            assert_exists(answer, 409, "IDEMPOTENCY_TERMS_MISMATCH", &id);
        }
    }
    // What is not of the right form is said so, and that the id is spent.
    for (pointer, value, code) in [
        ("/max_source_amount", json!(5), "INVALID_REQUEST"),
        ("/destination/0/account", json!("somebody"), "INVALID_DESTINATION_ACCOUNT"),
        ("/version", json!("2.0"), "INVALID_REQUEST"),
        ("/quote_deadline", json!("tomorrow"), "INVALID_REQUEST"),
        ("/sender_auth/signed_messages", json!([]), "INVALID_REQUEST"),
    ] {
        assert_exists(gateway.post(&changed(&first, pointer, value)).await, 400, code, &id);
    }
    assert_eq!(stage.commits().await, 1);
}

#[tokio::test]
async fn a_proof_that_holds_no_more_needs_the_signature_that_was_taken() {
    let gateway = Gateway::new();
    let first = enveloped(&holder(1), &body());
    let id = gateway.post(&first).await.expect(200).payment_id();
    // Its proof was made in the future of this clock, as one that expired was made in its past.
    gateway.clock.set("2029-01-01T00:00:00Z");
    gateway.post(&changed(&first, "/request_id", json!("order-2"))).await.expect_error(401, "INVALID_PROOF");
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        for path in [PAYMENTS, VERIFY] {
            let replay = gateway.post_to(path, &first).await.expect(200);
            assert_eq!((replay.payment_id(), &replay.body["status"]), (id.clone(), &json!("pending")));
            let forged = changed(&first, "/sender_auth/signed_messages/0/signature", json!(FORGED));
            assert_exists(gateway.post_to(path, &forged).await, 401, "INVALID_PROOF", &id);
            let other = changed(&first, "/fulfillment_amount", json!("7"));
            assert_exists(gateway.post_to(path, &other).await, 409, "IDEMPOTENCY_TERMS_MISMATCH", &id);
            let account = changed(&first, "/source/account", json!(RECIPIENT));
            let taken = gateway.post_to(path, &account).await.expect_error(409, "REQUEST_ID_TAKEN");
            assert_eq!((&taken.body["request_id_reusable"], taken.body.get("payment_id")), (&json!(false), None));
        }
    }
    // The same key of somebody else is another payment, of whom it cannot be said more than that there is none.
    let stranger = gateway.post(&enveloped(&holder(2), &body())).await.expect_error(401, "INVALID_PROOF");
    assert_eq!(stranger.body["request_id_reusable"], true);
}

#[tokio::test]
async fn an_award_is_a_replay_whatever_the_configuration_says_now() {
    for (what, change) in changes() {
        let stage = Stage::new();
        let before = stage.gateway(|_| {});
        let batch = open_batch(&before).await;
        let request = json!({"version": "1.0", "request_id": "order-1", "quote_request_id": batch.id});
        let award = signed(&before, &changed(&request, "/quote_id", json!(batch.quote_ids[0]))).await;
        let other = signed(&before, &changed(&request, "/quote_id", json!(batch.quote_ids[1]))).await;
        let path = batch.award_path();
        let id = before.post_to(&path, &award).await.expect(200).payment_id();
        let commits = stage.commits().await;

        let now = stage.gateway(change);
        for broken in [false, true] {
            stage.binding.broken.store(broken, Ordering::SeqCst);
            let replay = now.post_to(&path, &award).await;
            assert_eq!(replay.status, 200, "{what}: {replay:?}");
            assert_eq!((replay.payment_id(), &replay.body["idempotent_replay"]), (id.clone(), &json!(true)));
            assert_exists(now.post_to(&path, &other).await, 409, "IDEMPOTENCY_TERMS_MISMATCH", &id);
            let forged = changed(&award, "/sender_auth/signed_messages/0/signature", json!("0x99"));
            assert_exists(now.post_to(&path, &forged).await, 401, "INVALID_SENDER_AUTH", &id);
            assert_exists(
                now.post_to(&path, &changed(&award, "/version", json!("2.0"))).await,
                400,
                "INVALID_REQUEST",
                &id,
            );
        }
        let free = now.post_to(&path, &changed(&other, "/request_id", json!("order-2"))).await;
        assert_eq!(free.body["request_id_reusable"], true, "{what}: {free:?}");
        assert_eq!(stage.commits().await, commits, "{what}");
    }
}

#[tokio::test]
async fn an_award_of_another_batch_is_not_a_replay() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let other = open_batch_of(&gateway, &changed(&quote_request(), "/request_id", json!("batch-2"))).await;
    let award = award_body("order-1", &batch.quote_ids[0]);
    let id = gateway.post_to(&batch.award_path(), &award).await.expect(200).payment_id();
    assert_exists(gateway.post_to(&other.award_path(), &award).await, 404, "QUOTE_NOT_FOUND", &id);
    let replay = gateway.post_to(&batch.award_path(), &award).await.expect(200);
    assert_eq!((replay.payment_id(), &replay.body["idempotent_replay"]), (id, &json!(true)));
}

#[tokio::test]
async fn x402_finds_the_payment_and_holds_it_against_the_requirement() {
    for (what, change) in changes() {
        let stage = Stage::new();
        let before = stage.gateway(|_| {});
        let first = signed(&before, &body()).await;
        let message = x402::message_of(&first);
        let settled = before.post_to("/x402/v1/settle", &message).await.expect(200);
        let id = settled.body["extensions"]["gw"]["paymentId"].clone();
        assert!(id.is_string(), "{settled:?}");

        let now = stage.gateway(change);
        for path in ["/x402/v1/settle", "/x402/v1/verify"] {
            let again = now.post_to(path, &message).await.expect(200);
            let gw = &again.body["extensions"]["gw"];
            assert_eq!(
                (&gw["paymentId"], &gw["idempotentReplay"], &gw["state"]),
                (&id, &json!(true), &json!("pending")),
                "{what}: {again:?}"
            );
            // A merchant who asks for more is not paid by it.
            let mut dearer = message.clone();
            for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
                set(&mut dearer, &format!("{at}/extra/gw/fulfillmentAmount"), json!("1000001"));
            }
            let refused = now.post_to(path, &dearer).await;
            let gw = &refused.body["extensions"]["gw"];
            assert_eq!((&gw["state"], gw.get("idempotentReplay")), (&json!("rejected"), None), "{what}: {refused:?}");
            assert_ne!(refused.body.get("isValid").or_else(|| refused.body.get("success")), Some(&json!(true)));
            // Nor by a signature that is not the payer's.
            let pointer = "/paymentPayload/payload/paymentRequest/sender_auth/signed_messages/0/signature";
            let refused = now.post_to(path, &changed(&message, pointer, json!("0x99"))).await;
            let gw = &refused.body["extensions"]["gw"];
            assert_eq!((&gw["code"], &gw["paymentId"]), (&json!("INVALID_SENDER_AUTH"), &id), "{what}: {refused:?}");
        }
        assert_eq!(stage.commits().await, 1, "{what}");
    }
}

#[tokio::test]
async fn a_quote_request_is_a_replay_whatever_the_configuration_says_now() {
    let path = QUOTES;
    for (what, change) in
        changes().into_iter().filter(|(what, _)| what.contains("listed") || what.contains("recipient"))
    {
        let stage = Stage::new();
        let before = stage.gateway(|_| {});
        let first = before.post_to(path, &quote_request()).await.expect(200);
        let now = stage.gateway(change);
        let later = changed(&quote_request(), "/quote_deadline", json!("2030-01-01T00:02:00Z"));
        for blind in [false, true] {
            now.payments.set_blind(blind);
            for body in [&quote_request(), &later] {
                let again = now.post_to(path, body).await;
                assert_eq!(again.status, 200, "{what}: {again:?}");
                assert_eq!(again.body["quote_request_id"], first.body["quote_request_id"]);
            }
            for (pointer, value) in [
                ("/fulfillment_amount", json!("7")),
                ("/settler_requirements", json!({"whitelist": ["did:web:a.example"]})),
            ] {
                let other = now.post_to(path, &changed(&quote_request(), pointer, value)).await;
                assert_eq!(other.body["request_id_reusable"], false, "{what}: {other:?}");
                assert!(other.status.is_client_error(), "{what}: {other:?}");
            }
        }
        let new = now.post_to(path, &changed(&quote_request(), "/request_id", json!("batch-2"))).await;
        assert_eq!((new.status.as_u16(), &new.body["request_id_reusable"]), (400, &json!(true)), "{what}: {new:?}");
        assert_eq!(stage.commits().await, 1, "{what}");
    }
}

#[tokio::test]
async fn only_the_journal_makes_an_id_free() {
    let journal = MemoryJournal::new(4);
    let reads = AwayJournal::of(&journal);
    let gateway = Gateway::with_journal(reads.clone(), journal, |_| {});
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let forged = with("/sender_auth/signed_messages/0/signature", json!(FORGED));
    let bad = |body: &Value, request_id: &str| {
        changed(&changed(body, "/version", json!("2.0")), "/request_id", json!(request_id))
    };
    let new = bad(&body(), "order-2");
    let batch = bad(&quote_request(), "batch-2");
    let award = bad(&award_body("order-2", "quo_x"), "order-2");
    for (path, body) in [(PAYMENTS, &new), (VERIFY, &new), (PREPARE, &new), (QUOTES, &batch)] {
        let answer = gateway.post_to(path, body).await.expect_error(400, "INVALID_REQUEST");
        assert_eq!(answer.body["request_id_reusable"], true, "{path}");
    }
    reads.set_away(true);
    let missing = format!("{QUOTES}/{}/award", events::QuoteRequestId::derive("nobody", "x"));
    for (path, body) in
        [(PAYMENTS, &new), (VERIFY, &new), (PREPARE, &new), (QUOTES, &batch), (missing.as_str(), &award)]
    {
        let answer = gateway.post_to(path, body).await.expect_error(400, "INVALID_REQUEST");
        assert!(answer.body.get("request_id_reusable").is_none(), "{path}: {answer:?}");
    }
    // What the read model has is known without the journal; whose it is, is not.
    assert_exists(gateway.post(&forged).await, 401, "INVALID_SENDER_AUTH", &id);
    gateway.payments.set_blind(true);
    let answer = gateway.post(&forged).await.expect_error(401, "INVALID_SENDER_AUTH");
    assert!(answer.body.get("request_id_reusable").is_none() && answer.body.get("payment_id").is_none(), "{answer:?}");
    // Without a key there is nothing to look for.
    reads.set_away(false);
    for (pointer, value) in [("/request_id", json!("a b")), ("/source/account", json!("somebody"))] {
        let answer = gateway.post(&with(pointer, value)).await.expect(400);
        assert!(answer.body.get("request_id_reusable").is_none(), "{answer:?}");
    }
}

#[tokio::test]
async fn a_flood_of_bad_bodies_costs_no_more_than_the_callers_budget() {
    let journal = MemoryJournal::new(4);
    let reads = AwayJournal::of(&journal);
    let gateway = Gateway::with_journal(reads.clone(), journal, |config| {
        config.limits.exempt = Networks::default();
        config.limits.writes = RateConfig { per_second: 1, burst: 500 };
        config.limits.unsigned = RateConfig { per_second: 1, burst: 20 };
    });
    let post = async |from: &str, n: usize| {
        let body = changed(&with("/version", json!("2.0")), "/request_id", json!(format!("order-{n}")));
        let mut request = Request::post(PAYMENTS).header("content-type", "application/json");
        let peer: SocketAddr = format!("{from}:4711").parse().unwrap();
        request = request.extension(ConnectInfo(peer));
        gateway.send(request.body(body.to_string().into()).unwrap()).await.expect_error(400, "INVALID_REQUEST")
    };
    let mut free = 0;
    for n in 0..200 {
        let answer = post("198.51.100.1", n).await;
        match answer.body.get("request_id_reusable") {
            Some(flag) => {
                assert_eq!(flag, &json!(true));
                free += 1;
            }
            None => assert!(answer.body.get("payment_id").is_none(), "{answer:?}"),
        }
    }
    // A unit comes back now and then.
    assert!((20..40).contains(&free), "{free}");
    assert_eq!(reads.loads(), free);
    // Another caller has a budget of its own.
    assert_eq!(post("203.0.113.1", 0).await.body["request_id_reusable"], true);
}
