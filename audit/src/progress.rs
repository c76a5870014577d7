//! Progress of a long run, shown on standard error.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

/// How often the line on a terminal is written anew.
const TERMINAL_EVERY: Duration = Duration::from_millis(250);
/// How often a line is written elsewhere, and after how long the first.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// How far a run is, in messages.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    done: AtomicU64,
    total: AtomicU64,
    started: Instant,
}

/// Shows a [`Progress`] until it is dropped.
pub struct Shown(JoinHandle<()>);

impl Progress {
    /// A run that does `what`.
    pub fn new(what: &'static str) -> Arc<Self> {
        Arc::new(Self { what, done: AtomicU64::new(0), total: AtomicU64::new(0), started: Instant::now() })
    }

    /// So many messages more are to come.
    pub fn expect(&self, messages: u64) {
        self.total.fetch_add(messages, Ordering::Relaxed);
    }

    /// So many messages were done.
    pub fn add(&self, messages: u64) {
        self.done.fetch_add(messages, Ordering::Relaxed);
    }

    /// Shows it until the handle is dropped.
    pub fn show(self: &Arc<Self>) -> Shown {
        let progress = self.clone();
        Shown(tokio::spawn(async move {
            let terminal = stderr().is_terminal();
            loop {
                tokio::time::sleep(if terminal { TERMINAL_EVERY } else { LOG_EVERY }).await;
                let line = progress.line();
                // What cannot be shown is not a reason to stop.
                let _ = if terminal { write!(stderr(), "\r\x1b[K{line}") } else { writeln!(stderr(), "{line}") };
            }
        }))
    }

    fn line(&self) -> String {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        line(self.what, done, total, self.started.elapsed())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.abort();
        if stderr().is_terminal() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    let left = match total.checked_sub(done) {
        Some(left) if rate > 0.0 => format!(", {:.0} s left", left as f64 / rate),
        _ => String::new(),
    };
    format!("{what}: {done} of {total} messages, {rate:.0}/s{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left_follow_from_what_is_done() {
        let line = |done, total| line("verify", done, total, Duration::from_secs(2));
        assert_eq!(line(100, 300), "verify: 100 of 300 messages, 50/s, 4 s left");
        assert_eq!(line(0, 300), "verify: 0 of 300 messages, 0/s");
    }
}
