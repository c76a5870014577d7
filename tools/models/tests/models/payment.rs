//! The payment protocol.

use models::{
    check::{Limits, Report, check},
    payment::{Payments, checks, config::Config, variant::Variant},
};

/// Visits every state of the check of this name.
fn visit(name: &str) {
    let config = checks::ordinary().into_iter().find(|config| config.name == name).unwrap();
    let report = run(config, None);
    println!("{report}");
    assert!(report.holds(), "{report}");
}

fn run(config: Config, until: Option<&'static str>) -> Report {
    // More than any of them has, so that a property which catches nothing is told before long.
    let limits = Limits { states_max: 2_000_000, ..Limits::default() };
    check(config.name, Payments::new(config.clone()).unwrap(), limits, until)
}

/// A test for each, so that they are run beside each other.
macro_rules! visits {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            visit($name);
        })*

        #[test]
        fn every_ordinary_check_is_run() {
            let names: Vec<_> = checks::ordinary().iter().map(|config| config.name).collect();
            assert_eq!(names, [$($name),*]);
        }
    };
}

visits! {
    a_gateway_dies_anywhere_and_parties_do_their_part_or_not: "payment-calm",
    every_way_comes_to_rest: "payment-ends",
    winners_refuse: "payment-next-quote",
    one_of_three_verifiers_lies: "payment-set",
    two_gateways_act_on_one_payment: "payment-two-gateways",
    blocks_are_taken_back: "payment-reorganised",
    deposits_are_tried_again: "payment-deposits",
    strangers_bring_what_they_were_shown: "payment-strangers",
    the_payer_s_own_transaction_deposits: "payment-own-transaction",
    the_clock_of_the_source_chain_is_behind: "payment-late-source",
}

/// Each rule is needed: without it a property fails that is named beforehand.
#[test]
fn every_broken_variant_is_caught() {
    let cases = checks::broken();
    for variant in Variant::ALL {
        assert!(cases.iter().any(|(config, _)| config.is(variant)), "{variant:?} is checked nowhere");
    }
    for (config, property) in cases {
        let report = run(config.clone(), Some(property));
        assert!(report.violates(property), "{:?} is not caught by: {property}\n{report}", config.variant);
    }
}
