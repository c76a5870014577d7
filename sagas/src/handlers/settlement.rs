//! The settlement leg: the delivery is found and accrues depth, which completes the payment; and it is attested, which pays
//! the settler.

use chrono::TimeDelta;

use events::time::{Timestamp, unix_seconds};

use super::{Action, Step, case, is_past};
use crate::{
    payment::{Awarded, Payment},
    ports::{DeliveryOrder, Statement},
    release::attestation_due,
};

/// How long a delivery at its depth is without an attestation before that is recorded: verifiers see the same blocks, some a
/// little later. One that says that it does not see the delivery is heard for as long before the payment is completed.
pub(crate) const ATTESTATION_PATIENCE: TimeDelta = TimeDelta::seconds(20);

pub(super) fn next(payment: &Payment, award: &Awarded, now: Timestamp) -> Step {
    Step::Do(Box::new(Action::FollowDelivery {
        order: delivery_order(payment, award),
        case: case(payment, award),
        verifier: payment.submitted.verifier.clone(),
        payout_account: award.quote.payout_account.clone(),
        window_open: is_past(now, payment.submitted.escrow.refund_after),
    }))
}

/// The payment is completed, and the settler is owed: its attestation is asked for until there is one, or until the escrow
/// takes none any more.
pub(super) fn next_attesting(payment: &Payment, award: &Awarded, now: Timestamp) -> Step {
    // `evolve` lets a payment into this stage only with it.
    let Some(finalized) = payment.finalized.as_deref() else { return Step::Rest };
    let escrow = &payment.submitted.escrow;
    let due = attestation_due(escrow.fulfillment_deadline, escrow.refund_after);
    let waited = now - finalized.finalized_at >= ATTESTATION_PATIENCE;
    Step::Do(Box::new(Action::FollowAttestation {
        order: delivery_order(payment, award),
        delivery: finalized.inclusion.clone(),
        statement: Statement::Delivery {
            payment_id: payment.submitted.payment_id.clone(),
            quote_hash: award.event.quote_hash,
            payout_account: award.quote.payout_account.clone(),
        },
        case: case(payment, award),
        verifier: payment.submitted.verifier.clone(),
        is_late: payment.attestation_awaited || waited || unix_seconds(now) > due,
    }))
}

fn delivery_order(payment: &Payment, award: &Awarded) -> DeliveryOrder {
    let quote = &award.quote;
    DeliveryOrder {
        payment_id: payment.submitted.payment_id.clone(),
        quote_hash: award.event.quote_hash,
        destination: quote.destination.clone(),
        amount: quote.fulfillment_amount,
        delivery_account: quote.delivery_account.clone(),
        proxy: quote.fulfillment_proxy.clone(),
        fulfill_by: unix_seconds(quote.fulfill_by),
    }
}
