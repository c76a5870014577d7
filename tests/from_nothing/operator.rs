//! A stranger who operates: a directory, and the commands of `gw`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use devkit::Process;

use super::PATIENCE;

/// An operator at a terminal: a directory, and `gw`.
pub struct Operator {
    directory: TempDir,
}

impl Operator {
    /// In an empty directory.
    pub fn new() -> Result<Self> {
        Ok(Self { directory: tempfile::tempdir()? })
    }

    /// What is in the directory under this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Puts a text in the place of another in a file, where it stands once.
    pub fn edit(&self, name: &str, from: &str, to: &str) -> Result<()> {
        let text = fs::read_to_string(self.path(name))?;
        ensure!(text.matches(from).count() == 1, "{name} has `{from}` other than once: {text}");
        Ok(fs::write(self.path(name), text.replacen(from, to, 1))?)
    }

    /// The same in the section of a chain.
    pub fn edit_chain(&self, name: &str, chain_id: &str, from: &str, to: &str) -> Result<()> {
        let text = fs::read_to_string(self.path(name))?;
        let at = text.find(chain_id).with_context(|| format!("{name} has no {chain_id}"))?;
        let (before, section) = text.split_at(at);
        ensure!(section.contains(from), "{name} has no `{from}` of {chain_id}");
        Ok(fs::write(self.path(name), format!("{before}{}", section.replacen(from, to, 1)))?)
    }

    /// Adds to a file.
    pub fn append(&self, name: &str, text: &str) -> Result<()> {
        let before = fs::read_to_string(self.path(name))?;
        Ok(fs::write(self.path(name), before + text)?)
    }

    fn gw(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
        command.current_dir(self.directory.path()).env("GW_PASSPHRASE_FILE", "passphrase").kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &str) -> Result<Output> {
        let command = &mut self.gw();
        Ok(command.args(arguments.split_whitespace()).output().await?)
    }

    /// What a command says that succeeds.
    pub async fn does(&self, arguments: &str) -> Result<String> {
        let output = self.run(arguments).await?;
        let (said, error) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "gw {arguments}: {said}{error}");
        Ok(said)
    }

    /// What a command says that fails.
    pub async fn fails(&self, arguments: &str) -> Result<String> {
        let output = self.run(arguments).await?;
        ensure!(!output.status.success(), "gw {arguments}: {}", String::from_utf8_lossy(&output.stdout));
        Ok(String::from_utf8(output.stderr)?)
    }

    /// An account of a key, as `gw keys show` says it.
    pub async fn account(&self, key: &str, family: &str) -> Result<String> {
        let said = self.does(&format!("keys show keys/{key}.json")).await?;
        let line = said.lines().find_map(|line| line.trim().strip_prefix(family));
        Ok(line.with_context(|| format!("no {family} account in {said}"))?.trim().to_owned())
    }

    /// The accounts of keys on chains of these families.
    pub async fn accounts(&self, keys: [(&str, &str); 3]) -> Result<[String; 3]> {
        let [evm, solana, tron] = keys;
        Ok([
            self.account(evm.0, evm.1).await?,
            self.account(solana.0, solana.1).await?,
            self.account(tron.0, tron.1).await?,
        ])
    }

    /// Starts a role, and waits until it listens.
    pub async fn start(&self, role: &str, variables: &[(&str, String)], port: Option<u16>) -> Result<Process> {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gw"));
        command.current_dir(self.directory.path()).env("RUST_LOG", "info").envs(variables.iter().cloned());
        let name = if role == "gateway" { "serve" } else { role };
        command.arg(name).arg("--config").arg(format!("{role}.toml"));
        let mut process = Process::spawn(role, &mut command.into(), &self.path(&format!("{role}.log")))?;
        if let Some(port) = port {
            process.listening_on(port).await.with_context(|| self.log(role))?;
        }
        Ok(process)
    }

    /// Waits until a role's log has these words.
    pub async fn logs(&self, role: &str, words: &str) -> Result<()> {
        let said = async {
            while !self.log(role).contains(words) {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, said).await.with_context(|| format!("{words}: {}", self.log(role)))
    }

    /// What a role has logged.
    pub fn log(&self, role: &str) -> String {
        fs::read_to_string(self.path(&format!("{role}.log"))).unwrap_or_default()
    }
}

/// What is in a file of chains under a key of a chain.
pub fn of_chain(chains: &Path, id: &str, key: &str) -> Result<String> {
    let table: toml::Table = toml::from_str(&fs::read_to_string(chains)?)?;
    let sections = table["chains"].as_array().context("no chains")?;
    let section = sections.iter().find(|section| section["chain_id"].as_str() == Some(id)).context("no such chain")?;
    let text = section.get(key).and_then(toml::Value::as_str);
    Ok(text.with_context(|| format!("no {key}"))?.to_owned())
}
