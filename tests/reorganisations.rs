//! Reorganisations under the real binary: deliveries and deposits disappear, and come back or do not.

use alloy::primitives::{U64, U256};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use devnet::{
    keys::Role,
    network::{Chain, Options},
    payer::{Answer, PaymentSpec},
};
use events::{PaymentEvent, PaymentId, event::Inclusion};

use crate::support::*;

/// Deep enough for a block to disappear before it is settled, on a busy machine too.
const DEPTH: u64 = 12;

async fn world() -> Result<World> {
    World::with(|options| Options { depth: DEPTH, refund_delay_seconds: 60, ..options }).await
}

async fn head(chain: &Chain) -> Result<u64> {
    let number: U64 = chain.dev.rpc("eth_blockNumber", ()).await?;
    Ok(number.to())
}

/// Replaces the blocks from `first` on by as many others. Of the transactions given, each as its bytes, `transactions` are
/// in the last but one of them; everything else that was in them is gone.
async fn reorganise(chain: &Chain, first: u64, transactions: &[String]) -> Result<()> {
    let depth = head(chain).await?.checked_sub(first).context("a block of the future")? + 1;
    ensure!(depth < DEPTH, "block {first} is settled already");
    let offset = depth.saturating_sub(2);
    let transactions: Vec<Value> = transactions.iter().map(|raw| json!([raw, offset])).collect();
    let _: Value = chain.dev.rpc("anvil_reorg", (depth, transactions)).await?;
    Ok(())
}

/// Makes at once as many blocks as settle what is on the chain now.
async fn settle(chain: &Chain) -> Result<()> {
    let _: Value = chain.dev.rpc("anvil_mine", (U64::from(DEPTH),)).await?;
    Ok(())
}

/// Waits until the payment has this event on `chain`, and settles it.
async fn settled(chain: &Chain, event: &str, payment_id: &PaymentId) -> Result<()> {
    let is_there = || async { logs(chain, event, payment_id).await.is_ok_and(|logs| logs == 1) };
    eventually(is_there).await.with_context(|| format!("no {event} of {payment_id}"))?;
    settle(chain).await
}

async fn raw(chain: &Chain, hash: &str) -> Result<String> {
    chain.dev.rpc("debug_getRawTransaction", (hash,)).await.context("raw transaction")
}

impl World {
    /// Waits until the delivery is seen, of which nothing but the deposit is settled then.
    async fn delivered(&self, payment_id: &PaymentId) -> Result<Inclusion> {
        settled(&self.network.source, DEPOSITED, payment_id).await?;
        self.until(payment_id, "FulfillmentSeen").await?;
        Ok(self.sightings(payment_id).await?.remove(0))
    }

    /// Waits until the payment's delivery, wherever it is now, is settled and the payment completed.
    async fn completes(&self, payment_id: &PaymentId) -> Result<Answer> {
        settled(&self.network.destination, FULFILLED, payment_id).await?;
        let outcome = self.outcome(payment_id).await?;
        ensure!(outcome.text("status") == "completed", "{outcome:?}");
        Ok(outcome)
    }

    /// Waits until the settler of a completed payment is paid.
    async fn released(&self, payment_id: &PaymentId) -> Result<()> {
        settled(&self.network.source, RELEASED, payment_id).await?;
        self.until(payment_id, "EscrowReleased").await
    }

    /// Where the delivery was seen, in the order in which it was.
    async fn sightings(&self, payment_id: &PaymentId) -> Result<Vec<Inclusion>> {
        let seen = self.events(payment_id, "FulfillmentSeen").await?.into_iter();
        Ok(seen
            .filter_map(|event| match event {
                PaymentEvent::FulfillmentSeen(seen) => Some(seen.inclusion),
                _ => None,
            })
            .collect())
    }

    async fn status(&self, payment_id: &PaymentId) -> Result<Value> {
        let url = format!("{}/v1/payments/{payment_id}/status", self.base(0));
        Ok(reqwest::get(url).await?.error_for_status()?.json().await?)
    }

    /// The status at each entry of the timeline that the gateway shows.
    async fn statuses(&self, payment_id: &PaymentId) -> Result<Vec<(String, String)>> {
        let url = format!("{}/v1/payments/{payment_id}/timeline", self.base(0));
        let body: Value = reqwest::get(url).await?.error_for_status()?.json().await?;
        let entries = body["entries"].as_array().context("entries")?;
        let of = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
        Ok(entries.iter().map(|entry| (of(entry, "event"), of(entry, "status"))).collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_moves_to_another_block_stays_finalizing_and_completes_there() -> Result<()> {
    let mut world = world().await?;
    let payment_id = world.submit(&world.spec("moves")?).await?;
    let first = world.delivered(&payment_id).await?;
    // The settler must not make another delivery in the meantime: this one comes back.
    world.network.kill_settler(1).await?;
    let destination = &world.network.destination;
    let delivery = raw(destination, &first.transaction_hash).await?;
    eventually(|| async { head(destination).await.is_ok_and(|head| head >= first.block_number + 3) }).await?;
    reorganise(destination, first.block_number, &[delivery]).await?;
    eventually(|| async { world.sightings(&payment_id).await.is_ok_and(|seen| seen.len() == 2) }).await?;
    let second = world.sightings(&payment_id).await?.remove(1);
    assert_eq!(second.transaction_hash, first.transaction_hash);
    assert!(second.block_number > first.block_number, "{first:?} {second:?}");
    eventually(|| async {
        let status = world.status(&payment_id).await.unwrap_or_default();
        status["transactions"]["fulfillment"]["block_number"] == second.block_number
    })
    .await
    .context("the block number is corrected")?;

    let outcome = world.completes(&payment_id).await?;
    let confirmed = &outcome.body["fulfillment_confirmation"];
    assert!(confirmed.to_string().contains(&second.transaction_hash), "{confirmed}");
    let statuses = world.statuses(&payment_id).await?;
    let from = statuses.iter().position(|(event, _)| event == "FulfillmentSeen").context("seen")?;
    let at_depth = |event: &str| matches!(event, "FulfillmentFinalized" | "FulfillmentConfirmed");
    let until = statuses.iter().position(|(event, _)| at_depth(event)).context("at its depth")?;
    assert!(statuses[from..until].iter().all(|(_, status)| status == "finalizing"), "{statuses:?}");
    world.network.start_settler(1)?;
    world.released(&payment_id).await?;
    world.settled_once(&[payment_id]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_disappears_is_made_again_by_its_settler() -> Result<()> {
    let world = world().await?;
    let payment_id = world.submit(&world.spec("made-again")?).await?;
    let first = world.delivered(&payment_id).await?;
    reorganise(&world.network.destination, first.block_number, &[]).await?;
    world.completes(&payment_id).await?;
    let last = world.sightings(&payment_id).await?.pop().context("seen")?;
    assert_ne!(last.block_hash, first.block_hash);
    world.released(&payment_id).await?;
    world.settled_once(&[payment_id]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_never_comes_back_stays_finalizing_until_its_time_is_over_and_fails() -> Result<()> {
    let mut world = world().await?;
    let before = world.balances().await?;
    let fulfillment_window = std::time::Duration::from_secs(30);
    let payment_id = world.submit(&PaymentSpec { fulfillment_window, ..world.spec("gone")? }).await?;
    let first = world.delivered(&payment_id).await?;
    world.network.kill_settler(1).await?;
    reorganise(&world.network.destination, first.block_number, &[]).await?;
    assert_eq!(logs(&world.network.destination, FULFILLED, &payment_id).await?, 0);
    // Everything may be lost meanwhile but the journal.
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    eventually(|| async { world.status(&payment_id).await.is_ok_and(|status| status["status"] != "pending") }).await?;
    assert_eq!(world.status(&payment_id).await?["status"], "finalizing");
    // Nobody needs to wait for what is past by as many blocks.
    settle(&world.network.destination).await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
    assert_eq!(outcome.body["error"]["code"], "SETTLEMENT_FAILED");
    settled(&world.network.source, REFUNDED, &payment_id).await?;
    world.until(&payment_id, "EscrowRefunded").await?;
    assert_eq!(world.balances().await?, before);
    let statuses = world.statuses(&payment_id).await?;
    let from = statuses.iter().position(|(event, _)| event == "FulfillmentSeen").context("seen")?;
    let until = statuses.iter().position(|(event, _)| event == "Failed").context("failed")?;
    assert!(statuses[from..until].iter().all(|(_, status)| status == "finalizing"), "{statuses:?}");
    Ok(())
}

/// The block of the payment's deposit, once there is one.
async fn deposited_in(world: &World, payment_id: &PaymentId) -> Result<u64> {
    let source = &world.network.source;
    eventually(|| async { logs(source, DEPOSITED, payment_id).await.is_ok_and(|logs| logs == 1) }).await?;
    let PaymentEvent::DepositPrepared(prepared) = world.events(payment_id, "DepositPrepared").await?.remove(0) else {
        anyhow::bail!("no deposit");
    };
    let receipt: Value = source.dev.rpc("eth_getTransactionReceipt", (prepared.transaction_hash,)).await?;
    let number: U64 = serde_json::from_value(receipt["blockNumber"].clone())?;
    Ok(number.to())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_disappears_is_sent_again_and_made_once() -> Result<()> {
    let world = world().await?;
    let before = world.balances().await?;
    let payment_id = world.submit(&world.spec("again")?).await?;
    let number = deposited_in(&world, &payment_id).await?;
    reorganise(&world.network.source, number, &[]).await?;
    world.delivered(&payment_id).await?;
    world.completes(&payment_id).await?;
    world.released(&payment_id).await?;
    let types = world.types(&payment_id).await?;
    assert_eq!(types.iter().filter(|name| **name == "DepositPrepared").count(), 1, "the same bytes: {types:?}");
    let (PaymentEvent::EscrowSecured(secured), PaymentEvent::DepositPrepared(prepared)) = (
        world.events(&payment_id, "EscrowSecured").await?.remove(0),
        world.events(&payment_id, "DepositPrepared").await?.remove(0),
    ) else {
        anyhow::bail!("{types:?}");
    };
    assert_eq!(secured.inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(before["payer"] - world.balances().await?["payer"], U256::from(PRICE));
    world.settled_once(&[payment_id]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_cannot_come_back_fails_only_with_proof() -> Result<()> {
    let mut world = world().await?;
    let before = world.balances().await?;
    let payment_id = world.submit(&world.spec("never")?).await?;
    let number = deposited_in(&world, &payment_id).await?;
    world.network.kill_gateway(0).await?;
    let source = &world.network.source;
    reorganise(source, number, &[]).await?;
    assert_eq!(logs(source, DEPOSITED, &payment_id).await?, 0);
    // On the branch that stays, the payer has withdrawn the allowance.
    source.dev.approve(&Role::Payer.signer(), &source.token, &source.contracts.permit2, U256::ZERO).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
    let context = &outcome.body["error"]["blockchain_context"];
    assert!(context["revert_reason"].is_string() && context["block_number"].is_u64(), "{outcome:?}");
    assert!(context["block_number"].as_u64() > Some(number), "{context}");
    assert_eq!(logs(&world.network.source, DEPOSITED, &payment_id).await?, 0);
    assert_eq!(world.balances().await?, before);
    Ok(())
}
