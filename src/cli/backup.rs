//! `gw backup`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Result;
use async_nats::Client;
use chrono::{SecondsFormat, TimeDelta};
use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;

use audit::{
    audit_state::AuditState,
    progress::Progress,
    report::Verdict,
    source::{Exported, Source},
    verify::Auditor,
};
use backup::manifest::{self, Manifest};
use config::GatewayConfig;

use super::audit::describe;
use crate::{
    nats::client::connect,
    operator::{self, Operator, Target, wire::Verb},
};

/// What is sent to a chain is in a settled block within a quarter of an hour, or is not taken any more.
const WAIT_SECONDS: u32 = 900;
/// What is to be done next.
const PAUSED: &str = "\nthe gateways are paused: start them, look at `gw admin status`, `overdue` and `park list`, compare with `gw audit \
                      verify --all`, then `gw admin resume`";

/// Arguments of `gw backup`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy all that the gateways keep in NATS into a directory; goes on with a copy that is there, reading only what is new.
    Create {
        #[command(flatten)]
        at: At,
        /// The gateway's configuration file, whose NATS server and credentials are used.
        #[arg(long, env = "GW_CONFIG")]
        config: PathBuf,
    },
    /// Take what the servers hold for a copy of the journal, because its last messages may be lost: after two of three servers lost
    /// their disks. No gateway may run. The gateways are paused by it.
    Adopt {
        /// The gateway's configuration file, whose NATS server and credentials are used.
        #[arg(long, env = "GW_CONFIG")]
        config: PathBuf,
        /// How long, by the clock of its source chain, no payment is accepted after this: a deposit that was sent before the loss is in a
        /// settled block then, or cannot come any more.
        #[arg(long, default_value_t = WAIT_SECONDS, value_parser = clap::value_parser!(u32).range(..=86_400))]
        wait_seconds: u32,
    },
    /// Look whether a copy is all there, and prove what its journal says as `gw audit verify --all --offline` does.
    Verify {
        #[command(flatten)]
        at: At,
    },
    /// Put a copy into empty servers, or go on where that was interrupted; no gateway may run. The gateways are paused by it.
    Restore {
        #[command(flatten)]
        at: At,
        /// The gateway's configuration file, whose NATS server and credentials are used.
        #[arg(long, env = "GW_CONFIG")]
        config: PathBuf,
        /// How long, by the clock of its source chain, no payment is accepted after this: a deposit that was sent before the loss is in a
        /// settled block then, or cannot come any more.
        #[arg(long, default_value_t = WAIT_SECONDS, value_parser = clap::value_parser!(u32).range(..=86_400))]
        wait_seconds: u32,
    },
}

#[derive(Debug, ClapArgs)]
struct At {
    /// The directory of the copy.
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
}

/// Carries out one order.
///
/// # Errors
/// When the copy is not made, not whole, or not put in place.
pub async fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Create { at, config } => create(&at.directory, &config).await.map(|()| ExitCode::SUCCESS),
        Command::Adopt { config, wait_seconds } => adopt(&config, wait_seconds).await.map(|()| ExitCode::SUCCESS),
        Command::Verify { at } => verify(&at.directory).await,
        Command::Restore { at, config, wait_seconds } => {
            restore(&at.directory, &config, wait_seconds).await.map(|()| ExitCode::SUCCESS)
        }
    }
}

async fn create(directory: &Path, config: &Path) -> Result<()> {
    let config = GatewayConfig::load(config)?;
    let client = connect(&config.nats, "gw backup create").await?;
    let progress = Progress::new("backup");
    let shown = progress.show();
    let made = backup::copy::copy(client, directory, &progress).await;
    drop(shown);
    super::answer(&describe_copy("copied", &made?, directory))
}

async fn verify(directory: &Path) -> Result<ExitCode> {
    let checked = backup::check::check(directory)?;
    let manifest = &checked.manifest;
    let journal = Exported::open_up_to(&manifest::journal(directory), &manifest.exported(), manifest.layout.clone());
    let source = Source::Export(journal?);
    let auditor = Arc::new(Auditor { source, chains: None, signers: Vec::new() });
    let report = auditor.verify_all(&mut AuditState::default(), &Progress::new("verify")).await?;
    super::answer(&format!("{}\n{}", describe(&report), describe_copy("whole", manifest, directory)))?;
    Ok(match report.verdict() {
        Verdict::Faults => ExitCode::FAILURE,
        // No chain is asked, and whose checkpoints count is not known here.
        Verdict::Proven | Verdict::Incomplete => ExitCode::SUCCESS,
    })
}

async fn restore(directory: &Path, config: &Path, wait_seconds: u32) -> Result<()> {
    let config = GatewayConfig::load(config)?;
    let client = connect(&config.nats, "gw backup restore").await?;
    let wait = TimeDelta::seconds(wait_seconds.into());
    let progress = Progress::new("restore");
    let shown = progress.show();
    let restored =
        backup::restore::restore(client.clone(), &config, directory, wait, async || running(&client).await, &progress)
            .await;
    drop(shown);
    let restored = restored?;
    let mut text = describe_copy("in place", &restored.manifest, directory);
    if !restored.unsealed.is_empty() {
        let sealed =
            restored.epochs.all().iter().filter(|epoch| epoch.range().all(|shard| restored.unsealed.contains(&shard)));
        let numbers: Vec<_> = sealed.map(|epoch| epoch.number.to_string()).collect();
        text +=
            &format!("\nepochs that were sealed take commits now; `gw admin epochs seal` them: {}", numbers.join(", "));
    }
    text += PAUSED;
    super::answer(&text)
}

async fn adopt(config: &Path, wait_seconds: u32) -> Result<()> {
    let config = GatewayConfig::load(config)?;
    let client = connect(&config.nats, "gw backup adopt").await?;
    let wait = TimeDelta::seconds(wait_seconds.into());
    let heads = backup::adopt::adopt(client.clone(), &config, wait, async || running(&client).await).await?;
    let messages: u64 = heads.values().sum();
    super::answer(&format!("taken for a copy: {messages} messages of {} shards{PAUSED}", heads.len()))
}

/// The gateways that answer.
async fn running(client: &Client) -> Result<Vec<String>, String> {
    match Operator::new(client.clone()).ask::<Value>(&Target::All, Verb::Status).await {
        Err(operator::Error::Nobody(_)) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
        Ok(running) => Ok(running.into_iter().map(|reply| reply.gateway).collect()),
    }
}

fn describe_copy(what: &str, manifest: &Manifest, directory: &Path) -> String {
    let at = manifest.made_at.to_rfc3339_opts(SecondsFormat::Secs, true);
    let messages: u64 = manifest.kept.values().chain(manifest.newest.values()).sum();
    let (shards, place) = (manifest.shards().count(), directory.display());
    format!(
        "{what}: {messages} messages of {} streams, {shards} of them shards, as of {at}, {place}",
        manifest.streams().count()
    )
}
