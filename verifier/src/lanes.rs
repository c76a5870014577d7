//! Fair queueing of judgements: a lane a caller, each with places of its own, and turns between them.
//!
//! Judgements read chains, and what the chains' nodes take is what runs out first. So there is a bounded number of places;
//! a free one goes to the lane whose turn it is, round robin, and no lane holds more than its share. What a caller may
//! have under way besides, bodies that arrive and asks that wait, is bounded in its own lane, too: whoever asks too much
//! keeps himself waiting and nobody else.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// How much of everything there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Judgements at work at the same time, of all lanes.
    pub(super) places: usize,
    /// Judgements at work at the same time, of one lane.
    pub(super) places_per_lane: usize,
    /// Asks under way at the same time, of one lane: those that arrive, wait and are at work.
    pub(super) asks_per_lane: usize,
}

/// A number of lanes that share places. Cheap to clone.
#[derive(Clone)]
pub(super) struct Lanes {
    bounds: Bounds,
    state: Arc<Mutex<State>>,
}

struct State {
    free: usize,
    /// The lane that is looked at first for the next free place.
    turn: usize,
    lanes: Vec<Lane>,
}

#[derive(Default)]
struct Lane {
    asks: usize,
    at_work: usize,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

impl Lanes {
    /// So many lanes within these bounds.
    pub(super) fn new(lanes: usize, bounds: Bounds) -> Self {
        let lanes = (0..lanes).map(|_| Lane::default()).collect();
        Self { bounds, state: Arc::new(Mutex::new(State { free: bounds.places, turn: 0, lanes })) }
    }

    /// One more ask in a lane; `None` when it has as many under way as it may, or there is no such lane.
    pub(super) fn enter(&self, lane: usize) -> Option<Ask> {
        let mut state = self.state();
        let counted = state.lanes.get_mut(lane).filter(|lane| lane.asks < self.bounds.asks_per_lane)?;
        counted.asks += 1;
        Some(Ask { lanes: self.clone(), lane })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is a few additions that cannot stop half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free places to those that wait.
    fn grant(&self) {
        let mut granted = Vec::new();
        {
            let mut state = self.state();
            while let Some((lane, waiting)) = state.next(self.bounds.places_per_lane) {
                granted.push((waiting, Place { lanes: self.clone(), lane }));
            }
        }
        // Whoever is gone by now drops its place, which is granted again; that takes the lock.
        for (waiting, place) in granted {
            drop(waiting.send(place));
        }
    }
}

impl State {
    /// Whose turn it is, with its place counted.
    fn next(&mut self, places_per_lane: usize) -> Option<(usize, oneshot::Sender<Place>)> {
        let count = self.lanes.len();
        if self.free == 0 || count == 0 {
            return None;
        }
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let lane = &mut self.lanes[index];
            if lane.at_work >= places_per_lane {
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
    lanes: Lanes,
    lane: usize,
}

impl Ask {
    /// A place, when it is the lane's turn. Whoever stops waiting gives up its turn.
    pub(super) async fn place(&self) -> Place {
        let (sender, granted) = oneshot::channel();
        {
            let waiting = &mut self.lanes.state().lanes[self.lane].waiting;
            waiting.retain(|waiting| !waiting.is_closed());
            waiting.push_back(sender);
        }
        self.lanes.grant();
        match granted.await {
            Ok(place) => place,
            // The sender waits in the lane until it is used, and the lane is there for as long as `self` is.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.lanes.state().lanes[self.lane].asks -= 1;
    }
}

/// A place at work, until it is dropped.
pub(super) struct Place {
    lanes: Lanes,
    lane: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut state = self.lanes.state();
            state.free += 1;
            state.lanes[self.lane].at_work -= 1;
        }
        self.lanes.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::BoxFuture};

    use super::*;

    fn lanes(places: usize, places_per_lane: usize, asks_per_lane: usize) -> Lanes {
        Lanes::new(3, Bounds { places, places_per_lane, asks_per_lane })
    }

    /// An ask in the queue of its lane.
    fn queued(lanes: &Lanes, lane: usize) -> BoxFuture<'static, Place> {
        let ask = lanes.enter(lane).unwrap();
        let mut waiting = async move { ask.place().await }.boxed();
        assert!((&mut waiting).now_or_never().is_none(), "a place is free");
        waiting
    }

    async fn place(lanes: &Lanes, lane: usize) -> Place {
        lanes.enter(lane).unwrap().place().await
    }

    #[test]
    fn a_lane_has_so_many_asks_and_others_as_many() {
        let lanes = lanes(1, 1, 2);
        let (first, _second) = (lanes.enter(0), lanes.enter(0));
        assert!(first.is_some() && lanes.enter(0).is_none() && lanes.enter(1).is_some());
        drop(first);
        assert!(lanes.enter(0).is_some());
        assert!(lanes.enter(3).is_none());
    }

    #[tokio::test]
    async fn lanes_take_turns_however_long_their_queues_are() {
        let lanes = lanes(1, 1, 100);
        let held = place(&lanes, 0).await;
        let eager: Vec<_> = (0..10).map(|_| queued(&lanes, 1)).collect();
        let (modest, other) = (queued(&lanes, 2), queued(&lanes, 0));
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
        let lanes = lanes(4, 2, 100);
        let held = [place(&lanes, 0).await, place(&lanes, 0).await];
        let mut waiting = queued(&lanes, 0);
        let others = [place(&lanes, 1).await, place(&lanes, 2).await];
        drop(others);
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        assert!(waiting.now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_is_gone_is_passed_over_and_takes_no_place_along() {
        let lanes = lanes(1, 1, 100);
        let held = place(&lanes, 0).await;
        let (gone, mut stays) = (queued(&lanes, 1), queued(&lanes, 1));
        drop(gone);
        drop(held);
        drop((&mut stays).now_or_never().expect("the place is free"));
        // Granted, and gone before it was taken up.
        let held = place(&lanes, 0).await;
        let late = queued(&lanes, 1);
        drop(held);
        drop(late);
        drop(place(&lanes, 2).await);
        assert_eq!(lanes.state().free, 1);
        assert!(lanes.state().lanes.iter().all(|lane| (lane.asks, lane.at_work) == (0, 0)));
    }
}
