//! Escrows: what their contracts have on record about a payment, read so that it can be concluded from.

use alloy::primitives::Address;

use chains::escrow::{EscrowRecord, State};
use escrow_abi::{
    attest::statement_digest,
    claims,
    contracts::{self, GatewayEscrow, account, address, word},
    record, signature,
};
use events::{
    Account, Amount, PaymentId,
    event::{Claim, EscrowPlan, EscrowRefunded, Inclusion},
};
use sagas::ports::{EscrowState, Statement, Transient};

use super::{
    calls::Calls,
    logs::{Found, Logs},
    node::{At, BlockRef, Node},
    query::Query,
};

/// The escrows of one chain.
#[derive(Debug, Clone, Copy)]
pub struct Escrows<'a> {
    node: &'a Node,
}

/// An escrow at the newest settled block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledEscrow {
    /// The block.
    pub block: BlockRef,
    /// What the escrow has on record for the payment there; `None` when it knows nothing.
    pub record: Option<EscrowRecord>,
}

impl<'a> Escrows<'a> {
    /// The escrows of the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// What the escrow at `contract` knows of the payment at `at`; `None` when it knows nothing, or there is no contract.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn record(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        at: At,
    ) -> Result<Option<EscrowRecord>, Transient> {
        let call = GatewayEscrow::escrowOfCall { paymentId: word(payment_id.on_chain()) };
        let Some(escrow) = Calls::of(self.node).view(contract, &call, at).await? else { return Ok(None) };
        record::read(&escrow, self.node.chain_id())
            .map_err(|error| self.node.contradiction(format!("the record of {payment_id} in {contract}: {error}")))
    }

    /// The escrow at `contract` at the newest settled block.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn settled(&self, payment_id: &PaymentId, contract: &Account) -> Result<SettledEscrow, Transient> {
        let contract = address(contract)?;
        let block = self.node.settled().await?;
        let record = self.record(payment_id, contract, At::Block(block)).await?;
        Ok(SettledEscrow { block, record })
    }

    /// Where the escrow stands at the required depth; an escrow of somebody else under the same payment id is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        let contract = address(&plan.contract)?;
        let SettledEscrow { block: settled, record } = self.settled(payment_id, &plan.contract).await?;
        let Some(record) = record.filter(|record| record.is_of(plan)) else { return Ok(EscrowState::Absent) };
        let (id, quote) = (word(payment_id.on_chain()), word(record.quote_hash));
        match record.state {
            // The escrow releases strictly before `refundAfter`, and later blocks are no earlier than this one.
            State::Deposited | State::Reserved if settled.time >= record.refund_after => Ok(EscrowState::Lapsed),
            State::Deposited | State::Reserved => Ok(EscrowState::Held),
            State::Released => {
                let found: Found<GatewayEscrow::Released> = Logs::of(self.node)
                    .find(contract, id, settled, |event: &GatewayEscrow::Released| event.quoteHash == quote)
                    .await?;
                Ok(EscrowState::Released(found.inclusion))
            }
            State::Refunded => {
                let found: Found<GatewayEscrow::Refunded> = Logs::of(self.node)
                    .find(contract, id, settled, |event: &GatewayEscrow::Refunded| account(event.payer) == record.payer)
                    .await?;
                let amount =
                    Amount::new(found.event.amount).ok_or_else(|| self.node.contradiction("a refund of nothing"))?;
                Ok(EscrowState::Refunded(EscrowRefunded { inclusion: found.inclusion, amount, claims: Vec::new() }))
            }
        }
    }

    /// The payouts of the escrow's end in the transaction `end` that became claims.
    ///
    /// # Errors
    /// [`Transient`], also when the transaction is not the payment's end.
    pub async fn claims(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        let contract = address(&plan.contract)?;
        let logs = Logs::of(self.node).of_transaction(contract, end).await?;
        let found = claims::of_end(&logs, contract, word(payment_id.on_chain()), contracts::account);
        found.ok_or_else(|| self.node.contradiction(format!("{} does not end {payment_id}", end.transaction_hash)))
    }

    /// Whether `signature` is the releaser's statement, as the escrow would judge it at the newest block.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn attestation_holds(
        &self,
        statement: &Statement,
        plan: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        let contract = address(&plan.contract)?;
        let releaser = address(&plan.releaser)?;
        // A statement that names no account, or bytes that are not hex, are not the releaser's.
        let Ok(digest) = statement_digest(statement, self.node.evm_id(), contract, address) else { return Ok(false) };
        let Ok(bytes) = signature::bytes(signature) else { return Ok(false) };
        let head = At::Block(self.node.head().await?);
        if Query::of(self.node).code(releaser, head).await?.is_empty() {
            return Ok(signature::is_of_key(releaser, digest, &bytes));
        }
        Calls::of(self.node).contract_accepts(releaser, digest, &bytes, head).await
    }
}
