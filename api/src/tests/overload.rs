//! Overload: more writes than the gateway can take, over a journal that takes its time.

mod first_appends;

use std::convert::Infallible;

use axum::body::Bytes;
use futures::stream;
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinHandle, time::Instant};

use events::{Epochs, StreamId};
use journal::{AppendError, ReadError, Recorded, ShardLog, StreamStore, memory::Fault};

use super::{
    quote_requests::{award_body, open_batch, quote_request},
    *,
};

const ROUTES: [&str; 7] = [
    "/v1/payments",
    "/v1/payments/verify",
    "/v1/payments/prepare",
    "/v1/payments/quote-requests",
    "/v1/payments/quote-requests/qrq_0000000000000000000000000000000000000000000000000000000000000000/award",
    "/x402/v1/verify",
    "/x402/v1/settle",
];

/// A journal whose appends take as long as a test wants.
struct Slow {
    journal: MemoryJournal,
    /// A permit lets one append through.
    gate: Semaphore,
    /// Appends that have begun.
    begun: watch::Sender<usize>,
}

/// A gateway on such a journal.
struct Environment {
    gateway: Arc<Gateway>,
    slow: Arc<Slow>,
}

impl Environment {
    /// One permit, and one place in the queue.
    fn new(change: impl FnOnce(&mut GatewayConfig)) -> Self {
        let journal = MemoryJournal::new(4);
        let slow = Arc::new(Slow { journal: journal.clone(), gate: Semaphore::new(0), begun: watch::Sender::new(0) });
        let gateway = Gateway::with_journal(slow.clone(), journal, |config| {
            config.http.writes_in_flight_max = 1;
            config.http.writes_waiting_max = 1;
            config.http.write_wait_ms_max = 250;
            change(config);
        });
        Self { gateway: Arc::new(gateway), slow }
    }

    /// Sends a submission that goes on by itself.
    fn submit(&self, request_id: &str) -> JoinHandle<Answer> {
        let (gateway, body) = (self.gateway.clone(), order(request_id));
        tokio::spawn(async move { gateway.post(&body).await })
    }

    /// Returns when so many appends have begun.
    async fn begun(&self, count: usize) {
        self.slow.begun.subscribe().wait_for(|begun| *begun >= count).await.unwrap();
    }

    /// Returns when so many permits and so many places in the queue are free.
    async fn free(&self, free: (usize, usize)) {
        while self.gateway.state.writes.free() != free {
            tokio::task::yield_now().await;
        }
    }

    /// Takes the permit and the place in the queue.
    async fn fill(&self) -> [JoinHandle<Answer>; 2] {
        let at_work = self.submit("order-at-work");
        self.begun(1).await;
        let waiting = self.submit("order-in-queue");
        self.free((0, 0)).await;
        [at_work, waiting]
    }

    async fn stored(&self, request_id: &str) -> usize {
        self.slow.journal.load(&(&payment_id(request_id)).into()).await.unwrap().len()
    }
}

fn order(request_id: &str) -> Value {
    with("/request_id", json!(request_id))
}

fn payment_id(request_id: &str) -> PaymentId {
    PaymentId::derive(&format!("eip155:{PAYER}"), request_id)
}

#[tokio::test(start_paused = true)]
async fn the_write_above_is_refused_at_once_and_nothing_of_it_is_stored() {
    let environment = Environment::new(|config| config.http.write_wait_ms_max = 10_000);
    environment.slow.gate.add_permits(1);
    let known = environment.gateway.post(&order("order-known")).await.expect(200).payment_id();
    let at_work = environment.submit("order-at-work");
    environment.begun(2).await;
    let waiting = environment.submit("order-in-queue");
    environment.free((0, 0)).await;

    let started = Instant::now();
    let refused = environment.gateway.post(&order("order-1")).await.expect_error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(refused.headers["retry-after"], "1");
    // Nobody looked whether there is such a payment.
    assert!(refused.body.get("request_id_reusable").is_none(), "{refused:?}");
    assert_eq!(refused.body["retry_classification"], "RETRY_AFTER_DELAY");
    assert!(refused.message().contains("safe to send the same request again"), "{refused:?}");
    assert_eq!(environment.stored("order-1").await, 0);
    // A repetition of what is known is a write, too.
    environment.gateway.post(&order("order-known")).await.expect_error(503, "SERVICE_UNAVAILABLE");
    // Reads go on.
    let status = environment.gateway.get(&format!("/v1/payments/{known}/status")).await.expect(200);
    assert_eq!(status.body["status"], "pending");
    environment.gateway.get("/v1/defaults").await.expect(200);
    assert_eq!(started.elapsed(), Duration::ZERO);

    environment.slow.gate.add_permits(10);
    for held in [at_work, waiting] {
        assert_eq!(held.await.unwrap().expect(200).body["idempotent_replay"], false);
    }
    assert_eq!(environment.gateway.post(&order("order-1")).await.expect(200).body["idempotent_replay"], false);
    assert_eq!(environment.stored("order-1").await, 1);
    assert_eq!(environment.gateway.post(&order("order-known")).await.expect(200).body["idempotent_replay"], true);
    assert_eq!(environment.gateway.state.writes.free(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_in_the_queue_for_as_long_as_it_may() {
    let environment = Environment::new(|_| {});
    let started = Instant::now();
    let [at_work, waiting] = environment.fill().await;
    waiting.await.unwrap().expect_error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(started.elapsed(), Duration::from_millis(250));
    assert_eq!(environment.gateway.state.writes.free(), (0, 1));
    environment.slow.gate.add_permits(1);
    at_work.await.unwrap().expect(200);
    assert_eq!((environment.stored("order-at-work").await, environment.stored("order-in-queue").await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn every_write_is_refused_alike() {
    let environment = Environment::new(|config| config.http.write_wait_ms_max = 10_000);
    let held = environment.fill().await;
    for route in ROUTES {
        // What is in it does not matter: it is not looked at.
        for body in [quote_request(), json!([])] {
            let answer = environment.gateway.post_to(route, &body).await.expect(503);
            assert_eq!(answer.headers["retry-after"], "1", "{route}: {answer:?}");
            let text = &answer.text;
            assert!(text.contains("SERVICE_UNAVAILABLE") && text.contains("as much to do"), "{route}: {text}");
        }
    }
    environment.slow.gate.add_permits(10);
    for held in held {
        held.await.unwrap().expect(200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_has_given_the_place_back() {
    let environment = Environment::new(|config| config.http.hold_ms_max = 30_000);
    environment.slow.gate.add_permits(10);
    let started = Instant::now();
    let held = environment.submit("order-1");
    environment.begun(1).await;
    environment.free((1, 1)).await;
    assert!(!held.is_finished());
    let request = Request::post("/v1/payments").header("content-type", "application/json").header("prefer", "wait=0");
    let other = environment.gateway.send(request.body(order("order-2").to_string().into()).unwrap()).await.expect(200);
    assert_eq!(other.body["idempotent_replay"], false);
    assert!(!held.is_finished());
    assert_eq!(held.await.unwrap().expect(200).body["status"], "pending");
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_is_brought_to_its_end_when_the_client_is_gone() {
    let environment = Environment::new(|config| config.http.write_wait_ms_max = 10_000);
    let [at_work, waiting] = environment.fill().await;
    // Whoever waits has begun nothing.
    waiting.abort();
    environment.free((0, 1)).await;
    // An append may be on its way, and counts until it has arrived.
    at_work.abort();
    assert!(at_work.await.unwrap_err().is_cancelled());
    assert_eq!((environment.gateway.state.writes.free(), environment.stored("order-at-work").await), ((0, 1), 0));
    environment.slow.gate.add_permits(10);
    environment.free((1, 1)).await;
    assert_eq!((environment.stored("order-at-work").await, environment.stored("order-in-queue").await), (1, 0));
    assert_eq!(environment.gateway.post(&order("order-at-work")).await.expect(200).body["idempotent_replay"], true);
}

#[tokio::test(start_paused = true)]
async fn what_a_payer_signed_away_stays_so_when_the_client_is_gone() {
    let environment = Environment::new(|config| config.http.writes_in_flight_max = 2);
    // Enough for one payment.
    environment.gateway.funds.set(1_100_000, u64::MAX);
    let gone = environment.submit("order-gone");
    environment.begun(1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    environment.slow.gate.add_permits(10);
    environment.free((2, 1)).await;
    assert_eq!(environment.stored("order-gone").await, 1);
    environment.gateway.post(&order("order-next")).await.expect_error(400, "INSUFFICIENT_FUNDS");
}

#[tokio::test(start_paused = true)]
async fn what_a_payer_signed_away_by_an_award_stays_so_when_the_client_is_gone() {
    let environment = Environment::new(|config| config.http.writes_in_flight_max = 2);
    environment.slow.gate.add_permits(1);
    let batch = open_batch(&environment.gateway).await;
    environment.gateway.funds.set(1_100_000, u64::MAX);
    let gone = tokio::spawn({
        let (gateway, path) = (environment.gateway.clone(), batch.award_path());
        let award = award_body("order-gone", &batch.quote_ids[0]);
        async move { gateway.post_to(&path, &award).await }
    });
    // The batch's own append, and that of the award.
    environment.begun(2).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    environment.slow.gate.add_permits(10);
    environment.free((2, 1)).await;
    assert_eq!(environment.stored("order-gone").await, 1);
    environment.gateway.post(&order("order-next")).await.expect_error(400, "INSUFFICIENT_FUNDS");
}

/// What is certain not to be stored leaves the payer what it had.
#[tokio::test(start_paused = true)]
async fn what_a_payer_signed_for_nothing_is_its_own_again() {
    let environment = Environment::new(|_| {});
    environment.slow.gate.add_permits(10);
    environment.gateway.funds.set(1_100_000, u64::MAX);
    environment.slow.journal.inject(Fault::Unavailable);
    environment.gateway.post(&order("order-lost")).await.expect_error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(environment.stored("order-lost").await, 0);
    environment.gateway.post(&order("order-next")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn a_window_is_given_back_when_the_client_is_gone_before_it_is_known_not_to_open() {
    let environment = Environment::new(|config| {
        config.limits.exempt = Networks::default();
        config.http.writes_in_flight_max = 4;
        // One for each address.
        config.http.quote_requests_open_max = 16;
    });
    let ask = |request_id: &str| {
        let mut body = quote_request();
        set(&mut body, "/request_id", json!(request_id));
        let gateway = environment.gateway.clone();
        tokio::spawn(async move { gateway.post_to("/v1/payments/quote-requests", &body).await })
    };
    let gone = ask("batch-gone");
    environment.begun(1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    // The control: as long as it may open, it is the caller's one window.
    let refused = ask("batch-early").await.unwrap().expect_error(429, "RATE_LIMITED");
    assert!(refused.message().contains("open quote-requests"), "{refused:?}");
    environment.slow.journal.inject(Fault::Unavailable);
    environment.slow.gate.add_permits(10);
    environment.free((4, 1)).await;
    ask("batch-next").await.unwrap().expect(200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_keeps_nobody_out() {
    let environment = Environment::new(|_| {});
    environment.slow.gate.add_permits(10);
    let slow = || {
        let request = Request::post("/v1/payments").header("content-type", "application/json");
        let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let (gateway, request) = (environment.gateway.clone(), request.body(body).unwrap());
        tokio::spawn(async move { gateway.send(request).await })
    };
    let slow = [slow(), slow(), slow()];
    tokio::task::yield_now().await;
    environment.gateway.post(&order("order-1")).await.expect(200);
    for slow in slow {
        slow.await.unwrap().expect_error(400, "INVALID_REQUEST");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_body_that_is_refused_anyway() {
    let environment = Environment::new(|config| config.http.write_wait_ms_max = 10_000);
    let held = environment.fill().await;
    let free = environment.gateway.state.writes.free_kibibytes();
    // A body that comes to its end, one that is longer than what is taken of it, and one that never ends.
    for (chunks, ends, waits) in [(1, true, 0), (2, false, 0), (1, false, 1_000)] {
        let (arrive, arriving) = futures::channel::mpsc::unbounded::<Result<Bytes, Infallible>>();
        let request = Request::post("/v1/payments").header("content-type", "application/json");
        let request = request.body(Body::from_stream(arriving)).unwrap();
        let (gateway, begun) = (environment.gateway.clone(), Instant::now());
        let refused = tokio::spawn(async move { (gateway.send(request).await, begun.elapsed()) });
        for _ in 0..chunks {
            arrive.unbounded_send(Ok(Bytes::from(vec![b' '; 50_000]))).unwrap();
        }
        while environment.gateway.state.writes.free_kibibytes() != free {
            tokio::task::yield_now().await;
        }
        let arrive = (!ends).then_some(arrive);
        let (answer, took) = refused.await.unwrap();
        let answer = answer.expect_error(503, "SERVICE_UNAVAILABLE");
        assert!(took.as_millis().abs_diff(waits) <= 1, "{took:?}");
        // What was left of it is not a request, so none can follow.
        assert_eq!(answer.headers.get("connection").is_some_and(|value| value == "close"), !ends, "{answer:?}");
        assert_eq!(environment.gateway.state.writes.free_kibibytes(), free);
        drop(arrive);
    }
    environment.slow.gate.add_permits(10);
    for held in held {
        held.await.unwrap().expect(200);
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_for_bodies_is_bounded() {
    let environment = Environment::new(|config| config.http.body_bytes_max = 262_144);
    environment.slow.gate.add_permits(10);
    let slow = |bytes: usize| {
        let request = Request::post("/v1/payments").header("content-type", "application/json");
        let request = request.header("content-length", 262_144);
        let sent = stream::iter((bytes > 0).then(|| Ok::<_, Infallible>(Bytes::from(vec![b' '; bytes]))));
        let body = Body::from_stream(futures::StreamExt::chain(sent, stream::pending()));
        let (gateway, request) = (environment.gateway.clone(), request.body(body).unwrap());
        tokio::spawn(async move { gateway.send(request).await })
    };
    // What is only announced takes next to nothing.
    let announced: Vec<_> = (0..256).map(|_| slow(0)).collect();
    while environment.gateway.state.writes.free_kibibytes() > 64 * 1_024 - 256 {
        tokio::task::yield_now().await;
    }
    environment.gateway.post(&order("order-0")).await.expect(200);
    announced.iter().for_each(tokio::task::JoinHandle::abort);
    while environment.gateway.state.writes.free_kibibytes() < 64 * 1_024 {
        tokio::task::yield_now().await;
    }
    // 64 MiB that have arrived.
    let mut slow: Vec<_> = (0..256).map(|_| slow(262_143)).collect();
    while environment.gateway.state.writes.free_kibibytes() > 0 {
        tokio::task::yield_now().await;
    }
    environment.gateway.post(&order("order-1")).await.expect_error(503, "SERVICE_UNAVAILABLE");
    // The first that is given up makes room.
    slow.pop().unwrap().abort();
    while environment.gateway.state.writes.free_kibibytes() == 0 {
        tokio::task::yield_now().await;
    }
    environment.gateway.post(&order("order-1")).await.expect(200);
    drop(slow);
}

#[async_trait]
impl StreamStore for Slow {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.begun.send_modify(|begun| *begun += 1);
        self.gate.acquire().await.unwrap().forget();
        self.journal.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.journal.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for Slow {
    fn epochs(&self) -> Epochs {
        self.journal.epochs()
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.journal.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.journal.head(shard).await
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.journal.wait_beyond(shard, sequence).await
    }
}
