//! Refunds that everything is against: no verifier, no coins, a price nobody pays, somebody else who was first.

use std::time::Duration;

use alloy::{
    primitives::{U64, U256},
    rpc::types::Log,
    sol_types::{SolCall, SolEvent},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use devnet::{keys::Role, network::Options};
use escrow_abi::{contracts::GatewayEscrow, record::EscrowTerms};
use events::{
    PaymentEvent, PaymentId,
    event::{EscrowRefunded, RefundDue, TransactionPrepared},
};

use crate::support::*;

/// A hundred coins.
const COINS: u128 = 100_000_000_000_000_000_000;

impl World {
    async fn refunded(&self, payment_id: &PaymentId) -> Result<EscrowRefunded> {
        self.until(payment_id, "EscrowRefunded").await?;
        match self.events(payment_id, "EscrowRefunded").await?.remove(0) {
            PaymentEvent::EscrowRefunded(refunded) => Ok(refunded),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// Every version of every refund that was signed, oldest first.
    async fn signed_refunds(&self, payment_id: &PaymentId) -> Result<Vec<TransactionPrepared>> {
        let timeline = self.auditor.timeline(payment_id).await?;
        Ok(timeline
            .into_iter()
            .filter_map(|entry| match entry.event {
                PaymentEvent::RefundPrepared(transaction) | PaymentEvent::RefundRepriced(transaction) => {
                    Some(transaction)
                }
                _ => None,
            })
            .collect())
    }

    /// The escrow's refund window of a payment, UNIX.
    async fn refund_after(&self, payment_id: &PaymentId) -> Result<u64> {
        match self.events(payment_id, "Submitted").await?.remove(0) {
            PaymentEvent::Submitted(submitted) => Ok(submitted.escrow.refund_after),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// The terms that the source chain's escrow commits to, as its events tell them to anyone.
    async fn escrow_terms(&self, payment_id: &PaymentId) -> Result<EscrowTerms> {
        let source = &self.network.source;
        let filter = json!({
            "fromBlock": "0x0",
            "address": source.contracts.escrow,
            "topics": [null, payment_id.on_chain()],
        });
        let logs: Vec<Log> = source.dev.rpc("eth_getLogs", (filter,)).await?;
        let deposited = logs.iter().find_map(|log| GatewayEscrow::Deposited::decode_log(&log.inner).ok());
        let reserved = logs.iter().find_map(|log| GatewayEscrow::Reserved::decode_log(&log.inner).ok());
        let (deposited, reserved) = (deposited.context("no deposit")?, reserved.context("no reservation")?);
        Ok(EscrowTerms::told_by(&deposited).reserved_by(&reserved))
    }

    async fn source_time(&self) -> Result<u64> {
        let block: Value = self.network.source.dev.rpc("eth_getBlockByNumber", ("latest", false)).await?;
        let time: U64 = serde_json::from_value(block["timestamp"].clone())?;
        Ok(time.to())
    }

    /// The entries of the timeline that the gateway shows, for one type of event.
    async fn shown(&self, payment_id: &PaymentId, event: &str) -> Result<Vec<Value>> {
        let url = format!("{}/v1/payments/{payment_id}/timeline", self.base(0));
        let body: Value = reqwest::get(url).await?.error_for_status()?.json().await?;
        let entries = body["entries"].as_array().context("entries")?;
        Ok(entries.iter().filter(|entry| entry["event"] == event).cloned().collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_verifier_the_money_comes_back_by_the_window() -> Result<()> {
    let mut world = World::with(|options| Options { refund_delay_seconds: 10, ..options }).await?;
    world.network.kill_verifier(1).await?;
    let before = world.balances().await?;
    let payment_id = world.submit(&world.undeliverable_spec("no-verifier")?).await?;
    assert_eq!(world.failed(&payment_id).await?, RefundDue::AfterWindow);
    let refunded = world.refunded(&payment_id).await?;
    assert!(refunded.inclusion.block_time >= world.refund_after(&payment_id).await?);
    assert_eq!(world.balances().await?, before);
    let failed = world.shown(&payment_id, "Failed").await?;
    assert_eq!(failed[0]["data"]["refund"], "after_refund_window");
    let shown = world.shown(&payment_id, "EscrowRefunded").await?;
    assert_eq!(shown[0]["transactions"]["refund"]["transaction_hash"], refunded.inclusion.transaction_hash);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_no_block_takes_is_signed_again_with_higher_fees() -> Result<()> {
    let world = World::with(|options| Options { refund_delay_seconds: 120, ..options }).await?;
    let before = world.balances().await?;
    let payment_id = world.submit(&world.undeliverable_spec("dear")?).await?;
    world.until(&payment_id, "EscrowSecured").await?;
    let source = &world.network.source;
    // No block takes the refund before the price has gone up.
    let _: Value = source.dev.rpc("evm_setIntervalMining", (0,)).await?;
    assert!(matches!(world.failed(&payment_id).await?, RefundDue::ByNonDelivery { .. }));
    world.until(&payment_id, "RefundPrepared").await?;
    let _: Value = source.dev.rpc("anvil_setNextBlockBaseFeePerGas", (U256::from(100_000_000_000u64),)).await?;
    let _: Value = source.dev.rpc("evm_mine", ()).await?;
    world.until(&payment_id, "RefundRepriced").await?;
    let _: Value = source.dev.rpc("evm_setIntervalMining", (1,)).await?;

    let refunded = world.refunded(&payment_id).await?;
    let signed = world.signed_refunds(&payment_id).await?;
    assert!(signed.len() >= 2);
    assert!(signed.iter().all(|version| (version.attempt, version.validity) == (1, signed[0].validity)), "{signed:?}");
    assert!(signed[1..].iter().any(|version| version.transaction_hash == refunded.inclusion.transaction_hash));
    assert_eq!(world.balances().await?, before);
    assert_eq!(logs(source, REFUNDED, &payment_id).await?, 1);
    let shown = world.shown(&payment_id, "RefundRepriced").await?;
    assert_eq!(shown[0]["transactions"]["refund"]["transaction_hash"], signed[1].transaction_hash);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_waits_for_coins_and_takes_no_nonce_before() -> Result<()> {
    let world = World::start(1).await?;
    let before = world.balances().await?;
    let payment_id = world.submit(&world.undeliverable_spec("no-coins")?).await?;
    world.until(&payment_id, "EscrowSecured").await?;
    let source = &world.network.source;
    let submitter = Role::Submitter.account();
    source.dev.fund(&submitter, U256::ZERO).await?;
    world.failed(&payment_id).await?;
    eventually(|| async { world.network.log("gateway-1").is_ok_and(|log| log.contains("has the coins for its gas")) })
        .await
        .context("the log says what is missing")?;
    assert!(world.signed_refunds(&payment_id).await?.is_empty());
    source.dev.fund(&submitter, U256::from(COINS)).await?;
    world.refunded(&payment_id).await?;
    assert_eq!(world.signed_refunds(&payment_id).await?.len(), 1);
    assert_eq!(world.balances().await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_somebody_else_triggered_is_adopted() -> Result<()> {
    let mut world = World::with(|options| Options { refund_delay_seconds: 10, ..options }).await?;
    let before = world.balances().await?;
    let payment_id = world.submit(&world.undeliverable_spec("somebody-else")?).await?;
    world.until(&payment_id, "EscrowSecured").await?;
    let refund_after = world.refund_after(&payment_id).await?;
    world.network.kill_gateway(0).await?;
    let opens = || async { world.source_time().await.is_ok_and(|time| time >= refund_after) };
    tokio::time::timeout(Duration::from_secs(110), eventually(opens)).await??;
    let source = &world.network.source;
    let stranger = Role::Recipient.account();
    source.dev.fund(&stranger, U256::from(COINS)).await?;
    let EscrowTerms(terms) = world.escrow_terms(&payment_id).await?;
    let data = GatewayEscrow::refundCall { e: terms }.abi_encode();
    let call = json!({"from": stranger, "to": source.contracts.escrow, "data": format!("0x{}", hex::encode(data))});
    let _: Value = source.dev.rpc("anvil_impersonateAccount", (&stranger,)).await?;
    let theirs: String = source.dev.rpc("eth_sendTransaction", (call,)).await?;
    eventually(|| async { logs(source, REFUNDED, &payment_id).await.is_ok_and(|logs| logs == 1) }).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    assert_eq!(world.refunded(&payment_id).await?.inclusion.transaction_hash, theirs);
    assert_eq!(world.balances().await?, before);
    assert_eq!(world.outcome(&payment_id).await?.text("status"), "failed");
    Ok(())
}
