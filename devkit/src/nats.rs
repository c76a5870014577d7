//! nats-server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{Process, free_port, tools};

/// A nats-server with JetStream in a directory of its own; it can be killed and started again on the same data.
pub struct NatsServer {
    process: Process,
    port: u16,
    config: PathBuf,
    env: Vec<(String, String)>,
    directory: PathBuf,
    _temporary: Option<TempDir>,
}

impl NatsServer {
    /// A server without users, `sync_interval: always`, in a temporary directory.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn open() -> Result<Self> {
        let temporary = TempDir::new()?;
        let config = temporary.path().join("nats.conf");
        std::fs::write(&config, "jetstream { sync_interval: always }\n")?;
        let directory = temporary.path().to_owned();
        Self::start(config, directory, free_port()?, Vec::new(), Some(temporary)).await
    }

    /// A server with the configuration file `config`, whose variables are taken from `env`, in a temporary directory.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn with_config(config: &Path, env: Vec<(String, String)>) -> Result<Self> {
        let temporary = TempDir::new()?;
        let directory = temporary.path().to_owned();
        Self::start(config.to_owned(), directory, free_port()?, env, Some(temporary)).await
    }

    /// As [`NatsServer::with_config`], with data and log under `directory`, which is kept, on `port`.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn in_directory(config: &Path, env: Vec<(String, String)>, directory: &Path, port: u16) -> Result<Self> {
        Self::start(config.to_owned(), directory.to_owned(), port, env, None).await
    }

    async fn start(
        config: PathBuf,
        directory: PathBuf,
        port: u16,
        env: Vec<(String, String)>,
        temporary: Option<TempDir>,
    ) -> Result<Self> {
        std::fs::create_dir_all(&directory)?;
        let process = spawn(&config, &env, &directory, port).await?;
        Ok(Self { process, port, config, env, directory, _temporary: temporary })
    }

    /// `nats://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The server's process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Ends the server as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }

    /// Starts a killed server again on the same port and data.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.process = spawn(&self.config, &self.env, &self.directory, self.port).await?;
        Ok(())
    }
}

async fn spawn(config: &Path, env: &[(String, String)], directory: &Path, port: u16) -> Result<Process> {
    let mut command = Command::new(tools::program("nats-server")?);
    command.arg("--config").arg(config).args(["--addr", "127.0.0.1", "--port", &port.to_string()]);
    command.arg("--store_dir").arg(directory.join("jetstream"));
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let log = directory.join("nats-server.log");
    let mut process = Process::spawn("nats-server", &mut command, &log)?;
    process.listening_on(port).await.with_context(|| format!("see {}", log.display()))?;
    Ok(process)
}
