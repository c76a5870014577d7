//! Runs one fuzz target under an engine: libFuzzer when built by `scripts/fuzz`, else random inputs.

use std::{io, process::ExitCode};

use fuzz::{TARGETS, Target, named, seeds, sources, within_bounds};

fn main() -> ExitCode {
    let asked = std::env::args().nth(1).unwrap_or_default();
    let done = match asked.as_str() {
        "list" => print(|_| Ok(true)),
        "changed" => print(|target| sources::is_changed(&sources::repository(), target)),
        "seeds" => seeds::write(),
        name => match named(name) {
            Some(target) => {
                under_engine(target);
                Ok(())
            }
            None => Err(io::Error::other(
                "usage: fuzz list | fuzz changed | fuzz seeds | fuzz TARGET; see tools/fuzz/README.md",
            )),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints targets, one a line: its name, the most bytes of an input, the digest of what it is made of.
fn print(is_asked: impl Fn(&Target) -> io::Result<bool>) -> io::Result<()> {
    for target in TARGETS {
        if is_asked(target)? {
            println!("{} {} {}", target.name, target.bytes_max, sources::digest(&sources::repository(), target)?);
        }
    }
    Ok(())
}

fn under_engine(target: &Target) {
    let run = target.run;
    bolero::check!(name = target.name)
        .with_max_len(target.bytes_max)
        .for_each(|bytes: &[u8]| within_bounds(run, bytes));
}
