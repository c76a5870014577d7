//! Auctions under the failure modes of NATS: many small runs by seeds, each with two gateways and six settlers on one real server.
//!
//! A seed that breaks something is printed; `NATS_SEED=n` plays it alone, `NATS_SEEDS=n` plays so many. The server and the clock are
//! real, so a seed repeats what strikes, and not the order of what happens between connections.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod auctions;
#[cfg(debug_assertions)]
mod mutants;
mod settlers;
mod world;

use std::sync::atomic::Ordering;

use futures::{StreamExt, stream};

use self::world::{FAULTS, Violation, World};

/// Runs at a time; they wait more than they compute.
const AT_A_TIME: usize = 32;
/// Runs of the ordinary suite.
const ORDINARILY: u64 = 32;

/// Plays all the seeds; the violations, each with its seed.
async fn play(world: &World, seeds: std::ops::RangeInclusive<u64>) -> Vec<(u64, Violation)> {
    let runs = stream::iter(seeds)
        .map(|seed| async move { auctions::run(world, seed).await.err().map(|violation| (seed, violation)) });
    runs.buffer_unordered(AT_A_TIME).filter_map(async |found| found).collect().await
}

#[tokio::test]
async fn auctions_hold_under_every_fault() {
    let asked = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let seeds = match (asked("NATS_SEED"), asked("NATS_SEEDS")) {
        (Some(seed), _) => seed..=seed,
        (None, seeds) => 1..=seeds.unwrap_or(ORDINARILY),
    };
    let count = seeds.end() - seeds.start() + 1;
    let world = World::open(usize::try_from(count).unwrap()).await;
    let broken = play(&world, seeds).await;
    for (seed, violation) in &broken {
        eprintln!("NATS_SEED={seed}: {violation}");
    }
    let awarded = world.awarded.load(Ordering::Relaxed);
    eprintln!("{count} runs, {awarded} with an award; {}", world.coverage);
    assert!(broken.is_empty(), "{} seeds break something; the first: {:?}", broken.len(), broken[0]);
    if count >= ORDINARILY {
        // Where all decline, are late or say nothing, there is nobody to award anything to.
        assert!(awarded > count / 2, "of {count} runs {awarded} came to an award");
        assert_eq!(world.coverage.missing(&FAULTS), [], "{}", world.coverage);
    }
}
