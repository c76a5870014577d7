//! The stored form of a queue: all of it but what only this process knows.

use serde::{Deserialize, Serialize};

use super::{DeadLetter, Early, Health, Item, Limits, Queue};
use crate::timetable::Timetable;

/// A queue at one moment. It saves whoever takes an endpoint over reading everything from the beginning, and says nothing that does
/// not follow from that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    read_up_to: u64,
    recorded_up_to: u64,
    #[serde(default)]
    items: Vec<(u64, Item)>,
    /// What was heard of messages beyond `read_up_to`.
    #[serde(default)]
    early: Vec<(u64, Early)>,
    #[serde(default)]
    health: Health,
    #[serde(default)]
    dead: Vec<DeadLetter>,
    #[serde(default)]
    dead_unlisted: u64,
}

impl Snapshot {
    /// Whether it can be of a stream that ends at `head`; not where the stream was put in place from an older copy.
    pub fn is_within(&self, head: u64) -> bool {
        self.read_up_to <= head && self.recorded_up_to <= head
    }
}

impl Queue {
    /// The queue as it was.
    pub fn restore(snapshot: Snapshot, limits: Limits, timetable: Timetable) -> Self {
        Self {
            limits,
            timetable,
            items: snapshot.items.into_iter().collect(),
            read_up_to: snapshot.read_up_to,
            recorded_up_to: snapshot.recorded_up_to,
            early: snapshot.early.into_iter().collect(),
            health: snapshot.health,
            dead: snapshot.dead.into(),
            dead_unlisted: snapshot.dead_unlisted,
        }
    }

    /// The queue now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            read_up_to: self.read_up_to,
            recorded_up_to: self.recorded_up_to,
            items: self
                .items
                .iter()
                .map(|(sequence, item)| (*sequence, Item { in_flight: false, ..item.clone() }))
                .collect(),
            early: self.early.iter().map(|(due, early)| (*due, early.clone())).collect(),
            health: self.health.clone(),
            dead: self.dead.iter().cloned().collect(),
            dead_unlisted: self.dead_unlisted,
        }
    }
}
