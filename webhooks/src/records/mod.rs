//! Records: a stream of messages by subject, as all of this crate is stored. [`memory`] has it for tests, [`nats`] on JetStream.

pub mod memory;
pub mod nats;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use events::time::Timestamp;

/// What the subjects of snapshots and cursors begin with.
pub const STATE_PREFIX: &str = "gw.delivery-state";

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// Its body.
    pub body: Bytes,
}

impl Record {
    /// The last token of its subject.
    pub fn last_token(&self) -> &str {
        self.subject.rsplit('.').next().unwrap_or_default()
    }
}

/// Why nothing was stored or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another record came first.
    #[error("another record came first")]
    Conflict,
    /// The store gives no answer; nothing may be concluded.
    #[error("webhooks' streams are unavailable: {0}")]
    Unavailable(String),
    /// The stream is as large as it may be. Nothing was stored, and nothing will be until an operator gives it more room.
    #[error("a stream of webhooks is as large as it may be")]
    Full,
    /// What is stored cannot be read.
    #[error("webhooks' streams hold what cannot be read: {0}")]
    Unreadable(String),
}

/// One stream of records.
#[async_trait]
pub trait Records: Send + Sync {
    /// Stores a record, and returns its sequence. With `after`, only if the last record of its subject is at this sequence (0 for
    /// none). On success it is durable.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another came first, [`Error::Unavailable`] when it may or may not be stored.
    async fn append(&self, subject: &str, after: Option<u64>, body: Bytes) -> Result<u64, Error>;

    /// The last record of a subject; at least as new as every append acknowledged before the call.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn last(&self, subject: &str) -> Result<Option<Record>, Error>;

    /// Up to `limit` records of the subjects that `filter` matches, with sequence at or above `from`, in order. They may be behind
    /// the newest appends; between two of them nothing is missing.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn read(&self, filter: &str, from: u64, limit: usize) -> Result<Vec<Record>, Error>;

    /// The last sequence of the stream; at least as new as every append acknowledged before the call.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn head(&self) -> Result<u64, Error>;

    /// Subjects that `filter` matches, whenever something is about to be stored under them. A hint: some may be lost, and what they are for
    /// may not be there yet.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn hints(&self, filter: &str) -> Result<BoxStream<'static, String>, Error>;
}

/// All records of `filter` from sequence `from` up to `head`, handed to `each` in order.
///
/// # Errors
/// [`Error::Unavailable`], also while the copy that answers is behind `head`.
pub(crate) async fn read_all(
    records: &dyn Records,
    filter: &str,
    from: u64,
    mut each: impl FnMut(Record) -> Result<(), Error>,
) -> Result<(), Error> {
    const PAGE: usize = 512;
    let mut next = from;
    loop {
        let page = records.read(filter, next, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        next = last.sequence + 1;
        page.into_iter().try_for_each(&mut each)?;
    }
}
