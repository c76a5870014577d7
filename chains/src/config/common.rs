//! Configuration that chains of every family have in common.

use serde::Deserialize;

use events::{Account, AssetId, ChainId};

use super::{AssetConfig, Depth, NODES_MAX, NodeConfig};
use crate::head_feed::WsUrl;

/// The keys that chains of every family have.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommonConfig {
    /// CAIP-2 id, for example `eip155:1`. The node is asked for its chain id, and another answer is refused.
    pub chain_id: ChainId,
    /// JSON-RPC endpoint of the one node; on Tron the base of the HTTP API, under which `/wallet` and `/walletsolidity` are. Where
    /// there are `rpc_urls`, the first of them.
    #[serde(default)]
    pub rpc_url: String,
    /// Several nodes instead of one. Where two or more are of different origins, money moves only by what two of them say.
    #[serde(default)]
    pub rpc_urls: Vec<NodeConfig>,
    /// The `GatewayEscrow` used when a request names none.
    pub escrow_contract: Account,
    /// The `FulfillmentProxy` used when a request names none.
    pub fulfillment_proxy: Account,
    /// Further escrow contracts that a settler or verifier deals with. The gateway has its own list, `[trust]`.
    #[serde(default)]
    pub trusted_escrow_contracts: Vec<Account>,
    /// Further proxies whose deliveries count for a settler or verifier. The gateway has its own list, `[trust]`.
    #[serde(default)]
    pub trusted_fulfillment_proxies: Vec<Account>,
    /// Account whose key signs reservations.
    pub reserver: Account,
    /// Account of the default verifier, which attests delivery.
    pub releaser: Account,
    /// When a block counts as settled.
    pub required_depth: Depth,
    /// Least time between `fulfillment_deadline` and the refund window: destination finality and a release margin.
    pub refund_delay_seconds: u64,
    /// A submitter whose coins pay for fewer deposits than this is warned of.
    #[serde(default = "submitter_deposits_warning")]
    pub submitter_deposits_warning: u64,
    /// Where exits have no submitters of their own: how many refunds or releases deposits and reassignments leave the coins of in
    /// each submitter's account; deposits those of a fifth more.
    #[serde(default = "exits_reserved")]
    pub exits_reserved: u64,
    /// WebSocket of a provider that tells of new blocks, a hint and no more; EVM and Solana only.
    #[serde(skip)]
    pub ws_url: Option<WsUrl>,
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
    /// The chain's own coin that `asset` is the wrapped form of, if it is.
    pub fn coin_of(&self, asset: &AssetId) -> Option<&AssetId> {
        self.assets.iter().find(|served| served.asset_identifier == *asset)?.wraps.as_ref()
    }

    /// Whether `contract` is the escrow, or one of those trusted besides.
    pub fn trusts_escrow(&self, contract: &Account) -> bool {
        self.escrows().any(|trusted| trusted == contract)
    }

    /// The escrow, and those trusted besides.
    pub fn escrows(&self) -> impl Iterator<Item = &Account> {
        self.trusted_escrow_contracts.iter().chain([&self.escrow_contract])
    }

    /// Whether `contract` is the proxy, or one of those trusted besides.
    pub fn trusts_proxy(&self, contract: &Account) -> bool {
        self.proxies().any(|trusted| trusted == contract)
    }

    /// The proxy, and those trusted besides.
    pub fn proxies(&self) -> impl Iterator<Item = &Account> {
        self.trusted_fulfillment_proxies.iter().chain([&self.fulfillment_proxy])
    }

    /// Its nodes: `rpc_urls`, or the one at `rpc_url`.
    pub fn nodes(&self) -> Vec<NodeConfig> {
        match self.rpc_urls.as_slice() {
            [] => vec![NodeConfig::new(&self.rpc_url)],
            several => several.to_vec(),
        }
    }

    /// Makes the first of several nodes the one that is meant where one is; otherwise the rule that the addresses break.
    pub(super) fn settle_nodes(&mut self) -> Result<(), String> {
        match (self.rpc_url.is_empty(), self.rpc_urls.as_slice()) {
            (true, []) => Err("missing field `rpc_url`, or several nodes in `rpc_urls`".to_owned()),
            (false, [_, ..]) => Err("rpc_urls: must not stand beside rpc_url, which is the one node's".to_owned()),
            (_, several) if several.len() > NODES_MAX => Err(format!("rpc_urls: must be at most {NODES_MAX} nodes")),
            (true, [first, ..]) => {
                self.rpc_url.clone_from(&first.url);
                Ok(())
            }
            (false, []) => Ok(()),
        }
    }

    /// All accounts, with the keys that they stand under.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (&'static str, &Account)> {
        let single = [
            ("escrow_contract", &self.escrow_contract),
            ("fulfillment_proxy", &self.fulfillment_proxy),
            ("reserver", &self.reserver),
            ("releaser", &self.releaser),
        ];
        let escrows = self.trusted_escrow_contracts.iter().map(|account| ("trusted_escrow_contracts", account));
        let proxies = self.trusted_fulfillment_proxies.iter().map(|account| ("trusted_fulfillment_proxies", account));
        single.into_iter().chain(escrows).chain(proxies)
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
