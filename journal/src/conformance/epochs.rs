//! The conformance cases with several epochs.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::join_all;
use tokio::time::{sleep, timeout};

use events::{
    Epoch, Epochs, Hash32, StreamId,
    event::{Mark, Moved},
};

use super::{
    PATIENCE, assert_same, commit, event, fresh, fresh_batch, next, next_where, of_many_first_appends_one_wins,
};
use crate::{AppendError, Commit, Journal, Position, Recorded, WakeUp, envelope::Chain};

/// The operator, who begins and seals epochs.
#[async_trait]
pub trait Operator: Send + Sync {
    /// Begins the next epoch.
    async fn begin(&self, shards: u16);
    /// Seals an epoch that is not the current one.
    async fn seal(&self, epoch: u16);
}

struct World<'a> {
    one: Arc<dyn Journal>,
    other: Arc<dyn Journal>,
    operator: &'a dyn Operator,
}

/// Runs every case. Each call of `make` must give another handle on the same streams, with one epoch so far.
pub async fn run<F, Fut>(make: F, operator: &dyn Operator)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Journal>>,
{
    let world = World { one: make().await, other: make().await, operator };
    assert_eq!((world.one.epochs().all().len(), world.one.epochs()), (1, world.other.epochs()));
    streams_begin_in_the_newest_epoch_and_stay(&world).await;
    marks_are_replayed_and_nothing_else(&world).await;
    of_many_first_appends_one_wins([world.one.clone(), world.other.clone()]).await;
    marks_wake_nobody(&world).await;
    waiting_ends_in_every_epoch(&world).await;
    marks_are_the_journals_own(&world).await;
    an_epoch_that_is_sealed_takes_nothing(&world).await;
}

impl World<'_> {
    /// Begins an epoch, and waits until everybody knows.
    async fn begin(&self, shards: u16) -> Epoch {
        let before = self.one.epochs();
        self.operator.begin(shards).await;
        for journal in [&self.one, &self.other] {
            timeout(PATIENCE, journal.grown(before.shards())).await.expect("an epoch that was begun is learnt of");
        }
        let now = self.one.epochs();
        assert_eq!((&now, now.older()), (&self.other.epochs(), before.all()));
        assert_eq!((now.current().first, now.current().shards), (before.shards(), shards));
        *now.current()
    }

    /// Waits until everybody knows that an epoch is sealed.
    async fn sealed(&self, epoch: &Epoch) {
        let known = async {
            while [&self.one, &self.other].iter().any(|journal| !journal.epochs().is_sealed(epoch.first)) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, known).await.expect("an epoch that was sealed is learnt of");
    }

    /// Appends to the stream so many times.
    async fn stream(&self, id: &StreamId, commits: usize) -> Vec<(Commit, Recorded)> {
        let mut appended: Vec<(Commit, Recorded)> = Vec::new();
        for n in 0..commits {
            let at = appended.last().map_or(Position::START, |(_, last)| last.position);
            let next = commit(id, at, &n.to_string());
            let journal = if n % 2 == 0 { &self.one } else { &self.other };
            appended.push((next.clone(), journal.append(&next).await.unwrap()));
        }
        appended
    }

    /// That this is the stream, wherever it lies, and that nobody can begin another.
    async fn is_whole(&self, stream: &[(Commit, Recorded)]) {
        let (first, recorded) = &stream[0];
        for journal in [&self.one, &self.other] {
            let stored = journal.load(&first.stream_id).await.unwrap();
            assert_eq!(stored.len(), stream.len());
            let mut chain = Chain::default();
            for (stored, (_, appended)) in stored.iter().zip(stream) {
                assert_same(stored, appended);
                chain.follow(stored).unwrap();
                assert_eq!(stored.position.shard, recorded.position.shard);
            }
            let another = journal.append(&commit(&first.stream_id, Position::START, "another")).await;
            assert!(matches!(another, Err(AppendError::Conflict)), "{another:?}");
            for (commit, recorded) in stream {
                assert_same(&journal.append(commit).await.unwrap(), recorded);
            }
            let forged = Commit { events: vec![event(&first.stream_id, "forged")], ..first.clone() };
            let refused = journal.append(&forged).await;
            assert!(matches!(refused, Err(AppendError::Unacceptable(_))), "{refused:?}");
        }
    }

    /// The commits of a shard, as soon as the replica that answers has them.
    async fn all_of(&self, shard: u16) -> Vec<Recorded> {
        let head = self.one.head(shard).await.unwrap();
        let all = async {
            loop {
                let all = self.other.replay(shard, 0, usize::MAX).await.unwrap();
                if all.last().map_or(0, |last| last.position.sequence) >= head {
                    return all;
                }
            }
        };
        let all = timeout(PATIENCE, all).await.expect("what the head says is replayed");
        assert!(all.iter().map(|commit| commit.position.sequence).eq(1..=head), "a mark has its sequence too");
        all
    }

    /// What the shards hold of a stream, the marks among it.
    async fn everywhere(&self, epochs: &Epochs, id: &StreamId) -> Vec<Recorded> {
        let mut found = Vec::new();
        for shard in epochs.shards_of(id) {
            let all = self.all_of(shard).await;
            found.extend(all.into_iter().filter(|commit| commit.stream_id == *id));
        }
        found
    }

    /// A stream of the oldest epoch.
    async fn old_stream(&self) -> StreamId {
        let oldest = self.one.epochs().all()[0];
        for shard in oldest.range() {
            if let Some(found) = self.all_of(shard).await.into_iter().find(|commit| !commit.is_moved()) {
                return found.stream_id;
            }
        }
        panic!("the oldest epoch is empty");
    }
}

/// A fresh payment of which this holds.
fn fresh_where(holds: impl Fn(&StreamId) -> bool) -> StreamId {
    std::iter::repeat_with(fresh).find(|id| holds(id)).unwrap()
}

async fn streams_begin_in_the_newest_epoch_and_stay(world: &World<'_>) {
    let oldest = *world.one.epochs().current();
    let mut streams = vec![world.stream(&fresh(), 2).await, world.stream(&fresh_batch(), 1).await];
    let open = fresh();
    let first = world.one.append(&commit(&open, Position::START, "0")).await.unwrap().position;
    let mut at = first;
    // Another number of shards each time.
    for shards in [oldest.shards + 1, 1] {
        let current = world.begin(shards).await;
        for id in [fresh(), fresh_batch()].into_iter().chain(std::iter::repeat_with(fresh).take(6)) {
            assert_eq!(world.other.load(&id).await.unwrap(), Vec::new());
            let stream = world.stream(&id, 2).await;
            assert_eq!(stream[0].1.position.shard, current.shard_of(&id));
            streams.push(stream);
        }
        for stream in &streams {
            world.is_whole(stream).await;
        }
        // What is under way goes on where it is.
        let next = world.other.append(&commit(&open, at, "next")).await.unwrap().position;
        assert_eq!((next.shard, next.version), (oldest.shard_of(&open), at.version + 1));
        at = next;
        let stale = world.one.append(&commit(&open, first, "stale")).await;
        assert!(matches!(stale, Err(AppendError::Conflict)), "{stale:?}");
        let nowhere = Position { shard: world.one.shards(), ..at };
        let nowhere = world.one.append(&commit(&open, nowhere, "nowhere")).await;
        assert!(matches!(nowhere, Err(AppendError::Unacceptable(_))), "{nowhere:?}");
    }
    assert_eq!(world.one.load(&open).await.unwrap().len(), 3);
}

async fn marks_are_replayed_and_nothing_else(world: &World<'_>) {
    let epochs = world.one.epochs();
    let id = fresh();
    world.is_whole(&world.stream(&id, 3).await).await;
    let (marks, commits): (Vec<_>, Vec<_>) =
        world.everywhere(&epochs, &id).await.into_iter().partition(Recorded::is_moved);
    assert_eq!((marks.len(), commits.len()), (epochs.older().len(), 3), "one mark in each older epoch");
    for mark in marks {
        assert_eq!((mark.moved_to(), mark.position.version), (Some(epochs.current().number), 1));
        assert_eq!((mark.prev, mark.payment_events().count()), (Hash32::ZERO, 0));
        assert_eq!(mark.causation, commits[0].commit_id.to_string());
    }
    // A stream that began earlier has a mark before its epoch and none behind.
    let id = fresh();
    let before = world.stream(&id, 1).await;
    world.begin(2).await;
    world.is_whole(&before).await;
    let found = world.everywhere(&world.one.epochs(), &id).await;
    assert_eq!(found.iter().filter(|commit| commit.is_moved()).count(), epochs.older().len());
    assert_eq!(found.len(), epochs.all().len());
    // An empty request begins no stream.
    let unknown = fresh();
    assert_eq!(world.one.load(&unknown).await.unwrap(), Vec::new());
    assert_eq!(world.everywhere(&world.one.epochs(), &unknown).await, Vec::new());
}

async fn marks_wake_nobody(world: &World<'_>) {
    let epochs = world.one.epochs();
    let (old, current) = (epochs.all()[0], *epochs.current());
    let open = world.one.load(&world.old_stream().await).await.unwrap().pop().unwrap();
    let shard = open.position.shard;
    let mut worker = world.one.work(shard, "one").await;
    next_where(&mut worker, |wake_up| matches!(wake_up, WakeUp::Acquired)).await;
    let moved: Vec<StreamId> = std::iter::repeat_with(|| fresh_where(|id| old.shard_of(id) == shard)).take(5).collect();
    let mut newer = world.other.work(current.shard_of(&moved[0]), "other").await;
    next_where(&mut newer, |wake_up| matches!(wake_up, WakeUp::Acquired)).await;
    for id in &moved {
        world.other.append(&commit(id, Position::START, "elsewhere")).await.unwrap();
    }
    world.other.append(&commit(&open.stream_id, open.position, "here")).await.unwrap();
    loop {
        match next(&mut worker).await {
            WakeUp::Event { stream_id, .. } if stream_id == open.stream_id => break,
            WakeUp::Event { stream_id, .. } => assert!(!moved.contains(&stream_id), "woken for a mark"),
            _ => {}
        }
    }
    next_where(&mut newer, |wake_up| matches!(wake_up, WakeUp::Event { stream_id, .. } if *stream_id == moved[0]))
        .await;
    worker.release().await;
    newer.release().await;
}

async fn waiting_ends_in_every_epoch(world: &World<'_>) {
    for epoch in world.one.epochs().all() {
        // In an older epoch it is the mark that ends it.
        let id = fresh();
        let shard = epoch.shard_of(&id);
        let head = world.one.head(shard).await.unwrap();
        let waiting = async {
            while world.one.head(shard).await.unwrap() <= head {
                world.one.wait_beyond(shard, head).await.unwrap();
            }
        };
        let opening = commit(&id, Position::START, "first");
        let (waited, opened) = tokio::join!(timeout(PATIENCE, waiting), world.other.append(&opening));
        waited.expect("the wait ends");
        opened.unwrap();
        assert_eq!(world.other.head(shard).await.unwrap(), head + 1);
    }
}

async fn marks_are_the_journals_own(world: &World<'_>) {
    let id = fresh();
    let mark = Mark::Moved(Moved { to_epoch: 99 }).into();
    let forged = Commit { events: vec![mark], ..commit(&id, Position::START, "") };
    let refused = world.one.append(&forged).await;
    assert!(matches!(refused, Err(AppendError::Unacceptable(_))), "{refused:?}");
    assert_eq!(world.everywhere(&world.one.epochs(), &id).await, Vec::new());
}

async fn an_epoch_that_is_sealed_takes_nothing(world: &World<'_>) {
    let sealed = *world.one.epochs().current();
    let streams = join_all([1, 3].map(|commits| async move { world.stream(&fresh(), commits).await })).await;
    world.begin(3).await;
    world.operator.seal(sealed.number).await;
    let heads = || join_all(sealed.range().map(|shard| async move { world.one.head(shard).await.unwrap() }));
    let before = heads().await;
    // Twice: the result is the same with and without knowing that it is sealed.
    for _ in 0..2 {
        for stream in &streams {
            world.is_whole(stream).await;
            let (_, last) = stream.last().unwrap();
            let more = world.other.append(&commit(&last.stream_id, last.position, "more")).await;
            assert!(matches!(more, Err(AppendError::Unacceptable(_))), "{more:?}");
        }
        for _ in 0..5 {
            let stream = world.stream(&fresh(), 2).await;
            world.is_whole(&stream).await;
            let found = world.everywhere(&world.one.epochs(), &stream[0].0.stream_id).await;
            assert!(found.iter().all(|commit| !sealed.range().contains(&commit.position.shard)));
        }
        assert_eq!(heads().await, before);
        world.sealed(&sealed).await;
    }
    assert!(!world.one.epochs().open_shards().any(|shard| sealed.range().contains(&shard)));
    for (shard, head) in sealed.range().zip(before) {
        timeout(PATIENCE, world.one.wait_beyond(shard, head)).await.expect("a wait for nothing is bounded").unwrap();
        if head > 0 {
            world.other.wait_beyond(shard, head - 1).await.unwrap();
        }
    }
}
