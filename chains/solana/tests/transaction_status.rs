//! Transaction status: transactions that expire, fail or get lost, against a real Solana runtime.

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result, bail};
use ed25519_dalek::SigningKey;
use serde_json::json;

use chains::setup::SetupError;
use chains_solana::{
    adapter::{Keys, SolanaChain},
    keys::account,
};
use sagas::ports::{Chains, DepositState, PrepareError, RefundOrder, TransactionState};

use crate::{
    evm_support::liar::Liar,
    support::{PRICE, TOKENS, TestClock, World, key, settle, until, wallet},
};

#[tokio::test]
async fn a_deposit_whose_blockhash_expired_is_given_up_and_made_again() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let first = chain.prepare_deposit(&order, 1).await?;
    let given_up = |state: &DepositState| !matches!(state, DepositState::Pending);
    let state = until(|| chain.deposit_state(&order, from_ref(&first)), given_up).await?;
    let DepositState::Superseded { evidence } = state else { bail!("{state:?}") };
    let height = first.validity.last_block_height().context("on Solana")?;
    assert!(evidence.contains(&first.transaction_hash) && evidence.contains(&height.to_string()), "{evidence}");

    // The bytes that were given up have no effect any more.
    let _ = chain.broadcast(&first).await;
    let second = chain.prepare_deposit(&order, 2).await?;
    assert_ne!(second.transaction_hash, first.transaction_hash);
    assert!(second.validity > first.validity);
    let state = settle(&chain, &order, from_ref(&second)).await?;
    let DepositState::Secured(secured) = state else { bail!("{state:?}") };
    assert_eq!(secured.inclusion.transaction_hash, second.transaction_hash);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    assert_eq!(chain.reprice(&[second]).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_landed_and_failed_is_a_fact_once_nothing_can_land_any_more() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let prepared = chain.prepare_deposit(&order, 1).await?;
    // The payer takes its allowance back before the deposit lands.
    world.dev.approve(&world.payer, &world.token, &world.program, &account(&world.settler), 1).await?;
    chain.broadcast(&prepared).await?;
    let DepositState::Reverted(context) = settle(&chain, &order, from_ref(&prepared)).await? else {
        bail!("not reverted")
    };
    assert_eq!(context.transaction_hash.as_deref(), Some(prepared.transaction_hash.as_str()));
    assert!(context.block_number.is_some() && context.gas_used.is_some(), "{context:?}");
    let reason = context.revert_reason.context("no reason")?;
    assert!(reason.starts_with("AllowanceMissing"), "{reason}");
    let height = world.surfnet.rpc("getBlockHeight", json!([{"commitment": "finalized"}])).await?;
    assert!(height.as_u64() > prepared.validity.last_block_height(), "{height} is not past {:?}", prepared.validity);
    assert!(chain.deposit_ruled_out(&order.payment_id, &order.escrow, 0).await?);
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_a_node_dropped_is_sent_again() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.surfnet.url()).await?;
    let chain = world.chain_at(&liar.url);
    let order = world.order(600).await?;
    let prepared = chain.prepare_deposit(&order, 1).await?;
    // The node says that it sent something, and sends nothing.
    liar.swallow("sendTransaction", json!(prepared.transaction_hash));
    chain.broadcast(&prepared).await?;
    assert_eq!(chain.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    liar.be_honest();
    let state = settle(&chain, &order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn a_node_that_is_away_says_nothing_about_the_outcome() -> Result<()> {
    let mut world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let prepared = chain.prepare_deposit(&order, 1).await?;
    chain.broadcast(&prepared).await?;
    world.surfnet.stop().await?;
    chain.deposit_state(&order, from_ref(&prepared)).await.expect_err("concluded");
    chain.escrow_state(&order.payment_id, &order.escrow).await.expect_err("concluded");
    chain.delivery_state(&world.delivery(&order)).await.expect_err("concluded");
    let refused = chain.prepare_deposit(&order, 2).await;
    assert!(matches!(refused, Err(PrepareError::Transient(_))), "{refused:?}");
    world.surfnet.restart().await?;
    let state = settle(&chain, &order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn a_window_that_closed_ends_a_deposit_and_a_record_may_be_too_old_to_tell() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let prepared = chain.prepare_deposit(&order, 1).await?;
    world.surfnet.travel_to(order.escrow.reserve_deadline + 1).await?;
    let given_up = |state: &DepositState| !matches!(state, DepositState::Pending);
    let state = until(|| chain.deposit_state(&order, from_ref(&prepared)), given_up).await?;
    let DepositState::Expired { evidence } = state else { bail!("{state:?}") };
    assert!(evidence.contains("past the reserve deadline"), "{evidence}");

    // A month after the last window anyone may have closed the record, had there been one.
    world.surfnet.travel_to(order.escrow.refund_after + 31 * 24 * 3_600).await?;
    until(
        || async {
            let answer = chain.deposit_ruled_out(&order.payment_id, &order.escrow, 0).await;
            Ok(answer.is_err_and(|fault| fault.to_string().contains("may have been closed")))
        },
        |too_old| *too_old,
    )
    .await?;
    chain.escrow_state(&order.payment_id, &order.escrow).await.expect_err("concluded");
    chain.delivery_state(&world.delivery(&order)).await.expect_err("concluded");
    Ok(())
}

#[tokio::test]
async fn a_refund_that_never_landed_is_dead_and_made_again() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let deposit = chain.prepare_deposit(&order, 1).await?;
    settle(&chain, &order, &[deposit]).await?;
    let cancel = RefundOrder {
        payment_id: order.payment_id.clone(),
        escrow: order.escrow.clone(),
        non_delivery: Some(world.attest(&world.non_delivery(&order))),
    };
    let first = chain.prepare_refund(&cancel, 1).await?;
    let dead = |state: &TransactionState| *state != TransactionState::Pending;
    let state = until(|| chain.transaction_state(from_ref(&first)), dead).await?;
    let TransactionState::Dead { evidence } = state else { bail!("{state:?}") };
    assert!(evidence.contains(&first.transaction_hash), "{evidence}");
    let second = chain.prepare_refund(&cancel, 2).await?;
    chain.broadcast(&second).await?;
    let landed = AtomicBool::new(false);
    until(
        || async {
            let tokens = world.tokens(&world.payer).await;
            landed.store(tokens.is_ok_and(|tokens| tokens == TOKENS), Ordering::Relaxed);
            Ok(landed.load(Ordering::Relaxed))
        },
        |landed| *landed,
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn who_cannot_pay_is_passed_over_and_nothing_is_signed_when_nobody_can() -> Result<()> {
    let world = World::start().await?;
    let chain_of = |submitters: Vec<SigningKey>| {
        let submitters = submitters.into_iter().map(Into::into).collect();
        let keys = Keys {
            reserver: world.reserver.clone().into(),
            draining_reservers: Vec::new(),
            submitters,
            exit_submitters: Vec::new(),
        };
        SolanaChain::new(world.node(), Some(keys), Arc::new(TestClock))
    };
    let rich = world.submitters[0].clone();
    for _ in 0..4 {
        // Whichever of them a payment prefers.
        let order = world.order(600).await?;
        let prepared = chain_of(vec![key(30), rich.clone()])?.prepare_deposit(&order, 1).await?;
        assert_eq!(prepared.sender, wallet(&rich));
    }
    let order = world.order(600).await?;
    let refused = chain_of(vec![key(30), key(31)])?.prepare_deposit(&order, 1).await;
    let Err(PrepareError::Transient(fault)) = refused else { bail!("{refused:?}") };
    assert!(fault.to_string().contains("no submitter"), "{fault}");

    assert!(matches!(chain_of(Vec::new()), Err(SetupError::NoSubmitter(_))));
    let other = Keys {
        reserver: key(30).into(),
        draining_reservers: Vec::new(),
        submitters: vec![rich.into()],
        exit_submitters: Vec::new(),
    };
    let refused = SolanaChain::new(world.node(), Some(other), Arc::new(TestClock));
    assert!(matches!(refused, Err(SetupError::Reserver { .. })));
    Ok(())
}
