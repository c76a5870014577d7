//! What a server and its children have used. Linux only, by `/proc`.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};

/// What processes have used so far, and hold now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    /// Processor time, with that of children that have ended.
    pub time: Duration,
    /// Bytes of memory; what processes share is counted once.
    pub memory: u64,
    /// Bytes that they had written to the disk, as `write_bytes` of `/proc/PID/io` counts them; `None` where that may not be read.
    pub written: Option<u64>,
}

/// What the process `root` and its children have used.
///
/// # Errors
/// When it has ended.
pub fn used(root: u32) -> Result<Used> {
    let mut used = of(root, true).with_context(|| format!("process {root} has ended"))?;
    // A child that ends meanwhile counts as one that has ended the next time.
    for child in children(root).into_iter().filter_map(|child| of(child, false)) {
        used.time += child.time;
        used.memory += child.memory;
        used.written = used.written.zip(child.written).map(|(one, other)| one + other);
    }
    Ok(used)
}

fn of(process: u32, with_ended: bool) -> Option<Used> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}"));
    let ticks = ticks(&read("stat").ok()?, with_ended)?;
    let memory = kilobytes(&read("smaps_rollup").ok()?, "Pss:")? * 1024;
    let written = read("io").ok().and_then(|io| number(&io, "write_bytes:"));
    // USER_HZ is 100 on every Linux there is.
    Some(Used { time: Duration::from_millis(ticks * 10), memory, written })
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |id: &u32| fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| of_parent(&stat, parent));
    ids.filter(is_child).collect()
}

/// The fields of `/proc/PID/stat` after the name, which may hold blanks and parentheses.
fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(") ")?.1.split(' ').collect())
}

fn of_parent(stat: &str, parent: u32) -> bool {
    fields(stat).is_some_and(|fields| fields.get(1).is_some_and(|field| field.parse() == Ok(parent)))
}

fn ticks(stat: &str, with_ended: bool) -> Option<u64> {
    let fields = fields(stat)?;
    let own = 11..if with_ended { 15 } else { 13 };
    fields.get(own)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_fields_are_read() {
        let stat = "12 (a b) c) S 77 2 3 4 5 6 7 8 9 10 250 50 3 4 20 0 9 0 1 2 3";
        assert_eq!((ticks(stat, false), ticks(stat, true)), (Some(300), Some(307)));
        assert!(of_parent(stat, 77) && !of_parent(stat, 7));
        assert_eq!(number("wchar: 9\nwrite_bytes: 4096\n", "write_bytes:"), Some(4096));
        assert_eq!(kilobytes("Rss:  9 kB\nPss:        12 kB\n", "Pss:"), Some(12));
    }

    #[test]
    fn a_child_counts() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = children(std::process::id()).contains(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
        assert!(used(std::process::id()).unwrap().memory > 0);
    }
}
