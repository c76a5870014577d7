//! Deliberately broken variants of the stores, each of which the runs must catch.

use std::time::Duration;

use tokio::time::timeout;

use super::{AT_A_TIME, commits, play, records, world::World};

/// Far longer than any hunt takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Which runs are hunted in.
#[derive(Clone, Copy)]
enum Runs {
    Commits,
    Records,
}

/// A broken variant: its name in the code, where it shows, and within how many seeds.
const MUTANTS: [(&str, Runs, u64); 9] = [
    ("ack-loss-is-success", Runs::Commits, 96),
    ("ack-loss-is-failure", Runs::Commits, 96),
    ("resolved-by-a-replica", Runs::Commits, 96),
    ("replica-is-level", Runs::Commits, 96),
    ("conflict-without-reading", Runs::Commits, 96),
    ("append-not-conditional", Runs::Commits, 96),
    ("nonce-without-acknowledgement", Runs::Records, 96),
    ("replay-not-conditional", Runs::Records, 96),
    ("act-without-acknowledgement", Runs::Records, 96),
];

/// Each is in force in a thread of its own, with a server of its own; they wait more than they compute.
#[test]
fn every_broken_variant_is_caught() {
    let hunts: Vec<_> = MUTANTS
        .into_iter()
        .map(|(name, runs, within)| (name, std::thread::spawn(move || hunt(name, runs, within))))
        .collect();
    let mut missed = Vec::new();
    for (name, hunt) in hunts {
        match hunt.join().unwrap() {
            Some((seed, violation)) => eprintln!("{name}: seed {seed}: {violation:.200}"),
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "nothing caught {missed:?}");
}

/// The first of the seeds' violations, if there is one.
fn hunt(name: &'static str, runs: Runs, within: u64) -> Option<(u64, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::open(usize::try_from(within).unwrap()).await;
        events::mutants::choose(Some(name));
        let mut first = 1;
        while first <= within {
            let last = (first + AT_A_TIME as u64 - 1).min(within);
            let broken = match runs {
                Runs::Commits => timeout(PATIENCE, play(&world, first..=last, commits::run)).await,
                Runs::Records => timeout(PATIENCE, play(&world, first..=last, records::run)).await,
            };
            if let Some(found) = broken.expect("a hunt hangs").into_iter().next() {
                return Some(found);
            }
            first = last + 1;
        }
        None
    })
}
