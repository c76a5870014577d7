//! The development network: nats-server with the repository's `nats.conf`, two anvil chains with the contracts
//! deployed, a Solana chain with the program and a Tron chain with the contracts where they are wanted, verifiers, settlers
//! and any number of gateways, each a process of its own on loopback. The Tron chain alone is in this process.

mod config;
mod settlers;
mod verifiers;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use devkit::{Process, Signal, free_port};
use gateway_console::token;

pub(crate) use self::config::checkpoint_signer;
pub use self::verifiers::Verifiers;
pub use super::chain::{Chain, DECIMALS, DESTINATION_ID, SOURCE_ID};
use super::{
    nats::{Nats, NatsPlace},
    solana::{SolanaChain, SolanaOptions},
    tron::{TronChain, TronOptions},
};

/// A file by which a directory is known to be a network's.
const MARK: &str = ".gw-dev";

/// What a network is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where configuration, data and logs go; emptied first when a network left it, refused when it holds anything else.
    pub directory: PathBuf,
    /// The `gw` program.
    pub gw: PathBuf,
    /// Number of gateways.
    pub gateways: usize,
    /// Number of nats-servers: 1, or a cluster of at least 3.
    pub nats_nodes: usize,
    /// Where servers of a cluster run; on loopback those that have no place.
    pub nats_places: Vec<NatsPlace>,
    /// Port of the first gateway; a free one when `None`.
    pub port: Option<u16>,
    /// Port of the nats-server where there is one; a free one when `None`. A cluster has free ones.
    pub nats_port: Option<u16>,
    /// Seconds between blocks.
    pub block_seconds: u64,
    /// Blocks on top of one that counts as settled.
    pub depth: u64,
    /// Seconds between a fulfillment deadline and the refund window.
    pub refund_delay_seconds: u64,
    /// The Solana chain, where there is one.
    pub solana: Option<SolanaOptions>,
    /// The Tron chain, where there is one.
    pub tron: Option<TronOptions>,
    /// The verifiers, and how many of them have to attest.
    pub verifiers: Verifiers,
    /// How long a winner has to answer its award while another quote can follow, milliseconds.
    pub award_ack_ms: u64,
    /// Addresses that the gateways do not limit.
    pub exempt: Vec<String>,
    /// Base URL of a collector that gateways, settlers and verifiers send traces to; nowhere when `None`.
    pub otlp_endpoint: Option<String>,
    /// Whether gateways, verifiers and settlers tell Prometheus what they measure: see [`Network::metrics`].
    pub metrics: bool,
    /// Whether gateways have a console for operators: see [`Network::console`].
    pub console: bool,
}

impl Options {
    /// A network under `directory`, run by `gw`, with the values of `make demo` but with the two EVM chains alone.
    pub fn new(directory: PathBuf, gw: PathBuf) -> Self {
        Self {
            directory,
            gw,
            gateways: 1,
            nats_nodes: 1,
            nats_places: Vec::new(),
            port: None,
            nats_port: None,
            block_seconds: 1,
            depth: 2,
            refund_delay_seconds: 30,
            solana: None,
            tron: None,
            verifiers: Verifiers::ONE,
            // A small machine that runs many networks may starve an honest settler for a second.
            award_ack_ms: 20_000,
            // One client here stands for many elsewhere.
            exempt: vec!["127.0.0.1".to_owned()],
            otlp_endpoint: None,
            metrics: false,
            console: false,
        }
    }
}

/// A gateway of the network; it can be killed and started again.
pub struct Gateway {
    process: Option<Process>,
    /// Port of its API.
    pub port: u16,
    config: PathBuf,
    /// Directory of its read models.
    pub projections: PathBuf,
    name: String,
}

impl Gateway {
    /// Id of its process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref()?.id()
    }

    /// Address of its API.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// A running network. Dropping it ends all its processes.
pub struct Network {
    /// The server, or the cluster of them.
    pub nats: Nats,
    /// The chain that is paid from.
    pub source: Chain,
    /// The chain that is paid to.
    pub destination: Chain,
    /// The Solana chain, where there is one: paid from and to.
    pub solana: Option<SolanaChain>,
    /// The Tron chain, where there is one: paid from and to.
    pub tron: Option<TronChain>,
    /// The gateways.
    pub gateways: Vec<Gateway>,
    /// The verifiers.
    verifiers: Vec<Option<Process>>,
    /// The quote selector.
    selector: Option<Process>,
    /// The settlers.
    settlers: Vec<Option<Process>>,
    options: Options,
    verifier_ports: Vec<u16>,
    auditor_config: PathBuf,
}

impl Network {
    /// Starts everything and waits until the gateways are ready; `report` is told what is going on.
    ///
    /// # Errors
    /// When a program is missing or does not become ready; the message names its log.
    pub async fn start(options: Options, report: impl Fn(&str)) -> Result<Self> {
        empty(&options.directory)?;
        report(if options.nats_nodes == 1 { "starting nats-server" } else { "starting a cluster of nats-servers" });
        let nats =
            Nats::start_on(options.nats_port, options.nats_nodes, &options.nats_places, &options.directory).await?;

        report(match (&options.solana, &options.tron) {
            (Some(_), Some(_)) => "starting two EVM chains, Solana and Tron, and deploying contracts and program",
            (Some(_), None) => "starting two EVM chains and Solana, and deploying contracts and program",
            (None, Some(_)) => "starting two EVM chains and Tron, and deploying the contracts",
            (None, None) => "starting two chains and deploying the contracts",
        });
        let solana = async {
            match &options.solana {
                Some(solana) => Ok(Some(SolanaChain::start(solana, &options.directory).await?)),
                None => Ok(None),
            }
        };
        let tron = async {
            match &options.tron {
                Some(tron) => Ok(Some(TronChain::start(tron).await?)),
                None => Ok(None),
            }
        };
        let chain = |id| Chain::start(id, options.block_seconds, &options.directory);
        let (source, destination) = (chain(SOURCE_ID), chain(DESTINATION_ID));
        let (source, destination, solana, tron) = tokio::try_join!(source, destination, solana, tron)?;

        let verifier_ports = (0..options.verifiers.members).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        let mut network = Self {
            nats,
            source,
            destination,
            solana,
            tron,
            gateways: Vec::new(),
            verifiers: verifier_ports.iter().map(|_| None).collect(),
            selector: None,
            settlers: Vec::new(),
            options,
            verifier_ports,
            auditor_config: PathBuf::new(),
        };
        report(match network.options.verifiers {
            Verifiers::ONE => "starting verifier, settlers and gateway",
            _ => "starting verifiers, settlers and gateway",
        });
        network.auditor_config = network.write("auditor", &config::auditor(&network)?)?;
        for n in network.verifier_numbers() {
            network.start_verifier(n).await?;
        }
        network.start_selector()?;
        for n in 0..network.options.gateways {
            let port = match network.options.port {
                Some(first) if n == 0 => first,
                _ => free_port()?,
            };
            let name = format!("gateway-{}", n + 1);
            let projections = network.options.directory.join(&name).join("projections");
            let config = network.write(&name, &config::gateway(&network, n, port, &projections)?)?;
            network.gateways.push(Gateway { process: None, port, config, projections, name });
        }
        for n in 0..network.gateways.len() {
            network.start_gateway(n).await?;
        }
        for n in 1..=3 {
            let settler = network.spawn_settler(n)?;
            network.settlers.push(Some(settler));
        }
        for n in 0..network.gateways.len() {
            network.ready(n).await?;
        }
        network.settlers_registered().await?;
        Ok(network)
    }

    /// Both EVM chains.
    pub fn chains(&self) -> impl Iterator<Item = &Chain> {
        [&self.source, &self.destination].into_iter()
    }

    /// The configuration file of an auditor of this network, for `gw audit --config`.
    pub fn auditor_config(&self) -> &Path {
        &self.auditor_config
    }

    /// The options the network was started with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Where the process of this name tells what it measures: `gateway-1`, `verifier`, `settler-1`.
    ///
    /// # Errors
    /// When it does not.
    pub fn metrics(&self, name: &str) -> Result<String> {
        let path = self.options.directory.join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let (_, section) = text.split_once("[metrics]\nlisten = \"").context("it is not measured")?;
        Ok(format!("http://{}/metrics", section.split('"').next().unwrap_or_default()))
    }

    /// Where the gateway of this name has its console, and the token of its operator, who may act.
    ///
    /// # Errors
    /// When it has none.
    pub fn console(&self, name: &str) -> Result<(String, String)> {
        let path = self.options.directory.join(format!("{name}.console"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let (url, token) = text.trim_end().split_once(' ').context("it is not a console")?;
        Ok((url.to_owned(), token.to_owned()))
    }

    /// The section of a console, whose address and token are kept beside the configuration.
    fn console_section(&self, name: &str) -> Result<String> {
        let (port, token) = (free_port()?, token::random());
        let path = self.options.directory.join(format!("{name}.console"));
        std::fs::write(&path, format!("http://127.0.0.1:{port} {token}\n"))
            .with_context(|| format!("write {}", path.display()))?;
        let digest = hex::encode(token::digest(&token));
        Ok(format!(
            "\n[console]\nlisten = \"127.0.0.1:{port}\"\noperators = [{{ name = \"dev\", token_sha256 = \"{digest}\", acts = true }}]\n"
        ))
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.options.directory.join(format!("{name}.toml"));
        let console = match self.options.console && name.starts_with("gateway-") {
            true => self.console_section(name)?,
            false => String::new(),
        };
        let is_measured = ["gateway-", "verifier", "settler-"].iter().any(|role| name.starts_with(role));
        let metrics = match self.options.metrics && is_measured {
            true => format!("\n[metrics]\nlisten = \"127.0.0.1:{}\"\n", free_port()?),
            false => String::new(),
        };
        std::fs::write(&path, [text, &metrics, &console].concat())
            .with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    fn spawn(&self, name: &str, command: &str, config: &Path) -> Result<Process> {
        let mut process = Command::new(&self.options.gw);
        process.arg(command).arg("--config").arg(config);
        // The keys of development networks stand in the files: everyone knows them.
        process.env("GW_DEVELOPMENT_KEYS", "1");
        // The parent's own settings for its own logs are not meant for the children.
        process.env("RUST_LOG", std::env::var("GW_DEV_LOG").unwrap_or_else(|_| "info".to_owned()));
        let process = Process::spawn(name, &mut process, &self.options.directory.join(format!("{name}.log")))?;
        // Who runs something else in its place ends it by this.
        if let Some(id) = process.id() {
            let path = self.options.directory.join(format!("{name}.pid"));
            std::fs::write(&path, format!("{id}\n")).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(process)
    }

    /// Starts the quote selector, which takes the earliest promise.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_selector(&mut self) -> Result<()> {
        let config = self.write("selector", &config::selector(self)?)?;
        self.selector = Some(self.spawn("selector", "selector", &config)?);
        Ok(())
    }

    /// Ends the quote selector as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill_selector(&mut self) -> Result<()> {
        match self.selector.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Starts gateway `n` on the data it left.
    ///
    /// # Errors
    /// When it does not start listening.
    pub async fn start_gateway(&mut self, n: usize) -> Result<()> {
        let (name, config, port) =
            (self.gateways[n].name.clone(), self.gateways[n].config.clone(), self.gateways[n].port);
        let mut process = self.spawn(&name, "serve", &config)?;
        process.listening_on(port).await.with_context(|| format!("see {name}.log"))?;
        self.gateways[n].process = Some(process);
        self.started(n).await
    }

    /// Waits until gateway `n` has what it depends on, and serves.
    async fn started(&mut self, n: usize) -> Result<()> {
        let (url, name) = (format!("{}/healthz", self.gateways[n].base_url()), self.gateways[n].name.clone());
        let http = reqwest::Client::new();
        let serves = async {
            loop {
                let answer = http.get(&url).send().await;
                if let Ok(answer) = answer
                    && answer.text().await.is_ok_and(|text| text.contains("\"ok\""))
                {
                    return Ok(());
                }
                ensure!(self.gateway_runs(n)?, "{name} ended before it was ready, see its log");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), serves).await;
        waited.with_context(|| format!("{name} does not serve, see its log"))?
    }

    /// Starts gateway `n` on the data it left, without waiting for anything: what it needs may not be there yet.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn_gateway(&mut self, n: usize) -> Result<()> {
        let process = self.spawn(&self.gateways[n].name, "serve", &self.gateways[n].config)?;
        self.gateways[n].process = Some(process);
        Ok(())
    }

    /// Stops gateway `n` where it stands, or lets it go on.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn signal_gateway(&self, n: usize, signal: Signal) -> Result<()> {
        let process = self.gateways[n].process.as_ref();
        process.context("the gateway does not run")?.signal(signal).await
    }

    /// Whether the process of gateway `n` is there.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn gateway_runs(&mut self, n: usize) -> Result<bool> {
        let process = self.gateways[n].process.as_mut();
        process.map_or(Ok(false), |process| Ok(process.try_wait()?.is_none()))
    }

    /// What process `name`, such as `gateway-1` or `settler-2`, has written to its log so far.
    ///
    /// # Errors
    /// When there is no such log.
    pub fn log(&self, name: &str) -> Result<String> {
        let path = self.options.directory.join(format!("{name}.log"));
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    /// Ends gateway `n` as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill_gateway(&mut self, n: usize) -> Result<()> {
        match self.gateways[n].process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Waits until gateway `n` says that it can take payments.
    ///
    /// # Errors
    /// When that takes more than half a minute.
    pub async fn ready(&self, n: usize) -> Result<()> {
        let url = format!("{}/readyz", self.gateways[n].base_url());
        let http = reqwest::Client::new();
        let ready = async {
            while !http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), ready).await;
        waited.with_context(|| format!("gateway is not ready, see {}.log", self.gateways[n].name))
    }
}

/// Makes `directory` an empty one for a network; what a network left there goes, and nothing else does.
fn empty(directory: &Path) -> Result<()> {
    let mark = directory.join(MARK);
    let used =
        directory.exists() && std::fs::read_dir(directory).context("read the network's directory")?.next().is_some();
    ensure!(
        !used || mark.exists(),
        "{} holds files that no development network left there: name another directory, or remove it yourself",
        directory.display()
    );
    if used {
        std::fs::remove_dir_all(directory).context("empty the network's directory")?;
    }
    std::fs::create_dir_all(directory)?;
    std::fs::write(mark, "").context("mark the network's directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_network_left_is_emptied() {
        let directory = tempfile::tempdir().unwrap();
        let network = directory.path().join("network");
        for _ in 0..2 {
            empty(&network).unwrap();
            assert!(!network.join("data").exists());
            std::fs::write(network.join("data"), "").unwrap();
        }
        std::fs::write(directory.path().join("letter"), "").unwrap();
        let refused = empty(directory.path()).unwrap_err();
        assert!(refused.to_string().contains("name another directory"), "{refused}");
        assert!(directory.path().join("letter").exists());
    }
}
