//! anvil, an EVM chain in one process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{Process, Signal, free_port, tools};

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
    mining: Mining,
    directory: PathBuf,
    _temporary: Option<TempDir>,
}

impl Anvil {
    /// Starts a chain with its log in a temporary directory.
    ///
    /// # Errors
    /// When anvil is missing or does not start.
    pub async fn start(chain_id: u64, mining: Mining) -> Result<Self> {
        let temporary = TempDir::new()?;
        let directory = temporary.path().to_owned();
        Self::open(chain_id, mining, directory, free_port()?, Some(temporary)).await
    }

    /// Starts a chain with its log under `directory`, on `port`. A chain that was stopped there goes on.
    ///
    /// # Errors
    /// When anvil is missing or does not start.
    pub async fn in_directory(chain_id: u64, mining: Mining, directory: &Path, port: u16) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        Self::open(chain_id, mining, directory.to_owned(), port, None).await
    }

    async fn open(
        chain_id: u64,
        mining: Mining,
        directory: PathBuf,
        port: u16,
        temporary: Option<TempDir>,
    ) -> Result<Self> {
        let process = spawn(chain_id, mining, &directory, port).await?;
        Ok(Self { process, port, chain_id, mining, directory, _temporary: temporary })
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The EIP-155 chain id.
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Ends the node in order, so that its blocks are there when it is started again. What waited for a block is lost, as
    /// it is in any node's memory.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn stop(&mut self) -> Result<()> {
        self.process.signal(Signal::Terminate).await?;
        self.process.wait().await?;
        Ok(())
    }

    /// Starts a stopped node again, on the same port and with the blocks it had. The state at older blocks is gone, as in
    /// a node that keeps no archive.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.process = spawn(self.chain_id, self.mining, &self.directory, self.port).await?;
        Ok(())
    }

    /// Stops the node where it stands: it makes no blocks, and connections to it are open and silent.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn pause(&self) -> Result<()> {
        self.process.signal(Signal::Stop).await
    }

    /// Lets a paused node go on.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn resume(&self) -> Result<()> {
        self.process.signal(Signal::Continue).await
    }

    /// Ends the chain. Its state is gone with it.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }
}

async fn spawn(chain_id: u64, mining: Mining, directory: &Path, port: u16) -> Result<Process> {
    let mut command = Command::new(tools::program("anvil")?);
    command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--chain-id", &chain_id.to_string()]);
    // Written when the node ends in order, read when it starts.
    command.arg("--state").arg(directory.join(format!("anvil-{chain_id}.json")));
    if let Mining::Every { seconds } = mining {
        // Mixed mining would put a transaction into a block of its own; a steady beat is what networks have.
        command.args(["--block-time", &seconds.to_string()]);
    }
    let log = directory.join(format!("anvil-{chain_id}.log"));
    let mut process = Process::spawn("anvil", &mut command, &log)?;
    process.listening_on(port).await.with_context(|| format!("see {}", log.display()))?;
    Ok(process)
}
