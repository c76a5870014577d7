//! Payments that wait, and what that costs at the node: their records are read together.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::json;
use tokio::sync::watch;

use chains_solana::{adapter::SolanaChain, program};
use gateway_program::host;
use sagas::ports::{Chains, DeliveryOrder, DeliveryState, Waiting};

use crate::{
    evm_support::liar::Liar,
    support::{WITHIN, World},
};

/// Rounds in which the engine looks at a payment without a hint: `UNSEEN_MAX` in rounds of a second.
const UNSEEN_ROUNDS: u64 = 120;
/// Rounds for which nothing is delivered: five minutes.
const IDLE_ROUNDS: u64 = 300;
/// What a payment that waits may cost besides the first, over its whole life.
const CALLS_MAX: u64 = 12;

/// A port that sees the cluster through a node that counts.
struct Counted {
    world: World,
    chain: SolanaChain,
    calls: Arc<Mutex<BTreeMap<String, u64>>>,
    /// The record watcher's rounds.
    rounds: watch::Sender<u64>,
}

impl Counted {
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        let liar = Liar::before(&world.surfnet.url()).await?;
        let calls = Arc::new(Mutex::new(BTreeMap::new()));
        let counted = calls.clone();
        liar.tell(move |request, truth| {
            let mut method = request["method"].as_str().unwrap_or_default().to_owned();
            if let Some(commitment) = request["params"].as_array().and_then(|params| params.last()?.get("commitment")) {
                method = format!("{method} {commitment}");
            }
            *counted.lock().unwrap().entry(method).or_default() += 1;
            truth
        });
        let chain = world.chain_at(&liar.url);
        Ok(Self { world, chain, calls, rounds: watch::Sender::new(0) })
    }

    /// Looks at the delivery as the engine does, until it is final. How often it looked.
    async fn follow(&self, order: &DeliveryOrder) -> Result<u64> {
        let (chain_id, mut rounds) = (order.destination.asset().chain(), self.rounds.subscribe());
        for looks in 1.. {
            let since = self.chain.cursor(chain_id, &order.proxy);
            let unseen = *rounds.borrow() + UNSEEN_ROUNDS;
            // A fault ends nothing: it is looked at again, as after any hint.
            if let Ok(DeliveryState::Final(_)) = self.chain.delivery_state(order).await {
                return Ok(looks);
            }
            let Some(since) = since else {
                self.chain.next_block(chain_id).await;
                continue;
            };
            let (payment_id, deadline) = (&order.payment_id, order.fulfill_by);
            let waiting = Waiting { chain_id, payment_id, since, deadline, is_pushed: false };
            tokio::select! {
                () = self.chain.next_event(&waiting) => {}
                _ = rounds.wait_for(|rounds| *rounds >= unseen) => {}
            }
        }
        unreachable!("it looks until it is final")
    }

    /// Waits for so many rounds of the record watcher.
    async fn pass(&self, order: &DeliveryOrder, rounds: u64) -> Result<()> {
        let round = || self.chain.cursor(order.destination.asset().chain(), &order.proxy).map(|cursor| cursor.round);
        let (begun, started) = (round(), Instant::now());
        while round() < begun.map(|begun| begun + rounds) {
            ensure!(started.elapsed() < WITHIN, "no round");
            self.rounds.send_replace(round().unwrap_or_default());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.rounds.send_replace(round().unwrap_or_default());
        Ok(())
    }
}

/// Calls by method for so many payments over the whole of their waiting, each of them delivered by itself, and the rounds.
async fn calls_of_waiting(payments: usize) -> Result<(BTreeMap<String, u64>, u64)> {
    let counted = Counted::start().await?;
    let mut orders = Vec::new();
    for _ in 0..payments {
        orders.push(counted.world.delivery(&counted.world.order(36_000).await?));
    }
    let program = program::parse_key(&counted.world.program)?;
    let deliver = async {
        counted.pass(&orders[0], IDLE_ROUNDS).await?;
        for order in &orders {
            counted.world.send(&[host::fulfill_native(&program, &program::fulfillment(order)?)]).await?;
        }
        anyhow::Ok(())
    };
    let (looks, ()) = tokio::try_join!(try_join_all(orders.iter().map(|order| counted.follow(order))), deliver)?;
    let calls = counted.calls.lock().unwrap().clone();
    let rounds = counted.chain.cursor(orders[0].destination.asset().chain(), &orders[0].proxy);
    let rounds = rounds.map_or(0, |cursor| cursor.round);
    println!("{payments} payments in {rounds} rounds: looks {looks:?}, {calls:?}");
    Ok((calls, rounds))
}

/// Calls other than those that each round makes, however many payments wait: how far the cluster is, and one for records.
fn calls_of_payments((calls, rounds): &(BTreeMap<String, u64>, u64)) -> u64 {
    let is_of_rounds = |method: &&String| method.starts_with("getSlot") || method.starts_with("getBlockHeight");
    let of_payments: u64 = calls.iter().filter(|(method, _)| !is_of_rounds(method)).map(|(_, calls)| calls).sum();
    of_payments.saturating_sub(*rounds)
}

#[tokio::test]
async fn a_further_payment_that_waits_costs_a_dozen_calls() -> Result<()> {
    const FURTHER: u64 = 10;
    let one = calls_of_waiting(1).await?;
    let many = calls_of_waiting(usize::try_from(1 + FURTHER)?).await?;
    let (of_one, of_many) = (calls_of_payments(&one), calls_of_payments(&many));
    println!("besides the rounds {of_one} calls for one payment, {of_many} for {}", 1 + FURTHER);
    assert!(of_many <= of_one + FURTHER * CALLS_MAX, "{of_one} calls for one payment, {of_many} for {}", 1 + FURTHER);
    // How far the cluster is, is asked in each round, at most four times, and by whoever looks before the first.
    let settled = |(calls, _): &(BTreeMap<String, u64>, u64)| {
        let of = |method: &str| calls.get(method).copied().unwrap_or_default();
        of("getBlockHeight \"finalized\"") + of("getSlot \"finalized\"")
    };
    assert!(settled(&many) <= 4 * (many.1 + 1 + FURTHER), "{many:?}");
    Ok(())
}

#[tokio::test]
async fn records_are_read_though_a_provider_gives_few_accounts_in_a_call() -> Result<()> {
    /// With the clock.
    const ACCOUNTS_MAX: usize = 3;
    let world = World::start().await?;
    let liar = Liar::before(&world.surfnet.url()).await?;
    liar.tell(|request, truth| {
        let accounts = request["params"][0].as_array().map_or(0, Vec::len);
        if request["method"] == "getMultipleAccounts" && accounts > ACCOUNTS_MAX {
            let error = json!({"code": -32602, "message": "Too many inputs provided; max 3"});
            return json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
        }
        truth
    });
    let chain = world.chain_at(&liar.url);
    let counted = Counted { world, chain, calls: Arc::default(), rounds: watch::Sender::new(0) };
    let mut orders = Vec::new();
    for _ in 0..5 {
        orders.push(counted.world.delivery(&counted.world.order(36_000).await?));
    }
    let program = program::parse_key(&counted.world.program)?;
    let deliver = async {
        // Fewer than after which everybody looks.
        counted.pass(&orders[0], 6).await?;
        for order in &orders {
            counted.world.send(&[host::fulfill_native(&program, &program::fulfillment(order)?)]).await?;
        }
        anyhow::Ok(())
    };
    let followed = async { tokio::try_join!(try_join_all(orders.iter().map(|order| counted.follow(order))), deliver) };
    tokio::time::timeout(WITHIN, followed).await.context("nobody is told")??;
    Ok(())
}

#[tokio::test]
async fn what_strangers_send_to_a_records_address_tells_nobody() -> Result<()> {
    const SOL: u64 = 1_000_000_000;
    let counted = Counted::start().await?;
    let order = counted.world.delivery(&counted.world.order(36_000).await?);
    let program = program::parse_key(&counted.world.program)?;
    let terms = program::fulfillment(&order)?;
    let record = program::text(&host::fulfillment_address(&program, &terms.key(&program)).key);
    let (chain_id, payment_id, deadline) = (order.destination.asset().chain(), &order.payment_id, order.fulfill_by);
    let is_woken = async |rounds: u64| -> Result<bool> {
        let since = counted.chain.cursor(chain_id, &order.proxy).context("the program is not followed")?;
        let waiting = Waiting { chain_id, payment_id, since, deadline, is_pushed: false };
        tokio::select! {
            biased;
            () = counted.chain.next_event(&waiting) => Ok(true),
            passed = counted.pass(&order, rounds) => passed.map(|()| false),
        }
    };
    assert_eq!(counted.chain.delivery_state(&order).await?, DeliveryState::NotSeen);
    assert!(!is_woken(10).await?);
    counted.world.surfnet.airdrop(&record, SOL).await?;
    assert!(!is_woken(20).await?, "nothing but the program makes a record");
    counted.world.send(&[host::fulfill_native(&program, &terms)]).await?;
    assert!(is_woken(200).await?);
    let state = counted.chain.delivery_state(&order).await?;
    assert!(matches!(state, DeliveryState::Seen(_) | DeliveryState::Final(_)), "{state:?}");
    Ok(())
}
