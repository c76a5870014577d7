//! Reading everything again: the streams themselves, and the read models built from them in an empty directory.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;

use journal::{Journal, ShardLog};
use journal_jetstream::store::NatsJournal;
use projections::Projections;

use crate::{
    baseline::IN_FLIGHT,
    context::{Context, SHARDS},
    engine::EngineRun,
    environment::Environment,
    load::{Bound, rate},
    machine,
    report::{Rows, Target},
};

/// Commits read at a time, as many as the read models take.
const PAGE: usize = 512;
/// How often everything is read: once takes a few seconds, and the first time is not like the others.
const READS: u64 = 3;
/// How often it is looked whether the read models are there.
const POLL: Duration = Duration::from_millis(2);
/// Longest time a rebuild may take.
const REBUILD_MAX: Duration = Duration::from_secs(600);

/// The bench `replay`.
///
/// # Errors
/// When it cannot be measured.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let (commits, payments) = fill(context, &environment).await?;
    let journal = environment.journal().await?;
    let (started, used) = (Instant::now(), Used::so_far(&environment)?);
    let mut counted = (0, 0);
    for _ in 0..READS {
        let counts = try_join_all((0..SHARDS).map(|shard| tokio::spawn(read(journal.clone(), shard)))).await?;
        for one in counts {
            let (read, events) = one?;
            counted = (counted.0 + read, counted.1 + events);
        }
    }
    let (elapsed, (read, events)) = (started.elapsed(), counted);
    ensure!(read == READS * commits, "{read} of {READS} times {commits} commits were read");
    rows.add(format!("events of {payments} payments, all shards at once"), rate(events, elapsed), "a second")
        .target(Target::AtLeast(150_000.0));
    rows.add("the same in commits", rate(read, elapsed), "a second");
    used.add(&environment, rows, read)?;
    let started = Instant::now();
    let (alone, _) = read_alone(&journal).await?;
    rows.add("commits, one shard alone", rate(alone, started.elapsed()), "a second");
    Ok(())
}

/// One shard, while nobody reads another.
async fn read_alone(journal: &NatsJournal) -> Result<(u64, u64)> {
    tokio::spawn(read(journal.clone(), 0)).await?
}

/// Processor time that this process and nats-server had used when something began.
struct Used {
    own: Duration,
    nats: Duration,
}

impl Used {
    fn so_far(environment: &Environment) -> Result<Self> {
        Ok(Self { own: machine::processor_time(std::process::id())?, nats: environment.nats_time()? })
    }

    /// Adds what either has used since for each of `commits`.
    fn add(&self, environment: &Environment, rows: &mut Rows, commits: u64) -> Result<()> {
        let now = Self::so_far(environment)?;
        let each = |used: Duration| used.as_micros() as f64 / commits.max(1) as f64;
        rows.add("processor time of the reader", each(now.own - self.own), "us a commit");
        rows.add("processor time of nats-server", each(now.nats - self.nats), "us a commit");
        Ok(())
    }
}

/// The bench `rebuild`.
///
/// # Errors
/// When it cannot be measured.
pub async fn rebuild(context: &Context, rows: &mut Rows) -> Result<()> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let (commits, payments) = fill(context, &environment).await?;
    let journal: Arc<dyn Journal> = Arc::new(environment.journal().await?);
    let heads = try_join_all((0..SHARDS).map(|shard| journal.head(shard))).await?;
    let directory = environment.directory().join("projections");
    let shutdown = CancellationToken::new();
    let (started, used) = (Instant::now(), Used::so_far(&environment)?);
    let projections = Projections::open(&directory, SHARDS)?;
    let task = tokio::spawn({
        let (projections, journal, shutdown) = (projections.clone(), journal.clone(), shutdown.clone());
        async move { projections.run(journal, shutdown).await }
    });
    let current = || {
        let reached = heads.iter().zip(0..).all(|(head, shard)| projections.checkpoint(shard) >= *head);
        reached && projections.ready().is_ok()
    };
    while !current() {
        ensure!(started.elapsed() < REBUILD_MAX, "the read models are not there after {REBUILD_MAX:?}");
        tokio::time::sleep(POLL).await;
    }
    let elapsed = started.elapsed();
    // Submitted, AuctionClosed and QuoteAwarded in one commit, and five more of one event each.
    let events = commits + payments as u64;
    rows.add(format!("events of {payments} payments into empty read models"), rate(events, elapsed), "a second")
        .target(Target::AtLeast(120_000.0));
    rows.add("the same in commits", rate(commits, elapsed), "a second");
    used.add(&environment, rows, commits)?;
    shutdown.cancel();
    task.await.context("the read models panicked")??;
    let disk = machine::disk_bytes(&directory)? as f64 / payments as f64;
    rows.add("size of the read models on the disk", disk, "bytes each");
    Ok(())
}

/// Fills the journal with payments at rest; how many commits there are, and how many payments.
///
/// # Errors
/// When one does not come to rest.
pub async fn fill(context: &Context, environment: &Environment) -> Result<(u64, usize)> {
    let payments = context.pick(40, 25_000);
    let engine = EngineRun::start(environment.journal().await?).await?;
    let bound = Bound { calls: payments, time: Duration::from_secs(600) };
    let load = engine.drive(context, "fill", bound, IN_FLIGHT[1], None).await?;
    engine.stop().await?;
    ensure!(load.served == payments as u64, "{} of {payments} payments came to rest", load.served);
    Ok((environment.stored().await?.0, payments))
}

/// Commits and events of a shard.
async fn read(journal: NatsJournal, shard: u16) -> Result<(u64, u64)> {
    let (mut commits, mut events, mut from) = (0, 0, 1);
    loop {
        let page = journal.replay(shard, from, PAGE).await?;
        commits += page.len() as u64;
        events += page.iter().map(|commit| commit.events.len() as u64).sum::<u64>();
        match page.last() {
            Some(last) if page.len() == PAGE => from = last.position.sequence + 1,
            _ => return Ok((commits, events)),
        }
    }
}
