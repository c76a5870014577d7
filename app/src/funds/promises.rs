//! Funds check: what payers have signed away and not paid yet. One balance, and one allowance, stands behind so many payments as it is
//! enough for.
//!
//! Without this what is enough for one payment could be shown for thousands, each of which occupies a settler and costs a deposit
//! that is refused or reverts. It is kept in memory, at each gateway for itself: whoever goes to several gateways, or comes
//! again after a restart, can promise a balance once at each.

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use ruint::aliases::U256;

use events::{Amount, OwnedAsset, PaymentId};

/// Accounts of which it is known what they promised; who was heard of last goes first.
const ACCOUNTS_MAX: NonZeroUsize = NonZeroUsize::new(65_536).expect("not zero");
/// Payments of one account that may wait for their deposits.
const PAYMENTS_MAX: usize = 16_384;
/// Of these, so many are named at a time to be looked up, the oldest.
const NAMED_MAX: usize = 64;

/// What payers have promised.
#[derive(Clone)]
pub struct Promises(Arc<Mutex<LruCache<String, Vec<Promise>>>>);

#[derive(Debug, Clone)]
struct Promise {
    payment_id: PaymentId,
    /// The most that is drawn for it.
    amount: Amount,
    /// Who draws it, where that is by allowances: all that the calls for it say.
    drawn_by: Vec<String>,
    /// The last UNIX second in which it may be drawn.
    until: u64,
    /// Calls that may accept the payment: a rehearsal and a submission may come at the same time.
    calls: usize,
    /// How many of them did, or may have.
    kept: usize,
}

/// A promise that is taken back when all calls that made it have dropped it, unless one of them [keeps](Promised::keep) it.
#[must_use]
pub struct Promised {
    promises: Promises,
    account: String,
    /// `None` where nothing had to be promised.
    payment_id: Option<PaymentId>,
}

impl Promised {
    /// Nothing is promised: it was paid already.
    pub fn nothing(promises: &Promises) -> Self {
        Self { promises: promises.clone(), account: String::new(), payment_id: None }
    }

    /// From here on the payment may be accepted, whatever becomes of the call.
    pub fn keep(self) -> Kept {
        self.change(|promise| promise.kept += 1);
        Kept(self)
    }

    fn change(&self, change: impl FnOnce(&mut Promise)) {
        if let Some(payment_id) = &self.payment_id {
            self.promises.change(&self.account, payment_id, change);
        }
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        self.change(|promise| promise.calls = promise.calls.saturating_sub(1));
    }
}

/// A promise that holds until the payment's end, unless the call that kept it [takes it back](Kept::take_back).
pub struct Kept(Promised);

impl Kept {
    /// It is certain that this call accepted nothing.
    pub fn take_back(self) {
        self.0.change(|promise| promise.kept = promise.kept.saturating_sub(1));
    }
}

/// What stands behind an account's promises, smallest unit.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// What it holds.
    pub balance: U256,
    /// Whom it lets draw how much of that, where a payment is drawn by an allowance that is known.
    pub allowance: Option<(&'a str, U256)>,
    /// The mandate that draws it, and what is left of that, where a merchant asks for it.
    pub mandate: Option<(&'a str, U256)>,
}

impl<'a> Limits<'a> {
    fn allowances(&self) -> impl Iterator<Item = (&'a str, U256)> {
        self.allowance.into_iter().chain(self.mandate)
    }
}

/// Why nothing more is promised: what else the account has promised is together with it more than it holds or lets be drawn, or more
/// payments than may wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdrawn {
    /// Whose allowance is not enough; `None` where it is the balance.
    pub by_allowance: Option<String>,
    /// What else it has promised, smallest unit.
    pub promised: U256,
    /// Payments for which it did, the oldest; not all of many.
    pub payments: Vec<PaymentId>,
}

impl Promises {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(ACCOUNTS_MAX))))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, Vec<Promise>>> {
        // Lists are changed by one call each, so a poisoned lock guards nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Promises `amount` of what `source` holds, and lets be drawn, until the UNIX second `until`. The same payment promises once.
    pub fn make(
        &self,
        source: &OwnedAsset,
        payment_id: &PaymentId,
        amount: Amount,
        until: u64,
        limits: &Limits<'_>,
        now: u64,
    ) -> Result<Promised, Overdrawn> {
        let account = key(source);
        let mut all = self.lock();
        let own = all.get_or_insert_mut(account.clone(), Vec::new);
        own.retain(|promise| promise.until >= now);
        let others = || own.iter().filter(|promise| promise.payment_id != *payment_id);
        let sum = |sum: U256, promise: &Promise| sum.saturating_add(promise.amount.get());
        let is_over = |promised: U256, limit: U256| promised.saturating_add(amount.get()) > limit;
        let promised = others().fold(U256::ZERO, sum);
        let by_spender = |spender: &str| {
            others().filter(|promise| promise.drawn_by.iter().any(|by| by == spender)).fold(U256::ZERO, sum)
        };
        let refused = |promised, by_allowance: Option<&str>| {
            let oldest = others().take(NAMED_MAX).map(|promise| promise.payment_id.clone());
            Err(Overdrawn { by_allowance: by_allowance.map(str::to_owned), promised, payments: oldest.collect() })
        };
        if is_over(promised, limits.balance) || others().count() >= PAYMENTS_MAX {
            return refused(promised, None);
        }
        let short = limits.allowances().find(|(spender, allowed)| is_over(by_spender(spender), *allowed));
        if let Some((spender, _)) = short {
            return refused(by_spender(spender), Some(spender));
        }
        let drawn_by: Vec<String> = limits.allowances().map(|(spender, _)| spender.to_owned()).collect();
        match own.iter_mut().find(|promise| promise.payment_id == *payment_id) {
            // Two calls may differ in what they sign; either may be the one that is accepted.
            Some(promise) => {
                promise.calls += 1;
                promise.amount = promise.amount.max(amount);
                promise.until = promise.until.max(until);
                promise.drawn_by.extend(drawn_by);
                promise.drawn_by.sort();
                promise.drawn_by.dedup();
            }
            None => {
                let payment_id = payment_id.clone();
                own.push(Promise { payment_id, amount, drawn_by, until, calls: 1, kept: 0 });
            }
        }
        drop(all);
        Ok(Promised { promises: self.clone(), account, payment_id: Some(payment_id.clone()) })
    }

    /// Forgets the promises of an account whose payments are over, or deposited, of those that were `named`. The others are
    /// named last from now on, so that all come to it.
    pub fn forget(&self, source: &OwnedAsset, named: &[PaymentId], over: &[PaymentId]) {
        let account = key(source);
        let mut all = self.lock();
        let Some(own) = all.peek_mut(&account) else { return };
        let over: HashSet<&PaymentId> = over.iter().collect();
        own.retain(|promise| !over.contains(&promise.payment_id));
        let still = own.iter().take_while(|promise| named.contains(&promise.payment_id)).count();
        own.rotate_left(still);
        if own.is_empty() {
            all.pop(&account);
        }
    }

    /// Changes a promise that a call has, and forgets it where nobody needs it any more.
    fn change(&self, account: &str, payment_id: &PaymentId, change: impl FnOnce(&mut Promise)) {
        let mut all = self.lock();
        let Some(own) = all.peek_mut(account) else { return };
        // It may have been forgotten meanwhile: past its time, or for the accounts that came after.
        let Some(at) = own.iter().position(|promise| promise.payment_id == *payment_id) else { return };
        change(&mut own[at]);
        if own[at].calls == 0 && own[at].kept == 0 {
            own.remove(at);
        }
        if own.is_empty() {
            all.pop(account);
        }
    }
}

fn key(source: &OwnedAsset) -> String {
    format!("{} {}", source.asset(), source.account())
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;

    fn source(n: u8) -> OwnedAsset {
        let asset = "eip155:1/erc20:0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0".parse().unwrap();
        OwnedAsset::new(asset, &format!("0x{n:040x}")).unwrap()
    }

    fn payment(n: usize) -> PaymentId {
        PaymentId::derive("originator", &n.to_string())
    }

    /// A balance, and nothing that is drawn by an allowance.
    fn held(units: u64) -> Limits<'static> {
        Limits { balance: U256::from(units), allowance: None, mandate: None }
    }

    struct Case(Promises);

    impl Case {
        /// Payment `n` of account 1, of 10, with a balance of 25 and an end at second 100.
        fn make(&self, n: usize, now: u64) -> Result<Promised, Overdrawn> {
            self.0.make(&source(1), &payment(n), "10".parse().unwrap(), 100, &held(25), now)
        }
    }

    #[test]
    fn a_call_that_panics_leaves_its_promise_kept_only_where_it_had_begun_to_append() {
        let case = Case(Promises::new());
        let (rehearsed, begun) = (case.make(1, 0).unwrap(), case.make(2, 0).unwrap());
        let broken = std::panic::catch_unwind(AssertUnwindSafe(move || {
            let _rehearsed = rehearsed;
            let _kept = begun.keep();
            panic!("after the append was sent");
        }));
        assert!(broken.is_err());
        case.make(3, 0).unwrap().keep();
        assert_eq!(case.make(4, 0).err().unwrap().payments, [payment(2), payment(3)]);
        // Until it is over.
        case.make(4, 101).unwrap().keep();
    }

    #[test]
    fn a_call_takes_back_what_it_kept_itself_and_no_more() {
        let case = Case(Promises::new());
        // What was certainly not stored is promised no more, however often it is sent.
        for _ in 0..2 {
            case.make(4, 0).unwrap().keep().take_back();
        }
        // Two calls for one payment append at once: one is the first, and the other finds it there.
        let (first, second) = (case.make(1, 0).unwrap().keep(), case.make(1, 0).unwrap().keep());
        second.take_back();
        drop(first);
        case.make(2, 0).unwrap().keep();
        assert_eq!(case.make(3, 0).err().unwrap().payments, [payment(1), payment(2)]);
    }

    #[test]
    fn a_balance_stands_behind_as_many_payments_as_it_is_enough_for() {
        let case = Case(Promises::new());
        case.make(1, 0).unwrap().keep();
        let second = case.make(2, 0).unwrap();
        let refused = case.make(3, 0).err().unwrap();
        assert_eq!((refused.promised, refused.payments), (U256::from(20), vec![payment(1), payment(2)]));
        // Another account's promises are its own, and the same payment's count once.
        case.0.make(&source(2), &payment(3), "10".parse().unwrap(), 100, &held(10), 0).unwrap().keep();
        drop(case.make(1, 0).unwrap());
        assert!(case.make(3, 0).is_err());
        // Whichever of two calls for one payment is over first, the one that accepts it keeps the promise.
        let again = case.make(2, 0).unwrap();
        drop(second);
        assert!(case.make(3, 0).is_err());
        let second = again;
        // What was not accepted is promised no more.
        drop(second);
        case.make(3, 0).unwrap().keep();
        assert!(case.make(4, 0).is_err());
        // Nor what is over, or what can't be drawn any more.
        case.0.forget(&source(1), &[payment(1)], &[payment(1)]);
        case.make(4, 0).unwrap().keep();
        assert!(case.make(5, 100).is_err());
        case.make(5, 101).unwrap().keep();
        assert_eq!(case.0.lock().len(), 2);
    }

    #[test]
    fn an_allowance_stands_behind_as_many_payments_as_it_is_enough_for() {
        let case = Promises::new();
        let make = |n, spender: Option<&str>| {
            let allowance = spender.map(|spender| (spender, U256::from(15)));
            let limits = Limits { balance: U256::from(1_000), allowance, mandate: None };
            case.make(&source(1), &payment(n), "10".parse().unwrap(), 100, &limits, 0)
        };
        make(1, Some("permit2")).unwrap().keep();
        let refused = make(2, Some("permit2")).err().unwrap();
        assert_eq!(refused.by_allowance.as_deref(), Some("permit2"));
        assert_eq!((refused.promised, refused.payments), (U256::from(10), vec![payment(1)]));
        // What another draws, or is drawn without an allowance, is not drawn out of this one.
        make(2, Some("escrow")).unwrap().keep();
        make(3, None).unwrap().keep();
        assert!(make(4, Some("permit2")).is_err());
        case.forget(&source(1), &[payment(1)], &[payment(1)]);
        make(4, Some("permit2")).unwrap().keep();
    }

    #[test]
    fn mandates_draw_on_one_allowance_and_each_on_its_own() {
        let case = Promises::new();
        let make = |n, mandate: Option<(&str, u64)>| {
            let mandate = mandate.map(|(at, left)| (at, U256::from(left)));
            let limits = Limits { balance: U256::from(1_000), allowance: Some(("permit2", U256::from(35))), mandate };
            case.make(&source(1), &payment(n), "10".parse().unwrap(), 100, &limits, 0)
        };
        make(1, Some(("one", 10))).unwrap().keep();
        // The period of one is full, not that of the other, and what Permit2 may draw is for both, and for whoever else signs.
        let refused = make(2, Some(("one", 10))).err().unwrap();
        assert_eq!((refused.by_allowance.as_deref(), refused.promised), (Some("one"), U256::from(10)));
        make(2, Some(("other", 10))).unwrap().keep();
        make(3, None).unwrap().keep();
        let refused = make(4, Some(("third", 10))).err().unwrap();
        assert_eq!((refused.by_allowance.as_deref(), refused.promised), (Some("permit2"), U256::from(30)));
        // One payment may be asked for under two mandates at once: either may be the one that is accepted.
        case.forget(&source(1), &[payment(3)], &[payment(3)]);
        make(2, Some(("one", 20))).unwrap().keep();
        assert!(make(3, Some(("other", 10))).is_err() && make(3, Some(("one", 20))).is_err());
    }

    #[test]
    fn a_rehearsal_neither_takes_back_nor_belittles_what_a_submission_promises() {
        let case = Promises::new();
        let make = |n, amount: &str| case.make(&source(1), &payment(n), amount.parse().unwrap(), 100, &held(25), 0);
        let rehearsed = make(1, "1").unwrap();
        make(1, "20").unwrap().keep();
        drop(rehearsed);
        assert!(make(2, "10").is_err());
        drop(make(2, "5").unwrap());
    }

    #[test]
    fn so_many_payments_of_one_account_wait_however_much_it_holds() {
        let case = Promises::new();
        let limits = Limits { balance: U256::MAX, allowance: None, mandate: None };
        let make = |n| case.make(&source(1), &payment(n), "1".parse().unwrap(), 100, &limits, 0);
        // All but the last, as making and keeping them would have left them: that looks at all before each.
        let amount = "1".parse().unwrap();
        let kept = |n| Promise { payment_id: payment(n), amount, drawn_by: Vec::new(), until: 100, calls: 0, kept: 1 };
        case.lock().put(key(&source(1)), (0..PAYMENTS_MAX - 1).map(kept).collect());
        make(PAYMENTS_MAX - 1).unwrap().keep();
        // Others are named in their turn, however long the oldest wait.
        let first = make(PAYMENTS_MAX).err().unwrap().payments;
        case.forget(&source(1), &first, &[]);
        let second = make(PAYMENTS_MAX).err().unwrap().payments;
        assert_eq!((first.len(), second.len(), second[0].clone()), (NAMED_MAX, NAMED_MAX, payment(NAMED_MAX)));
    }
}
