//! `gw admin park`.

use std::{fmt::Write, time::Duration};

use anyhow::{Context, Result, bail};
use async_nats::Client;
use chrono::SecondsFormat;
use clap::{Args as ClapArgs, Subcommand};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use events::{StreamId, time::Timestamp};
use journal::{
    envelope,
    operator_acts::{Act, STREAMS_MAX, printable},
    parking::{Entry, Error, Parking, Record},
};
use journal_jetstream::{
    parking::{NatsParking, Options},
    raw::{RawMessage, RawReader},
};

use config::GatewayConfig;

use super::admin::acts::Orders;
use crate::operator::{
    acts::{Replays, replay, summary},
    parked_advice::advice,
};

/// How long the message at fault is asked for.
const READ_MAX: Duration = Duration::from_secs(5);
/// Characters of a cause that the list shows.
const CAUSE_CHARS: usize = 100;

/// Arguments of `gw admin park`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what is parked, in the order in which it was.
    List {
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show one payment or batch: why it was parked, its history, the message at fault and what to do.
    Show {
        /// The payment or batch.
        id: StreamId,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Let the gateway that owns the shard drive a parked payment or batch again; what still fails is parked again.
    Replay {
        /// The payment or batch.
        #[arg(required_unless_present = "all")]
        id: Option<StreamId>,
        /// Everything that is parked.
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

/// Carries out one order.
///
/// # Errors
/// When NATS does not answer, or the stream is not parked.
pub(super) async fn run(args: Args, config: &GatewayConfig, client: Client, orders: &Orders) -> Result<()> {
    let (shards, replicas) = (config.journal.shards, usize::from(config.journal.replicas));
    let options = Options { shards, replicas, ..Options::default() };
    let parking = NatsParking::connect(client.clone(), options).await.context("open the parking")?;
    let answer = match args.command {
        Command::List { json } => list(&parking.parked().await?, json)?,
        Command::Show { id, json } => {
            let history = parking.history(&id).await?;
            let Some(newest) = history.last() else { bail!("{id} was never parked") };
            let message = match at_fault(&history) {
                // Causes name no shard where there was one epoch, whose shards the configuration knows.
                Some((shard, sequence)) => {
                    message(client, &envelope::stream(shard.unwrap_or_else(|| id.shard(shards))), sequence).await?
                }
                None => None,
            };
            if json {
                pretty(&shown(&id, &history, message.as_ref()))?
            } else {
                show(newest, &history, message.as_ref())
            }
        }
        Command::Replay { id: Some(id), all: _ } => replay_one(&parking, id, orders).await?,
        Command::Replay { id: None, all: _ } => replay_all(&parking, orders).await?,
    };
    super::answer(answer.trim_end())
}

async fn replay_one(parking: &NatsParking, id: StreamId, orders: &Orders) -> Result<String> {
    let streams = vec![id.clone()];
    let effect = async {
        for (_, replayed) in replay(parking, &streams, orders.by()).await {
            replayed?;
        }
        Ok(((), None))
    };
    orders.carry_out(Act::Replay { streams: streams.clone() }, effect).await?;
    Ok(format!("replayed {id}: the gateway that owns its shard drives it again"))
}

/// In orders of as many as one may have.
async fn replay_all(parking: &NatsParking, orders: &Orders) -> Result<String> {
    let parked: Vec<StreamId> = parking.parked().await?.into_iter().map(|record| record.stream_id).collect();
    let mut answer = String::new();
    for streams in parked.chunks(STREAMS_MAX) {
        let effect = async {
            let replays = replay(parking, streams, orders.by()).await;
            answer += &replayed(&replays);
            // Whoever was faster did what is wanted.
            let failed = |(_, replay): &&(_, Result<(), Error>)| !matches!(replay, Ok(()) | Err(Error::NotParked(_)));
            match replays.iter().find(failed) {
                Some((id, _)) => bail!("{}; the first that failed: {id}\n{answer}", summary(&replays)),
                None => Ok(((), Some(summary(&replays)))),
            }
        };
        orders.carry_out(Act::Replay { streams: streams.to_vec() }, effect).await?;
    }
    Ok(if answer.is_empty() { "nothing is parked".to_owned() } else { answer })
}

fn replayed(replays: &Replays) -> String {
    let replayed = replays.iter().filter(|(_, replay)| replay.is_ok());
    replayed.map(|(id, _)| format!("replayed {id}\n")).collect()
}

/// Shard, where it is named, and sequence of the message at fault, by the last entry that names one.
fn at_fault(history: &[Record]) -> Option<(Option<u16>, u64)> {
    let cause = history.iter().rev().find_map(|record| match &record.entry {
        Entry::Parked(parked) => Some(&parked.cause),
        Entry::Replayed(_) | Entry::Unknown { .. } => None,
    })?;
    cause.sequence.map(|sequence| (cause.shard, sequence))
}

async fn message(client: Client, stream: &str, sequence: u64) -> Result<Option<RawMessage>> {
    let found = RawReader::new(client, READ_MAX).batch(stream, sequence, None, 1).await?;
    Ok(found.into_iter().find(|message| message.sequence == sequence))
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)?)
}

fn list(parked: &[Record], json: bool) -> Result<String> {
    if json {
        return pretty(&parked.iter().map(|record| entry(record, true)).collect());
    }
    if parked.is_empty() {
        return Ok("nothing is parked".to_owned());
    }
    let mut lines = String::new();
    for record in parked {
        let cause: String = says(&record.entry).chars().take(CAUSE_CHARS).collect();
        writeln!(lines, "{}  {}  {}", record.stream_id, time(record.stored_at), cause.replace('\n', " "))?;
    }
    Ok(lines)
}

/// What an entry says, in a line.
fn says(entry: &Entry) -> String {
    printable(&match entry {
        Entry::Parked(parked) => format!("{}: {}", parked.cause.kind, parked.cause.text),
        Entry::Replayed(replayed) => format!("by {}", replayed.by),
        Entry::Unknown { reason } => format!("an entry that this build does not know: {reason}"),
    })
}

/// An entry as JSON, with the stream it is of when asked for.
fn entry(record: &Record, with_id: bool) -> Value {
    let mut members = Map::new();
    if with_id {
        members.insert("id".to_owned(), json!(record.stream_id.as_str()));
    }
    members.insert("stored_at".to_owned(), json!(record.stored_at));
    let rest = match &record.entry {
        Entry::Parked(parked) => json!({
            "entry": "parked",
            "cause": parked.cause,
            "attempts": parked.attempts,
            "first_at": parked.first_at,
            "last_at": parked.last_at,
            "gateway": parked.gateway,
        }),
        Entry::Replayed(replayed) => json!({"entry": "replayed", "by": replayed.by, "at": replayed.at}),
        Entry::Unknown { reason } => json!({"entry": "unknown", "reason": reason}),
    };
    if let Value::Object(rest) = rest {
        members.extend(rest);
    }
    Value::Object(members)
}

fn shown(id: &StreamId, history: &[Record], message: Option<&RawMessage>) -> Value {
    let newest = history.last();
    let body = |message: &RawMessage| match std::str::from_utf8(&message.body) {
        Ok(text) => ("body", text.to_owned()),
        Err(_) => ("body_base64", BASE64.encode(&message.body)),
    };
    let message = message.map(|message| {
        let (member, body) = body(message);
        json!({
            "stream": message.stream,
            "sequence": message.sequence,
            "subject": message.subject,
            "stored_at": message.stored_at,
            "headers": message.headers,
            member: body,
        })
    });
    json!({
        "id": id.as_str(),
        "parked": newest.is_some_and(Record::is_parked),
        "history": history.iter().map(|record| entry(record, false)).collect::<Vec<_>>(),
        "message": message,
        "what_to_do": newest.filter(|newest| newest.is_parked()).map(|newest| advice(&newest.entry)),
    })
}

fn show(newest: &Record, history: &[Record], message: Option<&RawMessage>) -> String {
    let id = &newest.stream_id;
    let mut lines = match &newest.entry {
        Entry::Parked(parked) => vec![
            format!("{id} is parked since {}", time(newest.stored_at)),
            format!("cause     {}", says(&newest.entry)),
            format!("attempts  {}, from {} to {}", parked.attempts, time(parked.first_at), time(parked.last_at)),
            format!("gateway   {}", printable(&parked.gateway)),
        ],
        Entry::Replayed(_) => vec![format!("{id} is not parked; it was replayed at {}", time(newest.stored_at))],
        Entry::Unknown { .. } => vec![format!("{id} is parked: {}", says(&newest.entry))],
    };
    lines.extend([String::new(), "history".to_owned()]);
    lines.extend(history.iter().map(|record| {
        let name = match record.entry {
            Entry::Parked(_) => "parked  ",
            Entry::Replayed(_) => "replayed",
            Entry::Unknown { .. } => "unknown ",
        };
        format!("  {}  {name}  {}", time(record.stored_at), says(&record.entry))
    }));
    if let Some(message) = message {
        let RawMessage { stream, sequence, subject, stored_at, headers, body } = message;
        let stored_at = time(*stored_at);
        lines.extend([String::new(), format!("message at fault: {sequence} of {stream}, {subject}, {stored_at}")]);
        for (name, values) in headers {
            lines.extend(values.iter().map(|value| printable(&format!("  {name}: {value}"))));
        }
        let body = match std::str::from_utf8(body) {
            Ok(text) => printable(text),
            Err(_) => format!("base64 {}", BASE64.encode(body)),
        };
        lines.extend([String::new(), format!("  {body}")]);
    }
    if newest.is_parked() {
        lines.extend([String::new(), "what to do".to_owned()]);
        lines.extend(advice(&newest.entry).lines().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_text_does_not_reach_the_terminal_as_it_is() {
        assert_eq!(printable("a\u{1b}[2J\r\nb\u{9b}"), "a\\u{1b}[2J\\u{d}\nb\\u{9b}");
    }
}
