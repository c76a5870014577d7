//! The layout of epochs on a real nats-server: half begun, half sealed, with other settings than they must have; and what an
//! auditor sees of them.

use std::time::Duration;

use async_nats::{Client, jetstream};
use tokio::time::{sleep, timeout};

use devkit::NatsServer;
use events::Epoch;
use journal::{
    AppendError, Position, ShardLog, StreamStore,
    conformance::{commit, fresh},
    envelope,
};
use journal_jetstream::store::{BeginError, ConnectError, NatsJournal, Options, SealError};

use crate::support::{
    connect,
    epochs::{aware, epochs, unaware},
    options,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Creates one stream of an epoch, as somebody does who is killed before the next.
async fn create_stream(client: &Client, epoch: &Epoch, shard: u16) {
    let context = jetstream::new(client.clone());
    let mut config = context.get_stream("EVT_00").await.unwrap().cached_info().config.clone();
    config.name = envelope::stream(shard);
    config.subjects = vec![envelope::shard_subjects(shard)];
    config.metadata = epoch.metadata();
    context.create_stream(config).await.unwrap();
}

#[tokio::test]
async fn an_epoch_that_is_half_begun_does_not_exist_and_can_be_finished() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = unaware(&server.url()).await;
    let half = Epoch { number: 1, first: 2, shards: 3, sealed: false };
    for shard in [2, 3] {
        create_stream(&client, &half, shard).await;
    }
    let restarted = unaware(&server.url()).await;
    for journal in [&journal, &restarted] {
        let id = fresh();
        assert_eq!(journal.load(&id).await.unwrap(), Vec::new());
        assert_eq!(journal.append(&commit(&id, Position::START, "first")).await.unwrap().position.shard, id.shard(2));
        assert_eq!(epochs(journal), 1);
    }
    let other = journal.begin_epoch(2).await.unwrap_err();
    assert!(matches!(other, BeginError::Unfinished { epoch: 1, shards: 3 }), "{other}");
    assert_eq!(journal.begin_epoch(3).await.unwrap(), half);
    // Two at once begin one epoch.
    let (one, two) = tokio::join!(journal.begin_epoch(4), restarted.begin_epoch(4));
    assert_eq!(one.unwrap(), two.unwrap());
    assert_eq!((epochs(&journal), journal.epochs()), (3, restarted.epochs()));
    for shards in [0, 257] {
        let refused = journal.begin_epoch(shards).await.unwrap_err();
        assert!(matches!(refused, BeginError::Shards { most: 256 }), "{refused}");
    }
}

#[tokio::test]
async fn a_stream_that_says_something_else_than_an_epoch_is_refused() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = unaware(&server.url()).await;
    create_stream(&client, &Epoch { number: 2, first: 2, shards: 1, sealed: false }, 2).await;
    let refused = NatsJournal::connect(client.clone(), options()).await.err().unwrap();
    assert!(matches!(&refused, ConnectError::Mismatch { setting, .. } if setting == "gw.epoch"), "{refused}");
    let refused = journal.begin_epoch(1).await.unwrap_err();
    assert!(matches!(&refused, BeginError::Streams(ConnectError::Mismatch { .. })), "{refused}");
    // Nobody knows what is in there, so nothing is said not to be.
    assert!(journal.load(&fresh()).await.is_err());
    journal.append(&commit(&fresh(), Position::START, "first")).await.unwrap();
}

async fn seal_by_hand(client: &Client, shard: u16) {
    let context = jetstream::new(client.clone());
    let mut config = context.get_stream(envelope::stream(shard)).await.unwrap().cached_info().config.clone();
    config.sealed = true;
    context.update_stream(config).await.unwrap();
}

#[tokio::test]
async fn only_an_epoch_that_is_over_is_sealed_and_half_sealed_is_not_sealed() {
    let server = NatsServer::open().await.unwrap();
    let client = connect(&server.url()).await;
    let journal = unaware(&server.url()).await;
    let mut old = Vec::new();
    for _ in 0..8 {
        old.push(journal.append(&commit(&fresh(), Position::START, "old")).await.unwrap());
    }
    let refused = journal.seal(0).await.unwrap_err();
    assert!(matches!(refused, SealError::Current(0)), "{refused}");
    let refused = journal.seal(1).await.unwrap_err();
    assert!(matches!(refused, SealError::Missing(1)), "{refused}");
    journal.begin_epoch(2).await.unwrap();
    let refused = journal.seal(1).await.unwrap_err();
    assert!(matches!(refused, SealError::Current(1)), "{refused}");

    seal_by_hand(&client, 0).await;
    let restarted = aware(&server.url()).await;
    for journal in [&journal, &restarted] {
        for _ in 0..6 {
            let id = fresh();
            let first = journal.append(&commit(&id, Position::START, "first")).await.unwrap();
            assert_eq!(first.position.shard, 2 + id.shard(2));
        }
        assert!(!journal.epochs().is_sealed(0) && !journal.epochs().is_sealed(1));
    }
    for _ in 0..2 {
        assert!(journal.seal(0).await.unwrap().sealed);
        assert!(journal.epochs().is_sealed(0) && journal.epochs().is_sealed(1));
    }
    let known = async {
        while !restarted.epochs().is_sealed(0) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, known).await.unwrap();
    for first in &old {
        for journal in [&journal, &restarted] {
            assert_eq!(journal.load(&first.stream_id).await.unwrap().len(), 1);
            let more = journal.append(&commit(&first.stream_id, first.position, "more")).await;
            assert!(matches!(more, Err(AppendError::Unacceptable(_))), "{more:?}");
        }
    }
    // New streams would have no place.
    seal_by_hand(&client, 3).await;
    let refused = NatsJournal::connect(client, options()).await.err().unwrap();
    assert!(matches!(&refused, ConnectError::Mismatch { setting, .. } if setting == "sealed"), "{refused}");
    let id = std::iter::repeat_with(fresh).find(|id| id.shard(2) == 1).unwrap();
    let refused = journal.append(&commit(&id, Position::START, "first")).await;
    assert!(matches!(refused, Err(AppendError::Unavailable(_))), "{refused:?}");
    // Until somebody begins another epoch.
    restarted.begin_epoch(1).await.unwrap();
    assert_eq!(journal.append(&commit(&id, Position::START, "first")).await.unwrap().position.shard, 4);
}

#[tokio::test]
async fn an_auditor_sees_epochs_that_began_after_it() {
    let server = NatsServer::open().await.unwrap();
    let journal = unaware(&server.url()).await;
    let old = journal.append(&commit(&fresh(), Position::START, "old")).await.unwrap();
    let bind = || async { NatsJournal::bind(connect(&server.url()).await, Options::default()).await.unwrap() };
    let (reading, waiting) = (bind().await, bind().await);
    journal.begin_epoch(3).await.unwrap();
    let new = journal.append(&commit(&fresh(), Position::START, "new")).await.unwrap();
    assert_eq!(epochs(&reading), 1);
    timeout(PATIENCE, waiting.grown(2)).await.unwrap();
    for auditor in [&reading, &waiting, &bind().await] {
        for first in [&old, &new] {
            assert_eq!(auditor.load(&first.stream_id).await.unwrap()[0].position, first.position);
        }
        assert_eq!(auditor.load(&fresh()).await.unwrap(), Vec::new());
        assert_eq!(auditor.epochs(), journal.epochs());
        assert_eq!(auditor.replay(new.position.shard, 1, 10).await.unwrap().len(), 1);
        let refused = auditor.append(&commit(&fresh(), Position::START, "no")).await;
        assert!(matches!(refused, Err(AppendError::Unacceptable(_))), "{refused:?}");
    }
    journal.seal(0).await.unwrap();
    let auditor = bind().await;
    assert!(auditor.epochs().is_sealed(old.position.shard));
    assert_eq!(auditor.load(&old.stream_id).await.unwrap()[0].position, old.position);
}
