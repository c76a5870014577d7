//! Epochs: a worker drives the streams of its own shard, in every epoch that is not sealed.

use super::*;

#[tokio::test]
async fn old_and_new_epochs_are_driven_at_once() {
    let test = TestWorld::new();
    let (before, after, bad) = (payment(1), payment(2), payment(3));
    let process = Process::start(&test, "one");
    test.harm(&before, Harm::Transient(u32::MAX));
    test.submit(&before).await;
    test.world.journal.rotate(SHARDS * 2);
    test.submit(&after).await;
    test.ends(&after).await;
    assert!(test.shard_of(&before).await < SHARDS && test.shard_of(&after).await >= SHARDS);

    // What is parked in a new epoch is replayed there.
    test.harm(&bad, Harm::Panics);
    test.submit(&bad).await;
    test.parks(&bad, 1).await;
    test.heal(&bad);
    test.replay(&bad).await;
    test.ends(&bad).await;

    test.heal(&before);
    test.ends(&before).await;
    process.stop().await;
}

#[tokio::test]
async fn a_stream_is_driven_by_the_worker_of_the_shard_in_which_it_lies() {
    let test = TestWorld::new();
    test.world.journal.rotate(SHARDS * 2);
    let payment = payment(1);
    test.submit(&payment).await;
    // The workers of both epochs are told of it, and both have looked at it before the first gets on.
    test.harm(&payment, Harm::Awaits(2));
    let process = Process::start(&test, "one");
    test.ends(&payment).await;
    assert_eq!(test.gathers_of(&payment), 1);
    process.stop().await;
}

#[tokio::test]
async fn a_shard_that_is_sealed_is_given_up() {
    let test = TestWorld::new();
    test.world.journal.rotate(1);
    let process = Process::start(&test, "one");
    let payment = payment(1);
    test.submit(&payment).await;
    test.ends(&payment).await;
    let journal = test.world.journal.clone();
    let (mut old, mut new) = (journal.work(0, "other").await, journal.work(SHARDS, "other").await);
    assert!(tokio::time::timeout(LOOK_EVERY * 10, old.next()).await.is_err());
    test.sealed.store(true, Ordering::SeqCst);
    let acquired = tokio::time::timeout(PATIENCE, old.next()).await.expect("it is given up in time");
    assert!(matches!(acquired, Ok(WakeUp::Acquired)), "{acquired:?}");
    assert!(tokio::time::timeout(LOOK_EVERY * 10, new.next()).await.is_err());
    process.stop().await;
}
