//! The waiting set of a worker: drives that wait without a task, in a few hundred bytes each, and what wakes them. One timer
//! and one look at each chain serve them all.
//!
//! Whoever is woken waits for its turn: so many are resumed at a time in the whole process, mostly those that something
//! happened to before collection windows and before those that are looked at because the shard was taken over.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    future::pending,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, broadcast},
    time::Instant,
};

use events::{ChainId, PaymentId, StreamId, mutant};

use super::{
    Engine,
    drive::Waits,
    memory::Folded,
    wait::{ChainWait, EventWait},
};
use crate::ports::{Auction, Chains, Clock, Look};

/// No timer is set for longer, so that its end can be told.
const TIMER_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Turns of each kind in a row, one after the other: however many something happened to, windows are gathered in, and who was
/// taken over is looked at.
const TURNS: [Kind; 6] = [Kind::Woken, Kind::Woken, Kind::Window, Kind::Woken, Kind::Woken, Kind::TakenOver];
/// Time between two changes of who is to be asked for which all open windows are gathered in: a settler may change often.
const SETTLERS_EVERY: Duration = Duration::from_secs(10);

/// When a timer ends, and its number, which tells it from others that end then.
type TimerKey = (Instant, u64);

/// The drives of one worker that wait without a task.
pub(super) struct WaitingSet {
    clock: Arc<dyn Clock>,
    chains: Arc<dyn Chains>,
    auction: Arc<dyn Auction>,
    resumptions: Arc<Semaphore>,
    hints: broadcast::Receiver<PaymentId>,
    streams: HashMap<Arc<StreamId>, Entry>,
    timers: BTreeMap<TimerKey, Arc<StreamId>>,
    timers_set: u64,
    /// The end of the first timer, or of an earlier one that is not needed any more.
    timer: Option<(Instant, BoxFuture<'static, ()>)>,
    on_chains: BTreeMap<Arc<ChainId>, OnChain>,
    looks: FuturesUnordered<BoxFuture<'static, (Arc<ChainId>, Look)>>,
    /// Whose collection windows are open.
    in_auction: BTreeSet<Arc<StreamId>>,
    /// The next change of who is to be asked in them.
    other_settlers: Option<BoxFuture<'static, ()>>,
    /// When all of them woke for such a change.
    all_asked: Option<Instant>,
    due: Due,
    /// How many were looked for.
    turns: usize,
    /// The turn of the next one.
    turn: Option<BoxFuture<'static, OwnedSemaphorePermit>>,
}

/// Why a stream waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Something happened to it, or its time has come.
    Woken,
    /// There is something to do in its collection window.
    Window,
    /// Its shard was taken over.
    TakenOver,
}

/// Those that wait for their turns.
#[derive(Default)]
struct Due {
    woken: VecDeque<Arc<StreamId>>,
    windows: VecDeque<Arc<StreamId>>,
    taken_over: VecDeque<Arc<StreamId>>,
}

impl Due {
    fn of(&mut self, kind: Kind) -> &mut VecDeque<Arc<StreamId>> {
        match kind {
            Kind::Woken => &mut self.woken,
            Kind::Window => &mut self.windows,
            Kind::TakenOver => &mut self.taken_over,
        }
    }

    fn is_empty(&self) -> bool {
        self.woken.is_empty() && self.windows.is_empty() && self.taken_over.is_empty()
    }

    /// The next one in a turn of this kind; of another where there is none.
    fn pop(&mut self, kind: Kind) -> Option<Arc<StreamId>> {
        let kinds = [kind, Kind::Woken, Kind::Window, Kind::TakenOver];
        kinds.into_iter().find_map(|kind| self.of(kind).pop_front())
    }
}

/// A drive that waits without a task, or that waits for its turn.
struct Entry {
    newest: u64,
    timer: Option<TimerKey>,
    chain: Option<Arc<ChainId>>,
    is_woken: bool,
    memory: Folded,
}

/// Who waits for what on one chain.
#[derive(Default)]
struct OnChain {
    round: u64,
    for_block: BTreeSet<Arc<StreamId>>,
    for_event: BTreeMap<Arc<StreamId>, EventWait>,
}

impl OnChain {
    fn is_empty(&self) -> bool {
        self.for_block.is_empty() && self.for_event.is_empty()
    }
}

impl WaitingSet {
    pub(super) fn new(engine: &Engine) -> Self {
        Self {
            clock: engine.ports().clock.clone(),
            chains: engine.ports().chains.clone(),
            auction: engine.ports().auction.clone(),
            resumptions: engine.resumptions().clone(),
            hints: engine.hints(),
            streams: HashMap::new(),
            timers: BTreeMap::new(),
            timers_set: 0,
            timer: None,
            on_chains: BTreeMap::new(),
            looks: FuturesUnordered::new(),
            in_auction: BTreeSet::new(),
            other_settlers: None,
            all_asked: None,
            due: Due::default(),
            turns: 0,
            turn: None,
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.streams = HashMap::new();
        self.timers.clear();
        self.timer = None;
        self.on_chains.clear();
        self.looks = FuturesUnordered::new();
        self.in_auction.clear();
        self.other_settlers = None;
        self.due = Due::default();
        self.turn = None;
    }

    /// Sequence of the newest commit that the stream waits with; `None` when it does not wait here.
    pub(super) fn newest(&self, stream_id: &StreamId) -> Option<u64> {
        self.streams.get(stream_id).map(|entry| entry.newest)
    }

    /// Has the stream wait.
    pub(super) fn insert(&mut self, stream_id: StreamId, waits: Waits) {
        if mutant!("folded-wait-forgotten") {
            return;
        }
        let Waits { newest, wait, memory } = waits;
        let stream_id = Arc::new(stream_id);
        let timer = wait.longest.map(|longest| self.set_timer(longest, stream_id.clone()));
        let entry = Entry { newest, timer, chain: None, is_woken: false, memory };
        self.streams.insert(stream_id.clone(), entry);
        if let Some(chain) = wait.chain {
            self.watch(&stream_id, chain);
        }
        if let Some(known) = wait.settlers {
            self.await_settlers(&stream_id, known);
        }
    }

    /// Has the stream driven when its turn comes.
    pub(super) fn take_over(&mut self, stream_id: StreamId) {
        if self.streams.contains_key(&stream_id) {
            return self.wake(&stream_id);
        }
        let stream_id = Arc::new(stream_id);
        let entry = Entry { newest: 0, timer: None, chain: None, is_woken: true, memory: Folded::default() };
        self.streams.insert(stream_id.clone(), entry);
        self.due.taken_over.push_back(stream_id);
    }

    /// Has the stream wait no more; what it remembered.
    pub(super) fn take(&mut self, stream_id: &StreamId) -> Folded {
        self.unwatch(stream_id);
        self.streams.remove(stream_id).map(|entry| entry.memory).unwrap_or_default()
    }

    /// The next stream whose turn has come, which waits here still, with what keeps others from being resumed. Nothing is lost
    /// when the wait for it is given up.
    pub(super) async fn next(&mut self) -> (StreamId, OwnedSemaphorePermit) {
        loop {
            self.arm();
            let (timer, turn, settlers) = (&mut self.timer, &mut self.turn, &mut self.other_settlers);
            // In this order, so that the same happenings always come to the same.
            tokio::select! {
                biased;
                permit = due(turn) => {
                    self.turn = None;
                    if let Some(stream_id) = self.next_woken() {
                        return (stream_id, permit);
                    }
                }
                at = over(timer) => {
                    self.timer = None;
                    self.end_timers(at);
                }
                Some((chain_id, look)) = self.looks.next(), if !self.looks.is_empty() => self.looked(&chain_id, look),
                () = changed(settlers) => {
                    self.other_settlers = None;
                    self.all_asked = Some(Instant::now());
                    let woken: Vec<_> = self.in_auction.iter().cloned().collect();
                    woken.iter().for_each(|stream_id| self.wake(stream_id));
                }
                hint = self.hints.recv() => match hint {
                    Ok(payment_id) => self.hinted(payment_id),
                    // Hints that were missed cost nothing but time.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    // The engine has the sender.
                    Err(broadcast::error::RecvError::Closed) => pending().await,
                },
            }
        }
    }

    fn set_timer(&mut self, longest: Duration, stream_id: Arc<StreamId>) -> TimerKey {
        let key = (Instant::now() + longest.min(TIMER_MAX), self.timers_set);
        self.timers_set += 1;
        self.timers.insert(key, stream_id);
        key
    }

    /// Sees to it that the first timer ends, and that whoever is woken has its turn.
    fn arm(&mut self) {
        let first = self.timers.first_key_value().map(|((at, _), _)| *at);
        if let Some(at) = first
            && self.timer.as_ref().is_none_or(|(armed, _)| at < *armed)
            && !mutant!("folded-timer-not-armed")
        {
            let (clock, left) = (self.clock.clone(), at.saturating_duration_since(Instant::now()));
            self.timer = Some((at, async move { clock.sleep(left).await }.boxed()));
        }
        if self.turn.is_none() && !self.due.is_empty() {
            let resumptions = self.resumptions.clone();
            let turn = async move {
                match resumptions.acquire_owned().await {
                    Ok(permit) => permit,
                    // Nobody closes it.
                    Err(_) => pending().await,
                }
            };
            self.turn = Some(turn.boxed());
        }
    }

    /// Those whose timers have ended wake, by the clock that says that the one ending at `at` has.
    fn end_timers(&mut self, at: Instant) {
        let now = Instant::now().max(at);
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            let stream_id = first.remove();
            self.wake(&stream_id);
        }
    }

    fn hinted(&mut self, payment_id: PaymentId) {
        let stream_id = StreamId::from(payment_id);
        if self.streams.get(&stream_id).is_some_and(|entry| entry.chain.is_some()) {
            self.wake(&stream_id);
        }
    }

    /// Waits for what happens on a chain; wakes at once where that has happened since the stream was looked at.
    fn watch(&mut self, stream_id: &Arc<StreamId>, wait: ChainWait) {
        let ChainWait { chain_id, event } = wait;
        let chain_id = match self.on_chains.get_key_value(&chain_id) {
            Some((chain_id, _)) => chain_id.clone(),
            None => {
                let chain_id = Arc::new(chain_id);
                self.looks.push(look(self.chains.clone(), chain_id.clone(), 0));
                chain_id
            }
        };
        let on_chain = self.on_chains.entry(chain_id.clone()).or_default();
        let mut is_news = false;
        match (event, &**stream_id) {
            (Some(mut event), StreamId::Payment(payment_id)) => {
                let mut waiting = event.waiting(&chain_id, payment_id);
                if self.chains.awaits_block(&waiting) {
                    on_chain.for_block.insert(stream_id.clone());
                } else {
                    is_news = self.chains.has_news(&mut waiting);
                    event.since = waiting.since;
                    on_chain.for_event.insert(stream_id.clone(), event);
                }
            }
            _ => {
                on_chain.for_block.insert(stream_id.clone());
            }
        }
        if let Some(entry) = self.streams.get_mut(&**stream_id) {
            entry.chain = Some(chain_id);
        }
        if is_news {
            self.wake(stream_id);
        }
    }

    /// Waits until somebody else may have to be asked in the stream's window.
    fn await_settlers(&mut self, stream_id: &Arc<StreamId>, known: u64) {
        self.in_auction.insert(stream_id.clone());
        // One that waits since before a change that others know of is woken for that one.
        if self.other_settlers.is_none() || self.auction.settlers() != known {
            let (auction, clock) = (self.auction.clone(), self.clock.clone());
            let pause = self.all_asked.map_or(Duration::ZERO, |at| SETTLERS_EVERY.saturating_sub(at.elapsed()));
            let change = async move {
                clock.sleep(pause).await;
                auction.other_settlers(known).await;
            };
            self.other_settlers = Some(change.boxed());
        }
    }

    /// Wakes whoever a look at the chain may show something new to, and takes the next look while anybody waits for it.
    fn looked(&mut self, chain_id: &Arc<ChainId>, new: Look) {
        let Some(on_chain) = self.on_chains.get_mut(chain_id) else { return };
        let mut woken = Vec::new();
        if new.is_block {
            woken.extend(on_chain.for_block.iter().cloned());
        }
        if new.round != on_chain.round {
            on_chain.round = new.round;
            for (stream_id, event) in &mut on_chain.for_event {
                let StreamId::Payment(payment_id) = &**stream_id else { continue };
                let mut waiting = event.waiting(chain_id, payment_id);
                if self.chains.has_news(&mut waiting) {
                    woken.push(stream_id.clone());
                }
                event.since = waiting.since;
            }
        }
        woken.iter().for_each(|stream_id| self.wake(stream_id));
        match self.on_chains.get(chain_id) {
            Some(on_chain) if !on_chain.is_empty() => {
                self.looks.push(look(self.chains.clone(), chain_id.clone(), on_chain.round));
            }
            _ => drop(self.on_chains.remove(chain_id)),
        }
    }

    /// Has the stream wait for its turn, and for nothing else.
    fn wake(&mut self, stream_id: &StreamId) {
        let kind = if self.in_auction.contains(stream_id) { Kind::Window } else { Kind::Woken };
        self.unwatch(stream_id);
        let Some((key, _)) = self.streams.get_key_value(stream_id) else { return };
        let key = key.clone();
        if let Some(entry) = self.streams.get_mut(stream_id)
            && !entry.is_woken
        {
            entry.is_woken = true;
            self.due.of(kind).push_back(key);
        }
    }

    /// Forgets what the stream waits for.
    fn unwatch(&mut self, stream_id: &StreamId) {
        let Some(entry) = self.streams.get_mut(stream_id) else { return };
        if let Some(key) = entry.timer.take() {
            self.timers.remove(&key);
        }
        if let Some(on_chain) = entry.chain.take().and_then(|chain_id| self.on_chains.get_mut(&chain_id)) {
            on_chain.for_block.remove(stream_id);
            on_chain.for_event.remove(stream_id);
        }
        self.in_auction.remove(stream_id);
    }

    /// The next stream that is to be resumed. One that was driven meanwhile is none.
    fn next_woken(&mut self) -> Option<StreamId> {
        loop {
            let kind = TURNS[self.turns % TURNS.len()];
            self.turns = self.turns.wrapping_add(1);
            let stream_id = self.due.pop(kind)?;
            if self.streams.get(&stream_id).is_some_and(|entry| entry.is_woken) {
                return Some((*stream_id).clone());
            }
        }
    }
}

async fn due(turn: &mut Option<BoxFuture<'static, OwnedSemaphorePermit>>) -> OwnedSemaphorePermit {
    match turn {
        Some(turn) => turn.await,
        None => pending().await,
    }
}

async fn changed(settlers: &mut Option<BoxFuture<'static, ()>>) {
    match settlers {
        Some(settlers) => settlers.await,
        None => pending().await,
    }
}

async fn over(timer: &mut Option<(Instant, BoxFuture<'static, ()>)>) -> Instant {
    match timer {
        Some((at, timer)) => {
            timer.await;
            *at
        }
        None => pending().await,
    }
}

fn look(chains: Arc<dyn Chains>, chain_id: Arc<ChainId>, round: u64) -> BoxFuture<'static, (Arc<ChainId>, Look)> {
    async move {
        let look = chains.next_look(&chain_id, round).await;
        (chain_id, look)
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_turns_and_no_turn_is_lost() {
        let stream = |number: usize| Arc::new(StreamId::from(PaymentId::derive("turn", &number.to_string())));
        let mut due = Due::default();
        for number in 0..12 {
            due.woken.push_back(stream(number));
            due.windows.push_back(stream(100 + number));
        }
        due.taken_over.push_back(stream(200));
        let order: Vec<_> = TURNS.iter().chain(&TURNS).filter_map(|kind| due.pop(*kind)).collect();
        let of = |numbers: [usize; 12]| numbers.map(stream).to_vec();
        // Where nobody of a kind is left, its turn is another's.
        assert_eq!(order, of([0, 1, 100, 2, 3, 200, 4, 5, 101, 6, 7, 8]));
        let rest = std::iter::from_fn(|| due.pop(Kind::TakenOver)).count();
        assert_eq!((rest, due.is_empty()), (13, true));
    }
}
