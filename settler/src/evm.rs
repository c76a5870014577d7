//! A settler's account on EVM chains.

use std::sync::Arc;

use alloy::signers::local::PrivateKeySigner;
use async_trait::async_trait;
use ruint::aliases::U256;

use chains::evm::{
    contracts::{self, State},
    node::{At, ConnectError, Node},
    reads::EscrowRecord,
    settler::{ActError, SettlerChain},
};
use events::{AssetId, event::EscrowPlan};

use crate::{
    chain::{DeliveryChain, DeliveryOrder, DeliveryState, EscrowState, ReservationOrder, Transient},
    config::Config,
    quoting::Chains,
};

/// Why the chains of a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A chain's configuration cannot be meant.
    #[error(transparent)]
    Chain(Box<ConnectError>),
    /// The private key is none.
    #[error("evm_private_key must be 64 hex digits of a key")]
    Key,
}

/// The settler's account on one EVM chain. No other process may send from it.
pub struct EvmChain {
    chain: SettlerChain,
    account: String,
}

/// The chains of `config`, each with the account of its EVM key. Nothing is sent before the first use.
///
/// # Errors
/// See [`Error`].
pub fn connect(config: &Config) -> Result<Chains, Error> {
    let signer: PrivateKeySigner = config.evm_private_key.parse().map_err(|_| Error::Key)?;
    let mut chains = Chains::new();
    for chain in &config.chains {
        let node = Node::connect(chain).map_err(|error| Error::Chain(Box::new(error)))?;
        let connected = EvmChain::new(SettlerChain::new(node, signer.clone()));
        chains.insert(chain.chain_id.clone(), Arc::new(connected));
    }
    Ok(chains)
}

impl EvmChain {
    /// A settler's chain.
    pub fn new(chain: SettlerChain) -> Self {
        let account = chain.account();
        Self { chain, account }
    }
}

#[async_trait]
impl DeliveryChain for EvmChain {
    fn account(&self) -> &str {
        &self.account
    }

    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient> {
        self.chain.balance(asset).await
    }

    async fn escrow_state(&self, order: &ReservationOrder) -> Result<EscrowState, Transient> {
        let node = self.chain.node();
        let contract = contracts::address(&order.escrow.contract).map_err(unusable)?;
        let settled = node.settled().await?;
        let record = node.escrow_record(&order.payment_id, contract, At::Block(settled)).await?;
        let Some(record) = record.filter(|record| !matches!(record.state, State::None | State::Deposited)) else {
            let lapsed = settled.time > order.escrow.reserve_deadline;
            return Ok(if lapsed { EscrowState::Lapsed } else { EscrowState::Open });
        };
        if let Some(reason) = difference(&record, order)? {
            return Ok(EscrowState::Different { reason: reason.to_owned() });
        }
        Ok(match record.state {
            State::Released => EscrowState::Released,
            State::Refunded => EscrowState::Refunded,
            State::None | State::Deposited | State::Reserved => EscrowState::Reserved,
        })
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.chain.delivery_state(order).await
    }

    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, Transient> {
        self.chain.deliver(order).await.map(|inclusion| inclusion.transaction_hash).map_err(refused)
    }

    async fn release(&self, order: &ReservationOrder, attestation: &str) -> Result<String, Transient> {
        let released = self.chain.release(&order.payment_id, &order.escrow, attestation).await;
        released.map(|inclusion| inclusion.transaction_hash).map_err(refused)
    }

    async fn next_block(&self) {
        self.chain.node().next_block().await;
    }
}

/// The first field in which a reservation at depth is not as the settler requires.
fn difference(record: &EscrowRecord, order: &ReservationOrder) -> Result<Option<&'static str>, Transient> {
    let EscrowPlan { refund_after, fulfillment_deadline, releaser, .. } = &order.escrow;
    let fields = [
        ("quote hash", record.quote_hash == order.quote_hash),
        ("terms hash", record.terms_hash == order.terms_hash),
        ("settler", record.settler == contracts::address(&order.payout_account).map_err(unusable)?),
        ("token", record.token == contracts::erc20(&order.asset).map_err(unusable)?),
        ("source amount", record.source_amount == Some(order.source_amount)),
        ("deposit", record.deposited.is_some_and(|deposited| deposited >= order.source_amount)),
        ("releaser", record.releaser == contracts::address(releaser).map_err(unusable)?),
        ("fulfill_by", record.fulfill_by == order.fulfill_by),
        ("fulfillment_deadline", record.fulfillment_deadline == *fulfillment_deadline),
        ("refund_after", record.refund_after == *refund_after),
    ];
    Ok(fields.into_iter().find(|(_, same)| !same).map(|(field, _)| field))
}

fn unusable(error: contracts::ConvertError) -> Transient {
    Transient(format!("unusable order: {error}"))
}

/// A refusal is no end either: the settlement goes on until the chains prove one.
fn refused(error: ActError) -> Transient {
    match error {
        ActError::Transient(fault) => fault,
        other => Transient(other.to_string()),
    }
}
