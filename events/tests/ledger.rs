//! The signer journal in memory and on a real nats-server.

mod support;

use std::sync::Arc;

use devkit::NatsServer;
use events::ledger::{
    Ledger, Purpose, conformance,
    memory::MemoryLedger,
    nats::{NatsLedger, Options},
};
use support::{
    connect,
    proxy::{Loss, Proxy},
};

#[tokio::test]
async fn memory_conforms() {
    let ledger = MemoryLedger::default();
    conformance::run(|| {
        let ledger: Arc<dyn Ledger> = Arc::new(ledger.clone());
        async { ledger }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_conforms() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    conformance::run(|| async {
        let ledger = NatsLedger::connect(connect(&url).await, Options::default()).await.unwrap();
        Arc::new(ledger) as Arc<dyn Ledger>
    })
    .await;
}

#[tokio::test]
async fn a_lost_acknowledgement_takes_no_second_nonce() {
    let server = NatsServer::open().await.unwrap();
    for loss in [Loss::Swallow, Loss::Break] {
        let proxy = Proxy::start(&server.url(), loss).await;
        let ledger = NatsLedger::connect(connect(&proxy.url).await, Options::default()).await.unwrap();
        let account = conformance::fresh();
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        proxy.arm();
        assert_eq!(ledger.reserve(&account, &Purpose("a".into()), 0, 0, now).await.unwrap(), 0);
        assert!(proxy.fired(), "{loss:?}");
        assert_eq!(ledger.reserve(&account, &Purpose("b".into()), 0, 0, now).await.unwrap(), 1);
        assert_eq!(ledger.open(&account).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn reservations_survive_a_killed_server() {
    let mut server = NatsServer::open().await.unwrap();
    let ledger = NatsLedger::connect(connect(&server.url()).await, Options::default()).await.unwrap();
    let account = conformance::fresh();
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    for n in 0..3 {
        assert_eq!(ledger.reserve(&account, &Purpose(format!("a{n}")), 0, 0, now).await.unwrap(), n);
    }
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    assert_eq!(ledger.reserve(&account, &Purpose("a1".into()), 0, 0, now).await.unwrap(), 1);
    assert_eq!(ledger.reserve(&account, &Purpose("b".into()), 0, 0, now).await.unwrap(), 3);
}
