//! The journal's protocol on JetStream: the first commit of an id as the claim, conditions on the last sequence, lost acknowledgements
//! resolved by reading through the leader, message ids that are known for a while, epochs that begin and are sealed under load,
//! and batches that fail whole.
//!
//! Leases are left out, which is more than they allow: any number of gateways append to a stream at any time.

pub mod checks;
pub mod config;
pub mod server;
pub mod writer;

use stateright::{Model, Property};

use self::{
    config::{Config, Variant},
    server::{Body, Publish, Published, Shard},
    writer::{Known, Outcome, Phase, Place, Writer, commit_id},
};

/// Gateways.
const GATEWAYS: usize = 2;

/// What is on its way to the server: one publish, or a batch.
pub type Flight = Vec<Publish>;

/// A state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Store {
    /// The shard of the older epoch, and that of the newer.
    pub shards: [Shard; 2],
    /// Whether the newer epoch has begun.
    pub is_begun: bool,
    /// What is on its way, in no order. What is lost stays there for ever.
    pub flights: Vec<Flight>,
    /// The writers.
    pub writers: Vec<Writer>,
    /// What each gateway knows.
    pub known: [Known; GATEWAYS],
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// `append_first` looks at the epochs that are known.
    Call(u8),
    /// `first_of` reads the sealed shard.
    Look(u8),
    /// A message is published by itself.
    Publish(u8),
    /// Two messages of a gateway are published as a batch.
    PublishBatch(u8, u8),
    /// The server takes what is on its way, and its answer is heard, or lost.
    Deliver(usize, bool),
    /// There is no connection, and an attempt is given up before it is published.
    GiveUp(u8),
    /// No answer came in time.
    TimeOut(u8),
    /// The tail is read, up to so many messages.
    Resolve(u8, usize),
    /// The same append is called again.
    CallAgain(u8),
    /// The second commit's turn comes.
    GoOn(u8),
    /// The stream is loaded from a copy that has so many messages of each shard, and the second commit is decided on it.
    Load(u8, [usize; 2]),
    /// The newer epoch begins.
    Begin,
    /// The older epoch is sealed.
    Seal,
    /// A gateway learns of the epochs.
    Learn(usize),
    /// A shard forgets the message ids that it knew.
    Forget(usize),
}

/// The model.
pub struct Journals {
    /// The bounds.
    pub config: Config,
}

impl Journals {
    fn gateway(&self, writer: u8) -> usize {
        usize::from(self.config.writers[usize::from(writer)].0)
    }

    fn stream(&self, writer: u8) -> u8 {
        self.config.writers[usize::from(writer)].1
    }

    fn writer_actions(&self, store: &Store, index: u8, actions: &mut Vec<Action>) {
        let writer = &store.writers[usize::from(index)];
        match writer.place {
            Place::Called => actions.push(Action::Call(index)),
            Place::Looking => actions.push(Action::Look(index)),
            Place::Attempting(attempt) => match attempt.phase {
                Phase::Ready => {
                    actions.extend([Action::Publish(index), Action::GiveUp(index)]);
                    let is_partner = |other: &u8| {
                        let theirs = &store.writers[usize::from(*other)];
                        let is_first = |place: Place| {
                            matches!(place, Place::Attempting(theirs) if theirs.phase == Phase::Ready
                                && theirs.shard == attempt.shard && !theirs.is_alone)
                        };
                        self.gateway(*other) == self.gateway(index)
                            && self.stream(*other) != self.stream(index)
                            && is_first(theirs.place)
                    };
                    if self.config.batches && !attempt.is_alone {
                        let others = index + 1..store.writers.len() as u8;
                        actions.extend(others.filter(is_partner).map(|other| Action::PublishBatch(index, other)));
                    }
                }
                Phase::Awaiting => actions.push(Action::TimeOut(index)),
                Phase::Unclear | Phase::RefusedForSequence | Phase::RefusedForEver => {
                    let length = store.shards[usize::from(attempt.shard)].log.len();
                    let least = if self.config.is(Variant::StaleRead) { 0 } else { length };
                    actions.extend((least..=length).map(|seen| Action::Resolve(index, seen)));
                }
            },
            Place::Learning => {}
            Place::Loading => {
                let [older, newer] = [0, 1].map(|shard| store.shards[shard].log.len());
                for seen in (0..=older).flat_map(|older| (0..=newer).map(move |newer| [older, newer])) {
                    actions.push(Action::Load(index, seen));
                }
            }
            Place::Idle => {
                let outcome = writer.outcomes[usize::from(writer.commit)];
                let is_open = matches!(outcome, Outcome::Unknown | Outcome::Unavailable);
                if is_open && writer.calls + 1 < self.config.calls_max {
                    actions.push(Action::CallAgain(index));
                }
                if self.config.is_second && writer.commit == 0 && outcome != Outcome::Open {
                    actions.push(Action::GoOn(index));
                }
            }
        }
    }

    /// The server takes what is on its way.
    fn deliver(&self, store: &mut Store, place: usize, is_heard: bool) {
        let flight = store.flights.remove(place);
        let is_conditional = !self.config.is(Variant::Unconditional);
        let is_batch = flight.len() > 1;
        let shard = &mut store.shards[usize::from(flight[0].shard)];
        let answers: Vec<_> = flight.iter().map(|publish| shard.judge(publish, is_conditional)).collect();
        let is_whole = answers.iter().all(|answer| *answer == Published::Stored);
        if !is_batch || is_whole {
            for (publish, answer) in flight.iter().zip(&answers) {
                if *answer == Published::Stored {
                    shard.store(publish.message);
                }
            }
        } else if self.config.is(Variant::BatchInPart) {
            for (publish, _) in flight.iter().zip(&answers).take_while(|(_, answer)| **answer == Published::Stored) {
                shard.store(publish.message);
            }
        }
        if !is_heard {
            return;
        }
        for (publish, answer) in flight.iter().zip(answers) {
            let stream = self.stream(publish.writer);
            let writer = &mut store.writers[usize::from(publish.writer)];
            let is_awaited = writer.awaits(publish, stream);
            match is_awaited {
                true if is_batch && !is_whole => writer.batch_refused(&self.config, publish.writer),
                true => writer.hear(&self.config, publish.writer, answer),
                false => {}
            }
        }
    }

    /// Where a stream stands in what a copy has, as far as a gateway looks: the shard and the sequence of its last commit.
    fn standing(&self, store: &Store, writer: u8, seen: [usize; 2]) -> Option<(u8, u8)> {
        let stream = self.stream(writer);
        let epochs = store.known[self.gateway(writer)].epochs;
        (0..epochs).rev().find_map(|shard| {
            let place = usize::from(shard);
            let sequence = store.shards[place].last(stream, seen[place]);
            let last = store.shards[place].log.get(usize::from(sequence).checked_sub(1)?)?;
            (last.body == Body::Commit(1)).then_some((shard, sequence))
        })
    }

    fn publish(&self, store: &mut Store, writers: &[u8]) -> Option<()> {
        let mut flight = Flight::new();
        for index in writers {
            let stream = self.stream(*index);
            let writer = &mut store.writers[usize::from(*index)];
            flight.push(writer.publish(*index, stream)?);
            let Place::Attempting(attempt) = &mut writer.place else { return None };
            (attempt.phase, attempt.publishes) = (Phase::Awaiting, attempt.publishes + 1);
        }
        store.flights.push(flight);
        store.flights.sort_unstable();
        Some(())
    }

    fn step(&self, store: &mut Store, action: Action) -> Option<()> {
        let config = &self.config;
        match action {
            Action::Call(index) => {
                let known = store.known[self.gateway(index)];
                store.writers[usize::from(index)].call(config, known);
            }
            Action::Look(index) => {
                store.writers[usize::from(index)].look(index, self.stream(index), &store.shards[0]);
            }
            Action::Publish(index) => return self.publish(store, &[index]),
            Action::PublishBatch(one, other) => return self.publish(store, &[one, other]),
            Action::Deliver(place, is_heard) => self.deliver(store, place, is_heard),
            Action::GiveUp(index) => store.writers[usize::from(index)].give_up_unpublished(),
            Action::TimeOut(index) => store.writers[usize::from(index)].time_out(config, index),
            Action::Resolve(index, length) => {
                let stream = self.stream(index);
                let writer = &mut store.writers[usize::from(index)];
                let Place::Attempting(attempt) = writer.place else { return None };
                writer.resolve(config, index, stream, &store.shards[usize::from(attempt.shard)], length);
            }
            Action::CallAgain(index) => store.writers[usize::from(index)].call_again(),
            Action::GoOn(index) => store.writers[usize::from(index)].go_on(),
            Action::Load(index, seen) => {
                let (shard, sequence) = self.standing(store, index, seen)?;
                store.writers[usize::from(index)].append_second(shard, sequence);
            }
            Action::Begin => store.is_begun = true,
            Action::Seal => store.shards[0].sealed = Some(store.shards[0].log.len()),
            Action::Learn(gateway) => {
                let is_sealed = store.shards[0].sealed.is_some() || config.is(Variant::SealedWithoutFence);
                store.known[gateway] = Known { epochs: 2, is_sealed };
                for (index, writer) in store.writers.iter_mut().enumerate() {
                    if self.gateway(index as u8) == gateway && writer.place == Place::Learning {
                        writer.place = Place::Called;
                    }
                }
            }
            Action::Forget(shard) => return store.shards[shard].forget().then_some(()),
        }
        Some(())
    }
}

impl Model for Journals {
    type State = Store;
    type Action = Action;

    fn init_states(&self) -> Vec<Store> {
        vec![Store {
            shards: Default::default(),
            is_begun: false,
            flights: Vec::new(),
            writers: vec![Writer::default(); self.config.writers.len()],
            known: [Known { epochs: 1, is_sealed: false }; GATEWAYS],
        }]
    }

    fn actions(&self, store: &Store, actions: &mut Vec<Action>) {
        (0..store.writers.len() as u8).for_each(|index| self.writer_actions(store, index, actions));
        for place in 0..store.flights.len() {
            actions.extend([Action::Deliver(place, true), Action::Deliver(place, false)]);
        }
        if self.config.begins && !store.is_begun {
            actions.push(Action::Begin);
        }
        if self.config.seals && store.is_begun && store.shards[0].sealed.is_none() {
            actions.push(Action::Seal);
        }
        if store.is_begun {
            actions.extend((0..GATEWAYS).map(Action::Learn));
        }
        if self.config.forgets {
            actions.extend((0..2).map(Action::Forget));
        }
    }

    fn next_state(&self, last: &Store, action: Action) -> Option<Store> {
        let mut store = last.clone();
        self.step(&mut store, action)?;
        (store != *last).then_some(store)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        checks::properties(&self.config)
    }
}

/// How often a message with this id is stored.
fn times_stored(store: &Store, id: u8) -> usize {
    store.shards.iter().flat_map(|shard| &shard.log).filter(|message| message.id == id).count()
}

/// Every commit with what its writer was told of it.
fn told(store: &Store) -> impl Iterator<Item = (u8, &Writer, Outcome)> {
    store.writers.iter().enumerate().flat_map(|(index, writer)| {
        let outcomes = writer.outcomes.iter().enumerate();
        outcomes.map(move |(commit, outcome)| (commit_id(index as u8, commit as u8), writer, *outcome))
    })
}
