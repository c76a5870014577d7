//! The accounts that send the gateway's transactions and pay for them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use chrono::TimeDelta;
use ed25519_dalek::SigningKey;
use gateway_program::{account::Escrow, token::ACCOUNT_SIZE};

use events::{PaymentId, time::Timestamp};
use sagas::ports::Transient;

use super::{
    keys,
    node::Node,
    transaction::{PRICE_MAX, UNITS_MAX},
};

/// How often it is said that a submitter runs low.
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

/// What an account must keep to go on existing.
const LAMPORTS_MIN: u64 = rent(0);

/// The submitters in the order in which a payment prefers them: the payments are spread evenly over the first place.
fn preferred<'a>(submitters: &'a [SigningKey], payment_id: &PaymentId) -> Vec<&'a SigningKey> {
    let head = payment_id.on_chain().0.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let mut signers: Vec<_> = submitters.iter().collect();
    let first = head.checked_rem(signers.len() as u64).unwrap_or_default();
    // The remainder is below a length that is a usize.
    signers.rotate_left(first as usize);
    signers
}

/// The submitter whom the payment prefers among those that can pay for a transaction. `balances` are the lamports of
/// `submitters`, in order.
///
/// # Errors
/// [`Transient`] when none can: nothing is signed before somebody can pay.
pub(super) fn choose<'a>(
    node: &Node,
    submitters: &'a [SigningKey],
    balances: &[u64],
    payment_id: &PaymentId,
) -> Result<&'a SigningKey, Transient> {
    let can_pay = |key: &SigningKey| {
        let at = submitters.iter().position(|submitter| submitter == key);
        at.and_then(|at| balances.get(at)).is_some_and(|balance| *balance >= LAMPORTS_MAX + LAMPORTS_MIN)
    };
    let found = preferred(submitters, payment_id).into_iter().find(|key| can_pay(key));
    found.ok_or_else(|| Transient(format!("no submitter of {} has the lamports for a transaction", node.chain_id())))
}

/// When it was last said of which submitter that it runs low.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<BTreeMap<String, Timestamp>>);

impl Warnings {
    /// Warns of a submitter that pays for few more deposits, every ten minutes.
    pub fn look(&self, node: &Node, account: &SigningKey, lamports: u64, now: Timestamp) {
        let deposits_left = lamports.saturating_sub(LAMPORTS_MIN) / LAMPORTS_MAX;
        if deposits_left >= node.config().submitter_deposits_warning {
            return;
        }
        let account = format!("{}/{}", node.chain_id(), keys::account(account));
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.get(&account).is_some_and(|at| now - *at < WARN_EVERY) {
            return;
        }
        tracing::warn!(account, lamports, deposits_left, "a submitter runs out of lamports");
        warned.insert(account, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payments_are_spread_and_stay() {
        let submitters: Vec<_> = (1..=3).map(|seed| SigningKey::from_bytes(&[seed; 32])).collect();
        let mut counts = [0; 3];
        for number in 0..300 {
            let payment = PaymentId::derive("solana:x", &number.to_string());
            let order = preferred(&submitters, &payment);
            assert_eq!(order.len(), 3);
            let first = submitters.iter().position(|key| Some(&key) == order.first()).unwrap();
            counts[first] += 1;
            assert_eq!(preferred(&submitters, &payment), order);
        }
        assert!(counts.iter().all(|count| *count > 60), "{counts:?}");
    }
}
