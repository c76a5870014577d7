//! The entries of a gas budget, and the pure decisions that extend them.

use chrono::TimeDelta;
use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use events::time::Timestamp;

use super::{Budget, BudgetKey, BudgetState, Error, OPEN_MAX, Room};
use crate::ledger::Purpose;

const SCHEMA: u32 = 1;
/// Bytes of a purpose's digest that are kept.
const DIGEST_BYTES: usize = 10;
/// Losses within such a part of an hour are counted as one, from its beginning on.
const SLICE_SECONDS: i64 = 300;
/// Most slices that are kept, the newest; what is older is counted with the oldest of them.
const LOSSES_MAX: usize = 512;
/// Most purposes whose loss is known to be counted, the newest.
const COUNTED_MAX: usize = 128;

/// All there is to know of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    schema: u32,
    /// What is at stake.
    open: Vec<Charge>,
    /// What was lost, oldest first.
    lost: Vec<Loss>,
    /// Whose loss is counted, oldest first, so that an end which is looked at again is not counted again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counted: Vec<Counted>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Charge {
    /// The start of the purpose's SHA-256, in base32.
    purpose: String,
    gas: u64,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<BudgetKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    /// As that of a charge.
    purpose: String,
    at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Loss {
    gas: u64,
    /// When its slice of time began.
    from: Timestamp,
}

impl Default for Entry {
    fn default() -> Self {
        Self { schema: SCHEMA, open: Vec::new(), lost: Vec::new(), counted: Vec::new() }
    }
}

fn digest(purpose: &Purpose) -> String {
    BASE32_NOPAD.encode(&Sha256::digest(&purpose.0)[..DIGEST_BYTES]).to_ascii_lowercase()
}

impl Entry {
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::Damaged(error.to_string()))
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let entry: Self = serde_json::from_slice(bytes).map_err(|error| Error::Damaged(error.to_string()))?;
        match entry.schema {
            SCHEMA => Ok(entry),
            other => Err(Error::Damaged(format!("unknown schema version {other}"))),
        }
    }

    /// The other budgets that the purpose is charged to.
    pub fn charged(&self, purpose: &Purpose) -> Option<Vec<BudgetKey>> {
        let asked = digest(purpose);
        self.open.iter().find(|charge| charge.purpose == asked).map(|charge| charge.others.clone())
    }

    /// Whether a loss of the purpose is counted.
    fn has_counted(&self, purpose: &Purpose) -> bool {
        let asked = digest(purpose);
        self.counted.iter().any(|counted| counted.purpose == asked)
    }

    /// What was never closed is lost, and what was lost long ago does not count.
    fn drop_old(&mut self, window: TimeDelta, now: Timestamp) {
        self.open.retain(|charge| now - charge.at < window);
        self.lost.retain(|loss| now < loss.ends(window));
        self.counted.retain(|counted| now - counted.at < window);
    }

    /// Whether `gas` more may be lost, whatever is at stake.
    fn room(&self, gas_max: u64, window: TimeDelta, gas: u64) -> Room {
        let mut lost = self.lost();
        let mut room = Room::Now;
        for loss in &self.lost {
            if lost.saturating_add(gas) <= gas_max {
                break;
            }
            lost = lost.saturating_sub(loss.gas);
            room = Room::At(loss.ends(window));
        }
        room
    }

    fn lost(&self) -> u64 {
        self.lost.iter().fold(0, |sum, loss| sum.saturating_add(loss.gas))
    }
}

impl Loss {
    fn ends(&self, window: TimeDelta) -> Timestamp {
        self.from + TimeDelta::seconds(SLICE_SECONDS) + window
    }
}

/// Whether `gas` more may be lost.
pub fn room(last: Option<&Entry>, budget: &Budget, gas: u64, now: Timestamp) -> Room {
    let mut entry = last.cloned().unwrap_or_default();
    entry.drop_old(budget.window, now);
    entry.room(budget.gas_max, budget.window, gas)
}

/// What became of `purpose`, and whether `gas` more may be lost.
pub fn state_of(last: Option<&Entry>, budget: &Budget, purpose: &Purpose, gas: u64, now: Timestamp) -> BudgetState {
    BudgetState {
        is_at_stake: last.is_some_and(|entry| entry.charged(purpose).is_some()),
        is_counted: last.is_some_and(|entry| entry.has_counted(purpose)),
        room: room(last, budget, gas, now),
    }
}

/// Decides on putting `gas` at stake: whether there is room, and the entry to be stored where something changes.
pub fn charge(
    last: Option<&Entry>,
    budget: &Budget,
    purpose: &Purpose,
    gas: u64,
    others: &[BudgetKey],
    now: Timestamp,
) -> (Room, Option<Entry>) {
    let mut entry = last.cloned().unwrap_or_default();
    entry.drop_old(budget.window, now);
    let asked = digest(purpose);
    if entry.has_counted(purpose) || entry.open.iter().any(|charge| charge.purpose == asked && charge.gas >= gas) {
        return (Room::Now, None);
    }
    entry.open.retain(|charge| charge.purpose != asked);
    match entry.room(budget.gas_max, budget.window, gas) {
        Room::Now => {}
        full => return (full, None),
    }
    let at_stake = entry.open.iter().fold(entry.lost(), |sum, charge| sum.saturating_add(charge.gas));
    if at_stake.saturating_add(gas) > budget.gas_max || entry.open.len() >= OPEN_MAX {
        return (Room::Soon, None);
    }
    entry.open.push(Charge { purpose: asked, gas, at: now, others: others.to_vec() });
    (Room::Now, Some(entry))
}

/// The entry to be stored when what is at stake for `purpose` is closed; `None` when nothing is.
pub fn close(last: Option<&Entry>, purpose: &Purpose, lost: u64, now: Timestamp) -> Option<Entry> {
    let asked = digest(purpose);
    let mut entry = last?.clone();
    let before = entry.open.len();
    entry.open.retain(|charge| charge.purpose != asked);
    if entry.open.len() == before {
        return None;
    }
    if lost > 0 {
        entry.counted.push(Counted { purpose: asked, at: now });
        let surplus = entry.counted.len().saturating_sub(COUNTED_MAX);
        entry.counted.drain(..surplus);
        let into = now.timestamp().rem_euclid(SLICE_SECONDS);
        let from = now - TimeDelta::seconds(into) - TimeDelta::nanoseconds(i64::from(now.timestamp_subsec_nanos()));
        match entry.lost.last_mut() {
            // Clocks of gateways differ a little; the order of slices stays.
            Some(newest) if newest.from >= from => newest.gas = newest.gas.saturating_add(lost),
            _ => entry.lost.push(Loss { gas: lost, from }),
        }
        while entry.lost.len() > LOSSES_MAX {
            let oldest = entry.lost.remove(0);
            if let Some(next) = entry.lost.first_mut() {
                next.gas = next.gas.saturating_add(oldest.gas);
            }
        }
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::{ChainId, time::from_unix_seconds};

    fn at(seconds: u64) -> Timestamp {
        from_unix_seconds(1_800_000_000 + seconds).unwrap()
    }

    fn budget(gas_max: u64) -> Budget {
        let key = BudgetKey::account(&ChainId::evm(1), "0xAb");
        Budget { key, gas_max, window: TimeDelta::seconds(3_600) }
    }

    fn purpose(n: u32) -> Purpose {
        Purpose(format!("pay_{n}/deposit/1"))
    }

    /// What a store would do.
    fn put(entry: &mut Option<Entry>, n: u32, gas: u64, now: Timestamp) -> Room {
        let (room, changed) = charge(entry.as_ref(), &budget(1_000), &purpose(n), gas, &[], now);
        if let Some(changed) = changed {
            assert_eq!(Entry::decode(&changed.encode().unwrap()).unwrap(), changed);
            *entry = Some(changed);
        }
        room
    }

    fn end(entry: &mut Option<Entry>, n: u32, lost: u64, now: Timestamp) {
        *entry = close(entry.as_ref(), &purpose(n), lost, now).or(entry.take());
    }

    #[test]
    fn what_is_at_stake_holds_others_up_and_what_is_lost_shuts_them_out_until_its_time_is_over() {
        let mut entry = None;
        assert_eq!(put(&mut entry, 1, 600, at(0)), Room::Now);
        assert_eq!(put(&mut entry, 1, 600, at(1)), Room::Now, "charged once");
        assert_eq!(put(&mut entry, 2, 600, at(2)), Room::Soon);
        // Nothing was lost: there is room again.
        end(&mut entry, 1, 0, at(3));
        assert_eq!(put(&mut entry, 2, 600, at(4)), Room::Now);
        end(&mut entry, 2, 500, at(10));
        end(&mut entry, 2, 500, at(11));
        let again = at(3_600 + 300);
        assert_eq!(
            put(&mut entry, 3, 600, at(20)),
            Room::At(again),
            "lost once, and counted from its slice's beginning"
        );
        assert_eq!(put(&mut entry, 3, 500, at(20)), Room::Now);
        assert_eq!(room(entry.as_ref(), &budget(1_000), 600, at(30)), Room::At(again));
        assert_eq!(room(entry.as_ref(), &budget(1_000), 500, at(30)), Room::Now);
        let looked = |n, gas| state_of(entry.as_ref(), &budget(1_000), &purpose(n), gas, at(30));
        assert_eq!(looked(2, 500), BudgetState { is_at_stake: false, is_counted: true, room: Room::Now });
        assert_eq!(looked(3, 600), BudgetState { is_at_stake: true, is_counted: false, room: Room::At(again) });
        assert_eq!(looked(4, 500), BudgetState { is_at_stake: false, is_counted: false, room: Room::Now });
        end(&mut entry, 3, 0, at(40));
        assert_eq!(put(&mut entry, 4, 600, again), Room::Now);
    }

    #[test]
    fn a_loss_that_is_counted_is_not_put_at_stake_again() {
        let mut entry = None;
        assert_eq!(put(&mut entry, 1, 400, at(0)), Room::Now);
        end(&mut entry, 1, 400, at(1));
        let counted = entry.clone();
        assert_eq!(put(&mut entry, 1, 400, at(2)), Room::Now);
        end(&mut entry, 1, 400, at(3));
        assert_eq!(entry, counted);
        // What an older build wrote is read, and of very many the newest are known.
        let text = String::from_utf8(Entry::default().encode().unwrap()).unwrap();
        assert_eq!(Entry::decode(text.as_bytes()).unwrap(), Entry::default());
        assert!(!text.contains("counted"));
        let wide = Budget { gas_max: u64::MAX, ..budget(0) };
        for n in 0..COUNTED_MAX as u32 + 10 {
            entry = charge(entry.as_ref(), &wide, &purpose(n + 10), 1, &[], at(10)).1;
            end(&mut entry, n + 10, 1, at(10));
        }
        assert_eq!(entry.unwrap().counted.len(), COUNTED_MAX);
    }

    #[test]
    fn what_was_never_settled_counts_until_its_time_is_over() {
        let mut entry = None;
        assert_eq!(put(&mut entry, 1, 900, at(0)), Room::Now);
        assert_eq!(put(&mut entry, 2, 900, at(3_599)), Room::Soon);
        assert_eq!(put(&mut entry, 2, 900, at(3_600)), Room::Now);
    }

    #[test]
    fn entries_are_bounded_and_their_losses_are_not_forgotten() {
        let mut entry = None;
        let wide = Budget { gas_max: u64::MAX, window: TimeDelta::days(365), ..budget(0) };
        for n in 0..LOSSES_MAX as u32 + 10 {
            let now = at(u64::from(n) * 300);
            entry = charge(entry.as_ref(), &wide, &purpose(n), 7, &[], now).1;
            end(&mut entry, n, 7, now);
        }
        let kept = entry.unwrap();
        assert_eq!((kept.lost.len(), kept.lost()), (LOSSES_MAX, 7 * (LOSSES_MAX as u64 + 10)));
        let mut entry = None;
        for n in 0..OPEN_MAX as u32 {
            entry = charge(entry.as_ref(), &wide, &purpose(n), 1, &[], at(0)).1;
        }
        assert_eq!(charge(entry.as_ref(), &wide, &purpose(9_999), 1, &[], at(0)), (Room::Soon, None));
        assert!(matches!(Entry::decode(b"{}"), Err(Error::Damaged(_))));
    }
}
