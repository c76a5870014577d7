//! Read your writes: what one gateway has answered, every gateway knows, wherever the answer was given, once it is told the
//! position of that answer; and that the payment exists without it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;

use devnet::payer::Answer;

use crate::support::*;

/// Payments and batches of each round, made at the same time.
const AT_ONCE: usize = 12;
const ROUNDS: usize = 5;

/// How far a status is along; statuses never go back.
fn rank(status: &str) -> Result<u8> {
    Ok(match status {
        "pending" | "collecting" => 0,
        "finalizing" | "ready" => 1,
        "completed" | "failed" | "awarded" | "expired" => 2,
        other => anyhow::bail!("unknown status {other}"),
    })
}

/// Checks that `later` says no less than `earlier` did.
fn no_older(earlier: &Answer, later: &Answer) -> Result<()> {
    ensure!(later.status == 200, "{later:?} after {earlier:?}");
    ensure!(rank(later.text("status"))? >= rank(earlier.text("status"))?, "{later:?} after {earlier:?}");
    // The answer of a submission shows less than a read does while a payment is under way.
    if let (Some(before), Some(after)) = (earlier.body["updated_at"].as_str(), later.body["updated_at"].as_str()) {
        let parse = chrono::DateTime::parse_from_rfc3339;
        ensure!(parse(after)? >= parse(before)?, "{later:?} after {earlier:?}");
        for member in ["quote_id", "transactions", "fulfillment_confirmation"] {
            ensure!(earlier.body[member].is_null() || !later.body[member].is_null(), "{later:?} after {earlier:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_read_on_any_gateway_as_its_submission_was_answered() -> Result<()> {
    let world = World::start(2).await?;
    for round in 0..ROUNDS {
        let payments = (0..AT_ONCE).map(|n| {
            let world = &world;
            async move {
                let (here, there) = (world.base((round + n) % 2), world.base((round + n + 1) % 2));
                let spec = world.spec(&format!("read-{round}-{n}"))?;
                let body = world.payer.sign(&here, &spec).await?;
                // Some answers come at once, some on the way, some with the outcome.
                let hold = Duration::from_secs([0, 0, 1, 2, 4, 30][n % 6]);
                let answer = world.payer.submit(&here, &body, hold).await?;
                ensure!(answer.status == 200, "{answer:?}");
                let payment_id = answer.text("payment_id").to_owned();
                // From one gateway to the other and back, each answer at least as new as the one before.
                let mut last = answer;
                for look in 0..20 {
                    let base = if look % 2 == 0 { &there } else { &here };
                    // Whatever else it may lack, a payment that was accepted is there.
                    let polled = world.payer.status(base, &payment_id).await?;
                    ensure!(polled.status == 200, "{polled:?} after {last:?}");
                    let read = world.payer.status_since(base, &payment_id, &last).await?;
                    no_older(&last, &read)?;
                    last = read;
                }
                // A replay on the other gateway is an answer like any other.
                let replay = world.payer.submit(&there, &body, Duration::ZERO).await?;
                ensure!(replay.body["idempotent_replay"] == true, "{replay:?}");
                no_older(&last, &replay)?;
                no_older(&replay, &world.payer.status_since(&here, &payment_id, &replay).await?)?;
                Ok::<_, anyhow::Error>(payment_id)
            }
        });
        for payment_id in try_join_all(payments).await? {
            let outcome = world.payer.outcome(&world.base(0), &payment_id, PATIENCE).await?;
            no_older(&outcome, &world.payer.status_since(&world.base(1), &payment_id, &outcome).await?)?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_read_on_any_gateway_as_its_opening_was_answered() -> Result<()> {
    let world = World::start(2).await?;
    for round in 0..2 {
        let batches = (0..AT_ONCE).map(|n| {
            let world = &world;
            async move {
                let (here, there) = (world.base(n % 2), world.base((n + 1) % 2));
                let body = world.payer.quote_request(&world.spec(&format!("batch-{round}-{n}"))?);
                let answer = world.payer.open(&here, &body, n % 3 == 0).await?;
                ensure!(answer.status == 200, "{answer:?}");
                let id = answer.text("quote_request_id").to_owned();
                let mut last = answer;
                for look in 0..20 {
                    let base = if look % 2 == 0 { &there } else { &here };
                    let read = world.payer.batch(base, &id).await?;
                    no_older(&last, &read)?;
                    last = read;
                }
                // An award, made here, is known there: the batch as awarded, and the payment.
                let ready = async {
                    loop {
                        let batch = world.payer.batch(&here, &id).await?;
                        if batch.text("status") != "collecting" {
                            return Ok::<_, anyhow::Error>(batch);
                        }
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                };
                let batch = tokio::time::timeout(PATIENCE, ready).await.context("no quotes")??;
                let award = format!("award-{round}-{n}");
                let body = world.payer.sign_award(&here, &batch.body, 0, &award).await?;
                let answer = world.payer.award(&here, &id, &body, Duration::ZERO).await?;
                ensure!(answer.status == 200, "{answer:?}");
                let awarded = world.payer.batch(&there, &id).await?;
                ensure!(awarded.text("status") == "awarded", "{awarded:?}");
                no_older(&answer, &world.payer.status_since(&there, answer.text("payment_id"), &answer).await?)
            }
        });
        try_join_all(batches).await?;
    }
    Ok(())
}
