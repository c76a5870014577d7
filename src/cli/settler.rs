//! `gw settler`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Subcommand};
use futures::future::try_join;

use events::Did;
use journal_jetstream::connection::nkey;
use settler::Settler;

use crate::{metrics::Metrics, telemetry::Logs};

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
    /// Show the settler's DID, its subject token, and the account in nats/accounts.conf that admits its key.
    Id {
        /// The DID of a settler of which no configuration is at hand; its operator needs to show nothing else.
        #[arg(long)]
        did: Option<Did>,
    },
}

impl Args {
    /// Whether the settler's id is to be shown, and nothing run.
    pub fn shows_id(&self) -> bool {
        matches!(self.command, Some(Command::Id { .. }))
    }
}

/// Runs a settler, or shows what it needs.
///
/// # Errors
/// When the configuration cannot be used, or the settler ends.
pub async fn run(args: Args, logs: Logs) -> Result<()> {
    if let Some(Command::Id { did: Some(did) }) = &args.command {
        return show(did);
    }
    let path = args.config.context("--config FILE is needed; see config/settler.example.toml")?;
    let config: settler::Config = logs.while_reading(|| config::settler(&path))?;
    let did = Did::from_ed25519(&config.signing_key()?.verifying_key());
    if let Some(Command::Id { .. }) = args.command {
        return show(&did);
    }
    let traces = logs.start_with_traces(&config.telemetry, "settler", did.to_string())?;
    // Before any part makes its handles.
    let metrics = Metrics::install(config.metrics.listen)?;
    let settler = Settler::connect(&config).await?;
    let shutdown = super::shutdown_on_signal()?;
    let working = async {
        settler.run(shutdown.clone()).await;
        Ok(())
    };
    let ended = match metrics {
        Some(metrics) => try_join(working, metrics.serve(|| (), shutdown.clone())).await.map(drop),
        None => working.await,
    };
    traces.finish().await;
    ended
}

/// What a NATS operator needs to admit a settler.
fn show(did: &Did) -> Result<()> {
    let account = settler::nats_account(did).with_context(|| did.to_string())?;
    let (token, nkey) = (did.token(), nkey(&did.ed25519_key()?));
    super::answer(&format!(
        "did:   {did}\ntoken: {token}\nnkey:  {nkey}\n\n\
         In nats/accounts.conf, then `nats-server --signal reload` twice:\n\n{account}"
    ))
}
