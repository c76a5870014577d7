//! `gw config check`: whether a role's file can be used, before anything is started.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};

use chains::config::ChainConfig;
use config::{AuditorConfig, ConsoleConfig, GatewayConfig, KeyForm, SelectorConfig, VerifierConfig, key_places};

use super::role::Role;

/// Arguments of `gw config`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read a role's file as the role does, with the environment laid over it, and check every value. Asks nobody.
    Check {
        /// What is to be run.
        #[arg(long, value_enum)]
        role: Role,
        /// Its file.
        #[arg(long)]
        config: PathBuf,
    },
}

/// Checks a role's file.
///
/// # Errors
/// When it cannot be used; the text names the key and the rule.
pub fn run(args: &Args) -> Result<()> {
    let Command::Check { role, config } = &args.command;
    let mut notes = Vec::new();
    let chains: Vec<ChainConfig> = match role {
        Role::Gateway => {
            let gateway = GatewayConfig::load(config)?;
            notes.extend(console_note(&gateway.console));
            gateway.chains.into_iter().map(|served| served.chain).collect()
        }
        Role::Verifier => VerifierConfig::load(config)?.chains,
        Role::Settler => {
            let settler: settler::Config = config::settler(config)?;
            let chains = settler.chains.clone();
            settler.options()?;
            chains
        }
        Role::Auditor => AuditorConfig::load(config)?.chains,
        Role::Selector => {
            SelectorConfig::load(config)?;
            Vec::new()
        }
    };
    let mut lines = vec![format!("{} can be used by `{}`.", config.display(), role.command())];
    for chain in &chains {
        let common = chain.common();
        lines.push(format!(
            "  {:<44} {} assets, escrow {}",
            common.chain_id.as_str(),
            common.assets.len(),
            common.escrow_contract
        ));
    }
    for place in key_places(config)? {
        match place.form {
            KeyForm::Web3Signer(origin) => {
                lines.push(format!("  {:<44} is kept by the Web3Signer {origin}", place.path));
            }
            KeyForm::Kms(key_id) => lines.push(format!("  {:<44} is kept by AWS KMS: {key_id}", place.path)),
            KeyForm::Keystore(_) | KeyForm::SecretFile(_) | KeyForm::InTheClear => {}
        }
    }
    lines.extend(notes);
    super::answer(&lines.join("\n"))
}

/// What is said of the console, where anything is configured of one.
fn console_note(console: &ConsoleConfig) -> Option<String> {
    let (all, acting) = (console.operators.len(), console.operators.iter().filter(|operator| operator.acts).count());
    match console.listen {
        Some(_) if console.beyond_loopback().is_some() => {
            Some(format!("  {:<44} {all} operators, {acting} may act; BEYOND LOOPBACK OVER PLAIN HTTP", "console"))
        }
        Some(listen) => Some(format!("  {:<44} {all} operators, {acting} may act, at {listen}", "console")),
        None if all > 0 => {
            Some(format!("  {:<44} none, although operators are named: console.listen is missing", "console"))
        }
        None => None,
    }
}
