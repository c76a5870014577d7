//! Audit report: findings, counts and the verdict.

use serde::Serialize;

use super::{Finding, Severity};

/// Most findings that are kept; the rest are counted.
const FINDINGS_MAX: usize = 10_000;

/// The outcome of an audit.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Messages read.
    pub messages: u64,
    /// Payments checked.
    pub payments: u64,
    /// Quote-request batches checked.
    pub batches: u64,
    /// Marks of streams that begin in a later epoch, checked.
    pub marks: u64,
    /// Checkpoints compared with the messages.
    pub checkpoints: u64,
    /// Messages that are newer than the last checkpoint of their shard, or not covered by any.
    pub unsigned: u64,
    /// Findings by severity, those that are not listed too.
    pub counts: Counts,
    /// What was found, worst first; at most ten thousand.
    pub findings: Vec<Finding>,
    /// What was not checked, and why.
    pub not_checked: Vec<String>,
}

/// How many findings there are of each severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// [`Severity::Tampered`].
    pub tampered: u64,
    /// [`Severity::Missing`].
    pub missing: u64,
    /// [`Severity::Contradiction`].
    pub contradiction: u64,
    /// [`Severity::Loss`].
    pub loss: u64,
    /// [`Severity::Unverifiable`].
    pub unverifiable: u64,
    /// [`Severity::Open`].
    pub open: u64,
}

/// What an audit comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that was checked holds.
    Proven,
    /// Something is wrong.
    Faults,
    /// Nothing is wrong so far, but not everything could be checked.
    Incomplete,
}

impl Report {
    /// What it comes to. Open payments are not a fault, and a loss is not a fault of the records.
    pub fn verdict(&self) -> Verdict {
        let Counts { tampered, missing, contradiction, loss: _, unverifiable, open: _ } = self.counts;
        if tampered + missing + contradiction > 0 {
            Verdict::Faults
        } else if unverifiable > 0 {
            Verdict::Incomplete
        } else {
            Verdict::Proven
        }
    }

    /// Takes in a finding.
    pub(super) fn add(&mut self, finding: Finding) {
        let counts = &mut self.counts;
        let count = match finding.severity {
            Severity::Tampered => &mut counts.tampered,
            Severity::Missing => &mut counts.missing,
            Severity::Contradiction => &mut counts.contradiction,
            Severity::Loss => &mut counts.loss,
            Severity::Unverifiable => &mut counts.unverifiable,
            Severity::Open => &mut counts.open,
        };
        *count += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Takes in all of another report.
    pub(super) fn absorb(&mut self, other: Self) {
        self.messages += other.messages;
        self.payments += other.payments;
        self.batches += other.batches;
        self.marks += other.marks;
        self.checkpoints += other.checkpoints;
        self.unsigned += other.unsigned;
        let (own, counts) = (&mut self.counts, other.counts);
        own.tampered += counts.tampered;
        own.missing += counts.missing;
        own.contradiction += counts.contradiction;
        own.loss += counts.loss;
        own.unverifiable += counts.unverifiable;
        own.open += counts.open;
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        self.findings.extend(other.findings.into_iter().take(room));
    }

    /// Puts the worst first.
    pub(super) fn close(&mut self) {
        self.findings.sort_by_key(|finding| finding.severity);
    }
}
