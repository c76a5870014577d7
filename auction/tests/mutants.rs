//! Deliberately broken variants of the auction, each of which the runs must catch.

use devkit::natsfaults::runs::{self, Mutant, all_caught};

use super::{auctions, world::World};

/// Name, within how many seeds it shows, and what is said then.
type Variant = (&'static str, u64, &'static str);

// To forget whom another gateway asked is not listed: the answers that are stored say it, which makes it harmless.
const MUTANTS: [Variant; 7] = [
    ("late-bid-counts", 108, "bids too late"),
    ("unasked-bid-counts", 24, "bids and was not asked"),
    ("bid-counted-twice", 24, "is counted twice"),
    ("excluded-settler-asked", 12, "asked were"),
    ("answer-overwritten", 48, "answer"),
    ("award-not-conditional", 24, "of one award are stored"),
    ("awarded-without-acknowledgement", 96, "of one award are stored"),
];
/// Runs of one hunt at a time: all hunts go on together.
const AT_A_TIME: usize = 12;

/// Each is in force in a thread of its own, with a server of its own; they wait more than they compute.
#[test]
fn every_broken_variant_is_caught() {
    all_caught(MUTANTS.map(|(name, within, says)| {
        let mutant = Mutant { name, within, says };
        (name, move || runs::hunt(mutant, AT_A_TIME, World::open, auctions::run))
    }));
}
