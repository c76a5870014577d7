//! Kinds of nodes: honest, lagging, forked, lying.

/// The kind of node that answers a call: behind one address there may be several that disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Answers truthfully.
    Honest,
    /// Is so many blocks behind, with all its tags.
    Lagging {
        /// How many.
        blocks: u64,
    },
    /// Is still on the branch that the last reorganisation dropped; honest before the first.
    OnFork,
    /// Makes up so many blocks on top of the newest, and calls the newest block finalized. Its answers about real blocks and
    /// contracts are true: a reader of one node cannot tell it from an honest node whose chain is then reorganised, so
    /// the invariants must allow for that.
    LyingHead {
        /// How many.
        ahead: u64,
    },
}
