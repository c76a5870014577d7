//! Deliberately broken variants of the stores, each of which the runs must catch.

use std::time::Duration;

use tokio::time::timeout;

use super::{AT_A_TIME, commits, leases, play, records, world::World};

/// Far longer than any hunt takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Seeds among which each is caught.
const WITHIN: u64 = 96;

/// Which runs are hunted in.
#[derive(Debug, Clone, Copy)]
enum Runs {
    Commits,
    Records,
    Leases,
}

/// A broken variant: its name in the code, where it shows, and what is said then.
type Mutant = (&'static str, Runs, &'static str);

const MUTANTS: [Mutant; 10] = [
    ("ack-loss-is-success", Runs::Commits, "was said to be Stored"),
    ("ack-loss-is-failure", Runs::Commits, "was said to be Unavailable"),
    ("resolved-by-a-replica", Runs::Commits, "was said to be Conflict"),
    ("replica-is-level", Runs::Commits, " misses "),
    ("conflict-without-reading", Runs::Commits, "was said to be Conflict"),
    ("append-not-conditional", Runs::Commits, "hash chain is broken"),
    // What fences a holder whose lease was taken over.
    ("append-not-conditional", Runs::Leases, "a holder appends after its successor"),
    ("nonce-without-acknowledgement", Runs::Records, "was given the nonces"),
    ("replay-not-conditional", Runs::Records, "a stream comes back twice"),
    ("act-without-acknowledgement", Runs::Records, "and is not there"),
];

/// Each is in force in a thread of its own, with a server of its own; they wait more than they compute.
#[test]
fn every_broken_variant_is_caught() {
    let hunts: Vec<_> = MUTANTS.into_iter().map(|mutant| (mutant, std::thread::spawn(move || hunt(mutant)))).collect();
    let mut missed = Vec::new();
    for (mutant, hunt) in hunts {
        match hunt.join().unwrap() {
            Some((seed, violation)) => eprintln!("{}, {:?}: seed {seed}: {violation:.200}", mutant.0, mutant.1),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "nothing caught {missed:?}");
}

/// The first of the seeds' violations that is the variant's, if there is one.
fn hunt((name, runs, says): Mutant) -> Option<(u64, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::open(usize::try_from(WITHIN).unwrap()).await;
        events::mutants::choose(Some(name));
        let mut first = 1;
        while first <= WITHIN {
            let last = (first + AT_A_TIME as u64 - 1).min(WITHIN);
            let broken = match runs {
                Runs::Commits => timeout(PATIENCE, play(&world, first..=last, commits::run)).await,
                Runs::Records => timeout(PATIENCE, play(&world, first..=last, records::run)).await,
                Runs::Leases => timeout(PATIENCE, play(&world, first..=last, leases::run)).await,
            };
            let broken = broken.expect("a hunt hangs");
            if let Some(found) = broken.into_iter().find(|(_, violation)| violation.contains(says)) {
                return Some(found);
            }
            first = last + 1;
        }
        None
    })
}
