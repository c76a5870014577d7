//! Log source: what the escrows and proxies of a chain said, for its log watcher; one `eth_getLogs` a round.

use std::collections::BTreeSet;

use alloy::{
    primitives::{Address, U64},
    rpc::types::Log,
};
use serde_json::json;

use chains::log_watcher::{AGAIN_BLOCKS, Block, Event, Events, LogSource, Span};
use escrow_abi::contracts::address;
use events::{Account, ChainId, Hash32};
use sagas::ports::Transient;

use super::{
    node::{BlockRef, Node},
    rpc::Fault,
};

/// Most blocks that are asked about at once.
const RANGE_BLOCKS_MAX: u64 = 2_000;

/// The escrows and proxies that a chain's configuration trusts.
#[derive(Debug)]
pub(crate) struct Logs {
    node: Node,
    escrows: BTreeSet<Address>,
    proxies: BTreeSet<Address>,
}

impl Logs {
    /// What those said that the configuration of `node` trusts.
    pub fn of(node: Node) -> Self {
        let config = &node.config().common;
        Self {
            escrows: config.escrows().filter_map(|account| address(account).ok()).collect(),
            proxies: config.proxies().filter_map(|account| address(account).ok()).collect(),
            node,
        }
    }

    /// What escrows and proxies said in these blocks.
    async fn between(&self, from: u64, to: u64) -> Result<Vec<(u64, Event)>, Fault> {
        let contracts: BTreeSet<_> = self.escrows.union(&self.proxies).collect();
        let filter = json!({"fromBlock": U64::from(from), "toBlock": U64::from(to), "address": contracts});
        let logs: Vec<Log> = self.node.request("eth_getLogs", (filter,)).await?;
        let events = logs.into_iter().filter(|log| !log.removed && contracts.contains(&log.address()));
        let events = events.filter_map(|log| {
            let number = log.block_number.filter(|number| (from..=to).contains(number))?;
            let event = Event {
                payment: Hash32(log.topics().get(1)?.0),
                block: Hash32(log.block_hash?.0),
                has_landed: self.escrows.contains(&log.address()),
            };
            Some((number, event))
        });
        Ok(events.collect())
    }
}

impl LogSource for Logs {
    fn chain_id(&self) -> &ChainId {
        self.node.chain_id()
    }

    fn is_followed(&self, contract: &Account) -> bool {
        address(contract).is_ok_and(|contract| self.escrows.contains(&contract) || self.proxies.contains(&contract))
    }

    async fn head(&self) -> Result<Block, Transient> {
        self.node.head().await.map(block)
    }

    async fn settled(&self) -> Result<Block, Transient> {
        self.node.settled().await.map(block)
    }

    async fn events(&self, Span { from, head, .. }: Span) -> Result<Events, Transient> {
        let blocks = head.number.saturating_add(1).saturating_sub(from);
        if blocks <= RANGE_BLOCKS_MAX {
            match self.between(from, head.number).await {
                // Providers differ in how many blocks they allow.
                Err(Fault::Rejected(_)) if blocks > AGAIN_BLOCKS => {}
                events => return Ok(Events { from, is_complete: true, events: events? }),
            }
        }
        let from = head.number.saturating_add(1).saturating_sub(AGAIN_BLOCKS);
        Ok(Events { from, is_complete: false, events: self.between(from, head.number).await? })
    }
}

fn block(BlockRef { number, hash, time }: BlockRef) -> Block {
    Block { number, hash: Hash32(hash.0), time }
}
