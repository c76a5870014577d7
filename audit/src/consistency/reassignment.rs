//! Consistency of reassignments (ADR 148): who was asked when a reservation had lapsed, for which auction and how much, and when the
//! escrow was reassigned. That a reservation lapses for the quote that it is for, by as many verifiers as the escrow needs, where the
//! payer left the quote open, and that a failure then returns the money by the same word, are rules of the transitions.

use events::{
    Did, PaymentEvent,
    event::{AuctionClosed, CollectedDocument, Inclusion},
    quote::SignedQuote,
    time::unix_seconds,
};
use sagas::{
    auction::{check_content, received},
    payment::Payment,
    ports::RequestForQuotes,
};

use super::Consistency;
use crate::{
    JournalLocation,
    rounds::{Round, request_of},
};

impl Consistency<'_> {
    /// That each further settler was found by an auction of its own, among those that had not failed the payment, and that the escrow
    /// was reassigned in its time.
    pub(super) fn reassignments(&mut self, payment: &Payment, rounds: &[Round<'_>]) {
        let examined = self.examined;
        let mut lapsed = 0;
        for (commit, event) in examined.payment_events() {
            match event {
                PaymentEvent::ReservationLapsed(_) => lapsed += 1,
                PaymentEvent::AuctionClosed(closed) if lapsed > 0 => {
                    self.asked_again(payment, lapsed, closed, &examined.location_at(commit));
                }
                PaymentEvent::EscrowReassigned(reassigned) => {
                    if let (Some(before), Some(round)) = (rounds.get(lapsed.wrapping_sub(1)), rounds.get(lapsed)) {
                        let location = examined.location_at(commit);
                        self.reassigned(payment, [before, round], &reassigned.inclusion, &location);
                    }
                }
                _ => {}
            }
        }
    }

    /// That an auction for an escrow whose reservation lapsed, the `lapsed`-th, asked none that had not delivered before, and that
    /// each quote on record could count in it.
    fn asked_again(&mut self, payment: &Payment, lapsed: usize, closed: &AuctionClosed, location: &JournalLocation) {
        let request = request_of(payment, lapsed);
        let before = payment.lapsed_reservations.iter().take(lapsed);
        let failed: Vec<&Did> = before.map(|lapsed| &lapsed.event.settler).collect();
        for settler in closed.addressed.iter().filter(|settler| failed.contains(settler)) {
            let what = format!("settler {settler} was asked again, and had not delivered for this payment");
            self.contradicts("selection", location.clone(), what);
        }
        let escrowed = request.escrowed.map(|escrowed| escrowed.amount);
        for quote in &closed.quotes {
            let by = unix_seconds(quote.fulfill_by);
            let rule = if failed.contains(&&quote.settler) || !closed.addressed.contains(&quote.settler) {
                "its settler was not to be asked"
            } else if escrowed.is_some_and(|escrowed| quote.source_amount > escrowed) {
                "source amount exceeds what is in escrow"
            } else if by <= unix_seconds(request.quote_deadline) || by > request.escrow.fulfillment_deadline {
                "promised delivery is not between the auction's end and the fulfillment deadline"
            } else {
                continue;
            };
            self.contradicts("quote", location.clone(), format!("{}: {rule}", quote.quote_hash));
        }
        for kept in &closed.alternates {
            self.kept(payment, &request, closed, kept, location);
        }
    }

    /// That a quote which may follow the winner's is the one on record, and answers the auction.
    fn kept(
        &mut self,
        payment: &Payment,
        request: &RequestForQuotes,
        closed: &AuctionClosed,
        kept: &CollectedDocument,
        location: &JournalLocation,
    ) {
        let hash = kept.quote_hash;
        let mut found =
            |check: &str, what: String| self.contradicts(check, location.clone(), format!("{hash}: {what}"));
        let signed = match SignedQuote::parse_stored(&kept.document) {
            Ok(signed) => signed,
            Err(error) => return found("quote-signature", error.to_string()),
        };
        if signed.hash() != hash || signed.id() != kept.quote_id || !closed.quotes.contains(&received(&signed)) {
            found("quote-hash", format!("the document kept of it is of {}", signed.hash()));
        }
        let permitted = Some(payment.submitted.authorization.permitted());
        if let Err(rule) = check_content(request, permitted, &signed.quote().settler, signed.quote()) {
            found("quote", rule);
        }
    }

    /// That the escrow was reassigned on its own chain, after the promise before was over and before the new one was.
    fn reassigned(
        &mut self,
        payment: &Payment,
        [before, round]: [&Round<'_>; 2],
        inclusion: &Inclusion,
        location: &JournalLocation,
    ) {
        let (at, source) = (inclusion.block_time, &payment.submitted.escrow.chain_id);
        if inclusion.chain_id != *source {
            let what = format!("the escrow is on {source}, and was reassigned on {}", inclusion.chain_id);
            self.contradicts("reassignment", location.clone(), what);
        }
        let (after, end) = (before.fulfill_by(), round.fulfill_by());
        if at <= after || at >= end {
            let what = format!("reassigned at {at}, which is not after {after} and before {end}");
            self.contradicts("deadline", location.clone(), what);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
