//! anvil, an EVM chain in one process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{Process, free_port, tools};

/// How a development chain makes blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mining {
    /// One block for each transaction, at once.
    Instant,
    /// A block every so many seconds.
    Every {
        /// Seconds between blocks.
        seconds: u64,
    },
}

/// A running anvil.
pub struct Anvil {
    process: Process,
    port: u16,
    chain_id: u64,
    _temporary: Option<TempDir>,
}

impl Anvil {
    /// Starts a chain with its log in a temporary directory.
    ///
    /// # Errors
    /// When anvil is missing or does not start.
    pub async fn start(chain_id: u64, mining: Mining) -> Result<Self> {
        let temporary = TempDir::new()?;
        let log = temporary.path().join("anvil.log");
        Self::spawn(chain_id, mining, log, free_port()?, Some(temporary)).await
    }

    /// Starts a chain with its log under `directory`, on `port`.
    ///
    /// # Errors
    /// When anvil is missing or does not start.
    pub async fn in_directory(chain_id: u64, mining: Mining, directory: &Path, port: u16) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        Self::spawn(chain_id, mining, directory.join(format!("anvil-{chain_id}.log")), port, None).await
    }

    async fn spawn(chain_id: u64, mining: Mining, log: PathBuf, port: u16, temporary: Option<TempDir>) -> Result<Self> {
        let mut command = Command::new(tools::program("anvil")?);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--chain-id", &chain_id.to_string()]);
        if let Mining::Every { seconds } = mining {
            // Mixed mining would put a transaction into a block of its own; a steady beat is what networks have.
            command.args(["--block-time", &seconds.to_string()]);
        }
        let mut process = Process::spawn("anvil", &mut command, &log)?;
        process.listening_on(port).await.with_context(|| format!("see {}", log.display()))?;
        Ok(Self { process, port, chain_id, _temporary: temporary })
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The EIP-155 chain id.
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Ends the chain. Its state is gone with it.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }
}
