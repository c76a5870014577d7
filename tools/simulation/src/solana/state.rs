//! State: the accounts after a block, as far as they are others than those of the genesis.

use std::{collections::BTreeMap, sync::Arc};

use solana_account::{AccountSharedData, ReadableAccount};

use gateway_program::Key;

/// Accounts by their addresses; cheap to clone. One without lamports is none.
#[derive(Debug, Clone, Default)]
pub(super) struct State(Arc<BTreeMap<Key, AccountSharedData>>);

impl State {
    /// What became of the account, if anything did since the genesis.
    pub fn changed(&self, key: &Key) -> Option<&AccountSharedData> {
        self.0.get(key)
    }

    /// Puts an account there.
    pub fn set(&mut self, key: Key, account: AccountSharedData) {
        Arc::make_mut(&mut self.0).insert(key, account);
    }

    /// Whether it is the same by where it lies, which is enough for what was not changed.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// All that changed since the genesis and is there.
    pub fn there(&self) -> impl Iterator<Item = (&Key, &AccountSharedData)> {
        self.0.iter().filter(|(_, account)| account.lamports() > 0)
    }

    /// The keys of accounts that differ from those of `other`.
    pub fn differences(&self, other: &Self) -> Vec<Key> {
        let mine = self.0.iter().filter(|(key, account)| other.0.get(*key) != Some(account));
        let theirs = other.0.keys().filter(|key| !self.0.contains_key(*key));
        mine.map(|(key, _)| key).chain(theirs).copied().collect()
    }
}
