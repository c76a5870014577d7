//! The settlement leg: the delivery is found, accrues depth and is attested.

use events::time::{Timestamp, unix_seconds};

use super::{Action, Step, case, is_past};
use crate::{
    payment::{Awarded, Payment},
    ports::DeliveryOrder,
};

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
