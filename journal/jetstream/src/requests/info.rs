//! Questions about streams, to their leaders: which there are, what they are for and how far they go; and their sealing.

use std::{collections::HashMap, time::Duration};

use async_nats::{Client, jetstream::ErrorCode};
use serde::Deserialize;
use serde_json::Value;

use events::time::Timestamp;

use super::{API, ApiError, api};

#[derive(Deserialize)]
struct InfoAnswer {
    state: Option<InfoState>,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct NamesAnswer {
    #[serde(default)]
    total: usize,
    streams: Option<Vec<String>>,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct TimeAnswer {
    ts: Option<Timestamp>,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct InfoState {
    last_seq: u64,
    /// Messages by subject, where they were asked for.
    subjects: Option<HashMap<String, u64>>,
}

#[derive(Deserialize)]
struct DescriptionAnswer {
    #[serde(flatten)]
    description: Option<Description>,
    error: Option<ApiError>,
}

/// The description of a stream, from its leader.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Description {
    pub config: DescribedConfig,
    pub created: Timestamp,
    pub state: DescribedState,
}

/// The part of a stream's settings by which it says what it is for.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DescribedConfig {
    #[serde(default)]
    pub metadata: HashMap<String, String>,
    #[serde(default)]
    pub subjects: Vec<String>,
    #[serde(default)]
    pub sealed: bool,
}

/// How much is in a stream.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DescribedState {
    pub messages: u64,
    #[serde(default)]
    pub bytes: u64,
    #[serde(default)]
    pub num_subjects: u64,
}

/// The names of all streams.
pub(crate) async fn stream_names(client: &Client, timeout: Duration) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    loop {
        let page = serde_json::json!({"offset": names.len()});
        let answer: NamesAnswer = api(client, format!("{API}.STREAM.NAMES"), &page, timeout).await?;
        if let Some(error) = answer.error {
            return Err(format!("{} ({})", error.description, error.err_code));
        }
        let page = answer.streams.unwrap_or_default();
        if page.is_empty() {
            return Ok(names);
        }
        names.extend(page);
        if names.len() >= answer.total {
            return Ok(names);
        }
    }
}

/// Whether a stream takes the messages of `subject`. In a cluster a question about a stream that is not there is answered
/// late on purpose; this one is not.
pub(crate) async fn takes(client: &Client, subject: &str, timeout: Duration) -> Result<bool, String> {
    let ask = serde_json::json!({"subject": subject});
    let answer: NamesAnswer = api(client, format!("{API}.STREAM.NAMES"), &ask, timeout).await?;
    match answer.error {
        Some(error) => Err(format!("{} ({})", error.description, error.err_code)),
        None => Ok(answer.streams.is_some_and(|names| !names.is_empty())),
    }
}

/// Seals a stream: the server takes nothing into it any more, and nothing undoes that. All other settings stay as they
/// are, also those that this client does not know.
pub(crate) async fn seal(client: &Client, stream: &str, timeout: Duration) -> Result<(), String> {
    let config = |mut answer: Value| match answer["error"].take() {
        Value::Null => Ok(answer["config"].take()),
        error => Err(format!("{} ({})", error["description"].as_str().unwrap_or_default(), error["err_code"])),
    };
    let ask = serde_json::json!({});
    let mut wanted = config(api(client, format!("{API}.STREAM.INFO.{stream}"), &ask, timeout).await?)?;
    wanted["sealed"] = true.into();
    let found = config(api(client, format!("{API}.STREAM.UPDATE.{stream}"), &wanted, timeout).await?)?;
    if found["sealed"] == true { Ok(()) } else { Err("the server answers with a stream that is not sealed".into()) }
}

/// The last sequence of a stream, from its leader.
pub(crate) async fn last_sequence(client: &Client, stream: &str, timeout: Duration) -> Result<u64, String> {
    let answer: InfoAnswer =
        api(client, format!("{API}.STREAM.INFO.{stream}"), &serde_json::json!({}), timeout).await?;
    match (answer.state, answer.error) {
        (_, Some(error)) => Err(format!("{} ({})", error.description, error.err_code)),
        (Some(state), None) => Ok(state.last_seq),
        (None, None) => Err("answer holds neither a state nor an error".into()),
    }
}

/// What time it is by the clock of a stream's leader: it says so when it is asked about the stream.
pub(crate) async fn server_time(client: &Client, stream: &str, timeout: Duration) -> Result<Timestamp, String> {
    let answer: TimeAnswer =
        api(client, format!("{API}.STREAM.INFO.{stream}"), &serde_json::json!({}), timeout).await?;
    match (answer.ts, answer.error) {
        (_, Some(error)) => Err(format!("{} ({})", error.description, error.err_code)),
        (Some(time), None) => Ok(time),
        (None, None) => Err("the answer holds neither a time nor an error".into()),
    }
}

/// How many messages a stream's leader counts under `subject`. The count is kept apart from the messages, so a message that the
/// server cannot read any more is counted and not found.
pub(crate) async fn count_of(client: &Client, stream: &str, subject: &str, timeout: Duration) -> Result<u64, String> {
    let ask = serde_json::json!({"subjects_filter": subject});
    let answer: InfoAnswer = api(client, format!("{API}.STREAM.INFO.{stream}"), &ask, timeout).await?;
    match (answer.state, answer.error) {
        (_, Some(error)) => Err(format!("{} ({})", error.description, error.err_code)),
        (Some(state), None) => Ok(state.subjects.unwrap_or_default().get(subject).copied().unwrap_or_default()),
        (None, None) => Err("answer holds neither a state nor an error".into()),
    }
}

/// The description of a stream, from its leader; `None` when there is no such stream.
pub(crate) async fn description(
    client: &Client,
    stream: &str,
    timeout: Duration,
) -> Result<Option<Description>, String> {
    let subject = format!("{API}.STREAM.INFO.{stream}");
    let answer: DescriptionAnswer = api(client, subject, &serde_json::json!({}), timeout).await?;
    match (answer.description, answer.error) {
        (_, Some(error)) if ErrorCode(error.err_code) == ErrorCode::STREAM_NOT_FOUND => Ok(None),
        (_, Some(error)) => Err(format!("{} ({})", error.description, error.err_code)),
        (Some(description), None) => Ok(Some(description)),
        (None, None) => Err("answer holds neither a stream nor an error".into()),
    }
}
