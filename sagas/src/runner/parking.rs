//! Parking, the dead letters of the engine: what is wrong with streams that cannot be driven, how often they were tried, and
//! which are parked.

use std::{any::Any, collections::HashMap};

use events::{StreamId, time::Timestamp};
use journal::{
    ReadError, Recorded,
    parking::{Cause, CauseKind, Error, Parked, Record},
};

use super::{Engine, backoff::Backoff, drive::Stuck};
use crate::{payment, quote_request};

/// A try to drive a stream that failed for another reason than a transient fault.
#[derive(Debug)]
pub(super) struct Failure {
    /// Why.
    pub(super) cause: Cause,
    /// Commits in the stream after the try, as far as it can be read.
    version: Option<u64>,
}

/// Failures in a row of one stream.
#[derive(Debug)]
pub(super) struct Failing {
    attempts: u32,
    first_at: Timestamp,
    last_at: Timestamp,
    version: Option<u64>,
}

impl Failing {
    /// None so far, at `now`.
    pub(super) fn begin(now: Timestamp) -> Self {
        Self { attempts: 0, first_at: now, last_at: now, version: None }
    }

    /// One more; the number of failures in a row. A try that brought the stream forward before it failed begins a new row:
    /// such a stream does not stand still.
    pub(super) fn another(&mut self, failure: &Failure, now: Timestamp) -> u32 {
        if self.version.is_some() && failure.version > self.version {
            *self = Self::begin(now);
        }
        self.attempts = self.attempts.saturating_add(1);
        self.last_at = now;
        self.version = failure.version.or(self.version);
        self.attempts
    }

    /// What is to be stored of them.
    pub(super) fn parked(&self, cause: Cause, gateway: &str) -> Parked {
        let Self { attempts, first_at, last_at, .. } = *self;
        Parked { cause, attempts, first_at, last_at, gateway: gateway.to_owned() }
    }
}

/// The newest entry of every stream of a shard that was ever parked.
#[derive(Debug, Default)]
pub(super) struct ParkedStreams(HashMap<StreamId, Newest>);

#[derive(Debug)]
struct Newest {
    sequence: u64,
    parked: bool,
}

impl ParkedStreams {
    pub(super) fn is_parked(&self, stream_id: &StreamId) -> bool {
        self.0.get(stream_id).is_some_and(|newest| newest.parked)
    }

    /// Sequence of the stream's newest entry; 0 for none.
    pub(super) fn newest(&self, stream_id: &StreamId) -> u64 {
        self.0.get(stream_id).map_or(0, |newest| newest.sequence)
    }

    /// Applies an entry; whether it says something new.
    pub(super) fn apply(&mut self, record: &Record) -> bool {
        if record.sequence <= self.newest(&record.stream_id) {
            return false;
        }
        let newest = Newest { sequence: record.sequence, parked: record.is_parked() };
        self.0.insert(record.stream_id.clone(), newest);
        true
    }
}

impl Engine {
    /// Parks the stream, for as long as that takes; its newest entry then.
    pub(super) async fn park(&self, stream_id: &StreamId, after: u64, parked: &Parked) -> Record {
        let mut backoff = Backoff::default();
        loop {
            match self.ports().parking.park(stream_id, after, parked).await {
                Ok(record) => return record,
                Err(error @ (Error::Unavailable(_) | Error::Refused(_) | Error::NotParked(_))) => {
                    let say = |backoff: &Backoff| {
                        let (faults, since) = (backoff.count(), backoff.since());
                        tracing::error!(%stream_id, faults, since, %error, "stream cannot be parked");
                    };
                    self.back_off(&mut backoff, say).await;
                }
            }
        }
    }

    /// What is known of a stream that cannot be driven on.
    pub(super) async fn diagnose(&self, stream_id: &StreamId, stuck: Stuck) -> Failure {
        let (kind, at_fault) = match &stuck {
            Stuck::Unreadable(ReadError::Unreadable { shard, sequence, .. }) => {
                // A message that was lost has no place that is known.
                (CauseKind::Unreadable, (*sequence > 0).then_some((*shard, *sequence)))
            }
            Stuck::Unreadable(ReadError::Unavailable(_)) => (CauseKind::Unreadable, None),
            Stuck::Illegal(_) => (CauseKind::Illegal, None),
            Stuck::Unacceptable(_) => (CauseKind::Unacceptable, None),
        };
        let commits = self.commits(stream_id).await.unwrap_or_default();
        let at_fault = at_fault.or_else(|| if kind == CauseKind::Illegal { illegal(&commits) } else { None });
        Failure { cause: Cause::new(kind, &stuck.to_string(), at_fault), version: version(&commits) }
    }

    /// The same of a stream whose driving panicked with this text.
    pub(super) async fn diagnose_panic(&self, stream_id: &StreamId, text: &str) -> Failure {
        let cause = Cause::new(CauseKind::Panicked, text, None);
        let commits = self.commits(stream_id).await.unwrap_or_default();
        Failure { cause, version: version(&commits) }
    }
}

impl Failure {
    /// Of a stream of which nothing is known but that looking at it panics.
    pub(super) fn unknown(text: &str) -> Self {
        Self { cause: Cause::new(CauseKind::Panicked, text, None), version: None }
    }
}

/// What a panic says.
pub(super) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked without a message").to_owned()
}

fn version(commits: &[Recorded]) -> Option<u64> {
    commits.last().map(|last| last.position.version)
}

/// Shard and stream sequence of the first commit that cannot follow on those before it.
fn illegal(commits: &[Recorded]) -> Option<(u16, u64)> {
    let fold = |upto: usize| {
        let commits = &commits[..=upto];
        let payment = payment::fold(commits.iter().flat_map(Recorded::payment_events));
        payment.is_err() || quote_request::fold(commits.iter().flat_map(Recorded::quote_request_events)).is_err()
    };
    // Once a fold fails it fails with everything longer.
    let indices: Vec<usize> = (0..commits.len()).collect();
    let first = indices.partition_point(|upto| !fold(*upto));
    commits.get(first).map(|commit| (commit.position.shard, commit.position.sequence))
}

#[cfg(test)]
mod tests {
    use events::{PaymentId, time::from_unix_seconds};
    use journal::parking::Entry;

    use super::*;

    fn failure(version: Option<u64>) -> Failure {
        Failure { cause: Cause::new(CauseKind::Panicked, "x", None), version }
    }

    #[test]
    fn failures_count_in_a_row_and_progress_begins_a_new_row() {
        let now = |second: u64| from_unix_seconds(1_800_000_000 + second).unwrap();
        let mut failing = Failing::begin(now(0));
        let counts: Vec<u32> = [Some(3), Some(3), None, Some(3), Some(4), Some(4)]
            .into_iter()
            .zip(0..)
            .map(|(version, second)| failing.another(&failure(version), now(second)))
            .collect();
        assert_eq!(counts, [1, 2, 3, 4, 1, 2]);
        let parked = failing.parked(failure(None).cause, "one");
        assert_eq!((parked.attempts, parked.first_at, parked.last_at), (2, now(4), now(5)));
    }

    #[test]
    fn the_newest_entry_says_whether_a_stream_is_parked() {
        let stream_id = StreamId::from(PaymentId::derive("a", "b"));
        let at = from_unix_seconds(1_800_000_000).unwrap();
        let cause = Cause::new(CauseKind::Illegal, "x", None);
        let parked = Parked { cause, attempts: 1, first_at: at, last_at: at, gateway: "one".to_owned() };
        let replayed = journal::parking::Replayed::new("operator", at);
        let record = |sequence, entry| Record { stream_id: stream_id.clone(), sequence, stored_at: at, entry };
        let mut streams = ParkedStreams::default();
        assert_eq!((streams.newest(&stream_id), streams.is_parked(&stream_id)), (0, false));
        assert!(streams.apply(&record(4, Entry::Parked(parked.clone()))));
        assert_eq!((streams.newest(&stream_id), streams.is_parked(&stream_id)), (4, true));
        assert!(streams.apply(&record(6, Entry::Replayed(replayed))));
        // An older one that arrives late changes nothing.
        assert!(!streams.apply(&record(4, Entry::Parked(parked))));
        assert_eq!((streams.newest(&stream_id), streams.is_parked(&stream_id)), (6, false));
    }
}
