//! The price of a block goes up while a deposit waits: it is signed again at its nonce, and made once.

use alloy::primitives::U256;
use anyhow::Result;
use serde_json::Value;

use events::{PaymentEvent, event::TransactionPrepared};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_is_replaced_across_deaths_of_the_gateway_and_made_once() -> Result<()> {
    let mut world = World::start(1).await?;
    let before = world.balances().await?;
    // No block takes the deposit before the price has gone up.
    let _: Value = world.network.source.dev.rpc("evm_setIntervalMining", (0,)).await?;
    let payment_id = world.submit(&world.spec("dear")?).await?;
    world.until(&payment_id, "DepositPrepared").await?;
    let _: Value =
        world.network.source.dev.rpc("anvil_setNextBlockBaseFeePerGas", (U256::from(100_000_000_000u64),)).await?;
    let _: Value = world.network.source.dev.rpc("evm_mine", ()).await?;
    world.until(&payment_id, "DepositRepriced").await?;
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let _: Value = world.network.source.dev.rpc("evm_setIntervalMining", (1,)).await?;

    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    world.until(&payment_id, "EscrowReleased").await?;
    let mut signed: Vec<TransactionPrepared> = Vec::new();
    let mut secured = None;
    for entry in world.auditor.timeline(&payment_id).await? {
        match entry.event {
            PaymentEvent::DepositPrepared(version) | PaymentEvent::DepositRepriced(version) => signed.push(version),
            PaymentEvent::EscrowSecured(event) => secured = Some(event.inclusion.transaction_hash),
            _ => {}
        }
    }
    for version in &signed {
        let first = signed.iter().find(|first| first.attempt == version.attempt);
        assert_eq!(first.map(|first| (&first.sender, first.validity)), Some((&version.sender, version.validity)));
    }
    assert!(signed.iter().any(|version| Some(&version.transaction_hash) == secured.as_ref()), "{secured:?}");
    assert_eq!(before["payer"] - world.balances().await?["payer"], U256::from(PRICE));
    world.settled_once(&[payment_id]).await
}
