//! The shop and the buyer of `examples/x402`, on the development network: the buyer pays on one chain, the shop is paid on
//! another.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use devkit::{Process, free_port, tools};
use events::{ChainId, PaymentId};

use super::{keys::Role, network::Network, solana::SolanaChain};

/// Price of the shop's page, in tokens.
pub const PRICE: &str = "1.50";
/// The same in the smallest unit: what the shop receives.
pub const PRICE_UNITS: u64 = 1_500_000;
/// The most that the buyer pays for it, smallest unit.
const AT_MOST: &str = "1600000";
/// Symbol of the development token.
const SYMBOL: &str = "DEV";
/// Version of Node.js from which on the examples run.
const NODE_MIN: u32 = 20;

/// Where the buyer pays and the shop is paid.
#[derive(Debug, Clone)]
pub struct Purchase {
    /// The chain the buyer pays on.
    pub pay_network: ChainId,
    /// The token it pays with, by its reference there.
    pub pay_asset: String,
    /// Its key, as wallets of that chain write it.
    pub buyer_key: String,
    /// The chain the shop is paid on.
    pub receive_network: ChainId,
    /// The shop's account there.
    pub pay_to: String,
}

impl Purchase {
    /// From the network's source chain to its destination chain.
    pub fn new(network: &Network) -> Self {
        Self {
            pay_network: network.source.id(),
            pay_asset: network.source.token.clone(),
            buyer_key: Role::Payer.secret_hex(),
            receive_network: network.destination.id(),
            pay_to: Role::Recipient.account(),
        }
    }

    /// The same, with the buyer on Solana.
    ///
    /// # Errors
    /// Never, for a chain that was started.
    pub fn from_solana(network: &Network, solana: &SolanaChain) -> Result<Self> {
        let token = solana.token()?.to_string();
        let (_, mint) = token.rsplit_once(':').context("an asset has a reference")?;
        let (pay_network, pay_asset) = (solana.id()?, mint.to_owned());
        Ok(Self { pay_network, pay_asset, buyer_key: Role::Payer.solana_secret(), ..Self::new(network) })
    }

    /// The same, with the shop on Solana.
    ///
    /// # Errors
    /// Never, for a chain that was started.
    pub fn to_solana(network: &Network, solana: &SolanaChain) -> Result<Self> {
        Ok(Self { receive_network: solana.id()?, pay_to: Role::Recipient.solana_account(), ..Self::new(network) })
    }
}

/// A running shop. Dropping it ends its process.
pub struct Shop {
    process: Process,
    purchase: Purchase,
    port: u16,
    /// Address of the page for sale.
    pub url: String,
}

impl Shop {
    /// Starts a shop.
    ///
    /// # Errors
    /// When it does not start; the message names its log.
    pub async fn start(network: &Network, purchase: &Purchase) -> Result<Self> {
        let port = free_port()?;
        let process = open(network, purchase, port).await?;
        Ok(Self { process, purchase: purchase.clone(), port, url: format!("http://127.0.0.1:{port}/article") })
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }

    /// Starts it again under its address, with what it remembers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn restart(&mut self, network: &Network) -> Result<()> {
        self.process = open(network, &self.purchase, self.port).await?;
        Ok(())
    }
}

async fn open(network: &Network, purchase: &Purchase, port: u16) -> Result<Process> {
    let mut command = node(network, purchase);
    command
        .arg(home().join("shop/shop.js"))
        .env("SHOP_LEDGER", network.options().directory.join("shop.jsonl"))
        .env("PAY_NETWORKS", purchase.pay_network.as_str())
        .env("PORT", port.to_string());
    let log = network.options().directory.join("shop.log");
    let mut process = Process::spawn("shop", &mut command, &log)?;
    process.listening_on(port).await.with_context(|| format!("see {}", log.display()))?;
    Ok(process)
}

/// What a buyer got for its money.
#[derive(Debug)]
pub struct Bought {
    /// HTTP status of the paid page.
    pub status: u64,
    /// Title of the page.
    pub title: String,
    /// The payment.
    pub payment_id: PaymentId,
    /// The receipt: the settlement as `PAYMENT-RESPONSE` has it.
    pub receipt: Value,
}

/// Buys the page at `url` and waits for it.
///
/// # Errors
/// When the buyer does not get it; the message has what it said.
pub async fn buy(network: &Network, purchase: &Purchase, url: &str, ledger: &Path) -> Result<Bought> {
    let output = buyer(network, purchase, url, ledger).output().await.context("start the buyer")?;
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "the buyer says: {said}{complained}");
    let bought: Value = serde_json::from_str(&said).with_context(|| format!("the buyer says: {said}"))?;
    let text = |pointer: &str| {
        bought.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer} in {bought}"))
    };
    Ok(Bought {
        status: bought["status"].as_u64().unwrap_or_default(),
        title: text("/page/title")?.to_owned(),
        payment_id: text("/receipt/extensions/gw/paymentId")?.parse()?,
        receipt: bought["receipt"].clone(),
    })
}

/// The command of a buyer that pays for the page at `url` and remembers in `ledger` what it signed.
pub fn buyer(network: &Network, purchase: &Purchase, url: &str, ledger: &Path) -> Command {
    let mut command = node(network, purchase);
    command
        .arg(home().join("buyer/buyer.js"))
        .arg(url)
        .env("BUYER_KEY", &purchase.buyer_key)
        .env("BUYER_LEDGER", ledger)
        .env("PAY_AT_MOST", AT_MOST);
    command
}

/// Node.js with what every script of `examples/x402` is told.
pub fn node(network: &Network, purchase: &Purchase) -> Command {
    let mut command = Command::new("node");
    command
        .env("GATEWAY_URL", network.gateways[0].base_url())
        .env("PAY_NETWORK", purchase.pay_network.as_str())
        .env("PAY_ASSET", &purchase.pay_asset)
        .env("RECEIVE_NETWORK", purchase.receive_network.as_str())
        .env("RECEIVE_ASSET", SYMBOL)
        .env("PAY_TO", &purchase.pay_to)
        .env("PRICE", PRICE)
        .kill_on_drop(true);
    command
}

/// Whether the shop can run here.
///
/// # Errors
/// What is missing, and what to do.
pub async fn available() -> Result<()> {
    let version = Command::new("node").arg("--version").output().await;
    let version = version.context("node is not there; install Node.js 20 or later")?.stdout;
    let version = String::from_utf8_lossy(&version);
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    ensure!(major >= Some(NODE_MIN), "node is {}; install Node.js {NODE_MIN} or later", version.trim());
    let packages = home().join("node_modules/@x402/express");
    ensure!(packages.is_dir(), "the packages of examples/x402 are not there; run `scripts/tools.sh run`");
    Ok(())
}

/// `examples/x402`.
pub fn home() -> PathBuf {
    tools::root().join("examples/x402")
}
