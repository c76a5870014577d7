//! Faults around the gateway: nats-server, the read models, a settler, the payer's allowance.

use std::time::Duration;

use alloy::{
    primitives::{Address, U256},
    sol,
    sol_types::SolCall,
};
use anyhow::{Context, Result};
use async_nats::Client;
use chrono::Utc;
use serde_json::{Value, json};

use devkit::Signal;
use devnet::{keys::Role, payer::PaymentSpec, users::NatsUser};
use events::Did;
use protocol::bid_subject;

use crate::support::*;

sol! {
    function approve(address spender, uint256 value) external returns (bool);
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_server_killed_in_every_leg_of_a_payment_loses_nothing() -> Result<()> {
    let mut world = World::start(1).await?;
    let mut payments = Vec::new();
    for event in ["Submitted", "DepositPrepared", "EscrowSecured", "FulfillmentSeen", "FulfillmentConfirmed"] {
        // Time enough for settlers to come back to a server that was killed, also where much else runs.
        let quote_window = Duration::from_secs(60);
        let spec = PaymentSpec { quote_window, ..world.spec(&format!("nats-killed-after-{event}"))? };
        let payment_id = world.submit(&spec).await?;
        world.until(&payment_id, event).await?;
        world.network.nats.kill().await?;
        world.network.nats.restart().await?;
        world.network.ready(0).await?;
        payments.push(payment_id);
    }
    for payment_id in &payments {
        let outcome = world.outcome(payment_id).await?;
        assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(&payments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_read_models_are_rebuilt_and_open_payments_go_on() -> Result<()> {
    let mut world = World::start(1).await?;
    let done = world.submit(&world.spec("before")?).await?;
    let before = world.outcome(&done).await?;
    let open = world.submit(&world.spec("open")?).await?;
    world.until(&open, "EscrowSecured").await?;

    world.network.kill_gateway(0).await?;
    std::fs::remove_dir_all(&world.network.gateways[0].projections)?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;

    let after = world.outcome(&done).await?;
    for member in ["status", "quote_id", "fulfillment_quote", "fulfillment_confirmation", "requested_count"] {
        assert_eq!(after.body[member], before.body[member], "{member}");
    }
    assert_eq!(world.outcome(&open).await?.text("status"), "completed");
    world.until(&open, "EscrowReleased").await?;
    world.settled_once(&[open]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settler_killed_around_its_delivery_delivers_once_and_is_paid() -> Result<()> {
    let mut world = World::start(1).await?;
    let mut payments = Vec::new();
    for event in ["QuoteAwarded", "EscrowSecured", "FulfillmentSeen", "FulfillmentConfirmed"] {
        let payment_id = world.submit(&world.spec(&format!("settler-killed-after-{event}"))?).await?;
        world.until(&payment_id, event).await?;
        world.network.kill_settler(1).await?;
        world.network.start_settler(1)?;
        // A settler that is away wins nothing: the next payment waits until it is back in the auction.
        world.outcome(&payment_id).await?;
        payments.push(payment_id);
    }
    for payment_id in &payments {
        assert_eq!(world.outcome(payment_id).await?.text("status"), "completed");
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(&payments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_reverts_fails_the_payment_with_its_blockchain_context() -> Result<()> {
    let world = World::start(1).await?;
    let source = &world.network.source;
    let before = world.balances().await?;

    // No block is made until the payer has withdrawn the allowance in front of the deposit.
    let _: Value = source.dev.rpc("evm_setIntervalMining", (0,)).await?;
    let payment_id = world.submit(&world.spec("reverts")?).await?;
    world.until(&payment_id, "DepositPrepared").await?;
    let permit2: Address = source.contracts.permit2.parse()?;
    let data = approveCall { spender: permit2, value: U256::ZERO }.abi_encode();
    let withdraw = json!({
        "from": Role::Payer.account(),
        "to": source.token,
        "data": format!("0x{}", hex::encode(data)),
        "gas": "0x30d40",
        "maxFeePerGas": "0x2e90edd000",
        "maxPriorityFeePerGas": "0x174876e800",
    });
    let _: Value = source.dev.rpc("anvil_impersonateAccount", (Role::Payer.account(),)).await?;
    let _: Value = source.dev.rpc("eth_sendTransaction", (withdraw,)).await?;
    let _: Value = source.dev.rpc("evm_setIntervalMining", (1,)).await?;

    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
    let error = &outcome.body["error"];
    assert_eq!(error["code"], "SETTLEMENT_FAILED");
    let context = &error["blockchain_context"];
    assert_eq!(context["chain_id"], source.id().as_str());
    assert_eq!(context["contract_address"], json!(source.contracts.escrow));
    assert!(context["revert_reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{context}");
    assert_eq!(context["transaction_hash"], outcome.body["transactions"]["deposit"]["transaction_hash"]);
    assert!(context["block_number"].is_u64(), "{context}");
    assert_eq!(world.balances().await?, before);
    assert_eq!(logs(source, DEPOSITED, &payment_id).await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_that_is_gone_before_the_deposit_is_signed_fails_without_a_transaction() -> Result<()> {
    let world = World::start(1).await?;
    let source = &world.network.source;
    // It stands when the payment is accepted, and the payer withdraws it before any settler has answered.
    for n in 1..=3 {
        world.network.signal_settler(n, Signal::Stop).await?;
    }
    let spec = PaymentSpec { quote_window: Duration::from_secs(20), ..world.spec("no-allowance")? };
    let payment_id = world.submit(&spec).await?;
    source.dev.approve(&Role::Payer.signer(), &source.token, &source.contracts.permit2, U256::ZERO).await?;
    for n in 1..=3 {
        world.network.signal_settler(n, Signal::Continue).await?;
    }
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
    let error = &outcome.body["error"];
    assert!(error.get("blockchain_context").is_none(), "nothing reached a chain: {outcome:?}");
    assert!(error["message"].as_str().is_some_and(|message| message.ends_with(')')), "{outcome:?}");
    assert!(outcome.body["transactions"]["deposit"].is_null(), "{outcome:?}");
    Ok(())
}

/// Whether the stream holds something under this subject.
async fn stored(client: &Client, stream: &str, subject: &str) -> bool {
    let last = json!({"last_by_subj": subject}).to_string();
    let answer = client.request(format!("$JS.API.DIRECT.GET.{stream}"), last.into()).await;
    answer.is_ok_and(|answer| answer.status.is_none())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_that_came_in_time_counts_for_a_gateway_that_hung_past_the_deadline() -> Result<()> {
    let world = World::start(1).await?;
    let client = world.network.nats.connect(NatsUser::Gateway).await?;
    let settler = Did::from_ed25519(&settler::dev::key(1).context("the network has three settlers")?.verifying_key());
    let spec = PaymentSpec { whitelist: vec![settler.clone()], ..world.spec("heard-late")? };

    world.network.signal_settler(1, Signal::Stop).await?;
    let payment_id = world.submit(&spec).await?;
    let deadline = Utc::now() + spec.quote_window;
    let asked = format!("auction.asked.{payment_id}");
    eventually(|| stored(&client, "ASKED", &asked)).await.context("nobody is asked")?;
    world.network.signal_gateway(0, Signal::Stop).await?;
    world.network.signal_settler(1, Signal::Continue).await?;
    let bid = bid_subject(&settler.token(), payment_id.as_str());
    let bids = format!("BIDS_{}", settler.token());
    eventually(|| stored(&client, &bids, &bid)).await.context("the settler does not answer")?;
    eventually(|| async { Utc::now() > deadline }).await?;
    world.network.signal_gateway(0, Signal::Continue).await?;

    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(&[payment_id]).await
}
