//! The delivery: where it is seen, its depth, which completes the payment, and its attestation, which pays the settler.

use super::*;

fn confirm(block: u64) -> Command {
    let attestation = "0x".to_owned();
    Command::ConfirmDelivery {
        inclusion: inclusion(block),
        given: Vec::new(),
        attestation,
        at: at(58),
        release_from: at(70),
    }
}

#[test]
fn a_delivery_that_moves_is_recorded_again_and_one_that_stays_is_not() {
    let mut events = until_secured();
    let first = given(&events).when(Command::ObserveDelivery(inclusion(7)));
    assert_eq!(types(&first), ["FulfillmentSeen"]);
    events.extend(first);
    assert!(given(&events).when(Command::ObserveDelivery(inclusion(7))).is_empty());
    assert_eq!(types(&given(&events).when(Command::ObserveDelivery(inclusion(8)))), ["FulfillmentSeen"]);
}

#[test]
fn confirming_a_delivery_that_moved_records_where_it_settled() {
    let mut events = until_secured();
    assert_eq!(types(&given(&events).when(confirm(7))), ["FulfillmentSeen", "FulfillmentConfirmed"]);
    events.push(seen(7));
    assert_eq!(types(&given(&events).when(confirm(7))), ["FulfillmentConfirmed"]);
    assert_eq!(types(&given(&events).when(confirm(8))), ["FulfillmentSeen", "FulfillmentConfirmed"]);
}

#[test]
fn a_delivery_at_its_depth_is_recorded_where_it_is_and_no_failure_follows() {
    let finalize = |block| Command::FinalizeDelivery { inclusion: inclusion(block), given: Vec::new(), at: at(24) };
    assert_eq!(given(&until_secured()).when(finalize(7)), [seen(7), finalized(7)]);
    let mut events = [until_secured(), vec![seen(7)]].concat();
    assert_eq!(given(&events).when(finalize(8)), [seen(8), finalized(8)]);
    assert!(evolve(fold(&events).unwrap(), &finalized(8)).is_err(), "it was seen elsewhere");
    events.extend(given(&events).when(finalize(7)));
    let payment = given(&events).0;
    assert_eq!((payment.stage(), payment.delivery()), (Stage::Attesting, Some(&inclusion(7))));
    for (command, event) in [
        (
            Command::FailUndelivered { given: Vec::new(), attestation: None, at: at(200) },
            failed(RefundDue::AfterWindow),
        ),
        (Command::ObserveDelivery(inclusion(8)), seen(8)),
        (finalize(7), finalized(7)),
        (Command::PrepareRefund(transaction(1)), refund_prepared(1)),
        (Command::PrepareRelease(transaction(1)), release_prepared(1)),
    ] {
        given(&events).refuses(command);
        assert!(evolve(fold(&events).unwrap(), &event).is_err(), "{event:?}");
    }
    // A reorganisation may have moved it since, but not to another chain.
    let elsewhere = Inclusion { chain_id: events::ChainId::evm(137), ..inclusion(7) };
    let Command::ConfirmDelivery { attestation, at, release_from, .. } = confirm(7) else { unreachable!() };
    given(&events).refuses(Command::ConfirmDelivery {
        inclusion: elsewhere,
        given: Vec::new(),
        attestation,
        at,
        release_from,
    });
    for block in [7, 8] {
        let confirmed = given(&events).when(confirm(block));
        assert_eq!(types(&confirmed), ["FulfillmentConfirmed"]);
        assert_eq!(given(&[events.clone(), confirmed].concat()).0.delivery(), Some(&inclusion(block)));
    }
    assert_eq!(given(&events).when(observed(EscrowState::Released(inclusion(9)))), [released()]);
}

#[test]
fn an_attestation_that_lags_is_recorded_once_and_one_that_is_missed_returns_the_escrow() {
    let mut events = [until_secured(), vec![seen(7), finalized(7)]].concat();
    let awaits = || Command::AwaitAttestation { at: at(55) };
    given(&until_secured()).refuses(awaits());
    events.extend(given(&events).when(awaits()));
    assert_eq!(events.last(), Some(&unattested(7)));
    assert!(given(&events).when(awaits()).is_empty());
    // It may still be attested, and then nothing more is awaited.
    assert_eq!(types(&given(&events).when(confirm(7))), ["FulfillmentConfirmed"]);
    let miss = || Command::MissAttestation { at: at(101) };
    given(&[until_secured(), vec![seen(7)]].concat()).refuses(miss());
    events.extend(given(&events).when(miss()));
    assert_eq!(events.last(), Some(&attestation_missed()));
    assert_eq!((given(&events).0.stage(), given(&events).0.failed), (Stage::Refunding, None));
    for command in
        [miss(), confirm(7), awaits(), Command::FailUndelivered { given: Vec::new(), attestation: None, at: at(200) }]
    {
        given(&events).refuses(command);
    }
    events.extend(given(&events).when(Command::PrepareRefund(transaction(1))));
    let PaymentEvent::EscrowRefunded(refund) = refunded() else { unreachable!() };
    events.extend(given(&events).when(observed(EscrowState::Refunded(refund))));
    assert_eq!(given(&events).0.stage(), Stage::Rest);
}

#[test]
fn what_was_attested_and_not_released_is_refunded_only_while_no_release_is_under_way_and_not_released_then() {
    let attested = [until_secured(), vec![seen(7), confirmed(7)]].concat();
    let mut events = [attested.clone(), vec![release_prepared(1)]].concat();
    given(&events).refuses(Command::PrepareRefund(transaction(1)));
    assert!(evolve(fold(&events).unwrap(), &refund_prepared(1)).is_err());
    events.extend(given(&events).when(Command::AbandonRelease { evidence: "reverted".to_owned(), at: at(101) }));
    for mut events in [attested, events] {
        events.extend(given(&events).when(Command::PrepareRefund(transaction(1))));
        assert_eq!(given(&events).0.stage(), Stage::Completed);
        let attempt = given(&events).0.release.count + 1;
        given(&events).refuses(Command::PrepareRelease(transaction(attempt)));
        assert!(evolve(fold(&events).unwrap(), &release_prepared(attempt)).is_err());
        events.extend(given(&events).when(Command::RepriceRefund(version(1, 2))));
        events.extend(given(&events).when(Command::AbandonRefund { evidence: "reverted".to_owned(), at: at(110) }));
        // By a clock that is behind, too: what was begun is gone on with.
        assert!(matches!(next(&given(&events).0, at(99)), Step::WaitUntil(until) if until == at(101)));
        given(&events).refuses(Command::PrepareRelease(transaction(attempt)));
        events.extend(given(&events).when(Command::PrepareRefund(transaction(2))));
        let PaymentEvent::EscrowRefunded(refund) = refunded() else { unreachable!() };
        events.extend(given(&events).when(observed(EscrowState::Refunded(refund))));
        let payment = given(&events).0;
        assert_eq!((payment.stage(), payment.failed), (Stage::Rest, None));
    }
}

/// Gateways recorded the missing attestation before they recorded the depth, and failed the payment for it.
#[test]
fn streams_from_before_the_depth_was_recorded_are_read_and_driven_on() {
    let open = [until_secured(), vec![seen(7), unattested(7)]].concat();
    assert_eq!(given(&open).0.stage(), Stage::Finalizing);
    assert!(evolve(fold(&[until_secured(), vec![seen(7)]].concat()).unwrap(), &unattested(8)).is_err());
    let finalize = Command::FinalizeDelivery { inclusion: inclusion(7), given: Vec::new(), at: at(24) };
    let completed = [open.clone(), given(&open).when(finalize)].concat();
    assert_eq!(given(&completed).0.stage(), Stage::Attesting);
    assert!(given(&completed).when(Command::AwaitAttestation { at: at(56) }).is_empty(), "it is on record");
    let PaymentEvent::Failed(mut old) = failed(RefundDue::AfterWindow) else { unreachable!() };
    old.failure.code = Failure::DELIVERED_NOT_ATTESTED.to_owned();
    let old = PaymentEvent::Failed(old);
    assert_eq!(given(&[open, vec![old.clone()]].concat()).0.stage(), Stage::Refunding);
    assert!(evolve(fold(&completed).unwrap(), &old).is_err(), "a completed payment never fails");
    // Nobody said so of a delivery that is not on record as settled.
    assert!(evolve(fold(&[until_secured(), vec![seen(7)]].concat()).unwrap(), &old).is_err());
}
