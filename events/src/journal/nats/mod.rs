//! The journal on NATS JetStream.
//!
//! One stream a shard, `EVT_00 … EVT_nn`, with the settings of the design: file storage, nothing ever deleted. Streams
//! carry the number of shards in their metadata, so that a gateway configured with another number is refused instead of
//! looking for payments in the wrong place.
//!
//! What the server must permit the user of the connection (`EVT_*` stands for the name of each stream, as a permission
//! knows no wildcard inside a token):
//!
//! | for | subjects |
//! |---|---|
//! | appending | publish `gw.evt.>` |
//! | reading | publish `$JS.API.STREAM.INFO.EVT_*`, `$JS.API.STREAM.MSG.GET.EVT_*`, `$JS.API.DIRECT.GET.EVT_*`; subscribe `gw.evt.>` |
//! | working | publish `$JS.API.CONSUMER.{INFO,MSG.NEXT}.EVT_*.*`, `$JS.API.CONSUMER.CREATE.EVT_*.>`, `$JS.ACK.EVT_*.>`, `$KV.gw_leases.*`, `$JS.API.STREAM.MSG.GET.KV_gw_leases`; subscribe `$KV.gw_leases.*` |
//! | [`NatsJournal::connect`] | publish `$JS.API.STREAM.CREATE.>`, `$JS.API.STREAM.INFO.>` |
//! | [`NatsJournal::bind`] and reading after it | publish `$JS.API.STREAM.INFO.EVT_*`, `$JS.API.DIRECT.GET.EVT_*`, `$JS.API.DIRECT.GET.EVT_*.>`; subscribe `gw.evt.>` |
//!
//! Everyone subscribes to the inbox of their connection.

mod append;
mod heads;
mod lease;
mod read;
mod worker;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_nats::{
    Client,
    jetstream::{self as client_jetstream, kv},
};
use async_trait::async_trait;

pub use crate::jetstream::ConnectError;
use crate::{
    StreamId,
    jetstream::{self, StreamPlan},
    journal::{AppendError, Commit, Journal, ReadError, Recorded, ShardWorker, envelope},
};
use heads::Heads;

/// Most shards; the stream's name and the subject hold two digits.
const SHARDS_MAX: u16 = 100;
/// Metadata of each stream: number of shards of the journal.
const SHARDS_KEY: &str = "gw.shards";
/// Bucket of the leases on shards.
const LEASES: &str = "gw_leases";

/// How the journal is laid out and how long it tries.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of shards, 1 to 100; fixed when the streams are created.
    pub shards: u16,
    /// Replicas of each stream: 1 on one machine, 3 in a cluster.
    pub replicas: usize,
    /// How long an append tries to get an outcome before it says that there is none.
    pub append_timeout: Duration,
    /// How long an append of which nothing can be stored keeps trying, and a load waits for a connection: whoever asked
    /// is better told at once to come again.
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
            append_timeout: Duration::from_secs(10),
            unstored_timeout: Duration::from_secs(1),
            read_timeout: Duration::from_secs(5),
            attempt_timeout: Duration::from_secs(2),
        }
    }
}

/// The journal on JetStream. Cheap to clone.
#[derive(Clone)]
pub struct NatsJournal(Arc<Inner>);

struct Inner {
    client: Client,
    context: client_jetstream::Context,
    options: Options,
    shards: u16,
    read_only: bool,
    heads: Heads,
}

impl NatsJournal {
    /// Opens the journal for reading and writing, creating the streams that are missing.
    ///
    /// The client should reconnect without a limit and with short delays; while it has no connection, appends are
    /// [`AppendError::Unavailable`] once [`Options::unstored_timeout`] has passed.
    ///
    /// # Errors
    /// [`ConnectError::Mismatch`] when a stream exists with other settings or another number of shards;
    /// [`ConnectError::Unavailable`] when the server does not answer.
    pub async fn connect(client: Client, options: Options) -> Result<Self, ConnectError> {
        if !(1..=SHARDS_MAX).contains(&options.shards) {
            return Err(ConnectError::Options("shards must be 1 to 100"));
        }
        let context = client_jetstream::new(client.clone());
        for shard in 0..options.shards {
            plan(shard, options.shards, options.replicas).ensure(&context, true).await?;
        }
        create_leases(&context, options.replicas).await?;
        Ok(Self::open(client, context, options, false))
    }

    /// Opens an existing journal for reading only, as an auditor does: nothing is created, appends are refused, shards
    /// cannot be worked. Reads take what a replica holds, which may be a moment behind the newest append; the number of
    /// shards and replicas is that of the streams, whatever `options` says.
    ///
    /// # Errors
    /// [`ConnectError::Missing`] when there is no journal, otherwise as [`NatsJournal::connect`].
    pub async fn bind(client: Client, options: Options) -> Result<Self, ConnectError> {
        let context = client_jetstream::new(client.clone());
        let name = envelope::stream(0);
        let first = jetstream::stream_config(&context, &name).await?.ok_or(ConnectError::Missing(name))?;
        let shards = first.metadata.get(SHARDS_KEY).and_then(|text| text.parse().ok());
        let shards = shards.filter(|shards| (1..=SHARDS_MAX).contains(shards));
        let shards = shards.ok_or(ConnectError::Options("the streams do not say how many shards there are"))?;
        for shard in 0..shards {
            plan(shard, shards, first.num_replicas).ensure(&context, false).await?;
        }
        let options = Options { shards, replicas: first.num_replicas, ..options };
        Ok(Self::open(client, context, options, true))
    }

    /// The owner that works `shard`: who holds its lease, or held it last and has not been followed by another. For
    /// operators to look at; nothing may be decided on it.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`].
    pub async fn owner(&self, shard: u16) -> Result<Option<String>, ReadError> {
        lease::holder(&self.0, shard).await.map_err(ReadError::Unavailable)
    }

    fn open(client: Client, context: client_jetstream::Context, options: Options, read_only: bool) -> Self {
        let shards = options.shards;
        Self(Arc::new(Inner { client, context, options, shards, read_only, heads: Heads::new(shards) }))
    }
}

fn plan(shard: u16, shards: u16, replicas: usize) -> StreamPlan {
    StreamPlan {
        name: envelope::stream(shard),
        subject: envelope::shard_subjects(shard),
        replicas,
        metadata: HashMap::from([(SHARDS_KEY.to_owned(), shards.to_string())]),
    }
}

async fn create_leases(context: &client_jetstream::Context, replicas: usize) -> Result<(), ConnectError> {
    if jetstream::stream_config(context, &format!("KV_{LEASES}")).await?.is_some() {
        return Ok(());
    }
    let config = kv::Config { bucket: LEASES.to_owned(), history: 1, num_replicas: replicas, ..kv::Config::default() };
    let created = context.create_key_value(config).await;
    created.map(|_| ()).map_err(|error| ConnectError::Unavailable(error.to_string()))
}

#[async_trait]
impl Journal for NatsJournal {
    fn shards(&self) -> u16 {
        self.0.shards
    }

    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        if self.0.read_only {
            return Err(AppendError::Unacceptable("the journal is open for reading only".into()));
        }
        self.0.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.0.load(stream_id).await
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.0.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.0.head(shard).await
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        heads::wait_beyond(&self.0, shard, sequence).await;
        Ok(())
    }

    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        worker::start(self.0.clone(), shard, owner)
    }
}
