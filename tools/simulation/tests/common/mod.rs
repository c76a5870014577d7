//! What the tests of all simulated chains need: a clock, payments, waiting.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use anyhow::{Result, bail};
use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use tokio::time::Instant;

use events::{
    Account, Did, PaymentId, Terms,
    event::{Authorization, EscrowPlan},
    quote::{Quote, SignedQuote, auction_of},
    time::{Timestamp, from_unix_seconds},
};
use sagas::ports::{Clock, DeliveryOrder, DepositOrder, RefundOrder, Reservation, VerificationCase};

pub const BEGIN: u64 = 1_800_000_000;
pub const CAP: u64 = 1_000_000;
pub const PRICE: u64 = 900_000;
pub const DELIVERED: u64 = 850_000;
pub const REFUND_DELAY: u64 = 900;

/// The runtime's own time, from [`BEGIN`] on.
#[derive(Debug, Clone, Copy)]
pub struct TestClock(pub Instant);

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        from_unix_seconds(BEGIN).unwrap() + chrono::TimeDelta::from_std(self.0.elapsed()).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap()
}

/// The calls of a connection end like this from now on.
pub fn steer<O>(outcome: &Mutex<O>, to: O) {
    *lock(outcome) = to;
}

/// Looks again `every` so often in the runtime's time, for `at_most` so long, until `look` has found something.
pub async fn found_within<T, F: Future<Output = Result<Option<T>>>>(
    at_most: Duration,
    every: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> Result<T> {
    let started = Instant::now();
    while started.elapsed() < at_most {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        tokio::time::sleep(every).await;
    }
    bail!("{what} did not come about")
}

/// What a settler offers for a payment.
pub struct Offer {
    pub settler: SigningKey,
    /// Where it is paid, and from where it delivers.
    pub account: Account,
    pub price: u64,
    /// The proxy of the destination.
    pub proxy: Account,
    /// Last second of the delivery, UNIX.
    pub fulfill_by: u64,
    pub valid_until: Timestamp,
}

impl Offer {
    /// Its quote, signed at the UNIX second `now`.
    pub fn sign(self, payment_id: &PaymentId, terms: &Terms, escrow: &EscrowPlan, now: u64) -> Result<SignedQuote> {
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: auction_of(payment_id),
            terms_hash: terms.hash(),
            settler: Did::from_ed25519(&self.settler.verifying_key()),
            source_chain: escrow.chain_id.clone(),
            source_amount: self.price.to_string().parse()?,
            payout_account: self.account.clone(),
            escrow_contract: escrow.contract.clone(),
            destination: terms.destination()[0].clone(),
            fulfillment_amount: terms.fulfillment_amount,
            delivery_account: self.account,
            fulfillment_proxy: self.proxy,
            fulfill_by: from_unix_seconds(self.fulfill_by).unwrap(),
            valid_until: self.valid_until,
        };
        Ok(quote.sign(&self.settler, from_unix_seconds(now).unwrap())?)
    }
}

/// What a payer signed, and the quote that won it.
#[derive(Clone)]
pub struct Payment {
    pub payment_id: PaymentId,
    pub terms: Terms,
    pub authorization: Authorization,
    pub escrow: EscrowPlan,
    pub quote: SignedQuote,
}

impl Payment {
    pub fn id(&self) -> &PaymentId {
        &self.payment_id
    }

    pub fn fulfill_by(&self) -> u64 {
        self.quote.quote().fulfill_by.timestamp().unsigned_abs()
    }

    pub fn reservation(&self) -> Reservation {
        let quote = self.quote.quote();
        Reservation {
            quote_hash: self.quote.hash(),
            payout_account: quote.payout_account.clone(),
            source_amount: quote.source_amount,
            fulfill_by: self.fulfill_by(),
        }
    }

    pub fn deposit(&self) -> DepositOrder {
        DepositOrder {
            transfer: None,
            payment_id: self.id().clone(),
            terms: self.terms.clone(),
            terms_hash: self.terms.hash(),
            escrow: self.escrow.clone(),
            authorization: self.authorization.clone(),
            reservation: self.reservation(),
        }
    }

    pub fn delivery(&self) -> DeliveryOrder {
        let quote = self.quote.quote();
        DeliveryOrder {
            payment_id: self.id().clone(),
            quote_hash: self.quote.hash(),
            destination: quote.destination.clone(),
            amount: quote.fulfillment_amount,
            delivery_account: quote.delivery_account.clone(),
            proxy: quote.fulfillment_proxy.clone(),
            fulfill_by: self.fulfill_by(),
        }
    }

    pub fn case(&self) -> VerificationCase {
        VerificationCase {
            payment_id: self.id().clone(),
            terms: self.terms.clone(),
            escrow: self.escrow.clone(),
            verifier_set: None,
            quote_document: self.quote.document().to_owned(),
            payloads: Vec::new(),
        }
    }

    pub fn refund(&self, non_delivery: Option<String>) -> RefundOrder {
        RefundOrder { payment_id: self.id().clone(), escrow: self.escrow.clone(), non_delivery }
    }
}
