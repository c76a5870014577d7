//! Escrows: what their contracts have on record about a payment, read so that it can be concluded from.

use alloy::primitives::{Address, B256};

use chains::escrow::{EscrowRecord, State};
use escrow_abi::{
    claims,
    contracts::{self, ConvertError, GatewayEscrow, address, text, word},
    eip712::{self, escrow_domain},
    record, signature,
};
use events::{
    Amount, PaymentId,
    event::{Claim, EscrowPlan, EscrowRefunded, Inclusion},
};
use sagas::ports::{EscrowState, Statement, Transient};

use super::{
    logs::Found,
    node::{At, BlockRef, Node},
};

pub(crate) fn unusable(error: ConvertError) -> Transient {
    Transient::misconfigured(format!("unusable order: {error}"))
}

/// The escrows of one chain; see [`Node::escrows`].
#[derive(Debug, Clone, Copy)]
pub struct Escrows<'a> {
    node: &'a Node,
}

impl Node {
    /// The escrows of the chain.
    pub fn escrows(&self) -> Escrows<'_> {
        Escrows { node: self }
    }
}

impl Escrows<'_> {
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
        let Some(escrow) = self.node.view(contract, &call, at).await? else { return Ok(None) };
        record::read(&escrow, self.node.chain_id(), text)
            .map_err(|error| Transient::unreachable(format!("{contract} is in {error}")))
    }

    /// The newest settled block, and what the escrow at `contract` has on record for the payment there.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn settled(
        &self,
        payment_id: &PaymentId,
        contract: &str,
    ) -> Result<(BlockRef, Option<EscrowRecord>), Transient> {
        let contract = address(contract).map_err(unusable)?;
        let settled = self.node.settled().await?;
        let record = self.record(payment_id, contract, At::Block(settled)).await?;
        Ok((settled, record))
    }

    /// Where the escrow stands at the required depth; an escrow of somebody else under the same payment id is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        let settled = self.node.settled().await?;
        let contract = address(&plan.contract).map_err(unusable)?;
        let record = self.record(payment_id, contract, At::Block(settled)).await?;
        let Some(record) = record.filter(|record| record.is_of(plan)) else { return Ok(EscrowState::Absent) };
        let (id, quote) = (word(payment_id.on_chain()), word(record.quote_hash));
        match record.state {
            // The escrow releases strictly before `refundAfter`, and later blocks are no earlier than this one.
            State::Deposited | State::Reserved if settled.time >= record.refund_after => Ok(EscrowState::Lapsed),
            State::Deposited | State::Reserved => Ok(EscrowState::Held),
            State::Released => {
                let found: Found<GatewayEscrow::Released> = self
                    .node
                    .logs()
                    .find(contract, id, settled, |event: &GatewayEscrow::Released| event.quoteHash == quote)
                    .await?;
                Ok(EscrowState::Released(found.inclusion))
            }
            State::Refunded => {
                let found: Found<GatewayEscrow::Refunded> = self
                    .node
                    .logs()
                    .find(contract, id, settled, |event: &GatewayEscrow::Refunded| text(event.payer) == record.payer)
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
        let contract = address(&plan.contract).map_err(unusable)?;
        let logs = self.node.logs().of_transaction(contract, end).await?;
        let found = claims::of_end(&logs, contract, word(payment_id.on_chain()), contracts::text);
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
        let contract = address(&plan.contract).map_err(unusable)?;
        let releaser = address(&plan.releaser).map_err(unusable)?;
        // A statement that names no account, or bytes that are not hex, are not the releaser's.
        let Ok(digest) = statement_digest(statement, self.node.evm_id(), contract) else { return Ok(false) };
        let Ok(bytes) = signature::bytes(signature) else { return Ok(false) };
        let head = At::Block(self.node.head().await?);
        if self.node.code(releaser, head).await?.is_empty() {
            return Ok(signature::is_of_key(releaser, digest, &bytes));
        }
        self.node.contract_accepts(releaser, digest, &bytes, head).await
    }
}

/// The digest of a releaser's statement in the domain of one escrow.
///
/// # Errors
/// [`ConvertError`] when the payout account is not an address.
pub fn statement_digest(statement: &Statement, evm_id: u64, escrow: Address) -> Result<B256, ConvertError> {
    let domain = escrow_domain(evm_id, escrow);
    Ok(match statement {
        Statement::Delivery { payment_id, quote_hash, payout_account } => {
            let message = eip712::Delivery {
                paymentId: word(payment_id.on_chain()),
                quoteHash: word(*quote_hash),
                settler: address(payout_account)?,
            };
            eip712::digest(&message, &domain)
        }
        Statement::NonDelivery { payment_id, quote_hash } => {
            let message = eip712::NonDelivery { paymentId: word(payment_id.on_chain()), quoteHash: word(*quote_hash) };
            eip712::digest(&message, &domain)
        }
    })
}
