//! The signer ledger in memory and on a real nats-server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use devkit::NatsServer;
use events::time::Timestamp;
use journal::ledger::{
    Ledger, Purpose, conformance,
    memory::MemoryLedger,
    state::{Decision, Entry, decide},
};
use journal_jetstream::ledger::{NatsLedger, Options, STREAM};

use crate::support::{
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

/// Six processes ask for the nonces of the same sixty purposes, each purpose by three of them, and for one of their own, while acknowledgements are
/// lost and the server is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_hammered_gives_every_purpose_one_nonce_of_its_own() {
    const PURPOSES: usize = 60;
    let mut server = NatsServer::open().await.unwrap();
    let account = conformance::fresh();
    let proxies = [Proxy::start(&server.url(), Loss::Swallow).await, Proxy::start(&server.url(), Loss::Break).await];
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    proxies.iter().for_each(Proxy::arm);
    let mut tasks = tokio::task::JoinSet::new();
    for process in 0..6 {
        let url = proxies.get(process).map_or(server.url(), |proxy| proxy.url.clone());
        let ledger = NatsLedger::connect(connect(&url).await, Options::default()).await.unwrap();
        for n in (0..PURPOSES).filter(|n| (n + process) % 2 == 0).chain([PURPOSES + process]) {
            let (ledger, account) = (ledger.clone(), account.clone());
            tasks.spawn(async move {
                loop {
                    // Whatever goes wrong, the same purpose is asked for again.
                    if let Ok(nonce) = ledger.reserve(&account, &Purpose(n.to_string()), 5, 5, now).await {
                        return (n, nonce);
                    }
                }
            });
        }
    }
    let mut given = BTreeMap::<usize, u64>::new();
    let mut answers = 0;
    while let Some(answer) = tasks.join_next().await {
        let (purpose, nonce) = answer.unwrap();
        assert_eq!(*given.entry(purpose).or_insert(nonce), nonce, "one nonce for purpose {purpose}");
        answers += 1;
        match answers {
            20 | 40 | 60 => proxies.iter().for_each(Proxy::arm),
            50 => {
                server.kill().await.unwrap();
                server.restart().await.unwrap();
            }
            _ => {}
        }
    }
    assert_eq!(answers, 3 * PURPOSES + 6);
    let nonces: BTreeSet<u64> = given.values().copied().collect();
    assert_eq!(nonces, (5..5 + PURPOSES as u64 + 6).collect(), "no nonce twice, and none left out");
    assert!(proxies.iter().all(Proxy::fired));
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

/// Entries of earlier versions say no ordinal: they are read, and counted on from. A gateway of an earlier version may still be
/// writing them beside one of this.
#[tokio::test]
async fn entries_without_an_ordinal_are_counted_on_from() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let ledger = NatsLedger::connect(client.clone(), Options::default()).await.unwrap();
    let account = conformance::fresh();
    let subject = format!("gw.sig.{}.{}", account.chain_id.token(), account.address);
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream(STREAM).await.unwrap();
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    let last = async || {
        let stored = stream.get_last_raw_message_by_subject(&subject).await.ok()?;
        Some(Entry::decode(&stored.payload).unwrap())
    };
    for (n, ordinal) in [None, None, Some(3), Some(4), None, None, Some(7)].into_iter().enumerate() {
        let purpose = Purpose(n.to_string());
        match ordinal {
            Some(_) => assert_eq!(ledger.reserve(&account, &purpose, 0, 0, now).await.unwrap(), n as u64),
            None => {
                let Decision::New(_, entry) = decide(last().await.as_ref(), &purpose, 0, 0, now).unwrap() else {
                    panic!("it was given before")
                };
                let mut earlier: serde_json::Value = serde_json::from_slice(&entry.encode().unwrap()).unwrap();
                earlier.as_object_mut().unwrap().remove("ordinal");
                context.publish(subject.clone(), earlier.to_string().into()).await.unwrap().await.unwrap();
            }
        }
        assert_eq!(last().await.unwrap().ordinal(), ordinal, "entry {n}");
    }
    assert_eq!(ledger.open(&account).await.unwrap().len(), 7);
}
