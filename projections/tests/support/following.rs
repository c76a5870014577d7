//! Read models that follow a journal.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use journal::ShardLog;
use projections::{Projections, RunError, Verdict};

use super::Streams;

/// Long enough for a busy machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Read models of all shards of a journal, and the task that follows it.
pub struct Following {
    pub projections: Projections,
    journal: Arc<Streams>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Following {
    /// Returns when they have what the journal has.
    pub async fn start(directory: &Path, journal: &Arc<Streams>) -> Self {
        Self::of(Projections::open_searched(directory, journal.shards()).unwrap(), journal).await
    }

    /// Those of a gateway without a console, which keep no index for search.
    pub async fn unsearched(directory: &Path, journal: &Arc<Streams>) -> Self {
        Self::of(Projections::open(directory, journal.shards()).unwrap(), journal).await
    }

    async fn of(projections: Projections, journal: &Arc<Streams>) -> Self {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn({
            let (projections, shutdown, journal) = (projections.clone(), shutdown.clone(), Arc::clone(journal));
            async move { projections.run(journal, shutdown).await }
        });
        let following = Self { projections, journal: Arc::clone(journal), shutdown, task };
        following.caught_up().await;
        following
    }

    pub async fn caught_up(&self) {
        let caught_up = async {
            for shard in 0..self.journal.shards() {
                assert!(self.projections.wait_for(shard, self.journal.head_of(shard), PATIENCE).await);
            }
            while self.projections.ready().is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, caught_up).await.unwrap();
    }

    /// Builds them again, and checks that they are the same.
    pub async fn rebuilds_the_same(&self) {
        let rebuild = self.projections.begin_rebuild().unwrap();
        let verdicts = rebuild.run(self.journal.clone(), self.shutdown.clone()).await.unwrap();
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Equal { .. })), "{verdicts:?}");
    }

    pub async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}
