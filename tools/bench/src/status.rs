//! `GET /v1/payments/{id}/status` against the real process: of open payments, whose answer needs what the gateway knows of the
//! stream's head, and of payments at rest, whose answer never changes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use hyper::StatusCode;

use events::PaymentId;

use crate::{
    context::{Context, SHARDS},
    environment::{Environment, Gateway, PATIENCE, eventually},
    http::Connection,
    load::{self, Answered, Bound, Caller, Load},
    orders::Order,
    report::{Rows, Target},
};

/// Connections, each with one question at a time.
const CONNECTIONS: [usize; 2] = [16, 64];
/// Pause before a submission is repeated that the gateway could not take.
const RETRY: Duration = Duration::from_millis(100);
/// How long quotes are collected for payments that are to fail soon: nobody offers any.
const FAILING_WINDOW: Duration = Duration::from_secs(20);

/// A client that reads one payment after the other.
pub struct Reader {
    connection: Connection,
    paths: Arc<Vec<String>>,
    wanted: &'static str,
}

impl Reader {
    /// So many clients of a gateway, who want `wanted` in every answer.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn several(port: u16, count: usize, paths: &Arc<Vec<String>>, wanted: &'static str) -> Result<Vec<Self>> {
        let connections = Connection::several(port, count).await?;
        Ok(connections.into_iter().map(|connection| Self { connection, paths: paths.clone(), wanted }).collect())
    }
}

impl Caller for Reader {
    async fn call(&mut self, number: usize) -> Result<Answered> {
        // A step that is coprime to any power of two and ten spreads neighbours over all shards.
        let path = &self.paths[number.wrapping_mul(7_919) % self.paths.len()];
        let (status, body) = self.connection.get(path).await?;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Ok(Answered::Refused);
        }
        let right = status.is_success() && body.windows(self.wanted.len()).any(|part| part == self.wanted.as_bytes());
        ensure!(right, "{path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(Answered::Served)
    }
}

/// The bench.
///
/// # Errors
/// When it cannot be measured, or a status is wrong.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let payments = context.pick(40, 5_000);
    {
        let environment = Environment::start(&context.paths, SHARDS).await?;
        let journal = environment.journal().await?;
        let _leases = environment.own_shards().await?;
        let gateway = environment.gateway("gateway").await?;
        let open = submit(context, &gateway, "open", payments, Duration::from_secs(1_800)).await?;
        measure(context, rows, &gateway, "open payments", &open, r#""status":"pending""#).await?;
        environment.still_held(&journal).await?;
    }
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let gateway = environment.gateway("gateway").await?;
    let window = context.pick(Duration::from_secs(3), FAILING_WINDOW);
    let failing = submit(context, &gateway, "failing", payments, window).await?;
    let mut connection = Connection::open(gateway.port).await?;
    for payment_id in &failing {
        let path = path(payment_id);
        eventually("a payment without quotes fails", async || {
            let (_, body) = connection.get(&path).await?;
            Ok(String::from_utf8_lossy(&body).contains(r#""status":"failed""#))
        })
        .await?;
    }
    measure(context, rows, &gateway, "payments at rest", &failing, r#""status":"failed""#).await
}

async fn submit(
    context: &Context,
    gateway: &Gateway,
    name: &str,
    count: usize,
    window: Duration,
) -> Result<Vec<PaymentId>> {
    let orders = Arc::new(context.payer.sign(name, 0..count, window)?);
    submit_orders(gateway, &orders).await?;
    Ok(orders.iter().map(|order| order.payment_id.clone()).collect())
}

/// Submits payments.
///
/// # Errors
/// When one is not accepted.
pub async fn submit_orders(gateway: &Gateway, orders: &Arc<Vec<Order>>) -> Result<()> {
    struct Submits {
        connection: Connection,
        orders: Arc<Vec<Order>>,
    }
    impl Caller for Submits {
        async fn call(&mut self, number: usize) -> Result<Answered> {
            let begun = Instant::now();
            loop {
                let (status, answer) = self.connection.submit(self.orders[number].body.clone()).await?;
                if status.is_success() {
                    return Ok(Answered::Served);
                }
                // The same again is the same payment, whatever became of the first one.
                let again = status.is_server_error() && begun.elapsed() < PATIENCE;
                ensure!(again, "{status}: {}", String::from_utf8_lossy(&answer));
                tokio::time::sleep(RETRY).await;
            }
        }
    }
    let connections = Connection::several(gateway.port, 32).await?;
    let callers = connections.into_iter().map(|connection| Submits { connection, orders: orders.clone() }).collect();
    let bound = Bound { calls: orders.len(), time: Duration::from_secs(600) };
    let (load, _) = load::closed(callers, bound).await?;
    ensure!(load.served == orders.len() as u64, "{} of {} payments were submitted", load.served, orders.len());
    Ok(())
}

/// Where the status of a payment is.
pub fn path(payment_id: &PaymentId) -> String {
    format!("/v1/payments/{payment_id}/status")
}

async fn measure(
    context: &Context,
    rows: &mut Rows,
    gateway: &Gateway,
    what: &str,
    payments: &[PaymentId],
    wanted: &'static str,
) -> Result<()> {
    let paths = Arc::new(payments.iter().map(path).collect::<Vec<_>>());
    let readers = async |count| Reader::several(gateway.port, count, &paths, wanted).await;
    let bound = Bound { time: Duration::from_secs(context.pick(2, 10)), ..context.bound(500, 1_000_000) };
    let mut best: Option<Load> = None;
    for count in CONNECTIONS {
        let before = gateway.time()?;
        let (load, _) = load::closed(readers(count).await?, bound).await?;
        ensure!(load.refused == 0, "{} reads were refused", load.refused);
        let name = format!("{what}, {count} connections");
        rows.add(&name, load.rate(), "a second").target(Target::AtLeast(30_000.0));
        rows.add(format!("{name}: p50"), load.latencies.ms(0.5), "ms");
        rows.add(format!("{name}: p99"), load.latencies.ms(0.99), "ms").target(Target::AtMost(5.0));
        let time = (gateway.time()? - before).as_secs_f64() * 1e6 / load.served.max(1) as f64;
        rows.add(format!("{name}: processor time of the gateway"), time, "us each");
        if best.as_ref().is_none_or(|best| best.rate() < load.rate()) {
            best = Some(load);
        }
    }
    let half = best.map_or(0.0, |best| best.rate()) / 2.0;
    let time = Duration::from_secs(context.pick(1, 5));
    let bound = Bound { calls: (half * time.as_secs_f64()) as usize + 1, time };
    let (load, _) = load::open(readers(CONNECTIONS[1]).await?, half, bound).await?;
    let name = format!("{what}, open loop at half of the most");
    rows.add(&name, load.rate(), "a second");
    rows.add(format!("{name}: p50"), load.latencies.ms(0.5), "ms");
    rows.add(format!("{name}: p99"), load.latencies.ms(0.99), "ms");
    Ok(())
}
