//! Seen records: what is known of the records of the payments that wait, and whether that is news to one of them.

use std::collections::BTreeMap;

use events::Hash32;
use gateway_program::Key;
use sagas::ports::Waiting;

use crate::node::ACCOUNTS_MAX;

/// Most records in one call, beside the clock.
const CHUNK_MAX: usize = ACCOUNTS_MAX - 1;
/// So often in a row a call with a record in it may be refused before the next ones with it have half as many: a node that is behind
/// refuses, too.
const REFUSALS_MAX: u32 = 2;
/// So often in a row a record may be unread before its payment looks itself, and again after as many.
const MISSES_MAX: u64 = 8;
/// Rounds in which a payment is looked at after something happened to it: another node than the one that gave the hint may answer,
/// and be behind.
const ROUNDS: u64 = 3;
/// Rounds for which a record is read that nobody has waited for.
const KEPT_ROUNDS: u64 = 8;

/// The slot of what does not say when it changed last, as a token account: what is read of it first is news, and so is each change.
pub(super) const UNKNOWN_SLOT: u64 = 0;

/// A record as one answer had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordState {
    /// Hash of its bytes.
    pub hash: Hash32,
    /// The slot of its last change, or [`UNKNOWN_SLOT`].
    pub slot: u64,
}

/// What a payment looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watched {
    /// Address of the record.
    pub address: Key,
    /// Whether it looks at changes that are not settled, too.
    pub is_unsettled_seen: bool,
}

#[derive(Debug)]
struct Watch {
    watched: Watched,
    /// The slot that was known to be settled before the payment first looked: it has seen what was changed up to there.
    since: u64,
    /// `None` before it was read.
    state: Option<Option<RecordState>>,
    is_settled: bool,
    /// The round in which something last happened.
    touched: Option<u64>,
    /// The last round in which the payment waited.
    wanted: u64,
    /// A settled second past this one tells, too; 0 where none is waited for.
    deadline: u64,
    /// How often in a row it was to be read and was not.
    misses: u64,
    /// How often in a row the node refused a call with it.
    refusals: u32,
    /// Most records in a call with it: halved by refusals, one more with each that is answered.
    chunk_max: usize,
    /// The last round in which the payment was to look itself, as its record cannot be read.
    turn: Option<u64>,
}

/// A payment and its record, to be read.
pub(super) type Wanted = (Hash32, Key);

/// What rounds have seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How many rounds there were.
    pub round: u64,
    /// A settled second, as late as deadlines needed it.
    pub settled_time: u64,
    settled: u64,
    watches: BTreeMap<Hash32, Watch>,
    /// Those that are still to be read before any is read again.
    queue: Vec<Hash32>,
    /// Rounds in a row in which something could not be read.
    faults: u32,
}

impl Seen {
    /// A look at the payment begins: from now on its record is read; `settled` is a slot that is known to be settled.
    pub fn watch(&mut self, payment: Hash32, watched: Watched, settled: u64) {
        let round = self.round;
        let is_same = |watch: &&mut Watch| watch.watched == watched;
        match self.watches.get_mut(&payment).filter(is_same) {
            Some(watch) => watch.wanted = round,
            None => {
                let watch = Watch {
                    watched,
                    since: settled,
                    state: None,
                    is_settled: false,
                    touched: None,
                    wanted: round,
                    deadline: 0,
                    misses: 0,
                    refusals: 0,
                    chunk_max: CHUNK_MAX,
                    turn: None,
                };
                self.watches.insert(payment, watch);
            }
        }
    }

    /// Whether the payment's record is read.
    pub fn is_watched(&self, payment: Hash32) -> bool {
        self.watches.contains_key(&payment)
    }

    /// Whether in the rounds since something happened that the payment waits for; where its record is not read, always.
    pub fn has_news(&mut self, waiting: &Waiting<'_>) -> bool {
        let round = self.round;
        let Some(watch) = self.watches.get_mut(&waiting.payment_id.on_chain()) else { return true };
        watch.wanted = round;
        watch.deadline = if waiting.deadline == u64::MAX { 0 } else { waiting.deadline };
        let since = waiting.since.round;
        let is_touched = watch.touched.is_some_and(|at| at + ROUNDS > since);
        round > since && (is_touched || watch.turn.is_some_and(|turn| turn > since))
    }

    /// Whether the payment's record was changed and that is not settled.
    pub fn has_unsettled_change(&self, payment: Hash32) -> bool {
        let watch = self.watches.get(&payment);
        watch.is_some_and(|watch| !watch.is_settled && matches!(watch.state, Some(Some(_))))
    }

    /// A look that began after round `since` showed the change of slot `slot`. While that is not settled there is nothing more to
    /// see, so the rounds after need not look again.
    pub fn note_shown(&mut self, payment: Hash32, since: u64, slot: u64) {
        let Some(watch) = self.watches.get_mut(&payment) else { return };
        let is_of_slot = watch.state.flatten().is_some_and(|state| state.slot == slot);
        if is_of_slot && !watch.is_settled && watch.touched.is_some_and(|at| at <= since) {
            watch.touched = None;
        }
    }

    /// The next records to read, in at most so many calls, each once before any is read again.
    pub fn next(&mut self, calls_max: usize) -> Vec<Vec<Wanted>> {
        let Self { round, watches, queue, .. } = self;
        watches.retain(|_, watch| watch.wanted + KEPT_ROUNDS >= *round);
        queue.retain(|payment| watches.contains_key(payment));
        if queue.is_empty() {
            queue.extend(watches.keys().copied());
        }
        let chunk_max = |payment: &Hash32| watches.get(payment).map_or(0, |watch| watch.chunk_max);
        // Taken from its end, so that in a call the last one allows the fewest.
        queue.sort_by_key(chunk_max);
        let mut chunks = Vec::new();
        while chunks.len() < calls_max && !queue.is_empty() {
            let mut chunk = Vec::new();
            while let Some(payment) = queue.pop_if(|payment| chunk.len() < chunk_max(payment).max(1)) {
                chunk.extend(watches.get(&payment).map(|watch| (payment, watch.watched.address)));
            }
            chunks.push(chunk);
        }
        chunks
    }

    /// Whether somebody waits for a second up to `time` that is not known to be settled.
    pub fn awaits_settled_time(&self, time: u64) -> bool {
        let mut deadlines = self.watches.values().map(|watch| watch.deadline);
        deadlines.any(|deadline| deadline >= self.settled_time.max(1) && deadline < time)
    }

    /// A round that read these records, and found `settled` and `settled_time` settled.
    pub fn apply(&mut self, settled: u64, settled_time: u64, read: Vec<(Hash32, Key, Option<RecordState>)>) {
        self.round += 1;
        let round = self.round;
        self.settled = self.settled.max(settled);
        let (before, settled) = (self.settled_time, self.settled);
        self.settled_time = before.max(settled_time);
        for (payment, address, state) in read {
            let watch = self.watches.get_mut(&payment).filter(|watch| watch.watched.address == address);
            let Some(watch) = watch else { continue };
            let is_news = match watch.state.replace(state) {
                Some(known) => known != state,
                // The payment's own look has seen what was settled before.
                None => state.is_some_and(|state| state.slot > watch.since || state.slot == UNKNOWN_SLOT),
            };
            if is_news {
                watch.is_settled = false;
                if watch.watched.is_unsettled_seen || state.is_none() {
                    watch.touched = Some(round);
                }
            } else if state.is_some_and(|state| state.slot <= watch.since) {
                watch.is_settled = true;
            }
        }
        for watch in self.watches.values_mut() {
            let is_settled = watch.state.flatten().is_some_and(|state| state.slot <= settled);
            if is_settled && !watch.is_settled {
                watch.is_settled = true;
                watch.touched = Some(round);
            }
            if (before..self.settled_time).contains(&watch.deadline) && watch.deadline != 0 {
                watch.touched = Some(round);
            }
        }
    }

    /// In the last round a call with these was answered.
    pub fn answered(&mut self, chunk: &[Wanted]) {
        for (payment, _) in chunk {
            if let Some(watch) = self.watches.get_mut(payment) {
                (watch.misses, watch.refusals) = (0, 0);
                watch.chunk_max = CHUNK_MAX.min(watch.chunk_max + 1);
            }
        }
    }

    /// In the last round these were not read; the next call with them shows what was missed. `is_refused` where the node
    /// refused this call, which may be for one of them, or for their number.
    pub fn missed(&mut self, chunk: &[Wanted], is_refused: bool) {
        for (payment, _) in chunk {
            let Some(watch) = self.watches.get_mut(payment) else { continue };
            watch.misses += 1;
            // Not all of them look in the same round.
            if watch.misses >= MISSES_MAX && watch.misses % MISSES_MAX == u64::from(payment.0[0]) % MISSES_MAX {
                watch.turn = Some(self.round);
            }
            watch.refusals = if is_refused { watch.refusals + 1 } else { 0 };
            if watch.refusals == REFUSALS_MAX {
                watch.refusals = 0;
                watch.chunk_max = watch.chunk_max.min(chunk.len()).div_ceil(2);
            }
        }
    }

    /// The last round is over, which had a fault or none; how many in a row had one.
    pub fn end(&mut self, has_fault: bool) -> u32 {
        self.faults = if has_fault { self.faults.saturating_add(1) } else { 0 };
        self.faults
    }

    /// A round that does not know how far the cluster is.
    pub fn miss(&mut self) {
        self.round += 1;
    }
}

#[cfg(test)]
mod tests {
    use events::{ChainId, PaymentId};
    use sagas::ports::Cursor;

    use super::*;

    const ADDRESS: Key = [7; 32];

    struct World {
        chain_id: ChainId,
        payment_id: PaymentId,
        seen: Seen,
    }

    impl World {
        fn new(is_unsettled_seen: bool) -> Self {
            let payment_id = PaymentId::derive("solana:x", "order");
            let chain_id = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp".parse().unwrap();
            let mut world = Self { chain_id, payment_id, seen: Seen::default() };
            world.seen.watch(world.payment(), Watched { address: ADDRESS, is_unsettled_seen }, 100);
            world
        }

        fn payment(&self) -> Hash32 {
            self.payment_id.on_chain()
        }

        fn cursor(&self) -> Cursor {
            Cursor { round: self.seen.round, settled: self.seen.settled_time }
        }

        /// A round that finds the record with these bytes, last changed at a slot.
        fn round(&mut self, settled: u64, record: Option<(u8, u64)>) {
            let state = record.map(|(byte, slot)| RecordState { hash: Hash32([byte; 32]), slot });
            assert_eq!(self.seen.next(10), [[(self.payment(), ADDRESS)]]);
            self.seen.apply(settled, 0, vec![(self.payment(), ADDRESS, state)]);
        }

        fn has_news_until(&mut self, since: Cursor, deadline: u64) -> bool {
            let (chain_id, payment_id) = (&self.chain_id, &self.payment_id);
            self.seen.has_news(&Waiting { chain_id, payment_id, since, deadline, is_pushed: false })
        }

        fn has_news(&mut self, since: Cursor) -> bool {
            self.has_news_until(since, u64::MAX)
        }
    }

    #[test]
    fn a_record_tells_when_it_comes_and_when_it_is_settled_and_in_the_rounds_after() {
        let mut world = World::new(true);
        let since = world.cursor();
        world.round(100, None);
        assert!(!world.has_news(since));
        world.round(100, Some((1, 101)));
        assert!(world.has_news(since));
        assert!(world.seen.has_unsettled_change(world.payment()));
        for _ in 0..ROUNDS {
            let since = world.cursor();
            assert!(!world.has_news(since), "nothing is new before the next round");
            world.round(100, Some((1, 101)));
            assert!(world.has_news(since), "the node that was asked may have been behind");
        }
        let since = world.cursor();
        world.round(100, Some((1, 101)));
        assert!(!world.has_news(since));
        world.round(101, Some((1, 101)));
        assert!(world.has_news(since), "settled");
        assert!(!world.seen.has_unsettled_change(world.payment()));
    }

    #[test]
    fn what_a_look_has_shown_is_not_looked_at_again_before_it_changes() {
        let mut world = World::new(true);
        let before = world.cursor();
        world.round(100, Some((1, 101)));
        world.seen.note_shown(world.payment(), before.round, 101);
        assert!(world.has_news(before), "the look began before");
        let since = world.cursor();
        world.seen.note_shown(world.payment(), since.round, 100);
        world.round(100, Some((1, 101)));
        assert!(world.has_news(since), "it showed another change");
        let since = world.cursor();
        world.seen.note_shown(world.payment(), since.round, 101);
        world.round(100, Some((1, 101)));
        assert!(!world.has_news(since));
        world.round(100, None);
        assert!(world.has_news(since), "a fork took it away");
    }

    #[test]
    fn who_looks_at_what_is_settled_is_told_of_nothing_else() {
        let mut world = World::new(false);
        let since = world.cursor();
        // As the payment's own look has seen it.
        world.round(100, Some((1, 90)));
        world.round(101, Some((1, 90)));
        assert!(!world.has_news(since));
        world.round(101, Some((2, 103)));
        assert!(!world.has_news(since));
        assert!(world.seen.has_unsettled_change(world.payment()));
        world.round(103, Some((2, 103)));
        assert!(world.has_news(since));
    }

    #[test]
    fn what_was_changed_and_settled_between_the_look_and_the_first_round_tells() {
        let mut world = World::new(false);
        let since = world.cursor();
        world.round(105, Some((2, 103)));
        assert!(world.has_news(since));
    }

    #[test]
    fn a_deadline_tells_once_it_is_settled() {
        let mut world = World::new(false);
        let since = world.cursor();
        assert!(!world.has_news_until(since, 1_000));
        assert!(!world.seen.awaits_settled_time(1_000));
        assert!(world.seen.awaits_settled_time(1_001));
        world.seen.apply(100, 1_000, Vec::new());
        assert!(!world.has_news_until(since, 1_000));
        world.seen.apply(100, 1_001, Vec::new());
        assert!(world.has_news_until(since, 1_000));
        assert!(!world.seen.awaits_settled_time(2_000), "it is known");
    }

    fn many(payments: u8) -> Seen {
        let mut seen = Seen::default();
        for number in 0..payments {
            seen.watch(Hash32([number; 32]), Watched { address: [number; 32], is_unsettled_seen: true }, 0);
        }
        seen
    }

    #[test]
    fn many_records_take_turns() {
        let mut seen = many(250);
        let mut read: Vec<Wanted> = Vec::new();
        for records in [CHUNK_MAX, CHUNK_MAX, 250 - 2 * CHUNK_MAX] {
            let chunks = seen.next(1);
            assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [records]);
            read.extend(chunks.concat());
        }
        read.sort();
        assert_eq!(read, (0..250).map(|number| (Hash32([number; 32]), [number; 32])).collect::<Vec<_>>());
        for _ in 0..=KEPT_ROUNDS {
            assert_eq!(seen.next(10).concat().len(), 250);
            seen.miss();
        }
        assert!(seen.next(10).is_empty(), "nobody has waited for long");
    }

    impl Seen {
        /// A round in which the calls fail that `is_missed`; how many records it read.
        fn round(&mut self, is_refused: bool, is_missed: impl Fn(&[Wanted]) -> bool) -> usize {
            self.watches.values_mut().for_each(|watch| watch.wanted = self.round);
            let (missed, read): (Vec<_>, Vec<_>) = self.next(10).into_iter().partition(|chunk| is_missed(chunk));
            self.apply(0, 0, Vec::new());
            read.iter().for_each(|chunk| self.answered(chunk));
            missed.iter().for_each(|chunk| self.missed(chunk, is_refused));
            read.concat().len()
        }
    }

    #[test]
    fn calls_with_more_records_than_a_node_gives_are_halved() {
        const CAP: usize = 60;
        let mut seen = many(250);
        let read: Vec<usize> = (0..60).map(|_| seen.round(true, |chunk| chunk.len() > CAP)).collect();
        assert_eq!(read[0], 250 - 2 * CHUNK_MAX, "what is not refused counts");
        assert!(read[4..].iter().filter(|read| **read == 250).count() > 40, "{read:?}");
    }

    #[test]
    fn a_record_that_cannot_be_read_is_soon_the_only_one_in_its_call() {
        let mut seen = many(250);
        let bad = Hash32([7; 32]);
        let is_bad = |chunk: &[Wanted]| chunk.iter().any(|(payment, _)| *payment == bad);
        for _ in 0..20 {
            seen.round(true, is_bad);
        }
        assert_eq!(seen.round(true, is_bad), 249);
        let turns = seen.watches.iter().filter(|(_, watch)| watch.turn.is_some());
        let turns: Vec<_> = turns.map(|(payment, watch)| (*payment, watch.turn)).collect();
        // From the eighth miss on in one round of eight.
        assert!(turns.contains(&(bad, Some(15))), "{turns:?}");
    }

    #[test]
    fn while_nothing_can_be_read_everybody_looks_one_after_the_other() {
        let mut seen = many(250);
        for _ in 1..MISSES_MAX {
            assert_eq!(seen.round(false, |_| true), 0);
            assert!(seen.watches.values().all(|watch| watch.turn.is_none()));
        }
        for _ in 0..MISSES_MAX {
            seen.round(false, |_| true);
            let now = seen.watches.values().filter(|watch| watch.turn == Some(seen.round)).count();
            assert!((1..=250_usize.div_ceil(8)).contains(&now), "{now} look at once");
        }
        assert!(seen.watches.values().all(|watch| watch.turn.is_some()));
        assert_eq!(seen.round(false, |_| false), 250, "calls are as large as before");
        assert_eq!(seen.next(10).len(), 3);
    }

    #[test]
    fn a_turn_to_look_wakes_once() {
        let mut world = World::new(true);
        for _ in 0..2 * MISSES_MAX {
            let since = world.cursor();
            let chunks = world.seen.next(10);
            world.seen.apply(100, 0, Vec::new());
            world.seen.missed(&chunks.concat(), false);
            let is_turn = world.seen.watches[&world.payment()].turn == Some(world.seen.round);
            assert_eq!(world.has_news(since), is_turn);
        }
        assert!(world.seen.watches[&world.payment()].turn.is_some());
    }
}
