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

use std::sync::{Arc, atomic::Ordering};

use devkit::natsfaults::{
    Fault,
    runs::{everything_struck, nothing_broke, play, seeds},
};

use self::world::{FAULTS, OF_HINTS, World};

/// Runs at a time; they wait more than they compute.
const AT_A_TIME: usize = 12;
/// Runs of each kind in the ordinary suite: so many that every fault strikes in some of them.
const COMMITS: usize = 48;
const RECORDS: usize = 96;
const LEASES: usize = 24;
/// How often these are played at the most.
const LEASES_ROUNDS: usize = 4;

#[tokio::test]
async fn commits_hold_under_every_fault() {
    let seeds = seeds(COMMITS).unwrap();
    let runs = seeds.clone().count();
    let world = World::open(runs).await;
    let broken = play(seeds, AT_A_TIME, async |seed| commits::run(&world, seed).await).await;
    nothing_broke("commits: ", &broken);
    eprintln!("{runs} runs; {}", world.coverage);
    if runs >= COMMITS {
        everything_struck(&world.coverage, &FAULTS);
    }
}

#[tokio::test]
async fn records_hold_under_every_fault() {
    let seeds = seeds(RECORDS).unwrap();
    let runs = seeds.clone().count();
    let world = World::open(runs).await;
    let broken = play(seeds, AT_A_TIME, async |seed| records::run(&world, seed).await).await;
    nothing_broke("records: ", &broken);
    eprintln!("{runs} runs; {}", world.coverage);
    if runs >= RECORDS {
        // No record is found by a hint.
        let faults: Vec<Fault> = FAULTS.into_iter().filter(|fault| !OF_HINTS.contains(fault)).collect();
        everything_struck(&world.coverage, &faults);
    }
}

#[tokio::test]
async fn leases_hold_under_every_fault() {
    let seeds = seeds(LEASES).unwrap();
    let runs = seeds.clone().count();
    let (coverage, mut successions) = (Arc::default(), 0);
    // About one succession a run, and fewer where the machine is busy: a fault may keep the lease, or what is appended, from either,
    // and a journal that is seldom loaded gives few Direct Gets that could be stale. In real time no run is like the one before, so
    // they are played again where there were not enough.
    for round in 1..=LEASES_ROUNDS {
        let world = World::open_with(runs, &coverage).await;
        let broken = play(seeds.clone(), AT_A_TIME, async |seed| leases::run(&world, seed).await).await;
        nothing_broke("leases: ", &broken);
        successions += world.successions.load(Ordering::Relaxed);
        eprintln!("{runs} runs, {successions} successions up to round {round}; {coverage}");
        if runs < LEASES || successions > runs / 4 && coverage.missing(&FAULTS).is_empty() {
            return;
        }
    }
    everything_struck(&coverage, &FAULTS);
    panic!("in {LEASES_ROUNDS} times {runs} runs one gateway followed the other {successions} times");
}
