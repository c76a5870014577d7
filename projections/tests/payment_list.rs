//! All payments: in order, in pages, out of all shards.

use std::{cmp::Reverse, sync::Arc};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use tempfile::TempDir;

use events::{PaymentEvent, PaymentId, event::Submitted};
use projections::{ListPage, ListSlice, PageBounds, PaymentView, Place, Projections};

use crate::support::*;

const SHARDS: u16 = 4;
/// More than there is.
const ALL: PageBounds = PageBounds { payments_max: 10_000, looks_max: 10_000 };

fn id(number: u64) -> PaymentId {
    PaymentId::derive("list", &number.to_string())
}

/// A payment that was submitted at `second`.
fn pays(journal: &Streams, number: u64, second: u64) {
    let PaymentEvent::Submitted(plain) = submitted(&id(number)) else { unreachable!() };
    let submission = Submitted { request_id: format!("order-{number}"), submitted_at: at(second), ..*plain };
    journal.push(id(number), vec![PaymentEvent::Submitted(Box::new(submission))]);
}

/// Payments of which several are of one second, and which come into the journal in another order.
fn fill(journal: &Streams, count: u64) {
    (0..count).for_each(|number| pays(journal, number, number * 7 % 40));
}

fn page(projections: &Projections, slice: &ListSlice, bounds: PageBounds) -> ListPage {
    projections.listed(slice, bounds, |_, _| true).unwrap()
}

fn places(page: &ListPage) -> Vec<Place> {
    page.payments.iter().map(|(_, view)| Place::of(view)).collect()
}

/// The places of all payments of the journal, newest first.
fn sorted(journal: &Streams) -> Vec<Place> {
    let views = journal.payments().into_iter().filter_map(|id| PaymentView::fold(&journal.commits_of(&id)));
    let mut places: Vec<Place> = views.map(|view| Place::of(&view)).collect();
    places.sort_by_key(|place| Reverse(place.clone()));
    places
}

#[tokio::test(flavor = "multi_thread")]
async fn all_payments_are_listed_newest_first_each_as_it_is() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let following = Following::start(directory.path(), &journal).await;
    let empty = ListPage { payments: Vec::new(), next: None, looked_at: 0, uncertain: Vec::new() };
    assert_eq!(page(&following.projections, &ListSlice::default(), ALL), empty);
    fill(&journal, 100);
    (0..100).step_by(3).for_each(|number| {
        journal.push(id(number), vec![auction_closed(&["s"], &[])]);
    });
    following.caught_up().await;
    let listed = page(&following.projections, &ListSlice::default(), ALL);
    assert_eq!(places(&listed), sorted(&journal));
    assert_eq!((listed.next, listed.looked_at, listed.uncertain), (None, 100, vec![]));
    for (shard, view) in listed.payments {
        assert_eq!(journal.shard_of(&view.payment_id), Some(shard));
        assert_eq!(PaymentView::fold(&journal.commits_of(&view.payment_id)), Some(view));
    }
    following.rebuilds_the_same().await;
    following.stop().await;
    let following = Following::start(directory.path(), &journal).await;
    assert_eq!(places(&page(&following.projections, &ListSlice::default(), ALL)), sorted(&journal));
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_go_on_where_they_ended_while_payments_are_added() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 60);
    let following = Following::start(directory.path(), &journal).await;
    let (before, mut number) = (sorted(&journal), 1_000);
    for payments_max in [1, 7, 60] {
        let (mut slice, mut listed) = (ListSlice::default(), Vec::new());
        loop {
            let page = page(&following.projections, &slice, PageBounds { payments_max, looks_max: 10_000 });
            assert!(page.payments.len() <= payments_max);
            listed.extend(places(&page));
            // One that is newer than all, and one in the midst of what is there.
            for second in [number, 20] {
                number += 1;
                pays(&journal, number, second);
            }
            following.caught_up().await;
            let Some(next) = page.next else { break };
            slice.before = Some(next);
        }
        assert!(listed.is_sorted_by(|one, next| one > next), "each once, newest first");
        assert!(before.iter().all(|place| listed.contains(place)));
    }
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_takes_nothing_is_bounded_and_comes_to_the_end() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 50);
    let following = Following::start(directory.path(), &journal).await;
    let (mut slice, mut looks, mut pages) = (ListSlice::default(), 0, 0);
    loop {
        let bounds = PageBounds { payments_max: 10, looks_max: 8 };
        let page = following.projections.listed(&slice, bounds, |_, _| false).unwrap();
        assert!(page.payments.is_empty() && page.looked_at <= 8);
        (looks, pages) = (looks + page.looked_at, pages + 1);
        let Some(next) = page.next else { break };
        slice.before = Some(next);
    }
    assert_eq!((looks, pages), (50, 7));
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_that_are_not_live_are_named_and_shown_as_they_were() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 50);
    Following::start(directory.path(), &journal).await.stop().await;
    pays(&journal, 1_000, 1_000);
    // Nobody follows yet.
    let projections = Projections::open_searched(directory.path(), SHARDS).unwrap();
    let listed = page(&projections, &ListSlice::default(), ALL);
    assert_eq!(places(&listed), sorted(&journal)[1..]);
    assert_eq!(listed.uncertain, [0, 1, 2, 3]);
    assert_eq!(projections.search("order-1", 100).unwrap().uncertain, [0, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_cannot_be_read_any_more_is_not_listed() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 50);
    let (shard, _) = journal.push(id(9), vec![auction_closed(&["s"], &[])]);
    journal.set_unreadable(shard, journal.head_of(shard));
    let expected: Vec<Place> = sorted(&journal).into_iter().filter(|place| place.payment_id != id(9)).collect();
    let mut replays_before = None;
    for _ in 0..2 {
        let following = Following::start(directory.path(), &journal).await;
        assert_eq!(places(&page(&following.projections, &ListSlice::default(), ALL)), expected);
        assert_eq!(following.projections.search(id(9).as_str(), 10).unwrap().payments, []);
        assert_eq!(following.projections.search("order-9", 10).unwrap().payments, []);
        following.stop().await;
        // The second start finds that what is stored is sound: no index has anything of what has no view.
        let replays = journal.replays_from_the_start();
        assert_eq!(*replays_before.get_or_insert(replays), replays);
    }
}

/// Whatever is asked for, in pages of whatever size: what a plain sort and filter of all payments finds.
#[test]
fn any_slice_in_any_pages_is_that_of_a_plain_sort() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 200);
    let following = runtime.block_on(Following::start(directory.path(), &journal));
    let all = sorted(&journal);
    let asked = (
        prop::option::of(0..200usize),
        prop::option::of(0..45u64),
        prop::option::of(0..45u64),
        1..70usize,
        1..70usize,
        1..6u64,
    );
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let run = runner.run(&asked, |(before, from, until, payments_max, looks_max, every)| {
        let is_taken = |place: &Place| (place.submitted_ms / 1_000).is_multiple_of(every);
        let mut slice =
            ListSlice { before: before.map(|index| all[index].clone()), from: from.map(at), until: until.map(at) };
        let within = |place: &&Place| {
            slice.before.as_ref().is_none_or(|before| *place < before)
                && slice.from.is_none_or(|from| place.submitted_ms >= from.timestamp_millis() as u64)
                && slice.until.is_none_or(|until| place.submitted_ms < until.timestamp_millis() as u64)
        };
        let expected: Vec<Place> = all.iter().filter(within).filter(|place| is_taken(place)).cloned().collect();
        let mut listed = Vec::new();
        loop {
            let bounds = PageBounds { payments_max, looks_max };
            let page = following.projections.listed(&slice, bounds, |_, view| is_taken(&Place::of(view))).unwrap();
            prop_assert!(page.payments.len() <= payments_max && page.looked_at <= looks_max);
            listed.extend(places(&page));
            let Some(next) = page.next else { break };
            slice.before = Some(next);
        }
        prop_assert_eq!(listed, expected);
        Ok(())
    });
    runtime.block_on(following.stop());
    run.unwrap();
}
