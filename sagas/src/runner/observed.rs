//! What an observer is told of a commit (metrics): the attempts at transactions that it ended.

use events::{PaymentEvent, event::TransactionPrepared, time::Timestamp};

use super::observer::{CommittedPayment, EndedAttempt, Observer, TransactionLeg};
use crate::payment::{Milestones, Payment};

/// The attempts that were alive before a commit that may have ended them.
#[derive(Debug, Default)]
pub(super) struct Alive(Vec<(TransactionLeg, Vec<TransactionPrepared>)>);

impl Alive {
    /// Those of `payment`, before `events` happen to it; none where no event ends an attempt.
    pub(super) fn before(payment: &Payment, events: &[PaymentEvent]) -> Self {
        if !events.iter().any(ends_attempts) {
            return Self::default();
        }
        let attempts =
            TransactionLeg::ALL.map(|leg| (leg, if is_over(payment, leg) { &[][..] } else { live(payment, leg) }));
        let alive = attempts.into_iter().filter(|(_, live)| !live.is_empty());
        Self(alive.map(|(leg, live)| (leg, live.to_vec())).collect())
    }

    /// Tells `observer` of a commit that was stored, with which the payment became `payment`, and lets the milestones pass it.
    pub(super) fn tell(
        self,
        observer: &dyn Observer,
        milestones: &mut Milestones,
        events: Vec<PaymentEvent>,
        stored_at: Timestamp,
        payment: &Payment,
    ) {
        let (before, ended) = (*milestones, self.ended(payment));
        observer.committed(&CommittedPayment { events: &events, stored_at, before: &before, payment, ended });
        for event in &events {
            milestones.pass(event, stored_at);
        }
    }

    /// Those of them that are over now.
    fn ended(self, payment: &Payment) -> Vec<EndedAttempt> {
        let ended = self.0.into_iter().filter(|(leg, _)| live(payment, *leg).is_empty() || is_over(payment, *leg));
        ended.map(|(leg, versions)| EndedAttempt { landed: landed(payment, leg), leg, versions }).collect()
    }
}

fn ends_attempts(event: &PaymentEvent) -> bool {
    matches!(
        event,
        PaymentEvent::DepositAbandoned(_)
            | PaymentEvent::EscrowSecured(_)
            | PaymentEvent::EscrowOpened(_)
            | PaymentEvent::ReassignmentAbandoned(_)
            | PaymentEvent::EscrowReassigned(_)
            | PaymentEvent::Failed(_)
            | PaymentEvent::ReleaseAbandoned(_)
            | PaymentEvent::EscrowReleased(_)
            | PaymentEvent::RefundAbandoned(_)
            | PaymentEvent::EscrowRefunded(_)
    )
}

fn live(payment: &Payment, leg: TransactionLeg) -> &[TransactionPrepared] {
    match leg {
        TransactionLeg::Deposit => &payment.deposit.live,
        TransactionLeg::Reassignment => &payment.reassignment.live,
        TransactionLeg::Release => &payment.release.live,
        TransactionLeg::Refund => &payment.refund.live,
    }
}

/// Whether there is nothing left for a transaction of this leg to do.
fn is_over(payment: &Payment, leg: TransactionLeg) -> bool {
    match leg {
        TransactionLeg::Deposit => payment.secured.is_some() || payment.opened.is_some() || payment.failed.is_some(),
        TransactionLeg::Reassignment => !payment.is_reopened || payment.failed.is_some(),
        TransactionLeg::Release | TransactionLeg::Refund => payment.released.is_some() || payment.refunded.is_some(),
    }
}

/// The transaction that did what this leg is for.
fn landed(payment: &Payment, leg: TransactionLeg) -> Option<String> {
    let inclusion = match leg {
        TransactionLeg::Deposit => payment.secured.as_ref().map(|secured| &secured.inclusion),
        TransactionLeg::Reassignment => payment.reassigned.as_ref().filter(|_| !payment.is_reopened),
        TransactionLeg::Release => payment.released.as_ref(),
        TransactionLeg::Refund => payment.refunded.as_ref().map(|refunded| &refunded.inclusion),
    };
    inclusion.map(|inclusion| inclusion.transaction_hash.clone())
}
