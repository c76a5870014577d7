//! The journal in memory: the conformance suite, and its faults.

use std::sync::Arc;

use journal::{
    AppendError, Journal, Position, ShardLeases, StreamStore, WakeUp,
    conformance::{self, commit, fresh},
    memory::{Fault, MemoryJournal},
};

use crate::support::epochs::FromMemory;

#[tokio::test]
async fn conforms() {
    let journal = MemoryJournal::new(4);
    conformance::run(|| {
        let journal: Arc<dyn Journal> = Arc::new(journal.clone());
        async { journal }
    })
    .await;
}

#[tokio::test]
async fn conforms_with_several_epochs() {
    let journal = MemoryJournal::new(4);
    let make = || {
        let journal: Arc<dyn Journal> = Arc::new(journal.clone());
        async { journal }
    };
    conformance::epochs::run(make, &FromMemory(journal.clone())).await;
}

#[tokio::test]
async fn a_lost_acknowledgement_leaves_the_commit_stored() {
    let journal = MemoryJournal::new(1);
    let id = fresh();
    let first = commit(&id, Position::START, "first");
    journal.inject(Fault::LoseAcknowledgement);
    assert!(matches!(journal.append(&first).await, Err(AppendError::Unknown(_))));
    let stored = journal.load(&id).await.unwrap();
    assert_eq!(stored[0].commit_id, first.commit_id);
    assert_eq!(journal.append(&first).await.unwrap(), stored[0]);
}

#[tokio::test]
async fn an_unavailable_journal_stores_nothing() {
    let journal = MemoryJournal::new(1);
    let id = fresh();
    let first = commit(&id, Position::START, "first");
    journal.inject(Fault::Unavailable);
    assert!(matches!(journal.append(&first).await, Err(AppendError::Unavailable(_))));
    assert!(journal.load(&id).await.unwrap().is_empty());
    journal.append(&first).await.unwrap();
}

#[tokio::test]
async fn an_expired_shard_is_lost_and_goes_to_the_next() {
    let journal = MemoryJournal::new(1);
    let mut one = journal.work(0, "one").await;
    let mut other = journal.work(0, "other").await;
    assert!(matches!(one.next().await, Ok(WakeUp::Acquired)));
    journal.expire(0);
    assert!(matches!(one.next().await, Ok(WakeUp::Lost)));
    assert!(matches!(other.next().await, Ok(WakeUp::Acquired)));
    journal.expire(0);
    assert!(matches!(other.next().await, Ok(WakeUp::Lost)));
    assert!(matches!(one.next().await, Ok(WakeUp::Acquired)));
}
