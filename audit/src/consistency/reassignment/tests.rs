//! Histories of escrows that were reassigned, by the rules and against them.

use std::slice::from_ref;

use chrono::TimeDelta;
use ed25519_dalek::SigningKey;

use events::{
    ChainId, Event, Failure, StreamId,
    event::{
        Authorization, AwardLapsed, EscrowReassigned, EscrowReleased, FulfillmentConfirmed, FulfillmentSeen,
        MemberAttested, QuoteAwarded, RefundDue, ReservationLapsed, TransactionAbandoned, TransactionPrepared,
        Validity,
    },
    quote::{Quote, reassignment_auction_of},
};
use sagas::payment;

use super::{
    super::{
        check,
        tests::{ACCOUNT, at, examined, failed_with, inclusion, member, quote, secured_for, submitted, verifier_set},
    },
    *,
};
use crate::{Finding, examine::State};

/// A quote like [`quote`] in another auction, for a delivery by another second.
pub(crate) fn quote_in(auction_id: String, n: u8, price: &str, fulfill_by: i64) -> SignedQuote {
    let by = at(fulfill_by);
    let like = quote(n, price).quote().clone();
    Quote { auction_id, fulfill_by: by, valid_until: by, ..like }
        .sign(&SigningKey::from_bytes(&[n; 32]), at(1))
        .unwrap()
}

/// The quote that the escrow is reserved for first, due at 35.
pub(crate) fn first() -> SignedQuote {
    let auction_id = quote(1, "1010").quote().auction_id.clone();
    quote_in(auction_id, 1, "1010", 35)
}

/// A quote in the auction that follows the `round`-th lapse.
pub(crate) fn again(round: usize, n: u8, price: &str, fulfill_by: i64) -> SignedQuote {
    quote_in(reassignment_auction_of(&submitted(15).payment_id, round), n, price, fulfill_by)
}

pub(crate) fn awarded(signed: &SignedQuote, second: i64) -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        document: signed.document().to_owned(),
        awarded_at: at(second),
    }))
}

fn kept(signed: &SignedQuote) -> CollectedDocument {
    CollectedDocument {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        valid_until: signed.quote().valid_until,
        document: signed.document().to_owned(),
    }
}

/// The end of an auction in which all of these quoted; all but the first may follow.
pub(crate) fn closed(quotes: &[SignedQuote], second: i64) -> AuctionClosed {
    AuctionClosed {
        addressed: quotes.iter().map(|signed| signed.quote().settler.clone()).collect(),
        quotes: quotes.iter().map(received).collect(),
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: quotes.iter().skip(1).map(kept).collect(),
        closed_at: at(second),
    }
}

/// A payment of a single verifier up to its deposit at 20, for [`first`].
pub(crate) fn secured() -> Vec<PaymentEvent> {
    let mut events = secured_for(verifier_set(2, 3));
    let PaymentEvent::Submitted(own) = &mut events[0] else { unreachable!() };
    (own.verifier, own.escrow) = (submitted(15).verifier, submitted(15).escrow);
    (events[1], events[2]) = (PaymentEvent::AuctionClosed(closed(&[first()], 10)), awarded(&first(), 10));
    events
}

/// The reservation for `signed` lapses at `second` by this word, and quotes are collected for two seconds.
pub(crate) fn lapsed(signed: &SignedQuote, attestation: &str, second: i64) -> PaymentEvent {
    PaymentEvent::ReservationLapsed(ReservationLapsed {
        settler: signed.quote().settler.clone(),
        quote_hash: signed.hash(),
        attestation: attestation.to_owned(),
        quote_deadline: at(second + 2),
        lapsed_at: at(second),
    })
}

pub(crate) fn reassigned(second: i64) -> PaymentEvent {
    PaymentEvent::EscrowReassigned(EscrowReassigned { inclusion: inclusion(second) })
}

fn prepared() -> PaymentEvent {
    PaymentEvent::ReassignmentPrepared(TransactionPrepared {
        attempt: 1,
        chain_id: ChainId::evm(1),
        sender: ACCOUNT.parse().unwrap(),
        validity: Validity::Nonce(1),
        transaction_hash: "0x02".to_owned(),
        raw: "0x03".to_owned(),
        prepared_at: at(43),
    })
}

fn abandoned() -> PaymentEvent {
    let evidence = "nonce consumed".to_owned();
    PaymentEvent::ReassignmentAbandoned(TransactionAbandoned { attempt: 1, evidence, abandoned_at: at(44) })
}

fn lost(signed: &SignedQuote, second: i64) -> PaymentEvent {
    PaymentEvent::AwardLapsed(AwardLapsed {
        settler: signed.quote().settler.clone(),
        quote_hash: signed.hash(),
        refusal: None,
        lapsed_at: at(second),
    })
}

pub(crate) fn returned(attestation: &str) -> PaymentEvent {
    failed_with(Failure::SETTLEMENT_FAILED, RefundDue::ByNonDelivery { attestation: attestation.to_owned() })
}

/// Seen and confirmed at `second`, and released.
fn delivered(second: i64, attestation: &str) -> Vec<PaymentEvent> {
    let confirmed = FulfillmentConfirmed {
        inclusion: inclusion(second),
        attestation: attestation.to_owned(),
        confirmed_at: at(66),
        release_from: None,
    };
    vec![
        PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(second) }),
        PaymentEvent::FulfillmentConfirmed(confirmed),
        PaymentEvent::EscrowReleased(EscrowReleased { inclusion: inclusion(70), claims: Vec::new() }),
    ]
}

/// What is found in a history with a commit for each event, but for who asked: check and sequence; `transition` where an event is
/// not legal where it stands.
fn found(events: impl IntoIterator<Item = PaymentEvent>) -> Vec<(String, Option<u64>)> {
    let events: Vec<_> = events.into_iter().collect();
    let Ok(payment) = payment::fold(&events) else { return vec![("transition".to_owned(), None)] };
    let payment = payment.unwrap();
    let stream_id = StreamId::from(&payment.submitted.payment_id);
    let commits = events.into_iter().map(|event| vec![Event::from(event)]);
    let found = check(&examined(stream_id, State::Payment(Box::new(payment)), commits));
    let found = found.into_iter().filter(|finding| finding.check != "originator");
    found.map(|Finding { check, location, .. }| (check, location.sequence)).collect()
}

fn is(check: &str, sequence: u64) -> (String, Option<u64>) {
    (check.to_owned(), Some(sequence))
}

fn transition() -> Vec<(String, Option<u64>)> {
    vec![("transition".to_owned(), None)]
}

/// Secured as events 1 to 4, lapsed at 36 as the fifth, and then `then`.
fn after_a_lapse(then: impl IntoIterator<Item = PaymentEvent>) -> Vec<PaymentEvent> {
    secured().into_iter().chain([lapsed(&first(), "0x01", 36)]).chain(then).collect()
}

/// An auction as the sixth event, its winner as the seventh, and the reassignment at 40 as the eighth.
fn won(auction: AuctionClosed, winner: &SignedQuote) -> Vec<PaymentEvent> {
    after_a_lapse([PaymentEvent::AuctionClosed(auction), awarded(winner, 38), reassigned(40)])
}

#[test]
fn an_escrow_that_is_reassigned_by_the_rules_is_not_found() {
    let (second, third) = (again(1, 2, "1005", 44), again(2, 3, "1010", 58));
    let twice = won(closed(from_ref(&second), 38), &second).into_iter().chain([
        lapsed(&second, "0x02", 45),
        PaymentEvent::AuctionClosed(closed(from_ref(&third), 47)),
        awarded(&third, 47),
        reassigned(49),
    ]);
    let whole: Vec<_> = twice.chain(delivered(57, "0x03")).collect();
    for end in 5..=whole.len() {
        assert_eq!(found(whole[..end].to_vec()), [], "{end}");
    }
    let late = whole.len() - 2;
    let mut whole = whole;
    for (index, event) in whole.iter_mut().enumerate() {
        match event {
            PaymentEvent::FulfillmentConfirmed(confirmed) => {
                assert_eq!(index, late);
                confirmed.inclusion = inclusion(59);
            }
            PaymentEvent::FulfillmentSeen(seen) => seen.inclusion = inclusion(59),
            _ => {}
        }
    }
    assert_eq!(found(whole), [is("deadline", 14)], "the delivery is due when the last quote says so");
}

#[test]
fn a_reservation_lapses_for_the_quote_that_it_is_for_while_there_is_time() {
    let with = |change: fn(&mut ReservationLapsed)| {
        let mut events = after_a_lapse([]);
        let Some(PaymentEvent::ReservationLapsed(lapsed)) = events.last_mut() else { unreachable!() };
        change(lapsed);
        found(events)
    };
    assert_eq!(with(|_| {}), []);
    assert_eq!(with(|lapsed| lapsed.quote_hash = again(1, 2, "1005", 44).hash()), transition());
    assert_eq!(with(|lapsed| lapsed.settler = again(1, 2, "1005", 44).quote().settler.clone()), transition());
    assert_eq!(with(|lapsed| lapsed.quote_deadline = lapsed.lapsed_at), transition());
    assert_eq!(with(|lapsed| lapsed.quote_deadline = at(58)), transition());
    let mut unsecured = secured();
    unsecured.truncate(3);
    assert_eq!(found(unsecured.into_iter().chain([lapsed(&first(), "0x01", 36)])), transition());
}

#[test]
fn a_payer_that_chose_its_quote_gets_its_money_back() {
    let mut chosen = after_a_lapse([]);
    let PaymentEvent::Submitted(submitted) = &mut chosen[0] else { unreachable!() };
    let Authorization::EvmPermit2Escrow(permit) = &mut submitted.authorization else { unreachable!() };
    permit.quote_hash = first().hash();
    assert_eq!(found(chosen.clone()), transition());
    chosen.pop();
    assert_eq!(found(chosen), []);
}

#[test]
fn who_did_not_deliver_is_not_asked_again() {
    let second = again(1, 2, "1005", 44);
    let mut asked = closed(from_ref(&second), 38);
    asked.addressed.push(first().quote().settler.clone());
    assert_eq!(found(won(asked, &second)), [is("selection", 6)]);
    // Nor does its quote count, whatever it asks for.
    let own = again(1, 1, "1009", 44);
    let counted = closed(&[second.clone(), own.clone()], 38);
    assert_eq!(
        found(won(counted, &second)),
        [is("selection", 6), is("quote", 6), is("quote", 6)],
        "asked, on record, and kept"
    );
    assert_eq!(found(won(closed(from_ref(&own), 38), &own)), transition());
    let mut unasked = closed(from_ref(&second), 38);
    unasked.addressed.clear();
    assert_eq!(found(won(unasked, &second)), [is("quote", 6)]);
}

#[test]
fn every_quote_counts_in_its_own_auction_for_no_more_than_is_in_escrow() {
    let second = again(1, 2, "1005", 44);
    let elsewhere = |auction_id: String| quote_in(auction_id, 3, "1006", 44);
    let first_auction = first().quote().auction_id.clone();
    for (wrong, checks) in [
        (elsewhere(first_auction), 1),
        (elsewhere(reassignment_auction_of(&submitted(15).payment_id, 2)), 1),
        // Dearer than what is in escrow, and due too early or too late: on record and kept.
        (again(1, 3, "1011", 44), 2),
        (again(1, 3, "1006", 38), 2),
        (again(1, 3, "1006", 61), 2),
    ] {
        let quotes = [second.clone(), wrong.clone()];
        assert_eq!(found(won(closed(&quotes, 38), &second)), vec![is("quote", 6); checks], "{wrong:?}");
        // As the winner it is not legal.
        assert_eq!(found(won(closed(from_ref(&wrong), 38), &wrong)), transition(), "{wrong:?}");
    }
    let mut forged = closed(&[second.clone(), again(1, 3, "1006", 44)], 38);
    forged.alternates[0].document = again(1, 3, "1007", 44).document().to_owned();
    assert_eq!(found(won(forged.clone(), &second)), [is("quote-hash", 6)]);
    forged.alternates[0].document.pop();
    assert_eq!(found(won(forged, &second)), [is("quote-signature", 6)]);
}

#[test]
fn the_best_of_those_that_quoted_again_wins_and_nobody_is_left_out() {
    let (second, third) = (again(1, 2, "1005", 44), again(1, 3, "1006", 44));
    let both = [second.clone(), third.clone()];
    let auction = || PaymentEvent::AuctionClosed(closed(&both, 38));
    assert_eq!(found(won(closed(&both, 38), &second)), []);
    let mut unkept = closed(&both, 38);
    unkept.alternates.clear();
    assert_eq!(found(won(unkept, &third)), [is("selection", 7)]);
    // The next follows one that does not answer.
    let next = [auction(), awarded(&second, 38), lost(&second, 39), awarded(&third, 39), reassigned(40)];
    assert_eq!(found(after_a_lapse(next)), []);
    assert_eq!(found(after_a_lapse([auction(), returned("0x01")])), [is("selection", 7)]);
    let left_out = [auction(), awarded(&second, 38), lost(&second, 39), returned("0x01")];
    assert_eq!(found(after_a_lapse(left_out)), [is("selection", 9)]);
    // Too late for the next.
    let late = [auction(), awarded(&second, 38), lost(&second, 43), returned("0x01")];
    assert_eq!(found(after_a_lapse(late)), []);
    // Once a transaction was signed none follows.
    let signed = [auction(), awarded(&second, 38), prepared(), abandoned()];
    assert_eq!(found(after_a_lapse(signed.clone().into_iter().chain([returned("0x01")]))), []);
    assert_eq!(found(after_a_lapse(signed.into_iter().chain([lost(&second, 39)]))), transition());
    let nobody = [PaymentEvent::AuctionClosed(closed(&[], 38)), returned("0x01")];
    assert_eq!(found(after_a_lapse(nobody)), []);
    let given_up = [auction(), awarded(&second, 38), returned("0x01")];
    assert_eq!(found(after_a_lapse(given_up)), []);
}

#[test]
fn a_reassignment_is_on_the_escrows_chain_between_the_two_promises() {
    let second = again(1, 2, "1005", 44);
    let at_second = |second_of_block: i64, chain: u64| {
        let mut events = won(closed(from_ref(&second), 38), &second);
        let Some(PaymentEvent::EscrowReassigned(reassigned)) = events.last_mut() else { unreachable!() };
        reassigned.inclusion = inclusion(second_of_block);
        reassigned.inclusion.chain_id = ChainId::evm(chain);
        found(events)
    };
    assert_eq!(at_second(36, 1), []);
    assert_eq!(at_second(43, 1), []);
    for outside in [35, 44] {
        assert_eq!(at_second(outside, 1), [is("deadline", 8)], "{outside}");
    }
    assert_eq!(at_second(40, 2), [is("reassignment", 8)]);
}

#[test]
fn what_fails_after_a_lapse_is_returned_by_its_own_word() {
    assert_eq!(found(after_a_lapse([returned("0x01")])), []);
    assert_eq!(found(after_a_lapse([returned("0x02")])), transition());
    for refund in [RefundDue::Nothing, RefundDue::AfterWindow] {
        assert_eq!(found(after_a_lapse([failed_with(Failure::SETTLEMENT_FAILED, refund)])), transition());
    }
    let second = again(1, 2, "1005", 44);
    let again = won(closed(from_ref(&second), 38), &second);
    assert_eq!(found(again.into_iter().chain([returned("0x02")])), [], "of the second, by its own");
}

#[test]
fn nothing_is_delivered_before_the_escrow_is_reassigned() {
    let second = again(1, 2, "1005", 44);
    let unassigned = [PaymentEvent::AuctionClosed(closed(from_ref(&second), 38)), awarded(&second, 38)];
    for then in delivered(43, "0x02") {
        assert_eq!(found(after_a_lapse(unassigned.clone().into_iter().chain([then]))), transition());
    }
}

/// A member's statement of non-delivery, made of its byte and of `of`.
fn denied(byte: u8, of: u8) -> MemberAttested {
    let signature = format!("0x{}{of:02x}", format!("{byte:02x}").repeat(64));
    MemberAttested { member: member(byte).account, signature, attested_at: at(36) + TimeDelta::seconds(i64::from(of)) }
}

fn word(by: &[u8], of: u8) -> String {
    let denied: Vec<_> = by.iter().map(|byte| denied(*byte, of)).collect();
    verifier_set(2, 3).attestation(denied.iter().map(|by| (&by.member, by.signature.as_str()))).unwrap()
}

/// As [`secured`], where two of three attest.
fn secured_by_set() -> Vec<PaymentEvent> {
    let set = secured_for(verifier_set(2, 3));
    set.into_iter().take(1).chain(secured().into_iter().skip(1)).collect()
}

#[test]
fn each_lapse_is_by_as_many_members_as_have_to_sign_for_that_quote() {
    let second = again(1, 2, "1005", 44);
    let nondelivery = |byte, of| PaymentEvent::NonDeliveryAttested(denied(byte, of));
    let lapse = |on_record: &[u8], text: &str| {
        let given = on_record.iter().map(|byte| nondelivery(*byte, 1));
        let events = secured_by_set().into_iter().chain(given);
        events.chain([lapsed(&first(), text, 36)]).collect::<Vec<_>>()
    };
    assert_eq!(found(lapse(&[1, 2], &word(&[1, 2], 1))), []);
    assert_eq!(found(lapse(&[1], &word(&[1, 2], 1))), transition());
    assert_eq!(found(lapse(&[1, 2], &word(&[1, 3], 1))), [is("attestation", 7)], "the third is not on record");
    assert_eq!(found(lapse(&[1, 2], &word(&[1, 2], 2))), vec![is("attestation", 7); 2], "of another quote");
    assert_eq!(found(lapse(&[1, 2], &denied(1, 1).signature)), [is("attestation", 7)]);

    // The second lapse needs words of its own, of which one of the first is none.
    let reassigned = [PaymentEvent::AuctionClosed(closed(from_ref(&second), 38)), awarded(&second, 38), reassigned(40)];
    let again = |given: &[PaymentEvent], text: &str| {
        let begin = lapse(&[1, 2], &word(&[1, 2], 1)).into_iter().chain(reassigned.clone());
        let events: Vec<_> = begin.chain(given.to_vec()).collect();
        found(events.into_iter().chain([lapsed(&second, text, 45)]))
    };
    assert_eq!(again(&[nondelivery(2, 2), nondelivery(3, 2)], &word(&[2, 3], 2)), []);
    assert_eq!(again(&[], &word(&[1, 2], 1)), transition());
    assert_eq!(again(&[nondelivery(2, 2), nondelivery(3, 2)], &word(&[1, 2], 1)), vec![is("attestation", 13); 2]);

    // Returned by the first word while it lapses, which is looked at once.
    let text = word(&[1, 3], 1);
    assert_eq!(found(lapse(&[1, 2], &text).into_iter().chain([returned(&text)])), [is("attestation", 7)]);
}

#[test]
fn a_member_that_said_both_of_a_reservation_that_lapsed_is_named_where_it_denied() {
    let seen = PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(34) });
    let given = [1, 2].map(|byte| PaymentEvent::NonDeliveryAttested(denied(byte, 1)));
    let both = [seen, PaymentEvent::DeliveryAttested(MemberAttested { attested_at: at(35), ..denied(2, 9) })];
    let events = secured_by_set().into_iter().chain(both).chain(given);
    let lapsed = events.chain([lapsed(&first(), &word(&[1, 2], 1), 36)]).collect::<Vec<_>>();
    assert_eq!(found(lapsed.clone()), [is("verifier", 8)]);
    // What it says of another reservation is no contradiction.
    let second = again(1, 2, "1005", 44);
    let seen = PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(43) });
    let then = [
        PaymentEvent::AuctionClosed(closed(from_ref(&second), 38)),
        awarded(&second, 38),
        reassigned(40),
        seen,
        PaymentEvent::DeliveryAttested(denied(1, 3)),
    ];
    assert_eq!(found(lapsed.into_iter().chain(then)), [is("verifier", 8)]);
}

#[test]
fn what_went_in_is_what_the_first_quote_asked_for_or_one_of_the_next_whoever_is_paid() {
    let second = again(1, 2, "1005", 44);
    let with = |next: Option<SignedQuote>, amount: &str| {
        let mut events = won(closed(from_ref(&second), 38), &second);
        let quotes: Vec<_> = std::iter::once(first()).chain(next).collect();
        events[1] = PaymentEvent::AuctionClosed(closed(&quotes, 10));
        let PaymentEvent::EscrowSecured(secured) = &mut events[3] else { unreachable!() };
        secured.amount = amount.parse().unwrap();
        found(events)
    };
    assert_eq!(with(None, "1010"), []);
    for wrong in ["1009", "1011"] {
        assert_eq!(with(None, wrong), [is("conservation", 4)], "{wrong}");
    }
    let dearer = || Some(quote_in(first().quote().auction_id.clone(), 3, "1050", 50));
    assert_eq!(with(dearer(), "1010"), []);
    assert_eq!(with(dearer(), "1050"), []);
    for wrong in ["1009", "1051"] {
        assert_eq!(with(dearer(), wrong), [is("conservation", 4)], "{wrong}");
    }
}
