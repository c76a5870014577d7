//! What the configuration says of a chain of any family.

use serde::Deserialize;

use events::{Account, ChainId};

use super::{AssetConfig, Depth};

/// The keys that chains of every family have.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommonConfig {
    /// CAIP-2 id, for example `eip155:1`. The node is asked for its chain id, and another answer is refused.
    pub chain_id: ChainId,
    /// JSON-RPC endpoint; on Tron the base of the HTTP API, under which `/wallet` and `/walletsolidity` are.
    pub rpc_url: String,
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
    /// Account whose key signs reservations.
    pub reserver: String,
    /// Account of the default verifier, which attests delivery.
    pub releaser: String,
    /// When a block counts as settled.
    pub required_depth: Depth,
    /// Least time between `fulfillment_deadline` and the refund window: destination finality and a release margin.
    pub refund_delay_seconds: u64,
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
    /// Assets served on this chain.
    #[serde(default)]
    pub assets: Vec<AssetConfig>,
}

impl CommonConfig {
    /// Whether `contract` is the escrow, or one of those trusted besides.
    pub fn trusts_escrow(&self, contract: &Account) -> bool {
        self.is_one_of(contract, &self.escrow_contract, &self.trusted_escrow_contracts)
    }

    /// The escrow, and those trusted besides.
    pub fn escrows(&self) -> impl Iterator<Item = &str> {
        self.trusted_escrow_contracts.iter().map(String::as_str).chain([self.escrow_contract.as_str()])
    }

    /// Whether `contract` is the proxy, or one of those trusted besides.
    pub fn trusts_proxy(&self, contract: &Account) -> bool {
        self.is_one_of(contract, &self.fulfillment_proxy, &self.trusted_fulfillment_proxies)
    }

    fn is_one_of(&self, contract: &Account, default: &str, others: &[String]) -> bool {
        let Some(family) = self.chain_id.family() else { return false };
        let trusted = others.iter().map(String::as_str).chain([default]);
        trusted.into_iter().any(|trusted| Account::parse(family, trusted).as_ref() == Ok(contract))
    }
}

fn submitter_deposits_warning() -> u64 {
    100
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
