//! Reading a stream in order by a pull consumer that acknowledges nothing.
//!
//! A Direct Get costs the server several times as much a message: it writes the headers of each anew, to put six of its
//! own to them. A consumer delivers a message as it was stored and says the rest in the subject for acknowledgements
//! (NATS ADR-15). But it has to be made first, and it goes on where it left off, whether what it sent arrived or not.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode};
use chrono::DateTime;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::json;

use super::{API, ApiError, Stored, api, first_stored};

#[derive(Deserialize)]
struct CreateAnswer {
    error: Option<ApiError>,
}

/// The messages that a consumer delivered.
#[derive(Debug)]
pub(crate) struct Delivered {
    /// The messages, in order.
    pub messages: Vec<Stored>,
    /// Whether nothing was behind the last of them.
    pub ended: bool,
}

/// Makes a consumer of `stream` that begins at `from` and vanishes when nobody has asked it for anything for `idle_max`.
/// It keeps no state on a disk and has no replicas.
pub(crate) async fn create(
    client: &Client,
    stream: &str,
    name: &str,
    from: u64,
    idle_max: Duration,
    timeout: Duration,
) -> Result<(), String> {
    let config = json!({
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": from,
        "ack_policy": "none",
        "replay_policy": "instant",
        "inactive_threshold": idle_max.as_nanos() as u64,
        "mem_storage": true,
        "num_replicas": 1,
    });
    let ask = json!({"stream_name": stream, "config": config, "action": "create"});
    let answer: CreateAnswer = api(client, format!("{API}.CONSUMER.CREATE.{stream}.{name}"), &ask, timeout).await?;
    answer.error.map_or(Ok(()), |error| Err(format!("{} ({})", error.description, error.err_code)))
}

/// The next messages of a consumer, up to `batch` of them and `max_bytes`, of those that are there.
pub(crate) async fn next(
    client: &Client,
    (stream, name): (&str, &str),
    batch: usize,
    max_bytes: usize,
    timeout: Duration,
) -> Result<Delivered, String> {
    let ask = json!({"batch": batch, "max_bytes": max_bytes, "no_wait": true}).to_string();
    let inbox = client.new_inbox();
    let subject = format!("{API}.CONSUMER.MSG.NEXT.{stream}.{name}");
    let asked = async {
        let answers = client.subscribe(inbox.clone()).await.map_err(|error| error.to_string())?;
        client.publish_with_reply(subject, inbox, ask.into()).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(answers)
    };
    let late = |_| "a consumer delivers nothing in time".to_owned();
    let mut answers = tokio::time::timeout(timeout, asked).await.map_err(late)??;
    let mut messages = Vec::new();
    while messages.len() < batch {
        let answer = tokio::time::timeout(timeout, answers.next()).await.map_err(late)?;
        let answer = answer.ok_or("connection was closed")?;
        match answer.status {
            None | Some(StatusCode::OK) => messages.push(stored(answer)?),
            // Nothing was there, or nothing is there any more. Only with this is the request over: until then the server
            // sends, in answer to it, what has come meanwhile.
            Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => return Ok(Delivered { messages, ended: true }),
            // As many bytes as were asked for, for one. Without a message something else is the matter.
            Some(_) if !messages.is_empty() => break,
            Some(status) => return Err(format!("a consumer answers with {status}")),
        }
    }
    Ok(Delivered { messages, ended: false })
}

/// The message as it lies in its stream.
fn stored(message: Message) -> Result<Stored, String> {
    let reply = message.reply.as_deref().unwrap_or_default();
    let (sequence, nanos) = ack_position(reply).ok_or_else(|| format!("a consumer delivers with reply {reply:?}"))?;
    let headers = message.headers.unwrap_or_default();
    let stored_at = first_stored(&headers, DateTime::from_timestamp_nanos(nanos));
    Ok(Stored { subject: message.subject.into_string(), sequence, stored_at, body: message.payload, headers })
}

/// Stream sequence and time in nanoseconds, of `$JS.ACK.{stream}.{consumer}.{delivered}.{sequence}.{its number}.{time}.
/// {messages behind it}`, with domain and account before the stream in the newer form.
fn ack_position(reply: &str) -> Option<(u64, i64)> {
    let tokens = reply.strip_prefix("$JS.ACK.")?;
    let newer = if tokens.split('.').count() >= 9 { 2 } else { 0 };
    let mut tokens = tokens.split('.').skip(newer + 3);
    let sequence = tokens.next()?.parse().ok()?;
    let nanos = tokens.nth(1)?.parse().ok()?;
    // What lies behind it is not asked for, but belongs to the form.
    tokens.next().map(|_| (sequence, nanos))
}

#[cfg(test)]
mod tests {
    use super::ack_position;

    #[test]
    fn both_forms_of_a_position_are_read() {
        let (older, newer) = ("EVT_00.c.1.42.7.1763760000123456789.3", "_.hash.EVT_00.c.1.42.7.1763760000123456789.3");
        for tokens in [older, newer, &format!("{newer}.more"), &format!("{newer}.more.and.more")] {
            let reply = format!("$JS.ACK.{tokens}");
            assert_eq!(ack_position(&reply), Some((42, 1_763_760_000_123_456_789)), "{reply}");
        }
        for bad in ["", "$JS.ACK.", "$JS.ACK.EVT_00.c.1.42.7.1", "$JS.ACK.EVT_00.c.1.x.7.1.3", "_INBOX.a.b"] {
            assert_eq!(ack_position(bad), None, "{bad}");
        }
    }
}
