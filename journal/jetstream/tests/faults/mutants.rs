//! Deliberately broken variants of the stores, each of which the runs must catch.

use devkit::natsfaults::runs::{self, Mutant, all_caught};

use super::{AT_A_TIME, commits, leases, records, world::World};

/// Seeds among which each is caught.
const WITHIN: u64 = 96;
/// The same of leases. A holder has to be starved at the very time that its successor appends, which on a busy machine is rarer.
const LEASES_WITHIN: u64 = 4 * WITHIN;

/// Which runs are hunted in.
#[derive(Debug, Clone, Copy)]
enum Runs {
    Commits,
    Records,
    Leases,
}

/// A broken variant: its name in the code, where it shows, and what is said then.
type Variant = (&'static str, Runs, &'static str);

const MUTANTS: [Variant; 10] = [
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
    all_caught(MUTANTS.map(|(name, kind, says)| {
        let within = if matches!(kind, Runs::Leases) { LEASES_WITHIN } else { WITHIN };
        let mutant = Mutant { name, within, says };
        let run = async move |world: &World, seed| match kind {
            Runs::Commits => commits::run(world, seed).await,
            Runs::Records => records::run(world, seed).await,
            Runs::Leases => leases::run(world, seed).await,
        };
        (format!("{name}, {kind:?}"), move || runs::hunt(mutant, AT_A_TIME, World::open, run))
    }));
}
