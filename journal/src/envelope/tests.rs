//! Envelope: encoding, hash, damaged headers, and what can never be stored.

use events::{
    PaymentEvent, PaymentId, QuoteRequestId,
    event::{Moved, TransactionAbandoned},
};

use super::*;
use crate::{Commit, Position};

fn pairs<'a>(headers: &'a [(&'static str, String)]) -> impl Iterator<Item = (&'a str, &'a str)> {
    headers.iter().map(|(name, value)| (*name, value.as_str()))
}

fn abandoned(evidence: String) -> Event {
    let abandoned_at = "2026-01-02T03:04:05Z".parse().unwrap();
    PaymentEvent::DepositAbandoned(TransactionAbandoned { attempt: 1, evidence, abandoned_at }).into()
}

fn commit() -> Commit {
    Commit {
        stream_id: PaymentId::derive("eip155:0xabc", "order-1").into(),
        expected: Position { shard: 3, version: 1, sequence: 7, hash: Hash32([0x11; 32]) },
        commit_id: CommitId::from_stored("cmt1"),
        events: vec![abandoned("nonce consumed".into())],
        correlation: "req 1\r\nGw-Prev: 0x00".into(),
        causation: "cmt0".into(),
    }
}

#[test]
fn hash_of_a_known_message_never_changes() {
    // The same by hand: { printf '%s\n' "$subject" … ""; printf '%s' "$body"; } | sha256sum
    let encoded = EncodedCommit::new(&commit(), 3).unwrap();
    assert_eq!(encoded.hash.to_string(), "0x322e2f7041113e618c5d0bd1f019916b384c691498ecafb03f8152f4bccdd7cf");
}

#[test]
fn labels_cannot_break_out_of_their_header() {
    let encoded = EncodedCommit::new(&commit(), 3).unwrap();
    assert_eq!(encoded.envelope.correlation, "req_1__Gw-Prev:_0x00");
    assert_eq!(label(&"é".repeat(1000)), "_".repeat(LABEL_CHARS_MAX));
}

#[test]
fn envelope_survives_its_headers() {
    let encoded = EncodedCommit::new(&commit(), 3).unwrap();
    let headers: Vec<_> = encoded.headers(7).collect();
    let read = Envelope::read(&encoded.envelope.subject, pairs(&headers)).unwrap();
    assert_eq!(read, encoded.envelope);
    assert_eq!(read.hash(&encoded.body), encoded.hash);
}

#[test]
fn damaged_headers_are_named() {
    let encoded = EncodedCommit::new(&commit(), 3).unwrap();
    let read = |name: &'static str, value: &str, is_added: bool| {
        let mut headers: Vec<_> = encoded.headers(7).collect();
        headers.retain(|(kept, _)| is_added || *kept != name);
        headers.push((name, value.to_owned()));
        Envelope::read(&encoded.envelope.subject, pairs(&headers))
    };
    let upper = format!("0x{}", "AB".repeat(32));
    let versions = ["", "02", "0", "+2", "-1", "2 ", "18446744073709551616"].map(|text| (VERSION, text));
    let hashes = ["", "0xAB", "ab", &upper].map(|text| (PREV, text));
    for (name, value) in versions.into_iter().chain(hashes) {
        let reason = if name == VERSION { "is not a version" } else { "is not a hash" };
        assert_eq!(read(name, value, false), Err(Error::Header { name, reason }), "{value}");
    }
    let twice = Err(Error::Header { name: PREV, reason: "stands twice" });
    assert_eq!(read(PREV, "0x00", true), twice);
    let none = Envelope::read("gw.evt.03.x", []);
    assert_eq!(none, Err(Error::Header { name: TYPE, reason: "is missing" }));
}

#[test]
fn what_can_never_be_stored_is_refused() {
    let encoded = |change: &dyn Fn(&mut Commit)| {
        let mut commit = commit();
        change(&mut commit);
        EncodedCommit::new(&commit, 3).err()
    };
    assert_eq!(encoded(&|commit| commit.events.clear()), Some(Error::Empty));
    assert!(matches!(encoded(&|commit| commit.expected.sequence = 0), Some(Error::Malformed(_))));
    assert!(matches!(encoded(&|commit| commit.commit_id = CommitId::from_stored("a\nb")), Some(Error::Malformed(_))));
    let large = encoded(&|commit| commit.events[0] = abandoned("x".repeat(COMMIT_BYTES_MAX)));
    assert!(matches!(large, Some(Error::TooLarge { .. })));
    let foreign = encoded(&|commit| commit.stream_id = QuoteRequestId::derive("a", "b").into());
    assert_eq!(foreign, Some(Error::Kind("DepositAbandoned")));
    let mark: Event = Mark::Moved(Moved { to_epoch: 1 }).into();
    assert_eq!(encoded(&|commit| commit.events = vec![mark.clone()]), None);
    let mixed = encoded(&|commit| commit.events.push(mark.clone()));
    assert_eq!(mixed, Some(Error::Kind("StreamMoved")));
}

#[test]
fn a_foreign_subject_is_no_stream() {
    let id = StreamId::from(PaymentId::derive("a", "b"));
    for id in [&id, &QuoteRequestId::derive("a", "b").into()] {
        assert_eq!(stream_of(3, &subject(3, id)).as_ref(), Ok(id));
    }
    for foreign in [subject(4, &id), format!("gw.evt.03.{id}.x"), "gw.evt.03.".to_owned(), "gw.sig.x".to_owned()] {
        assert!(stream_of(3, &foreign).is_err(), "{foreign}");
    }
    for shard in ["3", "003", "+3", "", "0x3"] {
        assert!(stream_of(3, &format!("gw.evt.{shard}.{id}")).is_err(), "{shard}");
    }
    for shard in [0, 99, 100, 255] {
        assert_eq!(stream_of(shard, &subject(shard, &id)).as_ref(), Ok(&id));
    }
}

#[test]
fn the_flat_form_is_what_is_hashed_and_says_the_same_commit() {
    let (commit, at) = (commit(), "2026-01-02T03:04:05Z".parse().unwrap());
    let encoded = EncodedCommit::new(&commit, 3).unwrap();
    let text = [encoded.flat_head().as_bytes(), &encoded.body].concat();
    assert_eq!(Hash32::sha256(&text), encoded.hash);
    let flat = Flat::read(&text).unwrap();
    assert_eq!((flat.version(), flat.prev(), flat.hash()), (2, commit.expected.hash, encoded.hash));
    assert_eq!(flat.stream_id(3), Ok(commit.stream_id.clone()));
    assert_eq!(flat.open(3, 8, at), Ok(encoded.recorded(&commit, 8, at)));
    assert!(flat.stream_id(4).is_err() && flat.open(4, 8, at).is_err());
}

#[test]
fn a_damaged_flat_form_is_told() {
    let encoded = EncodedCommit::new(&commit(), 3).unwrap();
    let text = [encoded.flat_head().as_bytes(), &encoded.body].concat();
    let head = text.len() - encoded.body.len();
    for end in 0..head {
        assert!(Flat::read(&text[..end]).is_err(), "cut at {end}");
    }
    let text = String::from_utf8(text).unwrap();
    for (good, bad) in [("Gw-Type:", "Gw-Typ:"), ("Gw-Version:2", "Gw-Version:02"), ("\n\n", "\nGw-Prev:0x\n\n")] {
        assert!(Flat::read(text.replacen(good, bad, 1).as_bytes()).is_err(), "{bad}");
    }
    let lines: Vec<&str> = text.split('\n').collect();
    for first in 1..7 {
        let mut swapped = lines.clone();
        swapped.swap(first, first + 1);
        assert!(Flat::read(swapped.join("\n").as_bytes()).is_err(), "lines {first} and the next");
    }
}
