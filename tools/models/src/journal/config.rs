//! The bounds of a check of the journal, and its broken variants.

/// The bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The name, as reports have it.
    pub name: &'static str,
    /// The writers: the gateway of each, and the stream that it appends to.
    pub writers: &'static [(u8, u8)],
    /// Whether each appends a second commit to the stream, as the owner of its shard.
    pub is_second: bool,
    /// How often one append publishes.
    pub publishes_max: u8,
    /// How often an append is called again with the same commit when it was not acknowledged.
    pub calls_max: u8,
    /// Whether an epoch begins meanwhile.
    pub begins: bool,
    /// Whether the one before is sealed meanwhile.
    pub seals: bool,
    /// Whether the server forgets message ids, as it does when their window is over.
    pub forgets: bool,
    /// Whether two writers of a gateway may share an atomic batch.
    pub batches: bool,
    /// The broken variant in force.
    pub variant: Option<Variant>,
}

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// An append that is not acknowledged counts as not stored.
    UnknownIsFailed,
    /// It counts as stored.
    UnknownIsStored,
    /// A refusal for the sequence counts as a conflict, without a look at what is there.
    RefusedUnread,
    /// What is there is read from a copy that may be behind.
    StaleRead,
    /// No message has a condition.
    Unconditional,
    /// A stream begins in a new epoch without being closed in the older one.
    NoMark,
    /// An epoch counts as sealed while the server still takes messages into it.
    SealedWithoutFence,
    /// What lies in a sealed epoch is not looked at.
    SealedUnread,
    /// A batch that is refused is a conflict for each message in it.
    BatchRefusedIsConflict,
    /// A batch is stored up to the message that is refused, and said to be refused.
    BatchInPart,
    /// The server's word that a message is a duplicate counts as a refusal.
    DuplicateIsRefused,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::UnknownIsFailed,
        Self::UnknownIsStored,
        Self::RefusedUnread,
        Self::StaleRead,
        Self::Unconditional,
        Self::NoMark,
        Self::SealedWithoutFence,
        Self::SealedUnread,
        Self::BatchRefusedIsConflict,
        Self::BatchInPart,
        Self::DuplicateIsRefused,
    ];
}

impl Config {
    /// Two gateways that begin one stream.
    pub const PAIR: Self = Self {
        name: "journal-pair",
        writers: &[(0, 0), (1, 0)],
        is_second: true,
        publishes_max: 2,
        calls_max: 1,
        begins: false,
        seals: false,
        forgets: true,
        batches: false,
        variant: None,
    };

    /// This one with a broken variant.
    pub fn with(self, variant: Variant) -> Self {
        Self { variant: Some(variant), ..self }
    }

    /// Whether this broken variant is in force.
    pub fn is(&self, variant: Variant) -> bool {
        self.variant == Some(variant)
    }
}
