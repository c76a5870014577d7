//! JetStream requests of the journal and the ledger, with a distinct result for every outcome.
//!
//! `async-nats` has calls for most of this, but they fold outcomes together that must stay apart here (of the refusals
//! of an expected sequence it knows only one, and a batched Direct Get it does not have), so requests are made on the
//! plain client.

pub(crate) mod consumer;
mod info;
mod publish;
mod read;
mod streams;

use std::time::Duration;

use async_nats::{Client, Message, Request, client::RequestErrorKind, connection::State};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

pub(crate) use journal::envelope::{EXPECTED_SEQUENCE, MESSAGE_ID};

pub(crate) use self::{
    info::{count_of, description, last_sequence, seal, server_time, stream_names, takes},
    publish::{Outgoing, Published, PublishedBatch, Ready, conditional, publish, publish_batch},
    read::{
        BatchRequest, Pick, ReadFault, STORED_AT, Stored, StoredText, direct_batch, direct_batch_counted, direct_last,
        first_stored, is_moved, leader_get, leader_text,
    },
    streams::{StreamPlan, ensure_stream, stream_config},
};
pub use self::{publish::header_map, streams::ConnectError};

/// Prefix of the JetStream API's subjects.
const API: &str = "$JS.API";
/// How often a lost connection is looked at again.
const CONNECTION_POLL: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Whether the client has a connection now. Without one a publish waits in the client and is sent on reconnection, long
/// after whoever asked for it has given up.
pub(crate) fn connected(client: &Client) -> bool {
    client.connection_state() == State::Connected
}

/// Waits for a connection until `deadline`; whether there is one.
pub(crate) async fn connected_by(client: &Client, deadline: Instant) -> bool {
    while !connected(client) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(CONNECTION_POLL).await;
    }
    true
}

async fn request(client: &Client, subject: String, request: Request, timeout: Duration) -> Result<Message, Published> {
    let request = request.timeout(Some(timeout));
    // The client's own time-out does not cover the time a request waits for room in its queue.
    match tokio::time::timeout(timeout, client.send_request(subject, request)).await {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(error)) => Err(match error.kind() {
            RequestErrorKind::NoResponders => Published::NotStored("no stream takes the subject now".into()),
            RequestErrorKind::InvalidSubject => Published::NotStored(error.to_string()),
            RequestErrorKind::MaxPayloadExceeded => Published::TooLarge(error.to_string()),
            RequestErrorKind::TimedOut | RequestErrorKind::Other => Published::Unclear(error.to_string()),
        }),
        Err(_) => Err(Published::Unclear("no acknowledgement in time".into())),
    }
}

async fn api<T: for<'de> Deserialize<'de>>(
    client: &Client,
    subject: String,
    body: &impl Serialize,
    timeout: Duration,
) -> Result<T, String> {
    let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    let answer = match request(client, subject, Request::new().payload(body.into()), timeout).await {
        Ok(answer) => answer,
        Err(Published::NotStored(_)) => return Err("JetStream does not answer".into()),
        Err(Published::TooLarge(reason) | Published::Unclear(reason)) => return Err(reason),
        Err(other) => return Err(format!("{other:?}")),
    };
    serde_json::from_slice(&answer.payload).map_err(|error| format!("answer cannot be read: {error}"))
}
