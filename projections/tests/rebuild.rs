//! Rebuilds in a shadow copy, and the alarm that a stream lost commits.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use events::{PaymentEvent, PaymentId, StreamId, event::RefundDue};
use journal::ShardLog;
use projections::{
    PaymentView, Projections, QuoteRequestView, RebuildError, RebuildPhase, RunError, ShardState, Verdict,
};
use sagas::ports::OpenStreams;

use crate::support::*;

/// Long enough for a busy machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(120);
const SHARDS: u16 = 4;

struct Running {
    projections: Projections,
    journal: Arc<Streams>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    fn start(directory: &Path, journal: &Arc<Streams>) -> Self {
        Self::of(Projections::open_searched(directory, journal.shards()).unwrap(), journal)
    }

    fn unsearched(directory: &Path, journal: &Arc<Streams>) -> Self {
        Self::of(Projections::open(directory, journal.shards()).unwrap(), journal)
    }

    fn of(projections: Projections, journal: &Arc<Streams>) -> Self {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn({
            let (projections, shutdown, journal) = (projections.clone(), shutdown.clone(), Arc::clone(journal));
            async move { projections.run(journal, shutdown).await }
        });
        Self { projections, journal: Arc::clone(journal), shutdown, task }
    }

    async fn caught_up(&self) {
        for shard in 0..SHARDS {
            let head = self.journal.head_of(shard);
            assert!(self.projections.wait_for(shard, head, PATIENCE).await, "{:?}", self.projections.status(shard));
        }
        until(|| self.projections.ready().is_ok()).await;
    }

    async fn rebuild(&self) -> Result<Vec<Verdict>, RebuildError> {
        self.projections.begin_rebuild()?.run(self.journal.clone(), self.shutdown.clone()).await
    }

    /// Checks every view against the fold of its commits.
    fn same_as_fold(&self) {
        for id in self.journal.streams() {
            let commits = self.journal.commits_of(id.clone());
            match &id {
                StreamId::Payment(id) => {
                    assert_eq!(self.projections.get(id).unwrap(), PaymentView::fold(&commits));
                }
                StreamId::QuoteRequest(id) => {
                    assert_eq!(self.projections.get_quote_request(id).unwrap(), QuoteRequestView::fold(&commits));
                }
            }
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn until(mut condition: impl FnMut() -> bool) {
    let polled = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, polled).await.expect("the condition never came true");
}

fn payment(number: usize) -> PaymentId {
    PaymentId::derive("payer", &format!("order-{number}"))
}

/// Every commit of `count` payments but the last.
fn fill(journal: &Streams, count: usize) {
    for number in 0..count {
        let id = payment(number);
        for events in all_commits(&id).into_iter().take(6) {
            journal.push(&id, events);
        }
    }
}

/// The directories and markers of generations.
fn generations(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("generation-")).collect();
    names.sort();
    names
}

fn all_equal(verdicts: &[Verdict], journal: &Streams) -> bool {
    let equal = |(shard, verdict): (u16, &Verdict)| match verdict {
        Verdict::Equal { sequence, .. } => *sequence == journal.head_of(shard),
        Verdict::Different { .. } | Verdict::NotCompared { .. } => false,
    };
    verdicts.len() == usize::from(journal.shards()) && (0..).zip(verdicts).all(equal)
}

#[tokio::test]
async fn a_rebuilt_copy_takes_the_place_of_the_one_in_use() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 400);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    assert_eq!(running.projections.rebuild_status(), None);
    for generation in 2..4 {
        let verdicts = running.rebuild().await.unwrap();
        assert!(all_equal(&verdicts, &journal), "{verdicts:?}");
        assert_eq!(generations(directory.path()), [format!("generation-{generation}")]);
        running.projections.ready().unwrap();
        running.same_as_fold();
        let status = running.projections.rebuild_status().unwrap();
        assert!(status.ended_at.is_some());
        assert_eq!(status.phase, RebuildPhase::Done { verdicts });
        assert!(status.shards.iter().all(|shard| shard.done == journal.head_of(shard.shard)), "{status:?}");
    }
    // It is followed with, and the next start opens it without building anything.
    let id = payment(0);
    let (shard, sequence) = journal.push(&id, vec![released()]);
    assert!(running.projections.wait_for(shard, sequence, PATIENCE).await);
    assert!(running.projections.get(&id).unwrap().unwrap().at_rest);
    running.stop().await;
    let before = journal.replayed();
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    running.same_as_fold();
    assert_eq!(journal.replayed() - before, u64::from(SHARDS));
    running.stop().await;
}

/// Readers, waiters and writers are busy all the while: no read goes back or without an answer, no wait is in vain.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_notices_a_rebuild() {
    const PAYMENTS: usize = 300;
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    for number in 0..PAYMENTS {
        journal.push(payment(number), vec![submitted(&payment(number))]);
    }
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    let waiters: Vec<_> = (0..PAYMENTS)
        .map(|number| {
            let projections = running.projections.clone();
            tokio::spawn(async move {
                let (id, mut seen) = (payment(number), 1);
                while seen < 7 {
                    let view = projections.changed(&id, seen, PATIENCE).await.expect("a wait in vain");
                    assert!(view.version > seen);
                    seen = view.version;
                }
            })
        })
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (projections, over) = (running.projections.clone(), Arc::clone(&over));
        async move {
            let mut seen = vec![0; PAYMENTS];
            while !over.load(Ordering::SeqCst) {
                for (number, seen) in seen.iter_mut().enumerate() {
                    let view = projections.get(&payment(number)).unwrap().unwrap();
                    assert!(view.version >= *seen, "a view went back");
                    *seen = view.version;
                }
                tokio::task::yield_now().await;
            }
        }
    });
    let writer = tokio::spawn({
        let journal = Arc::clone(&journal);
        async move {
            for step in 1..7 {
                for number in 0..PAYMENTS {
                    journal.push(payment(number), all_commits(&payment(number))[step].clone());
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    let mut rebuilds = 0;
    while rebuilds == 0 || !writer.is_finished() {
        for verdict in running.rebuild().await.unwrap() {
            assert!(matches!(verdict, Verdict::Equal { .. }), "{verdict:?}");
        }
        rebuilds += 1;
    }
    writer.await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    reader.await.unwrap();
    running.caught_up().await;
    running.same_as_fold();
    running.stop().await;
}

#[tokio::test]
async fn a_second_rebuild_is_refused_while_one_is_under_way() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 50);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    let first = running.projections.begin_rebuild().unwrap();
    assert!(matches!(running.projections.begin_rebuild(), Err(RebuildError::UnderWay(_))));
    // Given up before it ran, it is over.
    drop(first);
    let status = running.projections.rebuild_status().unwrap();
    assert_eq!(status.phase, RebuildPhase::Failed { error: RebuildError::Stopped });
    running.rebuild().await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_rebuild_that_is_stopped_leaves_the_copy_in_use_and_its_own_for_the_next() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 50);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    // While the stream is away the rebuild cannot end.
    journal.set_unavailable(true);
    let stop = CancellationToken::new();
    let rebuild = running.projections.begin_rebuild().unwrap();
    let task = tokio::spawn({
        let (journal, stop) = (running.journal.clone(), stop.clone());
        async move { rebuild.run(journal, stop).await }
    });
    until(|| generations(directory.path()).len() == 3).await;
    assert_eq!(generations(directory.path()), ["generation-1", "generation-2", "generation-2.building"]);
    running.same_as_fold();
    stop.cancel();
    assert_eq!(task.await.unwrap(), Err(RebuildError::Stopped));
    running.projections.ready().unwrap();
    // One that is stopped as it begins forgets no copy either.
    for _ in 0..3 {
        let stop = CancellationToken::new();
        let rebuild = running.projections.begin_rebuild().unwrap().run(running.journal.clone(), stop.clone());
        let (outcome, ()) = tokio::join!(rebuild, async { stop.cancel() });
        assert_eq!(outcome, Err(RebuildError::Stopped));
    }
    // And it can be done again.
    journal.set_unavailable(false);
    running.rebuild().await.unwrap();
    assert_eq!(generations(directory.path()), ["generation-2"]);
    running.same_as_fold();
    running.stop().await;
}

/// Read models that are built from nothing, when the process ends half-way.
#[tokio::test]
async fn read_models_that_were_being_built_go_on_where_they_were() {
    const BUILT: u64 = 700;
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
    fill(&journal, 400);
    journal.set_end(Some(BUILT));
    let running = Running::start(directory.path(), &journal);
    assert!(running.projections.wait_for(0, BUILT, PATIENCE).await);
    assert_eq!(running.projections.status(0).state, ShardState::CatchingUp);
    running.stop().await;
    journal.set_end(None);
    let before = journal.replayed();
    let running = Running::start(directory.path(), &journal);
    let head = journal.head_of(0);
    assert!(running.projections.wait_for(0, head, PATIENCE).await);
    // The last commit that was built is looked at once more.
    assert_eq!(journal.replayed() - before, head - BUILT + 1);
    running.projections.ready().unwrap();
    running.same_as_fold();
    running.stop().await;
}

/// A process that ends half-way, in either way, leaves a copy that the next rebuild goes on with.
#[tokio::test]
async fn a_rebuild_that_was_interrupted_goes_on_where_it_was() {
    const BUILT: u64 = 700;
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
    fill(&journal, 400);
    let head = journal.head_of(0);
    for (round, killed) in (0..).zip([false, true]) {
        let running = Running::start(directory.path(), &journal);
        assert!(running.projections.wait_for(0, head, PATIENCE).await);
        until(|| running.projections.ready().is_ok()).await;
        // It comes so far and no further.
        journal.set_end(Some(BUILT));
        let rebuild = running.projections.begin_rebuild().unwrap();
        let task = tokio::spawn(rebuild.run(journal.clone(), running.shutdown.clone()));
        until(|| running.projections.rebuild_status().unwrap().shards[0].done == BUILT).await;
        if killed {
            task.abort();
        }
        running.stop().await;
        assert!(matches!(task.await, Err(_) | Ok(Err(RebuildError::Stopped))));
        let (whole, unfinished) = (format!("generation-{}", round + 1), format!("generation-{}", round + 2));
        assert_eq!(generations(directory.path()), [whole, unfinished.clone(), format!("{unfinished}.building")]);

        journal.set_end(None);
        let running = Running::start(directory.path(), &journal);
        assert!(running.projections.wait_for(0, head, PATIENCE).await);
        until(|| running.projections.ready().is_ok()).await;
        let before = journal.replayed();
        assert!(all_equal(&running.rebuild().await.unwrap(), &journal));
        // The last commit that was built is looked at once more.
        assert_eq!(journal.replayed() - before, head - BUILT + 1);
        assert_eq!(generations(directory.path()), [unfinished]);
        running.same_as_fold();
        running.stop().await;
    }
}

/// Another program may fold otherwise, and another stream holds something else.
#[tokio::test]
async fn a_copy_of_another_program_or_of_another_stream_is_not_gone_on_with() {
    let directory = TempDir::new().unwrap();
    for foreign in ["program", "stream"] {
        let journal = Arc::new(Streams::new(1));
        fill(&journal, 100);
        let running = Running::start(directory.path(), &journal);
        until(|| running.projections.checkpoint(0) == journal.head_of(0) && running.projections.ready().is_ok()).await;
        journal.set_end(Some(300));
        let rebuild = running.projections.begin_rebuild().unwrap();
        let task = tokio::spawn(rebuild.run(journal.clone(), running.shutdown.clone()));
        until(|| running.projections.rebuild_status().unwrap().shards[0].done == 300).await;
        running.stop().await;
        task.await.unwrap().unwrap_err();
        let left = generations(directory.path());
        let [_, unfinished, marker] = &left[..] else { panic!("a copy and its marker: {left:?}") };
        if foreign == "program" {
            let path = directory.path().join(marker);
            let said = fs::read_to_string(&path).unwrap();
            fs::write(&path, said.replacen("\"build\":\"", "\"build\":\"other ", 1)).unwrap();
            let running = Running::start(directory.path(), &journal);
            assert!(!generations(directory.path()).contains(unfinished));
            running.stop().await;
        } else {
            let other = Arc::new(Streams::new(1));
            fill(&other, 100);
            let running = Running::start(directory.path(), &other);
            until(|| running.projections.checkpoint(0) == other.head_of(0) && running.projections.ready().is_ok())
                .await;
            let before = other.replayed();
            assert!(all_equal(&running.rebuild().await.unwrap(), &other));
            assert_eq!(other.replayed() - before, other.head_of(0) + 1, "all of it is read");
            running.same_as_fold();
            running.stop().await;
        }
    }
}

#[tokio::test]
async fn a_half_built_copy_is_removed_by_the_next_start() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 50);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    running.stop().await;
    // What kill -9 leaves behind: at the very beginning, and on the way.
    for built in [false, true] {
        fs::write(directory.path().join("generation-7.building"), "").unwrap();
        if built {
            fs::create_dir(directory.path().join("generation-7")).unwrap();
            fs::write(directory.path().join("generation-7/db"), "half").unwrap();
        }
        let before = journal.replayed();
        let running = Running::start(directory.path(), &journal);
        assert_eq!(generations(directory.path()), ["generation-1"]);
        running.caught_up().await;
        running.same_as_fold();
        assert_eq!(journal.replayed() - before, u64::from(SHARDS), "the old copy is served as it was");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_shard_that_stopped_is_rebuilt_as_far_as_it_goes() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 100);
    let (stopped, last_good) = (1, journal.head_of(1) / 2);
    journal.set_missing(stopped, last_good + 1);
    let running = Running::start(directory.path(), &journal);
    until(|| matches!(running.projections.status(stopped).state, ShardState::Stopped { .. })).await;
    let verdicts = running.rebuild().await.unwrap();
    let sequence = |verdict: &Verdict| match verdict {
        Verdict::Equal { sequence, .. } => *sequence,
        verdict => panic!("{verdict:?}"),
    };
    assert_eq!(sequence(&verdicts[usize::from(stopped)]), last_good);
    assert_eq!(sequence(&verdicts[0]), journal.head_of(0));
    running.stop().await;
}

#[tokio::test]
async fn a_journal_of_another_shape_is_refused() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    let rebuild = running.projections.begin_rebuild().unwrap();
    let refused = rebuild.run(Arc::new(Streams::new(2)), running.shutdown.clone()).await;
    assert_eq!(refused, Err(RebuildError::Shards { journal: 2, projections: SHARDS }));
    running.stop().await;
}

#[tokio::test]
async fn a_stream_that_lost_commits_raises_an_alarm_that_stays() {
    let directory = TempDir::new().unwrap();
    let long = Arc::new(Streams::new(SHARDS));
    fill(&long, 60);
    let running = Running::start(directory.path(), &long);
    running.caught_up().await;
    assert!(running.projections.alarms().is_empty());
    running.stop().await;

    // Shorter in every shard.
    let short = Arc::new(Streams::new(SHARDS));
    fill(&short, 20);
    let running = Running::start(directory.path(), &short);
    until(|| running.projections.alarms().len() == usize::from(SHARDS)).await;
    running.caught_up().await;
    // The stream is what is shown.
    running.same_as_fold();
    assert_eq!(running.projections.get(&payment(59)).unwrap(), None);
    for alarm in running.projections.alarms() {
        assert_eq!((alarm.checkpoint, alarm.head), (long.head_of(alarm.shard), short.head_of(alarm.shard)));
        let text = alarm.to_string();
        assert!(text.contains(&alarm.checkpoint.to_string()) && text.contains(&alarm.head.to_string()), "{text}");
    }
    running.stop().await;

    // A restart forgets nothing and finds nothing new; an operator's word ends it, for good.
    let running = Running::start(directory.path(), &short);
    running.caught_up().await;
    assert_eq!(running.projections.alarms().len(), usize::from(SHARDS));
    assert_eq!(running.projections.acknowledge_alarms().unwrap().len(), usize::from(SHARDS));
    assert!(running.projections.alarms().is_empty());
    running.stop().await;
    let running = Running::start(directory.path(), &short);
    running.caught_up().await;
    assert!(running.projections.alarms().is_empty());
    running.stop().await;

    // Longer again, but with other commits where those were.
    let other = Arc::new(Streams::new(SHARDS));
    fill(&other, 90);
    let running = Running::start(directory.path(), &other);
    until(|| running.projections.alarms().len() == usize::from(SHARDS)).await;
    running.caught_up().await;
    running.same_as_fold();
    assert!(running.projections.alarms().iter().all(|alarm| alarm.head >= alarm.checkpoint));
    running.stop().await;
}

/// Views that are of no use any more are a witness all the same: of another format, or with other indexes.
#[tokio::test]
async fn commits_that_are_lost_while_the_index_for_search_is_turned_on_raise_an_alarm() {
    let directory = TempDir::new().unwrap();
    let (long, short) = (Arc::new(Streams::new(SHARDS)), Arc::new(Streams::new(SHARDS)));
    fill(&long, 60);
    fill(&short, 20);
    let running = Running::unsearched(directory.path(), &long);
    running.caught_up().await;
    running.stop().await;
    let running = Running::start(directory.path(), &long);
    running.caught_up().await;
    assert!(running.projections.alarms().is_empty(), "nothing is lost when it is turned on");
    running.stop().await;
    let running = Running::unsearched(directory.path(), &short);
    until(|| running.projections.alarms().len() == usize::from(SHARDS)).await;
    running.caught_up().await;
    for alarm in running.projections.alarms() {
        assert_eq!((alarm.checkpoint, alarm.head), (long.head_of(alarm.shard), short.head_of(alarm.shard)));
    }
    running.stop().await;
}

#[tokio::test]
async fn a_head_that_is_behind_for_a_moment_is_no_alarm() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
    fill(&journal, 5);
    let running = Running::start(directory.path(), &journal);
    assert!(running.projections.wait_for(0, journal.head_of(0), PATIENCE).await);
    // A new leader that does not know its newest commits yet, for three looks.
    journal.set_short_heads(3);
    until(|| journal.short_heads() == 0).await;
    let (shard, sequence) = journal.push(payment(0), vec![released()]);
    assert!(running.projections.wait_for(shard, sequence, PATIENCE).await);
    running.projections.ready().unwrap();
    assert!(running.projections.alarms().is_empty());
    running.stop().await;
}

/// The events of a payment do not matter to the list; that all shards are looked through and sorted does.
#[tokio::test]
async fn all_that_is_overdue_is_listed() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let mut expected = Vec::new();
    for number in 0..60 {
        let id = payment(number);
        let commits = number % 8;
        let all: Vec<Vec<PaymentEvent>> = all_commits(&id);
        for events in all.into_iter().take(commits) {
            journal.push(&id, events);
        }
        // Submitted alone has no money in it, and released all is well.
        if (2..7).contains(&commits) {
            expected.push(id);
        }
    }
    // Of a payment that cannot be read nobody can tell, and that is said.
    let unreadable = expected.pop().unwrap();
    let last = journal.commits_of(&unreadable).last().unwrap().position.sequence;
    journal.set_unreadable(unreadable.shard(SHARDS), last);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    let grace = Duration::from_secs(30);
    let listed = running.projections.overdue(at(1_000), grace).await.unwrap();
    assert_eq!((listed.unreadable, listed.uncertain), (vec![unreadable], Vec::new()));
    assert!(listed.payments.is_sorted_by_key(|found| found.since));
    let mut ids: Vec<_> = listed.payments.into_iter().map(|found| found.payment_id).collect();
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);
    assert!(running.projections.overdue(at(0), grace).await.unwrap().payments.is_empty());
    running.stop().await;
}

/// Whoever takes a shard over asks the read model what is open: what is watched has to be among it, after a restart and in a
/// copy that was built anew.
#[tokio::test]
async fn a_payment_whose_own_deposit_is_watched_stays_open_until_that_is_settled() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let ids: Vec<_> = (0..3).map(payment).collect();
    for id in &ids {
        journal.push(id, vec![payer_deposit_submitted(id)]);
        journal.push(id, vec![auction_closed(&[], &[]), failed(RefundDue::Nothing, None)]);
    }
    journal.push(&ids[1], vec![escrow_opened(hash(0x11), 21)]);
    journal.push(&ids[2], vec![ruled_out()]);
    let is_open = async |running: &Running, id: &PaymentId| {
        let stream = StreamId::from(id.clone());
        let shard = stream.shard(SHARDS);
        running.projections.open_streams(shard, journal.head_of(shard)).await.unwrap().contains(&stream)
    };
    for restarted in [false, true] {
        let running = Running::start(directory.path(), &journal);
        running.caught_up().await;
        for rebuilt in [false, true] {
            if rebuilt {
                assert!(all_equal(&running.rebuild().await.unwrap(), &journal));
            }
            running.same_as_fold();
            let open =
                [is_open(&running, &ids[0]).await, is_open(&running, &ids[1]).await, is_open(&running, &ids[2]).await];
            assert_eq!(open, [true, true, false], "restarted: {restarted}, rebuilt: {rebuilt}");
        }
        running.stop().await;
    }
    journal.push(&ids[0], vec![ruled_out()]);
    journal.push(&ids[1], vec![refunded(hash(0x33), 210)]);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    assert!(!is_open(&running, &ids[0]).await && !is_open(&running, &ids[1]).await);
    running.stop().await;
}

/// Followers and rebuild read pages ahead while the stream grows by many, and the copies change places in between.
#[tokio::test]
async fn copies_change_places_while_pages_are_read_ahead() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 600);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    for round in 1..4 {
        let grown = tokio::task::spawn_blocking({
            let journal = Arc::clone(&journal);
            move || {
                for number in round * 1_000..round * 1_000 + 600 {
                    let id = payment(number);
                    for events in all_commits(&id) {
                        journal.push(&id, events);
                    }
                }
            }
        });
        let verdicts = running.rebuild().await.unwrap();
        let equal = |verdict: &Verdict| matches!(verdict, Verdict::Equal { .. });
        assert!(verdicts.len() == usize::from(SHARDS) && verdicts.iter().all(equal), "{verdicts:?}");
        grown.await.unwrap();
        running.caught_up().await;
        running.same_as_fold();
    }
    running.stop().await;
}
