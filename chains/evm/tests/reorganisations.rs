//! Reorganisations of the source chain: what the gateway sent disappears, and is sent again.

use std::slice::from_ref;

use alloy::primitives::U256;
use anyhow::{Context, Result, bail};
use serde_json::Value;

use chains_evm::{node::At, query::Receipt};
use events::event::TransactionPrepared;
use sagas::ports::{Chains, DepositState, EscrowState, RefundOrder, TransactionState};

use crate::support::*;

impl Chain {
    /// Replaces the newest `depth` blocks by empty ones.
    pub async fn forget(&self, depth: u64) -> Result<()> {
        let _: Value = self.dev.rpc("anvil_reorg", (depth, Vec::<Value>::new())).await?;
        Ok(())
    }
}

impl World {
    /// Sends a transaction and waits until it is in a block.
    pub async fn send(&self, transaction: &TransactionPrepared) -> Result<Receipt> {
        self.chains.broadcast(transaction).await?;
        let hash = transaction.transaction_hash.parse()?;
        eventually("it is mined", async || Ok(self.source.query().receipt(hash).await?.is_some())).await?;
        self.source.query().receipt(hash).await?.context("a receipt")
    }

    async fn deposited(&self, payment: &Payment, prepared: &TransactionPrepared) -> Result<DepositState> {
        Ok(self.chains.deposit_state(&payment.deposit(), from_ref(prepared)).await?)
    }
}

#[tokio::test]
async fn a_deposit_that_disappears_is_pending_again_and_lands_by_the_same_bytes() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let mined = world.send(&prepared).await?;
    world.source.mine(DEPTH - 1).await?;
    world.source.forget(DEPTH).await?;
    assert_eq!(world.source.query().receipt(prepared.transaction_hash.parse()?).await?, None);
    assert_eq!(world.deposited(&payment, &prepared).await?, DepositState::Pending);
    assert_eq!(world.chains.deposit_secured(&payment.deposit()).await?, None);
    world.source.mine(2 * DEPTH).await?;
    assert_eq!(world.deposited(&payment, &prepared).await?, DepositState::Pending, "no block concludes from silence");

    world.send(&prepared).await?;
    world.source.mine(DEPTH).await?;
    let DepositState::Secured(secured) = world.deposited(&payment, &prepared).await? else { bail!("not secured") };
    assert_eq!(secured.inclusion.transaction_hash, prepared.transaction_hash);
    assert!(secured.inclusion.block_number > mined.block_number);
    assert_eq!(world.source.balance(&world.payer).await?, 10 * CAP - PRICE, "paid once");
    Ok(())
}

#[tokio::test]
async fn nonces_that_a_reorganisation_gave_back_are_not_given_out_again() -> Result<()> {
    let world = World::start().await?;
    let (gone, next) = (world.payment("gone")?, world.payment("next")?);
    let first = world.chains.prepare_deposit(&gone.deposit(), 1).await?;
    world.send(&first).await?;
    world.source.forget(1).await?;
    assert_eq!(world.source.query().nonce(world.submitter.address(), At::Latest).await?, nonce_of(&first));
    let second = world.chains.prepare_deposit(&next.deposit(), 1).await?;
    assert_eq!(nonce_of(&second), nonce_of(&first) + 1, "the first is still that payment's");
    world.chains.broadcast(&second).await?;
    world.source.mine(1 + DEPTH).await?;
    assert_eq!(world.deposited(&next, &second).await?, DepositState::Pending, "it waits for the one before it");
    world.chains.broadcast(&first).await?;
    eventually("both deposits are secured", async || {
        world.source.mine(1).await?;
        let states = [world.deposited(&gone, &first).await?, world.deposited(&next, &second).await?];
        Ok(states.iter().all(|state| matches!(state, DepositState::Secured(_))))
    })
    .await
}

#[tokio::test]
async fn another_version_may_land_after_a_reorganisation() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let first = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.source.automine(false).await?;
    let _: Value = world.source.dev.rpc("anvil_setNextBlockBaseFeePerGas", (U256::from(100_000_000_000u64),)).await?;
    world.source.mine(1).await?;
    world.clock.advance(REPRICE_SECONDS as i64 + 1);
    let second = world.chains.reprice(from_ref(&first)).await?.context("it is outpriced")?;
    let versions = [first.clone(), second.clone()];
    world.chains.broadcast(&second).await?;
    world.source.mine(1).await?;
    assert!(world.source.query().receipt(second.transaction_hash.parse()?).await?.is_some());
    assert_eq!(world.chains.reprice(&versions).await?, None, "it is mined");
    world.source.forget(1).await?;
    // Now the older one is taken.
    let _: Value = world.source.dev.rpc("anvil_dropAllTransactions", ()).await?;
    let _: Value = world.source.dev.rpc("anvil_setNextBlockBaseFeePerGas", (U256::from(100_000_000u64),)).await?;
    world.source.mine(1).await?;
    world.chains.broadcast(&first).await?;
    world.source.mine(1 + DEPTH).await?;
    match world.chains.deposit_state(&payment.deposit(), &versions).await? {
        DepositState::Secured(secured) => assert_eq!(secured.inclusion.transaction_hash, first.transaction_hash),
        other => bail!("not secured: {other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn a_refund_that_disappears_is_sent_again() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    world.secure(&payment).await?;
    world.source.pass(payment.escrow.refund_after).await?;
    let order = RefundOrder { payment_id: payment.id().clone(), escrow: payment.escrow.clone(), non_delivery: None };
    let prepared = world.chains.prepare_refund(&order, 1).await?;
    world.send(&prepared).await?;
    world.source.forget(1).await?;
    world.source.mine(DEPTH).await?;
    assert_eq!(world.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Pending);
    let held = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
    assert!(matches!(held, EscrowState::Held | EscrowState::Lapsed), "{held:?}");
    world.send(&prepared).await?;
    world.source.mine(DEPTH).await?;
    let EscrowState::Refunded(refunded) = world.chains.escrow_state(payment.id(), &payment.escrow).await? else {
        bail!("not refunded");
    };
    assert_eq!(refunded.inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(world.source.balance(&world.payer).await?, 10 * CAP);
    Ok(())
}
