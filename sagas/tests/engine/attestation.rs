//! Payments whose delivery is at its depth, and what their verifiers say or do not say of it.

use super::*;

const NEVER_ATTESTED: [&str; 7] = [
    "EscrowSecured",
    "FulfillmentSeen",
    "FulfillmentFinalized",
    "AttestationAwaited",
    "AttestationMissed",
    "RefundPrepared",
    "EscrowRefunded",
];

#[tokio::test]
async fn a_delivery_that_is_never_attested_stays_completed_and_its_escrow_goes_back_once_no_release_can_land() {
    let (undisturbed, events) = live(World::new(Plot::Unattested)).await;
    assert_eq!(types(&events)[4..], NEVER_ATTESTED);
    assert!(undisturbed.state.lock().unwrap().now > 100);
    let calls = undisturbed.calls.load(Ordering::SeqCst);
    for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
        let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(Plot::Unattested) }).await;
        assert_eq!(types(&events)[4..], NEVER_ATTESTED, "died at {stop_at:?}");
        let state = world.state.lock().unwrap();
        assert_eq!((state.deposits.len(), state.refunds.len()), (1, 1), "died at {stop_at:?}");
    }
}

#[tokio::test]
async fn a_payment_is_completed_by_its_depth_and_waits_for_no_verifier() {
    for (plot, at_the_latest) in [(Plot::Unattested, at(18)), (Plot::AttestationHangs, at(18))] {
        let (_, events) = live(World::new(plot)).await;
        let Some(PaymentEvent::FulfillmentFinalized(finalized)) = events.get(6) else { panic!("{events:?}") };
        assert_eq!(finalized.inclusion, inclusion(7), "{plot:?}");
        assert!(finalized.finalized_at <= at_the_latest, "{plot:?}: {}", finalized.finalized_at);
    }
}

#[tokio::test]
async fn a_missing_attestation_is_recorded_once_and_comes_late_all_the_same() {
    let (world, events) = live(World::new(Plot::AttestedLate)).await;
    let ends =
        ["FulfillmentSeen", "FulfillmentFinalized", "AttestationAwaited", "FulfillmentConfirmed", "EscrowReleased"];
    assert_eq!(types(&events)[5..], ends);
    assert!(world.state.lock().unwrap().now < 100);
}

#[tokio::test]
async fn a_settler_that_is_attested_where_the_gateway_is_not_is_seen_to_be_paid() {
    let (world, events) = live(World::new(Plot::AttestedElsewhere)).await;
    assert_eq!(types(&events)[5..], ["FulfillmentSeen", "FulfillmentFinalized", "EscrowReleased"]);
    assert!(world.state.lock().unwrap().now < 100);
}
