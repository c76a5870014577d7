//! Measures the saga engine over JetStream beside other stores, in one run. `make bench PEERS=1` is how it is started.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, ensure};
use bench::{
    baseline::IN_FLIGHT,
    context::{Context, Size},
    environment::Paths,
    machine::Machine,
    program, world_alone,
};
use chrono::{SecondsFormat, Utc};
use clap::{Parser, ValueEnum};
use mimalloc::MiMalloc;
use peers::{
    figures::{Figures, Round},
    picture::picture,
    report::{Report, StoreRounds, write},
    server,
    stores::Store,
};

/// That of `gw`, whose engine is measured in this process.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Rounds of which the medians are taken.
const ROUNDS: usize = 5;
/// Longest time that one store may take in a round.
const ROUND_MAX: Duration = Duration::from_secs(900);

/// Measures the saga engine over JetStream beside other stores.
#[derive(Debug, Parser)]
struct Arguments {
    /// One tiny round: shows that everything works, and judges nothing.
    #[arg(long)]
    brief: bool,
    /// Only this store; may be given several times.
    #[arg(long)]
    only: Vec<Store>,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench-peers.json")]
    json: PathBuf,
    /// Where the picture goes.
    #[arg(long, default_value = "target/bench-peers.svg")]
    picture: PathBuf,
    /// Directory for the servers' data, on the disk that is to be measured.
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::run("peers", run(Arguments::parse())).await
}

async fn run(arguments: Arguments) -> Result<()> {
    let at = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
    let stores: Vec<Store> = Store::value_variants()
        .iter()
        .copied()
        .filter(|store| arguments.only.is_empty() || arguments.only.contains(store))
        .collect();
    ensure!(!stores.contains(&Store::Postgres) || server::programs().is_some(), "{}", server::MISSING);
    std::fs::create_dir_all(&arguments.data)?;
    let machine = Machine::look(&arguments.data)?;
    // No gateway runs as a process here.
    let paths = Paths { gw: PathBuf::new(), data: arguments.data.canonicalize()? };
    let context = Context::new(paths, if arguments.brief { Size::Brief } else { Size::Usual })?;
    let rounds = context.pick(1, ROUNDS);
    let world = world_alone::measure(&context, context.pick(50, 10_000), IN_FLIGHT[1]).await?;
    let mut all: Vec<StoreRounds> =
        stores.iter().map(|store| StoreRounds { store: store.label(), rounds: Vec::new() }).collect();
    for round in 0..rounds {
        // In another order each time, so that nobody is always the first.
        for place in 0..stores.len() {
            let index = (round + place) % stores.len();
            let measured = tokio::time::timeout(ROUND_MAX, stores[index].measure(&context, &IN_FLIGHT)).await;
            let measured = measured.context("it takes too long").flatten();
            let measured = measured.with_context(|| format!("{}, round {}", all[index].store, round + 1))?;
            for found in &measured {
                println!(
                    "round {} of {rounds}: {:<10} {:>5} in flight {:>7.0} payments a second",
                    round + 1,
                    all[index].store,
                    found.in_flight,
                    found.payments_per_second
                );
            }
            all[index].rounds.extend(measured);
        }
    }
    let world_us = world.as_secs_f64() * 1e6;
    let of = |store: &StoreRounds, in_flight: usize| {
        let rounds: Vec<&Round> = store.rounds.iter().filter(|round| round.in_flight == in_flight).collect();
        Figures::of(store.store, &rounds, world_us)
    };
    let figures = all.iter().flat_map(|store| IN_FLIGHT.into_iter().filter_map(|in_flight| of(store, in_flight)));
    let figures: Vec<Figures> = figures.collect();
    let postgres = if stores.contains(&Store::Postgres) { Some(server::version()?) } else { None };
    let report = Report { at, machine, postgres, brief: arguments.brief, rounds, world_us, figures, all };
    report.write(&arguments.json)?;
    let note = format!(
        "{}, {} cores, {}, medians of {} rounds{}",
        report.at.get(..10).unwrap_or_default(),
        report.machine.cores,
        report.machine.processor,
        report.rounds,
        if report.brief { "; BRIEF: means nothing" } else { "" }
    );
    write(&arguments.picture, &picture(&report.figures, &note))?;
    println!("\n{}", report.table());
    println!("the same as JSON in {}, as a picture in {}", arguments.json.display(), arguments.picture.display());
    Ok(())
}
