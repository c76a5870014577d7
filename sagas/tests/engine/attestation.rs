//! Payments whose delivery is at its depth, and what their verifiers say or do not say of it.

use std::{
    fs::File,
    io::{Read, Seek},
};

use serde_json::Value;
use tracing::subscriber::{DefaultGuard, set_default};

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
    // An attestation that comes with the window is none: it would keep the money in escrow, and pay nobody.
    for plot in [Plot::Unattested, Plot::AttestedTooLate, Plot::Doubted(i64::MAX)] {
        let (undisturbed, events) = live(World::new(plot)).await;
        assert_eq!(types(&events)[4..], NEVER_ATTESTED, "{plot:?}");
        assert!(undisturbed.state.lock().unwrap().now > 100);
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
            let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
            assert_eq!(types(&events)[4..], NEVER_ATTESTED, "{plot:?} died at {stop_at:?}");
            let state = world.state.lock().unwrap();
            assert_eq!((state.deposits.len(), state.refunds.len()), (1, 1), "{plot:?} died at {stop_at:?}");
        }
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
    let ends =
        ["FulfillmentSeen", "FulfillmentFinalized", "AttestationAwaited", "FulfillmentConfirmed", "EscrowReleased"];
    // A node of the source chain that is ahead of its time does not end the settler's.
    for plot in [Plot::AttestedLate, Plot::LapsedByOneNode] {
        let (world, events) = live(World::new(plot)).await;
        assert_eq!(types(&events)[5..], ends, "{plot:?}");
        assert!(world.state.lock().unwrap().now < 100);
    }
}

#[tokio::test]
async fn a_late_attestation_is_recorded_with_the_block_that_the_delivery_is_in_by_then() {
    for (to, expected) in [(Some(8), 8), (Some(7), 7), (None, 7)] {
        let (_, events) = live(World::new(Plot::Reorganised(to))).await;
        let inclusions = events.iter().filter_map(|event| match event {
            PaymentEvent::FulfillmentFinalized(finalized) => Some(finalized.inclusion.clone()),
            PaymentEvent::FulfillmentConfirmed(confirmed) => Some(confirmed.inclusion.clone()),
            _ => None,
        });
        assert_eq!(inclusions.collect::<Vec<_>>(), [inclusion(7), inclusion(expected)], "{to:?}");
    }
}

#[tokio::test]
async fn a_verifier_that_does_not_see_the_delivery_is_heard_for_a_while_before_the_payment_is_completed() {
    let (world, events) = live(World::new(Plot::Doubted(30))).await;
    assert_eq!(types(&events), DELIVERED);
    let Some(PaymentEvent::FulfillmentConfirmed(confirmed)) = events.get(6) else { panic!("{events:?}") };
    assert!(confirmed.confirmed_at >= at(29), "{}", confirmed.confirmed_at);
    assert!(world.state.lock().unwrap().now < 100);
    let (_, events) = live(World::new(Plot::Doubted(i64::MAX))).await;
    let Some(PaymentEvent::FulfillmentFinalized(finalized)) = events.get(6) else { panic!("{events:?}") };
    let waited = finalized.finalized_at - at(18);
    assert!((20..=25).contains(&waited.num_seconds()), "{waited}");
}

#[tokio::test]
async fn a_settler_that_is_attested_where_the_gateway_is_not_is_seen_to_be_paid() {
    let (world, events) = live(World::new(Plot::AttestedElsewhere)).await;
    assert_eq!(types(&events)[5..], ["FulfillmentSeen", "FulfillmentFinalized", "EscrowReleased"]);
    assert!(world.state.lock().unwrap().now < 100);
}

/// What this thread logs while it is there.
struct Log {
    file: Arc<File>,
    _listening: DefaultGuard,
}

impl Log {
    fn listen() -> Self {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let subscriber = tracing_subscriber::fmt().json().with_writer(file.clone()).finish();
        Self { file, _listening: set_default(subscriber) }
    }

    /// The fields of the errors that say this.
    fn errors(&self, message: &str) -> Vec<Value> {
        let (mut file, mut text) = (self.file.as_ref(), String::new());
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let errors = lines.filter(|line| line["level"] == "ERROR" && line["fields"]["message"] == message);
        errors.map(|line| line["fields"].clone()).collect()
    }
}

#[tokio::test]
async fn a_payment_that_is_completed_against_its_verifiers_word_is_an_alarm_once() {
    let said = "a delivery completes its payment by its depth, and the verifier says that it does not see it";
    let submission = submission();
    // A verifier that comes round, one that says nothing, and one that attests are none.
    for (plot, alarms) in
        [(Plot::Doubted(i64::MAX), 1), (Plot::Doubted(30), 0), (Plot::Unattested, 0), (Plot::Delivers, 0)]
    {
        let log = Log::listen();
        live(World::new(plot)).await;
        let told = log.errors(said);
        assert_eq!(told.len(), alarms, "{plot:?}: {told:?}");
        for alarm in told {
            assert_eq!(alarm["payment_id"], submission.payment_id.as_str());
            assert_eq!(alarm["verifier"], submission.verifier.account.as_str());
            assert_eq!(alarm["inclusion"], format!("{:?}", inclusion(7)));
        }
    }
}

#[tokio::test]
async fn a_delivery_that_is_not_where_it_completed_its_payment_is_an_alarm_once() {
    let said = "the delivery that completed its payment is not where it had its depth";
    for (to, found) in [
        (Some(8), Some(DeliveryState::Seen(inclusion(8)))),
        (None, Some(DeliveryState::NotSeen)),
        // Where it was it raises no alarm.
        (Some(7), None),
    ] {
        let log = Log::listen();
        live(World::new(Plot::Reorganised(to))).await;
        let told = log.errors(said);
        assert_eq!(told.len(), usize::from(found.is_some()), "{to:?}: {told:?}");
        for alarm in told {
            assert_eq!(alarm["payment_id"], submission().payment_id.as_str());
            assert_eq!(alarm["delivery"], format!("{:?}", inclusion(7)));
            assert_eq!(alarm["found"], format!("{:?}", found.as_ref().unwrap()));
        }
    }
}
