//! Spans of the engine: a step of a payment or batch, what it records, the transactions in that, and the payment as a whole.
//!
//! Spans are made where a task is at work anyway. A payment that waits has none.

use tracing::{Span, field::Empty, info_span};

use events::{
    Event, PaymentEvent, StreamId,
    event::{Inclusion, TransactionPrepared},
    time::Timestamp,
};

use crate::{
    handlers::Action,
    payment::{Payment, Stage},
    ports::Transient,
};

/// One step of a payment or batch, in its trace.
pub(super) fn step(subject: &str, action: &'static str) -> Span {
    let span = info_span!(
        target: trace::TARGET, parent: None, "step",
        otel.name = action, payment_id = subject, action, events = Empty, error = Empty,
    );
    trace::join(&span, subject, None);
    span
}

/// The step that is taken now recorded these events.
pub(super) fn recorded(events: &str) {
    if trace::is_on() {
        Span::current().record("events", events);
    }
}

/// The step that is taken now met a transient fault.
pub(super) fn failed(fault: &Transient) {
    if trace::is_on() {
        Span::current().record("error", fault.kind());
    }
}

/// An append to the journal.
pub(super) fn commit(events: &[Event]) -> Span {
    if !trace::is_on() {
        return Span::none();
    }
    let types: Vec<_> = events.iter().map(Event::type_name).collect();
    info_span!(target: trace::TARGET, "commit", events = types.join(","))
}

/// What an action is called in spans.
pub(super) fn name(action: &Action) -> &'static str {
    match action {
        Action::GatherBids(_) => "auction",
        Action::AskSelector(_) => "ask_selector",
        Action::GiveUpSelector => "give_up_selector",
        Action::SecureDeposit { .. } => "secure_deposit",
        Action::TellWinner(_) => "tell_winner",
        Action::RuleOutDeposit { .. } => "rule_out_deposit",
        Action::GiveUpDeposit { .. } => "give_up_deposit",
        Action::FindDeposit { .. } => "find_deposit",
        Action::FollowDeposit { .. } => "follow_deposit",
        Action::WatchDeposit { .. } => "watch_deposit",
        Action::AwaitFunds { .. } => "await_funds",
        Action::WatchAddress { .. } => "watch_address",
        Action::SecureGiveBack { .. } => "secure_give_back",
        Action::FollowGiveBack { .. } => "follow_give_back",
        Action::SecureReassignment { .. } => "secure_reassignment",
        Action::FollowReassignment { .. } => "follow_reassignment",
        Action::GiveUpReassignment { .. } => "give_up_reassignment",
        Action::ForgoReassignment => "forgo_reassignment",
        Action::FollowDelivery { .. } => "follow_delivery",
        Action::FollowAttestation { .. } => "follow_attestation",
        Action::FollowEscrow { .. } => "follow_escrow",
        Action::SecureRelease { .. } => "secure_release",
        Action::FollowRelease { .. } => "follow_release",
        Action::SecureRefund { .. } => "secure_refund",
        Action::FollowRefund { .. } => "follow_refund",
    }
}

/// A transaction that an event tells of.
pub(super) struct Told {
    event: &'static str,
    chain: String,
    hash: String,
    block: Option<u64>,
}

impl Told {
    /// Shows it as a span of no length, once the event is stored.
    pub(super) fn show(&self) {
        let Self { event, chain, hash, block } = self;
        drop(info_span!(target: trace::TARGET, "transaction", otel.name = event, event, chain, hash, block));
    }

    fn prepared(event: &'static str, prepared: &TransactionPrepared) -> Self {
        let (chain, hash) = (prepared.chain_id.to_string(), prepared.transaction_hash.clone());
        Self { event, chain, hash, block: None }
    }

    fn seen(event: &'static str, inclusion: &Inclusion) -> Self {
        let (chain, hash) = (inclusion.chain_id.to_string(), inclusion.transaction_hash.clone());
        Self { event, chain, hash, block: Some(inclusion.block_number) }
    }
}

/// The transactions that the events tell of; none where no spans are exported.
pub(super) fn transactions(events: &[PaymentEvent]) -> Vec<Told> {
    if !trace::is_on() {
        return Vec::new();
    }
    events.iter().filter_map(transaction).collect()
}

fn transaction(event: &PaymentEvent) -> Option<Told> {
    let name = event.type_name();
    let told = match event {
        PaymentEvent::DepositPrepared(prepared)
        | PaymentEvent::DepositRepriced(prepared)
        | PaymentEvent::ReassignmentPrepared(prepared)
        | PaymentEvent::ReassignmentRepriced(prepared)
        | PaymentEvent::ReleasePrepared(prepared)
        | PaymentEvent::ReleaseRepriced(prepared)
        | PaymentEvent::RefundPrepared(prepared)
        | PaymentEvent::RefundRepriced(prepared) => Told::prepared(name, prepared),
        PaymentEvent::DepositMined(mined) => Told::seen(name, &mined.inclusion),
        PaymentEvent::EscrowSecured(secured) => Told::seen(name, &secured.inclusion),
        PaymentEvent::EscrowReassigned(reassigned) => Told::seen(name, &reassigned.inclusion),
        PaymentEvent::EscrowOpened(opened) => Told::seen(name, &opened.inclusion),
        PaymentEvent::FulfillmentSeen(seen) => Told::seen(name, &seen.inclusion),
        PaymentEvent::FulfillmentFinalized(finalized) => Told::seen(name, &finalized.inclusion),
        PaymentEvent::FulfillmentConfirmed(confirmed) => Told::seen(name, &confirmed.inclusion),
        PaymentEvent::EscrowReleased(released) => Told::seen(name, &released.inclusion),
        PaymentEvent::EscrowRefunded(refunded) => Told::seen(name, &refunded.inclusion),
        _ => return None,
    };
    Some(told)
}

/// Shows the payment as a whole when it has just come to rest: the root of its trace.
pub(super) fn came_to_rest(before: Stage, payment: &Payment, now: impl FnOnce() -> Timestamp) {
    if !trace::is_on() || before == Stage::Rest || payment.stage() != Stage::Rest {
        return;
    }
    trace::ended(&trace::Ended {
        name: "payment",
        subject: payment.submitted.payment_id.as_str(),
        since: payment.submitted.submitted_at.into(),
        at: now().into(),
        failure: payment.failed.as_ref().map(|failed| failed.failure.code.as_str()),
    });
}

/// Shows a batch as a whole whose quotes were just collected: the root of its trace.
pub(super) fn collected(batch: &StreamId, opened_at: Timestamp, now: impl FnOnce() -> Timestamp) {
    if trace::is_on() {
        let (since, at) = (opened_at.into(), now().into());
        trace::ended(&trace::Ended { name: "quote-request", subject: batch.as_str(), since, at, failure: None });
    }
}
