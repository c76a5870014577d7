//! Which node answers.

/// The node that answers a call: behind one address there may be several that disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Says what is so.
    Honest,
    /// Is so many blocks behind, with all its tags.
    Lagging {
        /// How many.
        blocks: u64,
    },
    /// Is still on the branch that the last reorganisation dropped; honest before the first.
    OnFork,
    /// Claims so many blocks on top of the newest, and calls the newest block finalized. What it says of a block that there
    /// is, or of a contract, is so: no reader of one node can tell such a one from an honest one whose chain is then
    /// reorganised, so a world that has it answer must know what it still may demand.
    LyingHead {
        /// How many.
        ahead: u64,
    },
}
