//! Pacer: holds the chain's clock to the system's.
//!
//! The runtime adds a slot's time to its clock for each slot, and sleeps a slot's time before the next. What each of these
//! sleeps takes longer on a busy machine adds up, and an idle one gains (a block more in 75): after an hour the clock would be
//! a minute off, and with it every deadline that programs compare with it. So the pacer looks again and again. A clock that
//! has fallen behind travels on, which skips slots; one that is ahead is paused until its time has come. Neither slots nor
//! seconds ever go back, and a machine that stood still is caught up with in one journey, or one for each epoch (432,000 slots).
//! After the first epoch the clock's own slot is counted from the epoch's start for one slot after a journey.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::Runtime;

const CLOCK_SYSVAR: &str = "SysvarC1ock11111111111111111111111111111111";
/// Between two looks at the clock, which shows whole seconds: looks at ever other parts of a second tell how far it is off.
const LOOK_EVERY: Duration = Duration::from_millis(430);
/// How far the clock may be ahead before it is paused, in milliseconds.
const AHEAD_MS_MAX: i64 = 200;
/// What is further ahead was moved on purpose, by whom the pacer does not know, or the system's clock was set back: it stays
/// so. In milliseconds.
const MOVED_MS: i64 = 10_000;
/// How often a paused runtime is asked whether the slots that were under way are made.
const STILL_ASKS_MAX: usize = 50;
/// Slots that a journey has to gain, so that the one that it ends itself does not count.
const SLOTS_GAINED_MIN: u64 = 2;

/// Holds one chain's clock to the system's.
pub(super) struct Pacer {
    runtime: Arc<Runtime>,
    slot_ms: u64,
    /// Milliseconds by which the chain's clock is meant to be ahead of the system's. Whoever moves the clock holds it.
    ahead_ms: Mutex<i64>,
}

/// Where the chain is (`getEpochInfo`).
#[derive(Debug, PartialEq, Eq)]
struct Position {
    absolute_slot: u64,
    epoch: u64,
    slot_index: u64,
    slots_in_epoch: u64,
}

impl Position {
    /// The second to travel to from `second` on the way to `now`, where that leads to a later slot.
    ///
    /// A journey counts its slots from the index in the epoch, which lags behind the slot until the first one, and it does not
    /// know where an epoch ends. So it ends before the epoch does, and the next one begins in the next epoch.
    fn journey(&self, second: u64, now: u64, slot_ms: u64) -> Option<u64> {
        let left = self.slots_in_epoch.saturating_sub(self.slot_index).saturating_sub(1);
        let to = now.min(second.saturating_add(left.saturating_mul(slot_ms) / 1_000));
        // The clock shows whole seconds, so the way may be a second shorter.
        let journey_ms = to.saturating_sub(second).saturating_sub(1).saturating_mul(1_000);
        let index = self.slot_index.saturating_add(journey_ms / slot_ms.max(1));
        let slot = index.saturating_add(self.epoch.saturating_mul(self.slots_in_epoch));
        let later = slot >= self.absolute_slot.saturating_add(SLOTS_GAINED_MIN);
        (journey_ms > 0 && later).then_some(to)
    }
}

impl Pacer {
    /// A pacer for the chain that `runtime` makes, with a slot every `slot_ms` milliseconds.
    pub fn new(runtime: Arc<Runtime>, slot_ms: u64) -> Self {
        Self { runtime, slot_ms, ahead_ms: Mutex::new(0) }
    }

    /// Looks after the clock for ever. A runtime that does not answer, because it or the machine stands still, is asked again.
    pub async fn run(self: Arc<Self>) {
        let mut slot = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            slot = self.look(slot).await.ok();
        }
    }

    /// Moves the clock to the UNIX second `time`, and lets it be as far ahead from then on.
    pub async fn travel_to(&self, time: u64) -> Result<()> {
        let mut ahead_ms = self.ahead_ms.lock().await;
        self.travel(time).await?;
        *ahead_ms = milliseconds(time)? - now_ms()?;
        Ok(())
    }

    /// Corrects the clock where it is off; `before` is the slot of the last look. Returns the slot.
    async fn look(&self, before: Option<u64>) -> Result<u64> {
        let mut ahead_ms = self.ahead_ms.lock().await;
        let position = self.position().await?;
        if before == Some(position.absolute_slot) {
            // A pause that was asked for without an answer may have come into effect later than its end.
            self.resume().await?;
        }
        let second = self.second().await?;
        let too_far = milliseconds(second)? - now_ms()? - *ahead_ms;
        if too_far > MOVED_MS {
            *ahead_ms += too_far;
        } else if too_far > AHEAD_MS_MAX {
            let early = Duration::from_millis(too_far.unsigned_abs());
            self.paused(tokio::time::sleep(early)).await?;
        } else if self.journey(&position, second, *ahead_ms)?.is_some() {
            self.paused(self.catch_up(*ahead_ms)).await??;
        }
        Ok(position.absolute_slot)
    }

    /// Travels to the current second, if the clock is behind still when all slots that were under way are made.
    async fn catch_up(&self, ahead_ms: i64) -> Result<()> {
        let mut position = self.position().await?;
        for _ in 0..STILL_ASKS_MAX {
            tokio::time::sleep(Duration::from_millis(2 * self.slot_ms)).await;
            let again = self.position().await?;
            if again == position {
                let second = self.second().await?;
                if let Some(to) = self.journey(&position, second, ahead_ms)? {
                    self.travel(to).await?;
                }
                return Ok(());
            }
            position = again;
        }
        Ok(())
    }

    /// The second to travel to from `second`, where the clock is behind.
    fn journey(&self, position: &Position, second: u64, ahead_ms: i64) -> Result<Option<u64>> {
        let now = u64::try_from(now_ms()? + ahead_ms)? / 1_000;
        Ok(position.journey(second, now, self.slot_ms))
    }

    /// Does something while no slots are made.
    async fn paused<T>(&self, done: impl Future<Output = T>) -> Result<T> {
        let paused = self.runtime.ask("surfnet_pauseClock", json!([])).await;
        let result = match paused {
            Ok(_) => Ok(done.await),
            Err(error) => Err(error),
        };
        while self.resume().await.is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        result
    }

    async fn resume(&self) -> Result<()> {
        self.runtime.ask("surfnet_resumeClock", json!([])).await?;
        Ok(())
    }

    async fn travel(&self, second: u64) -> Result<()> {
        let to = json!([{"absoluteTimestamp": milliseconds(second)?}]);
        self.runtime.ask("surfnet_timeTravel", to).await?;
        Ok(())
    }

    async fn position(&self) -> Result<Position> {
        let position = self.runtime.ask("getEpochInfo", json!([{"commitment": "processed"}])).await?;
        let number = |name| position.get(name).and_then(Value::as_u64).with_context(|| format!("no {name}"));
        Ok(Position {
            absolute_slot: number("absoluteSlot")?,
            epoch: number("epoch")?,
            slot_index: number("slotIndex")?,
            slots_in_epoch: number("slotsInEpoch")?,
        })
    }

    /// The clock's UNIX second.
    async fn second(&self) -> Result<u64> {
        let how = json!([CLOCK_SYSVAR, {"encoding": "jsonParsed", "commitment": "processed"}]);
        let clock = self.runtime.ask("getAccountInfo", how).await?;
        let second = clock.pointer("/value/data/parsed/info/unixTimestamp").and_then(Value::as_u64);
        let second = second.context("no clock")?;
        ensure!(second > 0, "a clock at zero");
        Ok(second)
    }
}

fn milliseconds(second: u64) -> Result<i64> {
    i64::try_from(second)?.checked_mul(1_000).context("a second beyond the calendar")
}

fn now_ms() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journey_never_leads_to_an_earlier_slot() {
        let at =
            |absolute_slot, epoch, slot_index| Position { absolute_slot, epoch, slot_index, slots_in_epoch: 1_000 };
        let journey = |position: Position, seconds: u64| position.journey(10, 10 + seconds, 50);
        // What the clock shows as a second may be nearly two.
        assert_eq!([0, 1, 2, 3].map(|seconds| journey(at(100, 0, 100), seconds)), [None, None, Some(12), Some(13)]);
        // The index lags behind by what was finalized at the start.
        assert_eq!([2, 3].map(|seconds| journey(at(131, 0, 100), seconds)), [None, Some(13)]);
        // The epoch ends on the way, less than a second from here, two seconds, and not yet.
        assert_eq!(journey(at(980, 0, 980), 9), None);
        assert_eq!(journey(at(950, 0, 950), 9), Some(12));
        assert_eq!(journey(at(1_010, 1, 10), 9), Some(19));
        // A machine that slept for a day gets as far as the epoch goes.
        assert_eq!(journey(at(100, 0, 100), 86_400), Some(10 + 44));
    }
}
