//! A message that cannot be read takes the view of its own payment and of no other.

use std::{path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use events::{PaymentId, StreamId};
use journal::Journal;
use projections::{PaymentView, Projections, RunError, Verdict};
use sagas::ports::OpenStreams;

use crate::support::*;

/// Long enough for a busy machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    projections: Projections,
    journal: Arc<Streams>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    /// Projections of one shard.
    fn start(directory: &Path, journal: &Arc<Streams>) -> Self {
        let projections = Projections::open(directory, 1).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn({
            let (projections, shutdown, journal) = (projections.clone(), shutdown.clone(), Arc::clone(journal));
            async move { projections.run(journal as Arc<dyn Journal>, shutdown).await }
        });
        Self { projections, journal: Arc::clone(journal), shutdown, task }
    }

    async fn caught_up(&self) {
        let head = self.journal.head_of(0);
        assert!(self.projections.wait_for(0, head, PATIENCE).await, "{:?}", self.projections.status(0));
        let ready = async {
            while self.projections.ready().is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("the shard becomes live");
    }

    /// Checks that all payments but `bad` are shown as their commits say, and that `bad` is shown not at all and counts as
    /// open.
    async fn shows_all_but(&self, bad: &PaymentId) {
        self.caught_up().await;
        let mut open = Vec::new();
        for id in self.journal.payments() {
            let folded = PaymentView::fold(&self.journal.commits_of(&id)).filter(|_| id != *bad);
            assert_eq!(self.projections.get(&id).unwrap(), folded);
            if id == *bad || folded.is_some_and(|view| !view.at_rest) {
                open.push(StreamId::from(&id));
            }
        }
        let mut listed = self.projections.open_streams(0, self.journal.head_of(0)).await.unwrap();
        open.sort();
        listed.sort();
        assert_eq!(listed, open);
    }

    async fn rebuild(&self) -> Vec<Verdict> {
        self.projections.begin_rebuild().unwrap().run(self.journal.clone(), self.shutdown.clone()).await.unwrap()
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn payment(number: usize) -> PaymentId {
    PaymentId::derive("payer", &format!("order-{number}"))
}

/// So many payments in all states, interleaved.
fn fill(journal: &Streams, numbers: std::ops::Range<usize>) {
    let payments: Vec<_> = numbers.map(|number| (number, all_commits(&payment(number)))).collect();
    for step in 0..payments[0].1.len() {
        for (number, commits) in &payments {
            if let Some(events) = commits.get(step).filter(|_| step <= number % commits.len()) {
                journal.push(payment(*number), events.clone());
            }
        }
    }
}

/// Sequence of the payment's commit `version`.
fn sequence(journal: &Streams, id: &PaymentId, version: usize) -> u64 {
    journal.commits_of(id)[version - 1].position.sequence
}

#[tokio::test]
async fn the_others_of_the_shard_go_on_through_restarts_and_rebuilds() {
    for version in [1, 2, 4] {
        let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
        fill(&journal, 0..40);
        let bad = payment(5);
        journal.set_unreadable(0, sequence(&journal, &bad, version));
        let running = Running::start(directory.path(), &journal);
        running.shows_all_but(&bad).await;

        // What comes later does not bring it back, also not when it can be read.
        journal.push(&bad, all_commits(&bad).pop().unwrap());
        fill(&journal, 40..50);
        running.shows_all_but(&bad).await;
        assert!(matches!(running.rebuild().await[..], [Verdict::Equal { .. }]));
        running.shows_all_but(&bad).await;
        running.stop().await;

        let running = Running::start(directory.path(), &journal);
        running.shows_all_but(&bad).await;
        fill(&journal, 50..55);
        running.shows_all_but(&bad).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_comes_while_the_shard_is_followed_takes_the_view_of_its_payment() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
    fill(&journal, 0..40);
    let running = Running::start(directory.path(), &journal);
    running.caught_up().await;
    // One that was at rest, too.
    let bad = journal.payments().into_iter().find(|id| running.projections.get(id).unwrap().unwrap().at_rest).unwrap();
    journal.set_unreadable(0, journal.head_of(0) + 1);
    journal.push(&bad, vec![released()]);
    running.shows_all_but(&bad).await;
    fill(&journal, 40..45);
    running.shows_all_but(&bad).await;
    running.stop().await;
}

#[tokio::test]
async fn a_version_that_can_read_it_shows_it_again() {
    for version in [1, 3] {
        let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
        fill(&journal, 0..20);
        let bad = payment(5);
        journal.set_unreadable(0, sequence(&journal, &bad, version));
        let running = Running::start(directory.path(), &journal);
        running.shows_all_but(&bad).await;
        running.stop().await;

        journal.set_readable();
        let running = Running::start(directory.path(), &journal);
        running.caught_up().await;
        for id in journal.payments() {
            let shown = async {
                // While the shard is built again there is no view.
                while running.projections.get(&id).ok().flatten() != PaymentView::fold(&journal.commits_of(&id)) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, shown).await.expect("every payment is shown");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn the_last_message_of_a_shard_may_be_the_one() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
    fill(&journal, 0..20);
    let (bad, events) = (payment(5), all_commits(&payment(5)).pop().unwrap());
    journal.set_unreadable(0, journal.head_of(0) + 1);
    journal.push(&bad, events);
    for _ in 0..3 {
        let running = Running::start(directory.path(), &journal);
        running.shows_all_but(&bad).await;
        // Nothing was read from the stream that it does not hold any more.
        assert_eq!(running.projections.alarms(), []);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_stream_with_a_hole_has_no_view() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
    fill(&journal, 0..20);
    let bad = payment(1000);
    journal.push(&bad, vec![awarded()]);
    fill(&journal, 20..30);
    let running = Running::start(directory.path(), &journal);
    running.shows_all_but(&bad).await;
    journal.push(&bad, vec![awarded()]);
    fill(&journal, 30..35);
    running.shows_all_but(&bad).await;
    assert!(matches!(running.rebuild().await[..], [Verdict::Equal { .. }]));
    running.stop().await;
    let running = Running::start(directory.path(), &journal);
    running.shows_all_but(&bad).await;
    running.stop().await;
}

/// Pages are read ahead: a message at fault in the midst of a later page, at the edge of two, and first in its page.
#[tokio::test]
async fn the_others_go_on_wherever_in_its_page_the_message_lies() {
    const PAGE: u64 = 512;
    let journal = Arc::new(Streams::new(1));
    fill(&journal, 0..600);
    assert!(journal.head_of(0) > 4 * PAGE, "{}", journal.head_of(0));
    for sequence in [PAGE, PAGE + 1, 2 * PAGE - 1, 3 * PAGE + 100, journal.head_of(0)] {
        let directory = TempDir::new().unwrap();
        let whose = |id: &PaymentId| journal.commits_of(id).iter().any(|commit| commit.position.sequence == sequence);
        let bad = journal.payments().into_iter().find(whose).unwrap();
        journal.set_unreadable(0, sequence);
        let running = Running::start(directory.path(), &journal);
        running.shows_all_but(&bad).await;
        assert!(matches!(running.rebuild().await[..], [Verdict::Equal { .. }]));
        running.shows_all_but(&bad).await;
        running.stop().await;
    }
}
