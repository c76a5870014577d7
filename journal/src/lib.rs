//! The journal (event store): payments and quote-request batches as append-only streams of commits.
//!
//! A [`Commit`] holds the events of one decision and is stored whole or not at all. Appends to one stream are
//! serialised by optimistic concurrency: each names the [`Position`] it was decided at, and is refused with
//! [`AppendError::Conflict`] when another commit came first. [`Journal`] has two implementations with the same
//! semantics, [`memory::MemoryJournal`] and that of the crate `journal-jetstream`, which pass one conformance suite.
//!
//! Smaller records use the same concurrency control: the signer [`ledger`] that reserves transaction nonces, the gas
//! [`budget`]s, the [`parking`] (dead letters) of streams that cannot go on, the [`operator_acts`], and signed [`checkpoint`]s.
//!
//! The crate does not depend on NATS: the engine uses its traits, and the process chooses the store.

pub mod budget;
pub mod checkpoint;
pub mod conformance;
pub mod envelope;
pub mod ledger;
pub mod memory;
pub mod operator_acts;
pub mod parking;
pub mod stream_moved;
pub mod successor;

use async_trait::async_trait;

use events::{
    CommitId, Epochs, Event, Hash32, PaymentEvent, QuoteRequestEvent, StreamId,
    event::{Mark, Moved},
    time::Timestamp,
};

/// Where a stream stands: what an append is decided on and fenced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Shard the stream lies in; 0 for a stream that does not exist.
    pub shard: u16,
    /// Commits so far; 0 for a stream that does not exist.
    pub version: u64,
    /// Stream sequence of the last commit; 0 for none.
    pub sequence: u64,
    /// Hash of the last commit as stored; zero for none.
    pub hash: Hash32,
}

impl Position {
    /// Before the first commit. An append here creates the stream.
    pub const START: Self = Self { shard: 0, version: 0, sequence: 0, hash: Hash32::ZERO };
}

/// The events of one decision, about to be appended.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The stream.
    pub stream_id: StreamId,
    /// Where it stood when the events were decided.
    pub expected: Position,
    /// Identity of this commit, by which a lost acknowledgement is resolved.
    pub commit_id: CommitId,
    /// The events, at least one, all of the stream's kind.
    pub events: Vec<Event>,
    /// The origin of the whole chain of work, for example the HTTP request's id. Stored as [`envelope::label`] makes it.
    pub correlation: String,
    /// The direct cause of this commit, for example the commit id it reacts to. Stored as [`envelope::label`] makes it.
    pub causation: String,
}

/// A commit as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The stream.
    pub stream_id: StreamId,
    /// Where the stream stands with this commit in it.
    pub position: Position,
    /// Identity of the commit.
    pub commit_id: CommitId,
    /// Hash of the commit before it; zero for the first.
    pub prev: Hash32,
    /// The origin of the work.
    pub correlation: String,
    /// The direct cause.
    pub causation: String,
    /// When the journal stored it. The answer of an append may hold the appender's own time of the acknowledgement
    /// instead; what is loaded or replayed always holds the journal's.
    pub stored_at: Timestamp,
    /// The events, upcast to their current version; all of the stream's kind.
    pub events: Vec<Event>,
}

impl Recorded {
    /// The events of a payment's commit; none for another kind of stream.
    pub fn payment_events(&self) -> impl Iterator<Item = &PaymentEvent> {
        self.events.iter().filter_map(Event::payment)
    }

    /// Whether this is the `StreamMoved` mark of a stream that begins in a later epoch, and not a commit of the stream.
    pub fn is_moved(&self) -> bool {
        self.moved_to().is_some()
    }

    /// The epoch that the mark names.
    pub fn moved_to(&self) -> Option<u16> {
        match self.events[..] {
            [Event::Mark(Mark::Moved(Moved { to_epoch }))] => Some(to_epoch),
            _ => None,
        }
    }

    /// The events of a batch's commit; none for another kind of stream.
    pub fn quote_request_events(&self) -> impl Iterator<Item = &QuoteRequestEvent> {
        self.events.iter().filter_map(Event::quote_request)
    }
}

/// Why an append did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another commit came first: load again and decide again. Nothing of this commit is stored.
    #[error("another commit came first")]
    Conflict,
    /// Nothing of this commit is stored; the same commit may be appended again.
    #[error("journal is unavailable, nothing was stored: {0}")]
    Unavailable(String),
    /// It could not be established within the bounded time whether the commit is stored. Load the stream and look
    /// for the commit id before doing anything.
    #[error("outcome of the append is unknown: {0}")]
    Unknown(String),
    /// The commit can never be stored, for example because it is too large.
    #[error("commit is unacceptable: {0}")]
    Unacceptable(String),
}

/// Why a read did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The journal cannot be reached, or did not answer in time; retry.
    #[error("journal is unavailable: {0}")]
    Unavailable(String),
    /// A stored entry cannot be read as events: an unknown event, an unknown version, a broken envelope. Retrying does
    /// not help.
    #[error("stored message {sequence} of shard {shard} is unreadable: {reason}")]
    Unreadable {
        /// Shard of the message.
        shard: u16,
        /// Its stream sequence; 0 when the server does not tell which message it lost.
        sequence: u64,
        /// Its subject, by which its payment or batch is known; `None` when the message is missing.
        subject: Option<String>,
        /// The defect.
        reason: String,
    },
}

/// A wake-up of the worker of a shard.
#[derive(Debug)]
pub enum WakeUp {
    /// This process now owns the shard: everything open in it has to be looked at.
    Acquired,
    /// A commit was appended to the stream.
    Event {
        /// The stream.
        stream_id: StreamId,
        /// Sequence of the commit in the shard, as in [`Position::sequence`].
        sequence: u64,
    },
    /// This process no longer owns the shard; another will go on. Work in hand is fenced by the expected position.
    Lost,
}

/// A worker's lease on one shard, and the wake-ups it gets while it holds it.
#[async_trait]
pub trait ShardWorker: Send {
    /// The next wake-up. Wake-ups are hints: they may be repeated, then also out of the order in which the commits are
    /// stored, and after [`WakeUp::Acquired`] nothing that was delivered to an earlier owner is delivered again.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`]; call again, the implementation reconnects.
    async fn next(&mut self) -> Result<WakeUp, ReadError>;

    /// Gives the shard up at once, so that another process need not wait for the lease to expire.
    async fn release(self: Box<Self>);
}

/// The store of streams, for deciders: append a commit to a payment or batch, read the commits of one stream.
#[async_trait]
pub trait StreamStore: Send + Sync {
    /// Appends one commit, resolving every ambiguous acknowledgement by reading. Appending the very same commit again
    /// succeeds again, with the same position, also when others followed it.
    ///
    /// # Errors
    /// See [`AppendError`]. On success the commit is durable.
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError>;

    /// All commits of one stream in order; empty for a stream that does not exist.
    ///
    /// The answer is at least as new as every append acknowledged before the call.
    ///
    /// # Errors
    /// See [`ReadError`].
    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError>;
}

/// The log of a shard, for followers of all its commits: read models, exports, audits.
#[async_trait]
pub trait ShardLog: Send + Sync {
    /// The epochs that this process knows of, by which streams find their shards; at least one. More are begun while the
    /// process runs, and older ones sealed (ADR 73).
    fn epochs(&self) -> Epochs;

    /// Number of shards of all epochs that this process knows of: those below it exist, whatever may follow.
    fn shards(&self) -> u16 {
        self.epochs().shards()
    }

    /// Returns when there are more than `shards` shards.
    async fn grown(&self, shards: u16) {
        if self.shards() <= shards {
            std::future::pending().await
        }
    }

    /// Up to `limit` commits of a shard with sequence at or above `from`, in order of sequence. Fewer than `limit` means
    /// that the end was reached.
    ///
    /// # Errors
    /// See [`ReadError`].
    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError>;

    /// Sequence of the newest commit of a shard; 0 when it is empty.
    ///
    /// # Errors
    /// See [`ReadError`].
    async fn head(&self, shard: u16) -> Result<u64, ReadError>;

    /// Sequence of the newest commit of a shard that this process knows of without asking: of all that it appended, loaded
    /// or saw as a head, and of what it heard from others, which may be untrue and come late. `None` where it does not keep
    /// account of that.
    fn known_head(&self, _shard: u16) -> Option<u64> {
        None
    }

    /// Waits until the shard's head is above `sequence`, or a bounded time has passed.
    ///
    /// # Errors
    /// See [`ReadError`].
    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError>;
}

/// Leases on shards, for owners that drive what is open in a shard.
#[async_trait]
pub trait ShardLeases: Send + Sync {
    /// Competes for a shard in the name of `owner` (unique to the process). At most one owner is active at a time as
    /// far as clocks and network allow; correctness never rests on it.
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker>;
}

/// Streams and the log that they lie in: for those who decide and follow, and own no shard.
pub trait StreamLog: StreamStore + ShardLog {}

impl<T: StreamStore + ShardLog + ?Sized> StreamLog for T {}

/// The whole journal, as a gateway has it: for those who decide, follow and own at once.
pub trait Journal: StreamLog + ShardLeases {}

impl<T: StreamLog + ShardLeases + ?Sized> Journal for T {}
