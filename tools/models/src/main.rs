//! Runs the checks that are named, or all, and those that are too large for the ordinary tests among them.

use std::{process::ExitCode, time::Duration};

use models::{
    check::{Limits, Report, check},
    journal::{self, Journals},
    payment::{self, Payments, documents::Invalid},
};

/// A check and how it is run.
struct Check {
    name: &'static str,
    run: Box<dyn FnOnce(Limits) -> Result<Report, Invalid>>,
}

fn checks() -> impl Iterator<Item = Check> {
    let payments = payment::checks::ordinary().into_iter().chain(payment::checks::large()).map(|config| Check {
        name: config.name,
        run: Box::new(|limits| Ok(check(config.name, Payments::new(config)?, limits, None))),
    });
    let journals = journal::checks::ordinary().into_iter().chain(journal::checks::large()).map(|config| Check {
        name: config.name,
        run: Box::new(|limits| Ok(check(config.name, Journals { config }, limits, None))),
    });
    payments.chain(journals)
}

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let limits = Limits { time_max: Duration::from_secs(7_200), ..Limits::default() };
    let (mut run, mut failed) = (0, 0);
    for check in checks().filter(|check| asked.is_empty() || asked.iter().any(|name| name == check.name)) {
        run += 1;
        match (check.run)(limits) {
            Ok(report) => {
                println!("{report}");
                failed += u32::from(!report.holds());
            }
            Err(invalid) => {
                eprintln!("{}: {invalid}", check.name);
                failed += 1;
            }
        }
    }
    if run == 0 {
        eprintln!("no check has one of these names; there are:");
        checks().for_each(|check| eprintln!("  {}", check.name));
    }
    if run > 0 && failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
