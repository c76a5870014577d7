//! A real Solana runtime behind JSON-RPC in one process (surfpool).

mod claim;
mod pace;

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinSet,
};

use pace::Pacer;

use crate::{Process, Signal, free_port, tools};

/// Longest that the runtime's genesis hash may be another chain's.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long each start of the runtime may take. It asks the system for free ports, and where another process takes one
/// before it listens there it neither ends nor goes on; so what is not ready is started again, with other ports.
const START_PATIENCE: [Duration; 3] = [Duration::from_secs(10), Duration::from_secs(20), Duration::from_secs(40)];
const READY_POLL: Duration = Duration::from_millis(20);
/// A written program may take a while: it is verified and compiled.
const RPC_TIMEOUT: Duration = Duration::from_secs(30);

/// Genesis hashes of the chains this process started.
static CLUSTERS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A running Solana chain. Its genesis hash is made of the second it starts in; of those that one process starts each is
/// another cluster.
///
/// Slots come by the clock. A transaction is processed at once, confirmed one slot later and finalized 31 slots later.
/// The chain's clock keeps pace with the system's: on a busy machine slots are skipped, as they are on a cluster
/// whose leaders miss theirs.
pub struct Surfnet {
    process: Process,
    endpoint: Option<Endpoint>,
    port: u16,
    runtime: Arc<Runtime>,
    pacer: Arc<Pacer>,
    _pacing: JoinSet<()>,
    genesis_hash: String,
    /// The genesis hash that is claimed, where it is not the runtime's.
    claims: Option<String>,
    _temporary: Option<TempDir>,
}

/// JSON-RPC of the runtime itself.
struct Runtime {
    http: reqwest::Client,
    url: String,
}

impl Runtime {
    async fn ask(&self, method: &str, params: Value) -> Result<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer: Value = self.http.post(&self.url).json(&body).send().await?.json().await?;
        if let Some(error) = answer.get("error") {
            bail!("{method}: {error}");
        }
        answer.get("result").cloned().with_context(|| format!("{method}: neither result nor error: {answer}"))
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(self.url.strip_prefix("http://").context("the runtime's address is not an http address")?.parse()?)
    }
}

/// The port that clients know; what comes in is passed on to the runtime, which chooses its own.
struct Endpoint {
    accepting: JoinSet<()>,
}

impl Endpoint {
    /// Of a runtime that says which cluster it is, or that another one answers for.
    async fn open(port: u16, runtime: &Arc<Runtime>, claims: Option<String>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let mut accepting = JoinSet::new();
        if let Some(genesis_hash) = claims {
            let runtime = Arc::clone(runtime);
            accepting.spawn(async move {
                let _ = claim::serve(listener, runtime, genesis_hash).await;
            });
            return Ok(Self { accepting });
        }
        let runtime = runtime.address()?;
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                connections.spawn(async move {
                    // Either side's end of the connection ends the other's.
                    if let Ok(mut server) = TcpStream::connect(runtime).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { accepting })
    }

    /// Ends every connection and frees the port.
    async fn close(mut self) {
        self.accepting.shutdown().await;
    }
}

impl Surfnet {
    /// Whether the runtime is there.
    ///
    /// # Errors
    /// When it is not; the message says whether it can be fetched.
    pub fn available() -> Result<()> {
        let packages = tools::root().join(".tools/surfpool");
        ensure!(packages.is_dir(), "the Solana runtime is missing: run `scripts/tools.sh run`");
        tools::program("node").context("the Solana runtime needs Node.js")?;
        let installed = std::fs::read_dir(packages.join("node_modules/@solana")).into_iter().flatten().flatten();
        let mut runtimes = installed.filter(|entry| entry.file_name().to_string_lossy().starts_with("surfpool-"));
        let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
        ensure!(runtimes.next().is_some(), "there is no Solana runtime (surfpool) for {platform}");
        Ok(())
    }

    /// Starts a chain that has a slot every `slot_ms` milliseconds, with its log in a temporary directory.
    ///
    /// # Errors
    /// When Node.js or the runtime is missing, or it does not start.
    pub async fn start(slot_ms: u64) -> Result<Self> {
        let temporary = TempDir::new()?;
        let directory = temporary.path().to_owned();
        Self::open(slot_ms, &directory, free_port()?, Some(temporary), None).await
    }

    /// Starts a chain with its log under `directory`, on `port`. It is a new chain, whatever ran there before.
    ///
    /// # Errors
    /// When Node.js or the runtime is missing, or it does not start.
    pub async fn in_directory(slot_ms: u64, directory: &Path, port: u16) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        Self::open(slot_ms, directory, port, None, None).await
    }

    /// The same, where who asks for the genesis hash is told `claimed`: for clients that know the public clusters alone.
    ///
    /// # Errors
    /// When Node.js or the runtime is missing, or it does not start.
    pub async fn claiming(claimed: &str, slot_ms: u64, directory: &Path, port: u16) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        Self::open(slot_ms, directory, port, None, Some(claimed.to_owned())).await
    }

    async fn open(
        slot_ms: u64,
        directory: &Path,
        port: u16,
        temporary: Option<TempDir>,
        claims: Option<String>,
    ) -> Result<Self> {
        let log = directory.join(format!("surfnet-{port}.log"));
        let http = reqwest::Client::builder().timeout(RPC_TIMEOUT).build()?;
        let started = Instant::now();
        loop {
            let (process, url) =
                spawn(slot_ms, directory, port, &log).await.with_context(|| format!("see {}", log.display()))?;
            let runtime = Arc::new(Runtime { http: http.clone(), url });
            let genesis_hash = runtime.ask("getGenesisHash", json!([])).await?;
            let genesis_hash = genesis_hash.as_str().context("a genesis hash that is not text")?.to_owned();
            // A panic while the set is held leaves it whole.
            if CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner).insert(genesis_hash.clone()) {
                let endpoint = Some(Endpoint::open(port, &runtime, claims.clone()).await?);
                let genesis_hash = claims.clone().unwrap_or(genesis_hash);
                let pacer = Arc::new(Pacer::new(runtime.clone(), slot_ms));
                let mut pacing = JoinSet::new();
                pacing.spawn(pacer.clone().run());
                let (_pacing, _temporary) = (pacing, temporary);
                return Ok(Self { process, endpoint, port, runtime, pacer, _pacing, genesis_hash, claims, _temporary });
            }
            ensure!(started.elapsed() < READY_WITHIN, "surfnet starts with {genesis_hash} again and again");
        }
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The cluster's genesis hash, Base58.
    pub fn genesis_hash(&self) -> &str {
        &self.genesis_hash
    }

    /// Its CAIP-2 id: the first 32 characters of the genesis hash.
    pub fn chain_id(&self) -> String {
        format!("solana:{}", self.genesis_hash.chars().take(32).collect::<String>())
    }

    /// Asks the runtime itself, past a stopped endpoint. Returns the `result`.
    ///
    /// # Errors
    /// When it does not answer, or answers with an error.
    pub async fn rpc(&self, method: &str, params: Value) -> Result<Value> {
        self.runtime.ask(method, params).await
    }

    /// Gives `address` that many lamports.
    ///
    /// # Errors
    /// When the runtime refuses.
    pub async fn airdrop(&self, address: &str, lamports: u64) -> Result<()> {
        self.rpc("requestAirdrop", json!([address, lamports])).await?;
        let balance = self.rpc("getBalance", json!([address, {"commitment": "processed"}])).await?;
        let balance = balance.get("value").and_then(Value::as_u64).context("a balance that is not a number")?;
        ensure!(balance >= lamports, "{address} was given {lamports} lamports and has {balance}");
        Ok(())
    }

    /// Puts the program `elf` at `program_id`, under the upgradeable loader and with the upgrade authority `authority`.
    ///
    /// # Errors
    /// When the runtime refuses.
    pub async fn write_program(&self, program_id: &str, elf: &[u8], authority: &str) -> Result<()> {
        self.rpc("surfnet_writeProgram", json!([program_id, hex::encode(elf), 0, authority])).await?;
        Ok(())
    }

    /// Moves the chain's clock to the UNIX second `time`, which lies ahead. Slots are skipped with it, block heights are
    /// not. From then on the clock is as far ahead of the system's.
    ///
    /// # Errors
    /// When the runtime refuses, as it does for a time that has passed.
    pub async fn travel_to(&self, time: u64) -> Result<()> {
        self.pacer.travel_to(time).await
    }

    /// Closes the endpoint: connections are refused. The chain itself goes on, as a cluster does without one of its nodes;
    /// it is in the memory of one process, and would be gone with it.
    ///
    /// # Errors
    /// When it is closed already.
    pub async fn stop(&mut self) -> Result<()> {
        self.endpoint.take().context("the endpoint is closed")?.close().await;
        Ok(())
    }

    /// Opens a stopped endpoint again, on the same port.
    ///
    /// # Errors
    /// When it is open, or the port was taken meanwhile.
    pub async fn restart(&mut self) -> Result<()> {
        ensure!(self.endpoint.is_none(), "the endpoint is open");
        self.endpoint = Some(Endpoint::open(self.port, &self.runtime, self.claims.clone()).await?);
        Ok(())
    }

    /// Stops the runtime where it stands: it makes no slots, and connections to it are open and silent. Its clock catches up
    /// when it goes on.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn pause(&self) -> Result<()> {
        self.process.signal(Signal::Stop).await
    }

    /// Lets a paused runtime go on.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn resume(&self) -> Result<()> {
        self.process.signal(Signal::Continue).await
    }

    /// Ends the chain. Its state is gone with it.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }
}

/// Starts the runtime and returns the address it chose.
async fn spawn(slot_ms: u64, directory: &Path, port: u16, log: &Path) -> Result<(Process, String)> {
    Surfnet::available()?;
    let packages = tools::root().join(".tools/surfpool");
    let ready: PathBuf = directory.join(format!("surfnet-{port}.json"));
    let node = tools::program("node")?;
    let command = || {
        let mut command = Command::new(&node);
        command.arg(tools::root().join("scripts/tools/surfnet.cjs"));
        command.arg(&packages).arg(slot_ms.to_string()).arg(&ready);
        command
    };
    start_until_ready(command, &ready, log, &START_PATIENCE).await
}

/// Starts what `command` makes, and again as often as there is a patience, until it has written its address to `ready`.
async fn start_until_ready(
    command: impl Fn() -> Command,
    ready: &Path,
    log: &Path,
    patience: &[Duration],
) -> Result<(Process, String)> {
    for within in patience {
        if ready.exists() {
            std::fs::remove_file(ready)?;
        }
        let mut process = Process::spawn("surfnet", &mut command(), log)?;
        let started = Instant::now();
        while started.elapsed() < *within {
            if ready.exists() {
                let address: Value = serde_json::from_slice(&std::fs::read(ready)?)?;
                let url = address.get("url").and_then(Value::as_str).context("no address from the runtime")?;
                return Ok((process, url.to_owned()));
            }
            if let Some(status) = process.try_wait()? {
                bail!("surfnet ended with {status} before it was ready");
            }
            tokio::time::sleep(READY_POLL).await;
        }
        process.kill().await?;
    }
    bail!("surfnet was started {} times, and was not ready within {patience:?}", patience.len())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_runtime_that_gets_stuck_is_started_again() {
        let directory = TempDir::new().unwrap();
        let starts = Cell::new(0);
        let command = || {
            starts.set(starts.get() + 1);
            let answers = r#"echo '{"url":"http://127.0.0.1:1"}' > "$0.new" && mv "$0.new" "$0"; exec sleep 60"#;
            let mut command = Command::new("sh");
            command.arg("-c").arg(if starts.get() == 1 { "exec sleep 60" } else { answers });
            command.arg(directory.path().join("ready"));
            command
        };
        let patience = [Duration::from_millis(200), Duration::from_secs(60)];
        let (ready, log) = (directory.path().join("ready"), directory.path().join("log"));
        let (mut process, url) = start_until_ready(command, &ready, &log, &patience).await.unwrap();
        assert_eq!((starts.get(), url.as_str()), (2, "http://127.0.0.1:1"));
        assert!(process.try_wait().unwrap().is_none(), "it has ended");

        starts.set(0);
        let error = start_until_ready(command, &ready, &log, &patience[..1]).await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("started 1 times"), "{error}");
    }
}
