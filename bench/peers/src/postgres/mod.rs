//! The journal's traits over PostgreSQL, with group commit: what a team that knows PostgreSQL would build for the same engine.
//!
//! It passes the journal's conformance suite. It has one epoch: shards are not added, and none is sealed.

mod read;
mod session;
mod worker;
mod writer;

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use async_trait::async_trait;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};
use tokio_postgres::{Config, NoTls};

use events::{Epochs, StreamId};
use journal::{
    AppendError, Commit, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, envelope::EncodedCommit,
    stream_moved::holds_mark, successor::successor,
};

use self::{
    session::Link,
    worker::Leases,
    writer::{Outcome, Waiting},
};

/// Writers that were best on a machine with two processors.
pub const WRITERS: usize = 2;
/// Connections that read, each of which answers one question after the other.
const READERS: usize = 2;
/// How often it is looked for what other processes have stored.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longest wait for a commit that does not come.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest wait for what became of an append: longer than a writer tries to learn it.
const APPEND_MAX: Duration = Duration::from_secs(30);

/// The journal in a PostgreSQL database. Clones share connections.
#[derive(Clone)]
pub struct PostgresJournal(Arc<Inner>);

struct Inner {
    epochs: Epochs,
    writers: Vec<mpsc::Sender<Waiting>>,
    readers: [Link; READERS],
    next_reader: AtomicUsize,
    shards: Vec<Shard>,
    leases: Leases,
    transactions: AtomicU64,
    commits: AtomicU64,
}

/// What is known of a shard here.
struct Shard {
    /// The highest sequence seen.
    head: watch::Sender<u64>,
    /// Where the worker of this process hears what this process stores.
    feed: Mutex<Option<mpsc::Sender<(u64, StreamId)>>>,
}

impl PostgresJournal {
    /// Makes the schema in an empty database.
    ///
    /// # Errors
    /// When the server cannot be reached, or the schema is there.
    pub async fn create(config: &Config) -> Result<()> {
        let (client, connection) = config.connect(NoTls).await.context("connect to PostgreSQL")?;
        let connection = tokio::spawn(connection);
        let made = client.batch_execute(include_str!("schema.sql")).await;
        drop(client);
        connection.await?.context("connection to PostgreSQL")?;
        made.context("make the schema")
    }

    /// A handle on the journal with so many shards, at least one, and so many writers, at least one.
    ///
    /// # Errors
    /// When the server cannot be reached, or has no schema.
    pub async fn connect(config: &Config, shards: u16, writers: usize) -> Result<Self> {
        let link = || Link::new(config.clone());
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| Inner {
            epochs: Epochs::one(shards),
            writers: (0..writers.max(1)).map(|_| writer::start(inner, link())).collect(),
            readers: std::array::from_fn(|_| link()),
            next_reader: AtomicUsize::new(0),
            shards: (0..shards).map(|_| Shard { head: watch::Sender::new(0), feed: Mutex::default() }).collect(),
            leases: Leases::new(link()),
            transactions: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        });
        inner.look().await.map_err(|error| anyhow!("{error}"))?;
        let looking = Arc::downgrade(&inner);
        tokio::spawn(async move {
            loop {
                sleep(LOOK_EVERY).await;
                let Some(inner) = looking.upgrade() else { return };
                // What is not seen now is seen later.
                if let Err(error) = inner.look().await {
                    tracing::debug!(%error, "heads are not seen");
                }
            }
        });
        Ok(Self(inner))
    }

    /// Transactions that stored something, and the commits in them, since the last call of this.
    pub fn take_counts(&self) -> (u64, u64) {
        (self.0.transactions.swap(0, Ordering::Relaxed), self.0.commits.swap(0, Ordering::Relaxed))
    }
}

impl Inner {
    fn count(&self, commits: usize) {
        if commits > 0 {
            self.transactions.fetch_add(1, Ordering::Relaxed);
            self.commits.fetch_add(commits as u64, Ordering::Relaxed);
        }
    }

    /// Tells the workers of this process what it stored.
    fn announce(&self, new: Vec<(u16, u64, StreamId)>) {
        for (shard, sequence, stream_id) in new {
            let Some(shard) = self.shards.get(usize::from(shard)) else { continue };
            if let Some(feed) = &*shard.feed.lock().unwrap_or_else(PoisonError::into_inner) {
                // A worker that is full finds the gap, and reads what it missed.
                let _ = feed.try_send((sequence, stream_id));
            }
            shard.rise(sequence);
        }
    }

    /// Sees the heads of all shards.
    async fn look(&self) -> Result<(), ReadError> {
        for (shard, head) in self.shards.iter().zip(self.heads().await?) {
            shard.rise(head);
        }
        Ok(())
    }

    fn shard(&self, shard: u16) -> Result<&Shard, ReadError> {
        self.shards.get(usize::from(shard)).ok_or_else(|| ReadError::Unavailable(format!("there is no shard {shard}")))
    }

    fn reader(&self) -> &Link {
        &self.readers[self.next_reader.fetch_add(1, Ordering::Relaxed) % READERS]
    }
}

impl Shard {
    fn rise(&self, sequence: u64) {
        self.head.send_if_modified(|head| {
            let rises = sequence > *head;
            *head = sequence.max(*head);
            rises
        });
    }
}

#[async_trait]
impl StreamStore for PostgresJournal {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        let inner = &self.0;
        if holds_mark(commit) {
            return Err(AppendError::Unacceptable("marks are the journal's own".into()));
        }
        let shard = inner.epochs.current().shard_of(&commit.stream_id);
        let encoded =
            EncodedCommit::new(commit, shard).map_err(|error| AppendError::Unacceptable(error.to_string()))?;
        let (outcome, told) = oneshot::channel();
        let (stream_id, expected) = (commit.stream_id.clone(), commit.expected.sequence);
        let waiting = Waiting { stream_id, expected, encoded: encoded.clone(), outcome };
        let writer = &inner.writers[usize::from(shard) % inner.writers.len()];
        let ended = || AppendError::Unknown("the writer has ended".into());
        let outcome = timeout(APPEND_MAX, async {
            writer.send(waiting).await.map_err(|_| ended())?;
            told.await.map_err(|_| ended())
        });
        match outcome.await.map_err(|_| AppendError::Unknown("no answer in time".into()))?? {
            Outcome::Stored { sequence, at } => Ok(encoded.recorded(commit, sequence, at)),
            Outcome::DoesNotFollow => {
                // It is certain that the transaction did not store it; one before may have.
                let stream = self.load(&commit.stream_id).await;
                let stream = stream.map_err(|error| AppendError::Unknown(error.to_string()))?;
                successor(&stream, commit, &encoded)?
                    .ok_or_else(|| AppendError::Unavailable("what it follows was not there yet".into()))
            }
            Outcome::NotStored(reason) => Err(AppendError::Unavailable(reason)),
            Outcome::Unknown(reason) => Err(AppendError::Unknown(reason)),
        }
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.0.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for PostgresJournal {
    fn epochs(&self) -> Epochs {
        self.0.epochs.clone()
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.0.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        let heads = self.0.heads().await?;
        heads
            .get(usize::from(shard))
            .copied()
            .ok_or_else(|| ReadError::Unavailable(format!("there is no shard {shard}")))
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        let mut head = self.0.shard(shard)?.head.subscribe();
        // The sender lives as long as the journal; nothing new is no error.
        let _ = timeout(WAIT_MAX, head.wait_for(|head| *head > sequence)).await;
        Ok(())
    }
}

#[async_trait]
impl ShardLeases for PostgresJournal {
    async fn work(&self, shard: u16, _owner: &str) -> Box<dyn ShardWorker> {
        worker::start(self.0.clone(), shard)
    }
}
