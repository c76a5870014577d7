//! A fair bulkhead: so many permits at a time, so many of them for one caller, and turns for the callers who wait.
//!
//! What waits here waits for code of untrusted clients. Whoever brings much of it waits for himself: a permit that becomes free
//! goes to the caller whose turn is next, not to who came first, and nobody has more than his share.
//!
//! The verifier has a fair bulkhead of its own: it knows its callers beforehand, and bounds their asks from the first byte on.
//! Here callers come and go under any name, and whoever waits is told in time that there is no permit.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

/// So many of one caller may wait for each of the permits that he may have.
const WAITING_PER_PERMIT: usize = 2;
/// So many may wait for each permit in all.
const WAITING_PER_PERMIT_MAX: usize = 4;

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The caller waits for as many as he may, or had as many at work as he may until it was too late.
    Caller,
    /// All permits are taken, mostly by others.
    All,
}

/// The permits. Cheap to clone.
#[derive(Clone)]
pub struct FairBulkhead(Arc<Inner>);

struct Inner {
    caller_max: usize,
    waiting_max: usize,
    wait_max: Duration,
    callers: Mutex<Callers>,
}

struct Callers {
    free: usize,
    waiting: usize,
    of: HashMap<String, Caller>,
    /// Those with somebody waiting, in the order of their turns.
    turns: VecDeque<String>,
}

#[derive(Default)]
struct Caller {
    at_work: usize,
    queue: VecDeque<oneshot::Sender<Permit>>,
}

/// A permit, until it is dropped.
pub struct Permit {
    inner: Arc<Inner>,
    caller: String,
}

impl FairBulkhead {
    /// So many permits, so many of them for one caller, and how long one may wait for his.
    pub fn new(permits: usize, caller_max: usize, wait_max: Duration) -> Self {
        let callers = Callers { free: permits, waiting: 0, of: HashMap::new(), turns: VecDeque::new() };
        Self(Arc::new(Inner {
            caller_max,
            waiting_max: permits.saturating_mul(WAITING_PER_PERMIT_MAX),
            wait_max,
            callers: Mutex::new(callers),
        }))
    }

    /// A permit for `caller`.
    ///
    /// # Errors
    /// [`Full`], at once when nobody else may wait, and later when the wait is too long.
    pub async fn permit(&self, caller: &str) -> Result<Permit, Full> {
        let coming = {
            let mut callers = self.0.callers();
            let callers = &mut *callers;
            let own = callers.of.entry(caller.to_owned()).or_default();
            // Who gave up waiting takes no room in the queue.
            callers.waiting -= own.drop_gone();
            if callers.free > 0 && own.at_work < self.0.caller_max && own.queue.is_empty() {
                own.at_work += 1;
                callers.free -= 1;
                return Ok(Permit { inner: Arc::clone(&self.0), caller: caller.to_owned() });
            }
            if own.queue.len() >= self.0.caller_max * WAITING_PER_PERMIT {
                return Err(Full::Caller);
            }
            if callers.waiting >= self.0.waiting_max {
                callers.forget(caller);
                return Err(Full::All);
            }
            let (told, coming) = oneshot::channel();
            own.queue.push_back(told);
            callers.waiting += 1;
            if !callers.turns.iter().any(|turn| turn == caller) {
                callers.turns.push_back(caller.to_owned());
            }
            coming
        };
        match timeout(self.0.wait_max, coming).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.0.callers().late(caller, self.0.caller_max)),
        }
    }
}

impl Inner {
    fn callers(&self) -> MutexGuard<'_, Callers> {
        // Nothing in here panics between two changes that belong together.
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller {
    /// Drops those in the queue who gave up; how many they were.
    fn drop_gone(&mut self) -> usize {
        let before = self.queue.len();
        self.queue.retain(|waiter| !waiter.is_closed());
        before - self.queue.len()
    }
}

impl Callers {
    /// Why a caller's turn did not come in time.
    fn late(&self, caller: &str, caller_max: usize) -> Full {
        match self.of.get(caller).is_some_and(|own| own.at_work >= caller_max) {
            true => Full::Caller,
            false => Full::All,
        }
    }

    /// Drops a caller of whom nothing is here.
    fn forget(&mut self, caller: &str) {
        if self.of.get(caller).is_some_and(|own| own.at_work == 0 && own.queue.is_empty()) {
            self.of.remove(caller);
        }
    }

    /// Whose turn it is, with who waits for it there; whoever gave up is passed over.
    fn next(&mut self, caller_max: usize) -> Option<(String, oneshot::Sender<Permit>)> {
        for _ in 0..self.turns.len() {
            let caller = self.turns.pop_front()?;
            let Some(own) = self.of.get_mut(&caller) else { continue };
            self.waiting -= own.drop_gone();
            if own.queue.is_empty() {
                self.forget(&caller);
                continue;
            }
            if own.at_work >= caller_max {
                self.turns.push_back(caller);
                continue;
            }
            let waiter = own.queue.pop_front()?;
            self.waiting -= 1;
            own.at_work += 1;
            self.free -= 1;
            if !own.queue.is_empty() {
                self.turns.push_back(caller.clone());
            }
            return Some((caller, waiter));
        }
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // The next one's permit is given outside the lock: should he be gone just now, it is dropped there, and goes on.
        let next = {
            let mut callers = self.inner.callers();
            callers.free += 1;
            if let Some(own) = callers.of.get_mut(&self.caller) {
                own.at_work -= 1;
            }
            callers.forget(&self.caller);
            callers.next(self.inner.caller_max)
        };
        if let Some((caller, waiter)) = next {
            let _ = waiter.send(Permit { inner: Arc::clone(&self.inner), caller });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        task::{JoinHandle, yield_now},
        time::Instant,
    };

    use super::*;

    const WAIT: Duration = Duration::from_millis(100);

    fn wait(bulkhead: &FairBulkhead, caller: &'static str) -> JoinHandle<Result<Permit, Full>> {
        let bulkhead = bulkhead.clone();
        tokio::spawn(async move { bulkhead.permit(caller).await })
    }

    async fn waiting(bulkhead: &FairBulkhead, count: usize) {
        while bulkhead.0.callers().waiting != count {
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_has_more_than_his_share_and_turns_go_round() {
        let bulkhead = FairBulkhead::new(3, 2, WAIT);
        let first = bulkhead.permit("a").await.unwrap();
        let _second = bulkhead.permit("a").await.unwrap();
        // A third waits although a permit is free, and that one is another's at once.
        let mut of_a: Vec<_> = (0..4).map(|_| wait(&bulkhead, "a")).collect();
        waiting(&bulkhead, 4).await;
        assert_eq!(bulkhead.permit("a").await.err(), Some(Full::Caller));
        let of_b = bulkhead.permit("b").await.unwrap();
        // All are taken: `c` came after four of `a`, and is not behind them.
        let of_c = wait(&bulkhead, "c");
        waiting(&bulkhead, 5).await;
        drop(of_b);
        assert!(of_c.await.unwrap().is_ok());
        drop(first);
        assert!(of_a.remove(0).await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn waits_end_and_leave_nothing_behind() {
        let bulkhead = FairBulkhead::new(1, 1, WAIT);
        let started = Instant::now();
        let held = bulkhead.permit("a").await.unwrap();
        let late = wait(&bulkhead, "b");
        assert_eq!(late.await.unwrap().err(), Some(Full::All));
        assert_eq!(started.elapsed(), WAIT);
        // Who gave up gets nothing, and what was meant for him is the next one's.
        let gone = wait(&bulkhead, "c");
        waiting(&bulkhead, 2).await;
        gone.abort();
        let _ = gone.await;
        let next = wait(&bulkhead, "d");
        waiting(&bulkhead, 3).await;
        drop(held);
        drop(next.await.unwrap().unwrap());
        let callers = bulkhead.0.callers();
        assert_eq!((callers.free, callers.waiting, callers.of.len(), callers.turns.len()), (1, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_for_himself_is_told_so() {
        let bulkhead = FairBulkhead::new(3, 2, WAIT);
        let own = [bulkhead.permit("a").await.unwrap(), bulkhead.permit("a").await.unwrap()];
        // A permit is free all the while.
        assert_eq!(bulkhead.permit("a").await.err(), Some(Full::Caller));
        let _of_b = bulkhead.permit("b").await.unwrap();
        assert_eq!(bulkhead.permit("b").await.err(), Some(Full::All));
        drop(own);
        assert!(bulkhead.permit("b").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_are_bounded() {
        let bulkhead = FairBulkhead::new(1, 1, WAIT);
        let _held = bulkhead.permit("a").await.unwrap();
        let waits: Vec<_> = ["b", "c"].iter().flat_map(|name| [wait(&bulkhead, name), wait(&bulkhead, name)]).collect();
        waiting(&bulkhead, WAITING_PER_PERMIT_MAX).await;
        assert_eq!(bulkhead.permit("f").await.err(), Some(Full::All));
        for wait in waits {
            assert_eq!(wait.await.unwrap().err(), Some(Full::All));
        }
    }
}
