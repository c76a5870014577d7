//! Mutation tests: every deliberately broken variant of the engine is caught within its number of seeds. Release builds
//! have no variants.
#![cfg(debug_assertions)]
// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use simulation::mutants::{MUTANTS, hunt};

/// Of what a violation says, so much is shown.
const SHOWN_CHARS: usize = 300;

#[test]
fn every_broken_variant_is_caught() {
    // One alone, by its name.
    let only = std::env::var("SIM_MUTANT").ok();
    let mutants: Vec<_> =
        MUTANTS.iter().filter(|mutant| only.as_ref().is_none_or(|only| only == mutant.name)).collect();
    assert!(!mutants.is_empty(), "there is no such variant");
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let escaped: Vec<String> = thread::scope(|scope| {
        let hunters: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut escaped = Vec::new();
                    while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::SeqCst)) {
                        match hunt(mutant).unwrap() {
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
                        }
                    }
                    escaped
                })
            })
            .collect();
        hunters.into_iter().flat_map(|hunter| hunter.join().unwrap()).collect()
    });
    assert!(escaped.is_empty(), "not caught: {escaped:#?}");
}
