//! Records, registry and deliveries: in memory and on a nats-server alike.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{TimeDelta, Utc};
use devkit::NatsServer;
use webhooks::{
    deliveries::{Deliveries, REDELIVERIES_MAX},
    message::{Due, Outcome},
    queue::{Limits, Next},
    records::{Error, Records, memory::MemoryRecords, nats::NatsStreams},
    registry::{Bounds, Refusal, Registry},
    timetable::Timetable,
    webhook::{Disabled, Entry, Registration, Scope, WebhookOwner},
};

use events::ChainId;

use crate::support::{STREAM_BYTES, client, due, registration};

async fn on_both(test: impl AsyncFn(Arc<dyn Records>, Arc<dyn Records>, Arc<dyn Records>)) {
    test(Arc::<MemoryRecords>::default(), Arc::<MemoryRecords>::default(), Arc::<MemoryRecords>::default()).await;
    let server = NatsServer::open().await.unwrap();
    let NatsStreams { webhooks, deliveries, state } =
        NatsStreams::open(client(&server).await, 1, STREAM_BYTES).await.unwrap();
    test(Arc::new(webhooks), Arc::new(deliveries), Arc::new(state)).await;
    // A second gateway finds them as they are.
    NatsStreams::open(client(&server).await, 1, STREAM_BYTES).await.unwrap();
}

#[tokio::test]
async fn an_append_is_refused_where_another_came_first() {
    on_both(async |records, _, _| {
        let body = |text: &'static str| Bytes::from_static(text.as_bytes());
        let first = records.append("gw.webhook.a", Some(0), body("1")).await.unwrap();
        assert_eq!(records.append("gw.webhook.a", Some(0), body("2")).await, Err(Error::Conflict));
        let second = records.append("gw.webhook.a", Some(first), body("2")).await.unwrap();
        let third = records.append("gw.webhook.b", None, body("3")).await.unwrap();
        assert_eq!(
            records.last("gw.webhook.a").await.unwrap().map(|last| (last.sequence, last.body)),
            Some((second, body("2")))
        );
        assert_eq!(records.last("gw.webhook.c").await.unwrap(), None);
        assert_eq!(records.head().await.unwrap(), third);
        let read = records.read("gw.webhook.*", second, 9).await.unwrap();
        assert_eq!(read.iter().map(|record| record.sequence).collect::<Vec<_>>(), [second, third]);
        assert_eq!(records.read("gw.webhook.*", 1, 2).await.unwrap().len(), 2);
        assert_eq!(records.read("gw.webhook.b", third + 1, 9).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_registry_sees_what_another_gateway_registered_and_keeps_the_bounds() {
    on_both(async |records, _, _| {
        let bounds = Bounds { of_owner: 2, all: 30 };
        let (one, other) = (Registry::new(records.clone(), bounds), Registry::new(records, bounds));
        let first = one.register(registration("https://a.example/"), true, Utc::now()).await.unwrap();
        let second = other.register(registration("https://b.example/"), true, Utc::now()).await.unwrap();
        let third = one.register(registration("https://c.example/"), true, Utc::now()).await;
        assert_eq!(third, Err(Refusal::OwnerFull(2)));
        assert_eq!(one.of_owner("did:web:shop.example").await.unwrap().len(), 2);
        assert_eq!(one.of_owner("did:web:other.example").await.unwrap().len(), 0);

        let disabled = Disabled { at: Utc::now(), reason: "down".to_owned() };
        one.change(&second.id, &Entry::Disabled(disabled.clone()), |_| false).await.unwrap();
        other.catch_up().await.unwrap();
        assert_eq!(other.get(&second.id).unwrap().disabled, Some(disabled));
        one.change(&first.id, &Entry::Deleted { at: Utc::now() }, |_| false).await.unwrap();
        assert_eq!(other.change(&first.id, &Entry::Enabled { at: Utc::now() }, |_| false).await, Err(Refusal::Unknown));
        assert_eq!(other.of_owner("did:web:shop.example").await.unwrap().len(), 1);

        // Registering and deleting in a loop ends.
        let mut refused = false;
        for _ in 0..20 {
            match other.register(registration("https://d.example/"), true, Utc::now()).await {
                Ok(webhook) => other.change(&webhook.id, &Entry::Deleted { at: Utc::now() }, |_| false).await.unwrap(),
                Err(refusal) => refused = refusal == Refusal::OwnerFull(2),
            }
        }
        assert!(refused);
        // On another day it begins again.
        let tomorrow = Utc::now() + TimeDelta::days(2);
        assert!(other.register(registration("https://e.example/"), true, tomorrow).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn a_message_is_put_into_a_queue_once_however_often_its_commit_is_looked_at() {
    on_both(async |webhooks, records, state| {
        let registry = Registry::new(webhooks, Bounds { of_owner: 9, all: 9 });
        let webhook = registry.register(registration("https://a.example/"), true, Utc::now()).await.unwrap();
        let deliveries = Deliveries::new(records, state, 4);
        let messages = [due(&webhook, 1, 1), due(&webhook, 1, 4), due(&webhook, 2, 1)];
        for _ in 0..2 {
            for message in &messages {
                deliveries.enqueue(&webhook.id, message).await.unwrap();
            }
        }
        assert!(deliveries.enqueue_again(&webhook.id, &messages[0]).await.unwrap());
        // Also behind one that was asked for again.
        assert!(!deliveries.enqueue(&webhook.id, &messages[1]).await.unwrap());
        assert!(deliveries.enqueue(&webhook.id, &due(&webhook, 1, 6)).await.unwrap());
        let stored = deliveries.dues(&webhook.id, 1, 99).await.unwrap();
        let seen: Vec<_> = stored.iter().map(|stored| (stored.due.version, stored.due.redelivery)).collect();
        assert_eq!(seen, [(1, 0), (4, 0), (1, 0), (1, 1), (6, 0)]);
        assert_eq!(stored[3].due.id, messages[0].id);

        let before = Utc::now() - TimeDelta::hours(1);
        let found = deliveries.dues_between(&webhook.id, before, Utc::now(), 99).await.unwrap();
        assert_eq!(found.map(|found| found.len()), Some(4));
        let found = deliveries.dues_between(&webhook.id, before, Utc::now(), 1).await.unwrap();
        assert_eq!(found.map(|found| found.len()), Some(2), "one too many");
        let later = Utc::now() + TimeDelta::hours(1);
        assert_eq!(deliveries.dues_between(&webhook.id, later, later, 99).await.unwrap(), Some(vec![]));
    })
    .await;
}

#[tokio::test]
async fn a_queue_is_the_same_with_a_snapshot_and_without_one() {
    on_both(async |webhooks, records, state| {
        let registry = Registry::new(webhooks, Bounds { of_owner: 9, all: 9 });
        let webhook = registry.register(registration("https://a.example/"), true, Utc::now()).await.unwrap();
        let (deliveries, timetable) = (Deliveries::new(records, state, 4), Timetable::default());
        for payment in 0..200 {
            deliveries.enqueue(&webhook.id, &due(&webhook, payment, 1)).await.unwrap();
        }
        let open = async || deliveries.queue(&webhook.id, Limits::default(), &timetable).await.unwrap();
        let mut queue = open().await;
        assert_eq!((queue.outstanding(), queue.wanted()), (64, 0));
        for _ in 0..100 {
            let Next::Attempt(sequence) = queue.next(Utc::now()) else { panic!("{:?}", queue.next(Utc::now())) };
            let payment_id = queue.message(sequence).unwrap().0.payment_id.clone();
            let outcome = Outcome::Delivered { due: sequence, attempt: 1, at: Utc::now(), status: 204 };
            let stored = deliveries.record(&webhook.id, &payment_id, &outcome).await.unwrap();
            queue.record(stored, &outcome);
            deliveries.fill(&webhook.id, &mut queue).await.unwrap();
        }
        let without = open().await;
        deliveries.keep(&webhook.id, &queue.snapshot()).await.unwrap();
        let with = open().await;
        assert_eq!((with.outstanding(), without.outstanding()), (64, 64));
        assert_eq!(with.health().delivered, 100);
        assert_eq!(with.next(Utc::now()), without.next(Utc::now()));
        assert_eq!(with.snapshot(), without.snapshot());
    })
    .await;
}

#[tokio::test]
async fn cursors_are_kept() {
    on_both(async |_, records, state| {
        let deliveries = Deliveries::new(records, state, 4);
        assert_eq!(deliveries.cursor(3).await.unwrap(), None);
        deliveries.keep_cursor(3, 7).await.unwrap();
        deliveries.keep_cursor(3, 9).await.unwrap();
        assert_eq!((deliveries.cursor(3).await.unwrap(), deliveries.cursor(4).await.unwrap()), (Some(9), None));
    })
    .await;
}

fn of(owner: &str, chain: Option<u64>) -> Registration {
    let owner = WebhookOwner { originator: owner.to_owned(), chain: chain.map(ChainId::evm) };
    Registration { owner, url: "https://a.example/".to_owned(), scope: Scope::Owner, events: Vec::new() }
}

#[tokio::test]
async fn half_of_the_places_are_for_owners_with_a_payment() {
    let registry = Registry::new(Arc::<MemoryRecords>::default(), Bounds { of_owner: 1, all: 6 });
    let register = async |owner: &str, has_payment| registry.register(of(owner, None), has_payment, Utc::now()).await;
    for stranger in ["a", "b", "c"] {
        assert!(!registry.is_scarce().await.unwrap());
        register(stranger, false).await.unwrap();
    }
    assert!(registry.is_scarce().await.unwrap());
    assert_eq!(register("d", false).await, Err(Refusal::NoPayment));
    for payer in ["e", "f", "g"] {
        register(payer, true).await.unwrap();
    }
    assert_eq!(register("h", true).await, Err(Refusal::Full));
}

#[tokio::test]
async fn what_was_deleted_takes_places_for_a_day_and_twice_as_many_as_there_are_at_most() {
    let registry = Registry::new(Arc::<MemoryRecords>::default(), Bounds { of_owner: 1, all: 4 });
    for n in 0..8 {
        let webhook = registry.register(of(&format!("owner {n}"), None), true, Utc::now()).await.unwrap();
        registry.change(&webhook.id, &Entry::Deleted { at: Utc::now() }, |_| false).await.unwrap();
        registry.catch_up().await.unwrap();
        assert_eq!(registry.get(&webhook.id), None);
    }
    assert_eq!(registry.register(of("late", None), true, Utc::now()).await, Err(Refusal::Full));
    assert!(registry.is_empty() && registry.is_scarce().await.unwrap());
}

#[tokio::test]
async fn the_account_of_another_chain_is_another_owner() {
    let registry = Registry::new(Arc::<MemoryRecords>::default(), Bounds { of_owner: 1, all: 9 });
    let account = "eip155:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
    for chain in [Some(1), Some(10), None] {
        registry.register(of(account, chain), true, Utc::now()).await.unwrap();
        let again = registry.register(of(account, chain), true, Utc::now()).await;
        assert_eq!(again, Err(Refusal::OwnerFull(1)), "{chain:?}");
    }
    assert_eq!(registry.of_owner(account).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_webhook_that_cannot_be_read_is_left_out_alone() {
    let records = Arc::<MemoryRecords>::default();
    let registry = Registry::new(records.clone(), Bounds { of_owner: 9, all: 9 });
    let broken = registry.register(of("a", None), true, Utc::now()).await.unwrap();
    records.append(&format!("gw.webhook.{}", broken.id), None, Bytes::from_static(b"{}")).await.unwrap();
    let well = registry.register(of("a", None), true, Utc::now()).await.unwrap();
    assert_eq!(registry.all(), [well]);
}

#[tokio::test]
async fn a_message_is_put_into_a_queue_again_ten_times() {
    on_both(async |webhooks, records, state| {
        let registry = Registry::new(webhooks, Bounds { of_owner: 9, all: 9 });
        let webhook = registry.register(registration("https://a.example/"), true, Utc::now()).await.unwrap();
        let deliveries = Deliveries::new(records, state, 4);
        let (message, other) = (due(&webhook, 1, 1), due(&webhook, 1, 4));
        deliveries.enqueue(&webhook.id, &message).await.unwrap();
        for _ in 0..REDELIVERIES_MAX {
            assert!(deliveries.enqueue_again(&webhook.id, &message).await.unwrap());
        }
        assert!(!deliveries.enqueue_again(&webhook.id, &message).await.unwrap());
        deliveries.enqueue(&webhook.id, &other).await.unwrap();
        assert!(deliveries.enqueue_again(&webhook.id, &other).await.unwrap(), "each counts for itself");
        let of_payment = deliveries.dues_of(&webhook.id, &message.payment_id).await.unwrap();
        let counts: Vec<u32> = of_payment.iter().map(|stored| stored.due.redelivery).collect();
        assert_eq!(counts, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1]);
    })
    .await;
}

#[tokio::test]
async fn looking_for_a_time_ends_and_a_payment_is_read_wholly() {
    let (webhooks, records) = (Arc::<MemoryRecords>::default(), Arc::<MemoryRecords>::default());
    let registry = Registry::new(webhooks, Bounds { of_owner: 9, all: 9 });
    let webhook = registry.register(registration("https://a.example/"), true, Utc::now()).await.unwrap();
    let deliveries = Deliveries::new(records.clone(), Arc::<MemoryRecords>::default(), 4);
    let again = Due { redelivery: 1, ..due(&webhook, 1, 1) };
    let subject = format!("gw.delivery.{:02}.{}.due.{}", webhook.id.partition(4), webhook.id, again.payment_id);
    let body = Bytes::from(serde_json::to_vec(&again).unwrap());
    for _ in 0..64 * 256 {
        records.append(&subject, None, body.clone()).await.unwrap();
    }
    let original = due(&webhook, 1, 2);
    deliveries.enqueue(&webhook.id, &original).await.unwrap();
    let (from, until) = (Utc::now() - TimeDelta::hours(1), Utc::now());
    assert_eq!(deliveries.dues_between(&webhook.id, from, until, 99).await.unwrap(), None);
    let last = deliveries.dues_of(&webhook.id, &original.payment_id).await.unwrap().pop();
    assert_eq!(last.map(|last| last.due), Some(original));
}

#[tokio::test]
async fn a_full_stream_takes_nothing_more_and_says_so_at_once() {
    let server = NatsServer::open().await.unwrap();
    let streams = NatsStreams::open(client(&server).await, 1, 4_096).await.unwrap();
    let body = Bytes::from(vec![b'x'; 1_000]);
    let mut stored = 0;
    let refused = loop {
        match streams.deliveries.append("gw.delivery.00.a.due.b", None, body.clone()).await {
            Ok(sequence) => stored = sequence,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::Full);
    assert!((1..5).contains(&stored), "{stored}");
    assert_eq!(
        streams.deliveries.read("gw.delivery.>", 1, 9).await.unwrap().len() as u64,
        stored,
        "nothing was dropped"
    );
    assert_eq!(
        streams.webhooks.append("gw.webhook.a", Some(0), Bytes::from(vec![b'x'; 8_192])).await,
        Err(Error::Full)
    );
    // The state goes on: it holds the newest of each subject alone.
    streams.state.append("gw.delivery-state.a", None, Bytes::from(vec![b'x'; 8_192])).await.unwrap();
}
