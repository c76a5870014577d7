//! The fold of one batch's events, without storage, and of a payment that came out of it.

use crate::support::*;
use events::{Event, PaymentEvent, PaymentId, QuoteRequestEvent, QuoteRequestId, event::CollectedQuote};
use projections::{Applied, DeclineCount, PaymentView, QuoteRequestStatus as Status, QuoteRequestView};

fn id() -> QuoteRequestId {
    QuoteRequestId::derive("payer", "batch-1")
}

fn view(events: Vec<QuoteRequestEvent>) -> QuoteRequestView {
    let commits = events.into_iter().map(|event| vec![event]).collect();
    QuoteRequestView::fold(&history(id(), commits)).unwrap()
}

#[test]
fn nothing_is_shown_of_what_was_not_opened() {
    assert_eq!(QuoteRequestView::fold(&[]), None);
    assert_eq!(QuoteRequestView::fold(&history(id(), vec![vec![collected(&[30], &[])]])), None);
    let payment = PaymentId::derive("payer", "order-1");
    assert_eq!(QuoteRequestView::fold(&history(&payment, vec![vec![submitted(&payment)]])), None);
    assert_eq!(PaymentView::fold(&history(id(), vec![vec![opened(&id())]])), None);
}

#[test]
fn while_collecting_nothing_is_known_of_the_auction_and_the_deadlines_are_as_they_came() {
    let view = view(vec![opened(&id())]);
    assert_eq!((view.status(at(500)), view.at_rest, view.version), (Status::Collecting, false, 1));
    assert_eq!((&view.terms, view.terms_hash, view.request_id.as_str()), (&terms(), terms().hash(), "batch-1"));
    assert_eq!((view.quote_deadline, view.quote_deadline_text.as_str()), (at(10), "2027-01-15T08:00:10+00:00"));
    assert_eq!(view.fulfillment_deadline_text, "2027-01-15T09:01:40.0+01:00");
    assert_eq!((&view.requested_count, &view.declines, &view.quotes, &view.award), (&None, &None, &None, &None));
}

#[test]
fn collected_quotes_are_shown_in_their_order_and_lapse_with_the_last() {
    let view = view(vec![opened(&id()), collected(&[30, 40], &[("x", "BUSY"), ("y", "BUSY")])]);
    assert_eq!((view.requested_count, view.at_rest, view.updated_at), (Some(4), true, at(2)));
    assert_eq!(view.declines, Some(vec![DeclineCount { reason: "BUSY".to_owned(), count: 2 }]));
    let quotes = view.quotes.as_ref().unwrap();
    assert_eq!(quotes.iter().map(|quote| quote.quote_id.as_str()).collect::<Vec<_>>(), ["quo_0", "quo_1"]);
    assert_eq!((quotes[1].valid_until, quotes[1].document.as_str()), (at(40), r#"{"n":1}"#));
    for (seconds, status) in [(11, Status::Ready), (31, Status::Ready), (40, Status::Ready), (41, Status::Expired)] {
        assert_eq!(view.status(at(seconds)), status, "{seconds}");
    }
}

#[test]
fn a_batch_without_quotes_stays_ready() {
    let view = view(vec![opened(&id()), collected(&[], &[])]);
    assert_eq!((view.status(at(100_000)), view.quotes), (Status::Ready, Some(vec![])));
}

#[test]
fn an_awarded_batch_stays_awarded() {
    let view = view(vec![opened(&id()), collected(&[30], &[]), batch_awarded("quo_0")]);
    assert_eq!((view.status(at(20)), view.status(at(31)), view.at_rest), (Status::Awarded, Status::Awarded, true));
    let award = view.award.unwrap();
    assert_eq!((award.quote_id.as_str(), award.payment_id), ("quo_0", PaymentId::derive("payer", "award-1")));
}

#[test]
fn commits_are_taken_once_in_order_and_of_this_batch_alone() {
    let events = vec![vec![opened(&id())], vec![collected(&[30], &[])], vec![batch_awarded("quo_0")]];
    let commits = history(id(), events.clone());
    let mut view = QuoteRequestView::begin(&commits[0]).unwrap();
    assert_eq!(view.apply(&commits[2]), Applied::Gap);
    assert_eq!(view.apply(&history(QuoteRequestId::derive("payer", "other"), events)[1]), Applied::Skipped);
    for commit in &commits[1..] {
        assert_eq!((view.apply(commit), view.apply(commit)), (Applied::Next, Applied::Skipped));
    }
    assert_eq!(Some(view), QuoteRequestView::fold(&commits));
}

#[test]
fn a_payment_out_of_a_batch_names_it_and_has_no_declines_of_its_own() {
    let payment_id = PaymentId::derive("payer", "award-1");
    let PaymentEvent::Submitted(mut first) = submitted(&payment_id) else { unreachable!() };
    first.collected_quote = Some(CollectedQuote { quote_request_id: id(), quote_id: "quo_0".to_owned() });
    let first: Vec<Event> = vec![PaymentEvent::Submitted(first).into(), awarded().into()];
    let view = PaymentView::fold(&history(&payment_id, vec![first])).unwrap();
    assert_eq!((view.quote_request_id, view.requested_count, view.declines), (Some(id()), None, None));
    assert!(view.quote.is_some() && !view.at_rest);
}
