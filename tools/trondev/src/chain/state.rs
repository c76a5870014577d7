//! The state of all accounts after one block.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use revm::{
    DatabaseRef,
    bytecode::Bytecode,
    primitives::{Address as EvmAddress, B256, KECCAK_EMPTY, U256},
    state::{AccountInfo, EvmState},
};

use crate::{Address, proto::SmartContract};

/// One account.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Sun. All accounts together hold less than `i64::MAX`.
    pub balance: u64,
    pub nonce: u64,
    pub code: Bytecode,
    pub code_hash: B256,
    pub storage: BTreeMap<U256, U256>,
    /// What its deployment said, where a transaction deployed it.
    pub contract: Option<Arc<SmartContract>>,
    /// Milliseconds since 1970.
    pub created_at: i64,
    pub last_operation: i64,
    /// When free bandwidth was last taken, and how much of it counted then.
    pub free_used_at: i64,
    pub free_used: u64,
}

impl Account {
    /// An account that came to be at `now`, in milliseconds since 1970.
    pub fn new(now: i64) -> Self {
        Self {
            balance: 0,
            nonce: 0,
            code: Bytecode::default(),
            code_hash: KECCAK_EMPTY,
            storage: BTreeMap::new(),
            contract: None,
            created_at: now,
            last_operation: 0,
            free_used_at: 0,
            free_used: 0,
        }
    }

    pub fn is_contract(&self) -> bool {
        self.code_hash != KECCAK_EMPTY
    }
}

/// All accounts; a clone shares what neither side changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct State(BTreeMap<EvmAddress, Arc<Account>>);

impl State {
    pub fn get(&self, address: Address) -> Option<&Arc<Account>> {
        self.0.get(&address.evm())
    }

    /// The account, to be changed; one that is not there is made at `now`.
    pub fn entry(&mut self, address: Address, now: i64) -> &mut Account {
        Arc::make_mut(self.0.entry(address.evm()).or_insert_with(|| Arc::new(Account::new(now))))
    }

    /// Puts back what an account was.
    pub fn restore(&mut self, address: Address, account: Arc<Account>) {
        self.0.insert(address.evm(), account);
    }

    /// Takes over what a transaction changed.
    pub fn apply(&mut self, changes: EvmState, now: i64) {
        for (address, change) in changes {
            if !change.is_touched() {
                continue;
            }
            if change.is_selfdestructed() {
                self.0.remove(&address);
                continue;
            }
            // A touched account that holds nothing is none; one that was there before stays, as on Tron.
            if change.is_empty() && !self.0.contains_key(&address) {
                continue;
            }
            let account = self.entry(Address::from_evm(address), now);
            if change.is_created() {
                account.storage.clear();
            }
            account.nonce = change.info.nonce;
            // All sun together fits: transactions move it and never make it.
            account.balance = change.info.balance.saturating_to();
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

/// The state as the EVM asks for it, with the ids of the last 256 blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub state: &'a State,
    /// Of block `number - 1`, the one before it, and so on.
    pub parents: &'a [B256],
    pub number: u64,
}

impl DatabaseRef for View<'_> {
    type Error = Infallible;

    fn basic_ref(&self, address: EvmAddress) -> Result<Option<AccountInfo>, Infallible> {
        Ok(self.state.0.get(&address).map(|account| AccountInfo {
            balance: U256::from(account.balance),
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

    fn storage_ref(&self, address: EvmAddress, slot: U256) -> Result<U256, Infallible> {
        Ok(self.state.0.get(&address).and_then(|account| account.storage.get(&slot)).copied().unwrap_or_default())
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, Infallible> {
        let back = self.number.checked_sub(number.saturating_add(1)).and_then(|back| usize::try_from(back).ok());
        Ok(back.and_then(|back| self.parents.get(back)).copied().unwrap_or_default())
    }
}
