//! Which faults strike: kinds, rates, draws by a seed, and how often each struck.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A failure mode of NATS, as a client meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A publish into a stream never arrives.
    PublishLost,
    /// It arrives later than whoever published it waits.
    PublishLate,
    /// It arrives twice.
    PublishTwice,
    /// It is refused, for certain: no responders, or a code that is given before anything is stored.
    PublishRefused,
    /// It is stored, and answered with a code that says nothing of that (10158, 10077, 10008, 10009).
    PublishUnclear,
    /// It is not stored, and answered with such a code.
    PublishDropped,
    /// Its acknowledgement is lost.
    AckLost,
    /// Its acknowledgement comes late.
    AckLate,
    /// A request to JetStream's API is answered as while leaders change.
    ApiRefused,
    /// Nobody responds to a request to JetStream's API.
    NoResponders,
    /// The answer to one is lost.
    AnswerLost,
    /// The answer of a stream's leader comes late.
    AnswerLate,
    /// A Direct Get is answered by a replica that is behind.
    DirectGetStale,
    /// A message that nobody acknowledges is lost.
    MessageLost,
    /// It overtakes, or is overtaken by, those of other subscriptions.
    MessageLate,
    /// It comes twice.
    MessageTwice,
    /// A consumer's message is delivered again.
    Redelivered,
    /// The client reads too slowly, and is disconnected.
    SlowConsumer,
    /// The connection ends somewhere in what the client sends.
    CutSending,
    /// It ends somewhere in what the client is sent.
    CutReceiving,
}

/// Every fault, in the order of its number.
pub const FAULTS: [Fault; 20] = [
    Fault::PublishLost,
    Fault::PublishLate,
    Fault::PublishTwice,
    Fault::PublishRefused,
    Fault::PublishUnclear,
    Fault::PublishDropped,
    Fault::AckLost,
    Fault::AckLate,
    Fault::ApiRefused,
    Fault::NoResponders,
    Fault::AnswerLost,
    Fault::AnswerLate,
    Fault::DirectGetStale,
    Fault::MessageLost,
    Fault::MessageLate,
    Fault::MessageTwice,
    Fault::Redelivered,
    Fault::SlowConsumer,
    Fault::CutSending,
    Fault::CutReceiving,
];

/// How often each fault struck.
#[derive(Debug, Default)]
pub struct Coverage([AtomicU64; FAULTS.len()]);

impl Coverage {
    /// Counts one.
    pub(super) fn struck(&self, fault: Fault) {
        self.0[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often `fault` struck so far.
    pub fn times(&self, fault: Fault) -> u64 {
        self.0[fault as usize].load(Ordering::Relaxed)
    }

    /// Those of `faults` that never struck.
    pub fn missing(&self, faults: &[Fault]) -> Vec<Fault> {
        faults.iter().copied().filter(|fault| self.times(*fault) == 0).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in FAULTS.iter().enumerate() {
            write!(f, "{}{fault:?} {}", if n == 0 { "" } else { ", " }, self.times(*fault))?;
        }
        Ok(())
    }
}

/// What strikes in one run, and how often, by its seed.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    seed: u64,
    /// Times in a thousand, by the fault's number.
    rates: [u16; FAULTS.len()],
    /// What is late is late by up to so much.
    late_max: Duration,
}

impl FaultPlan {
    /// A plan in which nothing strikes.
    pub fn calm(seed: u64) -> Self {
        Self { seed, rates: [0; FAULTS.len()], late_max: Duration::ZERO }
    }

    /// The plan of `seed`: about half of `faults`, each at a rate of its own up to `rate_max` in a thousand. What ends a
    /// connection is rarer, as each takes with it what is under way.
    pub fn draw(seed: u64, faults: &[Fault], rate_max: u16, late_max: Duration) -> Self {
        let mut plan = Self { late_max, ..Self::calm(seed) };
        for fault in faults {
            let mut dice = Dice::new(seed, "plan", *fault as u64);
            let rate = dice.below(u64::from(rate_max)) + 1;
            let rarer = if fault.ends_connections() { 8 } else { 1 };
            let rate = if dice.below(2) == 0 { (rate / rarer).max(1) } else { 0 };
            plan.rates[*fault as usize] = u16::try_from(rate).unwrap_or(u16::MAX);
        }
        plan
    }

    /// The same, in which `fault` strikes so many times in a thousand.
    #[must_use]
    pub fn with(mut self, fault: Fault, rate: u16) -> Self {
        self.rates[fault as usize] = rate;
        self
    }

    /// Whether `fault` strikes, by one draw.
    pub(super) fn strikes(&self, dice: &mut Dice, fault: Fault) -> bool {
        // A draw is made in any case, so that a rate of zero shifts nothing.
        dice.below(1000) < u64::from(self.rates[fault as usize])
    }

    /// A delay, by one draw.
    pub(super) fn delay(&self, dice: &mut Dice) -> Duration {
        let most = u64::try_from(self.late_max.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(dice.below(most.max(1)) + 1)
    }

    pub(super) fn dice(&self, what: &str, number: u64) -> Dice {
        Dice::new(self.seed, what, number)
    }
}

impl Fault {
    fn ends_connections(self) -> bool {
        matches!(self, Self::SlowConsumer | Self::CutSending | Self::CutReceiving)
    }
}

/// Draws that follow from a seed, what they are for, and its number: SplitMix64 from an FNV-1a hash of these. What is drawn for one
/// message does not shift what is drawn for others.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The draws for the `number`th of `what`.
    pub fn new(seed: u64, what: &str, number: u64) -> Self {
        let bytes = seed.to_be_bytes().into_iter().chain(what.bytes()).chain(number.to_be_bytes());
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    /// The next draw, from 0 to `end`, which is not one of them; 0 where there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_another_something_else() {
        let draws = |seed, what: &str, number| {
            let mut dice = Dice::new(seed, what, number);
            (0..8).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(1, "ack", 2), draws(1, "ack", 2));
        for other in [draws(2, "ack", 2), draws(1, "api", 2), draws(1, "ack", 3)] {
            assert_ne!(draws(1, "ack", 2), other);
        }
        let (mut dice, plan) = (Dice::new(7, "", 0), FaultPlan::calm(1).with(Fault::AckLost, 250));
        let struck = (0..10_000).filter(|_| plan.strikes(&mut dice, Fault::AckLost)).count();
        assert!((2_300..2_700).contains(&struck), "{struck}");
        assert!(!FAULTS.iter().enumerate().any(|(n, fault)| *fault as usize != n));
    }
}
