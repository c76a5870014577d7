//! From a request for quotes to a signed quote or a decline.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use chains::solana::program::is_too_small;
use chrono::SubsecRound;
use ed25519_dalek::SigningKey;
use events::{
    Amount, ChainId, Hash32,
    quote::{Quote, SignedQuote},
    time::{Timestamp, from_unix_seconds, unix_seconds},
};

use crate::{
    chain::{DeliveryChain, Transient},
    config::Options,
    inventory::{Funds, Inventory, Refusal},
    protocol::{Bid, Rfq},
};

/// Quotes that are remembered; an older one is made anew, with the same hash as long as the prices are the same.
const ANSWERS_MAX: usize = 4096;
/// How often a balance is read again because a delivery was settled in between.
const BALANCE_READS_MAX: usize = 5;

/// The chains a settler works on.
pub type Chains = HashMap<ChainId, Arc<dyn DeliveryChain>>;

/// Why a settler does not quote, in the order in which it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decline {
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
    /// The destination chain takes no delivery of so little to an account that may be new.
    AmountTooSmall,
    /// The price exceeds the payer's cap.
    PriceAboveCap,
    /// The tokens are not there, or are promised.
    InsufficientLiquidity,
    /// The settler cannot tell at the moment what it holds.
    TemporarilyUnavailable,
}

impl Decline {
    /// The reason code on the wire.
    pub fn code(self) -> &'static str {
        match self {
            Self::UnsupportedCorridor => "UNSUPPORTED_CORRIDOR",
            Self::UntrustedContract => "UNTRUSTED_CONTRACT",
            Self::UntrustedVerifier => "UNTRUSTED_VERIFIER",
            Self::PolicyNotHeld => "POLICY_NOT_HELD",
            Self::DeadlineTooShort => "DEADLINE_TOO_SHORT",
            Self::AmountTooSmall => "AMOUNT_TOO_SMALL",
            Self::PriceAboveCap => "PRICE_ABOVE_CAP",
            Self::InsufficientLiquidity => "INSUFFICIENT_LIQUIDITY",
            Self::TemporarilyUnavailable => "TEMPORARILY_UNAVAILABLE",
        }
    }
}

/// A destination that could be served, with its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    price: Amount,
    destination: usize,
}

/// Answers requests for quotes.
pub struct Quoter {
    options: Arc<Options>,
    key: SigningKey,
    chains: Chains,
    inventory: Arc<Inventory>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    quotes: HashMap<Hash32, String>,
    order: VecDeque<Hash32>,
}

impl Quoter {
    /// A quoter that signs with `key` and promises from `inventory`.
    pub fn new(options: Arc<Options>, key: SigningKey, chains: Chains, inventory: Arc<Inventory>) -> Self {
        Self { options, key, chains, inventory, answers: Mutex::default() }
    }

    /// The answer to `rfq` at `now`; the same request is answered with the same quote. `fingerprint` is the hash of the
    /// request as it came.
    ///
    /// # Errors
    /// [`Transient`] when the balance cannot be read; nothing was promised.
    pub async fn answer(&self, rfq: &Rfq, fingerprint: Hash32, now: Timestamp) -> Result<Bid, Transient> {
        if let Some(document) = self.answers().quotes.get(&fingerprint) {
            return Ok(Bid::quote(document.clone()));
        }
        let declined = |decline: Decline| Ok(Bid::decline(decline.code()));
        let candidates = match candidates(&self.options, rfq, now) {
            Ok(candidates) => candidates,
            Err(decline) => return declined(decline),
        };
        for candidate in candidates {
            if !self.promise(rfq, candidate, now).await? {
                continue;
            }
            let Some(signed) = self.sign(rfq, candidate, now) else {
                self.inventory.settle(&rfq.auction_id);
                return declined(Decline::TemporarilyUnavailable);
            };
            self.answers().remember(fingerprint, signed.document());
            return Ok(Bid::quote(signed.document()));
        }
        declined(Decline::InsufficientLiquidity)
    }

    async fn promise(&self, rfq: &Rfq, candidate: Candidate, now: Timestamp) -> Result<bool, Transient> {
        let asset = rfq.terms.destination()[candidate.destination].asset();
        let (Some(chain), Some(lapses)) = (self.chains.get(asset.chain()), valid_until(rfq)) else { return Ok(false) };
        for _ in 0..BALANCE_READS_MAX {
            let mark = self.inventory.mark();
            let funds = Funds { mark, balance: chain.balance(asset).await? };
            let amount = rfq.terms.fulfillment_amount;
            match self.inventory.promise(&rfq.auction_id, asset, amount, funds, lapses, now) {
                Ok(()) => return Ok(true),
                Err(Refusal::Short) => return Ok(false),
                Err(Refusal::Outdated) => {}
            }
        }
        Err(Transient("deliveries settled faster than the balance could be read".to_owned()))
    }

    /// Everything in the quote follows from the request and the configuration, so that a settler that was started
    /// again makes the same one.
    fn sign(&self, rfq: &Rfq, candidate: Candidate, now: Timestamp) -> Option<SignedQuote> {
        let destination = rfq.terms.destination()[candidate.destination].clone();
        let source_chain = rfq.terms.source.asset().chain();
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: rfq.auction_id.clone(),
            terms_hash: rfq.terms_hash,
            settler: self.options.settler.clone(),
            source_chain: source_chain.clone(),
            source_amount: candidate.price,
            payout_account: self.chains.get(source_chain)?.account().to_owned(),
            escrow_contract: rfq.escrow.contract.clone(),
            delivery_account: self.chains.get(destination.asset().chain())?.account().to_owned(),
            destination,
            fulfillment_amount: rfq.terms.fulfillment_amount,
            fulfillment_proxy: rfq.fulfillment_proxies.get(candidate.destination)?.clone(),
            fulfill_by: from_unix_seconds(fulfill_by(&self.options, rfq))?,
            valid_until: valid_until(rfq)?,
        };
        quote.sign(&self.key, now.trunc_subsecs(0)).ok()
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        // Inserting cannot panic half way.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers {
    fn remember(&mut self, fingerprint: Hash32, document: &str) {
        if self.quotes.insert(fingerprint, document.to_owned()).is_none() {
            self.order.push_back(fingerprint);
        }
        if self.order.len() > ANSWERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.quotes.remove(&oldest);
        }
    }
}

/// The quote may be awarded as long as the deposit may be made.
fn valid_until(rfq: &Rfq) -> Option<Timestamp> {
    from_unix_seconds(rfq.escrow.reserve_deadline.0)
}

/// Promised time of delivery, UNIX seconds.
fn fulfill_by(options: &Options, rfq: &Rfq) -> u64 {
    let latest = rfq.escrow.fulfillment_deadline.0.min(unix_seconds(rfq.fulfillment_deadline));
    match options.quoting.delivery_seconds_promised {
        Some(seconds) => latest.min(unix_seconds(rfq.quote_deadline).saturating_add(seconds)),
        None => latest,
    }
}

/// The destinations that could be served, cheapest first, or the reason why none can: the one that the destination
/// which came furthest failed for.
fn candidates(options: &Options, rfq: &Rfq, now: Timestamp) -> Result<Vec<Candidate>, Decline> {
    let mut found = Vec::new();
    let mut furthest = Decline::UnsupportedCorridor;
    for destination in 0..rfq.terms.destination().len() {
        match candidate(options, rfq, destination, now) {
            Ok(candidate) => found.push(candidate),
            Err(decline) if decline > furthest => furthest = decline,
            Err(_) => {}
        }
    }
    found.sort_by_key(|candidate| (candidate.price, candidate.destination));
    if found.is_empty() { Err(furthest) } else { Ok(found) }
}

fn candidate(options: &Options, rfq: &Rfq, destination: usize, now: Timestamp) -> Result<Candidate, Decline> {
    let (source, target) = (&rfq.terms.source, &rfq.terms.destination()[destination]);
    let source_chain = source.asset().chain();
    let corridor = (source.asset().clone(), target.asset().clone());
    let pricing = options.corridors.get(&corridor).ok_or(Decline::UnsupportedCorridor)?;

    let proxy = rfq.fulfillment_proxies.get(destination).ok_or(Decline::UntrustedContract)?;
    let trusted = options.trusts_escrow(source_chain, &rfq.escrow.contract)
        && options.trusts_proxy(target.asset().chain(), proxy);
    if !trusted {
        return Err(Decline::UntrustedContract);
    }
    if options.verifier(source_chain, &rfq.escrow.releaser).is_none() {
        return Err(Decline::UntrustedVerifier);
    }
    if !rfq.required_policies.iter().all(|policy| options.policies.contains(policy)) {
        return Err(Decline::PolicyNotHeld);
    }

    let (quote_deadline, fulfill_by) = (unix_seconds(rfq.quote_deadline), fulfill_by(options, rfq));
    let delay = options.refund_delay_seconds(source_chain).ok_or(Decline::UntrustedContract)?;
    let in_time = now < rfq.quote_deadline
        && valid_until(rfq).is_some_and(|until| until >= rfq.quote_deadline)
        && fulfill_by >= quote_deadline.saturating_add(options.quoting.delivery_seconds_min)
        && rfq.escrow.refund_after.0 >= fulfill_by.saturating_add(delay);
    if !in_time {
        return Err(Decline::DeadlineTooShort);
    }

    // What the destination chain has no number for, nobody can hold there.
    if rfq.terms.fulfillment_amount.within(target.family().amount_bits()).is_err() {
        return Err(Decline::InsufficientLiquidity);
    }
    if is_too_small(target.asset(), rfq.terms.fulfillment_amount) {
        return Err(Decline::AmountTooSmall);
    }
    let price = pricing.price(rfq.terms.fulfillment_amount, source.family().amount_bits());
    let price = price.ok_or(Decline::PriceAboveCap)?;
    if rfq.terms.max_source_amount.is_some_and(|cap| price > cap) {
        return Err(Decline::PriceAboveCap);
    }
    Ok(Candidate { price, destination })
}
