//! The format of exported files: one JSON object a line, with everything that a message's hash is made of.
//!
//! ```text
//! {"stream":"EVT_00","sequence":1,"time":"2026-01-02T03:04:05.678901234Z","subject":"gw.evt.00.pay_…",
//!  "headers":{"Gw-Type":"Submitted",…},"body":"[{\"type\":\"Submitted\",…}]"}
//! ```
//!
//! `body` is the text as it is stored; a body that is no UTF-8 stands as base64 in `body_base64` instead. A header that
//! stands more than once has an array of its values.
//!
//! A file that holds several streams begins with a line that names them all, `{"streams":["CHK","EVT_00",…]}`, because those
//! that are empty have no line of their own. A file with one stream bears its name.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use events::raw::RawMessage;

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

/// A line that is no exported message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line is no exported message: {0}")]
pub struct Error(String);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    streams: Vec<String>,
}

/// The line that names the streams of a file, with its line break.
pub fn write_contents(streams: &[String]) -> Vec<u8> {
    // A list of strings always serializes.
    let mut bytes = serde_json::to_vec(&Contents { streams: streams.to_vec() }).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The streams that a line names, when it is such a line.
pub fn contents(line: &[u8]) -> Option<Vec<String>> {
    serde_json::from_slice(line).ok().map(|Contents { streams }| streams)
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
        let streams = vec!["CHK".to_owned(), "EVT_00".to_owned()];
        assert_eq!((contents(&write_contents(&streams)), contents(&write(&message))), (Some(streams), None));
        let text = String::from_utf8(write(&message)).unwrap();
        for (from, to) in [("body_base64", "bodi"), ("\"time\":\"2", "\"time\":\"x"), ("/w", "/"), ("7", "-7")] {
            assert!(read(text.replacen(from, to, 1).as_bytes()).is_err(), "{from}");
        }
    }
}
