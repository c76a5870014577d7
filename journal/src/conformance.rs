//! The conformance suite of [`Journal`], which runs against any implementation.
//!
//! Call [`run`] from a test, and [`epochs::run`]. A case that does not hold panics with its reason, as assertions in tests do; this module is
//! test code that lives here so that the tests of other crates can use it.
#![doc(hidden)]
#![allow(clippy::missing_panics_doc, clippy::unwrap_used, clippy::expect_used)]

pub mod epochs;

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::timeout;

use events::{
    CommitId, Event, PaymentEvent, PaymentId, QuoteRequestEvent, QuoteRequestId, StreamId, event::TransactionAbandoned,
    quote_request::QuoteRequestAwarded,
};

use super::{
    AppendError, Commit, Journal, Position, Recorded, ShardWorker, WakeUp,
    envelope::{COMMIT_BYTES_MAX, Chain},
};

/// Far beyond what any case needs; turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs every case. Each call of `make` must give another handle on the same streams, as another process would have.
pub async fn run<F, Fut>(make: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Journal>>,
{
    let (one, other) = (make().await, make().await);
    assert_eq!(one.shards(), other.shards());
    a_payment_that_does_not_exist_is_empty(&*one).await;
    the_first_append_decides(&*one, &*other).await;
    of_many_first_appends_one_wins([one.clone(), other.clone()]).await;
    what_was_appended_is_loaded(&*one, &*other).await;
    a_stale_position_conflicts(&*one, &*other).await;
    the_same_commit_succeeds_again(&*one, &*other).await;
    what_can_never_be_stored_is_refused(&*one).await;
    kinds_do_not_mix(&*one, &*other).await;
    a_shard_replays_in_order(&*one, &*other).await;
    waiting_ends_with_the_next_commit(one.clone(), &*other).await;
    a_shard_has_one_worker(&*one, &*other).await;
}

/// A fresh payment, unlike any other.
pub fn fresh() -> StreamId {
    PaymentId::derive("conformance", CommitId::random().as_str()).into()
}

/// A fresh quote-request batch, unlike any other.
pub fn fresh_batch() -> StreamId {
    QuoteRequestId::derive("conformance", CommitId::random().as_str()).into()
}

/// A fresh payment in a shard.
pub fn fresh_in(shard: u16, shards: u16) -> StreamId {
    std::iter::repeat_with(fresh).find(|id| id.shard(shards) == shard).unwrap()
}

/// A fresh batch in a shard.
pub fn fresh_batch_in(shard: u16, shards: u16) -> StreamId {
    std::iter::repeat_with(fresh_batch).find(|id| id.shard(shards) == shard).unwrap()
}

/// An event of the stream's kind that says `text`.
pub fn event(stream_id: &StreamId, text: &str) -> Event {
    let at = "2026-01-02T03:04:05.000006Z".parse().unwrap();
    match stream_id {
        StreamId::Payment(_) => {
            let abandoned = TransactionAbandoned { attempt: 1, evidence: text.to_owned(), abandoned_at: at };
            PaymentEvent::DepositAbandoned(abandoned).into()
        }
        StreamId::QuoteRequest(_) => {
            let payment_id = PaymentId::derive("conformance", "award");
            let awarded = QuoteRequestAwarded { quote_id: text.to_owned(), payment_id, awarded_at: at };
            QuoteRequestEvent::Awarded(awarded).into()
        }
    }
}

/// A commit with one event that says `text`.
pub fn commit(stream_id: &StreamId, expected: Position, text: &str) -> Commit {
    Commit {
        stream_id: stream_id.clone(),
        expected,
        commit_id: CommitId::random(),
        events: vec![event(stream_id, text)],
        correlation: format!("request of\r\n{text}"),
        causation: "conformance".to_owned(),
    }
}

/// Asserts that two records are of the same stored commit; of an append's answer the time is not the journal's.
pub fn assert_same(left: &Recorded, right: &Recorded) {
    assert_eq!(left, &Recorded { stored_at: left.stored_at, ..right.clone() });
}

async fn next(worker: &mut Box<dyn ShardWorker>) -> WakeUp {
    let wake_up = async {
        loop {
            if let Ok(wake_up) = worker.next().await {
                return wake_up;
            }
        }
    };
    timeout(PATIENCE, wake_up).await.expect("no wake-up came")
}

/// Waits for the wake-up that `wanted` recognises, among repeated hints.
async fn next_where(worker: &mut Box<dyn ShardWorker>, wanted: impl Fn(&WakeUp) -> bool) {
    while !wanted(&next(worker).await) {}
}

/// Waits for the wake-up for the stream's commit at this position, among repeated hints.
async fn next_for(worker: &mut Box<dyn ShardWorker>, id: &StreamId, at: Position) {
    let wanted = |wake_up: &WakeUp| match wake_up {
        WakeUp::Event { stream_id, sequence } => stream_id == id && *sequence == at.sequence,
        WakeUp::Acquired | WakeUp::Lost => false,
    };
    next_where(worker, wanted).await;
}

async fn a_payment_that_does_not_exist_is_empty(journal: &dyn Journal) {
    assert_eq!(journal.load(&fresh()).await.unwrap(), Vec::new());
}

async fn the_first_append_decides(one: &dyn Journal, other: &dyn Journal) {
    let id = fresh();
    let first = one.append(&commit(&id, Position::START, "first")).await.unwrap();
    assert_eq!((first.position.version, first.position.shard), (1, id.shard(one.shards())));
    for journal in [one, other] {
        let second = journal.append(&commit(&id, Position::START, "second")).await;
        assert!(matches!(second, Err(AppendError::Conflict)), "{second:?}");
    }
    let stored = other.load(&id).await.unwrap();
    assert_eq!(stored.len(), 1);
    assert_same(&stored[0], &first);
}

async fn of_many_first_appends_one_wins(journals: [Arc<dyn Journal>; 2]) {
    let id = fresh();
    let openings: Vec<Commit> = (0..50).map(|n| commit(&id, Position::START, &n.to_string())).collect();
    let append = |(n, opening): (usize, &Commit)| {
        let (journal, opening) = (journals[n % 2].clone(), opening.clone());
        tokio::spawn(async move { journal.append(&opening).await })
    };
    let outcomes = join_all(openings.iter().enumerate().map(append)).await;
    let mut won = Vec::new();
    for outcome in outcomes {
        match outcome.unwrap() {
            Ok(recorded) => won.push(recorded),
            Err(error) => assert!(matches!(error, AppendError::Conflict), "{error}"),
        }
    }
    assert_eq!(won.len(), 1, "exactly one first commit wins");
    let stored = journals[0].load(&id).await.unwrap();
    assert_eq!(stored.len(), 1);
    assert_same(&stored[0], &won[0]);
}

async fn what_was_appended_is_loaded(one: &dyn Journal, other: &dyn Journal) {
    let id = fresh();
    let mut at = Position::START;
    let mut appended = Vec::new();
    for n in 0..20 {
        let mut next = commit(&id, at, &n.to_string());
        next.events.extend((0..n % 3).map(|extra| event(&id, &format!("{n} and {extra}"))));
        // In turns by two processes, each of which reads what the other wrote.
        let (writer, reader) = if n % 2 == 0 { (one, other) } else { (other, one) };
        let recorded = writer.append(&next).await.unwrap();
        assert_eq!(recorded.events, next.events);
        assert_eq!(recorded.prev, at.hash);
        at = recorded.position;
        appended.push(recorded);
        let stored = reader.load(&id).await.unwrap();
        assert_eq!(stored.len(), appended.len(), "an acknowledged append is read by everyone");
        let mut chain = Chain::default();
        for (stored, appended) in stored.iter().zip(&appended) {
            assert_same(stored, appended);
            chain.follow(stored).unwrap();
        }
    }
}

async fn a_stale_position_conflicts(one: &dyn Journal, other: &dyn Journal) {
    let id = fresh();
    let first = one.append(&commit(&id, Position::START, "first")).await.unwrap().position;
    let second = one.append(&commit(&id, first, "second")).await.unwrap().position;
    let third = one.append(&commit(&id, second, "third")).await.unwrap().position;
    let ahead = Position { shard: third.shard, version: 9, sequence: third.sequence + 9, hash: third.hash };
    for stale in [Position::START, first, second, ahead] {
        let outcome = other.append(&commit(&id, stale, "stale")).await;
        assert!(matches!(outcome, Err(AppendError::Conflict)), "{stale:?}: {outcome:?}");
    }
    assert_eq!(one.load(&id).await.unwrap().len(), 3);
}

async fn the_same_commit_succeeds_again(one: &dyn Journal, other: &dyn Journal) {
    let id = fresh();
    let first = commit(&id, Position::START, "first");
    let recorded = one.append(&first).await.unwrap();
    for journal in [one, other] {
        assert_same(&journal.append(&first).await.unwrap(), &recorded);
    }
    // Also when it is not the last one any more.
    let second = commit(&id, recorded.position, "second");
    let after = other.append(&second).await.unwrap();
    assert_same(&one.append(&first).await.unwrap(), &recorded);
    assert_same(&one.append(&second).await.unwrap(), &after);
    assert_eq!(one.load(&id).await.unwrap().len(), 2);
    // The id alone does not make it the same commit.
    let forged = Commit { events: vec![event(&id, "other")], ..first };
    let outcome = one.append(&forged).await;
    assert!(matches!(outcome, Err(AppendError::Unacceptable(_))), "{outcome:?}");
}

async fn what_can_never_be_stored_is_refused(journal: &dyn Journal) {
    let id = fresh();
    let empty = Commit { events: Vec::new(), ..commit(&id, Position::START, "") };
    let large = commit(&id, Position::START, &"x".repeat(COMMIT_BYTES_MAX));
    for commit in [empty, large] {
        let outcome = journal.append(&commit).await;
        assert!(matches!(outcome, Err(AppendError::Unacceptable(_))), "{outcome:?}");
    }
    let largest = commit(&id, Position::START, &"x".repeat(COMMIT_BYTES_MAX - 2048));
    journal.append(&largest).await.unwrap();
    assert_eq!(journal.load(&id).await.unwrap()[0].events, largest.events);
}

async fn kinds_do_not_mix(one: &dyn Journal, other: &dyn Journal) {
    let (payment, batch) = (fresh(), fresh_batch());
    for (id, foreign) in [(&payment, &batch), (&batch, &payment)] {
        let first = one.append(&commit(id, Position::START, "first")).await.unwrap();
        assert_eq!(first.position.shard, id.shard(one.shards()));
        let mut mixed = commit(id, first.position, "second");
        mixed.events.push(event(foreign, "foreign"));
        let outcome = one.append(&mixed).await;
        assert!(matches!(outcome, Err(AppendError::Unacceptable(_))), "{outcome:?}");
        let stored = other.load(id).await.unwrap();
        assert_eq!((stored.len(), &stored[0].stream_id, &stored[0].events), (1, id, &first.events));
    }
}

async fn a_shard_replays_in_order(one: &dyn Journal, other: &dyn Journal) {
    let shards = one.shards();
    let shard = shards - 1;
    let before = one.head(shard).await.unwrap();
    let ids = [fresh_in(shard, shards), fresh_batch_in(shard, shards), fresh_in(shard, shards)];
    let mut positions = [Position::START; 3];
    let mut appended = Vec::new();
    for n in 0..30 {
        let at = n % ids.len();
        let recorded = one.append(&commit(&ids[at], positions[at], &n.to_string())).await.unwrap();
        positions[at] = recorded.position;
        appended.push(recorded);
    }
    assert_eq!(other.head(shard).await.unwrap(), before + 30);
    for limit in [1, 7, 30, 1000] {
        let mut from = before + 1;
        let mut replayed = Vec::new();
        loop {
            let page = other.replay(shard, from, limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            from = last.position.sequence + 1;
            let full = page.len() == limit;
            replayed.extend(page);
            if !full {
                break;
            }
        }
        assert_eq!(replayed.len(), appended.len(), "pages of {limit}");
        for (replayed, appended) in replayed.iter().zip(&appended) {
            assert_same(replayed, appended);
        }
    }
    let all = other.replay(shard, 0, usize::MAX).await.unwrap();
    let sequences: Vec<u64> = all.iter().map(|commit| commit.position.sequence).collect();
    assert_eq!(sequences, (1..=before + 30).collect::<Vec<_>>());
    assert_eq!(other.replay(shard, before + 31, 10).await.unwrap(), Vec::new());
}

async fn waiting_ends_with_the_next_commit(one: Arc<dyn Journal>, other: &dyn Journal) {
    let shards = one.shards();
    let id = fresh_in(0, shards);
    let first = other.append(&commit(&id, Position::START, "first")).await.unwrap().position;
    timeout(PATIENCE, one.wait_beyond(0, first.sequence - 1)).await.expect("it is there already").unwrap();
    let waiting = tokio::spawn({
        let one = one.clone();
        async move {
            // A wait may end without news; who waits asks again.
            while one.head(0).await.unwrap() <= first.sequence {
                one.wait_beyond(0, first.sequence).await.unwrap();
            }
        }
    });
    tokio::task::yield_now().await;
    other.append(&commit(&id, first, "second")).await.unwrap();
    timeout(PATIENCE, waiting).await.expect("the wait ends").unwrap();
    let head = one.head(0).await.unwrap();
    timeout(PATIENCE, one.wait_beyond(0, head)).await.expect("a wait for nothing is bounded").unwrap();
}

async fn a_shard_has_one_worker(one: &dyn Journal, other: &dyn Journal) {
    let shards = one.shards();
    let shard = shards / 2;
    let acquired = |wake_up: &WakeUp| matches!(wake_up, WakeUp::Acquired);
    let earlier = fresh_in(shard, shards);
    one.append(&commit(&earlier, Position::START, "before anyone works")).await.unwrap();

    let mut active = one.work(shard, "one").await;
    let first = next(&mut active).await;
    assert!(acquired(&first), "{first:?}");
    let mut stand_by = other.work(shard, "other").await;
    let id = fresh_batch_in(shard, shards);
    let at = other.append(&commit(&id, Position::START, "first")).await.unwrap().position;
    next_for(&mut active, &id, at).await;
    // Each commit has its own, whichever process made it.
    for (n, journal) in [one, other, one].into_iter().enumerate() {
        let another = fresh_in(shard, shards);
        let at = journal.append(&commit(&another, Position::START, &n.to_string())).await.unwrap().position;
        next_for(&mut active, &another, at).await;
    }
    // The stand-by gets nothing while the other is active.
    let idle = timeout(Duration::from_millis(50), stand_by.next()).await;
    assert!(idle.is_err(), "{idle:?}");

    active.release().await;
    let first = next(&mut stand_by).await;
    assert!(acquired(&first), "{first:?}");
    let at = one.append(&commit(&id, at, "second")).await.unwrap().position;
    next_for(&mut stand_by, &id, at).await;

    // A worker that is gone without a word is succeeded too.
    let mut third = one.work(shard, "one again").await;
    drop(stand_by);
    let first = next(&mut third).await;
    assert!(acquired(&first), "{first:?}");
    let at = one.append(&commit(&id, at, "third")).await.unwrap().position;
    next_for(&mut third, &id, at).await;

    // Shards are worked independently of each other.
    if shards > 1 {
        let mut neighbour = other.work((shard + 1) % shards, "other").await;
        let first = next(&mut neighbour).await;
        assert!(acquired(&first), "{first:?}");
        neighbour.release().await;
    }
    third.release().await;
}
