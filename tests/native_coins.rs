//! Delivery of ETH (ADR 115): a payer of tokens on one chain has it delivered on another.

use std::time::Duration;

use alloy::primitives::U256;
use anyhow::{Context, Result};
use serde_json::Value;

use devnet::{keys::Role, payer::PaymentSpec};
use events::{Did, event::RefundDue};

use crate::support::*;

/// What arrives, in wei: 0.0123 ETH and some.
const WEI: u64 = 12_345_678_901_234_567;
/// Price of the cheapest settler for it at 3,000 tokens an ETH, ten basis points more, rounded up.
const WEI_PRICE: u64 = 37_074_074;
const WEI_CAP: u64 = 37_500_000;
/// Where contracts are put that are to be paid.
const CONTRACT: &str = "0x00000000000000000000000000000000c0115eed";
/// A contract that takes no coins: PUSH0, PUSH0, REVERT.
const REFUSES: &str = "0x5f5ffd";
/// One that takes them: STOP.
const TAKES: &str = "0x00";
/// One that loops for ever.
const BURNS_ALL: &str = "0x5b600056";
/// Deliveries of an award that may revert, and the most gas of each.
const REVERTS_MAX: u64 = 3;
const DELIVERY_GAS_MAX: u64 = 300_000;

/// A payment of tokens that delivers ETH.
fn eth(world: &World, request_id: &str) -> Result<PaymentSpec> {
    let (amount, cap) = (WEI.to_string().parse()?, WEI_CAP.to_string().parse()?);
    Ok(PaymentSpec { destination: world.network.destination.coin()?, amount, cap, ..world.spec(request_id)? })
}

/// Puts `code` at [`CONTRACT`].
async fn turn(world: &World, code: &str) -> Result<()> {
    Ok(world.network.destination.dev.rpc::<_, Value>("anvil_setCode", (CONTRACT, code)).await.map(drop)?)
}

/// What a failed payment says of those that did not quote: each reason once.
async fn reasons(world: &World, spec: &PaymentSpec) -> Result<Vec<String>> {
    let payment_id = world.submit(spec).await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.body["error"]["code"], "NO_QUOTES_RECEIVED", "{outcome:?}");
    let declines = outcome.body["decline_summary"].as_array().context("nobody declined")?;
    assert_eq!(declines.iter().filter_map(|decline| decline["count"].as_u64()).sum::<u64>(), 3, "{declines:?}");
    Ok(declines.iter().filter_map(|decline| decline["reason"].as_str().map(str::to_owned)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn eth_arrives_to_the_wei_and_only_where_it_can_be_delivered() -> Result<()> {
    let world = World::start(1).await?;
    let destination = &world.network.destination;
    let recipient = Role::Recipient.account();
    let (before, paid) = (destination.dev.balance(&recipient).await?, world.balances().await?);
    let payment_id = world.submit(&eth(&world, "eth")?).await?;
    world.completed(&payment_id).await?;
    assert_eq!(destination.dev.balance(&recipient).await? - before, U256::from(WEI));
    let moved = moves(&paid, &world.balances().await?);
    assert_eq!(moved, Moves::from([("payer", -i128::from(WEI_PRICE))]));
    world.settled_once(std::slice::from_ref(&payment_id)).await?;
    world.audited(&payment_id).await?;

    // A contract that refuses coins gets no quote, and the payer keeps its money.
    turn(&world, REFUSES).await?;
    let paid = world.balances().await?;
    let refusing = PaymentSpec { recipient: CONTRACT.to_owned(), ..eth(&world, "eth-refused")? };
    assert_eq!(reasons(&world, &refusing).await?, ["UNDELIVERABLE"]);

    // Settlers whose coins are enough for the amount and not for the gas besides do not quote, neither coins nor tokens.
    for n in 1..=3 {
        destination.dev.fund(&Role::Settler(n).account(), U256::from(WEI)).await?;
    }
    assert_eq!(reasons(&world, &eth(&world, "eth-short")?).await?, ["INSUFFICIENT_LIQUIDITY"]);
    for n in 1..=3 {
        destination.dev.fund(&Role::Settler(n).account(), U256::from(1_000)).await?;
    }
    assert_eq!(reasons(&world, &world.spec("gas-short")?).await?, ["INSUFFICIENT_LIQUIDITY"]);
    assert_eq!(world.balances().await?, paid);
    Ok(())
}

/// Only the test makes blocks on the destination here, and in each the recipient is another than it was when the settler looked.
#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_that_takes_coins_in_trials_alone_costs_three_deliveries_and_the_payer_nothing() -> Result<()> {
    let world = World::start(1).await?;
    let dev = &world.network.destination.dev;
    let settler = Role::Settler(1).account();
    let sent =
        async || Ok::<_, anyhow::Error>(dev.rpc::<_, U256>("eth_getTransactionCount", (&settler, "latest")).await?);
    let (before, held, first) = (world.balances().await?, dev.balance(&settler).await?, sent().await?);
    turn(&world, TAKES).await?;
    let _: Value = dev.rpc("evm_setIntervalMining", (0,)).await?;
    let key = settler::dev::key(1).context("the network has three settlers")?;
    let spec = PaymentSpec {
        recipient: CONTRACT.to_owned(),
        whitelist: vec![Did::from_ed25519(&key.verifying_key())],
        fulfillment_window: Duration::from_secs(30),
        ..eth(&world, "turns")?
    };
    let payment_id = world.submit(&spec).await?;
    for reverts in 1..=REVERTS_MAX {
        let pending = async || dev.rpc::<_, U256>("eth_getBlockTransactionCountByNumber", ("pending",)).await;
        eventually(|| async { pending().await.is_ok_and(|count| count == U256::ONE) }).await.context("no delivery")?;
        turn(&world, BURNS_ALL).await?;
        let _: Value = dev.rpc("evm_mine", ()).await?;
        turn(&world, TAKES).await?;
        assert_eq!(sent().await?, first + U256::from(reverts));
    }
    // From here on a delivery would succeed, and none is sent.
    let _: Value = dev.rpc("evm_setIntervalMining", (1,)).await?;
    assert!(matches!(world.failed(&payment_id).await?, RefundDue::ByNonDelivery { .. }));
    world.until(&payment_id, "EscrowRefunded").await?;
    assert_eq!((sent().await?, dev.balance(CONTRACT).await?), (first + U256::from(REVERTS_MAX), U256::ZERO));
    assert_eq!(world.balances().await?, before);
    let spent = held - dev.balance(&settler).await?;
    // Blocks here cost far less than ten gwei a unit.
    assert!(spent <= U256::from(REVERTS_MAX * DELIVERY_GAS_MAX * 10_000_000_000), "{spent}");
    Ok(())
}
