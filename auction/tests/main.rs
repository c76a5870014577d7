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

use devkit::natsfaults::runs::{everything_struck, nothing_broke, play, seeds};

use self::world::{FAULTS, World};

/// Runs at a time; they wait more than they compute.
const AT_A_TIME: usize = 32;
/// Runs of the ordinary suite.
const ORDINARILY: usize = 32;

#[tokio::test]
async fn auctions_hold_under_every_fault() {
    let seeds = seeds(ORDINARILY).unwrap();
    let count = seeds.clone().count();
    let world = World::open(count).await;
    let broken = play(seeds, AT_A_TIME, async |seed| auctions::run(&world, seed).await).await;
    let awarded = world.awarded.load(Ordering::Relaxed);
    eprintln!("{count} runs, {awarded} with an award; {}", world.coverage);
    nothing_broke("", &broken);
    if count >= ORDINARILY {
        // Where all decline, are late or say nothing, there is nobody to award anything to.
        assert!(awarded > count / 2, "of {count} runs {awarded} came to an award");
        everything_struck(&world.coverage, &FAULTS);
    }
}
