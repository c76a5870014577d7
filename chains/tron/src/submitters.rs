//! Submitters: the accounts that send the gateway's transactions and pay for them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use alloy::primitives::Address;
use chrono::TimeDelta;

use events::time::Timestamp;
use sagas::ports::Transient;
use signer::Secp256k1Key;

use super::{
    address,
    cost::{Cost, RESERVATION_ENERGY},
    node::{AccountResources, Node, Prices},
};

/// How often it is said that a submitter runs low.
const WARN_EVERY: TimeDelta = TimeDelta::minutes(10);

/// Who may send for a payment.
pub(super) struct Senders<'a> {
    /// Their chain.
    pub node: &'a Node,
    /// Their keys, the preferred one first.
    pub keys: Vec<&'a Secp256k1Key>,
    /// How many exits whoever sends must be able to pay for after it.
    pub exits_left: u64,
    /// Where it is said that one runs low.
    pub warnings: &'a Warnings,
    /// When they are asked.
    pub now: Timestamp,
}

impl<'a> Senders<'a> {
    /// The one whom the payment prefers.
    ///
    /// # Errors
    /// [`Transient`] when there is none.
    pub fn first(&self) -> Result<&'a Secp256k1Key, Transient> {
        self.keys
            .first()
            .copied()
            .ok_or_else(|| Transient::misconfigured(format!("{} has no submitter", self.node.chain_id())))
    }

    /// The one whom the payment prefers among those that can pay `cost` and what they leave over; `None` when nobody can.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn choose(&self, cost: &Cost, prices: &Prices) -> Result<Option<&'a Secp256k1Key>, Transient> {
        let cost = cost.with_exits(self.exits_left);
        for submitter in &self.keys {
            let resources = self.node.resources(submitter.address()).await?;
            self.warnings.look(self.node, submitter.address(), &resources, prices, self.now);
            if cost.lacking(&resources, prices).is_none() {
                return Ok(Some(submitter));
            }
        }
        Ok(None)
    }
}

/// When it was last said of which submitter that it runs low.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<BTreeMap<Address, Timestamp>>);

impl Warnings {
    /// Warns of a submitter that pays for few more deposits, every ten minutes.
    pub fn look(&self, node: &Node, account: Address, resources: &AccountResources, prices: &Prices, now: Timestamp) {
        let energy =
            resources.balance_sun.checked_div(prices.energy_sun).unwrap_or(u64::MAX).saturating_add(resources.energy);
        let deposits_left = energy / RESERVATION_ENERGY;
        if deposits_left >= node.config().common.submitter_deposits_warning {
            return;
        }
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.get(&account).is_some_and(|at| now - *at < WARN_EVERY) {
            return;
        }
        let (chain_id, sun, text) = (node.chain_id(), resources.balance_sun, address::text(account));
        tracing::warn!(%chain_id, account = text, sun, deposits_left, "a submitter runs out of TRX");
        warned.insert(account, now);
    }
}
