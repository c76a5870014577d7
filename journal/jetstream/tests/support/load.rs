//! Appends by many at a time, and the proof that every one that was acknowledged is there, and there once.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use events::{CommitId, StreamId};
use journal::{
    AppendError, Commit, Position, ReadError, Recorded, StreamLog, StreamStore,
    conformance::{commit, fresh},
};

/// Far beyond what any case needs; turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// Appends to payments of their own, until it is checked.
pub struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<Outcomes>>,
}

impl Load {
    /// So many at a time.
    pub fn start(journal: &(impl StreamLog + Clone + 'static), appenders: usize) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let append = |_| tokio::spawn(append_on(journal.clone(), stop.clone(), count.clone()));
        Self { tasks: (0..appenders).map(append).collect(), stop, count }
    }

    /// Appends acknowledged so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits for so many more.
    pub async fn goes_on(&self, more: usize) {
        let so_far = self.count();
        let gone_on = async {
            while self.count() < so_far + more {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, gone_on).await.expect("appends go on");
    }

    /// Stops, and checks that of each stream exactly what was acknowledged is stored, in its order: the commits.
    pub async fn stop(self, journal: &impl StreamLog) -> Vec<CommitId> {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Vec::new();
        for task in self.tasks {
            let appended = timeout(PATIENCE, task).await.unwrap().unwrap();
            let stored = load(journal, &appended.id).await.into_iter().map(|commit| commit.commit_id);
            assert_eq!(stored.collect::<Vec<_>>(), appended.acknowledged);
            assert!(
                appended.acknowledged.iter().all(|id| !appended.denied.contains(id)),
                "a commit that was denied is stored"
            );
            all.extend(appended.acknowledged);
        }
        all
    }

    /// As [`Load::stop`], of a journal in which nothing else is: each is there once.
    pub async fn check(self, journal: &impl StreamLog) {
        let stored = self.stop(journal).await;
        let mut expected: HashMap<CommitId, u32> = stored.into_iter().map(|commit_id| (commit_id, 0)).collect();
        for shard in 0..journal.shards() {
            let head = journal.head(shard).await.unwrap();
            let mut from = 1;
            while from <= head {
                match journal.replay(shard, from, 1000).await {
                    Ok(commits) => {
                        for commit in commits {
                            from = commit.position.sequence + 1;
                            if commit.is_moved() {
                                continue;
                            }
                            *expected.get_mut(&commit.commit_id).expect("only what was acknowledged") += 1;
                        }
                    }
                    Err(ReadError::Unavailable(_)) => sleep(Duration::from_millis(20)).await,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert!(expected.values().all(|times| *times == 1), "every commit is there exactly once");
    }
}

/// The commits of a stream, asked for until the journal answers.
pub async fn load(journal: &(impl StreamStore + ?Sized), id: &StreamId) -> Vec<Recorded> {
    let loaded = async {
        loop {
            match journal.load(id).await {
                Ok(stored) => return stored,
                Err(ReadError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, loaded).await.unwrap()
}

/// What came of the appends of one task.
struct Outcomes {
    id: StreamId,
    /// Stored, in this order.
    acknowledged: Vec<CommitId>,
    /// Not stored, now or later.
    denied: HashSet<CommitId>,
}

impl Outcomes {
    /// Looks what is stored, after an outcome that was not known. What was acknowledged must be there, in front.
    async fn look(&mut self, journal: &impl StreamLog) -> Position {
        let stored = load(journal, &self.id).await;
        let ids: Vec<CommitId> = stored.iter().map(|stored| stored.commit_id.clone()).collect();
        assert!(ids.starts_with(&self.acknowledged), "{} lost an acknowledged commit", self.id);
        self.acknowledged = ids;
        stored.last().map_or(Position::START, |last| last.position)
    }
}

/// Appends to one payment until told to stop.
async fn append_on(journal: impl StreamLog, stop: Arc<AtomicBool>, count: Arc<AtomicUsize>) -> Outcomes {
    let mut appended = Outcomes { id: fresh(), acknowledged: Vec::new(), denied: HashSet::new() };
    let mut at = Position::START;
    while !stop.load(Ordering::SeqCst) {
        let next: Commit = commit(&appended.id, at, "next");
        match journal.append(&next).await {
            Ok(recorded) => {
                at = recorded.position;
                appended.acknowledged.push(next.commit_id);
                count.fetch_add(1, Ordering::SeqCst);
            }
            Err(AppendError::Unavailable(_)) => {
                appended.denied.insert(next.commit_id);
            }
            Err(AppendError::Unknown(_)) => at = appended.look(&journal).await,
            Err(AppendError::Conflict) => {
                // Only an append of our own whose outcome was unknown can have come first.
                appended.denied.insert(next.commit_id);
                at = appended.look(&journal).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    // An append whose outcome stayed unknown may have been stored since.
    appended.look(&journal).await;
    appended
}
