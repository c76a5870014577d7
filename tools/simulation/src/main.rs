//! `sim`: runs the simulation under many seeds, and prints violated invariants.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::Parser;

use events::{Family, Hash32};
use simulation::{
    coverage::FaultCoverage,
    plan::{Adversities, Plan},
    run::{Report, run},
};

/// Runs the engine under simulation.
#[derive(Debug, Parser)]
#[command(name = "sim", version)]
struct Arguments {
    /// Number of seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Goes on until so many payments have ended, however many seeds that takes.
    #[arg(long, conflicts_with_all = ["seeds", "seed"])]
    payments: Option<usize>,
    /// First seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Runs this seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Prints the whole trace; with --seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Chains and nodes at their worst.
    #[arg(long, conflicts_with = "fair")]
    storm: bool,
    /// One payment, one honest settler, and no faults.
    #[arg(long)]
    fair: bool,
    /// Reservations lapse in every seed.
    #[arg(long, conflicts_with_all = ["fair", "storm"])]
    lapses: bool,
    /// Every seed is on chains of several families; of these two where they are named, as in tron-evm.
    #[arg(long, conflicts_with_all = ["fair", "lapses"], num_args = 0..=1, default_missing_value = "any")]
    families: Option<String>,
    /// The key of a submitter is stolen in every seed.
    #[arg(long)]
    theft: bool,
    /// Clocks step and drift in every seed.
    #[arg(long)]
    clocks: bool,
    /// Epochs of the journal begin and are sealed in every seed.
    #[arg(long)]
    epochs: bool,
    /// Many payments come at once in every seed.
    #[arg(long)]
    crowd: bool,
    /// The first process of the gateway crashes at this call of its ports.
    #[arg(long)]
    dies_after: Option<u64>,
    /// Prints the fault coverage: how often each fault struck, each kind of party took part and each invariant was checked.
    #[arg(long)]
    coverage: bool,
    /// Number of threads, each with seeds of its own.
    #[arg(long, default_value_t = thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
}

impl Arguments {
    fn plan(&self, seed: u64) -> Result<Plan> {
        let mut plan = match (self.fair, self.storm, self.lapses, self.families.as_deref()) {
            (true, ..) => Plan::fair(seed),
            (_, true, _, None) => Plan::storm(seed),
            (_, true, _, Some("any")) => Plan::mixed(seed).at_worst(),
            (_, true, _, Some(named)) => Plan::storm_on(seed, pair(named)?),
            (_, _, true, _) => Plan::lapsing(seed),
            (.., Some("any")) => Plan::mixed(seed),
            (.., Some(named)) => Plan::on(seed, pair(named)?),
            _ => Plan::draw(seed),
        };
        let Self { theft, clocks, epochs, crowd, .. } = *self;
        plan = plan.with(seed, Adversities { theft, clocks, epochs, crowd });
        if self.dies_after.is_some() {
            plan.gateways[0].dies_after = self.dies_after;
        }
        Ok(plan)
    }
}

/// The families of `source-destination`.
fn pair(named: &str) -> Result<(Family, Family)> {
    let family = |name: &str| match name {
        "evm" => Ok(Family::Evm),
        "solana" => Ok(Family::Solana),
        "tron" => Ok(Family::Tron),
        other => anyhow::bail!("{other} is no family of chains"),
    };
    let (source, destination) = named.split_once('-').context("two families, as in tron-evm")?;
    Ok((family(source)?, family(destination)?))
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let (first, count) = arguments.seed.map_or((arguments.from, arguments.seeds), |seed| (seed, 1));
    let started = Instant::now();
    let (next, broken, completed, failed) =
        (AtomicU64::new(0), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let coverage = Mutex::new(FaultCoverage::default());
    let digests = Mutex::new(BTreeMap::new());
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let ended = completed.load(Ordering::SeqCst) + failed.load(Ordering::SeqCst);
            if arguments.payments.map_or(number >= count, |wanted| ended >= wanted) {
                return Ok(());
            }
            let seed = first + number;
            let report = run(seed, arguments.plan(seed)?, arguments.trace)?;
            completed.fetch_add(report.completed, Ordering::SeqCst);
            failed.fetch_add(report.failed, Ordering::SeqCst);
            locked(&coverage).add(&report.coverage);
            locked(&digests).insert(seed, report.digest);
            if report.violation.is_some() {
                broken.fetch_add(1, Ordering::SeqCst);
                show(&report, arguments.trace);
            } else if count == 1 && arguments.payments.is_none() {
                println!(
                    "seed {seed}: {} completed, {} failed, {} simulated seconds, trace of {} lines {}",
                    report.completed, report.failed, report.seconds, report.lines, report.digest
                );
            }
            if (number + 1) % 500 == 0 {
                // Other threads may still be at seeds before this one.
                let next = (seed + 1).saturating_sub(arguments.threads as u64).max(first);
                println!("{} seeds, {ended} payments; go on with FROM={next}", number + 1);
            }
        }
    };
    let outcome: Result<()> = thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => anyhow::bail!("a thread panicked"),
        })
    });
    outcome?;
    let (broken, played) = (broken.load(Ordering::SeqCst), locked(&digests).len());
    if arguments.coverage {
        print!("{}", locked(&coverage));
    }
    // The same for the same seeds, however many threads they ran in.
    let digests: Vec<u8> = locked(&digests).values().flat_map(|digest| digest.0).collect();
    println!(
        "{played} seeds from {first}: {broken} broken; {} payments completed, {} failed; {:.1} s; digest {}",
        completed.load(Ordering::SeqCst),
        failed.load(Ordering::SeqCst),
        started.elapsed().as_secs_f64(),
        Hash32::sha256(digests)
    );
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counts are added whole, so a poisoned lock guards nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show(report: &Report, traced: bool) {
    let Some(violation) = &report.violation else { return };
    let mut text = format!("seed {}: BROKEN: {violation}\n", report.seed);
    if !traced {
        for line in report.tail.iter().rev().take(40).rev() {
            text.push_str(&format!("    {line}\n"));
        }
        text.push_str(&format!("  again with: sim --seed {} --trace\n", report.seed));
    }
    print!("{text}");
}
