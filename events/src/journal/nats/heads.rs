//! What is known of the newest commit of each shard, so that waiting for more costs nothing while nothing happens.
//!
//! Appends of this process report their sequence themselves. That others append is seen by listening to the subjects of
//! the shard. Such a message says that something is being stored, not that it is, so the head is then read until it
//! has stopped moving. A message that is not heard only delays, because the head is read every second anyway.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::Inner;
use crate::{
    CommitId,
    epoch::SHARDS_MAX,
    jetstream::{self, MESSAGE_ID},
    journal::{ReadError, envelope},
};

/// Longest wait for a commit that does not come.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The head is read this often even when nothing is heard.
const RECHECK: Duration = Duration::from_secs(1);
/// Pauses between reads of the head while somebody else's commit is being stored: a quarter of what it has taken so
/// far, within these bounds.
const SETTLE_MIN: Duration = Duration::from_millis(5);
const SETTLE_MAX: Duration = Duration::from_millis(128);
/// How long a commit that was heard of is looked for before it is left to the next recheck.
const SETTLE_WITHIN: Duration = Duration::from_millis(300);

/// A place for every shard that there may ever be, so that nobody waits for anybody while they grow.
pub(super) struct Heads(Box<[OnceLock<Head>]>);

#[derive(Default)]
struct Head {
    /// Highest sequence known to be stored.
    known: watch::Sender<u64>,
    /// Whether the listening task was started.
    listening: AtomicBool,
    /// Whether the shard is sealed and the sequence that is known is its last.
    ended: AtomicBool,
    /// Commits that this process is appending.
    own: Mutex<HashSet<CommitId>>,
}

/// A commit that this process is appending, until dropped.
pub(super) struct Own<'a> {
    head: &'a Head,
    commit_id: CommitId,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        // The set is whole whenever the lock is free, so one that was poisoned is as good as any.
        self.head.own.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.commit_id);
    }
}

impl Default for Heads {
    fn default() -> Self {
        Self((0..SHARDS_MAX).map(|_| OnceLock::new()).collect())
    }
}

impl Heads {
    fn head(&self, shard: u16) -> Option<&Head> {
        self.0.get(usize::from(shard)).map(|head| head.get_or_init(Head::default))
    }

    pub(super) fn own(&self, shard: u16, commit_id: &CommitId) -> Option<Own<'_>> {
        let head = self.head(shard)?;
        head.own.lock().unwrap_or_else(PoisonError::into_inner).insert(commit_id.clone());
        Some(Own { head, commit_id: commit_id.clone() })
    }

    /// A commit of the shard is known to be stored at `sequence`.
    pub(super) fn note(&self, shard: u16, sequence: u64) {
        let Some(head) = self.head(shard) else { return };
        head.known.send_if_modified(|known| {
            let higher = sequence > *known;
            *known = sequence.max(*known);
            higher
        });
    }
}

pub(super) async fn wait_beyond(inner: &Arc<Inner>, shard: u16, sequence: u64) -> Result<(), ReadError> {
    let Some(head) = inner.heads.head(shard).filter(|_| shard < inner.known.shards()) else {
        sleep(WAIT_MAX).await;
        return Ok(());
    };
    if inner.known.is_sealed(shard) {
        return wait_at_the_end(inner, head, shard, sequence).await;
    }
    let mut known = head.known.subscribe();
    if !head.listening.swap(true, Ordering::Relaxed) {
        tokio::spawn(listen(Arc::downgrade(inner), shard));
    }
    // Either the head has moved or the time is over; the caller cannot tell the difference and need not.
    let _ = timeout(WAIT_MAX, known.wait_for(|known| *known > sequence)).await;
    Ok(())
}

/// In a sealed shard nothing comes, so its head is read once and for all.
async fn wait_at_the_end(inner: &Inner, head: &Head, shard: u16, sequence: u64) -> Result<(), ReadError> {
    if !head.ended.load(Ordering::Relaxed) {
        inner.head(shard).await?;
        head.ended.store(true, Ordering::Relaxed);
    }
    // There may be more than the copy that was read has; whoever asks reads it again.
    let ended = *head.known.borrow() <= sequence;
    sleep(if ended { WAIT_MAX } else { SETTLE_MAX }).await;
    Ok(())
}

/// Listens for as long as the journal exists and the shard is not sealed.
async fn listen(journal: Weak<Inner>, shard: u16) {
    let Some(client) = journal.upgrade().map(|inner| inner.client.clone()) else { return };
    loop {
        let Ok(mut heard) = client.subscribe(envelope::shard_subjects(shard)).await else {
            sleep(RECHECK).await;
            continue;
        };
        let mut foreign = false;
        loop {
            let Some(inner) = journal.upgrade() else { return };
            if inner.known.is_sealed(shard) {
                return;
            }
            settle(&inner, shard, foreign).await;
            drop(inner);
            foreign = false;
            let recheck = sleep(RECHECK);
            tokio::pin!(recheck);
            // Until somebody else's commit is heard, or it is time to look again.
            loop {
                let message = tokio::select! {
                    () = &mut recheck => break,
                    message = heard.next() => message,
                };
                let Some(inner) = journal.upgrade() else { return };
                let Some(mut message) = message else { break };
                foreign |= is_foreign(&inner, shard, &message);
                while let Some(Some(next)) = heard.next().now_or_never() {
                    message = next;
                    foreign |= is_foreign(&inner, shard, &message);
                }
                if foreign {
                    break;
                }
            }
            if !jetstream::connected(&client) {
                sleep(SETTLE_MAX).await;
            }
        }
    }
}

fn is_foreign(inner: &Inner, shard: u16, message: &async_nats::Message) -> bool {
    let id = message.headers.as_ref().and_then(|headers| headers.get(MESSAGE_ID));
    let (Some(id), Some(head)) = (id, inner.heads.head(shard)) else { return true };
    let own = head.own.lock().unwrap_or_else(PoisonError::into_inner);
    !own.contains(&CommitId::from_stored(id.as_str()))
}

/// Reads the head until it has stopped moving; only once when nothing new is `heard` of nor found.
async fn settle(inner: &Inner, shard: u16, heard: bool) {
    let Some(mut seen) = inner.heads.head(shard).map(|head| *head.known.borrow()) else { return };
    let mut since = Instant::now();
    while since.elapsed() < SETTLE_WITHIN {
        let timeout = inner.options.attempt_timeout;
        let Ok(head) = jetstream::last_sequence(&inner.client, &envelope::stream(shard), timeout).await else { return };
        inner.heads.note(shard, head);
        if head > seen {
            (seen, since) = (head, Instant::now());
        } else if !heard {
            return;
        }
        sleep((since.elapsed() / 4).clamp(SETTLE_MIN, SETTLE_MAX)).await;
    }
}
