//! Driving one payment: load, decide, act, append, again, until it is at rest.

use events::{
    CommitId, PaymentId,
    event::PaymentEvent,
    journal::{AppendError, Commit, Position, ReadError, Recorded},
};

use super::{
    Options, Ports,
    act::{Outcome, act},
    backoff,
    nudges::{Nudge, Nudges},
};
use crate::{
    handlers::{Action, Step, next},
    payment::{Command, IllegalTransition, Payment, decide, evolve},
};

/// The engine: the saga of one payment at a time, over the ports.
#[derive(Clone)]
pub struct Engine {
    ports: Ports,
    options: Options,
    nudges: Nudges,
}

/// Why a payment can not be driven on. Retrying does not help; it stays as it is until an operator looks.
#[derive(Debug, thiserror::Error)]
pub enum Stuck {
    /// Its stream cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// Its stream holds events that cannot follow each other.
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
    /// The journal will never take what was decided.
    #[error("a decision cannot be stored: {0}")]
    Unacceptable(String),
}

/// A payment with where its stream stands.
struct Loaded {
    payment: Payment,
    position: Position,
    correlation: String,
    causation: String,
}

impl Engine {
    /// An engine over `ports`.
    pub fn new(ports: Ports, options: Options) -> Self {
        Self { ports, options, nudges: Nudges::default() }
    }

    pub(super) fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Lets a payment that is driven here look at the world at once instead of at the next block. A hint from outside,
    /// such as a settler's report: it costs a look and decides nothing. Without effect when the payment waits for
    /// nothing, or is driven elsewhere.
    pub fn nudge(&self, payment_id: &PaymentId) {
        self.nudges.give(payment_id);
    }

    /// Drives a payment until it is at rest. May be stopped at any await point and started again, here or elsewhere.
    ///
    /// # Errors
    /// [`Stuck`] when only an operator can help.
    pub async fn drive(&self, payment_id: &PaymentId) -> Result<(), Stuck> {
        let mut faults = 0;
        let mut refusals = 0;
        let Some(mut loaded) = self.load(payment_id).await? else { return Ok(()) };
        let nudge = self.nudges.receive(payment_id);
        loop {
            let now = self.ports.clock.now();
            let action = match next(&loaded.payment, now) {
                Step::Rest => return Ok(()),
                Step::WaitUntil(at) => {
                    self.ports.clock.sleep((at - now).to_std().unwrap_or_default()).await;
                    continue;
                }
                Step::Do(action) => action,
            };
            let command = match act(&self.ports, &loaded.payment, &action).await {
                Ok(Outcome::Command(command)) => *command,
                Ok(Outcome::Nothing) => {
                    faults = 0;
                    self.pause(&action, &nudge).await;
                    continue;
                }
                Ok(Outcome::DepositRefused(context)) => {
                    refusals += 1;
                    tracing::info!(%payment_id, refusals, reason = context.revert_reason, "deposit refused");
                    if refusals < self.options.refusals_max {
                        self.pause(&action, &nudge).await;
                        continue;
                    }
                    Command::RefuseDeposit { context, at: self.ports.clock.now() }
                }
                Err(fault) => {
                    faults += 1;
                    tracing::warn!(%payment_id, stage = ?loaded.payment.stage(), faults, %fault, "transient fault");
                    self.ports.clock.sleep(backoff(&self.options, faults)).await;
                    continue;
                }
            };
            faults = 0;
            let events = match decide(&loaded.payment, command) {
                Ok(events) => events,
                Err(rejected) => {
                    // The handler and the decision look at the same state, so this is a fault of the engine itself;
                    // what is stored stays right.
                    tracing::error!(%payment_id, %rejected, "engine decided against its own state");
                    self.ports.clock.sleep(self.options.backoff_max).await;
                    continue;
                }
            };
            if events.is_empty() {
                self.pause(&action, &nudge).await;
                continue;
            }
            loaded = match self.record(loaded, events).await? {
                Some(loaded) => loaded,
                None => match self.load(payment_id).await? {
                    Some(loaded) => loaded,
                    None => return Ok(()),
                },
            };
        }
    }

    /// Waits until looking again can show something new.
    async fn pause(&self, action: &Action, nudge: &Nudge) {
        if let Action::FollowEscrow { patience: Some(patience), .. } = action {
            return self.ports.clock.sleep(*patience).await;
        }
        match action.chain() {
            Some(chain) => tokio::select! {
                () = self.ports.chains.next_block(chain) => {}
                () = nudge.received() => {}
            },
            None => self.ports.clock.sleep(self.options.backoff_min).await,
        }
    }

    /// Loads a payment, waiting for the journal when it cannot be reached.
    async fn load(&self, payment_id: &PaymentId) -> Result<Option<Loaded>, Stuck> {
        let mut faults = 0;
        let commits = loop {
            match self.ports.journal.load(payment_id).await {
                Ok(commits) => break commits,
                Err(ReadError::Unavailable(reason)) => {
                    faults += 1;
                    tracing::warn!(%payment_id, faults, reason, "journal unavailable");
                    self.ports.clock.sleep(backoff(&self.options, faults)).await;
                }
                Err(unreadable) => return Err(unreadable.into()),
            }
        };
        let mut state = None;
        for event in commits.iter().flat_map(|commit| &commit.events) {
            state = Some(evolve(state, event)?);
        }
        let (Some(payment), Some(last)) = (state, commits.last()) else { return Ok(None) };
        Ok(Some(Loaded {
            payment,
            position: last.position,
            correlation: last.correlation.clone(),
            causation: last.commit_id.to_string(),
        }))
    }

    /// Appends `events`; `None` when the payment has to be loaded again.
    async fn record(&self, loaded: Loaded, events: Vec<PaymentEvent>) -> Result<Option<Loaded>, Stuck> {
        let payment_id = loaded.payment.submitted.payment_id.clone();
        // Folded before it is stored: what cannot be read back is never written.
        let mut payment = loaded.payment;
        for event in &events {
            payment = evolve(Some(payment), event)?;
        }
        let commit = Commit {
            payment_id: payment_id.clone(),
            expected: loaded.position,
            commit_id: CommitId::random(),
            events,
            correlation: loaded.correlation,
            causation: loaded.causation,
        };
        let mut faults = 0;
        loop {
            match self.ports.journal.append(&commit).await {
                Ok(Recorded { position, .. }) => {
                    let types: Vec<_> = commit.events.iter().map(PaymentEvent::type_name).collect();
                    tracing::info!(%payment_id, version = position.version, events = types.join(","), "recorded");
                    return Ok(Some(Loaded {
                        payment,
                        position,
                        correlation: commit.correlation,
                        causation: commit.commit_id.to_string(),
                    }));
                }
                Err(AppendError::Conflict) => return Ok(None),
                // The same commit again: the journal tells mine from another's by its id.
                Err(AppendError::Unavailable(reason) | AppendError::Unknown(reason)) => {
                    faults += 1;
                    tracing::warn!(%payment_id, faults, reason, "append not acknowledged");
                    self.ports.clock.sleep(backoff(&self.options, faults)).await;
                }
                Err(AppendError::Unacceptable(reason)) => return Err(Stuck::Unacceptable(reason)),
            }
        }
    }
}
