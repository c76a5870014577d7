//! Log source: what the escrows and proxies of a chain said, for its log watcher; one `eth_getLogs` a round.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use alloy::{
    primitives::{Address, B256, U64},
    rpc::types::Log,
    sol_types::SolEvent,
};
use serde_json::json;
use tokio::time::timeout;

use chains::log_watcher::{AGAIN_BLOCKS, Block, Event, Events, LogSource, Span};
use escrow_abi::{
    awaited_transfers::{Awaited, AwaitedTransfers},
    contracts::{DevToken as Erc20, address},
};
use events::{Account, ChainId, Hash32};
use sagas::ports::Transient;

use super::{
    deposit_addresses,
    node::{BlockRef, Node},
    payment_batches,
    rpc::Fault,
};

/// Most blocks that are asked about at once.
const RANGE_BLOCKS_MAX: u64 = 2_000;

/// How long what came to deposit addresses is waited for, while events of the escrows are there already.
const TRANSFERS_WAIT_MAX: Duration = Duration::from_secs(2);
/// Most of them in one question; nodes bound the length of a filter.
const AWAITED_AT_ONCE: usize = 512;

/// The escrows and proxies that a chain's configuration trusts, and the tokens that deposit addresses wait for.
#[derive(Debug)]
pub(crate) struct Logs {
    awaited: Arc<AwaitedTransfers>,
    node: Node,
    escrows: BTreeSet<Address>,
    proxies: BTreeSet<Address>,
}

impl Logs {
    /// What those said that the configuration of `node` trusts.
    pub fn of(node: Node, awaited: Arc<AwaitedTransfers>) -> Self {
        let config = &node.config().common;
        Self {
            escrows: config.escrows().filter_map(|account| address(account).ok()).collect(),
            awaited,
            proxies: config.proxies().filter_map(|account| address(account).ok()).collect(),
            node,
        }
    }

    /// What escrows and proxies said in these blocks.
    async fn between(&self, from: u64, to: u64) -> Result<Vec<(u64, Event)>, Fault> {
        let factories = [deposit_addresses::factory(), payment_batches::contract()];
        let mut contracts: BTreeSet<_> = self.escrows.union(&self.proxies).collect();
        if self.awaited.has_returns() {
            contracts.extend(&factories);
        }
        let filter = json!({"fromBlock": U64::from(from), "toBlock": U64::from(to), "address": contracts});
        let logs: Vec<Log> = self.node.request("eth_getLogs", (filter,)).await?;
        let events = logs.into_iter().filter(|log| !log.removed && contracts.contains(&log.address()));
        let events = events.filter_map(|log| {
            let number = log.block_number.filter(|number| (from..=to).contains(number))?;
            let (first, by) = (*log.topics().get(1)?, log.address());
            let is_of_factory = factories.contains(&by);
            let payments = if is_of_factory { self.awaited.returned(first, by) } else { vec![Hash32(first.0)] };
            let (block, has_landed) = (Hash32(log.block_hash?.0), is_of_factory || self.escrows.contains(&by));
            Some(payments.into_iter().map(move |payment| (number, Event { payment, block, has_landed })))
        });
        Ok(events.flatten().collect())
    }

    /// The transfers to deposit addresses in these blocks. Nothing rests on one: who waits looks what is there.
    async fn transfers(&self, from: u64, head: &Block) -> Result<Vec<(u64, Event)>, Fault> {
        let awaited: Vec<(Address, Awaited)> = self.awaited.at(head.time).into_iter().collect();
        let mut events = Vec::new();
        for awaited in awaited.chunks(AWAITED_AT_ONCE) {
            let tokens: BTreeSet<Address> = awaited.iter().map(|(_, awaited)| awaited.token).collect();
            let receivers: Vec<B256> = awaited.iter().map(|(address, _)| address.into_word()).collect();
            let filter = json!({
                "fromBlock": U64::from(from), "toBlock": U64::from(head.number), "address": tokens,
                "topics": [Erc20::Transfer::SIGNATURE_HASH, null, receivers],
            });
            let logs: Vec<Log> = self.node.request("eth_getLogs", (filter,)).await?;
            events.extend(logs.into_iter().filter(|log| !log.removed).filter_map(|log| {
                let number = log.block_number.filter(|number| (from..=head.number).contains(number))?;
                let to = Address::from_word(*log.topics().get(2)?);
                let (_, known) = awaited.iter().find(|(address, _)| *address == to)?;
                let event = Event { payment: known.payment, block: Hash32(log.block_hash?.0), has_landed: false };
                (known.token == log.address()).then_some((number, event))
            }));
        }
        Ok(events)
    }

    async fn all_between(&self, from: u64, head: &Block) -> Result<Vec<(u64, Event)>, Fault> {
        let mut events = self.between(from, head.number).await?;
        // Who waits for one looks by itself from time to time, and nobody else has to wait for that.
        let chain_id = self.node.chain_id();
        match timeout(TRANSFERS_WAIT_MAX, self.transfers(from, head)).await {
            Ok(Ok(transfers)) => events.extend(transfers),
            Ok(Err(fault)) => {
                let fault = Transient::from(fault);
                tracing::debug!(%chain_id, %fault, "transfers to deposit addresses are not known");
            }
            Err(_) => tracing::debug!(%chain_id, "transfers to deposit addresses are not known in time"),
        }
        Ok(events)
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
            match self.all_between(from, &head).await {
                // Providers differ in how many blocks they allow.
                Err(Fault::Rejected(_)) if blocks > AGAIN_BLOCKS => {}
                events => return Ok(Events { from, is_complete: true, events: events? }),
            }
        }
        let from = head.number.saturating_add(1).saturating_sub(AGAIN_BLOCKS);
        Ok(Events { from, is_complete: false, events: self.all_between(from, &head).await? })
    }
}

fn block(BlockRef { number, hash, time }: BlockRef) -> Block {
    Block { number, hash: Hash32(hash.0), time }
}
