//! Following the events of all payments on one chain, so that a payment need not be looked at in every block.
//!
//! Each round asks once for what the escrows and proxies said in the newest blocks, and remembers whom it concerns until that
//! is settled. All of it is a hint for when to look: what a node invents costs a look, and what it keeps back is found by
//! whoever looks without a hint.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use alloy::{
    primitives::{Address, B256, U64},
    rpc::types::Log,
};
use serde_json::json;
use tokio::sync::watch;

use sagas::ports::{Moment, Transient, Waiting};

use super::{
    contracts::{address, word},
    node::{BlockRef, Node},
    rpc::Fault,
};
use crate::config::ChainConfig;

/// Blocks below the newest that are asked about again: a node may have been behind, and the newest blocks change most.
const AGAIN_BLOCKS: u64 = 8;
/// More blocks than that are not asked about, but everyone looks; public nodes allow so many without complaint.
const RANGE_BLOCKS_MAX: u64 = 2_000;
/// Rounds in which a payment is looked at after something happened to it: another node than the one that told may answer,
/// and be behind.
const ROUNDS: u64 = 3;
/// Rounds for which it is known to whom something happened.
const KNOWN_ROUNDS: u64 = 64;
/// Most events that are remembered; beyond that everyone looks.
const EVENTS_MAX: usize = 100_000;
/// For so long after a deadline every round tells, in seconds of the chain: as with [`ROUNDS`].
const DEADLINE_SECONDS: u64 = 60;

/// An event: whom it concerns, and the hash of its block.
type Event = (B256, B256);

/// What is known of one chain.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    contracts: BTreeSet<Address>,
    seen: Mutex<Seen>,
    /// Held while a round lasts.
    at_work: tokio::sync::Mutex<()>,
    rounds: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Seen {
    round: u64,
    /// The newest block that was asked about, in vain or not.
    asked: Option<BlockRef>,
    /// The newest block up to which everything is known.
    head: Option<BlockRef>,
    settled: u64,
    settled_time: u64,
    /// Events in blocks that are not settled, by the number of the block.
    unsettled: BTreeMap<u64, BTreeSet<Event>>,
    /// When something last happened to a payment.
    touched: BTreeMap<B256, u64>,
    /// When it was last unknown what happened to whom.
    unclear: u64,
}

impl Lookout {
    pub(super) fn new(config: &ChainConfig) -> Self {
        let contracts = [&config.escrow_contract, &config.fulfillment_proxy];
        let contracts =
            contracts.into_iter().chain(&config.trusted_escrow_contracts).chain(&config.trusted_fulfillment_proxies);
        Self { contracts: contracts.filter_map(|text| address(text).ok()).collect(), ..Self::default() }
    }

    // A panic while it is held leaves at worst a hint too many or too few.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen so far; `None` where the events of `contract` are not followed.
    pub(super) fn moment(&self, contract: &str) -> Option<Moment> {
        let is_followed = address(contract).is_ok_and(|contract| self.contracts.contains(&contract));
        let seen = self.seen();
        is_followed.then_some(Moment { round: seen.round, settled: seen.settled_time })
    }

    /// Changes with each round that is over.
    pub(super) fn rounds(&self) -> watch::Receiver<u64> {
        self.rounds.subscribe()
    }

    /// Whether in the rounds since something happened that a payment waits for.
    pub(super) fn has_news(&self, waiting: &Waiting<'_>) -> bool {
        self.seen().has_news(waiting)
    }
}

impl Seen {
    fn has_news(&self, waiting: &Waiting<'_>) -> bool {
        let Waiting { since, deadline, is_pushed, .. } = *waiting;
        if self.round <= since.round {
            return false;
        }
        let payment = word(waiting.payment_id.on_chain());
        let speaks = |events: &BTreeSet<Event>| {
            events.range((payment, B256::ZERO)..).next().is_some_and(|(concerned, _)| *concerned == payment)
        };
        self.unclear > since.round
            || self.round > since.round + KNOWN_ROUNDS
            || self.touched.get(&payment).is_some_and(|at| at + ROUNDS > since.round)
            || (self.settled_time > deadline && since.settled <= deadline.saturating_add(DEADLINE_SECONDS))
            || (is_pushed && !self.unsettled.values().any(speaks))
    }

    /// Takes the events of the blocks from `from` to `head` in.
    fn take_in(&mut self, from: u64, head: BlockRef, settled: BlockRef, events: Vec<(u64, Event)>) {
        self.round += 1;
        let mut found: BTreeMap<u64, BTreeSet<Event>> = BTreeMap::new();
        for (number, event) in events {
            found.entry(number).or_default().insert(event);
        }
        let before: BTreeSet<Event> = self.unsettled.range(from..).flat_map(|(_, events)| events).copied().collect();
        let now: BTreeSet<Event> = found.values().flatten().copied().collect();
        // What came, and what a reorganisation took away.
        for (concerned, _) in before.symmetric_difference(&now) {
            self.touched.insert(*concerned, self.round);
        }
        self.unsettled.split_off(&from);
        self.unsettled.append(&mut found);
        let above = self.unsettled.split_off(&(settled.number + 1));
        for (concerned, _) in std::mem::replace(&mut self.unsettled, above).into_values().flatten() {
            self.touched.insert(concerned, self.round);
        }
        let round = self.round;
        self.touched.retain(|_, at| *at + KNOWN_ROUNDS > round);
        if self.unsettled.values().map(BTreeSet::len).sum::<usize>() > EVENTS_MAX {
            self.unsettled.clear();
            self.unclear = round;
        }
        if self.head.replace(head).is_none() {
            // What was settled before this round is not among the events.
            self.unclear = round;
        }
        // One node may be behind another.
        self.settled = self.settled.max(settled.number);
        self.settled_time = self.settled_time.max(settled.time);
    }

    /// What happened is unknown in this round.
    fn miss(&mut self) {
        self.round += 1;
        self.unclear = self.round;
    }
}

impl Node {
    /// Sees what happened up to `head`, once. When it can't be seen, everybody has to look.
    pub(super) async fn look_out(&self, head: BlockRef) {
        let lookout = self.lookout();
        let _at_work = lookout.at_work.lock().await;
        if lookout.seen().asked.replace(head) == Some(head) {
            return;
        }
        let news = self.news(head).await;
        let round = {
            let mut seen = lookout.seen();
            match news {
                Ok(News { from, settled, events }) => seen.take_in(from, head, settled, events),
                Err(fault) => {
                    tracing::debug!(chain_id = %self.chain_id(), %fault, "events of new blocks unknown");
                    seen.miss();
                }
            }
            seen.round
        };
        lookout.rounds.send_replace(round);
    }

    async fn news(&self, head: BlockRef) -> Result<News, Transient> {
        let settled = self.settled().await?;
        let from = {
            let mut seen = self.lookout().seen();
            let last = seen.head.map_or(0, |last| last.number.min(head.number));
            let from = (last + 1).saturating_sub(AGAIN_BLOCKS).max(seen.settled.min(settled.number) + 1);
            let from = if seen.head.is_none() { from.max(settled.number + 1) } else { from };
            if head.number.saturating_sub(from) > RANGE_BLOCKS_MAX {
                // The next round begins anew.
                seen.head = None;
            }
            from.max(head.number.saturating_sub(RANGE_BLOCKS_MAX))
        };
        if from > head.number {
            return Ok(News { from, settled, events: Vec::new() });
        }
        let contracts = &self.lookout().contracts;
        let filter = json!({"fromBlock": U64::from(from), "toBlock": U64::from(head.number), "address": contracts});
        let logs: Result<Vec<Log>, Fault> = self.request("eth_getLogs", (filter,)).await;
        let events = logs?.into_iter().filter(|log| !log.removed && contracts.contains(&log.address()));
        let events = events.filter_map(|log| {
            let number = log.block_number.filter(|number| (from..=head.number).contains(number))?;
            Some((number, (*log.topics().get(1)?, log.block_hash?)))
        });
        Ok(News { from, settled, events: events.collect() })
    }
}

/// The events of all blocks from one on, with the numbers of their blocks.
struct News {
    from: u64,
    settled: BlockRef,
    events: Vec<(u64, Event)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::{ChainId, PaymentId};

    fn block(number: u64, fork: u8) -> BlockRef {
        BlockRef { number, hash: B256::repeat_byte(fork), time: 1_000 + number }
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
            world.round(1, 10, 6, &[]);
            world
        }

        fn moment(&self) -> Moment {
            Moment { round: self.seen.round, settled: self.seen.settled_time }
        }

        /// A round that finds the payment's events in these blocks, of the branch `fork`.
        fn round(&mut self, fork: u8, head: u64, settled: u64, events: &[u64]) {
            let from = (self.seen.head.map_or(0, |head| head.number) + 1).saturating_sub(AGAIN_BLOCKS);
            let payment = word(self.payment_id.on_chain());
            let events = events.iter().filter(|number| **number >= from);
            let events = events.map(|number| (*number, (payment, B256::repeat_byte(fork)))).collect();
            self.seen.take_in(from, block(head, fork), block(settled, fork), events);
        }

        fn told(&self, since: Moment, deadline: u64, is_pushed: bool) -> bool {
            let (chain_id, payment_id) = (&self.chain_id, &self.payment_id);
            self.seen.has_news(&Waiting { chain_id, payment_id, since, deadline, is_pushed })
        }

        fn has_news(&self, since: Moment) -> bool {
            self.told(since, u64::MAX, false)
        }
    }

    #[test]
    fn an_event_tells_when_it_comes_and_when_it_is_settled_and_in_the_rounds_after() {
        let mut world = World::new();
        let since = world.moment();
        world.round(1, 11, 7, &[]);
        assert!(!world.has_news(since), "a block without it");
        world.round(1, 12, 8, &[12]);
        assert!(world.has_news(since));
        for head in 13..13 + ROUNDS {
            let since = world.moment();
            assert!(!world.has_news(since), "nothing is new before the next round");
            world.round(1, head, 8, &[12]);
            assert!(world.has_news(since), "the node that was asked may have been behind");
        }
        let since = world.moment();
        world.round(1, 16, 11, &[12]);
        assert!(!world.has_news(since));
        world.round(1, 17, 12, &[12]);
        assert!(world.has_news(since), "settled");
    }

    #[test]
    fn what_a_reorganisation_takes_away_or_moves_tells() {
        let mut world = World::new();
        world.round(1, 12, 6, &[12]);
        for _ in 0..=ROUNDS {
            world.round(1, 12, 6, &[12]);
        }
        let since = world.moment();
        world.round(1, 12, 6, &[12]);
        assert!(!world.has_news(since));
        world.round(2, 12, 6, &[12]);
        assert!(world.has_news(since), "the same number in another block");
        for _ in 0..=ROUNDS {
            world.round(2, 12, 6, &[12]);
        }
        let since = world.moment();
        world.round(3, 13, 6, &[]);
        assert!(world.has_news(since), "gone");
    }

    #[test]
    fn a_deadline_tells_once_it_is_settled_and_a_minute_longer() {
        let mut world = World::new();
        let since = world.moment();
        world.round(1, 20, 16, &[]);
        assert!(!world.told(since, 1_016, false));
        world.round(1, 21, 17, &[]);
        assert!(world.told(since, 1_016, false));
        let since = world.moment();
        assert!(!world.told(since, 1_016, false));
        world.round(1, 22, 18, &[]);
        assert!(world.told(since, 1_016, false));
        world.round(1, 100, 96, &[]);
        let since = world.moment();
        world.round(1, 101, 97, &[]);
        assert!(!world.told(since, 1_016, false));
    }

    #[test]
    fn who_is_pushed_looks_at_every_block_until_the_contract_speaks() {
        let mut world = World::new();
        let since = world.moment();
        assert!(!world.told(since, u64::MAX, true));
        world.round(1, 11, 6, &[]);
        assert!(world.told(since, u64::MAX, true));
        world.round(1, 12, 6, &[12]);
        for _ in 0..=ROUNDS {
            world.round(1, 12, 6, &[12]);
        }
        let since = world.moment();
        world.round(1, 13, 6, &[12]);
        assert!(!world.told(since, u64::MAX, true), "it has to settle now");
    }

    #[test]
    fn what_could_not_be_seen_and_what_is_long_ago_tells() {
        let mut world = World::new();
        let since = world.moment();
        world.seen.miss();
        assert!(world.has_news(since));
        let since = world.moment();
        for _ in 0..=KNOWN_ROUNDS {
            assert!(!world.has_news(since));
            world.round(1, 11, 7, &[]);
        }
        assert!(world.has_news(since));
    }
}
