//! Agreement: what an escrow commits to of a payment, whoever signs for it or whatever address its money is sent to.

use escrow_abi::{
    contracts::{time, word},
    eip712,
};
use events::{Account, Hash32, PaymentId, event::EscrowPlan};

use super::{address::address, deliveries::OrderError};

/// What the payer's wallet signs a transaction with, or an address commits to, and the escrow does, for the quote `agreed` or none.
///
/// # Errors
/// [`OrderError`] when an account or a time of the payment is not one of Tron's contracts'.
pub(super) fn agreement(
    payment_id: &PaymentId,
    payer: &Account,
    terms_hash: Hash32,
    agreed: Hash32,
    plan: &EscrowPlan,
) -> Result<eip712::GatewayDeposit, OrderError> {
    Ok(eip712::GatewayDeposit {
        paymentId: word(payment_id.on_chain()),
        termsHash: word(terms_hash),
        quoteHash: word(agreed),
        payer: address(payer)?,
        reserver: address(&plan.reserver)?,
        releaser: address(&plan.releaser)?,
        reserveDeadline: time(plan.reserve_deadline)?,
        fulfillmentDeadline: time(plan.fulfillment_deadline)?,
        refundAfter: time(plan.refund_after)?,
    })
}
