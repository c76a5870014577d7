//! The projection store of one process: the real views, folded from the commits that a follower of the shards reads.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::sleep;

use events::StreamId;
use journal::{Recorded, ShardLog, StreamStore};
use projections::{Applied, PaymentView, QuoteRequestView};
use sagas::ports::{OpenStreams, Transient};

use super::{
    World,
    invariants::{Violation, require},
    sim_journal::SimJournal,
};
use crate::{coverage, random::RandomSource};

/// Commits asked for at a time.
const PAGE: usize = 16;
/// Pause between two reads.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// The view of either kind of stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// Of a payment.
    Payment(Box<PaymentView>),
    /// Of a batch.
    Batch(Box<QuoteRequestView>),
}

impl View {
    fn begin(first: &Recorded) -> Option<Self> {
        match first.stream_id {
            StreamId::Payment(_) => PaymentView::begin(first).map(Box::new).map(Self::Payment),
            StreamId::QuoteRequest(_) => QuoteRequestView::begin(first).map(Box::new).map(Self::Batch),
        }
    }

    fn fold(commits: &[Recorded]) -> Option<Self> {
        match commits.first()?.stream_id {
            StreamId::Payment(_) => PaymentView::fold(commits).map(Box::new).map(Self::Payment),
            StreamId::QuoteRequest(_) => QuoteRequestView::fold(commits).map(Box::new).map(Self::Batch),
        }
    }

    fn apply(&mut self, recorded: &Recorded) -> Applied {
        match self {
            Self::Payment(view) => view.apply(recorded),
            Self::Batch(view) => view.apply(recorded),
        }
    }

    fn version(&self) -> u64 {
        match self {
            Self::Payment(view) => view.version,
            Self::Batch(view) => view.version,
        }
    }

    /// The stream.
    pub fn stream_id(&self) -> StreamId {
        match self {
            Self::Payment(view) => (&view.payment_id).into(),
            Self::Batch(view) => (&view.quote_request_id).into(),
        }
    }

    /// Whether the engine has nothing left to do for it.
    pub fn at_rest(&self) -> bool {
        match self {
            Self::Payment(view) => view.at_rest,
            Self::Batch(view) => view.at_rest,
        }
    }
}

/// The projection store: the views, which outlive the process as files do.
#[derive(Default)]
pub struct ProjectionStore(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    views: BTreeMap<StreamId, View>,
    /// The shard in which each stream lies.
    shards: BTreeMap<StreamId, u16>,
    /// The sequence up to which each shard is in them.
    read: BTreeMap<u16, u64>,
}

impl ProjectionStore {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything, as when the files are lost.
    pub fn lose(&self) {
        *self.lock() = Inner::default();
    }

    /// The views.
    pub fn views(&self) -> Vec<View> {
        self.lock().views.values().cloned().collect()
    }

    fn reached(&self, shard: u16, sequence: u64) {
        let mut inner = self.lock();
        let read = inner.read.entry(shard).or_default();
        *read = sequence.max(*read);
    }

    /// Applies a commit; whether one before it is missing.
    fn apply(&self, recorded: &Recorded) -> bool {
        let mut inner = self.lock();
        match inner.views.get_mut(&recorded.stream_id) {
            Some(view) => view.apply(recorded) == Applied::Gap,
            None => match View::begin(recorded) {
                Some(view) => {
                    inner.views.insert(recorded.stream_id.clone(), view);
                    inner.shards.insert(recorded.stream_id.clone(), recorded.position.shard);
                    false
                }
                None => true,
            },
        }
    }
}

/// Follows the shards for as long as it runs.
pub async fn follow(world: Arc<World>, journal: Arc<SimJournal>, store: Arc<ProjectionStore>, random: RandomSource) {
    loop {
        for shard in 0..journal.shards() {
            page(&world, &journal, &store, &random, shard).await;
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn page(world: &World, journal: &SimJournal, store: &ProjectionStore, random: &RandomSource, shard: u16) {
    let read = store.lock().read.get(&shard).copied().unwrap_or_default();
    // Deliveries are repeated, and begin before what was read already.
    let again = if world.strikes(random, "replay repeats", world.plan.faults.stale) { random.number(0..=5) } else { 0 };
    let Ok(mut commits) = journal.replay(shard, (read + 1).saturating_sub(again).max(1), PAGE).await else { return };
    let Some(last) = commits.last().map(|last| last.position.sequence) else { return };
    if world.draws(random, world.plan.faults.stale) && commits.len() > 1 {
        coverage::fault("replayed commits change places");
        // Out of order: the later one comes first and finds a gap.
        let index = usize::try_from(random.number(1..=commits.len() as u64 - 1)).unwrap_or(1);
        commits.swap(index - 1, index);
    }
    // A mark is of a stream that begins elsewhere.
    commits.retain(|recorded| !recorded.is_moved());
    for recorded in &commits {
        if !store.apply(recorded) {
            continue;
        }
        // Missing commits are read from the stream itself.
        let Ok(stream) = journal.load(&recorded.stream_id).await else { return };
        for recorded in &stream {
            store.apply(recorded);
        }
    }
    store.reached(shard, last);
    for recorded in &commits {
        let held = equal(world, store, &recorded.stream_id).await;
        world.judge(held);
    }
}

/// The view equals the fold of what is stored, as far as the view goes.
async fn equal(world: &World, store: &ProjectionStore, stream_id: &StreamId) -> Result<(), Violation> {
    let stored = world.memory.load(stream_id).await.unwrap_or_default();
    let Some(view) = store.lock().views.get(stream_id).cloned() else {
        return Err(Violation::new("projection equals fold", format!("{stream_id} was read and has no view")));
    };
    let until = usize::try_from(view.version()).unwrap_or(usize::MAX);
    let folded = View::fold(stored.get(..until).unwrap_or(&stored));
    require(folded.as_ref() == Some(&view), "projection equals fold", || {
        format!("{stream_id}: {view:?} is not {folded:?}")
    })?;
    world.invariants().shows(&view)
}

/// The open streams of a process's read model.
pub struct SimOpenStreams(pub Arc<ProjectionStore>);

#[async_trait]
impl OpenStreams for SimOpenStreams {
    async fn open_streams(&self, shard: u16, as_of: u64) -> Result<Vec<StreamId>, Transient> {
        let inner = self.0.lock();
        let read = inner.read.get(&shard).copied().unwrap_or_default();
        if read < as_of {
            return Err(Transient::unreachable(format!("the read model is at {read} of {as_of}")));
        }
        let open = inner.views.iter().filter(|(id, view)| inner.shards.get(*id) == Some(&shard) && !view.at_rest());
        Ok(open.map(|(id, _)| id.clone()).collect())
    }
}
