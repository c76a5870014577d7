//! A child process that ends with its handle.

use std::{
    net::Ipv4Addr,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    net::TcpStream,
    process::{Child, Command},
};

const READY_WITHIN: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(20);

/// Signals to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGSTOP: stand still where you are.
    Stop,
    /// SIGCONT: go on.
    Continue,
    /// SIGTERM: end in order.
    Terminate,
    /// SIGHUP: read your configuration again.
    Hangup,
    /// SIGQUIT: end at once.
    Quit,
}

/// A running child process with its output in a log file.
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts `command`, with standard output and error appended to `log`.
    ///
    /// # Errors
    /// When the log cannot be opened or the program cannot be started.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("open {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self { name: name.to_owned(), child })
    }

    /// The process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The exit status if the process has ended.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn try_wait(&mut self) -> Result<Option<std::process::ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub async fn wait(&mut self) -> Result<std::process::ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Waits until something accepts connections on `port`.
    ///
    /// # Errors
    /// When the process ends first, or does not get there in half a minute.
    pub async fn listening_on(&mut self, port: u16) -> Result<()> {
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status} before it was ready", self.name);
            }
            if started.elapsed() > READY_WITHIN {
                bail!("{} was not ready within {READY_WITHIN:?}", self.name);
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Ok(())
    }

    /// Sends the process a signal.
    ///
    /// # Errors
    /// When it has ended, or the system refuses.
    pub async fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.id().with_context(|| format!("{} has ended", self.name))?;
        let name = match signal {
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
            Signal::Terminate => "TERM",
            Signal::Hangup => "HUP",
            Signal::Quit => "QUIT",
        };
        // The shell's own `kill` is wherever a shell is.
        let status = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status().await?;
        ensure!(status.success(), "{} cannot be sent {name}: {status}", self.name);
        Ok(())
    }

    /// Ends the process at once, as `kill -9` does, and waits until it is gone.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.with_context(|| format!("kill {}", self.name))
    }
}
