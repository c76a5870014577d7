//! Blocks, and what their transactions did.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use solana_account::AccountSharedData;

use super::{
    runtime::{Execution, Moment},
    state::State,
    wire::Signed,
};

/// A transaction in a block.
#[derive(Debug, Clone)]
pub(super) struct Landed {
    pub signed: Arc<Signed>,
    pub execution: Execution,
    /// Its accounts before and after it, in the order of its keys.
    pub accounts: Vec<(Option<AccountSharedData>, Option<AccountSharedData>)>,
}

/// A block with the state after it.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub slot: u64,
    pub parent_slot: u64,
    /// How many blocks lie below it.
    pub height: u64,
    pub blockhash: [u8; 32],
    pub previous_blockhash: [u8; 32],
    /// The UNIX second of the cluster's clock.
    pub time: u64,
    pub landed: Vec<Landed>,
    pub state: State,
}

impl Block {
    /// When it was made.
    pub fn moment(&self) -> Moment {
        Moment { slot: self.slot, time: self.time }
    }
}

/// The hash of a block: no two of a run have the same. `branch` counts the forks.
pub(super) fn blockhash(parent: &[u8; 32], slot: u64, branch: u64, landed: &[Landed]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(parent);
    hasher.update(slot.to_be_bytes());
    hasher.update(branch.to_be_bytes());
    landed.iter().for_each(|landed| hasher.update(landed.signed.signature));
    hasher.finalize().into()
}
