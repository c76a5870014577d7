//! Addresses of merchants' offers (ADR 154): the contract that makes them, and what such an address commits to.

use alloy::{
    primitives::{B256, keccak256},
    sol,
    sol_types::SolValue,
};

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

/// What the address of an offer commits to.
#[derive(Debug, Clone, Copy)]
pub struct Commitment<'a> {
    /// The terms of a purchase, whoever pays.
    pub terms: &'a Terms,
    /// What each buyer pays, smallest unit.
    pub amount: Amount,
    /// The escrow contract.
    pub escrow: &'a Account,
    /// Who admits deposits and names settlers.
    pub reserver: &'a Account,
    /// Who attests deliveries.
    pub releaser: &'a Account,
    /// Where strays go.
    pub merchant: &'a Account,
    /// From the end of an authorization to the last second of the delivery.
    pub delivery_seconds: u32,
    /// From there to the first second of the refund.
    pub refund_seconds: u32,
}

impl<'a> Commitment<'a> {
    /// Of the offer that a payment with these terms and windows is a purchase of.
    ///
    /// # Errors
    /// [`ConvertError`] for windows that are not in order.
    pub fn of_purchase(
        terms: &'a Terms,
        plan: &'a EscrowPlan,
        amount: Amount,
        merchant: &'a Account,
    ) -> Result<Self, ConvertError> {
        let seconds = |from: u64, to: u64| {
            let between = to.checked_sub(from).and_then(|seconds| u32::try_from(seconds).ok());
            between.ok_or(ConvertError::Time(to))
        };
        Ok(Self {
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
    pub fn offer(&self) -> Result<OfferAddresses::Offer, ConvertError> {
        let (before, behind) = self.terms.around_payer();
        Ok(OfferAddresses::Offer {
            escrow: address(self.escrow)?,
            token: erc20(self.terms.source.asset())?,
            amount: units(self.amount),
            reserver: address(self.reserver)?,
            releaser: address(self.releaser)?,
            merchant: address(self.merchant)?,
            deliverySeconds: self.delivery_seconds,
            refundSeconds: self.refund_seconds,
            termsBefore: before.into_bytes().into(),
            termsAfter: behind.into_bytes().into(),
        })
    }
}

/// The hash of an offer, which is its address's salt.
pub fn salt(offer: &OfferAddresses::Offer) -> B256 {
    keccak256(offer.abi_encode())
}
