//! `gw selector`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Subcommand};

use crate::{
    config::SelectorConfig,
    selector::{nats_import, nats_stanza},
    serve,
};

/// Arguments of `gw selector`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Configuration file; see config/selector.example.toml.
    #[arg(long, env = "GW_SELECTOR_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the selector's name in requests, its subject token, and what nats.conf needs for it.
    Id,
}

impl Args {
    /// Whether the selector's id is to be shown, and nothing run.
    pub fn shows_id(&self) -> bool {
        matches!(self.command, Some(Command::Id))
    }
}

/// Runs a selector, or shows what it needs.
///
/// # Errors
/// When the configuration cannot be used, or the selector ends.
pub async fn run(args: Args) -> Result<()> {
    let path = args.config.context("--config FILE is needed; see config/selector.example.toml")?;
    let config = SelectorConfig::load(&path)?;
    if let Some(Command::Id) = args.command {
        let key = config.signer()?.key();
        let token = key.token();
        let (stanza, import) = (nats_stanza(&key), nats_import(&key, &token));
        return super::answer(&format!(
            "selector: {key}\ntoken:    {token}\n\nIn `selectors` of the gateway's [trust]: \"{key}\"\n\n\
             In `imports` of the account GATEWAY of nats.conf:\n\n{import}\n\nIn the accounts section:\n\n{stanza}"
        ));
    }
    serve::selector(config, super::shutdown_on_signal()?).await
}
