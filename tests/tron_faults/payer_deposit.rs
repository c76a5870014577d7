//! Payers whose wallets send the deposit by themselves, when nobody can be named for it any more.

use anyhow::{Context, Result};
use serde_json::json;

use devkit::Signal;
use devnet::network::Options;
use events::{
    Did, PaymentEvent, PaymentId,
    event::{EscrowOpened, RefundDue},
};

use super::{
    node::Mode,
    payer::{CAP, SUN, TronPayer, bring, chain_time_ms, escrow_moves, fees, info, send, soon},
    restart_gateway, with_lossy_node,
};
use crate::support::*;

async fn opened(world: &World, payment_id: &PaymentId) -> Result<EscrowOpened> {
    world.until(payment_id, "EscrowOpened").await?;
    match world.events(payment_id, "EscrowOpened").await?.remove(0) {
        PaymentEvent::EscrowOpened(opened) => Ok(opened),
        other => anyhow::bail!("{other:?}"),
    }
}

/// The last second in which the escrow takes the payment's deposit, UNIX.
async fn reserve_deadline(world: &World, payment_id: &PaymentId) -> Result<u64> {
    match world.events(payment_id, "Submitted").await?.remove(0) {
        PaymentEvent::Submitted(submitted) => Ok(submitted.escrow.reserve_deadline),
        other => anyhow::bail!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_lands_though_the_auction_failed_is_found_and_refunded() -> Result<()> {
    let mut world = World::with_tron(|options| Options { refund_delay_seconds: 10, ..options }).await?;
    let before = world.tron_holdings().await?;
    // One that is asked and says nothing keeps the auction open to its end.
    let silent = Did::from_ed25519(&settler::dev::key(1).context("the network has three settlers")?.verifying_key());
    let mut payers = Vec::new();
    for name in ["before the auction ends", "after it failed", "never"] {
        payers.push(TronPayer::endowed(&world, name).await?);
    }
    world.network.signal_settler(1, Signal::Stop).await?;
    let mut payments = Vec::new();
    for payer in payers {
        let mut spec = soon(world.spec_from_tron("no-quotes")?);
        spec.whitelist = vec![silent.clone()];
        let (payment_id, transactions) = payer.submit(&world, &spec, json!({})).await?;
        payments.push((payer, payment_id, transactions));
    }
    let [early, late, never] = &payments[..] else { anyhow::bail!("three payments") };
    for transaction in &early.2 {
        assert_eq!(bring(&world, transaction).await?["receipt"]["result"], "SUCCESS");
    }
    for (_, payment_id, _) in &payments {
        assert_eq!(world.failed(payment_id).await?, RefundDue::Nothing);
        let outcome = world.outcome(payment_id).await?;
        assert_eq!(outcome.body["error"]["code"], "NO_QUOTES_RECEIVED", "{outcome:?}");
    }
    for transaction in &late.2 {
        assert_eq!(bring(&world, transaction).await?["receipt"]["result"], "SUCCESS");
    }
    // The watch goes on in whatever gateway is there.
    restart_gateway(&mut world).await?;
    world.until(&early.1, "EscrowOpened").await?;
    restart_gateway(&mut world).await?;
    for (payer, payment_id, transactions) in [early, late] {
        let opened = opened(&world, payment_id).await?;
        assert_eq!(opened.inclusion.transaction_hash, transactions[1].id.to_string());
        assert_eq!(opened.amount.to_string(), CAP.to_string());
        let types = world.types(payment_id).await?;
        let place = |name| types.iter().position(|found| *found == name).context(name);
        assert!(place("Failed")? < place("EscrowOpened")?, "{types:?}");
        world.until(payment_id, "EscrowRefunded").await?;
        assert_eq!(escrow_moves(&world, payment_id).await?, [1, 0, 1]);
        assert_eq!(payer.tokens(&world).await?, CAP);
        assert_eq!(payer.sun(&world).await?, SUN - fees(&world, transactions).await?);
        assert_eq!(world.outcome(payment_id).await?.body["error"]["code"], "NO_QUOTES_RECEIVED");
    }
    let (payer, payment_id, transactions) = never;
    world.until(payment_id, "DepositRuledOut").await?;
    // Whoever has what it signed can do nothing with it.
    for transaction in transactions {
        assert_eq!(send(&world, transaction).await?["code"], "TRANSACTION_EXPIRATION_ERROR");
        assert!(info(&world, transaction.id).await?.is_none());
    }
    assert_eq!((payer.sun(&world).await?, payer.tokens(&world).await?), (SUN, CAP));
    assert_eq!(escrow_moves(&world, payment_id).await?, [0, 0, 0]);
    assert_eq!(world.tron_holdings().await?, before);
    for (_, payment_id, _) in &payments {
        world.audited(payment_id).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_could_not_be_reserved_in_time_is_refunded_by_its_window() -> Result<()> {
    let (mut world, node) = with_lossy_node(|options| Options { refund_delay_seconds: 10, ..options }).await?;
    let before = world.tron_holdings().await?;
    // Nothing that the gateway sends arrives; what wallets send does.
    node.set(Mode::Losing);
    let with_reservation = TronPayer::endowed(&world, "a payer whose reservation is lost").await?;
    let without = TronPayer::endowed(&world, "a payer whose gateway dies").await?;
    let spec = world.spec_from_tron("stranded")?;
    let (first, first_transactions) = with_reservation.submit(&world, &soon(spec.clone()), json!({})).await?;
    world.until(&first, "QuoteAwarded").await?;
    for transaction in &first_transactions {
        bring(&world, transaction).await?;
    }
    world.until(&first, "DepositPrepared").await?;
    let (second, second_transactions) = without.submit(&world, &soon(spec), json!({})).await?;
    world.until(&second, "QuoteAwarded").await?;
    world.network.kill_gateway(0).await?;
    for transaction in &second_transactions {
        bring(&world, transaction).await?;
    }
    let deadline = reserve_deadline(&world, &second).await?;
    let past = || async { chain_time_ms(&world, "walletsolidity").await.is_ok_and(|time| time / 1000 > deadline) };
    eventually(past).await?;
    node.set(Mode::Passing);
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;

    for (payer, payment_id, transactions) in
        [(&with_reservation, &first, &first_transactions), (&without, &second, &second_transactions)]
    {
        assert_eq!(world.failed(payment_id).await?, RefundDue::AfterWindow);
        let opened = opened(&world, payment_id).await?;
        assert_eq!(opened.inclusion.transaction_hash, transactions[1].id.to_string());
        let outcome = world.outcome(payment_id).await?;
        let error = &outcome.body["error"];
        assert_eq!(error["code"], "SETTLEMENT_FAILED", "{outcome:?}");
        assert_eq!(error["blockchain_context"]["transaction_hash"], transactions[1].id.to_string(), "{outcome:?}");
        world.until(payment_id, "EscrowRefunded").await?;
        assert_eq!(escrow_moves(&world, payment_id).await?, [1, 0, 1]);
        assert_eq!(payer.tokens(&world).await?, CAP);
        assert_eq!(payer.sun(&world).await?, SUN - fees(&world, transactions).await?);
    }
    assert!(world.types(&first).await?.contains(&"DepositPrepared"));
    assert!(!world.types(&second).await?.contains(&"DepositPrepared"));
    assert_eq!(world.tron_holdings().await?, before);
    world.audited(&first).await?;
    world.audited(&second).await
}
