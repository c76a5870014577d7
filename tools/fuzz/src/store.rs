//! What lies in NATS: commits, checkpoints, ledgers, records of operators.

use async_nats::{HeaderMap, HeaderValue};
use chrono::{DateTime, Utc};
use events::StreamId;
use journal::{
    checkpoint::SignedCheckpoint,
    envelope::{Flat, StoredMessage, open, subject},
    operator_acts, parking,
};
use journal_jetstream::log::segment;

use crate::input::{choice, head};

const SHARD: u16 = 3;
/// Tokens of the subject of a payment or batch.
const SUBJECT_TOKENS: usize = 4;

fn at() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap_or_default()
}

/// A commit in its flat form, and the message with headers that says the same.
pub fn flat_commits(bytes: &[u8]) {
    let Ok(flat) = Flat::read(bytes) else { return };
    let opened = flat.open(SHARD, 7, at());
    if let Ok(recorded) = &opened {
        assert_eq!(recorded.position.hash, flat.hash(), "the hash is that of the flat form");
        assert_eq!(flat.stream_id(SHARD).ok().as_ref(), Some(&recorded.stream_id));
        assert_eq!((recorded.position.version, recorded.prev), (flat.version(), flat.prev()));
    }
    // The same lines as headers.
    let mut headers = Vec::new();
    let mut rest = bytes;
    let Some((subject, behind)) = head(rest) else { return };
    rest = behind;
    while let Some((line, behind)) = head(rest) {
        rest = behind;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name, value));
    }
    let message = StoredMessage { subject, sequence: 7, body: rest, stored_at: at() };
    let by_headers = open(SHARD, message, headers);
    assert_eq!(by_headers.is_ok(), opened.is_ok(), "{by_headers:?} {opened:?}");
    if let (Ok(one), Ok(other)) = (by_headers, opened) {
        assert_eq!(one.position, other.position, "one commit has one hash, in whatever form it is stored");
        assert_eq!(one.events, other.events);
    }
}

/// The smaller records: checkpoints, parked streams, acts of operators, nonces, budgets.
pub fn records(bytes: &[u8]) {
    let Some((kind, body)) = choice(bytes) else { return };
    match kind {
        b'c' => {
            if let Ok(signed) = SignedCheckpoint::parse(body) {
                let again = SignedCheckpoint::parse(&signed.to_json());
                assert_eq!(again.map(|again| again.checkpoint().clone()).as_ref(), Ok(signed.checkpoint()));
            }
        }
        b'p' => {
            let Some((id, body)) = head(body) else { return };
            let Ok(id) = id.parse::<StreamId>() else { return };
            let entry = parking::Entry::decode(&id, body);
            if let Ok(written) = entry.encode(&id) {
                assert_eq!(parking::Entry::decode(&id, &written), entry);
            }
        }
        b'o' => {
            let Some((id, body)) = head(body) else { return };
            let Ok(id) = id.parse() else { return };
            let entry = operator_acts::Entry::decode(&id, body);
            if let Ok(written) = entry.encode() {
                assert_eq!(operator_acts::Entry::decode(&id, &written), entry);
            }
        }
        b'l' => {
            if let Ok(entry) = journal::ledger::state::Entry::decode(body) {
                assert!(entry.open().windows(2).all(|pair| pair[0].nonce < pair[1].nonce));
                assert!(entry.encode().is_ok());
            }
        }
        b'b' => {
            if let Ok(entry) = journal::budget::state::Entry::decode(body) {
                assert!(entry.encode().is_ok());
            }
        }
        _ => {
            let Some((id, _)) = head(body) else { return };
            if let Ok(id) = id.parse::<StreamId>() {
                // An id is one token of its subject, whatever stands in it: no wildcard, and nothing that ends a token.
                let subject = subject(SHARD, &id);
                let tokens = subject.split('.').count();
                assert_eq!((tokens, subject.contains(['*', '>', ' '])), (SUBJECT_TOKENS, false), "{subject}");
            }
        }
    }
}

/// A segment of a shard's log: its commits are those that lie in it in their flat form.
pub fn segments(bytes: &[u8]) {
    let Some((commits, body)) = choice(bytes) else { return };
    let mut headers = HeaderMap::new();
    for (name, value) in [("Gw-First", 1), ("Gw-Commits", u64::from(commits)), ("Gw-Time", 1_800_000_000_000_000)] {
        headers.insert(name, HeaderValue::from(value));
    }
    let Ok(recorded) = segment::commits(SHARD, 9, headers, body.to_vec().into()) else { return };
    assert_eq!(recorded.len(), usize::from(commits));
    for (commit, sequence) in recorded.iter().zip(1..) {
        assert_eq!(commit.position.sequence, sequence);
        let hash = commit.position.hash;
        let is_there = (0..body.len())
            .filter(|at| body[*at..].starts_with(b"gw.evt."))
            .any(|at| (at..=body.len()).rev().any(|end| events::Hash32::sha256(&body[at..end]) == hash));
        assert!(is_there || body.len() > 1_024, "its flat form lies in the segment");
    }
}
