//! Idempotency of submissions: replays, conflicts, and acknowledgements that are lost.

use serde_json::json;

use events::Epochs;
use journal::{AppendError, ReadError, Recorded, ShardLog, StreamStore, memory::Fault};

use super::*;

#[tokio::test]
async fn the_same_economics_are_a_replay() {
    let gateway = Gateway::new();
    let first = gateway.post(&body()).await.expect(200);
    assert_eq!(first.body["idempotent_replay"], false);
    let second = || json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT});

    // Fields that are exempt, or written in another way.
    for (pointer, value) in [
        ("/version", json!("1.1")),
        ("/quote_deadline", json!("2030-01-01T00:02:00Z")),
        ("/fulfillment_deadline", json!("2030-01-01T01:00:00Z")),
        ("/quote_deadline", json!("2020-01-01T00:00:00Z")),
        ("/sender_auth/signed_messages/0/signature", json!("0x33")),
        ("/settler_requirements", json!({"whitelist": ["did:web:a"]})),
        ("/settler_auth_required", json!({"kyc": true})),
        ("/escrow_contract_address", json!(TRUSTED)),
        ("/source/account", json!("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")),
        ("/source/asset_identifier", json!(SOURCE_ASSET.replace("31337", "031337"))),
    ] {
        let answer = gateway.post(&with(pointer, value.clone())).await.expect(200);
        assert_eq!(answer.body["idempotent_replay"], true, "{pointer} = {value}");
        assert_eq!(answer.body["payment_id"], first.body["payment_id"], "{pointer} = {value}");
    }

    for (pointer, value) in [
        ("/source/asset_identifier", json!(DESTINATION_ASSET)),
        ("/destination/0/account", json!(PAYER)),
        ("/destination/0/asset_identifier", json!(SOURCE_ASSET)),
        ("/destination/1", second()),
        ("/fulfillment_amount", json!("1000001")),
        ("/max_source_amount", json!("1099999")),
        ("/max_source_amount", json!("1100001")),
    ] {
        let answer = gateway.post(&with(pointer, value.clone())).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
        assert_eq!(answer.body["payment_id"], first.body["payment_id"], "{pointer} = {value}");
        assert_eq!(answer.body["request_id_reusable"], false, "{pointer} = {value}");
        assert_eq!(answer.body["retry_classification"], "RETRY_WITH_NEW_REQUEST_ID", "{pointer} = {value}");
    }
    gateway.post(&without("/max_source_amount")).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
    let mut expired = with("/quote_deadline", json!("2020-01-01T00:00:00Z"));
    set(&mut expired, "/fulfillment_deadline", json!("2020-01-01T00:00:01Z"));
    assert_eq!(gateway.post(&expired).await.expect(200).body["idempotent_replay"], true);
    assert_eq!(gateway.journal.load(&first.payment_id().into()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_order_of_destinations_has_no_meaning() {
    let gateway = Gateway::new();
    let mut body = body();
    set(&mut body, "/destination/1", json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT}));
    gateway.post(&body).await.expect(200);
    body["destination"].as_array_mut().unwrap().reverse();
    assert_eq!(gateway.post(&body).await.expect(200).body["idempotent_replay"], true);
}

#[tokio::test]
async fn another_account_has_its_own_request_ids() {
    let gateway = Gateway::new();
    let one = gateway.post(&body()).await.expect(200);
    let other = gateway.post(&with("/source/account", json!(RECIPIENT))).await.expect(200);
    assert_eq!(other.body["idempotent_replay"], false);
    assert_ne!(one.body["payment_id"], other.body["payment_id"]);
}

#[tokio::test]
async fn an_id_of_another_account_is_taken() {
    let gateway = Gateway::new();
    // As it will be inside one proven originator: the id exists, and its payment has another source account.
    let foreign = gateway.post(&with("/source/account", json!(RECIPIENT))).await.expect(200);
    let mut submitted = gateway.submitted(foreign.payment_id().as_str()).await;
    submitted.payment_id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-1");
    let taken = submitted.payment_id.clone();
    gateway.append(&taken, vec![PaymentEvent::Submitted(Box::new(submitted))]).await;
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        let answer = gateway.post(&body()).await.expect_error(409, "REQUEST_ID_TAKEN");
        assert!(answer.body.get("payment_id").is_none());
        assert_eq!(answer.body["request_id_reusable"], false);
    }
}

#[tokio::test]
async fn a_replay_is_answered_after_its_deadlines() {
    let gateway = Gateway::new();
    gateway.post(&body()).await.expect(200);
    gateway.clock.set("2031-01-01T00:00:00Z");
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        assert_eq!(gateway.post(&body()).await.expect(200).body["idempotent_replay"], true);
        gateway.post(&with("/request_id", json!("order-2"))).await.expect_error(400, "INVALID_DEADLINE");
        let changed = with("/fulfillment_amount", json!("5"));
        gateway.post(&changed).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
    }
}

#[tokio::test]
async fn every_replay_needs_a_good_signature() {
    let gateway = Gateway::new();
    gateway.post(&body()).await.expect(200);
    let forged = with("/sender_auth/signed_messages/0/signature", json!(FORGED));
    let answer = gateway.post(&forged).await.expect_error(401, "INVALID_SENDER_AUTH");
    assert_eq!(answer.body["domain"], "WALLET_ORCHESTRATION");
}

#[tokio::test]
async fn a_read_model_that_knows_nothing_changes_no_answer() {
    let gateway = Gateway::new();
    gateway.payments.set_blind(true);
    assert_eq!(gateway.post(&body()).await.expect(200).body["idempotent_replay"], false);
    assert_eq!(gateway.post(&body()).await.expect(200).body["idempotent_replay"], true);
    let changed = with("/max_source_amount", json!("5"));
    gateway.post(&changed).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
}

#[tokio::test]
async fn simultaneous_submissions_make_one_payment() {
    let gateway = Gateway::new();
    let posts = (0..16).map(|_| async { gateway.post(&body()).await.expect(200) });
    let answers = futures::future::join_all(posts).await;
    let created = answers.iter().filter(|answer| answer.body["idempotent_replay"] == false);
    assert_eq!(created.count(), 1);
    assert!(answers.iter().all(|answer| answer.body["payment_id"] == answers[0].body["payment_id"]));
    assert_eq!(gateway.journal.load(&answers[0].payment_id().into()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_unavailable_journal_accepts_nothing() {
    let gateway = Gateway::new();
    gateway.journal.inject(Fault::Unavailable);
    let answer = gateway.post(&body()).await.expect_error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(answer.body["request_id_reusable"], true);
    assert_eq!(answer.body["retry_classification"], "RETRY_AFTER_DELAY");
    assert_eq!(gateway.post(&body()).await.expect(200).body["idempotent_replay"], false);
}

#[tokio::test]
async fn a_lost_acknowledgement_is_resolved() {
    let gateway = Gateway::new();
    gateway.journal.inject(Fault::LoseAcknowledgement);
    let answer = gateway.post(&body()).await.expect(200);
    // Stored by this very submission, whatever its acknowledgement said.
    assert_eq!(answer.body["idempotent_replay"], false);
    assert_eq!(gateway.journal.load(&answer.payment_id().into()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_said_to_be_so() {
    for later in [Later::Unknown, Later::Unavailable] {
        let journal: Arc<dyn StreamLog> = Arc::new(Unresolvable { later, appended: AtomicBool::new(false) });
        let gateway = Gateway::with_journal(journal, MemoryJournal::new(4), |_| {});
        let answer = gateway.post(&body()).await.expect_error(500, "OUTCOME_UNKNOWN");
        assert_eq!(answer.body["retry_classification"], "RECONCILE_THEN_DECIDE");
        assert!(answer.body.get("request_id_reusable").is_none());
        assert_eq!(answer.body["payment_id"], PaymentId::derive(&format!("eip155:{PAYER}"), "order-1").as_str());
    }
}

/// What appends after the first answer.
enum Later {
    Unknown,
    Unavailable,
}

/// A journal that answers no question about what it stored.
pub(super) struct Unresolvable {
    later: Later,
    appended: AtomicBool,
}

impl Unresolvable {
    /// One that never knows.
    pub(super) fn unknown() -> Self {
        Self { later: Later::Unknown, appended: AtomicBool::new(false) }
    }
}

#[async_trait]
impl StreamStore for Unresolvable {
    async fn append(&self, _: &Commit) -> Result<Recorded, AppendError> {
        match (self.appended.swap(true, Ordering::SeqCst), &self.later) {
            (true, Later::Unavailable) => Err(AppendError::Unavailable("down".to_owned())),
            _ => Err(AppendError::Unknown("time-out".to_owned())),
        }
    }

    async fn load(&self, _: &events::StreamId) -> Result<Vec<Recorded>, ReadError> {
        Err(ReadError::Unavailable("down".to_owned()))
    }
}

#[async_trait]
impl ShardLog for Unresolvable {
    fn epochs(&self) -> Epochs {
        Epochs::one(4)
    }

    async fn replay(&self, _: u16, _: u64, _: usize) -> Result<Vec<Recorded>, ReadError> {
        Err(ReadError::Unavailable("down".to_owned()))
    }

    async fn head(&self, _: u16) -> Result<u64, ReadError> {
        Err(ReadError::Unavailable("down".to_owned()))
    }

    async fn wait_beyond(&self, _: u16, _: u64) -> Result<(), ReadError> {
        Err(ReadError::Unavailable("down".to_owned()))
    }
}
