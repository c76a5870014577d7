//! PostgreSQL as a child process, with a data directory of its own that goes with it.

use std::{
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use devkit::{Process, Signal};
use tempfile::TempDir;
use tokio::{process::Command, time::timeout};
use tokio_postgres::{Config, NoTls};

/// Where Debian puts the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
const LOG: &str = "postgres.log";
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// How long a server may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// Segments of the log that are there before anything is measured, as in a server that has run for a while: making one writes it
/// twice.
const SEGMENTS: usize = 64;
/// What differs from PostgreSQL's own settings. Nothing here makes a commit less durable. Memory and log are what a server of its
/// own gets that has this to do, and one without replicas needs no more in its log than recovery does.
const SETTINGS: [&str; 14] = [
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "listen_addresses=",
    "max_connections=50",
    "shared_buffers=1GB",
    "wal_buffers=64MB",
    "wal_level=minimal",
    "max_wal_senders=0",
    "wal_compression=lz4",
    "min_wal_size=1GB",
    "max_wal_size=8GB",
    "checkpoint_timeout=15min",
    "jit=off",
];

/// A running server with an empty database.
pub struct PostgresServer {
    process: Process,
    config: Config,
    log: PathBuf,
    _socket: TempDir,
    _data: TempDir,
}

/// An account that the server runs as, since it refuses to run as root.
#[derive(Debug, Clone, Copy)]
struct Account {
    user: u32,
    group: u32,
}

/// Where the programs are: on the `PATH`, or the newest that Debian has. `None` where PostgreSQL is not installed.
pub fn programs() -> Option<PathBuf> {
    let both = |directory: &PathBuf| ["initdb", "postgres"].iter().all(|name| directory.join(name).is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).find(both);
    let debian = || {
        let versions = std::fs::read_dir(DEBIAN).ok()?.flatten();
        let newest = versions.filter_map(|version| {
            let number: u32 = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        });
        newest.filter(|(_, directory)| both(directory)).max().map(|(_, directory)| directory)
    };
    installed.or_else(debian)
}

/// The version that the programs say of themselves.
///
/// # Errors
/// When PostgreSQL is not installed.
pub fn version() -> Result<String> {
    let program = programs().context(MISSING)?.join("postgres");
    let output = std::process::Command::new(program).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What is said where it is not.
pub const MISSING: &str = "PostgreSQL is not installed: `make bench PEERS=1` needs Debian's package `postgresql`, or initdb and \
                           postgres on the PATH";

impl PostgresServer {
    /// Starts a server with its data under `directory`, and waits until it answers.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, or does not start.
    pub async fn start(directory: &Path) -> Result<Self> {
        let programs = programs().context(MISSING)?;
        std::fs::create_dir_all(directory)?;
        // A socket's path must be short.
        let (data, socket) = (TempDir::with_prefix_in("postgres-", directory)?, TempDir::with_prefix("postgres-")?);
        let account = account()?;
        if let Some(Account { user, group }) = account {
            for owned in [&data, &socket] {
                chown(owned.path(), Some(user), Some(group))?;
            }
        }
        let (cluster, log) = (data.path().join("cluster"), data.path().join(LOG));
        let command = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.arg("-D").arg(&cluster).current_dir(data.path()).env("LC_ALL", "C");
            if let Some(Account { user, group }) = account {
                // With no other group: the standard library gives up root's with root.
                command.uid(user).gid(group);
            }
            command
        };
        let mut initdb = command("initdb");
        initdb.args(["--no-locale", "--encoding=UTF8", "--auth=trust", "--username=postgres", "--no-sync"]);
        let made = initdb.output().await.context("start initdb")?;
        ensure!(
            made.status.success(),
            "initdb ends with {}; may its user enter {}? {}",
            made.status,
            directory.display(),
            String::from_utf8_lossy(&made.stderr).trim()
        );
        let mut postgres = command("postgres");
        postgres.arg("-k").arg(socket.path());
        for setting in SETTINGS {
            postgres.arg("-c").arg(setting);
        }
        let process = Process::spawn("postgres", &mut postgres, &log)?;
        let mut config = Config::new();
        config.host_path(socket.path()).user("postgres").dbname("postgres").application_name("peers");
        let mut server = Self { process, config, log, _socket: socket, _data: data };
        server.ready().await?;
        Ok(server)
    }

    /// How it is connected to.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The process id of the server, whose children serve.
    ///
    /// # Errors
    /// When it has ended.
    pub fn id(&self) -> Result<u32> {
        self.process.id().context("PostgreSQL has ended")
    }

    /// Makes segments of the log, which the server then uses again and again.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn prepare_log(&self) -> Result<()> {
        let switch = "SELECT pg_current_xact_id(); SELECT pg_switch_wal()";
        self.run(&vec![switch; SEGMENTS].join(";\n")).await?;
        self.checkpoint().await
    }

    /// Has everything written that the log holds.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn checkpoint(&self) -> Result<()> {
        self.run("CHECKPOINT").await
    }

    /// Ends it, at once and in order.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::Quit).await?;
        timeout(STOP_WITHIN, self.process.wait()).await.context("PostgreSQL does not stop")??;
        Ok(())
    }

    async fn run(&self, statements: &str) -> Result<()> {
        let (client, connection) = self.config.connect(NoTls).await?;
        let connection = tokio::spawn(connection);
        // Each by itself: a switch of the log ends no transaction.
        for statement in statements.split(";\n") {
            client.batch_execute(statement).await?;
        }
        drop(client);
        connection.await??;
        Ok(())
    }

    async fn ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while self.run("SELECT").await.is_err() {
            let ended = self.process.try_wait()?;
            if ended.is_some() || started.elapsed() > READY_WITHIN {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                bail!("PostgreSQL is not ready ({ended:?}); its log: {log}");
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

/// The account for the server's process: Debian's for it, or else one that may do nothing. `None` for one's own.
fn account() -> Result<Option<Account>> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let accounts = std::fs::read_to_string("/etc/passwd")?;
    let found = ["postgres", "nobody"].iter().find_map(|name| account_of(&accounts, name));
    Ok(Some(found.context("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")?))
}

fn account_of(accounts: &str, name: &str) -> Option<Account> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (found, _, user, group) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (found == name).then_some(Account { user: user.parse().ok()?, group: group.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let accounts = "root:x:0:0::/root:/bin/sh\npostgresql:x:7:7::/:/bin/sh\npostgres:x:105:112::/:/bin/bash\n";
        let found = account_of(accounts, "postgres").unwrap();
        assert_eq!((found.user, found.group), (105, 112));
        assert!(account_of(accounts, "nobody").is_none());
    }
}
