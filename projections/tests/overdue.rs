//! Overdue payments.

use std::time::Duration;

use events::{PaymentEvent, PaymentId, event::RefundDue, time::Timestamp};
use projections::{OverdueStage, PaymentView, overdue};

use crate::support::*;

/// The windows of the payments here, in seconds after their submission.
const RESERVE: u64 = 50;
const FULFILLMENT: u64 = 100;
const REFUND_AFTER: u64 = 200;
const GRACE: u64 = 30;

fn payment() -> PaymentId {
    PaymentId::derive("payer", "order-1")
}

fn view(events: Vec<PaymentEvent>) -> PaymentView {
    let begun = matches!(events.first(), Some(PaymentEvent::Submitted(_)));
    let all = if begun { events } else { [vec![submitted(&payment())], events].concat() };
    PaymentView::fold(&history(payment(), all.into_iter().map(|event| vec![event]).collect())).unwrap()
}

fn stage(view: &PaymentView, now: Timestamp) -> Option<OverdueStage> {
    overdue(view, 0, now, Duration::from_secs(GRACE)).map(|found| found.stage)
}

/// Checks that the payment becomes overdue right after `second`, and stays so.
fn becomes(events: Vec<PaymentEvent>, expected: OverdueStage, second: u64) -> projections::Overdue {
    let view = view(events);
    for early in [0, second / 2, second] {
        assert_eq!(stage(&view, at(early)), None, "{early}");
    }
    for late in [second + 1, second + 1_000, 1_000_000] {
        assert_eq!(stage(&view, at(late)), Some(expected), "{late}");
    }
    overdue(&view, 0, at(second + 1), Duration::from_secs(GRACE)).unwrap()
}

fn auction() -> Vec<PaymentEvent> {
    vec![auction_closed(&["a"], &[]), awarded()]
}

fn in_escrow() -> Vec<PaymentEvent> {
    [auction(), vec![deposit_prepared(1, hash(0x11)), secured(hash(0x11), 20)]].concat()
}

fn and(mut events: Vec<PaymentEvent>, more: Vec<PaymentEvent>) -> Vec<PaymentEvent> {
    events.extend(more);
    events
}

#[test]
fn an_award_without_a_deposit_is_overdue_past_the_reserve_deadline() {
    let found = becomes(auction(), OverdueStage::Undeposited, RESERVE + GRACE);
    // The most that may be drawn, for what was drawn is not known.
    assert_eq!((found.amount, found.since, found.transaction), (amount(110), at(RESERVE), None));
    let depositing = and(auction(), vec![deposit_prepared(1, hash(0x11))]);
    let found = becomes(depositing, OverdueStage::Undeposited, RESERVE + GRACE);
    assert_eq!(found.transaction.unwrap().transaction_hash, hash(0x11));
}

#[test]
fn money_in_escrow_without_a_delivery_is_overdue_past_the_fulfillment_deadline() {
    let found = becomes(in_escrow(), OverdueStage::Undelivered, FULFILLMENT + GRACE);
    assert_eq!((found.amount, found.since), (amount(105), at(FULFILLMENT)));
    assert_eq!(found.transaction.unwrap().transaction_hash, hash(0x11));
    let finalizing = and(in_escrow(), vec![seen(hash(0x22), 30)]);
    let found = becomes(finalizing, OverdueStage::Undelivered, FULFILLMENT + GRACE);
    assert_eq!(found.transaction.unwrap().transaction_hash, hash(0x22));
}

#[test]
fn a_delivery_that_is_not_paid_is_overdue_half_way_to_the_refund_window() {
    let completed = and(in_escrow(), vec![seen(hash(0x22), 30), confirmed(hash(0x22), 31)]);
    let found = becomes(completed, OverdueStage::Unreleased, (FULFILLMENT + REFUND_AFTER) / 2);
    assert_eq!(found.transaction.unwrap().transaction_hash, hash(0x22));
}

#[test]
fn a_delivery_that_was_not_paid_in_time_is_owed_to_the_payer_once_the_gateway_returns_it() {
    let completed = and(in_escrow(), vec![seen(hash(0x22), 30), confirmed(hash(0x22), 31)]);
    let returned = and(completed, vec![refund_prepared(1, hash(0x33))]);
    becomes(returned.clone(), OverdueStage::Unrefunded, REFUND_AFTER + GRACE);
    assert_eq!(stage(&view(and(returned, vec![refunded(hash(0x33), 90)])), at(1_000_000)), None);
}

#[test]
fn a_delivery_that_is_not_attested_is_an_alarm_before_the_refund_window_and_names_who_could_help() {
    let finalized = and(in_escrow(), vec![seen(hash(0x22), 30), finalized(hash(0x22), 30)]);
    becomes(finalized.clone(), OverdueStage::Unattested, FULFILLMENT + GRACE);
    let unattested = and(finalized, vec![unattested(hash(0x22), 30)]);
    let found = becomes(unattested.clone(), OverdueStage::Unattested, FULFILLMENT + GRACE);
    assert_eq!((found.amount, found.since), (amount(105), at(FULFILLMENT + GRACE)));
    assert_eq!(found.transaction.unwrap().transaction_hash, hash(0x22));
    assert_eq!(found.verifier.endpoint, "http://127.0.0.1:1");
    // However long a chain may take, a quarter of the margin is left.
    let due = FULFILLMENT + (REFUND_AFTER - FULFILLMENT) * 3 / 4;
    let patient = |second| overdue(&view(unattested.clone()), 0, at(second), Duration::from_secs(86_400));
    assert_eq!(patient(due), None);
    assert_eq!(patient(due + 1).map(|found| (found.stage, found.since)), Some((OverdueStage::Unattested, at(due))));
    // It is one no more once it is attested; once that is too late, the payer is owed the escrow.
    let attested = and(unattested.clone(), vec![confirmed(hash(0x22), 30)]);
    assert_eq!(stage(&view(attested), at(REFUND_AFTER)), Some(OverdueStage::Unreleased));
    let missed = and(unattested, vec![attestation_missed()]);
    becomes(missed.clone(), OverdueStage::Unrefunded, REFUND_AFTER + GRACE);
    assert_eq!(stage(&view(and(missed, vec![refunded(hash(0x44), 90)])), at(1_000_000)), None);
}

#[test]
fn a_delivery_that_an_older_gateway_recorded_as_not_attested_is_an_alarm_until_it_moves() {
    let unattested = and(in_escrow(), vec![seen(hash(0x22), 30), unattested(hash(0x22), 30)]);
    becomes(unattested.clone(), OverdueStage::Unattested, FULFILLMENT + GRACE);
    let moved = and(unattested, vec![seen(hash(0x22), 31)]);
    assert_eq!(stage(&view(moved), at(REFUND_AFTER)), Some(OverdueStage::Undelivered));
}

#[test]
fn a_release_of_the_gateways_is_what_is_waited_for_once_it_is_sent() {
    let completed = and(in_escrow(), vec![seen(hash(0x22), 30), confirmed(hash(0x22), 31)]);
    let sent = and(completed, vec![release_prepared(1, hash(0x55))]);
    let found = becomes(sent.clone(), OverdueStage::Unreleased, (FULFILLMENT + REFUND_AFTER) / 2);
    assert_eq!(found.transaction.unwrap().transaction_hash, hash(0x55));
    assert!(found.waits_for.starts_with("the release that the gateway sent"), "{}", found.waits_for);
    assert_eq!(stage(&view(and(sent, vec![released()])), at(1_000_000)), None);
}

#[test]
fn a_refund_is_overdue_by_the_way_it_is_made() {
    let attested = RefundDue::ByNonDelivery { attestation: "0x01".to_owned() };
    // It failed at second 60.
    let by_statement = and(in_escrow(), vec![failed(attested, None)]);
    let found = becomes(by_statement.clone(), OverdueStage::Unrefunded, 60 + GRACE);
    assert_eq!((found.amount, found.since, found.waits_for), (amount(105), at(60), "a refund transaction"));
    let sent = and(by_statement, vec![refund_prepared(1, hash(0x33))]);
    let found = becomes(sent, OverdueStage::Unrefunded, 60 + GRACE);
    assert_eq!(found.transaction.unwrap().transaction_hash, hash(0x33));
    let by_window = and(in_escrow(), vec![failed(RefundDue::AfterWindow, None)]);
    becomes(by_window, OverdueStage::Unrefunded, REFUND_AFTER + GRACE);
}

#[test]
fn a_failed_payment_whose_own_deposit_is_not_ruled_out_is_overdue_past_the_reserve_deadline() {
    let unsold = vec![payer_deposit_submitted(&payment()), auction_closed(&[], &[]), failed(RefundDue::Nothing, None)];
    let found = becomes(unsold.clone(), OverdueStage::Undeposited, RESERVE + GRACE);
    assert_eq!((found.amount, found.since, found.transaction), (amount(110), at(RESERVE), None));
    assert!(found.waits_for.starts_with("proof that the payer's own transaction"), "{}", found.waits_for);
    assert_eq!(stage(&view(and(unsold.clone(), vec![ruled_out()])), at(1_000_000)), None);
    // Nor need its auction have ended for the payer to have sent it.
    becomes(vec![payer_deposit_submitted(&payment())], OverdueStage::Undeposited, RESERVE + GRACE);
    // Once it is found it waits for the refund window.
    let opened = and(unsold, vec![escrow_opened(hash(0x11), 21)]);
    let found = becomes(opened.clone(), OverdueStage::Unrefunded, REFUND_AFTER + GRACE);
    assert_eq!((found.amount, found.waits_for), (amount(110), "a refund transaction"));
    assert_eq!(found.transaction.unwrap().transaction_hash, hash(0x11));
    assert_eq!(stage(&view(and(opened, vec![refunded(hash(0x33), 210)])), at(1_000_000)), None);
    let stranded = vec![escrow_opened(hash(0x11), 21), failed(RefundDue::AfterWindow, None)];
    becomes(
        [vec![payer_deposit_submitted(&payment())], auction(), stranded].concat(),
        OverdueStage::Unrefunded,
        REFUND_AFTER + GRACE,
    );
}

#[test]
fn nothing_is_overdue_before_money_can_move_or_after_it_came_to_rest() {
    let completed = and(in_escrow(), vec![seen(hash(0x22), 30), confirmed(hash(0x22), 31)]);
    let failed_late = and(in_escrow(), vec![failed(RefundDue::AfterWindow, None)]);
    for events in [
        vec![],
        vec![auction_closed(&["a"], &[])],
        vec![auction_closed(&["a"], &[]), failed(RefundDue::Nothing, None)],
        and(auction(), vec![failed(RefundDue::Nothing, None)]),
        and(completed, vec![released()]),
        and(failed_late.clone(), vec![refunded(hash(0x44), 90)]),
        // The settler was paid after all.
        and(failed_late, vec![released()]),
    ] {
        assert_eq!(stage(&view(events.clone()), at(1_000_000)), None, "{events:?}");
    }
}

#[test]
fn a_window_beyond_the_calendar_is_never_past() {
    let mut view = view(and(in_escrow(), vec![failed(RefundDue::AfterWindow, None)]));
    view.windows.refund_after = u64::MAX;
    assert_eq!(stage(&view, at(1_000_000)), None);
    assert_eq!(overdue(&view, 0, at(1_000_000), Duration::MAX), None);
}
