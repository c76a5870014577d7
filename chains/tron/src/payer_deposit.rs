//! Payer deposit: the payer's own approval and deposit, when they are sent, and why they are not.

use alloy::{
    primitives::{Address, U256},
    sol_types::SolError,
};

use escrow_abi::contracts::{DevToken, GatewayEscrow, units};
use events::event::{PayerStep, PayerTransaction, TronSpend};
use sagas::ports::{DepositOrder, PrepareError, Transient};

use super::{
    address::{address, trc20},
    calls::{refused, reservable_until, waiting},
    cost::{Cost, DEPOSIT_ENERGY_LEAST, RESERVATION_ENERGY, with_reserve},
    node::{Answer, BLOCK_MS, Block, BroadcastError, Info, Node, Span, State},
    submitters::Senders,
    transaction::{self, Decoded},
};

/// Bytes of a reservation, signed: the terms of the deposit are among them.
const RESERVATION_BYTES: usize = 1_100;
/// Energy that the deposit of a plain token takes.
const DEPOSIT_ENERGY: u64 = 150_000;
/// Blocks within which a transaction that is sent gets into one, when some are missed or late.
const LANDING_BLOCKS: u64 = 3;
/// Least time that is left for transactions to land, in milliseconds, however fast the blocks come.
const LANDING_MS_LEAST: u64 = 3_000;

/// The payer's own transactions.
pub(super) struct PayerTransactions<'a> {
    node: &'a Node,
    submitters: &'a Senders<'a>,
    escrow: Address,
    token: Address,
    payer: Address,
    amount: U256,
    reserve_deadline: u64,
    reservable_until: u64,
    approval: Option<Signed>,
    deposit: Signed,
}

/// A transaction that the payer signed.
struct Signed {
    decoded: Decoded,
    bytes: Vec<u8>,
}

impl Signed {
    fn read(transaction: &PayerTransaction) -> Result<Self, Transient> {
        let bytes = transaction.raw.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
        let bytes = bytes.ok_or_else(|| unusable("the payer's transaction is not hex with 0x"))?;
        let (decoded, _) = transaction::read_signed(&bytes).map_err(unusable)?;
        if decoded.id.to_string() != transaction.transaction_hash
            || decoded.draft.expiration_ms != transaction.expires_at
        {
            return Err(unusable("the payer's transaction is not what is journaled of it"));
        }
        Ok(Self { decoded, bytes })
    }
}

fn unusable(error: impl std::fmt::Display) -> Transient {
    Transient::misconfigured(format!("unusable order: {error}"))
}

/// What came of trying a transaction of the payer's out.
enum Trial {
    Fits(Cost),
    Reverts { reason: String, data: Vec<u8> },
}

impl<'a> PayerTransactions<'a> {
    /// Those of an order that were signed for `spend`, to the escrow at that address.
    ///
    /// # Errors
    /// [`Transient`] when they are not what is journaled of them.
    pub fn of(
        submitters: &'a Senders<'a>,
        order: &DepositOrder,
        spend: &TronSpend,
        escrow: Address,
    ) -> Result<Self, Transient> {
        let source = &order.terms.source;
        Ok(Self {
            node: submitters.node,
            submitters,
            escrow,
            token: trc20(source.asset())?,
            payer: address(source.account())?,
            amount: units(spend.amount),
            reserve_deadline: order.escrow.reserve_deadline,
            reservable_until: reservable_until(order),
            approval: spend.approval.as_ref().map(Signed::read).transpose()?,
            deposit: Signed::read(&spend.deposit)?,
        })
    }

    /// Sees to it that the payer's deposit gets on chain, or says why it does not. Nothing of the payer's is burnt for what
    /// is known to fail: each transaction is tried out and counted up first.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn bring(&self) -> Result<PrepareError, Transient> {
        let deposit = &self.deposit;
        if let Some(info) = self.node.info(deposit.decoded.id, State::Newest).await? {
            return Ok(match &info.failure {
                Some(failure) => self.failed(&info, failure),
                None => waiting("the payer's deposit is in a block whose state is not shown yet"),
            });
        }
        match self.try_out(deposit).await? {
            Trial::Fits(_) if let Some(first) = self.allowance_waits().await? => Ok(first),
            Trial::Fits(cost) => {
                let span = self.node.span().await?;
                match self.hindrance("deposit", deposit, cost.energy, cost, &span.head).await? {
                    Some(hindrance) => Ok(hindrance),
                    None => self.send(PayerStep::Deposit, deposit, 2, &span).await,
                }
            }
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
        if let Some(approval) = &self.approval {
            let id = approval.decoded.id;
            match self.node.info(id, State::Newest).await? {
                Some(info) if info.failure.is_none() => return Ok(None),
                Some(_) => {}
                // A node that does not tell is a fault, and the next look may find the approval in a block.
                None if self.node.waits(id).await? => return Ok(Some(on_its_way(PayerStep::Approval, approval))),
                None => {}
            }
        }
        let allowance = DevToken::allowanceCall { owner: self.payer, spender: self.escrow };
        Ok(match self.node.call(None, self.token, &allowance, State::Solidified).await? {
            Answer::Returned { value, .. } if value >= self.amount => None,
            _ => Some(waiting(&match &self.approval {
                Some(Signed { decoded, .. }) => {
                    format!("the payer's approval {} gives no allowance, and no other is settled", decoded.id)
                }
                None => "the allowance for the payer's deposit is not settled".to_owned(),
            })),
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
                Ok(on_its_way(PayerStep::Approval, approval))
            }
            Trial::Reverts { reason, .. } => Ok(self.refused(format!("the token refuses the approval: {reason}"))),
            Trial::Fits(cost) => {
                // What the deposit takes can only be guessed before it fits.
                let deposit = Cost::new(with_reserve(DEPOSIT_ENERGY), self.deposit.bytes.len());
                let both = cost.plus(&deposit);
                let (span, least) = (self.node.span().await?, DEPOSIT_ENERGY_LEAST);
                if let Some(hindrance) = self.hindrance("deposit", &self.deposit, least, both, &span.head).await? {
                    return Ok(hindrance);
                }
                match self.hindrance("approval", approval, cost.energy, both, &span.head).await? {
                    Some(hindrance) => Ok(hindrance),
                    None => self.send(PayerStep::Approval, approval, 3, &span).await,
                }
            }
        }
    }

    async fn try_out(&self, transaction: &Signed) -> Result<Trial, Transient> {
        let call = &transaction.decoded.draft.call;
        Ok(match self.node.trial(call.owner, call.contract, call.data.clone(), call.value_sun).await? {
            Answer::Returned { energy, .. } => Trial::Fits(Cost::new(with_reserve(energy), transaction.bytes.len())),
            Answer::Reverted { reason, data } => Trial::Reverts { reason, data },
        })
    }

    /// Why `transaction`, which takes `energy`, would fail although its contract takes it; `all` is what has to be paid
    /// for altogether.
    async fn hindrance(
        &self,
        name: &str,
        transaction: &Signed,
        energy: u64,
        all: Cost,
        head: &Block,
    ) -> Result<Option<PrepareError>, Transient> {
        let draft = &transaction.decoded.draft;
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
            all.lacking(&self.node.resources(self.payer).await?, &prices)
        };
        Ok(lacking.map(|lacking| {
            let mut context =
                self.node.refusal(self.escrow, format!("the payer's {name} cannot be paid for: {lacking}"));
            context.estimated_gas_needed = Some(energy.to_string());
            refused(context, self.reserve_deadline)
        }))
    }

    /// Sends what the payer signed. So many transactions are `left`, the reservation the last of them; where it could not
    /// follow in time or could not be paid for, the deposit would only be locked up until the refund.
    async fn send(
        &self,
        step: PayerStep,
        transaction: &Signed,
        left: u64,
        span: &Span,
    ) -> Result<PrepareError, Transient> {
        let name = step.as_str();
        let (now_ms, last_ms) = (span.head.time_ms, self.reservable_until.saturating_mul(1_000));
        let needed_ms = landing_ms(left, span);
        if now_ms.saturating_add(needed_ms) >= last_ms {
            return Ok(self.refused(format!(
                "it is too late for the payer's {name}: the escrow takes the reservation up to {last_ms} ms, the chain is at \
                 {now_ms} ms, and {left} transactions take {needed_ms} ms"
            )));
        }
        let cost = Cost::new(RESERVATION_ENERGY, RESERVATION_BYTES);
        if self.submitters.choose(&cost, &self.node.prices().await?).await?.is_none() {
            let chain = self.node.chain_id();
            return Err(Transient::rate_limited(format!(
                "no submitter of {chain} can pay for the reservation: the {name} is not sent"
            )));
        }
        match self.node.broadcast(&transaction.bytes).await {
            Ok(()) => Ok(on_its_way(step, transaction)),
            Err(BroadcastError::Transient(fault)) => Err(fault),
            Err(refusal @ BroadcastError::Refused { .. }) => {
                Ok(self.refused(format!("the network refuses the payer's {name}: {refusal}")))
            }
        }
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

fn on_its_way(step: PayerStep, transaction: &Signed) -> PrepareError {
    PrepareError::PayerSent { step, transaction_hash: transaction.decoded.id.to_string() }
}

/// How long it takes until so many transactions are in blocks, each sent when the one before is, in milliseconds.
///
/// Blocks come as they came lately, at most [`BLOCK_MS`] apart: a development chain's clock can be moved on.
fn landing_ms(transactions: u64, span: &Span) -> u64 {
    let blocks = span.head.number.saturating_sub(span.settled.number);
    let lately = span.head.time_ms.saturating_sub(span.settled.time_ms).checked_div(blocks).unwrap_or(BLOCK_MS);
    lately.min(BLOCK_MS).saturating_mul(LANDING_BLOCKS).saturating_mul(transactions).max(LANDING_MS_LEAST)
}

/// Whether the escrow refused a deposit for nothing but that no token came: all else about it is in order.
fn nothing_came(data: &[u8]) -> bool {
    GatewayEscrow::ReceivedNotExact::abi_decode_validate(data).is_ok_and(|error| error.received.is_zero())
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;

    use super::*;

    #[test]
    fn transactions_take_some_blocks_each_to_land() {
        let block = |number, time_ms| Block { number, id: B256::ZERO, parent: B256::ZERO, time_ms };
        let span = |blocks: u64, ms: u64| Span { settled: block(7, 1_000), head: block(7 + blocks, 1_000 + ms) };
        assert_eq!(landing_ms(3, &span(19, 57_000)), 27_000);
        assert_eq!(landing_ms(2, &span(19, 57_000)), 18_000);
        assert_eq!(landing_ms(3, &span(2, 1_000)), 4_500);
        assert_eq!(landing_ms(3, &span(3, 3)), 3_000);
        // What is known of no pace, or of a clock that was moved, is taken for the network's own.
        assert_eq!(landing_ms(3, &span(0, 0)), 27_000);
        assert_eq!(landing_ms(3, &span(3, 270_000)), 27_000);
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
