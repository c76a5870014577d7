//! Group commit: a writer takes all commits that wait and stores them in one transaction, while the next ones gather.
//!
//! Each writer has a connection and shards of its own, so writers never wait for each other's locks; while one waits for its sync
//! the others work. A commit that conflicts is left out of the transaction (`schema.sql`), and the others are stored.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Weak,
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout_at},
};
use tokio_postgres::Row;

use events::StreamId;
use journal::envelope::EncodedCommit;

use super::{
    Inner,
    session::{Link, Session, reason},
};

/// Most commits of a transaction, and their bytes.
const COMMITS_MAX: usize = 1_000;
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a writer tries to learn what became of a transaction.
const TRIES_FOR: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(50);

/// A commit that waits to be stored.
pub(super) struct Waiting {
    pub stream_id: StreamId,
    /// The sequence of the commit before it; 0 for none.
    pub expected: u64,
    pub encoded: EncodedCommit,
    pub outcome: oneshot::Sender<Outcome>,
}

/// What became of a commit.
pub(super) enum Outcome {
    /// It is stored.
    Stored { sequence: u64, at: DateTime<Utc> },
    /// It was left out, because it does not follow what is stored; it may be stored already.
    DoesNotFollow,
    /// Nothing of it is stored.
    NotStored(String),
    /// Nobody could say.
    Unknown(String),
}

/// Stores what comes in until nobody can send any more.
pub(super) async fn run(inner: Weak<Inner>, link: Link, mut incoming: mpsc::Receiver<Waiting>) {
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match incoming.recv().await {
                Some(first) => waiting.push_back(first),
                None => return,
            }
        }
        while let Ok(next) = incoming.try_recv() {
            waiting.push_back(next);
        }
        let batch = take_batch(&mut waiting);
        let outcome = store(&link, &batch).await;
        tell(inner.upgrade().as_deref(), batch, outcome);
    }
}

/// The next transaction: of each stream the first commit, the others wait.
fn take_batch(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let (mut batch, mut later, mut streams, mut bytes) = (Vec::new(), VecDeque::new(), HashSet::new(), 0);
    while let Some(next) = waiting.pop_front() {
        // Whoever gave up finds its commit not stored.
        if next.outcome.is_closed() {
            continue;
        }
        let is_full = batch.len() == COMMITS_MAX || bytes > BYTES_MAX;
        if is_full || !streams.insert(next.stream_id.clone()) {
            later.push_back(next);
        } else {
            bytes += next.encoded.body.len();
            batch.push(next);
        }
    }
    *waiting = later;
    batch
}

/// What was stored, by stream; or why it is certain that nothing was (`Err(Ok)`), or unknown (`Err(Err)`).
type Stored = Result<HashMap<String, (u64, DateTime<Utc>)>, Result<String, String>>;

/// Stores a batch. When a connection is lost meanwhile, the same is asked again: what was stored is left out then, as what does
/// not follow, and found by whoever asked for it. An unfinished transaction of a lost connection holds its locks until it is over.
async fn store(link: &Link, batch: &[Waiting]) -> Stored {
    if batch.is_empty() {
        return Ok(HashMap::new());
    }
    let deadline = Instant::now() + TRIES_FOR;
    let mut asked = false;
    loop {
        let fault = match link.session().await {
            Ok(session) => {
                asked = true;
                match timeout_at(deadline, append(&session, batch)).await {
                    Ok(Ok(rows)) => return Ok(rows.iter().filter_map(stored).collect()),
                    // The server refuses, and the transaction is rolled back; only what was asked before may be stored.
                    Ok(Err(error)) => reason(&error),
                    Err(_) => "no answer in time".to_owned(),
                }
            }
            Err(fault) => fault,
        };
        if Instant::now() + RETRY >= deadline {
            return Err(if asked { Err(fault) } else { Ok(fault) });
        }
        tracing::debug!(fault, commits = batch.len(), "a transaction is tried again");
        sleep(RETRY).await;
    }
}

async fn append(session: &Session, batch: &[Waiting]) -> Result<Vec<Row>, tokio_postgres::Error> {
    let column = |of: fn(&Waiting) -> &str| batch.iter().map(of).collect::<Vec<_>>();
    let number = |of: fn(&Waiting) -> u64| batch.iter().map(|one| of(one) as i64).collect::<Vec<_>>();
    let streams: Vec<String> = batch.iter().map(|one| one.stream_id.to_string()).collect();
    let shards: Vec<i16> = batch.iter().map(|one| one.encoded.shard as i16).collect();
    let (versions, expected) = (number(|one| one.encoded.envelope.version), number(|one| one.expected));
    let (types, schemas) = (column(|one| &one.encoded.envelope.types), column(|one| &one.encoded.envelope.schemas));
    let correlations = column(|one| &one.encoded.envelope.correlation);
    let causations = column(|one| &one.encoded.envelope.causation);
    let commit_ids = column(|one| one.encoded.envelope.commit_id.as_str());
    let prevs: Vec<&[u8]> = batch.iter().map(|one| &one.encoded.envelope.prev.0[..]).collect();
    let hashes: Vec<&[u8]> = batch.iter().map(|one| &one.encoded.hash.0[..]).collect();
    let bodies: Vec<&[u8]> = batch.iter().map(|one| &one.encoded.body[..]).collect();
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 12] = [
        &shards,
        &streams,
        &versions,
        &expected,
        &types,
        &schemas,
        &correlations,
        &causations,
        &commit_ids,
        &prevs,
        &hashes,
        &bodies,
    ];
    session.client.query(&session.append, &values).await
}

fn stored(row: &Row) -> Option<(String, (u64, DateTime<Utc>))> {
    let sequence: i64 = row.try_get(1).ok()?;
    Some((row.try_get(0).ok()?, (u64::try_from(sequence).ok()?, row.try_get(2).ok()?)))
}

/// Tells everybody what became of its commit, and the workers of the shards what is new, in order of sequence.
fn tell(inner: Option<&Inner>, batch: Vec<Waiting>, stored: Stored) {
    let stored = match stored {
        Ok(stored) => stored,
        Err(failed) => {
            for one in batch {
                let outcome = match &failed {
                    Ok(reason) => Outcome::NotStored(reason.clone()),
                    Err(reason) => Outcome::Unknown(reason.clone()),
                };
                // Whoever gave up is told nothing.
                let _ = one.outcome.send(outcome);
            }
            return;
        }
    };
    // Who is told may look at the counts.
    if let Some(inner) = inner {
        inner.count(stored.len());
    }
    let mut new: Vec<(u16, u64, StreamId)> = Vec::with_capacity(stored.len());
    for one in batch {
        let outcome = match stored.get(&one.stream_id.to_string()) {
            Some((sequence, at)) => {
                new.push((one.encoded.shard, *sequence, one.stream_id));
                Outcome::Stored { sequence: *sequence, at: *at }
            }
            None => Outcome::DoesNotFollow,
        };
        let _ = one.outcome.send(outcome);
    }
    if let Some(inner) = inner {
        new.sort_unstable_by_key(|(shard, sequence, _)| (*shard, *sequence));
        inner.announce(new);
    }
}

/// A writer's end for those who append.
pub(super) fn start(inner: &Weak<Inner>, link: Link) -> mpsc::Sender<Waiting> {
    let (sender, incoming) = mpsc::channel(4 * COMMITS_MAX);
    tokio::spawn(run(Weak::clone(inner), link, incoming));
    sender
}

/// Used by tests of this module's batches alone.
#[cfg(test)]
mod tests {
    use journal::{
        Position,
        conformance::{commit, fresh},
    };

    use super::*;

    #[tokio::test]
    async fn a_batch_has_one_commit_of_a_stream_and_none_that_nobody_waits_for() {
        let (one, two) = (fresh(), fresh());
        let mut ends = Vec::new();
        let mut waiting: VecDeque<Waiting> = [&one, &one, &two, &one]
            .into_iter()
            .map(|stream_id| {
                let encoded = EncodedCommit::new(&commit(stream_id, Position::START, "x"), 0).unwrap();
                let (outcome, end) = oneshot::channel();
                ends.push(end);
                Waiting { stream_id: stream_id.clone(), expected: 0, encoded, outcome }
            })
            .collect();
        drop(ends.remove(1));
        let taken = |batch: Vec<Waiting>| batch.into_iter().map(|one| one.stream_id).collect::<Vec<_>>();
        assert_eq!(taken(take_batch(&mut waiting)), [one.clone(), two]);
        assert_eq!(taken(take_batch(&mut waiting)), [one]);
        assert!(take_batch(&mut waiting).is_empty());
    }
}
