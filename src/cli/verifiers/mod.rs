//! `gw verifiers`: what the gateways observed of the verifiers that their configuration names; `gw verifiers id`: by which account
//! payers know a set of verifiers.

mod id;
pub(super) mod set;
mod table;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args as ClapArgs, Subcommand};

use config::GatewayConfig;

use crate::{
    nats::client::connect,
    operator::{
        Operator, Target,
        wire::{Status, Verb},
    },
};

use self::table::Told;

/// Arguments of `gw verifiers`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// The gateway's configuration file, whose NATS server and credentials are used.
    #[arg(long, env = "GW_CONFIG")]
    config: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the account that stands for a set of verifiers on chain: the `releaser` of its escrows. Asks nobody.
    Id(id::Args),
}

/// Shows the verifiers, or the id of a set of them.
///
/// # Errors
/// When no gateway answers, or accounts make no set.
pub async fn run(args: &Args) -> Result<()> {
    match &args.command {
        Some(Command::Id(args)) => super::answer(&id::shown(args)?),
        None => super::answer(&asked(args).await?),
    }
}

/// What all gateways say.
async fn asked(args: &Args) -> Result<String> {
    let path = args.config.as_ref();
    let path = path.context("--config FILE is needed: the gateway's own; see config/gateway.example.toml")?;
    let config = GatewayConfig::load(path)?;
    let client = connect(&config.nats, "gw verifiers").await?;
    let replies = Operator::new(client).ask::<Status>(&Target::All, Verb::Status).await?;
    let told = Told::of(replies);
    ensure!(told.has_answer(), "{}", told.notes().join("\n    "));
    if args.json { told.json() } else { Ok(told.text()) }
}
