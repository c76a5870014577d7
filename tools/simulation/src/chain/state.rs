//! The state of all accounts after one block.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use alloy::primitives::{Address, B256, KECCAK256_EMPTY, U256};
use revm::{
    DatabaseRef,
    bytecode::Bytecode,
    state::{AccountInfo, EvmState},
};

use super::block::Block;

/// One account.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub nonce: u64,
    pub balance: U256,
    pub code: Bytecode,
    pub code_hash: B256,
    pub storage: BTreeMap<U256, U256>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            nonce: 0,
            balance: U256::ZERO,
            code: Bytecode::default(),
            code_hash: KECCAK256_EMPTY,
            storage: BTreeMap::new(),
        }
    }
}

/// All accounts; a clone shares what neither side changes.
#[derive(Debug, Clone, Default)]
pub(super) struct State(BTreeMap<Address, Arc<Account>>);

impl State {
    /// The account, empty where there is none.
    pub fn account(&self, address: Address) -> Arc<Account> {
        self.0.get(&address).cloned().unwrap_or_default()
    }

    /// The account, to be changed.
    pub fn account_mut(&mut self, address: Address) -> &mut Account {
        Arc::make_mut(self.0.entry(address).or_default())
    }

    /// What `address` stores at `slot`.
    pub fn stored(&self, address: Address, slot: U256) -> U256 {
        self.0.get(&address).and_then(|account| account.storage.get(&slot)).copied().unwrap_or_default()
    }

    /// Takes over what a transaction changed. The order in which `changes` come makes no difference.
    pub fn apply(&mut self, changes: EvmState) {
        for (address, change) in changes {
            if !change.is_touched() {
                continue;
            }
            if change.is_selfdestructed() || change.is_empty() {
                self.0.remove(&address);
                continue;
            }
            let account = self.account_mut(address);
            if change.is_created() {
                account.storage.clear();
            }
            account.nonce = change.info.nonce;
            account.balance = change.info.balance;
            if account.code_hash != change.info.code_hash {
                account.code_hash = change.info.code_hash;
                account.code = change.info.code.unwrap_or_default();
            }
            for (slot, value) in change.storage {
                if value.present_value.is_zero() {
                    account.storage.remove(&slot);
                } else {
                    account.storage.insert(slot, value.present_value);
                }
            }
        }
    }
}

/// The state as the EVM asks for it, with the blocks before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot<'a> {
    pub state: &'a State,
    pub branch: &'a [Arc<Block>],
}

impl DatabaseRef for Snapshot<'_> {
    type Error = Infallible;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, Infallible> {
        Ok(self.state.0.get(&address).map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            code: Some(account.code.clone()),
            ..AccountInfo::default()
        }))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, Infallible> {
        let account = self.state.0.values().find(|account| account.code_hash == code_hash);
        Ok(account.map(|account| account.code.clone()).unwrap_or_default())
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, Infallible> {
        Ok(self.state.stored(address, slot))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, Infallible> {
        let block = usize::try_from(number).ok().and_then(|number| self.branch.get(number));
        Ok(block.map(|block| block.hash).unwrap_or_default())
    }
}
