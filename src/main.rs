//! `gw`: the gateway, its verifier, settler, selector and auditor, and what operators do with them, in one binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The system's allocator took a sixth of the processor under load, and kept what thousands of requests had used (ADR 75).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    gateway::cli::main()
}
