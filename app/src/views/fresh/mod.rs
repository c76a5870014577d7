//! Fresh views: never older than what anybody was told before, by this gateway or another; and recent ones for who polls.
//!
//! The read model follows the journal, so for a moment it may lack a commit that an answer was made from, somewhere else or
//! here. What may still change is therefore shown only once it is known to have everything that was in its stream when
//! the question came. There are two ways to know that. The shard is asked for its head, and the read model has got as
//! far: questions that come while that goes on share the next one, so that their number does not matter. Where this
//! takes longer than a moment, because a gateway under load has much to follow, the one stream in question is read
//! besides, and whichever is first answers: commits of other payments need not be waited for.
//!
//! A recent view asks nobody (ADR 124). It has what the reader says that it has seen, what this process knows of the shard,
//! from its own appends and reads and from the wake hints of others, and what was in the shard when that was asked last,
//! which is never long ago. Where it does not, it is made fresh.
//!
//! While the journal does not answer, what the read model has is shown as it is.

mod shard;
mod streams;
mod view;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{runtime::Handle, time::sleep};

use events::{PaymentId, QuoteRequestId, StreamId};
use journal::StreamLog;
use projections::{Located, PaymentView, Projections, QuoteRequestView, Unavailable};

use self::{
    shard::{STREAM_TURN_MAX, Shard, streams_of},
    streams::Streams,
    view::View,
};
use super::{payments::Payments, quote_requests::QuoteRequests};

/// How long the read model may take to get as far as its shard; after that the journal is read instead.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);
/// How long head and read model are waited for before the stream itself is read besides. Without load they take a few
/// milliseconds and cost next to nothing.
const READ_MODEL_ALONE: Duration = Duration::from_millis(20);

/// The read model, never behind what anybody was told. Cheap to clone.
#[derive(Clone)]
pub struct FreshViews {
    projections: Projections,
    /// Where readers read.
    journal: Arc<dyn StreamLog>,
    /// What the projections follow, and this process appends to.
    followed: Arc<dyn StreamLog>,
    runtime: Handle,
    /// Those from 0 on, as many as were asked for so far.
    shards: Arc<RwLock<Vec<Arc<Shard>>>>,
    payments: Streams<PaymentView>,
    quote_requests: Streams<QuoteRequestView>,
}

/// What the read model has of the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// Everything that was in it when that was asked.
    Fresh,
    /// Less than that.
    Behind,
    /// Nobody can say.
    Unknown,
}

impl FreshViews {
    /// The views of `projections`, which follow `followed`, to which this process appends; `journal` is the same as readers
    /// read it, on `runtime`. Under load both these are best used for little else: what readers ask for must not wait behind
    /// what writers bring.
    pub fn new(
        projections: Projections,
        followed: Arc<dyn StreamLog>,
        journal: Arc<dyn StreamLog>,
        runtime: Handle,
    ) -> Self {
        let (payments, quote_requests) = (Streams::new(&runtime), Streams::new(&runtime));
        Self { projections, journal, followed, runtime, shards: Arc::default(), payments, quote_requests }
    }

    fn shard(&self, shard: u16) -> Arc<Shard> {
        let index = usize::from(shard);
        if let Some(shard) = self.shards.read().unwrap_or_else(PoisonError::into_inner).get(index) {
            return Arc::clone(shard);
        }
        // Shards are only ever added, one by one.
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        let permits = streams_of(usize::from(self.journal.epochs().current().shards));
        let count = shards.len().max(index + 1);
        shards.resize_with(count, || Arc::new(Shard::new(&self.runtime, permits)));
        Arc::clone(&shards[index])
    }

    async fn freshness(&self, shard: u16) -> Freshness {
        match self.shard(shard).head(&self.journal, shard).await {
            None => Freshness::Unknown,
            Some(head) if self.projections.wait_for(shard, head, CATCH_UP_MAX).await => Freshness::Fresh,
            Some(_) => Freshness::Behind,
        }
    }

    /// The newest commit of a shard that this process knows of; `None` where it may know less than was told elsewhere a
    /// bounded time ago.
    fn known_head(&self, shard: u16) -> Option<u64> {
        let asked = self.shard(shard).recent_head(&self.journal, shard)?;
        Some(asked.max(self.followed.known_head(shard)?).max(self.journal.known_head(shard)?))
    }

    /// The view that `read` finds, where it has `seen` commits and everything that this process knows of; else a fresh one.
    async fn recent<V: View>(
        &self,
        streams: &Streams<V>,
        stream_id: StreamId,
        seen: u64,
        read: impl Fn() -> Result<Option<Located<V>>, Unavailable>,
    ) -> Result<Option<V>, Unavailable> {
        let known = match read()? {
            Some(known) if !known.view.is_at_rest() => known,
            known => return Ok(known.map(|known| known.view)),
        };
        let newest = if known.view.version() >= seen { self.known_head(known.shard) } else { None };
        match newest {
            Some(newest) if known.as_of >= newest => Ok(Some(known.view)),
            Some(newest) if self.projections.wait_for(known.shard, newest, READ_MODEL_ALONE).await => {
                Ok(read()?.map(|known| known.view))
            }
            _ => self.fresh(streams, stream_id, seen, read).await,
        }
    }

    /// The view that `read` finds, once it is fresh or at rest, or that of the stream itself. Where nobody can say whether it
    /// is fresh, it has `seen` commits at least.
    async fn fresh<V: View>(
        &self,
        streams: &Streams<V>,
        stream_id: StreamId,
        seen: u64,
        read: impl Fn() -> Result<Option<Located<V>>, Unavailable>,
    ) -> Result<Option<V>, Unavailable> {
        let known = match read()? {
            Some(known) if !known.view.is_at_rest() => known,
            // What is not known the journal is asked for anyway.
            known => return Ok(known.map(|known| known.view)),
        };
        // A stream stays in the shard in which it began.
        let shard = known.shard;
        let from_stream = async {
            sleep(READ_MODEL_ALONE).await;
            streams.read(&self.journal, self.shard(shard), stream_id).await
        };
        let freshness = async {
            let freshness = self.freshness(shard).await;
            if freshness == Freshness::Unknown {
                // The head may be out of reach where the stream is not, and others were told what stands there.
                sleep(STREAM_TURN_MAX).await;
            }
            freshness
        };
        let freshness = tokio::select! {
            freshness = freshness => freshness,
            Some(view) = from_stream => return Ok(Some(view)),
        };
        match freshness {
            Freshness::Fresh => Ok(read()?.map(|known| known.view)),
            Freshness::Behind => Err(Unavailable::CatchingUp { shard }),
            Freshness::Unknown => {
                let view = read().ok().flatten().map_or(known.view, |known| known.view);
                if view.version() >= seen { Ok(Some(view)) } else { Err(Unavailable::CatchingUp { shard }) }
            }
        }
    }
}

#[async_trait]
impl Payments for FreshViews {
    async fn view(&self, payment_id: &PaymentId) -> Result<Option<PaymentView>, Unavailable> {
        self.fresh(&self.payments, payment_id.into(), 0, || self.projections.find(payment_id)).await
    }

    async fn recent(&self, payment_id: &PaymentId, seen: u64) -> Result<Option<PaymentView>, Unavailable> {
        self.recent(&self.payments, payment_id.into(), seen, || self.projections.find(payment_id)).await
    }

    async fn changed(&self, payment_id: &PaymentId, seen_version: u64, wait_max: Duration) -> Option<PaymentView> {
        self.projections.changed(payment_id, seen_version, wait_max).await
    }
}

#[async_trait]
impl QuoteRequests for FreshViews {
    async fn view(&self, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Unavailable> {
        self.fresh(&self.quote_requests, id.into(), 0, || self.projections.find_quote_request(id)).await
    }

    fn collecting(&self) -> usize {
        self.projections.open_quote_requests()
    }

    fn is_collecting(&self, id: &QuoteRequestId) -> Option<bool> {
        self.projections.quote_request_is_open(id)
    }

    async fn changed(&self, id: &QuoteRequestId, seen_version: u64, wait_max: Duration) -> Option<QuoteRequestView> {
        self.projections.quote_request_changed(id, seen_version, wait_max).await
    }
}
