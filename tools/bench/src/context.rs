//! What every bench works with.

use std::time::Duration;

use anyhow::Result;
use tokio::sync::OnceCell;

use crate::{
    floor::{self, Floor, IN_FLIGHT},
    load::Bound,
    orders::Payer,
    report::Rows,
    stage::Place,
};

/// Shards that a journal has by default.
pub const SHARDS: u16 = 8;

/// How much is measured.
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
    /// Where binaries and data are.
    pub place: Place,
    /// How much is measured.
    pub size: Size,
    /// Who pays.
    pub payer: Payer,
    floor: OnceCell<Floor>,
}

impl Context {
    /// A run.
    ///
    /// # Errors
    /// Never, for the development network's assets.
    pub fn new(place: Place, size: Size) -> Result<Self> {
        Ok(Self { place, size, payer: Payer::new()?, floor: OnceCell::new() })
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

    /// What raw JetStream does with the usual shards, measured once in a run.
    ///
    /// # Errors
    /// When it cannot be measured.
    pub async fn floor(&self) -> Result<&Floor> {
        self.floor.get_or_try_init(|| floor::measure(self, SHARDS, &IN_FLIGHT)).await
    }
}
