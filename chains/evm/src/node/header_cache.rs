//! Header cache: blocks that are known by their hashes, within a bound.

use std::collections::{HashMap, VecDeque};

use alloy::primitives::B256;

use super::BlockRef;

/// Most headers that are kept: those that came last.
const HEADERS_MAX: usize = 4_096;

/// Header cache: blocks with the hashes of their parents.
#[derive(Debug, Default)]
pub(super) struct HeaderCache {
    known: HashMap<B256, (BlockRef, B256)>,
    /// In the order in which they came.
    order: VecDeque<B256>,
}

impl HeaderCache {
    /// The block with this number and hash, and the hash of its parent.
    pub fn get(&self, number: u64, hash: B256) -> Option<(BlockRef, B256)> {
        self.known.get(&hash).filter(|(block, _)| block.number == number).copied()
    }

    pub fn insert(&mut self, block: BlockRef, parent: B256) {
        if self.known.insert(block.hash, (block, parent)).is_none() {
            self.order.push_back(block.hash);
        }
        while self.order.len() > HEADERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
