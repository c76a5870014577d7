//! Watch over the submitters: nonces that nothing uses, coins, and what operators were told, as one process has seen them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use alloy::primitives::U256;
use chrono::TimeDelta;

use events::{ChainId, event::TransactionPrepared, time::Timestamp};
use journal::ledger::{Reservation, SignerAccount};

/// How often an account that is low is warned of.
const WARN_EVERY: TimeDelta = TimeDelta::minutes(10);

/// The state of a submitter, as the last look found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignerHealth {
    /// The chain.
    pub chain_id: ChainId,
    /// The account.
    pub account: String,
    /// Its coins at the newest block, wei.
    pub balance: U256,
    /// How many usual deposits they pay for at the newest block's price.
    pub deposits_left: u64,
    /// Whether that is fewer than the chain's `submitter_deposits_warning`.
    pub low: bool,
    /// When it was looked at.
    pub checked_at: Timestamp,
}

/// What was seen of the submitters so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The next nonce of each account while something waits for it, and since when.
    blocked: Mutex<HashMap<SignerAccount, Blocked>>,
    health: Mutex<HashMap<SignerAccount, Health>>,
    /// The last nonce of each account whose transaction a node refuses for ever: it fits no block.
    hopeless: Mutex<HashMap<SignerAccount, u64>>,
    /// When it was last said of an account that a transaction of it waits.
    warned: Mutex<HashMap<SignerAccount, Timestamp>>,
}

/// What one look found of the next nonce.
pub(super) struct Seen {
    pub nonce: u64,
    pub reservation: Option<Reservation>,
    /// Whether the node knows a transaction at it.
    pub known: bool,
}

/// A next nonce that something waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocked {
    nonce: u64,
    /// What it was given out for; `None` for a nonce that was given out for nothing.
    pub reservation: Option<Reservation>,
    pub since: Timestamp,
    /// Since when the node has known no transaction at it.
    pub unknown_since: Option<Timestamp>,
    /// When it was looked at last. What happened in a long pause since then nobody knows.
    looked_at: Timestamp,
}

#[derive(Debug, Clone)]
struct Health {
    seen: SignerHealth,
    warned_at: Option<Timestamp>,
}

impl Watch {
    /// Notes the next nonce of `account`, if anything waits for it, and says since when it is the next. A pause longer than
    /// `pause_max` since the last look begins it anew.
    pub fn blocked(
        &self,
        account: &SignerAccount,
        seen: Option<Seen>,
        pause_max: TimeDelta,
        now: Timestamp,
    ) -> Option<Blocked> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        let mut all = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Seen { nonce, reservation, known }) = seen else {
            all.remove(account);
            return None;
        };
        let before = all.get(account).filter(|before| {
            (before.nonce, &before.reservation) == (nonce, &reservation) && now - before.looked_at <= pause_max
        });
        let since = before.map_or(now, |before| before.since);
        let unknown_since = (!known).then(|| before.and_then(|before| before.unknown_since).unwrap_or(now));
        let blocked = Blocked { nonce, reservation, since, unknown_since, looked_at: now };
        all.insert(account.clone(), blocked.clone());
        Some(blocked)
    }

    /// Notes that no node will take `transaction`.
    pub fn give_up(&self, transaction: &TransactionPrepared) {
        let account = SignerAccount { chain_id: transaction.chain_id.clone(), address: transaction.sender.clone() };
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        let mut all = self.hopeless.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(nonce) = transaction.validity.nonce() else { return };
        if all.insert(account.clone(), nonce) != Some(nonce) {
            tracing::warn!(chain_id = %account.chain_id, sender = account.address.as_str(), nonce,
                "a node takes a transaction for larger than a block");
        }
    }

    /// Whether what was signed for `nonce` was refused for ever.
    pub fn is_hopeless(&self, account: &SignerAccount, nonce: u64) -> bool {
        self.hopeless.lock().unwrap_or_else(PoisonError::into_inner).get(account) == Some(&nonce)
    }

    /// Waits anew for the next nonce of `account`.
    pub fn restart(&self, account: &SignerAccount, now: Timestamp) {
        let mut all = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(blocked) = all.get_mut(account) {
            blocked.since = now;
            blocked.unknown_since = blocked.unknown_since.map(|_| now);
        }
    }

    /// Whether something about `account` is to be said again.
    pub fn is_due(&self, account: &SignerAccount, now: Timestamp) -> bool {
        let mut all = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let due = all.get(account).is_none_or(|at| now - *at >= WARN_EVERY);
        if due {
            all.insert(account.clone(), now);
        }
        due
    }

    /// The submitters that were looked at, as they were found last.
    pub fn health(&self) -> Vec<SignerHealth> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen: Vec<_> = health.values().map(|health| health.seen.clone()).collect();
        seen.sort_by(|a, b| (&a.chain_id, &a.account).cmp(&(&b.chain_id, &b.account)));
        seen
    }

    /// Keeps the state of an account, and says so where an operator has to act.
    pub fn note(&self, account: SignerAccount, seen: SignerHealth) {
        let mut all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(&account);
        let was_low = before.is_some_and(|before| before.seen.low);
        let mut warned_at = before.and_then(|before| before.warned_at).filter(|_| seen.low);
        if seen.low && warned_at.is_none_or(|at| seen.checked_at - at >= WARN_EVERY) {
            tracing::warn!(chain_id = %seen.chain_id, account = seen.account, balance = %seen.balance,
                deposits_left = seen.deposits_left, "a submitter is low on coins for gas");
            warned_at = Some(seen.checked_at);
        } else if was_low && !seen.low {
            tracing::info!(chain_id = %seen.chain_id, account = seen.account, balance = %seen.balance,
                deposits_left = seen.deposits_left, "a submitter has coins again");
        }
        all.insert(account, Health { seen, warned_at });
    }
}
