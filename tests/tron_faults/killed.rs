//! kill -9 of the gateway after each kind of event in turn: the payment ends as it would have.

use super::{
    delivered,
    payer::{CAP, SUN, TronPayer, escrow_moves, fees},
    restart_gateway,
};
use crate::support::*;
use anyhow::Result;
use serde_json::json;

use events::event::RefundDue;

/// The events after which the process dies, in the order of an undisturbed payment.
const DELIVERED: [&str; 7] = [
    "Submitted",
    "QuoteAwarded",
    "DepositPrepared",
    "EscrowSecured",
    "FulfillmentSeen",
    "FulfillmentConfirmed",
    "EscrowReleased",
];
/// Likewise for a payment that fails with money in escrow.
const REFUNDED_AFTER: [&str; 3] = ["Failed", "RefundPrepared", "EscrowRefunded"];

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_after_any_event_of_a_delivery_goes_on_and_pays_once() -> Result<()> {
    let mut world = World::with_tron(|options| options).await?;
    let before = world.tron_holdings().await?;
    let mut payments = Vec::new();
    for event in DELIVERED {
        let payer = TronPayer::endowed(&world, event).await?;
        let (payment_id, transactions) = payer.submit(&world, &world.spec_from_tron("killed")?, json!({})).await?;
        world.until(&payment_id, event).await?;
        restart_gateway(&mut world).await?;
        payments.push((payer, payment_id, transactions));
    }
    for (payer, payment_id, transactions) in &payments {
        world.completed(payment_id).await?;
        assert_eq!(escrow_moves(&world, payment_id).await?, [1, 1, 0]);
        assert_eq!(payer.tokens(&world).await?, CAP - PRICE);
        assert_eq!(payer.sun(&world).await?, SUN - fees(&world, transactions).await?);
    }
    assert_eq!(moves(&before, &world.tron_holdings().await?), delivered(7));
    world.audited(&payments[1].1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_after_any_event_of_a_refund_goes_on_and_refunds_once() -> Result<()> {
    let mut world = World::with_tron(|options| options).await?;
    let before = world.tron_holdings().await?;
    let mut payments = Vec::new();
    for event in REFUNDED_AFTER {
        let payer = TronPayer::endowed(&world, event).await?;
        let (payment_id, transactions) =
            payer.submit(&world, &world.undeliverable_from_tron("killed")?, json!({})).await?;
        payments.push((event, payer, payment_id, transactions));
    }
    for (event, _, payment_id, _) in &payments {
        world.until(payment_id, event).await?;
        restart_gateway(&mut world).await?;
    }
    for (_, payer, payment_id, transactions) in &payments {
        // The verifier says that nothing came, so nobody waits for the window.
        assert!(matches!(world.failed(payment_id).await?, RefundDue::ByNonDelivery { .. }));
        world.until(payment_id, "EscrowRefunded").await?;
        assert_eq!(escrow_moves(&world, payment_id).await?, [1, 0, 1]);
        assert_eq!(payer.tokens(&world).await?, CAP);
        assert_eq!(payer.sun(&world).await?, SUN - fees(&world, transactions).await?);
    }
    assert_eq!(world.tron_holdings().await?, before);
    world.audited(&payments[0].2).await
}
