//! `gw audit`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Subcommand};
use serde_json::{Value, json};

use audit::{
    adapters,
    audit_state::AuditState,
    connect,
    export::{self, Order},
    onchain::Chains,
    progress::Progress,
    replay,
    report::{Report, Verdict},
    source::{Exported, Source},
    verify::Auditor,
};
use config::{AuditorConfig, AuditorNatsConfig};
use events::StreamId;

/// Exit code: at least one finding says that something is wrong.
const FAULTS: u8 = 1;
/// Exit code: not everything could be read or asked. Bad usage is 2, as everywhere.
const INCOMPLETE: u8 = 3;

/// Arguments of `gw audit`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 all is proven, or done; 1 something is wrong; 2 bad usage; 3 could not be completed."
)]
pub struct Args {
    /// Configuration file; see config/auditor.example.toml. Not needed for exported files without chains.
    #[arg(long, env = "GW_AUDITOR_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show one payment, or one quote-request batch, as it happened.
    Replay {
        /// Its id, `pay_…` or `qrq_…`.
        id: StreamId,
        /// Everything, as JSON.
        #[arg(long)]
        json: bool,
        /// Read exported files instead of a server.
        #[arg(long, value_name = "DIR|FILE")]
        export: Option<PathBuf>,
    },
    /// Write whole streams to files, one JSON object a message; goes on where an earlier run stopped.
    Export {
        /// One shard only, without the checkpoints.
        #[arg(long)]
        shard: Option<u16>,
        /// First sequence of each stream.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        from_sequence: u64,
        /// A directory for a file a stream, or one file `*.jsonl` for all.
        #[arg(long, value_name = "DIR|FILE")]
        output: PathBuf,
    },
    /// Prove a payment, or everything, from the streams and the chains alone.
    Verify {
        /// The payment or batch, `pay_…` or `qrq_…`.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<StreamId>,
        /// Everything: all streams, and the signed checkpoints.
        #[arg(long)]
        all: bool,
        /// Read exported files instead of a server.
        #[arg(long, value_name = "DIR|FILE")]
        export: Option<PathBuf>,
        /// Ask no chain; says what was not checked.
        #[arg(long)]
        offline: bool,
        /// The report as JSON.
        #[arg(long)]
        json: bool,
        /// File in which the highest checkpoint of each shard is remembered; stands above the configuration's.
        #[arg(long, value_name = "FILE", requires = "all")]
        state: Option<PathBuf>,
    },
}

/// Carries out one order.
pub async fn run(args: Args) -> ExitCode {
    match audit(args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gw audit: {error:#}");
            ExitCode::from(INCOMPLETE)
        }
    }
}

async fn audit(args: Args) -> Result<ExitCode> {
    let config = args.config.as_deref().map(AuditorConfig::load).transpose()?;
    match args.command {
        Command::Replay { id, json, export } => {
            let replay = replay::replay(&source(config.as_ref(), export.as_deref()).await?, &id).await?;
            if replay.messages.is_empty() {
                let left = if replay.marks.is_empty() { "" } else { "; only marks of it, whose stream never began" };
                eprintln!("gw audit: there is no {id}{left}");
                return Ok(ExitCode::from(FAULTS));
            }
            let text = if json { serde_json::to_string_pretty(&replay)? } else { replay.describe() };
            super::answer(text.trim_end())?;
            Ok(if replay.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAULTS) })
        }
        Command::Export { shard, from_sequence, output } => {
            let reader = connect::nats(nats(config.as_ref())?).await?;
            let progress = Progress::new("export");
            let shown = progress.show();
            let exported = export::export(&reader, &Order { shard, from_sequence }, &output, &progress).await;
            drop(shown);
            match exported {
                Ok(exported) => {
                    for (stream, (last, added)) in exported.streams {
                        eprintln!("{stream}: {added} messages added, up to sequence {last}");
                    }
                    Ok(ExitCode::SUCCESS)
                }
                Err(error @ (export::Error::Gap { .. } | export::Error::Shorter { .. })) => {
                    eprintln!("gw audit: {error}");
                    Ok(ExitCode::from(FAULTS))
                }
                Err(error) => Err(error.into()),
            }
        }
        Command::Verify { id, all: _, export, offline, json, state } => {
            let source = source(config.as_ref(), export.as_deref()).await?;
            let signers = config.as_ref().map(|config| config.checkpoint_signers.clone()).unwrap_or_default();
            let auditor = Arc::new(Auditor { source, chains: chains(config.as_ref(), offline)?, signers });
            let report = match id {
                Some(id) => auditor.verify(&id).await?,
                None => verify_all(&auditor, state.or_else(|| config.and_then(|config| config.state))).await?,
            };
            super::answer(&if json { as_json(&report)? } else { describe(&report) })?;
            Ok(match report.verdict() {
                Verdict::Proven => ExitCode::SUCCESS,
                Verdict::Faults => ExitCode::from(FAULTS),
                Verdict::Incomplete => ExitCode::from(INCOMPLETE),
            })
        }
    }
}

async fn verify_all(auditor: &Arc<Auditor>, state: Option<PathBuf>) -> Result<Report> {
    let mut earlier = state.as_deref().map(AuditState::load).transpose()?.unwrap_or_default();
    let progress = Progress::new("verify");
    let shown = progress.show();
    let report = auditor.verify_all(&mut earlier, &progress).await;
    drop(shown);
    let mut report = report?;
    match state {
        Some(path) => earlier.save(&path)?,
        None => report.not_checked.push(
            "whether the journal was cut off together with its checkpoints: `--state FILE` remembers them".to_owned(),
        ),
    }
    Ok(report)
}

fn nats(config: Option<&AuditorConfig>) -> Result<&AuditorNatsConfig> {
    let config = config.context("--config FILE is needed; see config/auditor.example.toml")?;
    config.nats.as_ref().context("the configuration has no [nats]")
}

async fn source(config: Option<&AuditorConfig>, export: Option<&Path>) -> Result<Source> {
    match export {
        Some(path) => Ok(Source::Export(Exported::open(path)?)),
        None => Ok(Source::Nats(connect::nats(nats(config)?).await?)),
    }
}

fn chains(config: Option<&AuditorConfig>, offline: bool) -> Result<Option<Chains>> {
    if offline {
        return Ok(None);
    }
    let config = config.context("--config FILE is needed for the chains, or --offline to ask none")?;
    Ok(Some(Chains { nodes: adapters::nodes(config)?, lag_seconds: config.lag_seconds }))
}

fn as_json(report: &Report) -> Result<String> {
    let mut value = json!({"verdict": report.verdict()});
    if let (Value::Object(members), Value::Object(rest)) = (&mut value, serde_json::to_value(report)?) {
        members.extend(rest);
    }
    Ok(serde_json::to_string_pretty(&value)?)
}

/// What was found, for people.
pub(super) fn describe(report: &Report) -> String {
    let mut lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    let counts = &report.counts;
    let counted = counts.tampered + counts.missing + counts.contradiction + counts.unverifiable + counts.open;
    if counted > report.findings.len() as u64 {
        lines.push(format!("… and {} more", counted - report.findings.len() as u64));
    }
    lines.extend(report.not_checked.iter().map(|what| format!("not checked: {what}")));
    // Only where there are several epochs.
    let marks = if report.marks > 0 { format!(", {} marks", report.marks) } else { String::new() };
    lines.push(format!(
        "{} payments, {} batches{marks}, {} messages, {} of them not covered by one of the {} checkpoints",
        report.payments, report.batches, report.messages, report.unsigned, report.checkpoints
    ));
    lines.push(match report.verdict() {
        Verdict::Proven if counts.open > 0 => format!("PROVEN, {} still under way", counts.open),
        Verdict::Proven => "PROVEN".to_owned(),
        Verdict::Faults => format!(
            "FAULTS: {} tampered, {} missing, {} contradictions",
            counts.tampered, counts.missing, counts.contradiction
        ),
        Verdict::Incomplete => format!("INCOMPLETE: {} could not be checked", counts.unverifiable),
    });
    lines.join("\n")
}
