//! The journal and the ledger on three nats-servers with three copies of each stream: the conformance suites.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::support::{
    cluster::{journal, three, until},
    connect,
};
use devkit::NatsCluster;
use events::{
    journal::{Journal, conformance},
    ledger::{
        self, Ledger,
        nats::{NatsLedger, Options as LedgerOptions},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_with_each_process_at_another_server() {
    let cluster = NatsCluster::open().await.unwrap();
    let processes = AtomicUsize::new(0);
    conformance::run(|| async {
        let client = connect(&cluster.url_of(processes.fetch_add(1, Ordering::SeqCst))).await;
        Arc::new(journal(&client, three()).await) as Arc<dyn Journal>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_while_a_server_is_down() {
    let mut cluster = NatsCluster::open().await.unwrap();
    let client = connect(&cluster.url()).await;
    journal(&client, three()).await;
    cluster.kill(2).await.unwrap();
    conformance::run(|| async { Arc::new(journal(&connect(&cluster.url()).await, three()).await) as Arc<dyn Journal> })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_conforms() {
    let cluster = NatsCluster::open().await.unwrap();
    let servers = AtomicUsize::new(0);
    ledger::conformance::run(|| async {
        let client = connect(&cluster.url_of(servers.fetch_add(1, Ordering::SeqCst))).await;
        let options = LedgerOptions { replicas: 3, ..LedgerOptions::default() };
        let ledger = until("a ledger", || async { NatsLedger::connect(client.clone(), options.clone()).await.ok() });
        Arc::new(ledger.await) as Arc<dyn Ledger>
    })
    .await;
}
