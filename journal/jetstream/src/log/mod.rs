//! The journal as shard logs: all commits that wait in a shard are stored as one message (ADR 128).
//!
//! One JetStream stream a shard, `LOG_00 … LOG_nn`, with one subject each: nothing is ever deleted, and no subject needs
//! memory. A message is a [`segment`] of commits; a commit has the form, the hash and the position that it has everywhere, and
//! its sequence is its place among all commits of the shard.
//!
//! It is not what gateways use: those have [`crate::store`]. It passes the same conformance suite, and `bench/peers`
//! measures the two side by side. What it lacks to take that place is in ADR 128.
//!
//! Each handle keeps the last commit of every stream in memory, some 250 bytes each, and reads the whole log when it is opened.

mod cache;
mod follow;
mod queue;
mod read;
pub mod segment;
mod shard;
mod tail;
mod worker;
mod writer;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_nats::{Client, jetstream};
use async_trait::async_trait;
use tokio::sync::Semaphore;

use events::{
    Epochs, StreamId,
    epoch::{EPOCH_SHARDS_MAX, SHARDS_KEY},
};
use journal::{AppendError, Commit, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore};

use crate::{
    lease,
    requests::{self, ConnectError, StreamPlan},
    shard_worker,
};

use self::shard::Shard;

/// Options of the journal: layout and time-outs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of shards, 1 to 256; fixed when their streams are created.
    pub shards: u16,
    /// Replicas of each stream: 1 on one machine, 3 in a cluster.
    pub replicas: usize,
    /// Segments that this process has in flight at a time, at least one. More commits share a segment the fewer there are,
    /// and each waits longer for its turn.
    pub in_flight: usize,
    /// How long an append tries to get an outcome before it says that there is none.
    pub append_timeout: Duration,
    /// How long an append of which nothing can be stored keeps trying, and a read waits for a connection.
    pub unstored_timeout: Duration,
    /// How long a read tries.
    pub read_timeout: Duration,
    /// How long one request waits for its answer before it is asked again.
    pub attempt_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shards: 8,
            replicas: 1,
            in_flight: 2,
            append_timeout: Duration::from_secs(10),
            unstored_timeout: Duration::from_secs(1),
            read_timeout: Duration::from_secs(5),
            attempt_timeout: Duration::from_secs(2),
        }
    }
}

/// The journal as shard logs. Cheap to clone.
#[derive(Clone)]
pub struct LogJournal(Arc<Inner>);

struct Inner {
    client: Client,
    /// The connection for leases; none where `client` is for everything.
    leaser: OnceLock<Client>,
    /// The connection for reading; none where `client` is for everything.
    reader: OnceLock<Client>,
    options: Options,
    epochs: Epochs,
    shards: Box<[Shard]>,
    in_flight: Semaphore,
}

impl LogJournal {
    /// Opens the journal for reading and writing, creating the streams that are missing, and reads all of it.
    ///
    /// # Errors
    /// [`ConnectError::Mismatch`] when a stream exists with other settings; [`ConnectError::Refused`] when a log is damaged;
    /// [`ConnectError::Unavailable`] when the server does not answer.
    pub async fn connect(client: Client, options: Options) -> Result<Self, ConnectError> {
        if !(1..=EPOCH_SHARDS_MAX).contains(&options.shards) || options.in_flight == 0 {
            return Err(ConnectError::Options("shards must be 1 to 256, and at least one segment in flight"));
        }
        let context = jetstream::new(client.clone());
        for shard in 0..options.shards {
            let plan = StreamPlan {
                name: segment::stream(shard),
                subject: segment::subject(shard),
                replicas: options.replicas,
                metadata: HashMap::from([(SHARDS_KEY.to_owned(), options.shards.to_string())]),
            };
            plan.ensure(&context, true).await?;
        }
        lease::create(&context, options.replicas).await?;
        let inner = Inner {
            client,
            leaser: OnceLock::new(),
            reader: OnceLock::new(),
            epochs: Epochs::one(options.shards),
            shards: (0..options.shards).map(Shard::new).collect(),
            in_flight: Semaphore::new(options.in_flight),
            options,
        };
        for shard in &inner.shards {
            inner.check_end(shard).await.map_err(|error| match error {
                ReadError::Unavailable(reason) => ConnectError::Unavailable(reason),
                unreadable => {
                    ConnectError::Refused { stream: segment::stream(shard.number), reason: unreadable.to_string() }
                }
            })?;
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Reads over this connection from now on. Only the first call has an effect.
    pub fn read_over(&self, client: Client) {
        // Another call has set it.
        let _ = self.0.reader.set(client);
    }

    /// Holds leases over this connection from now on. Only the first call has an effect.
    pub fn lease_over(&self, client: Client) {
        // Another call has set it.
        let _ = self.0.leaser.set(client);
    }
}

impl Inner {
    /// The shard of a stream.
    fn shard_of(&self, stream_id: &StreamId) -> &Shard {
        // There are as many as the epoch has.
        &self.shards[usize::from(self.epochs.current().shard_of(stream_id))]
    }

    /// The connection over which is read now.
    fn reader(&self) -> &Client {
        self.reader.get().filter(|reader| requests::connected(reader)).unwrap_or(&self.client)
    }

    fn shard(&self, shard: u16) -> Result<&Shard, ReadError> {
        let found = self.shards.get(usize::from(shard));
        found.ok_or_else(|| ReadError::Unavailable(format!("there is no shard {shard}")))
    }
}

#[async_trait]
impl StreamStore for LogJournal {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.append_commit(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.0.load_stream(stream_id).await
    }
}

#[async_trait]
impl ShardLog for LogJournal {
    fn epochs(&self) -> Epochs {
        self.0.epochs.clone()
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.0.replay_shard(self.0.shard(shard)?, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        let shard = self.0.shard(shard)?;
        self.0.retrying(|| self.0.look(shard)).await?;
        Ok(shard.end().commit)
    }

    fn known_head(&self, shard: u16) -> Option<u64> {
        self.0.shard(shard).ok().map(Shard::newest)
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.0.wait_for_more(self.0.shard(shard)?, sequence).await;
        Ok(())
    }
}

#[async_trait]
impl ShardLeases for LogJournal {
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        let is_there = self.0.shard(shard).is_ok();
        shard_worker::start(is_there.then(|| self.0.clone()), shard, owner)
    }
}
