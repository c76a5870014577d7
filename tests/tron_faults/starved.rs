//! Transactions of the payer's that cannot have their effect: too little energy, too late.

use super::{
    delivered,
    node::Mode,
    payer::{CAP, SUN, TronPayer, bring, chain_time_ms, escrow_moves, fee, fees, info, send, soon},
    with_lossy_node,
};
use crate::support::*;
use anyhow::{Context, Result};
use chrono::Utc;
use serde_json::json;

use events::PaymentId;

/// What the gateway says of a payment that failed: why.
async fn error(world: &World, payment_id: &PaymentId) -> Result<serde_json::Value> {
    let outcome = world.outcome(payment_id).await?;
    assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
    let error = &outcome.body["error"];
    assert_eq!(error["code"], "SETTLEMENT_FAILED", "{outcome:?}");
    Ok(error.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn energy_that_does_not_suffice_is_burnt_by_nobody_but_a_payer_who_sends_by_himself() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let before = world.tron_holdings().await?;
    let payer = TronPayer::endowed(&world, "a payer who saves").await?;
    let spec = soon(world.spec_from_tron("starved")?);

    // Less than any deposit takes is not accepted at all.
    let hopeless = payer.sign(&world, &spec, json!({"fee_limit_sun": 1_000_000})).await?;
    let answer = payer.payer.submit(&world.base(0), &hopeless, std::time::Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (401, "INVALID_SENDER_AUTH"), "{answer:?}");
    assert!(answer.text("message").contains("fee_limit"), "{answer:?}");

    // Accepted: only once the allowance stands the deposit can be tried out, and then it shows what it takes.
    const FEE_LIMIT_SUN: u64 = 12_000_000;
    let (payment_id, transactions) = payer.submit(&world, &spec, json!({"fee_limit_sun": FEE_LIMIT_SUN})).await?;
    world.until(&payment_id, "QuoteAwarded").await?;
    eventually(|| async { world.network.log("gateway-1").is_ok_and(|log| log.contains("cannot be paid for")) }).await?;
    let approved = info(&world, transactions[0].id).await?.context("the approval is not a reason to starve")?;
    assert!(info(&world, transactions[1].id).await?.is_none(), "the gateway sent what cannot succeed");
    assert_eq!((payer.sun(&world).await?, payer.tokens(&world).await?), (SUN - fee(&approved), CAP));

    let starved = bring(&world, &transactions[1]).await?;
    assert_eq!(starved["receipt"]["result"], "OUT_OF_ENERGY", "{starved}");
    assert_eq!(starved["receipt"]["energy_fee"], FEE_LIMIT_SUN, "{starved}");
    let context = error(&world, &payment_id).await?["blockchain_context"].clone();
    assert_eq!(context["chain_id"], world.tron()?.id()?.as_str());
    assert_eq!(context["transaction_hash"], transactions[1].id.to_string(), "{context}");
    assert_eq!(context["block_number"], starved["blockNumber"], "{context}");
    assert!(context["revert_reason"].as_str().is_some_and(|reason| reason.contains("OUT_OF_ENERGY")), "{context}");

    assert_eq!(payer.sun(&world).await?, SUN - fee(&approved) - fee(&starved));
    assert_eq!(payer.tokens(&world).await?, CAP);
    assert_eq!(escrow_moves(&world, &payment_id).await?, [0, 0, 0]);
    assert_eq!(world.tron_holdings().await?, before);
    world.audited(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_without_trx_keeps_its_signatures_and_pays_once_it_has_some() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let before = world.tron_holdings().await?;
    // The account is there, and has next to nothing.
    const LEAST_SUN: u64 = 1;
    let payer = TronPayer::with(&world, "a payer without TRX", LEAST_SUN).await?;
    let (payment_id, transactions) = payer.submit(&world, &world.spec_from_tron("no-trx")?, json!({})).await?;
    world.until(&payment_id, "QuoteAwarded").await?;
    let told = |words| world.network.log("gateway-1").is_ok_and(|log| log.contains(words));
    eventually(|| async { told("and the account has 1 sun") }).await?;
    assert!(info(&world, transactions[0].id).await?.is_none());

    world.tron()?.dev.fund(&payer.account, SUN).await?;
    world.completed(&payment_id).await?;
    assert_eq!(payer.sun(&world).await?, LEAST_SUN + SUN - fees(&world, &transactions).await?);
    assert_eq!(payer.tokens(&world).await?, CAP - PRICE);
    assert_eq!(escrow_moves(&world, &payment_id).await?, [1, 1, 0]);
    assert_eq!(moves(&before, &world.tron_holdings().await?), delivered(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_expired_on_its_way_is_given_up_and_can_be_sent_by_nobody() -> Result<()> {
    let (world, node) = with_lossy_node(|options| options).await?;
    let before = world.tron_holdings().await?;
    let payer = TronPayer::endowed(&world, "a payer in no hurry").await?;
    node.set(Mode::Losing);
    // As soon as it may be: twelve seconds past the auction.
    let expiration_ms = Utc::now().timestamp_millis().unsigned_abs() + 17_500;
    let spec = soon(world.spec_from_tron("expired")?);
    let (payment_id, transactions) = payer.submit(&world, &spec, json!({"expiration_ms": expiration_ms})).await?;
    world.until(&payment_id, "QuoteAwarded").await?;
    // It is sent again while it may land, and what comes after it waits.
    eventually(|| async { node.lost().iter().filter(|id| **id == transactions[0].id).count() >= 2 }).await?;
    assert!(!node.lost().contains(&transactions[1].id));
    let expired = || async { chain_time_ms(&world, "wallet").await.is_ok_and(|time| time >= expiration_ms) };
    eventually(expired).await?;
    node.set(Mode::Passing);

    let error = error(&world, &payment_id).await?;
    assert!(error.get("blockchain_context").is_none(), "nothing reached the chain: {error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("expired")), "{error}");
    for transaction in &transactions {
        assert!(info(&world, transaction.id).await?.is_none());
        let answer = send(&world, transaction).await?;
        assert_eq!(answer["code"], "TRANSACTION_EXPIRATION_ERROR", "{answer}");
    }
    assert_eq!((payer.sun(&world).await?, payer.tokens(&world).await?), (SUN, CAP));
    assert_eq!(escrow_moves(&world, &payment_id).await?, [0, 0, 0]);
    assert_eq!(world.tron_holdings().await?, before);
    world.audited(&payment_id).await
}
