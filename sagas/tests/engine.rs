//! The engine over a small world in memory: whole sagas, faults, and a stop at every single port call.

mod attestation;
mod deposit_address;
mod lapses;
mod observer;
mod parking;
mod payer_deposit;
mod payloads;
mod reassignment;
mod release;
mod restored;
mod selection;
mod verifier_sets;
mod waiting;
mod wake_ups;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use world::*;

use events::{
    Account, ChainId, CommitId, Epochs, Payload, PaymentEvent, PaymentId, QuoteRequestEvent, StreamId, VerifierMember,
    event::{EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion, RefundDue, TransactionPrepared},
    failure::BlockchainContext,
    quote::Quote,
    time::{Timestamp, unix_seconds},
};
use journal::{
    AppendError, Commit, Position, ReadError, Recorded, ShardWorker, StreamStore, memory::MemoryJournal,
    parking::memory::MemoryParking,
};
use sagas::{
    ports::*,
    runner::{Engine, Options, Ports, Runner},
};

use crate::given::{batch, *};

fn submitted_in(plot: Plot) -> PaymentEvent {
    match plot {
        Plot::Selector(_) => PaymentEvent::Submitted(Box::new(selection::submission())),
        Plot::PayerDeposits(_) | Plot::Resubmitted(restored::Resubmitted::Unsold) => payer_deposit_submitted(),
        Plot::Set(_) | Plot::Reassigns(reassignment::Course { is_set: true, .. }) => {
            PaymentEvent::Submitted(Box::new(verifier_sets::submission_to_a_set()))
        }
        _ => submitted(),
    }
}

async fn submit(world: &World) -> StreamId {
    append(world, submitted_in(world.plot)).await
}

/// Stores the first event of the payment.
async fn append(world: &World, submitted: PaymentEvent) -> StreamId {
    let payment = StreamId::from(submission().payment_id);
    let commit = Commit {
        stream_id: payment.clone(),
        expected: Position::START,
        commit_id: CommitId::random(),
        events: vec![submitted.into()],
        correlation: "test".to_owned(),
        causation: "test".to_owned(),
    };
    world.journal.append(&commit).await.unwrap();
    payment
}

async fn history(world: &World, payment: &StreamId) -> Vec<PaymentEvent> {
    let commits = world.journal.load(payment).await.unwrap();
    commits.iter().flat_map(Recorded::payment_events).cloned().collect()
}

fn engine(world: &Arc<World>) -> Engine {
    engine_with(world, Options::default())
}

fn engine_with(world: &Arc<World>, options: Options) -> Engine {
    world.state.lock().unwrap().reserved.forget();
    let ports = Ports {
        journal: world.clone(),
        chains: world.clone(),
        auction: world.clone(),
        selector: world.clone(),
        verifier: world.clone(),
        open_streams: world.clone(),
        parking: Arc::new(MemoryParking::default()),
        clock: world.clone(),
    };
    Engine::new(ports, options)
}

/// Drives the payment to its rest, starting the process again when it dies.
async fn live(world: World) -> (Arc<World>, Vec<PaymentEvent>) {
    let world = Arc::new(world);
    let payment = submit(&world).await;
    drive(&world, &payment).await;
    let events = history(&world, &payment).await;
    assert!(sagas::payment::fold(&events).is_ok());
    (world, events)
}

async fn drive(world: &Arc<World>, stream_id: &StreamId) {
    loop {
        let engine = engine(world);
        // Who has died does nothing more.
        tokio::select! {
            biased;
            () = world.stopped.notified() => {}
            driven = engine.drive(stream_id) => return driven.unwrap(),
        }
    }
}

/// Collects quotes in a batch, awards the best, and drives the payment out of it to its rest.
async fn live_from_a_batch(world: World) -> (Arc<World>, Vec<QuoteRequestEvent>, Vec<PaymentEvent>) {
    let world = Arc::new(world);
    batch::append(&world.journal, batch::batch_id(), vec![batch::opened().into()]).await;
    let batch_id = StreamId::from(batch::batch_id());
    drive(&world, &batch_id).await;
    let quote = Quote { auction_id: batch_id.to_string(), valid_until: at(50), ..quote(1, "1010") };
    let call = batch::call("award", &signed(1, quote));
    let outcome = sagas::quote_request::award(&world.journal, &call, at(20)).await;
    assert!(matches!(outcome, Ok(sagas::quote_request::AwardOutcome::Created(_))), "{outcome:?}");
    drive(&world, &batch_id).await;
    let payment = StreamId::from(call.payment_id());
    drive(&world, &payment).await;
    let commits = world.journal.load(&batch_id).await.unwrap();
    let batch = commits.iter().flat_map(Recorded::quote_request_events).cloned().collect();
    let payment = history(&world, &payment).await;
    (world, batch, payment)
}

const DELIVERED: [&str; 8] = [
    "Submitted",
    "AuctionClosed",
    "QuoteAwarded",
    "DepositPrepared",
    "EscrowSecured",
    "FulfillmentSeen",
    "FulfillmentConfirmed",
    "EscrowReleased",
];
const UNDELIVERED: [&str; 8] = [
    "Submitted",
    "AuctionClosed",
    "QuoteAwarded",
    "DepositPrepared",
    "EscrowSecured",
    "Failed",
    "RefundPrepared",
    "EscrowRefunded",
];

#[tokio::test]
async fn a_delivered_payment_ends_released() {
    let (world, events) = live(World::new(Plot::Delivers)).await;
    assert_eq!(types(&events), DELIVERED);
    assert_eq!(world.state.lock().unwrap().deposits.len(), 1);
}

/// The gateway that took the payment in had a clock that was half a minute ahead of the one that drives it.
#[tokio::test]
async fn no_event_is_recorded_as_earlier_than_the_one_before_it_whatever_two_clocks_say() {
    let world = Arc::new(World::new(Plot::Vanishes));
    let mut submitted = submission();
    submitted.submitted_at = at(30);
    let payment = append(&world, PaymentEvent::Submitted(Box::new(submitted))).await;
    drive(&world, &payment).await;
    let events = history(&world, &payment).await;
    assert_eq!(types(&events), UNDELIVERED);
    let PaymentEvent::AuctionClosed(closed) = &events[1] else { panic!("{events:?}") };
    let PaymentEvent::QuoteAwarded(awarded) = &events[2] else { panic!("{events:?}") };
    assert_eq!((closed.closed_at, awarded.awarded_at), (at(30), at(30)));
    // By then the other clock has come as far, and its own time stands.
    let PaymentEvent::Failed(failed) = &events[5] else { panic!("{events:?}") };
    assert!(at(30) < failed.failed_at, "{events:?}");
}

#[tokio::test]
async fn a_deposit_that_is_mined_before_it_is_settled_is_recorded_once_whoever_dies_in_between() {
    let expected = [&DELIVERED[..4], &["DepositMined"], &DELIVERED[4..]].concat();
    let (undisturbed, events) = live(World::new(Plot::MinedFirst)).await;
    assert_eq!(types(&events), expected);
    let calls = undisturbed.calls.load(Ordering::SeqCst);
    for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
        let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(Plot::MinedFirst) }).await;
        assert_eq!(types(&events), expected, "died at {stop_at:?}");
        assert_eq!(world.state.lock().unwrap().deposits.len(), 1, "died at {stop_at:?}");
    }
}

#[tokio::test]
async fn nodes_on_two_forks_cost_a_commit_a_block_and_the_deposit_is_sent_again_all_the_same() {
    let (world, events) = live(World::new(Plot::MinedOnForks)).await;
    let mined = types(&events).iter().filter(|name| **name == "DepositMined").count();
    let state = world.state.lock().unwrap();
    let sent: Vec<_> = state.deposits.values().copied().collect();
    assert!((2..=5).contains(&mined), "{mined} in the blocks from 10 to {MINED_UNTIL}");
    assert_eq!(sent, [u32::try_from(mined).unwrap() + 1]);
}

#[tokio::test]
async fn an_undelivered_payment_is_refunded_before_its_window_with_the_releasers_word() {
    let (world, events) = live(World::new(Plot::Vanishes)).await;
    assert_eq!(types(&events), UNDELIVERED);
    assert!(world.state.lock().unwrap().now < 100);
}

#[tokio::test]
async fn without_the_releasers_word_the_refund_waits_for_its_window() {
    let (world, events) = live(World::new(Plot::SilentVerifier)).await;
    assert_eq!(types(&events), UNDELIVERED);
    assert!(world.state.lock().unwrap().now > 100);
}

#[tokio::test]
async fn a_releasers_word_that_the_chain_refuses_leaves_the_window() {
    let (world, events) = live(World::new(Plot::WordRefused)).await;
    assert_eq!(types(&events), UNDELIVERED);
    assert!(world.state.lock().unwrap().now > 100);
}

#[tokio::test]
async fn a_cancellation_that_comes_too_late_is_followed_by_a_refund() {
    let (world, events) = live(World::new(Plot::WordTooLate)).await;
    let ends = ["Failed", "RefundPrepared", "RefundAbandoned", "RefundPrepared", "EscrowRefunded"];
    assert_eq!(types(&events)[5..], ends);
    assert!(world.state.lock().unwrap().now > 100);
}

#[tokio::test]
async fn a_refused_deposit_fails_with_the_chains_reason() {
    let (world, events) = live(World::new(Plot::Refuses)).await;
    assert!(world.state.lock().unwrap().now > REFUSED_UNTIL, "it could still have been made by somebody else");
    let [.., PaymentEvent::Failed(failed), PaymentEvent::WinnerTold(_)] = &events[..] else { panic!("{events:?}") };
    let context = failed.failure.blockchain_context.as_ref().unwrap();
    assert_eq!(context.revert_reason.as_deref(), Some("TRANSFER_FROM_FAILED"));
}

#[tokio::test]
async fn a_winner_that_does_not_stand_by_its_quote_ends_the_payment_before_any_money_moves() {
    for (plot, code) in [(Plot::WinnerRefuses, "AWARD_REFUSED"), (Plot::WinnerIsSilent, "AWARD_UNANSWERED")] {
        let (undisturbed, _) = live(World::new(plot)).await;
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        for stop_at in (0..=calls).flat_map(|number| [(number, false), (number, true)]) {
            let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
            let expected = ["Submitted", "AuctionClosed", "QuoteAwarded", "AwardWithdrawn", "Failed", "WinnerTold"];
            assert_eq!(types(&events), expected, "died at {stop_at:?}");
            let PaymentEvent::Failed(failed) = &events[4] else { panic!("{events:?}") };
            assert_eq!((failed.failure.code.as_str(), &failed.refund), (code, &RefundDue::Nothing));
            let state = world.state.lock().unwrap();
            assert!(state.deposits.is_empty(), "died at {stop_at:?}");
            // Told before it is on record that it was, and as often as it takes.
            assert!(!state.ends.is_empty(), "died at {stop_at:?}");
            assert!(state.ends.iter().all(|end| end.code == code && end.settler == did(1)), "{:?}", state.ends);
        }
    }
}

#[tokio::test]
async fn whoever_won_hears_of_a_payment_that_died_before_its_deposit_whoever_dies_in_between() {
    let (undisturbed, _) = live(World::new(Plot::Refuses)).await;
    let calls = undisturbed.calls.load(Ordering::SeqCst);
    for stop_at in (0..=calls).flat_map(|number| [(number, false), (number, true)]) {
        let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(Plot::Refuses) }).await;
        let last = &types(&events)[3..];
        assert_eq!(last, ["AwardWithdrawn", "Failed", "WinnerTold"], "died at {stop_at:?}");
        let state = world.state.lock().unwrap();
        assert!(state.ends.iter().all(|end| end.code == "NOT_DEPOSITED"), "{:?}", state.ends);
        assert!(!state.ends.is_empty(), "died at {stop_at:?}");
    }
}

#[tokio::test]
async fn a_deposit_that_somebody_else_sent_is_adopted() {
    let world = World::new(Plot::Usurped);
    world.state.lock().unwrap().effective = Some("somebody's".to_owned());
    let (world, events) = live(world).await;
    let mut expected = DELIVERED.to_vec();
    expected.retain(|event| *event != "DepositPrepared");
    assert_eq!(types(&events), expected);
    assert!(world.state.lock().unwrap().deposits.is_empty());
}

#[tokio::test]
async fn a_superseded_deposit_is_tried_again_under_a_new_nonce() {
    let (world, events) = live(World::new(Plot::Superseded)).await;
    let attempts = types(&events).iter().filter(|name| **name == "DepositPrepared").count();
    assert_eq!(attempts, 2);
    assert_eq!(world.state.lock().unwrap().deposits.len(), 2);
    assert_eq!(world.state.lock().unwrap().effective.as_ref(), Some(&transaction(2).transaction_hash));
}

const DEAR: [&str; 12] = [
    "Submitted",
    "AuctionClosed",
    "QuoteAwarded",
    "DepositPrepared",
    "DepositRepriced",
    "DepositRepriced",
    "EscrowSecured",
    "Failed",
    "RefundPrepared",
    "RefundRepriced",
    "RefundRepriced",
    "EscrowRefunded",
];

#[tokio::test]
async fn what_waits_is_replaced_until_one_version_lands_whoever_dies_in_between() {
    for plot in [Plot::Dear, Plot::DearAtFirst] {
        let (undisturbed, events) = live(World::new(plot)).await;
        assert_eq!(types(&events), DEAR);
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
            let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
            assert_eq!(types(&events), DEAR, "died at {stop_at:?}");
            let state = world.state.lock().unwrap();
            assert_eq!((state.deposits.len(), state.refunds.len()), (1, 1), "died at {stop_at:?}");
        }
    }
}

#[tokio::test]
async fn no_quotes_fails_without_touching_a_chain() {
    let (world, events) = live(World::new(Plot::NoQuotes)).await;
    assert_eq!(types(&events), ["Submitted", "AuctionClosed", "Failed"]);
    assert!(world.state.lock().unwrap().deposits.is_empty());
}

#[tokio::test]
async fn faults_at_one_call_in_four_to_nine_change_nothing() {
    for plot in [Plot::Delivers, Plot::Vanishes] {
        let expected = if plot == Plot::Delivers { DELIVERED } else { UNDELIVERED };
        for one_in in 4..10 {
            let world = World { fault_one_in: Some(one_in), ..World::new(plot) };
            let (world, mut events) = live(world).await;
            // A verifier that does not answer at once is the one fault that is on record.
            events.retain(|event| !matches!(event, PaymentEvent::FulfillmentFinalized(_)));
            assert_eq!(types(&events), expected, "a fault at one call in {one_in}");
            assert_eq!(world.state.lock().unwrap().deposits.len(), 1);
        }
    }
}

#[tokio::test]
async fn a_death_at_any_port_call_changes_nothing() {
    for plot in [Plot::Delivers, Plot::Vanishes] {
        let expected = if plot == Plot::Delivers { DELIVERED } else { UNDELIVERED };
        let (undisturbed, _) = live(World::new(plot)).await;
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        assert!(calls > 20);
        for number in 1..=calls {
            for after in [false, true] {
                let world = World { stop_at: Some((number, after)), ..World::new(plot) };
                let (world, events) = live(world).await;
                assert_eq!(types(&events), expected, "died at call {number}, after its effect: {after}");
                let state = world.state.lock().unwrap();
                assert_eq!(state.deposits.len(), 1, "died at call {number}, after its effect: {after}");
                assert!(state.refunds.len() <= 1);
            }
        }
    }
}

#[tokio::test]
async fn two_engines_on_one_payment_make_one_deposit() {
    let world = Arc::new(World::new(Plot::Delivers));
    let payment = submit(&world).await;
    let (one, two) = (engine(&world), engine(&world));
    let (one, two) = tokio::join!(one.drive(&payment), two.drive(&payment));
    one.unwrap();
    two.unwrap();
    let events = history(&world, &payment).await;
    assert_eq!(types(&events), DELIVERED);
    assert_eq!(world.state.lock().unwrap().deposits.len(), 1);
}

#[tokio::test]
async fn a_batch_is_collected_and_the_payment_out_of_it_has_no_auction_of_its_own() {
    let (undisturbed, _, _) = live_from_a_batch(World::new(Plot::Delivers)).await;
    let calls = undisturbed.calls.load(Ordering::SeqCst);
    let deaths = (0..=calls).flat_map(|number| [(number, false), (number, true)]);
    for stop_at in deaths {
        let world = World { stop_at: Some(stop_at), ..World::new(Plot::Delivers) };
        let (world, batch, payment) = live_from_a_batch(world).await;
        let batch: Vec<_> = batch.iter().map(QuoteRequestEvent::type_name).collect();
        assert_eq!(batch, ["QuoteRequestOpened", "QuotesCollected", "QuoteRequestAwarded"], "died at {stop_at:?}");
        assert_eq!(types(&payment), [&["Submitted"], &DELIVERED[2..]].concat(), "died at {stop_at:?}");
        assert_eq!(world.state.lock().unwrap().deposits.len(), 1, "died at {stop_at:?}");
    }
}

#[tokio::test]
async fn a_batch_nobody_bids_in_is_collected_empty() {
    let world = Arc::new(World::new(Plot::NoQuotes));
    batch::append(&world.journal, batch::batch_id(), vec![batch::opened().into()]).await;
    drive(&world, &batch::batch_id().into()).await;
    assert_eq!(batch::types_of(&world.journal, batch::batch_id()).await, ["QuoteRequestOpened", "QuotesCollected"]);
}

#[tokio::test]
async fn a_panic_while_a_payment_is_driven_only_delays_it() {
    let world = Arc::new(World { panic_at: Some(6), ..World::new(Plot::Delivers) });
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Runner::new(engine(&world), "one".to_owned()).run(shutdown.clone()));
    let payment = submit(&world).await;
    let delivered = async {
        while types(&history(&world, &payment).await) != DELIVERED {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), delivered).await.expect("the payment goes on");
    assert!(world.calls.load(Ordering::SeqCst) > 6);
    assert_eq!(world.state.lock().unwrap().deposits.len(), 1);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn what_only_an_operator_can_mend_is_retried_slowly_and_raises_an_alarm_until_it_is_mended() {
    let world = Arc::new(World::new(Plot::Misconfigured));
    let payment = submit(&world).await;
    let engine = engine(&world);
    let (misconfigured, mut seen) = (engine.misconfigured(), BTreeSet::new());
    let driven = engine.drive(&payment);
    tokio::pin!(driven);
    loop {
        tokio::select! {
            biased;
            driven = &mut driven => break driven.unwrap(),
            () = tokio::task::yield_now() => seen.extend(misconfigured.alarm()),
        }
    }
    assert_eq!(Vec::from_iter(seen), ["payments and batches that wait for the configuration to be mended: 1"]);
    // Three times soon, for such an answer may be wrong; then twice with the alarm, until it is mended.
    assert_eq!((misconfigured.alarm(), world.state.lock().unwrap().asked), (None, 6));
}
