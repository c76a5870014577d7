//! RPC faults as the adapters meet them: nodes that lag, fork and lie, calls that are lost, transactions that are stuck.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use alloy::primitives::{Address, B256, U256};
use anyhow::{Result, bail};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use chains::config::Depth;
use chains_evm::{
    calls::Call,
    deliveries::Deliveries,
    node::{At, Node},
    query::Query,
    wallet::{Patience, Wallet},
};
use sagas::ports::{Chains, DeliveryOrder, DeliveryState, DepositState, EscrowState, UNSEEN_MAX, Waiting};
use simulation::chain::{BaseFee, Dropped, NodeKind, RpcOutcome, SharedChain, SimTransport};

use crate::support::*;

/// A connection whose next calls all fare as the test says.
fn steered(chain: &SharedChain, depth: Depth) -> Result<(Node, Arc<Mutex<RpcOutcome>>)> {
    let outcome = Arc::new(Mutex::new(RpcOutcome::Deliver(NodeKind::Honest)));
    let config = lock(chain).config(depth, REFUND_DELAY);
    let steer = outcome.clone();
    let transport = SimTransport::new(chain.clone(), RPC_TIMEOUT, move |_| steer.lock().unwrap().clone());
    Ok((transport.connect(&config)?, outcome))
}

fn mine(chain: &SharedChain, blocks: u64) -> Result<()> {
    for _ in 0..blocks {
        let time = lock(chain).head().time + BLOCK_SECONDS;
        lock(chain).mine(time)?;
    }
    Ok(())
}

/// What waits, and how many transactions of the payer are mined.
fn progress(chain: &SharedChain) -> (Vec<B256>, u64) {
    let chain = lock(chain);
    (chain.pending(), chain.nonce(key(10).address()))
}

fn coins(from: Address, to: Address) -> Call {
    Call { from, to: Some(to), value: U256::from(1), data: Vec::new().into() }
}

#[tokio::test(start_paused = true)]
async fn nodes_show_what_they_see() -> Result<()> {
    let chain = chain(31_337)?.shared();
    lock(&chain).set_lags(1, 2);
    let payer = key(10);
    let hash = lock(&chain).submit(&payer, key(11).address(), U256::from(1), Vec::new().into())?;
    mine(&chain, 1)?;
    let (node, outcome) = steered(&chain, Depth::Finalized)?;
    assert_eq!(node.head().await?, lock(&chain).head());
    assert_eq!(Query::of(&node).receipt(hash).await?.map(|receipt| receipt.block_number), Some(1));

    // A node that is behind knows the transaction, but no block that holds it.
    steer(&outcome, RpcOutcome::Deliver(NodeKind::Lagging { blocks: 1 }));
    assert_eq!((node.head().await?.number, Query::of(&node).receipt(hash).await?), (0, None));
    assert!(Query::of(&node).knows(hash).await?);
    assert_eq!(Query::of(&node).nonce(payer.address(), At::Latest).await?, 0);
    assert_eq!(Query::of(&node).nonce(payer.address(), At::Pending).await?, 1);

    // What was settled before is below what a node that is further behind has.
    steer(&outcome, RpcOutcome::Deliver(NodeKind::Honest));
    mine(&chain, 4)?;
    assert_eq!(node.settled().await?, lock(&chain).finalized());
    steer(&outcome, RpcOutcome::Deliver(NodeKind::Lagging { blocks: 2 }));
    assert!(node.settled().await.is_err());

    // A node on the dropped branch has other blocks, and none of them for the honest ones.
    steer(&outcome, RpcOutcome::Deliver(NodeKind::Honest));
    let old = lock(&chain).head();
    lock(&chain).reorganise(2, Dropped::Pooled)?;
    let new = lock(&chain).head();
    steer(&outcome, RpcOutcome::Deliver(NodeKind::OnFork));
    assert_eq!(node.head().await?, old);
    assert!(Query::of(&node).nonce(payer.address(), At::Block(new)).await.is_err());
    steer(&outcome, RpcOutcome::Deliver(NodeKind::Honest));
    assert_eq!(Query::of(&node).nonce(payer.address(), At::Block(new)).await?, 1);
    assert!(Query::of(&node).nonce(payer.address(), At::Block(old)).await.is_err());

    // A liar has blocks that nothing can be read at, and nothing that is not final.
    steer(&outcome, RpcOutcome::Deliver(NodeKind::LyingHead { ahead: 3 }));
    let claimed = node.head().await?;
    assert_eq!((claimed.number, node.settled().await?), (new.number + 3, new));
    assert_eq!(node.block(claimed.number).await?, Some(claimed));
    assert_eq!(node.block(claimed.number + 1).await?, None);
    assert!(Query::of(&node).nonce(payer.address(), At::Block(claimed)).await.is_err());
    steer(&outcome, RpcOutcome::Deliver(NodeKind::Honest));
    assert!(node.settled().await.is_err(), "the truth is below the lie that was believed");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn calls_are_lost_before_or_after_their_effect() -> Result<()> {
    let chain = chain(31_337)?.shared();
    let (node, outcome) = steered(&chain, Depth::Finalized)?;
    let raw = {
        let mut other = self::chain(31_337)?;
        let hash = other.submit(&key(10), key(11).address(), U256::from(1), Vec::new().into())?;
        other.raw(hash).expect("it waits there")
    };
    node.head().await?;

    steer(&outcome, RpcOutcome::LoseRequest);
    let started = Instant::now();
    assert!(Query::of(&node).send(&raw).await.is_err());
    assert_eq!((started.elapsed(), lock(&chain).pending().len()), (RPC_TIMEOUT, 0));

    steer(&outcome, RpcOutcome::LoseAnswer(NodeKind::Honest));
    let started = Instant::now();
    assert!(Query::of(&node).send(&raw).await.is_err());
    assert_eq!((started.elapsed(), lock(&chain).pending().len()), (RPC_TIMEOUT, 1));

    // Sent again it is known, which is not a fault.
    let late = Duration::from_millis(400);
    steer(&outcome, RpcOutcome::Late(late, NodeKind::Honest));
    let started = Instant::now();
    Query::of(&node).send(&raw).await?;
    assert_eq!((started.elapsed(), lock(&chain).pending().len()), (late, 1));
    steer(&outcome, RpcOutcome::Late(2 * RPC_TIMEOUT, NodeKind::Honest));
    let started = Instant::now();
    assert!(node.head().await.is_err());
    assert_eq!(started.elapsed(), RPC_TIMEOUT);

    steer(&outcome, RpcOutcome::Error(-32_005, "limit exceeded".to_owned()));
    let fault = node.head().await.unwrap_err();
    assert!(fault.to_string().contains("limit exceeded") && fault.to_string().contains("-32005"), "{fault}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_too_cheap_waits_until_it_is_replaced() -> Result<()> {
    let world = World::new()?;
    let patience = Patience { reprice_after: Duration::from_secs(10), ..Patience::default() };
    let wallet = Wallet::new(world.source_node.clone(), key(12)).with_patience(patience);
    let call = coins(key(12).address(), key(11).address());
    let execution = wallet.execute("coins", &call);
    let dearer = async {
        let first = eventually("the transaction", || async { Ok(lock(&world.source).pending().first().copied()) });
        let first: B256 = first.await?;
        lock(&world.source).set_base_fee(BaseFee::Pinned(100_000_000_000));
        eventually("the replacement", || async {
            Ok(lock(&world.source).pending().first().is_some_and(|hash| *hash != first).then_some(()))
        })
        .await?;
        anyhow::Ok(first)
    };
    let (receipt, first) = tokio::join!(execution, dearer);
    assert_ne!(receipt?.transaction_hash, first?);
    assert_eq!(lock(&world.source).coins(key(11).address()), U256::from(1), "once only");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_held_back_or_forgotten() -> Result<()> {
    let chain = chain(31_337)?.shared();
    let send = || lock(&chain).submit(&key(10), key(11).address(), U256::from(1), Vec::new().into());
    let (delayed, behind) = (send()?, send()?);
    assert!(lock(&chain).delay(delayed, 3));
    mine(&chain, 2)?;
    assert_eq!(lock(&chain).pending(), [delayed, behind]);
    mine(&chain, 1)?;
    assert_eq!(progress(&chain), (vec![], 2));
    let delayed_again = lock(&chain).delay(delayed, 9);
    let dropped = lock(&chain).drop_transaction(delayed);
    assert_eq!((delayed_again, dropped), (false, false), "it is mined");
    let (lost, stuck) = (send()?, send()?);
    assert!(lock(&chain).drop_transaction(lost));
    mine(&chain, 3)?;
    assert_eq!(progress(&chain), (vec![stuck], 2));
    // The next transaction takes the nonce that nothing uses, and what waited behind it comes along.
    assert_ne!(send()?, stuck);
    mine(&chain, 1)?;
    assert_eq!(progress(&chain), (vec![], 4));
    Ok(())
}

/// One call in six suffers something.
fn inject_faults() -> impl FnMut(&str) -> RpcOutcome + Clone + Send + 'static {
    let mut state = 7u64;
    move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (state >> 33) % 36 {
            0 => RpcOutcome::LoseRequest,
            1 => RpcOutcome::LoseAnswer(NodeKind::Honest),
            blocks @ 2..4 => RpcOutcome::Deliver(NodeKind::Lagging { blocks: blocks - 1 }),
            4 => RpcOutcome::Error(-32_000, "try again later".to_owned()),
            5 => RpcOutcome::Deliver(NodeKind::OnFork),
            6 => RpcOutcome::Late(Duration::from_millis(900), NodeKind::Honest),
            _ => RpcOutcome::Deliver(NodeKind::Honest),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_payment_gets_through_bad_weather() -> Result<()> {
    let world = World::with_faults(inject_faults())?;
    let reorganise = async {
        for depth in [1, 2, 3, 1, 2] {
            tokio::time::sleep(Duration::from_secs(3)).await;
            for chain in [&world.source, &world.destination] {
                let mut chain = lock(chain);
                let depth = depth.min(chain.head().number - chain.finalized().number);
                chain.reorganise(depth, Dropped::Pooled)?;
            }
        }
        anyhow::Ok(())
    };
    let payment = world.payment("order")?;
    let pay = async {
        let prepared = eventually("the deposit's transaction", || async {
            Ok(world.chains.prepare_deposit(&payment.deposit(), 1).await.ok())
        })
        .await?;
        let versions = [prepared];
        eventually("the deposit", || async {
            let _ = world.chains.broadcast(&versions[0]).await;
            match world.chains.deposit_state(&payment.deposit(), &versions).await {
                Ok(DepositState::Secured(_)) => Ok(Some(())),
                Ok(DepositState::Pending) | Err(_) => Ok(None),
                Ok(other) => bail!("{other:?}"),
            }
        })
        .await?;
        eventually("the delivery", || async {
            let _ = world.destination_settler.deliver(&payment.delivery()).await;
            match world.chains.delivery_state(&payment.delivery()).await {
                Ok(DeliveryState::Final(_)) => Ok(Some(())),
                Ok(DeliveryState::Seen(_) | DeliveryState::NotSeen) | Err(_) => Ok(None),
                Ok(other) => bail!("{other:?}"),
            }
        })
        .await?;
        anyhow::Ok(())
    };
    tokio::try_join!(reorganise, pay)?;
    let state =
        eventually("an answer", || async { Ok(world.chains.escrow_state(payment.id(), &payment.escrow).await.ok()) });
    assert_eq!(state.await?, EscrowState::Held);
    assert_eq!(balance(&world.destination, key(11).address()), DELIVERED);
    let (source, destination) = (lock(&world.source), lock(&world.destination));
    assert_eq!(source.payment_events(payment.id()).deposited, 1);
    assert_eq!(destination.payment_events(payment.id()).fulfilled, 1);
    assert_conserved(&source);
    assert_conserved(&destination);
    Ok(())
}

/// Whichever of its answers about blocks and events come from the branch that was left.
#[tokio::test(start_paused = true)]
async fn a_settled_delivery_is_never_said_to_be_in_a_dropped_block() -> Result<()> {
    const CALLS: u32 = 7;
    let world = World::new()?;
    let payment = world.payment("order")?;
    let order = payment.delivery();
    let dropped = world.destination_settler.deliver(&order).await?;
    let (inclusion, settled) = {
        let mut chain = lock(&world.destination);
        let depth = chain.head().number - dropped.block_number + 1;
        chain.reorganise(depth, Dropped::Reordered)?;
        let inclusion =
            chain.rpc(&NodeKind::Honest, "eth_getTransactionReceipt", &json!([dropped.transaction_hash]))?;
        while chain.finalized().number < chain.head().number.min(dropped.block_number + 2) {
            let time = chain.head().time + BLOCK_SECONDS;
            chain.mine(time)?;
        }
        (inclusion["blockHash"].as_str().map(str::to_owned), chain.finalized())
    };
    assert_ne!(inclusion.as_ref(), Some(&dropped.block_hash));

    let mut finals = 0;
    for (mask, events_of_fork) in (0..1u32 << CALLS).flat_map(|mask| [(mask, false), (mask, true)]) {
        let config = lock(&world.destination).config(Depth::Finalized, REFUND_DELAY);
        let mut call = 0;
        let transport = SimTransport::new(world.destination.clone(), RPC_TIMEOUT, move |method| {
            let on_fork = match method {
                "eth_getBlockByNumber" => {
                    call += 1;
                    mask >> (call - 1) & 1 == 1
                }
                "eth_getLogs" => events_of_fork,
                _ => false,
            };
            RpcOutcome::Deliver(if on_fork { NodeKind::OnFork } else { NodeKind::Honest })
        });
        let state = Deliveries::of(&transport.connect(&config)?).state(&order).await;
        if let Ok(DeliveryState::Final(found)) = state {
            finals += 1;
            assert_eq!(Some(found.block_hash), inclusion, "calls {mask:07b}, events of the fork: {events_of_fork}");
            assert!(found.block_number <= settled.number);
        }
    }
    assert!(finals > 0);
    Ok(())
}

#[tokio::test]
async fn what_is_not_asked_for_rightly_is_refused() -> Result<()> {
    let mut chain = chain(31_337)?;
    for (method, params, code) in [
        ("eth_nothing", json!([]), -32_601),
        ("eth_getBalance", json!(["0x12", "latest"]), -32_602),
        ("eth_getBalance", json!([key(10).address(), "newest"]), -32_602),
        ("eth_getBalance", json!([key(10).address(), "0x1"]), -32_000),
        ("eth_call", json!([{"to": 1}, "latest"]), -32_602),
        ("eth_getLogs", json!([{"topics": "0x1"}]), -32_602),
        ("eth_sendRawTransaction", json!(["0x02c0"]), -32_000),
    ] {
        assert_eq!(chain.rpc(&NodeKind::Honest, method, &params).unwrap_err().code, code, "{method} {params}");
    }
    assert_eq!(chain.rpc(&NodeKind::Honest, "eth_getBlockByNumber", &json!(["0x1", false]))?, Value::Null);
    Ok(())
}

/// Payments whose delivery is waited for, as the engine does; each is looked at again when its chain tells of it. The calls
/// to the node up to the deliveries, and the blocks from the deliveries until all were found settled.
async fn calls_of_waiting(payments: usize) -> Result<(u64, u64)> {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let world = World::with_faults(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        RpcOutcome::Deliver(NodeKind::Honest)
    })?;
    let payments = (0..payments).map(|number| world.payment(&format!("order-{number}")));
    let orders = payments.map(|payment| Ok(payment?.delivery())).collect::<Result<Vec<_>>>()?;
    let follow = async |order: &DeliveryOrder| -> Result<()> {
        let chain_id = order.destination.asset().chain();
        loop {
            let since = world.chains.cursor(chain_id, &order.proxy).expect("the proxy is the chain's own");
            if let DeliveryState::Final(_) = world.chains.delivery_state(order).await? {
                return Ok(());
            }
            let (payment_id, deadline) = (&order.payment_id, order.fulfill_by);
            let waiting = Waiting { chain_id, payment_id, since, deadline, is_pushed: false };
            let _ = tokio::time::timeout(UNSEEN_MAX, world.chains.next_event(&waiting)).await;
        }
    };
    let deliver = async {
        tokio::time::sleep(Duration::from_secs(100 * BLOCK_SECONDS)).await;
        let before = calls.load(Ordering::Relaxed);
        for order in &orders {
            world.destination_settler.deliver(order).await?;
        }
        anyhow::Ok((before, lock(&world.destination).head().number))
    };
    let (_, (before, delivered)) = tokio::try_join!(try_join_all(orders.iter().map(follow)), deliver)?;
    Ok((before, lock(&world.destination).head().number - delivered))
}

#[tokio::test(start_paused = true)]
async fn payments_that_wait_cost_a_chain_no_calls() -> Result<()> {
    let (one, _) = calls_of_waiting(1).await?;
    let (many, blocks) = calls_of_waiting(11).await?;
    // Each is looked at when it begins to wait, when the chain is first followed, and once without any hint.
    assert!(many - one < 10 * 24, "{one} calls for one payment, {many} for 11");
    println!("{one} calls in 100 blocks for one payment, {many} for 11");
    // Its depth is four blocks.
    assert!(blocks <= 6, "the last delivery was found settled after {blocks} blocks");
    Ok(())
}
