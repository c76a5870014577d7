//! Invariants, checked after every commit and every block, and at the end.
//!
//! [`Invariants`] keeps its own record of what was promised, separate from the engine's state: a fault in the state machine
//! must not hide itself.

mod entry;
mod money;
mod reassignment;
mod word;

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;

use chains::escrow::State;
use events::{
    Account, ChainId, Event, Hash32, PaymentEvent, PaymentId, QuoteRequestEvent, QuoteRequestId, StreamId,
    event::{Submitted, TransactionPrepared, Validity},
};
use journal::Recorded;
use projections::PaymentStatus;
use sagas::{
    payment::{self, Payment, Stage},
    quote_request::{self, QuoteRequest, Stage as BatchStage},
};

use self::{
    entry::{End, Entry},
    money::Ledger,
};
use super::{ChainHandle, World, projection::View};
use crate::{coverage, family::EscrowCall};

/// After its deadline, and after faults ended, a payment is final within so many seconds.
const FINAL_WITHIN: u64 = 300;
/// After its refund window opened, and after faults ended, a payment is at rest within so many seconds.
pub const REST_WITHIN: u64 = 500;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{invariant}: {detail}")]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// What was found instead.
    pub detail: String,
}

impl Violation {
    /// A violation.
    pub fn new(invariant: &'static str, detail: impl Into<String>) -> Self {
        Self { invariant, detail: detail.into() }
    }
}

/// Fails with a violation unless `holds`.
pub fn require(holds: bool, invariant: &'static str, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    coverage::checked(invariant);
    if holds { Ok(()) } else { Err(Violation::new(invariant, detail())) }
}

/// The checker of all invariants, with its record of all payments and batches.
#[derive(Default)]
pub struct Invariants {
    payments: BTreeMap<PaymentId, Entry>,
    batches: BTreeMap<QuoteRequestId, QuoteRequest>,
    accepted: BTreeSet<PaymentId>,
    /// What payers signed deposits for, and on which chain, whether or not anything came of it.
    signed: BTreeMap<PaymentId, ChainId>,
    clients_done: usize,
    /// What each nonce of the gateway's accounts was signed for.
    nonces: BTreeMap<(ChainId, Account, Validity), String>,
    /// When each payment that was left behind was swept last.
    swept: BTreeMap<PaymentId, u64>,
    /// Hashes of all transactions that were stored.
    journaled: BTreeSet<String>,
    /// Hashes of all blocks that were looked at.
    blocks: BTreeSet<Hash32>,
}

impl Invariants {
    /// A client was told that its payment is accepted.
    pub fn accepted(&mut self, payment_id: &PaymentId) {
        self.accepted.insert(payment_id.clone());
    }

    /// A payer signed for a deposit, which whoever has it may send where it is a transaction.
    pub fn signed(&mut self, payment_id: &PaymentId, chain_id: &ChainId) {
        self.signed.insert(payment_id.clone(), chain_id.clone());
    }

    /// A client is done.
    pub fn client_done(&mut self) {
        self.clients_done += 1;
    }

    /// Whether all clients are done and all payments at rest.
    pub fn is_done(&self, world: &World) -> bool {
        self.clients_done == world.plan.payments.len()
            && self.payments.values().all(Entry::rests)
            && self.batches.values().all(|batch| batch.stage() != BatchStage::Collecting)
    }

    /// Payments and batches that are not at rest; a batch with quotes is not while one of them may be awarded.
    pub fn open_streams(&self, world: &World) -> Vec<StreamId> {
        let payments = self.payments.iter().filter(|(_, entry)| !entry.rests()).map(|(id, _)| id.into());
        // By the clock of whichever gateway.
        let apart = TimeDelta::seconds(if world.plan.gateway_clocks.is_empty() { 60 } else { 720 });
        let batches = self.batches.iter().filter(|(_, batch)| match batch.stage() {
            BatchStage::Awarded => false,
            BatchStage::Collecting => true,
            BatchStage::Collected => world.now() <= batch.opened.fulfillment_deadline + apart,
        });
        payments.chain(batches.map(|(id, _)| id.into())).collect()
    }

    /// The last second by which everything must be at rest, when faults end at `calm`.
    pub fn rest_by(&self, calm: u64) -> u64 {
        let last = self.payments.values().map(|entry| entry.submitted.escrow.refund_after).max();
        last.unwrap_or_default().max(calm) + REST_WITHIN
    }

    /// How many payments ended in which way, for statistics.
    pub fn ends(&self) -> (usize, usize) {
        let count = |end| self.payments.values().filter(|entry| entry.end == Some(end)).count();
        (count(End::Completed), count(End::Failed))
    }

    /// What was signed for on this source and is no payment of any gateway.
    fn strays(&self, handle: &ChainHandle) -> Vec<PaymentId> {
        let here = self.signed.iter().filter(|(_, chain_id)| **chain_id == handle.chain_id);
        here.map(|(payment_id, _)| payment_id).filter(|id| !self.payments.contains_key(*id)).cloned().collect()
    }

    /// What payers with money left on this source do about it: of payments that were completed and whose money nobody fetched in
    /// time, of those whose release left something over, and of what is no payment.
    pub fn left_behind(&mut self, world: &World, handle: &ChainHandle) -> Vec<(PaymentId, EscrowCall)> {
        let now = world.seconds();
        let mut left = Vec::new();
        for (payment_id, entry) in &self.payments {
            let plan = &entry.submitted.escrow;
            if plan.chain_id != handle.chain_id || entry.end != Some(End::Completed) {
                continue;
            }
            if entry.rests() && !handle.remainder(payment_id).is_zero() {
                left.push((payment_id.clone(), EscrowCall::Remainder));
            } else if !entry.rests() && now > plan.refund_after + 60 {
                left.push((payment_id.clone(), EscrowCall::Refund));
            }
        }
        for payment_id in self.strays(handle) {
            let record = handle.escrow_record(&payment_id).ok().flatten();
            if record.is_some_and(|record| record.state == State::Deposited && now > record.refund_after) {
                left.push((payment_id, EscrowCall::Refund));
            }
        }
        // Again after a while: the transaction may be forgotten.
        left.retain(|(payment_id, call)| {
            let every = if *call == EscrowCall::Remainder { 15 } else { 60 };
            let is_due = self.swept.get(payment_id).is_none_or(|before| now > before + every);
            if is_due {
                self.swept.insert(payment_id.clone(), now);
            }
            is_due
        });
        left
    }

    /// Checks a commit that was just stored.
    pub fn committed(&mut self, world: &World, recorded: &Recorded) -> Result<(), Violation> {
        let payment_id = match &recorded.stream_id {
            StreamId::Payment(payment_id) => payment_id,
            StreamId::QuoteRequest(id) => return self.batch(id, recorded),
        };
        for event in recorded.events.iter().filter_map(Event::payment) {
            if let PaymentEvent::Submitted(submitted) = event {
                require(!self.payments.contains_key(payment_id), "one payment per id", || payment_id.to_string())?;
                self.begun(submitted)?;
                let entry = Entry::new(submitted.as_ref().clone());
                self.payments.insert(payment_id.clone(), entry);
            }
            let Some(entry) = self.payments.get_mut(payment_id) else {
                return Err(Violation::new("streams fold legally", format!("{payment_id} begins with {event:?}")));
            };
            let folded = payment::evolve(entry.state.take(), event);
            require(folded.is_ok(), "streams fold legally", || format!("{payment_id}: {folded:?}"))?;
            entry.state = folded.ok();
            entry.version = recorded.position.version;
            entry.look(world, payment_id, event)?;
            if let PaymentEvent::DepositPrepared(prepared)
            | PaymentEvent::DepositRepriced(prepared)
            | PaymentEvent::ReassignmentPrepared(prepared)
            | PaymentEvent::ReassignmentRepriced(prepared)
            | PaymentEvent::ReleasePrepared(prepared)
            | PaymentEvent::ReleaseRepriced(prepared)
            | PaymentEvent::RefundPrepared(prepared)
            | PaymentEvent::RefundRepriced(prepared) = event
            {
                let leg = match event {
                    PaymentEvent::DepositPrepared(_) | PaymentEvent::DepositRepriced(_) => "deposit",
                    PaymentEvent::ReassignmentPrepared(_) | PaymentEvent::ReassignmentRepriced(_) => "reassignment",
                    PaymentEvent::ReleasePrepared(_) | PaymentEvent::ReleaseRepriced(_) => "release",
                    _ => "refund",
                };
                let purpose = format!("{payment_id}/{leg}/{}", prepared.attempt);
                self.prepared(world, prepared, purpose)?;
            }
        }
        Ok(())
    }

    /// A view says what the engine's state says, which is another fold of the same commits. A view that is behind is looked
    /// at when it has caught up.
    pub fn shows(&self, view: &View) -> Result<(), Violation> {
        let View::Payment(view) = view else { return Ok(()) };
        let entry = self.payments.get(&view.payment_id).filter(|entry| entry.version == view.version);
        let Some(state) = entry.and_then(|entry| entry.state.as_ref()) else { return Ok(()) };
        let status = match state {
            state if state.delivery().is_some() => PaymentStatus::Completed,
            Payment { failed: Some(_), .. } => PaymentStatus::Failed,
            Payment { seen: Some(_), .. } => PaymentStatus::Finalizing,
            _ => PaymentStatus::Pending,
        };
        let opened = state.opened.as_ref().map(|opened| opened.amount);
        let holds = view.status == status
            && view.at_rest == (state.stage() == Stage::Rest)
            && view.unattested == (state.delivery().is_some() && state.confirmed.is_none())
            && view.escrowed == state.secured.as_ref().map(|secured| secured.amount).or(opened)
            && view.quote.as_ref().map(|quote| quote.quote_hash) == shown_quote(state)
            && view
                .lapsed
                .iter()
                .map(|quote| quote.quote_hash)
                .eq(state.lapsed_reservations.iter().map(|lapsed| lapsed.event.quote_hash))
            && view.reopened.is_some() == (state.is_reopened && state.failed.is_none())
            && view.failure.as_ref() == state.failed.as_ref().map(|failed| &failed.failure);
        require(holds, "projection equals fold", || format!("{view:?} is shown of {state:?}"))
    }

    /// Checks a commit of a batch.
    fn batch(&mut self, id: &QuoteRequestId, recorded: &Recorded) -> Result<(), Violation> {
        for event in recorded.quote_request_events() {
            let before = self.batches.remove(id);
            if let QuoteRequestEvent::Opened(_) = event {
                require(before.is_none(), "one batch per id", || id.to_string())?;
            }
            let awarded = before.as_ref().and_then(|batch| batch.awarded.clone());
            require(awarded.is_none(), "a batch is awarded once", || format!("{id}: {awarded:?}, then {event:?}"))?;
            match quote_request::evolve(before, event) {
                Ok(batch) => {
                    coverage::checked("streams fold legally");
                    self.batches.insert(id.clone(), batch);
                }
                Err(error) => return Err(Violation::new("streams fold legally", format!("{id}: {error}"))),
            }
        }
        Ok(())
    }

    /// A payment out of a batch is the one that the batch was awarded to.
    fn begun(&self, submitted: &Submitted) -> Result<(), Violation> {
        let Some(collected) = &submitted.collected_quote else { return Ok(()) };
        let awarded = self.batches.get(&collected.quote_request_id).and_then(|batch| batch.awarded.as_ref());
        let right = awarded.is_some_and(|awarded| {
            awarded.payment_id == submitted.payment_id && awarded.quote_id == collected.quote_id
        });
        require(right, "a batch is awarded once", || {
            format!("{} begins, and its batch is awarded to {awarded:?}", submitted.payment_id)
        })
    }

    /// Intent before effect, and a nonce for one purpose only.
    fn prepared(&mut self, world: &World, prepared: &TransactionPrepared, purpose: String) -> Result<(), Violation> {
        if prepared.validity.nonce().is_some() {
            let key = (prepared.chain_id.clone(), prepared.sender.clone(), prepared.validity);
            let before = self.nonces.entry(key).or_insert_with(|| purpose.clone());
            require(*before == purpose, "a nonce serves one purpose", || {
                format!("{:?} of {} is of {before} and of {purpose}", prepared.validity, prepared.sender)
            })?;
        }
        let Some(handle) = world.chain(&prepared.chain_id) else { return Ok(()) };
        self.journaled.insert(prepared.transaction_hash.clone());
        let is_known = handle.knows(&prepared.transaction_hash);
        require(!is_known, "intent before effect", || {
            format!("{purpose} was sent before it was stored: {}", prepared.transaction_hash)
        })
    }

    /// Looks at what waits to be mined: of the gateway's accounts nothing goes to the escrow that was not stored before.
    pub fn pending(&self, world: &World, handle: &ChainHandle) -> Result<(), Violation> {
        for waits in handle.waiting() {
            let mut submitters = world.parties.submitters.iter().chain(&world.parties.successor);
            let is_ours = waits.is_to_escrow
                && submitters.any(|name| handle.account(name) == waits.sender)
                && !world.is_thiefs(&waits.hash);
            require(!is_ours || self.journaled.contains(&waits.hash), "intent before effect", || {
                format!("{} is on its way and nowhere stored", waits.hash)
            })?;
        }
        Ok(())
    }

    /// Looks at a chain after a block.
    pub fn block(&mut self, world: &World, handle: &ChainHandle) -> Result<(), Violation> {
        let mut ledger = Ledger::default();
        for (payment_id, entry) in &mut self.payments {
            if entry.submitted.escrow.chain_id == handle.chain_id {
                entry.escrow_in_block(world, handle, payment_id, &mut ledger)?;
            }
        }
        for payment_id in self.strays(handle) {
            ledger.stray(handle, &payment_id)?;
        }
        ledger.balances(world, handle)?;
        self.changes(world, handle)?;
        self.deadlines(world)
    }

    /// Every deadline is acted on, once nothing stands in the way.
    fn deadlines(&self, world: &World) -> Result<(), Violation> {
        if !world.faults_ended() {
            return Ok(());
        }
        let calm = crate::world::BEGIN + world.plan.faults_end_after.as_secs();
        for (payment_id, entry) in &self.payments {
            let deadline = entry.submitted.escrow.fulfillment_deadline.max(calm) + FINAL_WITHIN;
            require(entry.end.is_some() || world.seconds() <= deadline, "every deadline is acted on", || {
                format!("{payment_id} is {:?} past its deadline", entry.state.as_ref().map(Payment::stage))
            })?;
            entry.attested_in_time(world)?;
            entry.moves_on(world, calm)?;
        }
        Ok(())
    }

    /// Looks at everything once the run is over.
    pub fn closed(&self, world: &World, views: &[Vec<View>]) -> Result<(), Violation> {
        for (id, batch) in &self.batches {
            let stage = batch.stage();
            require(stage != BatchStage::Collecting, "every batch comes to rest", || format!("{id} is {stage:?}"))?;
            shown(views, &id.into())?;
        }
        for payment_id in &self.accepted {
            require(self.payments.contains_key(payment_id), "nothing accepted is lost", || payment_id.to_string())?;
        }
        for (payment_id, entry) in &self.payments {
            let stage = entry.state.as_ref().map(Payment::stage);
            require(stage == Some(Stage::Rest), "every payment comes to rest", || {
                format!("{payment_id} is {stage:?}")
            })?;
            require(entry.end.is_some(), "every payment comes to an end", || payment_id.to_string())?;
            let Some(handle) = world.chain(&entry.submitted.escrow.chain_id) else { continue };
            let record = handle.escrow_record(payment_id).map_err(|error| unreadable(payment_id, &error))?;
            let empty = record.is_none_or(|record| matches!(record.state, State::Released | State::Refunded));
            let left = handle.remainder(payment_id);
            require(empty && left.is_zero(), "every escrow is empty in the end", || format!("{payment_id}: {left}"))?;
            shown(views, &payment_id.into())?;
        }
        Ok(())
    }
}

/// The quote that won last; of an escrow that is not reassigned the one that it is reserved for, while no other has won and once the
/// payment failed.
fn shown_quote(state: &Payment) -> Option<Hash32> {
    let is_nobodys = state.is_reopened && state.failed.is_some();
    let won = state.award.as_ref().filter(|_| !is_nobodys).map(|award| award.event.quote_hash);
    won.or_else(|| state.reopened().map(|lapsed| lapsed.event.quote_hash))
}

/// The escrow's record of the payment cannot be read, which is not the same as that there is none.
fn unreadable(payment_id: &PaymentId, error: &str) -> Violation {
    Violation::new("every escrow can be read", format!("{payment_id}: {error}"))
}

/// Every process shows the stream, at rest.
fn shown(views: &[Vec<View>], stream_id: &StreamId) -> Result<(), Violation> {
    for views in views {
        let view = views.iter().find(|view| view.stream_id() == *stream_id);
        require(view.is_some_and(View::at_rest), "projection equals fold", || {
            format!("{stream_id} is not shown at rest: {view:?}")
        })?;
    }
    Ok(())
}
