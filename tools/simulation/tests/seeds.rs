//! A bounded number of seeds, as part of the ordinary tests; `make sim` shows what happens in each.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "common/parallel.rs"]
mod parallel;

use std::{process::Command, time::Duration};

use events::Family;
use simulation::{
    coverage::FaultCoverage,
    plan::{PaymentPlan, Plan, VerifiersPlan},
    run::{Report, run},
};

use crate::parallel::in_parallel;

/// Seeds from 1 on that are run when `SIM_SEEDS` does not say how many.
const SEEDS: u64 = 700;
/// The first of the seeds in which everything has to happen, and how many they are: enough to make it certain.
const EVERYTHING_FROM: u64 = 100_000;
const EVERYTHING_SEEDS: u64 = 600;
/// The first of the seeds that are played on chains of each two families, and how many they are.
const FAMILIES_FROM: u64 = 200_000;
const FAMILIES_SEEDS: u64 = 8;

fn play(seed: u64) -> Report {
    run(seed, Plan::draw(seed), false).unwrap()
}

/// Seeds that break something, of `count` from `first` on, and what happened in all of them.
fn broken(first: u64, count: u64) -> (Vec<(u64, String)>, FaultCoverage) {
    let seeds: Vec<_> = (first..first + count).collect();
    let gathered = in_parallel(&seeds, |seed, (broken, coverage): &mut (Vec<_>, FaultCoverage)| {
        let report = play(*seed);
        coverage.add(&report.coverage);
        broken.extend(report.violation.map(|violation| (*seed, violation.to_string())));
    });
    let (mut broken, mut coverage) = (Vec::new(), FaultCoverage::default());
    for (more, counts) in gathered {
        broken.extend(more);
        coverage.add(&counts);
    }
    (broken, coverage)
}

#[test]
fn nothing_breaks_from_the_first_seed_on() {
    let count = std::env::var("SIM_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let (broken, _) = broken(1, count);
    assert!(broken.is_empty(), "again with `make sim SEED=…`: {broken:#?}");
}

/// Of no fewer seeds than these, whatever `SIM_SEEDS` says: fewer do not show that everything happens.
#[test]
fn nothing_breaks_where_everything_happens() {
    let (broken, coverage) = broken(EVERYTHING_FROM, EVERYTHING_SEEDS);
    assert!(broken.is_empty(), "again with `make sim SEED=…`: {broken:#?}");
    let odd = coverage.at_odds();
    assert!(odd.is_empty(), "never happened, or is not expected: {odd:?}\n{coverage}");
}

#[test]
fn a_fair_world_completes_its_payment() {
    for seed in 0..5 {
        let report = run(seed, Plan::fair(seed), false).unwrap();
        assert_eq!((report.completed, report.failed, report.violation), (1, 0, None), "seed {seed}");
    }
}

/// Source and destination, of each family.
fn pairs() -> Vec<(Family, Family)> {
    let families = [Family::Evm, Family::Solana, Family::Tron];
    families.iter().flat_map(|source| families.map(|destination| (*source, destination))).collect()
}

#[test]
fn a_fair_world_of_any_families_completes_its_payment() {
    for pair in pairs() {
        for seed in 0..2 {
            let report = run(seed, Plan::fair_on(seed, pair), false).unwrap();
            let found = (report.completed, report.failed, report.violation);
            assert_eq!(found, (1, 0, None), "{pair:?}, seed {seed}");
        }
    }
}

#[test]
fn nothing_breaks_between_any_two_families() {
    let (count, pairs) = (FAMILIES_SEEDS, pairs());
    let worlds: Vec<_> =
        pairs.iter().flat_map(|pair| (0..count).map(|number| (*pair, FAMILIES_FROM + number))).collect();
    let gathered = in_parallel(&worlds, |(pair, seed), broken: &mut Vec<_>| {
        let report = run(*seed, Plan::on(*seed, *pair), false).unwrap();
        broken.extend(report.violation.map(|violation| (*pair, *seed, violation.to_string())));
    });
    let broken = gathered.concat();
    assert!(broken.is_empty(), "again with `sim --families SOURCE-DESTINATION --seed SEED --trace`: {broken:#?}");
}

/// The escrow of a settler that does not deliver is reassigned, and the next one is paid.
#[test]
fn where_one_fades_the_next_settler_completes_the_payment() {
    for seed in 0..5 {
        let report = run(seed, Plan::fading(seed), false).unwrap();
        assert_eq!((report.completed, report.failed, &report.violation), (1, 0, &None), "seed {seed}");
        let shown = report.coverage.to_string();
        assert!(shown.contains("1  escrow is reassigned"), "seed {seed}: {shown}");
    }
}

#[test]
fn a_seed_is_the_same_run_again() {
    for seed in 0..15 {
        let (one, other) = (play(seed), play(seed));
        assert_eq!(one, other);
        assert!(one.lines > 20, "{one:?}");
    }
    assert_ne!(play(1).digest, play(2).digest);
    for (seed, pair) in (300_000..).zip(pairs()) {
        let play = || run(seed, Plan::on(seed, pair), false).unwrap();
        assert_eq!(play(), play(), "{pair:?}");
    }
}

#[test]
fn a_seed_is_the_same_run_in_another_process() {
    for seed in 20..26 {
        let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(["--seed", &seed.to_string()]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let report = play(seed);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&report.digest.to_string()), "{said} is not {report:?}");
    }
}

/// The first process dies at each call that it makes to the world, one after the other; another takes over.
#[test]
fn a_death_at_any_call_does_no_harm() {
    let mut plan = Plan::fair(3);
    plan.verifiers = VerifiersPlan::honest(2, 3);
    // Time enough for another process to be there.
    plan.payments[0] = PaymentPlan { at: Duration::from_millis(500), quote: 40, reserve: 120, ..plan.payments[0] };
    // Every call of the beginning, where money moves, and every ninth of the waiting behind it.
    die(3, &plan, |call| call < 60 || call % 9 == 0);
}

/// As before, where the first winner does not deliver and another is found in its place.
#[test]
fn a_death_while_another_settler_is_found_does_no_harm() {
    let mut plan = Plan::fading(3);
    plan.payments[0] = PaymentPlan { at: Duration::from_millis(500), quote: 40, reserve: 120, ..plan.payments[0] };
    die(3, &plan, |call| call % 17 == 0);
}

/// As before, where the source is a chain on which the payer's own transaction deposits, or one without nonces.
#[test]
fn a_death_on_other_families_does_no_harm() {
    for (seed, pair) in [(3, (Family::Tron, Family::Solana)), (4, (Family::Solana, Family::Tron))] {
        let mut plan = Plan::fair_on(seed, pair);
        plan.payments[0] = PaymentPlan { at: Duration::from_millis(500), quote: 40, reserve: 240, ..plan.payments[0] };
        die(seed, &plan, |call| call % 53 == 0);
    }
}

/// The first process dies at each call that `is_deadly`, one run each, and the payment is completed all the same.
fn die(seed: u64, plan: &Plan, is_deadly: impl Fn(u64) -> bool) {
    let whole = run(seed, plan.clone(), false).unwrap();
    let calls = whole.steps[0];
    assert!(calls > 300 && whole.violation.is_none() && whole.completed == 1, "{whole:?}");
    let deaths: Vec<_> = (1..=calls).filter(|call| is_deadly(*call)).collect();
    in_parallel(&deaths, |&dies_after, (): &mut ()| {
        let mut plan = plan.clone();
        plan.gateways[0].dies_after = Some(dies_after);
        let report = run(seed, plan, false).unwrap();
        assert_eq!(report.violation, None, "dies after {dies_after}");
        assert_eq!((report.completed, report.failed), (1, 0), "dies after {dies_after}: {report:?}");
    });
}
