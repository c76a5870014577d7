//! Working shards: who drives which payment or batch.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use events::{StreamId, journal::WakeUp};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Engine, backoff};
use crate::ports::Transient;

/// Competes for all shards of the journal and drives their payments and batches.
pub struct Runner {
    engine: Arc<Engine>,
    owner: String,
}

impl Runner {
    /// A runner that competes under the name `owner`, unique to this process.
    pub fn new(engine: Engine, owner: String) -> Self {
        Self { engine: Arc::new(engine), owner }
    }

    /// Runs until `shutdown`; then gives all shards up, so that another process goes on at once.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut shards = JoinSet::new();
        for shard in 0..self.engine.ports().journal.shards() {
            let worker = Worker::new(self.engine.clone(), shard, shutdown.clone());
            shards.spawn(worker.run(self.owner.clone()));
        }
        while shards.join_next().await.is_some() {}
    }
}

/// The worker of one shard.
struct Worker {
    engine: Arc<Engine>,
    shard: u16,
    shutdown: CancellationToken,
    running: HashSet<StreamId>,
    stream_of: HashMap<Id, StreamId>,
    tasks: JoinSet<()>,
}

impl Worker {
    fn new(engine: Arc<Engine>, shard: u16, shutdown: CancellationToken) -> Self {
        let (running, stream_of, tasks) = (HashSet::new(), HashMap::new(), JoinSet::new());
        Self { engine, shard, shutdown, running, stream_of, tasks }
    }

    async fn run(mut self, owner: String) {
        let journal = self.engine.ports().journal.clone();
        let shutdown = self.shutdown.clone();
        let mut claim = journal.work(self.shard, &owner).await;
        let mut faults = 0;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                wake_up = claim.next() => match wake_up {
                    Ok(wake_up) => {
                        faults = 0;
                        self.woken(wake_up).await;
                    }
                    Err(error) => {
                        faults += 1;
                        tracing::warn!(shard = self.shard, faults, %error, "no wake-ups");
                        self.engine.ports().clock.sleep(backoff(self.engine.options(), faults)).await;
                    }
                },
            }
        }
        // A task may be stopped anywhere: what it had not journaled is done again by whoever drives the stream next.
        self.stop_all();
        claim.release().await;
    }

    async fn woken(&mut self, wake_up: WakeUp) {
        match wake_up {
            WakeUp::Acquired => {
                tracing::info!(shard = self.shard, "shard acquired");
                self.take_over().await;
            }
            WakeUp::Event(stream_id) => self.start(stream_id, Duration::ZERO),
            WakeUp::Lost => {
                tracing::warn!(shard = self.shard, "shard lost");
                self.stop_all();
            }
        }
    }

    /// Looks at everything open in the shard.
    async fn take_over(&mut self) {
        let mut faults = 0;
        loop {
            let pause = match self.open_streams().await {
                Ok(open) => {
                    tracing::info!(shard = self.shard, open = open.len(), "open payments and batches taken over");
                    open.into_iter().for_each(|stream_id| self.start(stream_id, Duration::ZERO));
                    return;
                }
                Err(fault) => {
                    faults += 1;
                    tracing::warn!(shard = self.shard, faults, %fault, "open payments and batches unknown");
                    backoff(self.engine.options(), faults)
                }
            };
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = self.engine.ports().clock.sleep(pause) => {}
            }
        }
    }

    async fn open_streams(&self) -> Result<Vec<StreamId>, Transient> {
        let ports = self.engine.ports();
        let head = ports.journal.head(self.shard).await.map_err(|error| Transient(error.to_string()))?;
        ports.open_streams.open_streams(self.shard, head).await
    }

    /// Drives the stream, unless that is being done, after `pause`.
    fn start(&mut self, stream_id: StreamId, pause: Duration) {
        if !self.running.insert(stream_id.clone()) {
            return;
        }
        let engine = self.engine.clone();
        let id = stream_id.clone();
        let task = self.tasks.spawn(async move {
            if !pause.is_zero() {
                engine.ports().clock.sleep(pause).await;
            }
            if let Err(stuck) = engine.drive(&id).await {
                tracing::error!(stream_id = %id, %stuck, "stream is stuck and needs an operator");
            }
        });
        self.stream_of.insert(task.id(), stream_id);
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let Some(stream_id) = self.stream_of.remove(&id) else { return };
        self.running.remove(&stream_id);
        if ended.is_err_and(|error| error.is_panic()) {
            // Its deadlines have nobody else to act on them; the rest go on meanwhile.
            tracing::error!(%stream_id, "driving the stream panicked; it is driven again after a pause");
            self.start(stream_id, self.engine.options().backoff_max);
        }
    }

    fn stop_all(&mut self) {
        self.tasks.abort_all();
        self.running.clear();
        self.stream_of.clear();
    }
}
