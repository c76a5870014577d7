//! Submitters: the accounts that send the gateway's transactions and pay for them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use chrono::TimeDelta;
use gateway_program::{Key, account::Escrow, token::ACCOUNT_SIZE};

use events::time::Timestamp;
use sagas::ports::Transient;
use signer::Ed25519Key;

use super::{
    node::Node,
    program::text,
    transaction::{PRICE_MAX, UNITS_MAX},
};

/// How often a submitter that runs low is warned of.
const WARN_EVERY: TimeDelta = TimeDelta::minutes(10);
/// Lamports that an account holds for each of its bytes, to live for ever.
const LAMPORTS_PER_BYTE: u64 = 6_960;
/// What an account takes besides its data.
const ACCOUNT_BYTES: u64 = 128;
/// Lamports for each signature.
const LAMPORTS_PER_SIGNATURE: u64 = 5_000;
/// Most signatures that the gateway's transactions carry: submitter, reserver, and one of the precompile.
const SIGNATURES: u64 = 3;

const fn rent(bytes: usize) -> u64 {
    // An account's size is far below what overflows.
    (ACCOUNT_BYTES + bytes as u64) * LAMPORTS_PER_BYTE
}

/// Most lamports that a transaction of the gateway takes from its submitter: the dearest one makes an escrow and its vault.
/// The rent of the vault comes back at the payment's end, that of the record a month later.
pub(super) const LAMPORTS_MAX: u64 = rent(Escrow::SIZE)
    + rent(ACCOUNT_SIZE)
    + SIGNATURES * LAMPORTS_PER_SIGNATURE
    + PRICE_MAX * UNITS_MAX as u64 / 1_000_000;

/// Most lamports that an exit takes: it may make an account for the payer's tokens.
const EXIT_LAMPORTS: u64 =
    rent(ACCOUNT_SIZE) + SIGNATURES * LAMPORTS_PER_SIGNATURE + PRICE_MAX * UNITS_MAX as u64 / 1_000_000;

/// What an account must keep to go on existing.
pub(super) const LAMPORTS_MIN: u64 = rent(0);

/// The first of `submitters` that can pay for a transaction, and has the lamports for so many exits left then. `balances` are
/// their lamports, in order.
///
/// # Errors
/// [`Transient`] when none can: nothing is signed before somebody can pay.
pub(super) fn choose<'a>(
    node: &Node,
    submitters: &[&'a Ed25519Key],
    balances: &[u64],
    exits_left: u64,
) -> Result<&'a Ed25519Key, Transient> {
    let least = EXIT_LAMPORTS.saturating_mul(exits_left).saturating_add(LAMPORTS_MAX + LAMPORTS_MIN);
    let found = submitters.iter().zip(balances).find(|(_, balance)| **balance >= least);
    let none =
        || Transient::rate_limited(format!("no submitter of {} has the lamports for a transaction", node.chain_id()));
    found.map(|(submitter, _)| *submitter).ok_or_else(none)
}

/// When each submitter that runs low was last warned of.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<BTreeMap<Key, Timestamp>>);

impl Warnings {
    /// Warns of a submitter that pays for few more deposits, every ten minutes.
    pub fn check(&self, node: &Node, account: &Ed25519Key, lamports: u64, now: Timestamp) {
        let deposits_left = lamports.saturating_sub(LAMPORTS_MIN) / LAMPORTS_MAX;
        if deposits_left >= node.config().common.submitter_deposits_warning {
            return;
        }
        let key = account.public();
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.get(&key).is_some_and(|at| now - *at < WARN_EVERY) {
            return;
        }
        let (chain_id, account) = (node.chain_id(), text(&key));
        tracing::warn!(%chain_id, account, lamports, deposits_left, "a submitter runs out of lamports");
        warned.insert(key, now);
    }
}
