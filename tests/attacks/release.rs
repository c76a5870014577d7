//! Deliver and not be paid: a settler that cannot bring its own release, and a verifier that keeps its word back until the
//! money may go home.

use std::{process::Output, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use devnet::{keys::Role, network::Options, payer::PaymentSpec};
use events::{Did, PaymentEvent, PaymentId, event::TransactionPrepared};

use crate::support::*;

/// A payment whose windows end soon.
fn short(world: &World, request_id: &str) -> Result<PaymentSpec> {
    Ok(PaymentSpec { fulfillment_window: Duration::from_secs(25), ..world.spec(request_id)? })
}

/// The release that the gateway signed, which is none as a rule.
async fn prepared(world: &World, payment_id: &PaymentId) -> Result<Option<TransactionPrepared>> {
    match world.events(payment_id, "ReleasePrepared").await?.pop() {
        None => Ok(None),
        Some(PaymentEvent::ReleasePrepared(prepared)) => Ok(Some(prepared)),
        Some(other) => anyhow::bail!("{other:?}"),
    }
}

/// The settler that won, its payout account, and the second from which the payer may have the money back.
async fn winner(world: &World, payment_id: &PaymentId) -> Result<(Did, String, u64)> {
    let submitted = world.events(payment_id, "Submitted").await?.pop();
    let awarded = world.events(payment_id, "QuoteAwarded").await?.pop();
    match (submitted, awarded) {
        (Some(PaymentEvent::Submitted(submitted)), Some(PaymentEvent::QuoteAwarded(awarded))) => {
            let quote = awarded.signed_quote()?.quote().clone();
            Ok((quote.settler, quote.payout_account.to_string(), submitted.escrow.refund_after))
        }
        other => anyhow::bail!("{other:?}"),
    }
}

async fn gw(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_gw")).args(arguments).kill_on_drop(true).output().await?)
}

/// A settler delivers, and is killed before it has anything to bring to the escrow: the verifier was away meanwhile. With the
/// verifier back, the gateway fetches the attestation and, after the settler's time, releases by itself. The same payment
/// before, with everybody there, is released by the settler.
#[tokio::test(flavor = "multi_thread")]
async fn a_settler_that_delivers_and_is_killed_is_paid_all_the_same() -> Result<()> {
    let mut world = World::with(|options| Options { refund_delay_seconds: 15, ..options }).await?;
    let control = world.submit(&short(&world, "control")?).await?;
    world.completed(&control).await?;
    ensure!(prepared(&world, &control).await?.is_none(), "the gateway was before a settler that lives");

    world.network.kill_verifier(1).await?;
    let payment_id = world.submit(&short(&world, "killed")?).await?;
    world.until(&payment_id, "FulfillmentSeen").await?;
    for n in 1..=3 {
        world.network.kill_settler(n).await?;
    }
    let (_, payout, refund_after) = winner(&world, &payment_id).await?;
    let source = &world.network.source;
    let before = source.dev.token_balance(&source.token, &payout).await?;
    world.network.start_verifier(1).await?;

    let outcome = world.outcome(&payment_id).await?;
    ensure!(outcome.text("status") == "completed", "{outcome:?}");
    world.until(&payment_id, "EscrowReleased").await?;
    let ours = prepared(&world, &payment_id).await?.context("nobody else could")?;
    let Some(PaymentEvent::EscrowReleased(released)) = world.events(&payment_id, "EscrowReleased").await?.pop() else {
        anyhow::bail!("not released");
    };
    assert_eq!(released.inclusion.transaction_hash, ours.transaction_hash);
    assert!(released.inclusion.block_time < refund_after);
    let source = &world.network.source;
    let paid = source.dev.token_balance(&source.token, &payout).await? - before;
    assert_eq!(paid.to_string(), PRICE.to_string());
    world.settled_once(&[control, payment_id.clone()]).await?;
    // The gateway's own release is as good a one as any to an auditor.
    world.audited(&payment_id).await?;
    let url = format!("{}/v1/payments/{payment_id}/timeline", world.base(0));
    let timeline: Value = reqwest::get(url).await?.error_for_status()?.json().await?;
    let shown = timeline["entries"].as_array().into_iter().flatten().find(|entry| entry["event"] == "ReleasePrepared");
    let shown = shown.context("the timeline does not show it")?;
    assert_eq!(shown["transactions"]["release"]["transaction_hash"], ours.transaction_hash);
    Ok(())
}

/// The verifier keeps its word back until the refund window opens. Nothing can pay the settler then; but it is told in time to
/// those who can wake the verifier, and to its payer the payment is completed, as its delivery is.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_nobody_attests_is_completed_and_an_alarm_and_its_escrow_goes_back() -> Result<()> {
    let mut world = World::with(|options| Options { refund_delay_seconds: 20, ..options }).await?;
    let before = world.balances().await?;
    world.network.kill_verifier(1).await?;
    let payment_id = world.submit(&short(&world, "unattested")?).await?;
    world.until(&payment_id, "FulfillmentFinalized").await?;
    let (settler, ..) = winner(&world, &payment_id).await?;
    let completed = world.outcome(&payment_id).await?;

    let config = world.network.options().directory.join("gateway-1.toml").display().to_string();
    let endpoint = world.network.verifier_endpoint(1);
    let alarm = eventually(|| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let Ok(output) = gw(&["admin", "--config", &config, "overdue", "--json"]).await else { return false };
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let payment = &report["payments"][0];
        payment["stage"] == "unattested"
            && payment["payment_id"] == payment_id.as_str()
            && payment["settler"] == settler.as_str()
            && payment["verifier"]["endpoint"] == endpoint
    });
    alarm.await.context("no alarm names settler and verifier")?;
    let log = world.network.log("gateway-1")?;
    let warned =
        |line: &str| line.contains("OVERDUE") && line.contains("unattested") && line.contains(settler.as_str());
    eventually(|| async { world.network.log("gateway-1").is_ok_and(|log| log.lines().any(warned)) })
        .await
        .with_context(|| log)?;
    let ready: Value = reqwest::get(format!("{}/readyz", world.base(0))).await?.error_for_status()?.json().await?;
    assert_eq!(ready["alarms"][0], "deliveries without an attestation near their refund window: 1", "{ready}");
    let status: Value = serde_json::from_slice(&gw(&["admin", "--config", &config, "status", "--json"]).await?.stdout)?;
    assert_eq!(status["gateways"][0]["result"]["unattested"], 1, "{status}");
    ensure!(world.events(&payment_id, "AttestationMissed").await?.is_empty(), "the alarm comes too late");

    world.until(&payment_id, "EscrowRefunded").await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.body["status"], "completed", "{outcome:?}");
    assert_eq!(outcome.body, completed.body, "what completed the payment stays as it was told");
    let Some(PaymentEvent::FulfillmentSeen(seen)) = world.events(&payment_id, "FulfillmentSeen").await?.pop() else {
        anyhow::bail!("not seen");
    };
    let delivery = &seen.inclusion.transaction_hash;
    assert_eq!(outcome.body["transactions"]["fulfillment"]["transaction_hash"], delivery.as_str(), "{outcome:?}");
    assert_eq!(outcome.body["fulfillment_confirmation"]["destination_tx_hash"], delivery.as_str(), "{outcome:?}");
    ensure!(world.events(&payment_id, "Failed").await?.is_empty(), "a completed payment failed");

    let after = world.balances().await?;
    assert_eq!((after["payer"], after["escrow"]), (before["payer"], before["escrow"]));
    assert_eq!((after["recipient"] - before["recipient"]).to_string(), AMOUNT.to_string());
    let auditor = world.network.auditor_config().display().to_string();
    let audit = gw(&["audit", "--config", &auditor, "verify", payment_id.as_str()]).await?;
    let said = String::from_utf8(audit.stdout)?;
    assert!(audit.status.success(), "the records are right: {said}{}", String::from_utf8_lossy(&audit.stderr));
    let loss = said.lines().find(|line| line.contains("LOSS unattested")).with_context(|| said.clone())?;
    for named in [settler.as_str(), delivery.as_str(), &Role::Releaser.account(), &endpoint] {
        assert!(loss.contains(named), "{loss} does not name {named}");
    }
    Ok(())
}
