//! Finding: its severity, its check, and its location in the journal.

use std::fmt;

use serde::{Deserialize, Serialize};

use journal_jetstream::raw::RawMessage;

/// What a finding means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// What is stored was changed after it was written, or was never written by a gateway.
    Tampered,
    /// What must be there is not: a message, a transaction, a checkpoint.
    Missing,
    /// The stream contradicts itself, the rules or a chain.
    Contradiction,
    /// Everything is recorded as it was, and somebody lost money by it.
    Loss,
    /// Could not be checked. It proves nothing either way.
    Unverifiable,
    /// Not over yet, and nothing is wrong with that.
    Open,
}

impl Severity {
    /// Whether it says that something is wrong with the records.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Tampered | Self::Missing | Self::Contradiction)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tampered => "TAMPERED",
            Self::Missing => "MISSING",
            Self::Contradiction => "CONTRADICTION",
            Self::Loss => "LOSS",
            Self::Unverifiable => "UNVERIFIABLE",
            Self::Open => "OPEN",
        })
    }
}

/// Where in the journal something was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalLocation {
    /// The JetStream stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The message's sequence in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The message's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

impl JournalLocation {
    /// One message.
    pub fn message(message: &RawMessage) -> Self {
        Self::at(&message.stream, message.sequence, Some(&message.subject))
    }

    /// One sequence of a stream.
    pub fn at(stream: &str, sequence: u64, subject: Option<&str>) -> Self {
        Self { stream: Some(stream.to_owned()), sequence: Some(sequence), subject: subject.map(str::to_owned) }
    }

    /// A stream, or all of a subject in it.
    pub fn stream(stream: &str, subject: Option<&str>) -> Self {
        Self { stream: Some(stream.to_owned()), sequence: None, subject: subject.map(str::to_owned) }
    }
}

/// One thing that an audit found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it means.
    pub severity: Severity,
    /// Which check found it, a stable name.
    pub check: String,
    /// Where.
    #[serde(flatten)]
    pub location: JournalLocation,
    /// What it is, for people.
    pub what: String,
}

impl Finding {
    /// A finding of `check` at `location`.
    pub fn new(severity: Severity, check: &str, location: JournalLocation, what: impl Into<String>) -> Self {
        Self { severity, check: check.to_owned(), location, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.severity, self.check)?;
        if let Some(stream) = &self.location.stream {
            write!(f, " {stream}")?;
        }
        if let Some(sequence) = self.location.sequence {
            write!(f, " #{sequence}")?;
        }
        if let Some(subject) = &self.location.subject {
            write!(f, " {subject}")?;
        }
        write!(f, ": {}", self.what)
    }
}
