//! The parking in memory and on a real nats-server.

use std::sync::{Arc, atomic::Ordering};

use devkit::NatsServer;
use journal::parking::{Entry, Error, Parking, Replayed, conformance, memory::MemoryParking};
use journal_jetstream::parking::{NatsParking, Options};

use crate::support::{
    connect,
    proxy::{Loss, Proxy},
};

fn options() -> Options {
    Options { shards: conformance::SHARDS, ..Options::default() }
}

async fn open(url: &str) -> NatsParking {
    NatsParking::connect(connect(url).await, options()).await.unwrap()
}

#[tokio::test]
async fn memory_conforms() {
    let parking = MemoryParking::default();
    conformance::run(|| {
        let parking: Arc<dyn Parking> = Arc::new(parking.clone());
        async { parking }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_conforms() {
    let server = NatsServer::open().await.unwrap();
    let url = server.url();
    conformance::run(|| async { Arc::new(open(&url).await) as Arc<dyn Parking> }).await;
}

#[tokio::test]
async fn a_lost_acknowledgement_parks_and_replays_once() {
    let server = NatsServer::open().await.unwrap();
    for loss in [Loss::Swallow, Loss::Break] {
        let proxy = Proxy::start(&server.url(), loss).await;
        let parking = open(&proxy.url).await;
        let stream_id = conformance::fresh();
        proxy.arm();
        let parked = parking.park(&stream_id, 0, &conformance::parked("a")).await.unwrap();
        assert!(proxy.fired(), "{loss:?}");
        assert_eq!(parking.history(&stream_id).await.unwrap(), [parked]);
    }
    for loss in [Loss::Swallow, Loss::Break] {
        let proxy = Proxy::start(&server.url(), loss).await;
        let parking = open(&proxy.url).await;
        let stream_id = conformance::fresh();
        open(&server.url()).await.park(&stream_id, 0, &conformance::parked("a")).await.unwrap();
        let replayed = Replayed::new("operator", "2026-01-02T03:04:05Z".parse().unwrap());
        proxy.arm();
        parking.replay(&stream_id, &replayed).await.unwrap();
        assert!(proxy.fired(), "{loss:?}");
        let history = parking.history(&stream_id).await.unwrap();
        assert_eq!(history.len(), 2, "{loss:?}");
        assert_eq!(history[1].entry, Entry::Replayed(replayed));
    }
}

#[tokio::test]
async fn what_is_parked_survives_a_killed_server() {
    let mut server = NatsServer::open().await.unwrap();
    let parking = open(&server.url()).await;
    let stream_id = conformance::fresh();
    let parked = parking.park(&stream_id, 0, &conformance::parked("a")).await.unwrap();
    server.kill().await.unwrap();
    assert!(matches!(parking.parked().await, Err(Error::Unavailable(_))));
    server.restart().await.unwrap();
    assert_eq!(parking.parked().await.unwrap(), [parked]);
}

#[tokio::test]
async fn an_entry_from_elsewhere_leaves_its_stream_parked_and_can_be_replayed() {
    let server = NatsServer::open().await.unwrap();
    let parking = open(&server.url()).await;
    let stream_id = conformance::fresh();
    let subject = format!("gw.park.{:02}.{stream_id}", stream_id.shard(conformance::SHARDS));
    let jetstream = async_nats::jetstream::new(connect(&server.url()).await);
    jetstream.publish(subject, r#"{"entry":"pardoned"}"#.into()).await.unwrap().await.unwrap();
    let [unknown] = &parking.parked().await.unwrap()[..] else { panic!("one entry") };
    assert!(matches!(unknown.entry, Entry::Unknown { .. }), "{unknown:?}");
    let replayed = Replayed::new("operator", "2026-01-02T03:04:05Z".parse().unwrap());
    parking.replay(&stream_id, &replayed).await.unwrap();
    assert_eq!(parking.parked().await.unwrap(), []);
}

#[tokio::test]
async fn what_was_read_is_not_read_again() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let (others, reading) = (open(&server.url()).await, open(&server.url()).await.over(client.clone()));
    let ids: Vec<_> = std::iter::repeat_with(conformance::fresh).take(60).collect();
    for id in &ids {
        others.park(id, 0, &conformance::parked("a")).await.unwrap();
    }
    let received = || client.statistics().in_bytes.load(Ordering::Relaxed);
    let before = received();
    assert_eq!(reading.parked().await.unwrap().len(), ids.len());
    let first = received() - before;
    let replayed = Replayed::new("operator", "2026-01-02T03:04:05Z".parse().unwrap());
    others.replay(&ids[7], &replayed).await.unwrap();
    others.park(&conformance::fresh(), 0, &conformance::parked("a")).await.unwrap();
    let before = received();
    let again = reading.parked().await.unwrap();
    let second = received() - before;
    assert!(first > 10_000 && second < first / 4, "{first} and {second} bytes");
    assert_eq!(again, open(&server.url()).await.parked().await.unwrap());
    assert_eq!(again.len(), ids.len());
}

#[tokio::test]
async fn a_stream_that_was_made_anew_is_read_anew() {
    let server = NatsServer::open().await.unwrap();
    let parking = open(&server.url()).await;
    for _ in 0..2 {
        parking.park(&conformance::fresh(), 0, &conformance::parked("a")).await.unwrap();
    }
    assert_eq!(parking.parked().await.unwrap().len(), 2);
    async_nats::jetstream::new(connect(&server.url()).await).delete_stream("PARK").await.unwrap();
    let parked = open(&server.url()).await.park(&conformance::fresh(), 0, &conformance::parked("b")).await.unwrap();
    assert_eq!(parking.parked().await.unwrap(), [parked]);
}
