//! JSON lines, the format of exported files: one JSON object a line, with everything that a message's hash is made of.
//!
//! ```text
//! {"stream":"EVT_00","sequence":1,"time":"2026-01-02T03:04:05.678901234Z","subject":"gw.evt.00.pay_…",
//!  "headers":{"Gw-Type":"Submitted",…},"body":"[{\"type\":\"Submitted\",…}]"}
//! ```
//!
//! `body` is the text as it is stored; a body that is not UTF-8 stands as base64 in `body_base64` instead. A header that
//! stands more than once has an array of its values.
//!
//! A file that holds several streams begins with a line that names them all, `{"streams":["CHK","EVT_00",…]}`, because those
//! that are empty have no line of their own. A file with one stream bears its name.
//!
//! Where the journal has several epochs, such a line names them too, and the shards that are sealed,
//! `{"streams":[…],"layout":{"epochs":[{"number":0,"first":0,"shards":8},…],"sealed":[0,…]}}`, and a directory has it in a
//! file of its own, `layout.jsonl`. There may be several such lines, each from the time at which the file was gone on with;
//! the last one holds.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use chrono::{DateTime, SecondsFormat};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use journal_jetstream::raw::RawMessage;

use super::layout;

/// Longest line of an exported file, bytes; a commit has at most 900 KiB, and escaping may double it.
pub(crate) const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    stream: String,
    sequence: u64,
    time: String,
    subject: String,
    headers: BTreeMap<String, Values>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Many(Vec<String>),
}

/// What a line says about its place, without the rest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Head {
    /// The stream.
    pub stream: String,
    /// The sequence in it.
    pub sequence: u64,
    /// The subject.
    pub subject: String,
}

/// A line that is not an exported message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line is not an exported message: {0}")]
pub struct Error(String);

/// A line that says what there is in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// The streams of the file.
    pub streams: Vec<String>,
    /// The epochs of the journal, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<layout::Exported>,
}

/// Such a line, with its line break.
pub fn write_contents(contents: &Contents) -> Vec<u8> {
    // Strings and numbers always serialize.
    let mut bytes = serde_json::to_vec(contents).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// What a line says there is, when it is such a line.
pub fn contents(line: &[u8]) -> Option<Contents> {
    serde_json::from_slice(line).ok()
}

/// The line of a message, with its line break.
pub fn write(message: &RawMessage) -> Vec<u8> {
    let value = |values: &Vec<String>| match values.as_slice() {
        [value] => Values::One(value.clone()),
        _ => Values::Many(values.clone()),
    };
    let text = std::str::from_utf8(&message.body).ok().map(str::to_owned);
    let line = Line {
        stream: message.stream.clone(),
        sequence: message.sequence,
        time: message.stored_at.to_rfc3339_opts(SecondsFormat::Nanos, true),
        subject: message.subject.clone(),
        headers: message.headers.iter().map(|(name, values)| (name.clone(), value(values))).collect(),
        body_base64: text.is_none().then(|| BASE64.encode(&message.body)),
        body: text,
    };
    // Strings, numbers and maps with string keys always serialize.
    let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The messages of a file with one stream, in their order, up to the first line without an end.
///
/// # Errors
/// [`std::io::Error`], of a line that is no message too, with its number.
pub fn messages(path: &Path) -> std::io::Result<impl Iterator<Item = std::io::Result<RawMessage>> + use<>> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut number = 0_u64;
    Ok(std::iter::from_fn(move || {
        let mut line = Vec::new();
        loop {
            line.clear();
            number += 1;
            match Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Err(error) => return Some(Err(error)),
                Ok(read) if read as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") => {
                    let what = format!("line {number} is longer than {LINE_BYTES_MAX} bytes");
                    return Some(Err(std::io::Error::other(what)));
                }
                Ok(_) if !line.ends_with(b"\n") => return None,
                Ok(_) if contents(&line).is_some() => {}
                Ok(_) => {
                    let defect = |error: Error| std::io::Error::other(format!("line {number}: {error}"));
                    return Some(read(&line).map_err(defect));
                }
            }
        }
    }))
}

/// The place that a line names.
///
/// # Errors
/// [`Error`].
pub fn head(line: &[u8]) -> Result<Head, Error> {
    serde_json::from_slice(line).map_err(|error| Error(error.to_string()))
}

/// The message of a line.
///
/// # Errors
/// [`Error`].
pub fn read(line: &[u8]) -> Result<RawMessage, Error> {
    let line: Line = serde_json::from_slice(line).map_err(|error| Error(error.to_string()))?;
    let body = match (line.body, line.body_base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(text)) => BASE64.decode(text.as_bytes()).map_err(|error| Error(format!("body_base64: {error}")))?,
        _ => return Err(Error("exactly one of body and body_base64 belongs here".to_owned())),
    };
    let stored_at = DateTime::parse_from_rfc3339(&line.time).map_err(|error| Error(format!("time: {error}")))?;
    let values = |values| match values {
        Values::One(value) => vec![value],
        Values::Many(values) => values,
    };
    Ok(RawMessage {
        stream: line.stream,
        sequence: line.sequence,
        subject: line.subject,
        headers: line.headers.into_iter().map(|(name, value)| (name, values(value))).collect(),
        body: body.into(),
        stored_at: stored_at.to_utc(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_every_kind_read_back_the_same() {
        let headers = [("A", vec!["1"]), ("B", vec!["x", "y"])];
        let headers = headers.map(|(name, values)| (name.to_owned(), values.into_iter().map(str::to_owned).collect()));
        let mut message = RawMessage {
            stream: "EVT_00".into(),
            sequence: 7,
            subject: "gw.evt.00.x".into(),
            headers: headers.into_iter().collect(),
            body: "{\"a\": \"\\u0000ä\n\"}".into(),
            stored_at: "2026-01-02T03:04:05.000000001Z".parse().unwrap(),
        };
        for body in [message.body.clone(), "".into(), vec![0xff, 0x00].into()] {
            message.body = body;
            let line = write(&message);
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(read(&line), Ok(message.clone()));
            let head = head(&line).unwrap();
            assert_eq!((head.stream.as_str(), head.sequence, head.subject.as_str()), ("EVT_00", 7, "gw.evt.00.x"));
        }
        let sealed = layout::Layout::new(&[0, 1].map(|n| layout::Run { number: n, first: n, shards: 1 }), [0].into());
        for layout in [None, sealed.unwrap().exported()] {
            let said = Contents { streams: vec!["CHK".to_owned(), "EVT_00".to_owned()], layout };
            assert_eq!((contents(&write_contents(&said)), contents(&write(&message))), (Some(said), None));
        }
        let old = contents(b"{\"streams\":[\"CHK\",\"EVT_00\"]}\n").unwrap();
        assert_eq!((old.streams.len(), old.layout), (2, None));
        let text = String::from_utf8(write(&message)).unwrap();
        for (from, to) in [("body_base64", "bodi"), ("\"time\":\"2", "\"time\":\"x"), ("/w", "/"), ("7", "-7")] {
            assert!(read(text.replacen(from, to, 1).as_bytes()).is_err(), "{from}");
        }
    }
}
