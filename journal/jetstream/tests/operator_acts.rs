//! The record of operators' acts in memory and on a real nats-server.

use std::sync::Arc;

use async_nats::jetstream::{self, stream::Config};

use devkit::NatsServer;
use journal::operator_acts::{Entry, Error, OperatorActs, conformance, latest, memory::MemoryOperatorActs};
use journal_jetstream::operator_acts::{ConnectError, NatsOperatorActs, STREAM, SUBJECTS};

use crate::support::{
    connect,
    proxy::{Loss, Proxy},
};

async fn open(url: &str) -> NatsOperatorActs {
    NatsOperatorActs::open(connect(url).await, 1).await.unwrap()
}

#[tokio::test]
async fn memory_conforms() {
    let acts = MemoryOperatorActs::default();
    conformance::run(|| {
        let acts: Arc<dyn OperatorActs> = Arc::new(acts.clone());
        async { acts }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_conforms() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    conformance::run(|| async { Arc::new(open(&url).await) as Arc<dyn OperatorActs> }).await;
}

#[tokio::test]
async fn a_lost_acknowledgement_records_once() {
    let server = NatsServer::open().await.unwrap();
    for loss in [Loss::Swallow, Loss::Break] {
        for of_the_end in [false, true] {
            let proxy = Proxy::start(&server.url(), loss).await;
            let acts = open(&proxy.url).await;
            let order = conformance::order("alice");
            let entries = [Entry::Ordered(order.clone()), conformance::end(&order.id, "done")];
            for entry in &entries {
                if matches!(entry, Entry::Ended { .. }) == of_the_end {
                    proxy.arm();
                }
                acts.record(entry).await.unwrap();
            }
            assert!(proxy.fired(), "{loss:?}");
            let found = acts.newest(None, 3).await.unwrap();
            let of_act = found.iter().filter(|recorded| recorded.entry.id() == Some(&order.id));
            let of_act: Vec<&Entry> = of_act.map(|recorded| &recorded.entry).collect();
            assert_eq!(of_act, [&entries[1], &entries[0]], "{loss:?}");
        }
    }
}

#[tokio::test]
async fn what_was_recorded_survives_a_killed_server_and_nothing_is_without_one() {
    let mut server = NatsServer::open().await.unwrap();
    let acts = open(&server.url()).await;
    let ordered = Entry::Ordered(conformance::order("alice"));
    acts.record(&ordered).await.unwrap();
    server.kill().await.unwrap();
    let late = Entry::Ordered(conformance::order("bob"));
    assert!(matches!(acts.record(&late).await, Err(Error::Unavailable(_))));
    assert!(matches!(acts.newest(None, 1).await, Err(Error::Unavailable(_))));
    server.restart().await.unwrap();
    let found: Vec<Entry> = acts.newest(None, 9).await.unwrap().into_iter().map(|recorded| recorded.entry).collect();
    assert_eq!(found, [ordered], "what was given up is not sent later");
}

#[tokio::test]
async fn what_others_wrote_is_shown_as_unknown_between_what_is_known() {
    let server = NatsServer::open().await.unwrap();
    let acts = open(&server.url()).await;
    let order = conformance::order("alice");
    acts.record(&Entry::Ordered(order.clone())).await.unwrap();
    let jetstream = jetstream::new(connect(&server.url()).await);
    let newer = conformance::order("bob");
    let body = String::from_utf8(Entry::Ordered(newer.clone()).encode().unwrap()).unwrap();
    let body = body.replace(r#""act":"pause""#, r#""act":"evict""#);
    for (subject, body) in [(format!("gw.acts.{}", newer.id), body), ("gw.acts.x".to_owned(), "x".to_owned())] {
        jetstream.publish(subject, body.into()).await.unwrap().await.unwrap();
    }
    let found = latest(&acts, 9).await.unwrap();
    let [nameless, unknown, known] = &found[..] else { panic!("{found:?}") };
    assert!(matches!(&nameless.entry, Entry::Unknown { id: None, .. }), "{nameless:?}");
    let Entry::Unknown { id: Some(id), reason } = &unknown.entry else { panic!("{unknown:?}") };
    assert!(*id == newer.id && reason.contains("evict"), "{unknown:?}");
    assert_eq!(known.entry, Entry::Ordered(order));
    // An order that this build does not know is in force all the same.
    assert!(matches!(acts.record(&Entry::Ordered(newer)).await, Err(Error::Refused(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_first_makes_the_stream_and_the_others_find_it() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    let openings = (0..8).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { open(&url).await })
    });
    for opened in futures::future::join_all(openings).await {
        let acts = opened.unwrap();
        acts.record(&Entry::Ordered(conformance::order("alice"))).await.unwrap();
    }
    assert_eq!(open(&url).await.newest(None, 9).await.unwrap().len(), 8);
}

#[tokio::test]
async fn a_stream_that_forgets_is_refused() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let subjects = vec![SUBJECTS.to_owned()];
    let config = Config { name: STREAM.to_owned(), subjects, max_messages_per_subject: 1, ..Config::default() };
    jetstream::new(client.clone()).create_stream(config).await.unwrap();
    let error = NatsOperatorActs::open(client, 1).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Mismatch { stream, .. } if stream == STREAM), "{error}");
}
