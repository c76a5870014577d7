//! The payment protocol: gateways, settlers, verifiers, journal and both chains, with crashes, lost acknowledgements, reorganisations
//! and strangers who bring whatever they were shown.
//!
//! The journal is the engine's own: what a gateway records is decided and folded by [`sagas`], see [`engine`]. What a gateway does
//! between two commits, what the contracts take and what verifiers sign are written out here, under the names of the code.

pub mod chains;
pub mod checks;
pub mod command;
pub mod config;
mod delivery;
pub mod documents;
pub mod engine;
pub mod fairness;
pub mod perform;
pub mod plan;
pub mod properties;
pub mod variant;
pub mod walk;
pub mod world;

use std::sync::Arc;

use stateright::{Model, Property};

use self::{
    chains::Mined,
    command::{Command, Kind},
    config::{Conduct, Config, Scheme},
    documents::{Invalid, QUOTES},
    engine::{Applied, Engine},
    fairness::Fairness,
    perform::{Outcome, Turn},
    world::{Gateway, Own, Pending, World},
};

/// One step of one party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time goes on.
    Tick,
    /// The source chain settles what it has.
    SettleSource,
    /// The destination chain does.
    SettleDestination,
    /// The source chain loses what is not settled.
    ReorganiseSource,
    /// The destination chain does.
    ReorganiseDestination,
    /// A transaction of the gateway's gets into a block.
    Mine(Kind),
    /// An empty transaction uses up the nonce of one of the gateway's.
    FillNonce(Kind),
    /// The payer spends its money elsewhere.
    Spend,
    /// Somebody, most often its wallet, sends the payer's own transaction.
    SendOwnDeposit,
    /// Somebody brings a deposit, or the reservation of one.
    BringDeposit(u8),
    /// Somebody brings a reassignment.
    BringReassignment(u8),
    /// Somebody, most often the settler, brings the release.
    BringRelease,
    /// Somebody brings the non-delivery.
    BringCancellation,
    /// Somebody brings the refund.
    BringRefund,
    /// A settler delivers under its quote.
    Deliver(u8),
    /// Somebody else delivers under it.
    Pretend(u8),
    /// A gateway loads the journal.
    Load(usize),
    /// A gateway takes a turn.
    Turn(usize, Outcome),
    /// A gateway's commit is acknowledged or refused.
    Append(usize),
    /// It is stored, and the acknowledgement is lost.
    LoseAcknowledgement(usize),
    /// It is not stored, and a gateway takes it for stored.
    TakeForStored(usize),
    /// A gateway's process ends.
    Crash(usize),
}

/// The model.
pub struct Payments {
    /// The bounds.
    pub config: Config,
    /// The engine.
    pub engine: Arc<Engine>,
    /// What is known of ways to an end.
    pub fairness: Fairness,
}

impl Payments {
    /// The model under these bounds.
    ///
    /// # Errors
    /// [`Invalid`] where its documents are not valid.
    pub fn new(config: Config) -> Result<Self, Invalid> {
        let engine = Arc::new(Engine::new(&config)?);
        Ok(Self { config, engine, fairness: Fairness::default() })
    }

    fn turn<'a>(&'a self, world: &'a World, gateway: usize) -> Turn<'a> {
        Turn { config: &self.config, engine: &self.engine, world, gateway: &world.gateways[gateway] }
    }

    /// The steps of a gateway.
    fn gateway_actions(&self, world: &World, index: usize, actions: &mut Vec<Action>) {
        let Gateway { loaded, pending, .. } = world.gateways[index];
        if let Some(pending) = pending {
            actions.push(Action::Append(index));
            if self.config.unknown_appends && !pending.is_stored && loaded == Some(world.journal) {
                actions.push(Action::LoseAcknowledgement(index));
                if self.config.is(variant::Variant::UnknownIsStored) {
                    actions.push(Action::TakeForStored(index));
                }
            }
        } else {
            if loaded != Some(world.journal) {
                actions.push(Action::Load(index));
            }
            let outcomes = self.turn(world, index).outcomes();
            actions.extend(outcomes.into_iter().map(|outcome| Action::Turn(index, outcome)));
        }
        // What else a crash loses is loaded anew.
        if self.config.crashes && (pending.is_some() || world.gateways[index].refused.is_some()) {
            actions.push(Action::Crash(index));
        }
    }

    fn is_deliverable(&self, world: &World, quote: u8) -> bool {
        let is_quoted = |escrow: &chains::Escrow| escrow.is_named && escrow.quote == quote;
        match self.config.conduct {
            Conduct::Diligent => is_quoted(&world.source.settled.escrow),
            Conduct::Hasty => is_quoted(&world.source.head.escrow),
            Conduct::Reckless => documents::auction(quote) == 0 || world.reassignments & 1 << quote != 0,
        }
    }

    /// Whether a transaction may get into the next block.
    fn is_minable(&self, world: &World, kind: Kind) -> bool {
        let is_mined = world.source.head.mined[kind as usize] != Mined::No;
        world.own(kind).is_some_and(|own| own.is_shown && !own.is_dead && !is_mined)
    }

    /// Whether nobody sends a transaction any more: a release that the escrow takes no more. The submitters use up its nonce
    /// (`Submitters::unblock`), or everything behind it would wait.
    fn is_left(&self, world: &World, kind: Kind, own: &Own) -> bool {
        kind == Kind::Release && !own.is_shown && world.source.settled_at >= self.config.windows.refund_after
    }

    /// Takes what came of a turn into the state; `None` when that changes nothing.
    fn take(&self, world: &mut World, index: usize, outcome: Outcome) -> Option<()> {
        if let Some((quote, answer)) = outcome.answered {
            world.answers[usize::from(quote)] = answer;
        }
        if let Some((quote, amount, until)) = outcome.admitted {
            world.admissions[usize::from(quote)] = Some((amount, until));
        }
        if let Some(quote) = outcome.signed {
            world.reassignments |= 1 << quote;
        }
        if let Some((kind, attempt)) = outcome.sent {
            match &mut world.own[kind as usize] {
                Some(own) if own.attempt == attempt => own.is_shown = true,
                Some(own) if own.attempt > attempt => {}
                _ => world.is_unjournaled = true,
            }
        }
        let gateway = &mut world.gateways[index];
        if outcome.refused.is_some() {
            gateway.refused = outcome.refused;
        }
        let (Some(loaded), Some(command)) = (gateway.loaded, outcome.command) else { return Some(()) };
        match self.engine.apply(loaded, command) {
            Applied::Nothing => {}
            Applied::To(to) => gateway.pending = Some(Pending { command, to, is_stored: false }),
            Applied::Broken(fault) => world.fault = Some(fault),
        }
        Some(())
    }

    /// Stores a gateway's commit at the place that it names.
    fn store(&self, world: &mut World, pending: Pending) {
        world.journal = pending.to;
        if let Command::Prepare { attempt, call } = pending.command {
            let place = call.kind as usize;
            world.own[place] = Some(Own { attempt, call, is_shown: false, is_dead: false });
            // The attempt before can't land any more, or this one would not be prepared.
            world.source.head.mined[place] = Mined::No;
            world.source.settled.mined[place] = Mined::No;
        }
    }

    fn append(&self, world: &mut World, index: usize) -> Option<()> {
        let gateway = world.gateways[index];
        let pending = gateway.pending?;
        let loaded = if pending.is_stored {
            Some(pending.to)
        } else if gateway.loaded == Some(world.journal) {
            self.store(world, pending);
            Some(pending.to)
        } else {
            // Conflict: it is loaded again.
            None
        };
        world.gateways[index] = Gateway { loaded, ..Gateway::default() };
        Some(())
    }

    fn mine(&self, world: &mut World, kind: Kind) -> Option<()> {
        let own = world.own(kind)?;
        let (call, time, words) = (own.call, world.source_time(&self.config), world.words);
        let (is_spent, config) = (world.is_spent, &self.config);
        let Source { escrow, mined } = &mut world.source.head;
        let is_taken = match kind {
            Kind::Deposit if config.scheme == Scheme::OwnTransaction => escrow.reserve(config, call.quote, time),
            Kind::Deposit => !is_spent && escrow.deposit(config, call.quote, call.amount, call.until, time),
            Kind::Reassignment => escrow.reassign(config, call.quote, words, time),
            Kind::Release => escrow.release(config, call.quote, words, time),
            Kind::Refund if call.is_cancellation => escrow.cancel(config, words, time),
            Kind::Refund => escrow.refund(config, time),
        };
        mined[kind as usize] = if is_taken { Mined::Done } else { Mined::Reverted(time) };
        Some(())
    }

    fn fill_nonce(&self, world: &mut World, kind: Kind) -> Option<()> {
        let own = world.own(kind)?;
        if !self.is_left(world, kind, own) {
            world.nonces_lost = world.nonces_lost.checked_sub(1)?;
        }
        world.own[kind as usize].as_mut()?.is_dead = true;
        Some(())
    }

    /// Takes an action into the state; `None` when it changes nothing.
    fn step(&self, world: &mut World, action: Action) -> Option<()> {
        let config = &self.config;
        let (source_time, words) = (world.source_time(config), world.words);
        let escrow = &mut world.source.head.escrow;
        match action {
            Action::Tick => world.now += 1,
            Action::SettleSource => return world.source.settle(source_time).then_some(()),
            Action::SettleDestination => {
                let time = world.destination_time(config);
                return world.destination.settle(time).then_some(());
            }
            Action::ReorganiseSource | Action::ReorganiseDestination => {
                world.reorganisations = world.reorganisations.checked_sub(1)?;
                let is_news = match action {
                    Action::ReorganiseSource => world.source.reorganise(),
                    _ => world.destination.reorganise(),
                };
                return is_news.then_some(());
            }
            Action::FillNonce(kind) => return self.fill_nonce(world, kind),
            Action::Mine(kind) => return self.mine(world, kind),
            Action::Spend => world.is_spent = true,
            Action::SendOwnDeposit => {
                return (!world.is_spent && escrow.deposit_own(config, source_time)).then_some(());
            }
            Action::BringDeposit(quote) => {
                let (amount, until) = world.admissions[usize::from(quote)]?;
                if config.scheme == Scheme::OwnTransaction {
                    return escrow.reserve(config, quote, source_time).then_some(());
                }
                let is_taken = !world.is_spent && escrow.deposit(config, quote, amount, until, source_time);
                return is_taken.then_some(());
            }
            Action::BringReassignment(quote) => {
                return escrow.reassign(config, quote, words, source_time).then_some(());
            }
            Action::BringRelease => {
                let quote = escrow.quote;
                return escrow.release(config, quote, words, source_time).then_some(());
            }
            Action::BringCancellation => return escrow.cancel(config, words, source_time).then_some(()),
            Action::BringRefund => return escrow.refund(config, source_time).then_some(()),
            Action::Deliver(quote) => {
                let (time, block) = (world.destination_time(config), world.block(config));
                if !world.destination.head.fulfill(config, quote, time, block) {
                    return None;
                }
                if world.reserved() == Some(quote) {
                    world.diligent |= 1 << quote;
                }
            }
            Action::Pretend(quote) => world.destination.head.pretended |= 1 << quote,
            Action::Load(index) => {
                world.gateways[index] = Gateway { loaded: Some(world.journal), ..Gateway::default() };
            }
            Action::Turn(index, outcome) => return self.take(world, index, outcome),
            Action::Append(index) => return self.append(world, index),
            Action::LoseAcknowledgement(index) => {
                let pending = world.gateways[index].pending?;
                self.store(world, pending);
                world.gateways[index].pending = Some(Pending { is_stored: true, ..pending });
            }
            Action::TakeForStored(index) => {
                let loaded = world.gateways[index].pending.map(|pending| pending.to);
                world.gateways[index] = Gateway { loaded, ..Gateway::default() };
            }
            Action::Crash(index) => world.gateways[index] = Gateway::default(),
        }
        Some(())
    }
}

use chains::Source;

impl Model for Payments {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::begin(&self.config)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let config = &self.config;
        if world.now < config.windows.end {
            actions.push(Action::Tick);
        }
        actions.extend([Action::SettleSource, Action::SettleDestination]);
        if world.reorganisations > 0 {
            actions.extend([Action::ReorganiseSource, Action::ReorganiseDestination]);
        }
        for kind in Kind::ALL {
            let Some(own) = world.own(kind) else { continue };
            let is_mined = world.source.head.mined[kind as usize] != Mined::No;
            if self.is_minable(world, kind) {
                actions.push(Action::Mine(kind));
            }
            if !own.is_dead && !is_mined && (world.nonces_lost > 0 || self.is_left(world, kind, own)) {
                actions.push(Action::FillNonce(kind));
            }
        }
        if config.payer_spends && !world.is_spent && world.source.head.escrow.state == chains::State::None {
            actions.push(Action::Spend);
        }
        if config.scheme == Scheme::OwnTransaction {
            actions.push(Action::SendOwnDeposit);
        }
        for quote in 0..QUOTES as u8 {
            if config.strangers {
                if world.admissions[usize::from(quote)].is_some() {
                    actions.push(Action::BringDeposit(quote));
                }
                if world.reassignments & 1 << quote != 0 {
                    actions.push(Action::BringReassignment(quote));
                }
            }
            if self.is_deliverable(world, quote) {
                actions.push(Action::Deliver(quote));
                if config.impostor && !world.destination.head.is_pretended(quote) {
                    actions.push(Action::Pretend(quote));
                }
            }
        }
        actions.push(Action::BringRelease);
        if config.strangers {
            actions.extend([Action::BringCancellation, Action::BringRefund]);
        }
        for index in 0..config.gateways {
            // Two gateways that stand alike do the same.
            if index > 0 && config.gateways > 1 && world.gateways[index] == world.gateways[index - 1] {
                continue;
            }
            self.gateway_actions(world, index, actions);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        self.step(&mut world, action)?;
        world.attest(&self.config);
        if self.config.gateways > 1 {
            world = world.canonical();
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(&self.config)
    }
}
