//! Connection limit: a server has a bounded number of connections, of which those at work are never given up.
//!
//! When all permits are taken, an idle connection makes room: first the one that has waited longest without ever having
//! sent the head of a request, then the one that has been idle longest between two requests. Whoever opens connections
//! and says nothing thus keeps nobody out, however many he opens. A connection is at work from a request's head until the
//! last of the answer's body was taken up for sending; who is slow to read the rest is as good as idle. Only when all connections are at work is a new one
//! closed without an answer: no request was taken, and a balancer in front sends it to another gateway.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The connections of a server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connections {
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Idle>>,
}

/// Idle connections, each under the turn at which it became idle.
#[derive(Default)]
struct Idle {
    turn: u64,
    /// Those that have sent no request yet.
    fresh: BTreeMap<u64, CancellationToken>,
    /// Those between two requests.
    served: BTreeMap<u64, CancellationToken>,
}

impl Idle {
    fn take_oldest(&mut self) -> Option<CancellationToken> {
        let oldest = self.fresh.pop_first().or_else(|| self.served.pop_first());
        oldest.map(|(_, evicted)| evicted)
    }
}

impl Connections {
    /// Room for so many, at least one.
    pub(super) fn new(connections_max: usize) -> Self {
        let permits = Arc::new(Semaphore::new(connections_max.clamp(1, Semaphore::MAX_PERMITS)));
        Self { permits, idle: Arc::default() }
    }

    /// A permit for one more connection, for which an idle one goes when there is no other; `None` when all are at work.
    pub(super) async fn admit(&self) -> Option<Permit> {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let oldest = self.idle().take_oldest()?;
                oldest.cancel();
                // It ends when it is polled next, so this waits for no peer; and until it has ended its socket is open.
                Arc::clone(&self.permits).acquire_owned().await.ok()?
            }
        };
        let (evicted, mut idle) = (CancellationToken::new(), self.idle());
        idle.turn += 1;
        let turn = idle.turn;
        idle.fresh.insert(turn, evicted.clone());
        let state = State { asked: AtomicBool::new(false), turn: Mutex::new(turn), evicted };
        Some(Permit(Arc::new(Held { idle: Arc::clone(&self.idle), state, _permit: permit })))
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        locked(&self.idle)
    }
}

/// A connection's permit, free again when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Permit(Arc<Held>);

struct Held {
    idle: Arc<Mutex<Idle>>,
    state: State,
    _permit: OwnedSemaphorePermit,
}

struct State {
    /// Whether the head of a request has arrived.
    asked: AtomicBool,
    /// The turn under which the connection is, or was last, among the idle ones.
    turn: Mutex<u64>,
    evicted: CancellationToken,
}

impl Permit {
    /// Marks the connection as at work until the answer is dropped.
    pub(super) fn busy(&self) -> Busy {
        let held = &self.0;
        held.state.asked.store(true, Ordering::Relaxed);
        held.forget();
        Busy(self.clone())
    }

    /// Whether the head of a request has arrived.
    pub(super) fn has_asked(&self) -> bool {
        self.0.state.asked.load(Ordering::Relaxed)
    }

    /// Returns when the connection has to make room.
    pub(super) async fn evicted(&self) {
        self.0.state.evicted.cancelled().await;
    }
}

impl Held {
    /// Takes the connection from among the idle ones.
    fn forget(&self) {
        let turn = *locked(&self.state.turn);
        let mut idle = locked(&self.idle);
        idle.fresh.remove(&turn);
        idle.served.remove(&turn);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A request of a connection at work.
pub(super) struct Busy(Permit);

impl Drop for Busy {
    fn drop(&mut self) {
        let held = &self.0.0;
        let mut turn = locked(&held.state.turn);
        let mut idle = locked(&held.idle);
        idle.turn += 1;
        *turn = idle.turn;
        idle.served.insert(*turn, held.state.evicted.clone());
    }
}

/// What is guarded holds no half-made change when a holder panics: each is one insertion or removal.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
