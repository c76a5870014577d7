//! More submissions at a time than a gateway takes: those above are told to come again, and what is accepted keeps its
//! deadlines.

use std::time::Duration;

use crate::support::*;
use anyhow::{Context, Result, ensure};
use events::PaymentEvent;
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{StatusCode, header::RETRY_AFTER};
use serde_json::Value;

/// Submissions, all of them sent at the same time by clients of their own.
const SUBMISSIONS: usize = 32;
/// How long quotes are collected: long enough for all of them to come again some times.
const WINDOW: Duration = Duration::from_secs(20);
/// How late an auction may be closed on a machine that builds and tests meanwhile.
const LATE_MAX: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn submissions_above_what_a_gateway_takes_are_refused_until_it_can() -> Result<()> {
    let mut world = World::start(1).await?;
    let config = world.network.options().directory.join("gateway-1.toml");
    let bounds = "[http]\nwrites_in_flight_max = 2\nwrites_waiting_max = 2\nwrite_wait_ms_max = 50\n";
    let text = std::fs::read_to_string(&config)?;
    std::fs::write(&config, text.replacen("[http]\n", bounds, 1))?;
    ensure!(std::fs::read_to_string(&config)?.contains(bounds), "the gateway's configuration has another form");
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;

    let mut bodies = Vec::new();
    for n in 0..SUBMISSIONS {
        // No settler delivers for nothing, so that nobody offers a quote.
        let mut spec = world.spec(&format!("overload-{n}"))?;
        spec.cap = spec.amount;
        spec.quote_window = WINDOW;
        bodies.push(world.payer.sign(&world.base(0), &spec).await?);
    }
    let address = format!("{}/v1/payments", world.base(0));
    let submissions = bodies.iter().map(|body| submit(&address, body));
    let answers: Vec<_> = stream::iter(submissions).buffer_unordered(SUBMISSIONS).try_collect().await?;
    let refusals: usize = answers.iter().map(|answer| answer.refusals).sum();
    ensure!(refusals > 0, "{SUBMISSIONS} submissions at a time were all taken");

    for answer in &answers {
        let payment_id = answer.payment_id.parse()?;
        let outcome = world.outcome(&payment_id).await?;
        assert_eq!(outcome.body["error"]["code"], "NO_QUOTES_RECEIVED", "{outcome:?}");
        let timeline = world.auditor.timeline(&payment_id).await?;
        let submitted = timeline.iter().find_map(|entry| match &entry.event {
            PaymentEvent::Submitted(submitted) => Some(submitted.quote_deadline),
            _ => None,
        });
        let deadline = submitted.context("a payment was submitted")?;
        let closed = timeline.iter().find(|entry| matches!(entry.event, PaymentEvent::AuctionClosed(_)));
        let late = closed.context("its auction was closed")?.stored_at - deadline;
        ensure!(late.to_std().unwrap_or_default() <= LATE_MAX, "{payment_id} was late by {late}");
        assert_eq!(timeline.iter().filter(|entry| entry.event.type_name() == "Submitted").count(), 1);
    }
    Ok(())
}

struct Accepted {
    payment_id: String,
    refusals: usize,
}

/// Submits until it is accepted, as a client does.
async fn submit(address: &str, body: &Value) -> Result<Accepted> {
    let client = reqwest::Client::new();
    let mut refusals = 0;
    let accepted = async {
        loop {
            let response = client.post(address).header("prefer", "wait=0").json(body).send().await?;
            let (status, after) = (response.status(), response.headers().get(RETRY_AFTER).cloned());
            let answer: Value = response.json().await?;
            if status == StatusCode::OK {
                // A refusal left nothing behind.
                ensure!(answer["idempotent_replay"] == false, "{answer}");
                let payment_id = answer["payment_id"].as_str().context("a payment id")?.to_owned();
                return Ok(Accepted { payment_id, refusals });
            }
            ensure!(status == StatusCode::SERVICE_UNAVAILABLE, "{status}: {answer}");
            ensure!(answer["code"] == "SERVICE_UNAVAILABLE", "{answer}");
            let after = after.context("a 503 says when to come again")?.to_str()?.parse()?;
            refusals += 1;
            tokio::time::sleep(Duration::from_secs(after)).await;
        }
    };
    tokio::time::timeout(PATIENCE, accepted).await.context("it was never accepted")?
}
