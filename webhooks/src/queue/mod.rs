//! The queue of one endpoint, as a pure state machine: what is read of the stream goes in, what may be attempted now comes out.
//!
//! - **Ordered per payment**: a message is attempted when no earlier one about its payment is outstanding.
//! - **Bulkhead**: so many calls at a time and no more; of an endpoint that fails, one at a time, which is a probe.
//! - **Back-off**: each message has its timetable; an endpoint that failed several times in a row has one of its own, so that a
//!   thousand waiting messages do not call a dead endpoint a thousand times.
//! - **Bounded memory**: what does not fit stays in the stream, and is read when there is room.
//!
//! The state follows from the messages ([`Queue::take`]) and outcomes ([`Queue::record`]) in the order of their streams alone, so
//! whoever takes an endpoint over comes to the same. A [`Snapshot`] only saves reading all of them.

mod snapshot;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use events::{PaymentId, time::Timestamp};

pub use self::snapshot::Snapshot;
use crate::{
    message::{Due, MessageId, Outcome},
    timetable::Timetable,
    webhook::EventType,
};

/// Bounds of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls at a time.
    pub at_once: usize,
    /// Messages in memory that could be attempted now, or all of an endpoint that fails; others stay in the stream.
    pub ready: usize,
    /// Messages in memory of which an earlier attempt failed, of an endpoint that takes others.
    pub backing_off: usize,
    /// Failures in a row that say nothing about the endpoint yet.
    pub failures_overlooked: u32,
    /// Dead letters that are listed, the newest.
    pub dead_listed: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { at_once: 4, ready: 64, backing_off: 1_024, failures_overlooked: 4, dead_listed: 100 }
    }
}

/// What a call to an endpoint came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A status from 200 to 299.
    Taken {
        /// The status.
        status: u16,
    },
    /// Another answer or none.
    Failed {
        /// For people.
        error: String,
        /// The pause that the endpoint asks for.
        retry_after: Option<Duration>,
    },
    /// 410: the endpoint wants nothing any more.
    Gone,
    /// There is nothing that could be sent, and never will be.
    Unsendable {
        /// Why, for people.
        error: String,
    },
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// To be recorded.
    pub outcome: Outcome,
    /// Why nothing more is to be delivered to the endpoint, where that is so.
    pub disable: Option<String>,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Attempt the message at this sequence.
    Attempt(u64),
    /// Nothing before then, unless something else happens.
    Wait(Timestamp),
    /// Nothing, unless something else happens.
    Nothing,
}

/// A message that is outstanding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    due: Due,
    /// Attempts that failed.
    attempts: u32,
    /// Not before then; absent for at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
    /// Being attempted in this process. Nobody else knows, so it is not part of the stored form.
    #[serde(skip)]
    in_flight: bool,
}

/// What was heard of a message that is not read yet: an earlier owner attempted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Early {
    Delivered,
    Dead { attempts: u32, at: Timestamp, error: String },
    Failed { attempts: u32, not_before: Timestamp },
}

/// How an endpoint does, as its owner is shown it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Failures since the last success.
    pub failures: u32,
    /// Since when it fails; absent while it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Not called before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_at: Option<Timestamp>,
    /// What it answered to the last attempt that failed, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// When it took a message last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// Messages that it took.
    #[serde(default)]
    pub delivered: u64,
}

/// The last failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// When.
    pub at: Timestamp,
    /// What the endpoint answered.
    pub error: String,
}

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Its `webhook-id`.
    pub id: MessageId,
    /// The payment.
    pub payment_id: PaymentId,
    /// What it tells.
    pub kind: EventType,
    /// When that happened.
    pub occurred_at: Timestamp,
    /// When it was given up.
    pub at: Timestamp,
    /// How often it was attempted.
    pub attempts: u32,
    /// The last answer.
    pub error: String,
}

/// The queue of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    limits: Limits,
    timetable: Timetable,
    /// By sequence.
    items: BTreeMap<u64, Item>,
    /// Messages up to this sequence were taken.
    read_up_to: u64,
    /// Outcomes up to this sequence were recorded.
    recorded_up_to: u64,
    /// By sequence of the message, beyond `read_up_to`.
    early: BTreeMap<u64, Early>,
    health: Health,
    dead: VecDeque<DeadLetter>,
    /// Dead letters that are not listed any more.
    dead_unlisted: u64,
}

impl Queue {
    /// The queue of an endpoint of which nothing is known.
    pub fn new(limits: Limits, timetable: Timetable) -> Self {
        Self::restore(Snapshot::default(), limits, timetable)
    }

    /// Messages from the next sequence on are wanted: so many.
    pub fn wanted(&self) -> usize {
        let waiting = |item: &&Item| item.not_before.is_none();
        let (all, ready) = (self.items.len(), self.items.values().filter(waiting).count());
        let (held, room) = match self.is_suspended() {
            true => (all, self.limits.ready),
            false if all >= self.limits.ready + self.limits.backing_off => return 0,
            false => (ready, self.limits.ready),
        };
        room.saturating_sub(held)
    }

    /// Sequence up to which messages were taken.
    pub fn read_up_to(&self) -> u64 {
        self.read_up_to
    }

    /// Sequence up to which outcomes were recorded.
    pub fn recorded_up_to(&self) -> u64 {
        self.recorded_up_to
    }

    /// Whether nothing is outstanding of what was taken.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Messages that are outstanding of what was taken.
    pub fn outstanding(&self) -> usize {
        self.items.len()
    }

    /// How the endpoint does.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Dead letters, the newest last, and how many more there are.
    pub fn dead(&self) -> (impl ExactSizeIterator<Item = &DeadLetter>, u64) {
        (self.dead.iter(), self.dead_unlisted)
    }

    /// The message at this sequence, and which attempt the next one is; `None` when it is not outstanding.
    pub fn message(&self, sequence: u64) -> Option<(&Due, u32)> {
        self.items.get(&sequence).map(|item| (&item.due, item.attempts + 1))
    }

    /// Takes in the next message of the stream.
    pub fn take(&mut self, sequence: u64, due: Due) {
        if sequence <= self.read_up_to {
            return;
        }
        self.read_up_to = sequence;
        if due.redelivery > 0 {
            self.dead.retain(|letter| letter.id != due.id);
        }
        let (attempts, not_before) = match self.early.remove(&sequence) {
            Some(Early::Delivered) => return,
            Some(Early::Dead { attempts, at, error }) => return self.bury(due, attempts, at, &error),
            Some(Early::Failed { attempts, not_before }) => (attempts, Some(not_before)),
            None => (0, None),
        };
        self.items.insert(sequence, Item { due, attempts, not_before, in_flight: false });
    }

    /// Takes in an outcome that is stored at `sequence`. One that was taken in already is skipped.
    pub fn record(&mut self, sequence: u64, outcome: &Outcome) {
        if sequence <= self.recorded_up_to {
            return;
        }
        self.recorded_up_to = sequence;
        let due = outcome.due();
        if due > self.read_up_to {
            let early = match outcome {
                Outcome::Refused { attempt, retry_at, .. } => {
                    Early::Failed { attempts: *attempt, not_before: *retry_at }
                }
                Outcome::Delivered { .. } => Early::Delivered,
                Outcome::Dead { attempt, at, error, .. } => {
                    Early::Dead { attempts: *attempt, at: *at, error: error.clone() }
                }
            };
            self.early.insert(due, early);
        }
        match outcome {
            Outcome::Delivered { at, .. } => {
                self.items.remove(&due);
                let Health { delivered, last_error, .. } = std::mem::take(&mut self.health);
                let (delivered, last_success_at) = (delivered + 1, Some(*at));
                self.health = Health { delivered, last_error, last_success_at, ..Health::default() };
            }
            Outcome::Refused { attempt, at, error, retry_at, .. } => {
                if let Some(item) = self.items.get_mut(&due) {
                    (item.attempts, item.not_before, item.in_flight) = (*attempt, Some(*retry_at), false);
                }
                self.failed(*at, error);
            }
            Outcome::Dead { attempt, at, error, .. } => {
                if let Some(item) = self.items.remove(&due) {
                    self.bury(item.due, *attempt, *at, error);
                }
                // What was never sent says nothing about the endpoint.
                if *attempt > 0 {
                    self.failed(*at, error);
                }
            }
        }
    }

    fn failed(&mut self, at: Timestamp, error: &str) {
        let health = &mut self.health;
        health.failures = health.failures.saturating_add(1);
        health.failing_since.get_or_insert(at);
        health.last_error = Some(LastError { at, error: error.to_owned() });
        let beyond = health.failures.checked_sub(self.limits.failures_overlooked + 1);
        // Without jitter, so that everybody comes to the same; whoever waits adds it.
        health.resume_at = beyond.map(|failures| self.timetable.probe_at(failures, at, 0.0));
    }

    fn bury(&mut self, due: Due, attempts: u32, at: Timestamp, error: &str) {
        let Due { id, payment_id, kind, occurred_at, .. } = due;
        self.dead.push_back(DeadLetter { id, payment_id, kind, occurred_at, at, attempts, error: error.to_owned() });
        while self.dead.len() > self.limits.dead_listed {
            self.dead.pop_front();
            self.dead_unlisted += 1;
        }
    }

    /// The endpoint is delivered to again: what it did before is forgotten.
    pub fn enabled(&mut self, at: Timestamp) {
        if self.health.failing_since.is_some_and(|since| since <= at) {
            let Health { delivered, last_error, last_success_at, .. } = std::mem::take(&mut self.health);
            self.health = Health { delivered, last_error, last_success_at, ..Health::default() };
            for item in self.items.values_mut() {
                item.not_before = None;
            }
        }
    }

    fn is_suspended(&self) -> bool {
        self.health.failures > self.limits.failures_overlooked
    }

    /// What is to be done at `now`.
    pub fn next(&self, now: Timestamp) -> Next {
        let in_flight = self.items.values().filter(|item| item.in_flight).count();
        let at_once = if self.is_suspended() { 1 } else { self.limits.at_once };
        if in_flight >= at_once {
            return Next::Nothing;
        }
        let mut payments = HashSet::new();
        let first_of_payment = self.items.iter().filter(|(_, item)| payments.insert(&item.due.payment_id));
        let ready = first_of_payment.filter(|(_, item)| !item.in_flight);
        // What is new comes first, then what may be attempted for longest, so that a probe is not always the same message.
        let next = ready.min_by_key(|(sequence, item)| (item.not_before, **sequence));
        let Some((sequence, item)) = next else { return Next::Nothing };
        match item.not_before.max(self.health.resume_at) {
            Some(not_before) if not_before > now => Next::Wait(not_before),
            _ => Next::Attempt(*sequence),
        }
    }

    /// The message at this sequence is being attempted.
    pub fn start(&mut self, sequence: u64) {
        if let Some(item) = self.items.get_mut(&sequence) {
            item.in_flight = true;
        }
    }

    /// The message at this sequence was not attempted after all, for a reason that is not the endpoint's.
    pub fn put_back(&mut self, sequence: u64, not_before: Timestamp) {
        if let Some(item) = self.items.get_mut(&sequence) {
            item.in_flight = false;
            item.not_before = item.not_before.max(Some(not_before));
        }
    }

    /// What an answer to the message at `sequence` means; `None` when that is not outstanding. `jitter` is between 0 and 1.
    pub fn judge(&self, sequence: u64, answer: Answer, at: Timestamp, jitter: f64) -> Option<Judgement> {
        let (_, attempt) = self.message(sequence)?;
        let due = sequence;
        let (error, retry_after) = match answer {
            Answer::Taken { status } => {
                let outcome = Outcome::Delivered { due, attempt, at, status };
                return Some(Judgement { outcome, disable: None });
            }
            Answer::Unsendable { error } => {
                return Some(Judgement { outcome: Outcome::Dead { due, attempt: 0, at, error }, disable: None });
            }
            Answer::Gone => {
                let error = "answered 410 Gone".to_owned();
                let disable = Some("the endpoint answered 410 Gone".to_owned());
                return Some(Judgement { outcome: Outcome::Dead { due, attempt, at, error }, disable });
            }
            Answer::Failed { error, retry_after } => (error, retry_after),
        };
        let failing_too_long = self.health.failing_since.is_some_and(|since| self.timetable.is_over(since, at));
        let disable = failing_too_long.then(|| "the endpoint has taken nothing for three days".to_owned());
        let retry_at = self.timetable.retry_at(attempt, at, retry_after, jitter).filter(|_| disable.is_none());
        let outcome = match retry_at {
            Some(retry_at) => Outcome::Refused { due, attempt, at, error, retry_at },
            None => Outcome::Dead { due, attempt, at, error },
        };
        Some(Judgement { outcome, disable })
    }
}
