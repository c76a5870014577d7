//! Wake hints on heads: processes on one nats-server learn of each other's commits without receiving them.

use std::time::{Duration, Instant};

use async_nats::{Client, Message};
use futures::{StreamExt, future::join_all};
use tokio::time::timeout;

use devkit::NatsServer;
use journal::{
    Position, ShardLog, StreamStore,
    conformance::{commit, fresh_in},
    envelope::{self, EncodedCommit},
};
use journal_jetstream::{header_map, store::NatsJournal};

use crate::support::{connect, options};

const PATIENCE: Duration = Duration::from_secs(60);
/// How often a journal reads the head when it hears nothing.
const RECHECK: Duration = Duration::from_secs(1);
/// Least time between two hints about one shard.
const HINT_EVERY: Duration = Duration::from_millis(10);
const SHARDS: u16 = 2;

async fn journal(client: &Client) -> NatsJournal {
    NatsJournal::connect(client.clone(), options()).await.unwrap()
}

/// Waits for a commit of shard 0 above `sequence`, as a read model does.
async fn beyond(journal: &NatsJournal, sequence: u64) {
    let waits = async {
        while journal.replay(0, sequence + 1, 1).await.unwrap().is_empty() {
            journal.wait_beyond(0, sequence).await.unwrap();
        }
    };
    timeout(PATIENCE, waits).await.expect("the commit is seen");
}

async fn append(journal: &NatsJournal) -> u64 {
    journal.append(&commit(&fresh_in(0, SHARDS), Position::START, "x")).await.unwrap().position.sequence
}

/// What a hint says.
fn sequence(hint: &Message) -> u64 {
    std::str::from_utf8(&hint.payload).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_appends_is_heard_of_at_once() {
    let server = NatsServer::open().await.unwrap();
    let (one, other) = (journal(&connect(&server.url()).await).await, journal(&connect(&server.url()).await).await);
    let witness = connect(&server.url()).await;
    let mut hints = witness.subscribe("gw.head.00").await.unwrap();
    witness.flush().await.unwrap();
    // Whoever waits for the first time begins to listen.
    let mut head = append(&other).await;
    beyond(&one, 0).await;
    let (mut given_soon, mut woken_soon) = (0, 0);
    for _ in 0..20 {
        assert!(one.replay(0, head + 1, 1).await.unwrap().is_empty());
        let begun = Instant::now();
        let woken = async {
            beyond(&one, head).await;
            begun.elapsed()
        };
        let given = async {
            while sequence(&timeout(PATIENCE, hints.next()).await.expect("a hint of each commit").unwrap()) <= head {}
            begun.elapsed()
        };
        let (appended, woken, given) = tokio::join!(append(&other), woken, given);
        head = appended;
        // What a busy machine was late with says nothing of who waits. Without the hint the recheck alone finds the commit, a
        // whole period after the last.
        if given < RECHECK / 4 {
            given_soon += 1;
            woken_soon += usize::from(woken < RECHECK / 2);
        }
    }
    assert!(woken_soon >= given_soon * 3 / 4, "{woken_soon} of {given_soon} before the recheck");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_name_the_head_and_are_few_under_load() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = journal(&client).await;
    let mut hints = client.subscribe("gw.head.00").await.unwrap();
    client.flush().await.unwrap();
    let begun = Instant::now();
    join_all((0..300).map(|_| append(&journal))).await;
    let head = journal.head(0).await.unwrap();
    let (mut count, mut hinted) = (0, 0);
    while hinted < head {
        let hint = timeout(PATIENCE, hints.next()).await.expect("the newest commit is hinted at").unwrap();
        let sequence = sequence(&hint);
        assert!(sequence > hinted && hint.headers.is_none());
        (count, hinted) = (count + 1, sequence);
    }
    assert_eq!(hinted, head);
    assert!(count <= begun.elapsed().as_millis() / HINT_EVERY.as_millis() + 1, "{count} in {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_nobody_gave_a_hint_of_is_seen_all_the_same() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = journal(&client).await;
    // As an older version appends.
    let id = fresh_in(0, SHARDS);
    let encoded = EncodedCommit::new(&commit(&id, Position::START, "first"), 0).unwrap();
    let publish = async {
        let context = async_nats::jetstream::new(client.clone());
        let (headers, body) = (header_map(encoded.headers(0)), encoded.body.to_vec().into());
        context.publish_with_headers(envelope::subject(0, &id), headers, body).await.unwrap().await.unwrap();
    };
    let ((), ()) = tokio::join!(beyond(&journal, 0), publish);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_of_what_is_not_there_is_forgotten() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = journal(&client).await;
    let head = append(&journal).await;
    beyond(&journal, 0).await;
    for hint in ["18446744073709551615", "999", "-1", "", "1e3", "\u{fffd}"] {
        client.publish("gw.head.00", hint.to_owned().into()).await.unwrap();
    }
    client.flush().await.unwrap();
    // A wait that ends for nothing, and then one that does not.
    let mut ended = 0;
    let forgotten = async {
        loop {
            let begun = Instant::now();
            journal.wait_beyond(0, head).await.unwrap();
            match begun.elapsed() < RECHECK / 2 {
                true => ended += 1,
                false if ended > 0 => return,
                false => client.publish("gw.head.00", "999".into()).await.unwrap(),
            }
        }
    };
    timeout(PATIENCE, forgotten).await.expect("it is forgotten");
    // Meanwhile it keeps nobody busy.
    assert!(ended < 1000, "{ended}");
    let (appended, ()) = tokio::join!(append(&journal), beyond(&journal, head));
    assert_eq!(appended, head + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_without_the_right_to_hints_sees_commits_as_well() {
    let server = NatsServer::open().await.unwrap();
    let journal = journal(&connect(&server.url()).await).await;
    let reader = NatsJournal::bind(connect(&server.url()).await, options()).await.unwrap();
    let mut head = append(&journal).await;
    beyond(&reader, 0).await;
    for _ in 0..2 {
        let (appended, ()) = tokio::join!(append(&journal), beyond(&reader, head));
        head = appended;
    }
}
