//! Log source: what the escrows and proxies of a chain logged, and what came to deposit addresses, for its log watcher.
//!
//! No node of Tron's searches logs. So the results of each block are asked for, once when it is the newest and once when it is
//! solidified, and blocks are followed from child to parent.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use alloy::{
    primitives::{Address, B256},
    sol_types::SolEvent,
};

use chains::log_watcher::{self, AGAIN_BLOCKS, Event, Events, LogSource, Span};
use escrow_abi::{
    awaited_transfers::AwaitedTransfers,
    contracts::{DevToken as Trc20, GatewayEscrow},
    deposit_addresses::DepositAddresses,
};
use events::{Account, ChainId, Hash32};
use sagas::ports::Transient;

use super::{
    address::address,
    block_logs::{Known, KnownBlock},
    node::{Block, Header, Info, Log, Node, State},
};

/// Most blocks whose results are asked for in a round.
const BLOCKS_MAX: u64 = 2 * AGAIN_BLOCKS;
/// So often a block's results may be missing before it is passed over: others choose what is in it. In so many rounds in a row a
/// block itself may be missing before those up to it are given up.
const FAULTS_MAX: u32 = 3;

/// The escrows and proxies that a chain's configuration trusts, and the deposit addresses that payments wait at.
#[derive(Debug)]
pub(super) struct Logs {
    node: Node,
    awaited: Arc<AwaitedTransfers>,
    escrows: BTreeSet<Address>,
    proxies: BTreeSet<Address>,
    head: Mutex<Option<Header>>,
}

/// What came of asking about a block.
struct Looked {
    known: Arc<KnownBlock>,
    /// It is not asked for again, at least before it is solidified.
    is_over: bool,
}

impl Logs {
    /// What those logged that the configuration of `node` trusts.
    pub fn of(node: Node, awaited: Arc<AwaitedTransfers>) -> Self {
        let config = &node.config().common;
        Self {
            escrows: config.escrows().filter_map(|account| address(account).ok()).collect(),
            proxies: config.proxies().filter_map(|account| address(account).ok()).collect(),
            head: Mutex::new(None),
            awaited,
            node,
        }
    }

    fn is_followed(&self, contract: &Address) -> bool {
        self.escrows.contains(contract) || self.proxies.contains(contract)
    }

    /// Asks for what is in block `number`, whose id is `id`. Where only the solidified state does not tell it, what the newest
    /// state told stands. `None` where the block has been missing for so long that it and those before it are given up.
    async fn look(&self, number: u64, id: B256, is_settled: bool) -> Result<Option<Looked>, Transient> {
        let before = self.node.block_logs().known().at(number, id);
        let header = match &before {
            Some(known) => Header { block: known.block, has_transactions: known.has_transactions },
            None => match self.header(number, id).await {
                Ok(header) => header,
                Err(fault) => {
                    let mut known = self.node.block_logs().known();
                    known.header_faults += 1;
                    if known.header_faults < FAULTS_MAX {
                        return Err(fault);
                    }
                    tracing::debug!(chain_id = %self.node.chain_id(), number, %fault, "blocks are given up");
                    known.first = number.saturating_add(1);
                    return Ok(None);
                }
            },
        };
        let infos = self.infos(&header, is_settled).await;
        let Header { block, has_transactions } = header;
        let mut known = self.node.block_logs().known();
        let (infos, is_over) = match infos {
            Ok(infos) => (Some(infos), true),
            Err(fault) => {
                let is_over = known.fault(number) >= FAULTS_MAX;
                let before = before.and_then(|known| known.infos.clone());
                // A node that is behind has the other blocks.
                let is_behind = matches!(fault, Transient::Contradiction(_));
                if before.is_none() && !is_over && !is_behind {
                    return Err(fault);
                }
                tracing::debug!(chain_id = %self.node.chain_id(), number, is_over, %fault, "a block is passed over");
                (before, is_over)
            }
        };
        if is_over {
            known.faults.remove(&number);
        }
        let found = Arc::new(KnownBlock { block, has_transactions, infos, is_settled: is_settled && is_over });
        known.blocks.insert(number, found.clone());
        Ok(Some(Looked { known: found, is_over }))
    }

    /// The header of block `number`, whose id is `id`.
    async fn header(&self, number: u64, id: B256) -> Result<Header, Transient> {
        let head = *self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(head) = head.filter(|head| head.block.id == id) {
            return Ok(head);
        }
        let header = self.node.header(number, State::Newest).await?.filter(|header| header.block.id == id);
        header.ok_or_else(|| self.node.contradiction(format!("block {number} is not the parent of the one after")))
    }

    /// The payment that waits for what the log tells: money that comes to its deposit address, or leaves it; by the word of its
    /// token and of its factory.
    fn awaited_by(&self, log: &Log) -> Option<Hash32> {
        let [kind, from, ..] = log.topics.as_slice() else { return None };
        if *kind == DepositAddresses::GivenBack::SIGNATURE_HASH {
            // Each address is one payment's.
            return self.awaited.returned(*from, log.address).first().copied();
        }
        if *kind != Trc20::Transfer::SIGNATURE_HASH {
            return None;
        }
        let to = Address::from_word(*log.topics.get(2)?);
        self.awaited.awaited_at(to).filter(|awaited| awaited.token == log.address).map(|awaited| awaited.payment)
    }

    /// What escrows and proxies logged in a block, and what came to deposit addresses in it.
    async fn infos(
        &self,
        Header { block, has_transactions }: &Header,
        is_settled: bool,
    ) -> Result<Vec<Info>, Transient> {
        let state = if is_settled { State::Solidified } else { State::Newest };
        let told = self.node.infos_of(block.number, state).await?;
        if told.read.is_empty() && told.unread == 0 && *has_transactions {
            // As a node answers that has no such block yet.
            return Err(self
                .node
                .contradiction(format!("no results of block {}, which has transactions", block.number)));
        }
        let infos = told.read;
        if infos.iter().any(|info| info.block_time_ms != block.time_ms) {
            return Err(self.node.contradiction(format!("results of another block {}", block.number)));
        }
        let infos = infos.into_iter().map(|mut info| {
            info.logs.retain(|log| self.is_followed(&log.address) || self.awaited_by(log).is_some());
            info
        });
        Ok(infos.filter(|info| !info.logs.is_empty()).collect())
    }

    fn events_of<'a>(&'a self, known: &'a KnownBlock) -> impl Iterator<Item = (u64, Event)> + 'a {
        let KnownBlock { block, infos, .. } = known;
        let logs = infos.iter().flatten().filter(|info| info.failure.is_none()).flat_map(|info| &info.logs);
        logs.filter_map(move |log| {
            let kind = log.topics.first();
            let (payment, has_landed) = if self.is_followed(&log.address) {
                // The payer's own deposit is in a block before the reservation is made.
                let is_deposit = kind == Some(&GatewayEscrow::Deposited::SIGNATURE_HASH);
                (Hash32(log.topics.get(1)?.0), self.escrows.contains(&log.address) && !is_deposit)
            } else {
                (self.awaited_by(log)?, kind == Some(&DepositAddresses::GivenBack::SIGNATURE_HASH))
            };
            let event = Event { payment, block: Hash32(block.id.0), has_landed };
            Some((block.number, event))
        })
    }

    /// Follows blocks from the newest to their parents.
    async fn walk(&self, Span { from, settled, head }: Span) -> Result<Events, Transient> {
        let (mut number, mut id) = (head.number, B256::from(head.hash.0));
        let (mut found, mut asked) = (Vec::new(), 0);
        let (mut is_complete, from) = {
            let mut known = self.node.block_logs().known();
            let is_followed = known.last().is_some_and(|last| last.saturating_add(AGAIN_BLOCKS) > head.number);
            if !is_followed {
                *known = Known { first: settled.number.saturating_add(1), ..Known::default() };
            }
            (is_followed, from.max(known.first))
        };
        let (mut is_settled_told, mut is_told) = (true, true);
        loop {
            let is_settled = number <= settled.number;
            let (known, is_again) = {
                let known = self.node.block_logs().known();
                (known.at(number, id), known.faults.contains_key(&number))
            };
            let is_enough = |known: &Arc<KnownBlock>| match known.infos {
                // What the newest state told is asked for again until the solidified state has failed once in this round.
                Some(_) => known.is_settled || !is_settled || !is_settled_told,
                None => !is_again && (known.is_settled || !is_settled),
            };
            let known = match known.filter(is_enough) {
                Some(known) => known,
                None if asked == BLOCKS_MAX => {
                    is_complete = false;
                    number = number.saturating_add(1);
                    break;
                }
                None => {
                    asked += 1;
                    let Some(Looked { known, is_over }) = self.look(number, id, is_settled).await? else {
                        is_complete = false;
                        number = number.saturating_add(1);
                        break;
                    };
                    is_told &= is_over;
                    is_settled_told &= is_over || !is_settled;
                    // What is passed over is told once.
                    is_complete &= known.infos.is_some() || !is_over;
                    known
                }
            };
            found.extend(self.events_of(&known));
            if number <= from {
                break;
            }
            (number, id) = (number - 1, known.block.parent);
        }
        let rounds = {
            let mut known = self.node.block_logs().known();
            known.forget_before(number);
            known.header_faults = 0;
            known.untold_rounds = if is_told { 0 } else { known.untold_rounds.saturating_add(1) };
            known.untold_rounds
        };
        if rounds > FAULTS_MAX && rounds.is_power_of_two() {
            tracing::warn!(chain_id = %self.node.chain_id(), rounds, "results of blocks unknown");
        }
        Ok(Events { from: number, is_complete, events: found })
    }
}

impl LogSource for Logs {
    fn chain_id(&self) -> &ChainId {
        self.node.chain_id()
    }

    fn is_followed(&self, contract: &Account) -> bool {
        address(contract).is_ok_and(|contract| self.is_followed(&contract))
    }

    async fn head(&self) -> Result<log_watcher::Block, Transient> {
        let head = self.node.head_header().await?;
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
        Ok(block(&head.block))
    }

    async fn settled(&self) -> Result<log_watcher::Block, Transient> {
        self.node.watch_settled().await.map(|settled| block(&settled))
    }

    async fn events(&self, span: Span) -> Result<Events, Transient> {
        let events = self.walk(span).await;
        // Also where the walk ended early: its next ones may, too.
        self.node.block_logs().known().forget_before(span.head.number.saturating_sub(BLOCKS_MAX));
        events
    }
}

fn block(block: &Block) -> log_watcher::Block {
    log_watcher::Block { number: block.number, hash: Hash32(block.id.0), time: block.seconds() }
}

#[cfg(test)]
mod tests {
    use chains::config::{CommonConfig, Depth, TronConfig};

    use super::*;

    const HEAD: u64 = 200;
    const SETTLED: u64 = 180;

    /// What a node said that is gone now: blocks up to [`HEAD`], none of them asked for after it was solidified.
    fn logs() -> Logs {
        let account = |number: u8| crate::address::account(Address::repeat_byte(number)).unwrap();
        let common = CommonConfig {
            chain_id: "tron:728126428".parse().unwrap(),
            // Nobody listens there.
            rpc_url: "http://127.0.0.1:1".to_owned(),
            rpc_urls: Vec::new(),
            escrow_contract: account(1),
            fulfillment_proxy: account(2),
            trusted_escrow_contracts: Vec::new(),
            trusted_fulfillment_proxies: Vec::new(),
            reserver: account(3),
            releaser: account(4),
            required_depth: Depth::Finalized,
            refund_delay_seconds: 900,
            submitter_deposits_warning: 1,
            exits_reserved: 1,
            ws_url: None,
            poll_ms: 1_000,
            rpc_timeout_ms: 1_000,
            assets: Vec::new(),
        };
        let logs = Logs::of(
            Node::connect(&TronConfig {
                common,
                api_key: None,
                permit2: None,
                permit2_code: None,
                deposit_address_factory: None,
                deposit_returns_daily_max: 0,
            })
            .unwrap(),
            Arc::default(),
        );
        for number in 0..=HEAD {
            let block = Block { number, id: id(number), parent: id(number.saturating_sub(1)), time_ms: number };
            let known = KnownBlock { block, has_transactions: false, infos: Some(Vec::new()), is_settled: false };
            logs.node.block_logs().known().blocks.insert(number, Arc::new(known));
        }
        logs
    }

    fn id(number: u64) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    fn span(head: u64) -> Span {
        let block = |number| log_watcher::Block { number, hash: Hash32(id(number).0), time: number };
        Span { from: HEAD - AGAIN_BLOCKS, settled: block(SETTLED), head: block(head) }
    }

    /// The first block that is known, and of how many it is known how often their results were missing.
    fn kept(logs: &Logs) -> (Option<u64>, usize) {
        let known = logs.node.block_logs().known();
        (known.blocks.first_key_value().map(|(number, _)| *number), known.faults.len())
    }

    #[tokio::test]
    async fn what_the_newest_state_told_stands_where_the_solidified_state_tells_nothing() {
        let logs = logs();
        for _ in 1..=FAULTS_MAX {
            let events = logs.events(span(HEAD)).await.unwrap();
            assert!(events.is_complete);
            assert_eq!(events.from, HEAD - AGAIN_BLOCKS);
            // One fails in a round, and the others are not asked for.
            assert_eq!(kept(&logs), (Some(HEAD - AGAIN_BLOCKS), 1));
        }
        assert!(logs.node.block_logs().known().blocks[&SETTLED].is_settled, "it is not asked for for ever");
    }

    #[tokio::test]
    async fn a_walk_that_ends_early_forgets_old_blocks_and_one_that_is_missing_is_given_up() {
        let logs = logs();
        let missing = HEAD - 10;
        logs.node.block_logs().known().blocks.remove(&missing);
        for _ in 1..FAULTS_MAX {
            logs.events(span(HEAD)).await.unwrap_err();
            assert_eq!(kept(&logs), (Some(HEAD - BLOCKS_MAX), 0));
        }
        let events = logs.events(span(HEAD)).await.unwrap();
        assert_eq!((events.from, events.is_complete), (missing + 1, false));
        let events = logs.events(span(HEAD)).await.unwrap();
        assert_eq!((events.from, events.is_complete), (missing + 1, true), "that is told once");
        assert_eq!(kept(&logs), (Some(missing + 1), 0));
    }
}
