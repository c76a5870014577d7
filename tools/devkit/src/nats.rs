//! nats-server as a child process.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{Process, Signal, free_port, tools};

/// Its log, in its directory.
const LOG: &str = "nats-server.log";
/// How long a server may take to read its configuration again.
const RELOAD_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// A nats-server with JetStream in a directory of its own; it can be killed and started again on the same data.
pub struct NatsServer {
    process: Process,
    port: u16,
    config: PathBuf,
    directory: PathBuf,
    _temporary: Option<TempDir>,
}

impl NatsServer {
    /// A server without users, `sync_interval: always`, in a temporary directory.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn open() -> Result<Self> {
        Self::written("jetstream { sync_interval: always }\n").await
    }

    /// A server with this configuration, in a temporary directory.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn written(configuration: &str) -> Result<Self> {
        let temporary = TempDir::new()?;
        let config = temporary.path().join("nats.conf");
        std::fs::write(&config, configuration)?;
        let directory = temporary.path().to_owned();
        Self::start(config, directory, free_port()?, Some(temporary)).await
    }

    /// A server on the repository's nats.conf and the `files` it includes, in a temporary directory; see [`configure`].
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn configured(files: &[(String, String)]) -> Result<Self> {
        let temporary = TempDir::new()?;
        let directory = temporary.path().to_owned();
        let config = configure(&directory, files)?;
        Self::start(config, directory, free_port()?, Some(temporary)).await
    }

    /// A server with the configuration file `config`, with data and log under `directory`, which is kept, on `port`.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn in_directory(config: &Path, directory: &Path, port: u16) -> Result<Self> {
        Self::start(config.to_owned(), directory.to_owned(), port, None).await
    }

    async fn start(config: PathBuf, directory: PathBuf, port: u16, temporary: Option<TempDir>) -> Result<Self> {
        std::fs::create_dir_all(&directory)?;
        let process = spawn(&config, &directory, port).await?;
        Ok(Self { process, port, config, directory, _temporary: temporary })
    }

    /// `nats://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Where its configuration, data and log are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What it has logged.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.directory.join(LOG))?)
    }

    /// Has the server read its configuration again, as `nats-server --signal reload` does, and waits until it has. It is
    /// told twice, as operators tell it: at the first time it admits a new account, and at the second it ties what that
    /// account imports to the accounts that are there.
    ///
    /// # Errors
    /// When the server does not run, or refuses the configuration.
    pub async fn reload(&self) -> Result<()> {
        for _ in 0..2 {
            let before = self.log()?.len();
            self.process.signal(Signal::Hangup).await?;
            let reloaded = async {
                loop {
                    let log = self.log()?;
                    let said = log.get(before..).unwrap_or_default();
                    ensure!(!said.contains("Failed to reload"), "the configuration is refused: {said}");
                    if said.contains("Reloaded server configuration") {
                        return Ok(());
                    }
                    tokio::time::sleep(POLL).await;
                }
            };
            tokio::time::timeout(RELOAD_WITHIN, reloaded).await.context("the server does not reload")??;
        }
        Ok(())
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

    /// Ends the server in order, as its service manager does: it writes the state of its streams beside them.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn stop(&mut self) -> Result<()> {
        self.process.signal(Signal::Terminate).await?;
        self.process.wait().await.map(drop)
    }

    /// Starts a killed server again on the same port and data.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.process = spawn(&self.config, &self.directory, self.port).await?;
        Ok(())
    }
}

/// Lays the repository's nats.conf and config/nats.cluster.conf into `directory`, and beside them the `files` that they
/// include, each by its path from there. Returns where nats.conf is then.
///
/// # Errors
/// When a file cannot be written.
pub fn configure(directory: &Path, files: &[(String, String)]) -> Result<PathBuf> {
    let root = tools::root();
    let own = ["nats.conf", "config/nats.cluster.conf"].map(|name| {
        let text = std::fs::read_to_string(root.join(name)).with_context(|| format!("{name} is missing"));
        text.map(|text| (name.to_owned(), text))
    });
    let own = own.into_iter().collect::<Result<Vec<_>>>()?;
    for (name, text) in own.iter().chain(files) {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
        std::fs::write(path, text)?;
    }
    Ok(directory.join("nats.conf"))
}

async fn spawn(config: &Path, directory: &Path, port: u16) -> Result<Process> {
    let mut command = Command::new(tools::program("nats-server")?);
    command.arg("--config").arg(config).args(["--addr", "127.0.0.1", "--port", &port.to_string()]);
    command.arg("--store_dir").arg(directory.join("jetstream"));
    let log = directory.join(LOG);
    let mut process = Process::spawn("nats-server", &mut command, &log)?;
    process.listening_on(port).await.with_context(|| format!("see {}", log.display()))?;
    Ok(process)
}
