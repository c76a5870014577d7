//! The head cache: the newest known commit of each shard, so that waiting for more costs nothing while nothing happens.
//!
//! Appends of this process report their sequence themselves. Other processes publish wake hints on `gw.head.{shard}` once
//! their append is acknowledged: the sequence and nothing else, under load one hint for many appends. A hint is neither
//! stored nor proven. It makes waiters look, and a wrong hint is forgotten when the head is read. A lost or missing hint
//! only delays, because the head is read every second anyway.
//!
//! A journal that is open for reading only hears no hints: its user needs no right to.

use std::{
    future::pending,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, Subscriber};
use futures::StreamExt;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use events::epoch::SHARDS_MAX;
use journal::{ReadError, envelope};

use super::Inner;
use crate::requests;

/// Longest wait for a commit that does not come.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The head is read this often even when nothing is heard.
const RECHECK: Duration = Duration::from_secs(1);
/// Least time between two hints about one shard.
const HINT_EVERY: Duration = Duration::from_millis(10);
/// Pause before a waiter that did not find more is woken again.
const AGAIN: Duration = Duration::from_millis(5);
/// The pause between looks at the copies of a sealed stream of which more is known than was found.
const SEALED_AGAIN: Duration = Duration::from_millis(128);

/// A slot for every shard that there may ever be, so that readers need no lock while shards are added.
pub(super) struct HeadCache(Box<[OnceLock<Head>]>);

struct Head {
    known: watch::Sender<Known>,
    /// Sequence of the newest commit that this process appended.
    own: watch::Sender<u64>,
    /// Whether the task that follows hints was started.
    following: AtomicBool,
    /// Whether the task that gives hints was started.
    telling: AtomicBool,
    /// Whether the shard is sealed and the sequence that is known is its last.
    ended: AtomicBool,
    /// The last wait that ended with news was for more than this.
    waited_beyond: AtomicU64,
}

/// The newest commit of a shard.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Highest sequence known to be stored.
    stored: u64,
    /// Highest sequence of a wake hint.
    hinted: u64,
}

impl Known {
    fn newest(self) -> u64 {
        self.stored.max(self.hinted)
    }
}

impl Default for Head {
    fn default() -> Self {
        Self {
            known: watch::Sender::default(),
            own: watch::Sender::default(),
            following: AtomicBool::default(),
            telling: AtomicBool::default(),
            ended: AtomicBool::default(),
            waited_beyond: AtomicU64::new(u64::MAX),
        }
    }
}

impl Head {
    /// Changes what is known, and wakes waiters when it became more.
    fn learn(&self, change: impl FnOnce(&mut Known)) {
        self.known.send_if_modified(|known| {
            let before = known.newest();
            change(known);
            known.newest() > before
        });
    }
}

impl Default for HeadCache {
    fn default() -> Self {
        Self((0..SHARDS_MAX).map(|_| OnceLock::new()).collect())
    }
}

impl HeadCache {
    fn head(&self, shard: u16) -> Option<&Head> {
        self.0.get(usize::from(shard)).map(|head| head.get_or_init(Head::default))
    }

    /// A commit of the shard is known to be stored at `sequence`.
    pub(super) fn note(&self, shard: u16, sequence: u64) {
        let Some(head) = self.head(shard) else { return };
        head.learn(|known| known.stored = known.stored.max(sequence));
    }

    /// The newest commit of the shard that is known, be it by a hint; 0 for none.
    pub(super) fn newest(&self, shard: u16) -> u64 {
        self.head(shard).map_or(0, |head| head.known.borrow().newest())
    }

    /// This process has appended the commit at `sequence`, which is acknowledged. The others are told.
    pub(super) fn appended(&self, client: &Client, shard: u16, sequence: u64) {
        self.note(shard, sequence);
        let Some(head) = self.head(shard) else { return };
        head.own.send_if_modified(|own| {
            let higher = sequence > *own;
            *own = sequence.max(*own);
            higher
        });
        if !head.telling.swap(true, Ordering::Relaxed) {
            let mut own = head.own.subscribe();
            // Appends before the task started are published, too.
            own.mark_changed();
            tokio::spawn(tell(client.clone(), shard, own));
        }
    }
}

/// The newest commit of a shard, as far as this process knows.
pub(super) struct Newest(watch::Receiver<Known>);

impl Newest {
    /// Its sequence. A hint that was wrong makes it too high, for a second at most.
    pub(super) fn get(&mut self) -> u64 {
        self.0.borrow_and_update().newest()
    }

    /// Returns when it may be another than [`Newest::get`] said last.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            pending().await
        }
    }
}

impl Inner {
    /// Follows hints and the head of `shard` from now on; `None` when there can be no such shard.
    pub(super) fn newest(self: &Arc<Self>, shard: u16) -> Option<Newest> {
        let head = self.head_cache.head(shard)?;
        self.follow_hints(head, shard);
        Some(Newest(head.known.subscribe()))
    }

    fn follow_hints(self: &Arc<Self>, head: &Head, shard: u16) {
        if !head.following.swap(true, Ordering::Relaxed) {
            tokio::spawn(follow(Arc::downgrade(self), shard));
        }
    }
}

/// Where hints about a shard are given.
fn hints(shard: u16) -> String {
    format!("gw.head.{shard:02}")
}

/// Tells the others how far this process has brought the shard, for as long as the journal exists.
async fn tell(client: Client, shard: u16, mut own: watch::Receiver<u64>) {
    while own.changed().await.is_ok() {
        let sequence = *own.borrow_and_update();
        // A hint that gets lost only delays.
        let _ = client.publish(hints(shard), sequence.to_string().into()).await;
        sleep(HINT_EVERY).await;
    }
}

pub(super) async fn wait_beyond(inner: &Arc<Inner>, shard: u16, sequence: u64) -> Result<(), ReadError> {
    let Some(head) = inner.head_cache.head(shard).filter(|_| shard < inner.known.shards()) else {
        sleep(WAIT_MAX).await;
        return Ok(());
    };
    if inner.known.is_sealed(shard) {
        return wait_at_the_end(inner, head, shard, sequence).await;
    }
    let mut known = head.known.subscribe();
    inner.follow_hints(head, shard);
    // A waiter that was woken and comes back with the same sequence asked a replica that lags behind, or the hint was wrong.
    if head.waited_beyond.load(Ordering::Relaxed) == sequence {
        sleep(AGAIN).await;
    }
    // Either there is more or the time is over; the caller cannot tell the difference and need not.
    if timeout(WAIT_MAX, known.wait_for(|known| known.newest() > sequence)).await.is_ok() {
        head.waited_beyond.store(sequence, Ordering::Relaxed);
    }
    Ok(())
}

/// In a sealed shard nothing comes, so its head is read once and for all.
async fn wait_at_the_end(inner: &Inner, head: &Head, shard: u16, sequence: u64) -> Result<(), ReadError> {
    if !head.ended.load(Ordering::Relaxed) {
        inner.head(shard).await?;
        head.ended.store(true, Ordering::Relaxed);
    }
    // There may be more than the replica that was read has; the caller reads it again.
    let ended = head.known.borrow().stored <= sequence;
    sleep(if ended { WAIT_MAX } else { SEALED_AGAIN }).await;
    Ok(())
}

/// Follows hints, and looks at the head, for as long as the journal exists and the shard is not sealed.
async fn follow(journal: Weak<Inner>, shard: u16) {
    let mut heard = None;
    loop {
        {
            let Some(inner) = journal.upgrade() else { return };
            if inner.known.is_sealed(shard) {
                return;
            }
            if heard.is_none() && !inner.read_only {
                heard = inner.client.subscribe(hints(shard)).await.ok();
            }
            look(&inner, shard).await;
        }
        let recheck = sleep(RECHECK);
        tokio::pin!(recheck);
        loop {
            let hint = tokio::select! {
                () = &mut recheck => break,
                hint = next_hint(&mut heard) => hint,
            };
            let Some(inner) = journal.upgrade() else { return };
            if let (Some(sequence), Some(head)) = (hint, inner.head_cache.head(shard)) {
                head.learn(|known| known.hinted = known.hinted.max(sequence));
            }
        }
    }
}

/// The next hint; `None` for one that cannot be read. Without a subscription none comes.
async fn next_hint(heard: &mut Option<Subscriber>) -> Option<u64> {
    match heard {
        Some(subscriber) => match subscriber.next().await {
            Some(message) => std::str::from_utf8(&message.payload).ok()?.parse().ok(),
            None => {
                *heard = None;
                None
            }
        },
        None => pending().await,
    }
}

/// Reads the head. A hint of more than there is was wrong, unless it came meanwhile.
async fn look(inner: &Inner, shard: u16) {
    let Some(head) = inner.head_cache.head(shard) else { return };
    let hinted = head.known.borrow().hinted;
    let within = inner.options.attempt_timeout;
    let Ok(stored) = requests::last_sequence(&inner.client, &envelope::stream(shard), within).await else { return };
    head.learn(|known| {
        known.stored = known.stored.max(stored);
        if known.hinted == hinted {
            known.hinted = hinted.min(stored);
        }
    });
}
