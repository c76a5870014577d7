//! Examination of one stream by itself: are these the messages that a gateway wrote, in the order in which it wrote them?

use events::{Event, Hash32, PaymentEvent, StreamId, event::Mark};
use journal::{Recorded, envelope};
use journal_jetstream::raw::RawMessage;
use sagas::{
    payment::{self, Payment},
    quote_request::{self, QuoteRequest},
};

use super::{Finding, JournalLocation, Severity, layout::Layout};

/// The state that a stream's events lead to.
#[derive(Debug, Clone)]
pub enum State {
    /// A payment.
    Payment(Box<Payment>),
    /// A quote-request batch.
    Batch(Box<QuoteRequest>),
}

/// What was found in one stream.
#[derive(Debug, Clone)]
pub struct Examined {
    /// Its subject.
    pub subject: String,
    /// The stream of JetStream that holds it.
    pub stream: String,
    /// Messages it has.
    pub messages: usize,
    /// The commits that could be read.
    pub commits: Vec<Recorded>,
    /// The state they lead to; `None` when a message could not be read or is not legal where it stands, and for a mark.
    pub state: Option<State>,
    /// Whether this is not a stream but the mark in the place of one that begins in a later epoch.
    pub is_mark: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Examined {
    /// The location of the whole stream.
    pub fn location(&self) -> JournalLocation {
        JournalLocation::stream(&self.stream, Some(&self.subject))
    }

    /// The location of the commit that holds an event of this type; the whole stream's without one.
    pub fn location_of(&self, event: &str) -> JournalLocation {
        self.location_where(|held| held.type_name() == event)
    }

    /// The location of the last commit that holds such an event; the whole stream's without one.
    pub fn location_where(&self, is: impl Fn(&Event) -> bool) -> JournalLocation {
        let commit = self.commits.iter().rev().find(|commit| commit.events.iter().any(&is));
        commit.map_or_else(|| self.location(), |commit| self.location_at(commit))
    }

    /// The events of the payment, each with the commit that holds it.
    pub fn payment_events(&self) -> impl Iterator<Item = (&Recorded, &PaymentEvent)> {
        self.commits.iter().flat_map(|commit| commit.payment_events().map(move |event| (commit, event)))
    }

    /// The location of a commit of the stream.
    pub fn location_at(&self, commit: &Recorded) -> JournalLocation {
        JournalLocation::at(&self.stream, commit.position.sequence, Some(&self.subject))
    }
}

/// Checks the messages of `subject`, which is in `shard`: envelopes, hash chain, versions, events, and that each event may
/// follow those before it. Whether the stream lies in other epochs too is not looked at.
pub fn examine(layout: &Layout, shard: u16, subject: &str, messages: &[RawMessage]) -> Examined {
    let stream = envelope::stream(shard);
    let mut examined = Examined {
        subject: subject.to_owned(),
        stream: stream.clone(),
        messages: messages.len(),
        commits: Vec::with_capacity(messages.len()),
        state: None,
        is_mark: false,
        findings: Vec::new(),
    };
    let whole = JournalLocation::stream(&stream, Some(subject));
    let Ok(stream_id) = envelope::stream_of(shard, subject) else {
        let what = "the subject is not that of a payment or batch of this shard";
        examined.findings.push(Finding::new(Severity::Tampered, "subject", whole, what));
        return examined;
    };
    let epoch = layout.epochs().of_shard(shard);
    if let Some(own) = epoch.map(|epoch| epoch.shard_of(&stream_id)).filter(|own| *own != shard) {
        let what = format!("{stream_id} belongs into shard {own}, not {shard}");
        examined.findings.push(Finding::new(Severity::Tampered, "shard", whole.clone(), what));
    }
    if messages.is_empty() {
        examined.findings.push(Finding::new(Severity::Missing, "stream", whole, "there are no messages"));
        return examined;
    }
    let mut before: Option<&RawMessage> = None;
    for message in messages {
        link(&mut examined, before, message);
        before = Some(message);
        match open(shard, message) {
            Ok(commit) => examined.commits.push(commit),
            Err(error) => {
                let location = JournalLocation::message(message);
                examined.findings.push(Finding::new(Severity::Tampered, "envelope", location, error.to_string()));
            }
        }
    }
    if examined.commits.len() == messages.len() {
        fold(&mut examined, &stream_id);
    }
    check_marks(&mut examined, layout, epoch.map_or(0, |epoch| epoch.number));
    examined
}

/// Whether the message is a mark. That it stands alone, as a mark must, is checked where it is examined.
pub fn is_mark(shard: u16, message: &RawMessage) -> bool {
    open(shard, message).is_ok_and(|commit| commit.is_moved())
}

/// A mark is the only event of the only commit of its subject, and points to a later epoch.
fn check_marks(examined: &mut Examined, layout: &Layout, epoch: u16) {
    let marks = |commit: &Recorded| commit.events.iter().any(|event| matches!(event, Event::Mark(_)));
    let Some(commit) = examined.commits.iter().find(|commit| marks(commit)) else { return };
    let location = JournalLocation::at(&examined.stream, commit.position.sequence, Some(&examined.subject));
    let mut found = |what: String| {
        examined.findings.push(Finding::new(Severity::Contradiction, "mark", location.clone(), what));
    };
    match &commit.events[..] {
        [Event::Mark(Mark::Moved(moved))] if examined.messages == 1 => {
            if moved.to_epoch <= epoch || usize::from(moved.to_epoch) >= layout.epochs().all().len() {
                found(format!("a mark in epoch {epoch} points to epoch {}", moved.to_epoch));
            }
            examined.is_mark = true;
        }
        _ => found("a mark stands in the place of a stream, and there is more than the mark".to_owned()),
    }
}

fn open(shard: u16, message: &RawMessage) -> Result<Recorded, envelope::Error> {
    message.envelope()?.open(shard, message.sequence, &message.body, message.stored_at)
}

/// Checks that `message` is the successor of `before`.
fn link(examined: &mut Examined, before: Option<&RawMessage>, message: &RawMessage) {
    let Ok(envelope) = message.envelope() else { return };
    let (hash, sequence) = before.map_or((Hash32::ZERO, 0), |before| (before.hash(), before.sequence));
    let version = before.map_or(Some(0), |before| before.envelope().ok().map(|envelope| envelope.version));
    let mut found =
        |severity, check, location, what: String| examined.findings.push(Finding::new(severity, check, location, what));
    if let Some(version) = version
        && envelope.version != version + 1
    {
        let what = format!("version {} where {} belongs", envelope.version, version + 1);
        found(Severity::Missing, "version", JournalLocation::message(message), what);
    }
    if envelope.prev != hash {
        // The message before is what its successor no longer knows; without one, it is the first that claims another.
        let (location, what) = match before {
            Some(before) => (
                JournalLocation::message(before),
                format!("the message hashes to {hash}, its successor #{} has {}", message.sequence, envelope.prev),
            ),
            None => {
                (JournalLocation::message(message), format!("the first message names a predecessor, {}", envelope.prev))
            }
        };
        found(Severity::Tampered, "hash-chain", location, what);
    }
    let expected = message.header("Nats-Expected-Last-Subject-Sequence");
    if expected.is_some_and(|expected| expected != sequence.to_string()) {
        let what =
            format!("it was written behind sequence {}, and stands behind {sequence}", expected.unwrap_or_default());
        found(Severity::Tampered, "position", JournalLocation::message(message), what);
    }
}

fn fold(examined: &mut Examined, stream_id: &StreamId) {
    let illegal = |commit: &Recorded, error: payment::IllegalTransition| {
        let location = JournalLocation::at(&examined.stream, commit.position.sequence, Some(&examined.subject));
        Finding::new(Severity::Contradiction, "transition", location, error.to_string())
    };
    let (mut a_payment, mut a_batch) = (None, None);
    for commit in &examined.commits {
        for event in &commit.events {
            let folded = match event {
                Event::Payment(event) => payment::evolve(a_payment.take(), event).map(|state| a_payment = Some(state)),
                Event::QuoteRequest(event) => {
                    quote_request::evolve(a_batch.take(), event).map(|state| a_batch = Some(state))
                }
                // What it may stand beside is a rule of its own.
                Event::Mark(_) => Ok(()),
            };
            if let Err(error) = folded {
                let finding = illegal(commit, error);
                examined.findings.push(finding);
                return;
            }
        }
    }
    examined.state = match stream_id {
        StreamId::Payment(_) => a_payment.map(|payment| State::Payment(Box::new(payment))),
        StreamId::QuoteRequest(_) => a_batch.map(|batch| State::Batch(Box::new(batch))),
    };
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use events::{
        CommitId, PaymentId,
        event::{Moved, TransactionAbandoned},
    };
    use journal::{Commit, Position, envelope::EncodedCommit};

    use super::*;
    use crate::layout;

    /// An event that is not a legal beginning.
    pub(crate) fn abandoned(attempt: u32) -> Event {
        let abandoned_at = "2026-01-02T03:04:05Z".parse().unwrap();
        let event = TransactionAbandoned { attempt, evidence: "nonce consumed".into(), abandoned_at };
        PaymentEvent::DepositAbandoned(event).into()
    }

    /// Three commits of one payment as they would be stored. The events are not a legal history, which is what comes last.
    fn messages() -> (StreamId, Vec<RawMessage>) {
        let stream_id = StreamId::from(PaymentId::derive("eip155:0xabc", "order-1"));
        let shard = stream_id.shard(8);
        let mut expected = Position::START;
        let mut messages = Vec::new();
        for n in 1..=3u32 {
            let commit = Commit {
                stream_id: stream_id.clone(),
                expected,
                commit_id: CommitId::from_stored(format!("cmt{n}")),
                events: vec![abandoned(n)],
                correlation: "req".into(),
                causation: "req".into(),
            };
            let encoded = EncodedCommit::new(&commit, shard).unwrap();
            let headers = encoded.headers(expected.sequence);
            let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), vec![value]));
            messages.push(RawMessage {
                stream: envelope::stream(shard),
                sequence: u64::from(n) * 10,
                subject: encoded.envelope.subject.clone(),
                headers: headers.collect::<BTreeMap<_, _>>(),
                body: encoded.body.clone(),
                stored_at: "2026-01-02T03:04:05Z".parse().unwrap(),
            });
            expected = Position { shard, version: u64::from(n), sequence: u64::from(n) * 10, hash: encoded.hash };
        }
        (stream_id, messages)
    }

    fn found(messages: &[RawMessage]) -> Vec<(String, Option<u64>)> {
        let (id, _) = self::messages();
        let shard = id.shard(8);
        let subject = envelope::subject(shard, &id);
        let examined = examine(&Layout::one(8), shard, &subject, messages);
        examined.findings.into_iter().map(|finding| (finding.check, finding.location.sequence)).collect()
    }

    #[test]
    fn only_the_illegal_history_is_found_in_untouched_messages() {
        assert_eq!(found(&messages().1), [("transition".to_owned(), Some(10))]);
        assert_eq!(found(&[]), [("stream".to_owned(), None)]);
    }

    /// The stream of these messages, and a message of it with this event, as it would be stored in `shard` behind `expected`.
    pub(crate) fn stored(shard: u16, expected: Position, event: Event) -> (StreamId, RawMessage) {
        let (stream_id, mut messages) = messages();
        let commit = Commit {
            stream_id: stream_id.clone(),
            expected,
            commit_id: CommitId::random(),
            events: vec![event],
            correlation: "req".into(),
            causation: "req".into(),
        };
        let encoded = EncodedCommit::new(&commit, shard).unwrap();
        let mut message = messages.remove(0);
        let headers = encoded.headers(expected.sequence);
        message.headers = headers.into_iter().map(|(name, value)| (name.to_owned(), vec![value])).collect();
        (message.stream, message.subject) = (envelope::stream(shard), encoded.envelope.subject);
        (message.sequence, message.body) = (expected.sequence + 1, encoded.body);
        (stream_id, message)
    }

    #[test]
    fn a_mark_stands_alone_and_points_to_a_later_epoch() {
        let runs = [0, 1].map(|number| layout::Run { number, first: number, shards: 1 });
        let layout = Layout::new(&runs, [].into()).unwrap();
        let mark = |to_epoch| Event::Mark(Mark::Moved(Moved { to_epoch }));
        let stored = |expected, event| stored(0, expected, event).1;
        let behind =
            |message: &RawMessage| Position { shard: 0, version: 1, sequence: message.sequence, hash: message.hash() };
        let found = |messages: &[RawMessage], check: &str| {
            let examined = examine(&layout, 0, &messages[0].subject, messages);
            (examined.is_mark, examined.findings.iter().any(|finding| finding.check == check))
        };
        let (alone, begun) = (stored(Position::START, mark(1)), stored(Position::START, abandoned(1)));
        assert_eq!(found(std::slice::from_ref(&alone), "mark"), (true, false));
        assert!(is_mark(0, &alone) && !is_mark(0, &begun) && !is_mark(1, &alone));
        for to_epoch in [0, 2] {
            assert_eq!(found(&[stored(Position::START, mark(to_epoch))], "mark"), (true, true), "{to_epoch}");
        }
        let followed = [alone.clone(), stored(behind(&alone), abandoned(2))];
        assert_eq!(found(&followed, "mark"), (false, true));
        let following = [begun.clone(), stored(behind(&begun), mark(1))];
        assert_eq!(found(&following, "mark"), (false, true));
        let mut combined = alone;
        for (name, value) in [("Gw-Type", "DepositAbandoned,StreamMoved"), ("Gw-Schema", "1,1")] {
            combined.headers.insert(name.into(), vec![value.into()]);
        }
        let bodies = [&begun.body, &combined.body].map(|body| serde_json::from_slice::<Vec<Value>>(body).unwrap());
        combined.body = serde_json::to_vec(&bodies.concat()).unwrap().into();
        assert_eq!(found(&[combined], "envelope"), (false, true));
    }

    #[test]
    fn every_byte_that_is_altered_is_found_in_its_own_message() {
        let (_, whole) = messages();
        for byte in 0..whole[1].body.len() {
            let mut altered = whole.clone();
            let mut body = altered[1].body.to_vec();
            body[byte] ^= 1;
            altered[1].body = body.into();
            let found = found(&altered);
            assert!(found.contains(&("hash-chain".to_owned(), Some(20))), "byte {byte}: {found:?}");
        }
        for name in ["Gw-Type", "Gw-Schema", "Gw-Correlation", "Gw-Causation", "Nats-Msg-Id"] {
            let mut altered = whole.clone();
            altered[1].headers.get_mut(name).unwrap()[0].push('1');
            assert!(found(&altered).contains(&("hash-chain".to_owned(), Some(20))), "{name}");
        }
    }

    #[test]
    fn messages_that_are_left_out_swapped_or_doubled_are_found() {
        let (_, whole) = messages();
        let checks = |messages: &[RawMessage]| found(messages).into_iter().map(|(check, _)| check).collect::<Vec<_>>();
        assert!(checks(&[whole[0].clone(), whole[2].clone()]).contains(&"version".to_owned()));
        assert!(checks(&whole[1..]).contains(&"hash-chain".to_owned()));
        let mut doubled = whole.clone();
        doubled.insert(1, RawMessage { sequence: 15, ..whole[0].clone() });
        assert!(checks(&doubled).contains(&"version".to_owned()));
        let mut foreign = whole.clone();
        foreign[1].headers.insert("Nats-Expected-Last-Subject-Sequence".into(), vec!["9".into()]);
        assert_eq!(found(&foreign)[0], ("position".to_owned(), Some(20)));
        let mut bare = whole;
        bare[1].headers.remove("Gw-Prev");
        assert!(found(&bare).contains(&("envelope".to_owned(), Some(20))));
    }
}
