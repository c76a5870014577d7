//! Payments whose escrow is to be reassigned, given by their events: settler 1 did not deliver, and settler 2 is to.

use events::{
    event::{EscrowReassigned, MemberAttested, ReservationLapsed},
    quote::reassignment_auction_of,
};

use super::*;

/// The word that nothing was delivered for the first reservation.
pub const WORD: &str = "0x5e1";

/// A good quote of settler `n` over `price` in the auction after the `round`-th lapsed reservation.
pub fn next_quote(n: u8, price: &str, round: usize) -> Quote {
    let auction_id = reassignment_auction_of(&submission().payment_id, round);
    Quote { auction_id, fulfill_by: at(55), valid_until: at(50), ..quote(n, price) }
}

pub fn award_of(signed: &SignedQuote) -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        document: signed.document().to_owned(),
        awarded_at: at(33),
    }))
}

/// The award of that round to settler `n`, over 1005.
pub fn reawarded(n: u8, round: usize) -> PaymentEvent {
    award_of(&signed(n, next_quote(n, "1005", round)))
}

/// The lapse of the reservation for `quote`, with quotes up to three seconds later.
pub fn lapse_of(signed: &SignedQuote, attestation: &str, seconds: i64) -> ReservationLapsed {
    ReservationLapsed {
        settler: signed.quote().settler.clone(),
        quote_hash: signed.hash(),
        attestation: attestation.to_owned(),
        quote_deadline: at(seconds + 3),
        lapsed_at: at(seconds),
    }
}

pub fn reservation_lapsed() -> PaymentEvent {
    PaymentEvent::ReservationLapsed(lapse_of(&signed(1, quote(1, "1010")), WORD, 30))
}

/// The lapse of the reservation of settler `n`, which won in that round.
pub fn lapsed_again(n: u8, round: usize) -> PaymentEvent {
    PaymentEvent::ReservationLapsed(lapse_of(&signed(n, next_quote(n, "1005", round)), "0x5e2", 40))
}

/// The end of that round's auction with the quotes of settlers 2 to 4, of which the last two may follow the first.
pub fn auction_closed_again(round: usize) -> PaymentEvent {
    let PaymentEvent::AuctionClosed(closed) = auction_closed() else { unreachable!() };
    let quotes: Vec<_> = (2..=4).map(|n| signed(n, next_quote(n, &format!("100{}", n + 3), round))).collect();
    let alternates = quotes[1..].iter().map(|signed| CollectedDocument {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        valid_until: signed.quote().valid_until,
        document: signed.document().to_owned(),
    });
    PaymentEvent::AuctionClosed(AuctionClosed {
        quotes: quotes.iter().map(sagas::auction::received).collect(),
        alternates: alternates.collect(),
        ..closed
    })
}

/// The lapse of the award of settler `n` in that round, whose quote is over 1005 for the second, 1006 for the third and so on.
pub fn award_lapsed_again(n: u8, round: usize) -> PaymentEvent {
    let signed = signed(n, next_quote(n, &format!("100{}", n + 3), round));
    PaymentEvent::AwardLapsed(AwardLapsed {
        settler: did(n),
        quote_hash: signed.hash(),
        refusal: None,
        lapsed_at: at(34),
    })
}

pub fn reassignment_prepared(attempt: u32) -> PaymentEvent {
    PaymentEvent::ReassignmentPrepared(transaction(attempt))
}

pub fn reassignment_repriced(attempt: u32, version: u32) -> PaymentEvent {
    PaymentEvent::ReassignmentRepriced(self::version(attempt, version))
}

pub fn reassignment_abandoned(attempt: u32) -> PaymentEvent {
    PaymentEvent::ReassignmentAbandoned(TransactionAbandoned {
        attempt,
        evidence: "nonce taken".to_owned(),
        abandoned_at: at(36),
    })
}

pub fn reassigned(block: u64) -> PaymentEvent {
    PaymentEvent::EscrowReassigned(EscrowReassigned { inclusion: inclusion(block) })
}

/// The failure by the word for the lapsed reservation.
pub fn failed_by(attestation: &str) -> PaymentEvent {
    failed(RefundDue::ByNonDelivery { attestation: attestation.to_owned() })
}

/// The events up to the first lapsed reservation.
pub fn until_reopened() -> Vec<PaymentEvent> {
    [until_secured(), vec![reservation_lapsed()]].concat()
}

/// The events up to the award of settler 2.
pub fn until_reawarded() -> Vec<PaymentEvent> {
    [until_reopened(), vec![auction_closed(), reawarded(2, 1)]].concat()
}

/// The events up to the reassignment to settler 2.
pub fn until_reassigned() -> Vec<PaymentEvent> {
    [until_reawarded(), vec![reassignment_prepared(1), reassigned(6)]].concat()
}

/// What member `n` of a set of verifiers says.
pub fn by_member(n: u8) -> MemberAttested {
    MemberAttested { member: member(n), signature: format!("0x{n:02x}"), attested_at: at(29) }
}

pub fn member(n: u8) -> events::Account {
    format!("0x00000000000000000000000000000000000000a{n}").parse().unwrap()
}
