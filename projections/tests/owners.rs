//! The payments of an owner: in order, in pages, out of all shards, and after restarts and rebuilds the same.

use std::sync::Arc;

use tempfile::TempDir;

use events::{OwnedAsset, PaymentEvent, PaymentId, Terms, event::Submitted};
use projections::{OwnedPage, OwnedSlice, PageBounds, PaymentView, Place, Projections, Unavailable};

use crate::support::*;

const SHARDS: u16 = 4;
const ALICE: &str = "0x90f79bf6eb2c4f870365e785982e1f101e93b906";
const SHOP: &str = "did:example:shop";
/// More than there is.
const ALL: PageBounds = PageBounds { payments_max: 10_000, looks_max: 10_000 };

fn page(following: &Following, slice: &OwnedSlice, bounds: PageBounds) -> OwnedPage {
    following.projections.owned(slice, bounds, |_, _| true).unwrap()
}

/// The numbers of an owner's payments.
fn owned(following: &Following, owner: &str) -> Vec<u64> {
    numbers(&page(following, &of(owner), ALL))
}

fn of(owner: &str) -> OwnedSlice {
    OwnedSlice { owner: owner.to_owned(), before: None, from: None, until: None }
}

fn numbers(page: &OwnedPage) -> Vec<u64> {
    page.payments.iter().map(|(_, view)| view.request_id.parse().unwrap()).collect()
}

fn id(number: u64) -> PaymentId {
    PaymentId::derive("owners", &number.to_string())
}

/// A payment by `account`, submitted at second `number`.
fn pays(journal: &Streams, account: &str, originator: Option<&str>, number: u64) {
    let PaymentEvent::Submitted(plain) = submitted(&id(number)) else { unreachable!() };
    let source = OwnedAsset::new(plain.terms.source.asset().clone(), account).unwrap();
    let originator = originator.map_or_else(|| source.account().originator(), str::to_owned);
    let terms = Terms::new(source, plain.terms.destination().to_vec(), plain.terms.fulfillment_amount, None);
    let submission =
        Submitted { request_id: number.to_string(), originator, terms, submitted_at: at(number), ..*plain };
    journal.push(id(number), vec![PaymentEvent::Submitted(Box::new(submission))]);
}

/// Payments 0 to 59: every third is Alice's, and of those every other in the name of the shop.
fn fill(journal: &Streams) {
    for number in 0..60 {
        let account = if number % 3 == 0 { ALICE } else { ACCOUNT };
        pays(journal, account, (number % 6 == 0).then_some(SHOP), number);
        if number % 4 == 0 {
            journal.push(id(number), vec![auction_closed(&["s"], &[])]);
        }
    }
}

fn alice() -> String {
    format!("eip155:{ALICE}")
}

fn expected(step: usize) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..60).step_by(step).collect();
    numbers.reverse();
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_has_his_payments_newest_first() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    let following = Following::start(directory.path(), &journal).await;
    assert_eq!(owned(&following, &alice()), expected(3));
    assert_eq!(owned(&following, SHOP), expected(6));
    for nobody in ["", "eip155:", "did:example:shop2", "eip155:0x90F79bf6EB2c4f870365E785982E1f101E93b906"] {
        assert_eq!(owned(&following, nobody), Vec::<u64>::new(), "{nobody}");
    }
    let views: Vec<PaymentView> =
        page(&following, &of(&alice()), ALL).payments.into_iter().map(|(_, view)| view).collect();
    for view in &views {
        assert_eq!(PaymentView::fold(&journal.commits_of(&view.payment_id)).as_ref(), Some(view));
    }
    // What is indexed once is not again by later commits.
    journal.push(id(3), vec![auction_closed(&["s"], &[])]);
    following.caught_up().await;
    assert_eq!(owned(&following, &alice()), expected(3));
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_go_on_where_they_ended_whatever_comes_meanwhile() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    let following = Following::start(directory.path(), &journal).await;
    for payments_max in [1, 7, 20] {
        let (mut slice, mut listed) = (of(&alice()), Vec::new());
        loop {
            let page = page(&following, &slice, PageBounds { payments_max, looks_max: 10_000 });
            assert!(page.payments.len() <= payments_max);
            listed.extend(numbers(&page));
            pays(&journal, ALICE, None, 1_000 + 100 * payments_max as u64 + listed.len() as u64);
            following.caught_up().await;
            let Some(next) = page.next else { break };
            slice.before = Some(next);
        }
        let old: Vec<u64> = listed.iter().copied().filter(|number| *number < 60).collect();
        assert_eq!(old, expected(3));
        let mut once = listed.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), listed.len(), "{listed:?}");
    }
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_bound_a_slice_and_looks_bound_a_page() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    let following = Following::start(directory.path(), &journal).await;
    let slice =
        |from: Option<u64>, until: Option<u64>| OwnedSlice { from: from.map(at), until: until.map(at), ..of(&alice()) };
    for (from, until, expected) in [
        (Some(51), None, vec![57, 54, 51]),
        (None, Some(9), vec![6, 3, 0]),
        (Some(10), Some(16), vec![15, 12]),
        (Some(16), Some(10), vec![]),
        (Some(12), Some(12), vec![]),
        (Some(1_000), None, vec![]),
    ] {
        assert_eq!(numbers(&page(&following, &slice(from, until), ALL)), expected, "{from:?} {until:?}");
    }
    // A cursor from elsewhere stays within the slice.
    let made_up = |submitted_ms| Place { submitted_ms, payment_id: id(0) };
    for (place, count) in [(made_up(0), 0), (made_up(u64::MAX), 20)] {
        let page = page(&following, &OwnedSlice { before: Some(place), ..of(&alice()) }, ALL);
        assert_eq!(page.payments.len(), count);
    }

    // A filter that takes nothing looks at so many for a page, and gets to the end in pages.
    let (mut slice, mut looks, mut pages) = (of(&alice()), 0, 0);
    loop {
        let bounds = PageBounds { payments_max: 10, looks_max: 3 };
        let mut on_page = 0;
        let page = following.projections.owned(&slice, bounds, |_, _| {
            on_page += 1;
            false
        });
        let page = page.unwrap();
        assert!(page.payments.is_empty() && on_page <= 3);
        (looks, pages) = (looks + on_page, pages + 1);
        let Some(next) = page.next else { break };
        slice.before = Some(next);
    }
    assert_eq!((looks, pages), (20, 7));
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_outlives_restarts_and_is_rebuilt_the_same() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let following = Following::start(directory.path(), &journal).await;
    assert_eq!(owned(&following, &alice()), Vec::<u64>::new());
    fill(&journal);
    following.caught_up().await;
    following.stop().await;
    let following = Following::start(directory.path(), &journal).await;
    assert_eq!(owned(&following, &alice()), expected(3));
    following.rebuilds_the_same().await;
    assert_eq!(owned(&following, &alice()), expected(3));
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_would_lack_a_shard_is_not_shown() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    let projections = Projections::open_searched(directory.path(), SHARDS).unwrap();
    // Nobody follows yet.
    let read = projections.owned(&of(&alice()), ALL, |_, _| true);
    assert!(matches!(read, Err(Unavailable::CatchingUp { .. })), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_cannot_be_read_any_more_is_not_listed() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    let following = Following::start(directory.path(), &journal).await;
    let shard = journal.shard_of(id(57)).unwrap();
    journal.push(id(57), vec![auction_closed(&["s"], &[])]);
    following.caught_up().await;
    following.stop().await;
    // A message in the middle of another history of the same payment.
    let directory = TempDir::new().unwrap();
    journal.set_unreadable(shard, journal.head_of(shard));
    let following = Following::start(directory.path(), &journal).await;
    assert_eq!(owned(&following, &alice()), expected(3)[1..]);
    following.stop().await;
}
