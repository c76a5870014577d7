//! What is sent for a payment: the payer's own transactions, the reservation, the refund; and what a transaction costs.

use alloy::{
    primitives::{Address, U256},
    signers::local::PrivateKeySigner,
    sol_types::{SolCall, SolError},
};

use events::{
    event::{OwnTransaction, TronSpend},
    failure::BlockchainContext,
};
use sagas::ports::{DepositOrder, PrepareError, RefundOrder, Refusal, Transient};

use super::{
    address::{address, trc20},
    node::{Answer, BroadcastError, Info, Means, Node, Prices, State},
    reads::unusable,
    transaction::{self, Decoded},
};
use crate::{
    escrow,
    evm::{
        attest,
        contracts::{self, DevToken, GatewayEscrow, units, word},
        eip712::{self, escrow_domain},
        signature,
    },
};

/// Energy that a reservation takes at most, with the margin that its fee limit has.
pub(super) const RESERVATION_ENERGY: u64 = 150_000;
/// Energy that a payer's deposit takes at least: the escrow writes seven words that were zero, at 20,000 each, and checks a
/// signature.
pub(super) const DEPOSIT_ENERGY_LEAST: u64 = 150_000;
/// Energy that the deposit of a plain token takes.
const DEPOSIT_ENERGY: u64 = 220_000;
/// Energy that must be there for a refund or a release: the escrow asks for 380,000 and more before each of up to two payouts,
/// so that nobody can starve one. What is not used is not paid.
pub(super) const PAYOUT_ENERGY: u64 = 1_000_000;
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

    /// The `fee_limit` that covers the energy, in sun; `None` when the network takes none so high. Energy from a stake
    /// counts against it, too.
    pub fn fee_limit(&self, prices: &Prices) -> Option<u64> {
        let limit = self.energy.checked_mul(prices.energy_sun)?;
        prices.fee_limit_max_sun.is_none_or(|max| limit <= max).then_some(limit)
    }

    /// What an account of these means lacks for it, in words; `None` when they suffice.
    pub fn lacking(&self, means: &Means, prices: &Prices) -> Option<String> {
        // Bandwidth comes whole from one source.
        let bytes = if means.bandwidth >= self.bandwidth { 0 } else { self.bandwidth };
        let energy = self.energy.saturating_sub(means.energy);
        let bandwidth_sun = bytes.saturating_mul(prices.bandwidth_sun);
        let needed = energy.saturating_mul(prices.energy_sun).saturating_add(bandwidth_sun);
        (means.balance_sun < needed).then(|| {
            format!(
                "{} energy and {} bytes of bandwidth cost {needed} sun beyond what is staked, and the account has {} sun",
                self.energy, self.bandwidth, means.balance_sun
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
fn refused(context: BlockchainContext, valid_until: u64) -> PrepareError {
    PrepareError::Refused(Box::new(Refusal { context, valid_until }))
}

/// What stands next for a deposit, after the payer's transactions were seen to as far as they can be now.
///
/// # Errors
/// [`Transient`].
pub(super) async fn deposit(
    node: &Node,
    order: &DepositOrder,
    spend: &TronSpend,
    reserver: &PrivateKeySigner,
) -> Result<Next, Transient> {
    let contract = address(&order.escrow.contract).map_err(unusable)?;
    let Some(read) = node.newest_escrow(&order.payment_id, contract).await? else {
        return Ok(Next::NotYet(waiting(RECORD_WAITS)));
    };
    let refuse = |reason: &str| {
        let context = node.refusal(contract, reason.to_owned());
        Ok(Next::NotYet(refused(context, order.escrow.reserve_deadline)))
    };
    match read.record {
        None => Own::of(node, order, spend, contract)?.bring().await.map(Next::NotYet),
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
    let signed = attest::sign_digest(reserver, digest).map_err(|error| Transient(error.to_string()))?;
    let signature = signature::bytes(&signed).map_err(|error| Transient(error.to_string()))?;
    let call = GatewayEscrow::reserveCall { r: (&message).into(), reserverSignature: signature.into() };
    let reserve_deadline = order.escrow.reserve_deadline;
    Ok(OwnCall {
        contract,
        data: call.abi_encode(),
        energy_least: 0,
        taken_until: Some(reserve_deadline),
        valid_until: reserve_deadline,
    })
}

/// Refund, or cancellation where the order has a non-delivery.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn refund(node: &Node, order: &RefundOrder) -> Result<OwnCall, PrepareError> {
    let contract = address(&order.escrow.contract).map_err(unusable)?;
    let Some(read) = node.newest_escrow(&order.payment_id, contract).await? else {
        return Err(waiting(RECORD_WAITS));
    };
    let refuse = |reason: &str| refused(node.refusal(contract, reason.to_owned()), 0);
    let record = read.record.filter(|record| record.escrow.is_of(&order.escrow));
    let Some(record) = record else { return Err(refuse("nothing is in escrow for the payment")) };
    if record.ended_at.is_some() {
        return Err(refuse("the escrow has paid out already"));
    }
    let payment_id = word(order.payment_id.on_chain());
    let (data, taken_until) = match &order.non_delivery {
        None => (GatewayEscrow::refundCall { paymentId: payment_id }.abi_encode(), None),
        Some(signature) => {
            let signature = signature::bytes(signature).map_err(|error| Transient(format!("non-delivery: {error}")))?;
            let call = GatewayEscrow::cancelCall { paymentId: payment_id, nonDelivery: signature.into() };
            (call.abi_encode(), Some(order.escrow.refund_after.saturating_sub(1)))
        }
    };
    Ok(OwnCall { contract, data, energy_least: PAYOUT_ENERGY, taken_until, valid_until: 0 })
}

/// The payer's own transactions.
struct Own<'a> {
    node: &'a Node,
    escrow: Address,
    token: Address,
    payer: Address,
    amount: U256,
    reserve_deadline: u64,
    approval: Option<Signed>,
    deposit: Signed,
}

/// A transaction that the payer signed.
struct Signed {
    decoded: Decoded,
    bytes: Vec<u8>,
}

impl Signed {
    fn read(own: &OwnTransaction) -> Result<Self, Transient> {
        let bytes = own.raw.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
        let bytes = bytes.ok_or_else(|| unusable("the payer's transaction is no hex with 0x"))?;
        let (decoded, _) = transaction::read_signed(&bytes).map_err(unusable)?;
        if decoded.id.to_string() != own.transaction_hash || decoded.draft.expiration_ms != own.expires_at {
            return Err(unusable("the payer's transaction is not what is journaled of it"));
        }
        Ok(Self { decoded, bytes })
    }
}

/// What came of trying a transaction of the payer's out.
enum Trial {
    Fits(Cost),
    Reverts { reason: String, data: Vec<u8> },
}

impl<'a> Own<'a> {
    fn of(node: &'a Node, order: &DepositOrder, spend: &TronSpend, escrow: Address) -> Result<Self, Transient> {
        let source = &order.terms.source;
        Ok(Self {
            node,
            escrow,
            token: trc20(source.asset()).map_err(unusable)?,
            payer: address(source.account().as_str()).map_err(unusable)?,
            amount: units(spend.amount),
            reserve_deadline: order.escrow.reserve_deadline,
            approval: spend.approval.as_ref().map(Signed::read).transpose()?,
            deposit: Signed::read(&spend.deposit)?,
        })
    }

    /// Sees to it that the payer's deposit gets on chain, or says why it does not. Nothing of the payer's is burnt for what
    /// is known to fail: each transaction is tried out and counted up first.
    async fn bring(&self) -> Result<PrepareError, Transient> {
        let deposit = &self.deposit;
        if let Some(info) = self.node.info(deposit.decoded.id, State::Newest).await? {
            return Ok(match &info.failure {
                Some(failure) => self.failed(&info, failure),
                None => waiting("the payer's deposit is in a block whose state is not shown yet"),
            });
        }
        match self.try_out(deposit).await? {
            Trial::Fits(_) if let Some(first) = self.allowance_waits().await? => Ok(first),
            Trial::Fits(cost) => match self.hindrance("deposit", deposit, cost.energy, cost).await? {
                Some(hindrance) => Ok(hindrance),
                None => self.send("deposit", deposit).await,
            },
            Trial::Reverts { reason, data } => match &self.approval {
                Some(approval) if nothing_came(&data) => self.bring_approval(approval, reason).await,
                _ => Ok(self.refused(reason)),
            },
        }
    }

    /// Why a deposit that fits is not to be sent yet: the allowance by which it fits may only wait, for a full node shows what
    /// waits. A block could have the deposit first, which then fails at the payer's cost.
    ///
    /// The allowance is in a block when the payer's approval is, or when it stands in solidified state and the approval is not
    /// under way.
    async fn allowance_waits(&self) -> Result<Option<PrepareError>, Transient> {
        let Some(approval) = &self.approval else { return Ok(None) };
        let id = approval.decoded.id;
        match self.node.info(id, State::Newest).await? {
            Some(info) if info.failure.is_none() => return Ok(None),
            Some(_) => {}
            // A node that does not tell is a fault, and the next look may find the approval in a block.
            None if self.node.waits(id).await? => return Ok(Some(self.on_its_way("approval", approval))),
            None => {}
        }
        let allowance = DevToken::allowanceCall { owner: self.payer, spender: self.escrow };
        Ok(match self.node.call(None, self.token, &allowance, State::Solidified).await? {
            Answer::Returned { value, .. } if value >= self.amount => None,
            _ => Some(waiting(&format!("the payer's approval {id} gives no allowance, and no other is settled"))),
        })
    }

    /// The deposit fits but for the token, which moved nothing.
    async fn bring_approval(&self, approval: &Signed, reason: String) -> Result<PrepareError, Transient> {
        if let Some(info) = self.node.info(approval.decoded.id, State::Newest).await? {
            return Ok(match &info.failure {
                Some(failure) => self.failed(&info, failure),
                None => self.refused(reason),
            });
        }
        let balance = DevToken::balanceOfCall { account: self.payer };
        if let Answer::Returned { value, .. } = self.node.call(None, self.token, &balance, State::Newest).await?
            && value < self.amount
        {
            return Ok(self.refused(format!("the payer has {value} of the token, {} are to be deposited", self.amount)));
        }
        match self.try_out(approval).await? {
            // Some tokens take no second approval (USDT), and one of several nodes may show the first, which waits.
            Trial::Reverts { .. } if self.node.waits(approval.decoded.id).await? => {
                Ok(self.on_its_way("approval", approval))
            }
            Trial::Reverts { reason, .. } => Ok(self.refused(format!("the token refuses the approval: {reason}"))),
            Trial::Fits(cost) => {
                // What the deposit takes can only be guessed before it fits.
                let deposit = Cost::new(DEPOSIT_ENERGY, self.deposit.bytes.len());
                let both = Cost { energy: cost.energy + deposit.energy, bandwidth: cost.bandwidth + deposit.bandwidth };
                if let Some(hindrance) = self.hindrance("deposit", &self.deposit, DEPOSIT_ENERGY_LEAST, both).await? {
                    return Ok(hindrance);
                }
                match self.hindrance("approval", approval, cost.energy, both).await? {
                    Some(hindrance) => Ok(hindrance),
                    None => self.send("approval", approval).await,
                }
            }
        }
    }

    async fn try_out(&self, own: &Signed) -> Result<Trial, Transient> {
        let call = &own.decoded.draft.call;
        Ok(match self.node.trial(call.owner, call.contract, call.data.clone(), call.value_sun).await? {
            Answer::Returned { energy, .. } => Trial::Fits(Cost::new(with_reserve(energy), own.bytes.len())),
            Answer::Reverted { reason, data } => Trial::Reverts { reason, data },
        })
    }

    /// Why `own`, which takes `energy`, would fail although its contract takes it; `all` is what has to be paid for altogether.
    async fn hindrance(
        &self,
        name: &str,
        own: &Signed,
        energy: u64,
        all: Cost,
    ) -> Result<Option<PrepareError>, Transient> {
        let draft = &own.decoded.draft;
        let head = self.node.head().await?;
        if head.time_ms >= draft.expiration_ms {
            return Ok(Some(self.refused(format!(
                "the payer's {name} expired at {} ms, and the chain is at {} ms",
                draft.expiration_ms, head.time_ms
            ))));
        }
        let prices = self.node.prices().await?;
        let limit = draft.fee_limit_sun.checked_div(prices.energy_sun).unwrap_or(u64::MAX);
        let lacking = if limit < energy {
            let fee_limit = draft.fee_limit_sun;
            Some(format!("its fee_limit of {fee_limit} sun covers {limit} energy, and {energy} are needed"))
        } else {
            all.lacking(&self.node.means(self.payer).await?, &prices)
        };
        Ok(lacking.map(|lacking| {
            let mut context =
                self.node.refusal(self.escrow, format!("the payer's {name} cannot be paid for: {lacking}"));
            context.estimated_gas_needed = Some(energy.to_string());
            refused(context, self.reserve_deadline)
        }))
    }

    async fn send(&self, name: &str, own: &Signed) -> Result<PrepareError, Transient> {
        match self.node.broadcast(&own.bytes).await {
            Ok(()) => Ok(self.on_its_way(name, own)),
            Err(BroadcastError::Transient(fault)) => Err(fault),
            Err(refusal @ BroadcastError::Refused { .. }) => {
                Ok(self.refused(format!("the network refuses the payer's {name}: {refusal}")))
            }
        }
    }

    fn on_its_way(&self, name: &str, own: &Signed) -> PrepareError {
        waiting(&format!("the payer's {name} {} is on its way", own.decoded.id))
    }

    /// Whoever has the payer's transactions can bring them as long as the escrow takes the deposit.
    fn refused(&self, reason: String) -> PrepareError {
        refused(self.node.refusal(self.escrow, reason), self.reserve_deadline)
    }

    fn failed(&self, info: &Info, failure: &str) -> PrepareError {
        let mut context = self.node.refusal(self.escrow, failure.to_owned());
        context.transaction_hash = Some(info.id.to_string());
        context.block_number = Some(info.block_number);
        context.gas_used = Some(info.energy.to_string());
        refused(context, self.reserve_deadline)
    }
}

fn waiting(what: &str) -> PrepareError {
    PrepareError::Waiting(what.to_owned())
}

/// Whether the escrow refused a deposit for nothing but that no token came: all else about it is in order.
fn nothing_came(data: &[u8]) -> bool {
    GatewayEscrow::ReceivedNotExact::abi_decode_validate(data).is_ok_and(|error| error.received.is_zero())
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
        let lacks =
            |balance_sun, energy, bandwidth| cost.lacking(&Means { balance_sun, energy, bandwidth }, &PRICES).is_some();
        assert!(!lacks(1_364_000, 0, 0) && lacks(1_363_999, 0, 0));
        assert!(!lacks(364_000, 10_000, 0) && lacks(363_999, 10_000, 0));
        // Bandwidth that does not cover it all covers nothing of it.
        assert!(!lacks(1_000_000, 0, 364) && lacks(1_000_000, 0, 363));
        assert!(!lacks(0, 20_000, 1_000));
        let told = cost.lacking(&Means { balance_sun: 7, energy: 0, bandwidth: 0 }, &PRICES).unwrap();
        assert!(told.contains("1364000 sun") && told.contains("has 7 sun"), "{told}");
    }

    #[test]
    fn only_a_token_that_moved_nothing_calls_for_an_approval() {
        let received = |received: u64| {
            let expected = U256::from(10);
            GatewayEscrow::ReceivedNotExact { expected, received: U256::from(received) }.abi_encode()
        };
        assert!(nothing_came(&received(0)));
        assert!(!nothing_came(&received(9)));
        assert!(!nothing_came(&GatewayEscrow::AmountZero {}.abi_encode()));
        assert!(!nothing_came(&received(0)[..40]));
        assert!(!nothing_came(&[]));
    }
}
