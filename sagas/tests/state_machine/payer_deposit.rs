//! Payer deposits in the state machine: stranded, watched after a failure, ruled out, and never said to be untaken.

use super::*;

/// A payer deposit's payment up to the award, up to a deposit under way, and failed in the auction.
fn payer_deposit_histories() -> [Vec<PaymentEvent>; 3] {
    let awarded = vec![payer_deposit_submitted(), auction_closed(), awarded()];
    let depositing = [awarded.clone(), vec![deposit_prepared(1)]].concat();
    [awarded, depositing, vec![payer_deposit_submitted(), auction_closed(), failed(RefundDue::Nothing)]]
}

fn strand() -> Command {
    Command::StrandDeposit { opened: escrow_opened(), at: at(31) }
}

fn stranded(history: &[PaymentEvent]) -> Command {
    match given(history).0.stage() {
        Stage::Depositing => Command::ObserveDeposit { state: DepositState::Stranded(escrow_opened()), at: at(31) },
        _ => strand(),
    }
}

#[test]
fn a_deposit_that_can_not_be_reserved_fails_the_payment_and_is_owed_in_the_same_commit() {
    for history in &payer_deposit_histories()[..2] {
        let events = given(history).when(stranded(history));
        assert_eq!(types(&events), ["EscrowOpened", "Failed"]);
        let (failure, refund) = failure(&events);
        assert_eq!(*refund, RefundDue::AfterWindow);
        assert_eq!(failure.retry_classification, Some(RetryClassification::RetryWithNewRequestId));
        let context = failure.blockchain_context.as_ref().unwrap();
        assert_eq!(context.transaction_hash.as_ref(), Some(&escrow_opened().inclusion.transaction_hash));
        let mut history = history.clone();
        history.extend(events);
        assert_eq!(given(&history).0.stage(), Stage::Refunding);
        history.extend(given(&history).when(Command::PrepareRefund(transaction(1))));
        let PaymentEvent::EscrowRefunded(refund) = refunded() else { unreachable!() };
        history.extend(given(&history).when(observed(EscrowState::Refunded(refund))));
        assert_eq!(given(&history).0.stage(), Stage::Rest);
    }
}

/// What the payer's own transaction lacks of gas is said to be the payer's, and what ours takes too much of is not.
#[test]
fn a_refusal_for_gas_says_whose_gas_it_is() {
    let lacking = BlockchainContext { estimated_gas_needed: Some("131000".to_owned()), ..*context() };
    let said = |history: &[PaymentEvent]| {
        let refuse = Command::RefuseDeposit { context: Box::new(lacking.clone()), at: at(31) };
        let events = given(history).when(refuse);
        failure(&events).0.message.clone()
    };
    let [own, _, _] = payer_deposit_histories();
    assert!(said(&own).contains("check balance and allowance of the payer"), "{}", said(&own));
    let ours = [submitted(), auction_closed(), awarded()];
    assert!(said(&ours).contains("more gas than one may take"), "{}", said(&ours));
}

#[test]
fn a_payment_that_failed_in_the_auction_is_watched_until_its_deposit_is_found_or_ruled_out() {
    let [_, _, unsold] = payer_deposit_histories();
    assert_eq!(given(&unsold).0.stage(), Stage::Watching);
    let found = given(&unsold).when(strand());
    assert_eq!(types(&found), ["EscrowOpened"]);
    let found = [unsold.clone(), found].concat();
    assert_eq!(given(&found).0.stage(), Stage::Refunding);
    let missed = Command::MissDepositWindow { at: at(31) };
    let gone = given(&unsold).when(missed.clone());
    assert_eq!(gone, [ruled_out()]);
    let gone = [unsold, gone].concat();
    assert_eq!(given(&gone).0.stage(), Stage::Rest);
    for history in [found, gone] {
        for command in [strand(), missed.clone(), Command::PrepareDeposit(transaction(1))] {
            given(&history).refuses(command);
        }
        for event in [deposit_opened(), ruled_out(), secured(), awarded()] {
            assert!(evolve(fold(&history).unwrap(), &event).is_err(), "{event:?}");
        }
    }
}

#[test]
fn a_failure_after_the_award_rests_on_proof_and_is_not_watched() {
    let [awarded, depositing, _] = payer_deposit_histories();
    let reverted = |state| Command::ObserveDeposit { state, at: at(31) };
    for (history, command) in [
        (&awarded, Command::MissDepositWindow { at: at(31) }),
        (&awarded, Command::RefuseDeposit { context: context(), at: at(31) }),
        (&depositing, reverted(DepositState::Expired { evidence: "no escrow".to_owned() })),
    ] {
        let events = given(history).when(command);
        assert_eq!(*failure(&events).1, RefundDue::Nothing);
        assert_eq!(types(&events), ["AwardWithdrawn", "Failed"]);
        let history = [history.clone(), events].concat();
        assert_eq!(given(&history).0.stage(), Stage::Withdrawn);
        let history = [history.clone(), given(&history).when(Command::TellWinner { at: at(32) })].concat();
        assert_eq!(given(&history).0.stage(), Stage::Rest);
        given(&history).refuses(strand());
    }
}

#[test]
fn a_winner_is_lost_only_before_a_deposit_is_signed_for_it() {
    let awarded = [submitted(), auction_closed(), awarded()];
    for (refusal, code) in [(Some("QUOTE_EXPIRED"), "AWARD_REFUSED"), (None, "AWARD_UNANSWERED")] {
        let lose = Command::LoseWinner { refusal: refusal.map(str::to_owned), at: at(11) };
        let events = given(&awarded).when(lose.clone());
        let (reason, refund) = failure(&events);
        assert_eq!((reason.code.as_str(), refund), (code, &RefundDue::Nothing));
        assert!(reason.message.contains("nothing was taken"), "{}", reason.message);
        assert_eq!(refusal.is_some(), reason.message.contains("QUOTE_EXPIRED"));
        for signed in [vec![deposit_prepared(1)], vec![deposit_prepared(1), deposit_abandoned(1)]] {
            let history = [awarded.to_vec(), signed].concat();
            given(&history).refuses(lose.clone());
            assert!(evolve(fold(&history).unwrap(), &events[0]).is_err());
        }
        // Between the two nothing else happens, and nothing without the failure.
        let half = fold(&[awarded.to_vec(), events[..1].to_vec()].concat()).unwrap();
        for event in [deposit_prepared(1), secured(), winner_told(), events[0].clone()] {
            assert!(evolve(half.clone(), &event).is_err(), "{event:?}");
        }
        let lost = [awarded.to_vec(), events].concat();
        given(&lost).refuses(lose);
        let told = [lost.clone(), given(&lost).when(Command::TellWinner { at: at(12) })].concat();
        assert_eq!((given(&lost).0.stage(), given(&told).0.stage()), (Stage::Withdrawn, Stage::Rest));
        given(&told).refuses(Command::TellWinner { at: at(13) });
    }
    // What failed before there was any of this is at rest as it is.
    let old = [awarded.to_vec(), vec![failed(RefundDue::Nothing)]].concat();
    assert_eq!(given(&old).0.stage(), Stage::Rest);
}

#[test]
fn a_payer_deposit_is_watched_when_the_winner_is_lost() {
    let [awarded, _, _] = payer_deposit_histories();
    let lost = given(&awarded).when(Command::LoseWinner { refusal: None, at: at(11) });
    assert!(failure(&lost).0.message.contains("goes back"));
    let lost = [awarded, lost].concat();
    assert_eq!(given(&lost).0.stage(), Stage::Withdrawn);
    let told = [lost, vec![winner_told()]].concat();
    assert_eq!(given(&told).0.stage(), Stage::Watching);
    let gone = given(&told).when(Command::MissDepositWindow { at: at(31) });
    assert_eq!(given(&[told.clone(), gone].concat()).0.stage(), Stage::Rest);
    let found = given(&told).when(strand());
    assert_eq!(given(&[told, found].concat()).0.stage(), Stage::Refunding);
}

#[test]
fn an_escrow_that_was_opened_has_nothing_but_its_failure_and_its_refund_before_it() {
    let [awarded, depositing, unsold] = payer_deposit_histories();
    for history in [awarded, depositing] {
        let history = [history, vec![deposit_opened()]].concat();
        let state = fold(&history).unwrap();
        for event in [
            secured(),
            deposit_opened(),
            ruled_out(),
            deposit_prepared(1),
            deposit_abandoned(1),
            deposit_repriced(1, 2),
            failed(RefundDue::Nothing),
            failed(RefundDue::ByNonDelivery { attestation: "0x".to_owned() }),
            released(),
            refunded(),
        ] {
            assert!(evolve(state.clone(), &event).is_err(), "{event:?}");
        }
        assert!(evolve(state, &failed(RefundDue::AfterWindow)).is_ok());
    }
    // Without a settler nobody can be paid.
    let found = fold(&[unsold, vec![deposit_opened()]].concat()).unwrap();
    assert!(evolve(found.clone(), &released()).is_err());
    assert!(evolve(found, &refunded()).is_ok());
}

#[test]
fn deposits_that_are_reserved_at_once_are_never_opened_nor_watched() {
    let awarded = vec![submitted(), auction_closed(), awarded()];
    given(&awarded).refuses(strand());
    let depositing = [awarded.clone(), vec![deposit_prepared(1)]].concat();
    let unsold = vec![submitted(), auction_closed(), failed(RefundDue::Nothing)];
    assert_eq!(given(&unsold).0.stage(), Stage::Rest);
    for history in [awarded, depositing, unsold] {
        for event in [deposit_opened(), ruled_out()] {
            assert!(evolve(fold(&history).unwrap(), &event).is_err(), "{event:?}");
        }
    }
}

#[test]
fn an_unsold_payer_deposit_is_not_said_to_be_untaken() {
    let submit = |authorization| {
        let selector = events::event::SelectorRef {
            key: events::selection::SelectorSigner::Ed25519(settler(100)).key(),
            answer_by: at(14),
        };
        let submitted = events::event::Submitted { selector: Some(selector), authorization, ..submission() };
        PaymentEvent::Submitted(Box::new(submitted))
    };
    let offered = signed(1, quote(1, "1010"));
    for (authorization, promised) in
        [(submission().authorization, true), (payer_deposit_submission().authorization, false)]
    {
        let mut history = vec![submit(authorization)];
        let judgement = Judgement {
            addressed: vec![did(1)],
            quotes: vec![sagas::auction::received(&offered)],
            declines: Vec::new(),
            dropped: Vec::new(),
            held_policies: Vec::new(),
            passed_over: Vec::new(),
            alternates: Vec::new(),
            winner: None,
            offered: vec![offered.clone()],
        };
        history.extend(given(&history).when(Command::CloseAuction { judgement: Box::new(judgement), at: at(10) }));
        let events = given(&history).when(Command::MissChoice { at: at(15) });
        assert_eq!(failure(&events).0.message.contains("nothing was taken"), promised);
    }
}

#[test]
fn only_what_the_payer_signed_is_recorded_as_sent_and_once() {
    let [awarded, depositing, unsold] = payer_deposit_histories();
    let authorization = payer_deposit_submission().authorization;
    let record = |step, transaction_hash: &str| Command::RecordPayerTransaction {
        step,
        transaction_hash: transaction_hash.to_owned(),
        at: at(11),
    };
    for step in [PayerStep::Approval, PayerStep::Deposit] {
        let hash = &authorization.payer_transaction(step).unwrap().transaction_hash;
        let events = given(&awarded).when(record(step, hash));
        assert_eq!(types(&events), ["PayerTransactionSent"]);
        let sent = [awarded.clone(), events.clone()].concat();
        assert_eq!(given(&sent).0.stage(), Stage::Awarded);
        assert!(given(&sent).when(record(step, hash)).is_empty());
        assert!(evolve(fold(&sent).unwrap(), &events[0]).is_err());
        given(&awarded).refuses(record(step, "0x00"));
        for history in [&depositing, &unsold] {
            given(history).refuses(record(step, hash));
            assert!(evolve(fold(history).unwrap(), &events[0]).is_err());
        }
        // Where the gateway's transaction deposits, the payer has none.
        let history = [submitted(), auction_closed(), super::awarded()];
        given(&history).refuses(record(step, hash));
        assert!(evolve(fold(&history).unwrap(), &events[0]).is_err());
    }
    // In a block is the payer's own, or a reservation as gateways recorded it before.
    let deposit = &authorization.payer_transaction(PayerStep::Deposit).unwrap().transaction_hash;
    let mined = Inclusion { transaction_hash: deposit.clone(), ..inclusion(5) };
    assert_eq!(types(&given(&depositing).when(Command::ObserveMinedDeposit(mined))), ["DepositMined"]);
    given(&depositing).refuses(Command::ObserveMinedDeposit(inclusion(5)));
}
