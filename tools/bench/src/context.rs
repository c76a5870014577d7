//! The context of every bench: paths, sizes, the payer, the baseline.

use std::time::Duration;

use anyhow::Result;
use tokio::sync::OnceCell;

use crate::{
    environment::Paths,
    load::{Bound, Load},
    orders::Payer,
    report::Rows,
};

/// Shards that a journal has by default.
pub const SHARDS: u16 = 8;

/// The size of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Just enough to see that everything works; the figures mean nothing.
    Brief,
    /// What figures are taken from.
    Usual,
    /// The usual, and what takes an hour.
    Full,
}

/// The run that a bench is a part of.
pub struct Context {
    /// Paths of binaries and data.
    pub paths: Paths,
    /// The size of the measurements.
    pub size: Size,
    /// The payer.
    pub payer: Payer,
    /// The baseline, once it is measured.
    pub baseline: OnceCell<Baseline>,
}

/// The throughput of raw JetStream.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// The loads of messages one by one, one for each number in flight.
    pub loads: Vec<Load>,
    /// Those of atomic batches, by the messages in each; none where they were not measured.
    pub batched: Vec<(usize, Load)>,
    /// Bytes that one message takes in its stream.
    pub message_bytes: f64,
}

impl Baseline {
    /// The most appends a second of messages one by one.
    pub fn best(&self) -> f64 {
        self.loads.iter().map(Load::rate).fold(0.0, f64::max)
    }

    /// The most appends a second in atomic batches.
    pub fn best_batched(&self) -> f64 {
        self.batched.iter().map(|(_, load)| load.rate()).fold(0.0, f64::max)
    }
}

impl Context {
    /// A run.
    ///
    /// # Errors
    /// Never, for the development network's assets.
    pub fn new(paths: Paths, size: Size) -> Result<Self> {
        Ok(Self { paths, size, payer: Payer::new()?, baseline: OnceCell::new() })
    }

    /// `brief` in a brief run, else `usual`.
    pub fn pick<T>(&self, brief: T, usual: T) -> T {
        if self.size == Size::Brief { brief } else { usual }
    }

    /// How far one load goes.
    pub fn bound(&self, brief_calls: usize, usual_calls: usize) -> Bound {
        Bound { calls: self.pick(brief_calls, usual_calls), time: Duration::from_secs(self.pick(5, 15)) }
    }

    /// Figures of a bench, as they come in.
    pub fn rows(&self, bench: &'static str) -> Rows {
        Rows::new(bench, self.size != Size::Brief)
    }
}
