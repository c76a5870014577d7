//! Kinds of nodes: honest, lagging, forked, lying, forgetful.

/// The kind of node that answers a call: behind one address there may be several that disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Answers truthfully.
    Honest,
    /// Is so many blocks behind, at every commitment.
    Lagging {
        /// How many.
        blocks: usize,
    },
    /// Is still on the branch that the last fork dropped; honest before the first.
    OnFork,
    /// Claims so many slots and blocks on top of the newest, and calls the newest block finalized. What it says of accounts and
    /// transactions is true: a reader of one node cannot tell it from an honest node whose cluster is then forked, so the invariants must
    /// allow for that.
    LyingHead {
        /// How many.
        ahead: u64,
    },
    /// Knows the accounts of the newest block, and has not written the newest blocks to its history yet.
    Unindexed {
        /// How many.
        blocks: usize,
    },
    /// Has thrown away the history before its newest blocks, and knows of no older transaction any more.
    Pruned {
        /// How many it keeps.
        blocks: usize,
    },
}
