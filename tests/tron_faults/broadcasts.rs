//! Transactions that the network loses, and blocks that a fork takes away. The test makes the blocks, so that it knows what is
//! in them.

use std::time::Duration;

use alloy::primitives::B256;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use devnet::{
    network::Options,
    tron::{TronChain, TronOptions},
};
use events::{PaymentEvent, PaymentId};

use super::{
    delivered,
    payer::{CAP, SUN, TronPayer, ask, escrow_moves, fees, info},
};
use crate::support::*;

/// How many blocks a fork can take away.
const LAG: u64 = 30;

async fn with_blocks_on_demand() -> Result<World> {
    let tron = TronOptions { block_ms: 0, solidified_lag: LAG, ..TronOptions::default() };
    let world = World::with(|options| Options { tron: Some(tron), ..options }).await?;
    // Nobody can go by contracts that a fork might take away.
    world.tron()?.dev.mine(LAG).await?;
    Ok(world)
}

/// Whether `id` waits for a block.
async fn waits(world: &World, id: B256) -> bool {
    let waiting = ask(world, "wallet/gettransactionlistfrompending", &json!({})).await;
    let id = Value::from(hex::encode(id));
    waiting.is_ok_and(|waiting| waiting["txId"].as_array().is_some_and(|ids| ids.contains(&id)))
}

/// Waits until `id` waits for a block. The gateway may have to see a block first; should that one hold it, it is taken away.
async fn awaited(world: &World, tron: &TronChain, id: B256) -> Result<()> {
    let waited = async {
        loop {
            let soon = tokio::time::timeout(Duration::from_secs(1), async {
                while !waits(world, id).await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
            if soon.await.is_ok() {
                return Ok(());
            }
            tron.dev.mine(1).await?;
            if info(world, id).await?.is_some() {
                tron.dev.control("fork", json!({"blocks": 1})).await?;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.with_context(|| format!("{id} is not sent"))?
}

/// Loses what waits for a block, `id` among it.
async fn lose(tron: &TronChain, id: B256) -> Result<()> {
    let dropped = tron.dev.control("drop", json!({})).await?;
    let ids = dropped["dropped"].as_array().context("a list")?;
    ensure!(ids.contains(&hex::encode(id).into()), "{id} did not wait: {dropped}");
    Ok(())
}

/// Makes blocks until the payment is completed.
async fn complete(world: &World, tron: &TronChain, payment_id: &PaymentId) -> Result<()> {
    let mining = async {
        loop {
            tron.dev.mine(1).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        completed = world.completed(payment_id) => completed,
        stopped = mining => stopped,
    }
}

/// The reservations that were signed, oldest first.
async fn reservations(world: &World, payment_id: &PaymentId) -> Result<Vec<B256>> {
    let prepared = world.events(payment_id, "DepositPrepared").await?;
    let ids = prepared.into_iter().map(|event| match event {
        PaymentEvent::DepositPrepared(transaction) => Ok(transaction.transaction_hash.parse()?),
        other => anyhow::bail!("{other:?}"),
    });
    ids.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_network_loses_is_sent_again_as_it_was() -> Result<()> {
    let world = with_blocks_on_demand().await?;
    let (tron, before) = (world.tron()?, world.tron_holdings().await?);
    let payer = TronPayer::endowed(&world, "a payer with bad luck").await?;
    let (payment_id, transactions) = payer.submit(&world, &world.spec_from_tron("dropped")?, json!({})).await?;
    for transaction in &transactions {
        awaited(&world, tron, transaction.id).await?;
        lose(tron, transaction.id).await?;
        tron.dev.mine(1).await?;
        assert!(info(&world, transaction.id).await?.is_none(), "it is lost");
        awaited(&world, tron, transaction.id).await?;
        tron.dev.mine(1).await?;
        assert!(info(&world, transaction.id).await?.is_some());
    }
    world.until(&payment_id, "DepositPrepared").await?;
    let reservation = reservations(&world, &payment_id).await?.remove(0);
    awaited(&world, tron, reservation).await?;
    lose(tron, reservation).await?;
    awaited(&world, tron, reservation).await?;

    complete(&world, tron, &payment_id).await?;
    assert_eq!(reservations(&world, &payment_id).await?, [reservation], "one reservation, sent again");
    assert_eq!(escrow_moves(&world, &payment_id).await?, [1, 1, 0]);
    assert_eq!(payer.tokens(&world).await?, CAP - PRICE);
    assert_eq!(payer.sun(&world).await?, SUN - fees(&world, &transactions).await?);
    assert_eq!(moves(&before, &world.tron_holdings().await?), delivered(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_takes_the_deposit_away_brings_it_back_once() -> Result<()> {
    let world = with_blocks_on_demand().await?;
    let (tron, before) = (world.tron()?, world.tron_holdings().await?);
    let mut payments = Vec::new();
    // With the blocks their transactions are gone, or they come into later ones.
    for lost in [true, false] {
        let payer = TronPayer::endowed(&world, &format!("a payer on a fork: {lost}")).await?;
        let (payment_id, transactions) = payer.submit(&world, &world.spec_from_tron("forked")?, json!({})).await?;
        for transaction in &transactions {
            awaited(&world, tron, transaction.id).await?;
            tron.dev.mine(1).await?;
            assert!(info(&world, transaction.id).await?.is_some());
        }
        let deposited_in = info(&world, transactions[1].id).await?.context("the deposit")?["blockNumber"].clone();
        world.until(&payment_id, "DepositPrepared").await?;
        let reservation = reservations(&world, &payment_id).await?.remove(0);
        awaited(&world, tron, reservation).await?;
        // Away with the blocks of approval and deposit and with all after them; the reservation waits on.
        let approved_in = info(&world, transactions[0].id).await?.context("the approval")?["blockNumber"].as_u64();
        let head = tron.dev.control("mine", json!({"blocks": 0})).await?["head"].as_u64().context("a head")?;
        let blocks = head + 1 - approved_in.context("a number")?;
        tron.dev.control("fork", json!({"blocks": blocks, "drop_transactions": lost})).await?;
        for transaction in &transactions {
            assert!(info(&world, transaction.id).await?.is_none(), "the fork took it away");
        }
        complete(&world, tron, &payment_id).await?;

        let again = info(&world, transactions[1].id).await?.context("the deposit")?["blockNumber"].clone();
        assert!(lost <= (again != deposited_in), "{deposited_in} and {again}");
        assert_eq!(escrow_moves(&world, &payment_id).await?, [1, 1, 0]);
        assert_eq!(payer.tokens(&world).await?, CAP - PRICE);
        assert_eq!(payer.sun(&world).await?, SUN - fees(&world, &transactions).await?);
        payments.push(payment_id);
    }
    // The first one's reservation came into a block without its deposit, and another took its place.
    assert_eq!(reservations(&world, &payments[0]).await?.len(), 2);
    assert!(world.types(&payments[0]).await?.contains(&"DepositAbandoned"));
    assert_eq!(moves(&before, &world.tron_holdings().await?), delivered(2));
    world.audited(&payments[0]).await
}
