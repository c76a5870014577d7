//! The journal as the routes see it: with bounds on what they ask of it at the same time.
//!
//! Writes at work are bounded by [`super::write_permits`], whichever shard they are for. Were that all, one shard whose leader
//! is silent would soon have all permits, because its appends take seconds, and the others nothing to do. So no shard
//! gets more than twice its share at a time, and as many in the queue for it. Reads are not writes and have no permits; those
//! that go to the journal, such as for ids that no payment has, are bounded here, in the same way.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use config::HttpConfig;
use events::StreamId;
use journal::{AppendError, Commit, ReadError, Recorded, StreamLog, StreamStore};

use crate::bulkhead::Bulkhead;

/// Streams that are loaded at a time, of all shards, and those that wait for it.
const LOADS_MAX: usize = 256;
const LOADS_WAITING_MAX: usize = 4_096;
/// Least number of them for one shard.
const LOADS_MIN: usize = 16;
/// Longest time anything waits for its turn here.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Least number of appends that a shard may have at a time, for journals of many shards: a few streams more or less in
/// one of them are chance.
const APPENDS_MIN: usize = 16;

/// A journal with bounds.
pub struct BoundedJournal {
    journal: Arc<dyn StreamStore>,
    /// Where streams are loaded, and who knows their shards.
    reads: Arc<dyn StreamLog>,
    /// One for each shard of the epoch that was current at the start; later epochs share them out as their own.
    loads: Vec<Bulkhead>,
    /// The same.
    appends: Vec<Bulkhead>,
}

impl BoundedJournal {
    pub fn new(journal: Arc<dyn StreamStore>, reads: Arc<dyn StreamLog>, config: &HttpConfig) -> Self {
        let shards = usize::from(reads.epochs().current().shards).max(1);
        let share = config.writes_in_flight_max.saturating_mul(2).div_ceil(shards).max(APPENDS_MIN);
        Self {
            journal,
            reads,
            loads: (0..shards)
                .map(|_| Bulkhead::new("loads", loads_of(shards), LOADS_WAITING_MAX / shards, WAIT_MAX))
                .collect(),
            appends: (0..shards).map(|_| Bulkhead::new("appends", share, share, WAIT_MAX)).collect(),
        }
    }

    fn of<'a>(&self, bulkheads: &'a [Bulkhead], stream_id: &StreamId) -> &'a Bulkhead {
        let shard = usize::from(stream_id.shard(self.reads.epochs().current().shards));
        // There is at least one.
        &bulkheads[shard % bulkheads.len()]
    }
}

/// Streams of one of so many shards that are loaded at a time: twice its share.
fn loads_of(shards: usize) -> usize {
    (2 * LOADS_MAX).div_ceil(shards).max(LOADS_MIN)
}

#[async_trait]
impl StreamStore for BoundedJournal {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        // Nothing of it was sent, so it is certain that nothing is stored.
        let _permit = self.of(&self.appends, &commit.stream_id).permit().await.ok_or_else(|| {
            AppendError::Unavailable("as many appends to its shard are on their way as there may be".to_owned())
        })?;
        self.journal.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        let _permit = self
            .of(&self.loads, stream_id)
            .permit()
            .await
            .ok_or_else(|| ReadError::Unavailable("as many streams are being loaded as there may be".to_owned()))?;
        self.reads.load(stream_id).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use events::{CommitId, Epochs, PaymentEvent, PaymentId, event::TransactionAbandoned};
    use journal::{Position, ShardLog, memory::MemoryJournal};
    use tokio::time::Instant;

    use super::*;

    /// A journal that never answers where the shard is 0, and at once elsewhere.
    struct Silent {
        loads: AtomicUsize,
    }

    #[async_trait]
    impl StreamStore for Silent {
        async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
            match commit.stream_id.shard(8) {
                0 => std::future::pending().await,
                _ => Err(AppendError::Conflict),
            }
        }

        async fn load(&self, _: &StreamId) -> Result<Vec<Recorded>, ReadError> {
            self.loads.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    }

    #[async_trait]
    impl ShardLog for Silent {
        fn epochs(&self) -> Epochs {
            Epochs::one(8)
        }

        async fn replay(&self, _: u16, _: u64, _: usize) -> Result<Vec<Recorded>, ReadError> {
            Ok(Vec::new())
        }

        async fn head(&self, _: u16) -> Result<u64, ReadError> {
            Ok(0)
        }

        async fn wait_beyond(&self, _: u16, _: u64) -> Result<(), ReadError> {
            Ok(())
        }
    }

    fn bounded() -> (Arc<Silent>, Arc<BoundedJournal>) {
        let config = HttpConfig { writes_in_flight_max: 256, ..HttpConfig::default() };
        let silent = Arc::new(Silent { loads: AtomicUsize::new(0) });
        (silent.clone(), Arc::new(BoundedJournal::new(silent.clone(), silent, &config)))
    }

    /// Commits of payments of which each is of shard 0, or none is.
    fn commits(of_first_shard: bool) -> impl Iterator<Item = Commit> {
        let ids = (0..).map(|n: u64| StreamId::from(PaymentId::derive("somebody", &n.to_string())));
        ids.filter(move |id| (id.shard(8) == 0) == of_first_shard).map(|stream_id| Commit {
            stream_id,
            expected: Position::START,
            commit_id: CommitId::random(),
            events: Vec::new(),
            correlation: String::new(),
            causation: String::new(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_shard_gets_twice_its_share_and_the_others_go_on() {
        let (_, journal) = bounded();
        for commit in commits(true).take(128) {
            let journal = journal.clone();
            tokio::spawn(async move { journal.append(&commit).await });
        }
        while journal.of(&journal.appends, &commits(true).next().unwrap().stream_id).free() != (0, 0) {
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        let above = commits(true).nth(128).unwrap();
        assert!(matches!(journal.append(&above).await, Err(AppendError::Unavailable(_))));
        for commit in commits(false).take(100) {
            assert!(matches!(journal.append(&commit).await, Err(AppendError::Conflict)));
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_streams_are_loaded_at_a_time_than_there_may_be() {
        let (silent, journal) = bounded();
        let id = StreamId::from(PaymentId::derive("somebody", "one"));
        let most = loads_of(8);
        for _ in 0..most {
            let (journal, id) = (journal.clone(), id.clone());
            tokio::spawn(async move { journal.load(&id).await });
        }
        while silent.loads.load(Ordering::SeqCst) < most {
            tokio::task::yield_now().await;
        }
        // Another shard's streams have their own turn.
        let other = (0..).map(|n: u64| StreamId::from(PaymentId::derive("else", &n.to_string())));
        let other = other.into_iter().find(|other| other.shard(8) != id.shard(8)).unwrap();
        assert!(tokio::time::timeout(WAIT_MAX / 2, journal.load(&other)).await.is_err(), "it is being loaded");
        assert_eq!(silent.loads.load(Ordering::SeqCst), most + 1);
        let started = Instant::now();
        assert!(matches!(journal.load(&id).await, Err(ReadError::Unavailable(_))));
        assert_eq!(started.elapsed(), WAIT_MAX);
        assert_eq!(silent.loads.load(Ordering::SeqCst), most + 1);
    }

    #[tokio::test]
    async fn streams_are_loaded_where_clients_read() {
        let (appends, reads) = (MemoryJournal::new(8), MemoryJournal::new(8));
        let journal = BoundedJournal::new(Arc::new(appends.clone()), Arc::new(reads), &HttpConfig::default());
        let stream_id = StreamId::from(PaymentId::derive("somebody", "1"));
        let commit = Commit { events: vec![abandoned()], ..commits(true).next().unwrap() };
        journal.append(&Commit { stream_id: stream_id.clone(), ..commit }).await.unwrap();
        assert_eq!(appends.load(&stream_id).await.unwrap().len(), 1);
        assert_eq!(journal.load(&stream_id).await.unwrap(), []);
    }

    fn abandoned() -> events::Event {
        let abandoned_at = Default::default();
        let abandoned = TransactionAbandoned { attempt: 1, evidence: String::new(), abandoned_at };
        PaymentEvent::DepositAbandoned(abandoned).into()
    }
}
