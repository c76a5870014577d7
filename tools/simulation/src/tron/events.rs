//! What is so on the chain, past all nodes: records of the escrow, and events in canonical blocks.

use alloy::{
    primitives::{Address, B256, Log, U256},
    sol_types::{SolCall, SolEvent},
};

use chains::escrow::EscrowRecord;
use escrow_abi::{
    contracts::{DevToken, FulfillmentProxy, GatewayEscrow, word},
    record::{self, EscrowTerms},
};
use events::{ChainId, Hash32, PaymentId};
use trondev::{Run, TxId};

use super::chain::{Mined, SimTron, TronError};
use crate::chain::PaymentEvents;

/// Who asks what nobody asks.
const NOBODY: Address = Address::ZERO;

/// An event of the escrow or the proxy about a payment.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    Deposited,
    Reserved(B256),
    Reassigned,
    Released,
    Refunded,
    Fulfilled(FulfillmentProxy::Fulfilled),
}

impl SimTron {
    /// What `call` of `contract` returns in the newest block.
    ///
    /// # Errors
    /// [`TronError::Other`] when it does not return.
    pub fn view<C: SolCall>(&self, contract: Address, call: &C) -> Result<C::Return, TronError> {
        match self.run(NOBODY, contract, &call.abi_encode())? {
            Run::Returned(returned) => {
                C::abi_decode_returns(&returned).map_err(|error| TronError::Other(error.to_string()))
            }
            other => Err(TronError::Other(format!("{}: {other:?}", C::SIGNATURE))),
        }
    }

    /// How a call of `caller` ends in the newest block; nothing is sent.
    ///
    /// # Errors
    /// [`TronError::Refused`] when there is no such contract.
    pub fn run(&self, caller: Address, contract: Address, data: &[u8]) -> Result<Run, TronError> {
        Ok(self.node.run(trondev::Address::from_evm(caller), trondev::Address::from_evm(contract), data)?)
    }

    /// The total supply of the token in the newest block, as the token itself reports it.
    ///
    /// # Errors
    /// [`TronError::Other`] when it does not.
    pub fn token_supply(&self) -> Result<U256, TronError> {
        self.view(self.contracts.token, &DevToken::totalSupplyCall {})
    }

    /// The escrow's record of a payment in the newest block; `None` when there is none.
    ///
    /// # Errors
    /// [`TronError::Other`] when the escrow does not answer as one.
    pub fn escrow_record(&self, payment_id: &PaymentId) -> Result<Option<EscrowRecord>, TronError> {
        Ok(self.escrow(payment_id)?.map(|(record, _)| record))
    }

    /// The terms with which the escrow is called for a payment; terms that it refuses where it has none.
    ///
    /// # Errors
    /// [`TronError::Other`] when the escrow does not answer as one.
    pub fn escrow_terms(&self, payment_id: &PaymentId) -> Result<EscrowTerms, TronError> {
        let found = self.escrow(payment_id)?;
        Ok(found.map_or_else(|| EscrowTerms::unknown(word(payment_id.on_chain())), |(_, terms)| terms))
    }

    fn escrow(&self, payment_id: &PaymentId) -> Result<Option<(EscrowRecord, EscrowTerms)>, TronError> {
        let id = word(payment_id.on_chain());
        let stored = self.view(self.contracts.escrow, &GatewayEscrow::recordOfCall { paymentId: id })?;
        let refused = |what: String| TronError::Other(format!("the record of {payment_id}: {what}"));
        if record::state(stored.state).map_err(|error| refused(error.to_string()))?.is_none() {
            return Ok(None);
        }
        let deposited =
            self.event_in(stored.depositedAt.to(), |event: &GatewayEscrow::Deposited| event.paymentId == id);
        let deposited = deposited.ok_or_else(|| refused("no deposit in its block".to_owned()))?;
        let mut terms = EscrowTerms::told_by(&deposited);
        if !stored.reservedAt.is_zero() {
            let is = |event: &GatewayEscrow::Reserved| event.paymentId == id;
            let reserved = self.event_in(stored.reservedAt.to(), is);
            terms = terms.reserved_by(&reserved.ok_or_else(|| refused("no reservation in its block".to_owned()))?);
        }
        let record = record::read(&stored, &terms, &self.chain_id()?);
        Ok(record.map_err(|error| refused(error.to_string()))?.map(|record| (record, terms)))
    }

    /// The chain's CAIP-2 id.
    ///
    /// # Errors
    /// [`TronError::Other`] when its number makes none.
    pub fn chain_id(&self) -> Result<ChainId, TronError> {
        let id = format!("tron:{}", self.contracts.number);
        id.parse().map_err(|error: events::caip::Error| TronError::Other(error.to_string()))
    }

    /// The event of the escrow that `is` describes, in canonical block `number`; the last one, for a settler may be named twice in
    /// one block.
    fn event_in<E: SolEvent>(&self, number: u64, is: impl Fn(&E) -> bool) -> Option<E> {
        let escrow = self.contracts.escrow;
        let mined = self.mined().iter().rev().skip_while(|mined| mined.number > number);
        let mined = mined.take_while(|mined| mined.number == number);
        let logs = mined.flat_map(|mined| mined.logs.iter().rev()).filter(|log| log.address == escrow);
        logs.filter_map(|log| E::decode_log(log).ok()).map(|event| event.data).find(is)
    }

    /// The events of escrow and proxy in a transaction, each with its payment.
    pub(super) fn events_of<'a>(&'a self, mined: &'a Mined) -> impl Iterator<Item = (B256, Event)> + 'a {
        mined.logs.iter().filter_map(|log| Some((*log.topics().get(1)?, self.event(log)?)))
    }

    fn event(&self, log: &Log) -> Option<Event> {
        let signature = *log.topics().first()?;
        let (is_escrow, is_proxy) = (log.address == self.contracts.escrow, log.address == self.contracts.proxy);
        Some(match signature {
            GatewayEscrow::Deposited::SIGNATURE_HASH if is_escrow => Event::Deposited,
            GatewayEscrow::Reserved::SIGNATURE_HASH if is_escrow => {
                Event::Reserved(GatewayEscrow::Reserved::decode_log(log).ok()?.quoteHash)
            }
            GatewayEscrow::Reassigned::SIGNATURE_HASH if is_escrow => Event::Reassigned,
            GatewayEscrow::Released::SIGNATURE_HASH if is_escrow => Event::Released,
            GatewayEscrow::Refunded::SIGNATURE_HASH if is_escrow => Event::Refunded,
            FulfillmentProxy::Fulfilled::SIGNATURE_HASH if is_proxy => {
                Event::Fulfilled(FulfillmentProxy::Fulfilled::decode_log(log).ok()?.data)
            }
            _ => return None,
        })
    }

    /// All events of a payment in canonical blocks, oldest first, each with its transaction.
    pub(super) fn events_about(&self, payment_id: &PaymentId) -> impl Iterator<Item = (&Mined, Event)> {
        let id = word(payment_id.on_chain());
        let events = self.mined().iter().flat_map(|mined| self.events_of(mined).map(move |event| (mined, event)));
        events.filter(move |(_, (payment, _))| *payment == id).map(|(mined, (_, event))| (mined, event))
    }

    /// How often each event of a payment is in the canonical blocks.
    pub fn payment_events(&self, payment_id: &PaymentId) -> PaymentEvents {
        let mut counts = PaymentEvents::default();
        for (_, event) in self.events_about(payment_id) {
            let count = match event {
                Event::Deposited => &mut counts.deposited,
                Event::Reserved(_) => &mut counts.reserved,
                Event::Reassigned => &mut counts.reassigned,
                Event::Released => &mut counts.released,
                Event::Refunded => &mut counts.refunded,
                Event::Fulfilled(_) => &mut counts.fulfilled,
            };
            *count += 1;
        }
        counts
    }

    /// Whether a payment was ever reserved for this quote, in a solidified block.
    pub fn was_reserved(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        let (quote, solidified) = (word(quote_hash), self.solidified().number);
        let mut events = self.events_about(payment_id).filter(|(mined, _)| mined.number <= solidified);
        events.any(|(_, event)| event == Event::Reserved(quote))
    }

    /// The transaction with this id in a canonical block.
    pub fn transaction(&self, id: B256) -> Option<&Mined> {
        self.mined().iter().rev().find(|mined| mined.id == id)
    }

    /// Whether the transaction with this id waits for a block.
    pub fn waits(&self, id: B256) -> bool {
        self.pending().iter().any(|one| one.id == TxId(id.0))
    }
}
