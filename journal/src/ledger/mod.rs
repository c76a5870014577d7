//! The signer ledger: reservations of transaction nonces.
//!
//! Each submitter account of a chain is an aggregate of its own, under the same optimistic concurrency control as
//! payments, so that any number of workers and gateways share an account without ever giving out a nonce twice. A
//! reservation is made *for a purpose*; asking again for the same purpose returns the same nonce, so a worker that
//! died between reserving and journaling its transaction leaves no gap behind.
//!
//! [`Ledger`] has two implementations with the same semantics, [`memory::MemoryLedger`] and that of the crate `journal-jetstream`, which
//! pass one conformance suite.

pub mod conformance;
pub mod memory;
pub mod state;

use async_trait::async_trait;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use events::{Account, ChainId, PaymentId, time::Timestamp};

/// The purpose of a nonce, for example `pay_…/deposit/1`. Unique for ever.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Purpose(pub String);

impl Purpose {
    /// An attempt at a payment's deposit.
    pub fn deposit(payment_id: &PaymentId, attempt: u32) -> Self {
        Self(format!("{payment_id}/deposit/{attempt}"))
    }

    /// An attempt at the reassignment of a payment's escrow to another settler.
    pub fn reassignment(payment_id: &PaymentId, attempt: u32) -> Self {
        Self(format!("{payment_id}/reassignment/{attempt}"))
    }

    /// An attempt at the return of a payment's money: refund or cancellation.
    pub fn refund(payment_id: &PaymentId, attempt: u32) -> Self {
        Self(format!("{payment_id}/refund/{attempt}"))
    }

    /// An attempt at paying a payment's settler.
    pub fn release(payment_id: &PaymentId, attempt: u32) -> Self {
        Self(format!("{payment_id}/release/{attempt}"))
    }

    /// Whether it brings money into escrow.
    pub fn is_deposit(&self) -> bool {
        self.0.split('/').nth(1) == Some("deposit")
    }

    /// Whether it is that of a nonce which was taken from its purpose.
    pub fn is_filler(&self) -> bool {
        self.0.starts_with(FILLER)
    }

    /// Whether it brings money out of escrow.
    pub fn is_exit(&self) -> bool {
        matches!(self.0.split('/').nth(1), Some("refund" | "release"))
    }

    /// Whether it is that of a nonce which was given back and is nobody's yet.
    pub fn is_free(&self) -> bool {
        self.0.starts_with(FREE)
    }
}

/// The account whose nonces are given out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SignerAccount {
    /// Its chain.
    pub chain_id: ChainId,
    /// Its address.
    pub address: Account,
}

/// A nonce that was given out and whose transaction is not known to be final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The nonce.
    pub nonce: u64,
    /// Its purpose.
    pub purpose: Purpose,
    /// When it was given out.
    pub reserved_at: Timestamp,
    /// Whether it was asked for once only, so that nobody but whoever got it then can have signed with it. False where that is
    /// not known: an entry of an earlier version does not say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_once: bool,
}

/// Why no nonce could be had. All are safe to retry with the same purpose.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be reached, or did not answer in time.
    #[error("signer ledger is unavailable: {0}")]
    Unavailable(String),
    /// Too many others reserved at the same moment.
    #[error("signer ledger is contended")]
    Contended,
    /// A stored entry cannot be read.
    #[error("signer ledger holds an unreadable entry: {0}")]
    Damaged(String),
    /// Too many reservations are open for this account.
    #[error("account has {open} transactions in flight, the most allowed")]
    Exhausted {
        /// Reservations that are open.
        open: usize,
    },
}

/// The most reservations one account may have open; bounds the size of a ledger entry.
pub const OPEN_MAX: usize = 1024;

/// So many of them only what brings money out of escrow can take, so that deposits, however many a stranger has made, never
/// keep a payer's money waiting.
pub const EXITS_OPEN: usize = 128;

/// How many closed reservations an account's ledger remembers; bounds the size of a ledger entry.
pub const CLOSED_MAX: usize = 128;

/// A purpose that is asked for again so long after its nonce was given out holds it from then on.
pub const RENEW_AFTER: TimeDelta = TimeDelta::seconds(10);

/// What a nonce is for that was taken from its purpose: to be used up.
pub const FILLER: &str = "filler/";

/// What a nonce is for that was given back: for whoever asks next.
pub const FREE: &str = "free/";

/// Gives out nonces.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The nonce for `purpose`: the one already given out for it, else the lowest that was [given back](Self::give_back) and that
    /// `chain_nonce` has not passed, else the next.
    ///
    /// `chain_nonce` is the account's next nonce at the chain's latest state. It starts the ledger of a new account, and
    /// raises the next nonce where the chain is ahead (the account was used from elsewhere). `final_nonce` is the
    /// account's nonce at finality: reservations below it are closed: they drop out of the open set with the next entry.
    ///
    /// The same purpose gets the same nonce also when its reservation is closed, as long as it is among the last [`CLOSED_MAX`] that
    /// are. One that is asked for again is no longer [`asked_once`](Reservation::asked_once). One that is open and older than
    /// [`RENEW_AFTER`] counts as given out now, so that whoever looks for nonces that nobody uses sees that somebody is about to.
    /// The nonce of a closed reservation is used up, so whatever is signed with it can never land: a worker that slept through the
    /// whole life of its transaction can neither repeat it nor leave a gap behind. A new attempt is a new purpose.
    ///
    /// # Errors
    /// See [`Error`].
    async fn reserve(
        &self,
        account: &SignerAccount,
        purpose: &Purpose,
        chain_nonce: u64,
        final_nonce: u64,
        now: Timestamp,
    ) -> Result<u64, Error>;

    /// Takes the nonce of an open reservation away from its purpose, for a transaction that does nothing but use it up. The
    /// purpose is given another nonce when it is asked for again.
    ///
    /// False when the reservation is not open, or is not as it was when it was read: it was closed, or asked for again in
    /// the meantime. Retiring a retired reservation has no further effect.
    ///
    /// # Errors
    /// See [`Error`].
    async fn retire(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, Error>;

    /// Gives back the nonce of a reservation that nothing was signed with, for whoever asks for a nonce next, so that no gap comes
    /// to be. Only who was given the nonce can know that, and only as long as nobody else asked for the same purpose: another
    /// worker may have signed with it, and what it journaled may land.
    ///
    /// False when it has no effect: the reservation is not open, was asked for again, or is another one at the same nonce. Giving
    /// back what was given back, and is nobody's yet, has no further effect.
    ///
    /// # Errors
    /// See [`Error`].
    async fn give_back(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, Error>;

    /// The reservations of `account` that are not closed, those of nonces that were given back among them.
    ///
    /// # Errors
    /// See [`Error`].
    async fn open(&self, account: &SignerAccount) -> Result<Vec<Reservation>, Error>;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_attempt_at_each_transaction_of_a_payment_has_a_purpose_of_its_own() {
        let payments = ["one", "two"].map(|request| PaymentId::derive("tests", request));
        let of = |payment_id: &PaymentId, attempt| {
            [
                Purpose::deposit(payment_id, attempt),
                Purpose::reassignment(payment_id, attempt),
                Purpose::release(payment_id, attempt),
                Purpose::refund(payment_id, attempt),
            ]
        };
        let all = payments.iter().flat_map(|payment_id| [1, 2, 12].map(|attempt| of(payment_id, attempt))).flatten();
        assert_eq!(all.map(|purpose| purpose.0).collect::<BTreeSet<_>>().len(), 2 * 3 * 4);
        let brings = of(&payments[0], 1).map(|purpose| (purpose.is_deposit(), purpose.is_exit()));
        // A reassignment leaves the money where it is.
        assert_eq!(brings, [(true, false), (false, false), (false, true), (false, true)]);
    }
}
