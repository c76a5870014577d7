//! The machine and the resources that a process has used. Linux only, by `/proc`.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// Where figures come from.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cores: usize,
    /// Their model.
    pub processor: String,
    /// Operating system.
    pub system: String,
    /// File system under the data, which decides what a sync costs.
    pub file_system: String,
    /// Version of the server.
    pub nats_server: String,
    /// Profile that this program was built in, as its directory is called, and the gateway beside it.
    pub profile: String,
    /// Revision of the sources, with a mark when they were changed since.
    pub revision: String,
    /// How many processes wanted a processor in the minute before; above a few tenths the machine was not idle.
    pub busy: f64,
}

impl Machine {
    /// This machine, with data under `directory`.
    ///
    /// # Errors
    /// When nats-server is missing.
    pub fn look(directory: &Path) -> Result<Self> {
        let nats_server = Command::new(devkit::tools::program("nats-server")?).arg("--version").output()?;
        let unknown = || "unknown".to_owned();
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.map_or_else(unknown, |(_, name)| name.trim().to_owned()),
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned(),
            file_system: file_system(directory).unwrap_or_else(unknown),
            nats_server: String::from_utf8_lossy(&nats_server.stdout).trim().to_owned(),
            profile: profile().unwrap_or_else(unknown),
            revision: revision().unwrap_or_else(unknown),
            busy: load(&fs::read_to_string("/proc/loadavg").unwrap_or_default()).unwrap_or_default(),
        })
    }
}

fn profile() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.file_name()?.to_string_lossy().into_owned())
}

fn revision() -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(devkit::tools::root()).args(["describe", "--always", "--dirty", "--abbrev=12"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The first of the averages in `/proc/loadavg`: over a minute.
fn load(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

/// The type of the file system that holds `path`.
fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    mount_of(&mounts, &path)
}

/// The type of the mount in `mounts` that holds `path`: the longest prefix, and of equals the last.
fn mount_of(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, point, kind) = (words.next()?, words.next()?, words.next()?);
        path.starts_with(point).then(|| (Path::new(point).components().count(), kind.to_owned()))
    });
    mounts.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

/// Bytes of memory that a process holds.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn memory_bytes(process: u32) -> Result<u64> {
    status_bytes(process, "VmRSS:")
}

/// Those of [`memory_bytes`] that no file backs: heap and stacks, without the program and what it maps.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn anonymous_bytes(process: u32) -> Result<u64> {
    status_bytes(process, "RssAnon:")
}

fn status_bytes(process: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    bytes_of(&status, name).with_context(|| format!("{path} does not say {name}"))
}

fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Processor time that a process has used so far.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn processor_time(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let Some(ticks) = processor_ticks(&stat) else { bail!("{path} cannot be read") };
    // USER_HZ is 100 on every Linux there is.
    Ok(Duration::from_millis(ticks * 10))
}

fn processor_ticks(stat: &str) -> Option<u64> {
    // The name, in parentheses, may hold blanks and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ').skip(11);
    let (user, system): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(user + system)
}

/// Bytes that the files under `directory` take on the disk; files that vanish meanwhile count as nothing.
///
/// # Errors
/// When the directory cannot be read.
pub fn disk_bytes(directory: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;

    let mut bytes = 0;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))? {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => open.push(entry.path()),
                Ok(metadata) => bytes += metadata.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_used_is_read_past_its_name() {
        let stat = "12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 1 2 3";
        assert_eq!(processor_ticks(stat), Some(300));
        assert_eq!(bytes_of("Name:\tgw\nVmHWM:\t  9 kB\nVmRSS:\t   1234 kB\n", "VmRSS:"), Some(1234 * 1024));
        let own = std::process::id();
        assert!(memory_bytes(own).unwrap() > 1024 * 1024);
        assert!(anonymous_bytes(own).unwrap() > 0);
        processor_time(own).unwrap();
    }

    #[test]
    fn the_load_of_the_last_minute_is_taken() {
        assert_eq!((load("0.42 0.30 0.20 1/99 1234"), load("")), (Some(0.42), None));
    }

    #[test]
    fn the_nearest_mount_counts() {
        let mounts =
            "/dev/a / ext4 rw 0 0\ntmpfs /data tmpfs rw 0 0\nx /data/disk xfs rw 0 0\ny /database zfs rw 0 0\n";
        let of = |path: &str| mount_of(mounts, Path::new(path)).unwrap();
        assert_eq!((of("/home"), of("/data/x"), of("/data/disk/y")), ("ext4".into(), "tmpfs".into(), "xfs".into()));
    }

    #[test]
    fn files_are_counted_in_all_directories() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("below")).unwrap();
        std::fs::write(directory.path().join("below/file"), vec![1; 100_000]).unwrap();
        assert!(disk_bytes(directory.path()).unwrap() >= 100_000);
    }
}
