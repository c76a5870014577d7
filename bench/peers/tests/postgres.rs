//! The journal over PostgreSQL keeps what the journal's traits promise. Skipped, and said so, where PostgreSQL is not installed.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::{collections::BTreeSet, sync::Arc};

use futures::future::join_all;
use tempfile::TempDir;

use journal::{
    AppendError, Journal, Position, ShardLog, StreamStore,
    conformance::{self, commit, fresh},
};
use peers::{
    postgres::{PostgresJournal, WRITERS},
    server::{self, PostgresServer},
};

const SHARDS: u16 = 3;

/// A server, if there can be one.
async fn server() -> Option<(PostgresServer, TempDir)> {
    if server::programs().is_none() {
        eprintln!("SKIPPED: {}", server::MISSING);
        return None;
    }
    let directory = TempDir::new().unwrap();
    // Its user has to get through.
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = PostgresServer::start(directory.path()).await.unwrap();
    PostgresJournal::create(server.config()).await.unwrap();
    Some((server, directory))
}

async fn open(server: &PostgresServer) -> PostgresJournal {
    PostgresJournal::connect(server.config(), SHARDS, WRITERS).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_passes_the_conformance_suite() {
    let Some((server, _directory)) = server().await else { return };
    conformance::run(|| async { Arc::new(open(&server).await) as Arc<dyn Journal> }).await;
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_share_transactions_and_a_conflict_costs_only_itself() {
    let Some((server, _directory)) = server().await else { return };
    let journal = open(&server).await;
    let taken = fresh();
    journal.append(&commit(&taken, Position::START, "first")).await.unwrap();
    journal.take_counts();
    let commits: Vec<_> = (0..400)
        .map(|n| commit(&if n % 10 == 0 { taken.clone() } else { fresh() }, Position::START, &n.to_string()))
        .collect();
    let outcomes = join_all(commits.iter().map(|commit| journal.append(commit))).await;
    for (commit, outcome) in commits.iter().zip(&outcomes) {
        match outcome {
            Ok(recorded) => assert!(commit.stream_id != taken && recorded.position.version == 1),
            Err(AppendError::Conflict) => assert_eq!(commit.stream_id, taken),
            Err(other) => panic!("{other}"),
        }
    }
    let (transactions, stored) = journal.take_counts();
    assert_eq!(stored, 360);
    assert!(transactions < stored / 4, "{stored} commits in {transactions} transactions");
    server.stop().await.unwrap();
}

/// Whatever becomes of connections: what was acknowledged is there once, and sequences have no gaps.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_loses_and_doubles_nothing() {
    let Some((server, _directory)) = server().await else { return };
    let journal = open(&server).await;
    let (killer, connection) = server.config().connect(tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let kill = async {
        let mut killed = 0;
        while killed < 10 {
            let others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                          WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
            killed += killer.query_one(others, &[]).await.unwrap().get::<_, i64>(0);
        }
    };
    let append = async |n: usize| {
        let (id, mut at) = (fresh(), Position::START);
        for step in 0..20 {
            let next = commit(&id, at, &format!("{n} {step}"));
            at = loop {
                match journal.append(&next).await {
                    Ok(recorded) => break recorded.position,
                    // The very same commit may be appended again.
                    Err(AppendError::Unknown(_) | AppendError::Unavailable(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            };
        }
        assert_eq!(at.version, 20);
    };
    tokio::join!(join_all((0..40).map(append)), kill);
    let (mut streams, mut count) = (BTreeSet::new(), 0);
    let reader = open(&server).await;
    for shard in 0..SHARDS {
        let log = reader.replay(shard, 1, usize::MAX).await.unwrap();
        assert!(log.iter().map(|commit| commit.position.sequence).eq(1..=log.len() as u64));
        count += log.len();
        streams.extend(log.into_iter().map(|commit| commit.stream_id));
    }
    assert_eq!((streams.len(), count), (40, 800));
    drop(killer);
    connection.await.unwrap().unwrap();
    server.stop().await.unwrap();
}
