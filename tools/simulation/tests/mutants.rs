//! Mutation tests: every deliberately broken variant of the engine is caught within its number of seeds. Release builds
//! have no variants.
#![cfg(debug_assertions)]
// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "common/parallel.rs"]
mod parallel;

use simulation::mutants::{MUTANTS, hunt};

use crate::parallel::in_parallel;

/// Of what a violation says, so much is shown.
const SHOWN_CHARS: usize = 300;

#[test]
fn every_broken_variant_is_caught() {
    // One alone, by its name.
    let only = std::env::var("SIM_MUTANT").ok();
    let mutants: Vec<_> =
        MUTANTS.iter().filter(|mutant| only.as_ref().is_none_or(|only| only == mutant.name)).collect();
    assert!(!mutants.is_empty(), "there is no such variant");
    let gathered = in_parallel(&mutants, |mutant, escaped: &mut Vec<String>| match hunt(mutant).unwrap() {
        Some(report) => {
            let violation = report.violation.unwrap();
            // Whole streams can be in it.
            let shown: String = violation.to_string().chars().take(SHOWN_CHARS).collect();
            println!("{}: seed {}: {shown}", mutant.name, report.seed);
        }
        None => {
            println!("{}: NOT CAUGHT within {} seeds", mutant.name, mutant.within);
            escaped.push(format!("{} ({})", mutant.name, mutant.fault));
        }
    });
    let escaped = gathered.concat();
    assert!(escaped.is_empty(), "not caught: {escaped:#?}");
}
