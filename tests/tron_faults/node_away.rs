//! The gateway's Tron node is away, or answers nothing: that costs time and nothing else.

use std::time::Duration;

use super::{
    delivered,
    node::Mode,
    payer::{CAP, SUN, TronPayer, escrow_moves, fees},
    with_lossy_node,
};
use crate::support::*;
use anyhow::{Context, Result};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_away_or_hangs_costs_time_and_nothing_else() -> Result<()> {
    let (world, node) = with_lossy_node(|options| options).await?;
    let before = world.tron_holdings().await?;
    let (mut from_tron, mut to_tron) = (Vec::new(), Vec::new());
    for event in ["QuoteAwarded", "DepositPrepared", "FulfillmentSeen"] {
        let payer = TronPayer::endowed(&world, event).await?;
        let (payment_id, transactions) = payer.submit(&world, &world.spec_from_tron("away")?, json!({})).await?;
        let waiting = TronPayer::endowed(&world, &format!("waiting at {event}")).await?;
        let signed = waiting.sign(&world, &world.spec_from_tron("waiting")?, json!({})).await?;
        world.until(&payment_id, event).await?;
        node.set(Mode::Away);
        // What has to ask the chain is put off with nothing accepted; another payment, to Tron, is accepted all the same.
        let answer = waiting.payer.submit(&world.base(0), &signed, Duration::ZERO).await?;
        assert_eq!(answer.status, 503, "{answer:?}");
        let other = world.submit(&world.spec_to_tron(&format!("meanwhile-{event}"))?).await?;
        world.until(&other, "AuctionClosed").await?;
        assert!(node.refused() > 0);
        let status = world.payer.status(&world.base(0), payment_id.as_str()).await?;
        assert_ne!(status.text("status"), "failed", "{status:?}");
        node.set(Mode::Passing);
        let accepted = || async {
            let answer = waiting.payer.submit(&world.base(0), &signed, Duration::ZERO).await;
            answer.is_ok_and(|answer| answer.status == 200)
        };
        eventually(accepted).await.context("the same submission is not taken when the node is back")?;
        let waited = waiting.payer.payment_id("waiting");
        from_tron.push((payer, payment_id, transactions));
        from_tron.push((waiting, waited, super::payer::signed_transactions(&signed)?));
        to_tron.push(other);
    }
    let payer = TronPayer::endowed(&world, "a payer whose node hangs").await?;
    let (payment_id, transactions) = payer.submit(&world, &world.spec_from_tron("hung")?, json!({})).await?;
    world.until(&payment_id, "EscrowSecured").await?;
    let silences = || world.network.log("gateway-1").map(|log| log.matches("no answer in time").count());
    let silent_before = silences()?;
    node.set(Mode::Silent);
    eventually(|| async { silences().is_ok_and(|count| count > silent_before) }).await.context("nobody asks")?;
    node.set(Mode::Passing);
    from_tron.push((payer, payment_id, transactions));

    for (payer, payment_id, transactions) in &from_tron {
        world.completed(payment_id).await?;
        assert_eq!(escrow_moves(&world, payment_id).await?, [1, 1, 0]);
        assert_eq!(payer.tokens(&world).await?, CAP - PRICE);
        assert_eq!(payer.sun(&world).await?, SUN - fees(&world, transactions).await?);
    }
    let mut expected = delivered(from_tron.len() as u64);
    for payment_id in &to_tron {
        world.completed(payment_id).await?;
        assert_eq!(world.tron_logs(FULFILLED, payment_id).await?, 1);
        let (amount, price) = (i128::from(AMOUNT), i128::from(PRICE));
        for (name, moved) in
            [("evm payer", -price), ("evm settlers' source", price), ("settlers", -amount), ("recipient", amount)]
        {
            *expected.entry(name).or_default() += moved;
        }
    }
    assert_eq!(moves(&before, &world.tron_holdings().await?), expected);
    Ok(())
}
