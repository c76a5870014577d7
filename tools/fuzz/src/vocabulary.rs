//! Amounts, times, events and quotes: the texts that everything else holds.

use app::request::fields::date_time;
use events::{
    Amount, Event,
    codec::{self, Encoded},
    json::UniqueValue,
    payload::Payload,
    quote::{self, SignedQuote},
    time::{from_unix_seconds, unix_seconds},
};
use serde_json::Value;

use crate::input::{Parts, head, text};

/// Amounts and times as they stand in bodies and quotes.
pub fn amounts_and_times(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(amount) = text.parse::<Amount>() {
        assert_eq!(amount.to_string(), text, "an amount has one text");
        assert_eq!(Amount::new(amount.get()), Some(amount));
        assert_eq!(amount.within(64).is_ok(), text.parse::<u64>().is_ok(), "{text}");
        let json = serde_json::to_string(&amount).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Amount>(&json).ok(), Some(amount));
    }
    if let Ok(at) = date_time(text) {
        let written = at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
        // Beyond the year 9999 RFC 3339 has no text.
        if !written.starts_with(['+', '-']) {
            assert_eq!(date_time(&written), Ok(at), "{text} is {written}");
        }
        assert!(text.is_ascii(), "{text} is no RFC 3339");
        let floored = from_unix_seconds(unix_seconds(at));
        assert!(floored.is_some_and(|floored| floored <= at.max(chrono::DateTime::UNIX_EPOCH)), "{text}");
    }
    let mut parts = Parts(bytes);
    if let Some(at) = from_unix_seconds(parts.number()) {
        assert_eq!(from_unix_seconds(unix_seconds(at)), Some(at));
    }
}

/// A stored commit's events: two header lines and the body.
pub fn event_codec(bytes: &[u8]) {
    let Some((types, rest)) = head(bytes) else { return };
    let Some((schemas, body)) = head(rest) else { return };
    match codec::decode(types, schemas, body) {
        Ok(events) => {
            assert_eq!(types.split(',').count(), events.len());
            let Ok(Encoded { types: current, schemas, body }) = codec::encode(&events) else {
                panic!("what was stored cannot be stored again: {events:?}");
            };
            assert_eq!(types, current, "the types stay");
            // What was lifted is read as the same for ever after.
            assert_eq!(codec::decode(&current, &schemas, &body).as_ref(), Ok(&events));
            assert_eq!(codec::encode(&events).map(|encoded| encoded.body).as_ref(), Ok(&body));
            let names: Vec<_> = events.iter().map(Event::type_name).collect();
            assert_eq!(names.join(","), types);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A signed quote as settlers send it, and the form under which its hash is committed on chain.
pub fn quotes(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let canonical = quote::canonical(text);
    match SignedQuote::parse(text) {
        Ok(signed) => {
            let Ok(canonical) = canonical else { panic!("a quote that holds has no canonical form") };
            assert_eq!(canonical.sha256(), signed.hash().0);
            // Another spelling of the same document has the same hash, and holds as well.
            let Ok(value) = serde_json::from_str::<Value>(text) else { panic!("a quote is JSON") };
            for respelled in [value.to_string(), format!("{value:#}")] {
                match SignedQuote::parse(&respelled) {
                    Ok(again) => assert_eq!((again.hash(), again.quote()), (signed.hash(), signed.quote())),
                    Err(quote::Error::TooLarge) => {}
                    Err(error) => panic!("respelled it does not hold: {error}"),
                }
            }
            assert_eq!(SignedQuote::parse_stored(text).map(|stored| stored.hash()), Ok(signed.hash()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A quote's canonical form, whoever signed it: one form for one document, in whatever order and spelling its members are.
pub fn quote_canonical(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(canonical) = quote::canonical(text) else { return };
    let Ok(value) = serde_json::from_str::<Value>(text) else { panic!("a document with a canonical form is JSON") };
    let again = quote::canonical(&format!("{value:#}"));
    assert!(again.is_err() || again.is_ok_and(|again| again.as_str() == canonical.as_str()), "another spelling");
    let lines: Vec<_> = canonical.as_str().lines().collect();
    assert!(lines.is_sorted() && lines.iter().all(|line| line.ends_with(" .")), "canonical N-Quads are sorted");
    // The same without a proof.
    if let Value::Object(mut members) = value {
        members.remove("proof");
        let without = quote::canonical(&Value::Object(members).to_string());
        assert!(without.is_ok_and(|without| without.as_str() == canonical.as_str()), "the proof is in the form");
    }
}

/// JSON of which no object repeats a key, and the payloads that are cut out of a body as they stand.
pub fn json(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let unique = serde_json::from_str::<UniqueValue>(text).map(UniqueValue::into_inner);
    if let Ok(value) = &unique {
        assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(value), "one document for every reader");
        let written = value.to_string();
        assert_eq!(
            serde_json::from_str::<UniqueValue>(&written).map(UniqueValue::into_inner).ok().as_ref(),
            Some(value)
        );
    }
    let payloads = Payload::of_request(text);
    for payload in &payloads {
        let read = serde_json::from_str::<Box<serde_json::value::RawValue>>(payload.as_str());
        assert!(read.is_ok(), "{payload:?} is JSON");
        let json = serde_json::to_string(payload).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Payload>(&json).ok().as_ref(), Some(payload), "compact stays compact");
    }
    let reduced = Payload::reduced(text);
    if !reduced.is_empty() {
        assert_eq!(Payload::of_request(&reduced), payloads, "what is kept of a body is its payloads");
    }
}
