//! Fresh views: never older than what anybody was told before, by this gateway or another.
//!
//! The read model follows the journal, so for a moment it may lack a commit that an answer was made from, somewhere else or
//! here. What may still change is therefore shown only once it is known to have everything that was in its stream when
//! the question came. There are two ways to know that. The shard is asked for its head, and the read model has got as
//! far: questions that come while that goes on share the next one, so that their number does not matter. Where this
//! takes longer than a moment, because a gateway under load has much to follow, the one stream in question is read
//! besides, and whichever is first answers: commits of other payments need not be waited for.
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
    journal: Arc<dyn StreamLog>,
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
    /// The views of `projections`, which follow the journal that `journal` reads, on `runtime`. Under load both are
    /// best used for little else: what readers ask for must not wait behind what writers bring.
    pub fn new(projections: Projections, journal: Arc<dyn StreamLog>, runtime: Handle) -> Self {
        let (payments, quote_requests) = (Streams::new(&runtime), Streams::new(&runtime));
        Self { projections, journal, runtime, shards: Arc::default(), payments, quote_requests }
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

    /// The view that `read` finds, once it is fresh or at rest, or that of the stream itself.
    async fn fresh<V: View>(
        &self,
        streams: &Streams<V>,
        stream_id: StreamId,
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
            Freshness::Unknown => Ok(read().ok().flatten().map(|known| known.view).or(Some(known.view))),
        }
    }
}

#[async_trait]
impl Payments for FreshViews {
    async fn view(&self, payment_id: &PaymentId) -> Result<Option<PaymentView>, Unavailable> {
        self.fresh(&self.payments, payment_id.into(), || self.projections.find(payment_id)).await
    }

    async fn changed(&self, payment_id: &PaymentId, seen_version: u64, wait_max: Duration) -> Option<PaymentView> {
        self.projections.changed(payment_id, seen_version, wait_max).await
    }
}

#[async_trait]
impl QuoteRequests for FreshViews {
    async fn view(&self, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Unavailable> {
        self.fresh(&self.quote_requests, id.into(), || self.projections.find_quote_request(id)).await
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
