//! Prefetch: the next page of a shard is read while sled applies the one before.
//!
//! Stored commits never change, so a prefetched page is as good as one that is read on demand, except for its end: by now
//! there may be more behind it, which the follower learns of anyway.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::task::AbortOnDropHandle;

use journal::{Journal, ReadError};

use crate::unreadable::{self, Next};

/// Commits asked for and applied at a time: large enough to spread the cost of a batch, small enough for the memory.
pub(crate) const PAGE_COMMITS: usize = 512;
/// Most pages that are prefetched at a time, in all shards together: enough to keep the processors at work where few
/// shards are behind, and a bound on the memory where many are.
const PAGES_MAX: usize = 4;

static ROOM: Semaphore = Semaphore::const_new(PAGES_MAX);

/// Prefetches pages of one shard. A follower that begins again, for example after a fault, takes a new one.
pub(crate) struct Prefetch {
    journal: Arc<dyn Journal>,
    shard: u16,
    page: Option<Page>,
}

struct Page {
    from: u64,
    limit: usize,
    read: AbortOnDropHandle<Result<Next, ReadError>>,
    _room: SemaphorePermit<'static>,
}

impl Prefetch {
    pub(crate) fn new(journal: Arc<dyn Journal>, shard: u16) -> Self {
        Self { journal, shard, page: None }
    }

    /// Begins to read what lies at `from` and behind it, up to `limit` commits, where there is room for a page.
    pub(crate) fn begin(&mut self, from: u64, limit: usize) {
        // First, as its room may be what is needed.
        self.page = None;
        let Ok(room) = ROOM.try_acquire() else { return };
        let (journal, shard) = (Arc::clone(&self.journal), self.shard);
        let read = tokio::spawn(async move { unreadable::next(journal.as_ref(), shard, from, limit).await });
        self.page = Some(Page { from, limit, read: AbortOnDropHandle::new(read), _room: room });
    }

    /// The result of [`unreadable::next`] for `from`, if it was prefetched with at most `limit` commits. `None` also where the
    /// read failed: the cause may be gone by now, and if not, the next read reports it.
    pub(crate) async fn take(&mut self, from: u64, limit: usize) -> Option<Next> {
        let page = self.page.take().filter(|page| page.from == from && page.limit <= limit)?;
        page.read.await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use async_trait::async_trait;
    use events::{CommitId, Epochs, PaymentId, StreamId};
    use journal::{
        AppendError, Commit, Position, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, memory::MemoryJournal,
    };
    use tempfile::TempDir;
    use tokio::{sync::watch, time::timeout};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        fault::Fault,
        service::Projections,
        shards::ShardState,
        view::{PaymentView, test_support::submission},
    };

    const PATIENCE: Duration = Duration::from_secs(60);
    const PAGE: u64 = PAGE_COMMITS as u64;

    /// A journal that answers replays only up to a sequence, and shows which were asked for.
    struct Gated {
        journal: MemoryJournal,
        open_to: watch::Sender<u64>,
        asked: watch::Sender<Vec<u64>>,
    }

    #[async_trait]
    impl StreamStore for Gated {
        async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
            self.journal.append(commit).await
        }

        async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
            self.journal.load(stream_id).await
        }
    }

    #[async_trait]
    impl ShardLog for Gated {
        fn epochs(&self) -> Epochs {
            self.journal.epochs()
        }

        async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
            self.asked.send_modify(|asked| asked.push(from));
            let mut open_to = self.open_to.subscribe();
            if open_to.wait_for(|open_to| from <= *open_to).await.is_err() {
                pending::<()>().await;
            }
            self.journal.replay(shard, from, limit).await
        }

        async fn head(&self, shard: u16) -> Result<u64, ReadError> {
            self.journal.head(shard).await
        }

        async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
            self.journal.wait_beyond(shard, sequence).await
        }
    }

    #[async_trait]
    impl ShardLeases for Gated {
        async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
            self.journal.work(shard, owner).await
        }
    }

    impl Gated {
        /// A shard with so many submissions, of which nothing is shown yet.
        async fn new(count: u64) -> Arc<Self> {
            let journal = MemoryJournal::new(1);
            for number in 0..count {
                let payment_id = payment(number);
                let commit = Commit {
                    stream_id: (&payment_id).into(),
                    expected: Position::START,
                    commit_id: CommitId::random(),
                    events: vec![submission(&payment_id).into()],
                    correlation: "test".to_owned(),
                    causation: "test".to_owned(),
                };
                journal.append(&commit).await.unwrap();
            }
            Arc::new(Self { journal, open_to: watch::Sender::new(0), asked: watch::Sender::new(Vec::new()) })
        }

        async fn is_asked(&self, from: u64) {
            let mut asked = self.asked.subscribe();
            timeout(PATIENCE, asked.wait_for(|asked| asked.contains(&from))).await.unwrap().unwrap();
        }
    }

    fn payment(number: u64) -> PaymentId {
        PaymentId::derive("payer", &number.to_string())
    }

    /// The next page is read while the first waits for its turn; and when a recheck of what is stored is asked for just then, the whole
    /// shard is looked at and following goes on, with nothing left out and nothing taken in twice.
    #[tokio::test]
    async fn a_recheck_while_a_page_is_prefetched_loses_and_repeats_nothing() {
        let (directory, count) = (TempDir::new().unwrap(), 3 * PAGE + 7);
        let journal = Gated::new(count).await;
        let projections = Projections::open(directory.path(), 1).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn({
            let (projections, journal, shutdown) = (projections.clone(), Arc::clone(&journal), shutdown.clone());
            async move { projections.run(journal, shutdown).await }
        });
        journal.is_asked(1).await;
        let turn = projections.model.turn(0).await;
        journal.open_to.send_replace(1);
        journal.is_asked(PAGE + 1).await;
        assert_eq!(projections.checkpoint(0), 0);

        projections.model.report_fault(0, &Fault::Damaged("as a reader says".to_owned()));
        drop(turn);
        journal.open_to.send_replace(count + 1);
        let mut status = projections.model.watch(0).await;
        let live = status.wait_for(|status| status.state == ShardState::Live && status.checkpoint == count);
        timeout(PATIENCE, live).await.unwrap().unwrap();
        for number in 0..count {
            let folded = PaymentView::fold(&journal.load(&payment(number).into()).await.unwrap());
            assert_eq!(projections.get(&payment(number)).unwrap(), folded);
        }
        let store = projections.model.store();
        assert_eq!(store.verify(0).unwrap().commits, count);
        shutdown.cancel();
        task.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn only_what_was_asked_for_is_given_and_only_so_much_is_read() {
        let journal = Gated::new(2 * PAGE).await;
        journal.open_to.send_replace(2 * PAGE);
        let mut prefetch = Prefetch::new(journal.clone(), 0);
        assert!(prefetch.take(1, PAGE_COMMITS).await.is_none(), "nothing was begun");
        for (from, limit) in [(2, PAGE_COMMITS), (1, PAGE_COMMITS - 1)] {
            prefetch.begin(1, PAGE_COMMITS);
            assert!(prefetch.take(from, limit).await.is_none());
            assert!(prefetch.take(1, PAGE_COMMITS).await.is_none(), "it was given up");
        }
        prefetch.begin(3, PAGE_COMMITS);
        let Some(Next::Commits { page, ended: false }) = prefetch.take(3, PAGE_COMMITS).await else { panic!("a page") };
        assert_eq!((page.len() as u64, page[0].position.sequence), (PAGE, 3));

        let asked = journal.asked.borrow().len();
        let mut many: Vec<_> = (0..3 * PAGES_MAX).map(|_| Prefetch::new(journal.clone(), 0)).collect();
        for prefetch in &mut many {
            prefetch.begin(1, PAGE_COMMITS);
        }
        let mut given = 0;
        for prefetch in &mut many {
            given += usize::from(prefetch.take(1, PAGE_COMMITS).await.is_some());
        }
        assert!((1..=PAGES_MAX).contains(&given), "{given}");
        assert_eq!(journal.asked.borrow().len() - asked, given);
    }
}
