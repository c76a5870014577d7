//! Block logs: what escrows and proxies logged in the newest blocks, and what came to deposit addresses, as a log watcher was told once. A hint, and enough for what is
//! shown as provisional.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::SolEvent,
};

use escrow_abi::contracts::DevToken as Trc20;

use super::query::{Block, Info, Log};

/// What is known of the newest blocks of a chain. Nothing in it was told twice.
#[derive(Debug, Default)]
pub(super) struct BlockLogs(Mutex<Known>);

#[derive(Debug, Default)]
pub(super) struct Known {
    pub blocks: BTreeMap<u64, Arc<KnownBlock>>,
    /// How often the results of a block were missing.
    pub faults: BTreeMap<u64, u32>,
    /// In how many rounds in a row a block itself was missing.
    pub header_faults: u32,
    /// For how many rounds in a row the results of a block were missing that is asked for again.
    pub untold_rounds: u32,
    /// The first block that is asked about: those before were settled when the chain was first followed, or followed again.
    pub first: u64,
}

#[derive(Debug)]
pub(super) struct KnownBlock {
    pub block: Block,
    /// As its header says.
    pub has_transactions: bool,
    /// Its results, where they were told: of the transactions in which escrows and proxies logged something, or money came to a
    /// deposit address, with only that.
    pub infos: Option<Vec<Info>>,
    /// They were asked for after the block was solidified.
    pub is_settled: bool,
}

/// What came to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    /// In the token's smallest unit.
    pub amount: U256,
    /// The last block in which something came.
    pub block_number: Option<u64>,
}

impl Known {
    pub fn last(&self) -> Option<u64> {
        self.blocks.last_key_value().map(|(number, _)| *number)
    }

    /// Block `number`, where it is the one with this id that is known.
    pub fn at(&self, number: u64, id: B256) -> Option<Arc<KnownBlock>> {
        self.blocks.get(&number).filter(|known| known.block.id == id).cloned()
    }

    /// The results of block `number` were missing; how often they were.
    pub fn fault(&mut self, number: u64) -> u32 {
        let faults = self.faults.entry(number).or_default();
        *faults = faults.saturating_add(1);
        *faults
    }

    /// Forgets all blocks before `number`.
    pub fn forget_before(&mut self, number: u64) {
        self.blocks = self.blocks.split_off(&number);
        self.faults = self.faults.split_off(&number);
    }
}

impl BlockLogs {
    // A panic while it is held leaves at worst a hint too many or too few.
    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Block `number` and what escrows and proxies logged in it, by one answer.
    pub fn shown(&self, number: u64) -> Option<Arc<KnownBlock>> {
        self.known().blocks.get(&number).filter(|known| known.infos.is_some()).cloned()
    }

    /// Whether escrows or proxies logged what `is` describes in a block up to `number`.
    pub fn has_up_to(&self, number: u64, is: impl Fn(&Log) -> bool) -> bool {
        let known = self.known();
        let mut infos = known.blocks.range(..=number).flat_map(|(_, known)| known.infos.iter().flatten());
        infos.any(|info| info.failure.is_none() && info.logs.iter().any(&is))
    }

    /// What came of `token` to a deposit address in blocks after `number`, as far as they are known and the address was waited at. A
    /// transaction that a reorganisation moved to another block counts once.
    pub fn arrived(&self, token: Address, at: Address, number: u64) -> Arrived {
        let known = self.known();
        let (mut arrived, mut counted) = (Arrived { amount: U256::ZERO, block_number: None }, BTreeSet::new());
        for (number, known) in known.blocks.range(number.saturating_add(1)..) {
            for info in known.infos.iter().flatten().filter(|info| info.failure.is_none()) {
                let transfers = info.logs.iter().filter(|log| log.address == token).filter_map(|log| {
                    let event = Trc20::Transfer::decode_raw_log_validate(&log.topics, &log.data).ok()?;
                    (event.to == at).then_some(event.value)
                });
                let amount = transfers.fold(U256::ZERO, U256::saturating_add);
                if !amount.is_zero() && counted.insert(info.id) {
                    arrived.amount = arrived.amount.saturating_add(amount);
                    arrived.block_number = Some(*number);
                }
            }
        }
        arrived
    }

    /// The transaction `id` and its block, where escrows or proxies logged something in it; by one answer.
    pub fn transaction(&self, id: B256) -> Option<(Block, Info)> {
        let known = self.known();
        let mut infos = known
            .blocks
            .values()
            .rev()
            .flat_map(|known| known.infos.iter().flatten().map(move |info| (known.block, info)));
        infos.find(|(_, info)| info.id == id).map(|(block, info)| (block, info.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(id: u8, token: Address, to: Address, value: u64) -> Info {
        let event = Trc20::Transfer { from: Address::repeat_byte(9), to, value: U256::from(value) };
        let log = event.encode_log_data();
        let log = Log { address: token, topics: log.topics().to_vec(), data: log.data.to_vec() };
        Info {
            id: B256::repeat_byte(id),
            block_number: 0,
            block_time_ms: 0,
            failure: None,
            energy: 0,
            fee_sun: 0,
            contract: None,
            logs: vec![log],
        }
    }

    #[test]
    fn what_came_counts_once_wherever_a_reorganisation_put_it_and_not_where_it_failed() {
        let (token, at) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let failed = Info { failure: Some("REVERT".to_owned()), ..transfer(5, token, at, 1_000) };
        let blocks = [
            (10, vec![transfer(1, token, at, 1_000)]),
            (11, vec![transfer(2, token, at, 3), transfer(3, Address::repeat_byte(7), at, 1_000)]),
            (12, vec![transfer(2, token, at, 3), transfer(4, token, at, 4), failed]),
            (13, vec![transfer(6, token, Address::repeat_byte(8), 1_000)]),
        ];
        let logs = BlockLogs::default();
        for (number, infos) in blocks {
            let block = Block { number, id: B256::repeat_byte(1), parent: B256::ZERO, time_ms: 0 };
            let known = KnownBlock { block, has_transactions: true, infos: Some(infos), is_settled: false };
            logs.known().blocks.insert(number, Arc::new(known));
        }
        // Up to block 10 the solidified state tells.
        let arrived = logs.arrived(token, at, 10);
        assert_eq!(arrived, Arrived { amount: U256::from(7), block_number: Some(12) });
        assert_eq!(logs.arrived(token, at, 12), Arrived { amount: U256::ZERO, block_number: None });
    }
}
