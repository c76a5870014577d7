//! The trace of a run: its digest and its last lines.

use std::collections::VecDeque;

use sha2::{Digest, Sha256};

use events::Hash32;

/// Lines of a failed run that are shown.
const LINES_KEPT: usize = 120;

/// Every commit, block and fault of a run, in order.
pub struct Trace {
    hasher: Sha256,
    lines: VecDeque<String>,
    print: bool,
    count: u64,
}

impl Trace {
    /// An empty trace, which prints each line as it comes when `print`.
    pub fn new(print: bool) -> Self {
        Self { hasher: Sha256::new(), lines: VecDeque::new(), print, count: 0 }
    }

    /// Adds a line of the simulated millisecond `at`.
    pub fn note(&mut self, at: u64, line: &str) {
        let line = format!("{:>9.3} {line}", at as f64 / 1000.0);
        self.hasher.update(line.as_bytes());
        self.hasher.update(b"\n");
        self.count += 1;
        if self.print {
            println!("{line}");
        }
        if self.lines.len() == LINES_KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// SHA-256 over all lines.
    pub fn digest(&self) -> Hash32 {
        Hash32(self.hasher.clone().finalize().into())
    }

    /// Lines so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last lines.
    pub fn tail(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}
