//! Constant calls: code run without a transaction in a block (`triggerconstantcontract`).

use std::sync::Arc;

use super::{
    BlockEnvironment, Chain, ChainView, State,
    vm::{self, Ending, Run},
};
use crate::{Address, Refusal, transaction::TxId};

/// Energy that a constant call may take: what Tron's nodes allow by default.
const ENERGY_MAX: u64 = 100_000_000;

/// A constant call: code run on a copy of one state, without a transaction in a block.
#[derive(Debug, Clone)]
pub(crate) struct ConstantCall {
    state: Arc<State>,
    environment: BlockEnvironment,
}

/// The result of a constant call.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub ending: Ending,
    pub output: Vec<u8>,
    pub energy: u64,
    pub logs: Vec<revm::primitives::Log>,
}

impl Chain {
    /// The newest state that `view` shows. As Tron's nodes have it (java-tron's `Wallet.callConstantContract`), that is the
    /// newest block itself, with its number, time and witness, on the state after it: a contract can say by which block it
    /// answered. The state is that after what waits, too, where that is to be shown.
    pub fn constant_call(&self, view: ChainView) -> ConstantCall {
        let call = self.call_in_blocks(view);
        match view {
            ChainView::Head if self.shows_pending => {
                ConstantCall { state: Arc::new(State::clone(&self.pending_state)), ..call }
            }
            _ => call,
        }
    }

    /// As [`constant_call`](Self::constant_call), on blocks alone.
    pub fn call_in_blocks(&self, view: ChainView) -> ConstantCall {
        let block = self.newest(view);
        let environment = self.environment_in(block.number(), block.time(), block.witness);
        ConstantCall { state: self.state(view).clone(), environment }
    }
}

impl ConstantCall {
    /// Runs a call, or a deployment where there is no `target`.
    ///
    /// # Errors
    /// When there is no such contract, or the caller does not have `value` sun.
    pub fn ask(
        &self,
        id: TxId,
        caller: Address,
        target: Option<Address>,
        value: u64,
        data: &[u8],
    ) -> Result<Answer, Refusal> {
        if let Some(target) = target
            && !self.state.get(target).is_some_and(|account| account.is_contract())
        {
            return Err(Refusal::contract("Smart contract is not exist."));
        }
        if value > self.state.get(caller).map_or(0, |account| account.balance) {
            return Err(Refusal::contract("Validate InternalTransfer error, balance is not sufficient."));
        }
        let run = Run { id, caller, target, value, data, energy_limit: ENERGY_MAX };
        let ran = vm::run(&self.state, &self.environment, &run)?;
        Ok(Answer { ending: ran.ending, output: ran.output.to_vec(), energy: ran.energy, logs: ran.logs })
    }
}
