//! `gw audit replay`: one stream as it happened.

use chrono::SecondsFormat;
use serde::Serialize;
use serde_json::{Value, json};

use events::{Event, QuoteRequestEvent, StreamId, event::Mark, time::Timestamp};
use journal::{Recorded, envelope};
use journal_jetstream::raw::RawMessage;

use super::{
    Error, Finding, JournalLocation, Severity,
    entry::Entry,
    examine::{Examined, examine},
    source::Source,
    uniqueness,
};

/// One stream, message by message.
#[derive(Debug, Clone, Serialize)]
pub struct Replay {
    /// The payment or batch.
    pub id: StreamId,
    /// The stream of JetStream that holds it.
    pub stream: String,
    /// Its messages.
    pub messages: Vec<Message>,
    /// The marks in older epochs that keep it from beginning there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkLeft>,
    /// What is wrong with them by themselves; `gw audit verify` looks further.
    pub findings: Vec<Finding>,
}

/// One message.
#[derive(Debug, Clone, Serialize)]
pub struct Message {
    /// Its sequence.
    pub sequence: u64,
    /// When the journal stored it.
    pub stored_at: Timestamp,
    /// Its hash.
    pub hash: String,
    /// Its headers.
    pub headers: Value,
    /// Its events; empty when it cannot be read.
    pub events: Vec<ReplayedEvent>,
    /// Its body, when it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// A mark in the place of a stream that begins in a later epoch.
#[derive(Debug, Clone, Serialize)]
pub struct MarkLeft {
    /// The stream of JetStream that holds it.
    pub stream: String,
    /// The mark.
    #[serde(flatten)]
    pub message: Message,
}

/// One event.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayedEvent {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What it says, in a few words.
    pub says: String,
    /// The transactions it names.
    pub transactions: Vec<Transaction>,
    /// Its payload.
    pub data: Value,
}

/// A transaction that an event names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transaction {
    /// The chain.
    pub chain_id: String,
    /// Its hash.
    pub transaction_hash: String,
    /// The block that holds it, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
}

/// Reads a stream. It has no messages when there is none.
///
/// # Errors
/// [`Error`] when the messages cannot be read.
pub async fn replay(source: &Source, id: &StreamId) -> Result<Replay, Error> {
    let layout = source.layout().await?;
    let (mut marks, mut findings) = (Vec::new(), Vec::new());
    let mut replayed: Option<(String, Vec<Message>)> = None;
    for (shard, messages) in uniqueness::everywhere(source, &layout, id).await? {
        let stream = envelope::stream(shard);
        let examined = examine(&layout, shard, &envelope::subject(shard, id), &messages);
        let Examined { commits, findings: found, is_mark, .. } = examined;
        findings.extend(found);
        let commit = |message: &RawMessage| commits.iter().find(|commit| commit.position.sequence == message.sequence);
        let shown = messages.iter().map(|message| replayed_message(message, commit(message)));
        if is_mark {
            marks.extend(shown.map(|message| MarkLeft { stream: stream.clone(), message }));
            continue;
        }
        if let Some((newer, _)) = &replayed {
            let what = format!("{id} lies in {newer} too, which is what is shown");
            findings.push(Finding::new(
                Severity::Contradiction,
                "two-epochs",
                JournalLocation::stream(&stream, None),
                what,
            ));
            continue;
        }
        replayed = Some((stream, shown.collect()));
    }
    // A stream that never began would begin in the newest epoch.
    let newest = || envelope::stream(layout.epochs().current().shard_of(id));
    let (stream, messages) = replayed.unwrap_or_else(|| (newest(), Vec::new()));
    Ok(Replay { id: id.clone(), stream, messages, marks, findings })
}

fn replayed_message(message: &RawMessage, commit: Option<&Recorded>) -> Message {
    let headers = message.headers.iter().map(|(name, values)| match values.as_slice() {
        [value] => (name.clone(), json!(value)),
        _ => (name.clone(), json!(values)),
    });
    let events =
        commit.map(|commit| commit.events.iter().map(|event| replayed_event(event, message.stored_at)).collect());
    let body = commit.is_none().then(|| String::from_utf8_lossy(&message.body).into_owned());
    Message {
        sequence: message.sequence,
        stored_at: message.stored_at,
        hash: message.hash().to_string(),
        headers: Value::Object(headers.collect()),
        events: events.unwrap_or_default(),
        body,
    }
}

fn replayed_event(event: &Event, stored_at: Timestamp) -> ReplayedEvent {
    // An event was read from JSON, so it can be written as JSON.
    let data = serde_json::to_value(event).ok().and_then(|mut value| value.get_mut("data").map(Value::take));
    let data = data.unwrap_or_default();
    let says = match event {
        Event::Payment(event) => Entry { stored_at, event: event.clone() }.describe(),
        Event::QuoteRequest(event) => batch_says(event),
        Event::Mark(Mark::Moved(moved)) => format!("begins in epoch {} or later", moved.to_epoch),
    };
    let mut transactions = Vec::new();
    find_transactions(&data, &mut transactions);
    ReplayedEvent { kind: event.type_name(), says, transactions, data }
}

fn batch_says(event: &QuoteRequestEvent) -> String {
    match event {
        QuoteRequestEvent::Opened(opened) => format!(
            "{} for {} of at most {}",
            opened.request_id,
            opened.terms.fulfillment_amount,
            opened.terms.max_source_amount.map_or("any".to_owned(), |max| max.to_string())
        ),
        QuoteRequestEvent::Collected(collected) => format!(
            "{} asked, {} quotes, {} declined",
            collected.auction.addressed.len(),
            collected.quotes.len(),
            collected.auction.declines.len()
        ),
        QuoteRequestEvent::Awarded(awarded) => format!("{} to {}", awarded.quote_id, awarded.payment_id),
    }
}

/// Every object with a transaction hash and a chain, wherever an event holds it.
fn find_transactions(value: &Value, found: &mut Vec<Transaction>) {
    match value {
        Value::Object(members) => {
            let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
            if let (Some(transaction_hash), Some(chain_id)) = (text("transaction_hash"), text("chain_id")) {
                let block_number = members.get("block_number").and_then(Value::as_u64);
                found.push(Transaction { chain_id, transaction_hash, block_number });
            }
            members.values().for_each(|member| find_transactions(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find_transactions(item, found)),
        _ => {}
    }
}

impl Replay {
    /// For people.
    pub fn describe(&self) -> String {
        let mut text = format!("{}, {} messages in {}\n", self.id, self.messages.len(), self.stream);
        for MarkLeft { stream, message } in &self.marks {
            let says: Vec<_> = message.events.iter().map(|event| event.says.as_str()).collect();
            text.push_str(&format!("{stream} #{} holds its mark: {}\n", message.sequence, says.join(", ")));
        }
        for message in &self.messages {
            let time = message.stored_at.to_rfc3339_opts(SecondsFormat::Millis, true);
            text.push_str(&format!("\n{time}  #{}  {}\n", message.sequence, message.hash));
            for event in &message.events {
                text.push_str(&format!("  {:<21} {}\n", event.kind, event.says));
                for Transaction { chain_id, transaction_hash, block_number } in &event.transactions {
                    let block = block_number.map(|number| format!(", block {number}")).unwrap_or_default();
                    text.push_str(&format!("  {:<21}   {chain_id} {transaction_hash}{block}\n", ""));
                }
            }
            if let Some(body) = &message.body {
                text.push_str(&format!("  unreadable: {body}\n"));
            }
        }
        for finding in &self.findings {
            text.push_str(&format!("\n{finding}\n"));
        }
        text
    }
}
