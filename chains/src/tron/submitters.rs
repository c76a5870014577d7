//! The accounts that send the gateway's transactions and pay for them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use alloy::{primitives::Address, signers::local::PrivateKeySigner};
use chrono::TimeDelta;

use events::{PaymentId, time::Timestamp};
use sagas::ports::Transient;

use super::{
    address,
    calls::{Cost, RESERVATION_ENERGY},
    node::{Means, Node, Prices},
};

/// How often it is said that a submitter runs low.
const WARN_EVERY: TimeDelta = TimeDelta::minutes(10);

/// The submitters in the order in which a payment prefers them: the payments are spread evenly over the first place.
fn preferred<'a>(submitters: &'a [PrivateKeySigner], payment_id: &PaymentId) -> Vec<&'a PrivateKeySigner> {
    let head = payment_id.on_chain().0.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let mut signers: Vec<_> = submitters.iter().collect();
    let first = head.checked_rem(signers.len() as u64).unwrap_or_default();
    // The remainder is below a length that is a usize.
    signers.rotate_left(first as usize);
    signers
}

/// Who may send for a payment.
#[derive(Clone, Copy)]
pub(super) struct Submitters<'a> {
    /// Their chain.
    pub node: &'a Node,
    /// Their keys.
    pub keys: &'a [PrivateKeySigner],
    /// The payment.
    pub payment_id: &'a PaymentId,
    /// Where it is said that one runs low.
    pub warnings: &'a Warnings,
    /// When they are asked.
    pub now: Timestamp,
}

impl<'a> Submitters<'a> {
    /// The one whom the payment prefers.
    ///
    /// # Errors
    /// [`Transient`] when there is none.
    pub fn first(&self) -> Result<&'a PrivateKeySigner, Transient> {
        let first = preferred(self.keys, self.payment_id).into_iter().next();
        first.ok_or_else(|| Transient(format!("{} has no submitter", self.node.chain_id())))
    }

    /// The one whom the payment prefers among those that can pay `cost`; `None` when nobody can.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn choose(&self, cost: &Cost, prices: &Prices) -> Result<Option<&'a PrivateKeySigner>, Transient> {
        for submitter in preferred(self.keys, self.payment_id) {
            let means = self.node.means(submitter.address()).await?;
            self.warnings.look(self.node, submitter.address(), &means, prices, self.now);
            if cost.lacking(&means, prices).is_none() {
                return Ok(Some(submitter));
            }
        }
        Ok(None)
    }
}

/// When it was last said of which submitter that it runs low.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<BTreeMap<String, Timestamp>>);

impl Warnings {
    /// Warns of a submitter that pays for few more deposits, every ten minutes.
    pub fn look(&self, node: &Node, account: Address, means: &Means, prices: &Prices, now: Timestamp) {
        let energy = means.balance_sun.checked_div(prices.energy_sun).unwrap_or(u64::MAX).saturating_add(means.energy);
        let deposits_left = energy / RESERVATION_ENERGY;
        if deposits_left >= node.config().submitter_deposits_warning {
            return;
        }
        let account = format!("{}/{}", node.chain_id(), address::text(account));
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.get(&account).is_some_and(|at| now - *at < WARN_EVERY) {
            return;
        }
        tracing::warn!(account, sun = means.balance_sun, deposits_left, "a submitter runs out of TRX");
        warned.insert(account, now);
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;

    use super::*;

    #[test]
    fn payments_are_spread_and_stay() {
        let submitters: Vec<_> =
            (1..=3).map(|seed| PrivateKeySigner::from_bytes(&B256::repeat_byte(seed)).unwrap()).collect();
        let mut counts = [0; 3];
        for number in 0..300 {
            let payment = PaymentId::derive("tron:x", &number.to_string());
            let order = preferred(&submitters, &payment);
            assert_eq!(order.len(), 3);
            let first = submitters.iter().position(|key| Some(&key) == order.first()).unwrap();
            counts[first] += 1;
            assert_eq!(preferred(&submitters, &payment), order);
        }
        assert!(counts.iter().all(|count| *count > 60), "{counts:?}");
    }
}
