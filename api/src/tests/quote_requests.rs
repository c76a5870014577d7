//! Quote-requests and awards: idempotency, shapes, states and what an award may not do.

mod awards;
mod collected;
mod squatting;

use std::collections::BTreeSet;

use ed25519_dalek::SigningKey;
use futures::FutureExt;
use serde_json::json;

use app::views::quote_requests::{QuoteRequests, from_journal};
use auction::Progress;
use events::{
    Did, QuoteRequestEvent, QuoteRequestId,
    quote::{Quote, SignedQuote},
    quote_request::{BatchSelection, QuoteRequestAwarded, QuoteRequestOpened},
};
use journal::{ShardLog, StreamStore, memory::Fault};
use projections::QuoteRequestView;
use sagas::{
    auction::request_for_batch,
    ports::{Answer as BidAnswer, Bid, Gathered, RequestForQuotes, Transient},
    quote_request::{self as batch, QuoteRequest},
};

use super::*;

const PATH: &str = "/v1/payments/quote-requests";

/// What settlers have answered so far, as a test sets it; unreadable until then.
#[derive(Default)]
pub struct SetAuctions(pub Mutex<Option<Gathered>>);

#[async_trait]
impl Progress for SetAuctions {
    async fn so_far(&self, _: &RequestForQuotes) -> Result<Gathered, Transient> {
        self.0.lock().unwrap().clone().ok_or_else(|| Transient::unreachable("down"))
    }
}

#[async_trait]
impl QuoteRequests for JournalPayments {
    async fn view(&self, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Unavailable> {
        if self.blind.load(Ordering::SeqCst) {
            return Err(Unavailable::CatchingUp { shard: 0 });
        }
        Ok(from_journal(&self.journal, id).await.unwrap())
    }

    fn collecting(&self) -> usize {
        self.collecting.load(Ordering::SeqCst)
    }

    fn is_collecting(&self, id: &QuoteRequestId) -> Option<bool> {
        let view = from_journal(&self.journal, id).now_or_never().unwrap().unwrap();
        view.map(|view| view.quotes.is_none())
    }

    async fn changed(&self, id: &QuoteRequestId, seen_version: u64, wait_max: Duration) -> Option<QuoteRequestView> {
        let shard = id.shard(self.journal.shards());
        let newer = async {
            loop {
                let head = self.journal.head(shard).await.unwrap();
                match from_journal(&self.journal, id).await.unwrap() {
                    Some(view) if view.version > seen_version => return view,
                    _ => self.journal.wait_beyond(shard, head).await.unwrap(),
                }
            }
        };
        tokio::time::timeout(wait_max, newer).await.ok()
    }
}

/// A quote-request in which everything is in order.
pub fn quote_request() -> Value {
    let mut body = without("/sender_auth");
    set(&mut body, "/request_id", json!("batch-1"));
    body
}

/// An award in which everything is in order.
pub fn award_body(request_id: &str, quote_id: &str) -> Value {
    json!({
        "version": "1.0",
        "request_id": request_id,
        "quote_id": quote_id,
        "sender_auth": body()["sender_auth"],
    })
}

/// A batch with its quotes, best first.
pub struct Batch {
    pub id: QuoteRequestId,
    pub quote_ids: Vec<String>,
    pub quotes: Vec<SignedQuote>,
}

impl Batch {
    pub fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    pub fn award_path(&self) -> String {
        format!("{PATH}/{}/award", self.id)
    }

    async fn status(&self, gateway: &Gateway) -> String {
        gateway.get(&self.path()).await.expect(200).body["status"].as_str().unwrap().to_owned()
    }
}

fn settler(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

fn did(n: u8) -> Did {
    Did::from_ed25519(&settler(n).verifying_key())
}

/// Settler `n`'s quote, a little dearer with each; valid until 00:02 and to be delivered by 00:05.
fn quote(n: u8, request: &RequestForQuotes) -> SignedQuote {
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: request.auction_id.clone(),
        terms_hash: request.terms_hash,
        settler: did(n),
        source_chain: request.terms.source.asset().chain().clone(),
        source_amount: (1_000_000 + u64::from(n)).to_string().parse().unwrap(),
        payout_account: match request.terms.source.family() {
            Family::Solana => bs58::encode(settler(n).verifying_key()).into_string().parse().unwrap(),
            Family::Tron => chains_tron::address::text([n; 20].into()).parse().unwrap(),
            Family::Evm => RECIPIENT.parse().unwrap(),
        },
        escrow_contract: request.escrow.contract.clone(),
        destination: request.terms.destination()[0].clone(),
        fulfillment_amount: request.terms.fulfillment_amount,
        delivery_account: RECIPIENT.parse().unwrap(),
        fulfillment_proxy: request.fulfillment_proxies[0].clone(),
        fulfill_by: at("2030-01-01T00:05:00Z"),
        valid_until: at("2030-01-01T00:02:00Z"),
    };
    quote.sign(&settler(n), at("2030-01-01T00:00:10Z")).unwrap()
}

fn bid(n: u8, answer: BidAnswer) -> Bid {
    Bid { settler: did(n).token(), received_at: at("2030-01-01T00:00:10Z"), answer }
}

async fn state_of(gateway: &Gateway, id: &QuoteRequestId) -> QuoteRequest {
    let commits = gateway.journal.load(&id.into()).await.unwrap();
    batch::fold(commits.iter().flat_map(|commit| commit.quote_request_events())).unwrap().unwrap()
}

/// Appends what the engine, or another gateway, would.
async fn append(gateway: &Gateway, id: &QuoteRequestId, event: QuoteRequestEvent) {
    let commits = gateway.journal.load(&id.into()).await.unwrap();
    let commit = Commit {
        stream_id: id.into(),
        expected: commits.last().map_or(Position::START, |last| last.position),
        commit_id: CommitId::random(),
        events: vec![event.into()],
        correlation: "test".to_owned(),
        causation: "test".to_owned(),
    };
    gateway.journal.append(&commit).await.unwrap();
}

/// Ends the collection with quotes of the settlers `quoting` and one decline.
pub async fn collect(gateway: &Gateway, id: &QuoteRequestId, quoting: &[u8]) -> Vec<SignedQuote> {
    let state = state_of(gateway, id).await;
    let request = request_for_batch(&state.opened);
    let quotes: Vec<_> = quoting.iter().map(|n| quote(*n, &request)).collect();
    let documents = quotes.iter().map(|quote| BidAnswer::Quote(quote.document().to_owned()));
    let mut bids: Vec<_> = quoting.iter().zip(documents).map(|(n, answer)| bid(*n, answer)).collect();
    bids.push(bid(9, BidAnswer::Decline("INSUFFICIENT_LIQUIDITY".to_owned())));
    let addressed = quoting.iter().map(|n| did(*n)).chain([did(9)]).collect();
    let collected = state.collect(Gathered { addressed, bids, ..Gathered::default() }, at("2030-01-01T00:00:30Z"));
    append(gateway, id, QuoteRequestEvent::Collected(Box::new(collected))).await;
    quotes
}

pub async fn open(gateway: &Gateway, body: &Value) -> QuoteRequestId {
    let answer = gateway.post_to(PATH, body).await.expect(200);
    answer.body["quote_request_id"].as_str().unwrap().parse().unwrap()
}

/// A batch of two quotes.
pub async fn open_batch(gateway: &Gateway) -> Batch {
    open_batch_of(gateway, &quote_request()).await
}

/// The batch of a quote-request, with two quotes.
pub async fn open_batch_of(gateway: &Gateway, body: &Value) -> Batch {
    let id = open(gateway, body).await;
    let quotes = collect(gateway, &id, &[1, 2]).await;
    Batch { id, quote_ids: quotes.iter().map(SignedQuote::id).collect(), quotes }
}

fn members(body: &Value) -> BTreeSet<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

const WHILE_COLLECTING: [&str; 9] = [
    "quote_request_id",
    "status",
    "idempotent_replay",
    "source",
    "destination",
    "fulfillment_amount",
    "max_source_amount",
    "fulfillment_deadline",
    "quote_deadline",
];

#[tokio::test]
async fn a_batch_is_answered_at_once_with_its_corridor_as_it_was_written() {
    let gateway = Gateway::new();
    let mut body = quote_request();
    set(&mut body, "/source/account", json!("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"));
    set(&mut body, "/source/unknown", json!(1));
    // In an order that is not the canonical one.
    set(&mut body, "/destination/1", json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT}));
    set(&mut body, "/quote_deadline", json!("2030-01-01T01:01:00.50+01:00"));
    let answer = gateway.post_to(PATH, &body).await.expect(200);
    assert_eq!(members(&answer.body), BTreeSet::from(WHILE_COLLECTING));
    assert_eq!(answer.body["status"], "collecting");
    assert_eq!(answer.body["idempotent_replay"], false);
    let id = QuoteRequestId::derive(&format!("eip155:{PAYER}"), "batch-1");
    assert_eq!(answer.body["quote_request_id"], id.as_str());
    let source = json!({"asset_identifier": SOURCE_ASSET, "account": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"});
    assert_eq!(answer.body["source"], source);
    for member in ["destination", "fulfillment_amount", "max_source_amount", "quote_deadline", "fulfillment_deadline"] {
        assert_eq!(answer.body[member], body[member], "{member}");
    }
    let opened = state_of(&gateway, &id).await.opened;
    assert_eq!((opened.request_id.as_str(), opened.request), ("batch-1", body.to_string()));
    assert_eq!(opened.terms_hash, opened.terms.hash());
    assert_eq!(opened.quote_deadline, at("2030-01-01T00:01:00.5Z"));
    assert_eq!(opened.escrow.contract.as_str(), ESCROW);
    assert_eq!(opened.escrow.releaser.as_str(), VERIFIER);
    assert_eq!(opened.escrow.refund_after - opened.escrow.fulfillment_deadline, 7_200);

    let read = gateway.get(&format!("{PATH}/{id}")).await.expect(200);
    let mut expected = answer.body.clone();
    expected.as_object_mut().unwrap().remove("idempotent_replay");
    assert_eq!(read.body, expected);

    // Without a cap there is no such member.
    let mut body = quote_request();
    body.as_object_mut().unwrap().remove("max_source_amount");
    set(&mut body, "/request_id", json!("uncapped"));
    let answer = gateway.post_to(PATH, &body).await.expect(200);
    assert!(answer.body.get("max_source_amount").is_none(), "{answer:?}");
}

/// Rules 3, 4, 6 and 11.
#[tokio::test]
async fn the_same_economics_are_the_original_batch_with_its_original_deadlines() {
    let gateway = Gateway::new();
    let original = gateway.post_to(PATH, &quote_request()).await.expect(200);
    for (pointer, value) in [
        ("/version", json!("1.4")),
        ("/quote_deadline", json!("2030-01-01T00:02:00Z")),
        ("/quote_deadline", json!("2020-01-01T00:00:00Z")),
        ("/fulfillment_deadline", json!("2030-01-01T01:00:00Z")),
        // A default that is named is the default.
        ("/settler_requirements", json!({})),
        ("/settler_auth_required", json!({"kyc": false})),
        ("/quote_selector", json!("")),
        ("/escrow_contract_address", json!(ESCROW)),
        ("/fulfillment_proxy", json!(PROXY)),
        ("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "HTTP://127.0.0.1:8090"})),
        ("/fulfillment_proxies", json!({"eip155:31338": PROXY})),
        ("/destination/1", json!({"asset_identifier": DESTINATION_ASSET, "account": RECIPIENT})),
        ("/@context", json!([])),
        ("/verifiableCredential", json!([])),
        ("/source/account", json!("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")),
        ("/source/asset_identifier", json!(SOURCE_ASSET.replace("31337", "031337"))),
    ] {
        let mut body = quote_request();
        set(&mut body, pointer, value.clone());
        for blind in [false, true] {
            gateway.payments.set_blind(blind);
            let mut answer = gateway.post_to(PATH, &body).await.expect(200);
            assert_eq!(answer.body["idempotent_replay"], true, "{pointer} = {value}");
            answer.body["idempotent_replay"] = json!(false);
            assert_eq!(answer.body, original.body, "{pointer} = {value}");
        }
    }
    let id: QuoteRequestId = original.body["quote_request_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(gateway.journal.load(&id.into()).await.unwrap().len(), 1);
}

/// Rule 5.
#[tokio::test]
async fn other_economics_under_one_id_are_refused() {
    let gateway = Gateway::new();
    gateway.post_to(PATH, &quote_request()).await.expect(200);
    let second = || json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT});
    let mut uncapped = quote_request();
    uncapped.as_object_mut().unwrap().remove("max_source_amount");
    let mut changed = vec![uncapped];
    for (pointer, value) in [
        ("/source/asset_identifier", json!(DESTINATION_ASSET)),
        ("/destination/0/account", json!(PAYER)),
        ("/destination/1", second()),
        ("/fulfillment_amount", json!("1000001")),
        ("/max_source_amount", json!("1099999")),
        ("/max_source_amount", json!("1100001")),
    ] {
        let mut body = quote_request();
        set(&mut body, pointer, value);
        changed.push(body);
    }
    for body in changed {
        for blind in [false, true] {
            gateway.payments.set_blind(blind);
            let answer = gateway.post_to(PATH, &body).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
            assert_eq!(answer.body["request_id_reusable"], false);
            assert!(
                answer.body.get("payment_id").is_none() && answer.message().contains("quote-request"),
                "{answer:?}"
            );
        }
    }
}

/// Rule 7: inside one proven originator.
#[tokio::test]
async fn an_id_in_use_by_another_account_is_taken() {
    let gateway = Gateway::new();
    let other = QuoteRequestId::derive("nobody", "x");
    let template = open(&gateway, &quote_request()).await;
    let mut opened: QuoteRequestOpened = *state_of(&gateway, &template).await.opened;
    let source = events::OwnedAsset::new(SOURCE_ASSET.parse().unwrap(), RECIPIENT).unwrap();
    opened.terms.source = source;
    opened.quote_request_id = QuoteRequestId::derive(&format!("eip155:{PAYER}"), "batch-2");
    let taken = opened.quote_request_id.clone();
    append(&gateway, &taken, QuoteRequestEvent::Opened(Box::new(opened))).await;
    let mut body = quote_request();
    set(&mut body, "/request_id", json!("batch-2"));
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        gateway.post_to(PATH, &body).await.expect_error(409, "REQUEST_ID_TAKEN");
    }
    gateway.get(&format!("{PATH}/{other}")).await.expect_error(404, "QUOTE_REQUEST_NOT_FOUND");
    // Without a proven originator another account has a key space of its own (design: readings of the contract).
    let mut body = quote_request();
    set(&mut body, "/source/account", json!(RECIPIENT));
    assert_eq!(gateway.post_to(PATH, &body).await.expect(200).body["idempotent_replay"], false);
}

/// Rule 2.
#[tokio::test]
async fn the_keys_of_payments_and_quote_requests_are_independent() {
    let gateway = Gateway::new();
    let payment = gateway.post(&with("/request_id", json!("batch-1"))).await.expect(200);
    assert_eq!(payment.body["idempotent_replay"], false);
    let mut other_terms = quote_request();
    set(&mut other_terms, "/fulfillment_amount", json!("7"));
    assert_eq!(gateway.post_to(PATH, &other_terms).await.expect(200).body["idempotent_replay"], false);
    assert_eq!(gateway.post_to(PATH, &other_terms).await.expect(200).body["idempotent_replay"], true);
    assert_eq!(gateway.post(&with("/request_id", json!("batch-1"))).await.expect(200).body["idempotent_replay"], true);
}

/// Rules 6 and 11, with time gone by.
#[tokio::test]
async fn a_replay_is_answered_after_its_deadlines_and_a_new_one_is_not() {
    let gateway = Gateway::new();
    let original = gateway.post_to(PATH, &quote_request()).await.expect(200);
    gateway.clock.set("2031-01-01T00:00:00Z");
    let mut new = quote_request();
    set(&mut new, "/request_id", json!("batch-2"));
    let mut changed = quote_request();
    set(&mut changed, "/fulfillment_amount", json!("5"));
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        let answer = gateway.post_to(PATH, &quote_request()).await.expect(200);
        assert_eq!(answer.body["idempotent_replay"], true);
        assert_eq!(answer.body["quote_deadline"], original.body["quote_deadline"]);
        gateway.post_to(PATH, &new).await.expect_error(400, "INVALID_DEADLINE");
        gateway.post_to(PATH, &changed).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
    }
}

#[tokio::test]
async fn simultaneous_openings_make_one_batch() {
    let gateway = Gateway::new();
    let body = quote_request();
    let posts = (0..16).map(|_| async { gateway.post_to(PATH, &body).await.expect(200) });
    let answers = futures::future::join_all(posts).await;
    assert_eq!(answers.iter().filter(|answer| answer.body["idempotent_replay"] == false).count(), 1);
    let id: QuoteRequestId = answers[0].body["quote_request_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(gateway.journal.load(&id.into()).await.unwrap().len(), 1);
}

/// Rule 10, and what is said when it cannot be kept.
#[tokio::test]
async fn a_journal_that_fails_opens_nothing_or_says_that_it_is_unknown() {
    let gateway = Gateway::new();
    gateway.journal.inject(Fault::Unavailable);
    gateway.post_to(PATH, &quote_request()).await.expect_error(503, "SERVICE_UNAVAILABLE");
    gateway.journal.inject(Fault::LoseAcknowledgement);
    let answer = gateway.post_to(PATH, &quote_request()).await.expect(200);
    // Stored by this very request, whatever its acknowledgement said.
    assert_eq!(answer.body["idempotent_replay"], false);

    let journal: Arc<dyn StreamLog> = Arc::new(idempotency::Unresolvable::unknown());
    let gateway = Gateway::with_journal(journal, MemoryJournal::new(4), |_| {});
    let answer = gateway.post_to(PATH, &quote_request()).await.expect_error(500, "OUTCOME_UNKNOWN");
    assert_eq!(answer.body["retry_classification"], "RECONCILE_THEN_DECIDE");
    assert!(answer.body.get("payment_id").is_none() && answer.message().contains("quote-request"), "{answer:?}");
}

#[tokio::test]
async fn a_call_that_waits_is_held_until_the_quotes_are_there() {
    let gateway = Gateway::configured(|config| config.http.quotes_hold_ms_max = 30_000);
    let path = format!("{PATH}?wait=true");
    let body = quote_request();
    let id = QuoteRequestId::derive(&format!("eip155:{PAYER}"), "batch-1");
    let collecting = async {
        while gateway.journal.load(&(&id).into()).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        collect(&gateway, &id, &[1]).await
    };
    let (answer, _) = tokio::join!(gateway.post_to(&path, &body), collecting);
    let answer = answer.expect(200);
    assert_eq!((&answer.body["status"], &answer.body["idempotent_replay"]), (&json!("ready"), &json!(false)));
    assert_eq!(answer.body["quotes"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_hold_ends_at_its_cap_at_the_callers_wish_and_at_the_end_of_the_process() {
    let capped = Gateway::configured(|config| config.http.quotes_hold_ms_max = 1);
    let path = format!("{PATH}?wait=true");
    assert_eq!(capped.post_to(&path, &quote_request()).await.expect(200).body["status"], "collecting");

    let gateway = Gateway::configured(|config| config.http.quotes_hold_ms_max = 30_000);
    let request = Request::post(&path).header("content-type", "application/json").header("prefer", "wait=0");
    let answer = gateway.send(request.body(quote_request().to_string().into()).unwrap()).await.expect(200);
    assert_eq!(answer.body["status"], "collecting");
    gateway.stopping.cancel();
    assert_eq!(gateway.post_to(&path, &quote_request()).await.expect(200).body["status"], "collecting");
}

#[tokio::test]
async fn a_batch_ends_awarded_or_expired_and_only_the_status_read_says_so() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    gateway.clock.set("2030-01-01T00:02:00Z");
    assert_eq!(batch.status(&gateway).await, "ready");
    gateway.clock.set("2030-01-01T00:02:01Z");
    assert_eq!(batch.status(&gateway).await, "expired");
    assert_eq!(gateway.post_to(PATH, &quote_request()).await.expect(200).body["status"], "ready");

    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    gateway.post_to(&batch.award_path(), &award_body("order-1", &batch.quote_ids[0])).await.expect(200);
    for time in ["2030-01-01T00:01:30Z", "2031-01-01T00:00:00Z"] {
        gateway.clock.set(time);
        assert_eq!(batch.status(&gateway).await, "awarded");
        assert_eq!(gateway.post_to(PATH, &quote_request()).await.expect(200).body["status"], "ready");
    }
}

#[tokio::test]
async fn unknown_batches_are_not_found() {
    let gateway = Gateway::new();
    let unknown = QuoteRequestId::derive("a", "b").to_string();
    for id in ["x", "qrq_", "status", &unknown.to_uppercase(), &unknown.replace("qrq_", "pay_"), "%00", &unknown] {
        gateway.get(&format!("{PATH}/{id}")).await.expect_error(404, "QUOTE_REQUEST_NOT_FOUND");
        let award = format!("{PATH}/{id}/award");
        gateway.post_to(&award, &award_body("order-1", "quo_x")).await.expect_error(404, "QUOTE_REQUEST_NOT_FOUND");
    }
}
