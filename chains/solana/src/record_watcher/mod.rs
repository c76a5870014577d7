//! Record watcher: reads the records of all payments that wait, and the token accounts of deposit addresses, a hundred in one call, so that none of them asks the node itself.
//!
//! Which accounts change says the program and nobody else, so whatever strangers send it costs nothing here: what is read depends
//! on the gateway's own payments only, and is bounded. All of it is a hint for when to look: what a node invents costs a look,
//! and what it keeps back is found by whoever looks without a hint.

mod seen;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use chains::block_poller::BlockPoller;
use events::{Account, Hash32, PaymentId};
use gateway_program::{
    Key,
    account::{Escrow, FulfillmentRecord},
};
use sagas::ports::{Cursor, Look, Transient, Waiting};

pub(crate) use self::seen::Watched;
use self::seen::{RecordState, Seen, UNKNOWN_SLOT, Wanted};
use super::node::{self, Commitment, Node, Snapshot};

/// Looks for a new slot between one round and the next: slots are short.
const ROUND_POLLS: u32 = 2;
/// Most calls for records in a round; where more payments wait, they take turns.
const CALLS_MAX: usize = 10;

/// The record watcher of one cluster; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RecordWatcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: Node,
    programs: Vec<Account>,
    round_every: Duration,
    poller: BlockPoller<u64>,
    seen: Mutex<Seen>,
    /// When the last round began. Held while one lasts.
    at_work: tokio::sync::Mutex<Option<Instant>>,
    rounds: watch::Sender<u64>,
}

impl RecordWatcher {
    /// Reads records of the programs that the configuration of `node` trusts.
    pub fn new(node: Node) -> Self {
        let config = &node.config().common;
        Self(Arc::new(Inner {
            programs: config.escrows().chain(config.proxies()).cloned().collect(),
            round_every: Duration::from_millis(config.poll_ms) * ROUND_POLLS,
            poller: BlockPoller::new(config.poll_ms).hinted(node.head_feed().cloned()),
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

    /// What was seen so far; `None` where records of `program` are not read.
    pub fn cursor(&self, program: &Account) -> Option<Cursor> {
        let seen = self.seen();
        let is_followed = self.0.programs.contains(program);
        is_followed.then_some(Cursor { round: seen.round, settled: seen.settled_time })
    }

    /// A look at the payment begins, which is for this record; how many rounds there were.
    pub fn look(&self, payment: &PaymentId, watched: Watched) -> u64 {
        let settled = self.0.node.settled_before().map_or(0, |settled| settled.slot);
        let mut seen = self.seen();
        seen.watch(payment.on_chain(), watched, settled);
        seen.round
    }

    /// A look at the payment that began after round `since` showed what happened to it at `slot`: looking again shows nothing more
    /// before that is settled, or something else happens.
    pub fn note_shown(&self, payment: &PaymentId, since: u64, slot: u64) {
        self.seen().note_shown(payment.on_chain(), since, slot);
    }

    /// The newest slot that was seen while anybody waited for one.
    pub fn head(&self) -> Option<u64> {
        self.0.poller.newest()
    }

    /// Returns when the cluster has a new slot, or after a bounded time. All who wait at this record watcher share one poller,
    /// which is not the node's; records are read while anybody waits for them.
    pub async fn next_block(&self) {
        let inner = Arc::downgrade(&self.0);
        let look = move || {
            let record_watcher = inner.upgrade().map(Self);
            async move {
                let record_watcher = record_watcher?;
                let node = &record_watcher.0.node;
                let head = node.head().await;
                let head =
                    head.inspect_err(|fault| tracing::debug!(chain_id = %node.chain_id(), %fault, "no newest slot"));
                let head = head.ok()?;
                if record_watcher.0.rounds.receiver_count() > 0 {
                    tokio::spawn(async move { record_watcher.watch().await });
                }
                Some(head)
            }
        };
        self.0.poller.next(look).await;
    }

    /// Returns when something may have happened that is waited for.
    pub async fn next_event(&self, waiting: &Waiting<'_>) {
        let mut rounds = self.0.rounds.subscribe();
        if self.awaits_block(waiting) {
            return self.next_block().await;
        }
        let blocks = async {
            loop {
                // Slots are looked for only while somebody waits for them.
                self.next_block().await;
            }
        };
        tokio::pin!(blocks);
        let mut waiting = *waiting;
        while !self.has_news(&mut waiting) {
            tokio::select! {
                biased;
                // The sender lives as long as this record watcher.
                _ = rounds.changed() => {}
                () = &mut blocks => {}
            }
        }
    }

    /// Whether the next slot is waited for and no change: the payment's record is not read.
    pub fn awaits_block(&self, waiting: &Waiting<'_>) -> bool {
        !self.seen().is_watched(waiting.payment_id.on_chain())
    }

    /// Whether in the rounds since something happened that a payment waits for. What has to get into a block is brought again
    /// in each round. Where nothing did, `waiting.since.round` becomes the last round, as the port
    /// [`Chains`](sagas::ports::Chains::has_news) promises.
    pub fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        let mut seen = self.seen();
        let is_pushed = waiting.is_pushed
            && seen.round > waiting.since.round
            && !seen.has_unsettled_change(waiting.payment_id.on_chain());
        let is_news = seen.has_news(waiting) || is_pushed;
        if !is_news {
            waiting.since.round = seen.round;
        }
        is_news
    }

    /// Returns when there is a new slot, or when a round is over that is not `round`; after a bounded time at the latest.
    pub async fn next_look(&self, round: u64) -> Look {
        let mut rounds = self.0.rounds.subscribe();
        tokio::select! {
            biased;
            () = self.next_block() => Look { round: *self.0.rounds.borrow(), is_block: true },
            // The sender lives as long as this record watcher.
            Ok(over) = rounds.wait_for(|over| *over != round) => Look { round: *over, is_block: false },
        }
    }

    /// Looks for the newest slot and reads what happened up to it, once: what those who wait do by themselves, for who learns of
    /// blocks in another way.
    ///
    /// # Errors
    /// [`Transient`] where no newest slot is known.
    pub async fn watch_newest(&self) -> Result<(), Transient> {
        self.0.node.head().await?;
        self.watch().await;
        Ok(())
    }

    /// Reads what happened, where the last round is some time ago. Where another lasts still, the next slot's reads it.
    async fn watch(&self) {
        let Ok(mut began) = self.0.at_work.try_lock() else { return };
        if began.is_some_and(|at| at.elapsed() < self.0.round_every) {
            return;
        }
        *began = Some(Instant::now());
        let wanted = self.seen().next(CALLS_MAX);
        let news = self.news(wanted).await;
        let (round, faults) = {
            let mut seen = self.seen();
            match news.settled {
                Some(settled) => seen.apply(settled, news.settled_time, news.read),
                None => seen.miss(),
            }
            news.answered.iter().for_each(|chunk| seen.answered(chunk));
            news.missed.iter().for_each(|(chunk, is_refused)| seen.missed(chunk, *is_refused));
            (seen.round, seen.end(news.fault.is_some()))
        };
        if let Some(fault) = news.fault
            && faults.is_power_of_two()
        {
            tracing::warn!(chain_id = %self.0.node.chain_id(), rounds = faults, %fault, "records unknown");
        }
        self.0.rounds.send_replace(round);
    }

    async fn news(&self, wanted: Vec<Vec<Wanted>>) -> News {
        let node = &self.0.node;
        let mut news = News::default();
        let settled = match node.watch_settled().await {
            Ok(settled) => settled.slot,
            Err(fault) => {
                let missed = wanted.into_iter().map(|chunk| (chunk, false)).collect();
                return News { missed, fault: Some(fault), ..news };
            }
        };
        news.settled = Some(settled);
        let (mut time, mut is_answering) = (0, true);
        for chunk in wanted {
            if !is_answering {
                news.missed.push((chunk, false));
                continue;
            }
            let addresses: Vec<Key> = chunk.iter().map(|(_, address)| *address).collect();
            match node.accounts(&addresses, Commitment::Confirmed, settled).await {
                Ok(snapshot) => {
                    time = snapshot.time;
                    for (index, (payment, address)) in chunk.iter().enumerate() {
                        let state = state(&snapshot, index);
                        // The newest slot may not be over, and nodes tell of blocks that are.
                        if state.is_none_or(|state| state.slot < snapshot.slot) {
                            news.read.push((*payment, *address, state));
                        }
                    }
                    news.answered.push(chunk);
                }
                Err(fault) => {
                    let is_refused = matches!(fault, Transient::Contradiction(_));
                    // Who does not answer is left alone until the next round.
                    is_answering = is_refused;
                    news.missed.push((chunk, is_refused));
                    news.fault = Some(fault);
                }
            }
        }
        let awaits_settled_time = self.seen().awaits_settled_time(time);
        if awaits_settled_time {
            match node.accounts(&[], Commitment::Finalized, settled).await {
                Ok(snapshot) => news.settled_time = snapshot.time,
                // The next round asks again.
                Err(fault) => news.fault = Some(fault),
            }
        }
        news
    }
}

/// What a round found.
#[derive(Default)]
struct News {
    /// A settled slot; `None` where none is known, and nothing was read.
    settled: Option<u64>,
    settled_time: u64,
    read: Vec<(Hash32, Key, Option<RecordState>)>,
    answered: Vec<Vec<Wanted>>,
    /// What was not read, and whether the node refused the call.
    missed: Vec<(Vec<Wanted>, bool)>,
    fault: Option<Transient>,
}

/// The record in an account; `None` where there is none, whatever somebody sent to its address.
fn state(snapshot: &Snapshot, index: usize) -> Option<RecordState> {
    let node::Account { data, .. } = snapshot.account(index).filter(|account| !account.data.is_empty())?;
    let of_escrow = || Escrow::from_bytes(data).map(|escrow| escrow.changed_slot());
    let of_delivery = || FulfillmentRecord::from_bytes(data).map(|record| record.slot);
    let slot = of_escrow().or_else(of_delivery).unwrap_or(UNKNOWN_SLOT);
    Some(RecordState { hash: Hash32::sha256(data), slot })
}
