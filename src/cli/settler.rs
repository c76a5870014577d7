//! `gw settler`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Subcommand};
use figment::{
    Figment,
    providers::{Env, Format, Toml},
};

use events::Did;
use settler::{Config, Settler};

/// Arguments of `gw settler`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Configuration file; see config/settler.example.toml.
    #[arg(long, env = "GW_SETTLER_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the settler's DID, its subject token, and the nats.conf account that admits it.
    Id,
}

/// Runs a settler, or shows what it needs.
///
/// # Errors
/// When the configuration cannot be used, or the settler ends.
pub async fn run(args: Args) -> Result<()> {
    let path = args.config.context("--config FILE is needed; see config/settler.example.toml")?;
    let environment = Env::prefixed("GW_SETTLER_").ignore(&["config"]).split("__");
    let config: Config = Figment::from(Toml::file_exact(&path)).merge(environment).extract()?;
    let did = Did::from_ed25519(&config.signing_key()?.verifying_key());
    if let Some(Command::Id) = args.command {
        println!("did:   {did}\ntoken: {}\n\nIn the accounts section of nats.conf:\n", did.token());
        println!("{}", settler::nats_stanza(&did));
        return Ok(());
    }
    let settler = Settler::connect(&config).await?;
    settler.run(super::shutdown_on_signal()?).await;
    Ok(())
}
