//! The conformance suite of [`OperatorActs`], which runs against any implementation.
//!
//! Call [`run`] from a test. A case that does not hold panics with its reason; this module is test code that lives here
//! so that the tests of other crates can use it.
#![doc(hidden)]
#![allow(clippy::missing_panics_doc, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use futures::future::join_all;

use events::time::Timestamp;

use super::{Act, ActId, Entry, Error, OperatorActs, Order, Origin, Outcome, PAGE_MAX, Recorded, latest};

/// Runs every case. Each call of `make` must give another handle on the same record, as another process would have.
pub async fn run<F, Fut>(make: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn OperatorActs>>,
{
    let (one, other) = (make().await, make().await);
    an_empty_record_says_so(&*one).await;
    an_order_and_its_end_are_read_newest_first(&*one, &*other).await;
    the_same_entry_is_recorded_once(&*one, &*other).await;
    another_entry_in_its_place_is_refused(&*one, &*other).await;
    of_many_ends_at_once_one_is_recorded([one.clone(), other.clone()]).await;
    pages_follow_each_other_without_a_gap(&*one, &*other).await;
}

/// An order unlike any other.
pub fn order(by: &str) -> Order {
    Order::new(at(1), by, Origin::CommandLine, None, Act::Pause { reason: Some("a fork".to_owned()) }).unwrap()
}

/// The end of an act.
pub fn end(id: &ActId, details: &str) -> Entry {
    Entry::Ended { id: id.clone(), at: at(2), outcome: Outcome::done(Some(details)) }
}

fn at(second: u32) -> Timestamp {
    format!("2026-01-02T03:04:{second:02}Z").parse().unwrap()
}

async fn newest(acts: &dyn OperatorActs, limit: usize) -> Vec<Entry> {
    acts.newest(None, limit).await.unwrap().into_iter().map(|recorded| recorded.entry).collect()
}

async fn an_empty_record_says_so(acts: &dyn OperatorActs) {
    assert_eq!(acts.newest(None, 10).await.unwrap(), []);
    assert_eq!(latest(acts, 10).await.unwrap(), []);
    assert_eq!(acts.newest(Some(0), 10).await.unwrap(), []);
}

async fn an_order_and_its_end_are_read_newest_first(one: &dyn OperatorActs, other: &dyn OperatorActs) {
    let order = order("alice");
    let ordered = Entry::Ordered(order.clone());
    let first = one.record(&ordered).await.unwrap();
    assert_eq!(newest(other, 1).await, std::slice::from_ref(&ordered));
    let shown = latest(other, 1).await.unwrap();
    assert_eq!((shown.len(), &shown[0].entry, &shown[0].end), (1, &ordered, &None), "its end is unknown");
    let ended = end(&order.id, "done");
    let second = other.record(&ended).await.unwrap();
    assert!(first < second);
    assert_eq!(newest(one, 2).await, [ended, ordered.clone()]);
    let shown = latest(one, 1).await.unwrap();
    assert_eq!((shown.len(), shown[0].sequence, &shown[0].entry), (1, first, &ordered));
    assert_eq!(shown[0].end.as_ref().unwrap().outcome, Outcome::done(Some("done")));
    assert_eq!(one.newest(None, 0).await.unwrap(), []);
}

async fn the_same_entry_is_recorded_once(one: &dyn OperatorActs, other: &dyn OperatorActs) {
    let order = order("bob");
    let (ordered, ended) = (Entry::Ordered(order.clone()), end(&order.id, "done"));
    let first = one.record(&ordered).await.unwrap();
    assert_eq!(other.record(&ordered).await.unwrap(), first);
    let second = one.record(&ended).await.unwrap();
    // Also when something followed it.
    assert_eq!(other.record(&ended).await.unwrap(), second);
    assert_eq!(other.record(&ordered).await.unwrap(), first);
    assert_eq!(newest(one, 2).await, [ended, ordered]);
}

async fn another_entry_in_its_place_is_refused(one: &dyn OperatorActs, other: &dyn OperatorActs) {
    let order = order("carol");
    assert_eq!(one.record(&end(&order.id, "done")).await, Err(Error::NotOrdered(order.id.clone())));
    one.record(&Entry::Ordered(order.clone())).await.unwrap();
    let forged = Entry::Ordered(Order { by: "mallory".to_owned(), ..order.clone() });
    assert!(matches!(other.record(&forged).await, Err(Error::Refused(_))));
    other.record(&end(&order.id, "done")).await.unwrap();
    assert!(matches!(one.record(&end(&order.id, "otherwise")).await, Err(Error::Refused(_))));
    assert!(matches!(other.record(&forged).await, Err(Error::Refused(_))));
    let nameless = Entry::Ordered(Order { by: "\u{7}".to_owned(), id: ActId::random(), ..order.clone() });
    assert!(matches!(one.record(&nameless).await, Err(Error::Refused(_))));
    assert_eq!(newest(one, 2).await, [end(&order.id, "done"), Entry::Ordered(order)]);
}

async fn of_many_ends_at_once_one_is_recorded(acts: [Arc<dyn OperatorActs>; 2]) {
    let order = order("dave");
    acts[0].record(&Entry::Ordered(order.clone())).await.unwrap();
    let tasks = (0..8).map(|n| {
        let (acts, ended) = (acts[n % 2].clone(), end(&order.id, &n.to_string()));
        tokio::spawn(async move { acts.record(&ended).await })
    });
    let outcomes: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(Error::Refused(_)))), "{outcomes:?}");
    let found = newest(&*acts[1], 3).await;
    assert_eq!(found.iter().filter(|entry| entry.id() == Some(&order.id)).count(), 2, "{found:?}");
}

async fn pages_follow_each_other_without_a_gap(one: &dyn OperatorActs, other: &dyn OperatorActs) {
    for _ in 0..PAGE_MAX {
        one.record(&Entry::Ordered(order("erin"))).await.unwrap();
    }
    let mut all: Vec<Recorded> = Vec::new();
    loop {
        let page = other.newest(all.last().map(|last| last.sequence), 7).await.unwrap();
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let sequences: Vec<u64> = all.iter().rev().map(|recorded| recorded.sequence).collect();
    assert_eq!(sequences, (1..=all.len() as u64).collect::<Vec<_>>());
    assert!(all.len() > PAGE_MAX);
    assert_eq!(other.newest(None, usize::MAX).await.unwrap(), all[..PAGE_MAX]);
    // Acts of several pages, of which the oldest have ends.
    let ended = all.iter().filter(|recorded| matches!(recorded.entry, Entry::Ended { .. })).count();
    let acts = latest(one, usize::MAX).await.unwrap();
    assert_eq!(acts.len(), all.len() - ended);
    assert_eq!(acts.iter().filter(|act| act.end.is_some()).count(), ended);
    assert_eq!(latest(one, 3).await.unwrap(), acts[..3]);
}
