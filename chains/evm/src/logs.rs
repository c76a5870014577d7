//! Event search, in canonical blocks only.

use alloy::{
    primitives::{self, Address, B256, U64, U256},
    rpc::types::Log,
    sol_types::SolEvent,
};
use serde_json::{Value, json};

use escrow_abi::{
    contracts::GatewayEscrow,
    record::{EscrowTerms, Stored},
};
use events::event::Inclusion;
use sagas::ports::Transient;

use super::{
    calls::Calls,
    node::{At, BlockRef, Node},
    rpc::Fault,
};

/// Blocks asked for at once; what public nodes allow without complaint.
pub(crate) const RANGE_BLOCKS: u64 = 2_000;
/// A node that refuses fewer than so many refuses for another reason.
pub(crate) const RANGE_BLOCKS_MIN: u64 = 16;
/// Queries of one search: 100,000 blocks in 50 of them, then up to a million at the widest.
const QUERIES_MAX: u32 = 500;

/// An event with the canonical block that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<E> {
    /// The event.
    pub event: E,
    /// The transaction and its block.
    pub inclusion: Inclusion,
}

/// What events tell of a payment's terms.
struct Told {
    id: B256,
    commitment: B256,
    /// Whether a settler is named.
    is_reserved: bool,
    logs: Vec<Log>,
}

impl Told {
    /// The terms with the right hash.
    fn terms(&self) -> Option<EscrowTerms> {
        let deposits = self.logs.iter().filter_map(|log| GatewayEscrow::Deposited::decode_log(&log.inner).ok());
        let mut deposits =
            deposits.filter(|event| event.paymentId == self.id).map(|event| EscrowTerms::told_by(&event));
        let is_right = |terms: &EscrowTerms| terms.commitment() == self.commitment;
        if !self.is_reserved {
            return deposits.find(is_right);
        }
        let awards = || self.logs.iter().filter_map(|log| GatewayEscrow::Reserved::decode_log(&log.inner).ok());
        deposits.find_map(|terms| awards().map(|award| terms.clone().reserved_by(&award)).find(is_right))
    }
}

/// The events on one chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logs<'a> {
    node: &'a Node,
}

impl<'a> Logs<'a> {
    /// The events on the chain of `node`.
    pub(crate) fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// The newest event of `contract` with `first` as its first indexed parameter for which `matches`, in a canonical
    /// block not above `up_to`.
    ///
    /// # Errors
    /// [`Transient`], also when none is found within a bounded search.
    pub(crate) async fn find<E: SolEvent>(
        &self,
        contract: Address,
        first: B256,
        up_to: BlockRef,
        matches: impl Fn(&E) -> bool,
    ) -> Result<Found<E>, Transient> {
        let (mut top, mut range) = (up_to.number, RANGE_BLOCKS);
        for _ in 0..QUERIES_MAX {
            let bottom = top.saturating_sub(range - 1);
            let place = json!({"fromBlock": U64::from(bottom), "toBlock": U64::from(top)});
            match self.events_in(place, contract, first).await {
                Ok(logs) => {
                    if let Some(found) = self.newest(contract, first, up_to, logs, &matches).await? {
                        return Ok(found);
                    }
                    if bottom == 0 {
                        break;
                    }
                    top = bottom - 1;
                }
                Err(Fault::Rejected(_)) if range > RANGE_BLOCKS_MIN => range /= 2,
                Err(fault) => return Err(fault.into()),
            }
        }
        Err(self.node.contradiction(format!("no event {} of {contract} for {first}", E::SIGNATURE)))
    }

    /// As [`Logs::find`] in `block` only; `None` when it is not there.
    pub(crate) async fn find_in<E: SolEvent>(
        &self,
        contract: Address,
        first: B256,
        block: BlockRef,
        up_to: BlockRef,
        matches: impl Fn(&E) -> bool,
    ) -> Result<Option<Found<E>>, Transient> {
        let logs = self.events_in::<E>(json!({"blockHash": block.hash}), contract, first).await?;
        self.newest(contract, first, up_to, logs, &matches).await
    }

    /// The terms of the payment `id` to which `stored` commits, as the events of `contract` up to block `up_to` tell them. Their
    /// hash proves them, whoever tells.
    ///
    /// # Errors
    /// [`Transient`], also when no events tell them, in the blocks that the record names or, where another chain's are counted,
    /// within a bounded search: then they are not known.
    pub(crate) async fn terms(
        &self,
        contract: Address,
        id: B256,
        stored: &Stored,
        up_to: BlockRef,
    ) -> Result<EscrowTerms, Transient> {
        let mut told = Told { id, commitment: stored.commitment, is_reserved: stored.round != 0, logs: Vec::new() };
        // Where the contract counts the blocks as the node does, its record names them.
        let (deposited, reserved) = (stored.depositedAt.to::<u64>(), stored.reservedAt.to::<u64>());
        let mut fault = None;
        let named = [Some(deposited), (reserved != 0 && reserved != deposited).then_some(reserved)];
        for number in named.into_iter().flatten().filter(|number| *number <= up_to.number) {
            let place = json!({"fromBlock": U64::from(number), "toBlock": U64::from(number)});
            match self.told_in(place, contract, id).await {
                Ok(logs) => told.logs.extend(logs),
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
        if let Some(terms) = told.terms() {
            return Ok(terms);
        }
        let commitment = stored.commitment;
        let untold = || format!("no events of {contract} for {id} whose terms hash to {commitment}");
        if self.counts_as_node(contract, id, up_to).await? {
            // They are nowhere else: the node's logs lag behind its state.
            return Err(fault.map_or_else(|| self.node.contradiction(untold()), Transient::from));
        }
        told.logs.clear();
        // A stranger may name any payment to a verifier, and each look for an old one takes many requests.
        let _search = self.node.searching().await;
        let (mut top, mut range) = (up_to.number, RANGE_BLOCKS);
        for _ in 0..QUERIES_MAX {
            let bottom = top.saturating_sub(range - 1);
            let place = json!({"fromBlock": U64::from(bottom), "toBlock": U64::from(top)});
            match self.told_in(place, contract, id).await {
                Ok(logs) => {
                    told.logs.extend(logs);
                    if let Some(terms) = told.terms() {
                        return Ok(terms);
                    }
                    if bottom == 0 {
                        break;
                    }
                    top = bottom - 1;
                }
                Err(Fault::Rejected(_)) if range > RANGE_BLOCKS_MIN => range /= 2,
                Err(fault) => return Err(fault.into()),
            }
        }
        Err(self.node.contradiction(untold()))
    }

    /// Whether `contract` counts the blocks as the node does, by its own answer at `block`.
    async fn counts_as_node(&self, contract: Address, id: B256, block: BlockRef) -> Result<bool, Transient> {
        let call = GatewayEscrow::recordAsOfCall { paymentId: id };
        let answer = Calls::of(self.node).view(contract, &call, At::Block(block)).await?;
        Ok(answer.is_some_and(|answer| answer.blockNumber == U256::from(block.number)))
    }

    /// The deposits and reservations of `contract` that bear the id `first`.
    async fn told_in(&self, mut filter: Value, contract: Address, first: B256) -> Result<Vec<Log>, Fault> {
        filter["topics"] =
            json!([[GatewayEscrow::Deposited::SIGNATURE_HASH, GatewayEscrow::Reserved::SIGNATURE_HASH], first]);
        self.logs_in(filter, contract, first).await
    }

    async fn events_in<E: SolEvent>(
        &self,
        mut filter: Value,
        contract: Address,
        first: B256,
    ) -> Result<Vec<(E, Log)>, Fault> {
        filter["topics"] = json!([E::SIGNATURE_HASH, first]);
        let logs = self.logs_in(filter, contract, first).await?.into_iter();
        Ok(logs.filter_map(|log| E::decode_log(&log.inner).ok().map(|event| (event.data, log))).collect())
    }

    async fn logs_in(&self, mut filter: Value, contract: Address, first: B256) -> Result<Vec<Log>, Fault> {
        filter["address"] = json!(contract);
        let mut logs: Vec<Log> = self.node.request("eth_getLogs", (filter,)).await?;
        // The node may ignore any part of the filter, so nothing of it is taken for granted.
        logs.retain(|log| !log.removed && log.address() == contract && log.topics().get(1) == Some(&first));
        Ok(logs)
    }

    /// All that `contract` logged in a transaction of which its block is known, in order.
    ///
    /// # Errors
    /// [`Transient`].
    pub(crate) async fn of_transaction(
        &self,
        contract: Address,
        inclusion: &Inclusion,
    ) -> Result<Vec<primitives::Log>, Transient> {
        let word =
            |text: &str| text.parse::<B256>().map_err(|_| Transient::misconfigured(format!("{text} is not a hash")));
        let (block, transaction) = (word(&inclusion.block_hash)?, word(&inclusion.transaction_hash)?);
        let filter = json!({"blockHash": block, "address": contract});
        let mut logs: Vec<Log> = self.node.request("eth_getLogs", (filter,)).await?;
        logs.retain(|log| {
            let is_there = log.block_hash == Some(block) && log.transaction_hash == Some(transaction);
            is_there && !log.removed && log.address() == contract
        });
        logs.sort_by_key(|log| log.log_index);
        Ok(logs.into_iter().map(|log| log.inner).collect())
    }

    async fn newest<E>(
        &self,
        contract: Address,
        first: B256,
        up_to: BlockRef,
        logs: Vec<(E, Log)>,
        matches: &impl Fn(&E) -> bool,
    ) -> Result<Option<Found<E>>, Transient> {
        let newest = logs.into_iter().filter(|(event, _)| matches(event)).max_by_key(|(_, log)| log.block_number);
        let Some((event, log)) = newest else { return Ok(None) };
        let (Some(number), Some(hash), Some(transaction)) = (log.block_number, log.block_hash, log.transaction_hash)
        else {
            return Err(self.node.contradiction(format!("an event of {contract} for {first} without a block")));
        };
        if number > up_to.number {
            return Err(self
                .node
                .contradiction(format!("an event of {contract} above the block that holds its effect")));
        }
        let block = self.node.below(number, hash, up_to).await?;
        Ok(Some(Found { event, inclusion: self.node.inclusion(transaction, block) }))
    }
}
