//! Deliveries: what the fulfillment proxy has on record about one, and the event that proves it.

use alloy::{
    primitives::{Address, B256, keccak256},
    sol_types::SolValue,
};

use chains::perform::PerformError;
use escrow_abi::contracts::{self, FulfillmentProxy, units, word};
use events::mutant;
use sagas::ports::{DeliveryOrder, DeliveryState, Transient};

use super::{
    address::{self, ConvertError, address},
    node::{Answer, Node, State},
    reads::Read,
    search::{EventSearch, SearchScope},
};

/// The deliveries on one chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deliveries<'a> {
    node: &'a Node,
}

impl<'a> Deliveries<'a> {
    /// The deliveries on the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where the delivery stands, on this chain as its destination.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let wanted = delivery(order)?;
        let proxy = address(&order.proxy)?;
        let key = fulfillment_key(&wanted);
        let settled = self.node.settled().await?;
        let look = async || self.record(key, proxy, State::Solidified).await?.at_least(&settled, self.node);
        let scope =
            |number, state| SearchScope { contract: proxy, number, state, payment: wanted.paymentId, known: &[] };
        let is = |event: &FulfillmentProxy::Fulfilled| *event == wanted;
        let seen = async |number| {
            let found = EventSearch::of(self.node).find(&scope(number, State::Newest), is).await?;
            Ok(DeliveryState::Seen(found.inclusion))
        };
        // The proxy delivers up to and in the second `fulfill_by`.
        let is_over = match mutant!("impossible-by-the-newest-block") {
            true => self.node.head().await?.seconds() >= order.fulfill_by,
            false => settled.seconds() > order.fulfill_by,
        };
        let is_settled = EventSearch::of(self.node).is_shown_up_to(settled.number, proxy, wanted.paymentId, is);
        // Nothing is concluded from either state: so one answer is enough as long as nothing is settled.
        let unsettled = async || {
            let newest = self.record(key, proxy, State::Newest).await?;
            if newest.number < settled.number {
                return Err(self.node.contradiction(format!("a newest state as of block {}", newest.number)));
            }
            match newest.record {
                None => Ok(Some(DeliveryState::NotSeen)),
                Some(number) if number > settled.number => seen(number).await.map(Some),
                Some(_) => Ok(None),
            }
        };
        if !is_over
            && !is_settled
            && let Some(state) = unsettled().await?
        {
            return Ok(state);
        }
        match look().await?.record {
            // On this the escrow pays the settler: one wrong answer must not be enough, neither of the record nor of the event.
            Some(number) if number <= settled.number => {
                if look().await?.record != Some(number) {
                    return Err(self.node.contradiction("a delivery in two blocks, or in none"));
                }
                let found = EventSearch::of(self.node).confirm(&scope(number, State::Solidified), is).await?;
                Ok(DeliveryState::Final(found.inclusion))
            }
            Some(number) => seen(number).await,
            None if is_over => match look().await?.record {
                Some(_) => Err(self.node.contradiction("a delivery that was not there, and then was")),
                None => Ok(DeliveryState::Impossible),
            },
            // What was seen in a block was a hint.
            None => unsettled()
                .await?
                .ok_or_else(|| self.node.contradiction("a settled delivery that the solidified state does not have")),
        }
    }

    /// The number of the block that the delivery with this once-only key is in, by one answer.
    ///
    /// # Errors
    /// [`Transient`].
    async fn record(&self, key: B256, proxy: Address, state: State) -> Result<Read<u64>, Transient> {
        let call = FulfillmentProxy::fulfilledAsOfCall { key };
        let answer = match self.node.call(None, proxy, &call, state).await? {
            Answer::Returned { value, .. } => value,
            Answer::Reverted { reason, .. } => return Err(self.node.contradiction(format!("fulfilledAsOf: {reason}"))),
        };
        let read = Read::new(self.node, answer.blockNumber, answer.time, None)?;
        match u64::try_from(answer.fulfilledIn) {
            Ok(0) => Ok(read),
            Ok(fulfilled) if fulfilled <= read.number => Ok(Read { record: Some(fulfilled), ..read }),
            _ => {
                let what = format!("a delivery in block {} as of {}", answer.fulfilledIn, read.number);
                Err(self.node.contradiction(what))
            }
        }
    }
}

/// What cannot be told to a contract on Tron.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// An account or an asset.
    #[error(transparent)]
    Tron(#[from] ConvertError),
    /// A time.
    #[error(transparent)]
    Contract(#[from] contracts::ConvertError),
}

impl From<OrderError> for Transient {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Tron(error) => error.into(),
            OrderError::Contract(error) => error.into(),
        }
    }
}

impl From<OrderError> for PerformError {
    fn from(error: OrderError) -> Self {
        Self::Transient(error.into())
    }
}

/// The event that the delivery must have left.
pub(super) fn delivery(order: &DeliveryOrder) -> Result<FulfillmentProxy::Fulfilled, OrderError> {
    Ok(FulfillmentProxy::Fulfilled {
        paymentId: word(order.payment_id.on_chain()),
        quoteHash: word(order.quote_hash),
        settler: address(&order.delivery_account)?,
        token: address::token_or_coin(order.destination.asset())?,
        recipient: address(order.destination.account())?,
        amount: units(order.amount),
        fulfillBy: contracts::time(order.fulfill_by)?,
    })
}

/// The once-only key of a delivery, as `FulfillmentProxy.fulfillmentKey` has it.
pub(super) fn fulfillment_key(terms: &FulfillmentProxy::Fulfilled) -> B256 {
    let terms =
        (terms.paymentId, terms.quoteHash, terms.settler, terms.token, terms.recipient, terms.amount, terms.fulfillBy);
    keccak256(terms.abi_encode())
}
