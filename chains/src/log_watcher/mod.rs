//! Log watcher: follows the events of all payments on one chain, so that a payment need not be looked at in every block.
//!
//! Each round asks once for what the escrows and proxies said in the newest blocks, and remembers whom it concerns until that
//! is settled. All of it is a hint for when to look: what a node invents costs a look, and what it keeps back is found by
//! whoever looks without a hint. How a node is asked is each family's own, a [`LogSource`].

mod seen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use events::{Account, ChainId, Hash32};
use sagas::ports::{Cursor, Look, Transient, Waiting};

pub use self::seen::AGAIN_BLOCKS;
use self::seen::Seen;
use super::{block_poller::BlockPoller, head_feed::HeadFeed};

/// A block, as far as it matters to who follows events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: Hash32,
    /// Its time, UNIX seconds.
    pub time: u64,
}

/// An event of an escrow or a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The payment that it concerns, as contracts know it.
    pub payment: Hash32,
    /// The hash of its block.
    pub block: Hash32,
    /// It says that a transaction that was pushed into a block has landed. Nothing that a proxy says does: to a proxy anyone may
    /// bring any id.
    pub has_landed: bool,
}

/// Which blocks are asked about.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// The first.
    pub from: u64,
    /// The newest settled block.
    pub settled: Block,
    /// The last, and the newest.
    pub head: Block,
}

/// What escrows and proxies said.
#[derive(Debug)]
pub struct Events {
    /// The first block whose events are among these.
    pub from: u64,
    /// Whether these are all events from the block on that was asked for.
    pub is_complete: bool,
    /// The events, with the numbers of their blocks.
    pub events: Vec<(u64, Event)>,
}

/// Where a log watcher's events come from.
pub trait LogSource: Send + Sync + 'static {
    /// The chain.
    fn chain_id(&self) -> &ChainId;

    /// Whether the events of `contract` are among those that are told.
    fn is_followed(&self, contract: &Account) -> bool;

    /// The newest block.
    fn head(&self) -> impl Future<Output = Result<Block, Transient>> + Send;

    /// The newest settled block.
    fn settled(&self) -> impl Future<Output = Result<Block, Transient>> + Send;

    /// What escrows and proxies said in the blocks of `span`.
    fn events(&self, span: Span) -> impl Future<Output = Result<Events, Transient>> + Send;
}

/// The log watcher of one chain; cheap to clone.
#[derive(Debug)]
pub struct LogWatcher<S>(Arc<Inner<S>>);

impl<S> Clone for LogWatcher<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Inner<S> {
    source: S,
    poller: BlockPoller<Block>,
    seen: Mutex<Seen>,
    /// Held while a round lasts.
    at_work: tokio::sync::Mutex<()>,
    rounds: watch::Sender<u64>,
}

impl<S: LogSource> LogWatcher<S> {
    /// Follows what `source` tells; `poll_ms` is the time between two looks for a new block.
    pub fn new(source: S, poll_ms: u64) -> Self {
        Self(Arc::new(Inner {
            source,
            poller: BlockPoller::new(poll_ms),
            seen: Mutex::default(),
            at_work: tokio::sync::Mutex::default(),
            rounds: watch::Sender::default(),
        }))
    }

    /// The same, whose poller hears this feed. Only before it is cloned.
    #[must_use]
    pub fn hinted(self, feed: Option<HeadFeed>) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Self(Arc::new(Inner { poller: inner.poller.hinted(feed), ..inner })),
            Err(shared) => Self(shared),
        }
    }

    // A panic while it is held leaves at worst a hint too many or too few.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen so far; `None` where the events of `contract` are not followed.
    pub fn cursor(&self, contract: &Account) -> Option<Cursor> {
        let seen = self.seen();
        self.0.source.is_followed(contract).then_some(Cursor { round: seen.round, settled: seen.settled_time })
    }

    /// How many rounds there were.
    pub fn round(&self) -> u64 {
        self.seen().round
    }

    /// Whether in the rounds since something happened that a payment waits for. Where nothing did, `waiting.since.round` becomes the
    /// last round, as the port [`Chains`](sagas::ports::Chains::has_news) promises: rounds are not remembered for ever.
    pub fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        let seen = self.seen();
        let news = seen.has_news(waiting.payment_id.on_chain(), waiting);
        if !news {
            waiting.since.round = seen.round;
        }
        news
    }

    /// Whether the next block is waited for and no event: nothing of the payment is on its way to being settled.
    pub fn awaits_block(&self, waiting: &Waiting<'_>) -> bool {
        waiting.is_pushed && !self.seen().has_unsettled_event(waiting.payment_id.on_chain())
    }

    /// A look at the payment that began after round `since` showed its event in block `number`: looking again shows nothing more
    /// before that is settled, or something else happens.
    pub fn note_shown(&self, payment: Hash32, since: u64, number: u64) {
        self.seen().note_shown(payment, since, number);
    }

    /// The number of the newest block that was seen while anybody waited for one.
    pub fn head(&self) -> Option<u64> {
        self.0.poller.newest().map(|block| block.number)
    }

    /// Returns when the chain has a new block, or after a bounded time. All who wait at this log watcher share one poller,
    /// which is not the node's; what it finds is asked for events while anybody waits for them.
    pub async fn next_block(&self) {
        let inner = Arc::downgrade(&self.0);
        let look = move || {
            let log_watcher = inner.upgrade().map(Self);
            async move {
                let log_watcher = log_watcher?;
                let source = &log_watcher.0.source;
                let head = source.head().await;
                let head =
                    head.inspect_err(|fault| tracing::debug!(chain_id = %source.chain_id(), %fault, "no newest block"));
                let head = head.ok()?;
                if log_watcher.0.rounds.receiver_count() > 0 {
                    // Whoever waits for the block alone need not wait for its events.
                    tokio::spawn(async move { log_watcher.watch(head).await });
                }
                Some(head)
            }
        };
        self.0.poller.next(look).await;
    }

    /// Returns when something may have happened that is waited for.
    pub async fn next_event(&self, waiting: &Waiting<'_>) {
        // Seen from now on, also where nobody else waits.
        let mut rounds = self.0.rounds.subscribe();
        if self.awaits_block(waiting) {
            return self.next_block().await;
        }
        let mut waiting = *waiting;
        let blocks = async {
            loop {
                // Blocks are looked for only while somebody waits for them.
                self.next_block().await;
            }
        };
        tokio::pin!(blocks);
        while !self.has_news(&mut waiting) {
            tokio::select! {
                biased;
                // The sender lives as long as this log watcher.
                _ = rounds.changed() => {}
                () = &mut blocks => {}
            }
        }
    }

    /// Returns when there is a new block, or when a round is over that is not `round`; after a bounded time at the latest.
    pub async fn next_look(&self, round: u64) -> Look {
        // Seen from now on, also where nobody else waits.
        let mut rounds = self.0.rounds.subscribe();
        tokio::select! {
            biased;
            () = self.next_block() => Look { round: *self.0.rounds.borrow(), is_block: true },
            // The sender lives as long as this log watcher.
            Ok(over) = rounds.wait_for(|over| *over != round) => Look { round: *over, is_block: false },
        }
    }

    /// Sees what happened up to the newest block, once.
    ///
    /// # Errors
    /// [`Transient`] when there is no newest block.
    pub async fn watch_newest(&self) -> Result<(), Transient> {
        self.watch(self.0.source.head().await?).await;
        Ok(())
    }

    /// Sees what happened up to `head`, once. Where another round lasts still, the next block's round sees it.
    async fn watch(&self, head: Block) {
        let Ok(_at_work) = self.0.at_work.try_lock() else { return };
        if self.seen().asked.replace(head) == Some(head) {
            return;
        }
        let news = self.news(head).await;
        let round = {
            let mut seen = self.seen();
            match news {
                Ok((settled, Events { from, is_complete, events })) => {
                    if !is_complete {
                        // What happened before is not among them.
                        seen.head = None;
                    }
                    seen.apply(from, head, settled, events);
                }
                Err(fault) => {
                    let misses = seen.miss();
                    if misses.is_power_of_two() {
                        let chain_id = self.0.source.chain_id();
                        tracing::warn!(%chain_id, misses, %fault, "events of new blocks unknown");
                    }
                }
            }
            seen.round
        };
        self.0.rounds.send_replace(round);
    }

    async fn news(&self, head: Block) -> Result<(Block, Events), Transient> {
        let settled = self.0.source.settled().await?;
        let from = self.seen().from(head.number, settled.number);
        let events = self.0.source.events(Span { from, settled, head }).await?;
        Ok((settled, events))
    }
}
