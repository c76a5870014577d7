//! The command line of `gw`.

use std::{
    io::{ErrorKind, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use config::{GatewayConfig, VerifierConfig};

use crate::{
    serve,
    shutdown::shutdown_on_signal,
    telemetry::{Format, Logs},
};

mod admin;
mod audit;
mod backup;
mod config_check;
mod console;
mod deploy;
mod doctor;
mod epochs;
mod gateways;
mod init;
mod keys;
mod manual;
mod nats;
mod notes;
mod park;
mod pay;
mod protocol;
mod quote;
mod refund;
mod request;
mod role;
mod selector;
mod settler;
mod settlers;
mod verifiers;
mod webhooks;

/// Cross-chain payment gateway with escrow.
#[derive(Debug, Parser)]
#[command(name = "gw", version, about)]
struct Cli {
    /// How log lines are written to standard error; `RUST_LOG` filters them.
    #[arg(long, global = true, value_enum, default_value = "text", env = "GW_LOG_FORMAT")]
    log_format: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway: HTTP API, saga engine and read models.
    Serve {
        /// Configuration file; see config/gateway.example.toml.
        #[arg(long, env = "GW_CONFIG")]
        config: PathBuf,
    },
    /// Run a fulfillment verifier, which attests deliveries with the releaser's key.
    Verifier {
        /// Configuration file; see config/verifier.example.toml.
        #[arg(long, env = "GW_VERIFIER_CONFIG")]
        config: PathBuf,
    },
    /// Run a quote selector, or show what a new one needs.
    Selector(selector::Args),
    /// Run a settler, or show what a new settler needs.
    Settler(settler::Args),
    /// Write the files that a role is run with: the chains, its keys, its configuration.
    Init(init::Args),
    /// Put the contracts on a chain, or compare what is there with what should be.
    Deploy(deploy::Args),
    /// Check what a role needs: nodes, contracts, accounts, NATS, endpoints, disk. Changes nothing.
    Doctor(doctor::Args),
    /// Make the keys of roles, in encrypted files, and show what is used where.
    Keys(keys::Args),
    /// Check a role's configuration.
    Config(config_check::Args),
    /// Make and show what nats-server needs: keys of the roles, certificates, the files that nats.conf includes.
    Nats(nats::Args),
    /// Operate running gateways: pause, status, overdue and parked payments, read models, epochs, who ordered what.
    Admin(admin::Args),
    /// The operators' console: make the token of an operator.
    Console(console::Args),
    /// What owners of payments have called: list it, show how endpoints do, deliver messages again.
    Webhooks(webhooks::Args),
    /// Replay, export and verify the journal, with read-only credentials.
    Audit(audit::Args),
    /// Copy all that the gateways keep in NATS, look at a copy, put it into empty servers.
    Backup(backup::Args),
    /// Recompute the hash of a quote, or verify who signed it; asks nobody.
    Quote(quote::Args),
    /// Pay through a gateway; signs nothing that it did not rebuild, and pays once however often it is run.
    Pay(Box<pay::Args>),
    /// Make a link by which somebody is asked to pay, and its QR code; asks nobody.
    Request(request::Args),
    /// Show the records of a gateway's settlers.
    Settlers(settlers::Args),
    /// Show how verifiers answer the gateways, and the id of a set of verifiers.
    Verifiers(verifiers::Args),
    /// Show what escrows have on record for payments, and bring home what is overdue, without a gateway.
    Refund(Box<refund::Args>),
    /// Write what completes this command line in a shell, to standard output.
    Completions(manual::CompletionsArgs),
    /// Write the man pages of this command line into a folder.
    Man(manual::ManArgs),
    /// Write or check the documents of the settlers' protocol and of the HTTP API.
    #[command(hide = true)]
    Protocol(protocol::Args),
}

/// Runs the command line; errors go to standard error, with exit code 1.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let default_level = match &cli.command {
        Command::Serve { .. } | Command::Verifier { .. } => "info",
        Command::Settler(args) if !args.is_query() => "info",
        Command::Selector(args) if !args.shows_id() => "info",
        Command::Selector(_)
        | Command::Settler(_)
        | Command::Admin(_)
        | Command::Console(_)
        | Command::Webhooks(_)
        | Command::Audit(_)
        | Command::Backup(_)
        | Command::Quote(_)
        | Command::Pay(_)
        | Command::Request(_)
        | Command::Refund(_)
        | Command::Settlers(_)
        | Command::Verifiers(_)
        | Command::Init(_)
        | Command::Deploy(_)
        | Command::Keys(_)
        | Command::Doctor(_)
        | Command::Config(_)
        | Command::Nats(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Protocol(_) => "warn",
    };
    let logs = Logs { format: cli.log_format, default_level };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("gw: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(cli.command, logs)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gw: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command, logs: Logs) -> Result<ExitCode> {
    match &command {
        // Their configuration says where traces go.
        Command::Serve { .. } | Command::Verifier { .. } => {}
        Command::Settler(args) if !args.is_query() => {}
        _ => logs.start(),
    }
    match command {
        // Its exit codes tell what was found from what could not be asked.
        Command::Audit(args) => return Ok(audit::run(args).await),
        Command::Backup(args) => return backup::run(args).await,
        Command::Quote(args) => return quote::run(&args),
        Command::Pay(args) => return pay::run(&args).await,
        Command::Refund(args) => return refund::run(&args).await,
        // It says what is wrong in its report.
        Command::Doctor(args) => return doctor::run(&args).await,
        Command::Serve { config } => {
            let config = logs.while_reading(|| GatewayConfig::load(&config))?;
            let traces = logs.start_with_traces(&config.telemetry, "gateway", config.name())?;
            let served = serve::gateway(config, shutdown_on_signal()?).await;
            traces.finish().await;
            served
        }
        Command::Verifier { config } => {
            let config = logs.while_reading(|| VerifierConfig::load(&config))?;
            let traces = logs.start_with_traces(&config.telemetry, "verifier", config.listen.to_string())?;
            let served = serve::verifier(config, shutdown_on_signal()?).await;
            traces.finish().await;
            served
        }
        Command::Selector(args) => selector::run(args).await,
        Command::Settler(args) => settler::run(args, logs).await,
        Command::Admin(args) => admin::run(args).await,
        Command::Console(args) => console::run(args),
        Command::Webhooks(args) => webhooks::run(args).await,
        Command::Request(args) => request::run(args),
        Command::Settlers(args) => settlers::run(&args).await,
        Command::Verifiers(args) => verifiers::run(&args).await,
        Command::Init(args) => init::run(&args),
        Command::Deploy(args) => deploy::run(&args).await,
        Command::Keys(args) => keys::run(&args).await,
        Command::Config(args) => config_check::run(&args),
        Command::Nats(args) => nats::run(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::pages(&args, Cli::command()),
        Command::Protocol(args) => protocol::run(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the answer of a command to standard output. A reader that has seen enough, as `head` has, is not an error.
///
/// # Errors
/// When it cannot be written for another reason.
fn answer(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
