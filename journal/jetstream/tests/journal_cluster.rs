//! The journal and the ledger on three nats-servers with three copies of each stream: the conformance suites.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use devkit::NatsCluster;
use journal::{
    Journal, conformance,
    ledger::{self, Ledger},
};
use journal_jetstream::{
    ledger::{NatsLedger, Options as LedgerOptions},
    store::Options,
};

use crate::support::{
    cluster::{journal, three, until},
    connect,
    epochs::FromNats,
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
async fn conforms_with_several_epochs() {
    let cluster = NatsCluster::open().await.unwrap();
    let processes = AtomicUsize::new(0);
    let operator = FromNats(journal(&connect(&cluster.url()).await, three()).await);
    let make = || async {
        let client = connect(&cluster.url_of(processes.fetch_add(1, Ordering::SeqCst))).await;
        let often = Options { look_every: Some(Duration::from_millis(200)), ..three() };
        Arc::new(journal(&client, often).await) as Arc<dyn Journal>
    };
    conformance::epochs::run(make, &operator).await;
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
