//! Seen events: what is known of the events of a chain so far, and whether that is news to a payment that waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use events::Hash32;
use sagas::ports::Waiting;

use super::{Block, Event};

/// Blocks below the newest that are asked about again: a node may have been behind, and the newest blocks change most.
pub const AGAIN_BLOCKS: u64 = 32;
/// Rounds in which a payment is looked at after something happened to it: another node than the one that gave the hint may answer,
/// and be behind.
const ROUNDS: u64 = 3;
/// Rounds for which it is known to whom something happened.
const KNOWN_ROUNDS: u64 = 64;
/// Rounds in a row that may fail before everybody looks; the next one that succeeds sees what they missed.
const MISSES_MAX: u32 = 8;
/// When everybody looks, it is spread over so many rounds.
const SPREAD_ROUNDS: u64 = 8;
/// Most events that are remembered; beyond that everybody looks.
const EVENTS_MAX: usize = 100_000;
/// For so long after a deadline every round is news, in seconds of the chain: as with [`ROUNDS`].
const DEADLINE_SECONDS: u64 = 60;

/// What rounds have seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How many rounds there were.
    pub round: u64,
    /// The newest block that was asked about, in vain or not.
    pub asked: Option<Block>,
    /// The newest block up to which everything is known.
    pub head: Option<Block>,
    settled: u64,
    /// UNIX second of the newest settled block.
    pub settled_time: u64,
    /// Events by the number of their block: of those that are not settled, and of those that are asked about again.
    events: BTreeMap<u64, BTreeSet<Event>>,
    /// When something last happened to a payment.
    touched: BTreeMap<Hash32, u64>,
    /// The rounds in which everybody looks, each payment in one of [`SPREAD_ROUNDS`]: it is unknown what happened to whom.
    unclear: Option<RangeInclusive<u64>>,
    misses: u32,
}

impl Seen {
    /// Whether in the rounds since something happened that the payment waits for.
    pub fn has_news(&self, payment: Hash32, waiting: &Waiting<'_>) -> bool {
        let Waiting { since, deadline, .. } = *waiting;
        if self.round <= since.round {
            return false;
        }
        self.has_turn(payment, since.round)
            || self.round > since.round + KNOWN_ROUNDS
            || self.touched.get(&payment).is_some_and(|at| at + ROUNDS > since.round)
            || (self.settled_time > deadline && since.settled <= deadline.saturating_add(DEADLINE_SECONDS))
    }

    /// Whether it was the payment's turn to look in a round since, as it is unknown what happened to whom.
    fn has_turn(&self, payment: Hash32, since: u64) -> bool {
        let Some(unclear) = &self.unclear else { return false };
        let first = since.saturating_add(1).max(*unclear.start());
        let until_turn = (u64::from(payment.0[0]) + SPREAD_ROUNDS - first % SPREAD_ROUNDS) % SPREAD_ROUNDS;
        first.saturating_add(until_turn) <= self.round.min(*unclear.end())
    }

    /// It is unknown what happened to whom up to this round. Who has not had a turn keeps it.
    fn set_unclear(&mut self) {
        let begun =
            self.unclear.as_ref().filter(|unclear| *unclear.end() >= self.round).map(|unclear| *unclear.start());
        self.unclear = Some(begun.unwrap_or(self.round)..=self.round + SPREAD_ROUNDS - 1);
    }

    /// Whether a block that is not settled has an event that says that what was pushed has landed.
    pub fn has_unsettled_event(&self, payment: Hash32) -> bool {
        let mut unsettled = self.events.range(self.settled.saturating_add(1)..).map(|(_, events)| events);
        let least = Event { payment, block: Hash32::ZERO, has_landed: false };
        unsettled.any(|events| {
            events.range(least..).take_while(|event| event.payment == payment).any(|event| event.has_landed)
        })
    }

    /// A look that began after round `since` showed the payment's event in block `number`. While that is not settled there is
    /// nothing more to see, so the rounds after need not look again.
    pub fn note_shown(&mut self, payment: Hash32, since: u64, number: u64) {
        if number > self.settled && self.touched.get(&payment).is_some_and(|at| *at <= since) {
            self.touched.remove(&payment);
        }
    }

    /// A round that sees all events of the blocks from `from` to `head`.
    pub fn apply(&mut self, from: u64, head: Block, settled: Block, events: Vec<(u64, Event)>) {
        self.round += 1;
        self.misses = 0;
        let round = self.round;
        let mut found: BTreeMap<u64, BTreeSet<Event>> = BTreeMap::new();
        for (number, event) in events {
            found.entry(number).or_default().insert(event);
        }
        let known = self.events.split_off(&from);
        let before: BTreeSet<Event> = known.into_values().flatten().collect();
        let now: BTreeSet<Event> = found.values().flatten().copied().collect();
        // What came, and what a reorganisation took away.
        for event in before.symmetric_difference(&now) {
            self.touched.insert(event.payment, round);
        }
        self.events.append(&mut found);
        // One node may be behind another.
        if settled.number > self.settled {
            for event in self.events.range(self.settled + 1..=settled.number).flat_map(|(_, events)| events) {
                self.touched.insert(event.payment, round);
            }
            self.settled = settled.number;
        }
        self.settled_time = self.settled_time.max(settled.time);
        let kept = self.settled.min(head.number.saturating_sub(AGAIN_BLOCKS)).saturating_add(1);
        self.events = self.events.split_off(&kept);
        self.touched.retain(|_, at| *at + KNOWN_ROUNDS > round);
        let too_many = self.events.values().map(BTreeSet::len).sum::<usize>() > EVENTS_MAX;
        if too_many {
            self.events.clear();
        }
        // In the first round, what was settled before is not among the events.
        if self.head.replace(head).is_none() || too_many {
            self.set_unclear();
        }
    }

    /// A round that sees nothing; how many there were in a row.
    pub fn miss(&mut self) -> u32 {
        self.round += 1;
        self.misses = self.misses.saturating_add(1);
        if self.misses.is_multiple_of(MISSES_MAX) {
            self.set_unclear();
        }
        self.misses
    }

    /// The first block to ask about.
    pub fn from(&self, head: u64, settled: u64) -> u64 {
        let again = |newest: u64| newest.saturating_add(1).saturating_sub(AGAIN_BLOCKS);
        match self.head {
            Some(last) => again(last.number.min(head)),
            None => again(head).min(settled.saturating_add(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use events::{ChainId, PaymentId};
    use sagas::ports::Cursor;

    use super::*;

    fn block(number: u64, fork: u8) -> Block {
        Block { number, hash: Hash32([fork; 32]), time: 1_000 + number }
    }

    struct World {
        chain_id: ChainId,
        payment_id: PaymentId,
        seen: Seen,
    }

    impl World {
        fn new() -> Self {
            let payment_id = PaymentId::derive("eip155:0x00", "order");
            let mut world = Self { chain_id: ChainId::evm(1), payment_id, seen: Seen::default() };
            world.round(1, 1_000, 996, &[]);
            for _ in 0..SPREAD_ROUNDS {
                world.round(1, 1_000, 996, &[]);
            }
            world
        }

        fn payment(&self) -> Hash32 {
            self.payment_id.on_chain()
        }

        fn cursor(&self) -> Cursor {
            Cursor { round: self.seen.round, settled: self.seen.settled_time }
        }

        /// A round that finds events of the payment, by the escrow, in these blocks of the branch `fork`.
        fn round(&mut self, fork: u8, head: u64, settled: u64, events: &[u64]) {
            self.round_of(true, fork, head, settled, events);
        }

        fn round_of(&mut self, has_landed: bool, fork: u8, head: u64, settled: u64, events: &[u64]) {
            let from = self.seen.from(head, settled);
            let payment = self.payment();
            let events = events.iter().filter(|number| **number >= from);
            let event = Event { payment, block: Hash32([fork; 32]), has_landed };
            let events = events.map(|number| (*number, event)).collect();
            self.seen.apply(from, block(head, fork), block(settled, fork), events);
        }

        fn has_news_until(&self, since: Cursor, deadline: u64) -> bool {
            let (chain_id, payment_id) = (&self.chain_id, &self.payment_id);
            let waiting = Waiting { chain_id, payment_id, since, deadline, is_pushed: false };
            self.seen.has_news(self.payment(), &waiting)
        }

        fn has_news(&self, since: Cursor) -> bool {
            self.has_news_until(since, u64::MAX)
        }
    }

    #[test]
    fn an_event_tells_when_it_comes_and_when_it_is_settled_and_in_the_rounds_after() {
        let mut world = World::new();
        let since = world.cursor();
        world.round(1, 1_001, 997, &[]);
        assert!(!world.has_news(since), "a block without it");
        world.round(1, 1_002, 998, &[1_002]);
        assert!(world.has_news(since));
        for head in 1_003..1_003 + ROUNDS {
            let since = world.cursor();
            assert!(!world.has_news(since), "nothing is new before the next round");
            world.round(1, head, 998, &[1_002]);
            assert!(world.has_news(since), "the node that was asked may have been behind");
        }
        let since = world.cursor();
        world.round(1, 1_006, 1_001, &[1_002]);
        assert!(!world.has_news(since));
        world.round(1, 1_007, 1_002, &[1_002]);
        assert!(world.has_news(since), "settled");
        for _ in 0..ROUNDS {
            world.round(1, 1_008, 1_004, &[1_002]);
        }
        let since = world.cursor();
        world.round(1, 1_009, 1_005, &[1_002]);
        assert!(!world.has_news(since), "it was seen, though it is asked about again");
    }

    #[test]
    fn what_a_look_has_shown_is_not_looked_at_again_before_it_changes() {
        let mut world = World::new();
        let before = world.cursor();
        world.round(1, 1_002, 998, &[1_002]);
        // The look began before the event came.
        world.seen.note_shown(world.payment(), before.round, 1_002);
        let since = world.cursor();
        world.round(1, 1_003, 999, &[1_002]);
        assert!(world.has_news(since));
        let since = world.cursor();
        world.seen.note_shown(world.payment(), since.round, 1_002);
        world.round(1, 1_004, 1_000, &[1_002]);
        assert!(!world.has_news(since), "nothing has changed since");
        world.round(2, 1_004, 1_000, &[1_002]);
        assert!(world.has_news(since), "another block has it");
        let since = world.cursor();
        world.seen.note_shown(world.payment(), since.round, 1_002);
        world.round(2, 1_006, 1_002, &[1_002]);
        assert!(world.has_news(since), "settled");
        let since = world.cursor();
        // Another node answered, which is behind.
        world.seen.note_shown(world.payment(), since.round, 1_002);
        world.round(2, 1_007, 1_003, &[1_002]);
        assert!(world.has_news(since), "what is settled was not shown so");
    }

    #[test]
    fn what_a_reorganisation_takes_away_or_moves_tells() {
        let mut world = World::new();
        for _ in 0..=ROUNDS {
            world.round(1, 1_002, 996, &[1_002]);
        }
        let since = world.cursor();
        world.round(1, 1_002, 996, &[1_002]);
        assert!(!world.has_news(since));
        world.round(2, 1_002, 996, &[1_002]);
        assert!(world.has_news(since), "the same number in another block");
        for _ in 0..ROUNDS {
            world.round(2, 1_002, 996, &[1_002]);
        }
        let since = world.cursor();
        world.round(3, 1_003, 996, &[]);
        assert!(world.has_news(since), "gone");
    }

    #[test]
    fn a_block_is_asked_about_though_it_was_settled_before() {
        let mut world = World::new();
        for (head, settled) in [(1_001, 1_001), (1_003, 1_004), (1_005, 1_005)] {
            let from = world.seen.from(head, settled);
            assert!(from <= head + 1 - AGAIN_BLOCKS, "{from}");
            world.round(1, head, settled, &[]);
        }
        let since = world.cursor();
        world.round(1, 1_005, 1_005, &[1_002]);
        assert!(world.has_news(since), "a node that was behind kept it back");
        assert_eq!(Seen::default().from(1_000, 400), 401);
    }

    #[test]
    fn a_deadline_tells_once_it_is_settled_and_a_minute_longer() {
        let mut world = World::new();
        let since = world.cursor();
        world.round(1, 1_010, 1_006, &[]);
        assert!(!world.has_news_until(since, 2_006));
        world.round(1, 1_011, 1_007, &[]);
        assert!(world.has_news_until(since, 2_006));
        let since = world.cursor();
        assert!(!world.has_news_until(since, 2_006));
        world.round(1, 1_012, 1_008, &[]);
        assert!(world.has_news_until(since, 2_006));
        world.round(1, 1_100, 1_096, &[]);
        let since = world.cursor();
        world.round(1, 1_101, 1_097, &[]);
        assert!(!world.has_news_until(since, 2_006));
    }

    #[test]
    fn an_escrow_has_an_unsettled_event_until_it_is_settled_and_a_proxy_never() {
        let mut world = World::new();
        let payment = world.payment();
        world.round_of(false, 1, 1_001, 997, &[1_001]);
        assert!(!world.seen.has_unsettled_event(payment), "anyone can have a proxy say any id");
        world.round(1, 1_002, 998, &[1_002]);
        assert!(world.seen.has_unsettled_event(payment));
        world.round(1, 1_006, 1_002, &[1_002]);
        assert!(!world.seen.has_unsettled_event(payment));
    }

    #[test]
    fn rounds_that_fail_wake_nobody_before_they_are_many_and_then_not_all_at_once() {
        let mut world = World::new();
        let since = world.cursor();
        for _ in 1..MISSES_MAX {
            world.seen.miss();
            assert!(!world.has_news(since));
        }
        world.seen.miss();
        let woken = (0..SPREAD_ROUNDS).filter(|_| {
            let since = world.cursor();
            world.round(1, 1_001, 997, &[]);
            world.has_news(since)
        });
        assert!(woken.count() <= 1);
        assert!(world.has_news(since));
    }

    #[test]
    fn everybody_has_a_turn_though_rounds_that_do_not_know_all_go_on() {
        const TURNS: usize = 3;
        let mut world = World::new();
        let payments: Vec<Hash32> = (0..=u8::MAX).map(|first| Hash32([first; 32])).collect();
        let mut turns = vec![0; payments.len()];
        for _ in 0..TURNS as u64 * SPREAD_ROUNDS {
            let (chain_id, payment_id, since) = (&world.chain_id.clone(), &world.payment_id.clone(), world.cursor());
            world.seen.head = None;
            world.round(1, 1_001, 997, &[]);
            let waiting = Waiting { chain_id, payment_id, since, deadline: u64::MAX, is_pushed: false };
            for (turns, payment) in turns.iter_mut().zip(&payments) {
                *turns += usize::from(world.seen.has_news(*payment, &waiting));
            }
        }
        assert_eq!(turns, vec![TURNS; payments.len()]);
    }

    #[test]
    fn a_liar_can_name_any_number() {
        let mut world = World::new();
        for (head, settled) in [(u64::MAX, 1_000), (0, 0), (u64::MAX, u64::MAX), (1_001, 1_001)] {
            let from = world.seen.from(head, settled);
            let (head, settled) =
                (Block { time: 0, number: head, ..block(0, 1) }, Block { time: 0, number: settled, ..block(0, 1) });
            world.seen.apply(from, head, settled, Vec::new());
            assert!(!world.seen.has_unsettled_event(world.payment()));
        }
    }

    #[test]
    fn what_is_long_ago_tells() {
        let mut world = World::new();
        let since = world.cursor();
        for _ in 0..=KNOWN_ROUNDS {
            assert!(!world.has_news(since));
            world.round(1, 1_001, 997, &[]);
        }
        assert!(world.has_news(since));
    }
}
