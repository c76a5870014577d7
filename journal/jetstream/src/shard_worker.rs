//! The shard worker: it holds the lease, and hands out wake-ups while it is held. What there is to wake up for the store
//! finds by following the end of the shard ([`Followed`]).

use std::{sync::Arc, time::Duration};

use async_nats::Client;
use async_trait::async_trait;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::info;

use events::StreamId;
use journal::{ReadError, ShardWorker, WakeUp};

use crate::lease::{Contender, Held};

/// Most wake-ups that wait to be handed out.
const WAKE_UPS_MAX: usize = 256;
const RETRY: Duration = Duration::from_millis(100);
/// How long a release may take.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// The lease term in which the shard is held; `None` while it is not.
type LeaseTerm = Option<u64>;

/// A store whose shards can be worked.
pub(crate) trait Followed: Send + Sync + 'static {
    /// The connection over which leases are held.
    fn lease_client(&self) -> &Client;

    /// Follows the end of a shard whose lease is held, until nobody listens: says that the shard is acquired, and what is
    /// stored in it from then on.
    fn follow(self: &Arc<Self>, shard: u16, report: Report<'_>) -> impl Future<Output = ()> + Send;
}

/// Nobody listens to the wake-ups any more.
pub(crate) struct Unheard;

/// Where the follower of a shard reports, in one lease term.
pub(crate) struct Report<'a> {
    /// 1, 2, 3 … in this process.
    pub(crate) term: u64,
    acquired: &'a watch::Sender<LeaseTerm>,
    wake_ups: &'a mpsc::Sender<PendingWakeUp>,
}

impl Report<'_> {
    /// The shard is acquired: what is stored from now on is reported.
    pub(crate) fn acquired(&self, shard: u16) {
        info!(shard, term = self.term, "shard is acquired");
        self.acquired.send_replace(Some(self.term));
    }

    /// The commit at `sequence` is stored.
    pub(crate) async fn wake(&self, stream_id: StreamId, sequence: u64) -> Result<(), Unheard> {
        let wake_up = PendingWakeUp { term: self.term, stream_id, sequence };
        self.wake_ups.send(wake_up).await.map_err(|_| Unheard)
    }
}

/// A wake-up that is not handed out yet: the commit that it is for.
struct PendingWakeUp {
    term: u64,
    stream_id: StreamId,
    sequence: u64,
}

struct Worker {
    term: watch::Receiver<LeaseTerm>,
    wake_ups: mpsc::Receiver<PendingWakeUp>,
    /// The lease term that was reported as acquired and not yet as lost.
    reported: LeaseTerm,
    release: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[async_trait]
impl ShardWorker for Worker {
    async fn next(&mut self) -> Result<WakeUp, ReadError> {
        loop {
            let term = *self.term.borrow_and_update();
            if self.reported != term {
                if self.reported.take().is_some() {
                    return Ok(WakeUp::Lost);
                }
                self.reported = term;
                return Ok(WakeUp::Acquired);
            }
            tokio::select! {
                biased;
                changed = self.term.changed() => if changed.is_err() {
                    sleep(RETRY).await;
                    return Err(ReadError::Unavailable("the worker of the shard has ended".into()));
                },
                wake_up = self.wake_ups.recv() => match wake_up {
                    Some(PendingWakeUp { term, stream_id, sequence }) if Some(term) == self.reported => {
                        return Ok(WakeUp::Event { stream_id, sequence });
                    }
                    Some(_) => {}
                    None => sleep(RETRY).await,
                },
            }
        }
    }

    async fn release(mut self: Box<Self>) {
        if let Some(release) = self.release.take() {
            // When the task has ended there is nothing to release.
            let _ = release.send(());
            let _ = timeout(RELEASE_MAX, &mut self.task).await;
        }
    }
}

/// Competes for a shard in the name of `owner`. Where `store` is `None` it can never be won.
pub(crate) fn start<F: Followed>(store: Option<Arc<F>>, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
    let (term, term_seen) = watch::channel(None);
    let (wake_ups, wake_ups_out) = mpsc::channel(WAKE_UPS_MAX);
    let (release, released) = oneshot::channel();
    let contender = Contender::new(shard, owner);
    let task = tokio::spawn(async move {
        if let Some(store) = store {
            Task { store, shard, contender, term, wake_ups }.run(released).await;
        }
    });
    Box::new(Worker { term: term_seen, wake_ups: wake_ups_out, reported: None, release: Some(release), task })
}

struct Task<F> {
    store: Arc<F>,
    shard: u16,
    contender: Contender,
    term: watch::Sender<LeaseTerm>,
    wake_ups: mpsc::Sender<PendingWakeUp>,
}

impl<F: Followed> Task<F> {
    async fn run(self, mut released: oneshot::Receiver<()>) {
        for term in 1.. {
            let mut held = tokio::select! {
                biased;
                _ = &mut released => return,
                held = self.contender.win(self.store.lease_client()) => held,
            };
            let ended = tokio::select! {
                biased;
                _ = &mut released => true,
                () = self.keep_lease(term, &mut held) => false,
            };
            self.term.send_replace(None);
            info!(shard = self.shard, term, ended, "shard is given up");
            // Also without a request: a worker that still holds the lease by its own clock frees it for the others.
            self.contender.release(self.store.lease_client(), &held).await;
            if ended {
                return;
            }
        }
    }

    /// Keeps the lease, and does the shard's work, until it is lost.
    async fn keep_lease(&self, term: u64, held: &mut Held) {
        let report = Report { term, acquired: &self.term, wake_ups: &self.wake_ups };
        tokio::select! {
            () = self.contender.keep(self.store.lease_client(), held) => {}
            () = self.store.follow(self.shard, report) => {}
        }
    }
}
