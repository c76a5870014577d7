//! What the configuration file says about a chain.

use std::fmt;

use serde::Deserialize;

use events::{Account, AssetId, ChainId};

use crate::gas::GasConfig;

/// One chain the gateway, a verifier or a settler is connected to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainConfig {
    /// CAIP-2 id, for example `eip155:1`. The node is asked for its chain id, and another answer is refused.
    pub chain_id: ChainId,
    /// JSON-RPC endpoint; on Tron the base of the HTTP API, under which `/wallet` and `/walletsolidity` are.
    pub rpc_url: String,
    /// On Tron, and only there: the provider's API key, sent as `TRON-PRO-API-KEY`.
    #[serde(default)]
    pub api_key: Option<ApiKey>,
    /// The `GatewayEscrow` used when a request names none.
    pub escrow_contract: String,
    /// The `FulfillmentProxy` used when a request names none.
    pub fulfillment_proxy: String,
    /// Further escrow contracts that a settler or verifier deals with. The gateway has its own list, `[trust]`.
    #[serde(default)]
    pub trusted_escrow_contracts: Vec<String>,
    /// Further proxies whose deliveries count for a settler or verifier. The gateway has its own list, `[trust]`.
    #[serde(default)]
    pub trusted_fulfillment_proxies: Vec<String>,
    /// On Solana, and only there: the genesis hash of the cluster, Base58, which every signature binds. The node's and the
    /// program's must be the same.
    #[serde(default)]
    pub signature_cluster_id: Option<String>,
    /// On Solana, and only there: version of the domain of what is signed, as the program was initialised with.
    #[serde(default = "signature_domain_version")]
    pub signature_domain_version: u8,
    /// Uniswap's Permit2, on EVM chains.
    #[serde(default = "canonical_permit2")]
    pub permit2: String,
    /// Account whose key signs reservations.
    pub reserver: String,
    /// Account of the default verifier, which attests delivery.
    pub releaser: String,
    /// When a block counts as settled.
    pub required_depth: Depth,
    /// Least time between `fulfillment_deadline` and the refund window: destination finality and a release margin.
    pub refund_delay_seconds: u64,
    /// How long the escrow takes a deposit after the gateway signed it, in seconds. One that reverted can be sent again by
    /// anyone for so long, and its payment does not fail before.
    #[serde(default = "admission_seconds")]
    pub admission_seconds: u64,
    /// How long a transaction waits for a block before it is signed again with higher fees, in seconds; only done when it
    /// offers less than the chain asks for by then, or has waited four times as long.
    #[serde(default = "reprice_seconds")]
    pub reprice_seconds: u64,
    /// A submitter whose coins pay for fewer deposits than this is warned of.
    #[serde(default = "submitter_deposits_warning")]
    pub submitter_deposits_warning: u64,
    /// Where exits have no submitters of their own: how many refunds or releases deposits leave the coins of in each
    /// submitter's account.
    #[serde(default = "exits_reserved")]
    pub exits_reserved: u64,
    /// How often the node is asked for its newest block, in milliseconds.
    #[serde(default = "poll_ms")]
    pub poll_ms: u64,
    /// How long one call to the node may take, in milliseconds.
    #[serde(default = "rpc_timeout_ms")]
    pub rpc_timeout_ms: u64,
    /// On EVM chains, and only there: whether payers may be contracts, whose code the gateway then runs.
    #[serde(default = "contract_payers")]
    pub contract_payers: bool,
    /// On EVM chains, and only there: what that code may cost.
    #[serde(default)]
    pub gas: GasConfig,
    /// Assets served on this chain.
    #[serde(default)]
    pub assets: Vec<AssetConfig>,
}

impl ChainConfig {
    /// Whether `contract` is the escrow, or one of those trusted besides.
    pub fn trusts_escrow(&self, contract: &str) -> bool {
        self.is_one_of(contract, &self.escrow_contract, &self.trusted_escrow_contracts)
    }

    /// The escrow, and those trusted besides.
    pub fn escrows(&self) -> impl Iterator<Item = &str> {
        self.trusted_escrow_contracts.iter().map(String::as_str).chain([self.escrow_contract.as_str()])
    }

    /// Whether `contract` is the proxy, or one of those trusted besides.
    pub fn trusts_proxy(&self, contract: &str) -> bool {
        self.is_one_of(contract, &self.fulfillment_proxy, &self.trusted_fulfillment_proxies)
    }

    fn is_one_of(&self, contract: &str, default: &str, others: &[String]) -> bool {
        let Some(family) = self.chain_id.family() else { return false };
        let Ok(contract) = Account::parse(family, contract) else { return false };
        let trusted = others.iter().map(String::as_str).chain([default]);
        trusted.into_iter().any(|trusted| Account::parse(family, trusted).as_ref() == Ok(&contract))
    }
}

/// A provider's API key. It is never shown, not even when it cannot be used.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ApiKeyForm")]
pub struct ApiKey(String);

#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a text")]
enum ApiKeyForm {
    Text(String),
}

impl TryFrom<ApiKeyForm> for ApiKey {
    type Error = &'static str;

    fn try_from(ApiKeyForm::Text(text): ApiKeyForm) -> Result<Self, Self::Error> {
        // It becomes the value of an HTTP header.
        let sendable = !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
        if sendable { Ok(Self(text)) } else { Err("must be visible ASCII characters without spaces") }
    }
}

impl ApiKey {
    /// The key with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// An asset that is served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetConfig {
    /// CAIP-19 id.
    pub asset_identifier: AssetId,
    /// Ticker symbol, for display.
    pub symbol: String,
    /// Decimal places, for display.
    pub decimals: u8,
}

/// When a block counts as settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "DepthText")]
pub enum Depth {
    /// The chain's own finality tag. `safe` is not offered: providers differ in what they mean by it.
    Finalized,
    /// So many blocks on top, 0 for inclusion alone.
    Confirmations(u64),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DepthText {
    Number(u64),
    Word(String),
}

impl TryFrom<DepthText> for Depth {
    type Error = &'static str;

    fn try_from(text: DepthText) -> Result<Self, Self::Error> {
        match text {
            DepthText::Number(blocks) => Ok(Self::Confirmations(blocks)),
            DepthText::Word(word) if word == "finalized" => Ok(Self::Finalized),
            DepthText::Word(_) => Err("required_depth must be \"finalized\" or a number of blocks"),
        }
    }
}

fn canonical_permit2() -> String {
    "0x000000000022D473030F116dDEE9F6B43aC78BA3".to_owned()
}

fn signature_domain_version() -> u8 {
    1
}

fn admission_seconds() -> u64 {
    120
}

fn reprice_seconds() -> u64 {
    30
}

fn submitter_deposits_warning() -> u64 {
    100
}

fn contract_payers() -> bool {
    true
}

fn exits_reserved() -> u64 {
    10
}

fn poll_ms() -> u64 {
    500
}

fn rpc_timeout_ms() -> u64 {
    5_000
}
