//! Driving one payment or batch: load, perform, decide, append, again, until it is at rest.

use std::time::Duration;

use events::{
    Did, Event, Payload, PaymentEvent, PaymentId, QuoteRequestEvent, StreamId, failure::BlockchainContext, mutant,
    quote::auction_of, quote_request::BatchSelection, time::unix_seconds,
};
use journal::{ReadError, Recorded};

use super::{
    Options, Ports,
    backoff::{Backoff, Misconfigured, log_transient},
    learned::Learned,
    outcome::Outcome,
    perform::{perform, rule_out},
    stream::At,
    wake_hints::{HintReceiver, WakeHints},
};
use crate::{
    handlers::{Action, Step, WakeCondition, next},
    payment::{self, Command, IllegalTransition, Payment, Stage, decide},
    ports::{AuctionOver, Cursor, Refusal, SelectionRequest, UNSEEN_MAX, Waiting},
    quote_request,
};

/// The wait before a quote selector is asked again. Its time is short, so this does not grow.
const SELECTOR_PAUSE: Duration = Duration::from_millis(250);

/// The wait before a delivery is looked at again which has its depth and which the verifier says it does not see.
const DOUBT_PAUSE: Duration = Duration::from_secs(1);

/// The wait after the source chain refused a release, where no event can be awaited.
const RELEASE_PAUSE: Duration = Duration::from_secs(5);

/// The engine: the saga of one payment or batch at a time, over the ports.
#[derive(Clone)]
pub struct Engine {
    ports: Ports,
    options: Options,
    wake_hints: WakeHints,
    misconfigured: Misconfigured,
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

/// A state with where its stream stands.
struct Loaded<S> {
    state: S,
    at: At,
}

/// What a drive of one payment remembers from turn to turn. None of it is on record: another process begins without it.
#[derive(Default)]
struct Memory {
    backoff: Backoff,
    /// How often the deposit was refused.
    refusals: u32,
    learned: Learned,
    /// Why the payer deposit is refused, to be told if it stays so until its window ends.
    refused: Option<Box<BlockchainContext>>,
    /// Why the release was refused last, to be said once.
    release_refused: Option<String>,
}

impl Memory {
    /// Logs that the release was refused, unless that was so for the same reason before.
    fn note_release_refused(&mut self, payment_id: &PaymentId, reason: Option<String>) {
        if reason != self.release_refused {
            let said = reason.as_deref();
            tracing::info!(%payment_id, reason = said, "release refused, or not needed any more");
        }
        self.release_refused = reason;
    }
}

/// One turn of a drive: the action to perform, and for whom.
#[derive(Clone, Copy)]
struct Turn<'a> {
    stream_id: &'a StreamId,
    action: &'a Action,
    hints: &'a HintReceiver,
}

impl Engine {
    /// An engine over `ports`.
    pub fn new(ports: Ports, options: Options) -> Self {
        Self { ports, options, wake_hints: WakeHints::default(), misconfigured: Misconfigured::default() }
    }

    pub(super) fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
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
        self.drive_in(None, stream_id).await.map(drop)
    }

    /// The same for the worker of `shard`: a stream that lies in another epoch's shard is left to that one's. Says the
    /// sequence of the newest commit in the state that is at rest, as the journal told it when that was loaded or
    /// appended; 0 where there is none.
    pub(super) async fn drive_in(&self, shard: Option<u16>, stream_id: &StreamId) -> Result<u64, Stuck> {
        match stream_id {
            StreamId::Payment(payment_id) => self.drive_payment(shard, stream_id, payment_id).await,
            StreamId::QuoteRequest(_) => Box::pin(self.drive_quote_request(shard, stream_id)).await,
        }
    }

    // A payment waits most of its time: what it does in between is boxed, and takes no room meanwhile.
    async fn drive_payment(
        &self,
        shard: Option<u16>,
        stream_id: &StreamId,
        payment_id: &PaymentId,
    ) -> Result<u64, Stuck> {
        let mut memory = Memory::default();
        let Some(mut loaded) = Box::pin(self.load(stream_id)).await? else { return Ok(0) };
        if loaded.at.is_outside(shard) {
            return Ok(0);
        }
        let hints = &self.wake_hints.receive(payment_id);
        loop {
            let now = self.ports.clock.now();
            let action = match next(&loaded.state, now) {
                Step::Rest => return Ok(loaded.at.sequence()),
                Step::WaitUntil(at) => {
                    self.over(stream_id, &mut memory.backoff);
                    self.ports.clock.sleep((at - now).to_std().unwrap_or_default()).await;
                    continue;
                }
                Step::Do(action) => action,
            };
            let turn = Turn { stream_id, action: &action, hints };
            let Some(command) = self.command(turn, &loaded.state, &mut memory).await else { continue };
            let events = match decide(&loaded.state, command) {
                Ok(events) => events,
                Err(rejected) => {
                    // The handler and the decision look at the same state, so this is a fault of the engine itself;
                    // what is stored stays right.
                    let say = |backoff: &Backoff| {
                        let (faults, since) = (backoff.count(), backoff.since());
                        tracing::error!(%payment_id, faults, since, %rejected, "engine decided against its own state");
                    };
                    self.back_off(&mut memory.backoff, say).await;
                    continue;
                }
            };
            self.over(stream_id, &mut memory.backoff);
            if events.is_empty() {
                self.pause(&action, hints).await;
                continue;
            }
            let is_provisional = matches!(events[..], [PaymentEvent::DepositMined(_)]);
            match Box::pin(self.advance(turn, loaded, events)).await? {
                Some(advanced) => loaded = advanced,
                None => return Ok(0),
            }
            if is_provisional {
                // Nodes on two forks name another block at each look; that is worth no more than a commit a block.
                self.pause(&action, hints).await;
            }
        }
    }

    /// Performs the action and says what follows from its outcome; `None` after a wait, when the state is looked at anew.
    async fn command(&self, turn: Turn<'_>, state: &Payment, memory: &mut Memory) -> Option<Command> {
        let (Turn { stream_id, action, hints }, payment_id) = (turn, &state.submitted.payment_id);
        let since = action.wake_condition().and_then(|wake| self.ports.chains.cursor(wake.chain_id, wake.contract));
        let outcome = Box::pin(perform(&self.ports, &self.options, state, action, &mut memory.learned)).await;
        match outcome {
            Ok(Outcome::Command(command)) => Some(match (*command, memory.refused.take()) {
                (Command::MissDepositWindow { at }, Some(context)) => Command::RefuseDeposit { context, at },
                (command, _) => command,
            }),
            Ok(Outcome::DepositRefused(refusal)) => self.deposit_refused(turn, state, refusal, memory).await,
            Ok(Outcome::ReleaseRefused(refusal)) => {
                self.over(stream_id, &mut memory.backoff);
                memory.note_release_refused(payment_id, refusal.context.revert_reason);
                self.await_event_or_pause(action, since, hints).await;
                None
            }
            Ok(Outcome::AwaitEvent) => {
                self.over(stream_id, &mut memory.backoff);
                self.await_event_or_pause(action, since, hints).await;
                None
            }
            Ok(Outcome::DeliveryDoubted) => {
                self.over(stream_id, &mut memory.backoff);
                self.ports.clock.sleep(DOUBT_PAUSE).await;
                None
            }
            Ok(Outcome::DepositAwaited) => {
                memory.refused = None;
                self.over(stream_id, &mut memory.backoff);
                self.pause(action, hints).await;
                None
            }
            Ok(Outcome::Nothing) => {
                self.over(stream_id, &mut memory.backoff);
                self.pause(action, hints).await;
                None
            }
            Err(fault) => {
                let stage = state.stage();
                let say = |backoff: &Backoff| log_transient!(fault, backoff, %payment_id, ?stage);
                self.back_off_transient(&mut memory.backoff, &fault, say).await;
                None
            }
        }
    }

    /// What follows when the source chain refused the deposit: another look after a wait, or the end of the deposit.
    async fn deposit_refused(
        &self,
        turn: Turn<'_>,
        state: &Payment,
        refusal: Box<Refusal>,
        memory: &mut Memory,
    ) -> Option<Command> {
        let (Turn { stream_id, action, hints }, payment_id) = (turn, &state.submitted.payment_id);
        let is_payer_deposit = state.submitted.authorization.is_payer_deposit();
        let again = memory.refused.as_deref() == Some(&refusal.context);
        self.over(stream_id, &mut memory.backoff);
        memory.refusals += 1;
        if !again {
            let (refusals, reason) = (memory.refusals, refusal.context.revert_reason.as_deref());
            tracing::info!(%payment_id, refusals, reason, "deposit refused");
        }
        if is_payer_deposit || memory.refusals < self.options.refusals_max {
            // The payer deposit may land all the same, from the payer's wallet, and is reserved then; up to the end of its
            // window nothing rules it out.
            memory.refused = is_payer_deposit.then(|| Box::new(refusal.context));
            self.pause(action, hints).await;
            return None;
        }
        Some(Box::pin(self.after_refusal(payment_id, action, *refusal, hints)).await)
    }

    /// Records `events` and tells the losers of an auction that closed by them; `None` when there is no such payment.
    async fn advance(
        &self,
        turn: Turn<'_>,
        loaded: Loaded<Payment>,
        events: Vec<PaymentEvent>,
    ) -> Result<Option<Loaded<Payment>>, Stuck> {
        let closes = matches!(turn.action, Action::GatherBids(_) | Action::AskSelector(_) | Action::GiveUpSelector);
        let Some(loaded) = self.record(turn.stream_id, loaded, events).await? else {
            return self.load(turn.stream_id).await;
        };
        if closes && loaded.state.stage() != Stage::Auction {
            self.tell_losers(&loaded.state).await;
        }
        Ok(Some(loaded))
    }

    /// Tells whoever was asked and has neither won nor declined that the auction is over.
    async fn tell_losers(&self, payment: &Payment) {
        let Some(auction) = &payment.auction else { return };
        let winner = payment.award.as_ref().map(|award| &award.quote.settler);
        let declined = |did: &Did| auction.declines.iter().any(|decline| decline.settler == *did);
        let losers = auction.addressed.iter().filter(|did| Some(*did) != winner && !declined(did));
        let over =
            AuctionOver { auction_id: auction_of(&payment.submitted.payment_id), settlers: losers.cloned().collect() };
        if !over.settlers.is_empty() {
            self.ports.auction.over(&over).await;
        }
    }

    /// Waits until a refused deposit can't be sent by anyone any more, or is found to have been sent.
    async fn after_refusal(
        &self,
        payment_id: &PaymentId,
        action: &Action,
        refusal: Refusal,
        hints: &HintReceiver,
    ) -> Command {
        let Refusal { context, valid_until } = refusal;
        let mut backoff = Backoff::default();
        loop {
            let looked = match action {
                Action::SecureDeposit { order, .. } => {
                    let (context, at) = (Box::new(context.clone()), self.ports.clock.now());
                    rule_out(&self.ports, order, valid_until, || Command::RefuseDeposit { context, at }).await
                }
                // Nothing else is refused; `perform` says so only of a deposit.
                _ => return Command::RefuseDeposit { context: Box::new(context), at: self.ports.clock.now() },
            };
            match looked {
                Ok(Outcome::Command(command)) => return *command,
                Ok(_) => {
                    backoff.over();
                    self.pause(action, hints).await;
                }
                Err(fault) => {
                    let say = |backoff: &Backoff| log_transient!(fault, backoff, %payment_id);
                    self.back_off_transient(&mut backoff, &fault, say).await;
                }
            }
        }
    }

    /// Something worked: trouble that lasted is over.
    fn over(&self, stream_id: &StreamId, backoff: &mut Backoff) {
        if let Some(over) = backoff.over() {
            let (faults, since) = (over.count(), over.since());
            tracing::info!(%stream_id, faults, since, "transient faults are over");
        }
    }

    /// Waits for the event that the action waits for; where none can be awaited, until looking again can show something new.
    async fn await_event_or_pause(&self, action: &Action, since: Option<Cursor>, hints: &HintReceiver) {
        match (since, action.wake_condition()) {
            (Some(since), Some(condition)) if !mutant!("timers-not-armed") => {
                self.await_event(&condition, since, hints).await;
            }
            _ => self.pause(action, hints).await,
        }
    }

    /// Waits for an event after which looking again can show something new, and no longer than it may be missed.
    async fn await_event(&self, condition: &WakeCondition<'_>, since: Cursor, hints: &HintReceiver) {
        let WakeCondition { chain_id, payment_id, deadline, is_pushed, until, .. } = *condition;
        let waiting = Waiting { chain_id, payment_id, since, deadline, is_pushed };
        let left = until.saturating_add(1).saturating_sub(unix_seconds(self.ports.clock.now()));
        // Not all at once, where many began to wait together.
        let longest = UNSEEN_MAX.mul_f64(1.0 - f64::from(payment_id.on_chain().0[1]) / 1024.0);
        let longest = longest.min(Duration::from_secs(left));
        // In this order, so that the same happenings always come to the same.
        tokio::select! {
            biased;
            () = hints.received() => {}
            () = self.ports.chains.next_event(&waiting) => {}
            () = self.ports.clock.sleep(longest) => {}
        }
    }

    /// Waits until looking again can show something new.
    async fn pause(&self, action: &Action, hints: &HintReceiver) {
        if let Action::AskSelector(_) = action {
            return self.ports.clock.sleep(SELECTOR_PAUSE).await;
        }
        if let Action::SecureRelease { .. } = action {
            return self.ports.clock.sleep(RELEASE_PAUSE).await;
        }
        if let Action::FollowEscrow { patience: Some(patience), .. } = action {
            if mutant!("timers-not-armed") {
                return std::future::pending().await;
            }
            return self.ports.clock.sleep(*patience).await;
        }
        match action.chain() {
            // In this order, so that the same happenings always come to the same.
            Some(chain) => tokio::select! {
                biased;
                () = hints.received() => {}
                () = self.ports.chains.next_block(chain) => {}
            },
            None => self.ports.clock.sleep(self.options.backoff_min).await,
        }
    }

    /// Loads a payment; `None` when there is none.
    async fn load(&self, stream_id: &StreamId) -> Result<Option<Loaded<Payment>>, Stuck> {
        let commits = self.commits(stream_id).await?;
        let state = payment::fold(commits.iter().flat_map(Recorded::payment_events))?;
        let mut loaded = state.zip(At::end_of(&commits)).map(|(state, at)| Loaded { state, at });
        if let Some(loaded) = &mut loaded {
            // The body as it came is most of what an open payment would take, and nothing but its payloads is read here.
            let submitted = &mut loaded.state.submitted;
            submitted.request = Payload::reduced(&submitted.request);
        }
        Ok(loaded)
    }

    /// Appends `events`; `None` when the payment has to be loaded again.
    async fn record(
        &self,
        stream_id: &StreamId,
        loaded: Loaded<Payment>,
        events: Vec<PaymentEvent>,
    ) -> Result<Option<Loaded<Payment>>, Stuck> {
        // Folded before it is stored: what cannot be read back is never written.
        let mut state = loaded.state;
        for event in &events {
            state = payment::evolve(Some(state), event)?;
        }
        let events = events.into_iter().map(Event::from).collect();
        let appended = self.append(stream_id, loaded.at, events).await?;
        Ok(appended.map(|at| Loaded { state, at }))
    }

    /// What the quote selector of a batch says, asked again until its time is over. A batch only has its quotes ordered by it,
    /// so a selector that is away, or says what does not count, is not waited for any longer.
    async fn select(&self, request: &SelectionRequest) -> Option<BatchSelection> {
        let (auction_id, selector, clock) = (&request.auction_id, &request.selector, &self.ports.clock);
        while clock.now() < request.answer_by {
            match self.ports.selector.choose(request).await {
                Ok(choice) => match quote_request::selected(request, choice) {
                    Ok(selection) => return Some(selection),
                    Err(refused) => {
                        tracing::warn!(auction_id, %selector, %refused, "the quote selector is not followed")
                    }
                },
                Err(fault) => tracing::info!(auction_id, %selector, %fault, "the quote selector does not answer"),
            }
            clock.sleep(SELECTOR_PAUSE).await;
        }
        None
    }

    /// Drives a batch until its quotes are collected; what comes then is the caller's to decide.
    async fn drive_quote_request(&self, shard: Option<u16>, stream_id: &StreamId) -> Result<u64, Stuck> {
        let mut backoff = Backoff::default();
        loop {
            let commits = self.commits(stream_id).await?;
            let state = quote_request::fold(commits.iter().flat_map(Recorded::quote_request_events))?;
            let (Some(batch), Some(at)) = (state, At::end_of(&commits)) else { return Ok(0) };
            if at.is_outside(shard) {
                return Ok(0);
            }
            let request = match quote_request::next(&batch) {
                quote_request::Step::GatherBids(request) => request,
                quote_request::Step::Rest => return Ok(at.sequence()),
            };
            let gathered = match self.ports.auction.gather(&request).await {
                Ok(gathered) => gathered,
                Err(fault) => {
                    let say = |backoff: &Backoff| log_transient!(fault, backoff, %stream_id);
                    self.back_off_transient(&mut backoff, &fault, say).await;
                    continue;
                }
            };
            let mut collected = batch.collect(gathered, self.ports.clock.now());
            if let Some(request) = batch.selection(&collected) {
                collected.selection = self.select(&request).await;
            }
            let collected = QuoteRequestEvent::Collected(Box::new(collected));
            quote_request::evolve(Some(batch), &collected)?;
            if let Some(at) = self.append(stream_id, at, vec![collected.into()]).await? {
                return Ok(at.sequence());
            }
        }
    }
}
