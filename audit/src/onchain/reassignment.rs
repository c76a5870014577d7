//! On-chain checks of reassignments (ADR 148): each that the stream tells is on the chain as it tells it, and what the escrow has on
//! record is reserved for the quote that the stream says was the last. Since each names the one before, none is left out then.

use chains::auditor::{Audit, EscrowSnapshot, Reassignment};
use events::{Event, PaymentEvent, event::Inclusion};
use sagas::auction::takes_any_quote;

use super::{Check, time};
use crate::{JournalLocation, Severity, rounds::Round};

impl<'a> Check<'a> {
    /// Every reassignment that the stream tells: its transaction, and what it did.
    pub(super) async fn reassignments(&mut self, node: &dyn Audit) {
        let Some(deposited) = self.payment.secured.as_ref().map(|secured| secured.amount) else { return };
        for pair in self.rounds.windows(2) {
            let [before, round] = pair else { continue };
            let Some(inclusion) = round.reassigned else { continue };
            let (previous, previous_fulfill_by) = (before.quote_hash(), before.fulfill_by());
            let reassignment = Reassignment { previous, previous_fulfill_by, deposited, inclusion };
            let asked = node.audit_reassignment(&self.case_of(round), &reassignment).await;
            let location = self.location_of_reassignment(inclusion);
            self.take_at("reassignment", &location, asked);
        }
    }

    /// Where the escrow stands, and whom it is reserved for.
    pub(super) async fn escrow(&mut self, node: &dyn Audit) {
        let submitted = &self.payment.submitted;
        let (payment_id, plan) = (&submitted.payment_id, &submitted.escrow);
        let case = self.reserved().map(|round| self.case_of(round));
        let mut asked = node.audit_escrow(payment_id, plan, case.as_ref()).await;
        // What was awarded since may be reserved already.
        if let (Ok((snapshot, _)), Some(next)) = (&asked, self.awarded_since())
            && snapshot.reserved_for == Some(next.quote_hash())
        {
            asked = node.audit_escrow(payment_id, plan, Some(&self.case_of(next))).await;
        }
        match asked {
            Ok((snapshot, discrepancies)) => {
                if !self.is_behind(&snapshot) {
                    self.take("escrow", "EscrowSecured", Ok(discrepancies));
                }
                self.snapshot(node, &snapshot).await;
            }
            Err(fault) => self.find(Severity::Unverifiable, "escrow", "EscrowSecured", fault.to_string()),
        }
    }

    /// The quote that the escrow is to be reassigned to, by the stream.
    fn awarded_since(&self) -> Option<&'a Round<'a>> {
        self.rounds.last().filter(|round| !round.is_reserved())
    }

    /// Holds whom the escrow is reserved for against the stream. Whether one of them is behind the other by no more than it may be,
    /// so that what else is on record says nothing.
    fn is_behind(&mut self, snapshot: &EscrowSnapshot) -> bool {
        let (Some(last), Some(found)) = (self.reserved(), snapshot.reserved_for) else { return false };
        // Where the payer chose the quote, it is the chain that refuses another.
        let is_due = self.payment.secured.is_some() && takes_any_quote(&self.payment.submitted);
        if !is_due || found == last.quote_hash() {
            return false;
        }
        if last.reassigned.is_some_and(|reassigned| reassigned.block_number > snapshot.settled_number) {
            return true;
        }
        let (expected, has_ended) =
            (last.quote_hash(), self.payment.failed.is_some() || self.payment.delivery().is_some());
        if self.rounds.iter().any(|round| round.is_reserved() && round.quote_hash() == found) {
            let what =
                format!("the escrow is reserved for quote {found}, and by the stream it was reassigned to {expected}");
            self.find(Severity::Contradiction, "reassignment", "EscrowReassigned", what);
            return false;
        }
        let next = self.awarded_since().filter(|next| next.quote_hash() == found);
        let since = next.map_or(last.fulfill_by(), Round::fulfill_by);
        let is_late = has_ended || self.is_late(snapshot, since);
        let what = match next {
            Some(_) => format!(
                "the escrow was reassigned to quote {found}, whose time ends at {}, and the stream does not say so",
                time(since)
            ),
            None => format!(
                "the escrow was reassigned to quote {found}, of which the stream tells nothing: by the stream it is reserved for \
                 {expected}, whose time ended at {}",
                time(since)
            ),
        };
        let severity = if is_late { Severity::Missing } else { Severity::Open };
        let last_event = self.examined.commits.last().and_then(|commit| commit.events.last());
        self.find(severity, "reassignment", last_event.map_or("Submitted", Event::type_name), what);
        !is_late && next.is_none()
    }

    fn location_of_reassignment(&self, inclusion: &Inclusion) -> JournalLocation {
        self.examined.location_where(|event| {
            matches!(event, Event::Payment(PaymentEvent::EscrowReassigned(held)) if held.inclusion == *inclusion)
        })
    }
}

#[cfg(test)]
mod tests;
