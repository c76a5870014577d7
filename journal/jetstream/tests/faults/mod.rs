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

use futures::{StreamExt, stream};

use self::world::{FAULTS, Violation, World};

/// Runs at a time; they wait more than they compute.
const AT_A_TIME: usize = 12;

/// The seeds that are to be played, where `ordinarily` is how many are in the ordinary suite.
fn seeds(ordinarily: u64) -> std::ops::RangeInclusive<u64> {
    let asked = |name: &str| std::env::var(name).ok().map(|value| value.parse().expect("a number"));
    match (asked("NATS_SEED"), asked("NATS_SEEDS")) {
        (Some(seed), _) => seed..=seed,
        (None, seeds) => 1..=seeds.unwrap_or(ordinarily),
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

#[tokio::test]
async fn commits_hold_under_every_fault() {
    let seeds = seeds(48);
    let world = World::open(count(&seeds)).await;
    nothing_broke("commits", &play(&world, seeds.clone(), commits::run).await);
    eprintln!("{} runs; {}", count(&seeds), world.coverage);
    if count(&seeds) >= 48 {
        assert_eq!(world.coverage.missing(&FAULTS), [], "{}", world.coverage);
    }
}

#[tokio::test]
async fn records_hold_under_every_fault() {
    let seeds = seeds(48);
    let world = World::open(count(&seeds)).await;
    nothing_broke("records", &play(&world, seeds.clone(), records::run).await);
    eprintln!("{} runs; {}", count(&seeds), world.coverage);
}

#[tokio::test]
async fn leases_hold_under_every_fault() {
    let seeds = seeds(12);
    let world = World::open(count(&seeds)).await;
    nothing_broke("leases", &play(&world, seeds.clone(), leases::run).await);
    eprintln!("{} runs; {}", count(&seeds), world.coverage);
}
