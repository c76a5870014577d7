//! Mutation tests: every deliberately broken variant of the engine and of a verifier is caught within its number of seeds. Release
//! builds have no variants.
#![cfg(debug_assertions)]
// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "common/parallel.rs"]
mod parallel;

use simulation::{
    mutants::{MUTANTS, hunt},
    plan::{Character, Plan},
    run::run,
};

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

/// Who asks the verifiers for what is not so: a settler, or a stranger where the settler does not deliver.
#[derive(Debug, Clone, Copy)]
enum Asks {
    Settler(Character),
    Stranger,
}

/// Variants of a verifier that is not careful, each with its number of seeds.
const VERIFIERS: [(&str, u64, Asks); 5] = [
    // A delivery that can vanish is attested.
    ("verifier-without-depth", 25, Asks::Settler(Character::Twice)),
    // A delivery of one unit less is attested.
    ("verifier-ignores-the-amount", 10, Asks::Settler(Character::WrongAmount)),
    // A delivery to the settler itself is attested.
    ("verifier-ignores-the-recipient", 25, Asks::Settler(Character::WrongRecipient)),
    // A delivery that may still come is attested to be none.
    ("verifier-denies-what-may-come", 10, Asks::Stranger),
    // A delivery that is not settled yet is attested to be none.
    ("verifier-denies-what-it-sees", 25, Asks::Stranger),
];

/// What the first of `within` worlds breaks in which somebody asks so, and nothing else goes wrong.
fn broken(asks: Asks, within: u64) -> Option<(u64, String)> {
    (1..=within).find_map(|seed| {
        let mut plan = match asks {
            Asks::Settler(_) => Plan::fair(seed),
            Asks::Stranger => Plan::fading(seed),
        };
        match asks {
            Asks::Settler(character) => plan.settlers[0].character = character,
            Asks::Stranger => plan.lapses.stranger_cancels = true,
        }
        run(seed, plan, false).unwrap().violation.map(|violation| (seed, violation.to_string()))
    })
}

#[test]
fn every_careless_verifier_is_caught() {
    for (name, within, asks) in VERIFIERS {
        events::mutants::choose(Some(name));
        let caught = broken(asks, within);
        events::mutants::choose(None);
        let (seed, violation) = caught.unwrap_or_else(|| panic!("{name} is not caught within {within} seeds"));
        println!("{name}: seed {seed}: {violation}");
        assert_eq!(broken(asks, seed), None, "verifiers as they are");
    }
}
