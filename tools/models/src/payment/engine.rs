//! The engine's pure core in the model: journals are folds of real events, made by `decide` and `evolve` of `sagas`, and what is
//! to be done for one is said by `handlers::next`.
//!
//! Each different fold has a number. What a command makes of a fold is worked out once and remembered, so a check of
//! millions of states calls the engine some thousands of times.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use events::PaymentEvent;
use sagas::{
    handlers::next,
    payment::{Payment, Stage, decide, evolve},
};

use super::{
    command::Command,
    config::Config,
    documents::{Documents, Invalid},
    plan::Plan,
};

/// A fold of a journal, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fold(pub u32);

/// What comes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Nothing new.
    Nothing,
    /// Events are recorded.
    To(Fold),
    /// `decide` refuses what `handlers::next` led to, `evolve` refuses what `decide` gave, or an end was changed.
    Broken(Fault),
}

/// How the engine contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// `decide` refused.
    Rejected,
    /// `evolve` refused.
    Illegal,
    /// What had ended ended otherwise.
    EndChanged,
}

/// A commit that was made during a check.
#[derive(Debug, Clone)]
pub struct Step {
    /// The fold before.
    pub from: Fold,
    /// What was asked for.
    pub command: Command,
    /// What was recorded.
    pub events: Vec<PaymentEvent>,
    /// The fold after.
    pub to: Fold,
}

#[derive(Default)]
struct Tables {
    folds: Vec<Arc<Payment>>,
    by_hash: HashMap<u64, Vec<Fold>>,
    applied: HashMap<(Fold, Command), Applied>,
    plans: HashMap<(Fold, u8), Plan>,
    steps: Vec<Step>,
    faults: Vec<String>,
}

/// The engine of one check.
pub struct Engine {
    /// The payment's documents.
    pub documents: Documents,
    tables: RwLock<Tables>,
}

impl Engine {
    /// The number of a payment of which only the submission is known.
    pub const SUBMITTED: Fold = Fold(0);

    /// An engine that knows the submission.
    ///
    /// # Errors
    /// [`Invalid`] where the submission does not begin a payment.
    pub fn new(config: &Config) -> Result<Self, Invalid> {
        let documents = Documents::new(config)?;
        let submitted = PaymentEvent::Submitted(Box::new(documents.submitted.clone()));
        let payment = evolve(None, &submitted);
        let engine = Self { documents, tables: RwLock::default() };
        engine.write().intern(payment.map_err(|_| Invalid::of("submission"))?);
        Ok(engine)
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The payment as a fold has it.
    pub fn payment(&self, fold: Fold) -> Arc<Payment> {
        Arc::clone(&self.read().folds[fold.0 as usize])
    }

    /// What is to be done for it at a tick.
    pub fn plan(&self, fold: Fold, now: u8) -> Plan {
        if let Some(plan) = self.read().plans.get(&(fold, now)) {
            return *plan;
        }
        let payment = self.payment(fold);
        let plan = Plan::of(&next(&payment, self.documents.time(now)), &payment, &self.documents);
        self.write().plans.insert((fold, now), plan);
        plan
    }

    /// What a command makes of it.
    pub fn apply(&self, fold: Fold, command: Command) -> Applied {
        if let Some(applied) = self.read().applied.get(&(fold, command)) {
            return *applied;
        }
        let before = self.payment(fold);
        let decided = self.decided(&before, command);
        let mut tables = self.write();
        let applied = match decided {
            Ok((events, _)) if events.is_empty() => Applied::Nothing,
            Ok((events, after)) => {
                let to = tables.intern(after);
                tables.steps.push(Step { from: fold, command, events, to });
                Applied::To(to)
            }
            Err((fault, reason)) => {
                tables.faults.push(reason);
                Applied::Broken(fault)
            }
        };
        tables.applied.insert((fold, command), applied);
        applied
    }

    fn decided(&self, before: &Payment, command: Command) -> Result<(Vec<PaymentEvent>, Payment), (Fault, String)> {
        let events = decide(before, command.of(before, &self.documents))
            .map_err(|rejected| (Fault::Rejected, format!("{command:?}: {rejected}")))?;
        let mut after = before.clone();
        for event in &events {
            after =
                evolve(Some(after), event).map_err(|illegal| (Fault::Illegal, format!("{command:?}: {illegal}")))?;
        }
        match is_end_kept(before, &after, !events.is_empty()) {
            true => Ok((events, after)),
            false => Err((Fault::EndChanged, format!("{command:?} in {:?}", before.stage()))),
        }
    }

    /// How many different folds there were.
    pub fn folds(&self) -> usize {
        self.read().folds.len()
    }

    /// All commits that were made.
    pub fn steps(&self) -> Vec<Step> {
        self.read().steps.clone()
    }

    /// How the engine contradicted itself.
    pub fn faults(&self) -> Vec<String> {
        self.read().faults.clone()
    }
}

impl Tables {
    fn intern(&mut self, payment: Payment) -> Fold {
        let mut hasher = DefaultHasher::new();
        format!("{payment:?}").hash(&mut hasher);
        let same = self.by_hash.entry(hasher.finish()).or_default();
        if let Some(known) = same.iter().find(|known| *self.folds[known.0 as usize] == payment) {
            return *known;
        }
        let fold = Fold(u32::try_from(self.folds.len()).unwrap_or(u32::MAX));
        same.push(fold);
        self.folds.push(Arc::new(payment));
        fold
    }
}

/// Whether an end stays as it is: nothing follows rest, a failed payment stays failed and not delivered, a delivered one delivered
/// and not failed.
fn is_end_kept(before: &Payment, after: &Payment, is_changed: bool) -> bool {
    let rests = before.stage() == Stage::Rest && is_changed;
    let fails = before.failed.is_some() && (after.failed != before.failed || after.delivery().is_some());
    let completes = before.delivery().is_some() && (after.delivery().is_none() || after.failed.is_some());
    !rests && !fails && !completes
}
