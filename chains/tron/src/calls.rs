//! Calls of the gateway: refund and release, and the form that every call has. The reservation is [`super::reservation`]'s, the
//! payer's own transactions are [`super::payer_deposit`]'s.

use alloy::{primitives::Address, sol_types::SolCall};

use chains::escrow;
use escrow_abi::{contracts::GatewayEscrow, record::EscrowTerms, signature};
use events::{PaymentId, event::EscrowPlan, failure::BlockchainContext};
use sagas::ports::{DepositOrder, PrepareError, RefundOrder, Refusal, ReleaseOrder, Transient};

use super::{
    address::address,
    cost::PAYOUT_ENERGY,
    escrows::{DatedRecord, Escrows},
    node::Node,
};

/// A full node shows what it has not yet put into a block.
pub(super) const RECORD_WAITS: &str = "a change of the payment's escrow waits for a block";

/// A call that the gateway makes.
#[derive(Debug, Default)]
pub(super) struct GatewayCall {
    /// What is called.
    pub contract: Address,
    /// Selector and arguments.
    pub data: Vec<u8>,
    /// What is tried out in its place, where that is admitted for a shorter time.
    pub trial: Option<Trial>,
    /// Energy that it may take at most when it is tried out.
    pub energy_max: Option<u64>,
    /// Energy that must be allowed for it, whatever the trial takes.
    pub energy_least: u64,
    /// The UNIX second up to which the contract takes the call; later it would only cost.
    pub taken_until: Option<u64>,
    /// The UNIX second up to which anyone who was shown the call can make it.
    pub valid_until: u64,
}

/// What is tried out in place of a call.
#[derive(Debug)]
pub(super) struct Trial {
    /// Selector and arguments.
    pub data: Vec<u8>,
    /// The UNIX second up to which anyone who was shown it can make it.
    pub valid_until: u64,
}

/// A refusal that holds for the chain's state as it is now.
pub(super) fn refused(context: BlockchainContext, valid_until: u64) -> PrepareError {
    PrepareError::Refused(Box::new(Refusal { context, valid_until }))
}

/// The last second in which the escrow takes the reservation: up to and in its own deadline's, and before the delivery's.
pub(super) fn reservable_until(order: &DepositOrder) -> u64 {
    order.escrow.reserve_deadline.min(order.reservation.fulfill_by.saturating_sub(1))
}

/// Refund, or cancellation where the order has a non-delivery.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn refund(node: &Node, order: &RefundOrder) -> Result<GatewayCall, PrepareError> {
    let (contract, DatedRecord { terms: EscrowTerms(terms), .. }) =
        open_escrow(node, &order.payment_id, &order.escrow).await?;
    let (data, taken_until) = match &order.non_delivery {
        None => (GatewayEscrow::refundCall { e: terms }.abi_encode(), None),
        Some(signature) => {
            let signature = signature::bytes(signature)
                .map_err(|error| Transient::misconfigured(format!("non-delivery: {error}")))?;
            let call = GatewayEscrow::cancelCall { e: terms, nonDelivery: signature.into() };
            (call.abi_encode(), Some(order.escrow.refund_after.saturating_sub(1)))
        }
    };
    Ok(GatewayCall { contract, data, energy_least: PAYOUT_ENERGY, taken_until, ..GatewayCall::default() })
}

/// Release of what the order's quote reserved.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn release(node: &Node, order: &ReleaseOrder) -> Result<GatewayCall, PrepareError> {
    let (contract, record) = open_escrow(node, &order.payment_id, &order.escrow).await?;
    if record.escrow.state != escrow::State::Reserved {
        return Err(refused(node.refusal(contract, "nobody is named to be paid".to_owned()), 0));
    }
    let attestation = signature::bytes(&order.attestation)
        .map_err(|error| Transient::misconfigured(format!("attestation: {error}")))?;
    let call = GatewayEscrow::releaseCall { e: record.terms.0, attestation: attestation.into() };
    let taken_until = Some(order.escrow.refund_after.saturating_sub(1));
    let data = call.abi_encode();
    Ok(GatewayCall { contract, data, energy_least: PAYOUT_ENERGY, taken_until, ..GatewayCall::default() })
}

/// The escrow and its record, which holds the payment's money in the newest state.
async fn open_escrow(
    node: &Node,
    payment_id: &PaymentId,
    plan: &EscrowPlan,
) -> Result<(Address, DatedRecord), PrepareError> {
    let contract = address(&plan.contract)?;
    let Some(read) = Escrows::of(node).newest(payment_id, contract).await? else {
        return Err(waiting(RECORD_WAITS));
    };
    let refuse = |reason: &str| refused(node.refusal(contract, reason.to_owned()), 0);
    let record = read.record.filter(|record| record.escrow.is_of(plan));
    let Some(record) = record else { return Err(refuse("nothing is in escrow for the payment")) };
    if record.ended_at.is_some() {
        return Err(refuse("the escrow has paid out already"));
    }
    Ok((contract, record))
}

/// Nothing is wrong, and the next block may change it.
pub(super) fn waiting(what: &str) -> PrepareError {
    PrepareError::Waiting(what.to_owned())
}
