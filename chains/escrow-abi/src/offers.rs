//! Addresses of merchants' offers (ADR 154): the contract that makes them, and what such an address commits to.

use alloy::{
    primitives::{B256, keccak256},
    sol,
    sol_types::SolValue,
};

use chains::offer::Commitment;
use events::{Account, Amount, Terms, event::EscrowPlan};

use super::{
    contracts::{ConvertError, address, erc20, units},
    eip712,
};

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    OfferAddresses,
    "../../contracts/artifacts/OfferAddresses.json"
);

eip712::structs_of!(GatewayEscrow);

/// The offer that a payment with these terms and windows is a purchase of.
///
/// # Errors
/// [`ConvertError`] for windows that are not in order.
pub fn of_purchase<'a>(
    terms: &'a Terms,
    plan: &'a EscrowPlan,
    amount: Amount,
    merchant: &'a Account,
) -> Result<Commitment<'a>, ConvertError> {
    let seconds = |from: u64, to: u64| {
        let between = to.checked_sub(from).and_then(|seconds| u32::try_from(seconds).ok());
        between.ok_or(ConvertError::Time(to))
    };
    Ok(Commitment {
        terms,
        amount,
        escrow: &plan.contract,
        reserver: &plan.reserver,
        releaser: &plan.releaser,
        merchant,
        delivery_seconds: seconds(plan.reserve_deadline, plan.fulfillment_deadline)?,
        refund_seconds: seconds(plan.fulfillment_deadline, plan.refund_after)?,
    })
}

/// The same as the contract takes it.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn offer(commitment: &Commitment<'_>) -> Result<OfferAddresses::Offer, ConvertError> {
    let (before, behind) = commitment.terms.around_payer();
    Ok(OfferAddresses::Offer {
        escrow: address(commitment.escrow)?,
        token: erc20(commitment.terms.source.asset())?,
        amount: units(commitment.amount),
        reserver: address(commitment.reserver)?,
        releaser: address(commitment.releaser)?,
        merchant: address(commitment.merchant)?,
        deliverySeconds: commitment.delivery_seconds,
        refundSeconds: commitment.refund_seconds,
        termsBefore: before.into_bytes().into(),
        termsAfter: behind.into_bytes().into(),
    })
}

/// The hash of an offer, which is its address's salt.
pub fn salt(offer: &OfferAddresses::Offer) -> B256 {
    keccak256(offer.abi_encode())
}
