//! Delivery: order, back-off, dead letters, bulkheads, and what outlives a gateway.

use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use devkit::NatsServer;
use webhooks::{
    desk::{RedeliveryError, Selection},
    queue::Answer,
};

use crate::support::{Gateway, SetEndpoints, eventually, failed, url};

/// Long pauses: what is retried in these tests is retried by another gateway.
const SLOW: &[u64] = &[60_000, 60_000];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_in_order_and_the_queue_is_empty_then() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, SLOW).await;
    let (url, other) = (url("shop"), url("other"));
    let (webhook, second) = (gateway.register(&url).await, gateway.register(&other).await);
    let mut messages = Vec::new();
    for version in [1, 4, 6, 7] {
        messages.push(gateway.enqueue(&webhook, 1, version).await);
    }
    let elsewhere = gateway.enqueue(&second, 1, 1).await;
    gateway.until_told(&url, &messages.iter().collect::<Vec<_>>()).await;
    gateway.until_told(&other, &[&elsewhere]).await;
    eventually(async || {
        let state = gateway.desk.state(webhook.clone()).await.unwrap();
        state.waiting == 0 && state.health.delivered == 4
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_that_was_killed_had_not_recorded_comes_again_and_nothing_else() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let first = Gateway::start(&server, &endpoints, SLOW).await;
    let url = url("shop");
    let webhook = first.register(&url).await;
    let taken = first.enqueue(&webhook, 1, 1).await;
    first.until_told(&url, &[&taken]).await;
    eventually(async || first.desk.state(webhook.clone()).await.unwrap().waiting == 0).await;
    endpoints.set(&url, failed());
    let refused = first.enqueue(&webhook, 1, 2).await;
    first.until_told(&url, &[&taken, &refused]).await;
    first.kill().await;
    endpoints.set(&url, Answer::Taken { status: 200 });

    let second = Gateway::start(&server, &endpoints, SLOW).await;
    let later = second.enqueue(&webhook, 1, 3).await;
    let other = second.enqueue(&webhook, 2, 1).await;
    // Where the failure was recorded, the retry has its time, and the later message of the payment waits for it; that of the other
    // payment does not.
    eventually(async || endpoints.told(&url).contains(&other.id.to_string())).await;
    let told = endpoints.told(&url);
    let first_of = |id: &str| told.iter().skip(2).position(|told| told == id);
    if let Some(index) = first_of(later.id.as_str()) {
        assert!(first_of(refused.id.as_str()).is_some_and(|refused| refused < index), "{told:?}");
    }
    assert_eq!(told.iter().filter(|id| **id == taken.id.to_string()).count(), 1, "{told:?}");
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_never_taken_is_a_dead_letter_until_it_is_asked_for_again() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, &[10, 10]).await;
    let url = url("shop");
    endpoints.set(&url, failed());
    let webhook = gateway.register(&url).await;
    let message = gateway.enqueue(&webhook, 1, 1).await;
    let state = async || gateway.desk.state(webhook.clone()).await.unwrap();
    eventually(async || state().await.dead.len() == 1).await;
    let letter = state().await.dead.remove(0);
    assert_eq!((letter.id, letter.attempts, letter.error.as_str()), (message.id.clone(), 3, "answered 500"));
    assert_eq!(endpoints.told(&url).len(), 3);

    endpoints.set(&url, Answer::Taken { status: 204 });
    for selection in [
        Selection::Dead,
        Selection::Messages(vec![message.id.clone()]),
        Selection::Payment(message.payment_id.clone()),
        Selection::Between(Utc::now() - TimeDelta::hours(1), Utc::now()),
    ] {
        let before = endpoints.told(&url).len();
        let found = gateway.desk.select(&webhook, &selection, 10).await.unwrap();
        assert_eq!(found.len(), 1, "{selection:?}");
        gateway.desk.redeliver(&webhook, found).await.unwrap();
        eventually(async || endpoints.told(&url).len() > before).await;
        assert_eq!(endpoints.told(&url).last().map(String::as_str), Some(message.id.as_str()), "the id that it had");
    }
    eventually(async || state().await.health.delivered == 4).await;
    assert!(state().await.dead.is_empty());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_gone_is_disabled_and_what_waits_comes_when_it_is_enabled() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, SLOW).await;
    let url = url("shop");
    endpoints.set(&url, Answer::Gone);
    let webhook = gateway.register(&url).await;
    let first = gateway.enqueue(&webhook, 1, 1).await;
    let disabled = async || {
        gateway.registry.catch_up().await.unwrap();
        gateway.registry.get(&webhook.id).unwrap().disabled.is_some()
    };
    eventually(disabled).await;
    let second = gateway.enqueue(&webhook, 1, 2).await;
    gateway.enqueue(&webhook, 2, 1).await;
    endpoints.set(&url, Answer::Taken { status: 200 });
    assert_eq!(gateway.desk.state(webhook.clone()).await.unwrap().waiting, 2);
    let dead = gateway.desk.select(&webhook, &Selection::Dead, 10).await.unwrap();
    gateway.desk.redeliver(&webhook, dead).await.unwrap();
    eventually(async || endpoints.told(&url).len() == 4).await;
    let told = endpoints.told(&url);
    let position = |id: &str| told.iter().rposition(|told| told == id).unwrap();
    // What was asked for again comes behind what waits.
    assert!(position(second.id.as_str()) < position(first.id.as_str()), "{told:?}");
    assert!(!disabled().await);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_fails_holds_up_no_other() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, SLOW).await;
    let (dead, alive) = (url("dead"), url("alive"));
    endpoints.set(&dead, failed());
    let (broken, well) = (gateway.register(&dead).await, gateway.register(&alive).await);
    for payment in 0..100 {
        gateway.enqueue(&broken, payment, 1).await;
    }
    let message = gateway.enqueue(&well, 1, 1).await;
    gateway.until_told(&alive, &[&message]).await;
    // Of a hundred messages a handful was tried before the endpoint was only probed.
    eventually(async || gateway.desk.state(broken.clone()).await.unwrap().health.failures >= 5).await;
    let state = gateway.desk.state(broken.clone()).await.unwrap();
    assert!(state.health.resume_at.is_some() && endpoints.told(&dead).len() < 20, "{:?}", state.health);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_delivered_to_a_webhook_that_was_deleted() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, SLOW).await;
    let (gone, kept) = (url("gone"), url("kept"));
    let (deleted, webhook) = (gateway.register(&gone).await, gateway.register(&kept).await);
    gateway.desk.delete(&deleted.id).await.unwrap();
    gateway.desk.delete(&deleted.id).await.unwrap();
    assert!(gateway.desk.find(&deleted.id, None).await.is_err());
    gateway.enqueue(&deleted, 1, 1).await;
    let message = gateway.enqueue(&webhook, 1, 1).await;
    gateway.until_told(&kept, &[&message]).await;
    assert!(endpoints.told(&gone).is_empty());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_courier_that_panicked_begins_again() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, SLOW).await;
    let url = url("shop");
    endpoints.panic_once(&url);
    let webhook = gateway.register(&url).await;
    let message = gateway.enqueue(&webhook, 1, 1).await;
    gateway.until_told(&url, &[&message]).await;
    assert!(!endpoints.panics(&url));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_asked_for_again_without_bound() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, SLOW).await;
    let (shop, dead) = (url("shop"), url("dead"));
    let webhook = gateway.register(&shop).await;
    let message = gateway.enqueue(&webhook, 1, 1).await;
    let selection = Selection::Messages(vec![message.id.clone()]);
    let again = async || {
        let found = gateway.desk.select(&webhook, &selection, 10).await.unwrap();
        gateway.desk.redeliver(&webhook, found).await
    };
    for _ in 0..10 {
        assert_eq!(again().await.unwrap().len(), 1);
    }
    assert_eq!(again().await, Err(RedeliveryError::TooOften));
    eventually(async || endpoints.told(&shop).len() == 11).await;

    // While too much waits, there is nothing to be added.
    endpoints.set(&dead, failed());
    let broken = gateway.register(&dead).await;
    let mut last = Vec::new();
    for payment in 0..100 {
        last = vec![gateway.enqueue(&broken, payment, 1).await.id];
    }
    let found = gateway.desk.select(&broken, &Selection::Messages(last), 10).await.unwrap();
    assert_eq!(gateway.desk.redeliver(&broken, found).await, Err(RedeliveryError::QueueFull));
    gateway.stop().await;
}
