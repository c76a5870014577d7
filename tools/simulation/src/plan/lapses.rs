//! The plan of a run in which reservations lapse: settlers promise to deliver within seconds or minutes, and often do not.

use std::time::Duration;

use super::{Character, Funding, Plan, Route, SettlerPlan, VerifiersPlan};
use crate::random::RandomSource;

/// Of a thousand seeds, reservations lapse in so many.
const SHARE: u32 = 200;
/// Settlers that agree to what they win and mostly do not deliver.
const FADERS: [Character; 9] = [
    Character::Fading,
    Character::Fading,
    Character::Overdue,
    Character::Overdue,
    Character::Dying,
    Character::Reluctant,
    Character::Reluctant,
    Character::Tardy,
    Character::Vanishing,
];
/// Settlers that deliver where those did not.
const FOLLOWERS: [Character; 6] =
    [Character::Honest, Character::Honest, Character::Honest, Character::Reluctant, Character::Gone, Character::Dying];

/// What a settler answers where the money is in escrow already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Its price, or what is in escrow where that is less.
    AtMost,
    /// Nothing that could be awarded.
    Declines,
    /// More than what is in escrow.
    AsksMore,
}

/// Who follows a settler that does not deliver, and who gets in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LapsesPlan {
    /// Whether promises are so short that reservations lapse while there is time for others.
    pub are_wanted: bool,
    /// Most reassignments of one escrow.
    pub reassignments_max: u32,
    /// How long quotes are collected for one.
    pub window: Duration,
    /// Whether a stranger cancels with the non-deliveries that anybody can have.
    pub stranger_cancels: bool,
    /// Whether the key of the reserver is stolen.
    pub reserver_is_stolen: bool,
    /// Whether each process knows from its start which verifiers follow reassignments, and not only from their answers.
    pub verifiers_are_known: bool,
}

impl Default for LapsesPlan {
    fn default() -> Self {
        Self {
            are_wanted: false,
            reassignments_max: 8,
            window: Duration::from_secs(2),
            stranger_cancels: false,
            reserver_is_stolen: false,
            verifiers_are_known: false,
        }
    }
}

/// Whether reservations are to lapse in the run of `seed`.
pub(super) fn are_in(seed: u64) -> bool {
    RandomSource::new(seed, "share of lapses").chance(SHARE)
}

impl Plan {
    /// The plan of `seed` in which reservations lapse for certain, whatever other seeds do.
    pub fn lapsing(seed: u64) -> Self {
        Self::drawn(seed).with_lapses(seed)
    }

    /// The plan of `seed` without anything that goes wrong but that the first winner, of two, does not deliver.
    pub fn fading(seed: u64) -> Self {
        let mut plan = Self::fair(seed);
        let honest = plan.settlers[0];
        let promise = |beyond: u64| Some(plan.pace() + beyond);
        plan.settlers = vec![
            SettlerPlan { character: Character::Fading, margin: 3, promise: promise(30), ..honest },
            SettlerPlan { character: Character::Honest, margin: 6, promise: promise(120), ..honest },
        ];
        plan.verifiers = VerifiersPlan::honest(2, 3);
        plan.payments[0].fulfill = 900;
        plan.lapses.are_wanted = true;
        plan.lapses.window = Duration::from_secs(6);
        plan
    }

    pub(super) fn with_lapses(mut self, seed: u64) -> Self {
        let random = RandomSource::new(seed, "lapses");
        self.payments.truncate(2);
        for payment in &mut self.payments {
            payment.fulfill += random.number(150..=450);
            if random.chance(900) {
                (payment.route, payment.funding) = (Route::Auction, Funding::Sound);
            }
        }
        let pace = self.pace();
        self.settlers.truncate(1);
        if random.chance(250) {
            // Refused by the first, not delivered by the second, and then the first is asked again.
            self.settlers.push(settler(&random, &[Character::Reluctant], 1..=1));
            self.settlers.push(settler(&random, &[Character::Fading, Character::Overdue], 2..=2));
        } else {
            for _ in 0..random.number(1..=3) {
                self.settlers.push(settler(&random, &FADERS, 1..=3));
            }
        }
        for _ in 0..random.number(1..=2) {
            self.settlers.push(settler(&random, &FOLLOWERS, 3..=9));
        }
        for settler in &mut self.settlers {
            // Some promise what nobody can keep.
            let hasty = random.chance(100);
            settler.promise = Some(if hasty { random.number(5..=30) } else { pace + random.number(10..=70) });
            settler.follows = random.chance(900);
            settler.offer = match random.number(0..=9) {
                0..=6 => Offer::AtMost,
                7 | 8 => Offer::AsksMore,
                _ => Offer::Declines,
            };
        }
        self.lapses = LapsesPlan {
            are_wanted: true,
            reassignments_max: random.pick(&[8, 8, 8, 8, 8, 2, 1, 0]),
            window: Duration::from_millis(random.number(1_000..=6_000)),
            stranger_cancels: random.chance(450),
            reserver_is_stolen: random.chance(500),
            verifiers_are_known: random.chance(600),
        };
        if random.chance(500) {
            // So that what waits is signed again with higher fees.
            (self.faults.spike, self.faults.stuck) = (self.faults.spike.max(150), self.faults.stuck.max(200));
        }
        if random.chance(500) {
            self.faults.reorganisation = self.faults.reorganisation.max(60);
        }
        if random.chance(450) {
            self.verifiers.age(&random);
        }
        self
    }

    /// Seconds in which a deposit is settled on either chain, and a delivery mined on the other.
    fn pace(&self) -> u64 {
        let seconds = self.chains.iter().map(|chain| chain.block * (chain.depth + 4));
        seconds.max().unwrap_or_default()
    }
}

fn settler(random: &RandomSource, characters: &[Character], margins: std::ops::RangeInclusive<u64>) -> SettlerPlan {
    SettlerPlan {
        character: random.pick(characters),
        margin: random.number(margins),
        answers_after: Duration::from_millis(random.number(10..=2_000)),
        promise: None,
        offer: Offer::AtMost,
        follows: true,
    }
}
