//! `POST /v1/payments` over HTTP against the real process: body checked, signer recovered, appended durably, answered.
//!
//! Nobody drives the payments: the bench holds all shards itself. Then the same once more with the gateway driving
//! them, whose auctions stay open because there is no settler.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use hyper::StatusCode;

use crate::{
    baseline::{self, IN_FLIGHT},
    context::{Context, SHARDS},
    environment::{Environment, Gateway},
    http::Connection,
    load::{self, Answered, Bound, Caller, Load},
    orders::Order,
    report::{Rows, Target},
};

/// Rates of the open loop as shares of what the closed loop reached, with how it is called; the last one is an
/// overload.
const RATES: [(f64, &str); 4] = [(0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (2.0, "200 %")];
/// Submissions before anything is measured.
const WARM_UP: usize = 500;
/// How long quotes are collected: longer than any load takes.
const WINDOW: Duration = Duration::from_secs(900);
const MIB: f64 = 1024.0 * 1024.0;

/// A client that submits one order after the other over its connection.
pub struct Submitter {
    connection: Connection,
    bodies: Arc<Vec<Bytes>>,
}

impl Caller for Submitter {
    async fn call(&mut self, number: usize) -> Result<Answered> {
        let (status, body) = self.connection.submit(self.bodies[number].clone()).await?;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Ok(Answered::Refused);
        }
        let text = String::from_utf8_lossy(&body);
        if status == StatusCode::INTERNAL_SERVER_ERROR && text.contains(r#""code":"OUTCOME_UNKNOWN""#) {
            return Ok(Answered::Unknown);
        }
        // Under overload a client may come so late that its own deadline is over.
        if status == StatusCode::BAD_REQUEST && text.contains(r#""code":"INVALID_DEADLINE""#) {
            return Ok(Answered::Refused);
        }
        ensure!(status.is_success() && text.contains(r#""idempotent_replay":false"#), "{status}: {text}");
        Ok(Answered::Served)
    }
}

/// So many clients, shared out among the gateways, with the orders `{name}-0 …`.
///
/// # Errors
/// When orders cannot be signed or nobody listens.
pub async fn submitters(
    context: &Context,
    gateways: &[Gateway],
    name: &str,
    orders: usize,
    count: usize,
) -> Result<Vec<Submitter>> {
    let orders = context.payer.sign(name, 0..orders, WINDOW)?;
    submitters_of(gateways, orders, count).await
}

/// So many clients, shared out among the gateways, with these orders.
///
/// # Errors
/// When nobody listens.
pub async fn submitters_of(gateways: &[Gateway], orders: Vec<Order>, count: usize) -> Result<Vec<Submitter>> {
    let bodies = Arc::new(orders.into_iter().map(|order| order.body).collect::<Vec<_>>());
    let mut submitters = Vec::with_capacity(count);
    for gateway in gateways.iter().cycle().take(count) {
        submitters.push(Submitter { connection: Connection::open(gateway.port).await?, bodies: bodies.clone() });
    }
    Ok(submitters)
}

/// The bench.
///
/// # Errors
/// When it cannot be measured, or something that was accepted is not stored.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let baseline = baseline::of(context).await?.clone();
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let journal = environment.journal().await?;
    let leases = environment.own_shards().await?;
    let gateways = [environment.roomy_gateway("gateway").await?];
    let [gateway] = &gateways;
    let mut accepted = warm_up(context, &gateways).await?;
    let (mut best, mut unknown) = (0.0_f64, 0);
    // So many submissions in flight can share syncs as batches do, so few cannot.
    let [few, some, _] = &baseline.loads[..] else { bail!("the baseline has other loads") };
    let floors = [(few.rate(), true), (some.rate(), false), (baseline.best_batched(), true)];
    for (in_flight, (raw, judged)) in IN_FLIGHT.into_iter().zip(floors) {
        let before = (gateway.time()?, environment.nats_time()?);
        let load = closed(context, &gateways, &format!("closed-{in_flight}"), in_flight).await?;
        accepted += load.served;
        unknown += load.unknown;
        best = best.max(load.rate());
        let name = format!("closed loop, {in_flight} in flight");
        rows.add(&name, load.rate(), "a second").of_baseline(raw);
        if judged {
            rows.target(Target::RatioAtLeast(0.5));
        }
        quantiles(rows, &name, &load);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / load.served.max(1) as f64;
        rows.add(format!("{name}: processor time of the gateway"), each(gateway.time()? - before.0), "us each");
        rows.add(
            format!("{name}: processor time of nats-server"),
            each(environment.nats_time()? - before.1),
            "us each",
        );
    }
    for (share, name) in RATES {
        let (rate, time) = (best * share, Duration::from_secs(context.pick(1, 10)));
        let bound = Bound { calls: (rate * time.as_secs_f64()) as usize + 1, time };
        // As many clients as keep an overload from being a closed loop.
        let callers =
            submitters(context, &gateways, &format!("open-{share}"), bound.calls, context.pick(64, 512)).await?;
        let (load, _) = load::open(callers, rate, bound).await?;
        accepted += load.served;
        unknown += load.unknown;
        let name = format!("open loop at {name} of that");
        rows.add(&name, load.rate(), "a second");
        quantiles(rows, &name, &load);
        let without = load.refused + load.unknown + load.unsent;
        rows.add(format!("{name}: refused, unknown or not begun"), without as f64, "submissions");
    }
    // Clients are gone: what is left is what so many payments leave in a gateway that only shows them.
    rows.add(format!("{accepted} payments later: memory of the gateway"), gateway.memory()? as f64 / MIB, "MiB");
    rows.add("of that backed by no file", gateway.anonymous_memory()? as f64 / MIB, "MiB");
    environment.still_held(&journal).await?;
    let (stored, bytes) = environment.stored().await?;
    ensure_stored(stored, accepted, unknown)?;
    let size = bytes as f64 / stored as f64;
    ensure!(
        (size / baseline.message_bytes - 1.0).abs() < 0.05,
        "a submission takes {size:.0} bytes, the baseline's message {:.0}: the two cannot be compared",
        baseline.message_bytes
    );
    drop((gateways, leases, journal, environment));

    let environment = Environment::start(&context.paths, SHARDS).await?;
    let gateways = [environment.gateway("gateway").await?];
    warm_up(context, &gateways).await?;
    let load = closed(context, &gateways, "driven", IN_FLIGHT[0]).await?;
    let name = format!("closed loop, {} in flight, and driving every payment", IN_FLIGHT[0]);
    rows.add(&name, load.rate(), "a second").of_baseline(baseline.loads[0].rate());
    quantiles(rows, &name, &load);
    Ok(())
}

/// Checks that everything accepted is stored, and nothing else but what may be.
///
/// # Errors
/// When it is not so.
pub fn ensure_stored(stored: u64, accepted: u64, unknown: u64) -> Result<()> {
    let right = (accepted..=accepted + unknown).contains(&stored);
    ensure!(right, "{accepted} submissions were accepted, of {unknown} it is unknown, {stored} are stored");
    Ok(())
}

/// Submits as fast as it goes.
///
/// # Errors
/// When a submission is answered otherwise than it should be.
pub async fn closed(context: &Context, gateways: &[Gateway], name: &str, in_flight: usize) -> Result<Load> {
    let bound = context.bound(300, 60_000);
    let callers = submitters(context, gateways, name, bound.calls, in_flight).await?;
    Ok(load::closed(callers, bound).await?.0)
}

/// Submits a little, so that connections, code and memory are there.
///
/// # Errors
/// When a submission is answered otherwise than it should be.
pub async fn warm_up(context: &Context, gateways: &[Gateway]) -> Result<u64> {
    let bound = Bound { calls: context.pick(20, WARM_UP), time: Duration::from_secs(30) };
    let callers = submitters(context, gateways, "warm-up", bound.calls, 16).await?;
    Ok(load::closed(callers, bound).await?.0.served)
}

fn quantiles(rows: &mut Rows, name: &str, load: &Load) {
    for (label, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        rows.add(format!("{name}: {label}"), load.latencies.ms(quantile), "ms");
    }
}
