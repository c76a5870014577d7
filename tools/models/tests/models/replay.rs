//! What the models hold is gone through again by the code: walks of the payment model by `decide`, `evolve`, the codec and the journal
//! in memory, walks of the journal's model by that.

use std::{
    collections::BTreeSet,
    pin::pin,
    task::{Context, Poll, Waker},
};

use events::{CommitId, Event, PaymentEvent, StreamId};
use journal::{AppendError, Commit, Position, Recorded, StreamStore, memory::MemoryJournal};
use models::{
    journal::{self as journal_model, Journals, Store, server::Body, writer::Outcome},
    payment::{self, Payments, checks, engine::Engine, walk::Walk},
};
use sagas::payment::{Stage, decide, evolve, fold};
use stateright::Model;

/// What the journal in memory does at once is done.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("the journal in memory waits for nothing"),
    }
}

fn commit(stream_id: &StreamId, number: usize, expected: Position, events: &[PaymentEvent]) -> Commit {
    Commit {
        stream_id: stream_id.clone(),
        expected,
        commit_id: CommitId::from_stored(format!("commit-{number}")),
        events: events.iter().cloned().map(Event::from).collect(),
        correlation: "models".to_owned(),
        causation: "models".to_owned(),
    }
}

/// Each walk's commits are decided and folded anew, stored, and read back as what the model says the journal is.
#[test]
fn walks_of_the_model_are_ways_of_the_engine_and_of_the_store() {
    let mut ends = BTreeSet::new();
    for config in checks::ordinary().into_iter().chain(checks::large()) {
        let name = config.name;
        let model = Payments::new(config).unwrap();
        let documents = &model.engine.documents;
        for seed in 1..=80 {
            let walk = Walk::of(&model, seed);
            let journal = MemoryJournal::new(4);
            let stream_id = StreamId::from(documents.submitted.payment_id.clone());
            let first = PaymentEvent::Submitted(Box::new(documents.submitted.clone()));
            let mut payment = fold([&first]).unwrap().unwrap();
            let mut at = now(journal.append(&commit(&stream_id, 0, Position::START, &[first]))).unwrap().position;
            for (number, stored) in walk.commits.iter().enumerate() {
                let events = decide(&payment, stored.command.of(&payment, documents)).unwrap();
                assert!(!events.is_empty(), "{name} {seed}: {:?} records nothing", stored.command);
                for event in &events {
                    payment = evolve(Some(payment), event).unwrap();
                }
                assert_eq!(payment, *model.engine.payment(stored.to), "{name} {seed}: {:?}", stored.command);
                let commit = commit(&stream_id, number + 1, at, &events);
                let recorded = now(journal.append(&commit)).unwrap();
                // Whoever decided on the same state comes too late, and the same commit again is the same.
                let late = Commit { commit_id: CommitId::from_stored("late".to_owned()), ..commit.clone() };
                assert!(matches!(now(journal.append(&late)), Err(AppendError::Conflict)));
                assert_eq!(now(journal.append(&commit)).unwrap().position, recorded.position);
                at = recorded.position;
            }
            let loaded = now(journal.load(&stream_id)).unwrap();
            assert_eq!(loaded.len(), walk.commits.len() + 1);
            let read = fold(loaded.iter().flat_map(Recorded::payment_events)).unwrap().unwrap();
            assert_eq!(read, *model.engine.payment(walk.last.journal), "{name} {seed}");
            assert_eq!(read.stage(), Stage::Rest, "{name} {seed}");
            ends.insert((read.released.is_some(), read.refunded.is_some(), read.failed.is_some()));
        }
    }
    // Released; refunded after a failure, and after a completion; failed with nothing in escrow.
    let all = [(false, false, true), (false, true, false), (false, true, true), (true, false, false)];
    assert!(all.iter().all(|end| ends.contains(end)), "{ends:?}");
}

/// What the engine may record and the models do not lead to.
const NOT_MODELLED: [&str; 6] = [
    // The payer names a selector.
    "SelectorAsked",
    "SelectorAnswered",
    // A better paid version of a transaction has the same effect.
    "DepositRepriced",
    "ReassignmentRepriced",
    "ReleaseRepriced",
    "RefundRepriced",
];

#[test]
fn the_models_record_all_that_the_engine_may_but_what_is_named() {
    let mut recorded = BTreeSet::from(["Submitted"]);
    for config in checks::ordinary().into_iter().chain(checks::large()) {
        let model = Payments::new(config).unwrap();
        (1..=700).for_each(|seed| drop(Walk::of(&model, seed)));
        recorded.extend(types(&model.engine));
        assert_eq!(model.engine.faults(), Vec::<String>::new());
    }
    let missing: Vec<_> = NOT_MODELLED.iter().filter(|name| recorded.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?} are modelled");
    assert_eq!(recorded.len() + NOT_MODELLED.len(), 37, "{recorded:?}");
}

fn types(engine: &Engine) -> BTreeSet<&'static str> {
    engine.steps().iter().flat_map(|step| &step.events).map(PaymentEvent::type_name).collect()
}

/// Walks of the journal's model by the journal in memory: what the server stores there is stored here in the same order, and who is told
/// of a conflict there has one here.
#[test]
fn walks_of_the_journal_are_ways_of_the_journal_in_memory() {
    let documents = Payments::new(payment::config::Config::CALM).unwrap().engine;
    let submitted = PaymentEvent::Submitted(Box::new(documents.documents.submitted.clone()));
    let mut seen = BTreeSet::new();
    for config in journal_model::checks::ordinary().into_iter().chain(journal_model::checks::large()) {
        let model = Journals { config };
        for seed in 1..=60 {
            let memory = MemoryJournal::new(1);
            let stream_id = |stream: u8| StreamId::from(events::PaymentId::derive("models", &stream.to_string()));
            let commit_of = |writer: u8, number: u8, expected: Position| {
                let stream = stream_id(model.config.writers[usize::from(writer)].1);
                let id = usize::from(writer) * 2 + usize::from(number);
                commit(&stream, id, expected, std::slice::from_ref(&submitted))
            };
            let mut is_begun = false;
            for (before, after) in walk(&model, seed) {
                if after.is_begun && !std::mem::replace(&mut is_begun, true) {
                    memory.rotate(1);
                }
                if after.shards[0].sealed.is_some() && before.shards[0].sealed.is_none() {
                    memory.seal(0);
                }
                // What the server has stored in this step, in order; the marks are the store's own.
                for (old, new) in before.shards.iter().zip(&after.shards) {
                    for message in &new.log[old.log.len()..] {
                        if let Body::Commit(version) = message.body {
                            let loaded = now(memory.load(&stream_id(message.stream))).unwrap();
                            let expected = loaded.last().map_or(Position::START, |last| last.position);
                            let commit = commit_of(message.id / 2, message.id % 2, expected);
                            let recorded = now(memory.append(&commit)).unwrap();
                            assert_eq!(recorded.position.version, u64::from(version));
                            seen.insert("stored");
                        }
                    }
                }
                for (index, (old, new)) in before.writers.iter().zip(&after.writers).enumerate() {
                    let writer = index as u8;
                    for number in 0..2 {
                        let place = usize::from(number);
                        if old.outcomes[place] == new.outcomes[place] {
                            continue;
                        }
                        let stream = stream_id(model.config.writers[index].1);
                        let loaded = now(memory.load(&stream)).unwrap();
                        let expected = match number {
                            0 => Position::START,
                            _ => loaded[0].position,
                        };
                        let answer = |commit: &Commit| now(memory.append(commit));
                        match new.outcomes[place] {
                            Outcome::Stored => {
                                let recorded = answer(&commit_of(writer, number, expected)).unwrap();
                                assert_eq!(recorded.position.version, u64::from(number) + 1);
                                seen.insert("acknowledged");
                            }
                            Outcome::Conflict => {
                                let refused = answer(&commit_of(writer, number, expected));
                                assert!(matches!(refused, Err(AppendError::Conflict)), "{refused:?}");
                                seen.insert("conflict");
                            }
                            Outcome::Open | Outcome::Unavailable | Outcome::Unknown => {}
                        }
                    }
                }
            }
        }
    }
    assert_eq!(seen, BTreeSet::from(["acknowledged", "conflict", "stored"]));
}

/// A walk of a seed: each step with the state before and behind it.
fn walk(model: &Journals, seed: u64) -> Vec<(Store, Store)> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut store = model.init_states().remove(0);
    let mut steps = Vec::new();
    for _ in 0..60 {
        let mut next = model.next_states(&store);
        if next.is_empty() {
            break;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chosen = next.swap_remove((random >> 33) as usize % next.len());
        steps.push((store, chosen.clone()));
        store = chosen;
    }
    steps
}
