//! Views that are never older than what anybody was told before, by this gateway or another.
//!
//! The read model follows the journal, so for a moment it may lack a commit that an answer was made from, somewhere else or
//! here. What may still change is therefore shown only once the read model has everything that was in the stream when
//! the question came. To know that, the stream is asked for its head; questions that come while that goes on share the
//! next one, so that their number does not matter.
//!
//! While the journal does not answer, what the read model has is shown as it is.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use events::{PaymentId, QuoteRequestId, journal::Journal};
use projections::{Located, PaymentView, Projections, QuoteRequestView, Unavailable};

use super::{payments::Payments, quote_requests::QuoteRequests};

/// How long a stream may take to tell its head.
const HEAD_WAIT_MAX: Duration = Duration::from_millis(800);
/// How long a stream that did not is not asked again.
const AWAY: Duration = Duration::from_secs(1);
/// Least time between two questions to one stream.
const PACE: Duration = Duration::from_millis(2);
/// How long the read model may take to get as far as its stream; after that the journal is read instead.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

/// The read model, never behind what anybody was told. Cheap to clone.
#[derive(Clone)]
pub struct CurrentViews {
    projections: Projections,
    journal: Arc<dyn Journal>,
    /// Those of the shards from 0 on, as many as were asked for so far.
    heads: Arc<RwLock<Vec<Head>>>,
}

/// What the read model has of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Everything that was in it when that was asked.
    Current,
    /// Less than that.
    Behind,
    /// Nobody can say.
    Unknown,
}

impl CurrentViews {
    /// The views of `projections`, which follow `journal`.
    pub fn new(projections: Projections, journal: Arc<dyn Journal>) -> Self {
        Self { projections, journal, heads: Arc::default() }
    }

    fn head(&self, shard: u16) -> Head {
        let index = usize::from(shard);
        if let Some(head) = self.heads.read().unwrap_or_else(PoisonError::into_inner).get(index) {
            return head.clone();
        }
        // Heads are only ever added, one by one.
        let mut heads = self.heads.write().unwrap_or_else(PoisonError::into_inner);
        for missing in heads.len()..=index {
            heads.push(Head::new(missing as u16, Arc::clone(&self.journal)));
        }
        heads[index].clone()
    }

    async fn standing(&self, shard: u16) -> Standing {
        match self.head(shard).read().await {
            None => Standing::Unknown,
            Some(head) if self.projections.wait_for(shard, head, CATCH_UP_MAX).await => Standing::Current,
            Some(_) => Standing::Behind,
        }
    }

    /// The view that `read` finds, once it is current or `settled`.
    async fn current<V>(
        &self,
        read: impl Fn() -> Result<Option<Located<V>>, Unavailable>,
        settled: impl Fn(&V) -> bool,
    ) -> Result<Option<V>, Unavailable> {
        let known = match read()? {
            Some(known) if !settled(&known.view) => known,
            // What is not known the journal is asked for anyway.
            known => return Ok(known.map(|known| known.view)),
        };
        // A stream stays in the shard in which it began.
        let shard = known.shard;
        match self.standing(shard).await {
            Standing::Current => Ok(read()?.map(|known| known.view)),
            Standing::Behind => Err(Unavailable::CatchingUp { shard }),
            Standing::Unknown => Ok(Some(known.view)),
        }
    }
}

#[async_trait]
impl Payments for CurrentViews {
    async fn view(&self, payment_id: &PaymentId) -> Result<Option<PaymentView>, Unavailable> {
        self.current(|| self.projections.find(payment_id), |view| view.at_rest).await
    }

    async fn changed(&self, payment_id: &PaymentId, seen_version: u64, wait_max: Duration) -> Option<PaymentView> {
        self.projections.changed(payment_id, seen_version, wait_max).await
    }
}

#[async_trait]
impl QuoteRequests for CurrentViews {
    async fn view(&self, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Unavailable> {
        self.current(|| self.projections.find_quote_request(id), |view| view.award.is_some()).await
    }

    async fn changed(&self, id: &QuoteRequestId, seen_version: u64, wait_max: Duration) -> Option<QuoteRequestView> {
        self.projections.quote_request_changed(id, seen_version, wait_max).await
    }
}

/// The head of one stream, asked for once by all who want to know it at the same time.
#[derive(Clone)]
struct Head(Arc<HeadInner>);

struct HeadInner {
    shard: u16,
    journal: Arc<dyn Journal>,
    asking: Mutex<Asking>,
    /// Number of the last question that ended, and its answer.
    answered: watch::Sender<(u64, Option<u64>)>,
}

#[derive(Default)]
struct Asking {
    /// Number of the last question that began.
    begun: u64,
    /// Number of the question that somebody waits for.
    wanted: u64,
    running: bool,
    away_until: Option<Instant>,
}

impl Head {
    fn new(shard: u16, journal: Arc<dyn Journal>) -> Self {
        let answered = watch::Sender::new((0, None));
        Self(Arc::new(HeadInner { shard, journal, asking: Mutex::default(), answered }))
    }

    /// The head as it is at some moment after this call; `None` while the stream does not answer.
    async fn read(&self) -> Option<u64> {
        let mut answered = self.0.answered.subscribe();
        let number = {
            let mut asking = self.lock();
            if asking.away_until.is_some_and(|until| Instant::now() < until) {
                return None;
            }
            // One that has begun may have been answered before this call.
            asking.wanted = asking.begun + 1;
            if !asking.running {
                asking.running = true;
                tokio::spawn(self.clone().ask());
            }
            asking.wanted
        };
        // The question before this one may have to end first.
        let answer = timeout(HEAD_WAIT_MAX * 2, answered.wait_for(|(last, _)| *last >= number)).await;
        answer.ok()?.ok()?.1
    }

    /// Asks for as long as anybody wants to know.
    async fn ask(self) {
        loop {
            let number = {
                let mut asking = self.lock();
                if asking.wanted <= asking.begun {
                    asking.running = false;
                    return;
                }
                asking.begun += 1;
                asking.begun
            };
            let began = Instant::now();
            let head = timeout(HEAD_WAIT_MAX, self.0.journal.head(self.0.shard)).await.ok().and_then(Result::ok);
            self.lock().away_until = head.is_none().then(|| Instant::now() + AWAY);
            self.0.answered.send_replace((number, head));
            sleep_until(began + PACE).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Asking> {
        // Counters are whole whenever the lock is free.
        self.0.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
