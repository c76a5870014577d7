//! The conformance suite of [`Parking`], which runs against any implementation.
//!
//! Call [`run`] from a test. A case that does not hold panics with its reason; this module is test code that lives here so
//! that the tests of other crates can use it.
#![doc(hidden)]
#![allow(clippy::missing_panics_doc, clippy::unwrap_used, clippy::expect_used)]

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::timeout;

use events::{CommitId, Epoch, PaymentId, QuoteRequestId, StreamId, time::Timestamp};

use super::{Cause, CauseKind, Entry, Error, Parked, Parking, ParkingPartition, Record, Replayed};

/// Shards of the first epoch of the journal that the parkings of the suite are made for.
pub const SHARDS: u16 = 4;
/// Far longer than anything here takes; a case that gets here has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs every case. Each call of `make` must give another handle on the same entries, for [`SHARDS`] shards, as another
/// process would have.
pub async fn run<F, Fut>(make: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Parking>>,
{
    let (one, other) = (make().await, make().await);
    a_history_begins_with_the_first_parking_and_keeps_everything(&*one, &*other).await;
    whoever_parks_second_finds_it_parked(&*one, &*other).await;
    attempts_from_before_a_replay_park_nothing(&*one, &*other).await;
    only_what_is_parked_is_replayed(&*one, &*other).await;
    of_many_replays_at_once_one_counts([one.clone(), other.clone()]).await;
    // Epochs with as many shards as there are partitions, a multiple of them, fewer, and something else.
    for shards in [SHARDS, SHARDS * 4, SHARDS / 2, 1, SHARDS + 3] {
        let epoch = Epoch { number: 1, first: 7, shards, sealed: false };
        a_partition_gives_what_there_is_and_then_what_comes(&*one, &*other, epoch).await;
    }
}

/// A stream unlike any other.
pub fn fresh() -> StreamId {
    PaymentId::derive("parking", CommitId::random().as_str()).into()
}

/// A parking for the tests.
pub fn parked(text: &str) -> Parked {
    let cause = Cause::new(CauseKind::Unreadable, text, Some((1, 7)));
    Parked { cause, attempts: 5, first_at: at(1), last_at: at(9), gateway: "one".to_owned() }
}

fn at(second: u32) -> Timestamp {
    format!("2026-01-02T03:04:{second:02}Z").parse().unwrap()
}

fn replayed() -> Replayed {
    Replayed::new("operator", at(30))
}

fn entries(records: &[Record]) -> Vec<Entry> {
    records.iter().map(|record| record.entry.clone()).collect()
}

async fn is_parked(parking: &dyn Parking, stream_id: &StreamId) -> bool {
    parking.parked().await.unwrap().iter().any(|record| record.stream_id == *stream_id)
}

async fn a_history_begins_with_the_first_parking_and_keeps_everything(one: &dyn Parking, other: &dyn Parking) {
    let batch = QuoteRequestId::derive("parking", CommitId::random().as_str()).into();
    for stream_id in [fresh(), batch] {
        assert_eq!(other.history(&stream_id).await.unwrap(), []);
        let first = one.park(&stream_id, 0, &parked("a")).await.unwrap();
        assert!(first.is_parked() && is_parked(other, &stream_id).await);
        let second = other.replay(&stream_id, &replayed()).await.unwrap();
        assert!(!second.is_parked() && !is_parked(one, &stream_id).await);
        let third = one.park(&stream_id, second.sequence, &parked("b")).await.unwrap();
        assert!(first.sequence < second.sequence && second.sequence < third.sequence);
        let history = other.history(&stream_id).await.unwrap();
        let expected = [Entry::Parked(parked("a")), Entry::Replayed(replayed()), Entry::Parked(parked("b"))];
        assert_eq!(entries(&history), expected);
        assert_eq!((&history[0], &history[2]), (&first, &third));
        let listed = one.parked().await.unwrap();
        assert_eq!(listed.iter().find(|record| record.stream_id == stream_id), Some(&third));
    }
}

async fn whoever_parks_second_finds_it_parked(one: &dyn Parking, other: &dyn Parking) {
    let stream_id = fresh();
    let first = one.park(&stream_id, 0, &parked("mine")).await.unwrap();
    assert_eq!(other.park(&stream_id, 0, &parked("theirs")).await.unwrap(), first);
    assert_eq!(one.history(&stream_id).await.unwrap(), [first]);

    let stream_id = fresh();
    let (mine, theirs) = (parked("mine"), parked("theirs"));
    let (mine, theirs) = tokio::join!(one.park(&stream_id, 0, &mine), other.park(&stream_id, 0, &theirs));
    assert_eq!(mine.unwrap(), theirs.unwrap());
    assert_eq!(one.history(&stream_id).await.unwrap().len(), 1);
}

async fn attempts_from_before_a_replay_park_nothing(one: &dyn Parking, other: &dyn Parking) {
    let stream_id = fresh();
    one.park(&stream_id, 0, &parked("a")).await.unwrap();
    let replay = other.replay(&stream_id, &replayed()).await.unwrap();
    let late = one.park(&stream_id, 0, &parked("late")).await.unwrap();
    assert_eq!((late.sequence, late.is_parked()), (replay.sequence, false));
    assert!(!is_parked(other, &stream_id).await);
    assert_eq!(one.history(&stream_id).await.unwrap().len(), 2);
}

async fn only_what_is_parked_is_replayed(one: &dyn Parking, other: &dyn Parking) {
    let stream_id = fresh();
    assert_eq!(one.replay(&stream_id, &replayed()).await, Err(Error::NotParked(stream_id.clone())));
    one.park(&stream_id, 0, &parked("a")).await.unwrap();
    one.replay(&stream_id, &replayed()).await.unwrap();
    assert_eq!(other.replay(&stream_id, &replayed()).await, Err(Error::NotParked(stream_id.clone())));
    assert_eq!(one.history(&stream_id).await.unwrap().len(), 2);
}

async fn of_many_replays_at_once_one_counts(parkings: [Arc<dyn Parking>; 2]) {
    let stream_id = fresh();
    parkings[0].park(&stream_id, 0, &parked("a")).await.unwrap();
    let tasks = (0..8).map(|n| {
        let (parking, stream_id) = (parkings[n % 2].clone(), stream_id.clone());
        tokio::spawn(async move { parking.replay(&stream_id, &replayed()).await })
    });
    let outcomes: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    assert_eq!(parkings[1].history(&stream_id).await.unwrap().len(), 2);
}

/// The next record of `stream_id`; others may come in between, if they are `ours`.
async fn next_of(
    partition: &mut dyn ParkingPartition,
    stream_id: &StreamId,
    ours: impl Fn(&StreamId) -> bool,
) -> Record {
    loop {
        let records = timeout(PATIENCE, partition.next()).await.expect("a record in time").unwrap();
        assert!(records.iter().all(|record| ours(&record.stream_id)));
        if let Some(record) = records.into_iter().find(|record| record.stream_id == *stream_id) {
            return record;
        }
    }
}

async fn a_partition_gives_what_there_is_and_then_what_comes(one: &dyn Parking, other: &dyn Parking, epoch: Epoch) {
    let stream_id = fresh();
    let shard = epoch.shard_of(&stream_id);
    let first = one.park(&stream_id, 0, &parked("a")).await.unwrap();
    let mut partition = other.follow(epoch, shard);
    let there = timeout(PATIENCE, partition.next()).await.expect("a first answer in time").unwrap();
    assert_eq!(there.last(), Some(&first));
    assert!(there.iter().all(|record| epoch.shard_of(&record.stream_id) == shard));
    assert!(there.is_sorted_by_key(|record| record.sequence));

    // Of another shard, to be passed over.
    let elsewhere = std::iter::repeat_with(fresh).take(1_000).find(|id| epoch.shard_of(id) != shard);
    if let Some(elsewhere) = elsewhere {
        one.park(&elsewhere, 0, &parked("b")).await.unwrap();
    }
    let replay = one.replay(&stream_id, &replayed()).await.unwrap();
    let heard = next_of(partition.as_mut(), &stream_id, |id| epoch.shard_of(id) == shard).await;
    assert_eq!((heard.sequence, heard.entry), (replay.sequence, Entry::Replayed(replayed())));

    let mut shards = epoch.first..epoch.end();
    let empty = shards.find(|shard| there.iter().all(|record| epoch.shard_of(&record.stream_id) != *shard));
    if let Some(empty) = empty {
        // A shard with or without entries answers the first time at once.
        timeout(PATIENCE, other.follow(epoch, empty).next()).await.expect("a first answer in time").unwrap();
    }
}
