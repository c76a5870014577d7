//! `gw-dev`: a local network of real chains and servers, and real payments across them.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use gateway::{
    shutdown::shutdown_on_signal,
    telemetry::{Format, Logs},
};

/// Development only: starts a local network of chains and makes real payments across them.
#[derive(Debug, Parser)]
#[command(name = "gw-dev", version)]
struct Cli {
    /// How log lines are written to standard error; `RUST_LOG` filters them.
    #[arg(long, value_enum, default_value = "text", env = "GW_LOG_FORMAT")]
    log_format: Format,
    #[command(flatten)]
    args: devnet::Args,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The showcase is what the program has to say; the network's processes log into files of their own.
    Logs { format: cli.log_format, default_level: "warn" }.start();
    match run(cli.args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gw-dev: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(args: devnet::Args) -> Result<()> {
    devnet::run(args, shutdown_on_signal()?).await
}
