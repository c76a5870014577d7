//! The fold of one payment's events, without storage.

use crate::support::*;
use events::{
    ChainId, PaymentEvent, PaymentId,
    event::{Claim, EscrowRefunded, EscrowReleased, EscrowSecured, Inclusion, PayerStep, RefundDue},
    failure::BlockchainContext,
};
use projections::{Applied, DeclineCount, PaymentStatus, PaymentView, RefundOwed, Transaction};

fn id() -> PaymentId {
    PaymentId::derive("payer", "order-1")
}

/// The view after `commits`, each a commit of one event, behind the submission.
fn view(events: Vec<PaymentEvent>) -> PaymentView {
    let mut commits = vec![vec![submitted(&id())]];
    commits.extend(events.into_iter().map(|event| vec![event]));
    PaymentView::fold(&history(id(), commits)).unwrap()
}

fn transaction(chain: u64, transaction_hash: String, block_number: Option<u64>) -> Option<Transaction> {
    Some(Transaction { chain_id: ChainId::evm(chain), transaction_hash, block_number })
}

#[test]
fn nothing_is_shown_of_a_payment_that_was_not_submitted() {
    assert_eq!(PaymentView::fold(&[]), None);
    assert_eq!(PaymentView::fold(&history(id(), vec![vec![awarded()]])), None);
}

#[test]
fn a_submission_is_pending_and_knows_nothing_of_the_auction() {
    let view = view(vec![]);
    assert_eq!((view.status, view.version, view.sequence, view.updated_at), (PaymentStatus::Pending, 1, 1, at(1)));
    assert_eq!((view.request_id.as_str(), &view.source, view.terms_hash), ("order-1", &owned(1), terms().hash()));
    assert_eq!((view.requested_count, view.declines, view.quote, view.failure), (None, None, None, None));
    assert_eq!((view.deposit, view.fulfillment, view.refund, view.at_rest), (None, None, None, false));
}

#[test]
fn a_settler_that_declined_twice_counts_once_under_its_last_reason() {
    let declines = [("a", "BUSY"), ("b", "INSUFFICIENT_LIQUIDITY"), ("a", "INSUFFICIENT_LIQUIDITY"), ("c", "BUSY")];
    let view = view(vec![auction_closed(&["a", "b", "c", "d"], &declines)]);
    assert_eq!(view.requested_count, Some(4));
    let count = |reason: &str, count| DeclineCount { reason: reason.to_owned(), count };
    assert_eq!(view.declines, Some(vec![count("BUSY", 1), count("INSUFFICIENT_LIQUIDITY", 2)]));
}

#[test]
fn what_could_not_be_paid_out_is_shown_with_who_is_owed_it() {
    let claim = |units| Claim { owner: ACCOUNT.parse().unwrap(), amount: amount(units) };
    let PaymentEvent::EscrowReleased(release) = released() else { unreachable!() };
    let release = EscrowReleased { claims: vec![claim(100), claim(5)], ..release };
    let before = vec![secured(hash(0x11), 20), confirmed(hash(0x22), 33)];
    assert_eq!(view(before.clone()).claims, []);
    let shown = view([before, vec![PaymentEvent::EscrowReleased(release)]].concat());
    assert_eq!((shown.claims, shown.at_rest), (vec![claim(100), claim(5)], true));
    assert_eq!(shown.status, PaymentStatus::Completed);

    let PaymentEvent::EscrowRefunded(refund) = refunded(hash(0x33), 70) else { unreachable!() };
    let refund = EscrowRefunded { claims: vec![claim(105)], ..refund };
    let shown = view(vec![failed(RefundDue::AfterWindow, None), PaymentEvent::EscrowRefunded(refund)]);
    assert_eq!((shown.claims, shown.at_rest), (vec![claim(105)], true));
}

#[test]
fn an_auction_without_settlers_shows_zero_and_no_declines() {
    let view = view(vec![auction_closed(&[], &[])]);
    assert_eq!((view.requested_count, view.declines), (Some(0), Some(vec![])));
}

#[test]
fn the_deposit_is_the_last_attempt_until_one_succeeds() {
    let prepared = vec![awarded(), deposit_prepared(1, hash(0x11))];
    assert_eq!(view(prepared.clone()).deposit, transaction(1, hash(0x11), None));
    let again = [prepared, vec![deposit_abandoned(1), deposit_prepared(2, hash(0x12))]].concat();
    assert_eq!(view(again.clone()).deposit, transaction(1, hash(0x12), None));
    // The attempt that was thought lost may be the one that is found in escrow.
    let secured = [again, vec![secured(hash(0x11), 20)]].concat();
    assert_eq!(view(secured).deposit, transaction(1, hash(0x11), Some(20)));
}

#[test]
fn a_deposit_has_its_block_from_the_one_that_it_is_mined_in_and_is_settled_at_its_depth() {
    let prepared = vec![awarded(), deposit_prepared(1, hash(0x11))];
    let mined = [prepared, vec![deposit_mined(hash(0x11), 19)]].concat();
    let shown = view(mined.clone());
    assert_eq!((shown.deposit.clone(), shown.deposit_settled()), (transaction(1, hash(0x11), Some(19)), false));
    let moved = view([mined.clone(), vec![deposit_mined(hash(0x11), 20)]].concat());
    assert_eq!((moved.deposit, moved.updated_at), (transaction(1, hash(0x11), Some(20)), at(5)));
    let secured = view([mined.clone(), vec![secured(hash(0x11), 19)]].concat());
    assert_eq!((secured.deposit.clone(), secured.deposit_settled()), (shown.deposit, true));
    assert_eq!(secured.updated_at, at(5), "what is told apart has changed");
    // A block that was left holds it no more.
    let gone = view([mined.clone(), vec![deposit_abandoned(1)]].concat());
    assert_eq!(gone.deposit, transaction(1, hash(0x11), None));
    let never = view([mined, vec![failed(RefundDue::Nothing, None)]].concat());
    assert_eq!(never.deposit, transaction(1, hash(0x11), None));
}

#[test]
fn a_replaced_transaction_is_shown_by_its_newest_version_until_one_is_found() {
    let waiting = vec![awarded(), deposit_prepared(1, hash(0x11)), deposit_repriced(1, hash(0x12))];
    assert_eq!(view(waiting.clone()).deposit, transaction(1, hash(0x12), None));
    let older = [waiting, vec![secured(hash(0x11), 20)]].concat();
    assert_eq!(view(older.clone()).deposit, transaction(1, hash(0x11), Some(20)));
    let refund =
        vec![failed(RefundDue::AfterWindow, None), refund_prepared(1, hash(0x33)), refund_repriced(1, hash(0x34))];
    let refund = [older, refund].concat();
    assert_eq!(view(refund.clone()).refund, transaction(1, hash(0x34), None));
    assert!(!view(refund.clone()).at_rest);
    let refunded = view([refund, vec![refunded(hash(0x33), 70)]].concat());
    assert_eq!((refunded.refund, refunded.at_rest), (transaction(1, hash(0x33), Some(70)), true));
}

#[test]
fn a_delivery_is_provisional_until_it_is_confirmed() {
    let before = vec![awarded(), secured(hash(0x11), 20)];
    assert_eq!(view(before.clone()).status, PaymentStatus::Pending);
    let first = view([before.clone(), vec![seen(hash(0x22), 30)]].concat());
    assert_eq!(
        (first.status, first.fulfillment.clone()),
        (PaymentStatus::Finalizing, transaction(10, hash(0x22), Some(30)))
    );
    assert_eq!(first.confirmation(), None);
    let moved = view([before.clone(), vec![seen(hash(0x22), 30), seen(hash(0x22), 32)]].concat());
    assert_eq!((moved.status, moved.fulfillment), (PaymentStatus::Finalizing, transaction(10, hash(0x22), Some(32))));

    let done = view([before, vec![seen(hash(0x22), 30), confirmed(hash(0x22), 33)]].concat());
    assert_eq!((done.status, done.at_rest), (PaymentStatus::Completed, false));
    let confirmation = done.confirmation().unwrap();
    assert_eq!(Some(confirmation.source.clone()), transaction(1, hash(0x11), Some(20)));
    assert_eq!(Some(confirmation.destination.clone()), transaction(10, hash(0x22), Some(33)));
    // The time of the block, not the time at which the engine learnt of it.
    assert_eq!(confirmation.fulfillment_timestamp, Some(at(33)));
}

#[test]
fn a_final_status_never_changes() {
    let late =
        [seen(hash(0x99), 99), finalized(hash(0x99), 99), confirmed(hash(0x99), 99), failed(RefundDue::Nothing, None)];
    let completed = view(vec![secured(hash(0x11), 20), confirmed(hash(0x22), 33)]);
    let failure = view(vec![secured(hash(0x11), 20), failed(RefundDue::AfterWindow, None)]);
    for shown in [completed, failure] {
        let mut after = shown.clone();
        let more = late.iter().map(|event| vec![event.clone()]).collect();
        for mut recorded in history(id(), more) {
            recorded.position.version += shown.version;
            assert_eq!(after.apply(&recorded), Applied::Next);
        }
        after.version = shown.version;
        after.sequence = shown.sequence;
        assert_eq!(after, shown);
    }
}

#[test]
fn what_is_left_for_the_engine_decides_rest() {
    assert!(view(vec![failed(RefundDue::Nothing, None)]).at_rest);
    assert!(!view(vec![failed(RefundDue::AfterWindow, None)]).at_rest);
    let attestation = "0x01".to_owned();
    assert!(!view(vec![failed(RefundDue::ByNonDelivery { attestation }, None)]).at_rest);
    assert!(view(vec![secured(hash(0x11), 20), confirmed(hash(0x22), 33), released()]).at_rest);

    let back = vec![failed(RefundDue::AfterWindow, None), refund_prepared(1, hash(0x33))];
    assert_eq!(view(back.clone()).refund, transaction(1, hash(0x33), None));
    let back = [back, vec![refund_abandoned(1), refund_prepared(2, hash(0x34)), refunded(hash(0x34), 70)]].concat();
    let back = view(back);
    assert_eq!((back.status, back.at_rest), (PaymentStatus::Failed, true));
    assert_eq!(back.refund, transaction(1, hash(0x34), Some(70)));
    assert_eq!(back.failure.unwrap().code, "SETTLEMENT_FAILED");
}

#[test]
fn a_payment_that_failed_in_the_auction_is_open_while_the_payers_own_transaction_may_deposit() {
    let payer_deposit = |commits: Vec<Vec<PaymentEvent>>| {
        let commits = [vec![vec![payer_deposit_submitted(&id())]], commits].concat();
        PaymentView::fold(&history(id(), commits)).unwrap()
    };
    let unsold = vec![vec![auction_closed(&[], &[]), failed(RefundDue::Nothing, None)]];
    let watched = payer_deposit(unsold.clone());
    assert_eq!((watched.status, watched.at_rest), (PaymentStatus::Failed, false));
    assert_eq!((&watched.refund_owed, &watched.escrowed), (&None, &None));

    let ruled_out = payer_deposit([unsold.clone(), vec![vec![ruled_out()]]].concat());
    assert_eq!((ruled_out.status, ruled_out.at_rest, ruled_out.updated_at), (PaymentStatus::Failed, true, at(2)));
    assert_eq!((ruled_out.deposit, ruled_out.refund_owed), (None, None));

    let found = [unsold, vec![vec![escrow_opened(hash(0x11), 21)]]].concat();
    let view = payer_deposit(found.clone());
    assert_eq!((view.status, view.at_rest, view.escrowed), (PaymentStatus::Failed, false, Some(amount(110))));
    assert_eq!(view.deposit, transaction(1, hash(0x11), Some(21)));
    assert_eq!(view.refund_owed, Some(RefundOwed { since: at(60), after_window: true }));
    assert_eq!(view.failure, watched.failure, "why it failed stays");
    let back =
        payer_deposit([found, vec![vec![refund_prepared(1, hash(0x33))], vec![refunded(hash(0x33), 210)]]].concat());
    assert_eq!((back.refund, back.at_rest), (transaction(1, hash(0x33), Some(210)), true));
}

#[test]
fn a_deposit_that_nobody_can_be_named_for_is_owed_as_soon_as_it_is_shown() {
    let stranded = vec![escrow_opened(hash(0x11), 21), failed(RefundDue::AfterWindow, None)];
    let commits = vec![
        vec![payer_deposit_submitted(&id())],
        vec![auction_closed(&["a"], &[]), awarded()],
        stranded,
        vec![refunded(hash(0x33), 210)],
    ];
    let view = PaymentView::fold(&history(id(), commits[..3].to_vec())).unwrap();
    assert_eq!((view.status, view.at_rest, view.escrowed), (PaymentStatus::Failed, false, Some(amount(110))));
    assert_eq!(view.deposit, transaction(1, hash(0x11), Some(21)));
    assert_eq!(view.refund_owed, Some(RefundOwed { since: at(60), after_window: true }));
    assert!(PaymentView::fold(&history(id(), commits)).unwrap().at_rest);
    // After an award the failure itself rests on the proof that nothing was deposited, nor can be.
    let commits = vec![vec![payer_deposit_submitted(&id())], vec![awarded()], vec![failed(RefundDue::Nothing, None)]];
    assert!(PaymentView::fold(&history(id(), commits)).unwrap().at_rest);
}

/// Where the payer's own transaction deposits, it is the deposit from when it is sent, and the reservation another transaction.
#[test]
fn the_payers_own_deposit_is_shown_from_when_it_is_sent_beside_its_reservation() {
    let payer_deposit = |events: Vec<PaymentEvent>| {
        let mut commits = vec![vec![payer_deposit_submitted(&id())], vec![awarded()]];
        commits.extend(events.into_iter().map(|event| vec![event]));
        PaymentView::fold(&history(id(), commits)).unwrap()
    };
    let own = |block| transaction(1, hash(0x11), block);
    let reserving = |block| transaction(1, hash(0x12), block);
    let sent = vec![payer_sent(PayerStep::Approval, hash(0x10)), payer_sent(PayerStep::Deposit, hash(0x11))];
    assert_eq!(payer_deposit(sent[..1].to_vec()).deposit, None);
    let view = payer_deposit(sent.clone());
    assert_eq!((view.deposit, view.reservation, view.updated_at), (own(None), None, at(4)));
    // A gateway that died before it could record it, or a wallet, may have sent it.
    for before in [sent.clone(), Vec::new()] {
        let reserved = [before, vec![deposit_prepared(1, hash(0x12))]].concat();
        let view = payer_deposit(reserved.clone());
        assert_eq!((view.deposit, view.reservation), (own(None), reserving(None)));
        let mined = [reserved, vec![deposit_mined(hash(0x11), 19)]].concat();
        let view = payer_deposit(mined.clone());
        assert_eq!((view.deposit, view.reservation), (own(Some(19)), reserving(None)));
        let PaymentEvent::EscrowSecured(reservation) = secured(hash(0x12), 20) else { unreachable!() };
        let deposit = Inclusion { transaction_hash: hash(0x11), block_number: 18, ..reservation.inclusion.clone() };
        let told = EscrowSecured { deposit: Some(Box::new(deposit)), ..reservation.clone() };
        for (secured, block) in [(told, 18), (reservation, 19)] {
            let end = vec![PaymentEvent::EscrowSecured(secured), confirmed(hash(0x22), 33)];
            let view = payer_deposit([mined.clone(), end].concat());
            assert_eq!((&view.deposit, &view.reservation), (&own(Some(block)), &reserving(Some(20))));
            assert_eq!(Some(view.confirmation().unwrap().source), view.deposit.as_ref());
        }
        let lost = payer_deposit([mined, vec![deposit_abandoned(1)]].concat());
        assert_eq!((lost.deposit, lost.reservation), (own(None), reserving(None)));
    }
    // It reverted, whoever sent it; another transaction that failed is not the deposit.
    for before in [sent, Vec::new()] {
        let reverted = |hash| failed(RefundDue::Nothing, Some(context(hash)));
        assert_eq!(payer_deposit([before.clone(), vec![reverted(hash(0x11))]].concat()).deposit, own(Some(21)));
        let approval = payer_deposit([before.clone(), vec![reverted(hash(0x10))]].concat());
        assert_eq!(approval.deposit, payer_deposit(before).deposit);
    }
}

fn context(transaction_hash: String) -> BlockchainContext {
    BlockchainContext {
        chain_id: ChainId::evm(1),
        transaction_hash: Some(transaction_hash),
        block_number: Some(21),
        contract_address: None,
        revert_reason: None,
        gas_used: None,
        estimated_gas_needed: None,
    }
}

#[test]
fn a_deposit_that_reverted_was_mined_where_its_failure_says() {
    let reverted = |hash| failed(RefundDue::Nothing, Some(context(hash)));
    let only = view(vec![deposit_prepared(1, hash(0x11)), reverted(hash(0x11))]);
    assert_eq!(only.deposit, transaction(1, hash(0x11), Some(21)));
    // Of the versions of an attempt any may be the one that was mined.
    let older = view(vec![deposit_prepared(1, hash(0x11)), deposit_repriced(1, hash(0x12)), reverted(hash(0x11))]);
    assert_eq!(older.deposit, transaction(1, hash(0x11), Some(21)));
    // With money in escrow the failure is about another transaction.
    let secured = vec![secured(hash(0x11), 20), failed(RefundDue::AfterWindow, Some(context(hash(0x55))))];
    assert_eq!(view(secured).deposit, transaction(1, hash(0x11), Some(20)));
}

#[test]
fn the_time_of_update_moves_only_with_what_is_shown() {
    let commits = vec![vec![submitted(&id())], vec![deposit_prepared(1, hash(0x11))], vec![deposit_abandoned(1)]];
    let view = PaymentView::fold(&history(id(), commits)).unwrap();
    assert_eq!((view.updated_at, view.version), (at(2), 3));
}

#[test]
fn the_time_of_update_stands_still_once_the_payment_is_completed_unless_money_is_left_as_a_claim() {
    let completed = vec![secured(hash(0x11), 20), seen(hash(0x22), 30), finalized(hash(0x22), 30)];
    let at_the_depth = view(completed.clone());
    assert_eq!((at_the_depth.status, at_the_depth.updated_at), (PaymentStatus::Completed, at(4)));
    let release = vec![confirmed(hash(0x22), 30), release_prepared(1, hash(0x55)), released()];
    assert_eq!(view([completed.clone(), release].concat()).updated_at, at(4));
    let refund = vec![
        unattested(hash(0x22), 30),
        attestation_missed(),
        refund_prepared(1, hash(0x33)),
        refunded(hash(0x33), 70),
    ];
    assert_eq!(view([completed.clone(), refund].concat()).updated_at, at(4));
    let PaymentEvent::EscrowReleased(release) = released() else { unreachable!() };
    let claims = vec![Claim { owner: ACCOUNT.parse().unwrap(), amount: amount(5) }];
    let with_claims = PaymentEvent::EscrowReleased(EscrowReleased { claims, ..release });
    assert_eq!(view([completed, vec![with_claims]].concat()).updated_at, at(5));
    // A failed payment's refund is shown in the timeline alone.
    let failed = vec![secured(hash(0x11), 20), failed(RefundDue::AfterWindow, None)];
    let refund = vec![refund_prepared(1, hash(0x33)), refunded(hash(0x33), 70)];
    assert_eq!(view([failed, refund].concat()).updated_at, at(3));
}

#[test]
fn a_delivery_at_its_depth_completes_the_payment_whatever_its_verifier_says() {
    let depth = vec![awarded(), secured(hash(0x11), 20), seen(hash(0x22), 30), finalized(hash(0x22), 30)];
    let completed = view(depth.clone());
    assert_eq!((completed.status, completed.unattested, completed.at_rest), (PaymentStatus::Completed, true, false));
    let confirmation = completed.confirmation().unwrap();
    assert_eq!(Some(confirmation.destination.clone()), transaction(10, hash(0x22), Some(30)));
    assert_eq!(confirmation.fulfillment_timestamp, Some(at(30)));
    let attested = view([depth.clone(), vec![confirmed(hash(0x22), 30)]].concat());
    assert_eq!((attested.status, attested.unattested), (PaymentStatus::Completed, false));
    let missed = [depth, vec![unattested(hash(0x22), 30), attestation_missed()]].concat();
    let owed = view(missed.clone());
    assert_eq!((owed.status, &owed.failure), (PaymentStatus::Completed, &None));
    assert_eq!(owed.refund_owed, Some(RefundOwed { since: at(70), after_window: true }));
    let back = view([missed, vec![refund_prepared(1, hash(0x33)), refunded(hash(0x33), 70)]].concat());
    assert_eq!((back.status, back.failure, back.at_rest), (PaymentStatus::Completed, None, true));
}

/// A gateway from before the depth completed payments recorded that the attestation was missing, and failed the payment for
/// it: it stays what its payer was told.
#[test]
fn a_payment_that_failed_for_its_attestation_before_stays_failed() {
    let open = vec![secured(hash(0x11), 20), seen(hash(0x22), 30), unattested(hash(0x22), 30)];
    assert_eq!(view(open.clone()).status, PaymentStatus::Finalizing);
    assert_eq!(view([open.clone(), vec![finalized(hash(0x22), 30)]].concat()).status, PaymentStatus::Completed);
    assert_eq!(view([open, vec![failed(RefundDue::AfterWindow, None)]].concat()).status, PaymentStatus::Failed);
}

#[test]
fn commits_of_one_decision_are_taken_in_together() {
    let view = PaymentView::fold(&history(id(), vec![vec![submitted(&id()), auction_closed(&["a"], &[])]])).unwrap();
    assert_eq!((view.requested_count, view.version), (Some(1), 1));
}

#[test]
fn repeated_foreign_and_early_commits_change_nothing() {
    let commits = history(id(), all_commits(&id()));
    let mut view = PaymentView::fold(&commits[..3]).unwrap();
    let before = view.clone();
    assert_eq!(view.apply(&commits[2]), Applied::Skipped);
    assert_eq!(view.apply(&commits[0]), Applied::Skipped);
    assert_eq!(view.apply(&commits[4]), Applied::Gap);
    let other = PaymentId::derive("payer", "order-2");
    assert_eq!(view.apply(&history(&other, all_commits(&other))[3]), Applied::Skipped);
    assert_eq!(view, before);
    assert_eq!(PaymentView::fold(&[&commits[..3], &commits[4..]].concat()), Some(before));
    assert_eq!(view.apply(&commits[3]), Applied::Next);
}
