//! Releases that the gateway brings, in the settler's place.

use sagas::{handlers, release::ReleaseRule};

use super::*;

/// A payment that is delivered and whose settler does not release, with what the gateway does about it.
fn released_by(release: &[&'static str]) -> Vec<&'static str> {
    [&DELIVERED[..7], release, &["EscrowReleased"]].concat()
}

#[tokio::test]
async fn the_gateway_brings_the_release_that_the_settler_does_not() {
    for (plot, release) in [
        (Plot::Idle, &["ReleasePrepared"][..]),
        (Plot::IdleDear, &["ReleasePrepared", "ReleaseRepriced", "ReleaseRepriced"]),
        (Plot::IdleLost, &["ReleasePrepared", "ReleaseAbandoned", "ReleasePrepared"]),
        // What one node knows nothing of may have landed: the escrow says so.
        (Plot::IdleHidden, &["ReleasePrepared"]),
    ] {
        let (undisturbed, events) = live(World::new(plot)).await;
        assert_eq!(types(&events), released_by(release), "{plot:?}");
        assert!(undisturbed.state.lock().unwrap().now < 100);
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
            let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
            assert_eq!(types(&events), released_by(release), "{plot:?} died at {stop_at:?}");
            let state = world.state.lock().unwrap();
            assert!(state.now < 100, "{plot:?} died at {stop_at:?}");
            assert_eq!((state.deposits.len(), state.refunds.len()), (1, 0), "{plot:?} died at {stop_at:?}");
        }
    }
}

#[tokio::test]
async fn a_settler_is_left_its_time_before_the_gateway_releases() {
    let (_, events) = live(World::new(Plot::Idle)).await;
    let Some(PaymentEvent::FulfillmentConfirmed(confirmed)) = events.get(6) else { panic!("{events:?}") };
    let expected = ReleaseRule::DEFAULT.release_from(confirmed.confirmed_at, submission().escrow.refund_after);
    assert_eq!(confirmed.release_from, Some(expected));
    let payment = sagas::payment::fold(&events[..7]).unwrap().unwrap();
    let action = |second| match handlers::next(&payment, second) {
        handlers::Step::Do(action) => *action,
        step => panic!("{step:?}"),
    };
    let before = action(expected - chrono::Duration::milliseconds(1));
    assert!(matches!(before, handlers::Action::FollowEscrow { .. }), "{before:?}");
    assert!(matches!(action(expected), handlers::Action::SecureRelease { attempt: 1, .. }));
    assert!(matches!(action(at(99)), handlers::Action::SecureRelease { .. }));
    // The escrow takes it no more; what it still holds goes back.
    let refund_after = submission().escrow.refund_after;
    assert!(matches!(action(at(100)), handlers::Action::FollowEscrow { until, .. } if until == refund_after));
    assert!(matches!(action(at(101)), handlers::Action::SecureRefund { attempt: 1, .. }));
    // Whatever is configured later, and for payments from before there was such a time, replay is the same.
    let mut old = events[..7].to_vec();
    let Some(PaymentEvent::FulfillmentConfirmed(confirmed)) = old.get_mut(6) else { panic!("{old:?}") };
    confirmed.release_from = None;
    let old = sagas::payment::fold(&old).unwrap().unwrap();
    let step = handlers::next(&old, expected);
    assert!(matches!(&step, handlers::Step::Do(action) if matches!(**action, handlers::Action::SecureRelease { .. })));
}

#[tokio::test]
async fn a_release_of_the_settlers_that_comes_first_ends_the_gateways() {
    let (world, events) = live(World::new(Plot::Overtaken)).await;
    assert_eq!(types(&events), released_by(&["ReleasePrepared"]));
    assert!(world.state.lock().unwrap().now < 100);
}

#[tokio::test]
async fn what_is_attested_and_was_not_released_in_time_goes_back_to_the_payer_whoever_dies_in_between() {
    let too_late = ["ReleasePrepared", "ReleaseAbandoned", "RefundPrepared", "RefundAbandoned", "RefundPrepared"];
    for (plot, ends) in [(Plot::Unreleasable, &["RefundPrepared"][..]), (Plot::LandsTooLate, &too_late)] {
        let expected = [&DELIVERED[..7], ends, &["EscrowRefunded"]].concat();
        let (undisturbed, events) = live(World::new(plot)).await;
        assert_eq!(types(&events), expected, "{plot:?}");
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
            let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
            assert_eq!(types(&events), expected, "{plot:?} died at {stop_at:?}");
            let state = world.state.lock().unwrap();
            assert_eq!(state.refunds.len(), 1, "{plot:?} died at {stop_at:?}");
            assert_eq!(state.releases.is_empty(), plot == Plot::Unreleasable, "{plot:?} died at {stop_at:?}");
            assert!(state.now > 100 && state.refunded, "{plot:?} died at {stop_at:?}");
        }
    }
}
