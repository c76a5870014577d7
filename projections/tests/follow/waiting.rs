//! Waiting: for a payment to change, until the time is over, and for the status to move forward.

use super::*;

#[tokio::test]
async fn thousands_wait_for_their_payments_and_each_sees_its_own() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let running = Running::start(directory.path(), &journal);
    running.caught_up(&journal).await;
    let waiting: Vec<_> = (0..2_000)
        .map(|number| {
            let projections = running.projections.clone();
            tokio::spawn(async move {
                let (id, mut version) = (payment(number), 0);
                while version < 2 {
                    let view = projections.changed(&id, version, PATIENCE).await.unwrap();
                    assert!(view.payment_id == id && view.version > version);
                    version = view.version;
                }
            })
        })
        .collect();
    for round in 0..2 {
        for number in 0..2_000 {
            let id = payment(number);
            journal.push(&id, all_commits(&id)[round].clone());
        }
    }
    for waiter in waiting {
        waiter.await.unwrap();
    }
    running.stop().await;
}

#[tokio::test]
async fn waiting_ends_with_its_time() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let id = payment(0);
    let (shard, sequence) = journal.push(&id, vec![submitted(&id)]);
    let running = Running::start(directory.path(), &journal);
    running.caught_up(&journal).await;
    let short = Duration::from_millis(20);
    assert!(running.projections.changed(&id, 0, short).await.is_some(), "what is known is told at once");
    assert_eq!(running.projections.changed(&id, 1, short).await, None);
    assert_eq!(running.projections.changed(&payment(1), 0, short).await, None);
    assert!(!running.projections.wait_for(shard, sequence + 1, short).await);
    running.stop().await;
}

#[tokio::test]
async fn the_status_is_seen_to_move_forward_only() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let running = Running::start(directory.path(), &journal);
    running.caught_up(&journal).await;
    let id = payment(0);
    let watcher = tokio::spawn({
        let projections = running.projections.clone();
        async move {
            let (mut statuses, mut version) = (Vec::new(), 0);
            while let Some(view) = projections.changed(&payment(0), version, PATIENCE).await {
                assert!(view.version > version);
                version = view.version;
                statuses.push(view.status);
                if view.at_rest {
                    break;
                }
            }
            statuses
        }
    });
    for events in all_commits(&id) {
        let (shard, sequence) = journal.push(&id, events);
        assert!(running.projections.wait_for(shard, sequence, PATIENCE).await);
    }
    let mut statuses = watcher.await.unwrap();
    let rank = |status: &PaymentStatus| match status {
        PaymentStatus::Pending => 0,
        PaymentStatus::Finalizing => 1,
        PaymentStatus::Completed | PaymentStatus::Failed => 2,
    };
    assert!(statuses.is_sorted_by_key(rank), "{statuses:?}");
    assert_eq!(statuses.pop(), Some(PaymentStatus::Completed));
    running.stop().await;
}
