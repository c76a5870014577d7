//! A shop and a buyer of x402's stock packages alone (`examples/x402/stock`): the buyer signs for one chain and knows nothing of another.

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use devkit::{Process, free_port, tools};
use events::PaymentId;

use super::{keys::Role, network::Network, shop};

/// What the shop receives, in the smallest unit of the destination's token.
pub const PRICE: u64 = 25_000_000;
/// What the buyer pays, in the smallest unit of a token that takes signatures.
pub const PAID: u64 = 25_250_000;
/// What the buyer has of that token, and nothing else.
pub const TOKENS: u64 = 100_000_000;

/// What a buyer got for its signature.
#[derive(Debug)]
pub struct Bought {
    /// The payment.
    pub payment_id: PaymentId,
    /// The receipt: the settlement as `PAYMENT-RESPONSE` has it.
    pub receipt: Value,
    /// Title of the page.
    pub title: String,
    /// The buyer's account.
    pub account: String,
}

/// Whose client of x402 buys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `@x402/fetch`.
    JavaScript,
    /// `x402` of PyPI, over requests.
    Python,
}

/// A running shop. Dropping it ends its process.
pub struct StockShop {
    _process: Process,
    /// Address of the page for sale.
    pub url: String,
}

impl StockShop {
    /// Starts a shop that is paid on the network's destination chain by buyers on its source chain.
    ///
    /// # Errors
    /// When it does not start; the message names its log.
    pub async fn start(network: &Network) -> Result<Self> {
        let (port, destination) = (free_port()?, &network.destination);
        let mut command = node(network, "stock/shop.js");
        command
            .env("GATEWAY_URL", network.gateways[0].base_url())
            .env("RECEIVE_NETWORK", destination.id().as_str())
            .env("RECEIVE_ASSET", &destination.token)
            .env("PAY_TO", Role::Recipient.account())
            .env("PRICE_UNITS", PRICE.to_string())
            .env("PAY_UNITS", PAID.to_string())
            .env("PORT", port.to_string());
        let log = network.options().directory.join("stock-shop.log");
        let mut process = Process::spawn("stock shop", &mut command, &log)?;
        process.listening_on(port).await.with_context(|| format!("see {}", log.display()))?;
        Ok(Self { _process: process, url: format!("http://127.0.0.1:{port}/article") })
    }
}

/// Buys the page at `url` with a new key that has nothing but [`TOKENS`].
///
/// # Errors
/// When the buyer does not get it; the message has what it said.
pub async fn buy(network: &Network, url: &str, language: Language) -> Result<Bought> {
    let (buyer, source) = (PrivateKeySigner::random(), &network.source);
    let account = buyer.address().to_string();
    source.dev.mint(&source.stablecoin, &account, U256::from(TOKENS)).await?;
    let mut command = match language {
        Language::JavaScript => node(network, "stock/buyer.js"),
        Language::Python => {
            let mut command = runs(network, "python3", "stock/buyer.py");
            command.env("PYTHONPATH", tools::root().join(".tools/x402-client"));
            command
        }
    };
    command.arg(url).env("PAY_AT_MOST", PAID.to_string()).env("BUYER_KEY", format!("{:#x}", buyer.to_bytes()));
    let output = command.output().await.context("start the buyer")?;
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "the buyer says: {said}{complained}");
    let bought: Value = serde_json::from_str(&said).with_context(|| format!("the buyer says: {said}"))?;
    let text = |pointer: &str| {
        bought.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer} in {bought}"))
    };
    Ok(Bought {
        payment_id: text("/receipt/extensions/gw/paymentId")?.parse()?,
        title: text("/page/title")?.to_owned(),
        receipt: bought["receipt"].clone(),
        account,
    })
}

fn node(network: &Network, script: &str) -> Command {
    runs(network, "node", script)
}

fn runs(network: &Network, program: &str, script: &str) -> Command {
    let mut command = Command::new(program);
    command
        .arg(shop::home().join(script))
        .env("PAY_NETWORK", network.source.id().as_str())
        .env("PAY_ASSET", &network.source.stablecoin)
        .kill_on_drop(true);
    command
}
