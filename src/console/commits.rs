//! The messages of a payment as the journal's streams hold them.

use std::{sync::Arc, time::Duration};

use async_nats::Client;
use async_trait::async_trait;
use tokio::task::spawn_blocking;

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
            let mut batch = self.reader.batch(&stream, next, Some(&subject), limit).await?;
            if batch.is_empty() {
                // A replica answers, which may lack the newest; those are the leader's, one by one.
                batch.extend(self.reader.next_of_leader(&stream, next, &subject).await?);
            }
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
            // Some MiB are hashed.
            let hashed = spawn_blocking(move || messages.into_iter().map(stored).collect());
            let messages = hashed.await.map_err(|error| Error::Failed(error.to_string()))?;
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

#[cfg(test)]
mod tests {
    use async_nats::jetstream::{Context, new, stream::Config};
    use chrono::Utc;
    use tempfile::TempDir;

    use devkit::{NatsServer, free_port};
    use events::{CommitId, Event, PaymentEvent, event::DepositRuledOut};
    use journal::{Commit, Position, StreamStore};
    use journal_jetstream::store::Options;

    use super::*;

    /// Direct Gets are answered by a stream that has nothing, as by a replica that has not caught up.
    const CONFIG: &str = r#"
        jetstream { sync_interval: always }
        mappings { "$JS.API.DIRECT.GET.EVT_00": "$JS.API.DIRECT.GET.BEHIND" }
    "#;

    #[tokio::test]
    async fn what_a_replica_lacks_is_read_from_the_leader() -> anyhow::Result<()> {
        let directory = TempDir::new()?;
        let config = directory.path().join("nats.conf");
        std::fs::write(&config, CONFIG)?;
        let server = NatsServer::in_directory(&config, directory.path(), free_port()?).await?;
        let client = async_nats::connect(server.url()).await?;
        let context: Context = new(client.clone());
        let behind = Config { name: "BEHIND".to_owned(), allow_direct: true, ..Config::default() };
        context.create_stream(Config { subjects: vec!["behind".to_owned()], ..behind }).await?;
        let options = Options { shards: 1, ..Options::default() };
        let journal = Arc::new(NatsJournal::connect(client.clone(), options).await?);
        let payment_id = PaymentId::derive("payer", "order-1");
        let mut expected = Position::START;
        for _ in 0..2 {
            let commit = Commit {
                stream_id: StreamId::from(&payment_id),
                expected,
                commit_id: CommitId::random(),
                events: vec![Event::Payment(PaymentEvent::DepositRuledOut(DepositRuledOut {
                    ruled_out_at: Utc::now(),
                    left: None,
                }))],
                correlation: "test".to_owned(),
                causation: "test".to_owned(),
            };
            expected = journal.append(&commit).await?.position;
        }
        let commits = JournalCommits::new(client, journal);
        assert_eq!(commits.reader.batch("EVT_00", 1, None, 10).await?, []);
        let found = commits.of(&payment_id).await?.ok_or_else(|| anyhow::anyhow!("it is not found"))?;
        assert_eq!((found.messages.len(), found.has_more), (2, false));
        assert_eq!(found.messages[1].hash, expected.hash);
        Ok(())
    }
}
