//! `gw selector`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Subcommand};

use auction::selector::{nats_account, nats_import};
use config::SelectorConfig;

use crate::serve;

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
    /// Show the selector's name in requests, its subject token, and what nats-server needs for it.
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
        let nkey = config.identity()?.nkey()?;
        let (account, import) = (nats_account(&key, &nkey), nats_import(&key));
        return super::answer(&format!(
            "selector: {key}\ntoken:    {token}\nnkey:     {nkey}\n\nIn `selectors` of the gateway's [trust]: \"{key}\"\n\n\
             In SELECTORS of nats/keys.conf:\n\n{import}\n\n\
             In nats/accounts.conf, then `nats-server --signal reload` twice:\n\n{account}"
        ));
    }
    serve::selector(config, super::shutdown_on_signal()?).await
}
