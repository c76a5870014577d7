//! Deliberately broken variants of the auction, each of which the runs must catch.

use std::time::Duration;

use tokio::time::timeout;

use super::{play, world::World};

/// Far longer than any hunt takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// A broken variant: its name in the code, within how many seeds it shows, and what is said then.
type Mutant = (&'static str, u64, &'static str);

// To forget whom another gateway asked is not listed: the answers that are stored say it, which makes it harmless.
const MUTANTS: [Mutant; 7] = [
    ("late-bid-counts", 108, "bids too late"),
    ("unasked-bid-counts", 24, "bids and was not asked"),
    ("bid-counted-twice", 24, "is counted twice"),
    ("excluded-settler-asked", 12, "asked were"),
    ("answer-overwritten", 48, "answer"),
    ("award-not-conditional", 24, "of one award are stored"),
    ("awarded-without-acknowledgement", 96, "of one award are stored"),
];
/// Runs of one hunt at a time: all hunts go on together.
const AT_A_TIME: u64 = 12;

/// Each is in force in a thread of its own, with a server of its own; they wait more than they compute.
#[test]
fn every_broken_variant_is_caught() {
    let hunts: Vec<_> =
        MUTANTS.into_iter().map(|mutant| (mutant.0, std::thread::spawn(move || hunt(mutant)))).collect();
    let mut missed = Vec::new();
    for (name, hunt) in hunts {
        match hunt.join().unwrap() {
            Some((seed, violation)) => eprintln!("{name}: seed {seed}: {violation:.200}"),
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "nothing caught {missed:?}");
}

/// The first of the seeds' violations that is the variant's, if there is one.
fn hunt((name, within, says): Mutant) -> Option<(u64, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::open(usize::try_from(within).unwrap()).await;
        events::mutants::choose(Some(name));
        let mut first = 1;
        while first <= within {
            let last = (first + AT_A_TIME - 1).min(within);
            let broken = timeout(PATIENCE, play(&world, first..=last)).await.expect("a hunt hangs");
            if let Some(found) = broken.into_iter().find(|(_, violation)| violation.contains(says)) {
                return Some(found);
            }
            first = last + 1;
        }
        None
    })
}
