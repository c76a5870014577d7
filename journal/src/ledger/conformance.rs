//! The conformance suite of [`Ledger`], which runs against any implementation.
//!
//! Call [`run`] from a test. A case that does not hold panics with its reason; this module is test code that lives here so
//! that the tests of other crates can use it.
#![doc(hidden)]
#![allow(clippy::missing_panics_doc, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use futures::future::join_all;

use events::{Account, ChainId, CommitId, Family, Hash32, time::Timestamp};

use super::{Ledger, Purpose, Reservation, SignerAccount};

/// Runs every case. Each call of `make` must give another handle on the same accounts, as another process would have.
pub async fn run<F, Fut>(make: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Ledger>>,
{
    let (one, other) = (make().await, make().await);
    the_chain_starts_an_account(&*one, &*other).await;
    a_purpose_keeps_its_nonce(&*one, &*other).await;
    closed_reservations_drop(&*one).await;
    a_chain_that_is_ahead_raises_the_next_nonce(&*one, &*other).await;
    many_at_once_get_distinct_consecutive_nonces([one.clone(), other.clone()]).await;
    one_purpose_asked_for_at_once_gets_one_nonce([one.clone(), other.clone()]).await;
    accounts_are_independent(&*one).await;
    a_purpose_that_is_asked_for_again_is_renewed(&*one, &*other).await;
    a_retired_nonce_is_nobodys(&*one, &*other).await;
    a_retirement_is_of_what_was_read([one.clone(), other.clone()]).await;
    a_nonce_that_was_given_back_is_the_next_ones(&*one, &*other).await;
    a_nonce_that_another_may_have_signed_with_is_not_given_back(&*one, &*other).await;
    a_nonce_that_was_given_back_is_given_out_to_one([one.clone(), other.clone()]).await;
}

/// An account unlike any other.
pub fn fresh() -> SignerAccount {
    let hash = Hash32::sha256(CommitId::random().as_str());
    let address = Account::from_bytes(Family::Evm, &hash.0[..20]);
    SignerAccount { chain_id: ChainId::evm(31337), address: address.expect("not zero") }
}

fn purpose(text: impl ToString) -> Purpose {
    Purpose(text.to_string())
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

async fn reserve(ledger: &dyn Ledger, account: &SignerAccount, text: &str, chain: u64, final_nonce: u64) -> u64 {
    ledger.reserve(account, &purpose(text), chain, final_nonce, now()).await.unwrap()
}

async fn open(ledger: &dyn Ledger, account: &SignerAccount) -> Vec<u64> {
    ledger.open(account).await.unwrap().into_iter().map(|reservation| reservation.nonce).collect()
}

async fn the_chain_starts_an_account(one: &dyn Ledger, other: &dyn Ledger) {
    let account = fresh();
    assert_eq!(open(one, &account).await, Vec::<u64>::new());
    assert_eq!(reserve(one, &account, "a", 41, 40).await, 41);
    assert_eq!(reserve(other, &account, "b", 41, 40).await, 42);
    let stored = other.open(&account).await.unwrap();
    assert_eq!((stored[0].purpose.clone(), stored[0].reserved_at), (purpose("a"), now()));
    assert_eq!(open(other, &account).await, [41, 42]);
}

async fn a_purpose_keeps_its_nonce(one: &dyn Ledger, other: &dyn Ledger) {
    let account = fresh();
    assert_eq!(reserve(one, &account, "a", 0, 0).await, 0);
    assert_eq!(reserve(one, &account, "b", 0, 0).await, 1);
    for ledger in [one, other] {
        assert_eq!(reserve(ledger, &account, "a", 0, 0).await, 0);
        // Even when the chain is past it: a transaction with a nonce that is used up can do no harm.
        assert_eq!(reserve(ledger, &account, "a", 9, 9).await, 0);
    }
    assert_eq!(open(one, &account).await, [0, 1]);
}

async fn closed_reservations_drop(ledger: &dyn Ledger) {
    let account = fresh();
    for (n, text) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(reserve(ledger, &account, text, 0, 0).await, n as u64);
    }
    assert_eq!(reserve(ledger, &account, "d", 2, 2).await, 3);
    assert_eq!(open(ledger, &account).await, [2, 3]);
    // A latecomer who asks for the purpose of a closed reservation gets its old nonce, and no new one is left unused.
    assert_eq!(reserve(ledger, &account, "b", 2, 2).await, 1);
    assert_eq!(open(ledger, &account).await, [2, 3]);
}

async fn a_chain_that_is_ahead_raises_the_next_nonce(one: &dyn Ledger, other: &dyn Ledger) {
    let account = fresh();
    assert_eq!(reserve(one, &account, "a", 3, 3).await, 3);
    assert_eq!(reserve(other, &account, "b", 10, 5).await, 10);
    // A node that lags behind lowers nothing.
    assert_eq!(reserve(one, &account, "c", 4, 3).await, 11);
    assert_eq!(open(one, &account).await, [10, 11]);
}

async fn many_at_once_get_distinct_consecutive_nonces(ledgers: [Arc<dyn Ledger>; 2]) {
    let account = fresh();
    let tasks = (0..40).map(|n| {
        let (ledger, account) = (ledgers[n % 2].clone(), account.clone());
        tokio::spawn(async move { ledger.reserve(&account, &purpose(n), 7, 7, now()).await.unwrap() })
    });
    let mut nonces: Vec<u64> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    nonces.sort_unstable();
    assert_eq!(nonces, (7..47).collect::<Vec<_>>());
    assert_eq!(open(&*ledgers[0], &account).await, nonces);
}

async fn one_purpose_asked_for_at_once_gets_one_nonce(ledgers: [Arc<dyn Ledger>; 2]) {
    let account = fresh();
    let tasks = (0..20).map(|n| {
        let (ledger, account) = (ledgers[n % 2].clone(), account.clone());
        tokio::spawn(async move { ledger.reserve(&account, &purpose("one"), 0, 0, now()).await.unwrap() })
    });
    let nonces: Vec<u64> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(nonces, vec![0; 20]);
    assert_eq!(open(&*ledgers[1], &account).await, [0]);
}

async fn a_purpose_that_is_asked_for_again_is_renewed(one: &dyn Ledger, other: &dyn Ledger) {
    let account = fresh();
    let later = now() + super::RENEW_AFTER;
    let ask = async |text, at| one.reserve(&account, &purpose(text), 0, 0, at).await.unwrap();
    assert_eq!((ask("a", now()).await, ask("b", now()).await), (0, 1));
    assert_eq!(ask("a", later).await, 0);
    assert_eq!(other.open(&account).await.unwrap()[0].reserved_at, now(), "what was just given out is not renewed");
    let later = later + chrono::TimeDelta::seconds(1);
    assert_eq!(ask("a", later).await, 0);
    let open = other.open(&account).await.unwrap();
    assert_eq!(open.iter().map(|open| open.reserved_at).collect::<Vec<_>>(), [later, now()]);
    assert_eq!(ask("c", later).await, 2);
}

async fn a_retired_nonce_is_nobodys(one: &dyn Ledger, other: &dyn Ledger) {
    let account = fresh();
    for (n, text) in ["a", "b"].into_iter().enumerate() {
        assert_eq!(reserve(one, &account, text, 0, 0).await, n as u64);
    }
    for n in [0, 1] {
        let found = other.open(&account).await.unwrap()[n].clone();
        assert!(other.retire(&account, &found).await.unwrap());
        let retired = one.open(&account).await.unwrap()[n].clone();
        assert_eq!(retired, Reservation { purpose: purpose(format!("filler/{n}")), ..found });
        assert!(one.retire(&account, &retired).await.unwrap(), "once more changes nothing");
    }
    assert_eq!(open(one, &account).await, [0, 1]);
    // A second reservation gets a nonce of its own.
    assert_eq!(reserve(one, &account, "a", 0, 0).await, 2);
    assert_eq!(reserve(other, &account, "b", 0, 0).await, 3);
    assert_eq!(open(other, &account).await, [0, 1, 2, 3]);
    assert_eq!(reserve(one, &account, "c", 2, 2).await, 4);
    assert_eq!(open(other, &account).await, [2, 3, 4]);
}

async fn a_retirement_is_of_what_was_read(ledgers: [Arc<dyn Ledger>; 2]) {
    let [one, other] = &ledgers;
    let account = fresh();
    assert_eq!(reserve(&**one, &account, "a", 0, 0).await, 0);
    let found = one.open(&account).await.unwrap().remove(0);
    let later = now() + super::RENEW_AFTER * 2;
    assert_eq!(other.reserve(&account, &purpose("a"), 0, 0, later).await.unwrap(), 0);
    assert!(!one.retire(&account, &found).await.unwrap(), "it was asked for again");
    let stranger = Reservation { nonce: 7, ..found.clone() };
    assert!(!one.retire(&account, &stranger).await.unwrap());
    assert!(!one.retire(&fresh(), &found).await.unwrap());
    // Asked for and retired at once: either the purpose keeps the nonce, or it has another and the nonce is retired.
    let tasks = (1..11).map(|n| {
        let (one, other, account) = (one.clone(), other.clone(), account.clone());
        tokio::spawn(async move {
            let (raced, later) = (purpose(format!("raced {n}")), now() + super::RENEW_AFTER * 2);
            let nonce = one.reserve(&account, &raced, 0, 0, now()).await.unwrap();
            let found = one.open(&account).await.unwrap().into_iter().find(|open| open.nonce == nonce).unwrap();
            let (again, retired) =
                tokio::join!(one.reserve(&account, &raced, 0, 0, later), other.retire(&account, &found),);
            // A stale answer is one that was true when the other had not been stored yet.
            let reserved_later = one.reserve(&account, &raced, 0, 0, later).await.unwrap();
            (nonce, again.unwrap(), reserved_later, retired.unwrap())
        })
    });
    let mut given: Vec<u64> = Vec::new();
    for raced in join_all(tasks).await {
        let (nonce, again, reserved_later, retired) = raced.unwrap();
        assert_eq!(reserved_later != nonce, retired, "retired exactly when the purpose has another nonce");
        assert!(again == nonce || again == reserved_later);
        given.push(reserved_later);
    }
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), 10, "no nonce is two purposes'");
}

async fn a_nonce_that_was_given_back_is_the_next_ones(one: &dyn Ledger, other: &dyn Ledger) {
    let account = fresh();
    for (n, text) in ["a", "b", "c", "d"].into_iter().enumerate() {
        assert_eq!(reserve(one, &account, text, 0, 0).await, n as u64);
    }
    let given = one.open(&account).await.unwrap();
    for n in [3, 0, 2] {
        assert!(one.give_back(&account, &given[n]).await.unwrap());
        assert!(other.give_back(&account, &given[n]).await.unwrap(), "once more changes nothing");
    }
    let found = other.open(&account).await.unwrap();
    assert_eq!(found.iter().map(|open| open.purpose.is_free()).collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(found.iter().map(|open| open.nonce).collect::<Vec<_>>(), [0, 1, 2, 3]);
    // The lowest first, whoever asks, but none that the chain has passed; one that is retired is not given out any more.
    assert_eq!(reserve(other, &account, "c", 0, 0).await, 0);
    assert_eq!(reserve(one, &account, "b", 0, 0).await, 1, "b keeps its nonce");
    assert!(other.retire(&account, &found[2]).await.unwrap());
    assert_eq!(reserve(one, &account, "e", 3, 0).await, 3);
    assert_eq!(reserve(one, &account, "a", 3, 0).await, 4);
    assert!(one.give_back(&account, &other.open(&account).await.unwrap()[4]).await.unwrap());
    assert_eq!(reserve(other, &account, "f", 5, 0).await, 5);
    // What became of no transaction is forgotten once its nonce is used up.
    assert_eq!(reserve(one, &account, "g", 6, 6).await, 6);
    assert_eq!(open(other, &account).await, [6]);
    assert_eq!(reserve(one, &account, "a", 6, 6).await, 7);
}

async fn a_nonce_that_another_may_have_signed_with_is_not_given_back(one: &dyn Ledger, other: &dyn Ledger) {
    let account = fresh();
    assert_eq!(reserve(one, &account, "a", 0, 0).await, 0);
    let given = one.open(&account).await.unwrap().remove(0);
    let unlike = [
        Reservation { nonce: 1, ..given.clone() },
        Reservation { purpose: purpose("b"), ..given.clone() },
        Reservation { reserved_at: now() - super::RENEW_AFTER, ..given.clone() },
    ];
    for unlike in &unlike {
        assert!(!one.give_back(&account, unlike).await.unwrap(), "{unlike:?}");
    }
    assert!(!one.give_back(&fresh(), &given).await.unwrap());
    // Another worker asks at the same moment, and signs.
    assert_eq!(reserve(other, &account, "a", 0, 0).await, 0);
    assert!(!one.give_back(&account, &given).await.unwrap());
    let asked_twice = other.open(&account).await.unwrap().remove(0);
    assert!(!other.give_back(&account, &asked_twice).await.unwrap());
    assert_eq!(asked_twice, Reservation { asked_once: false, ..given });
    // Given back and given out again, it is not the first one's any more, even if it is for the same purpose.
    assert_eq!(reserve(one, &account, "b", 0, 0).await, 1);
    let first = one.open(&account).await.unwrap().remove(1);
    assert!(one.give_back(&account, &first).await.unwrap());
    let later = now() + super::RENEW_AFTER;
    assert_eq!(other.reserve(&account, &purpose("b"), 0, 0, later).await.unwrap(), 1);
    assert!(!one.give_back(&account, &first).await.unwrap());
    assert_eq!(other.open(&account).await.unwrap()[1].purpose, purpose("b"));
}

async fn a_nonce_that_was_given_back_is_given_out_to_one(ledgers: [Arc<dyn Ledger>; 2]) {
    let account = fresh();
    let tasks = (0..20).map(|n| {
        let (ledger, account) = (ledgers[n % 2].clone(), account.clone());
        tokio::spawn(async move {
            let asked = purpose(format!("first {n}"));
            let nonce = ledger.reserve(&account, &asked, 0, 0, now()).await.unwrap();
            let given = Reservation { nonce, purpose: asked, reserved_at: now(), asked_once: true };
            let fails = n % 3 == 0;
            assert!(!fails || ledger.give_back(&account, &given).await.unwrap());
            (!fails).then_some(nonce)
        })
    });
    let mut kept: Vec<u64> = join_all(tasks).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(kept.len(), 13);
    let tasks = (0..7).map(|n| {
        let (ledger, account) = (ledgers[n % 2].clone(), account.clone());
        tokio::spawn(
            async move { ledger.reserve(&account, &purpose(format!("second {n}")), 0, 0, now()).await.unwrap() },
        )
    });
    kept.extend(join_all(tasks).await.into_iter().map(Result::unwrap));
    kept.sort_unstable();
    assert_eq!(kept, (0..20).collect::<Vec<_>>(), "each nonce has one purpose, and none is left over");
}

async fn accounts_are_independent(ledger: &dyn Ledger) {
    let account = fresh();
    let elsewhere = SignerAccount { chain_id: ChainId::evm(31338), ..account.clone() };
    assert_eq!(reserve(ledger, &account, "a", 0, 0).await, 0);
    assert_eq!(reserve(ledger, &elsewhere, "a", 5, 5).await, 5);
    assert_eq!(open(ledger, &account).await, [0]);
}
