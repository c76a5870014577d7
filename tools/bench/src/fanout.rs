//! `GET /v1/payments/{id}/events`: many clients at once, all on one payment, and each on its own. The time from when a
//! decision is given to the journal until a client has read it.
//!
//! The bench writes the decisions itself; nobody else drives the payments.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::BodyExt;
use hyper::{StatusCode, body::Incoming};
use tokio::{task::JoinHandle, time::timeout};

use events::PaymentEvent;
use journal::{Position, StreamStore};
use journal_jetstream::store::NatsJournal;

use crate::{
    context::{Context, SHARDS},
    environment::{Environment, Gateway, PATIENCE},
    http::Connection,
    load::{Latencies, rate},
    orders::Order,
    payment_commits,
    report::Rows,
    status::submit_orders,
};

/// Payments that move at the same time.
const AT_ONCE: usize = 64;
/// How long quotes are collected, as far as anybody knows.
const WINDOW: Duration = Duration::from_secs(3_600);
/// Commits of a payment with its submission.
const COMMITS: usize = 7;

/// The bench.
///
/// # Errors
/// When it cannot be measured, or a client misses an event.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let journal = environment.journal().await?;
    let _leases = environment.own_shards().await?;
    let gateway = environment.gateway("gateway").await?;
    let clients = context.pick(20, 1_000);
    for (what, payments) in [("on one payment", 1), ("on a payment each", clients)] {
        let name = format!("{clients} clients {what}");
        let fanned = fan_out(context, &gateway, &journal, what, payments, clients / payments).await?;
        rows.add(format!("{name}: decision to client, p50"), fanned.latencies.ms(0.5), "ms");
        rows.add(format!("{name}: decision to client, p99"), fanned.latencies.ms(0.99), "ms");
        rows.add(format!("{name}: the last client"), fanned.latencies.max_ms(), "ms");
        rows.add(format!("{name}: decisions delivered"), rate(fanned.latencies.count(), fanned.elapsed), "a second");
        let time = fanned.time.as_secs_f64() * 1e6 / fanned.latencies.count().max(1) as f64;
        rows.add(format!("{name}: processor time of the gateway"), time, "us each");
    }
    environment.still_held(&journal).await
}

struct Fanned {
    latencies: Latencies,
    elapsed: Duration,
    time: Duration,
}

/// What a client read: the time at which it had each commit, by version.
type Read = Vec<(usize, Instant)>;

async fn fan_out(
    context: &Context,
    gateway: &Gateway,
    journal: &NatsJournal,
    name: &str,
    payments: usize,
    clients_each: usize,
) -> Result<Fanned> {
    let name = format!("events-{}", name.replace(' ', "-"));
    let orders = Arc::new(context.payer.sign(&name, 0..payments, WINDOW)?);
    submit_orders(gateway, &orders).await?;
    let settler = settler::dev::key(1).context("the demo's settlers")?;
    let decisions =
        crate::orders::in_parallel(0..payments, |number| payment_commits::after_submission(&orders[number], &settler))?;
    let mut clients: Vec<Vec<JoinHandle<Result<Read>>>> = Vec::new();
    for order in orders.iter() {
        let mut of_payment = Vec::new();
        for _ in 0..clients_each {
            let mut connection = Connection::open(gateway.port).await?;
            let response = connection.follow(&format!("/v1/payments/{}/events", order.payment_id)).await?;
            ensure!(response.status() == StatusCode::OK, "{}", response.status());
            // The submission is there already; with it the client is in place.
            let mut body = response.into_body();
            let mut seen = Events::default();
            while seen.versions < 1 {
                let read = timeout(PATIENCE, seen.more(&mut body)).await.context("no event of the submission")??;
                ensure!(read, "the stream of events ended at its beginning");
            }
            of_payment.push(tokio::spawn(async move {
                let _connection = connection;
                timeout(PATIENCE, seen.rest(body)).await.context("a client misses an event")?
            }));
        }
        clients.push(of_payment);
    }

    let (before, started) = (gateway.time()?, Instant::now());
    let moves = orders.iter().zip(decisions).map(|(order, decisions)| drive(journal, order, decisions));
    let given: Vec<Vec<Instant>> = stream::iter(moves).buffered(AT_ONCE).try_collect().await?;
    let mut latencies = Latencies::new();
    let mut last = started;
    for (of_payment, given) in clients.into_iter().zip(&given) {
        for client in of_payment {
            let read = client.await.context("a client panicked")??;
            for (version, at) in read.into_iter().filter(|(version, _)| *version > 1) {
                let given = given.get(version - 2).context("an event of no decision")?;
                latencies.record(at.saturating_duration_since(*given));
                last = last.max(at);
            }
        }
    }
    let expected = payments * clients_each * (COMMITS - 1);
    ensure!(latencies.count() == expected as u64, "{} of {expected} decisions were read", latencies.count());
    Ok(Fanned { latencies, elapsed: last - started, time: gateway.time()? - before })
}

/// Makes every decision about a payment; when each was given to the journal.
async fn drive(journal: &NatsJournal, order: &Order, decisions: Vec<Vec<PaymentEvent>>) -> Result<Vec<Instant>> {
    let commits = journal.load(&order.payment_id.clone().into()).await?;
    let mut at: Position = commits.last().context("the payment was submitted")?.position;
    let mut given = Vec::new();
    for events in decisions {
        given.push(Instant::now());
        at = payment_commits::append(journal, order, at, events).await?.position;
    }
    Ok(given)
}

/// A stream of server-sent events, as far as it was read.
#[derive(Default)]
struct Events {
    buffer: Vec<u8>,
    /// The newest commit of which an event was read.
    versions: usize,
    read: Read,
}

impl Events {
    /// Reads some more; whether there was any.
    async fn more(&mut self, body: &mut Incoming) -> Result<bool> {
        let Some(frame) = body.frame().await else { return Ok(false) };
        if let Ok(data) = frame?.into_data() {
            self.take(&data, Instant::now());
        }
        Ok(true)
    }

    /// Reads to the end, which comes when the payment is at rest.
    async fn rest(mut self, mut body: Incoming) -> Result<Read> {
        while self.more(&mut body).await? {}
        Ok(self.read)
    }

    fn take(&mut self, data: &[u8], at: Instant) {
        self.buffer.extend_from_slice(data);
        let Some(end) = self.buffer.windows(2).rposition(|pair| pair == b"\n\n") else { return };
        let whole: Vec<u8> = self.buffer.drain(..end + 2).collect();
        for line in String::from_utf8_lossy(&whole).lines() {
            let id = line.strip_prefix("id:").and_then(|id| id.trim().split_once('.'));
            // A commit counts once, however many events it holds.
            if let Some(version) = id.and_then(|(version, _)| version.parse().ok()).filter(|v| *v > self.versions) {
                self.versions = version;
                self.read.push((version, at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text =
            "retry: 1000\n\nid: 1.0\ndata: {}\n\nid: 2.0\ndata: {}\n\n: beat\n\nid: 2.1\ndata: {}\n\nid: 3.0\ndata: {}";
        for size in 1..text.len() {
            let mut events = Events::default();
            let at = Instant::now();
            text.as_bytes().chunks(size).for_each(|part| events.take(part, at));
            assert_eq!(events.read, [(1, at), (2, at)], "{size}");
            events.take(b"\n\n", at);
            assert_eq!(events.versions, 3);
        }
    }
}
