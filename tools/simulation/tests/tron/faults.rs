//! Faults of nodes and of the network: calls that are lost, answers that lie, transactions that are swallowed or expire.

use std::time::Duration;

use alloy::{
    primitives::{B256, U256},
    sol_types::SolCall,
};
use anyhow::{Context, Result, bail};
use tokio::time::Instant;

use chains::{settler::DeliveryChain, verifier::Outcome};
use chains_tron::node::{BroadcastError, State};
use escrow_abi::contracts::DevToken;
use sagas::ports::{Chains, DeliveryState, DepositState, EscrowState, TransactionState};
use simulation::{
    chain::Dropped,
    random::RandomSource,
    tron::{SharedTron, TronError, TronOutcome, TronView},
};
use trondev::BlockRef;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn what_was_solidified_is_held_against_nodes_that_lag_fork_or_lie() -> Result<()> {
    let chain = chain(0)?.shared();
    let (node, outcome) = steered(&chain)?;
    mine(&chain, 30)?;
    let (settled, head) = ends(&chain);
    assert_eq!((node.settled().await?.number, node.head().await?.number), (settled.number, head.number));

    // What was settled before is below what a node that is further behind has.
    for view in [TronView::Lagging { blocks: 2 }, TronView::LateSolidified { blocks: 2 }] {
        steer(&outcome, TronOutcome::Deliver(view));
        assert!(node.settled().await.is_err(), "{view:?}");
    }
    steer(&outcome, TronOutcome::Deliver(TronView::Lagging { blocks: 2 }));
    assert_eq!(node.head().await?.number, head.number - 2);

    // A node on the dropped branch has other blocks.
    lock(&chain).reorganise(3, Dropped::Pooled)?;
    let (old, new) = (head, lock(&chain).head());
    assert_ne!(old.id, new.id);
    let id_at = async |view| {
        steer(&outcome, TronOutcome::Deliver(view));
        node.block(head.number, State::Newest).await.map(|block| block.map(|block| block.id))
    };
    assert_eq!(id_at(TronView::OnFork).await?, Some(B256::from(old.id)));
    assert_eq!(id_at(TronView::Honest).await?, Some(B256::from(new.id)));
    assert_eq!(node.settled().await?.number, settled.number);

    // One node that lies in both answers is believed, and the truth is below the lie from then on.
    steer(&outcome, TronOutcome::Deliver(TronView::LyingHead { ahead: 3 }));
    assert_eq!((node.head().await?.number, node.settled().await?.number), (new.number + 3, new.number));
    steer(&outcome, TronOutcome::Deliver(TronView::Honest));
    assert!(node.settled().await.is_err());
    mine(&chain, LAG)?;
    assert_eq!(node.settled().await?.number, lock(&chain).solidified().number, "the chain has caught up with the lie");
    Ok(())
}

/// The newest solidified block, and the newest of all.
fn ends(chain: &SharedTron) -> (BlockRef, BlockRef) {
    let chain = lock(chain);
    (chain.solidified(), chain.head())
}

/// A transaction that the payer could send now, and its id.
fn transfer() -> Result<(Vec<u8>, B256)> {
    let mut other = chain(0)?;
    let (token, to) = (other.contracts().token, recipient());
    let call = DevToken::transferCall { to, value: U256::from(1) };
    let id = other.submit(&payer(), token, 0, call.abi_encode())?;
    Ok((other.pending().pop().context("nothing waits")?.encoded(), id))
}

#[tokio::test(start_paused = true)]
async fn calls_are_lost_before_or_after_their_effect() -> Result<()> {
    let chain = chain(0)?.shared();
    let (node, outcome) = steered(&chain)?;
    let (raw, id) = transfer()?;
    node.head().await?;
    let waiting = || lock(&chain).pending().len();

    steer(&outcome, TronOutcome::LoseRequest);
    let started = Instant::now();
    assert!(matches!(node.broadcast(&raw).await, Err(BroadcastError::Transient(_))));
    assert_eq!((started.elapsed(), waiting()), (RPC_TIMEOUT, 0));
    // It says that it took it, and never sends it on.
    steer(&outcome, TronOutcome::Deliver(TronView::Swallowing));
    assert_eq!((node.broadcast(&raw).await, waiting()), (Ok(()), 0));
    for code in ["SERVER_BUSY", "NO_CONNECTION"] {
        steer(&outcome, TronOutcome::Untaken(code));
        assert!(matches!(node.broadcast(&raw).await, Err(BroadcastError::Transient(_))), "{code}");
    }
    steer(&outcome, TronOutcome::Untaken("TAPOS_ERROR"));
    assert!(matches!(node.broadcast(&raw).await, Err(BroadcastError::Refused { .. })));
    assert_eq!(waiting(), 0);

    steer(&outcome, TronOutcome::TakenAll("SERVER_BUSY"));
    assert!(matches!(node.broadcast(&raw).await, Err(BroadcastError::Transient(_))));
    assert_eq!(waiting(), 1, "the refusal was not so");
    lock(&chain).forget(id);
    steer(&outcome, TronOutcome::LoseAnswer(TronView::Honest));
    assert!(node.broadcast(&raw).await.is_err());
    assert_eq!(waiting(), 1);
    // Sent again it is a duplicate, which is not a fault; nor once a block has it.
    let late = Duration::from_millis(400);
    steer(&outcome, TronOutcome::Late(late, TronView::Honest));
    let started = Instant::now();
    assert_eq!(node.broadcast(&raw).await, Ok(()));
    assert_eq!((started.elapsed(), waiting()), (late, 1));
    mine(&chain, 1)?;
    assert_eq!((node.broadcast(&raw).await, waiting()), (Ok(()), 0));
    steer(&outcome, TronOutcome::Late(2 * RPC_TIMEOUT, TronView::Honest));
    let started = Instant::now();
    assert!(node.head().await.is_err());
    assert_eq!(started.elapsed(), RPC_TIMEOUT);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_wants_to_be_left_alone_is_left_alone() -> Result<()> {
    for (status, asked, pause) in [(429, Some("7"), 7), (403, None, 5), (503, Some("600"), 60)] {
        let chain = chain(0)?.shared();
        let (node, outcome) = steered(&chain)?;
        node.head().await?;
        steer(&outcome, TronOutcome::Status(status, asked));
        assert_eq!(node.head().await.unwrap_err().kind(), "rate limited", "{status}");
        steer(&outcome, TronOutcome::Deliver(TronView::Honest));
        let started = Instant::now();
        while node.head().await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(started.elapsed().as_secs(), pause, "{status}");
    }
    let chain = chain(0)?.shared();
    let (node, outcome) = steered(&chain)?;
    node.head().await?;
    for other in [TronOutcome::Status(502, None), TronOutcome::Garbage, TronOutcome::Refused("lack of resources")] {
        steer(&outcome, other.clone());
        assert!(node.head().await.is_err(), "{other:?}");
        steer(&outcome, TronOutcome::Deliver(TronView::Honest));
        node.head().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_expires_is_lost_and_another_takes_its_place() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    let order = payment.deposit();
    let first = reservation(&world.chains, &order, 1).await?;
    world.chains.broadcast(&first).await?;
    let id: B256 = first.transaction_hash.parse()?;
    let head = lock(&world.source).head().number;
    assert!(lock(&world.source).delay(id, head + 40), "it waits");
    let versions = [first.clone()];
    let expiration = first.validity.expiration_ms().context("no expiration")?;
    let evidence = eventually("an end", || async {
        match world.chains.deposit_state(&order, &versions).await? {
            DepositState::Pending => Ok(None),
            DepositState::Superseded { evidence } => Ok(Some(evidence)),
            other => bail!("{other:?}"),
        }
    })
    .await?;
    // Not before a solidified block's time has reached its end.
    assert!(lock(&world.source).solidified().time_ms.unsigned_abs() >= expiration, "{evidence}");
    assert!(matches!(world.chains.transaction_state(&versions).await?, TransactionState::Dead { .. }));
    let refused = lock(&world.source).hand_over(&hex::decode(first.raw.trim_start_matches("0x"))?);
    assert_eq!(refused, Err(TronError::Refused(trondev::Refusal::Expired)));
    let all = secure(&world.chains, &order).await?;
    assert_ne!(all[0].transaction_hash, first.transaction_hash);
    assert_eq!(lock(&world.source).payment_events(payment.id()).reserved, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_know_the_block_that_is_named_refuses_and_proves_nothing() -> Result<()> {
    let chain = chain(0)?.shared();
    mine(&chain, 25)?;
    let (node, outcome) = steered(&chain)?;
    node.head().await?;
    // A reference to the newest block, where the gateway names a solidified one.
    lock(&chain).set_solidified_lag(0);
    mine(&chain, 1)?;
    let raw = {
        let mut chain = lock(&chain);
        let (token, to) = (chain.contracts().token, recipient());
        let call = DevToken::transferCall { to, value: U256::from(1) };
        let id = chain.submit(&payer(), token, 0, call.abi_encode())?;
        let raw = chain.pending().pop().context("nothing waits")?.encoded();
        assert!(chain.forget(id));
        raw
    };
    steer(&outcome, TronOutcome::Deliver(TronView::Lagging { blocks: 1 }));
    let Err(BroadcastError::Refused { code, .. }) = node.broadcast(&raw).await else { bail!("taken") };
    assert_eq!(code, "TAPOS_ERROR");
    steer(&outcome, TronOutcome::Deliver(TronView::Honest));
    assert_eq!(node.broadcast(&raw).await, Ok(()));
    mine(&chain, 1)?;
    assert_eq!(lock(&chain).token_balance(recipient()), U256::from(1));
    Ok(())
}

/// What befalls a call, so often in a thousand.
pub fn weather(random: &RandomSource, per_mille: u32) -> TronOutcome {
    if !random.chance(per_mille) {
        return TronOutcome::Deliver(TronView::Honest);
    }
    match random.number(0..=11) {
        0 => TronOutcome::LoseRequest,
        1 => TronOutcome::LoseAnswer(TronView::Honest),
        2 => TronOutcome::Deliver(TronView::Lagging { blocks: random.number(1..=4) }),
        3 => TronOutcome::Deliver(TronView::LateSolidified { blocks: random.number(1..=4) }),
        4 => TronOutcome::Deliver(TronView::OnFork),
        5 => TronOutcome::Deliver(TronView::Swallowing),
        6 => TronOutcome::Late(Duration::from_millis(random.number(1..=1_900)), TronView::Honest),
        7 => TronOutcome::Status(429, Some("1")),
        8 => TronOutcome::Garbage,
        9 => TronOutcome::Untaken("SERVER_BUSY"),
        10 => TronOutcome::TakenAll("SERVER_BUSY"),
        _ => TronOutcome::Refused("lack of computing resources"),
    }
}

/// A payment from deposit to release, whatever befalls every fifth call and every tenth block; what was in which block.
async fn pay_in_bad_weather(seed: u64) -> Result<Vec<(u64, B256, &'static str)>> {
    let random = RandomSource::new(seed, "weather");
    let calls = random.clone();
    let world = World::with_faults(move |_| weather(&calls, 200))?;
    lock(&world.source).set_solidified_lag(6);
    lock(&world.destination).set_solidified_lag(6);
    let storm = async {
        loop {
            tokio::time::sleep(Duration::from_secs(random.number(9..=45))).await;
            for chain in [&world.source, &world.destination] {
                let mut chain = lock(chain);
                let free = chain.head().number - chain.solidified().number;
                let depth = random.number(0..=free);
                chain.reorganise(depth, random.pick(&[Dropped::Forgotten, Dropped::Pooled, Dropped::Reordered]))?;
                let pending: Vec<_> = chain.pending().iter().map(|one| B256::from(one.id.0)).collect();
                if !pending.is_empty() && random.chance(300) {
                    chain.forget(random.pick(&pending));
                }
            }
        }
        #[expect(unreachable_code, reason = "the storm ends with the payment")]
        anyhow::Ok(())
    };
    let payment = world.payment("order").await?;
    let pay = async {
        secure(&world.chains, &payment.deposit()).await?;
        eventually("the delivery", || async {
            let _ = world.destination_settler.deliver(&payment.delivery()).await;
            match world.chains.delivery_state(&payment.delivery()).await {
                Ok(DeliveryState::Final(_)) => Ok(Some(())),
                Ok(DeliveryState::Seen(_) | DeliveryState::NotSeen) | Err(_) => Ok(None),
                Ok(other) => bail!("{other:?}"),
            }
        })
        .await?;
        let Outcome::Attested(attestation) = world.verifier.attest_delivery(&payment.case()).await? else {
            bail!("not attested")
        };
        eventually("the release", || async {
            let _ = world.source_settler.release(payment.id(), &payment.escrow, &attestation).await;
            match world.chains.escrow_state(payment.id(), &payment.escrow).await {
                Ok(EscrowState::Released(_)) => Ok(Some(())),
                Ok(EscrowState::Held) | Err(_) => Ok(None),
                Ok(other) => bail!("{other:?}"),
            }
        })
        .await?;
        anyhow::Ok(())
    };
    tokio::select! {
        biased;
        paid = pay => paid?,
        stormed = storm => stormed?,
    }
    assert_eq!(tokens(&world.destination, recipient()), DELIVERED);
    assert_eq!(tokens(&world.source, payer().address()), TOKENS - PRICE);
    assert_eq!(tokens(&world.source, settler().address()), TOKENS + PRICE);
    let (source, destination) = (lock(&world.source), lock(&world.destination));
    assert_eq!(source.payment_events(payment.id()).deposited, 1);
    assert_eq!(destination.payment_events(payment.id()).fulfilled, 1);
    assert_conserved(&source);
    assert_conserved(&destination);
    let all = source.mined().iter().chain(destination.mined());
    Ok(all.map(|mined| (mined.number, mined.id, mined.result)).collect())
}

#[tokio::test(start_paused = true)]
async fn a_payment_gets_through_bad_weather_and_the_same_seed_is_the_same_run() -> Result<()> {
    for seed in 0..4 {
        let first = pay_in_bad_weather(seed).await.with_context(|| format!("seed {seed}"))?;
        assert_eq!(first, pay_in_bad_weather(seed).await?, "seed {seed}");
    }
    Ok(())
}
