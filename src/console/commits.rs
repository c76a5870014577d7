//! The messages of a payment as the journal's streams hold them.

use std::{sync::Arc, time::Duration};

use async_nats::Client;
use async_trait::async_trait;

use events::{PaymentId, StreamId};
use gateway_console::{
    error::Error,
    ports::{StoredCommits, StoredMessage, StoredStream},
};
use journal::{ShardLog, envelope};
use journal_jetstream::{
    raw::{RawMessage, RawReader, Unavailable},
    store::NatsJournal,
};

/// How long one reading tries.
const READ_MAX: Duration = Duration::from_secs(5);
/// Most messages that are read. A payment has a dozen commits, and one more for each version of a transaction.
const MESSAGES_MAX: usize = 1_000;
/// Most bytes of their bodies.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Reads them over a connection of its own.
pub(super) struct JournalCommits {
    reader: RawReader,
    journal: Arc<NatsJournal>,
}

impl JournalCommits {
    pub(super) fn new(client: Client, journal: Arc<NatsJournal>) -> Self {
        Self { reader: RawReader::new(client, READ_MAX), journal }
    }

    /// The messages of a payment in one shard, and whether there are more.
    async fn in_shard(&self, shard: u16, stream_id: &StreamId) -> Result<(Vec<RawMessage>, bool), Unavailable> {
        let (stream, subject) = (envelope::stream(shard), envelope::subject(shard, stream_id));
        let (mut messages, mut bytes, mut next) = (Vec::<RawMessage>::new(), 0, 1);
        loop {
            if messages.len() >= MESSAGES_MAX || bytes >= BYTES_MAX {
                return Ok((messages, true));
            }
            let limit = MESSAGES_MAX - messages.len();
            let batch = self.reader.batch(&stream, next, Some(&subject), limit).await?;
            let Some(last) = batch.last() else { return Ok((messages, false)) };
            next = last.sequence + 1;
            bytes += batch.iter().map(|message| message.body.len()).sum::<usize>();
            messages.extend(batch);
        }
    }
}

#[async_trait]
impl StoredCommits for JournalCommits {
    async fn of(&self, payment_id: &PaymentId) -> Result<Option<StoredStream>, Error> {
        let stream_id = StreamId::from(payment_id);
        let epochs = self.journal.epochs();
        for shard in epochs.shards_of(&stream_id) {
            let read = self.in_shard(shard, &stream_id).await;
            let (messages, has_more) = read.map_err(|error| Error::Unavailable(error.to_string()))?;
            // Where it begins in a later epoch there is a mark alone.
            let is_mark = messages.first().is_some_and(|first| envelope::is_moved(first.header("Gw-Type")));
            if messages.is_empty() || is_mark {
                continue;
            }
            let messages = messages.into_iter().map(stored).collect();
            return Ok(Some(StoredStream { shard, stream: envelope::stream(shard), messages, has_more }));
        }
        Ok(None)
    }
}

fn stored(message: RawMessage) -> StoredMessage {
    StoredMessage {
        sequence: message.sequence,
        stored_at: message.stored_at,
        hash: message.hash(),
        envelope: message.envelope().map_err(|error| error.to_string()),
        body: message.body,
    }
}
