//! The journal on NATS JetStream.
//!
//! One stream a shard, `EVT_00 … EVT_nn`, with the settings of the design: file storage, nothing ever deleted. Streams
//! carry the number of shards in their metadata, so that a gateway configured with another number is refused instead of
//! looking for payments in the wrong place, and from the second epoch on their epoch.
//!
//! Permissions that the server must give the user of the connection (`EVT_*` stands for the name of each stream, as a permission
//! knows no wildcard inside a token):
//!
//! | for | subjects |
//! |---|---|
//! | appending | publish `gw.evt.>`, `gw.head.*` |
//! | reading | publish `$JS.API.STREAM.NAMES`, `$JS.API.STREAM.INFO.EVT_*`, `$JS.API.STREAM.MSG.GET.EVT_*`, `$JS.API.DIRECT.GET.EVT_*`, `$JS.API.CONSUMER.CREATE.EVT_*.>`, `$JS.API.CONSUMER.MSG.NEXT.EVT_*.*`; subscribe `gw.head.*` |
//! | working | publish `$KV.gw_leases.*`, `$JS.API.STREAM.MSG.GET.KV_gw_leases`, `$JS.API.CONSUMER.DELETE.EVT_*.*` for what older versions left; subscribe `$KV.gw_leases.*` |
//! | [`NatsJournal::connect`] | publish `$JS.API.STREAM.CREATE.>`, `$JS.API.STREAM.INFO.>` |
//! | [`NatsJournal::begin_epoch`] | publish `$JS.API.STREAM.CREATE.EVT_*`, `$JS.API.STREAM.INFO.EVT_*` |
//! | [`NatsJournal::seal`] | publish `$JS.API.STREAM.UPDATE.EVT_*`, `$JS.API.STREAM.INFO.EVT_*` |
//! | [`NatsJournal::bind`] and reading after it | publish `$JS.API.STREAM.NAMES`, `$JS.API.STREAM.INFO.EVT_*`, `$JS.API.DIRECT.GET.EVT_*`, `$JS.API.DIRECT.GET.EVT_*.>` |
//!
//! Everyone subscribes to the inbox of their connection.

mod append;
mod epochs;
mod first_commit;
mod group;
mod head_cache;
mod known_subjects;
mod read;
mod scan;
mod tail;
mod worker;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_nats::{Client, jetstream as client_jetstream};
use async_trait::async_trait;
use epochs::Known;
use group::Groups;
use head_cache::HeadCache;
use scan::Scans;
use tail::Tails;
use tracing::warn;

use events::{Epochs, StreamId, epoch::EPOCH_SHARDS_MAX};
use journal::{AppendError, Commit, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore};

pub use self::epochs::{BeginError, SealError};
pub use crate::requests::ConnectError;
use crate::{lease, requests, shard_worker};

/// What the names of the consumers began with by which older versions woke their workers.
const LEGACY_CONSUMER_PREFIX: &str = "saga_";
/// What the names of scans' consumers begin with.
const SCAN_CONSUMER_PREFIX: &str = "scan_";
/// What the names of all consumers that gateways have or had of the event streams begin with: nobody else's name may
/// begin so (ADR 117).
pub const CONSUMER_PREFIXES: [&str; 2] = [LEGACY_CONSUMER_PREFIX, SCAN_CONSUMER_PREFIX];

/// Options of the journal: layout and time-outs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of shards of the first epoch, 1 to 256; fixed when its streams are created.
    pub shards: u16,
    /// Replicas of each stream: 1 on one machine, 3 in a cluster. How many there are of a sealed one is the operators'
    /// affair.
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
    /// How often a journal that is open for writing looks for epochs that were begun or sealed. `None`: only where something
    /// gives reason to.
    pub look_every: Option<Duration>,
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
            look_every: Some(Duration::from_secs(2)),
        }
    }
}

/// The journal on JetStream. Cheap to clone.
#[derive(Clone)]
pub struct NatsJournal(Arc<Inner>);

struct Inner {
    client: Client,
    /// The connection for leases; none where `client` is for everything.
    leaser: OnceLock<Client>,
    /// Connections for reading, over which the shards are spread; none where `client` is for everything.
    readers: OnceLock<Vec<Client>>,
    context: client_jetstream::Context,
    options: Options,
    read_only: bool,
    known: Known,
    head_cache: HeadCache,
    groups: Groups,
    tails: Tails,
    scans: Scans,
}

impl NatsJournal {
    /// Opens the journal for reading and writing, creating the streams that are missing.
    ///
    /// The client should reconnect without a limit and with short delays; while it has no connection, appends are
    /// [`AppendError::Unavailable`] once [`Options::unstored_timeout`] has passed.
    ///
    /// # Errors
    /// [`ConnectError::Mismatch`] when a stream exists with other settings, the first epoch has another number of shards, or
    /// a stream of the current one is sealed; [`ConnectError::Unavailable`] when the server does not answer.
    pub async fn connect(client: Client, options: Options) -> Result<Self, ConnectError> {
        if !(1..=EPOCH_SHARDS_MAX).contains(&options.shards) {
            return Err(ConnectError::Options("shards must be 1 to 256"));
        }
        let context = client_jetstream::new(client.clone());
        let epochs = epochs::read(&context, options.shards, Some(options.replicas), true).await?;
        lease::create(&context, options.replicas).await?;
        let look_every = options.look_every;
        let journal = Self::open(client, context, options, epochs, false);
        if let Some(every) = look_every {
            journal.0.look_every(every);
        }
        Ok(journal)
    }

    /// Opens an existing journal for reading only, as an auditor does: nothing is created, appends are refused, shards
    /// cannot be worked. Reads take what a replica holds, which may be a moment behind the newest append; the number of
    /// shards and replicas is that of the streams, whatever `options` says.
    ///
    /// # Errors
    /// [`ConnectError::Missing`] when there is no journal, otherwise as [`NatsJournal::connect`].
    pub async fn bind(client: Client, options: Options) -> Result<Self, ConnectError> {
        let context = client_jetstream::new(client.clone());
        let shards = epochs::shards_of_first(&context).await?;
        let epochs = epochs::read(&context, shards, None, false).await?;
        Ok(Self::open(client, context, Options { shards, ..options }, epochs, true))
    }

    /// The epochs of an existing journal, whose streams are held against what `options` says. Nothing is created, and nothing
    /// changed.
    ///
    /// # Errors
    /// [`ConnectError::Missing`] when there is no journal, [`ConnectError::Mismatch`] for the first setting that is another.
    pub async fn examine(client: Client, options: &Options) -> Result<Epochs, ConnectError> {
        let context = client_jetstream::new(client);
        epochs::read(&context, options.shards, Some(options.replicas), false).await
    }

    /// Reads over these connections from now on, each for its part of the shards, and over the first one only while none
    /// of them is there. Only the first call has an effect.
    ///
    /// A server takes the requests of a connection one after the other, and each message that it reads waits until the
    /// one that is just being stored in its shard is synced. So a reader of a busy shard takes the shard's own time, in
    /// which nothing else of its connection is taken: appends, which need not wait for any of that, should not be there.
    pub fn read_over(&self, clients: Vec<Client>) {
        // Another call has set it.
        let _ = self.0.readers.set(clients);
    }

    /// Holds leases over this connection from now on, where no renewal waits behind appends. Only the first call has an
    /// effect.
    pub fn lease_over(&self, client: Client) {
        // Another call has set it.
        let _ = self.0.leaser.set(client);
    }

    /// The owner that works `shard`: who holds its lease, or held it last and has not been followed by another. For
    /// operators to look at; nothing may be decided on it.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`].
    pub async fn owner(&self, shard: u16) -> Result<Option<String>, ReadError> {
        lease::holder(&self.0.client, shard).await.map_err(ReadError::Unavailable)
    }

    fn open(
        client: Client,
        context: client_jetstream::Context,
        options: Options,
        epochs: Epochs,
        read_only: bool,
    ) -> Self {
        let (known, head_cache, groups) = (Known::new(epochs), HeadCache::default(), Groups::default());
        let (leaser, readers, tails, scans) = (OnceLock::new(), OnceLock::new(), Tails::default(), Scans::default());
        Self(Arc::new(Inner {
            client,
            leaser,
            readers,
            context,
            options,
            read_only,
            known,
            head_cache,
            groups,
            tails,
            scans,
        }))
    }
}

impl Inner {
    /// The connection over which `shard` is read now: its own, or another where that one is lost.
    fn reader(&self, shard: u16) -> &Client {
        let readers = self.readers.get().map_or(&[][..], Vec::as_slice);
        let (before, from_own) = readers.split_at(usize::from(shard) % readers.len().max(1));
        from_own.iter().chain(before).find(|client| requests::connected(client)).unwrap_or(&self.client)
    }
}

#[async_trait]
impl StreamStore for NatsJournal {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        if self.0.read_only {
            return Err(AppendError::Unacceptable("the journal is open for reading only".into()));
        }
        self.0.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.0.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for NatsJournal {
    fn epochs(&self) -> Epochs {
        self.0.known.all()
    }

    async fn grown(&self, shards: u16) {
        self.0.grown(shards).await;
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.0.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.0.head(shard).await
    }

    fn known_head(&self, shard: u16) -> Option<u64> {
        Some(self.0.head_cache.newest(shard))
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        head_cache::wait_beyond(&self.0, shard, sequence).await
    }
}

#[async_trait]
impl ShardLeases for NatsJournal {
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        if self.0.read_only {
            warn!(shard, "a journal that is open for reading only cannot be worked");
        }
        shard_worker::start((!self.0.read_only).then(|| self.0.clone()), shard, owner)
    }
}
