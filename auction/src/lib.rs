//! The auction over NATS: the settlers' registry, requests and bids, awards and reports.
//!
//! | what | where it lives |
//! |---|---|
//! | registrations | a stream `SETTLER_…` for each settler, lapsing after 30 s |
//! | requests for quotes | published to each eligible settler, with the subject of its bid for the answer; a settler that misses one is asked again |
//! | bids | heard live, and kept up to an hour in a stream `BIDS_…` for each settler, the latest few in each auction, so that a gateway that takes over in mid-auction finds what was offered before |
//! | who was asked | stream `ASKED`, for the same reason |
//! | awards, and their ends in their places | stream `AWARDS`, with a durable consumer for each settler |
//! | what stands as the answer to each award | stream `ANSWERS`; settlers answer to a gateway, which writes it |
//! | that an auction is over | published to the losers, once; hints |
//! | reports | published; hints and nothing more |
//!
//! A settler is a stranger with valid credentials. It can say nothing in an auction that it was not asked in, because its
//! permission to bid is the permission to answer a request, and so often. What it fills is its own streams. What it says
//! unasked, answers to awards, registrations and reports, comes through rate-limited subscriptions. All of it is heard over a
//! connection without headers (ADR 120), and read from streams by `STREAM.MSG.GET` alone (ADR 119).
//!
//! Nothing here judges a bid: `sagas::auction` does. The wire form of the messages is `protocol`; `wire` turns
//! it into the engine's types and back.

mod answers;
mod asking;
mod awards;
mod bid_metrics;
mod gather;
mod progress;
mod records;
mod registry;
pub mod selector;
pub mod streams;
mod window;
mod wire;

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_nats::jetstream;
use async_trait::async_trait;
use chrono::Utc;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use events::{Did, PaymentId, SettlerToken, time::Timestamp};
use identity::SettlerPolicies;
use journal_jetstream::{
    headerless::{HeaderlessClient, Message},
    rate_limited::RateLimitedSubscription,
    server_clock::ServerClock,
};
use protocol::{Corridor, Report, split_subject};
use sagas::{
    ports::{
        ANSWER_WAIT_MAX, Auction, AuctionOver, Award, AwardAnswer, AwardEnd, Gathered, Gathering, OpenWindow,
        REPLACEABLE_ANSWER_WAIT, RequestForQuotes, SettlerRecords, Transient,
    },
    settler_record::PauseRule,
};

use self::{answers::Waiting, bid_metrics::BidMetrics, records::Records, registry::Registry};
pub use self::{progress::Progress, streams::Error};

/// Reports that may wait to be looked at; more are dropped, since each is a hint only.
const HINTS_MAX: usize = 1024;
/// Reports heard a second, of all settlers together; what is missed the watchers of the chains find by themselves.
const REPORTS_MAX: u64 = 512;

/// Settlers look for the auction of a reassignment among so many; the engine tries no more transactions for them, nor can more be
/// configured.
const _: () = assert!(protocol::REASSIGNMENTS_MAX == sagas::payment::REASSIGNMENT_ATTEMPTS_MAX as usize);

/// How the auction's streams are laid out, and how long and for whom it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Replicas of each stream: 1 on one machine, 3 in a cluster; takes effect when they are created.
    pub replicas: usize,
    /// Longest collection window, whatever its request says: streams may hold requests of a time with other limits.
    pub window_max: Duration,
    /// How long a window without anybody to ask stays open, whoever may be expected.
    pub grace: Duration,
    /// How long it does so after the registry could be read for the first time, or again, while somebody is missing who was
    /// registered once: settlers that were cut off together with the gateway may not have registered again.
    pub settling: Duration,
    /// How long a winner has to answer its award where no other quote can be awarded in its place.
    pub answer_wait: Duration,
    /// The same where another quote can be awarded even then ([`Award::is_replaceable_after`]).
    pub replaceable_answer_wait: Duration,
    /// When settlers that missed awards are passed over, by the records that [`open`] is given.
    pub pauses: PauseRule,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            replicas: 1,
            window_max: Duration::from_secs(600),
            grace: Duration::ZERO,
            settling: Duration::from_secs(10),
            answer_wait: ANSWER_WAIT_MAX,
            replaceable_answer_wait: REPLACEABLE_ANSWER_WAIT,
            pauses: PauseRule::DEFAULT,
        }
    }
}

/// The settlers as the engine sees them. Cheap to clone; works as long as its [`Service`] runs.
#[derive(Clone)]
pub struct NatsAuction(Arc<Inner>);

/// Keeps registry and clock current, gives new settlers their award consumers, takes answers to awards and follows reports.
pub struct Service {
    inner: Arc<Inner>,
    hints: mpsc::Sender<PaymentId>,
}

struct Inner {
    client: async_nats::Client,
    /// What settlers say.
    heard: HeaderlessClient,
    jetstream: jetstream::Context,
    /// By what windows are open: the servers' time, by which what settlers say is stored.
    clock: Arc<ServerClock>,
    options: Options,
    registry: Registry,
    /// By what settlers hold policies.
    policies: SettlerPolicies,
    /// Who is passed over.
    records: Records,
    /// Settlers whose streams and award consumer are known to exist.
    known: watch::Sender<HashSet<SettlerToken>>,
    /// Who waits for an answer to an award.
    waiting: Waiting,
    /// What is counted of bids.
    metrics: BidMetrics,
}

/// Creates the streams that are missing and opens the auction. Settlers are asked over `client`, and heard over `heard`, which
/// takes nothing of the headers that they write (ADR 120). `records` are what is known of them; without these nobody is passed over,
/// and nobody holds a policy that asks for a record. The receiver yields payments whose delivery a settler reported: hints to
/// look at the chain.
///
/// # Errors
/// [`Error`] when NATS cannot be reached or refuses.
pub async fn open(
    client: async_nats::Client,
    heard: HeaderlessClient,
    options: Options,
    policies: SettlerPolicies,
    records: Option<Arc<dyn SettlerRecords>>,
) -> Result<(NatsAuction, Service, mpsc::Receiver<PaymentId>), Error> {
    open_by(Utc::now, client, heard, options, policies, records).await
}

/// The same where this machine's clock is another one.
///
/// # Errors
/// As those of [`open`].
pub async fn open_by(
    own_clock: fn() -> Timestamp,
    client: async_nats::Client,
    heard: HeaderlessClient,
    options: Options,
    policies: SettlerPolicies,
    records: Option<Arc<dyn SettlerRecords>>,
) -> Result<(NatsAuction, Service, mpsc::Receiver<PaymentId>), Error> {
    let jetstream = jetstream::new(client.clone());
    streams::ensure(&jetstream, options).await?;
    let clock = Arc::new(ServerClock::with_own(client.clone(), streams::ASKED_STREAM, own_clock));
    if let Err(reason) = clock.read().await {
        tracing::warn!(reason, "the server does not say what time it is yet; until then this machine's clock counts");
    }
    let (hints, receiver) = mpsc::channel(HINTS_MAX);
    let (registry, known, waiting) = (Registry::default(), watch::Sender::default(), Waiting::default());
    let (records, metrics) = (Records::new(records, options.pauses), BidMetrics::default());
    let inner =
        Inner { client, heard, jetstream, clock, options, registry, policies, records, known, waiting, metrics };
    let inner = Arc::new(inner);
    Ok((NatsAuction(inner.clone()), Service { inner, hints }, receiver))
}

/// Creates the streams of the auction that are missing.
///
/// # Errors
/// [`Error`] when NATS cannot be reached or refuses.
pub async fn create_streams(client: async_nats::Client, options: Options) -> Result<(), Error> {
    streams::ensure(&jetstream::new(client), options).await.map(drop)
}

impl NatsAuction {
    /// The settlers that are registered now, as far as this gateway has seen, with what they trade.
    pub fn registered(&self) -> Vec<(Did, Vec<Corridor>)> {
        self.0.registry.registered()
    }

    /// The servers' time, which [`Service::run`] follows.
    pub fn clock(&self) -> Arc<ServerClock> {
        self.0.clock.clone()
    }
}

#[async_trait]
impl Auction for NatsAuction {
    async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        self.0.gather(request).await
    }

    async fn gather_for_now(
        &self,
        request: &RequestForQuotes,
        before: Option<OpenWindow>,
    ) -> Result<Gathering, Transient> {
        self.0.gather_for_now(request, before).await
    }

    fn settlers(&self) -> u64 {
        self.0.registry.version()
    }

    async fn other_settlers(&self, known: u64) {
        self.0.registry.other(known).await;
    }

    fn follows_reassignments(&self, settler: &Did) -> bool {
        self.0.registry.follows_reassignments(settler)
    }

    async fn award(&self, award: &Award) -> Result<(), Transient> {
        self.0.award(award).await
    }

    async fn answer(&self, award: &Award) -> Result<AwardAnswer, Transient> {
        self.0.answer(award).await
    }

    async fn over(&self, over: &AuctionOver) {
        self.0.over(over).await;
    }

    async fn end(&self, end: &AwardEnd) -> Result<(), Transient> {
        self.0.end(end).await
    }
}

impl Service {
    /// Works until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown
            .run_until_cancelled(async {
                let (inner, clock) = (&self.inner, &self.inner.clock);
                tokio::join!(inner.keep_registry(), inner.follow_answers(), self.follow_reports(), clock.follow());
            })
            .await;
    }

    async fn follow_reports(&self) {
        let connection = self.inner.heard.clone();
        let period = Duration::from_secs(1);
        let mut reports = RateLimitedSubscription::new(connection, protocol::REPORT_SUBJECTS, REPORTS_MAX, period);
        loop {
            if let Some(payment_id) = reported(&reports.next().await) {
                // Full: the engine has enough to look at, and finds deliveries without being told.
                let _ = self.hints.try_send(payment_id);
            }
        }
    }
}

fn reported(message: &Message) -> Option<PaymentId> {
    let report: Report = protocol::read(&message.payload).ok()?;
    let (_, id) = split_subject(&message.subject, "report")?;
    (report.payment_id.as_str() == id).then_some(report.payment_id)
}

impl Inner {
    /// Makes sure that streams exist which vanish with a server (memory) or with its disk. Whoever finds one missing
    /// calls this.
    async fn restore_streams(&self) {
        match streams::ensure(&self.jetstream, self.options).await {
            // A new stream of awards has no consumers.
            Ok(created) if created.awards => self.known.send_modify(HashSet::clear),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "streams of the auction cannot be restored for now"),
        }
    }

    /// Makes sure that the settler has its streams and its durable consumer of awards.
    async fn ensure_settler(&self, settler: &SettlerToken) -> Result<(), Error> {
        if self.is_known(settler) {
            return Ok(());
        }
        streams::ensure_settler(&self.jetstream, settler, self.options).await?;
        self.known.send_if_modified(|known| known.insert(settler.clone()));
        Ok(())
    }

    fn is_known(&self, settler: &SettlerToken) -> bool {
        self.known.borrow().contains(settler)
    }

    /// Has [`Inner::ensure_settler`] look again.
    fn forget(&self, settler: &SettlerToken) {
        self.known.send_if_modified(|known| known.remove(settler));
    }
}
