//! Runs one fuzz target under an engine: libFuzzer when built by `scripts/fuzz`, else random inputs.

use std::process::ExitCode;

use fuzz::{TARGETS, Target, named, seeds, within_bounds};

fn main() -> ExitCode {
    let asked = std::env::args().nth(1).unwrap_or_default();
    if asked == "list" {
        // One a line: its name, the most bytes of an input, the folders whose change asks for it.
        for target in TARGETS {
            println!("{} {} {}", target.name, target.bytes_max, target.folders.join(" "));
        }
        return ExitCode::SUCCESS;
    }
    if asked == "seeds" {
        return match seeds::write() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    match named(&asked) {
        Some(target) => {
            under_engine(target);
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("usage: fuzz list | fuzz seeds | fuzz TARGET; see tools/fuzz/README.md");
            ExitCode::FAILURE
        }
    }
}

fn under_engine(target: &Target) {
    let run = target.run;
    bolero::check!(name = target.name)
        .with_max_len(target.bytes_max)
        .for_each(|bytes: &[u8]| within_bounds(run, bytes));
}
