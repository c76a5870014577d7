//! Running code without a transaction in a block.

use std::sync::Arc;

use super::{
    Chain, Sight, State, Surroundings,
    vm::{self, Ending, Run},
};
use crate::{Address, Refusal, transaction::TxId};

/// Energy that a question may take: what Tron's nodes allow by default.
const ENERGY_MAX: u64 = 100_000_000;

/// A moment of the chain in which code can be run, apart from the chain.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    state: Arc<State>,
    around: Surroundings,
}

/// What code answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub ending: Ending,
    pub output: Vec<u8>,
    pub energy: u64,
    pub logs: Vec<revm::primitives::Log>,
}

impl Chain {
    /// The newest moment that `sight` shows. As Tron's nodes have it (java-tron's `Wallet.callConstantContract`), that is the
    /// newest block itself, with its number, time and witness, on the state after it: a contract can say by which block it
    /// answered. The state is that after what waits, too, where that is to be shown.
    pub fn question(&self, sight: Sight) -> Question {
        let block = self.newest(sight);
        let around = self.surroundings_in(block.number(), block.time(), block.witness);
        let state = match sight {
            Sight::Head if self.shows_pending => Arc::new(State::clone(&self.pending_state)),
            _ => self.state(sight).clone(),
        };
        Question { state, around }
    }
}

impl Question {
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
        let ran = vm::run(&self.state, &self.around, &run)?;
        Ok(Answer { ending: ran.ending, output: ran.output.to_vec(), energy: ran.energy, logs: ran.logs })
    }
}
