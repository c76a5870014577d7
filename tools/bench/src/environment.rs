//! The environment of a measurement: a nats-server with the repository's `nats.conf`, gateways as real processes, and
//! connections to them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use async_nats::{Client, jetstream};
use ed25519_dalek::SigningKey;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::Command,
    runtime::{Builder, Runtime},
    time::timeout,
};

use devkit::{NatsServer, Process, free_port, nats::configure};
use devnet::{
    keys::Role,
    network::{DESTINATION_ID, SOURCE_ID},
    users::{self, NatsUser},
};
use events::Did;
use gateway::nats::Users;
use journal::{ShardLeases, ShardWorker, WakeUp, envelope};
use journal_jetstream::{
    connection::{Identity, nkey_seed},
    store::{NatsJournal, Options},
};
use settler::nats_credentials::inbox_prefix;

use crate::{http::Connection, machine, node::Node};

/// Longest time to wait for anything that has to happen.
pub const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// Writes at work at a time in a gateway that never refuses one.
const ROOM: u64 = 100_000;
/// Contracts that hold nothing: no chain runs here.
pub const ESCROW: &str = "0x00000000000000000000000000000000000e5c40";
/// The same for deliveries.
pub const PROXY: &str = "0x00000000000000000000000000000000000f1f11";
/// Uniswap's Permit2, whose address is in what payers sign.
pub const PERMIT2: &str = "0x000000000022d473030f116ddee9f6b43ac78ba3";
/// The token on both chains.
pub const TOKEN: &str = "0x000000000000000000000000000000000000dd01";
/// Where a verifier would be.
pub const VERIFIER: &str = "http://127.0.0.1:9";
/// Name under which the bench holds shards.
const HOLDER: &str = "bench";
/// A gateway's log, in its directory.
const LOG: &str = "gateway.log";
/// Lines of the log that are shown when a gateway does not get ready.
const LOG_LINES: usize = 20;
/// Seconds between a fulfillment deadline and the refund window.
pub const REFUND_DELAY_SECONDS: u64 = 3_600;

/// Paths of binaries and data.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The `gw` program.
    pub gw: PathBuf,
    /// Directory under which data is written: on a real disk, since a sync to memory costs nothing.
    pub data: PathBuf,
}

/// A nats-server of its own, with room for gateways. Dropping it ends all processes and removes the data.
pub struct Environment {
    paths: Paths,
    /// Number of shards of the journal.
    pub shards: u16,
    nats: NatsServer,
    node: Node,
    // Last, so that it goes when nobody writes there any more.
    directory: TempDir,
}

/// A gateway process.
pub struct Gateway {
    process: Process,
    config: PathBuf,
    directory: PathBuf,
    name: String,
    /// Port of its API.
    pub port: u16,
}

/// All shards, held until it is dropped.
pub struct OwnedShards {
    /// There until the drop.
    runtime: Option<Runtime>,
    _workers: Vec<Box<dyn ShardWorker>>,
}

impl Drop for OwnedShards {
    fn drop(&mut self) {
        // To wait for the end is not allowed where other tasks run.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn connect(url: String) -> Result<Client> {
    Ok(NatsUser::Gateway.options().name("bench").connect(url).await?)
}

async fn journal(url: String, shards: u16) -> Result<NatsJournal> {
    Ok(NatsJournal::connect(connect(url).await?, Options { shards, ..Options::default() }).await?)
}

impl Environment {
    /// Starts the server. Streams are made by whoever needs them.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn start(paths: &Paths, shards: u16) -> Result<Self> {
        Self::with_settlers(paths, shards, &[]).await
    }

    /// As [`Environment::start`], with an account for each of these settlers in the server's configuration.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn with_settlers(paths: &Paths, shards: u16, settlers: &[Did]) -> Result<Self> {
        std::fs::create_dir_all(&paths.data)?;
        let directory = TempDir::with_prefix_in("bench-", &paths.data)?;
        let mut files = Users { settlers: settlers.to_vec(), ..users::users() }.files()?;
        let gateway = NatsUser::Gateway;
        files.push((gateway.seed_file(), nkey_seed(&gateway.key())));
        let config = configure(directory.path(), &files)?;
        let nats = NatsServer::in_directory(&config, &directory.path().join("nats"), free_port()?).await?;
        let node = Node::start().await?;
        Ok(Self { paths: paths.clone(), shards, nats, node, directory })
    }

    /// A connection with the gateway's credentials and limits.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn client(&self) -> Result<Client> {
        connect(self.nats.url()).await
    }

    /// A connection with a settler's credentials and limits.
    ///
    /// # Errors
    /// When the server cannot be reached, or knows no such settler.
    pub async fn settler(&self, key: &SigningKey) -> Result<Client> {
        let token = Did::from_ed25519(&key.verifying_key()).token();
        let options = Identity::of(key).options(None).custom_inbox_prefix(inbox_prefix(&token));
        Ok(options.connect(self.nats.url()).await?)
    }

    /// The journal, over a connection of its own.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub async fn journal(&self) -> Result<NatsJournal> {
        journal(self.nats.url(), self.shards).await
    }

    /// Takes all shards and drives nothing in them; no gateway does either while what is returned is kept.
    ///
    /// # Errors
    /// When another has them.
    pub async fn own_shards(&self) -> Result<OwnedShards> {
        // Leases are renewed in time also while the load takes all of the bench's own runtime.
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("leases").enable_all().build()?;
        let (url, shards) = (self.nats.url(), self.shards);
        let take = async move {
            let journal = journal(url, shards).await?;
            let mut workers = Vec::new();
            for shard in 0..shards {
                let mut worker = journal.work(shard, HOLDER).await;
                match timeout(PATIENCE, worker.next()).await.context("a shard cannot be had")?? {
                    WakeUp::Acquired => workers.push(worker),
                    other => bail!("{other:?} before the shard was acquired"),
                }
            }
            Ok(workers)
        };
        let taking = runtime.spawn(take);
        let mut held = OwnedShards { runtime: Some(runtime), _workers: Vec::new() };
        held._workers = taking.await.context("the leases' runtime panicked")??;
        Ok(held)
    }

    /// Checks that no gateway took a shard since [`Environment::own_shards`].
    ///
    /// # Errors
    /// When one did: what was measured meanwhile is something else.
    pub async fn still_held(&self, journal: &NatsJournal) -> Result<()> {
        for shard in 0..self.shards {
            let owner = journal.owner(shard).await?;
            ensure!(owner.as_deref() == Some(HOLDER), "shard {shard} was lost to {owner:?}");
        }
        Ok(())
    }

    /// Starts a gateway called `name` and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub async fn gateway(&self, name: &str) -> Result<Gateway> {
        self.start_gateway(name, |_| {}).await
    }

    /// The same, with admission control so wide that the load of a bench never meets its bound: the measurement is then
    /// of what the gateway can do, and not of where it begins to refuse.
    ///
    /// # Errors
    /// When it does not get ready.
    pub async fn roomy_gateway(&self, name: &str) -> Result<Gateway> {
        self.start_gateway(name, |config| config["http"]["writes_in_flight_max"] = ROOM.into()).await
    }

    async fn start_gateway(&self, name: &str, change: impl Fn(&mut Value)) -> Result<Gateway> {
        let directory = self.directory.path().join(name);
        std::fs::create_dir_all(&directory)?;
        let port = free_port()?;
        let mut config = self.config(name, port, &directory.join("projections"));
        change(&mut config);
        let text = toml::to_string_pretty(&config)?;
        let config = directory.join("gateway.toml");
        std::fs::write(&config, text)?;
        let process = spawn(&self.paths.gw, name, &config, &directory)?;
        let mut gateway = Gateway { process, config, directory, name: name.to_owned(), port };
        gateway.ready().await?;
        Ok(gateway)
    }

    /// Starts a gateway again that was killed, on the data it left, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub async fn restart(&self, gateway: &mut Gateway) -> Result<()> {
        gateway.process = spawn(&self.paths.gw, &gateway.name, &gateway.config, &gateway.directory)?;
        gateway.ready().await
    }

    /// Messages in the journal's streams, and what they take in bytes, as the server counts them.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn stored(&self) -> Result<(u64, u64)> {
        let context = jetstream::new(self.client().await?);
        let infos = stream::iter(0..self.shards).then(|shard| {
            let context = &context;
            async move {
                Ok::<_, anyhow::Error>(context.get_stream(envelope::stream(shard)).await?.cached_info().state.clone())
            }
        });
        let states: Vec<_> = infos.try_collect().await?;
        Ok((states.iter().map(|state| state.messages).sum(), states.iter().map(|state| state.bytes).sum()))
    }

    /// Bytes of memory that nats-server holds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn nats_memory(&self) -> Result<u64> {
        machine::memory_bytes(self.nats_id()?)
    }

    /// Processor time that nats-server has used.
    ///
    /// # Errors
    /// When it has ended.
    pub fn nats_time(&self) -> Result<Duration> {
        machine::processor_time(self.nats_id()?)
    }

    /// Bytes of the journal on the disk.
    ///
    /// # Errors
    /// When they cannot be counted.
    pub fn nats_disk(&self) -> Result<u64> {
        machine::disk_bytes(&self.directory.path().join("nats/jetstream"))
    }

    /// A directory for whatever a bench keeps beside the server's data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process id of nats-server.
    ///
    /// # Errors
    /// When it has ended.
    pub fn nats_id(&self) -> Result<u32> {
        self.nats.id().context("nats-server has ended")
    }

    fn config(&self, name: &str, port: u16, projections: &Path) -> Value {
        let chain = |id: u64| {
            json!({
                "chain_id": format!("eip155:{id}"),
                "rpc_url": self.node.url(id),
                "escrow_contract": ESCROW,
                "fulfillment_proxy": PROXY,
                "permit2": PERMIT2,
                "reserver": Role::Reserver.account(),
                "reserver_key": Role::Reserver.secret_hex(),
                "submitter_keys": [Role::Submitter.secret_hex()],
                "releaser": Role::Releaser.account(),
                "required_depth": 2,
                "refund_delay_seconds": REFUND_DELAY_SECONDS,
                "assets": [{"asset_identifier": format!("eip155:{id}/erc20:{TOKEN}"), "symbol": "DEV", "decimals": 6}],
            })
        };
        json!({
            "gateway": {"name": name},
            "nats": {
                "url": self.nats.url(),
                "seed_file": self.directory.path().join(NatsUser::Gateway.seed_file()),
            },
            "journal": {"shards": self.shards},
            "http": {"listen": format!("127.0.0.1:{port}"), "base_url": format!("http://127.0.0.1:{port}")},
            // Auctions without anybody to ask are how payments are kept open here.
            "deadlines": {"quote_seconds_max": 86_400},
            "settlers": {"absence_ms_max": 86_400_000},
            // One client here stands for many elsewhere.
            "limits": {"exempt": ["127.0.0.1"]},
            "projections": {"directory": projections},
            "verifier": {"account": Role::Releaser.account(), "endpoint": VERIFIER},
            "chains": [chain(SOURCE_ID), chain(DESTINATION_ID)],
        })
    }
}

impl Gateway {
    /// Bytes of memory that the process holds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self) -> Result<u64> {
        machine::memory_bytes(self.id()?)
    }

    /// Those of them that no file backs.
    ///
    /// # Errors
    /// When it has ended.
    pub fn anonymous_memory(&self) -> Result<u64> {
        machine::anonymous_bytes(self.id()?)
    }

    /// Processor time that the process has used.
    ///
    /// # Errors
    /// When it has ended.
    pub fn time(&self) -> Result<Duration> {
        machine::processor_time(self.id()?)
    }

    /// Bytes of its read models on the disk.
    ///
    /// # Errors
    /// When they cannot be counted.
    pub fn disk(&self) -> Result<u64> {
        machine::disk_bytes(&self.directory.join("projections"))
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }

    fn id(&self) -> Result<u32> {
        self.process.id().with_context(|| format!("{} has ended", self.name))
    }

    async fn ready(&mut self) -> Result<()> {
        let ready = async {
            self.process.listening_on(self.port).await?;
            eventually("the gateway is ready", async || {
                let mut connection = Connection::open(self.port).await?;
                Ok(connection.get("/readyz").await?.0.is_success())
            })
            .await
        };
        // The log is removed with the environment.
        ready.await.with_context(|| format!("{} is not ready; its log ends with\n{}", self.name, self.log_end()))
    }

    fn log_end(&self) -> String {
        let log = std::fs::read_to_string(self.directory.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

fn spawn(gw: &Path, name: &str, config: &Path, directory: &Path) -> Result<Process> {
    ensure!(gw.is_file(), "{} is missing: run `make bench`", gw.display());
    let mut command = Command::new(gw);
    // What a gateway logs by default.
    command.arg("serve").arg("--config").arg(config).env("RUST_LOG", "info").env("GW_DEVELOPMENT_KEYS", "1");
    Process::spawn(name, &mut command, &directory.join(LOG))
}

/// Waits until `holds`; what fails meanwhile is tried again.
///
/// # Errors
/// When that takes longer than [`PATIENCE`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    loop {
        let found = holds().await;
        if matches!(found, Ok(true)) {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            found?;
            bail!("it did not come about within {PATIENCE:?} that {what}");
        }
        tokio::time::sleep(POLL).await;
    }
}
