//! The worlds bite: what is broken in the adapter breaks something that must hold, within few seeds.
#![cfg(debug_assertions)]

use anyhow::{Context, Result};

use events::Family;
use simulation::{plan::Plan, run::run};

/// Each with its number of seeds.
const MUTANTS: [(&str, u64); 3] = [
    // A transaction that can still land is given up, and another is made.
    ("expiration-not-waited-out", 20),
    // A deposit that can still come is taken for one that cannot.
    ("ruled-out-ahead-of-its-time", 40),
    // A delivery that can still vanish, or come, is judged by a block that can vanish.
    ("impossible-by-the-newest-block", 40),
];

#[test]
fn every_broken_variant_of_the_adapter_is_caught() -> Result<()> {
    for (name, within) in MUTANTS {
        events::mutants::choose(Some(name));
        let caught = (1..=within).find_map(|seed| {
            let report = run(seed, Plan::on(seed, (Family::Tron, Family::Tron)), false).ok()?;
            report.violation.map(|violation| (seed, violation))
        });
        events::mutants::choose(None);
        let (seed, violation) = caught.with_context(|| format!("{name} is not caught within {within} seeds"))?;
        println!("{name}: seed {seed}: {violation}");
    }
    Ok(())
}
