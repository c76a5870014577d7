//! The payment's state machine: given events, when a command comes, then events.

mod deposit_address;
mod lapses;
mod payer_deposit;
mod purchase;
mod reassignment;
mod settlement;

use std::collections::BTreeSet;

use proptest::prelude::*;

use events::{
    Failure, PaymentEvent,
    event::{Claim, EscrowRefunded, Inclusion, PayerStep, RefundDue, TransactionPrepared, Validity, WithdrawalCause},
    failure::{BlockchainContext, RetryClassification},
};
use sagas::{
    auction::Judgement,
    handlers::{Action, Step, next},
    payment::{Command, DEPOSIT_ATTEMPTS_MAX, Stage, VERSIONS_MAX, evolve, fold},
    ports::{DepositState, EscrowState},
};

use crate::given::*;

fn judgement(winner: bool) -> Command {
    Command::CloseAuction {
        judgement: Box::new(Judgement {
            addressed: vec![did(1)],
            quotes: Vec::new(),
            declines: Vec::new(),
            dropped: Vec::new(),
            held_policies: Vec::new(),
            passed_over: Vec::new(),
            alternates: Vec::new(),
            winner: winner.then(|| signed(1, quote(1, "1010"))),
            offered: Vec::new(),
        }),
        at: at(10),
    }
}

fn context() -> Box<BlockchainContext> {
    Box::new(BlockchainContext {
        chain_id: events::ChainId::evm(1),
        transaction_hash: None,
        block_number: None,
        contract_address: None,
        revert_reason: Some("TRANSFER_FROM_FAILED".to_owned()),
        gas_used: None,
        estimated_gas_needed: None,
    })
}

fn failure(events: &[PaymentEvent]) -> (&events::Failure, &RefundDue) {
    match events.last() {
        Some(PaymentEvent::Failed(failed)) => (&failed.failure, &failed.refund),
        other => panic!("expected a failure, not {other:?}"),
    }
}

#[test]
fn an_undisturbed_payment_passes_every_stage_in_order() {
    let mut state = None;
    let mut stages = Vec::new();
    for event in undisturbed() {
        let payment = evolve(state, &event).unwrap();
        stages.push(payment.stage());
        state = Some(payment);
    }
    let expected = [
        Stage::Auction,
        Stage::Auction,
        Stage::Awarded,
        Stage::Depositing,
        Stage::Secured,
        Stage::Finalizing,
        Stage::Completed,
        Stage::Rest,
    ];
    assert_eq!(stages, expected);
}

#[test]
fn an_auction_with_a_winner_awards_in_the_same_commit() {
    let events = given(&[submitted()]).when(judgement(true));
    assert_eq!(types(&events), ["AuctionClosed", "QuoteAwarded"]);
}

#[test]
fn an_auction_without_quotes_fails_the_payment_and_owes_nothing() {
    let events = given(&[submitted()]).when(judgement(false));
    assert_eq!(types(&events), ["AuctionClosed", "Failed"]);
    let (failure, refund) = failure(&events);
    assert_eq!(failure.code, "NO_QUOTES_RECEIVED");
    assert_eq!(*refund, RefundDue::Nothing);
}

#[test]
fn a_refused_deposit_fails_with_its_context_only_while_none_is_under_way() {
    let events = [submitted(), auction_closed(), awarded()];
    let refuse = Command::RefuseDeposit { context: context(), at: at(15) };
    let outcome = given(&events).when(refuse.clone());
    let (failure, refund) = failure(&outcome);
    assert_eq!(failure.blockchain_context.as_ref(), Some(context().as_ref()));
    assert_eq!(*refund, RefundDue::Nothing);
    let mut under_way = events.to_vec();
    under_way.push(deposit_prepared(1));
    given(&under_way).refuses(refuse);
    given(&under_way).refuses(Command::MissDepositWindow { at: at(31) });
}

#[test]
fn a_dead_deposit_is_given_up_and_only_then_tried_again() {
    let mut events = vec![submitted(), auction_closed(), awarded(), deposit_prepared(1)];
    given(&events).refuses(Command::PrepareDeposit(transaction(2)));
    let superseded = DepositState::Superseded { evidence: "nonce taken".to_owned() };
    let abandoned = given(&events).when(Command::ObserveDeposit { state: superseded, at: at(12) });
    assert_eq!(types(&abandoned), ["DepositAbandoned"]);
    events.extend(abandoned);
    given(&events).refuses(Command::PrepareDeposit(transaction(1)));
    assert_eq!(types(&given(&events).when(Command::PrepareDeposit(transaction(2)))), ["DepositPrepared"]);
}

#[test]
fn a_deposit_is_tried_a_bounded_number_of_times_and_then_given_up_with_nothing_under_way() {
    let mut events = vec![submitted(), auction_closed(), awarded()];
    let exhaust = Command::ExhaustDeposit { at: at(20) };
    for attempt in 1..=DEPOSIT_ATTEMPTS_MAX {
        given(&events).refuses(exhaust.clone());
        assert!(matches!(next(&given(&events).0, at(12)), Step::Do(action)
            if matches!(*action, Action::SecureDeposit { attempt: next, .. } if next == attempt)));
        events.extend(given(&events).when(Command::PrepareDeposit(transaction(attempt))));
        // While one may land the payment does not fail by it.
        given(&events).refuses(exhaust.clone());
        let superseded = DepositState::Superseded { evidence: "nonce taken".to_owned() };
        events.extend(given(&events).when(Command::ObserveDeposit { state: superseded, at: at(12) }));
    }
    assert!(matches!(next(&given(&events).0, at(12)), Step::Do(action)
        if matches!(*action, Action::GiveUpDeposit { .. })));
    // Somebody who saw the signatures may have made it all the same.
    let PaymentEvent::EscrowSecured(found) = secured() else { unreachable!() };
    assert_eq!(types(&given(&events).when(Command::AdoptDeposit(found))), ["EscrowSecured"]);
    let outcome = given(&events).when(exhaust);
    assert_eq!(*failure(&outcome).1, RefundDue::Nothing);
}

#[test]
fn a_waiting_deposit_is_replaced_at_its_nonce_and_all_versions_stay_alive() {
    let mut events = vec![submitted(), auction_closed(), awarded(), deposit_prepared(1)];
    let repriced = given(&events).when(Command::RepriceDeposit(version(1, 2)));
    assert_eq!(repriced, [deposit_repriced(1, 2)]);
    events.extend(repriced);
    events.extend(given(&events).when(Command::RepriceDeposit(version(1, 3))));
    let payment = given(&events).0;
    assert_eq!(payment.stage(), Stage::Depositing);
    assert_eq!(payment.deposit.live, [version(1, 1), version(1, 2), version(1, 3)]);
    assert_eq!(payment.deposit.newest(), Some(&version(1, 3)));
    given(&events).refuses(Command::PrepareDeposit(transaction(2)));
    // Given up, it is so in all its versions; the next attempt starts with one.
    let superseded = DepositState::Superseded { evidence: "nonce taken".to_owned() };
    events.extend(given(&events).when(Command::ObserveDeposit { state: superseded, at: at(12) }));
    assert_eq!(given(&events).0.deposit.live, []);
    given(&events).refuses(Command::RepriceDeposit(version(1, 4)));
    events.extend(given(&events).when(Command::PrepareDeposit(transaction(2))));
    assert_eq!(given(&events).0.deposit.live, [transaction(2)]);
    given(&events).refuses(Command::RepriceDeposit(version(1, 4)));
}

#[test]
fn a_replacement_is_of_the_same_attempt_chain_sender_and_nonce_and_of_other_bytes() {
    let good = version(1, 2);
    let bad = [
        TransactionPrepared { attempt: 2, ..good.clone() },
        TransactionPrepared { validity: Validity::Nonce(2), ..good.clone() },
        TransactionPrepared { sender: PAYER.parse().unwrap(), ..good.clone() },
        TransactionPrepared { chain_id: events::ChainId::evm(2), ..good.clone() },
        TransactionPrepared { transaction_hash: transaction(1).transaction_hash, ..good.clone() },
        TransactionPrepared { raw: transaction(1).raw, ..good.clone() },
    ];
    let deposit = vec![submitted(), auction_closed(), awarded(), deposit_prepared(1)];
    let mut refund = until_secured();
    refund.extend([failed(RefundDue::AfterWindow), refund_prepared(1)]);
    let release = [until_secured(), vec![seen(7), confirmed(7), release_prepared(1)]].concat();
    for bad in bad {
        given(&release).refuses(Command::RepriceRelease(bad.clone()));
        assert!(evolve(fold(&release).unwrap(), &PaymentEvent::ReleaseRepriced(bad.clone())).is_err(), "{bad:?}");
        given(&deposit).refuses(Command::RepriceDeposit(bad.clone()));
        assert!(evolve(fold(&deposit).unwrap(), &PaymentEvent::DepositRepriced(bad.clone())).is_err(), "{bad:?}");
        given(&refund).refuses(Command::RepriceRefund(bad.clone()));
        assert!(evolve(fold(&refund).unwrap(), &PaymentEvent::RefundRepriced(bad.clone())).is_err(), "{bad:?}");
    }
    given(&deposit).refuses(Command::RepriceRefund(good.clone()));
    given(&refund).refuses(Command::RepriceDeposit(good.clone()));
    assert_eq!(given(&refund).when(Command::RepriceRefund(good)), [refund_repriced(1, 2)]);
}

#[test]
fn a_transaction_without_a_nonce_is_not_replaced() {
    for validity in [Validity::LastBlockHeight(1), Validity::Expiration(1)] {
        let first = TransactionPrepared { validity, ..version(1, 1) };
        let second = TransactionPrepared { validity, ..version(1, 2) };
        let deposit = [submitted(), auction_closed(), awarded(), PaymentEvent::DepositPrepared(first)];
        given(&deposit).refuses(Command::RepriceDeposit(second.clone()));
        assert!(evolve(fold(&deposit).unwrap(), &PaymentEvent::DepositRepriced(second)).is_err(), "{validity:?}");
    }
}

#[test]
fn a_transaction_is_replaced_a_bounded_number_of_times() {
    let mut events = vec![submitted(), auction_closed(), awarded(), deposit_prepared(1)];
    for n in 2..=VERSIONS_MAX as u32 {
        events.extend(given(&events).when(Command::RepriceDeposit(version(1, n))));
    }
    let one_more = version(1, VERSIONS_MAX as u32 + 1);
    given(&events).refuses(Command::RepriceDeposit(one_more.clone()));
    assert!(evolve(fold(&events).unwrap(), &PaymentEvent::DepositRepriced(one_more)).is_err());
}

#[test]
fn a_deposit_in_a_block_is_recorded_once_and_again_when_it_moves_and_nothing_rests_on_it() {
    let mut events = vec![submitted(), auction_closed(), awarded(), deposit_prepared(1), deposit_repriced(1, 2)];
    let of = |version: &TransactionPrepared, block| {
        let transaction_hash = version.transaction_hash.clone();
        Inclusion { transaction_hash, ..inclusion(block) }
    };
    let mined = |block| of(&version(1, 2), block);
    given(&events).refuses(Command::ObserveMinedDeposit(inclusion(5)));
    events.extend(given(&events).when(Command::ObserveMinedDeposit(mined(5))));
    assert_eq!(types(&events[5..]), ["DepositMined"]);
    assert!(given(&events).when(Command::ObserveMinedDeposit(mined(5))).is_empty());
    assert_eq!(types(&given(&events).when(Command::ObserveMinedDeposit(mined(6)))), ["DepositMined"]);
    assert_eq!(given(&events).0.stage(), Stage::Depositing);
    let superseded = DepositState::Superseded { evidence: "nonce taken".to_owned() };
    events.extend(given(&events).when(Command::ObserveDeposit { state: superseded, at: at(12) }));
    assert_eq!(given(&events).0.deposit_mined, None);
    for history in [&events, &until_secured()] {
        given(history).refuses(Command::ObserveMinedDeposit(mined(5)));
    }
}

#[test]
fn a_pending_deposit_says_nothing() {
    let events = [submitted(), auction_closed(), awarded(), deposit_prepared(1)];
    let observed = given(&events).when(Command::ObserveDeposit { state: DepositState::Pending, at: at(12) });
    assert!(observed.is_empty());
}

#[test]
fn a_release_is_prepared_only_of_what_was_confirmed_and_one_attempt_at_a_time() {
    let mut events = undisturbed();
    events.pop();
    for other in [until_secured(), [until_secured(), vec![seen(7)]].concat(), undisturbed()] {
        given(&other).refuses(Command::PrepareRelease(transaction(1)));
        assert!(evolve(fold(&other).unwrap(), &release_prepared(1)).is_err());
    }
    given(&events).refuses(Command::RepriceRelease(version(1, 2)));
    given(&events).refuses(Command::AbandonRelease { evidence: String::new(), at: at(50) });
    events.extend(given(&events).when(Command::PrepareRelease(transaction(1))));
    given(&events).refuses(Command::PrepareRelease(transaction(2)));
    events.extend(given(&events).when(Command::RepriceRelease(version(1, 2))));
    assert_eq!(events.last(), Some(&release_repriced(1, 2)));
    assert_eq!(given(&events).0.release.live, [version(1, 1), version(1, 2)]);
    let abandon = Command::AbandonRelease { evidence: "reverted".to_owned(), at: at(50) };
    events.extend(given(&events).when(abandon));
    given(&events).refuses(Command::PrepareRelease(transaction(1)));
    events.extend(given(&events).when(Command::PrepareRelease(transaction(2))));
    let ended = given(&events).when(observed(EscrowState::Released(inclusion(9))));
    assert_eq!(ended, [released()]);
    events.extend(ended);
    assert_eq!(given(&events).0.stage(), Stage::Rest);
}

fn observed(state: EscrowState) -> Command {
    Command::ObserveEscrow { state, claims: Vec::new() }
}

#[test]
fn a_payout_that_became_a_claim_ends_the_payment_and_is_recorded() {
    let claim = |owner: &str, units: &str| Claim { owner: owner.parse().unwrap(), amount: amount(units) };
    let claims = vec![claim(OTHER, "1000"), claim(PAYER, "10")];
    let mut events = undisturbed();
    events.pop();
    let release = Command::ObserveEscrow { state: EscrowState::Released(inclusion(9)), claims: claims.clone() };
    let recorded = given(&events).when(release);
    let PaymentEvent::EscrowReleased(released) = &recorded[0] else { panic!("{recorded:?}") };
    assert_eq!((&released.inclusion, &released.claims), (&inclusion(9), &claims));
    assert_eq!(given(&[events, recorded].concat()).0.stage(), Stage::Rest);

    let mut events = until_secured();
    events.extend(given(&events).when(Command::FailUndelivered { given: Vec::new(), attestation: None, at: at(61) }));
    let PaymentEvent::EscrowRefunded(refund) = refunded() else { unreachable!() };
    let state = EscrowState::Refunded(refund.clone());
    let recorded = given(&events).when(Command::ObserveEscrow { state, claims: claims[1..].to_vec() });
    let expected = EscrowRefunded { claims: claims[1..].to_vec(), ..refund };
    assert_eq!(recorded, [PaymentEvent::EscrowRefunded(expected)]);
    assert_eq!(given(&[events, recorded].concat()).0.stage(), Stage::Rest);
}

#[test]
fn an_undelivered_payment_owes_a_refund_and_ends_when_it_is_made() {
    let mut events = until_secured();
    let fail = Command::FailUndelivered { given: Vec::new(), attestation: Some("0x01".to_owned()), at: at(61) };
    events.extend(given(&events).when(fail));
    let (reason, refund) = failure(&events);
    assert_eq!(reason.retry_classification, Some(RetryClassification::RetryWithNewRequestId));
    assert_eq!(*refund, RefundDue::ByNonDelivery { attestation: "0x01".to_owned() });
    assert_eq!(reason.blockchain_context, None, "nothing reached the chain");
    let lost = given(&[until_secured(), vec![seen(7)]].concat());
    let lost = lost.when(Command::FailUndelivered { given: Vec::new(), attestation: None, at: at(61) });
    let context = failure(&lost).0.blockchain_context.as_ref().unwrap();
    assert_eq!(context.transaction_hash.as_ref(), Some(&inclusion(7).transaction_hash), "what did not last is told");
    assert_eq!(given(&events).0.stage(), Stage::Refunding);
    events.extend(given(&events).when(Command::PrepareRefund(transaction(1))));
    given(&events).refuses(Command::PrepareRefund(transaction(2)));
    let abandon = Command::AbandonRefund { evidence: "reverted".to_owned(), at: at(63) };
    events.extend(given(&events).when(abandon));
    events.extend(given(&events).when(Command::PrepareRefund(transaction(2))));
    let PaymentEvent::EscrowRefunded(refund) = refunded() else { unreachable!() };
    events.extend(given(&events).when(observed(EscrowState::Refunded(refund))));
    assert_eq!(given(&events).0.stage(), Stage::Rest);
}

#[test]
fn terminal_states_never_change() {
    let commands = [
        judgement(true),
        Command::PrepareDeposit(transaction(2)),
        Command::RepriceDeposit(version(1, 2)),
        Command::RefuseDeposit { context: context(), at: at(1) },
        Command::MissDepositWindow { at: at(200) },
        Command::ObserveDelivery(inclusion(20)),
        Command::ConfirmDelivery {
            inclusion: inclusion(20),
            given: Vec::new(),
            attestation: String::new(),
            at: at(1),
            release_from: at(45),
        },
        Command::FinalizeDelivery { inclusion: inclusion(20), given: Vec::new(), at: at(1) },
        Command::AwaitAttestation { at: at(1) },
        Command::FailUndelivered { given: Vec::new(), attestation: None, at: at(200) },
        Command::MissAttestation { at: at(200) },
    ];
    let mut completed = undisturbed();
    completed.pop();
    let mut refunding = until_secured();
    refunding.push(failed(RefundDue::AfterWindow));
    let no_quotes = [submitted(), auction_closed(), failed(RefundDue::Nothing)];
    for history in [&completed[..], &undisturbed(), &refunding, &no_quotes] {
        for command in &commands {
            given(history).refuses(command.clone());
        }
    }
}

#[test]
fn a_failure_with_money_in_escrow_must_owe_a_refund() {
    let secured = fold(&until_secured()).unwrap();
    assert!(evolve(secured, &failed(RefundDue::Nothing)).is_err());
    let auction = fold(&[submitted()]).unwrap();
    assert!(evolve(auction, &failed(RefundDue::AfterWindow)).is_err());
}

#[test]
fn a_stored_quote_that_was_tampered_with_is_found() {
    let PaymentEvent::QuoteAwarded(mut award) = awarded() else { unreachable!() };
    award.document = award.document.replace("1010", "1011");
    let state = fold(&[submitted(), auction_closed()]).unwrap();
    assert!(evolve(state, &PaymentEvent::QuoteAwarded(award)).is_err());
}

fn any_event() -> impl Strategy<Value = PaymentEvent> {
    prop_oneof![
        Just(submitted()),
        Just(payer_deposit_submitted()),
        Just(address_submitted()),
        prop_oneof![Just("1099"), Just("1100"), Just("1250")].prop_map(address_funded),
        Just(address_held()),
        Just(auction_closed()),
        Just(awarded()),
        Just(auction_closed_with_alternates()),
        (1u8..4).prop_map(awarded_to),
        (1u8..4).prop_map(lapsed),
        (1u32..3).prop_map(deposit_prepared),
        (1u32..3, 2u32..5).prop_map(|(attempt, version)| deposit_repriced(attempt, version)),
        (1u32..3).prop_map(deposit_abandoned),
        Just(secured()),
        Just(deposit_opened()),
        Just(ruled_out()),
        prop_oneof![Just(WithdrawalCause::Unanswered), Just(WithdrawalCause::NotDeposited)].prop_map(withdrawn),
        Just(winner_told()),
        (7u64..9).prop_map(seen),
        (7u64..9).prop_map(finalized),
        (7u64..9).prop_map(confirmed),
        Just(attestation_missed()),
        (1u32..3).prop_map(release_prepared),
        Just(released()),
        Just(failed(RefundDue::Nothing)),
        Just(failed(RefundDue::AfterWindow)),
        (1u32..3).prop_map(refund_prepared),
        (1u32..3, 2u32..5).prop_map(|(attempt, version)| refund_repriced(attempt, version)),
        Just(refunded()),
        reassignment::any_event(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever order events are offered in: what is accepted keeps the promises that money rests on.
    #[test]
    fn accepted_histories_keep_their_promises(events in prop::collection::vec(any_event(), 1..60)) {
        let mut state: Option<sagas::Payment> = None;
        let mut accepted = Vec::new();
        for event in events {
            if let Ok(next) = evolve(state.clone(), &event) {
                for attempts in [&next.deposit, &next.reassignment, &next.refund] {
                    let nonces = attempts.live.iter().map(|version| (&version.sender, version.validity, version.attempt));
                    prop_assert!(nonces.collect::<BTreeSet<_>>().len() <= 1, "one nonce is alive at most");
                    let hashes: BTreeSet<_> = attempts.live.iter().map(|version| &version.transaction_hash).collect();
                    prop_assert_eq!(hashes.len(), attempts.live.len(), "every version is another transaction");
                }
                prop_assert!(next.release.live.is_empty() || next.refund.live.is_empty(), "one way out at a time");
                state = Some(next);
                accepted.push(event);
            }
        }
        let count = |name: &str| accepted.iter().filter(|event| event.type_name() == name).count();
        prop_assert!(count("Submitted") <= 1);
        prop_assert!(count("EscrowSecured") <= 1);
        prop_assert!(count("EscrowReassigned") <= count("ReservationLapsed"));
        prop_assert!(count("FulfillmentConfirmed") <= 1);
        prop_assert!(count("Failed") + count("FulfillmentConfirmed") <= 1);
        prop_assert!(count("Failed") + count("FulfillmentFinalized") <= 1);
        prop_assert!(count("AttestationMissed") + count("FulfillmentConfirmed") <= 1);
        let escrowed = count("EscrowSecured") + count("EscrowOpened");
        prop_assert!(escrowed <= 1, "one escrow a payment");
        prop_assert!(count("EscrowOpened") + count("DepositRuledOut") <= 1);
        prop_assert!(count("AddressFunded") <= 1 && count("AddressHeld") <= 1);
        prop_assert!(count("AddressHeld") + count("EscrowSecured") <= 1, "what is deposited is not given back besides");
        prop_assert!(count("EscrowReleased") <= count("EscrowSecured"), "without a settler nobody is paid");
        prop_assert!(count("EscrowReleased") + count("EscrowRefunded") <= escrowed + count("AddressHeld"));
        if let Some(payment) = &state
            && payment.stage() == Stage::Rest
        {
            let ended = count("EscrowReleased") + count("EscrowRefunded");
            let at_address = count("AddressHeld").saturating_sub(count("DepositRuledOut"));
            prop_assert_eq!(ended, escrowed + at_address, "nothing is at rest with money in escrow or at its address");
            let by_address = payment.submitted.authorization.deposit_address().is_some();
            let looked = count("AddressHeld") + count("DepositRuledOut") + escrowed;
            prop_assert!(!by_address || looked > 0, "an address is at rest only when it was looked at");
            let payer_deposit = payment.submitted.authorization.is_payer_deposit();
            let proven = count("EscrowOpened") + count("DepositRuledOut") + count("EscrowSecured");
            let lost = payment.withdrawn == Some(WithdrawalCause::Unanswered);
            let proven = proven > 0 || (count("QuoteAwarded") > 0 && !lost);
            prop_assert!(!payer_deposit || proven, "a payer deposit is at rest only when it can't land any more");
            prop_assert_eq!(count("WinnerTold"), count("AwardWithdrawn"), "whoever won hears of the end");
        }
        if accepted.iter().any(|event| *event == withdrawn(WithdrawalCause::Unanswered)) {
            prop_assert_eq!(count("DepositPrepared"), 0, "who is passed over has nothing signed for it");
        }
        prop_assert!(count("DepositPrepared") <= count("DepositAbandoned") + 1);
    }
}
