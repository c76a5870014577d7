//! Reads: rows as the commits that they are.

use chrono::{DateTime, Utc};
use tokio_postgres::{Row, types::ToSql};

use events::{CommitId, Hash32, StreamId};
use journal::{
    ReadError, Recorded,
    envelope::{self, Envelope},
};

use super::{Inner, session::reason};

impl Inner {
    pub(super) async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        let session = self.reader().session().await.map_err(ReadError::Unavailable)?;
        let rows = session.client.query(&session.load, &[&stream_id.to_string()]).await.map_err(unavailable)?;
        rows.iter().map(recorded).collect()
    }

    pub(super) async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        let session = self.reader().session().await.map_err(ReadError::Unavailable)?;
        let (shard, from, limit) = range(shard, from, limit);
        let values: [&(dyn ToSql + Sync); 3] = [&shard, &from, &limit];
        let rows = session.client.query(&session.replay, &values).await.map_err(unavailable)?;
        rows.iter().map(recorded).collect()
    }

    /// Sequence and stream of up to `limit` commits of a shard.
    pub(super) async fn streams(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<(u64, StreamId)>, ReadError> {
        let session = self.reader().session().await.map_err(ReadError::Unavailable)?;
        let (number, from, limit) = range(shard, from, limit);
        let values: [&(dyn ToSql + Sync); 3] = [&number, &from, &limit];
        let rows = session.client.query(&session.streams, &values).await.map_err(unavailable)?;
        let named = |row: &Row| {
            let sequence = row.try_get::<_, i64>(0).map_err(unavailable)?.unsigned_abs();
            let stream: &str = row.try_get(1).map_err(unavailable)?;
            let stream_id = stream.parse().map_err(|_| unreadable(shard, sequence, stream, "no stream has this id"))?;
            Ok((sequence, stream_id))
        };
        rows.iter().map(named).collect()
    }

    /// The heads of all shards.
    pub(super) async fn heads(&self) -> Result<Vec<u64>, ReadError> {
        let session = self.reader().session().await.map_err(ReadError::Unavailable)?;
        let shards = self.shards.len() as i16;
        let rows = session.client.query(&session.heads, &[&shards]).await.map_err(unavailable)?;
        rows.iter().map(|row| Ok(row.try_get::<_, i64>(0).map_err(unavailable)?.unsigned_abs())).collect()
    }
}

fn range(shard: u16, from: u64, limit: usize) -> (i16, i64, i64) {
    let most = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    (shard as i16, most(from), most(limit as u64))
}

fn unavailable(error: tokio_postgres::Error) -> ReadError {
    ReadError::Unavailable(reason(&error))
}

fn unreadable(shard: u16, sequence: u64, stream: &str, reason: impl ToString) -> ReadError {
    ReadError::Unreadable { shard, sequence, subject: Some(stream.to_owned()), reason: reason.to_string() }
}

fn recorded(row: &Row) -> Result<Recorded, ReadError> {
    let columns = || -> Result<_, tokio_postgres::Error> {
        let shard: i16 = row.try_get(0)?;
        let (sequence, version): (i64, i64) = (row.try_get(1)?, row.try_get(3)?);
        let (stored_at, prev): (DateTime<Utc>, &[u8]) = (row.try_get(4)?, row.try_get(10)?);
        let (stream, body): (&str, &[u8]) = (row.try_get(2)?, row.try_get(11)?);
        let envelope = Envelope {
            subject: String::new(),
            types: row.try_get(5)?,
            schemas: row.try_get(6)?,
            version: version.unsigned_abs(),
            correlation: row.try_get(7)?,
            causation: row.try_get(8)?,
            prev: Hash32::ZERO,
            commit_id: CommitId::from_stored(row.try_get::<_, String>(9)?),
        };
        Ok((shard.unsigned_abs(), sequence.unsigned_abs(), stream, stored_at, prev, body, envelope))
    };
    let (shard, sequence, stream, stored_at, prev, body, mut envelope) = columns().map_err(unavailable)?;
    let stream_id: StreamId =
        stream.parse().map_err(|_| unreadable(shard, sequence, stream, "no stream has this id"))?;
    envelope.subject = envelope::subject(shard, &stream_id);
    let prev = prev.try_into().map_err(|_| unreadable(shard, sequence, stream, "a hash has 32 bytes"))?;
    envelope.prev = Hash32(prev);
    envelope.open(shard, sequence, body, stored_at).map_err(|error| unreadable(shard, sequence, stream, error))
}
