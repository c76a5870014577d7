//! The table of figures, for people and as JSON.

use std::{fmt::Write as _, path::Path};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::machine::Machine;

/// The target of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The figure, in its unit.
    AtLeast(f64),
    /// The figure, in its unit.
    AtMost(f64),
    /// Its ratio to the baseline.
    RatioAtLeast(f64),
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The bench it comes from, as `ONLY=` names it.
    pub bench: &'static str,
    /// The measured quantity.
    pub name: String,
    /// The figure.
    pub figure: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The figure as a share of what raw JetStream does under the same load in the same run.
    #[serde(rename = "floor_ratio")]
    pub baseline_ratio: Option<f64>,
    /// The target of design §11.
    pub target: Option<Target>,
    /// Whether it is reached; nothing is said of a brief run.
    pub reached: Option<bool>,
}

/// Figures of one bench, as they come in.
pub struct Rows {
    bench: &'static str,
    judged: bool,
    rows: Vec<Row>,
}

impl Rows {
    /// None yet. Only when `judged` are they compared with the design.
    pub fn new(bench: &'static str, judged: bool) -> Self {
        Self { bench, judged, rows: Vec::new() }
    }

    /// Adds a figure.
    pub fn add(&mut self, name: impl Into<String>, figure: f64, unit: &'static str) -> &mut Self {
        let row = Row {
            bench: self.bench,
            name: name.into(),
            figure,
            unit,
            baseline_ratio: None,
            target: None,
            reached: None,
        };
        println!("  {:<58} {:>12} {unit}", row.name, number(figure));
        self.rows.push(row);
        self
    }

    /// Sets the ratio of the last figure to the baseline.
    pub fn of_baseline(&mut self, baseline: f64) -> &mut Self {
        let judged = self.judged;
        if let Some(row) = self.rows.last_mut().filter(|_| baseline > 0.0) {
            row.baseline_ratio = Some(row.figure / baseline);
            row.judge(judged);
        }
        self
    }

    /// Sets the target of the design for the last figure.
    pub fn target(&mut self, target: Target) -> &mut Self {
        let judged = self.judged;
        if let Some(row) = self.rows.last_mut() {
            row.target = Some(target);
            row.judge(judged);
        }
        self
    }

    /// All of them.
    pub fn finish(self) -> Vec<Row> {
        self.rows
    }
}

impl Row {
    fn judge(&mut self, judged: bool) {
        self.reached = match self.target {
            _ if !judged => None,
            None => None,
            Some(Target::AtLeast(least)) => Some(self.figure >= least),
            Some(Target::AtMost(most)) => Some(self.figure <= most),
            Some(Target::RatioAtLeast(least)) => self.baseline_ratio.map(|ratio| ratio >= least),
        };
    }
}

/// More processes than this wanting a processor before a run are others' work.
const BUSY: f64 = 0.5;

/// Everything a run found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// When it began, UTC.
    pub at: String,
    /// Where it ran.
    pub machine: Machine,
    /// Whether everything was measured with tiny sizes: the figures mean nothing then.
    pub brief: bool,
    /// Seconds it took.
    pub seconds: f64,
    /// The figures.
    pub rows: Vec<Row>,
    /// Benches without figures.
    pub failed: Vec<Failed>,
}

/// A bench that could not be measured, or found something wrong.
#[derive(Debug, Serialize)]
pub struct Failed {
    /// The bench.
    pub bench: &'static str,
    /// The error.
    pub error: String,
}

impl Report {
    /// The table for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let machine = &self.machine;
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "{}, {} cores, {}, {}; {}; data on {}; profile {}, revision {}{}{}",
            self.at,
            machine.cores,
            machine.processor,
            machine.system,
            machine.nats_server,
            machine.file_system,
            machine.profile,
            machine.revision,
            if machine.busy > BUSY { "; OTHERS WERE AT WORK: the machine was not idle before" } else { "" },
            if self.brief { "; BRIEF: sizes are tiny, figures mean nothing" } else { "" },
        );
        let heads = ["bench", "what", "figure", "unit", "of baseline", "to reach", ""].map(str::to_owned);
        let mut cells = vec![heads];
        cells.extend(self.rows.iter().map(|row| {
            [
                row.bench.to_owned(),
                row.name.clone(),
                number(row.figure),
                row.unit.to_owned(),
                row.baseline_ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0)),
                row.target.map_or_else(String::new, target),
                match row.reached {
                    Some(true) => "reached".to_owned(),
                    Some(false) => "NOT REACHED".to_owned(),
                    None => String::new(),
                },
            ]
        }));
        let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..7).map(width).collect();
        for row in &cells {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths[column] - cell.chars().count());
                // Figures and ratios stand on the right.
                let _ =
                    if matches!(column, 2 | 4) { write!(line, "{gap}{cell}  ") } else { write!(line, "{cell}{gap}  ") };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    /// Writes the JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }
}

fn target(target: Target) -> String {
    match target {
        Target::AtLeast(least) => format!(">= {}", number(least)),
        Target::AtMost(most) => format!("<= {}", number(most)),
        Target::RatioAtLeast(least) => format!(">= {:.0} %", least * 100.0),
    }
}

/// Three digits for what is small, whole numbers in groups for what is large.
pub fn number(figure: f64) -> String {
    if !figure.is_finite() {
        return "-".to_owned();
    }
    if figure.abs() < 100.0 && figure.fract() != 0.0 {
        return format!("{figure:.2}");
    }
    let digits = format!("{:.0}", figure.abs());
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if figure < 0.0 { format!("-{grouped}") } else { grouped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let cases = [(0.0, "0"), (12.345, "12.35"), (99.5, "99.50"), (123.4, "123"), (1234567.0, "1,234,567")];
        for (figure, text) in cases {
            assert_eq!(number(figure), text);
        }
        assert_eq!((number(-1500.0).as_str(), number(f64::NAN).as_str()), ("-1,500", "-"));
    }

    #[test]
    fn figures_are_judged_by_what_they_are_to_reach() {
        let mut rows = Rows::new("x", true);
        rows.add("enough", 10.0, "a second").target(Target::AtLeast(10.0));
        rows.add("too slow", 10.1, "ms").target(Target::AtMost(10.0));
        rows.add("half", 50.0, "a second").target(Target::RatioAtLeast(0.5)).of_baseline(100.0);
        rows.add("less", 49.0, "a second").of_baseline(100.0).target(Target::RatioAtLeast(0.5));
        rows.add("no baseline", 49.0, "a second").of_baseline(0.0).target(Target::RatioAtLeast(0.5));
        rows.add("free", 1.0, "ms");
        let reached: Vec<_> = rows.finish().into_iter().map(|row| row.reached).collect();
        assert_eq!(reached, [Some(true), Some(false), Some(true), Some(false), None, None]);
        let mut brief = Rows::new("x", false);
        brief.add("too slow", 10.1, "ms").target(Target::AtMost(10.0));
        assert_eq!(brief.finish()[0].reached, None);
    }
}
