//! Several simulated nodes of one chain: one that lies settles nothing and moves no money, and the same calls are made each time.

use std::{
    collections::BTreeSet,
    slice::from_ref,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Result;
use tokio::time::Instant;

use chains_tron::node::Node;
use sagas::ports::{Chains, DepositState};
use simulation::{
    chain::Dropped,
    random::RandomSource,
    tron::{BLOCK_MS, SharedTron, TronOutcome, TronTransport, TronView},
};

use crate::{faults::weather, support::*};

/// What was asked of which node, in order.
type Calls = Arc<Mutex<Vec<(usize, String)>>>;

/// A connection to nodes of these kinds.
fn connect(chain: &SharedTron, kinds: &[TronView], calls: &Calls) -> Result<Node> {
    let nodes = kinds.iter().copied().enumerate().map(|(number, kind)| {
        let calls = calls.clone();
        TronTransport::new(chain.clone(), RPC_TIMEOUT, move |path| {
            calls.lock().unwrap().push((number, path.to_owned()));
            TronOutcome::Deliver(kind)
        })
    });
    Ok(TronTransport::connect_all(nodes, &config(chain)?)?)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lies_about_what_is_solidified_settles_nothing_beside_an_honest_one() -> Result<()> {
    let mut logs = Vec::new();
    for _ in 0..2 {
        let chain = chain(0)?.shared();
        mine(&chain, 30)?;
        let (honest, liar) = (TronView::Honest, TronView::LyingHead { ahead: 3 });
        let calls = Calls::default();
        let alone = |kind| connect(&chain, &[kind], &calls);
        let (settled, head) = (alone(honest)?.settled().await?, alone(honest)?.head().await?);
        assert_eq!(alone(liar)?.settled().await?, head, "one node is believed");
        assert_ne!(settled, head);
        for kinds in [[honest, liar], [liar, honest]] {
            let node = connect(&chain, &kinds, &calls)?;
            assert_eq!((node.settled().await?, node.head().await?), (settled, head));
        }
        let late = TronView::LateSolidified { blocks: 2 };
        let node = connect(&chain, &[honest, late], &calls)?;
        assert_eq!(node.settled().await?.number, settled.number - 2);
        logs.push(calls.lock().unwrap().clone());
    }
    assert!(!logs[0].is_empty());
    assert_eq!(logs[0], logs[1], "the same calls in the same order");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deposit_on_a_dropped_branch_is_not_secured_by_one_node_that_has_it() -> Result<()> {
    let world = World::new()?;
    lock(&world.source).set_solidified_lag(6);
    let payment = world.payment("order").await?;
    let order = payment.deposit();
    let prepared = reservation(&world.chains, &order, 1).await?;
    world.chains.broadcast(&prepared).await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    // Deposit and reservation are left with their blocks, and no honest node knows them any more.
    {
        let mut source = lock(&world.source);
        let depth = source.head().number - source.solidified().number;
        source.reorganise(depth, Dropped::Forgotten)?;
    }
    assert_eq!(lock(&world.source).payment_events(payment.id()).deposited, 0);
    let calls = Calls::default();
    for kinds in [[TronView::Honest, TronView::OnFork], [TronView::OnFork, TronView::Honest]] {
        let chains = adapter(connect(&world.source, &kinds, &calls)?, TestClock(Instant::now()))?;
        for _ in 0..30 {
            let state = chains.deposit_state(&order, from_ref(&prepared)).await;
            assert!(!matches!(state, Ok(DepositState::Secured(_) | DepositState::Stranded(_))), "{state:?}");
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    }
    Ok(())
}

/// Three nodes of which one at a time suffers something, as `seed` draws it; the calls, and when each was made.
async fn pay_over_three(seed: u64) -> Result<Vec<(u128, usize, String)>> {
    let world = World::new()?;
    let (log, begun) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let nodes = (0..3).map(|number| {
        let (log, random) = (log.clone(), RandomSource::new(seed, &format!("node {number}")));
        TronTransport::new(world.source.clone(), RPC_TIMEOUT, move |path| {
            log.lock().unwrap().push((begun.elapsed().as_millis(), number, path.to_owned()));
            weather(&random, 250)
        })
    });
    let node = TronTransport::connect_all(nodes, &config(&world.source)?)?;
    let chains = adapter(node, world.clock)?;
    let payment = world.payment("order").await?;
    secure(&chains, &payment.deposit()).await?;
    assert_eq!(lock(&world.source).payment_events(payment.id()).deposited, 1);
    assert_conserved(&lock(&world.source));
    let log = log.lock().unwrap().clone();
    Ok(log)
}

#[tokio::test(start_paused = true)]
async fn three_nodes_that_fail_in_turn_stop_no_payment_and_a_seed_is_one_run() -> Result<()> {
    for seed in 1..4 {
        let first = pay_over_three(seed).await?;
        assert_eq!(first, pay_over_three(seed).await?, "seed {seed}");
        let asked: BTreeSet<_> = first.iter().map(|(_, number, _)| *number).collect();
        assert_eq!(asked.len(), 3, "each is asked");
    }
    Ok(())
}

/// Milliseconds until a payment is in escrow at its depth, over nodes of these kinds.
async fn secured_within(kinds: &[TronView]) -> Result<u128> {
    let world = World::new()?;
    let chains = adapter(connect(&world.source, kinds, &Calls::default())?, world.clock)?;
    let payment = world.payment("order").await?;
    let begun = Instant::now();
    secure(&chains, &payment.deposit()).await?;
    Ok(begun.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn one_of_three_nodes_that_lags_delays_a_payment_by_little_more_than_its_lag() -> Result<()> {
    let usual = secured_within(&[TronView::Honest; 3]).await?;
    for blocks in [1, 4] {
        for view in [TronView::Lagging { blocks }, TronView::LateSolidified { blocks }] {
            let took = secured_within(&[TronView::Honest, TronView::Honest, view]).await?;
            let most = usual + 2 * u128::from(blocks * BLOCK_MS.unsigned_abs()) + 6_000;
            assert!(took <= most, "{view:?}: {took} ms instead of {usual} ms");
        }
    }
    Ok(())
}
