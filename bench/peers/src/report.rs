//! The table for people, and everything as JSON.

use std::{fmt::Write as _, path::Path};

use anyhow::{Context as _, Result};
use serde::Serialize;

use bench::{machine::Machine, report::number};

use crate::figures::{Figures, Round};

/// Everything a run found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// When it began, UTC.
    pub at: String,
    /// Where it ran.
    pub machine: Machine,
    /// The version of PostgreSQL.
    pub postgres: Option<String>,
    /// Whether sizes were tiny: the figures mean nothing then.
    pub brief: bool,
    /// Rounds of which the figures are medians.
    pub rounds: usize,
    /// Processor time a payment of simulated world and load, measured by themselves.
    pub world_us: f64,
    /// The medians.
    pub figures: Vec<Figures>,
    /// Every round of every store.
    pub all: Vec<StoreRounds>,
}

/// The rounds of a store.
#[derive(Debug, Serialize)]
pub struct StoreRounds {
    /// The store.
    pub store: &'static str,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

const HEADS: [&str; 10] = [
    "store",
    "in flight",
    "payments/s",
    "least-most",
    "engine us",
    "store us",
    "world us",
    "store MiB",
    "written kB",
    "p50 / p99 ms",
];

impl Report {
    /// The table.
    pub fn table(&self) -> String {
        let maybe = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), number);
        let rows = self.figures.iter().map(|figures| {
            let [least, most] = figures.payments_per_second_range;
            [
                figures.store.to_owned(),
                number(figures.in_flight as f64),
                number(figures.payments_per_second.round()),
                format!("{}-{}", number(least.round()), number(most.round())),
                number(figures.engine_us.round()),
                maybe(figures.store_us.map(f64::round)),
                number(figures.world_us.round()),
                maybe(figures.store_mib.map(f64::round)),
                maybe(figures.written_kb),
                format!("{} / {}", number(figures.p50_ms), number(figures.p99_ms)),
            ]
        });
        let mut cells = vec![HEADS.map(str::to_owned)];
        cells.extend(rows);
        let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
        let mut text = format!(
            "{}, {} cores, {}, {}; {}; {}; data on {}; profile {}, revision {}; load average before {:.2}\n\
             medians of {} rounds{}\n",
            self.at,
            self.machine.cores,
            self.machine.processor,
            self.machine.system,
            self.machine.nats_server,
            self.postgres.as_deref().unwrap_or("without PostgreSQL"),
            self.machine.file_system,
            self.machine.profile,
            self.machine.revision,
            self.machine.busy,
            self.rounds,
            if self.brief { "; BRIEF: sizes are tiny, figures mean nothing" } else { "" },
        );
        for row in &cells {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths[column] - cell.chars().count());
                // Writing into a string cannot fail.
                let _ = if column == 0 { write!(line, "{cell}{gap}") } else { write!(line, "  {gap}{cell}") };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Writes the JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        write(path, &(serde_json::to_string_pretty(self)? + "\n"))
    }
}

/// Writes a file, and the folder above it.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
