//! Collecting claims: money that an escrow owes the settler because a payout to it did not go through.
//!
//! A payout that a token refuses becomes a claim in the escrow, and only its owner has a reason to collect it. So the
//! escrows are read when the settler starts, after each release, and at a slow interval. A claim is simulated before it
//! is sent; one that the chain refuses is tried again with back-off.

use std::{collections::BTreeMap, time::Duration};

use ruint::aliases::U256;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use chains::{perform::PerformError, settler::DeliveryChain};
use events::{Account, AssetId};
use sagas::ports::Transient;

use crate::{chain_registry::Chains, config::Options};

/// Most queued releases; one that finds no room is covered by the interval.
const RELEASES_MAX: usize = 64;
/// First pause of the back-off after a fault, doubled with each further one up to the interval.
const FAULT_PAUSE: Duration = Duration::from_secs(30);
/// Longest pause of the back-off after refusals, unless the interval is longer: a token that denies an account rarely
/// stops within hours.
const REFUSAL_PAUSE_MAX: Duration = Duration::from_secs(86_400);

/// A source of claims: an escrow, and a token in which it may owe the settler something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimSource {
    /// The token.
    pub asset: AssetId,
    /// The escrow.
    pub escrow: Account,
}

impl ClaimSource {
    /// The claims in `asset` in the contract `escrow`. `None` when that is not an account of the family of the asset's
    /// chain, or the asset is a chain's own coin, which no escrow holds.
    pub fn new(asset: &AssetId, escrow: &Account) -> Option<Self> {
        let is_token = asset.namespace() != "slip44" && asset.chain().family() == Some(escrow.family());
        is_token.then(|| Self { asset: asset.clone(), escrow: escrow.clone() })
    }
}

/// Outcome of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to claim that is worth a transaction.
    Clear,
    /// The chain refuses the claim at the moment.
    Refused,
    /// The chain could not be read.
    HeldUp,
}

/// When each source is checked next.
///
/// ```
/// use std::time::Duration;
///
/// use ruint::aliases::U256;
/// use settler::claims::{ClaimSource, Outcome, Schedule};
/// use tokio::time::Instant;
///
/// let asset = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48".parse()?;
/// let source = ClaimSource::new(&asset, &"0x1111111111111111111111111111111111111111".parse()?).unwrap();
/// let (start, hour) = (Instant::now(), Duration::from_secs(3_600));
/// let mut schedule = Schedule::new(hour, [(source.clone(), U256::ZERO)], start);
/// assert_eq!(schedule.next().unwrap().0, start);
/// schedule.checked(&source, Outcome::Refused, start);
/// assert_eq!(schedule.next().unwrap().0, start + 2 * hour);
/// # Ok::<(), events::caip::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    every: Duration,
    sources: BTreeMap<ClaimSource, Due>,
}

#[derive(Debug, Clone)]
struct Due {
    at: Instant,
    /// What a claim must exceed to be worth its transaction, smallest unit.
    cost: U256,
    refusals: u32,
    faults: u32,
}

impl Schedule {
    /// All of `sources` are due at once and then every `every`. The amount beside each is the cost of a claim there, in
    /// its asset.
    pub fn new(every: Duration, sources: impl IntoIterator<Item = (ClaimSource, U256)>, now: Instant) -> Self {
        let due = |(source, cost)| (source, Due { at: now, cost, refusals: 0, faults: 0 });
        Self { every, sources: sources.into_iter().map(due).collect() }
    }

    /// The source that is due next: when, which, and what a claim must exceed there.
    pub fn next(&self) -> Option<(Instant, ClaimSource, U256)> {
        let next = self.sources.iter().min_by_key(|(_, due)| due.at);
        next.map(|(source, due)| (due.at, source.clone(), due.cost))
    }

    /// An escrow has released: it is due now. After a refusal the back-off stays, because another failed payout does
    /// not show that the owner can be paid again.
    pub fn released(&mut self, source: &ClaimSource, now: Instant) {
        if let Some(due) = self.sources.get_mut(source).filter(|due| due.refusals == 0) {
            due.at = due.at.min(now);
        }
    }

    /// Records the outcome of a check.
    pub fn checked(&mut self, source: &ClaimSource, outcome: Outcome, now: Instant) {
        let Some(due) = self.sources.get_mut(source) else { return };
        match outcome {
            Outcome::Clear => (due.refusals, due.faults) = (0, 0),
            Outcome::Refused => (due.refusals, due.faults) = (due.refusals.saturating_add(1), 0),
            Outcome::HeldUp => due.faults = due.faults.saturating_add(1),
        }
        let pause = match outcome {
            Outcome::Clear => self.every,
            Outcome::Refused => doubled(self.every, due.refusals).min(REFUSAL_PAUSE_MAX.max(self.every)),
            Outcome::HeldUp => doubled(FAULT_PAUSE, due.faults - 1).min(self.every),
        };
        due.at = now + pause;
    }
}

fn doubled(pause: Duration, times: u32) -> Duration {
    pause.saturating_mul(1u32.checked_shl(times).unwrap_or(u32::MAX))
}

/// Where a settler may have claims: the tokens it is paid in, in the escrows that it trusts. The cost is the least that
/// it asks for the transactions of a payment in that token, which is the only price of gas in that token that the
/// configuration has.
pub fn sources(options: &Options) -> BTreeMap<ClaimSource, U256> {
    let mut sources = BTreeMap::<ClaimSource, U256>::new();
    for ((asset, _), pricing) in &options.book.corridors {
        let escrows = options.chains.get(asset.chain()).into_iter().flat_map(|chain| chain.common().escrows());
        for source in escrows.filter_map(|escrow| ClaimSource::new(asset, escrow)) {
            let cost = sources.entry(source).or_insert(pricing.gas_cost);
            *cost = (*cost).min(pricing.gas_cost);
        }
    }
    sources
}

/// Tells the service about releases.
#[derive(Debug, Clone)]
pub struct Handle(mpsc::Sender<ClaimSource>);

impl Handle {
    /// The escrow `contract` has released something in `asset`.
    pub fn released(&self, asset: &AssetId, contract: &Account) {
        if let Some(source) = ClaimSource::new(asset, contract) {
            // When the queue is full the interval covers this release.
            let _ = self.0.try_send(source);
        }
    }
}

/// Collects claims.
pub struct Service {
    schedule: Option<Schedule>,
    chains: Chains,
    released: mpsc::Receiver<ClaimSource>,
}

/// The service over `chains`, and its handle.
pub fn open(options: &Options, chains: Chains) -> (Service, Handle) {
    let (sender, released) = mpsc::channel(RELEASES_MAX);
    let schedule = options.claims.interval().map(|every| Schedule::new(every, sources(options), Instant::now()));
    (Service { schedule, chains, released }, Handle(sender))
}

impl Service {
    /// Checks one source after the other. Returns at once when collecting is switched off or there is no source.
    pub async fn run(mut self) {
        let Some(mut schedule) = self.schedule.take() else { return };
        while let Some((at, source, cost)) = schedule.next() {
            tokio::select! {
                Some(released) = self.released.recv() => schedule.released(&released, Instant::now()),
                () = sleep_until(at) => {
                    let outcome = self.check(&source, cost).await;
                    schedule.checked(&source, outcome, Instant::now());
                }
            }
        }
    }

    async fn check(&self, source: &ClaimSource, cost: U256) -> Outcome {
        let ClaimSource { asset, escrow } = source;
        let Some(chain) = self.chains.get(asset.chain()) else { return Outcome::Clear };
        collect(&**chain, source, cost).await.unwrap_or_else(|fault| {
            tracing::warn!(%asset, %escrow, %fault, "claims are not known, asking again");
            Outcome::HeldUp
        })
    }
}

async fn collect(chain: &dyn DeliveryChain, source: &ClaimSource, cost: U256) -> Result<Outcome, Transient> {
    let ClaimSource { asset, escrow } = source;
    let owed = chain.claimable(escrow, asset).await?;
    if owed.is_zero() {
        return Ok(Outcome::Clear);
    }
    if owed <= cost {
        tracing::info!(%asset, %escrow, %owed, %cost, "a claim is left where it is: it is worth no transaction");
        return Ok(Outcome::Clear);
    }
    match chain.claim(escrow, asset).await {
        Ok(transaction_hash) => {
            tracing::info!(%asset, %escrow, %owed, transaction_hash, "claimed what the escrow owed");
            Ok(Outcome::Clear)
        }
        Err(PerformError::Transient(fault)) => Err(fault),
        Err(refused) => {
            let reason = refused.to_string();
            tracing::warn!(%asset, %escrow, %owed, reason, "the escrow owes what cannot be claimed now, trying later");
            Ok(Outcome::Refused)
        }
    }
}
