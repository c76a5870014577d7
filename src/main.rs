//! `gw`: the gateway, its verifier, its settler and its development network in one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    gateway::cli::main()
}
