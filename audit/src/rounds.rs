//! Rounds of a payment: each reservation of its escrow as the stream tells it, the first by the deposit and each further one by a
//! reassignment, with what verifiers said of it (ADR 148).

use events::{
    Event, Hash32, PaymentEvent,
    event::{Inclusion, MemberAttested, ReservationLapsed},
    time::unix_seconds,
};
use journal::Recorded;
use sagas::{
    payment::{Awarded, Payment},
    ports::RequestForQuotes,
};

use super::{JournalLocation, examine::Examined};

/// One reservation, or the award that the stream does not say to be reserved yet.
#[derive(Debug)]
pub struct Round<'a> {
    /// How many reservations lapsed before.
    pub number: usize,
    /// The quote.
    pub award: &'a Awarded,
    /// The transaction that reassigned the escrow to it; none in the first round.
    pub reassigned: Option<&'a Inclusion>,
    /// The end of the reservation, where it lapsed.
    pub lapsed: Option<&'a ReservationLapsed>,
    /// The members of the verifier set that attested its delivery.
    pub attested_by: Vec<&'a MemberAttested>,
    /// The members of the verifier set that attested that nothing was delivered.
    pub nondelivery_by: Vec<&'a MemberAttested>,
}

impl Round<'_> {
    /// Whether the escrow is, or was, reserved for the quote, as far as the stream tells. Of the first the deposit says so, which is
    /// looked at by itself.
    pub fn is_reserved(&self) -> bool {
        self.number == 0 || self.reassigned.is_some()
    }

    /// Hash of the quote.
    pub fn quote_hash(&self) -> Hash32 {
        self.award.event.quote_hash
    }

    /// Last second of the delivery that the quote promises, UNIX.
    pub fn fulfill_by(&self) -> u64 {
        unix_seconds(self.award.quote.fulfill_by)
    }
}

/// The rounds of `payment`, which the events of `examined` lead to, in order; none before a quote was awarded.
pub fn of<'a>(examined: &'a Examined, payment: &'a Payment) -> Vec<Round<'a>> {
    let lapsed = payment.lapsed_reservations.iter().map(|lapsed| &*lapsed.award);
    let awards = lapsed.chain(payment.award.as_deref()).enumerate();
    let mut rounds: Vec<_> = awards.map(|(number, award)| Round::begin(number, award)).collect();
    let mut number = 0;
    for event in examined.commits.iter().flat_map(Recorded::payment_events) {
        let Some(round) = rounds.get_mut(number) else { break };
        match event {
            PaymentEvent::DeliveryAttested(by) => round.attested_by.push(by),
            PaymentEvent::NonDeliveryAttested(by) => round.nondelivery_by.push(by),
            PaymentEvent::EscrowReassigned(reassigned) => round.reassigned = Some(&reassigned.inclusion),
            PaymentEvent::ReservationLapsed(lapsed) => {
                round.lapsed = Some(lapsed);
                number += 1;
            }
            _ => {}
        }
    }
    rounds
}

/// The location of the commit that ends a reservation.
pub fn location_of_lapse(examined: &Examined, lapsed: &ReservationLapsed) -> JournalLocation {
    examined.location_where(
        |event| matches!(event, Event::Payment(PaymentEvent::ReservationLapsed(held)) if held == lapsed),
    )
}

/// The request for quotes of the auction in which the winner of round `number` was found.
pub fn request_of(payment: &Payment, number: usize) -> RequestForQuotes {
    let mut then = payment.clone();
    then.lapsed_reservations.truncate(number);
    then.request_for_quotes()
}

impl<'a> Round<'a> {
    fn begin(number: usize, award: &'a Awarded) -> Self {
        let (attested_by, nondelivery_by) = (Vec::new(), Vec::new());
        Self { number, award, reassigned: None, lapsed: None, attested_by, nondelivery_by }
    }
}
