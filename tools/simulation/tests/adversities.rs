//! Worlds with an attacker who has a submitter's key, with clocks that are wrong by minutes, with epochs that begin and are sealed under
//! load, and with many payments at once; and what is broken there, which each of them shows.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "common/parallel.rs"]
mod parallel;

use std::time::Duration;

use events::Family;
use simulation::{
    coverage::FaultCoverage,
    plan::{Adversities, Character, PaymentPlan, Plan},
    run::run,
};

use crate::parallel::in_parallel;

const NONE: Adversities = Adversities { theft: false, clocks: false, epochs: false, crowd: false };
const THEFT: Adversities = Adversities { theft: true, ..NONE };
const CLOCKS: Adversities = Adversities { clocks: true, ..NONE };
const EPOCHS: Adversities = Adversities { epochs: true, ..NONE };
/// The first of the seeds of each, and how many they are on EVM chains.
const FROM: u64 = 400_000;
const SEEDS: u64 = 12;
/// Two chains, neither of them EVM.
const OTHERS: [(Family, Family); 4] = [
    (Family::Solana, Family::Tron),
    (Family::Tron, Family::Solana),
    (Family::Solana, Family::Solana),
    (Family::Tron, Family::Tron),
];

/// The worlds that break something, and what happened in all of them.
fn broken(worlds: &[(u64, Plan)]) -> (Vec<(u64, String)>, FaultCoverage) {
    let gathered = in_parallel(worlds, |(seed, plan), (broken, coverage): &mut (Vec<_>, FaultCoverage)| {
        let report = run(*seed, plan.clone(), false).unwrap();
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

fn nothing_breaks(adversities: Adversities, expected: &[&str]) {
    let on_evm = (FROM..FROM + SEEDS).map(|seed| (seed, Plan::draw(seed).with(seed, adversities)));
    let seeds = FROM + SEEDS..;
    let elsewhere = seeds.zip(OTHERS).map(|(seed, pair)| (seed, Plan::on(seed, pair).with(seed, adversities)));
    let (broken, coverage) = broken(&on_evm.chain(elsewhere).collect::<Vec<_>>());
    assert!(broken.is_empty(), "{adversities:?}: {broken:#?}");
    let shown = coverage.to_string();
    for name in expected {
        assert!(shown.contains(name), "{name} never happened: {shown}");
    }
}

#[test]
fn nothing_breaks_while_a_submitters_key_is_in_other_hands() {
    let expected = [
        "key of a submitter is replaced",
        "stolen key of a submitter takes the place of a transaction",
        "stolen key of a submitter takes its coins",
        "stolen key of a submitter sends what was published",
    ];
    nothing_breaks(THEFT, &expected);
}

#[test]
fn nothing_breaks_while_clocks_are_wrong() {
    nothing_breaks(CLOCKS, &["clock of a gateway steps back", "clock of a settler steps forward", "clock drifts"]);
}

#[test]
fn nothing_breaks_while_epochs_begin_and_are_sealed() {
    let expected = [
        "epoch begins while payments are open",
        "epoch is sealed",
        "sealing of an epoch dies half-way",
        "gateway dies at the beginning of an epoch",
    ];
    nothing_breaks(EPOCHS, &expected);
}

/// Many payments at once, chains and nodes at their worst.
#[test]
fn nothing_breaks_in_storms_of_other_families() {
    let worlds = (FROM..).zip(OTHERS).map(|(seed, pair)| (seed, Plan::storm_on(seed, pair)));
    let (broken, coverage) = broken(&worlds.collect::<Vec<_>>());
    assert!(broken.is_empty(), "again with `sim --storm --families SOURCE-DESTINATION --seed SEED`: {broken:#?}");
    assert!(coverage.to_string().contains("many payments at once"), "{coverage}");
}

/// A world in which nothing else goes wrong.
fn only(seed: u64, adversities: Adversities) -> Plan {
    let mut plan = Plan::fair(seed);
    plan.faults_end_after = Duration::from_secs(400);
    plan.payments[0] = PaymentPlan { at: Duration::from_secs(20), ..plan.payments[0] };
    plan.with(seed, adversities)
}

/// The same where nobody delivers, so that the gateway has to refund.
fn undelivered(mut plan: Plan) -> Plan {
    plan.settlers[0].character = Character::Fading;
    plan
}

/// So many payments in the place of one.
fn many(mut plan: Plan) -> Plan {
    let one = plan.payments[0];
    let next =
        |number: u64| PaymentPlan { at: one.at + Duration::from_millis(40 * number), shares_payer: false, ..one };
    plan.payments = (0..6).map(next).collect();
    plan
}

/// What is broken shows where the adversity is, within so many seeds, and in the same seeds not without it.
#[cfg(debug_assertions)]
#[test]
fn what_is_broken_shows_in_each() {
    type World = fn(u64) -> Plan;
    let mutants: [(&str, u64, World, World); 5] = [
        // A nonce that somebody else used counts as open, so what was signed with it is waited for.
        ("used-nonce-is-open", 40, |seed| undelivered(only(seed, THEFT)), |seed| undelivered(only(seed, NONE))),
        // A payment fails by the gateway's clock, without a settled block.
        ("refund-before-evidence", 40, |seed| only(seed, CLOCKS), |seed| only(seed, NONE)),
        // The engine works the shards of the first epoch alone.
        ("later-epochs-not-worked", 20, |seed| only(seed, EPOCHS), |seed| only(seed, NONE)),
        // An epoch is sealed although payments in it are open.
        ("sealed-while-open", 20, |seed| only(seed, EPOCHS), |seed| only(seed, NONE)),
        // Nonces come from the chain, which has not seen what others are about to send.
        ("nonce-from-the-chain", 10, |seed| many(only(seed, NONE)), |seed| only(seed, NONE)),
    ];
    let gathered = in_parallel(&mutants, |(name, within, with, without), escaped: &mut Vec<String>| {
        events::mutants::choose(Some(name));
        let breaks = |plan: Plan, seed| run(seed, plan, false).unwrap().violation;
        let caught = (1..=*within).find_map(|seed| Some((seed, breaks(with(seed), seed)?)));
        let elsewhere = caught.as_ref().and_then(|(seed, _)| breaks(without(*seed), *seed));
        events::mutants::choose(None);
        match (caught, elsewhere) {
            (Some((seed, violation)), None) => println!("{name}: seed {seed}: {violation}"),
            (Some(_), Some(violation)) => escaped.push(format!("{name} shows without it: {violation}")),
            (None, _) => escaped.push(format!("{name} is not caught")),
        }
    });
    let escaped = gathered.concat();
    assert!(escaped.is_empty(), "{escaped:#?}");
}
