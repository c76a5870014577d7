//! Readings that have much to read, or wait for others: each is bounded, and none keeps others waiting.

use std::{future::pending, time::Duration};

use tokio::time::Instant;

use events::{
    Amount, ChainId, CommitId, Epoch, Event, Hash32, OwnedAsset, PaymentEvent, StreamId, Terms,
    event::*,
    time::{Timestamp, from_unix_seconds},
};
use journal::{
    Commit, Position, StreamStore,
    parking::{self, ParkingPartition, Record, Replayed},
};

use super::*;

const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const TOKEN: &str = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
/// When the first of the payments here was submitted: long ago.
const EPOCH: u64 = 1_600_000_000;

fn at(seconds: u64) -> Timestamp {
    from_unix_seconds(EPOCH + seconds).unwrap()
}

fn amount(units: u64) -> Amount {
    units.to_string().parse().unwrap()
}

fn submitted(payment_id: &PaymentId, request_id: &str, second: u64) -> PaymentEvent {
    let owned = |chain: u64| {
        let asset = format!("eip155:{chain}/erc20:{TOKEN}");
        OwnedAsset::new(asset.parse().unwrap(), ACCOUNT).unwrap()
    };
    let terms = Terms::new(owned(1), vec![owned(10)], amount(100), Some(amount(110)));
    let unix = |after: u64| EPOCH + second + after;
    PaymentEvent::Submitted(Box::new(Submitted {
        payment_id: payment_id.clone(),
        request_id: request_id.to_owned(),
        originator: format!("eip155:{ACCOUNT}"),
        terms_hash: terms.hash(),
        terms,
        quote_deadline: at(second + 10),
        fulfillment_deadline: at(second + 100),
        authorization: Authorization::EvmPermit2Escrow(Permit2 {
            amount: amount(110),
            nonce: Hash32([9; 32]),
            deadline: unix(50),
            quote_hash: Hash32::ZERO,
            signature: "0x00".to_owned(),
            allowance: None,
        }),
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: ACCOUNT.parse().unwrap(),
            reserver: ACCOUNT.parse().unwrap(),
            releaser: ACCOUNT.parse().unwrap(),
            reserve_deadline: unix(50),
            fulfillment_deadline: unix(100),
            refund_after: unix(200),
        },
        fulfillment_proxies: vec![ACCOUNT.parse().unwrap()],
        verifier: VerifierRef::single(ACCOUNT.parse().unwrap(), "http://127.0.0.1:1".to_owned()),
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        selector: None,
        counterparty: None,
        identities: Vec::new(),
        submitted_at: at(second),
        request: "{}".to_owned(),
    }))
}

/// An award, after which money is overdue when nothing was deposited in time.
fn awarded(second: u64) -> [PaymentEvent; 2] {
    let closed = AuctionClosed {
        addressed: Vec::new(),
        quotes: Vec::new(),
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: at(second + 10),
    };
    let awarded = QuoteAwarded {
        quote_id: "quo_1".to_owned(),
        quote_hash: Hash32([3; 32]),
        document: r#"{"type":"GatewayQuote"}"#.to_owned(),
        awarded_at: at(second + 11),
    };
    [PaymentEvent::AuctionClosed(closed), PaymentEvent::QuoteAwarded(Box::new(awarded))]
}

impl Desk {
    /// A payment that was submitted at this second, and what came of it.
    async fn has(&self, second: u64, more: impl IntoIterator<Item = PaymentEvent>) -> PaymentId {
        let request_id = format!("order-{second}");
        let payment_id = PaymentId::derive("payer", &request_id);
        let events = [submitted(&payment_id, &request_id, second)].into_iter().chain(more);
        let commit = Commit {
            stream_id: StreamId::from(&payment_id),
            expected: Position::START,
            commit_id: CommitId::random(),
            events: events.map(Event::Payment).collect(),
            correlation: "test".to_owned(),
            causation: "test".to_owned(),
        };
        let stored = self.journal.append(&commit).await.unwrap().position;
        assert!(self.projections.wait_for(stored.shard, stored.sequence, Duration::from_secs(60)).await);
        payment_id
    }

    async fn park(&self, payment_id: &PaymentId) {
        self.parking.park(&payment_id.into(), 0, &conformance::parked("a")).await.unwrap();
    }

    /// The ids of a list.
    async fn listed(&self, query: &str) -> Vec<String> {
        let (status, page) = self.get(&format!("/api/payments?{query}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let rows = page["payments"].as_array().unwrap();
        rows.iter().map(|row| row["payment_id"].as_str().unwrap().to_owned()).collect()
    }

    fn asking(&self, path: &str, token: &str, headers: &[(&str, &str)]) -> Request<Body> {
        let request = Request::builder().uri(path).header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(Body::empty()).unwrap()
    }
}

/// A parking that never says what is parked.
struct Silent(Arc<MemoryParking>);

#[async_trait]
impl Parking for Silent {
    async fn park(&self, id: &StreamId, after: u64, why: &parking::Parked) -> Result<Record, parking::Error> {
        self.0.park(id, after, why).await
    }

    async fn replay(&self, id: &StreamId, replayed: &Replayed) -> Result<Record, parking::Error> {
        self.0.replay(id, replayed).await
    }

    async fn history(&self, id: &StreamId) -> Result<Vec<Record>, parking::Error> {
        self.0.history(id).await
    }

    async fn parked(&self) -> Result<Vec<Record>, parking::Error> {
        pending().await
    }

    fn follow(&self, epoch: Epoch, shard: u16) -> Box<dyn ParkingPartition> {
        self.0.follow(epoch, shard)
    }
}

#[tokio::test]
async fn what_is_overdue_is_listed_as_such_and_nothing_else() {
    let desk = Desk::start().await;
    let fresh = desk.has(1, []).await;
    let older = desk.has(2, awarded(2)).await;
    let newer = desk.has(3, awarded(3)).await;
    assert_eq!(desk.listed("").await, [newer.as_str(), older.as_str(), fresh.as_str()]);
    assert_eq!(desk.listed("overdue=true").await, [newer.as_str(), older.as_str()]);
    assert_eq!(desk.listed("overdue=false").await, [fresh.as_str()]);
    let (_, first) = desk.get("/api/payments?overdue=true&limit=1").await;
    assert_eq!(first["payments"][0]["payment_id"], newer.as_str());
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(desk.listed(&format!("overdue=true&limit=1&cursor={cursor}")).await, [older.as_str()]);
}

#[tokio::test]
async fn after_a_replay_the_list_of_what_is_parked_is_as_it_is_now() {
    let desk = Desk::start().await;
    let (one, other) = (desk.has(1, []).await, desk.has(2, []).await);
    desk.park(&one).await;
    assert_eq!(desk.listed("parked=true").await, [one.as_str()]);
    desk.park(&other).await;
    let (status, answer) = desk.post("replay", &json!({"ids": [one]}).to_string()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(desk.listed("parked=true").await, [other.as_str(), one.as_str()]);
}

#[tokio::test]
async fn rows_are_shown_though_the_parking_does_not_answer() {
    let desk = Desk::start_over(|parking| Arc::new(Silent(parking))).await;
    let payment = desk.has(1, []).await;
    tokio::time::pause();
    let begun = Instant::now();
    for path in ["/api/payments".to_owned(), format!("/api/search?q={payment}")] {
        let (status, page) = desk.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let row = &page["payments"][0];
        assert_eq!((&row["payment_id"], &row["parked"]), (&json!(payment), &Value::Null));
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let (status, refused) = desk.get("/api/payments?parked=true").await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("UNAVAILABLE")));
}

#[tokio::test]
async fn who_reads_large_answers_slowly_waits_for_himself() {
    let desk = Desk::start().await;
    tokio::time::pause();
    for path in ["/api/acts", "/api/parked", "/api/streams"] {
        let mut unread = Vec::new();
        let refused = loop {
            let answer = desk.answer(desk.asking(path, &desk.bob, &[])).await;
            if answer.status() != StatusCode::OK {
                break answer;
            }
            unread.push(answer);
            assert!(unread.len() < 100, "{path}");
        };
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{path}");
        assert_eq!(desk.get(path).await.0, StatusCode::OK, "{path}");
        for answer in unread {
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert!(serde_json::from_slice::<Value>(&body).unwrap().is_object(), "{path}");
        }
        assert_eq!(desk.answer(desk.asking(path, &desk.bob, &[])).await.status(), StatusCode::OK, "{path}");
    }
}

/// A link in a chat leads to the page, and from elsewhere to nothing else.
#[tokio::test]
async fn a_link_from_elsewhere_leads_to_the_page() {
    let desk = Desk::start().await;
    let elsewhere = ("sec-fetch-site", "cross-site");
    let visit = [elsewhere, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    let framed = [elsewhere, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
    let fetched = [elsewhere, ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")];
    for (path, headers, expected) in [
        ("/", &visit, StatusCode::OK),
        ("/?status=failed", &visit, StatusCode::OK),
        ("/", &framed, StatusCode::FORBIDDEN),
        ("/", &fetched, StatusCode::FORBIDDEN),
        ("/console.js", &visit, StatusCode::FORBIDDEN),
        ("/api/me", &visit, StatusCode::FORBIDDEN),
    ] {
        let answer = desk.answer(desk.asking(path, &desk.ana, headers)).await;
        assert_eq!(answer.status(), expected, "{path} {headers:?}");
    }
    let mut posted = desk.asking("/", &desk.ana, &visit);
    *posted.method_mut() = Method::POST;
    assert_eq!(desk.answer(posted).await.status(), StatusCode::FORBIDDEN);
}

/// While a console is starting its page is there and nothing else.
#[tokio::test]
async fn a_console_that_is_starting_says_so() {
    let starting = crate::starting();
    for (path, expected) in [
        ("/", StatusCode::OK),
        ("/console.js", StatusCode::OK),
        ("/api/me", StatusCode::SERVICE_UNAVAILABLE),
        ("/api/acts/pause", StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let answer = starting.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), expected, "{path}");
        assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-store", "{path}");
    }
}
