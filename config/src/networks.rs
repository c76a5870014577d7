//! Presets: what is known of public networks, so that an operator need not look it up (`config/networks`).

use std::fmt::Write;

use chains::config::{AssetConfig, Depth};
use events::{Account, ChainId, Family};
use serde::Deserialize;

/// Longest line of a comment, in characters.
const LINE_CHARS: usize = 110;

/// A network that a preset describes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What it is called on the command line, for example `base-sepolia`.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// CAIP-2 id.
    pub chain_id: ChainId,
    /// The whole genesis hash, Base58; on Solana only.
    pub genesis_hash: Option<String>,
    /// Whether its coins are worth nothing.
    pub is_test: bool,
    /// A node that answers without registration.
    pub public_rpc_url: String,
    /// Where an explorer shows a transaction: `{transaction}` stands for its hash.
    pub transaction_url: String,
    /// Where it shows an account: `{address}`.
    pub address_url: String,
    /// Permit2: on EVM chains Uniswap's; on Tron the one that escrows are to draw by, where there is one.
    pub permit2: Option<Account>,
    /// Typical time from block to block, in milliseconds.
    pub block_ms: u64,
    /// When a block counts as settled, unless the operator decides otherwise.
    pub required_depth: Depth,
    /// Why that is so.
    pub depth_reason: String,
    /// Least time from a payment's deadline to its refund, in seconds.
    pub refund_delay_seconds: u64,
    /// How often to ask for a new block, in milliseconds.
    pub poll_ms: u64,
    /// Its tokens and its coin.
    #[serde(default)]
    pub assets: Vec<AssetConfig>,
}

/// Why a preset cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// There is none of that name.
    #[error("there is no network `{0}`; there are {1}")]
    Unknown(String, String),
    /// The text is not a preset.
    #[error("{0}: {1}")]
    Form(String, String),
}

macro_rules! presets {
    ($($name:literal),+ $(,)?) => {
        /// The presets, each with its name.
        const PRESETS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../networks/", $name, ".toml")))),+];
    };
}

presets![
    "arbitrum",
    "arbitrum-sepolia",
    "avalanche",
    "avalanche-fuji",
    "base",
    "base-sepolia",
    "bnb",
    "bnb-testnet",
    "ethereum",
    "optimism",
    "optimism-sepolia",
    "polygon",
    "polygon-amoy",
    "sepolia",
    "solana",
    "solana-devnet",
    "tron",
    "tron-nile",
    "tron-shasta",
];

/// A text in lines of a comment.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| !line.is_empty() && line.len() + word.len() >= LINE_CHARS) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

impl Network {
    /// The names of all presets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The preset of this name.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn named(name: &str) -> Result<Self, NetworkError> {
        let unknown = || NetworkError::Unknown(name.to_owned(), Self::names().collect::<Vec<_>>().join(", "));
        let (_, text) = PRESETS.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
        Self::read(name, text)
    }

    /// The network that a text in the form of a preset describes. `source` is where it comes from, for the error.
    ///
    /// # Errors
    /// [`NetworkError::Form`].
    pub fn read(source: &str, text: &str) -> Result<Self, NetworkError> {
        let form = |rule: String| NetworkError::Form(source.to_owned(), rule);
        let network: Self = toml::from_str(text).map_err(|error| form(error.message().to_owned()))?;
        let family = network.chain_id.family().ok_or_else(|| form("chain_id is of no family that is served".into()))?;
        let is_solana = family == Family::Solana;
        if network.genesis_hash.is_some() != is_solana {
            return Err(form("genesis_hash is said of Solana clusters, and of nothing else".to_owned()));
        }
        let may_have_permit2 = match family {
            Family::Evm => network.permit2.is_some(),
            Family::Tron => true,
            Family::Solana => network.permit2.is_none(),
        };
        if !may_have_permit2 {
            return Err(form("permit2 is said of every EVM chain, and of no Solana cluster".to_owned()));
        }
        if !network.transaction_url.contains("{transaction}") || !network.address_url.contains("{address}") {
            return Err(form("transaction_url holds {transaction}, and address_url {address}".to_owned()));
        }
        Ok(network)
    }

    /// The chain's section of a file of chains, without what is known only once the contracts are there.
    pub(crate) fn section(&self, rpc_url: &str) -> String {
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = self.write(&mut text, rpc_url);
        text
    }

    fn write(&self, text: &mut String, rpc_url: &str) -> std::fmt::Result {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        writeln!(text, "\n# {}. Explorer: {}", self.title, self.address_url.replace("{address}", ""))?;
        writeln!(text, "[[chains]]")?;
        writeln!(text, "chain_id = {}", quoted(self.chain_id.as_str()))?;
        writeln!(text, "# A node of your own, or a provider's that you have an agreement with.")?;
        writeln!(text, "rpc_url = {}", quoted(rpc_url))?;
        if let Some(genesis) = &self.genesis_hash {
            writeln!(text, "signature_cluster_id = {}", quoted(genesis))?;
        }
        if let Some(permit2) = &self.permit2 {
            writeln!(text, "permit2 = {}", quoted(permit2.as_str()))?;
        }
        for line in wrapped(&self.depth_reason) {
            writeln!(text, "# {line}")?;
        }
        match self.required_depth {
            Depth::Finalized => writeln!(text, "required_depth = \"finalized\"")?,
            Depth::Confirmations(blocks) => writeln!(text, "required_depth = {blocks}")?,
        }
        writeln!(text, "refund_delay_seconds = {}", self.refund_delay_seconds)?;
        writeln!(text, "poll_ms = {}", self.poll_ms)?;
        for asset in &self.assets {
            writeln!(text, "\n[[chains.assets]]")?;
            writeln!(text, "asset_identifier = {}", quoted(&asset.asset_identifier.to_string()))?;
            writeln!(text, "symbol = {}", quoted(&asset.symbol))?;
            writeln!(text, "decimals = {}", asset.decimals)?;
            if let Some(coin) = &asset.wraps {
                writeln!(text, "wraps = {}", quoted(&coin.to_string()))?;
            }
        }
        Ok(())
    }
}
