//! Awaited transfers: the deposit addresses that payments wait at (ADR 153), for the log watcher of their chain.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use alloy::primitives::{Address, B256};

use events::{Hash32, time::unix_seconds};
use sagas::ports::PayerDeposit;

/// Most deposit addresses whose transfers are asked about. Who waits at others looks by itself from time to time.
const AWAITED_MAX: usize = 2_048;
/// Who waits for a return has looked again by then.
const RETURN_LOOKS_EVERY: Duration = Duration::from_secs(3_600);

/// The deposit addresses that payments wait at, for the log watcher of their chain.
#[derive(Debug, Default)]
pub struct AwaitedTransfers {
    to: Mutex<HashMap<Address, Awaited>>,
    /// Those that money is to be given back from, by a transaction of ours or of others.
    from: Mutex<HashMap<(Address, Hash32), Return>>,
}

/// The return of a payment's money that is waited for from an address. Payments of a batch wait at one.
#[derive(Debug, Clone, Copy)]
struct Return {
    /// Who alone tells of it.
    factory: Address,
    since: Instant,
}

/// What is waited for at an address.
#[derive(Debug, Clone, Copy)]
pub struct Awaited {
    /// The payment's id as contracts know it.
    pub payment: Hash32,
    /// The token.
    pub token: Address,
    /// Up to when, UNIX seconds.
    until: u64,
}

impl AwaitedTransfers {
    /// A transfer of `token` to the address of `deposit` is an event of its payment from now on, up to when the money is waited for,
    /// where there is room. `now` is the UNIX second by which others are over.
    pub fn add(&self, at: Address, token: Address, deposit: &PayerDeposit, now: u64) {
        let until = deposit.authorization.deposit_address().map_or(0, |address| unix_seconds(address.pay_by));
        let awaited = Awaited { payment: deposit.payment_id.on_chain(), token, until };
        let mut addresses = lock(&self.to);
        if addresses.len() >= AWAITED_MAX {
            addresses.retain(|_, awaited| awaited.until >= now);
        }
        if addresses.len() < AWAITED_MAX || addresses.contains_key(&at) {
            addresses.insert(at, awaited);
        }
    }

    /// What `factory` gives back from the address of `deposit` is an event of its payment from now on.
    pub fn add_return(&self, at: Address, factory: Address, deposit: &PayerDeposit) {
        let (mut addresses, now) = (lock(&self.from), Instant::now());
        if addresses.len() >= AWAITED_MAX {
            addresses.retain(|_, known| now.duration_since(known.since) < RETURN_LOOKS_EVERY);
        }
        if addresses.len() < AWAITED_MAX {
            addresses.insert((at, deposit.payment_id.on_chain()), Return { factory, since: now });
        }
    }

    /// It was given back, or nothing is there any more.
    pub fn remove_return(&self, at: Address, deposit: &PayerDeposit) {
        lock(&self.from).remove(&(at, deposit.payment_id.on_chain()));
    }

    /// Those waited at in the second `now`.
    pub fn at(&self, now: u64) -> HashMap<Address, Awaited> {
        let mut addresses = lock(&self.to);
        addresses.retain(|_, awaited| awaited.until >= now);
        addresses.clone()
    }

    /// What is waited for at this address.
    pub fn awaited_at(&self, at: Address) -> Option<Awaited> {
        lock(&self.to).get(&at).copied()
    }

    /// Whether returns are waited for.
    pub fn has_returns(&self) -> bool {
        !lock(&self.from).is_empty()
    }

    /// Whose money was given back from the address of this topic, as `factory` says.
    pub fn returned(&self, topic: B256, factory: Address) -> Vec<Hash32> {
        let from = Address::from_word(topic);
        let known = lock(&self.from);
        let known = known.iter().filter(|((at, _), known)| *at == from && known.factory == factory);
        known.map(|((_, payment), _)| *payment).collect()
    }
}

fn lock<T>(addresses: &Mutex<T>) -> MutexGuard<'_, T> {
    // No holder of the lock panics.
    addresses.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use events::{
        Hash32, OwnedAsset, PaymentId, Terms,
        event::{Authorization, DepositAddress, EscrowPlan},
        time::from_unix_seconds,
    };

    use super::*;

    const PAY_BY: u64 = 1_000;

    fn at(n: usize) -> Address {
        Address::left_padding_from(&n.to_be_bytes())
    }

    fn deposit(n: usize) -> PayerDeposit {
        let account: events::Account = "0x00000000000000000000000000000000000000aa".parse().unwrap();
        let asset = "eip155:1/erc20:0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0".parse().unwrap();
        let source = OwnedAsset::new(asset, account.as_str()).unwrap();
        let amount: events::Amount = "7".parse().unwrap();
        let terms = Terms::new(source.clone(), vec![source], amount, None);
        let given = DepositAddress {
            amount,
            address: account.clone(),
            factory: account.clone(),
            implementation: account.clone(),
            pay_by: from_unix_seconds(PAY_BY).unwrap(),
            from_block: 1,
        };
        PayerDeposit {
            transfer: None,
            payment_id: PaymentId::derive("eip155:0x00", &n.to_string()),
            terms_hash: terms.hash(),
            terms,
            escrow: EscrowPlan {
                chain_id: "eip155:1".parse().unwrap(),
                contract: account.clone(),
                reserver: account.clone(),
                releaser: account,
                reserve_deadline: 1_060,
                fulfillment_deadline: 2_000,
                refund_after: 3_000,
            },
            authorization: Authorization::DepositAddress(given),
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_for_more_once_those_are_over() {
        let awaited = AwaitedTransfers::default();
        for n in 0..AWAITED_MAX {
            awaited.add(at(n), at(9), &deposit(n), 0);
        }
        awaited.add(at(AWAITED_MAX), at(9), &deposit(AWAITED_MAX), PAY_BY);
        assert!(awaited.awaited_at(at(AWAITED_MAX)).is_none(), "all are waited at");
        awaited.add(at(0), at(8), &deposit(0), PAY_BY);
        assert_eq!(awaited.awaited_at(at(0)).map(|awaited| awaited.token), Some(at(8)), "what is there is renewed");
        awaited.add(at(AWAITED_MAX), at(9), &deposit(AWAITED_MAX), PAY_BY + 1);
        let own = awaited.awaited_at(at(AWAITED_MAX)).map(|awaited| awaited.payment);
        assert_eq!(own, Some(deposit(AWAITED_MAX).payment_id.on_chain()));
        assert!(awaited.awaited_at(at(0)).is_none(), "over");
    }

    #[test]
    fn a_return_is_of_the_payment_of_its_address_until_it_is_removed() {
        let awaited = AwaitedTransfers::default();
        let returned = |awaited: &AwaitedTransfers| awaited.returned(at(1).into_word(), at(9));
        let id = |n| deposit(n).payment_id.on_chain();
        assert_eq!((returned(&awaited), awaited.has_returns()), (Vec::<Hash32>::new(), false));
        awaited.add_return(at(1), at(9), &deposit(1));
        assert_eq!(returned(&awaited), [id(1)]);
        assert!(awaited.returned(at(1).into_word(), at(8)).is_empty(), "anyone can log the like");
        // Payments of a batch wait at one address.
        awaited.add_return(at(1), at(9), &deposit(2));
        assert_eq!(returned(&awaited).into_iter().collect::<std::collections::BTreeSet<_>>(), [id(1), id(2)].into());
        awaited.remove_return(at(1), &deposit(1));
        assert_eq!(returned(&awaited), [id(2)]);
        awaited.remove_return(at(1), &deposit(2));
        assert!(!awaited.has_returns());
    }
}
