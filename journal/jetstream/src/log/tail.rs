//! The tail of a worked shard: the commits that were stored since it was opened, in order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use events::StreamId;

/// Most commits that wait for the worker. What finds no room is read from the log.
const WAITING_MAX: usize = 16 * 1024;

/// The commits of one shard that the worker was not told of yet.
#[derive(Default)]
pub(super) struct Tail {
    waiting: Mutex<Commits>,
    changed: Notify,
}

/// Commits by their sequence.
#[derive(Default)]
pub(super) struct Commits {
    pub known: Vec<(u64, StreamId)>,
    /// Whether there are more behind them, which are not known.
    pub has_more: bool,
}

impl Tail {
    fn waiting(&self) -> MutexGuard<'_, Commits> {
        // Every change is whole before the lock is let go.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are stored.
    pub(super) fn push(&self, commits: Vec<(u64, StreamId)>) {
        let mut waiting = self.waiting();
        if waiting.has_more || waiting.known.len() + commits.len() > WAITING_MAX {
            waiting.has_more = true;
        } else {
            waiting.known.extend(commits);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// What was stored since the last call of this. Once there is more than is known, nothing is taken in until
    /// [`Tail::clear`].
    pub(super) fn take(&self) -> Commits {
        let mut waiting = self.waiting();
        Commits { known: std::mem::take(&mut waiting.known), has_more: waiting.has_more }
    }

    /// Forgets what waits.
    pub(super) fn clear(&self) {
        *self.waiting() = Commits::default();
    }

    /// Returns when there may be more; at once when that was so since the last call of this.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use journal::conformance::fresh;

    use super::*;

    #[test]
    fn it_stays_bounded_and_says_when_it_lacks_something() {
        let tail = Tail::default();
        let segment = |first: u64| (first..first + 1_000).map(|sequence| (sequence, fresh())).collect::<Vec<_>>();
        (0..20).for_each(|number| tail.push(segment(1 + number * 1_000)));
        let taken = tail.take();
        assert!(taken.has_more && taken.known.len() <= WAITING_MAX);
        assert!(taken.known.iter().map(|(sequence, _)| *sequence).eq(1..=taken.known.len() as u64));
        tail.push(segment(50_001));
        assert!(tail.take().known.is_empty(), "nothing is left out in the middle");
        tail.clear();
        tail.push(segment(60_001));
        let taken = tail.take();
        assert!(!taken.has_more && taken.known.len() == 1_000);
    }
}
