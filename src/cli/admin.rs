//! `gw admin`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Subcommand};

use app::admission::pause::{Control, ControlBucket};
use config::GatewayConfig;
use journal::operator_acts::Act;

use self::acts::Orders;
use super::gateways;
use crate::nats::client::connect;

pub(super) mod acts;

/// Arguments of `gw admin`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The gateway's configuration file, whose NATS server and credentials are used.
    #[arg(long, env = "GW_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// Who orders, for the record of operators' acts; the user and the machine's name by default.
    #[arg(long, env = "GW_OPERATOR", global = true, value_name = "NAME")]
    by: Option<String>,
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
    /// Let all gateways accept again, where nobody has paused them otherwise since this began.
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
    /// What operators ordered last, who did and how it ended.
    Acts(acts::Args),
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
    let orders = Orders::new(args.by, &config, client.clone());
    match args.command {
        Command::Pause { reason } => {
            let control = bucket().await?;
            let paused = async { said(Some(&control.pause(reason.clone()).await?)) };
            super::answer(&orders.carry_out(Act::Pause { reason: reason.clone() }, paused).await?)
        }
        Command::Resume => {
            let control = bucket().await?;
            let shown = control.read().await.context("nothing was done, as the pause cannot be read")?;
            let since = shown.as_ref().filter(|shown| shown.paused).map(|shown| shown.since);
            let resumed = async { said(control.resume(since).await?.as_ref()) };
            super::answer(&orders.carry_out(Act::Resume { since }, resumed).await?)
        }
        Command::Status(args) => {
            let control = bucket().await?.read().await?;
            gateways::status(args, client, control.as_ref(), &describe(control.as_ref())).await
        }
        Command::Rebuild(args) => gateways::rebuild(args, client, &orders).await,
        Command::Overdue(args) => gateways::overdue(args, client).await,
        Command::Acknowledge(args) => gateways::acknowledge(args, client, &orders).await,
        Command::Park(args) => super::park::run(args, &config, client, &orders).await,
        Command::Epochs(args) => super::epochs::run(args, &config, client, &orders).await,
        Command::Acts(args) => acts::run(args, &config, client).await,
    }
}

/// What the operator is told of the pause, and the record.
fn said(control: Option<&Control>) -> Result<(String, Option<String>)> {
    let text = describe(control);
    Ok((text.clone(), Some(text)))
}

fn describe(control: Option<&Control>) -> String {
    control.map_or_else(|| "accepting; never paused".to_owned(), Control::to_string)
}
