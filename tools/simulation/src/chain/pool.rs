//! Transactions that wait for a block.

use std::{collections::BTreeMap, sync::Arc};

use alloy::{
    consensus::Transaction,
    primitives::{Address, B256},
};

use super::{RpcFault, block::Signed};

/// What a replacement must offer more than what it replaces, in percent, as geth wants it.
const BUMP_PERCENT: u128 = 10;

/// A transaction that waits.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub transaction: Arc<Signed>,
    /// The place in the order in which transactions came.
    pub arrival: u64,
    /// The first block that may hold it.
    pub not_before: u64,
}

/// The transactions that wait, by sender and nonce.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    senders: BTreeMap<Address, BTreeMap<u64, Waiting>>,
    arrivals: u64,
}

impl Pool {
    /// Takes a transaction in; one at the same nonce must offer a tenth more.
    pub fn add(&mut self, transaction: Arc<Signed>) -> Result<(), RpcFault> {
        let queue = self.senders.entry(transaction.sender).or_default();
        if let Some(old) = queue.get(&transaction.nonce()) {
            if old.transaction.hash() == transaction.hash() {
                return Err(RpcFault::refused("already known"));
            }
            if !outbids(&transaction, &old.transaction) {
                return Err(RpcFault::refused("replacement transaction underpriced"));
            }
        }
        self.arrivals += 1;
        let waiting = Waiting { arrival: self.arrivals, not_before: 0, transaction };
        queue.insert(waiting.transaction.nonce(), waiting);
        Ok(())
    }

    /// Puts a transaction of a dropped block back, unless another waits at its nonce.
    pub fn put_back(&mut self, transaction: Arc<Signed>) {
        self.arrivals += 1;
        let waiting = Waiting { arrival: self.arrivals, not_before: 0, transaction };
        let queue = self.senders.entry(waiting.transaction.sender).or_default();
        queue.entry(waiting.transaction.nonce()).or_insert(waiting);
    }

    /// All that wait, in the order in which they came.
    pub fn all(&self) -> Vec<&Waiting> {
        let mut all: Vec<&Waiting> = self.senders.values().flat_map(BTreeMap::values).collect();
        all.sort_by_key(|waiting| waiting.arrival);
        all
    }

    pub fn get(&self, hash: B256) -> Option<&Waiting> {
        self.senders.values().flat_map(BTreeMap::values).find(|waiting| waiting.transaction.hash() == hash)
    }

    pub fn get_mut(&mut self, hash: B256) -> Option<&mut Waiting> {
        self.senders.values_mut().flat_map(BTreeMap::values_mut).find(|waiting| waiting.transaction.hash() == hash)
    }

    /// What waits of `sender` at `nonce`.
    pub fn at(&self, sender: Address, nonce: u64) -> Option<&Waiting> {
        self.senders.get(&sender)?.get(&nonce)
    }

    pub fn senders(&self) -> impl Iterator<Item = Address> + '_ {
        self.senders.keys().copied()
    }

    /// The next nonce of `sender`, whose next one in the chain is `nonce`, with what waits counted.
    pub fn next_nonce(&self, sender: Address, mut nonce: u64) -> u64 {
        while self.at(sender, nonce).is_some() {
            nonce += 1;
        }
        nonce
    }

    /// Forgets a transaction; whether it was there.
    pub fn remove(&mut self, hash: B256) -> bool {
        let Some(waiting) = self.get(hash) else { return false };
        let (sender, nonce) = (waiting.transaction.sender, waiting.transaction.nonce());
        self.senders.get_mut(&sender).is_some_and(|queue| queue.remove(&nonce).is_some())
    }

    /// Forgets what can never be mined: `next` is each sender's next nonce in the chain.
    pub fn prune(&mut self, next: impl Fn(Address) -> u64) {
        for (sender, queue) in &mut self.senders {
            let next = next(*sender);
            queue.retain(|nonce, _| *nonce >= next);
        }
        self.senders.retain(|_, queue| !queue.is_empty());
    }
}

fn outbids(new: &Signed, old: &Signed) -> bool {
    let enough = |new: u128, old: u128| new >= old.saturating_add(old.saturating_mul(BUMP_PERCENT).div_ceil(100));
    let tip = |signed: &Signed| {
        signed.envelope.max_priority_fee_per_gas().unwrap_or_else(|| signed.envelope.max_fee_per_gas())
    };
    enough(new.envelope.max_fee_per_gas(), old.envelope.max_fee_per_gas()) && enough(tip(new), tip(old))
}
