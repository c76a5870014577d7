//! A chain that dies: what is new on it is refused, everything else goes on, and it is taken again when it is back.

use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Client;
use serde_json::Value;

use devnet::payer::PaymentSpec;

use crate::support::*;

/// What `/readyz` of the first gateway says of a chain.
async fn state_of(world: &World, chain: &str) -> Result<(bool, Option<String>)> {
    let answer = Client::new().get(format!("{}/readyz", world.base(0))).send().await?;
    anyhow::ensure!(answer.status().as_u16() == 200, "{}", answer.status());
    let body: Value = answer.json().await?;
    let chains = body["chains"].as_array().context("no chains")?;
    let found = chains.iter().find(|one| one["chain_id"] == chain).with_context(|| format!("{body}"))?;
    Ok((found["ready"] == true, found["cause"].as_str().map(str::to_owned)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_chain_is_refused_by_name_while_others_are_paid_and_it_comes_back() -> Result<()> {
    let mut world = World::with_solana(|options| options).await?;
    let chain = format!("eip155:{}", world.network.destination.anvil.chain_id());
    assert_eq!(state_of(&world, &chain).await?, (true, None));
    let before = world.submit(&world.spec("before")?).await?;
    world.completed(&before).await?;
    // Signed while the chain lives, and still in time when it counts as dead.
    let (quote_window, fulfillment_window) = (Duration::from_secs(60), Duration::from_secs(600));
    let late = PaymentSpec { quote_window, fulfillment_window, ..world.spec("to-the-dead")? };
    let late = world.payer.sign(&world.base(0), &late).await?;

    world.network.destination.anvil.pause().await?;
    eventually(|| async {
        state_of(&world, &chain).await.is_ok_and(|state| state == (false, Some("node_silent".into())))
    })
    .await
    .context("the chain is not said to be dead")?;
    let refused = world.payer.submit(&world.base(0), &late, Duration::ZERO).await?;
    assert_eq!((refused.status, refused.text("code")), (503, "CHAIN_UNAVAILABLE"), "{refused:?}");
    assert!(world.types(&world.payer.payment_id("to-the-dead")).await?.is_empty());
    // Reads go on, and payments over the other chains.
    assert_eq!(world.outcome(&before).await?.text("status"), "completed");
    let other = world.submit(&world.spec_to_solana("to-solana")?).await?;
    world.completed(&other).await?;

    // A gateway starts beside the dead chain, too.
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;

    world.network.destination.anvil.resume().await?;
    eventually(|| async { state_of(&world, &chain).await.is_ok_and(|(ready, _)| ready) })
        .await
        .context("the chain is not ready again")?;
    let after = world.submit(&world.spec("after")?).await?;
    world.completed(&after).await?;
    Ok(())
}
