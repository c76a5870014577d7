//! The node view: what one node sees of the chain.

use std::sync::Arc;

use alloy::primitives::{B256, U64, keccak256};
use serde_json::Value;

use super::{
    NodeKind, RpcFault, SimChain,
    block::{Block, Mined},
    mining::index_of,
};

/// Seconds between the blocks that a lying node makes up.
const BLOCK_SECONDS: u64 = 12;

/// The blocks that a node has.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeView<'a> {
    /// Its canonical blocks.
    pub branch: &'a [Arc<Block>],
    /// Canonical blocks that it has not yet; their transactions wait for it.
    pub unseen: &'a [Arc<Block>],
    /// A branch that it left; it has the blocks still.
    pub side: &'a [Arc<Block>],
    /// Made-up blocks that it reports on top.
    pub reported: u64,
    /// What it calls finalized.
    pub finalized: u64,
    /// What it calls safe.
    pub safe: u64,
}

/// A block that a caller names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named<'a> {
    /// One that the node has.
    Block(&'a Arc<Block>),
    /// The one that is not made yet.
    Pending,
    /// So many above its newest, made up.
    MadeUp(u64),
}

impl SimChain {
    /// The view of `node`.
    pub(super) fn node_view(&self, node: &NodeKind) -> NodeView<'_> {
        let head = self.branch.len() as u64 - 1;
        match *node {
            NodeKind::Honest => self.view_of(&self.branch, head, self.finalized),
            NodeKind::Lagging { blocks } => {
                self.view_of(&self.branch, head.saturating_sub(blocks), self.finalized.saturating_sub(blocks))
            }
            NodeKind::OnFork if !self.fork.is_empty() => {
                self.view_of(&self.fork, self.fork.len() as u64 - 1, self.fork_finalized)
            }
            NodeKind::OnFork => self.view_of(&self.branch, head, self.finalized),
            NodeKind::LyingHead { ahead } => {
                NodeView { reported: ahead, safe: head, ..self.view_of(&self.branch, head, head) }
            }
        }
    }

    fn view_of<'a>(&'a self, branch: &'a [Arc<Block>], head: u64, finalized: u64) -> NodeView<'a> {
        let (branch, unseen) = branch.split_at(index_of(head + 1));
        let side = if unseen.is_empty() { self.fork.as_slice() } else { &[] };
        NodeView { branch, unseen, side, reported: 0, finalized, safe: self.safe_number(head).max(finalized) }
    }
}

impl<'a> NodeView<'a> {
    pub fn head(&self) -> &'a Arc<Block> {
        // Every view has block 0.
        &self.branch[self.branch.len() - 1]
    }

    /// The number of the block it calls newest.
    pub fn newest(&self) -> u64 {
        self.head().header.number + self.reported
    }

    /// The block that `parameter` names: a tag, a number, a hash, or an object with one of these (EIP-1898). `None` when
    /// the node has no such block.
    pub fn named(&self, parameter: &Value) -> Result<Option<Named<'a>>, RpcFault> {
        match parameter {
            Value::Null => Ok(Some(self.tip())),
            Value::String(text) if text.len() == 66 => self.hashed(parameter),
            Value::String(text) => self.tagged(text),
            Value::Object(members) => match (members.get("blockHash"), members.get("blockNumber")) {
                (Some(hash), None) => {
                    let found = self.hashed(hash)?;
                    let must = members.get("requireCanonical").and_then(Value::as_bool).unwrap_or_default();
                    match found {
                        Some(Named::Block(block)) if must && !self.is_canonical(block) => {
                            Err(RpcFault::refused("hash is not currently canonical"))
                        }
                        found => Ok(found),
                    }
                }
                (None, Some(Value::String(number))) => self.tagged(number),
                _ => Err(RpcFault::parameters("invalid argument: either blockHash or blockNumber")),
            },
            _ => Err(RpcFault::parameters("invalid argument: no block")),
        }
    }

    fn tip(&self) -> Named<'a> {
        if self.reported == 0 { Named::Block(self.head()) } else { Named::MadeUp(self.reported) }
    }

    fn tagged(&self, text: &str) -> Result<Option<Named<'a>>, RpcFault> {
        let number = match text {
            "latest" => return Ok(Some(self.tip())),
            "pending" => return Ok(Some(Named::Pending)),
            "earliest" => 0,
            "safe" => self.safe,
            "finalized" => self.finalized,
            number => number
                .parse::<U64>()
                .map_err(|_| RpcFault::parameters(format!("invalid argument: {number:?} names no block")))?
                .to(),
        };
        Ok(self.numbered(number))
    }

    /// Its canonical block `number`.
    pub fn numbered(&self, number: u64) -> Option<Named<'a>> {
        let head = self.head().header.number;
        match self.branch.get(index_of(number)) {
            Some(block) => Some(Named::Block(block)),
            None if number <= head + self.reported => Some(Named::MadeUp(number - head)),
            None => None,
        }
    }

    fn hashed(&self, hash: &Value) -> Result<Option<Named<'a>>, RpcFault> {
        let hash: B256 = hash
            .as_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| RpcFault::parameters("invalid argument: no block hash"))?;
        Ok(self.by_hash(hash).map(Named::Block))
    }

    /// Its block of `hash`, canonical or not.
    pub fn by_hash(&self, hash: B256) -> Option<&'a Arc<Block>> {
        self.branch.iter().rev().chain(self.side.iter().rev()).find(|block| block.hash == hash)
    }

    /// Whether `block` is of its branch.
    pub fn is_canonical(&self, block: &Block) -> bool {
        self.branch.get(index_of(block.header.number)).is_some_and(|canonical| canonical.hash == block.hash)
    }

    /// The transaction of `hash` in its branch, with its block and its index there.
    pub fn mined(&self, hash: B256) -> Option<(&'a Arc<Block>, usize, &'a Mined)> {
        found(self.branch, hash)
    }

    /// The transaction of `hash` in the blocks that it has not yet.
    pub fn coming(&self, hash: B256) -> Option<&'a Mined> {
        found(self.unseen, hash).map(|(_, _, mined)| mined)
    }

    /// A made-up header, `above` blocks over the newest real one.
    pub fn made_up(&self, above: u64) -> Block {
        let head = self.head();
        let mut header = head.header.clone();
        header.number += above;
        header.timestamp += above * BLOCK_SECONDS;
        header.gas_used = 0;
        header.mix_hash = keccak256([head.hash.as_slice(), b"made up"].concat());
        header.parent_hash = if above > 1 { self.made_up(above - 1).hash } else { head.hash };
        Block {
            hash: header.hash_slow(),
            header,
            transactions: Vec::new(),
            state: head.state.clone(),
            holders: Arc::clone(&head.holders),
        }
    }
}

fn found(blocks: &[Arc<Block>], hash: B256) -> Option<(&Arc<Block>, usize, &Mined)> {
    blocks.iter().rev().find_map(|block| {
        let index = block.transactions.iter().position(|mined| mined.transaction.hash() == hash)?;
        Some((block, index, &block.transactions[index]))
    })
}
