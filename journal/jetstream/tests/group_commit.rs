//! Group commit: appends that wait for each other are stored together, with the results of single appends.

use std::{collections::BTreeSet, time::Duration};

use async_nats::Client;

use devkit::NatsServer;
use events::StreamId;
use journal::{
    AppendError, Position, StreamStore,
    conformance::{commit, fresh, fresh_in},
};
use journal_jetstream::store::{NatsJournal, Options};

use crate::support::{
    connect,
    crowd::{self, CROWD, append_all},
    load::Load,
    options,
    proxy::{Loss, Proxy},
};

/// One shard, so that all meet.
fn one_shard() -> Options {
    Options { shards: 1, ..options() }
}

/// Messages of the shard, and batches in which they came.
async fn batches(client: &Client) -> (u64, usize) {
    let stream = async_nats::jetstream::new(client.clone()).get_stream("EVT_00").await.unwrap();
    let last = stream.cached_info().state.last_sequence;
    let mut ids = BTreeSet::new();
    for sequence in 1..=last {
        let message = stream.direct_get(sequence).await.unwrap();
        ids.extend(message.headers.get("Nats-Batch-Id").map(|id| id.as_str().to_owned()));
    }
    (last, ids.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_goes_in_batches_and_everyone_knows_its_place() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = NatsJournal::connect(client.clone(), one_shard()).await.unwrap();
    let ids: Vec<StreamId> = (0..CROWD).map(|_| fresh()).collect();
    let mut at = vec![Position::START; CROWD];
    for round in ["first", "second"] {
        let commits: Vec<_> = ids.iter().zip(&at).map(|(id, at)| commit(id, *at, round)).collect();
        at = append_all(&journal, &commits).await.into_iter().map(|appended| appended.unwrap().position).collect();
    }
    for (id, at) in ids.iter().zip(&at) {
        let stored = journal.load(id).await.unwrap();
        assert_eq!((stored.len(), stored.last().unwrap().position), (2, *at));
    }
    let (messages, batches) = batches(&client).await;
    assert_eq!(messages, 2 * CROWD as u64, "nothing twice");
    assert!((1..CROWD / 10).contains(&batches), "{batches} batches");

    // One after the other, nothing waits.
    let before = batches;
    for _ in 0..5 {
        journal.append(&commit(&fresh(), Position::START, "alone")).await.unwrap();
    }
    assert_eq!(self::batches(&client).await, (messages + 5, before));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_may_not_be_stored_costs_the_others_nothing() {
    let server = NatsServer::open().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    let other = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    crowd::conflicts_cost_the_others_nothing(&journal, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_rivals_in_one_batch_one_wins() {
    let server = NatsServer::open().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    let ids: Vec<StreamId> = (0..CROWD / 2).map(|_| fresh()).collect();
    let both = ids.iter().flat_map(|id| ["one", "other"].map(|text| commit(id, Position::START, text)));
    let commits: Vec<_> = both.collect();
    let appended = append_all(&journal, &commits).await;
    for (rivals, outcomes) in commits.chunks(2).zip(appended.chunks(2)) {
        let stored = journal.load(&rivals[0].stream_id).await.unwrap();
        assert_eq!(stored.len(), 1);
        for (rival, outcome) in rivals.iter().zip(outcomes) {
            match outcome {
                Ok(recorded) => {
                    assert_eq!((recorded.position, &rival.commit_id), (stored[0].position, &stored[0].commit_id))
                }
                Err(error) => {
                    assert!(matches!(error, AppendError::Conflict), "{error:?}");
                    assert_ne!(rival.commit_id, stored[0].commit_id);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_acknowledgements_of_batches_are_resolved() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let proxy = Proxy::start(&server.url(), Loss::Break).await;
    let journal = NatsJournal::connect(connect(&proxy.url).await, one_shard()).await.unwrap();
    let mut stored = 0;
    for round in 0..6u32 {
        // Sooner or later: of those that go alone, and of those that go together.
        proxy.arm_for(1 << (2 * round));
        let commits: Vec<_> = (0..CROWD).map(|_| commit(&fresh(), Position::START, "one of many")).collect();
        for (commit, appended) in commits.iter().zip(append_all(&journal, &commits).await) {
            let recorded = appended.unwrap();
            assert_eq!(journal.load(&commit.stream_id).await.unwrap()[0].position, recorded.position);
            stored += 1;
        }
    }
    let (messages, batches) = batches(&client).await;
    assert!(messages == stored && batches > 0, "{messages} of {stored} in {batches}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_of_a_crowd_and_repeats_nothing() {
    let mut server = NatsServer::open().await.unwrap();
    let quick = Options { attempt_timeout: Duration::from_millis(500), ..one_shard() };
    let journal = NatsJournal::connect(connect(&server.url()).await, quick).await.unwrap();
    let load = Load::start(&journal, 120);
    for _ in 0..4 {
        load.goes_on(600).await;
        server.kill().await.unwrap();
        server.restart().await.unwrap();
    }
    load.check(&journal).await;
    assert!(batches(&connect(&server.url()).await).await.1 > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_gives_up_waiting_holds_nobody_up() {
    let server = NatsServer::open().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    crowd::whoever_gives_up_holds_nobody_up(&journal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_take_no_batches_take_everything_else() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let plain = Options { shards: 2, ..options() };
    let journal = NatsJournal::connect(client.clone(), plain.clone()).await.unwrap();
    let context = async_nats::jetstream::new(client.clone());
    let mut config = context.get_stream("EVT_00").await.unwrap().cached_info().config.clone();
    // As a journal from before there were batches has it.
    config.allow_atomic_publish = false;
    context.update_stream(config).await.unwrap();
    let again = NatsJournal::connect(connect(&server.url()).await, plain).await.unwrap();
    for journal in [&journal, &again] {
        let commits: Vec<_> = (0..CROWD).map(|_| commit(&fresh_in(0, 2), Position::START, "plain")).collect();
        assert!(append_all(journal, &commits).await.iter().all(Result::is_ok));
    }
    assert_eq!(batches(&client).await, (2 * CROWD as u64, 0));
}
