//! The journal on a real nats-server: the conformance suite, what an auditor can do, and layouts that are refused.

use std::{sync::Arc, time::Duration};

use crate::support::{connect, options};
use devkit::NatsServer;
use events::journal::{
    AppendError, Journal, Position,
    conformance::{self, commit, fresh},
    nats::{ConnectError, NatsJournal, Options},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    conformance::run(|| async {
        let journal = NatsJournal::connect(connect(&url).await, options()).await.unwrap();
        Arc::new(journal) as Arc<dyn Journal>
    })
    .await;
}

#[tokio::test]
async fn streams_with_other_settings_are_refused() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    NatsJournal::connect(client.clone(), options()).await.unwrap();
    NatsJournal::connect(client.clone(), options()).await.unwrap();
    for shards in [1, 3] {
        let refused = NatsJournal::connect(client.clone(), Options { shards, ..options() }).await.err().unwrap();
        assert!(matches!(&refused, ConnectError::Mismatch { setting, .. } if setting == "gw.shards"), "{refused}");
    }
    let context = async_nats::jetstream::new(client.clone());
    let mut config = context.get_stream("EVT_01").await.unwrap().cached_info().config.clone();
    config.max_age = Duration::from_secs(3600);
    context.update_stream(config).await.unwrap();
    let refused = NatsJournal::connect(client, options()).await.err().unwrap();
    assert!(matches!(&refused, ConnectError::Mismatch { setting, .. } if setting == "max_age"), "{refused}");
}

#[tokio::test]
async fn an_auditor_reads_and_changes_nothing() {
    let server = NatsServer::open().await.unwrap();
    let missing = NatsJournal::bind(connect(&server.url()).await, options()).await.err().unwrap();
    assert!(matches!(missing, ConnectError::Missing(_)), "{missing}");

    let journal = NatsJournal::connect(connect(&server.url()).await, options()).await.unwrap();
    let id = fresh();
    let first = journal.append(&commit(&id, Position::START, "first")).await.unwrap();
    journal.append(&commit(&id, first.position, "second")).await.unwrap();

    let auditor = NatsJournal::bind(connect(&server.url()).await, Options::default()).await.unwrap();
    assert_eq!(auditor.shards(), 2);
    assert_eq!(auditor.load(&id).await.unwrap(), journal.load(&id).await.unwrap());
    assert_eq!(auditor.load(&fresh()).await.unwrap(), Vec::new());
    let shard = id.shard(2);
    assert_eq!(auditor.replay(shard, 1, 10).await.unwrap(), journal.load(&id).await.unwrap());
    let refused = auditor.append(&commit(&fresh(), Position::START, "no")).await;
    assert!(matches!(refused, Err(AppendError::Unacceptable(_))), "{refused:?}");
}
