//! Ends: from every state, once faults are over, one gateway, the chains and time bring the payment to rest.
//!
//! The checker's own `eventually` sees no cycle as a way without an end. So this is asked of each state instead, as an invariant: one
//! fair schedule is followed from it, in which a gateway takes its turns, its transactions are mined, chains settle and time goes
//! on, and nobody else does anything. A state whose successor in that schedule is known to come to rest is known to, too.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, PoisonError},
};

use sagas::payment::Stage;
use stateright::Model;

use super::{Action, Payments, command::Kind, world::World};

/// Longest way to an end: each of the parties has some dozen steps.
pub const STEPS_MAX: usize = 400;

/// The states that are known to come to rest.
#[derive(Default)]
pub struct Fairness(Mutex<HashSet<u64>>);

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

impl Fairness {
    fn knows(&self, fingerprint: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&fingerprint)
    }

    fn learn(&self, fingerprints: Vec<u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(fingerprints);
    }
}

/// Whether the payment comes to rest from here, and the money out of the escrow.
pub fn comes_to_rest(model: &Payments, world: &World) -> bool {
    let (mut world, mut passed) = (*world, Vec::new());
    for _ in 0..STEPS_MAX {
        let fingerprint = fingerprint(&world);
        if model.fairness.knows(fingerprint) {
            model.fairness.learn(passed);
            return true;
        }
        passed.push(fingerprint);
        match next(model, &world) {
            Some(next) => world = next,
            None => {
                let is_at_rest = is_at_rest(model, &world);
                if is_at_rest {
                    model.fairness.learn(passed);
                }
                return is_at_rest;
            }
        }
    }
    false
}

/// Whether nothing is left to do: the journal rests, and no money is in escrow.
pub fn is_at_rest(model: &Payments, world: &World) -> bool {
    model.engine.payment(world.journal).stage() == Stage::Rest && !world.source.head.escrow.is_open()
}

/// The next state of the schedule; `None` at its end.
pub fn next(model: &Payments, world: &World) -> Option<World> {
    let gateway = &world.gateways[0];
    let is_changed = |action| model.next_state(world, action).filter(|next| next != world);
    if gateway.pending.is_some() {
        return is_changed(Action::Append(0));
    }
    if gateway.loaded != Some(world.journal) {
        return is_changed(Action::Load(0));
    }
    let turns = model.turn(world, 0).outcomes().into_iter().map(|outcome| Action::Turn(0, outcome));
    let mines = Kind::ALL.into_iter().filter(|kind| model.is_minable(world, *kind)).map(Action::Mine);
    let is_left = |kind: &Kind| world.own(*kind).is_some_and(|own| !own.is_dead && model.is_left(world, *kind, own));
    let fills = Kind::ALL.into_iter().filter(is_left).map(Action::FillNonce);
    let settles = [Action::SettleSource, Action::SettleDestination];
    let tick = (world.now < model.config.windows.end).then_some(Action::Tick);
    turns.chain(mines).chain(fills).chain(settles).chain(tick).find_map(is_changed)
}
