//! The settlement leg: the delivery is found, accrues depth and is attested; then the escrow pays the settler.

use std::time::Duration;

use events::time::{Timestamp, unix_seconds};

use super::{Action, Step, case, is_past};
use crate::{
    payment::{Awarded, Payment},
    ports::DeliveryOrder,
};

/// A settler that does not fetch its money need not be watched at every block, where the chain gives no sign: the longest
/// time between two looks.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// How long after the delivery every block is looked at.
const EAGER: Duration = Duration::from_secs(60);

pub(super) fn next(payment: &Payment, award: &Awarded, now: Timestamp) -> Step {
    let quote = &award.quote;
    let order = DeliveryOrder {
        payment_id: payment.submitted.payment_id.clone(),
        quote_hash: award.event.quote_hash,
        destination: quote.destination.clone(),
        amount: quote.fulfillment_amount,
        delivery_account: quote.delivery_account.clone(),
        proxy: quote.fulfillment_proxy.clone(),
        fulfill_by: unix_seconds(quote.fulfill_by),
    };
    Step::Do(Box::new(Action::FollowDelivery {
        order,
        case: case(payment, award),
        verifier: payment.submitted.verifier.clone(),
        payout_account: quote.payout_account.clone(),
        window_open: is_past(now, payment.submitted.escrow.refund_after),
    }))
}

pub(super) fn next_completed(payment: &Payment, now: Timestamp) -> Step {
    let waited = payment.confirmed.as_ref().and_then(|confirmed| (now - confirmed.confirmed_at).to_std().ok());
    let waited = waited.unwrap_or_default();
    let patience = (waited > EAGER).then(|| (waited / 10).min(PATIENCE_MAX));
    Step::Do(Box::new(Action::FollowEscrow {
        payment_id: payment.submitted.payment_id.clone(),
        escrow: payment.submitted.escrow.clone(),
        patience,
    }))
}
