//! Following the streams: catching up, restarts, damage, waiting.

mod waiting;

use std::{fs, path::Path, sync::Arc, time::Duration};

use proptest::prelude::*;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use events::{PaymentEvent, PaymentId, QuoteRequestId, StreamId, event::RefundDue};
use journal::{Journal, ShardLog};
use projections::{
    OpenError, PaymentStatus, PaymentView, Projections, QuoteRequestView, RunError, ShardState, Unavailable,
};
use sagas::ports::OpenStreams;

use crate::support::*;

/// Long enough for a busy machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
const SHARDS: u16 = 4;

struct Running {
    projections: Projections,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    fn start(directory: &Path, journal: &Arc<Streams>) -> Self {
        let projections = Projections::open_searched(directory, journal.shards()).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn({
            let (projections, shutdown) = (projections.clone(), shutdown.clone());
            let journal: Arc<dyn Journal> = Arc::clone(journal) as _;
            async move { projections.run(journal, shutdown).await }
        });
        Self { projections, shutdown, task }
    }

    async fn caught_up(&self, journal: &Streams) {
        for shard in 0..journal.shards() {
            let head = journal.head_of(shard);
            assert!(self.projections.wait_for(shard, head, PATIENCE).await, "{:?}", self.projections.status(shard));
        }
        until(|| self.projections.ready().is_ok()).await;
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

/// `count` payments, of which every third is at its end and the others somewhere on the way, and a batch for every
/// fourth of them.
fn fill(journal: &Streams, count: usize) {
    for number in 0..count {
        let id = payment(number);
        let all = all_commits(&id);
        let commits = if number % 3 == 0 { all.len() } else { 1 + number % (all.len() - 1) };
        for events in all.into_iter().take(commits) {
            journal.push(&id, events);
        }
        if number % 4 == 0 {
            let events = [opened(&batch(number)), collected(&[30], &[]), batch_awarded("quo_0")];
            for event in events.into_iter().take(1 + number / 4 % 3) {
                journal.push(batch(number), vec![event]);
            }
        }
    }
}

async fn assert_same_as_fold(projections: &Projections, journal: &Streams) {
    let mut open = vec![Vec::new(); usize::from(journal.shards())];
    for id in journal.streams() {
        let commits = journal.commits_of(id.clone());
        let is_open = match &id {
            StreamId::Payment(payment_id) => {
                let folded = PaymentView::fold(&commits);
                assert_eq!(projections.get(payment_id).unwrap(), folded);
                folded.is_some_and(|view| !view.at_rest)
            }
            StreamId::QuoteRequest(id) => {
                let folded = QuoteRequestView::fold(&commits);
                assert_eq!(projections.get_quote_request(id).unwrap(), folded);
                folded.is_some_and(|view| !view.at_rest)
            }
        };
        if is_open {
            open[usize::from(journal.shard_of(id.clone()).unwrap())].push(id);
        }
    }
    for (shard, mut expected) in (0..).zip(open) {
        let mut listed = projections.open_streams(shard, journal.head_of(shard)).await.unwrap();
        expected.sort();
        listed.sort();
        assert_eq!(listed, expected);
    }
}

#[tokio::test]
async fn views_are_those_of_the_fold() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 200);
    let running = Running::start(&directory.path().join("deep/er"), &journal);
    running.caught_up(&journal).await;
    assert_same_as_fold(&running.projections, &journal).await;
    assert_eq!(running.projections.get(&payment(100_000)).unwrap(), None);
    running.stop().await;
}

#[tokio::test]
async fn a_restart_goes_on_from_the_checkpoint() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 100);
    let running = Running::start(directory.path(), &journal);
    running.caught_up(&journal).await;
    running.stop().await;
    let before = journal.replayed();

    let (late, _) = journal.push(payment(500), vec![submitted(&payment(500))]);
    journal.push(payment(1), vec![failed(RefundDue::Nothing, None)]);
    let running = Running::start(directory.path(), &journal);
    running.caught_up(&journal).await;
    assert_same_as_fold(&running.projections, &journal).await;
    // Besides the two new ones each shard reads its last commit again, to know the stream by it.
    assert_eq!(journal.replayed() - before, 2 + u64::from(SHARDS), "shard {late}");
    running.stop().await;
}

/// The task is aborted and the handle dropped without a word, over and over, while the streams grow.
#[tokio::test]
async fn being_killed_between_batches_loses_and_repeats_nothing() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    for round in 0..5 {
        for number in 0..300 {
            let id = payment(number);
            journal.push(&id, all_commits(&id)[round].clone());
        }
        let running = Running::start(directory.path(), &journal);
        // Somewhere on the way, or at the end of it.
        let shard = round as u16 % SHARDS;
        assert!(running.projections.wait_for(shard, journal.head_of(shard) / 2, PATIENCE).await);
        running.task.abort();
        let _ = running.task.await;
        drop(running.projections);
        // A batch that was being written then is written to its end, and holds the directory that long.
        until(|| Projections::open_searched(directory.path(), SHARDS).is_ok()).await;
    }
    let running = Running::start(directory.path(), &journal);
    running.caught_up(&journal).await;
    assert_same_as_fold(&running.projections, &journal).await;
    running.stop().await;
}

#[tokio::test]
async fn a_deleted_directory_is_built_again() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 50);
    for _ in 0..2 {
        let running = Running::start(directory.path(), &journal);
        running.caught_up(&journal).await;
        assert_same_as_fold(&running.projections, &journal).await;
        running.stop().await;
        fs::remove_dir_all(directory.path()).unwrap();
    }
}

/// Damages a file of a database that was in use, starts again, and says whether the database was moved aside.
async fn survives(name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> bool {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 300);
    let running = Running::start(directory.path(), &journal);
    running.caught_up(&journal).await;
    running.stop().await;
    let file = directory.path().join("generation-1").join(name);
    let mut bytes = fs::read(&file).unwrap();
    damage(&mut bytes);
    fs::write(&file, bytes).unwrap();

    let running = Running::start(directory.path(), &journal);
    running.caught_up(&journal).await;
    assert_same_as_fold(&running.projections, &journal).await;
    running.stop().await;
    directory.path().join("damaged").exists()
}

#[tokio::test]
async fn garbage_in_the_files_is_built_again() {
    survives("conf", |bytes| *bytes = b"garbage".to_vec()).await;
    survives("db", |bytes| bytes.truncate(bytes.len() / 2)).await;
    assert!(survives("db", |bytes| bytes.fill(0xa5)).await);
    assert!(survives("db", Vec::clear).await);
}

#[tokio::test]
async fn garbage_at_any_place_of_the_log_is_built_again() {
    const PLACES: usize = 24;
    for place in 0..PLACES {
        survives("db", |bytes| {
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            let start = used * place / PLACES;
            bytes[start..start + 256].fill(0x5a);
        })
        .await;
    }
}

/// Opens the database behind the projections' back, as soon as sled's own threads have let go of it.
async fn with_tree(directory: &Path, shard: u16, work: impl FnOnce(&sled::Tree)) {
    let mut opened = None;
    until(|| {
        opened = sled::open(directory.join("generation-1")).ok();
        opened.is_some()
    })
    .await;
    let db = opened.unwrap();
    work(&db.open_tree(format!("payments_{shard:02}")).unwrap());
    db.flush().unwrap();
}

#[tokio::test]
async fn a_value_that_cannot_be_understood_has_its_shard_built_again() {
    type Damage = fn(&sled::Tree, &[u8], Vec<u8>);
    let damages: [Damage; 5] = [
        // Another format version.
        |tree, key, mut value| {
            value[0] = 99;
            tree.insert(key, value).unwrap();
        },
        // Cut short.
        |tree, key, value| drop(tree.insert(key, &value[..value.len() / 2]).unwrap()),
        // A view that went missing.
        |tree, key, _| drop(tree.remove(key).unwrap()),
        // A checkpoint that went missing.
        |tree, _, _| drop(tree.remove(b"c").unwrap()),
        // An index that disagrees with the views.
        |tree, key, _| drop(tree.insert([b"o", &key[1..]].concat(), &[]).unwrap()),
    ];
    for damage in damages {
        let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
        fill(&journal, 60);
        let running = Running::start(directory.path(), &journal);
        running.caught_up(&journal).await;
        running.stop().await;
        let id = payment(0);
        let shard = id.shard(SHARDS);
        with_tree(directory.path(), shard, |tree| {
            let key = [b"p", id.as_str().as_bytes()].concat();
            let value = tree.get(&key).unwrap().unwrap().to_vec();
            damage(tree, &key, value);
        })
        .await;
        let mut has_checkpoint = false;
        with_tree(directory.path(), shard, |tree| has_checkpoint = tree.contains_key(b"c").unwrap()).await;
        let before = journal.replayed();
        let running = Running::start(directory.path(), &journal);
        running.caught_up(&journal).await;
        assert_same_as_fold(&running.projections, &journal).await;
        running.stop().await;
        // The commit of each checkpoint is looked at, also before it is reset.
        let checkpoints = u64::from(SHARDS) - 1 + u64::from(has_checkpoint);
        assert_eq!(
            journal.replayed() - before,
            journal.head_of(shard) + checkpoints,
            "only the damaged shard was built again"
        );
    }
}

#[tokio::test]
async fn a_checkpoint_of_another_or_shorter_stream_is_built_again() {
    let directory = TempDir::new().unwrap();
    let long = Arc::new(Streams::new(SHARDS));
    fill(&long, 60);
    let running = Running::start(directory.path(), &long);
    running.caught_up(&long).await;
    running.stop().await;
    // Shorter; then longer and with other commits at the same places; then nothing at all.
    for count in [20, 90, 0] {
        let other = Arc::new(Streams::new(SHARDS));
        fill(&other, count);
        let running = Running::start(directory.path(), &other);
        running.caught_up(&other).await;
        assert_same_as_fold(&running.projections, &other).await;
        assert_eq!(running.projections.get(&payment(59)).unwrap().is_some(), count > 59);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_journal_of_another_number_of_shards_is_read_anew() {
    let directory = TempDir::new().unwrap();
    for shards in [4, 2, 8] {
        let journal = Arc::new(Streams::new(shards));
        fill(&journal, 40);
        let running = Running::start(directory.path(), &journal);
        running.caught_up(&journal).await;
        assert_same_as_fold(&running.projections, &journal).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_journal_of_fewer_shards_is_refused() {
    let directory = TempDir::new().unwrap();
    let projections = Projections::open(directory.path(), 8).unwrap();
    let refused = projections.run(Arc::new(Streams::new(4)), CancellationToken::new()).await;
    assert_eq!(refused, Err(RunError::Shards { journal: 4, projections: 8 }));
}

#[tokio::test]
async fn a_directory_has_one_owner() {
    let directory = TempDir::new().unwrap();
    let first = Projections::open(directory.path(), 4).unwrap();
    assert!(matches!(Projections::open(directory.path(), 4), Err(OpenError::Locked(_))));
    drop(first);
    Projections::open(directory.path(), 4).unwrap();
}

#[tokio::test]
async fn a_journal_that_is_away_is_waited_for() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    journal.set_unavailable(true);
    fill(&journal, 20);
    let running = Running::start(directory.path(), &journal);
    until(|| journal.reads() > 2 * u64::from(SHARDS)).await;
    let id = payment(0);
    assert_eq!(running.projections.get(&id), Err(Unavailable::CatchingUp { shard: id.shard(SHARDS) }));
    assert!(!running.projections.wait_for(0, 0, Duration::from_millis(1)).await);
    journal.set_unavailable(false);
    running.caught_up(&journal).await;

    // Once live, a shard keeps answering with what it has.
    journal.set_unavailable(true);
    let (shard, sequence) = journal.push(&id, vec![released()]);
    let reads = journal.reads();
    until(|| journal.reads() > reads + 2 * u64::from(SHARDS)).await;
    assert!(running.projections.get(&id).unwrap().is_some());
    assert!(running.projections.ready().is_ok());
    journal.set_unavailable(false);
    assert!(running.projections.wait_for(shard, sequence, PATIENCE).await);
    assert_same_as_fold(&running.projections, &journal).await;
    running.stop().await;
}

#[tokio::test]
async fn a_missing_message_stops_its_shard_and_no_other() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 100);
    let (stopped, last_good) = (1, journal.head_of(1) / 2);
    journal.set_missing(stopped, last_good + 1);
    let running = Running::start(directory.path(), &journal);
    until(|| matches!(running.projections.status(stopped).state, ShardState::Stopped { .. })).await;
    for shard in (0..SHARDS).filter(|shard| *shard != stopped) {
        assert!(running.projections.wait_for(shard, journal.head_of(shard), PATIENCE).await);
        until(|| running.projections.status(shard).state == ShardState::Live).await;
    }
    // Everything before it was applied, and readiness names what is wrong.
    assert_eq!(running.projections.checkpoint(stopped), last_good);
    let Err(Unavailable::Stopped { shard, reason }) = running.projections.ready() else { panic!("ready") };
    assert_eq!(shard, stopped);
    assert!(reason.contains("unknown event Mystery"), "{reason}");
    assert!(!running.projections.wait_for(stopped, last_good + 1, PATIENCE).await);
    assert!(running.projections.open_streams(stopped, last_good + 1).await.is_err());
    let inside = journal.payments().into_iter().find(|id| id.shard(SHARDS) == stopped).unwrap();
    assert!(matches!(running.projections.get(&inside), Err(Unavailable::Stopped { .. })));
    running.stop().await;
}

fn any_event() -> impl Strategy<Value = PaymentEvent> {
    let block = 1..1_000u64;
    prop_oneof![
        Just(auction_closed(&["a", "b", "c"], &[("a", "BUSY"), ("b", "BUSY")])),
        Just(awarded()),
        (1..4u32, any::<u8>()).prop_map(|(attempt, byte)| deposit_prepared(attempt, hash(byte))),
        (1..4u32).prop_map(deposit_abandoned),
        (any::<u8>(), block.clone()).prop_map(|(byte, block)| secured(hash(byte), block)),
        (any::<u8>(), block.clone()).prop_map(|(byte, block)| seen(hash(byte), block)),
        (any::<u8>(), block.clone()).prop_map(|(byte, block)| confirmed(hash(byte), block)),
        Just(released()),
        prop_oneof![Just(RefundDue::Nothing), Just(RefundDue::AfterWindow)].prop_map(|due| failed(due, None)),
        (1..4u32, any::<u8>()).prop_map(|(attempt, byte)| refund_prepared(attempt, hash(byte))),
        (1..4u32).prop_map(refund_abandoned),
        (any::<u8>(), block).prop_map(|(byte, block)| refunded(hash(byte), block)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes in whatever order and is cut into whatever commits and runs, legal or not, the stored view is the
    /// fold of the payment's own commits.
    #[test]
    fn any_history_projects_to_its_fold(
        commits in prop::collection::vec((0..6usize, prop::collection::vec(any_event(), 1..4)), 1..120),
        restart_at in 0..120usize,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(2)));
            for number in 0..6 {
                journal.push(payment(number), vec![submitted(&payment(number))]);
            }
            let mut running = Some(Running::start(directory.path(), &journal));
            for (index, (number, events)) in commits.into_iter().enumerate() {
                if index == restart_at {
                    running.take().unwrap().stop().await;
                    running = Some(Running::start(directory.path(), &journal));
                }
                journal.push(payment(number), events);
            }
            let running = running.unwrap();
            running.caught_up(&journal).await;
            assert_same_as_fold(&running.projections, &journal).await;
            running.stop().await;
        });
    }
}
