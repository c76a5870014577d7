//! The shard worker: it owns a shard while a session holds the shard's advisory lock, and delivers wake-ups meanwhile.
//!
//! What this process stores it hears from its own writers, in order and without asking the server. What other processes store
//! shows as a gap, or as a head that rises, and is read.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use events::StreamId;
use journal::{ReadError, ShardWorker, WakeUp};

use super::{
    Inner,
    session::{Link, Session},
};

/// How often a shard is competed for, and a lost connection looked for.
const COMPETE_EVERY: Duration = Duration::from_millis(50);
/// Commits of this process that may wait for the worker; it reads what is more than that.
const FEED: usize = 10_000;
/// Wake-ups that may wait to be handed out.
const WAKE_UPS: usize = 256;
/// Commits of others that are read at a time.
const PAGE: usize = 1_000;
const RETRY: Duration = Duration::from_millis(100);
/// How long a release may take.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// The shards that this process owns: a session has their locks, and nobody else here competes for them.
pub(super) struct Leases {
    link: Link,
    owned: Mutex<HashSet<u16>>,
}

impl Leases {
    pub fn new(link: Link) -> Self {
        Self { link, owned: Mutex::default() }
    }

    fn owned(&self) -> std::sync::MutexGuard<'_, HashSet<u16>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that has the shard's lock now; `None` when another has it.
    async fn try_acquire(&self, shard: u16) -> Option<Arc<Session>> {
        // A session gets a lock that it has a second time.
        if !self.owned().insert(shard) {
            return None;
        }
        let locked = async {
            let session = self.link.session().await.ok()?;
            let row =
                session.client.query_one("SELECT pg_try_advisory_lock(2, $1)", &[&i32::from(shard)]).await.ok()?;
            row.try_get::<_, bool>(0).ok()?.then_some(session)
        };
        let session = locked.await;
        if session.is_none() {
            self.owned().remove(&shard);
        }
        session
    }

    async fn release(&self, shard: u16, session: &Session) {
        // A session that is gone has no locks.
        let _ = session.client.execute("SELECT pg_advisory_unlock(2, $1)", &[&i32::from(shard)]).await;
        self.owned().remove(&shard);
    }
}

/// Returns when the head is at or above `sequence`.
async fn reaches(head: &mut watch::Receiver<u64>, sequence: u64) {
    if head.wait_for(|head| *head >= sequence).await.is_err() {
        // The journal is gone, and with it who asks.
        std::future::pending().await
    }
}

struct Worker {
    wake_ups: mpsc::Receiver<WakeUp>,
    release: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

#[async_trait]
impl ShardWorker for Worker {
    async fn next(&mut self) -> Result<WakeUp, ReadError> {
        match self.wake_ups.recv().await {
            Some(wake_up) => Ok(wake_up),
            None => {
                sleep(RETRY).await;
                Err(ReadError::Unavailable("the worker of the shard has ended".into()))
            }
        }
    }

    async fn release(mut self: Box<Self>) {
        // A worker that is dropped is released in the same way, without anybody waiting for it.
        drop(self.release.take());
        self.wake_ups.close();
        let _ = timeout(RELEASE_MAX, &mut self.task).await;
    }
}

pub(super) fn start(inner: Arc<Inner>, shard: u16) -> Box<dyn ShardWorker> {
    let (wake_ups, handed_out) = mpsc::channel(WAKE_UPS);
    let (release, released) = oneshot::channel();
    let task = tokio::spawn(async move { Task { inner, shard, wake_ups }.run(released).await });
    Box::new(Worker { wake_ups: handed_out, release: Some(release), task })
}

struct Task {
    inner: Arc<Inner>,
    shard: u16,
    wake_ups: mpsc::Sender<WakeUp>,
}

impl Task {
    async fn run(self, mut released: oneshot::Receiver<()>) {
        loop {
            // To its end, so that no lock is won that nobody knows of.
            if let Some(session) = self.inner.leases.try_acquire(self.shard).await {
                let ended = tokio::select! {
                    biased;
                    _ = &mut released => true,
                    // The receiver is gone, or the lock is.
                    told = self.own(&session) => told.is_none(),
                };
                if let Ok(shard) = self.inner.shard(self.shard) {
                    shard.feed.lock().unwrap_or_else(PoisonError::into_inner).take();
                }
                self.inner.leases.release(self.shard, &session).await;
                if ended || self.wake_ups.send(WakeUp::Lost).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                biased;
                _ = &mut released => return,
                () = sleep(COMPETE_EVERY) => {}
            }
        }
    }

    /// Delivers wake-ups while the session lives; `None` when nobody takes them any more.
    async fn own(&self, session: &Session) -> Option<()> {
        let Ok(shard) = self.inner.shard(self.shard) else { return Some(()) };
        let (feed, mut fed) = mpsc::channel(FEED);
        *shard.feed.lock().unwrap_or_else(PoisonError::into_inner) = Some(feed);
        // After the feed is there, so that nothing falls between the two.
        let mut next = match self.inner.heads().await {
            Ok(heads) => heads.get(usize::from(self.shard)).copied().unwrap_or_default() + 1,
            Err(_) => return Some(()),
        };
        let mut head = shard.head.subscribe();
        self.wake_ups.send(WakeUp::Acquired).await.ok()?;
        loop {
            if session.client.is_closed() {
                return Some(());
            }
            tokio::select! {
                biased;
                Some((sequence, stream_id)) = fed.recv() => {
                    if sequence > next {
                        next = self.catch_up(next).await?;
                    }
                    if sequence == next {
                        self.deliver(sequence, stream_id).await?;
                        next += 1;
                    }
                }
                // What this process stores is fed before the head rises.
                () = reaches(&mut head, next) => next = self.catch_up(next).await?,
                () = sleep(COMPETE_EVERY) => {}
            }
        }
    }

    /// Delivers what is stored from `next` on; from where to go on.
    async fn catch_up(&self, mut next: u64) -> Option<u64> {
        loop {
            let page = match self.inner.streams(self.shard, next, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(shard = self.shard, %error, "wake-ups are not read");
                    sleep(RETRY).await;
                    return Some(next);
                }
            };
            let full = page.len() == PAGE;
            for (sequence, stream_id) in page {
                self.deliver(sequence, stream_id).await?;
                next = sequence + 1;
            }
            if !full {
                return Some(next);
            }
        }
    }

    async fn deliver(&self, sequence: u64, stream_id: StreamId) -> Option<()> {
        self.wake_ups.send(WakeUp::Event { stream_id, sequence }).await.ok()
    }
}
