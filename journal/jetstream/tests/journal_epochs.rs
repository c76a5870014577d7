//! Epochs on a real nats-server: processes that do not know of the newest, and lost acknowledgements on the way into it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, jetstream};
use futures::{StreamExt, future::join_all};
use tokio::time::{sleep, timeout};

use devkit::NatsServer;
use events::{
    StreamId,
    event::{Mark, Moved},
};
use journal::{
    AppendError, Commit, Journal, Position, ReadError, Recorded, ShardLog, StreamStore,
    conformance::{self, commit, fresh},
    envelope::{self, EncodedCommit},
};
use journal_jetstream::{
    header_map,
    store::{NatsJournal, Options},
};

use crate::support::{
    connect,
    epochs::{FromNats, aware, epochs, unaware},
    options,
    proxy::{Loss, Proxy},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// What lies in all shards of a stream, without the marks.
async fn begun(journal: &NatsJournal) -> HashMap<StreamId, Vec<Recorded>> {
    let mut begun: HashMap<StreamId, Vec<Recorded>> = HashMap::new();
    for shard in 0..journal.shards() {
        for commit in journal.replay(shard, 0, usize::MAX).await.unwrap() {
            if !commit.is_moved() {
                begun.entry(commit.stream_id.clone()).or_default().push(commit);
            }
        }
    }
    begun
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    let operator = FromNats(unaware(&url).await);
    conformance::epochs::run(|| async { Arc::new(aware(&url).await) as Arc<dyn Journal> }, &operator).await;
}

#[tokio::test]
async fn with_one_epoch_an_append_is_one_message() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = NatsJournal::connect(client.clone(), Options { look_every: None, ..options() }).await.unwrap();
    let id = fresh();
    let listener = connect(&server.url()).await;
    let mut said = listener.subscribe(">").await.unwrap();
    listener.publish("begin", "".into()).await.unwrap();
    timeout(PATIENCE, said.next()).await.expect("the server knows of the listener").unwrap();
    let mut at = Position::START;
    for n in 0..3 {
        at = journal.append(&commit(&id, at, &n.to_string())).await.unwrap().position;
    }
    client.publish("end", "".into()).await.unwrap();
    let mut subjects = Vec::new();
    while subjects.last().is_none_or(|last| last != "end") {
        let message = timeout(PATIENCE, said.next()).await.unwrap().unwrap();
        subjects.push(message.subject.to_string());
    }
    // What it asks of the server, without its hints to others and the server's answers.
    subjects.retain(|subject| !subject.starts_with("gw.head.") && !subject.starts_with("_INBOX."));
    let own = envelope::subject(at.shard, &id);
    assert_eq!(subjects, [own.as_str(), &own, &own, "end"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_knows_only_older_epochs_begins_no_second_stream() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    let operator = unaware(&url).await;
    let (mut by_stale, mut by_fresh) = (0, 0);
    for round in 1..=6 {
        let stale = unaware(&url).await;
        let older = unaware(&url).await;
        operator.begin_epoch(2 + round % 3).await.unwrap();
        let newest = unaware(&url).await;
        assert_eq!((epochs(&stale), epochs(&newest)), (usize::from(round), usize::from(round) + 1));
        let journals = [&stale, &newest, &older];
        let openings: Vec<[Commit; 3]> = (0..40)
            .map(|_| {
                let id = fresh();
                [0, 1, 2].map(|n| commit(&id, Position::START, &n.to_string()))
            })
            .collect();
        // All at once, and who knows ahead by a little more each time, so that they meet at every step.
        let all = openings.iter().zip(0..).map(|(openings, ahead)| async move {
            let opened = openings.iter().zip(journals).enumerate().map(|(n, (opening, journal))| async move {
                sleep(Duration::from_micros(if n == 1 { 0 } else { 250 * ahead })).await;
                journal.append(opening).await
            });
            join_all(opened).await
        });
        for (openings, outcomes) in openings.iter().zip(join_all(all).await) {
            let mut won = None;
            for (n, outcome) in outcomes.into_iter().enumerate() {
                match outcome {
                    Ok(recorded) => {
                        assert!(won.replace((n, recorded)).is_none(), "two first commits of one id have won")
                    }
                    Err(error) => assert!(matches!(error, AppendError::Conflict), "{error}"),
                }
            }
            let (winner, recorded) = won.expect("one first commit wins");
            by_fresh += usize::from(winner == 1);
            by_stale += usize::from(winner != 1);
            for journal in journals {
                let stored = journal.load(&openings[0].stream_id).await.unwrap();
                assert_eq!(stored.iter().map(|commit| commit.position).collect::<Vec<_>>(), [recorded.position]);
            }
        }
        let id = fresh();
        newest.append(&commit(&id, Position::START, "first")).await.unwrap();
        for journal in [&stale, &older] {
            let second = journal.append(&commit(&id, Position::START, "second")).await;
            assert!(matches!(second, Err(AppendError::Conflict)), "{second:?}");
        }
        let known = (epochs(&stale), epochs(&older));
        assert_eq!(known, (epochs(&newest), epochs(&newest)), "who met a mark has learnt what it means");
    }
    assert!(begun(&operator).await.values().all(|commits| commits.len() == 1));
    assert!(by_stale > 0 && by_fresh > 0, "{by_stale} and {by_fresh}: they have not met");
}

/// What is left of a process that was killed between a mark and its first commit.
async fn leave_mark(client: &Client, id: &StreamId, shard: u16, to_epoch: u16) {
    let moved = Mark::Moved(Moved { to_epoch }).into();
    let mark =
        EncodedCommit::new(&Commit { events: vec![moved], ..commit(id, Position::START, "mark") }, shard).unwrap();
    let context = jetstream::new(client.clone());
    let subject = mark.envelope.subject.clone();
    context.publish_with_headers(subject, header_map(mark.headers(0)), mark.body).await.unwrap().await.unwrap();
}

#[tokio::test]
async fn a_mark_without_a_stream_keeps_nobody_from_beginning_it() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let (stale, newest) = (unaware(&server.url()).await, unaware(&server.url()).await);
    // Of an epoch that nobody finds nothing is known, so neither is said.
    let id = fresh();
    leave_mark(&client, &id, id.shard(2), 1).await;
    for journal in [&stale, &newest] {
        assert!(matches!(journal.load(&id).await, Err(ReadError::Unavailable(_))));
        let refused = journal.append(&commit(&id, Position::START, "first")).await;
        assert!(matches!(refused, Err(AppendError::Unavailable(_))), "{refused:?}");
    }
    let epoch = newest.begin_epoch(3).await.unwrap();
    for journal in [&stale, &newest] {
        let id = fresh();
        leave_mark(&client, &id, id.shard(2), 1).await;
        assert_eq!(newest.load(&id).await.unwrap(), Vec::new());
        let first = journal.append(&commit(&id, Position::START, "first")).await.unwrap();
        assert_eq!(first.position.shard, epoch.shard_of(&id));
        assert_eq!(stale.load(&id).await.unwrap().len(), 1);
    }
    assert_eq!(epochs(&stale), 2);
    let first = stale.append(&commit(&id, Position::START, "first")).await.unwrap();
    assert_eq!(first.position.shard, epoch.shard_of(&id));
}

#[tokio::test]
async fn what_follows_a_mark_is_unreadable() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = unaware(&server.url()).await;
    journal.begin_epoch(2).await.unwrap();
    let id = fresh();
    let shard = id.shard(2);
    leave_mark(&client, &id, shard, 1).await;
    let mark = journal.replay(shard, 1, 1).await.unwrap().pop().unwrap();
    assert!(mark.is_moved());
    let forged = commit(&id, mark.position, "behind the mark");
    journal.append(&forged).await.unwrap();
    let unreadable = journal.load(&id).await.unwrap_err();
    assert!(matches!(unreadable, ReadError::Unreadable { .. }), "{unreadable}");
}

#[tokio::test]
async fn a_process_that_slept_through_a_sealing_begins_nothing_in_the_sealed_epoch() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    let (slept, slept_twice, operator) = (unaware(&url).await, unaware(&url).await, unaware(&url).await);
    operator.begin_epoch(3).await.unwrap();
    operator.seal(0).await.unwrap();
    let first = slept.append(&commit(&fresh(), Position::START, "first")).await.unwrap();
    assert!(first.position.shard >= 2);
    operator.begin_epoch(1).await.unwrap();
    operator.seal(1).await.unwrap();
    for journal in [&slept, &slept_twice] {
        let id = fresh();
        let first = journal.append(&commit(&id, Position::START, "first")).await.unwrap();
        assert_eq!(first.position.shard, 5);
        assert_eq!(operator.load(&id).await.unwrap().len(), 1);
    }
    assert_eq!(slept_twice.load(&first.stream_id).await.unwrap()[0].position, first.position);
}

#[tokio::test]
async fn lost_acknowledgements_of_mark_and_first_commit_are_resolved() {
    for loss in [Loss::Swallow, Loss::Break] {
        let server = NatsServer::open().await.unwrap();
        let proxy = Proxy::start(&server.url(), loss).await;
        let quick = Options { attempt_timeout: Duration::from_millis(300), look_every: None, ..options() };
        let journal = NatsJournal::connect(connect(&proxy.url).await, quick).await.unwrap();
        let epoch = journal.begin_epoch(2).await.unwrap();
        // The first answer is that of the mark, the second that of the first commit.
        for these in [0b01, 0b10, 0b11] {
            let id = fresh();
            proxy.arm_for(these);
            let first = journal.append(&commit(&id, Position::START, "first")).await.unwrap();
            assert!(proxy.fired(), "{loss:?} {these:b}");
            assert_eq!(first.position.shard, epoch.shard_of(&id));
            let stored = journal.load(&id).await.unwrap();
            assert_eq!(stored.len(), 1, "{loss:?} {these:b}");
            assert_eq!(stored[0].position, first.position);
            let all = journal.replay(id.shard(2), 0, usize::MAX).await.unwrap();
            let marks: Vec<_> = all.iter().filter(|commit| commit.stream_id == id).collect();
            assert!(marks.len() == 1 && marks[0].is_moved(), "{loss:?} {these:b}: {marks:?}");
        }
    }
}

#[tokio::test]
async fn a_commit_is_stored_once_though_an_epoch_begins_between_two_tries() {
    let server = NatsServer::open().await.unwrap();
    let proxy = Proxy::start(&server.url(), Loss::Swallow).await;
    let journal = unaware(&proxy.url).await;
    let other = unaware(&server.url()).await;
    let id = fresh();
    let first = commit(&id, Position::START, "first");
    proxy.arm();
    {
        // Whoever tried is gone before the acknowledgement that never comes could be missed.
        let append = journal.append(&first);
        tokio::pin!(append);
        let stored = async {
            while !proxy.fired() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            outcome = &mut append => panic!("{outcome:?}"),
            stored = timeout(PATIENCE, stored) => stored.unwrap(),
        }
    }
    other.begin_epoch(3).await.unwrap();
    let stored = other.load(&id).await.unwrap();
    for journal in [&other, &journal] {
        let again = journal.append(&first).await.unwrap();
        assert_eq!((again.position, again.position.shard), (stored[0].position, id.shard(2)));
        let another = journal.append(&commit(&id, Position::START, "another")).await;
        assert!(matches!(another, Err(AppendError::Conflict)), "{another:?}");
    }
    // In the sealed epoch it is found as well.
    other.seal(0).await.unwrap();
    for journal in [&other, &journal, &aware(&server.url()).await] {
        assert_eq!(journal.append(&first).await.unwrap().position, stored[0].position);
    }
    assert_eq!(begun(&other).await[&id].len(), 1);
}

#[tokio::test]
async fn a_first_try_that_arrives_behind_the_mark_is_refused() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = unaware(&server.url()).await;
    journal.begin_epoch(3).await.unwrap();
    let id = fresh();
    let first = commit(&id, Position::START, "first");
    let recorded = journal.append(&first).await.unwrap();
    assert!(recorded.position.shard >= 2);
    // What a network held back for so long.
    let late = EncodedCommit::new(&first, id.shard(2)).unwrap();
    let context = jetstream::new(client);
    let subject = late.envelope.subject.clone();
    let answer = context.publish_with_headers(subject, header_map(late.headers(0)), late.body).await.unwrap().await;
    assert!(answer.is_err(), "{answer:?}");
    let stored = journal.load(&id).await.unwrap();
    assert_eq!(stored.iter().map(|commit| commit.position).collect::<Vec<_>>(), [recorded.position]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn epochs_begin_under_first_commits_while_the_server_is_killed() {
    let mut server = NatsServer::open().await.unwrap();
    let url = server.url();
    let quick = |look_every| Options { attempt_timeout: Duration::from_millis(500), look_every, ..options() };
    let mut journals = Vec::new();
    for look_every in [None, None, Some(Duration::from_millis(100))] {
        journals.push(NatsJournal::connect(connect(&url).await, quick(look_every)).await.unwrap());
    }
    let operator = NatsJournal::connect(connect(&url).await, quick(None)).await.unwrap();
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // First shard of the newest epoch; only first commits in it are counted.
    let newest = Arc::new(AtomicU16::new(0));
    let counted = (stop.clone(), count.clone(), newest.clone());
    // All three append the first commit of each id at once, and whoever wins goes on with it.
    let opening = |journals: Vec<NatsJournal>, counted: (Arc<AtomicBool>, Arc<AtomicUsize>, Arc<AtomicU16>)| async move {
        let (stop, count, newest) = counted;
        let mut acknowledged: Vec<(Commit, Recorded)> = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            let id = fresh();
            let openings = [0, 1, 2].map(|n| commit(&id, Position::START, &n.to_string()));
            let opened = openings.iter().zip(&journals).map(|(opening, journal)| outcome_of(journal, opening));
            let mut won = join_all(opened).await.into_iter().enumerate().filter_map(|(n, won)| Some((n, won?)));
            let (n, recorded) = won.next().expect("one first commit wins");
            assert!(won.next().is_none(), "two first commits of one id have won");
            let next = commit(&id, recorded.position, "next");
            let is_newest = recorded.position.shard >= newest.load(Ordering::SeqCst);
            acknowledged.push((openings[n].clone(), recorded));
            let recorded = outcome_of(&journals[(n + 1) % 3], &next).await.expect("nobody else goes on with it");
            acknowledged.push((next, recorded));
            count.fetch_add(usize::from(is_newest), Ordering::SeqCst);
        }
        acknowledged
    };
    let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(opening(journals.clone(), counted.clone()))).collect();
    let goes_on = || async {
        let so_far = count.load(Ordering::SeqCst);
        let gone_on = async {
            while count.load(Ordering::SeqCst) < so_far + 20 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, gone_on).await.expect("first commits go on");
    };
    for round in 0..4 {
        goes_on().await;
        let began = async {
            while operator.begin_epoch(1 + round).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if round == 1 {
            // In the middle of the creation, or of the first commits that follow.
            let kill = async {
                sleep(Duration::from_millis(20)).await;
                server.kill().await.unwrap();
                server.restart().await.unwrap();
            };
            tokio::join!(began, kill);
        } else {
            began.await;
        }
        newest.store(operator.epochs().current().first, Ordering::SeqCst);
    }
    goes_on().await;
    stop.store(true, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    for task in tasks {
        acknowledged.extend(timeout(PATIENCE, task).await.unwrap().unwrap());
    }
    // An answer that was lost may have left another epoch behind.
    assert!(operator.epochs().all().len() >= 5);
    let all = begun(&unaware(&url).await).await;
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), acknowledged.len());
    for (commit, recorded) in &acknowledged {
        let stored = all[&commit.stream_id].iter().find(|stored| stored.commit_id == commit.commit_id).unwrap();
        assert_eq!(stored.position, recorded.position);
    }
    let shards = acknowledged.iter().filter(|(commit, _)| commit.expected == Position::START);
    let begun_in: BTreeSet<_> = shards
        .map(|(_, recorded)| operator.epochs().of_shard(recorded.position.shard).map(|epoch| epoch.number))
        .collect();
    assert!(begun_in.len() >= 5, "{begun_in:?}");
}

/// Appends until it is known what became of it; `None` when another came first.
async fn outcome_of(journal: &NatsJournal, commit: &Commit) -> Option<Recorded> {
    let outcome = async {
        loop {
            match journal.append(commit).await {
                Ok(recorded) => return Some(recorded),
                Err(AppendError::Conflict) => return None,
                Err(AppendError::Unavailable(_) | AppendError::Unknown(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, outcome).await.expect("an outcome")
}
