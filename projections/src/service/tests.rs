//! Projection store under faults: a database or a view that fails is replaced while it is in use.

use tempfile::TempDir;

use events::{
    CommitId, Did, Hash32, PaymentEvent,
    event::{AuctionClosed, AwardWithdrawn, QuoteAwarded, QuoteReceived, TransactionAbandoned, WithdrawalCause},
};
use journal::{Commit, Position, ShardLog, StreamStore, memory::MemoryJournal};

use super::*;
use crate::{
    entry::{INDEX_PREFIXES, RECORD_LISTS_PREFIX, RECORD_PREFIX},
    pages::PageBounds,
    payment_list::ListSlice,
    rebuild_status::Verdict,
    shards::ShardState,
    view::{PaymentStatus, test_support::submission},
};

const PATIENCE: Duration = Duration::from_secs(60);

async fn append(journal: &MemoryJournal, payment_id: &PaymentId, expected: Position, event: PaymentEvent) -> Position {
    append_all(journal, payment_id, expected, vec![event]).await
}

async fn append_all(
    journal: &MemoryJournal,
    payment_id: &PaymentId,
    expected: Position,
    events: Vec<PaymentEvent>,
) -> Position {
    let commit = Commit {
        stream_id: payment_id.into(),
        expected,
        commit_id: CommitId::random(),
        events: events.into_iter().map(Into::into).collect(),
        correlation: "test".to_owned(),
        causation: "test".to_owned(),
    };
    journal.append(&commit).await.unwrap().position
}

/// sled can fail in ways that only an empty database heals; the handle, its readers and its waiters outlive it.
#[tokio::test]
async fn a_database_that_fails_is_replaced_while_it_is_in_use() {
    let directory = TempDir::new().unwrap();
    let journal = MemoryJournal::new(2);
    let projections = Projections::open_searched(directory.path(), 2).unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn({
        let (projections, journal, shutdown) = (projections.clone(), Arc::new(journal.clone()), shutdown.clone());
        async move { projections.run(journal, shutdown).await }
    });
    let payments: Vec<_> = (0..40).map(|number| PaymentId::derive("payer", &number.to_string())).collect();
    let mut positions = Vec::new();
    for payment_id in &payments {
        positions.push(append(&journal, payment_id, Position::START, submission(payment_id)).await);
    }
    for (payment_id, position) in payments.iter().zip(&positions) {
        assert!(projections.wait_for(payment_id.shard(2), position.sequence, PATIENCE).await);
    }

    let broken = projections.model.store();
    let replacing = (Arc::clone(&projections.model), Arc::clone(&broken));
    let replaced = move || replacing.0.replace(&replacing.1);
    tokio::task::spawn_blocking(replaced.clone()).await.unwrap().unwrap();
    // Every shard that found the same fault asks for it; one replacement is enough.
    tokio::task::spawn_blocking(replaced).await.unwrap().unwrap();
    assert!(!directory.path().join("generation-1").exists());

    let waiting = tokio::spawn({
        let (projections, payment_id) = (projections.clone(), payments[0].clone());
        async move { projections.changed(&payment_id, 1, PATIENCE).await }
    });
    let abandoned = TransactionAbandoned { attempt: 1, evidence: String::new(), abandoned_at: chrono::Utc::now() };
    let next = append(&journal, &payments[0], positions[0], PaymentEvent::DepositAbandoned(abandoned)).await;
    assert_eq!(waiting.await.unwrap().map(|view| (view.version, view.sequence)), Some((2, next.sequence)));
    for shard in 0..2 {
        let head = journal.head(shard).await.unwrap();
        let mut status = projections.model.watch(shard).await;
        let live = status.wait_for(|status| status.state == ShardState::Live && status.checkpoint >= head);
        timeout(PATIENCE, live).await.unwrap().unwrap();
    }
    for payment_id in &payments {
        let view = projections.get(payment_id).unwrap().unwrap();
        assert_eq!(
            (view.status, Some(&view)),
            (PaymentStatus::Pending, PaymentView::fold(&journal.load(&payment_id.into()).await.unwrap()).as_ref())
        );
    }
    shutdown.cancel();
    task.await.unwrap().unwrap();
    drop((projections, broken));
    let reopened = Projections::open_searched(directory.path(), 2).unwrap();
    assert!(reopened.model.store().verify(0).unwrap().sequence > 0);
}

/// What a reader finds unreadable while the shard is live is found and built again.
#[tokio::test]
async fn a_view_that_turns_unreadable_is_built_again() {
    let directory = TempDir::new().unwrap();
    let journal = MemoryJournal::new(1);
    let payment_id = PaymentId::derive("payer", "order");
    append(&journal, &payment_id, Position::START, submission(&payment_id)).await;
    let projections = Projections::open_searched(directory.path(), 1).unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn({
        let (projections, journal, shutdown) = (projections.clone(), Arc::new(journal.clone()), shutdown.clone());
        async move { projections.run(journal, shutdown).await }
    });
    let mut status = projections.model.watch(0).await;
    timeout(PATIENCE, status.wait_for(|status| status.state == ShardState::Live)).await.unwrap().unwrap();
    projections.model.store().damage(0, &payment_id);
    assert_eq!(projections.get(&payment_id), Err(Unavailable::CatchingUp { shard: 0 }));
    timeout(PATIENCE, status.wait_for(|status| status.state == ShardState::Live)).await.unwrap().unwrap();
    assert_eq!(projections.get(&payment_id).unwrap().map(|view| view.version), Some(1));
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

/// Views without their keys would be payments that their owner, or an operator, does not see.
#[tokio::test]
async fn an_index_that_lacks_a_key_is_noticed() {
    for prefix in INDEX_PREFIXES {
        let (directory, journal) = (TempDir::new().unwrap(), MemoryJournal::new(1));
        let projections = Projections::open_searched(directory.path(), 1).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn({
            let (projections, journal, shutdown) = (projections.clone(), Arc::new(journal.clone()), shutdown.clone());
            async move { projections.run(journal, shutdown).await }
        });
        for number in 0..3 {
            let payment_id = PaymentId::derive("payer", &number.to_string());
            let position = append(&journal, &payment_id, Position::START, submission(&payment_id)).await;
            assert!(projections.wait_for(0, position.sequence, PATIENCE).await);
        }
        shutdown.cancel();
        task.await.unwrap().unwrap();
        let store = projections.model.store();
        assert!(store.verify(0).is_ok());
        store.lose_key(0, prefix);
        assert!(matches!(store.verify(0), Err(Fault::Damaged(_))), "{prefix}");
    }
}

/// A record that is lost, or is that of an earlier time, would be another settler's.
#[tokio::test]
async fn a_record_that_is_lost_or_altered_is_noticed_and_a_rebuild_compares_records() {
    let (directory, journal) = (TempDir::new().unwrap(), MemoryJournal::new(1));
    let projections = Projections::open_searched(directory.path(), 1).unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn({
        let (projections, journal, shutdown) = (projections.clone(), Arc::new(journal.clone()), shutdown.clone());
        async move { projections.run(journal, shutdown).await }
    });
    let (settler, now): (Did, _) = ("did:example:settler".parse().unwrap(), chrono::Utc::now());
    let payment_id = PaymentId::derive("payer", "order");
    let mut position = append(&journal, &payment_id, Position::START, submission(&payment_id)).await;
    let closed = AuctionClosed {
        addressed: vec![settler.clone()],
        quotes: vec![QuoteReceived {
            settler: settler.clone(),
            quote_hash: Hash32::ZERO,
            source_amount: "100".parse().unwrap(),
            fulfill_by: now,
        }],
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: now,
    };
    let awarded =
        QuoteAwarded { quote_id: String::new(), quote_hash: Hash32::ZERO, document: String::new(), awarded_at: now };
    let withdrawn = AwardWithdrawn { cause: WithdrawalCause::Unanswered, withdrawn_at: now };
    for events in [
        vec![PaymentEvent::AuctionClosed(closed), PaymentEvent::QuoteAwarded(Box::new(awarded))],
        vec![PaymentEvent::AwardWithdrawn(withdrawn)],
    ] {
        position = append_all(&journal, &payment_id, position, events).await;
    }
    assert!(projections.wait_for(0, position.sequence, PATIENCE).await);
    let mut status = projections.model.watch(0).await;
    timeout(PATIENCE, status.wait_for(|status| status.state == ShardState::Live)).await.unwrap().unwrap();
    let truth = projections.settler_record(&settler).unwrap().unwrap();
    assert_eq!((truth.asked, truth.won, truth.unanswered, truth.outcomes.len()), (1, 1, 1, 1));

    // Well formed, with the right sum, and untrue: only the fold of the stream can tell.
    projections.model.store().falsify_record(0, &settler);
    assert!(projections.model.store().verify(0).is_ok());
    assert_ne!(projections.settler_record(&settler).unwrap().as_ref(), Some(&truth));
    for is_equal in [false, true] {
        let rebuild = projections.begin_rebuild().unwrap();
        let verdicts = rebuild.run(Arc::new(journal.clone()), shutdown.clone()).await.unwrap();
        let expected = match is_equal {
            true => Verdict::Equal { sequence: position.sequence, streams: 1 },
            false => Verdict::Different { sequence: position.sequence, streams: Vec::new(), count: 0 },
        };
        assert_eq!(verdicts, [expected]);
        assert_eq!(projections.settler_record(&settler).unwrap().as_ref(), Some(&truth));
    }
    shutdown.cancel();
    task.await.unwrap().unwrap();

    for prefix in [RECORD_PREFIX, RECORD_LISTS_PREFIX] {
        let store = projections.model.store();
        assert!(store.verify(0).is_ok());
        let stored = store.lose_key(0, prefix);
        assert!(matches!(store.verify(0), Err(Fault::Damaged(_))), "{prefix}");
        store.put_back(0, stored);
    }
}

/// What is known of the other shards is worth more than no list at all.
#[tokio::test]
async fn a_shard_that_cannot_be_read_is_named_beside_the_payments_of_the_others() {
    let (directory, journal) = (TempDir::new().unwrap(), MemoryJournal::new(2));
    let projections = Projections::open_searched(directory.path(), 2).unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn({
        let (projections, journal, shutdown) = (projections.clone(), Arc::new(journal.clone()), shutdown.clone());
        async move { projections.run(journal, shutdown).await }
    });
    let payments: Vec<_> = (0..20).map(|number| PaymentId::derive("payer", &number.to_string())).collect();
    for payment_id in &payments {
        let position = append(&journal, payment_id, Position::START, submission(payment_id)).await;
        assert!(projections.wait_for(position.shard, position.sequence, PATIENCE).await);
    }
    for shard in 0..2 {
        let mut status = projections.model.watch(shard).await;
        timeout(PATIENCE, status.wait_for(|status| status.state == ShardState::Live)).await.unwrap().unwrap();
    }
    // Nobody heals what is damaged from here on.
    shutdown.cancel();
    task.await.unwrap().unwrap();
    let all = PageBounds { payments_max: 100, looks_max: 100 };
    let listed = || projections.listed(&ListSlice::default(), all, |_, _| true);
    let searched = || projections.search("eip155:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", 100);
    for page in [listed().unwrap(), searched().unwrap()] {
        assert_eq!((page.payments.len(), page.uncertain), (20, vec![]));
    }

    let of_shard = |shard| payments.iter().filter(move |payment_id| payment_id.shard(2) == shard);
    for damaged in of_shard(0) {
        projections.model.store().damage(0, damaged);
    }
    for page in [listed().unwrap(), searched().unwrap()] {
        assert_eq!((page.payments.len(), page.uncertain), (of_shard(1).count(), vec![0]));
        assert!(page.payments.iter().all(|(shard, _)| *shard == 1));
    }
    assert_eq!(projections.status(0).state, ShardState::Starting);
    for damaged in of_shard(1) {
        projections.model.store().damage(1, damaged);
    }
    for page in [listed(), searched()] {
        assert_eq!(page, Err(Unavailable::CatchingUp { shard: 0 }));
    }
}
