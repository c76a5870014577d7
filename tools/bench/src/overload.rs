//! Twice as many submissions as the gateway can take, from many clients that do not wait for each other: it stays up,
//! takes what it can, refuses the rest with 503, answers reads meanwhile, and its memory stays bounded.
//!
//! First nobody drives the payments, so the figures are those of accepting. Then the gateway drives them itself, from
//! its auctions, which end all the time, to their failure, because there is no settler: how late it is with what it
//! promised is read from the streams.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use chrono::{SubsecRound, Utc};
use tokio::{runtime, sync::oneshot};

use events::{PaymentEvent, PaymentId, StreamId, time::Timestamp};
use journal::ShardLog;
use journal_jetstream::store::NatsJournal;

use crate::{
    baseline::IN_FLIGHT,
    context::{Context, SHARDS},
    environment::{Environment, Gateway, PATIENCE, eventually},
    http::Connection,
    load::{self, Bound, Latencies, Load, rate},
    orders::{Order, in_parallel},
    report::{Rows, Target},
    status::{Reader, path, submit_orders},
    submissions::{self, Submitter},
};

/// Reads a second meanwhile of each kind, and connections they are spread over.
const READS: f64 = 100.0;
const READERS: usize = 32;
/// How long quotes are collected for the payment that is read, and where nobody drives.
const WINDOW: Duration = Duration::from_secs(900);
/// The same for payments that are driven, from when they are due to be submitted.
const DRIVEN_WINDOW: Duration = Duration::from_secs(5);
/// From the quote deadline to the fulfillment deadline.
const SETTLEMENT: Duration = Duration::from_secs(1_200);
/// Orders that are signed to see how fast that goes.
const SAMPLE: usize = 200;
/// Commits that are read at a time.
const BATCH: usize = 1_000;
/// How long the gateway may go on driving what it accepted.
const DRIVEN_MAX: Duration = Duration::from_secs(300);
/// Milliseconds in which 99 of 100 reads are answered meanwhile, and in which as many are told that they are refused (design §11).
const READ_MS: f64 = 50.0;
const REFUSED_MS: f64 = 300.0;
const MIB: f64 = 1024.0 * 1024.0;

/// The bench.
///
/// # Errors
/// When it cannot be measured, or something that was accepted is not stored.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let capacity = accepting(context, rows).await?;
    driving(context, rows, capacity).await
}

/// Returns how many submissions a second the gateway takes.
async fn accepting(context: &Context, rows: &mut Rows) -> Result<f64> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let journal = environment.journal().await?;
    let _leases = environment.own_shards().await?;
    let gateways = [environment.gateway("gateway").await?];
    let [gateway] = &gateways;
    let warm = submissions::warm_up(context, &gateways).await?;
    let most = submissions::closed(context, &gateways, "capacity", IN_FLIGHT[1]).await?;
    let capacity = most.rate();
    rows.add("capacity: closed loop", capacity, "a second");

    let open = [context.payer.sign("warm-up", 0..1, WINDOW)?.remove(0).payment_id];
    let reads = [Reads { what: "an open payment", payments: &open, wanted: PENDING }];
    let overload = Overload::twice(context, capacity);
    calm(rows, gateway, "without a load", &reads, overload.time).await?;
    rows.add("memory before", gateway.memory()? as f64 / MIB, "MiB");

    let orders = context.payer.sign("overload", 0..overload.calls(), WINDOW)?;
    let submitters = submissions::submitters_of(&gateways, orders, overload.clients).await?;
    rows.add(format!("memory with {} idle clients", overload.clients), gateway.memory()? as f64 / MIB, "MiB");
    let load = overload.run(rows, gateway, submitters, "nobody drives", &reads).await?;
    environment.still_held(&journal).await?;
    let accepted = warm + most.served + load.served;
    submissions::ensure_stored(environment.stored().await?.0, accepted, most.unknown + load.unknown)?;
    Ok(capacity)
}

/// The same with a gateway that drives what it accepts.
async fn driving(context: &Context, rows: &mut Rows, capacity: f64) -> Result<()> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let journal = environment.journal().await?;
    let gateways = [environment.gateway("gateway").await?];
    let [gateway] = &gateways;
    submissions::warm_up(context, &gateways).await?;
    let at_rest = failed(context, gateway).await?;
    let open = [context.payer.sign("warm-up", 0..1, WINDOW)?.remove(0).payment_id];
    let reads = [
        Reads { what: "an open payment", payments: &open, wanted: PENDING },
        Reads { what: "payments at rest", payments: &at_rest, wanted: FAILED },
    ];
    let overload = Overload::twice(context, capacity);
    calm(rows, gateway, "without a load, and driving", &reads, overload.time).await?;

    let (orders, begin) = due_orders(context, &overload)?;
    let driven: HashSet<StreamId> = orders.iter().map(|order| (&order.payment_id).into()).collect();
    let submitters = submissions::submitters_of(&gateways, orders, overload.clients).await?;
    let wait = (begin - Utc::now()).to_std().ok().context("signing took longer than expected")?;
    tokio::time::sleep(wait).await;
    let name = "the gateway drives";
    let load = overload.run(rows, gateway, submitters, name, &reads).await?;

    let lateness = Lateness::wait(&journal, &driven, load.served).await?;
    ensure!(
        (load.served..=load.served + load.unknown).contains(&lateness.failed.count()),
        "{} were accepted, of {} it is unknown, {} came to their end",
        load.served,
        load.unknown,
        lateness.failed.count()
    );
    for (what, late) in [("auctions closed", &lateness.closed), ("payments failed", &lateness.failed)] {
        for (label, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            rows.add(format!("{name}: {what} after their deadline, {label}"), late.ms(quantile), "ms");
        }
        rows.add(format!("{name}: {what} after their deadline, at most"), late.max_ms(), "ms");
    }
    Ok(())
}

const PENDING: &str = r#""status":"pending""#;
const FAILED: &str = r#""status":"failed""#;

/// Reads of the status of payments, and what has to be in the answers.
struct Reads<'a> {
    what: &'static str,
    payments: &'a [PaymentId],
    wanted: &'static str,
}

impl Reads<'_> {
    /// Reads on a thread of their own, whose runtime has nothing else to do: how long the bench's own clients keep theirs busy is
    /// not what a reader waits for.
    async fn load(&self, gateway: &Gateway, time: Duration) -> Result<Load> {
        let paths = Arc::new(self.payments.iter().map(path).collect::<Vec<_>>());
        let (port, wanted) = (gateway.port, self.wanted);
        let (tell, told) = oneshot::channel();
        thread::spawn(move || {
            let reads = async {
                let readers = Reader::several(port, READERS, &paths, wanted).await?;
                let bound = Bound { calls: (READS * time.as_secs_f64()) as usize, time };
                Ok(load::open(readers, READS, bound).await?.0)
            };
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            // Nobody is told where the bench has given up.
            let _ = tell.send(runtime.context("a runtime").and_then(|runtime| runtime.block_on(reads)));
        });
        told.await.context("the readers have ended")?
    }
}

/// What reads take while nothing else is going on.
async fn calm(rows: &mut Rows, gateway: &Gateway, when: &str, reads: &[Reads<'_>], time: Duration) -> Result<()> {
    for read in reads {
        let load = read.load(gateway, time).await?;
        rows.add(format!("{when}: reads of {}, p50", read.what), load.latencies.ms(0.5), "ms");
        rows.add(format!("{when}: reads of {}, p99", read.what), load.latencies.ms(0.99), "ms");
    }
    Ok(())
}

/// Twice the load that can be taken.
struct Overload {
    demand: f64,
    time: Duration,
    clients: usize,
}

impl Overload {
    fn twice(context: &Context, capacity: f64) -> Self {
        let time = Duration::from_secs(context.pick(2, 20));
        Self { demand: capacity * 2.0, time, clients: context.pick(256, 4_096) }
    }

    fn calls(&self) -> usize {
        (self.demand * self.time.as_secs_f64()) as usize + 1
    }

    async fn run(
        &self,
        rows: &mut Rows,
        gateway: &Gateway,
        submitters: Vec<Submitter>,
        name: &str,
        reads: &[Reads<'_>],
    ) -> Result<Load> {
        let bound = Bound { calls: self.calls(), time: self.time };
        let meanwhile = futures::future::join_all(reads.iter().map(|read| read.load(gateway, self.time)));
        let (load, meanwhile) = tokio::join!(load::open(submitters, self.demand, bound), meanwhile);
        let (load, submitters) = load?;
        let memory = gateway.memory()?;
        let name = format!("twice that from {} clients, {name}", self.clients);
        rows.add(format!("{name}: accepted"), load.rate(), "a second");
        rows.add(format!("{name}: refused"), rate(load.refused, load.elapsed), "a second");
        rows.add(format!("{name}: answered that the outcome is unknown"), load.unknown as f64, "submissions");
        rows.add(format!("{name}: not begun"), load.unsent as f64, "submissions");
        for (what, latencies) in [("accepted", &load.latencies), ("refused", &load.refusals)] {
            rows.add(format!("{name}: {what}, p50"), latencies.ms(0.5), "ms");
        }
        rows.add(format!("{name}: accepted, p99"), load.latencies.ms(0.99), "ms");
        rows.add(format!("{name}: refused, p99"), load.refusals.ms(0.99), "ms").target(Target::AtMost(REFUSED_MS));
        for (read, load) in reads.iter().zip(meanwhile) {
            let load = load?;
            rows.add(format!("{name}: reads of {}, p50", read.what), load.latencies.ms(0.5), "ms");
            rows.add(format!("{name}: reads of {}, p99", read.what), load.latencies.ms(0.99), "ms")
                .target(Target::AtMost(READ_MS));
            let without = (load.refused + load.unsent) as f64;
            rows.add(format!("{name}: reads of {} refused or not begun", read.what), without, "reads");
        }
        rows.add(format!("{name}: memory at its end"), memory as f64 / MIB, "MiB");
        drop(submitters);
        Ok(load)
    }
}

/// Payments that have failed, because nobody offered a quote.
async fn failed(context: &Context, gateway: &Gateway) -> Result<Vec<PaymentId>> {
    let orders = Arc::new(context.payer.sign("at-rest", 0..READERS, DRIVEN_WINDOW)?);
    submit_orders(gateway, &orders).await?;
    let payments: Vec<_> = orders.iter().map(|order| order.payment_id.clone()).collect();
    let mut connection = Connection::open(gateway.port).await?;
    for payment in &payments {
        let path = path(payment);
        eventually("a payment without quotes fails", async || {
            let (_, body) = connection.get(&path).await?;
            Ok(String::from_utf8_lossy(&body).contains(FAILED))
        })
        .await?;
    }
    Ok(payments)
}

/// Orders whose quotes are collected for [`DRIVEN_WINDOW`] from when each is due, and when the first one is.
fn due_orders(context: &Context, overload: &Overload) -> Result<(Vec<Order>, Timestamp)> {
    let sign = |name: &str, count: usize, begin: Timestamp| {
        in_parallel(0..count, |number| {
            let due = begin + Duration::from_secs_f64(number as f64 / overload.demand);
            let quote_deadline = (due + DRIVEN_WINDOW).trunc_subsecs(3);
            context.payer.sign_one(&format!("{name}-{number}"), quote_deadline, quote_deadline + SETTLEMENT)
        })
    };
    let started = Instant::now();
    sign("sample", SAMPLE, Utc::now())?;
    let each = started.elapsed() / SAMPLE as u32;
    // Signing is not as even as that, and connections are to be opened afterwards.
    let calls = overload.calls();
    let begin = Utc::now() + each * (calls as u32) * 3 / 2 + Duration::from_secs(context.pick(3, 10));
    Ok((sign("driven", calls, begin)?, begin))
}

/// How long after their quote deadlines auctions were closed and payments failed, by the journal's own clock.
struct Lateness {
    closed: Latencies,
    failed: Latencies,
}

impl Lateness {
    /// Waits until every payment of `driven` that was accepted, at least `accepted`, has failed.
    async fn wait(journal: &NatsJournal, driven: &HashSet<StreamId>, accepted: u64) -> Result<Self> {
        let mut lateness = Self { closed: Latencies::new(), failed: Latencies::new() };
        let mut deadlines = HashMap::<StreamId, Timestamp>::new();
        let mut from = vec![1; usize::from(SHARDS)];
        let started = Instant::now();
        loop {
            for (shard, from) in (0..SHARDS).zip(&mut from) {
                loop {
                    let commits = journal.replay(shard, *from, BATCH).await?;
                    for commit in commits.iter().filter(|commit| driven.contains(&commit.stream_id)) {
                        for event in commit.payment_events() {
                            lateness.note(&mut deadlines, &commit.stream_id, commit.stored_at, event);
                        }
                    }
                    *from = commits.last().map_or(*from, |last| last.position.sequence + 1);
                    if commits.len() < BATCH {
                        break;
                    }
                }
            }
            let (submitted, failed) = (deadlines.len() as u64, lateness.failed.count());
            if submitted >= accepted && failed == submitted {
                return Ok(lateness);
            }
            let patience = DRIVEN_MAX + PATIENCE;
            ensure!(started.elapsed() < patience, "{failed} of {submitted} payments have failed in {patience:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn note(
        &mut self,
        deadlines: &mut HashMap<StreamId, Timestamp>,
        stream_id: &StreamId,
        stored_at: Timestamp,
        event: &PaymentEvent,
    ) {
        if let PaymentEvent::Submitted(submitted) = event {
            deadlines.insert(stream_id.clone(), submitted.quote_deadline);
        }
        let Some(deadline) = deadlines.get(stream_id) else { return };
        // Two clocks of one machine.
        let late = (stored_at - *deadline).to_std().unwrap_or_default();
        match event {
            PaymentEvent::AuctionClosed(_) => self.closed.record(late),
            PaymentEvent::Failed(_) => self.failed.record(late),
            _ => {}
        }
    }
}
