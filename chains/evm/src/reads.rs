//! What the contracts say about a payment, read so that it can be concluded from.

use alloy::{
    primitives::{Address, B256},
    sol_types::SolValue,
};

use chains::escrow::{EscrowRecord, State};
use escrow_abi::{
    claims,
    contracts::{self, ConvertError, FulfillmentProxy, GatewayEscrow, address, text, units, word},
    eip712::{self, escrow_domain},
    record, signature,
};
use events::{
    Amount, PaymentId,
    event::{Claim, EscrowPlan, EscrowRefunded, Inclusion},
    mutant,
};
use sagas::ports::{DeliveryOrder, DeliveryState, EscrowState, Statement, Transient};

use super::{
    logs::Found,
    node::{At, BlockRef, Node},
};

pub(crate) fn unusable(error: ConvertError) -> Transient {
    Transient(format!("unusable order: {error}"))
}

/// The once-only key of a delivery, as `FulfillmentProxy.fulfillmentKey` has it.
///
/// # Errors
/// [`ConvertError`] when the order holds no addresses, asset or time that fit an EVM chain.
pub fn fulfillment_key(order: &DeliveryOrder) -> Result<B256, ConvertError> {
    let terms = (
        word(order.payment_id.on_chain()),
        word(order.quote_hash),
        address(&order.delivery_account)?,
        contracts::token_or_coin(order.destination.asset())?,
        address(order.destination.account().as_str())?,
        units(order.amount),
        contracts::time(order.fulfill_by)?,
    );
    Ok(alloy::primitives::keccak256(terms.abi_encode()))
}

impl Node {
    /// What the escrow at `contract` knows of the payment at `at`; `None` when it knows nothing, or there is no contract.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn escrow_record(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        at: At,
    ) -> Result<Option<EscrowRecord>, Transient> {
        let call = GatewayEscrow::escrowOfCall { paymentId: word(payment_id.on_chain()) };
        let Some(escrow) = self.view(contract, &call, at).await? else { return Ok(None) };
        record::read(&escrow, self.chain_id(), text).map_err(|error| Transient(format!("{contract} is in {error}")))
    }

    /// The newest settled block, and what the escrow at `contract` has on record for the payment there.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn settled_escrow(
        &self,
        payment_id: &PaymentId,
        contract: &str,
    ) -> Result<(BlockRef, Option<EscrowRecord>), Transient> {
        let contract = address(contract).map_err(unusable)?;
        let settled = self.settled().await?;
        let record = self.escrow_record(payment_id, contract, At::Block(settled)).await?;
        Ok((settled, record))
    }

    /// Where the escrow stands at the required depth; an escrow of somebody else under the same payment id is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn escrow_state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        let settled = self.settled().await?;
        let contract = address(&plan.contract).map_err(unusable)?;
        let record = self.escrow_record(payment_id, contract, At::Block(settled)).await?;
        let Some(record) = record.filter(|record| record.is_of(plan)) else { return Ok(EscrowState::Absent) };
        let (id, quote) = (word(payment_id.on_chain()), word(record.quote_hash));
        match record.state {
            // The escrow releases strictly before `refundAfter`, and later blocks are no earlier than this one.
            State::Deposited | State::Reserved if settled.time >= record.refund_after => Ok(EscrowState::Lapsed),
            State::Deposited | State::Reserved => Ok(EscrowState::Held),
            State::Released => {
                let found: Found<GatewayEscrow::Released> = self
                    .find_event(contract, id, settled, |event: &GatewayEscrow::Released| event.quoteHash == quote)
                    .await?;
                Ok(EscrowState::Released(found.inclusion))
            }
            State::Refunded => {
                let found: Found<GatewayEscrow::Refunded> = self
                    .find_event(contract, id, settled, |event: &GatewayEscrow::Refunded| {
                        text(event.payer) == record.payer
                    })
                    .await?;
                let amount =
                    Amount::new(found.event.amount).ok_or_else(|| self.contradiction("a refund of nothing"))?;
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
        let logs = self.logs_of(contract, end).await?;
        let found = claims::of_end(&logs, contract, word(payment_id.on_chain()), contracts::text);
        found.ok_or_else(|| self.contradiction(format!("{} does not end {payment_id}", end.transaction_hash)))
    }

    /// Where the delivery stands, on this chain as its destination.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let settled = self.settled().await?;
        let deep = if mutant!("delivery-without-depth") { self.head().await? } else { settled };
        if let Some(found) = self.delivery_at(order, deep).await? {
            return Ok(DeliveryState::Final(found.inclusion));
        }
        // The proxy refuses after `fulfill_by`, and a settled block is past it without the delivery.
        if settled.time > order.fulfill_by {
            return Ok(DeliveryState::Impossible);
        }
        let head = self.head().await?;
        let found = self.delivery_at(order, head).await?;
        Ok(found.map_or(DeliveryState::NotSeen, |found| DeliveryState::Seen(found.inclusion)))
    }

    /// The delivery as of `block`: the proxy's own word at that very block, and the event that proves it.
    async fn delivery_at(
        &self,
        order: &DeliveryOrder,
        block: BlockRef,
    ) -> Result<Option<Found<FulfillmentProxy::Fulfilled>>, Transient> {
        let key = fulfillment_key(order).map_err(unusable)?;
        let proxy = address(&order.proxy).map_err(unusable)?;
        let call = FulfillmentProxy::fulfilledAtCall { key };
        let Some(number) = self.view(proxy, &call, At::Block(block)).await? else { return Ok(None) };
        if mutant!("delivery-amount-not-compared") {
            let wanted = Delivery::of(order).map_err(unusable)?;
            let id = word(order.payment_id.on_chain());
            let is = |event: &FulfillmentProxy::Fulfilled| wanted.is_but_for_amount(event);
            return Ok(self.find_event(proxy, id, block, is).await.ok());
        }
        if number.is_zero() {
            return Ok(None);
        }
        let wanted = Delivery::of(order).map_err(unusable)?;
        let id = word(order.payment_id.on_chain());
        // On some rollups a contract's block number is another chain's; then the event is searched for.
        if let Some(number) = u64::try_from(number).ok().filter(|number| *number <= block.number)
            && let Some(holder) = self.block(number).await?
            && let Some(found) = self.find_event_in(proxy, id, holder, block, |event| wanted.is(event)).await?
        {
            return Ok(Some(found));
        }
        self.find_event(proxy, id, block, |event| wanted.is(event)).await.map(Some)
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
        let Ok(digest) = statement_digest(statement, self.evm_id(), contract) else { return Ok(false) };
        let Ok(bytes) = signature::bytes(signature) else { return Ok(false) };
        let head = At::Block(self.head().await?);
        if self.code(releaser, head).await?.is_empty() {
            return Ok(signature::is_of_key(releaser, digest, &bytes));
        }
        self.contract_accepts(releaser, digest, &bytes, head).await
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

/// The fields that a `Fulfilled` event must carry.
struct Delivery(FulfillmentProxy::Fulfilled);

impl Delivery {
    fn of(order: &DeliveryOrder) -> Result<Self, ConvertError> {
        Ok(Self(FulfillmentProxy::Fulfilled {
            paymentId: word(order.payment_id.on_chain()),
            quoteHash: word(order.quote_hash),
            settler: address(&order.delivery_account)?,
            token: contracts::token_or_coin(order.destination.asset())?,
            recipient: address(order.destination.account().as_str())?,
            amount: units(order.amount),
            fulfillBy: contracts::time(order.fulfill_by)?,
        }))
    }

    fn is(&self, event: &FulfillmentProxy::Fulfilled) -> bool {
        self.0 == *event
    }

    /// For a broken variant that forgets the amount.
    fn is_but_for_amount(&self, event: &FulfillmentProxy::Fulfilled) -> bool {
        self.is(&FulfillmentProxy::Fulfilled { amount: self.0.amount, ..event.clone() })
    }
}
