//! The journal on a real nats-server: the conformance suite, what an auditor can do, and layouts that are refused.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use async_nats::connection::State;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use devkit::NatsServer;
use journal::{
    AppendError, Journal, Position, ShardLog, StreamStore,
    conformance::{self, commit, fresh},
};
use journal_jetstream::store::{ConnectError, NatsJournal, Options};

use crate::support::{connect, options};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_when_it_reads_over_other_connections() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    conformance::run(|| async {
        let journal = NatsJournal::connect(connect(&url).await, options()).await.unwrap();
        journal.read_over(vec![connect(&url).await, connect(&url).await, connect(&url).await]);
        Arc::new(journal) as Arc<dyn Journal>
    })
    .await;
}

#[tokio::test]
async fn reading_and_appending_do_without_each_others_connections() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    let reads = [Severable::connect(&url).await, Severable::connect(&url).await];
    let journal = NatsJournal::connect(connect(&url).await, options()).await.unwrap();
    journal.read_over(reads.iter().map(|reader| reader.client.clone()).collect());
    let id = fresh();
    let mut at = journal.append(&commit(&id, Position::START, "first")).await.unwrap().position;
    for (lost, version) in reads.iter().zip([2, 3]) {
        lost.sever().await;
        at = journal.append(&commit(&id, at, "another")).await.unwrap().position;
        assert_eq!(journal.head(at.shard).await.unwrap(), at.sequence);
        assert_eq!(journal.load(&id).await.unwrap().len(), version);
        assert_eq!(journal.replay(at.shard, 1, 10).await.unwrap().len(), version);
    }

    let appends = Severable::connect(&url).await;
    let journal = NatsJournal::connect(appends.client.clone(), options()).await.unwrap();
    journal.read_over(vec![connect(&url).await]);
    appends.sever().await;
    assert_eq!(journal.head(at.shard).await.unwrap(), at.sequence);
    assert_eq!(journal.load(&id).await.unwrap().len(), 3);
    assert_eq!(journal.replay(at.shard, 1, 10).await.unwrap().len(), 3);
    let refused = journal.append(&commit(&id, at, "one more")).await;
    assert!(matches!(refused, Err(AppendError::Unavailable(_))), "{refused:?}");
}

/// A client that can lose its connection for good.
struct Severable {
    client: async_nats::Client,
    forward: JoinHandle<()>,
}

impl Severable {
    async fn connect(url: &str) -> Self {
        let server = url.strip_prefix("nats://").unwrap().to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let forward = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(server).await.unwrap();
            // However it ends.
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
        Self { client: connect(&url).await, forward }
    }

    /// Returns when the client has seen it.
    async fn sever(&self) {
        self.forward.abort();
        while self.client.connection_state() == State::Connected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
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
