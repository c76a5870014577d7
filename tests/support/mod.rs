//! A network of real processes for one test, and what tests ask of it.

pub mod client;
pub mod collector;
pub mod deposit_addresses;
pub mod example_payers;
pub mod outcome_tally;
pub mod overheard;
pub mod recorder;
pub mod solana;
pub mod tampering_proxy;
pub mod tron;

use std::{collections::BTreeMap, future::Future, path::PathBuf, process::Output, time::Duration};

use alloy::primitives::{U256, keccak256};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use devkit::tools;
use devnet::{
    keys::Role,
    network::{Chain, Network, Options},
    payer::{Answer, Payer, PaymentSpec},
    timeline::Auditor,
};
use events::{Did, PaymentEvent, PaymentId, event::RefundDue};

/// Longest time anything in a test may take.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// What an ordinary payment delivers.
pub const AMOUNT: u64 = 25_000_000;
/// Price of the cheapest settler for it: ten basis points more.
pub const PRICE: u64 = 25_025_000;

/// What came into somebody's hands, negative for what went; only what differs.
pub type Moves = BTreeMap<&'static str, i128>;

/// A network in a temporary directory, which stays when GW_TEST_KEEP is set.
pub struct World {
    pub network: Network,
    pub payer: Payer,
    pub auditor: Auditor,
    directory: TempDir,
}

impl World {
    /// A network with so many gateways.
    pub async fn start(gateways: usize) -> Result<Self> {
        Self::with(|options| Options { gateways, ..options }).await
    }

    /// A network with what `choose` makes of the demo's options.
    pub async fn with(choose: impl FnOnce(Options) -> Options) -> Result<Self> {
        let directory = TempDir::new()?;
        let network = directory.path().join("network");
        let options = choose(Options::new(network, PathBuf::from(env!("CARGO_BIN_EXE_gw"))));
        let network = Network::start(options, |_| ()).await;
        let network = network.inspect_err(|_| keep_logs(&directory))?;
        let auditor = Auditor::connect(&network).await?;
        Ok(Self { payer: Payer::new(Role::Payer.signer())?, auditor, network, directory })
    }

    /// Address of gateway `n`.
    pub fn base(&self, n: usize) -> String {
        self.network.gateways[n].base_url()
    }

    /// An ordinary payment that can be served.
    pub fn spec(&self, request_id: &str) -> Result<PaymentSpec> {
        Ok(PaymentSpec {
            request_id: request_id.to_owned(),
            source: self.network.source.token()?,
            destination: self.network.destination.token()?,
            recipient: Role::Recipient.account(),
            amount: AMOUNT.to_string().parse()?,
            cap: "25500000".parse()?,
            quote_window: Duration::from_secs(10),
            fulfillment_window: Duration::from_secs(180),
            whitelist: Vec::new(),
        })
    }

    /// A payment that only the settler wins that never delivers.
    pub fn undeliverable_spec(&self, request_id: &str) -> Result<PaymentSpec> {
        let vanishing = settler::dev::key(3).context("the network has three settlers")?;
        Ok(PaymentSpec {
            whitelist: vec![Did::from_ed25519(&vanishing.verifying_key())],
            fulfillment_window: Duration::from_secs(20),
            ..self.spec(request_id)?
        })
    }

    /// Signs and submits without waiting for the outcome.
    pub async fn submit(&self, spec: &PaymentSpec) -> Result<PaymentId> {
        self.submit_by(&self.payer, spec).await
    }

    /// Signs and submits for `payer` without waiting for the outcome.
    pub async fn submit_by(&self, payer: &Payer, spec: &PaymentSpec) -> Result<PaymentId> {
        let body = payer.sign(&self.base(0), spec).await?;
        let answer = payer.submit(&self.base(0), &body, Duration::ZERO).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.text("payment_id").parse()?)
    }

    /// The payment's final status.
    pub async fn outcome(&self, payment_id: &PaymentId) -> Result<Answer> {
        self.payer.outcome(&self.base(0), payment_id.as_str(), PATIENCE).await
    }

    /// The payment's events so far, by type.
    pub async fn types(&self, payment_id: &PaymentId) -> Result<Vec<&'static str>> {
        let timeline = self.auditor.timeline(payment_id).await?;
        Ok(timeline.iter().map(|entry| entry.event.type_name()).collect())
    }

    /// Waits until an event of this type is in the payment's stream.
    pub async fn until(&self, payment_id: &PaymentId, event: &str) -> Result<()> {
        let found = || async { self.types(payment_id).await.is_ok_and(|types| types.contains(&event)) };
        eventually(found).await.with_context(|| format!("no {event} of {payment_id}"))
    }

    /// The payment's events of one type.
    pub async fn events(&self, payment_id: &PaymentId, name: &str) -> Result<Vec<PaymentEvent>> {
        let timeline = self.auditor.timeline(payment_id).await?;
        Ok(timeline.into_iter().map(|entry| entry.event).filter(|event| event.type_name() == name).collect())
    }

    /// Waits until the payment is completed and its escrow paid.
    pub async fn completed(&self, payment_id: &PaymentId) -> Result<()> {
        let outcome = self.outcome(payment_id).await?;
        ensure!(outcome.text("status") == "completed", "{outcome:?}");
        self.until(payment_id, "EscrowReleased").await
    }

    /// Waits until the payment has failed, and says how its money is to come back.
    pub async fn failed(&self, payment_id: &PaymentId) -> Result<RefundDue> {
        self.until(payment_id, "Failed").await?;
        match self.events(payment_id, "Failed").await?.remove(0) {
            PaymentEvent::Failed(failed) => Ok(failed.refund),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// Checks on chain that each payment was deposited and delivered exactly once, and that all the money is where it
    /// should be.
    pub async fn settled_once(&self, payments: &[PaymentId]) -> Result<()> {
        for payment_id in payments {
            let deposits = logs(&self.network.source, DEPOSITED, payment_id).await?;
            let deliveries = logs(&self.network.destination, FULFILLED, payment_id).await?;
            let releases = logs(&self.network.source, RELEASED, payment_id).await?;
            ensure!(deposits == 1, "{payment_id} was deposited {deposits} times");
            ensure!(deliveries == 1, "{payment_id} was delivered {deliveries} times");
            ensure!(releases == 1, "{payment_id} was released {releases} times");
        }
        Ok(())
    }

    /// What each role of interest holds.
    pub async fn balances(&self) -> Result<BTreeMap<&'static str, U256>> {
        let (source, destination) = (&self.network.source, &self.network.destination);
        let escrowed = source.dev.token_balance(&source.token, &source.contracts.escrow).await?;
        Ok(BTreeMap::from([
            ("payer", source.balance(Role::Payer).await?),
            ("escrow", escrowed),
            ("recipient", destination.balance(Role::Recipient).await?),
        ]))
    }

    /// What a `gw` that succeeds prints, with the configuration of the first gateway.
    pub async fn gw(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments).await?;
        let told = String::from_utf8(output.stdout)?;
        ensure!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
        Ok(told)
    }

    /// What a `gw` that fails says, with the configuration of the first gateway.
    pub async fn gw_refuses(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments).await?;
        ensure!(output.status.code() == Some(1), "{output:?}");
        Ok(String::from_utf8(output.stderr)?)
    }

    async fn run(&self, arguments: &[&str]) -> Result<Output> {
        let options = self.network.options();
        let mut command = Command::new(&options.gw);
        command.args(arguments).arg("--config").arg(options.directory.join("gateway-1.toml"));
        Ok(command.kill_on_drop(true).output().await?)
    }

    /// Runs `gw audit verify` for one payment.
    ///
    /// # Errors
    /// When it is not proven.
    pub async fn audited(&self, payment_id: &PaymentId) -> Result<()> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
        command.args(["audit", "--config"]).arg(self.network.auditor_config());
        let output = command.args(["verify", payment_id.as_str()]).kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "{payment_id} is not proven: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            keep_logs(&self.directory);
        }
        if std::env::var_os("GW_TEST_KEEP").is_some() {
            self.directory.disable_cleanup(true);
            eprintln!("kept in {}", self.directory.path().display());
        }
    }
}

/// Shows the ends of all log files: the directory goes with the test.
fn keep_logs(directory: &TempDir) {
    let network = directory.path().join("network");
    let entries = |path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let (directories, files): (Vec<_>, Vec<_>) = entries(network).partition(|path| path.is_dir());
    let files = files.into_iter().chain(directories.into_iter().flat_map(entries));
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "log")) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(60)..].join("\n");
        eprintln!("==== {}\n{tail}", path.display());
    }
}

/// The escrow's and the proxy's events.
pub const DEPOSITED: &str = "Deposited(bytes32,bytes32,address,\
     (bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48),address,uint256)";
pub const RELEASED: &str = "Released(bytes32,bytes32,address,uint256,uint256)";
pub const REFUNDED: &str = "Refunded(bytes32,bytes32,address,uint256)";
pub const FULFILLED: &str = "Fulfilled(bytes32,bytes32,address,address,address,uint256,uint48)";

/// How often `event` was emitted for the payment on `chain`.
pub async fn logs(chain: &Chain, event: &str, payment_id: &PaymentId) -> Result<usize> {
    let topics = json!([keccak256(event).to_string(), payment_id.on_chain()]);
    let address = json!([chain.contracts.escrow, chain.contracts.proxy]);
    let filter = json!({"fromBlock": "0x0", "toBlock": "latest", "address": address, "topics": topics});
    let logs: Vec<Value> = chain.dev.rpc("eth_getLogs", (filter,)).await?;
    Ok(logs.len())
}

/// Waits until `holds` does.
pub async fn eventually<F, Fut>(holds: F) -> Result<()>
where
    F: Fn() -> Fut,
    Fut: Future<Output = bool>,
{
    let polled = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, polled).await.context("it did not happen in time")
}

/// What the settlers hold of the development token.
pub async fn settlers(chain: &Chain) -> Result<U256> {
    let mut all = U256::ZERO;
    for n in 1..=3 {
        all += chain.balance(Role::Settler(n)).await?;
    }
    Ok(all)
}

/// What moved between two looks.
pub fn moves(before: &BTreeMap<&'static str, U256>, after: &BTreeMap<&'static str, U256>) -> Moves {
    let signed = |held: &U256| i128::try_from(held.to::<u128>()).unwrap();
    let difference = |name: &&'static str| signed(&after[name]) - signed(&before[name]);
    before.keys().map(|name| (*name, difference(name))).filter(|(_, moved)| *moved != 0).collect()
}

/// What x402-conformance says about `target`.
///
/// # Errors
/// When it does not conform.
pub async fn x402_conforms(check: &str, target: &str) -> Result<()> {
    let output = Command::new("python3")
        .args(["-m", "x402conf", check, target, "--fail-on-error"])
        .env("PYTHONPATH", tools::root().join(".tools/x402-conformance"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "x402conf {check}: {text}");
    Ok(())
}
