//! What befalls few runs, each by itself or with others: an attacker with a submitter's key, clocks that are wrong by minutes, epochs
//! of the journal that begin and are sealed, many payments at once.

use std::{ops::RangeInclusive, time::Duration};

use super::{Plan, payment};
use crate::random::RandomSource;

/// Of a thousand seeds, each of these befalls so many.
const SHARE: u32 = 80;
/// A clock is never wrong by more, in milliseconds; its drift comes on top.
const STEPS_MAX_MS: i64 = 600_000;
/// Most that a clock gains or loses, in millionths.
const DRIFT_MAX_PPM: u64 = 100_000;
/// Payments of a crowd.
const CROWD: RangeInclusive<u64> = 6..=9;

/// Which of them befall a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Adversities {
    /// The key of a submitter is stolen.
    pub theft: bool,
    /// Clocks step and drift.
    pub clocks: bool,
    /// Epochs of the journal begin and are sealed.
    pub epochs: bool,
    /// Many payments come at once.
    pub crowd: bool,
}

impl Adversities {
    /// Those of `seed`.
    pub(super) fn draw(seed: u64) -> Self {
        let random = RandomSource::new(seed, "share of adversities");
        let befalls = || random.chance(SHARE);
        Self { theft: befalls(), clocks: befalls(), epochs: befalls(), crowd: befalls() }
    }
}

/// An attacker with the key of a submitter, on every chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theft {
    /// Which submitter.
    pub submitter: usize,
    /// When the attacker begins, from the start of the run. It ends when faults do.
    pub after: Duration,
    /// When the first process of the gateway is restarted with another key in its place, from the start of the run; the others follow.
    pub replaced_after: Option<Duration>,
}

/// A step of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// When, from the start of the run.
    pub after: Duration,
    /// By how much, in milliseconds; backward where it is negative.
    pub by_ms: i64,
}

/// How a clock is wrong, until faults end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockPlan {
    /// Its steps, in order.
    pub steps: Vec<ClockStep>,
    /// What it gains, in millionths; loses where it is negative.
    pub drift_ppm: i64,
}

impl ClockPlan {
    /// By how much it is ahead so long after the start of the run, in milliseconds.
    pub fn ahead_ms(&self, elapsed: Duration) -> i64 {
        let steps = self.steps.iter().filter(|step| step.after <= elapsed).map(|step| step.by_ms);
        let elapsed_ms = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        steps.sum::<i64>() + elapsed_ms.saturating_mul(self.drift_ppm) / 1_000_000
    }

    fn draw(random: &RandomSource, until: Duration) -> Self {
        let (mut steps, mut ahead) = (Vec::new(), 0);
        let mut times: Vec<_> = (0..random.number(1..=4)).map(|_| random.number(0..=until.as_secs())).collect();
        times.sort_unstable();
        for second in times {
            let by = i64::try_from(random.number(5_000..=600_000)).unwrap_or_default();
            let wanted = if random.chance(500) { ahead + by } else { ahead - by };
            let next = wanted.clamp(-STEPS_MAX_MS, STEPS_MAX_MS);
            steps.push(ClockStep { after: Duration::from_secs(second), by_ms: next - ahead });
            ahead = next;
        }
        let drift = i64::try_from(random.number(0..=DRIFT_MAX_PPM)).unwrap_or_default();
        let drift_ppm = random.pick(&[0, drift, -drift]);
        Self { steps, drift_ppm }
    }
}

/// An epoch of the journal that an operator begins, after which it seals the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochPlan {
    /// When it begins, from the start of the run.
    pub after: Duration,
    /// Its shards.
    pub shards: u16,
    /// Whether the operator's call dies half-way at first, and is made again.
    pub begins_twice: bool,
    /// The process of the gateway that dies as it begins.
    pub kills: Option<usize>,
    /// How long after its beginning the one before is sealed at the earliest.
    pub grace: Duration,
    /// Whether sealing dies half-way at first, and is done again.
    pub seals_twice: bool,
}

impl Plan {
    /// The same with these adversities, as `seed` draws them.
    #[must_use]
    pub fn with(mut self, seed: u64, adversities: Adversities) -> Self {
        if adversities.theft {
            self.theft = Some(self.drawn_theft(&RandomSource::new(seed, "theft")));
        }
        if adversities.clocks {
            let (random, until) = (RandomSource::new(seed, "clocks"), self.faults_end_after);
            self.gateway_clocks = self.gateways.iter().map(|_| ClockPlan::draw(&random, until)).collect();
            let settlers = self.settlers.iter().map(|_| match random.chance(500) {
                true => ClockPlan::draw(&random, until),
                false => ClockPlan::default(),
            });
            self.settler_clocks = settlers.collect();
        }
        if adversities.epochs {
            self.epochs = self.drawn_epochs(&RandomSource::new(seed, "epochs"));
        }
        if adversities.crowd && !self.lapses.are_wanted {
            self.crowd(&RandomSource::new(seed, "crowd"), &RandomSource::new(seed, "routes of the crowd"));
        }
        self
    }

    fn drawn_theft(&self, random: &RandomSource) -> Theft {
        let after = Duration::from_secs(random.number(0..=90));
        let last = self.submitters.saturating_sub(1) as u64;
        Theft {
            submitter: usize::try_from(random.number(0..=last)).unwrap_or_default(),
            after,
            replaced_after: random.chance(600).then(|| after + Duration::from_secs(random.number(10..=120))),
        }
    }

    fn drawn_epochs(&self, random: &RandomSource) -> Vec<EpochPlan> {
        let mut after = Duration::ZERO;
        let count = random.number(1..=2);
        let epochs = (0..count).map(|_| {
            after += Duration::from_secs(random.number(3..=60));
            let last = self.gateways.len().saturating_sub(1) as u64;
            let killed = usize::try_from(random.number(0..=last)).unwrap_or_default();
            EpochPlan {
                after,
                shards: random.pick(&[1, 2, 3]),
                begins_twice: random.chance(300),
                kills: random.chance(400).then_some(killed),
                grace: Duration::from_secs(random.number(5..=120)),
                seals_twice: random.chance(400),
            }
        });
        epochs.collect()
    }

    /// Payments within seconds of each other, in the place of those that were drawn.
    fn crowd(&mut self, random: &RandomSource, routes: &RandomSource) {
        let begins = Duration::from_secs(random.number(1..=20));
        let count = random.number(CROWD);
        self.payments = (0..count)
            .map(|_| {
                let mut payment = payment(random, routes);
                payment.at = begins + Duration::from_millis(random.number(0..=3_000));
                self.lengthen(&mut payment);
                payment
            })
            .collect();
    }
}
