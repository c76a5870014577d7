//! `gw admin`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use chrono::SecondsFormat;
use clap::{Args as ClapArgs, Subcommand};

use app::admission::pause::{Control, ControlBucket};
use config::GatewayConfig;
use events::time::Timestamp;

use super::gateways;
use crate::nats::client::connect;

/// Arguments of `gw admin`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The gateway's configuration file, whose NATS server and credentials are used.
    #[arg(long, env = "GW_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let all gateways refuse new payments, quote-requests and awards with 503; what is in flight goes on.
    Pause {
        /// Why, for other operators; it is kept and logged, and never shown to callers.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let all gateways accept again.
    Resume,
    /// Show whether the gateways are paused, and how each stands: shards, read models, rebuild, alarms.
    Status(gateways::Shown),
    /// Build the read models of running gateways again from the streams, beside those in use, and compare.
    Rebuild(gateways::Addressed),
    /// List the payments whose money is past its time.
    Overdue(gateways::Shown),
    /// Drop the alarms that the journal lost commits, once they were looked into.
    Acknowledge(gateways::Addressed),
    /// Payments and batches that keep failing and were taken out of work.
    Park(super::park::Args),
    /// The epochs of the journal: list them, begin one, seal one whose payments are all at rest.
    Epochs(super::epochs::Args),
}

/// Carries out one order.
///
/// # Errors
/// When the configuration cannot be used, or NATS does not take the order.
pub async fn run(args: Args) -> Result<()> {
    let path = args.config.context("--config FILE is needed: the gateway's own; see config/gateway.example.toml")?;
    let config = GatewayConfig::load(&path)?;
    let client = connect(&config.nats, "gw admin").await?;
    let bucket = || ControlBucket::open(client.clone(), usize::from(config.journal.replicas));
    let control = match args.command {
        Command::Pause { reason } => Some(bucket().await?.pause(reason).await?),
        Command::Resume => Some(bucket().await?.resume().await?),
        Command::Status(args) => {
            let control = bucket().await?.read().await?;
            return gateways::status(args, client, control.as_ref(), &describe(control.as_ref())).await;
        }
        Command::Rebuild(args) => return gateways::rebuild(args, client).await,
        Command::Overdue(args) => return gateways::overdue(args, client).await,
        Command::Acknowledge(args) => return gateways::acknowledge(args, client).await,
        Command::Park(args) => return super::park::run(args, &config, client).await,
        Command::Epochs(args) => return super::epochs::run(args, &config, client).await,
    };
    super::answer(&describe(control.as_ref()))
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn describe(control: Option<&Control>) -> String {
    match control {
        None => "accepting; never paused".to_owned(),
        Some(Control { paused: false, since, .. }) => format!("accepting since {}", time(*since)),
        Some(Control { paused: true, since, reason }) => {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("paused since {}{reason}", time(*since))
        }
    }
}
