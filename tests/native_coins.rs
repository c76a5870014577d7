//! ETH as what arrives (ADR 115): a payer of tokens on one chain has it delivered on another.

use alloy::primitives::U256;
use anyhow::{Context, Result};
use serde_json::Value;

use devnet::{keys::Role, payer::PaymentSpec};

use crate::support::*;

/// What arrives, in wei: 0.0123 ETH and some.
const WEI: u64 = 12_345_678_901_234_567;
/// Price of the cheapest settler for it at 3,000 tokens an ETH, ten basis points more, rounded up.
const WEI_PRICE: u64 = 37_074_074;
const WEI_CAP: u64 = 37_500_000;
/// A contract that takes no coins: PUSH0, PUSH0, REVERT.
const REFUSES: &str = "0x5f5ffd";

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
    let spec = |request_id: &str| -> Result<PaymentSpec> {
        let (amount, cap) = (WEI.to_string().parse()?, WEI_CAP.to_string().parse()?);
        Ok(PaymentSpec { destination: destination.coin()?, amount, cap, ..world.spec(request_id)? })
    };
    let recipient = Role::Recipient.account();
    let (before, paid) = (destination.dev.balance(&recipient).await?, world.balances().await?);
    let payment_id = world.submit(&spec("eth")?).await?;
    world.completed(&payment_id).await?;
    assert_eq!(destination.dev.balance(&recipient).await? - before, U256::from(WEI));
    let moved = moves(&paid, &world.balances().await?);
    assert_eq!(moved, Moves::from([("payer", -i128::from(WEI_PRICE))]));
    world.settled_once(std::slice::from_ref(&payment_id)).await?;
    world.audited(&payment_id).await?;

    // A contract that refuses coins gets no quote, and the payer keeps its money.
    let contract = "0x00000000000000000000000000000000c0115eed";
    let _: Value = destination.dev.rpc("anvil_setCode", (contract, REFUSES)).await?;
    let paid = world.balances().await?;
    let refusing = PaymentSpec { recipient: contract.to_owned(), ..spec("eth-refused")? };
    assert_eq!(reasons(&world, &refusing).await?, ["UNDELIVERABLE"]);

    // Settlers whose coins are enough for the amount and not for the gas besides do not quote, neither coins nor tokens.
    for n in 1..=3 {
        destination.dev.fund(&Role::Settler(n).account(), U256::from(WEI)).await?;
    }
    assert_eq!(reasons(&world, &spec("eth-short")?).await?, ["INSUFFICIENT_LIQUIDITY"]);
    for n in 1..=3 {
        destination.dev.fund(&Role::Settler(n).account(), U256::from(1_000)).await?;
    }
    assert_eq!(reasons(&world, &world.spec("gas-short")?).await?, ["INSUFFICIENT_LIQUIDITY"]);
    assert_eq!(world.balances().await?, paid);
    Ok(())
}
