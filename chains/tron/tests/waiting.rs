//! Payments that wait, and what that costs at the node: the chain's events are followed once for all of them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::json;
use tokio::sync::watch;

use chains_tron::adapter::TronChain;
use events::Hash32;
use sagas::ports::{Chains, DeliveryOrder, DeliveryState, DepositOrder, ReassignmentState, Reservation, Waiting};

use crate::support::{
    LAG, WITHIN, World, account,
    liar::{Heard, Liar},
    payment::{CAP, spend},
};
use crate::{
    belief::{calls, words},
    evm_support::reassignment::reassignment,
};

/// Blocks in which the engine looks at a payment without a hint: `UNSEEN_MAX` in blocks of three seconds.
const UNSEEN_BLOCKS: u64 = 40;
/// Blocks for which nothing is delivered: five minutes.
const IDLE_BLOCKS: u64 = 100;
/// Rounds over which it is spread that everybody looks, and one more.
const BEGIN_BLOCKS: u64 = 9;
/// What a payment that waits may cost besides the first, over its whole life.
const CALLS_MAX: u64 = 12;

/// A port that sees the chain through a node that counts, and how many blocks were made.
struct Counted {
    world: World,
    liar: Liar,
    chains: Arc<TronChain>,
    blocks: watch::Sender<u64>,
}

impl Counted {
    async fn start() -> Result<Self> {
        Self::lagging(LAG).await
    }

    /// With so many blocks on top of a solidified one.
    async fn lagging(lag: u64) -> Result<Self> {
        let world = World::lagging(lag).await?;
        let liar = Liar::before(&world.tron.url()).await?;
        let chains = Arc::new(world.chains_at(&liar.url));
        Ok(Self { world, liar, chains, blocks: watch::Sender::new(0) })
    }

    /// Looks at the delivery as the engine does, until it is final. How often it looked.
    async fn follow(&self, order: &DeliveryOrder) -> Result<u64> {
        let (chain_id, mut blocks) = (order.destination.asset().chain(), self.blocks.subscribe());
        for looks in 1.. {
            let since = self.chains.cursor(chain_id, &order.proxy);
            let unseen = *blocks.borrow() + UNSEEN_BLOCKS;
            // A fault ends nothing: it is looked at again, as after any hint.
            if let Ok(DeliveryState::Final(_)) = self.chains.delivery_state(order).await {
                return Ok(looks);
            }
            let Some(since) = since else {
                self.chains.next_block(chain_id).await;
                continue;
            };
            let (payment_id, deadline) = (&order.payment_id, order.fulfill_by);
            let waiting = Waiting { chain_id, payment_id, since, deadline, is_pushed: false };
            tokio::select! {
                () = self.chains.next_event(&waiting) => {}
                _ = blocks.wait_for(|blocks| *blocks >= unseen) => {}
            }
        }
        unreachable!("it looks until it is final")
    }

    /// The rounds of the log watcher.
    fn rounds(&self, order: &DeliveryOrder) -> u64 {
        self.chains.cursor(order.destination.asset().chain(), &order.proxy).map_or(u64::MAX, |cursor| cursor.round)
    }

    /// Waits until blocks that were made are seen; makes another where nobody waited for them.
    async fn seen(&self, order: &DeliveryOrder, before: u64) -> Result<()> {
        let started = std::time::Instant::now();
        while self.rounds(order) <= before {
            ensure!(started.elapsed() < WITHIN, "no block is seen");
            let round = async {
                while self.rounds(order) <= before {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            if tokio::time::timeout(Duration::from_secs(2), round).await.is_err() {
                self.world.mine(1).await?;
            }
        }
        self.blocks.send_modify(|blocks| *blocks += 1);
        Ok(())
    }

    async fn block(&self, order: &DeliveryOrder) -> Result<()> {
        let before = self.rounds(order);
        self.world.mine(1).await?;
        self.seen(order, before).await
    }

    /// Whether a payment that waits from now on is woken within so many blocks, where something happens to it before them.
    async fn is_woken<H: Future<Output = Result<()>>>(
        &self,
        order: &DeliveryOrder,
        is_pushed: bool,
        happens: H,
        blocks: u64,
    ) -> Result<bool> {
        let chain_id = order.destination.asset().chain();
        let since = self.chains.cursor(chain_id, &order.proxy).context("the proxy is not followed")?;
        let waiting = Waiting { chain_id, payment_id: &order.payment_id, since, deadline: u64::MAX, is_pushed };
        let pass = async {
            happens.await?;
            for _ in 0..blocks {
                self.block(order).await?;
            }
            anyhow::Ok(())
        };
        tokio::select! {
            biased;
            () = self.chains.next_event(&waiting) => Ok(true),
            passed = pass => passed.map(|()| false),
        }
    }

    /// Waits for so long that the beginning of following the chain is over for everybody.
    async fn begin(&self, order: &DeliveryOrder) -> Result<()> {
        for _ in 0..BEGIN_BLOCKS {
            self.is_woken(order, false, async { Ok(()) }, 1).await?;
        }
        ensure!(!self.is_woken(order, false, async { Ok(()) }, BEGIN_BLOCKS).await?, "woken by nothing");
        Ok(())
    }

    /// Calls since the last look, but for those of the one poller that looks for the newest block whoever waits.
    fn calls(&self) -> Vec<Heard> {
        let is_poll = |heard: &Heard| heard.path == "wallet/getblock" && heard.body == json!({"detail": false});
        self.liar.heard().into_iter().filter(|heard| !is_poll(heard)).collect()
    }
}

/// The calls for so many payments over the whole of their waiting, each of them delivered in one of `blocks` blocks of its own.
async fn calls_of_waiting(payments: usize, blocks: u64) -> Result<u64> {
    let counted = Counted::start().await?;
    let mut orders = Vec::new();
    for _ in 0..payments {
        orders.push(counted.world.delivery(&counted.world.order(36_000).await?));
    }
    let deliver = async {
        for _ in orders.len()..usize::try_from(IDLE_BLOCKS + blocks)? {
            counted.block(&orders[0]).await?;
        }
        for order in &orders {
            let before = counted.rounds(order);
            counted.world.fulfill(order).await?;
            counted.seen(order, before).await?;
        }
        for _ in 0..LAG {
            counted.block(&orders[orders.len() - 1]).await?;
        }
        anyhow::Ok(())
    };
    let (looks, ()) = tokio::try_join!(try_join_all(orders.iter().map(|order| counted.follow(order))), deliver)?;
    let calls = counted.calls();
    let mut by_path = std::collections::BTreeMap::<&str, u64>::new();
    for heard in &calls {
        *by_path.entry(&heard.path).or_default() += 1;
    }
    println!("{payments} payments: looks {looks:?}, {by_path:?}");
    Ok(u64::try_from(calls.len())?)
}

#[tokio::test]
async fn a_further_payment_that_waits_costs_a_dozen_calls() -> Result<()> {
    const FURTHER: u64 = 10;
    // As many blocks for both: what following the chain costs is not counted to payments.
    let one = calls_of_waiting(1, 1 + FURTHER).await?;
    let many = calls_of_waiting(usize::try_from(1 + FURTHER)?, 1 + FURTHER).await?;
    println!("{one} calls for one payment in {IDLE_BLOCKS} blocks and more, {many} for {}", 1 + FURTHER);
    assert!(many <= one + FURTHER * CALLS_MAX, "{one} calls for one payment, {many} for {}", 1 + FURTHER);
    Ok(())
}

#[tokio::test]
async fn an_event_that_only_the_solidified_state_shows_tells_all_the_same() -> Result<()> {
    let counted = Counted::start().await?;
    let order = counted.world.delivery(&counted.world.order(36_000).await?);
    counted.begin(&order).await?;
    counted.liar.tell(|path, _, mut truth| {
        if path == "wallet/gettransactioninfobyblocknum" {
            let infos = truth.as_array_mut().into_iter().flatten();
            infos.filter_map(|info| info.as_object_mut()).for_each(|info| drop(info.remove("log")));
        }
        truth
    });
    let fulfil = async { counted.world.fulfill(&order).await.map(drop) };
    assert!(!counted.is_woken(&order, false, fulfil, LAG - 1).await?, "the newest state keeps it back");
    assert!(counted.is_woken(&order, false, async { Ok(()) }, 2).await?);
    let state = counted.chains.delivery_state(&order).await?;
    assert!(matches!(state, DeliveryState::Final(_)), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn an_event_tells_though_the_node_that_is_asked_for_results_is_always_a_block_behind() -> Result<()> {
    let counted = Counted::start().await?;
    let (world, deposit) = (&counted.world, counted.world.order(36_000).await?);
    let order = world.delivery(&deposit);
    counted.begin(&order).await?;
    let mut asked = BTreeSet::new();
    counted.liar.tell(move |path, request, truth| {
        let is_behind = path == "wallet/gettransactioninfobyblocknum" && asked.insert(request["num"].as_u64());
        if is_behind { json!([]) } else { truth }
    });
    // In each block is a transaction; none of them is solidified.
    let happens = async {
        for block in 0..LAG {
            let before = counted.rounds(&order);
            match block {
                0 => drop(world.fulfill(&order).await?),
                _ => world.dev.mint(&world.token, &account(&world.payer), U256::from(block)).await?,
            }
            counted.seen(&order, before).await?;
        }
        anyhow::Ok(())
    };
    assert!(counted.is_woken(&order, false, happens, 0).await?);
    let state = counted.chains.delivery_state(&order).await?;
    assert!(matches!(state, DeliveryState::Seen(_)), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn an_event_tells_though_the_solidified_state_tells_no_blocks_results() -> Result<()> {
    let counted = Counted::start().await?;
    let order = counted.world.delivery(&counted.world.order(36_000).await?);
    counted.begin(&order).await?;
    counted.liar.tell(|path, _, truth| match path {
        "walletsolidity/gettransactioninfobyblocknum" => json!({"nothing": "to read"}),
        _ => truth,
    });
    assert!(!counted.is_woken(&order, false, async { Ok(()) }, 2 * BEGIN_BLOCKS).await?, "no round fails");
    let fulfil = async { counted.world.fulfill(&order).await.map(drop) };
    assert!(counted.is_woken(&order, false, fulfil, 2).await?);
    let state = counted.chains.delivery_state(&order).await?;
    assert!(matches!(state, DeliveryState::Seen(_)), "{state:?}");
    assert!(counted.is_woken(&order, false, async { Ok(()) }, LAG + 1).await?, "it is settled");
    Ok(())
}

#[tokio::test]
async fn a_block_whose_results_cannot_be_read_is_passed_over_and_everybody_looks() -> Result<()> {
    let counted = Counted::start().await?;
    let order = counted.world.delivery(&counted.world.order(36_000).await?);
    counted.begin(&order).await?;
    let unreadable = counted.world.node().head().await?.number + 1;
    counted.liar.tell(move |path, request, truth| {
        let is_hidden = path.ends_with("gettransactioninfobyblocknum") && request["num"] == unreadable;
        if is_hidden { json!({"nothing": "to read"}) } else { truth }
    });
    let fulfil = async { counted.world.fulfill(&order).await.map(drop) };
    assert!(counted.is_woken(&order, false, fulfil, 3 + BEGIN_BLOCKS).await?);
    // What comes after it is followed again.
    counted.begin(&order).await
}

#[tokio::test]
async fn what_is_pushed_is_brought_again_though_the_payers_own_deposit_is_in_a_block() -> Result<()> {
    // The block after those in which it is seen is not the one that settles it.
    let counted = Counted::lagging(2 * LAG).await?;
    let (world, nothing) = (&counted.world, || async { Ok(()) });
    let deposit = world.order(36_000).await?;
    let (order, own) = (world.delivery(&deposit), spend(&deposit));
    if let Some(approval) = &own.approval {
        world.bring(approval).await?;
    }
    counted.begin(&order).await?;
    assert!(counted.is_woken(&order, true, nothing(), 2).await?, "nothing is in a block");
    // All that is in a block is seen.
    assert!(!counted.is_woken(&order, false, nothing(), 1).await?);
    let happens = async { world.bring(&own.deposit).await.map(drop) };
    assert!(counted.is_woken(&order, false, happens, 2).await?);
    assert!(counted.chains.deposit_mined(&deposit, &[]).await?.is_some());
    assert!(!counted.is_woken(&order, false, nothing(), 1).await?, "the deposit was shown, and is not settled");
    assert!(counted.is_woken(&order, true, nothing(), 2).await?, "the reservation may be lost");
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_only_a_block_told_of_is_not_seen_and_no_fault() -> Result<()> {
    let counted = Counted::start().await?;
    let order = counted.world.delivery(&counted.world.order(36_000).await?);
    counted.begin(&order).await?;
    let fulfil = async { counted.world.fulfill(&order).await.map(drop) };
    assert!(counted.is_woken(&order, false, fulfil, 2).await?);
    // Whether it is woken or not: it is settled then.
    for _ in 0..LAG + 2 {
        counted.is_woken(&order, false, async { Ok(()) }, 1).await?;
    }
    counted.liar.tell(|path, request, mut truth| {
        let mut found = words(&truth);
        if calls(path, request, "fulfilledAsOf(bytes32)") && found.len() == 3 {
            found[0] = "0".repeat(64);
            truth["constant_result"][0] = json!(found.concat());
        }
        truth
    });
    assert_eq!(counted.chains.delivery_state(&order).await?, DeliveryState::NotSeen);
    counted.liar.be_honest();
    let state = counted.chains.delivery_state(&order).await;
    assert!(matches!(state, Ok(DeliveryState::Final(_))), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn a_reassignment_wakes_who_follows_it() -> Result<()> {
    let counted = Counted::start().await?;
    let (world, chains) = (&counted.world, counted.chains.clone());
    let mut first = world.order(36_000).await?;
    first.reservation.fulfill_by = world.time().await? + 60;
    world.secured(&chains, &first).await?;
    let next = Reservation {
        quote_hash: Hash32([10; 32]),
        fulfill_by: first.escrow.fulfillment_deadline,
        ..first.reservation.clone()
    };
    let next = DepositOrder { reservation: next, ..first.clone() };
    world.advance(Duration::from_secs(61)).await?;
    world.solidify().await?;
    let order = reassignment(&first, &next, CAP, world.attest(&world.non_delivery(&first)));
    let delivery = world.delivery(&next);
    counted.begin(&delivery).await?;
    let happens = async {
        let prepared = chains.prepare_reassignment(&order, 1).await?;
        Ok(chains.broadcast(&prepared).await?)
    };
    assert!(counted.is_woken(&delivery, false, happens, 2).await?, "it is in a block");
    for _ in 0..LAG + 2 {
        counted.is_woken(&delivery, false, async { Ok(()) }, 1).await?;
    }
    let state = chains.reassignment_state(&order).await?;
    ensure!(matches!(state, ReassignmentState::Reassigned(_)), "{state:?}");
    Ok(())
}
