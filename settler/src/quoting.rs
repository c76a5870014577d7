//! Quoting: from a request for quotes to a signed quote or a decline.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use chrono::{SubsecRound, TimeDelta};
use ed25519_dalek::SigningKey;
use futures::{future::join_all, try_join};
use tokio::time::timeout;

use chains::settler::{DeliveryChain, UsualFees};
use chains_solana::program::is_too_small;
use events::{
    Account, Amount, ChainId, Hash32, PaymentId,
    quote::{Quote, SignedQuote},
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use protocol::{Bid, Rfq, is_reassignment_auction};
use sagas::ports::{DeliveryOrder, Transient};

use crate::{
    balances::Balances,
    chain_registry::Chains,
    config::{LimitsConfig, Options},
    inventory::{Inventory, Need, Refusal},
    pricing::{Book, Conditions, Prices, Pricing, Unpriced},
    recent::RecentMap,
    single_flight::SingleFlight,
    trials::{Bulkhead, Trial, Trials},
};

/// Most quotes that are cached; an older one is made anew, with the same hash as long as the prices are the same.
const ANSWERS_MAX: usize = 4096;
/// How long what a price depends on may take to be read.
const CONDITIONS_MAX: Duration = Duration::from_secs(2);
/// Longest age of what a chain asks for transactions: prices of gas move by the block, and not by the request.
const FEES_AGE_MAX: Duration = Duration::from_secs(5);
/// Attempts to read a balance that a delivery has outdated meanwhile.
const BALANCE_READS_MAX: usize = 5;

/// Why a settler does not quote, in the order in which it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decline {
    /// The request says that money is in escrow, and names no auction for the escrow of its payment.
    InvalidReassignment,
    /// None of the destinations is traded against the source asset.
    UnsupportedCorridor,
    /// The escrow or the proxy is not the one this settler trusts.
    UntrustedContract,
    /// The verifier is not one this settler trusts.
    UntrustedVerifier,
    /// A required policy is not held.
    PolicyNotHeld,
    /// The deadlines leave too little time to deliver, or to be paid afterwards.
    DeadlineTooShort,
    /// The deadlines lie further ahead than the settler binds itself, or have no date at all.
    DeadlineTooLong,
    /// The destination chain takes no delivery of so little to an account that may be new.
    AmountTooSmall,
    /// The price exceeds the payer's cap, or what is in escrow.
    PriceAboveCap,
    /// Too few tokens are free.
    InsufficientLiquidity,
    /// The chain refuses the delivery when it is simulated.
    Undeliverable,
    /// The settler cannot read its balance at the moment, or does not know what something is worth.
    TemporarilyUnavailable,
}

impl Decline {
    /// The reason code on the wire.
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidReassignment => "INVALID_REASSIGNMENT",
            Self::UnsupportedCorridor => "UNSUPPORTED_CORRIDOR",
            Self::UntrustedContract => "UNTRUSTED_CONTRACT",
            Self::UntrustedVerifier => "UNTRUSTED_VERIFIER",
            Self::PolicyNotHeld => "POLICY_NOT_HELD",
            Self::DeadlineTooShort => "DEADLINE_TOO_SHORT",
            Self::DeadlineTooLong => "DEADLINE_TOO_LONG",
            Self::AmountTooSmall => "AMOUNT_TOO_SMALL",
            Self::PriceAboveCap => "PRICE_ABOVE_CAP",
            Self::InsufficientLiquidity => "INSUFFICIENT_LIQUIDITY",
            Self::Undeliverable => "UNDELIVERABLE",
            Self::TemporarilyUnavailable => "TEMPORARILY_UNAVAILABLE",
        }
    }
}

/// A destination that could be served, with its price.
#[derive(Debug)]
struct Candidate {
    price: Amount,
    /// Its place among the destinations of the terms.
    destination: usize,
    /// The proxy through which it is delivered.
    proxy: Account,
}

/// Why a destination, or none of them, can be served.
enum Unserved {
    /// The settler does not quote.
    Declined(Decline),
    /// It may, but for what could not be read.
    Unread(Transient),
}

impl From<Decline> for Unserved {
    fn from(decline: Decline) -> Self {
        Self::Declined(decline)
    }
}

impl From<Transient> for Unserved {
    fn from(fault: Transient) -> Self {
        Self::Unread(fault)
    }
}

/// Answers requests for quotes.
pub struct Quoter {
    options: Arc<Options>,
    key: SigningKey,
    chains: Chains,
    inventory: Arc<Inventory>,
    trials: Arc<Trials>,
    prices: Arc<Prices>,
    balances: Balances,
    fees: SingleFlight<ChainId, UsualFees>,
    /// The quotes' documents by the fingerprint of their request.
    answers: Mutex<RecentMap<Hash32, String>>,
}

impl Quoter {
    /// A quoter that signs with `key`, holds tokens in `inventory`, simulates deliveries by `trials` and asks for what `prices` say.
    pub fn new(
        options: Arc<Options>,
        key: SigningKey,
        chains: Chains,
        inventory: Arc<Inventory>,
        trials: Arc<Trials>,
        prices: Arc<Prices>,
    ) -> Self {
        let answers = Mutex::new(RecentMap::new(ANSWERS_MAX));
        let (balances, fees) = (Balances::default(), SingleFlight::new(FEES_AGE_MAX));
        Self { options, key, chains, inventory, trials, prices, balances, fees, answers }
    }

    /// The answer to `rfq` at `now`; the same request is answered with the same quote. `fingerprint` is the hash of the
    /// request as it came.
    ///
    /// # Errors
    /// [`Transient`] when the balance, or what the chains ask, cannot be read; nothing was promised.
    pub async fn answer(&self, rfq: &Rfq, fingerprint: Hash32, now: Timestamp) -> Result<Bid, Transient> {
        if let Some(document) = self.answers().get(&fingerprint) {
            return Ok(Bid::quote(document.clone()));
        }
        let declined = |decline: Decline| Ok(Bid::decline(decline.code()));
        let candidates = match self.candidates(rfq, now).await {
            Ok(candidates) => candidates,
            Err(Unserved::Declined(decline)) => return declined(decline),
            Err(Unserved::Unread(fault)) => return Err(fault),
        };
        let mut furthest = Decline::InsufficientLiquidity;
        let mut unread = None;
        for candidate in candidates {
            match self.covers(rfq, &candidate, now).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(fault) => {
                    unread = Some(fault);
                    continue;
                }
            }
            if let Some(Trial::Refused { reason }) = self.tried(rfq, &candidate).await {
                tracing::debug!(auction_id = rfq.auction_id, reason, "not deliverable");
                self.inventory.lose(&rfq.auction_id);
                furthest = Decline::Undeliverable;
                continue;
            }
            let Some(signed) = self.sign(rfq, &candidate, now) else {
                self.inventory.lose(&rfq.auction_id);
                return declined(Decline::TemporarilyUnavailable);
            };
            self.answers().insert(fingerprint, signed.document().to_owned());
            return Ok(Bid::quote(signed.document()));
        }
        unread.map_or_else(|| declined(furthest), Err)
    }

    /// The destinations that could be served, cheapest first. When none can, the reason of the destination that passed the
    /// most checks.
    async fn candidates(&self, rfq: &Rfq, now: Timestamp) -> Result<Vec<Candidate>, Unserved> {
        let is_its = |payment_id: &PaymentId| is_reassignment_auction(&rfq.auction_id, payment_id);
        if rfq.escrowed.is_some() && !rfq.payment_id.as_ref().is_some_and(is_its) {
            return Err(Decline::InvalidReassignment.into());
        }
        let book = self.prices.current();
        let destinations = 0..rfq.terms.destination().len();
        let all = join_all(destinations.map(|destination| self.candidate(&book, rfq, destination, now))).await;
        let (mut found, mut unread) = (Vec::new(), None);
        let mut furthest = Decline::UnsupportedCorridor;
        for candidate in all {
            match candidate {
                Ok(candidate) => found.push(candidate),
                Err(Unserved::Declined(decline)) => furthest = furthest.max(decline),
                // A chain that does not answer keeps no other from being delivered on.
                Err(Unserved::Unread(fault)) => unread = Some(fault),
            }
        }
        found.sort_by_key(|candidate| (candidate.price, candidate.destination));
        match (found.is_empty(), unread) {
            (false, _) => Ok(found),
            (true, Some(fault)) => Err(fault.into()),
            (true, None) => Err(furthest.into()),
        }
    }

    async fn candidate(
        &self,
        book: &Book,
        rfq: &Rfq,
        destination: usize,
        now: Timestamp,
    ) -> Result<Candidate, Unserved> {
        let assets = (rfq.terms.source.asset().clone(), rfq.terms.destination()[destination].asset().clone());
        let pricing = book.corridors.get(&assets).ok_or(Decline::UnsupportedCorridor)?;
        let proxy = served(&self.options, rfq, destination, now)?.clone();
        // An auction does not wait for a node that hangs.
        let conditions = timeout(CONDITIONS_MAX, self.conditions(rfq, destination, pricing, now)).await;
        let late = |_| Transient::unreachable("what a price depends on is not read in time");
        let price = priced(rfq, pricing, conditions.map_err(late)??, now)?;
        Ok(Candidate { price, destination, proxy })
    }

    /// What the price of this destination depends on, as far as `pricing` heeds it.
    async fn conditions(
        &self,
        rfq: &Rfq,
        destination: usize,
        pricing: &Pricing,
        now: Timestamp,
    ) -> Result<Conditions, Transient> {
        let (source, target) = (rfq.terms.source.asset(), rfq.terms.destination()[destination].asset());
        let (Some(escrows), Some(deliveries)) = (self.chains.get(source.chain()), self.chains.get(target.chain()))
        else {
            return Ok(Conditions::default());
        };
        let free = async {
            if !pricing.heeds_inventory() {
                return Ok(None);
            }
            let funds = self.balances.recent(&**deliveries, target, &self.inventory).await?;
            Ok::<_, Transient>(Some(self.inventory.free(target, funds, now)))
        };
        let fees = async |id: &ChainId, chain: &Arc<dyn DeliveryChain>| match pricing.chain_fees {
            None => Ok(None),
            Some(_) => self.fees.get(id, |_| true, chain.usual_fees()).await.map(Some),
        };
        let (free, delivery, release) =
            try_join!(free, fees(target.chain(), deliveries), fees(source.chain(), escrows))?;
        let delivery_fee = delivery.map(|fees| fees.of_delivery(target));
        Ok(Conditions { free, delivery_fee, release_fee: release.map(|fees| fees.release) })
    }

    /// Whether enough tokens are free. For a payment that its payer signed they are held for the quote's firm time; for
    /// an unsigned request nothing is held.
    async fn covers(&self, rfq: &Rfq, candidate: &Candidate, now: Timestamp) -> Result<bool, Transient> {
        let asset = rfq.terms.destination()[candidate.destination].asset();
        let Some(chain) = self.chains.get(asset.chain()) else { return Ok(false) };
        let need = Need { key: &rfq.auction_id, asset, amount: rfq.terms.fulfillment_amount };
        let (inventory, balances) = (&self.inventory, &self.balances);
        for _ in 0..BALANCE_READS_MAX {
            let covered = if rfq.payment_id.is_some() {
                let funds = Balances::newest(&**chain, asset, inventory).await?;
                let Some(until) = held_until(&self.options, rfq, now) else { return Ok(false) };
                inventory.quote(need, funds, until, now)
            } else {
                let funds = balances.recent(&**chain, asset, inventory).await?;
                inventory.covers(need, funds, now)
            };
            match covered {
                Ok(()) => return Ok(true),
                Err(Refusal::Short) => return Ok(false),
                Err(Refusal::Outdated) => {}
            }
        }
        Err(Transient::contradiction("deliveries settled faster than the balance could be read"))
    }

    /// The outcome of a trial of the delivery; `None` when it is unknown at the moment.
    async fn tried(&self, rfq: &Rfq, candidate: &Candidate) -> Option<Trial> {
        let destination = rfq.terms.destination()[candidate.destination].clone();
        let chain = self.chains.get(destination.asset().chain())?;
        let (bulkhead, payment_id) = match &rfq.payment_id {
            Some(payment_id) => (Bulkhead::Signed, payment_id.clone()),
            // No payment has this id, so no delivery was ever made under it.
            None => (Bulkhead::Unsigned, PaymentId::derive("trial", &rfq.auction_id)),
        };
        let order = DeliveryOrder {
            payment_id,
            quote_hash: Hash32::ZERO,
            destination,
            amount: rfq.terms.fulfillment_amount,
            delivery_account: chain.account().clone(),
            proxy: candidate.proxy.clone(),
            fulfill_by: fulfill_by(&self.options, rfq),
        };
        self.trials.of(&**chain, &order, bulkhead).await
    }

    /// Everything in the quote follows from the request, the configuration and the price, so that a settler that was started again makes the
    /// same one where its prices are fixed.
    fn sign(&self, rfq: &Rfq, candidate: &Candidate, now: Timestamp) -> Option<SignedQuote> {
        let destination = rfq.terms.destination()[candidate.destination].clone();
        let source_chain = rfq.terms.source.asset().chain();
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: rfq.auction_id.clone(),
            terms_hash: rfq.terms_hash,
            settler: self.options.settler.clone(),
            source_chain: source_chain.clone(),
            source_amount: candidate.price,
            payout_account: self.chains.get(source_chain)?.account().clone(),
            escrow_contract: rfq.escrow.contract.clone(),
            delivery_account: self.chains.get(destination.asset().chain())?.account().clone(),
            destination,
            fulfillment_amount: rfq.terms.fulfillment_amount,
            fulfillment_proxy: candidate.proxy.clone(),
            fulfill_by: from_unix_seconds(fulfill_by(&self.options, rfq))?,
            valid_until: valid_until(&self.options, rfq)?,
        };
        quote.sign(&self.key, now.trunc_subsecs(0)).ok()
    }

    fn answers(&self) -> MutexGuard<'_, RecentMap<Hash32, String>> {
        // Inserting cannot panic half way.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// End of the quote: its firm time after the auction, but not beyond the deposit's window, or, where the money is in escrow, the
/// promised delivery; whole seconds.
fn valid_until(options: &Options, rfq: &Rfq) -> Option<Timestamp> {
    let firm = unix_seconds(rfq.quote_deadline).checked_add(options.quoting.firm_seconds)?;
    let latest = if rfq.escrowed.is_some() { fulfill_by(options, rfq) } else { rfq.escrow.reserve_deadline.0 };
    from_unix_seconds(firm.min(latest))
}

/// Until when the tokens of a quote that is given now are held, unless it lapses before.
fn held_until(options: &Options, rfq: &Rfq, now: Timestamp) -> Option<Timestamp> {
    let firm = now.checked_add_signed(TimeDelta::try_seconds(options.quoting.firm_seconds.try_into().ok()?)?)?;
    Some(firm.min(valid_until(options, rfq)?))
}

/// Promised time of delivery, UNIX seconds.
fn fulfill_by(options: &Options, rfq: &Rfq) -> u64 {
    let latest = rfq.escrow.fulfillment_deadline.0.min(unix_seconds(rfq.fulfillment_deadline));
    match options.quoting.delivery_seconds_promised {
        Some(seconds) => latest.min(unix_seconds(rfq.quote_deadline).saturating_add(seconds)),
        None => latest,
    }
}

/// Whether a destination of a corridor that is traded could be served, whatever its price; the proxy through which.
fn served<'a>(options: &Options, rfq: &'a Rfq, destination: usize, now: Timestamp) -> Result<&'a Account, Decline> {
    let (source, target) = (&rfq.terms.source, &rfq.terms.destination()[destination]);
    let source_chain = source.asset().chain();

    let proxy = rfq.fulfillment_proxies.get(destination).ok_or(Decline::UntrustedContract)?;
    let trusted = options.trusts_escrow(source_chain, &rfq.escrow.contract)
        && options.trusts_proxy(target.asset().chain(), proxy);
    if !trusted {
        return Err(Decline::UntrustedContract);
    }
    let verifier = options.verifier(source_chain, &rfq.escrow.releaser).ok_or(Decline::UntrustedVerifier)?;
    if !options.escrow_heeds(source_chain, &rfq.escrow.contract, verifier) {
        return Err(Decline::UntrustedContract);
    }
    if !rfq.required_policies.iter().all(|policy| options.policies.contains(policy)) {
        return Err(Decline::PolicyNotHeld);
    }

    within_limits(&options.limits, rfq, now)?;
    let (quote_deadline, fulfill_by) = (unix_seconds(rfq.quote_deadline), fulfill_by(options, rfq));
    let delay = options.refund_delay_seconds(source_chain).ok_or(Decline::UntrustedContract)?;
    let in_time = now < rfq.quote_deadline
        && valid_until(options, rfq).is_some_and(|until| until >= rfq.quote_deadline)
        && fulfill_by >= quote_deadline.saturating_add(options.quoting.delivery_seconds_min)
        && rfq.escrow.refund_after.0 >= fulfill_by.saturating_add(delay);
    if !in_time {
        return Err(Decline::DeadlineTooShort);
    }

    // Nobody can hold an amount that the destination chain cannot represent.
    if rfq.terms.fulfillment_amount.within(target.family().amount_bits()).is_err() {
        return Err(Decline::InsufficientLiquidity);
    }
    if is_too_small(target.asset(), rfq.terms.fulfillment_amount) {
        return Err(Decline::AmountTooSmall);
    }
    Ok(proxy)
}

/// The price, where the payer and the escrow have room for it.
fn priced(rfq: &Rfq, pricing: &Pricing, conditions: Conditions, now: Timestamp) -> Result<Amount, Decline> {
    let bits = rfq.terms.source.family().amount_bits();
    let price =
        pricing.price(rfq.terms.fulfillment_amount, bits, conditions, now).map_err(|unpriced| match unpriced {
            Unpriced::Unknown => Decline::TemporarilyUnavailable,
            Unpriced::TooLarge => Decline::PriceAboveCap,
        })?;
    let caps = [rfq.terms.max_source_amount, rfq.escrowed.map(|escrowed| escrowed.amount)];
    if caps.into_iter().flatten().any(|cap| price > cap) {
        return Err(Decline::PriceAboveCap);
    }
    Ok(price)
}

/// Whether the deadlines are within the settler's limits. In a batch the payer chooses the deposit's window when it
/// awards, so that window is checked then; where the money is in escrow it does not matter any more.
fn within_limits(limits: &LimitsConfig, rfq: &Rfq, now: Timestamp) -> Result<(), Decline> {
    let now = unix_seconds(now);
    let escrow = &rfq.escrow;
    let within = |at: u64, from: u64, most: u64| {
        let is_near = at <= from.saturating_add(most) && from_unix_seconds(at).is_some();
        if is_near { Ok(()) } else { Err(Decline::DeadlineTooLong) }
    };
    within(unix_seconds(rfq.quote_deadline), now, limits.quote_seconds_max)?;
    within(unix_seconds(rfq.fulfillment_deadline), now, limits.settlement_seconds_max)?;
    within(escrow.fulfillment_deadline.0, now, limits.settlement_seconds_max)?;
    if rfq.escrowed.is_none() {
        within(escrow.reserve_deadline.0, now, limits.settlement_seconds_max)?;
    }
    within(escrow.refund_after.0, escrow.fulfillment_deadline.0, limits.refund_seconds_max)
}
