//! Driving one payment or batch: load, perform, decide, append, again, until it is at rest.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, broadcast};
use tracing::Instrument;

use events::{Did, Event, PaymentEvent, PaymentId, StreamId, time::Timestamp};
use journal::ReadError;

use super::{
    Options, Ports,
    backoff::{Backoff, Misconfigured, log_transient},
    memory::{Folded, Memory},
    observed::Alive,
    observer::Observer,
    outcome::Outcome,
    perform::{perform, rule_out},
    spans::{self, Told},
    stream::{Loaded, loaded},
    wait::{Resumption, Wait},
    wake_hints::WakeHints,
};
use crate::{
    handlers::{Action, Step, expected_terms, next_of},
    payment::{self, Command, IllegalTransition, Payment, Stage, decide},
    ports::{AuctionOver, DepositOrder, OpenWindow, Refusal, Transient},
};

/// The wait before a delivery is looked at again which has its depth and which the verifier says it does not see.
const DOUBT_PAUSE: Duration = Duration::from_secs(1);

/// The engine: the saga of one payment or batch at a time, over the ports.
#[derive(Clone)]
pub struct Engine {
    ports: Ports,
    options: Options,
    wake_hints: WakeHints,
    misconfigured: Misconfigured,
    /// See [`Options::moments_max`].
    moments: Arc<Semaphore>,
    /// See [`Options::resumed_max`].
    resumptions: Arc<Semaphore>,
    /// Who is told what was stored; nobody where nothing is measured.
    observer: Option<Arc<dyn Observer>>,
}

/// Why a stream can not be driven on. Retrying does not help; it stays as it is until an operator looks.
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

/// What comes of an action.
enum Next {
    /// This is to be decided on.
    Command(Command),
    /// Nothing yet: the state is looked at anew after a wait.
    Wait(Wait),
}

/// What became of a turn.
enum Turned {
    /// The next one can follow at once.
    On(Box<Loaded<Payment>>),
    /// The next one follows after this.
    Wait(Box<Loaded<Payment>>, Wait),
    /// The payment is at rest, with the commit at this sequence as its newest; 0 for none.
    Rest(u64),
}

/// How far a drive came.
pub(super) enum Driven {
    /// To rest, with the commit at this sequence as the stream's newest; 0 for none in the shard.
    AtRest(u64),
    /// To a wait that needs no task.
    Waits(Box<Waits>),
}

/// A drive that waits without a task.
pub(super) struct Waits {
    /// Sequence of the newest commit in the state that it came to.
    pub newest: u64,
    /// What is left of the wait.
    pub wait: Wait,
    /// What it remembers.
    pub memory: Folded,
}

impl Engine {
    /// An engine over `ports`.
    pub fn new(ports: Ports, options: Options) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)));
        let (moments, resumptions) = (semaphore(options.moments_max), semaphore(options.resumed_max));
        let (wake_hints, misconfigured) = Default::default();
        Self { ports, options, wake_hints, misconfigured, moments, resumptions, observer: None }
    }

    /// The same engine, which tells `observer` what it stores.
    #[must_use]
    pub fn observed(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    pub(super) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    pub(super) fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn moments(&self) -> &Semaphore {
        &self.moments
    }

    pub(super) fn resumptions(&self) -> &Arc<Semaphore> {
        &self.resumptions
    }

    /// The wake hints for payments that no task is at work on.
    pub(super) fn hints(&self) -> broadcast::Receiver<PaymentId> {
        self.wake_hints.subscribe()
    }

    /// How many payments and batches wait for an operator to mend the configuration.
    pub fn misconfigured(&self) -> &Misconfigured {
        &self.misconfigured
    }

    /// Gives a wake hint: a payment that is driven here looks at the world at once instead of at the next block. It comes from
    /// outside, such as a settler's report; it costs a look and decides nothing. Without effect when the payment waits for
    /// nothing, or is driven elsewhere.
    pub fn hint(&self, payment_id: &PaymentId) {
        self.wake_hints.give(payment_id);
    }

    /// Drives a payment or batch until it is at rest. May be stopped at any await point and started again, here or
    /// elsewhere.
    ///
    /// # Errors
    /// [`Stuck`] when only an operator can help.
    pub async fn drive(&self, stream_id: &StreamId) -> Result<(), Stuck> {
        self.drive_in(None, stream_id, Folded::default(), None).await.map(drop)
    }

    /// The same for the worker of `shard`: a stream that lies in another epoch's shard is left to that one's. Goes on with the
    /// memory of an earlier drive. With a `resumption` it ends when it has to wait for long, and waits until it is at rest
    /// without one. The sequences that it says are as the journal told them when the state was loaded or appended.
    pub(super) async fn drive_in(
        &self,
        shard: Option<u16>,
        stream_id: &StreamId,
        memory: Folded,
        resumption: Option<&Resumption>,
    ) -> Result<Driven, Stuck> {
        match stream_id {
            StreamId::Payment(payment_id) => {
                self.drive_payment(shard, stream_id, payment_id, memory.into(), resumption).await
            }
            StreamId::QuoteRequest(_) => {
                let span = spans::step(stream_id.as_str(), "collect_quotes");
                let driven = Box::pin(self.drive_quote_request(shard, stream_id).instrument(span)).await;
                driven.map(Driven::AtRest)
            }
        }
    }

    // A payment waits most of its time: what it does in between is boxed, and takes no room meanwhile.
    async fn drive_payment(
        &self,
        shard: Option<u16>,
        stream_id: &StreamId,
        payment_id: &PaymentId,
        mut memory: Memory,
        resumption: Option<&Resumption>,
    ) -> Result<Driven, Stuck> {
        let is_in_turn = resumption.is_some_and(|resumption| resumption.in_turn);
        let loaded = match is_in_turn {
            true => Box::pin(self.load_once(stream_id, &mut memory.backoff)).await?,
            false => Ok(Box::pin(self.load(stream_id)).await?),
        };
        let loaded = match loaded {
            Ok(Some(loaded)) if !loaded.at.is_outside(shard) => loaded,
            Ok(_) => return Ok(Driven::AtRest(0)),
            // Others have their turns meanwhile: their shards may be there.
            Err(wait) => return Ok(Driven::Waits(Box::new(Waits { newest: 0, wait, memory: memory.into() }))),
        };
        if is_in_turn && loaded.state.stage() == Stage::Auction && memory.learned.window.is_none() {
            memory.learned.window = Some(OpenWindow::taken_over(Instant::now()));
        }
        let hints = &self.wake_hints.receive(payment_id);
        let mut loaded = Box::new(loaded);
        loop {
            let (turned, wait) = match Box::pin(self.turn(stream_id, loaded, &mut memory)).await? {
                Turned::On(turned) => {
                    loaded = turned;
                    continue;
                }
                Turned::Wait(turned, wait) => (turned, wait),
                Turned::Rest(newest) => return Ok(Driven::AtRest(newest)),
            };
            loaded = turned;
            if let Some(wait) = self.rest(wait, hints, resumption).await {
                let (newest, memory) = (loaded.at.sequence(), memory.into());
                return Ok(Driven::Waits(Box::new(Waits { newest, wait, memory })));
            }
        }
    }

    /// One turn: what is to be done now is done, and what comes of it is recorded.
    async fn turn(
        &self,
        stream_id: &StreamId,
        loaded: Box<Loaded<Payment>>,
        memory: &mut Memory,
    ) -> Result<Turned, Stuck> {
        let now = self.ports.clock.now();
        let is_copied = self.options.restored.as_ref().is_some_and(|restored| loaded.is_in(restored));
        let action = match next_of(&loaded.state, now, is_copied) {
            Step::Rest => return Ok(Turned::Rest(loaded.at.sequence())),
            Step::WaitUntil(at) => {
                self.over(stream_id, &mut memory.backoff);
                return Ok(Turned::Wait(loaded, Wait::timer((at - now).to_std().unwrap_or_default())));
            }
            Step::Do(action) => action,
        };
        let span = spans::step(stream_id.as_str(), spans::name(&action));
        self.take(stream_id, loaded, memory, action).instrument(span).await
    }

    /// Takes the step that is to be taken now.
    async fn take(
        &self,
        stream_id: &StreamId,
        loaded: Box<Loaded<Payment>>,
        memory: &mut Memory,
        action: Box<Action>,
    ) -> Result<Turned, Stuck> {
        let command = match self.command(stream_id, &action, &loaded.state, memory).await {
            Next::Command(command) => command,
            Next::Wait(wait) => return Ok(Turned::Wait(loaded, wait)),
        };
        let events = match decide(&loaded.state, command.not_before(loaded.latest)) {
            Ok(events) => events,
            Err(rejected) => {
                // The handler and the decision look at the same state, so this is a fault of the engine itself;
                // what is stored stays right.
                let payment_id = &loaded.state.submitted.payment_id;
                let say = |backoff: &Backoff| {
                    let (faults, since) = (backoff.count(), backoff.since());
                    tracing::error!(%payment_id, faults, since, %rejected, "engine decided against its own state");
                };
                let pause = self.pause_after_fault(&mut memory.backoff, say);
                return Ok(Turned::Wait(loaded, Wait::timer(pause)));
            }
        };
        self.over(stream_id, &mut memory.backoff);
        if events.is_empty() {
            return Ok(Turned::Wait(loaded, self.pause(&action)));
        }
        let is_provisional = matches!(events[..], [PaymentEvent::DepositMined(_)]);
        let Some(advanced) = self.advance(stream_id, &action, *loaded, events).await? else {
            return Ok(Turned::Rest(0));
        };
        let advanced = Box::new(advanced);
        // Nodes on two forks name another block at each look; that is worth no more than a commit a block.
        Ok(if is_provisional { Turned::Wait(advanced, self.pause(&action)) } else { Turned::On(advanced) })
    }

    /// Performs the action and says what follows from its outcome.
    async fn command(&self, stream_id: &StreamId, action: &Action, state: &Payment, memory: &mut Memory) -> Next {
        let payment_id = &state.submitted.payment_id;
        if let Some(expected) = expected_terms(state) {
            self.ports.chains.expect_terms(&expected);
        }
        if let Some(refusal) = memory.ruling_out.take() {
            match action {
                Action::SecureDeposit { order, .. } | Action::RuleOutDeposit { order } => {
                    return self.after_refusal(stream_id, action, order, refusal, memory).await;
                }
                // Somebody else's commit, after which another deposit is not tried.
                _ => {}
            }
        }
        let since = action.wake_condition().and_then(|wake| self.ports.chains.cursor(wake.chain_id, wake.contract));
        let outcome = Box::pin(perform(&self.ports, &self.options, state, action, &mut memory.learned)).await;
        if outcome.is_ok() && !matches!(outcome, Ok(Outcome::Command(_))) {
            self.over(stream_id, &mut memory.backoff);
        }
        let wait = match outcome {
            Ok(Outcome::Command(command)) => {
                return Next::Command(match (*command, memory.refused.take()) {
                    (Command::MissDepositWindow { at }, Some(context)) => Command::RefuseDeposit { context, at },
                    (command, _) => command,
                });
            }
            Ok(Outcome::DepositRefused(refusal)) => {
                return self.deposit_refused(stream_id, action, state, refusal, memory).await;
            }
            Ok(Outcome::ReassignmentRefused(refusal)) => {
                memory.note_refused(payment_id, "reassignment", refusal.context.revert_reason);
                self.pause(action)
            }
            Ok(Outcome::ReleaseRefused(refusal)) => {
                memory.note_refused(payment_id, "release", refusal.context.revert_reason);
                self.await_event_or_pause(action, since)
            }
            Ok(Outcome::AwaitEvent) => self.await_event_or_pause(action, since),
            Ok(Outcome::WindowOpen(window)) => {
                memory.learned.window = Some(window);
                Wait::window(&window)
            }
            Ok(Outcome::DeliveryDoubted) => Wait::timer(DOUBT_PAUSE),
            Ok(Outcome::DepositAwaited) => {
                memory.refused = None;
                self.pause(action)
            }
            Ok(Outcome::Nothing) => self.pause(action),
            Err(fault) => {
                spans::failed(&fault);
                let stage = state.stage();
                let say = |backoff: &Backoff| log_transient!(fault, backoff, %payment_id, ?stage);
                self.wait_after_transient(&mut memory.backoff, &fault, say)
            }
        };
        Next::Wait(wait)
    }

    /// What follows when the source chain refused the deposit: another look after a wait, or the end of the deposit.
    async fn deposit_refused(
        &self,
        stream_id: &StreamId,
        action: &Action,
        state: &Payment,
        refusal: Box<Refusal>,
        memory: &mut Memory,
    ) -> Next {
        let payment_id = &state.submitted.payment_id;
        let is_payer_deposit = state.submitted.authorization.is_payer_deposit();
        let again = memory.refused.as_deref() == Some(&refusal.context);
        memory.refusals += 1;
        if !again {
            let (refusals, reason) = (memory.refusals, refusal.context.revert_reason.as_deref());
            tracing::info!(%payment_id, refusals, reason, "deposit refused");
        }
        if is_payer_deposit || memory.refusals < self.options.refusals_max {
            // The payer deposit may land all the same, from the payer's wallet, and is reserved then; up to the end of its
            // window nothing rules it out.
            memory.refused = is_payer_deposit.then(|| Box::new(refusal.context));
            return Next::Wait(self.pause(action));
        }
        match action {
            Action::SecureDeposit { order, .. } => self.after_refusal(stream_id, action, order, refusal, memory).await,
            // Nothing else is refused; `perform` says so only of a deposit.
            _ => {
                let (context, at) = (Box::new(refusal.context), self.ports.clock.now());
                Next::Command(Command::RefuseDeposit { context, at })
            }
        }
    }

    /// Sees whether a refused deposit can't be sent by anyone any more, or was sent; remembers to see it again otherwise.
    async fn after_refusal(
        &self,
        stream_id: &StreamId,
        action: &Action,
        order: &DepositOrder,
        refusal: Box<Refusal>,
        memory: &mut Memory,
    ) -> Next {
        let refused = || {
            let (context, at) = (Box::new(refusal.context.clone()), self.ports.clock.now());
            Command::RefuseDeposit { context, at }
        };
        let wait = match rule_out(&self.ports, &self.options, order, refusal.valid_until, refused).await {
            Ok(Outcome::Command(command)) => return Next::Command(*command),
            Ok(_) => {
                self.over(stream_id, &mut memory.backoff);
                self.pause(action)
            }
            Err(fault) => {
                let payment_id = &order.payment_id;
                let say = |backoff: &Backoff| log_transient!(fault, backoff, %payment_id);
                self.wait_after_transient(&mut memory.backoff, &fault, say)
            }
        };
        memory.ruling_out = Some(refusal);
        Next::Wait(wait)
    }

    /// Records `events` and tells the losers of an auction that closed by them; `None` when there is no such payment.
    async fn advance(
        &self,
        stream_id: &StreamId,
        action: &Action,
        loaded: Loaded<Payment>,
        events: Vec<PaymentEvent>,
    ) -> Result<Option<Loaded<Payment>>, Stuck> {
        let closes = matches!(action, Action::GatherBids(_) | Action::AskSelector(_) | Action::GiveUpSelector);
        let waited = loaded.state.waiting_settlers();
        let Some(loaded) = self.record(stream_id, loaded, events).await? else {
            return self.load(stream_id).await;
        };
        let payment = &loaded.state;
        if closes && !matches!(payment.stage(), Stage::Auction | Stage::Reopened) {
            let auction = payment.auction.iter();
            let declined = |did: &&Did| {
                auction.clone().flat_map(|auction| &auction.declines).any(|decline| decline.settler == **did)
            };
            let addressed = auction.clone().flat_map(|auction| &auction.addressed);
            let others = addressed.filter(|did| !declined(did)).cloned().collect();
            self.tell_losers(payment, others).await;
        } else if !matches!(payment.stage(), Stage::Depositing | Stage::Reassigning) && !waited.is_empty() {
            self.tell_losers(payment, waited).await;
        }
        Ok(Some(loaded))
    }

    /// Tells those of `settlers` who have not won, and cannot win any more, that the auction is over. Whose award lapsed was
    /// told so.
    async fn tell_losers(&self, payment: &Payment, mut settlers: Vec<Did>) {
        let winner = payment.award.as_ref().map(|award| &award.quote.settler);
        let waiting = payment.waiting_settlers();
        settlers.retain(|did| Some(did) != winner && !waiting.contains(did) && !payment.lapsed.contains(did));
        if !settlers.is_empty() {
            let over = AuctionOver { auction_id: payment.auction_id(), settlers };
            self.ports.auction.over(&over).await;
        }
    }

    /// Something worked: trouble that lasted is over.
    fn over(&self, stream_id: &StreamId, backoff: &mut Backoff) {
        if let Some(over) = backoff.over() {
            let (faults, since) = (over.count(), over.since());
            tracing::info!(%stream_id, faults, since, "transient faults are over");
        }
    }

    /// The wait that one more transient fault calls for, see [`Engine::pause_after_transient`].
    fn wait_after_transient(&self, backoff: &mut Backoff, fault: &Transient, say: impl FnOnce(&Backoff)) -> Wait {
        Wait::timer(self.pause_after_transient(backoff, fault, say))
    }

    /// Loads a payment, waiting for the journal when it cannot be reached; `None` when there is none.
    async fn load(&self, stream_id: &StreamId) -> Result<Option<Loaded<Payment>>, Stuck> {
        Ok(loaded(&self.commits(stream_id).await?)?)
    }

    /// The same without waiting: when the journal cannot be reached, the wait before the next try.
    async fn load_once(
        &self,
        stream_id: &StreamId,
        backoff: &mut Backoff,
    ) -> Result<Result<Option<Loaded<Payment>>, Wait>, Stuck> {
        Ok(match self.commits_once(stream_id, backoff).await? {
            Ok(commits) => Ok(loaded(&commits)?),
            Err(pause) => Err(Wait::timer(pause)),
        })
    }

    /// Appends `events`; `None` when the payment has to be loaded again.
    async fn record(
        &self,
        stream_id: &StreamId,
        loaded: Loaded<Payment>,
        events: Vec<PaymentEvent>,
    ) -> Result<Option<Loaded<Payment>>, Stuck> {
        // Folded before it is stored: what cannot be read back is never written.
        let Loaded { mut state, at, begun, latest, mut milestones } = loaded;
        let latest = events.iter().filter_map(payment::written_at).fold(latest, Timestamp::max);
        let stage_before = state.stage();
        let alive = self.observer.as_ref().map(|_| Alive::before(&state, &events));
        for event in &events {
            state = payment::evolve(Some(state), event)?;
        }
        let told = spans::transactions(&events);
        let events = events.into_iter().map(Event::from).collect();
        let Some(appended) = self.append(stream_id, at, events).await? else { return Ok(None) };
        told.iter().for_each(Told::show);
        spans::came_to_rest(stage_before, &state, || self.ports.clock.now());
        if let (Some(observer), Some(alive)) = (&self.observer, alive) {
            let events = appended.events.into_iter().filter_map(Event::into_payment).collect();
            alive.tell(&**observer, &mut milestones, events, appended.stored_at, &state);
        }
        Ok(Some(Loaded { state, at: appended.at, begun, latest, milestones }))
    }
}
