//! Addresses of merchants' offers (ADR 154): the contract that makes them, and what such an address commits to.

use alloy::{
    primitives::{Address, B256, keccak256},
    sol,
    sol_types::SolValue,
};

use events::{Amount, Terms, event::EscrowPlan};

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

/// What the address of an offer commits to, of which a payment with these terms and windows is a purchase: escrow, token and amount,
/// who admits and who attests, where strays go, how long delivery and refund may take, and the terms but for the payer's account.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain, and windows that are not in order.
pub fn offer(
    terms: &Terms,
    plan: &EscrowPlan,
    amount: Amount,
    merchant: Address,
) -> Result<OfferAddresses::Offer, ConvertError> {
    let seconds = |from: u64, to: u64| {
        let between = to.checked_sub(from).and_then(|seconds| u32::try_from(seconds).ok());
        between.ok_or(ConvertError::Time(to))
    };
    let (before, behind) = terms.around_payer();
    Ok(OfferAddresses::Offer {
        escrow: address(&plan.contract)?,
        token: erc20(terms.source.asset())?,
        amount: units(amount),
        reserver: address(&plan.reserver)?,
        releaser: address(&plan.releaser)?,
        merchant,
        deliverySeconds: seconds(plan.reserve_deadline, plan.fulfillment_deadline)?,
        refundSeconds: seconds(plan.fulfillment_deadline, plan.refund_after)?,
        termsBefore: before.into_bytes().into(),
        termsAfter: behind.into_bytes().into(),
    })
}

/// The hash of an offer, which is its address's salt.
pub fn salt(offer: &OfferAddresses::Offer) -> B256 {
    keccak256(offer.abi_encode())
}
