//! The journal's protocol.

use models::{
    check::{Limits, Report, check},
    journal::{
        Journals, checks,
        config::{Config, Variant},
    },
};

fn run(config: Config, until: Option<&'static str>) -> Report {
    check(config.name, Journals { config: config.clone() }, Limits::default(), until)
}

#[test]
fn every_state_of_the_ordinary_checks_is_visited() {
    for config in checks::ordinary() {
        let report = run(config, None);
        println!("{report}");
        assert!(report.holds(), "{report}");
    }
}

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
