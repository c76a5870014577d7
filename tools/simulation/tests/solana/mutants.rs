//! The worlds bite: what is careless about a node's answers breaks something that must hold, within few seeds, and nothing does
//! where nobody is.
#![cfg(debug_assertions)]

use anyhow::{Context, Result, ensure};

use events::Family;
use simulation::{plan::Plan, run::run};

/// Each with its number of seeds.
const MUTANTS: [(&str, u64); 4] = [
    // What is confirmed is taken for finalized: a fork takes it back.
    ("solana-confirmed-is-final", 10),
    // A transaction that can still land is given up, and another is made.
    ("solana-blockhash-expires-early", 40),
    // What an account was when it was first asked for is taken for what it is.
    ("solana-accounts-are-cached", 10),
    // Deadlines are compared with a block that can vanish, and that is newer than the accounts.
    ("solana-clock-of-the-newest-block", 40),
];

/// The first of `within` seeds that breaks something, and what.
fn broken(within: u64) -> Result<Option<(u64, String)>> {
    for seed in 1..=within {
        if let Some(violation) = run(seed, Plan::on(seed, (Family::Solana, Family::Solana)), false)?.violation {
            return Ok(Some((seed, violation.to_string())));
        }
    }
    Ok(None)
}

#[test]
fn every_careless_variant_of_the_adapter_is_caught() -> Result<()> {
    let mut latest = 0;
    for (name, within) in MUTANTS {
        events::mutants::choose(Some(name));
        let caught = broken(within);
        events::mutants::choose(None);
        let (seed, violation) = caught?.with_context(|| format!("{name} is not caught within {within} seeds"))?;
        println!("{name}: seed {seed}: {violation}");
        latest = latest.max(seed);
    }
    let whole = broken(latest)?;
    ensure!(whole.is_none(), "the adapter as it is: {whole:?}");
    Ok(())
}
