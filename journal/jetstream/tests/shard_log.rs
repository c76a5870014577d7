//! The journal as shard logs, on real servers: the conformance suite, crowds, rivals, and what goes wrong.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_nats::HeaderMap;

use devkit::{NatsCluster, NatsServer};
use events::StreamId;
use journal::{
    AppendError, Commit, Journal, Position, ReadError, ShardLog, StreamStore,
    conformance::{self, commit, fresh, fresh_in},
    envelope::Chain,
};
use journal_jetstream::{
    log::{LogJournal, Options},
    store::ConnectError,
};

use crate::support::{
    cluster::until,
    connect,
    crowd::{self, CROWD, append_all},
    load::Load,
    proxy::{Loss, Proxy},
};

fn options() -> Options {
    Options { shards: 2, ..Options::default() }
}

/// One shard, so that all meet.
fn one_shard() -> Options {
    Options { shards: 1, ..options() }
}

async fn open(url: &str, options: Options) -> LogJournal {
    LogJournal::connect(connect(url).await, options).await.unwrap()
}

/// Messages of the first shard.
async fn messages(url: &str) -> u64 {
    let stream = async_nats::jetstream::new(connect(url).await).get_stream("LOG_00").await.unwrap();
    stream.cached_info().state.messages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    conformance::run(|| async { Arc::new(open(&url, options()).await) as Arc<dyn Journal> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_with_each_process_at_another_server() {
    let cluster = NatsCluster::open().await.unwrap();
    let processes = AtomicUsize::new(0);
    conformance::run(|| async {
        let client = connect(&cluster.url_of(processes.fetch_add(1, Ordering::SeqCst))).await;
        let three = Options { replicas: 3, ..options() };
        let journal = until("a journal", || async { LogJournal::connect(client.clone(), three.clone()).await.ok() });
        Arc::new(journal.await) as Arc<dyn Journal>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_shares_messages_and_everyone_knows_its_place() {
    let server = NatsServer::open().await.unwrap();
    let journal = open(&server.url(), one_shard()).await;
    let ids: Vec<StreamId> = (0..CROWD).map(|_| fresh()).collect();
    let mut at = vec![Position::START; CROWD];
    for round in ["first", "second", "third"] {
        let commits: Vec<_> = ids.iter().zip(&at).map(|(id, at)| commit(id, *at, round)).collect();
        at = append_all(&journal, &commits).await.into_iter().map(|appended| appended.unwrap().position).collect();
    }
    let messages = messages(&server.url()).await;
    assert!((3..CROWD as u64 / 10).contains(&messages), "{messages} messages");
    // A process that has seen none of it reads the same.
    let other = open(&server.url(), one_shard()).await;
    for (id, at) in ids.iter().zip(&at) {
        let stored = other.load(id).await.unwrap();
        assert_eq!((stored.len(), stored.last().unwrap().position), (3, *at));
        assert_eq!(stored, journal.load(id).await.unwrap(), "times are the same, too");
    }
    let (all, mut from) = (other.replay(0, 1, usize::MAX).await.unwrap(), 1);
    assert!(all.iter().map(|commit| commit.position.sequence).eq(1..=3 * CROWD as u64));
    for limit in [1, 7, 300] {
        let page = open(&server.url(), one_shard()).await.replay(0, from, limit).await.unwrap();
        assert_eq!(page, all[from as usize - 1..][..limit]);
        from += limit as u64 + 200;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_may_not_be_stored_costs_the_others_nothing() {
    let server = NatsServer::open().await.unwrap();
    let (journal, other) = (open(&server.url(), one_shard()).await, open(&server.url(), one_shard()).await);
    crowd::conflicts_cost_the_others_nothing(&journal, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_rivals_one_wins_whoever_writes() {
    let server = NatsServer::open().await.unwrap();
    let journals = [open(&server.url(), one_shard()).await, open(&server.url(), one_shard()).await];
    let ids: Vec<StreamId> = (0..CROWD / 2).map(|_| fresh()).collect();
    // Two of each in one process, and two more in the other.
    let rivals = || ids.iter().flat_map(|id| ["one", "other"].map(|text| commit(id, Position::START, text)));
    let commits: [Vec<Commit>; 2] = [rivals().collect(), rivals().collect()];
    let [one, other] = [0, 1].map(|at: usize| append_all(&journals[at], &commits[at]));
    let (one, other) = tokio::join!(one, other);
    for (number, id) in ids.iter().enumerate() {
        let [stored] = &journals[0].load(id).await.unwrap()[..] else { panic!("{id} has begun once") };
        let mut winners = 0;
        for (outcomes, commits) in [(&one, &commits[0]), (&other, &commits[1])] {
            for at in [2 * number, 2 * number + 1] {
                match &outcomes[at] {
                    Ok(recorded) => {
                        winners += 1;
                        assert_eq!((recorded.position, &commits[at].commit_id), (stored.position, &stored.commit_id));
                    }
                    Err(error) => assert!(matches!(error, AppendError::Conflict), "{error:?}"),
                }
            }
        }
        assert_eq!(winners, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_that_write_all_the_time_get_on() {
    let server = NatsServer::open().await.unwrap();
    let journals = [open(&server.url(), one_shard()).await, open(&server.url(), one_shard()).await];
    let loads = [Load::start(&journals[0], 16), Load::start(&journals[1], 16)];
    for load in &loads {
        load.goes_on(500).await;
    }
    let appended: usize = loads.iter().map(Load::count).sum();
    for (load, journal) in loads.into_iter().zip(&journals) {
        load.stop(journal).await;
    }
    let all = journals[0].replay(0, 1, usize::MAX).await.unwrap();
    assert!(all.len() >= appended);
    let mut chains = std::collections::HashMap::new();
    for commit in &all {
        chains.entry(commit.stream_id.clone()).or_insert_with(Chain::default).follow(commit).unwrap();
    }
    assert_eq!(chains.len(), 32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_acknowledgements_are_resolved() {
    let server = NatsServer::open().await.unwrap();
    for loss in [Loss::Swallow, Loss::Break] {
        let proxy = Proxy::start(&server.url(), loss).await;
        let journal = open(&proxy.url, one_shard()).await;
        let before = journal.head(0).await.unwrap();
        for round in 0..4u64 {
            proxy.arm();
            let commits: Vec<_> = (0..CROWD).map(|_| commit(&fresh(), Position::START, "one of many")).collect();
            for (commit, appended) in commits.iter().zip(append_all(&journal, &commits).await) {
                let recorded = appended.unwrap();
                assert_eq!(journal.load(&commit.stream_id).await.unwrap()[0].position, recorded.position);
            }
            assert!(proxy.fired(), "{loss:?}");
            assert_eq!(journal.head(0).await.unwrap(), before + (round + 1) * CROWD as u64, "nothing twice");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_and_repeats_nothing() {
    let mut server = NatsServer::open().await.unwrap();
    let quick = Options { attempt_timeout: Duration::from_millis(500), ..options() };
    let journal = open(&server.url(), quick).await;
    let load = Load::start(&journal, 60);
    for _ in 0..4 {
        load.goes_on(400).await;
        server.kill().await.unwrap();
        server.restart().await.unwrap();
    }
    load.check(&journal).await;
}

#[tokio::test]
async fn without_a_server_nothing_is_stored_and_nothing_is_unknown() {
    let mut server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let short = Options { read_timeout: Duration::from_millis(300), ..options() };
    let journal = LogJournal::connect(client.clone(), short).await.unwrap();
    server.kill().await.unwrap();
    let lost = || async { (client.connection_state() != async_nats::connection::State::Connected).then_some(()) };
    until("a lost connection", lost).await;
    let id = fresh();
    let refused = journal.append(&commit(&id, Position::START, "first")).await;
    assert!(matches!(refused, Err(AppendError::Unavailable(_))), "{refused:?}");
    assert!(matches!(journal.load(&id).await, Err(ReadError::Unavailable(_))));
    server.restart().await.unwrap();
    let stored = until("an answer", || async { journal.load(&id).await.ok() }).await;
    assert!(stored.is_empty(), "what was given up must not be sent later");
    journal.append(&commit(&id, Position::START, "again")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_gives_up_waiting_holds_nobody_up() {
    let server = NatsServer::open().await.unwrap();
    let journal = open(&server.url(), one_shard()).await;
    crowd::whoever_gives_up_holds_nobody_up(&journal).await;
}

/// Whatever lies in a log that is no segment, or does not follow: it is told, and the rest is read.
#[tokio::test]
async fn what_does_not_belong_into_a_log_is_told() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = LogJournal::connect(client.clone(), options()).await.unwrap();
    let (damaged, whole) = (fresh_in(0, 2), fresh_in(1, 2));
    journal.append(&commit(&damaged, Position::START, "first")).await.unwrap();
    let at = journal.append(&commit(&whole, Position::START, "first")).await.unwrap().position;
    let context = async_nats::jetstream::new(client);
    let stored = context.get_stream("LOG_00").await.unwrap().get_raw_message(1).await.unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in [("Gw-First", "2"), ("Gw-Commits", "1"), ("Gw-Time", "1763760000000000")] {
        headers.insert(name, value);
    }
    // The same commit once more, as somebody with the gateway's key could store it.
    context.publish_with_headers("gw.log.00", headers, stored.payload).await.unwrap().await.unwrap();
    let found = journal.load(&damaged).await;
    assert!(matches!(&found, Err(ReadError::Unreadable { shard: 0, sequence: 2, .. })), "{found:?}");
    let position = Position { version: 1, shard: 0, sequence: 2, hash: events::Hash32([1; 32]) };
    // What is damaged may be this very commit.
    let refused = journal.append(&commit(&damaged, position, "second")).await;
    assert!(matches!(refused, Err(AppendError::Unknown(_))), "{refused:?}");
    // Others in the shard go on, and other shards.
    let other = fresh_in(0, 2);
    journal.append(&commit(&other, Position::START, "other")).await.unwrap();
    assert_eq!(journal.load(&other).await.unwrap().len(), 1);
    journal.append(&commit(&whole, at, "second")).await.unwrap();

    // What is not a segment is passed over, whoever reads.
    context.publish("gw.log.01", "not a segment".into()).await.unwrap().await.unwrap();
    let at = journal.load(&whole).await.unwrap().pop().unwrap().position;
    journal.append(&commit(&whole, at, "third")).await.unwrap();
    let other = open(&server.url(), options()).await;
    for journal in [&journal, &other] {
        assert_eq!(journal.load(&whole).await.unwrap().len(), 3);
        assert_eq!(journal.replay(1, 1, 10).await.unwrap().len(), 3);
    }
    // Where a commit belongs to no stream, it may belong to any: nothing is stored any more.
    let mut headers = HeaderMap::new();
    for (name, value) in [("Gw-First", "4"), ("Gw-Commits", "1"), ("Gw-Time", "1763760000000000")] {
        headers.insert(name, value);
    }
    context.publish_with_headers("gw.log.01", headers, "0 3\nabc\n".into()).await.unwrap().await.unwrap();
    let other = open(&server.url(), options()).await;
    for journal in [&journal, &other] {
        let found = journal.load(&whole).await;
        assert!(matches!(&found, Err(ReadError::Unreadable { shard: 1, .. })), "{found:?}");
        let refused = journal.append(&commit(&fresh_in(1, 2), Position::START, "new")).await;
        assert!(matches!(refused, Err(AppendError::Unknown(_))), "{refused:?}");
    }
}

/// A commit is found in a long log wherever one begins, with what is not a segment in between.
#[tokio::test]
async fn a_long_log_is_read_from_anywhere() {
    const COMMITS: u64 = 300;
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = LogJournal::connect(client.clone(), one_shard()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let mut stored = Vec::new();
    for number in 0..COMMITS {
        stored.push(journal.append(&commit(&fresh(), Position::START, "one by one")).await.unwrap().commit_id);
        if number % 3 == 0 {
            context.publish("gw.log.00", "not a segment".into()).await.unwrap().await.unwrap();
        }
    }
    assert_eq!(messages(&server.url()).await, COMMITS + COMMITS / 3);
    for from in [1, 2, 63, 150, 151, 152, 299, COMMITS] {
        let journal = open(&server.url(), one_shard()).await;
        let page = journal.replay(0, from, 10).await.unwrap();
        let ids = page.iter().map(|commit| &commit.commit_id);
        assert!(ids.eq(stored[from as usize - 1..].iter().take(10)), "from {from}");
    }
}

#[tokio::test]
async fn streams_with_other_settings_are_refused() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    for _ in 0..2 {
        LogJournal::connect(client.clone(), options()).await.unwrap();
    }
    let refused = LogJournal::connect(client.clone(), one_shard()).await.err().unwrap();
    assert!(matches!(&refused, ConnectError::Mismatch { setting, .. } if setting == "gw.shards"), "{refused}");
    let none = LogJournal::connect(client, Options { in_flight: 0, ..options() }).await.err().unwrap();
    assert!(matches!(none, ConnectError::Options(_)), "{none}");
}
