//! Journals of more than one epoch: shards that come while the read models are in use, marks, sealed shards.

use std::{path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use events::{PaymentId, QuoteRequestId, StreamId};
use journal::ShardLog;
use projections::{PaymentView, Projections, QuoteRequestView, RunError, ShardState, Verdict};
use sagas::ports::OpenStreams;

use crate::support::*;

/// Long enough for a busy machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Shards of the first epoch.
const SHARDS: u16 = 4;
/// Shards of the second.
const MORE: u16 = 6;

struct Running {
    projections: Projections,
    journal: Arc<Streams>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    fn start(directory: &Path, journal: &Arc<Streams>) -> Self {
        let projections = Projections::open_searched(directory, journal.shards()).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn({
            let (projections, shutdown, journal) = (projections.clone(), shutdown.clone(), Arc::clone(journal));
            async move { projections.run(journal, shutdown).await }
        });
        Self { projections, journal: Arc::clone(journal), shutdown, task }
    }

    async fn caught_up(&self) {
        for shard in 0..self.journal.shards() {
            let head = self.journal.head_of(shard);
            assert!(self.projections.wait_for(shard, head, PATIENCE).await, "{:?}", self.projections.status(shard));
            until(|| self.projections.status(shard).state == ShardState::Live).await;
        }
        self.projections.ready().unwrap();
    }

    /// Checks every view, where it was found, and what is open in each shard.
    async fn same_as_fold(&self) {
        let mut open = vec![Vec::new(); usize::from(self.journal.shards())];
        for id in self.journal.streams() {
            let (commits, shard) = (self.journal.commits_of(id.clone()), self.journal.shard_of(id.clone()).unwrap());
            let is_open = match &id {
                StreamId::Payment(id) => {
                    let found = self.projections.find(id).unwrap().unwrap();
                    assert_eq!((Some(&found.view), found.shard), (PaymentView::fold(&commits).as_ref(), shard));
                    !found.view.at_rest
                }
                StreamId::QuoteRequest(id) => {
                    let found = self.projections.find_quote_request(id).unwrap().unwrap();
                    assert_eq!((Some(&found.view), found.shard), (QuoteRequestView::fold(&commits).as_ref(), shard));
                    !found.view.at_rest
                }
            };
            if is_open {
                open[usize::from(shard)].push(id);
            }
        }
        for (shard, mut expected) in (0..).zip(open) {
            let mut listed = self.projections.open_streams(shard, self.journal.head_of(shard)).await.unwrap();
            expected.sort();
            listed.sort();
            assert_eq!(listed, expected, "shard {shard}");
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

fn batch(number: usize) -> QuoteRequestId {
    QuoteRequestId::derive("payer", &format!("order-{number}"))
}

/// Payments, of which every third is at its end, and a batch for every fourth of them.
fn fill(journal: &Streams, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let all = all_commits(&payment(number));
        let commits = if number % 3 == 0 { all.len() } else { 1 + number % (all.len() - 1) };
        for events in all.into_iter().take(commits) {
            journal.push(payment(number), events);
        }
        if number % 4 == 0 {
            journal.push(batch(number), vec![opened(&batch(number))]);
        }
    }
}

#[tokio::test]
async fn an_epoch_that_begins_is_followed_while_the_older_ones_go_on() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 0..60);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    // Who waits, and who asks about a shard that nobody knows yet, need not ask again.
    let waiting = tokio::spawn({
        let projections = running.projections.clone();
        async move { projections.changed(&payment(60), 0, PATIENCE).await }
    });
    let ahead = tokio::spawn({
        let projections = running.projections.clone();
        async move {
            let all: Vec<u16> = (0..SHARDS + MORE).collect();
            futures::future::join_all(all.iter().map(|shard| projections.open_streams(*shard, 0))).await
        }
    });
    journal.begin_epoch(MORE);
    fill(&journal, 60..120);
    journal.push(payment(1), vec![released()]);
    assert_eq!(waiting.await.unwrap().map(|view| view.payment_id), Some(payment(60)));
    assert!(ahead.await.unwrap().iter().all(Result::is_ok));
    running.caught_up().await;
    assert_eq!(running.projections.shards(), SHARDS + MORE);
    assert_eq!(journal.shard_of(payment(60)).map(|shard| shard >= SHARDS), Some(true));
    running.same_as_fold().await;
    assert_eq!(running.projections.find(&payment(100_000)), Ok(None));

    // And another one, with fewer shards.
    journal.begin_epoch(1);
    fill(&journal, 120..150);
    running.caught_up().await;
    running.same_as_fold().await;
    running.stop().await;
}

#[tokio::test]
async fn a_restart_with_more_shards_goes_on_from_the_checkpoints() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 0..60);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    running.stop().await;

    journal.begin_epoch(MORE);
    let (heads, before) = ((0..SHARDS).map(|shard| journal.head_of(shard)).sum::<u64>(), journal.replayed());
    fill(&journal, 60..90);
    let total: u64 = (0..SHARDS + MORE).map(|shard| journal.head_of(shard)).sum();
    for _ in 0..2 {
        let running = Running::start(directory.path(), &journal);
        running.caught_up().await;
        running.same_as_fold().await;
        running.stop().await;
    }
    // Besides what is new each start reads the last commit of each shard that has one.
    let known = u64::from(SHARDS) + u64::from(SHARDS + MORE);
    assert_eq!(journal.replayed() - before, total - heads + known);
    assert!(!directory.path().join("damaged").exists());
}

#[tokio::test]
async fn commits_of_an_epoch_that_is_gone_are_an_alarm() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    journal.begin_epoch(MORE);
    fill(&journal, 0..60);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    running.stop().await;

    let other = Arc::new(Streams::new(SHARDS));
    fill(&other, 0..30);
    for _ in 0..2 {
        let running = Running::start(directory.path(), &other);
        running.caught_up().await;
        running.same_as_fold().await;
        let lost: Vec<_> = running.projections.alarms().iter().map(|alarm| (alarm.shard, alarm.checkpoint)).collect();
        let expected: Vec<_> = (SHARDS..SHARDS + MORE).map(|shard| (shard, journal.head_of(shard))).collect();
        assert_eq!(lost, expected);
        running.stop().await;
    }
    assert!(directory.path().join("damaged").exists());
}

#[tokio::test]
async fn marks_are_stepped_over_and_leave_nothing() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 0..30);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    journal.begin_epoch(MORE);
    for number in 30..60 {
        // Between the commits of others, and the last of its shard in the end.
        journal.mark(payment(number), payment(number).shard(SHARDS));
        journal.mark(batch(number), batch(number).shard(SHARDS));
        if number % 2 == 0 {
            fill(&journal, number..number + 1);
        }
        journal.push(payment(number % 30), vec![released()]);
    }
    // Claims that were not carried through: nothing lies behind these marks.
    let unclaimed = (0..SHARDS).map(|shard| (1_000..).map(payment).find(|id| id.shard(SHARDS) == shard).unwrap());
    let unclaimed: Vec<_> = unclaimed.collect();
    for (id, shard) in unclaimed.iter().zip(0..) {
        journal.mark(id, shard);
    }
    running.caught_up().await;
    running.same_as_fold().await;
    assert!(unclaimed.iter().all(|id| running.projections.get(id) == Ok(None)));

    // What a rebuild makes is the same.
    let rebuild = running.projections.begin_rebuild().unwrap();
    let verdicts = rebuild.run(journal.clone(), running.shutdown.clone()).await.unwrap();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Equal { .. })), "{verdicts:?}");
    running.stop().await;

    // The next start finds the accounts in order, and the mark at each checkpoint.
    let before = journal.replayed();
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    running.same_as_fold().await;
    let known = (0..SHARDS + MORE).filter(|shard| journal.head_of(*shard) > 0).count();
    assert_eq!((journal.replayed() - before, running.projections.alarms()), (known as u64, Vec::new()));
    running.stop().await;
}

#[tokio::test]
async fn a_sealed_shard_is_followed_to_its_end_and_then_left_alone() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 0..30);
    for restarted in [false, true] {
        let running = Running::start(directory.path(), &journal);
        if !restarted {
            running.caught_up().await;
            journal.begin_epoch(MORE);
            fill(&journal, 30..60);
            journal.push(payment(0), vec![released()]);
            journal.seal_epoch(0);
        }
        running.caught_up().await;
        // An open shard is asked for news again and again; a sealed one is not once it was asked for the last time.
        let reads = |shards: std::ops::Range<u16>| shards.map(|shard| journal.reads_of(shard)).collect::<Vec<_>>();
        let mut sealed = reads(0..SHARDS);
        for round in 0.. {
            assert!(round < 10, "sealed shards are asked again and again: {sealed:?}");
            let open = reads(SHARDS..SHARDS + MORE);
            until(|| reads(SHARDS..SHARDS + MORE).iter().zip(&open).all(|(now, before)| *now > before + 10)).await;
            if sealed == reads(0..SHARDS) {
                break;
            }
            sealed = reads(0..SHARDS);
        }
        running.same_as_fold().await;
        // A rebuild takes it along, and it follows with the copy that is in use then.
        let rebuild = running.projections.begin_rebuild().unwrap();
        let verdicts = rebuild.run(journal.clone(), running.shutdown.clone()).await.unwrap();
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Equal { .. })), "{verdicts:?}");
        running.caught_up().await;
        running.same_as_fold().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_sealed_shard_that_cannot_be_read_keeps_nobody_from_being_ready() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 0..30);
    journal.begin_epoch(MORE);
    fill(&journal, 30..60);
    journal.seal_epoch(0);
    journal.set_missing(1, 1);
    let running = Running::start(directory.path(), &journal);
    until(|| matches!(running.projections.status(1).state, ShardState::Stopped { .. })).await;
    until(|| running.projections.ready().is_ok()).await;
    // What is not found in a shard that is live may lie in this one, and what is found does not.
    let inside = (0..30).map(payment).find(|id| id.shard(SHARDS) == 1).unwrap();
    assert!(running.projections.get(&inside).is_err());
    let begun_later = (30..60).map(payment).find(|id| id.shard(SHARDS) == 1).unwrap();
    assert!(running.projections.get(&begun_later).unwrap().is_some());
    running.stop().await;
}

#[tokio::test]
async fn an_epoch_that_begins_during_a_rebuild_is_in_the_new_copy() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 0..60);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    // The rebuild gets no further than its first question, of the shards that there are.
    journal.set_unavailable(true);
    let before = journal.replays_from_the_start();
    let rebuild = running.projections.begin_rebuild().unwrap();
    let rebuilding = tokio::spawn(rebuild.run(journal.clone(), running.shutdown.clone()));
    until(|| journal.replays_from_the_start() > before).await;
    journal.begin_epoch(MORE);
    fill(&journal, 60..120);
    until(|| running.projections.shards() == SHARDS + MORE).await;
    journal.set_unavailable(false);

    let verdicts = rebuilding.await.unwrap().unwrap();
    assert_eq!(verdicts.len(), usize::from(SHARDS + MORE));
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Equal { .. })), "{verdicts:?}");
    let status = running.projections.rebuild_status().unwrap();
    assert!((0..SHARDS + MORE).eq(status.shards.iter().map(|shard| shard.shard)), "{status:?}");
    running.same_as_fold().await;
    running.caught_up().await;
    running.same_as_fold().await;
    running.stop().await;
}
