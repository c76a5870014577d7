//! The tail of a worked shard: which commits this process has stored itself, so that the shard's worker is woken for them
//! without asking the server.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
    atomic::{AtomicUsize, Ordering},
};

use events::{StreamId, epoch::SHARDS_MAX};
use tokio::sync::Notify;

/// Most commits that wait for the worker. What finds no room is read from the server, as another process's is.
const OWN_MAX: usize = 16 * 1024;

/// The tails of all shards. A slot for every shard that there may ever be, so that appends need no lock for all of them.
pub(super) struct Tails(Box<[OnceLock<Slot>]>);

#[derive(Default)]
struct Slot {
    /// Appends of this process whose outcome is not known yet.
    pending: AtomicUsize,
    tails: Mutex<Vec<Weak<Tail>>>,
}

/// The commits of one shard that this process has stored since the tail was opened.
#[derive(Default)]
pub(super) struct Tail {
    own: Mutex<Vec<OwnCommit>>,
    changed: Notify,
}

/// A commit that this process has stored.
pub(super) struct OwnCommit {
    pub(super) sequence: u64,
    /// The stream to wake; `None` for a mark, whose stream begins in another shard.
    pub(super) stream_id: Option<StreamId>,
}

/// An append of this process, from before it is published until its outcome is known.
pub(super) struct PendingAppend<'a>(Option<&'a Slot>);

impl Default for Tails {
    fn default() -> Self {
        Self((0..SHARDS_MAX).map(|_| OnceLock::new()).collect())
    }
}

impl Tails {
    fn slot(&self, shard: u16) -> Option<&Slot> {
        self.0.get(usize::from(shard)).map(|slot| slot.get_or_init(Slot::default))
    }

    /// The tail of `shard` from now on, until it is dropped.
    pub(super) fn open(&self, shard: u16) -> Arc<Tail> {
        let tail = Arc::new(Tail::default());
        if let Some(slot) = self.slot(shard) {
            let mut tails = slot.tails();
            tails.retain(|tail| tail.strong_count() > 0);
            tails.push(Arc::downgrade(&tail));
        }
        tail
    }

    /// An append to `shard` is about to be published.
    pub(super) fn begin(&self, shard: u16) -> PendingAppend<'_> {
        let slot = self.slot(shard);
        if let Some(slot) = slot {
            slot.pending.fetch_add(1, Ordering::SeqCst);
        }
        PendingAppend(slot)
    }

    /// Whether appends of this process to `shard` are on their way: what seems to be another's may be one of them.
    pub(super) fn has_pending(&self, shard: u16) -> bool {
        self.slot(shard).is_some_and(|slot| slot.pending.load(Ordering::SeqCst) > 0)
    }
}

impl Slot {
    fn tails(&self) -> MutexGuard<'_, Vec<Weak<Tail>>> {
        // Every change is whole before the lock is let go.
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingAppend<'_> {
    /// The append is stored at `sequence`.
    pub(super) fn stored(&self, sequence: u64, stream_id: Option<&StreamId>) {
        let Some(slot) = self.0 else { return };
        for tail in slot.tails().iter().filter_map(Weak::upgrade) {
            tail.push(OwnCommit { sequence, stream_id: stream_id.cloned() });
        }
    }
}

impl Drop for PendingAppend<'_> {
    fn drop(&mut self) {
        let Some(slot) = self.0 else { return };
        if slot.pending.fetch_sub(1, Ordering::SeqCst) == 1 {
            // A worker may wait for this before it reads what it misses.
            slot.tails().iter().filter_map(Weak::upgrade).for_each(|tail| tail.changed.notify_one());
        }
    }
}

impl Tail {
    fn own(&self) -> MutexGuard<'_, Vec<OwnCommit>> {
        // Every change is whole before the lock is let go.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, commit: OwnCommit) {
        let mut own = self.own();
        if own.len() < OWN_MAX {
            own.push(commit);
        }
        drop(own);
        self.changed.notify_one();
    }

    /// What was stored since the last call of this.
    pub(super) fn take(&self) -> Vec<OwnCommit> {
        std::mem::take(&mut *self.own())
    }

    /// Returns when there may be more, or an append of this process has an outcome; at once when that was so since the last
    /// call of this.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use events::PaymentId;

    use super::*;

    fn sequences(tail: &Tail) -> Vec<u64> {
        tail.take().into_iter().map(|commit| commit.sequence).collect()
    }

    #[tokio::test]
    async fn a_tail_has_what_is_stored_in_its_shard_while_it_is_open() {
        let tails = Tails::default();
        let stream_id = PaymentId::derive("tail", "one").into();
        tails.begin(3).stored(1, Some(&stream_id));
        let (one, other) = (tails.open(3), tails.open(3));
        let elsewhere = tails.open(4);
        let append = tails.begin(3);
        assert!(tails.has_pending(3) && !tails.has_pending(4));
        append.stored(2, Some(&stream_id));
        append.stored(3, None);
        drop(append);
        assert!(!tails.has_pending(3));
        one.changed().await;
        assert_eq!((sequences(&one), sequences(&one)), (vec![2, 3], vec![]));
        drop(one);
        tails.begin(3).stored(4, Some(&stream_id));
        assert_eq!((sequences(&other), sequences(&elsewhere)), (vec![2, 3, 4], vec![]));
    }

    #[test]
    fn it_stays_bounded_when_nobody_takes() {
        let tails = Tails::default();
        let (tail, append) = (tails.open(0), tails.begin(0));
        (1..=OWN_MAX as u64 + 1).for_each(|sequence| append.stored(sequence, None));
        assert_eq!(tail.take().len(), OWN_MAX);
    }
}
