//! A bulkhead with fair queueing: a lane for each caller, each with permits of its own, and turns between them.
//!
//! Judgements read chains, and what the chains' nodes take is what runs out first. So there is a bounded number of permits
//! to judge; a free one goes to the lane whose turn it is, round robin, and no lane holds more than its share. What a caller may
//! have under way besides, bodies that arrive and asks that wait, is bounded in its own lane, too: whoever asks too much
//! keeps himself waiting and nobody else.
//!
//! The fair bulkhead of `app` is for callers that are not known beforehand: they have no lanes, and a wait there has a limit.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// How much of everything there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Judgements at work at the same time, of all lanes.
    pub(super) permits: usize,
    /// Judgements at work at the same time, of one lane.
    pub(super) permits_per_lane: usize,
    /// Asks under way at the same time, of one lane: those that arrive, wait and are at work.
    pub(super) asks_per_lane: usize,
}

/// A number of lanes that share permits. Cheap to clone.
#[derive(Clone)]
pub(super) struct Bulkhead {
    bounds: Bounds,
    state: Arc<Mutex<State>>,
}

struct State {
    free: usize,
    /// The lane that is looked at first for the next free permit.
    turn: usize,
    lanes: Vec<Lane>,
}

#[derive(Default)]
struct Lane {
    asks: usize,
    at_work: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

impl Bulkhead {
    /// So many lanes within these bounds.
    pub(super) fn new(lanes: usize, bounds: Bounds) -> Self {
        let lanes = (0..lanes).map(|_| Lane::default()).collect();
        Self { bounds, state: Arc::new(Mutex::new(State { free: bounds.permits, turn: 0, lanes })) }
    }

    /// One more ask in a lane; `None` when it has as many under way as it may, or there is no such lane.
    pub(super) fn enter(&self, lane: usize) -> Option<Ask> {
        let mut state = self.state();
        let counted = state.lanes.get_mut(lane).filter(|lane| lane.asks < self.bounds.asks_per_lane)?;
        counted.asks += 1;
        Some(Ask { bulkhead: self.clone(), lane })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is a few additions that cannot stop half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free permits to those that wait.
    fn grant(&self) {
        let mut granted = Vec::new();
        {
            let mut state = self.state();
            while let Some((lane, waiting)) = state.next(self.bounds.permits_per_lane) {
                granted.push((waiting, Permit { bulkhead: self.clone(), lane }));
            }
        }
        // Whoever is gone by now drops its permit, which is granted again; that takes the lock.
        for (waiting, permit) in granted {
            drop(waiting.send(permit));
        }
    }
}

impl State {
    /// Whose turn it is, with its permit counted.
    fn next(&mut self, permits_per_lane: usize) -> Option<(usize, oneshot::Sender<Permit>)> {
        let count = self.lanes.len();
        if self.free == 0 || count == 0 {
            return None;
        }
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let lane = &mut self.lanes[index];
            if lane.at_work >= permits_per_lane {
                continue;
            }
            // Those that have gone meanwhile are passed over.
            while let Some(waiting) = lane.waiting.pop_front() {
                if !waiting.is_closed() {
                    lane.at_work += 1;
                    self.free -= 1;
                    self.turn = (index + 1) % count;
                    return Some((index, waiting));
                }
            }
        }
        None
    }
}

/// An ask under way in a lane, until it is dropped.
pub(super) struct Ask {
    bulkhead: Bulkhead,
    lane: usize,
}

impl Ask {
    /// A permit to judge, when it is the lane's turn. Whoever stops waiting gives up its turn.
    pub(super) async fn permit(&self) -> Permit {
        let (sender, granted) = oneshot::channel();
        {
            let waiting = &mut self.bulkhead.state().lanes[self.lane].waiting;
            waiting.retain(|waiting| !waiting.is_closed());
            waiting.push_back(sender);
        }
        self.bulkhead.grant();
        match granted.await {
            Ok(permit) => permit,
            // The sender waits in the lane until it is used, and the lane is there for as long as `self` is.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.bulkhead.state().lanes[self.lane].asks -= 1;
    }
}

/// Permission for one judgement at work, until it is dropped.
pub(super) struct Permit {
    bulkhead: Bulkhead,
    lane: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut state = self.bulkhead.state();
            state.free += 1;
            state.lanes[self.lane].at_work -= 1;
        }
        self.bulkhead.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::BoxFuture};

    use super::*;

    fn bulkhead(permits: usize, permits_per_lane: usize, asks_per_lane: usize) -> Bulkhead {
        Bulkhead::new(3, Bounds { permits, permits_per_lane, asks_per_lane })
    }

    /// An ask in the queue of its lane.
    fn queued(bulkhead: &Bulkhead, lane: usize) -> BoxFuture<'static, Permit> {
        let ask = bulkhead.enter(lane).unwrap();
        let mut waiting = async move { ask.permit().await }.boxed();
        assert!((&mut waiting).now_or_never().is_none(), "a permit is free");
        waiting
    }

    async fn permit(bulkhead: &Bulkhead, lane: usize) -> Permit {
        bulkhead.enter(lane).unwrap().permit().await
    }

    #[test]
    fn a_lane_has_so_many_asks_and_others_as_many() {
        let bulkhead = bulkhead(1, 1, 2);
        let (first, _second) = (bulkhead.enter(0), bulkhead.enter(0));
        assert!(first.is_some() && bulkhead.enter(0).is_none() && bulkhead.enter(1).is_some());
        drop(first);
        assert!(bulkhead.enter(0).is_some());
        assert!(bulkhead.enter(3).is_none());
    }

    #[tokio::test]
    async fn lanes_take_turns_however_long_their_queues_are() {
        let bulkhead = bulkhead(1, 1, 100);
        let held = permit(&bulkhead, 0).await;
        let eager: Vec<_> = (0..10).map(|_| queued(&bulkhead, 1)).collect();
        let (modest, other) = (queued(&bulkhead, 2), queued(&bulkhead, 0));
        drop(held);
        // One of the eager lane, then each of the others, although nine of its asks came before theirs.
        let mut eager = eager.into_iter();
        drop(eager.next().unwrap().now_or_never().expect("the second lane's turn"));
        drop(modest.now_or_never().expect("the third lane's turn"));
        drop(other.now_or_never().expect("the first lane's turn"));
        for waiting in eager {
            drop(waiting.now_or_never().expect("nobody else waits"));
        }
    }

    #[tokio::test]
    async fn no_lane_holds_more_than_its_share() {
        let bulkhead = bulkhead(4, 2, 100);
        let held = [permit(&bulkhead, 0).await, permit(&bulkhead, 0).await];
        let mut waiting = queued(&bulkhead, 0);
        let others = [permit(&bulkhead, 1).await, permit(&bulkhead, 2).await];
        drop(others);
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        assert!(waiting.now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_is_gone_is_passed_over_and_takes_no_permit_along() {
        let bulkhead = bulkhead(1, 1, 100);
        let held = permit(&bulkhead, 0).await;
        let (gone, mut stays) = (queued(&bulkhead, 1), queued(&bulkhead, 1));
        drop(gone);
        drop(held);
        drop((&mut stays).now_or_never().expect("the permit is free"));
        // Granted, and gone before it was taken up.
        let held = permit(&bulkhead, 0).await;
        let late = queued(&bulkhead, 1);
        drop(held);
        drop(late);
        drop(permit(&bulkhead, 2).await);
        assert_eq!(bulkhead.state().free, 1);
        assert!(bulkhead.state().lanes.iter().all(|lane| (lane.asks, lane.at_work) == (0, 0)));
    }
}
