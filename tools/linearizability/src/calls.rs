//! Calls with their times, and the file they are kept in: a line of JSON each.

use std::{
    fmt,
    io::{self, BufRead, Write},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

/// A call of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call<O, A> {
    /// Who called; no more than a name.
    pub client: String,
    /// What was asked.
    pub op: O,
    /// When, in microseconds since any moment that is the same for the whole history.
    pub invoked: u64,
    /// When the answer was there, and what it was. `None` where none came, or one that says nothing: the call may take
    /// effect at any time after it was made, or never.
    pub returned: Option<(u64, A)>,
}

impl<O: fmt::Debug, A: fmt::Debug> fmt::Display for Call<O, A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        let until = self.returned.as_ref().map_or_else(|| "?".to_owned(), |(at, _)| seconds(*at));
        write!(out, "{:>12} .. {until:>12}  {}: {:?} -> ", seconds(self.invoked), self.client, self.op)?;
        match &self.returned {
            Some((_, answer)) => write!(out, "{answer:?}"),
            None => out.write_str("unknown"),
        }
    }
}

/// Why a history cannot be read or written.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The file.
    #[error("the history's file: {0}")]
    Io(#[from] io::Error),
    /// What is in it.
    #[error("line {line} of the history is not a call: {source}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Reads a history.
///
/// # Errors
/// When the file cannot be read, or a line of it is not a call.
pub fn read<O: DeserializeOwned, A: DeserializeOwned>(from: impl BufRead) -> Result<Vec<Call<O, A>>, HistoryError> {
    let call = |(index, line): (usize, io::Result<String>)| {
        let call = serde_json::from_str(&line?);
        call.map_err(|source| HistoryError::Line { line: index + 1, source })
    };
    from.lines().enumerate().map(call).collect()
}

/// Writes one more call of a history.
///
/// # Errors
/// When the file cannot be written.
pub fn write<O: Serialize, A: Serialize>(mut to: impl Write, call: &Call<O, A>) -> Result<(), HistoryError> {
    let line = serde_json::to_string(call).map_err(io::Error::from)?;
    Ok(writeln!(to, "{line}")?)
}
