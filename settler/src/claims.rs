//! Collecting claims: money that an escrow owes the settler because a payout to it did not go through.
//!
//! A payout that a token refuses becomes a claim in the escrow, and nobody but the owner has a reason to bring it home. So the
//! escrows are asked when the settler starts, after each release, and at a slow interval. A claim is tried out before it is
//! sent; one that the chain still refuses is asked for again later and later.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use events::{Account, AssetId};
use ruint::aliases::U256;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    chain::{Claim, DeliveryChain, Transient},
    config::Options,
    quoting::Chains,
};

/// Releases that wait to be looked after; of one that finds no room the interval takes care.
const RELEASES_MAX: usize = 64;
/// Pause after the first fault, doubled with each further one up to the interval.
const FAULT_PAUSE: Duration = Duration::from_secs(30);
/// Longest pause after refusals, unless the interval is longer: a token that denies an account rarely stops within hours.
const REFUSAL_PAUSE_MAX: Duration = Duration::from_secs(86_400);

/// An escrow, and a token of its chain in which it may owe the settler something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The token.
    pub asset: AssetId,
    /// The escrow.
    pub escrow: Account,
}

impl Place {
    /// The place of `asset` in the escrow contract written as `escrow`; `None` when that is none of the asset's chain, or the
    /// asset is a chain's own coin, which no escrow holds.
    pub fn new(asset: &AssetId, escrow: &str) -> Option<Self> {
        let escrow = Account::parse(asset.chain().family()?, escrow).ok()?;
        (asset.namespace() != "slip44").then(|| Self { asset: asset.clone(), escrow })
    }
}

/// What came of a look at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to claim, or nothing that is worth it.
    Clear,
    /// The chain refuses the claim as it stands now.
    Refused,
    /// Nothing was learnt.
    HeldUp,
}

/// When each place is looked at next.
///
/// ```
/// use std::time::Duration;
///
/// use ruint::aliases::U256;
/// use settler::claims::{Outcome, Place, Rounds};
/// use tokio::time::Instant;
///
/// let asset = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48".parse()?;
/// let place = Place::new(&asset, "0x1111111111111111111111111111111111111111").unwrap();
/// let (start, hour) = (Instant::now(), Duration::from_secs(3_600));
/// let mut rounds = Rounds::new(hour, [(place.clone(), U256::ZERO)], start);
/// assert_eq!(rounds.next().unwrap().0, start);
/// rounds.looked(&place, Outcome::Refused, start);
/// assert_eq!(rounds.next().unwrap().0, start + 2 * hour);
/// # Ok::<(), events::caip::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Rounds {
    every: Duration,
    places: BTreeMap<Place, Due>,
}

#[derive(Debug, Clone)]
struct Due {
    at: Instant,
    /// What a claim must exceed to be worth its transaction, smallest unit.
    cost: U256,
    refusals: u32,
    faults: u32,
}

impl Rounds {
    /// All of `places` at once, and from then on each `every` so long. With each goes what a claim costs there, in its asset.
    pub fn new(every: Duration, places: impl IntoIterator<Item = (Place, U256)>, now: Instant) -> Self {
        let due = |(place, cost)| (place, Due { at: now, cost, refusals: 0, faults: 0 });
        Self { every, places: places.into_iter().map(due).collect() }
    }

    /// The place that is looked at next, when, and what a claim must exceed there.
    pub fn next(&self) -> Option<(Instant, Place, U256)> {
        let next = self.places.iter().min_by_key(|(_, due)| due.at);
        next.map(|(place, due)| (due.at, place.clone(), due.cost))
    }

    /// An escrow has released: it is looked at now. Where the last claim was refused the back-off stands, since another payout
    /// that failed is no sign that the owner can be paid again.
    pub fn released(&mut self, place: &Place, now: Instant) {
        if let Some(due) = self.places.get_mut(place).filter(|due| due.refusals == 0) {
            due.at = due.at.min(now);
        }
    }

    /// A place was looked at.
    pub fn looked(&mut self, place: &Place, outcome: Outcome, now: Instant) {
        let Some(due) = self.places.get_mut(place) else { return };
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

/// Where a settler may be owed something: the tokens it is paid in, in the escrows that it trusts. The cost is the least that
/// it asks for the transactions of a payment in that token, the only word there is about what gas is worth in it.
pub fn places(options: &Options) -> BTreeMap<Place, U256> {
    let mut places = BTreeMap::<Place, U256>::new();
    for ((source, _), pricing) in &options.corridors {
        let escrows = options.chains.get(source.chain()).into_iter().flat_map(|chain| chain.escrows());
        for place in escrows.filter_map(|escrow| Place::new(source, escrow)) {
            let cost = places.entry(place).or_insert(pricing.gas_cost);
            *cost = (*cost).min(pricing.gas_cost);
        }
    }
    places
}

/// Tells the service of releases.
#[derive(Debug, Clone)]
pub struct Handle(mpsc::Sender<Place>);

impl Handle {
    /// The escrow `contract` has released something in `asset`.
    pub fn released(&self, asset: &AssetId, contract: &str) {
        if let Some(place) = Place::new(asset, contract) {
            // Where there is no room the interval takes care of it.
            let _ = self.0.try_send(place);
        }
    }
}

/// Collects claims.
pub struct Service {
    rounds: Option<Rounds>,
    chains: Chains,
    released: mpsc::Receiver<Place>,
}

/// The service over `chains`, and its handle.
pub fn open(options: &Options, chains: Chains) -> (Service, Handle) {
    let (sender, released) = mpsc::channel(RELEASES_MAX);
    let rounds = options.claims.interval().map(|every| Rounds::new(every, places(options), Instant::now()));
    (Service { rounds, chains, released }, Handle(sender))
}

impl Service {
    /// Looks at one place after the other; returns at once where claims are not to be collected, or there is nowhere to look.
    pub async fn run(mut self) {
        let Some(mut rounds) = self.rounds.take() else { return };
        while let Some((at, place, cost)) = rounds.next() {
            tokio::select! {
                Some(released) = self.released.recv() => rounds.released(&released, Instant::now()),
                () = sleep_until(at) => {
                    let outcome = self.look(&place, cost).await;
                    rounds.looked(&place, outcome, Instant::now());
                }
            }
        }
    }

    async fn look(&self, place: &Place, cost: U256) -> Outcome {
        let Place { asset, escrow } = place;
        let Some(chain) = self.chains.get(asset.chain()) else { return Outcome::Clear };
        collect(chain, place, cost).await.unwrap_or_else(|fault| {
            tracing::warn!(%asset, escrow = escrow.as_str(), %fault, "claims are not known, asking again");
            Outcome::HeldUp
        })
    }
}

async fn collect(chain: &Arc<dyn DeliveryChain>, place: &Place, cost: U256) -> Result<Outcome, Transient> {
    let Place { asset, escrow } = place;
    let escrow = escrow.as_str();
    let owed = chain.claimable(escrow, asset).await?;
    if owed.is_zero() {
        return Ok(Outcome::Clear);
    }
    if owed <= cost {
        tracing::info!(%asset, escrow, %owed, %cost, "a claim is left where it is: it is worth no transaction");
        return Ok(Outcome::Clear);
    }
    match chain.claim(escrow, asset).await? {
        Claim::Paid { transaction_hash } => {
            tracing::info!(%asset, escrow, %owed, transaction_hash, "claimed what the escrow owed");
            Ok(Outcome::Clear)
        }
        Claim::Refused { reason } => {
            tracing::warn!(%asset, escrow, %owed, reason, "the escrow owes what cannot be claimed now, trying later");
            Ok(Outcome::Refused)
        }
    }
}
