//! Figures of rounds, and their medians.

use serde::Serialize;

/// What one round found with so many payments in flight.
#[derive(Debug, Clone, Serialize)]
pub struct Round {
    /// Payments in flight.
    pub in_flight: usize,
    /// Whole payments a second.
    pub payments_per_second: f64,
    /// A whole payment, the median.
    pub p50_ms: f64,
    /// A whole payment, the 99th percentile.
    pub p99_ms: f64,
    /// Commits of a payment.
    pub commits_per_payment: f64,
    /// Processor time a payment of this process: engine, journal's client, simulated world and load.
    pub process_us: f64,
    /// Processor time a payment of the store's processes.
    pub store_us: Option<f64>,
    /// Memory of the store's processes at the end.
    pub store_mib: Option<f64>,
    /// What the store's processes had written to the disk for a payment, in kilobytes.
    pub written_kb: Option<f64>,
    /// Commits that shared a transaction, on average.
    pub commits_per_transaction: Option<f64>,
}

/// The medians of a store's rounds with so many payments in flight.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// The store.
    pub store: &'static str,
    /// Payments in flight.
    pub in_flight: usize,
    /// Whole payments a second.
    pub payments_per_second: f64,
    /// The least and the most of the rounds.
    pub payments_per_second_range: [f64; 2],
    /// A whole payment, the median.
    pub p50_ms: f64,
    /// A whole payment, the 99th percentile.
    pub p99_ms: f64,
    /// Commits of a payment.
    pub commits_per_payment: f64,
    /// Processor time a payment of engine and journal's client: that of the process without world and load.
    pub engine_us: f64,
    /// Processor time a payment of simulated world and load, measured by themselves.
    pub world_us: f64,
    /// Processor time a payment of the store's processes.
    pub store_us: Option<f64>,
    /// Memory of the store's processes at the end.
    pub store_mib: Option<f64>,
    /// What the store's processes had written to the disk for a payment, in kilobytes.
    pub written_kb: Option<f64>,
    /// Commits that shared a transaction, on average.
    pub commits_per_transaction: Option<f64>,
}

impl Figures {
    /// The medians of these rounds, all with as many payments in flight; `None` when there are none.
    pub fn of(store: &'static str, rounds: &[&Round], world_us: f64) -> Option<Self> {
        let all = |of: fn(&Round) -> Option<f64>| rounds.iter().filter_map(|round| of(round)).collect::<Vec<_>>();
        let rates = all(|round| Some(round.payments_per_second));
        Some(Self {
            store,
            in_flight: rounds.first()?.in_flight,
            payments_per_second: median(&rates)?,
            payments_per_second_range: [
                rates.iter().copied().fold(f64::INFINITY, f64::min),
                rates.iter().copied().fold(0.0, f64::max),
            ],
            p50_ms: median(&all(|round| Some(round.p50_ms)))?,
            p99_ms: median(&all(|round| Some(round.p99_ms)))?,
            commits_per_payment: median(&all(|round| Some(round.commits_per_payment)))?,
            engine_us: (median(&all(|round| Some(round.process_us)))? - world_us).max(0.0),
            world_us,
            store_us: median(&all(|round| round.store_us)),
            store_mib: median(&all(|round| round.store_mib)),
            written_kb: median(&all(|round| round.written_kb)),
            commits_per_transaction: median(&all(|round| round.commits_per_transaction)),
        })
    }
}

/// The middle one, or the mean of the two in the middle; `None` of nothing.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A round of a store with this rate and processor time.
    pub fn round(in_flight: usize, rate: f64, process_us: f64) -> Round {
        Round {
            in_flight,
            payments_per_second: rate,
            p50_ms: 1.0,
            p99_ms: 2.0,
            commits_per_payment: 7.0,
            process_us,
            store_us: Some(200.0),
            store_mib: None,
            written_kb: Some(15.0),
            commits_per_transaction: None,
        }
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (Some(2.0), Some(2.5)));
    }

    #[test]
    fn the_engine_is_what_world_and_load_leave() {
        let rounds = [round(64, 10.0, 500.0), round(64, 30.0, 700.0), round(64, 20.0, 600.0)];
        let figures = Figures::of("x", &rounds.iter().collect::<Vec<_>>(), 100.0).unwrap();
        assert_eq!((figures.payments_per_second, figures.engine_us), (20.0, 500.0));
        assert_eq!(figures.payments_per_second_range, [10.0, 30.0]);
        assert_eq!((figures.store_us, figures.store_mib), (Some(200.0), None));
        assert!(Figures::of("x", &[], 0.0).is_none());
    }
}
