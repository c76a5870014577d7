//! Fault injection: the stores on a real nats-server under its real failure modes, many small runs by seeds.
//!
//! A seed that breaks something is printed; `NATS_SEED=n` plays it alone, `NATS_SEEDS=n` plays so many. The server and the clock are
//! real, so a seed repeats what strikes, and not the order of what happens between connections.

mod commits;
mod leases;
#[cfg(debug_assertions)]
mod mutants;
mod records;
mod world;

use std::sync::atomic::Ordering;

use futures::{StreamExt, stream};

use devkit::natsfaults::Fault;

use self::world::{FAULTS, OF_HINTS, Violation, World};

/// Runs at a time; they wait more than they compute.
const AT_A_TIME: usize = 12;
/// Runs of each kind in the ordinary suite: so many that every fault strikes in some of them.
const COMMITS: usize = 48;
const RECORDS: usize = 96;
const LEASES: usize = 24;

/// The seeds that are to be played, where `ordinarily` is how many are in the ordinary suite.
fn seeds(ordinarily: usize) -> std::ops::RangeInclusive<u64> {
    let asked = |name: &str| std::env::var(name).ok().map(|value| value.parse().expect("a number"));
    match (asked("NATS_SEED"), asked("NATS_SEEDS")) {
        (Some(seed), _) => seed..=seed,
        (None, seeds) => 1..=seeds.unwrap_or(ordinarily as u64),
    }
}

fn count(seeds: &std::ops::RangeInclusive<u64>) -> usize {
    usize::try_from(seeds.end() - seeds.start() + 1).unwrap()
}

/// Plays all the seeds; the violations, each with its seed.
async fn play<'w, F>(
    world: &'w World,
    seeds: std::ops::RangeInclusive<u64>,
    run: impl Fn(&'w World, u64) -> F,
) -> Vec<(u64, Violation)>
where
    F: Future<Output = Result<(), Violation>>,
{
    let runs = stream::iter(seeds).map(|seed| {
        let run = run(world, seed);
        async move { run.await.err().map(|violation| (seed, violation)) }
    });
    runs.buffer_unordered(AT_A_TIME).filter_map(async |found| found).collect().await
}

fn nothing_broke(what: &str, broken: &[(u64, Violation)]) {
    for (seed, violation) in broken {
        eprintln!("{what}: NATS_SEED={seed}: {violation}");
    }
    assert!(broken.is_empty(), "{what}: {} seeds break something; the first: {:?}", broken.len(), broken[0]);
}

fn everything_struck(world: &World, faults: &[Fault]) {
    assert_eq!(world.coverage.missing(faults), [], "{}", world.coverage);
}

#[tokio::test]
async fn commits_hold_under_every_fault() {
    let seeds = seeds(COMMITS);
    let runs = count(&seeds);
    let world = World::open(runs).await;
    nothing_broke("commits", &play(&world, seeds, commits::run).await);
    eprintln!("{runs} runs; {}", world.coverage);
    if runs >= COMMITS {
        everything_struck(&world, &FAULTS);
    }
}

#[tokio::test]
async fn records_hold_under_every_fault() {
    let seeds = seeds(RECORDS);
    let runs = count(&seeds);
    let world = World::open(runs).await;
    nothing_broke("records", &play(&world, seeds, records::run).await);
    eprintln!("{runs} runs; {}", world.coverage);
    if runs >= RECORDS {
        // No record is found by a hint.
        let faults: Vec<Fault> = FAULTS.into_iter().filter(|fault| !OF_HINTS.contains(fault)).collect();
        everything_struck(&world, &faults);
    }
}

#[tokio::test]
async fn leases_hold_under_every_fault() {
    let seeds = seeds(LEASES);
    let runs = count(&seeds);
    let world = World::open(runs).await;
    nothing_broke("leases", &play(&world, seeds, leases::run).await);
    let successions = world.successions.load(Ordering::Relaxed);
    eprintln!("{runs} runs, {successions} successions; {}", world.coverage);
    if runs >= LEASES {
        // About one a run; a fault may keep the lease, or what is appended, from either.
        assert!(successions > runs / 4, "in {runs} runs one gateway followed the other {successions} times");
        everything_struck(&world, &FAULTS);
    }
}
