//! What holds of the journal in every state, what has to happen in some, and which bounds are visited.

use stateright::Property;

use super::{
    Journals, Store,
    config::{Config, Variant},
    server::Body,
    times_stored, told,
    writer::Outcome,
};

type Holds = fn(&Journals, &Store) -> bool;

/// Names of properties that tests ask for.
pub mod names {
    /// One claim.
    pub const ONE_CLAIM: &str = "an id is begun once, in one epoch";
    /// No forks.
    pub const GAPLESS: &str = "the versions of a stream follow each other, without a gap or a fork";
    /// Once.
    pub const ONCE: &str = "a commit is stored once";
    /// Acknowledged.
    pub const ACKNOWLEDGED: &str = "what is acknowledged is stored";
    /// Not stored.
    pub const NOT_STORED: &str = "what is said not to be stored is not stored";
    /// Conflict.
    pub const CONFLICT: &str = "where a conflict is told, another commit lies in that place";
    /// Sealed.
    pub const SEALED: &str = "a sealed epoch takes nothing";
    /// Marks.
    pub const MARKED: &str = "no commit lies beside a mark";
}

/// The properties of a check under these bounds.
pub fn properties(config: &Config) -> Vec<Property<Journals>> {
    let always: [(&'static str, Holds); 8] = [
        (names::ONE_CLAIM, one_claim),
        (names::GAPLESS, gapless),
        (names::ONCE, |_, store| told(store).all(|(id, ..)| times_stored(store, id) <= 1)),
        (names::ACKNOWLEDGED, |_, store| {
            told(store).all(|(id, _, outcome)| outcome != Outcome::Stored || times_stored(store, id) > 0)
        }),
        (names::NOT_STORED, not_stored),
        (names::CONFLICT, conflict),
        (names::SEALED, |_, store| store.shards[0].sealed.is_none_or(|length| store.shards[0].log.len() == length)),
        (names::MARKED, marked),
    ];
    let always = always.into_iter().map(|(name, holds)| Property::always(name, holds));
    if config.variant.is_some() {
        return always.collect();
    }
    let mut sometimes: Vec<(&'static str, Holds)> = vec![
        ("a commit is stored, and a conflict is told", |_, store| {
            let has = |wanted| told(store).any(|(.., outcome)| outcome == wanted);
            has(Outcome::Stored) && has(Outcome::Conflict)
        }),
        ("what is stored is told to be unknown", |_, store| {
            told(store).any(|(id, _, outcome)| outcome == Outcome::Unknown && times_stored(store, id) > 0)
        }),
        ("what is not stored is told to be unknown", |_, store| {
            told(store).any(|(id, _, outcome)| outcome == Outcome::Unknown && times_stored(store, id) == 0)
        }),
    ];
    if config.is_second {
        sometimes.push(("a stream has two commits", |_, store| {
            store.shards.iter().flat_map(|shard| &shard.log).any(|message| message.body == Body::Commit(2))
        }));
    }
    if config.begins {
        sometimes.push(("a stream begins in the newer epoch", |_, store| {
            store.shards[1].log.iter().any(|message| message.body == Body::Commit(1))
        }));
        sometimes.push(("a mark comes too late", |_, store| {
            let log = &store.shards[0].log;
            store.known.iter().any(|known| known.epochs == 2)
                && log.iter().any(|message| matches!(message.body, Body::Commit(_)))
                && told(store).any(|(.., outcome)| outcome == Outcome::Conflict)
        }));
    }
    if config.seals {
        sometimes.push(("a stream that began before the seal is there behind it", |_, store| {
            let shard = &store.shards[0];
            shard.sealed.is_some() && shard.log.iter().any(|message| matches!(message.body, Body::Commit(_)))
        }));
    }
    if config.batches {
        sometimes.push(("two streams begin", |_, store| {
            let begun = |stream| {
                let mut messages = store.shards.iter().flat_map(|shard| &shard.log);
                messages.any(|message| message.stream == stream && message.body == Body::Commit(1))
            };
            begun(0) && begun(1)
        }));
    }
    always.chain(sometimes.into_iter().map(|(name, holds)| Property::sometimes(name, holds))).collect()
}

fn streams(model: &Journals) -> impl Iterator<Item = u8> {
    let last = model.config.writers.iter().map(|(_, stream)| *stream).max();
    0..=last.unwrap_or_default()
}

fn one_claim(model: &Journals, store: &Store) -> bool {
    streams(model).all(|stream| {
        let messages = store.shards.iter().flat_map(|shard| &shard.log);
        messages.filter(|message| message.stream == stream && message.body == Body::Commit(1)).count() <= 1
    })
}

fn gapless(model: &Journals, store: &Store) -> bool {
    streams(model).all(|stream| {
        store.shards.iter().all(|shard| {
            let of_stream = shard.log.iter().filter(|message| message.stream == stream);
            let versions = of_stream.filter_map(|message| match message.body {
                Body::Commit(version) => Some(version),
                Body::Mark => None,
            });
            versions.enumerate().all(|(index, version)| usize::from(version) == index + 1)
        })
    })
}

fn not_stored(_: &Journals, store: &Store) -> bool {
    told(store).all(|(id, writer, outcome)| {
        let is_said = outcome == Outcome::Conflict || outcome == Outcome::Unavailable && !writer.was_unknown;
        !is_said || times_stored(store, id) == 0
    })
}

fn conflict(model: &Journals, store: &Store) -> bool {
    told(store).all(|(id, _, outcome)| {
        let (writer, commit) = (id / 2, id % 2);
        let stream = model.stream(writer);
        let is_there = |message: &super::server::Message| {
            message.stream == stream && message.id != id && message.body == Body::Commit(commit + 1)
        };
        outcome != Outcome::Conflict || store.shards.iter().flat_map(|shard| &shard.log).any(is_there)
    })
}

fn marked(model: &Journals, store: &Store) -> bool {
    streams(model).all(|stream| {
        store.shards.iter().all(|shard| {
            let of_stream = || shard.log.iter().filter(|message| message.stream == stream);
            !of_stream().any(|message| message.body == Body::Mark) || of_stream().count() == 1
        })
    })
}

const EPOCHS: Config = Config { begins: true, seals: true, is_second: false, ..Config::PAIR };
const BATCHES: Config =
    Config { writers: &[(0, 0), (0, 1), (1, 1)], batches: true, is_second: false, publishes_max: 1, ..Config::PAIR };

/// What the ordinary tests visit.
pub fn ordinary() -> Vec<Config> {
    vec![
        Config { name: "journal-pair", ..Config::PAIR },
        Config { name: "journal-epochs", publishes_max: 1, ..EPOCHS },
        Config { name: "journal-batches", ..BATCHES },
    ]
}

/// What `make models` visits besides.
pub fn large() -> Vec<Config> {
    vec![
        Config { name: "journal-pair-called-again", calls_max: 2, ..Config::PAIR },
        Config { name: "journal-epochs-published-again", ..EPOCHS },
        Config { name: "journal-epochs-two-commits", is_second: true, publishes_max: 1, ..EPOCHS },
        Config { name: "journal-epochs-called-again", calls_max: 2, publishes_max: 1, ..EPOCHS },
        Config { name: "journal-three-writers", writers: &[(0, 0), (1, 0), (1, 0)], is_second: false, ..Config::PAIR },
        Config { name: "journal-batches-twice", publishes_max: 2, ..BATCHES },
        Config { name: "journal-batches-in-epochs", begins: true, seals: true, ..BATCHES },
    ]
}

/// Broken variants under bounds in which they matter, each with the property that catches it.
pub fn broken() -> Vec<(Config, &'static str)> {
    let cases = [
        (Config::PAIR.with(Variant::UnknownIsFailed), names::NOT_STORED),
        (Config::PAIR.with(Variant::UnknownIsStored), names::ACKNOWLEDGED),
        (Config::PAIR.with(Variant::RefusedUnread), names::NOT_STORED),
        (Config { calls_max: 2, ..EPOCHS }.with(Variant::StaleRead), names::ONE_CLAIM),
        (Config::PAIR.with(Variant::Unconditional), names::ONE_CLAIM),
        (EPOCHS.with(Variant::NoMark), names::ONE_CLAIM),
        (EPOCHS.with(Variant::SealedWithoutFence), names::ONE_CLAIM),
        (EPOCHS.with(Variant::SealedUnread), names::ONE_CLAIM),
        (BATCHES.with(Variant::BatchRefusedIsConflict), names::CONFLICT),
        (BATCHES.with(Variant::BatchInPart), names::NOT_STORED),
        (Config::PAIR.with(Variant::DuplicateIsRefused), names::NOT_STORED),
    ];
    cases.to_vec()
}
