//! Log watcher: follows the events of all payments on one chain, so that a payment need not be looked at in every block.
//!
//! Each round asks once for what the escrows and proxies said in the newest blocks, and remembers whom it concerns until that
//! is settled. All of it is a hint for when to look: what a node invents costs a look, and what it keeps back is found by
//! whoever looks without a hint.

mod seen;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use alloy::{
    primitives::{Address, U64},
    rpc::types::Log,
};
use serde_json::json;
use tokio::sync::watch;

use chains::block_poller::BlockPoller;
use escrow_abi::contracts::{address, word};
use events::Account;
use sagas::ports::{Cursor, Transient, Waiting};

use self::seen::{AGAIN_BLOCKS, Event, Seen};
use super::{
    node::{BlockRef, Node},
    rpc::Fault,
};

/// Most blocks that are asked about at once.
const RANGE_BLOCKS_MAX: u64 = 2_000;

/// The log watcher of one chain; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct LogWatcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: Node,
    escrows: BTreeSet<Address>,
    proxies: BTreeSet<Address>,
    poller: BlockPoller<BlockRef>,
    seen: Mutex<Seen>,
    /// Held while a round lasts.
    at_work: tokio::sync::Mutex<()>,
    rounds: watch::Sender<u64>,
}

impl LogWatcher {
    /// Follows the escrows and proxies that the configuration of `node` trusts.
    pub fn new(node: Node) -> Self {
        let config = &node.config().common;
        Self(Arc::new(Inner {
            escrows: config.escrows().filter_map(|account| address(account).ok()).collect(),
            proxies: config.proxies().filter_map(|account| address(account).ok()).collect(),
            poller: BlockPoller::new(config.poll_ms),
            seen: Mutex::default(),
            at_work: tokio::sync::Mutex::default(),
            rounds: watch::Sender::default(),
            node,
        }))
    }

    // A panic while it is held leaves at worst a hint too many or too few.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen so far; `None` where the events of `contract` are not followed.
    pub fn cursor(&self, contract: &Account) -> Option<Cursor> {
        let contract = address(contract).ok()?;
        let is_followed = self.0.escrows.contains(&contract) || self.0.proxies.contains(&contract);
        let seen = self.seen();
        is_followed.then_some(Cursor { round: seen.round, settled: seen.settled_time })
    }

    /// Whether in the rounds since something happened that a payment waits for. Where nothing did, those are over for it.
    pub fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        let payment = word(waiting.payment_id.on_chain());
        let seen = self.seen();
        let news = seen.has_news(payment, waiting);
        if !news {
            waiting.since.round = seen.round;
        }
        news
    }

    /// Whether the next block is waited for and no event: nothing of the payment is on its way to being settled.
    pub fn is_pushed(&self, waiting: &Waiting<'_>) -> bool {
        let payment = word(waiting.payment_id.on_chain());
        waiting.is_pushed && !self.seen().has_unsettled_event(payment)
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
                let head = log_watcher.0.node.polled_head().await?;
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
        if self.is_pushed(waiting) {
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

    /// Sees what happened up to `head`, once. Where another round lasts still, the next block's round sees it.
    pub async fn watch(&self, head: BlockRef) {
        let Ok(_at_work) = self.0.at_work.try_lock() else { return };
        if self.seen().asked.replace(head) == Some(head) {
            return;
        }
        let news = self.news(head).await;
        let round = {
            let mut seen = self.seen();
            match news {
                Ok(News { from, settled, events }) => seen.apply(from, head, settled, events),
                Err(fault) => {
                    let misses = seen.miss();
                    if misses.is_power_of_two() {
                        let chain_id = self.0.node.chain_id();
                        tracing::warn!(%chain_id, misses, %fault, "events of new blocks unknown");
                    }
                }
            }
            seen.round
        };
        self.0.rounds.send_replace(round);
    }

    async fn news(&self, head: BlockRef) -> Result<News, Transient> {
        let settled = self.0.node.settled().await?;
        let from = self.seen().from(head.number, settled.number);
        let blocks = head.number.saturating_add(1).saturating_sub(from);
        if blocks <= RANGE_BLOCKS_MAX {
            match self.events(from, head.number).await {
                // Providers differ in how many blocks they allow.
                Err(Fault::Rejected(_)) if blocks > AGAIN_BLOCKS => {}
                events => return Ok(News { from, settled, events: events? }),
            }
        }
        let from = head.number.saturating_add(1).saturating_sub(AGAIN_BLOCKS);
        let events = self.events(from, head.number).await?;
        // What happened before is not among them.
        self.seen().head = None;
        Ok(News { from, settled, events })
    }

    /// What escrows and proxies said in these blocks.
    async fn events(&self, from: u64, to: u64) -> Result<Vec<(u64, Event)>, Fault> {
        let Inner { escrows, proxies, .. } = &*self.0;
        let contracts: BTreeSet<_> = escrows.union(proxies).collect();
        let filter = json!({"fromBlock": U64::from(from), "toBlock": U64::from(to), "address": contracts});
        let logs: Vec<Log> = self.0.node.request("eth_getLogs", (filter,)).await?;
        let events = logs.into_iter().filter(|log| !log.removed && contracts.contains(&log.address()));
        let events = events.filter_map(|log| {
            let number = log.block_number.filter(|number| (from..=to).contains(number))?;
            Some((number, (*log.topics().get(1)?, log.block_hash?, escrows.contains(&log.address()))))
        });
        Ok(events.collect())
    }
}

/// The events of all blocks from one on, with the numbers of their blocks.
struct News {
    from: u64,
    settled: BlockRef,
    events: Vec<(u64, Event)>,
}
