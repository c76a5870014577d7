//! The journal on a real nats-server while things go wrong: lost acknowledgements, killed servers, tampered streams.

use std::{collections::BTreeSet, time::Duration};

use async_nats::{HeaderMap, jetstream::consumer::pull};
use futures::{StreamExt, future::join_all};
use tokio::time::{sleep, timeout};

use devkit::NatsServer;
use events::{CommitId, Hash32};
use journal::{
    AppendError, Position, ReadError, ShardLeases, ShardLog, ShardWorker, StreamStore, WakeUp,
    conformance::{commit, fresh, fresh_in},
    envelope::{self, EncodedCommit, Envelope},
};
use journal_jetstream::{
    header_map,
    store::{NatsJournal, Options},
};

use crate::support::{
    connect,
    load::{Load, load},
    options,
    proxy::{Loss, Proxy},
};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_lost_acknowledgement_is_resolved() {
    let server = NatsServer::open().await.unwrap();
    for loss in [Loss::Swallow, Loss::Break] {
        let proxy = Proxy::start(&server.url(), loss).await;
        let journal = NatsJournal::connect(connect(&proxy.url).await, options()).await.unwrap();
        let id = fresh();
        let mut at = Position::START;
        let mut appended = Vec::new();
        for n in 0..3 {
            proxy.arm();
            let recorded = journal.append(&commit(&id, at, &n.to_string())).await.unwrap();
            assert!(proxy.fired(), "{loss:?}");
            at = recorded.position;
            appended.push(recorded.commit_id);
        }
        let stored: Vec<CommitId> = journal.load(&id).await.unwrap().into_iter().map(|c| c.commit_id).collect();
        assert_eq!(stored, appended, "{loss:?}");
    }
}

#[tokio::test]
async fn a_lost_acknowledgement_that_another_overtook_is_resolved() {
    let server = NatsServer::open().await.unwrap();
    let proxy = Proxy::start(&server.url(), Loss::Swallow).await;
    let attempt_timeout = Duration::from_secs(5);
    let slow = Options { attempt_timeout, ..options() };
    let journal = NatsJournal::connect(connect(&proxy.url).await, slow).await.unwrap();
    let other = NatsJournal::connect(connect(&server.url()).await, options()).await.unwrap();
    let id = fresh();
    proxy.arm();
    let first = commit(&id, Position::START, "first");
    let mine = tokio::spawn({
        let (journal, first) = (journal.clone(), first.clone());
        async move { journal.append(&first).await }
    });
    // While the one waits for its acknowledgement the other sees the commit and goes on.
    let seen = timeout(PATIENCE, async {
        loop {
            if let Some(stored) = other.load(&id).await.unwrap().pop() {
                return stored;
            }
        }
    });
    let seen = seen.await.unwrap();
    other.append(&commit(&id, seen.position, "second")).await.unwrap();
    let mine = mine.await.unwrap().unwrap();
    assert!(proxy.fired());
    assert_eq!(mine.position, seen.position);
    assert_eq!(other.load(&id).await.unwrap().len(), 2);
}

#[tokio::test]
async fn without_a_server_nothing_is_stored_and_nothing_is_unknown() {
    let mut server = NatsServer::open().await.unwrap();
    let short =
        Options { append_timeout: Duration::from_millis(300), read_timeout: Duration::from_millis(300), ..options() };
    let client = connect(&server.url()).await;
    let journal = NatsJournal::connect(client.clone(), short).await.unwrap();
    server.kill().await.unwrap();
    timeout(PATIENCE, async {
        while client.connection_state() == async_nats::connection::State::Connected {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let id = fresh();
    let refused = journal.append(&commit(&id, Position::START, "first")).await;
    assert!(matches!(refused, Err(AppendError::Unavailable(_))), "{refused:?}");
    assert!(matches!(journal.load(&id).await, Err(ReadError::Unavailable(_))));
    server.restart().await.unwrap();
    timeout(PATIENCE, async {
        while client.connection_state() != async_nats::connection::State::Connected {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let stored = load(&journal, &id).await;
    assert!(stored.is_empty(), "what was given up must not be sent later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_and_repeats_nothing() {
    let mut server = NatsServer::open().await.unwrap();
    let quick = Options { attempt_timeout: Duration::from_millis(500), ..options() };
    let journal = NatsJournal::connect(connect(&server.url()).await, quick).await.unwrap();
    let load = Load::start(&journal, 16);
    for _ in 0..3 {
        load.goes_on(200).await;
        server.kill().await.unwrap();
        server.restart().await.unwrap();
    }
    load.check(&journal).await;
}

async fn next(worker: &mut Box<dyn ShardWorker>) -> WakeUp {
    timeout(PATIENCE, async {
        loop {
            if let Ok(wake_up) = worker.next().await {
                return wake_up;
            }
        }
    })
    .await
    .expect("no wake-up came")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_after_a_killed_server() {
    let mut server = NatsServer::open().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, options()).await.unwrap();
    let mut worker = journal.work(0, "one").await;
    assert!(matches!(next(&mut worker).await, WakeUp::Acquired));

    // While it is away nobody else can take over, so the owner stays: within limits.
    for _ in 0..2 {
        server.kill().await.unwrap();
        server.restart().await.unwrap();
        let id = fresh_in(0, 2);
        journal.append(&commit(&id, Position::START, "first")).await.unwrap();
        loop {
            match next(&mut worker).await {
                WakeUp::Event { stream_id, .. } if stream_id == id => break,
                WakeUp::Event { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    server.kill().await.unwrap();
    while !matches!(next(&mut worker).await, WakeUp::Lost) {}
    server.restart().await.unwrap();
    assert!(matches!(next(&mut worker).await, WakeUp::Acquired));
}

#[tokio::test]
async fn what_older_workers_were_woken_by_goes_away() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = NatsJournal::connect(client.clone(), options()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("EVT_00").await.unwrap();
    let config = pull::Config { durable_name: Some("saga_00".to_owned()), ..pull::Config::default() };
    stream.create_consumer(config).await.unwrap();
    let mut worker = journal.work(0, "newer").await;
    assert!(matches!(next(&mut worker).await, WakeUp::Acquired));
    let gone = async {
        while stream.consumer_names().next().await.is_some() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("the older consumer stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_hears_of_every_commit_whoever_stores_it() {
    let server = NatsServer::open().await.unwrap();
    let own = NatsJournal::connect(connect(&server.url()).await, options()).await.unwrap();
    let other = NatsJournal::connect(connect(&server.url()).await, options()).await.unwrap();
    let mut worker = own.work(0, "one").await;
    assert!(matches!(next(&mut worker).await, WakeUp::Acquired));
    let mut expected = BTreeSet::new();
    for round in 0..3 {
        // Both at once, so that what one stores lies between what the other does; at last one that nobody hints at.
        let appends = (0..200).map(|number| {
            let journal = if number % 3 == 0 { other.clone() } else { own.clone() };
            tokio::spawn(async move {
                let stored = journal.append(&commit(&fresh_in(0, 2), Position::START, "one of many")).await.unwrap();
                (stored.stream_id, stored.position.sequence)
            })
        });
        expected.extend(join_all(appends).await.into_iter().map(Result::unwrap));
        let unhinted = commit(&fresh_in(0, 2), Position::START, &format!("without a hint {round}"));
        let encoded = EncodedCommit::new(&unhinted, 0).unwrap();
        let subject = envelope::subject(0, &unhinted.stream_id);
        let client = connect(&server.url()).await;
        publish_raw(&client, subject, header_map(encoded.headers(0)), &encoded.body).await;
        expected.insert((unhinted.stream_id, own.head(0).await.unwrap()));
        while !expected.is_empty() {
            match next(&mut worker).await {
                WakeUp::Event { stream_id, sequence } => drop(expected.remove(&(stream_id, sequence))),
                other => panic!("{other:?}"),
            }
        }
    }
    // Nothing but appends, leases and heads was asked for: no consumer was made.
    let stream = async_nats::jetstream::new(connect(&server.url()).await).get_stream("EVT_00").await.unwrap();
    assert!(stream.consumer_names().next().await.is_none());
}

#[tokio::test]
async fn an_owner_that_is_overtaken_knows_it() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = NatsJournal::connect(client.clone(), options()).await.unwrap();
    let mut worker = journal.work(0, "one").await;
    assert!(matches!(next(&mut worker).await, WakeUp::Acquired));
    let lease = br#"{"owner":"two","claim":"another"}"#;
    publish_raw(&client, "$KV.gw_leases.00".into(), HeaderMap::new(), lease).await;
    assert!(matches!(next(&mut worker).await, WakeUp::Lost));
    // The intruder does not renew, so the shard comes back.
    assert!(matches!(next(&mut worker).await, WakeUp::Acquired));
}

/// Stores a message as somebody would who has the right to publish and no respect.
async fn publish_raw(client: &async_nats::Client, subject: String, headers: HeaderMap, body: &[u8]) {
    let context = async_nats::jetstream::new(client.clone());
    context.publish_with_headers(subject, headers, body.to_vec().into()).await.unwrap().await.unwrap();
}

#[tokio::test]
async fn a_tampered_chain_is_unreadable() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = NatsJournal::connect(client.clone(), options()).await.unwrap();
    let tampered: [fn(&mut Position, &mut HeaderMap, &mut Vec<u8>); 5] = [
        |at, _, _| at.hash = Hash32([7; 32]),
        |at, _, _| at.version += 1,
        |_, headers, _| headers.insert("Gw-Type", "Rewritten"),
        |_, headers, _| headers.insert("Gw-Schema", "99"),
        |_, _, body| *body = b"[]".to_vec(),
    ];
    for (case, tamper) in tampered.into_iter().enumerate() {
        let id = fresh();
        let first = journal.append(&commit(&id, Position::START, "first")).await.unwrap();
        let shard = first.position.shard;
        let (mut at, mut headers, mut body) = (first.position, HeaderMap::new(), Vec::new());
        tamper(&mut at, &mut headers, &mut body);
        let encoded = EncodedCommit::new(&commit(&id, at, "second"), shard).unwrap();
        let mut forged = header_map(encoded.headers(first.position.sequence));
        for (name, values) in headers.iter() {
            forged.insert(name.clone(), values[0].clone());
        }
        let body = if body.is_empty() { encoded.body.to_vec() } else { body };
        publish_raw(&client, envelope::subject(shard, &id), forged, &body).await;
        let sequence = journal.head(shard).await.unwrap();
        match journal.load(&id).await {
            Err(ReadError::Unreadable { shard: at_shard, sequence: at_sequence, .. }) => {
                assert_eq!((at_shard, at_sequence), (shard, sequence), "case {case}");
            }
            other => panic!("case {case}: {other:?}"),
        }
    }
    // What is not a commit at all stops a replay too, and is named.
    let shard = 1;
    publish_raw(&client, envelope::subject(shard, &fresh_in(shard, 2)), HeaderMap::new(), b"x").await;
    let error = journal.replay(shard, journal.head(shard).await.unwrap(), 10).await.unwrap_err();
    assert!(error.to_string().contains("Gw-Type is missing"), "{error}");
}

#[tokio::test]
async fn the_hash_can_be_made_from_what_any_client_reads() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = NatsJournal::connect(client.clone(), options()).await.unwrap();
    let id = fresh();
    let first = journal.append(&commit(&id, Position::START, "first")).await.unwrap();
    let second = journal.append(&commit(&id, first.position, "second")).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream(envelope::stream(first.position.shard)).await.unwrap();
    let stored = stream.get_raw_message(first.position.sequence).await.unwrap();
    let read = Envelope::read(
        &stored.subject,
        stored
            .headers
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |value| (name.as_ref(), value.as_str()))),
    )
    .unwrap();
    assert_eq!(read.hash(&stored.payload), second.prev);
    let header = |name: &str| stored.headers.get(name).unwrap().to_string();
    let mut preimage = format!("{}\n", stored.subject);
    for name in ["Gw-Type", "Gw-Schema", "Gw-Version", "Gw-Correlation", "Gw-Causation", "Gw-Prev", "Nats-Msg-Id"] {
        preimage += &format!("{name}:{}\n", header(name));
    }
    let preimage = [preimage.as_bytes(), b"\n", &stored.payload].concat();
    assert_eq!(Hash32::sha256(preimage), second.prev);
}
