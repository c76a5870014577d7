//! The event codec: events as stored bytes, in every version they ever had, and the upcasters that lift old ones.
//!
//! The body of a commit is a JSON array of `{"type": …, "data": …}`. Beside it stand two headers with one
//! comma-separated entry an event: `Gw-Type` with the type names and `Gw-Schema` with the schema versions. Reading
//! lifts each event through its upcasters to the current version; a type or version that this build does not know is
//! an error that names it.

use serde::{Deserializer, de};
use serde_json::{Map, Value};

use crate::{
    ChainId, Event, Family, PaymentEvent, QuoteRequestEvent,
    event::{Mark, Validity},
};

/// The version in which events of this type are written now.
fn current_schema(name: &str) -> u32 {
    if TRANSACTION_TYPES.contains(&name) { 2 } else { 1 }
}

/// The version in which events of this type were written first.
fn first_schema(name: &str) -> u32 {
    if BEGUN_IN_VERSION_2.contains(&name) { 2 } else { 1 }
}

/// An encoded commit body with its two headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// `Gw-Type`: type names, comma-separated.
    pub types: String,
    /// `Gw-Schema`: schema versions, comma-separated.
    pub schemas: String,
    /// The JSON body.
    pub body: Vec<u8>,
}

/// Why stored bytes are not events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not a JSON array of events.
    #[error("body is not a JSON array of events: {0}")]
    Body(String),
    /// Headers and body disagree.
    #[error("headers name {headers} events, the body holds {body}")]
    Count {
        /// Entries in the headers.
        headers: usize,
        /// Events in the body.
        body: usize,
    },
    /// A header names another type than the body.
    #[error("header says {header}, the body says {body}")]
    TypeMismatch {
        /// Type in the header.
        header: String,
        /// Type in the body.
        body: String,
    },
    /// This build does not know the event.
    #[error("unknown event {name} in schema version {schema}")]
    Unknown {
        /// The event's type.
        name: String,
        /// Its schema version.
        schema: String,
    },
    /// The payload does not have the shape of its type and version.
    #[error("payload of {name} is malformed: {reason}")]
    Payload {
        /// The event's type.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

/// Types of [`PaymentEvent`].
const PAYMENT_TYPES: [&str; 39] = [
    "Submitted",
    "AddressFunded",
    "AuctionClosed",
    "SelectorAsked",
    "SelectorAnswered",
    "QuoteAwarded",
    "AwardLapsed",
    "AwardWithdrawn",
    "WinnerTold",
    "PayerTransactionSent",
    "DepositPrepared",
    "DepositRepriced",
    "DepositMined",
    "DepositAbandoned",
    "EscrowSecured",
    "AddressHeld",
    "EscrowOpened",
    "DepositRuledOut",
    "ReservationLapsed",
    "ReassignmentPrepared",
    "ReassignmentRepriced",
    "ReassignmentAbandoned",
    "EscrowReassigned",
    "FulfillmentSeen",
    "FulfillmentFinalized",
    "DeliveryAttested",
    "NonDeliveryAttested",
    "AttestationAwaited",
    "FulfillmentConfirmed",
    "AttestationMissed",
    "ReleasePrepared",
    "ReleaseRepriced",
    "ReleaseAbandoned",
    "EscrowReleased",
    "Failed",
    "RefundPrepared",
    "RefundRepriced",
    "RefundAbandoned",
    "EscrowRefunded",
];

/// Those of them that hold a [`TransactionPrepared`](crate::event::TransactionPrepared). In version 1 it had a number under
/// `nonce` where version 2 has a [`Validity`].
const TRANSACTION_TYPES: [&str; 8] = [
    "DepositPrepared",
    "DepositRepriced",
    "ReassignmentPrepared",
    "ReassignmentRepriced",
    "ReleasePrepared",
    "ReleaseRepriced",
    "RefundPrepared",
    "RefundRepriced",
];

/// Those of them that came later, and never had another form than that of version 2.
const BEGUN_IN_VERSION_2: [&str; 2] = ["ReassignmentPrepared", "ReassignmentRepriced"];

/// Types of [`QuoteRequestEvent`].
const QUOTE_REQUEST_TYPES: [&str; 3] = ["QuoteRequestOpened", "QuotesCollected", "QuoteRequestAwarded"];

/// Types of [`Mark`].
const MARK_TYPES: [&str; 1] = [Mark::MOVED];

/// Encodes the events of one commit in their current version.
///
/// # Errors
/// [`Error::Body`] when an event cannot be written as JSON, which no event of this crate can cause.
pub fn encode(events: &[Event]) -> Result<Encoded, Error> {
    let body = serde_json::to_vec(events).map_err(|error| Error::Body(error.to_string()))?;
    let join = |parts: Vec<String>| parts.join(",");
    Ok(Encoded {
        types: join(events.iter().map(|event| event.type_name().to_owned()).collect()),
        schemas: join(events.iter().map(|event| current_schema(event.type_name()).to_string()).collect()),
        body,
    })
}

/// Decodes the events of one stored commit, lifted to their current version.
///
/// # Errors
/// See [`Error`]; nothing is ever skipped.
pub fn decode(types: &str, schemas: &str, body: &[u8]) -> Result<Vec<Event>, Error> {
    match decode_current(types, schemas, body) {
        Some(events) => Ok(events),
        None => decode_any(types, schemas, body),
    }
}

/// The same for what needs no lifting, straight out of the bytes; `None` where that fails, and another way has to say why.
/// Streams are read again and again, and building a tree of values first takes longer than all the rest.
fn decode_current(types: &str, schemas: &str, body: &[u8]) -> Option<Vec<Event>> {
    // Once for all texts in it.
    let body = std::str::from_utf8(body).ok()?;
    let mut reader = serde_json::Deserializer::from_str(body);
    let events = reader.deserialize_seq(Current(types.split(',').zip(schemas.split(',')))).ok()?;
    reader.end().ok()?;
    let count = |list: &str| list.split(',').count();
    (count(types) == events.len() && count(schemas) == events.len()).then_some(events)
}

/// Reads an array of events in their current version, of which the types and versions are given.
struct Current<I>(I);

impl<'de, 'a, I: Iterator<Item = (&'a str, &'a str)>> de::Visitor<'de> for Current<I> {
    type Value = Vec<Event>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(mut self, mut bodies: A) -> Result<Vec<Event>, A::Error> {
        let mut events = Vec::new();
        for (name, schema) in &mut self.0 {
            let refused = || de::Error::custom("another way has to say why");
            if schema.parse() != Ok(current_schema(name)) {
                return Err(refused());
            }
            let event = if PAYMENT_TYPES.contains(&name) {
                bodies.next_element::<PaymentEvent>()?.map(Event::from)
            } else if QUOTE_REQUEST_TYPES.contains(&name) {
                bodies.next_element::<QuoteRequestEvent>()?.map(Event::from)
            } else {
                None
            };
            events.push(event.filter(|event| event.type_name() == name).ok_or_else(refused)?);
        }
        Ok(events)
    }
}

fn decode_any(types: &str, schemas: &str, body: &[u8]) -> Result<Vec<Event>, Error> {
    let values: Vec<Value> = serde_json::from_slice(body).map_err(|error| Error::Body(error.to_string()))?;
    let types: Vec<&str> = types.split(',').collect();
    let schemas: Vec<&str> = schemas.split(',').collect();
    if types.len() != values.len() || schemas.len() != values.len() {
        return Err(Error::Count { headers: types.len().min(schemas.len()), body: values.len() });
    }
    let entries = values.into_iter().zip(types.into_iter().zip(schemas));
    entries.map(|(value, (name, schema))| decode_one(value, name, schema)).collect()
}

fn decode_one(value: Value, name: &str, schema: &str) -> Result<Event, Error> {
    let stated = value.get("type").and_then(Value::as_str).unwrap_or_default();
    if stated != name {
        return Err(Error::TypeMismatch { header: name.to_owned(), body: stated.to_owned() });
    }
    let versions = first_schema(name)..=current_schema(name);
    let version: Option<u32> = schema.parse().ok().filter(|version| versions.contains(version));
    let unknown = || Error::Unknown { name: name.to_owned(), schema: schema.to_owned() };
    let malformed = |reason: String| Error::Payload { name: name.to_owned(), reason };
    let value = upcast(value, name, version.ok_or_else(unknown)?).map_err(malformed)?;
    let event = if PAYMENT_TYPES.contains(&name) {
        serde_json::from_value::<PaymentEvent>(value).map(Event::from)
    } else if QUOTE_REQUEST_TYPES.contains(&name) {
        serde_json::from_value::<QuoteRequestEvent>(value).map(Event::from)
    } else if MARK_TYPES.contains(&name) {
        serde_json::from_value::<Mark>(value).map(Event::from)
    } else {
        return Err(unknown());
    };
    event.map_err(|error| malformed(error.to_string()))
}

/// Lifts an event from `version` to [`current_schema`]. The step from n to n+1 of an event type is added here together
/// with its golden file.
///
/// # Errors
/// What the payload lacks for it.
fn upcast(mut value: Value, name: &str, version: u32) -> Result<Value, String> {
    if version == 1 && TRANSACTION_TYPES.contains(&name) {
        let data = value.get_mut("data").and_then(Value::as_object_mut).ok_or("it has no data")?;
        nonce_to_validity(data)?;
    }
    Ok(value)
}

/// Upcasts a prepared transaction from version 1 to 2: what its `nonce` was follows from its chain's family.
fn nonce_to_validity(data: &mut Map<String, Value>) -> Result<(), String> {
    let number = data.remove("nonce").as_ref().and_then(Value::as_u64).ok_or("its nonce is not a number")?;
    let chain_id = data.get("chain_id").and_then(Value::as_str).ok_or("it names no chain")?;
    let family = chain_id.parse::<ChainId>().ok().and_then(|chain_id| chain_id.family());
    let validity = match family.ok_or_else(|| format!("{chain_id:?} is of an unknown family"))? {
        Family::Evm => Validity::Nonce(number),
        Family::Solana => Validity::LastBlockHeight(number),
        Family::Tron => Validity::Expiration(number),
    };
    let validity = serde_json::to_value(validity).map_err(|error| error.to_string())?;
    data.insert("validity".to_owned(), validity);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Every event that was ever stored, and with many a byte gone or changed: either way comes to the same.
    #[test]
    fn both_ways_of_reading_agree() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let files = |version: &'static str| {
            let files = std::fs::read_dir(golden.join(format!("v{version}"))).unwrap();
            files.map(move |file| (version, file))
        };
        let (mut read, mut refused) = (0, 0);
        for (version, file) in files("1").chain(files("2")) {
            let body = std::fs::read(file.unwrap().path()).unwrap();
            let event: Value = serde_json::from_slice(&body).unwrap();
            let event = if event.is_array() { event[0].clone() } else { event };
            let name = event["type"].as_str().unwrap().to_owned();
            let body = serde_json::to_vec(&[&event, &event]).unwrap();
            let (types, schemas) = (format!("{name},{name}"), format!("{version},{version}"));
            let mut agree = |types: &str, schemas: &str, body: &[u8]| {
                let slow = decode_any(types, schemas, body);
                match decode_current(types, schemas, body) {
                    Some(events) => assert_eq!(Ok(events), slow, "{types} {}", String::from_utf8_lossy(body)),
                    None => refused += 1,
                }
                read += u32::from(slow.is_ok());
            };
            agree(&types, &schemas, &body);
            for (types, schemas) in
                [(&*name, version), (&types, "1,2"), (&types, "2,02"), ("Other,Failed", "1,1"), (&types, "1,1,1")]
            {
                agree(types, schemas, &body);
            }
            for at in (0..body.len()).step_by(29) {
                let mut without = body.clone();
                without.remove(at);
                agree(&types, &schemas, &without);
                for other in [b'"', b'0', b',', b'x'] {
                    let mut changed = body.clone();
                    changed[at] = other;
                    agree(&types, &schemas, &changed);
                }
            }
            let twice = String::from_utf8(body).unwrap().replace("\"data\":", "\"data\":{},\"data\":");
            agree(&types, &schemas, twice.as_bytes());
        }
        assert!(read > 1_000 && refused > 1_000, "{read} {refused}");
    }
}
