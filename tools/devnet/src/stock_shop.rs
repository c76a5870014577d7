//! A shop and a buyer of x402's stock packages alone (`examples/x402/stock`): the buyer signs for one chain and knows nothing of another.

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::{Process, free_port, tools};
use events::PaymentId;

use super::{
    keys::{Role, solana_account},
    network::Network,
    payer::Answer,
    shop,
    solana::SolanaChain,
};

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

/// On which chain a shop's buyers pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaidOn<'a> {
    /// The network's source chain, in the token that takes signatures.
    Evm,
    /// The network's Solana chain, in its development token.
    Solana {
        /// The merchant's account there.
        merchant: &'a str,
    },
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
    /// Starts a shop that is paid on the network's destination chain by buyers on another.
    ///
    /// # Errors
    /// When it does not start; the message names its log.
    pub async fn start(network: &Network, paid_on: PaidOn<'_>) -> Result<Self> {
        let (port, destination) = (free_port()?, &network.destination);
        let mut command = runs(network, paid_on, "node", "stock/shop.js")?;
        if let PaidOn::Solana { merchant } = paid_on {
            command.env("MERCHANT", merchant);
        }
        command
            .env("GATEWAY_URL", network.gateways[0].base_url())
            .env("RECEIVE_NETWORK", destination.id().as_str())
            .env("RECEIVE_ASSET", &destination.token)
            .env("PAY_TO", Role::Recipient.account())
            .env("PRICE_UNITS", PRICE.to_string())
            .env("PAY_UNITS", PAID.to_string())
            .env("PORT", port.to_string());
        let log = network.options().directory.join(format!("stock-shop-{port}.log"));
        let mut process = Process::spawn("stock shop", &mut command, &log)?;
        process.listening_on(port).await.with_context(|| format!("see {}", log.display()))?;
        Ok(Self { _process: process, url: format!("http://127.0.0.1:{port}/article") })
    }
}

/// What a merchant on Solana asks `POST /x402/v1/offers` for, so as to be paid on the network's destination chain.
///
/// # Errors
/// When the network has no Solana chain.
pub fn asked(network: &Network, merchant: &str) -> Result<Value> {
    let (solana, destination) = (solana(network)?, &network.destination);
    Ok(json!({
        "network": solana.surfnet.chain_id(),
        "asset": solana.token.mint,
        "destination": {"network": destination.id(), "asset": destination.token, "address": Role::Recipient.account()},
        "fulfillmentAmount": PRICE.to_string(),
        "amount": PAID.to_string(),
        "merchant": merchant,
    }))
}

/// Makes the token account of an offer's address, as a merchant on Solana does once, and returns the address. The first answer names it.
///
/// # Errors
/// When the answer is another, or the account cannot be made.
pub async fn make_token_account(network: &Network, asked: &Value) -> Result<String> {
    let (gateway, solana) = (network.gateways[0].base_url(), solana(network)?);
    let url = format!("{gateway}/x402/v1/offers");
    let refused = Answer::of(reqwest::Client::new().post(url).json(asked).send().await?).await?;
    ensure!(refused.status == 400, "HTTP {}: {}", refused.status, refused.body);
    let said = refused.text("message");
    let (_, named) = said.split_once("payTo: ").with_context(|| said.to_owned())?;
    let (pay_to, rest) = named.split_once(' ').with_context(|| said.to_owned())?;
    ensure!(rest.contains("make it once: spl-token create-account"), "{said}");
    solana.dev.mint(&solana.token, pay_to, 0).await?;
    Ok(pay_to.to_owned())
}

/// Buys the page at `url` with a new key that has nothing but [`TOKENS`].
///
/// # Errors
/// When the buyer does not get it; the message has what it said.
pub async fn buy(network: &Network, paid_on: PaidOn<'_>, url: &str, language: Language) -> Result<Bought> {
    let (account, key) = match paid_on {
        PaidOn::Evm => {
            let (buyer, source) = (PrivateKeySigner::random(), &network.source);
            let account = buyer.address().to_string();
            source.dev.mint(&source.stablecoin, &account, U256::from(TOKENS)).await?;
            (account, format!("{:#x}", buyer.to_bytes()))
        }
        PaidOn::Solana { .. } => {
            let (buyer, solana) = (SigningKey::from_bytes(&PrivateKeySigner::random().to_bytes().0), solana(network)?);
            let account = solana_account(&buyer);
            solana.dev.mint(&solana.token, &account, TOKENS).await?;
            (account, bs58::encode(buyer.to_keypair_bytes()).into_string())
        }
    };
    let mut command = match language {
        Language::JavaScript => runs(network, paid_on, "node", "stock/buyer.js")?,
        Language::Python => {
            let mut command = runs(network, paid_on, "python3", "stock/buyer.py")?;
            command.env("PYTHONPATH", tools::root().join(".tools/x402-client"));
            command
        }
    };
    command.arg(url).env("PAY_AT_MOST", PAID.to_string()).env("BUYER_KEY", key);
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

fn runs(network: &Network, paid_on: PaidOn<'_>, program: &str, script: &str) -> Result<Command> {
    let mut command = Command::new(program);
    command.arg(shop::home().join(script)).kill_on_drop(true);
    match paid_on {
        PaidOn::Evm => {
            command.env("PAY_NETWORK", network.source.id().as_str()).env("PAY_ASSET", &network.source.stablecoin);
        }
        PaidOn::Solana { .. } => {
            let solana = solana(network)?;
            command
                .env("PAY_NETWORK", solana.surfnet.chain_id())
                .env("PAY_ASSET", &solana.token.mint)
                .env("PAY_RPC_URL", solana.surfnet.url());
        }
    }
    Ok(command)
}

fn solana(network: &Network) -> Result<&SolanaChain> {
    network.solana.as_ref().context("the network has no Solana chain")
}
