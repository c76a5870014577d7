//! What is sent for a payment: the reservation, the refund, the release; and what a transaction costs. The payer's own transactions are
//! [`super::payer_deposit`]'s.

use alloy::{primitives::Address, signers::local::PrivateKeySigner, sol_types::SolCall};

use chains::escrow;
use escrow_abi::{
    attest,
    contracts::{self, GatewayEscrow, units, word},
    eip712::{self, escrow_domain},
    signature,
};
use events::{
    Hash32, PaymentId,
    event::{EscrowPlan, TronSpend},
    failure::BlockchainContext,
};
use sagas::ports::{DepositOrder, PrepareError, RefundOrder, Refusal, ReleaseOrder, Transient};

use super::{
    address::address,
    node::{AccountResources, Node, Prices},
    payer_deposit::PayerDeposit,
    reads::{DatedRecord, unusable},
    submitters::Senders,
};

/// Energy that a reservation takes at most, with the margin that its fee limit has.
pub(super) const RESERVATION_ENERGY: u64 = 150_000;
/// Energy that a payer's deposit takes at least: the escrow writes seven words that were zero, at 20,000 each, and checks a
/// signature.
pub(super) const DEPOSIT_ENERGY_LEAST: u64 = 150_000;
/// Energy that must be there for a refund or a release: the escrow asks for 380,000 and more before each of up to two payouts,
/// so that nobody can starve one. What is not used is not paid.
pub(super) const PAYOUT_ENERGY: u64 = 1_000_000;
/// Energy that a refund or a release takes of what must be there.
const EXIT_ENERGY: u64 = 100_000;
/// Bytes of a refund or a release.
const EXIT_BYTES: u64 = 500;
/// A full node shows what it has not yet put into a block.
const RECORD_WAITS: &str = "a change of the payment's escrow waits for a block";
/// Bytes that the network adds to a transaction for its result.
const RESULT_BYTES: u64 = 64;

/// What a transaction takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Energy.
    pub energy: u64,
    /// Bytes of bandwidth.
    pub bandwidth: u64,
}

impl Cost {
    /// Of a signed transaction of `bytes` bytes.
    pub fn new(energy: u64, bytes: usize) -> Self {
        Self { energy, bandwidth: bytes as u64 + RESULT_BYTES }
    }

    /// The same, and so many exits after it: what one of them must show to be there, and what all of them take.
    pub fn with_exits(&self, exits: u64) -> Self {
        let shown = if exits == 0 { 0 } else { PAYOUT_ENERGY };
        let energy = EXIT_ENERGY.saturating_mul(exits).saturating_add(shown);
        let bandwidth = EXIT_BYTES.saturating_mul(exits);
        Self { energy: self.energy.saturating_add(energy), bandwidth: self.bandwidth.saturating_add(bandwidth) }
    }

    /// The `fee_limit` that covers the energy, in sun; `None` when the network takes none so high. Energy from a stake
    /// counts against it, too.
    pub fn fee_limit(&self, prices: &Prices) -> Option<u64> {
        let limit = self.energy.checked_mul(prices.energy_sun)?;
        prices.fee_limit_max_sun.is_none_or(|max| limit <= max).then_some(limit)
    }

    /// What an account of these means lacks for it, in words; `None` when they suffice.
    pub fn lacking(&self, resources: &AccountResources, prices: &Prices) -> Option<String> {
        // Bandwidth comes whole from one source.
        let bytes = if resources.bandwidth >= self.bandwidth { 0 } else { self.bandwidth };
        let energy = self.energy.saturating_sub(resources.energy);
        let bandwidth_sun = bytes.saturating_mul(prices.bandwidth_sun);
        let needed = energy.saturating_mul(prices.energy_sun).saturating_add(bandwidth_sun);
        (resources.balance_sun < needed).then(|| {
            format!(
                "{} energy and {} bytes of bandwidth cost {needed} sun beyond what is staked, and the account has {} sun",
                self.energy, self.bandwidth, resources.balance_sun
            )
        })
    }
}

/// The energy to allow for a call that took `estimate` when it was tried out: the state may change before it runs.
pub(super) fn with_margin(estimate: u64) -> u64 {
    estimate.saturating_add(estimate / 2)
}

/// What an estimate understates: a call inside the code passes on 63 of 64 parts of what is left.
pub(super) fn with_reserve(estimate: u64) -> u64 {
    estimate.saturating_add(estimate / 20)
}

/// A call that the gateway makes.
#[derive(Debug)]
pub(super) struct OwnCall {
    /// What is called.
    pub contract: Address,
    /// Selector and arguments.
    pub data: Vec<u8>,
    /// Energy that must be allowed for it, whatever the trial takes.
    pub energy_least: u64,
    /// The UNIX second up to which the contract takes the call; later it would only cost.
    pub taken_until: Option<u64>,
    /// The UNIX second up to which anyone who was shown the call can make it.
    pub valid_until: u64,
}

/// What is to be done for a deposit.
pub(super) enum Next {
    /// The payer's money is there: the reservation.
    Reserve(OwnCall),
    /// It is too early for that, or nothing can be done.
    NotYet(PrepareError),
}

/// A refusal that holds for the chain's state as it is now.
pub(super) fn refused(context: BlockchainContext, valid_until: u64) -> PrepareError {
    PrepareError::Refused(Box::new(Refusal { context, valid_until }))
}

/// What stands next for a deposit, after the payer's transactions were seen to as far as they can be now.
///
/// # Errors
/// [`Transient`].
pub(super) async fn deposit(
    order: &DepositOrder,
    spend: &TronSpend,
    reserver: &PrivateKeySigner,
    submitters: &Senders<'_>,
) -> Result<Next, Transient> {
    let node = submitters.node;
    let contract = address(&order.escrow.contract).map_err(unusable)?;
    let Some(read) = node.newest_escrow(&order.payment_id, contract).await? else {
        return Ok(Next::NotYet(waiting(RECORD_WAITS)));
    };
    let refuse = |reason: &str| {
        let context = node.refusal(contract, reason.to_owned());
        Ok(Next::NotYet(refused(context, order.escrow.reserve_deadline)))
    };
    match read.record {
        None => match unreservable(order, spend, contract)? {
            Some(reason) => refuse(&reason),
            None => PayerDeposit::of(submitters, order, spend, contract)?.bring().await.map(Next::NotYet),
        },
        Some(record)
            if !record.is_deposit_of(&order.terms.source, order.terms_hash, &order.escrow)
                || record.escrow.deposited != Some(spend.amount) =>
        {
            refuse("the payment's id is used by another deposit")
        }
        Some(record) => match record.escrow.state {
            escrow::State::Deposited => reservation(node, order, contract, reserver).map(Next::Reserve),
            escrow::State::Reserved => refuse("the deposit is reserved already"),
            escrow::State::Released | escrow::State::Refunded => refuse("the escrow has paid out already"),
        },
    }
}

/// The last second in which the escrow takes the reservation: up to and in its own deadline's, and before the delivery's.
pub(super) fn reservable_until(order: &DepositOrder) -> u64 {
    order.escrow.reserve_deadline.min(order.reservation.fulfill_by.saturating_sub(1))
}

/// Why the escrow would take the reservation at no time: then the payer's money is not to be locked up at all.
fn unreservable(order: &DepositOrder, spend: &TronSpend, escrow: Address) -> Result<Option<String>, Transient> {
    let terms = &order.reservation;
    let payout = address(&terms.payout_account).map_err(unusable)?;
    let latest = order.escrow.fulfillment_deadline;
    Ok(if payout == escrow {
        Some(format!("the escrow pays nothing out to the payout account {}", terms.payout_account))
    } else if terms.source_amount > spend.amount {
        Some(format!("{} are deposited, {} are to be reserved", spend.amount, terms.source_amount))
    } else if terms.fulfill_by > latest {
        Some(format!("the delivery may take up to {}, past the escrow's deadline {latest}", terms.fulfill_by))
    } else if spend.quote_hash != Hash32::ZERO && spend.quote_hash != terms.quote_hash {
        Some(format!("the payer agreed to the quote {} and to no other", spend.quote_hash))
    } else {
        None
    })
}

fn reservation(
    node: &Node,
    order: &DepositOrder,
    contract: Address,
    reserver: &PrivateKeySigner,
) -> Result<OwnCall, Transient> {
    let terms = &order.reservation;
    let message = eip712::Reservation {
        paymentId: word(order.payment_id.on_chain()),
        quoteHash: word(terms.quote_hash),
        settler: address(&terms.payout_account).map_err(unusable)?,
        sourceAmount: units(terms.source_amount),
        fulfillBy: contracts::time(terms.fulfill_by).map_err(unusable)?,
    };
    let digest = eip712::digest(&message, &escrow_domain(u64::from(node.reference()), contract));
    let signed = attest::sign_digest(reserver, digest).map_err(Transient::misconfigured)?;
    let signature = signature::bytes(&signed).map_err(Transient::misconfigured)?;
    let call = GatewayEscrow::reserveCall { r: (&message).into(), reserverSignature: signature.into() };
    Ok(OwnCall {
        contract,
        data: call.abi_encode(),
        energy_least: 0,
        taken_until: Some(reservable_until(order)),
        valid_until: order.escrow.reserve_deadline,
    })
}

/// Refund, or cancellation where the order has a non-delivery.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn refund(node: &Node, order: &RefundOrder) -> Result<OwnCall, PrepareError> {
    let (contract, _) = open_escrow(node, &order.payment_id, &order.escrow).await?;
    let payment_id = word(order.payment_id.on_chain());
    let (data, taken_until) = match &order.non_delivery {
        None => (GatewayEscrow::refundCall { paymentId: payment_id }.abi_encode(), None),
        Some(signature) => {
            let signature = signature::bytes(signature)
                .map_err(|error| Transient::misconfigured(format!("non-delivery: {error}")))?;
            let call = GatewayEscrow::cancelCall { paymentId: payment_id, nonDelivery: signature.into() };
            (call.abi_encode(), Some(order.escrow.refund_after.saturating_sub(1)))
        }
    };
    Ok(OwnCall { contract, data, energy_least: PAYOUT_ENERGY, taken_until, valid_until: 0 })
}

/// Release of what the order's quote reserved.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn release(node: &Node, order: &ReleaseOrder) -> Result<OwnCall, PrepareError> {
    let (contract, record) = open_escrow(node, &order.payment_id, &order.escrow).await?;
    if record.escrow.state != escrow::State::Reserved {
        return Err(refused(node.refusal(contract, "nobody is named to be paid".to_owned()), 0));
    }
    let attestation = signature::bytes(&order.attestation)
        .map_err(|error| Transient::misconfigured(format!("attestation: {error}")))?;
    let call =
        GatewayEscrow::releaseCall { paymentId: word(order.payment_id.on_chain()), attestation: attestation.into() };
    let taken_until = Some(order.escrow.refund_after.saturating_sub(1));
    Ok(OwnCall { contract, data: call.abi_encode(), energy_least: PAYOUT_ENERGY, taken_until, valid_until: 0 })
}

/// The escrow and its record, which holds the payment's money in the newest state.
async fn open_escrow(
    node: &Node,
    payment_id: &PaymentId,
    plan: &EscrowPlan,
) -> Result<(Address, DatedRecord), PrepareError> {
    let contract = address(&plan.contract).map_err(unusable)?;
    let Some(read) = node.newest_escrow(payment_id, contract).await? else {
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

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { energy_sun: 100, bandwidth_sun: 1_000, fee_limit_max_sun: Some(1_000_000) };

    #[test]
    fn a_fee_limit_covers_all_energy_or_there_is_none() {
        assert_eq!(Cost::new(10_000, 300).fee_limit(&PRICES), Some(1_000_000));
        assert_eq!(Cost::new(10_001, 300).fee_limit(&PRICES), None);
        assert_eq!(Cost::new(10_001, 300).fee_limit(&Prices { fee_limit_max_sun: None, ..PRICES }), Some(1_000_100));
        assert_eq!(Cost::new(u64::MAX, 300).fee_limit(&Prices { fee_limit_max_sun: None, ..PRICES }), None);
    }

    #[test]
    fn an_account_pays_for_what_its_stake_does_not_give() {
        let cost = Cost::new(10_000, 300);
        let lacks = |balance_sun, energy, bandwidth| {
            cost.lacking(&AccountResources { balance_sun, energy, bandwidth }, &PRICES).is_some()
        };
        assert!(!lacks(1_364_000, 0, 0) && lacks(1_363_999, 0, 0));
        assert!(!lacks(364_000, 10_000, 0) && lacks(363_999, 10_000, 0));
        // Bandwidth that does not cover it all covers nothing of it.
        assert!(!lacks(1_000_000, 0, 364) && lacks(1_000_000, 0, 363));
        assert!(!lacks(0, 20_000, 1_000));
        assert_eq!(cost.with_exits(0), cost);
        assert_eq!(cost.with_exits(10), Cost { energy: 2_010_000, bandwidth: 5_364 });
        let told = cost.lacking(&AccountResources { balance_sun: 7, energy: 0, bandwidth: 0 }, &PRICES).unwrap();
        assert!(told.contains("1364000 sun") && told.contains("has 7 sun"), "{told}");
    }
}
