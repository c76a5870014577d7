//! Event search: where in a block an event is.
//!
//! A contract's record names the block of a change and not the transaction, and no node of Tron's searches logs. So the results
//! of the whole block are asked for. Others choose what else is in it: what cannot be read of those is left out, and where the
//! answer as a whole is of no use, the block's transactions are asked for one by one, those that name the payment first.

use alloy::{
    primitives::{Address, B256},
    sol_types::SolEvent,
};

use events::event::Inclusion;
use sagas::ports::Transient;

use super::node::{Block, Info, Log, Node, State};

/// So many transactions of a block may have no result that can be read before the search is given up.
const FAULTS_MAX: usize = 8;

/// Where an event must be.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchScope<'a> {
    /// The contract that logs it.
    pub contract: Address,
    /// Number of its block.
    pub number: u64,
    /// The state that is asked.
    pub state: State,
    /// The payment that its transaction names, as contracts know it.
    pub payment: B256,
    /// Transactions that may be its own.
    pub known: &'a [B256],
}

/// An event and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found<E> {
    /// The event.
    pub event: E,
    /// Its transaction.
    pub id: B256,
    /// The same, in its block.
    pub inclusion: Inclusion,
}

/// The search for events on one chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventSearch<'a> {
    node: &'a Node,
}

impl<'a> EventSearch<'a> {
    /// The search on the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// The event that `is` describes.
    ///
    /// # Errors
    /// [`Transient`], also when it is not there: the contract's own record says that it is, and its node lags or errs.
    pub async fn find<E: SolEvent>(
        &self,
        scope: &SearchScope<'_>,
        is: impl Fn(&E) -> bool,
    ) -> Result<Found<E>, Transient> {
        self.located(scope, is).await.map(|(found, _)| found)
    }

    /// The event that `is` describes, told a second time by its transaction, which is asked for by its id.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn confirm<E: SolEvent>(
        &self,
        scope: &SearchScope<'_>,
        is: impl Fn(&E) -> bool,
    ) -> Result<Found<E>, Transient> {
        let (found, block) = self.located(scope, &is).await?;
        let info = self.node.info(found.id, scope.state).await?;
        match info.and_then(|info| event_of(&info, scope, &block, &is)) {
            Some(_) => Ok(found),
            None => Err(self.node.contradiction(format!("{} is not the transaction of a {}", found.id, E::SIGNATURE))),
        }
    }

    async fn located<E: SolEvent>(
        &self,
        scope: &SearchScope<'_>,
        is: impl Fn(&E) -> bool,
    ) -> Result<(Found<E>, Block), Transient> {
        let SearchScope { number, state, .. } = *scope;
        if state == State::Newest
            && let Some(found) = self.shown(scope, &is)
        {
            return Ok(found);
        }
        let missing = |what: &str| self.node.contradiction(format!("{what} of {} in block {number}", E::SIGNATURE));
        let block = self.node.block(number, state).await?.ok_or_else(|| missing("no block"))?;
        let told = self.node.infos_of(number, state).await;
        let all_read = told.as_ref().is_ok_and(|infos| infos.unread == 0);
        let mut infos = told.iter().flat_map(|infos| &infos.read);
        let mut found = infos.find_map(|info| Some((info.id, event_of(info, scope, &block, &is)?)));
        if found.is_none() && !all_read {
            let (chain_id, fault) = (self.node.chain_id(), told.as_ref().err());
            tracing::debug!(%chain_id, number, ?fault, "a block's transactions are asked for one by one");
            found = self.event_singly(scope, &block, &is).await?;
        }
        let (id, event) = found.ok_or_else(|| missing("no event"))?;
        // Several nodes may answer: one on another branch has the same transaction in another block.
        if self.node.block(number, state).await? != Some(block) {
            return Err(missing("two blocks"));
        }
        let inclusion = block.inclusion(self.node.chain_id(), id);
        Ok((Found { event, id, inclusion }, block))
    }

    /// The event, where a log watcher has seen it already; nothing rests on what is not settled.
    fn shown<E: SolEvent>(&self, scope: &SearchScope<'_>, is: impl Fn(&E) -> bool) -> Option<(Found<E>, Block)> {
        let known = self.node.block_logs().shown(scope.number)?;
        let block = known.block;
        let mut infos = known.infos.iter().flatten();
        let (id, event) = infos.find_map(|info| Some((info.id, event_of(info, scope, &block, &is)?)))?;
        Some((Found { event, id, inclusion: block.inclusion(self.node.chain_id(), id) }, block))
    }

    /// Whether a log watcher has seen the event of `contract`, indexed by `payment` first, in a block up to `number`; a hint.
    pub fn is_shown_up_to<E: SolEvent>(
        &self,
        number: u64,
        contract: Address,
        payment: B256,
        is: impl Fn(&E) -> bool,
    ) -> bool {
        let is = |log: &Log| {
            // Nearly all are of other payments, and need not be decoded.
            let is_about = log.address == contract
                && log.topics.first() == Some(&E::SIGNATURE_HASH)
                && log.topics.get(1) == Some(&payment);
            is_about && event_in(log).is_some_and(|event| is(&event))
        };
        self.node.block_logs().has_up_to(number, is)
    }

    /// Looks for the event in one transaction of the block after the other.
    async fn event_singly<E: SolEvent>(
        &self,
        scope: &SearchScope<'_>,
        block: &Block,
        is: impl Fn(&E) -> bool,
    ) -> Result<Option<(B256, E)>, Transient> {
        let mut faults = 0;
        let mut look = async |id: &B256| match self.node.info(*id, scope.state).await {
            Ok(info) => Ok(info.and_then(|info| Some((*id, event_of(&info, scope, block, &is)?)))),
            Err(fault) => {
                faults += 1;
                if faults < FAULTS_MAX { Ok(None) } else { Err(fault) }
            }
        };
        for id in scope.known {
            if let Some(found) = look(id).await? {
                return Ok(Some(found));
            }
        }
        let listed = self.node.nodes().transactions_of(scope.number, scope.payment, scope.state).await?;
        let (of, ids) = listed.ok_or_else(|| self.node.contradiction(format!("no block {}", scope.number)))?;
        if of != *block {
            return Err(self.node.contradiction(format!("the blocks {} and {}", of.id, block.id)));
        }
        for id in ids.iter().filter(|id| !scope.known.contains(id)) {
            if let Some(found) = look(id).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The event in a transaction of that block.
fn event_of<E: SolEvent>(info: &Info, scope: &SearchScope<'_>, block: &Block, is: impl Fn(&E) -> bool) -> Option<E> {
    let in_block = info.block_number == block.number && info.block_time_ms == block.time_ms;
    let logs = info.logs.iter().filter(|log| in_block && info.failure.is_none() && log.address == scope.contract);
    let mut events = logs.filter_map(event_in);
    events.find(|event| is(event))
}

fn event_in<E: SolEvent>(log: &Log) -> Option<E> {
    E::decode_raw_log_validate(&log.topics, &log.data).ok()
}
