//! kill -9 of the gateway after each kind of event in turn: the payment ends as it would have.

use crate::support::*;
use anyhow::Result;

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
    let mut world = World::start(1).await?;
    let before = world.balances().await?;
    let mut payments = Vec::new();
    for event in DELIVERED {
        let payment_id = world.submit(&world.spec(&format!("killed-after-{event}"))?).await?;
        world.until(&payment_id, event).await?;
        world.network.kill_gateway(0).await?;
        world.network.start_gateway(0).await?;
        world.network.ready(0).await?;
        payments.push(payment_id);
    }
    for payment_id in &payments {
        let outcome = world.outcome(payment_id).await?;
        assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(&payments).await?;
    let after = world.balances().await?;
    let count = payments.len() as u64;
    assert_eq!(before["payer"] - after["payer"], alloy::primitives::U256::from(PRICE * count));
    assert_eq!(after["recipient"] - before["recipient"], alloy::primitives::U256::from(AMOUNT * count));
    assert!(after["escrow"].is_zero());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_after_any_event_of_a_refund_goes_on_and_refunds_once() -> Result<()> {
    let mut world = World::start(1).await?;
    let before = world.balances().await?;
    let mut payments = Vec::new();
    for event in REFUNDED_AFTER {
        payments.push((event, world.submit(&world.undeliverable_spec(&format!("killed-after-{event}"))?).await?));
    }
    for (event, payment_id) in &payments {
        world.until(payment_id, event).await?;
        world.network.kill_gateway(0).await?;
        world.network.start_gateway(0).await?;
        world.network.ready(0).await?;
    }
    for (_, payment_id) in &payments {
        let outcome = world.outcome(payment_id).await?;
        assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
        world.until(payment_id, "EscrowRefunded").await?;
        assert_eq!(logs(&world.network.source, DEPOSITED, payment_id).await?, 1);
        assert_eq!(logs(&world.network.source, REFUNDED, payment_id).await?, 1);
        assert_eq!(logs(&world.network.destination, FULFILLED, payment_id).await?, 0);
    }
    assert_eq!(world.balances().await?, before);
    Ok(())
}
