//! The node view: what one node sees of the cluster.

use std::sync::Arc;

use serde_json::Value;

use gateway_program::Key;

use super::{
    NodeKind, RpcFault, SimCluster,
    block::{Block, Landed},
};

/// How sure a node is of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Processed,
    Confirmed,
    Finalized,
}

impl Level {
    /// The commitment that a configuration names; finalized where it names none.
    pub fn of(how: &Value) -> Result<Self, RpcFault> {
        match &how["commitment"] {
            Value::Null => Ok(Self::Finalized),
            Value::String(name) => match name.as_str() {
                "processed" => Ok(Self::Processed),
                "confirmed" => Ok(Self::Confirmed),
                "finalized" => Ok(Self::Finalized),
                other => Err(RpcFault::parameters(format!(
                    "Invalid params: unknown variant `{other}`, expected one of `processed`, `confirmed`, `finalized`."
                ))),
            },
            _ => Err(RpcFault::parameters("Invalid params: invalid type: expected a commitment.")),
        }
    }

    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Processed => "processed",
            Self::Confirmed => "confirmed",
            Self::Finalized => "finalized",
        }
    }
}

/// The blocks that a node has.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeView<'a> {
    /// Its blocks, block by block from the genesis on.
    blocks: &'a [Arc<Block>],
    /// The place of its newest confirmed block.
    confirmed: usize,
    /// The place of its newest finalized block.
    finalized: usize,
    /// Places of the blocks that its history has: from here on,
    first: usize,
    /// and before this one.
    end: usize,
    /// Made-up slots that it reports on top.
    pub ahead: u64,
}

impl SimCluster {
    /// The view of `node`.
    pub(super) fn node_view(&self, node: NodeKind) -> NodeView<'_> {
        let newest = self.branch.len() - 1;
        let honest = self.view_of(&self.branch, newest, self.finalized);
        match node {
            NodeKind::Honest => honest,
            NodeKind::Lagging { blocks } => {
                let finalized = self.finalized.saturating_sub(blocks);
                self.view_of(&self.branch, newest.saturating_sub(blocks), finalized)
            }
            NodeKind::OnFork if !self.fork.is_empty() => {
                self.view_of(&self.fork, self.fork.len() - 1, self.fork_finalized)
            }
            NodeKind::OnFork => honest,
            NodeKind::LyingHead { ahead } => NodeView { ahead, confirmed: newest, finalized: newest, ..honest },
            NodeKind::Unindexed { blocks } => NodeView { end: honest.end.saturating_sub(blocks).max(1), ..honest },
            NodeKind::Pruned { blocks } => NodeView { first: honest.end.saturating_sub(blocks.max(1)), ..honest },
        }
    }

    fn view_of<'a>(&self, branch: &'a [Arc<Block>], newest: usize, finalized: usize) -> NodeView<'a> {
        let finalized = finalized.min(newest);
        let confirmed = newest.saturating_sub(self.timing.confirmed_lag).max(finalized);
        let blocks = &branch[..=newest];
        NodeView { blocks, confirmed, finalized, first: 0, end: blocks.len(), ahead: 0 }
    }
}

impl<'a> NodeView<'a> {
    fn place(&self, level: Level) -> usize {
        match level {
            Level::Processed => self.blocks.len() - 1,
            Level::Confirmed => self.confirmed,
            Level::Finalized => self.finalized,
        }
    }

    /// The newest block at a level.
    pub fn newest(&self, level: Level) -> &'a Arc<Block> {
        // Every view has the genesis, and no place is past its end.
        &self.blocks[self.place(level)]
    }

    /// The newest block at the level that a configuration names, which must have reached the slot that it wants.
    pub fn context(&self, how: &Value) -> Result<&'a Arc<Block>, RpcFault> {
        let block = self.newest(Level::of(how)?);
        match how["minContextSlot"].as_u64() {
            Some(least) if block.slot < least => Err(RpcFault::below_context(block.slot)),
            _ => Ok(block),
        }
    }

    /// The blocks of its history up to a level, oldest first.
    pub fn history(&self, level: Level) -> &'a [Arc<Block>] {
        let end = self.end.min(self.place(level) + 1);
        &self.blocks[self.first.min(end)..end]
    }

    /// The level of one of its blocks.
    pub fn level(&self, block: &Block) -> Level {
        if block.height <= self.blocks[self.finalized].height {
            Level::Finalized
        } else if block.height <= self.blocks[self.confirmed].height {
            Level::Confirmed
        } else {
            Level::Processed
        }
    }

    /// Blocks on top of one of its blocks.
    pub fn confirmations(&self, block: &Block) -> u64 {
        self.newest(Level::Processed).height - block.height
    }

    /// The block at a slot in its history, at least at this level.
    pub fn at(&self, slot: u64, level: Level) -> Result<&'a Arc<Block>, RpcFault> {
        let history = self.history(level);
        if slot > self.newest(level).slot {
            return Err(RpcFault::not_available(slot));
        }
        match history.first() {
            Some(first) if slot < first.slot => return Err(RpcFault::cleaned_up(slot, first.slot)),
            None => return Err(RpcFault::not_available(slot)),
            Some(_) => {}
        }
        match history.binary_search_by_key(&slot, |block| block.slot) {
            Ok(place) => Ok(&history[place]),
            // What is not written yet is not known to be skipped.
            Err(_) if history.last().is_some_and(|last| slot > last.slot) => Err(RpcFault::not_available(slot)),
            Err(_) => Err(RpcFault::skipped(slot)),
        }
    }

    /// The transaction of a signature in its blocks, whether its history has them or not.
    pub fn executed(&self, signature: &[u8; 64]) -> Option<(&'a Arc<Block>, &'a Landed)> {
        find(&self.blocks[self.first..], signature)
    }

    /// The transaction of a signature in its history, at least at this level.
    pub fn landed(&self, signature: &[u8; 64], level: Level) -> Option<(&'a Arc<Block>, &'a Landed)> {
        find(self.history(level), signature)
    }

    /// The transactions of its history that name an account, newest first.
    pub fn naming(&self, account: Key, level: Level) -> impl Iterator<Item = (&'a Arc<Block>, &'a Landed)> {
        let blocks = self.history(level).iter().rev();
        let all = blocks.flat_map(|block| block.landed.iter().rev().map(move |landed| (block, landed)));
        all.filter(move |(_, landed)| landed.signed.names(&account))
    }

    /// The block of a blockhash that a transaction may have now, and how many blocks ago it was the newest.
    pub fn recent(&self, blockhash: &[u8; 32], level: Level, age_max: u64) -> Option<u64> {
        age_of(&self.blocks[..=self.place(level)], blockhash, age_max)
    }
}

/// How many blocks below the newest of `branch` the block of a blockhash lies, if that is not above `age_max`.
pub(super) fn age_of(branch: &[Arc<Block>], blockhash: &[u8; 32], age_max: u64) -> Option<u64> {
    let newest = branch.last()?.height;
    let mut recent = branch.iter().rev().take_while(|block| newest - block.height <= age_max);
    recent.find(|block| block.blockhash == *blockhash).map(|block| newest - block.height)
}

fn find<'a>(blocks: &'a [Arc<Block>], signature: &[u8; 64]) -> Option<(&'a Arc<Block>, &'a Landed)> {
    blocks.iter().rev().find_map(|block| {
        let landed = block.landed.iter().find(|landed| landed.signed.signature == *signature)?;
        Some((block, landed))
    })
}
