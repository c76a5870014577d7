//! The stores that are compared, each fresh for a round.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use bench::{
    context::{Context, SHARDS},
    engine::EngineRun,
    environment::Environment,
    load::Bound,
};
use journal::memory::MemoryJournal;
use journal_jetstream::log::{self, LogJournal};

use crate::{
    figures::Round,
    postgres::{PostgresJournal, WRITERS},
    processes::{self, Used},
    server::PostgresServer,
};

/// Shards of the shard log, which shares more with fewer.
const LOG_SHARDS: u16 = 2;

/// A store under the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    /// JetStream, as the product uses it.
    Jetstream,
    /// JetStream with all commits of a shard that wait in one message.
    ShardLog,
    /// PostgreSQL with group commit.
    Postgres,
    /// None: the engine's own limit.
    Memory,
}

impl Store {
    /// What it is called in tables and pictures.
    pub fn label(self) -> &'static str {
        match self {
            Self::Jetstream => "JetStream",
            Self::ShardLog => "shard log",
            Self::Postgres => "PostgreSQL",
            Self::Memory => "no store",
        }
    }

    /// Measures the engine over a fresh store of this kind, with each of these numbers of payments in flight.
    ///
    /// # Errors
    /// When the store cannot be had, or a payment does not come to rest.
    pub async fn measure(self, context: &Context, in_flight: &[usize]) -> Result<Vec<Round>> {
        let running = self.start(&context.paths.data, context).await?;
        let engine = match &running {
            Running::Jetstream(environment) => EngineRun::start(environment.journal().await?).await?,
            Running::ShardLog(environment) => {
                let options = log::Options { shards: LOG_SHARDS, ..log::Options::default() };
                let journal = LogJournal::connect(environment.client().await?, options).await?;
                journal.lease_over(environment.client().await?);
                EngineRun::start(journal).await?
            }
            Running::Postgres(_, journal) => EngineRun::start(journal.clone()).await?,
            Running::Memory => EngineRun::start(MemoryJournal::new(SHARDS)).await?,
        };
        let warm_up = Bound { calls: context.pick(10, 500), ..context.bound(0, 0) };
        engine.drive(context, "warm-up", warm_up, in_flight[0], None).await?;
        let mut rounds = Vec::new();
        for &in_flight in in_flight {
            running.settle().await?;
            engine.world.take_counts();
            running.take_counts();
            let before = running.used()?;
            let bound = context.bound(40, 6_000);
            let load = engine.drive(context, &format!("peers-{in_flight}"), bound, in_flight, None).await?;
            let after = running.used()?;
            let (commits, _) = engine.world.take_counts();
            // What is stored of them is on its way to the disk until then.
            running.settle().await?;
            let written = running.used()?.and_then(|used| used.written);
            let before_written = before.and_then(|used| used.written);
            let payments = load.served as f64;
            ensure!(load.served > 0, "no payment came to rest");
            let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6 / payments;
            rounds.push(Round {
                in_flight,
                payments_per_second: load.rate(),
                p50_ms: load.latencies.ms(0.5),
                p99_ms: load.latencies.ms(0.99),
                commits_per_payment: commits as f64 / payments,
                process_us: micros(engine.used()),
                store_us: before.zip(after).map(|(before, after)| micros(after.time.saturating_sub(before.time))),
                store_mib: after.map(|after| after.memory as f64 / (1024.0 * 1024.0)),
                written_kb: before_written
                    .zip(written)
                    .map(|(before, after)| after.saturating_sub(before) as f64 / 1_000.0 / payments),
                commits_per_transaction: running.take_counts(),
            });
        }
        engine.stop().await?;
        running.stop().await?;
        Ok(rounds)
    }

    async fn start(self, data: &Path, context: &Context) -> Result<Running> {
        Ok(match self {
            Self::Jetstream => Running::Jetstream(Box::new(Environment::start(&context.paths, SHARDS).await?)),
            Self::ShardLog => Running::ShardLog(Box::new(Environment::start(&context.paths, SHARDS).await?)),
            Self::Postgres => {
                let server = PostgresServer::start(data).await?;
                server.prepare_log().await?;
                PostgresJournal::create(server.config()).await?;
                let journal = PostgresJournal::connect(server.config(), SHARDS, WRITERS).await?;
                Running::Postgres(Box::new(server), journal)
            }
            Self::Memory => Running::Memory,
        })
    }
}

enum Running {
    Jetstream(Box<Environment>),
    ShardLog(Box<Environment>),
    Postgres(Box<PostgresServer>, PostgresJournal),
    Memory,
}

impl Running {
    /// What the store's processes have used; `None` where there are none.
    fn used(&self) -> Result<Option<Used>> {
        let root = match self {
            Self::Jetstream(environment) | Self::ShardLog(environment) => environment.nats_id()?,
            Self::Postgres(server, _) => server.id()?,
            Self::Memory => return Ok(None),
        };
        processes::used(root).map(Some).context("processes of the store")
    }

    /// Has what is stored written where it is to lie. nats-server does so by itself.
    async fn settle(&self) -> Result<()> {
        match self {
            Self::Postgres(server, _) => server.checkpoint().await,
            Self::Jetstream(_) | Self::ShardLog(_) | Self::Memory => Ok(()),
        }
    }

    /// How many commits shared a transaction since the last call of this, where that is known.
    fn take_counts(&self) -> Option<f64> {
        let Self::Postgres(_, journal) = self else { return None };
        let (transactions, commits) = journal.take_counts();
        (transactions > 0).then(|| commits as f64 / transactions as f64)
    }

    async fn stop(self) -> Result<()> {
        match self {
            Self::Postgres(server, _) => server.stop().await,
            Self::Jetstream(_) | Self::ShardLog(_) | Self::Memory => Ok(()),
        }
    }
}
