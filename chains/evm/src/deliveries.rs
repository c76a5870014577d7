//! Deliveries: what the proxies have on record about a payment on its destination, read so that it can be concluded from.

use alloy::{
    primitives::{B256, keccak256},
    sol_types::SolValue,
};

use escrow_abi::contracts::{self, ConvertError, FulfillmentProxy, address, units, word};
use events::mutant;
use sagas::ports::{DeliveryOrder, DeliveryState, Transient};

use super::{
    calls::Calls,
    logs::{Found, Logs},
    node::{At, BlockRef, Node},
};

/// The once-only key of a delivery, as `FulfillmentProxy.fulfillmentKey` has it.
///
/// # Errors
/// [`ConvertError`] when the order holds no addresses, asset or time that fit an EVM chain.
fn fulfillment_key(order: &DeliveryOrder) -> Result<B256, ConvertError> {
    let terms = (
        word(order.payment_id.on_chain()),
        word(order.quote_hash),
        address(&order.delivery_account)?,
        contracts::token_or_coin(order.destination.asset())?,
        address(order.destination.account())?,
        units(order.amount),
        contracts::time(order.fulfill_by)?,
    );
    Ok(keccak256(terms.abi_encode()))
}

/// The deliveries on one chain.
#[derive(Debug, Clone, Copy)]
pub struct Deliveries<'a> {
    node: &'a Node,
}

impl<'a> Deliveries<'a> {
    /// The deliveries on the chain of `node`, as the destination of payments.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where the delivery stands, on this chain as its destination.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let settled = self.node.settled().await?;
        let deep = if mutant!("delivery-without-depth") { self.node.head().await? } else { settled };
        if let Some(found) = self.at(order, deep).await? {
            return Ok(DeliveryState::Final(found.inclusion));
        }
        // The proxy refuses after `fulfill_by`, and a settled block is past it without the delivery.
        if settled.time > order.fulfill_by {
            return Ok(DeliveryState::Impossible);
        }
        let head = self.node.head().await?;
        let found = self.at(order, head).await?;
        Ok(found.map_or(DeliveryState::NotSeen, |found| DeliveryState::Seen(found.inclusion)))
    }

    /// The delivery as of `block`: the proxy's own word at that very block, and the event that proves it.
    async fn at(
        &self,
        order: &DeliveryOrder,
        block: BlockRef,
    ) -> Result<Option<Found<FulfillmentProxy::Fulfilled>>, Transient> {
        let key = fulfillment_key(order)?;
        let proxy = address(&order.proxy)?;
        let call = FulfillmentProxy::fulfilledAtCall { key };
        let Some(number) = Calls::of(self.node).view(proxy, &call, At::Block(block)).await? else { return Ok(None) };
        if mutant!("delivery-amount-not-compared") {
            let wanted = Delivery::of(order)?;
            let id = word(order.payment_id.on_chain());
            let is = |event: &FulfillmentProxy::Fulfilled| wanted.is_but_for_amount(event);
            return Ok(Logs::of(self.node).find(proxy, id, block, is).await.ok());
        }
        if number.is_zero() {
            return Ok(None);
        }
        let wanted = Delivery::of(order)?;
        let id = word(order.payment_id.on_chain());
        // On some rollups a contract's block number is another chain's; then the event is searched for.
        if let Some(number) = u64::try_from(number).ok().filter(|number| *number <= block.number)
            && let Some(holder) = self.node.block(number).await?
            && let Some(found) = Logs::of(self.node).find_in(proxy, id, holder, block, |event| wanted.is(event)).await?
        {
            return Ok(Some(found));
        }
        Logs::of(self.node).find(proxy, id, block, |event| wanted.is(event)).await.map(Some)
    }
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
            recipient: address(order.destination.account())?,
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
