//! Performing the reassignment leg: the new winner is told and answers, the reassignment is signed, and what became of it is
//! looked for.

use events::{
    Hash32,
    event::{Inclusion, TransactionPrepared, WithdrawalCause},
    mutant,
    time::Timestamp,
};

use super::{
    Options, Ports,
    outcome::Outcome,
    perform::{agree, keep_alive},
};
use crate::{
    payment::{Command, Payment},
    ports::{Award, PrepareError, ReassignmentOrder, ReassignmentState, TransactionState, Transient},
};

/// Until when quotes are collected for the escrow of `payment`, whose reservation lapses at `at` with the word of as many
/// verifiers as the escrow needs; `None` where the money goes back.
pub(super) fn quote_deadline(ports: &Ports, options: &Options, payment: &Payment, at: Timestamp) -> Option<Timestamp> {
    if !is_followed(ports, payment) {
        return None;
    }
    let deadline = options.reassignment.quote_deadline(payment.lapsed_reservations.len(), at)?;
    payment.may_reopen(at, deadline).then_some(deadline)
}

/// Whether the payment's escrow takes a reassignment, and so many of its verifiers are known to attest a delivery out of it as it
/// takes to release it.
pub(super) fn is_followed(ports: &Ports, payment: &Payment) -> bool {
    let verifier = &payment.submitted.verifier;
    let follow = verifier.members().iter().filter(|member| ports.verifier.follows_reassignments(member)).count();
    follow >= verifier.threshold() && ports.chains.takes_reassignments(&payment.submitted.escrow)
}

/// The lapse of a reservation by the gateway's clock, with nobody's word for it, for a broken variant.
pub(super) fn lapsed_without_evidence(ports: &Ports, options: &Options, payment: &Payment) -> Outcome {
    let at = ports.clock.now();
    let deadline = options.reassignment.quote_deadline(payment.lapsed_reservations.len(), at);
    match deadline.filter(|deadline| payment.may_reopen(at, *deadline)) {
        Some(quote_deadline) => {
            let (given, attestation) = (Vec::new(), "0x".to_owned());
            Outcome::command(Command::LapseReservation { given, attestation, quote_deadline, at })
        }
        None => Outcome::AwaitEvent,
    }
}

/// Signs a reassignment to a winner that stands by its quote. A node that is shown one can bring it up to the promise of that
/// quote, so from then on the award stands until the chain proves that it is over.
pub(super) async fn secure(
    ports: &Ports,
    payment: &Payment,
    award: &Award,
    order: &ReassignmentOrder,
    attempt: u32,
    agreed: &mut Option<Hash32>,
) -> Result<Outcome, Transient> {
    if let Some(lost) = agree(ports, payment, award, payment.is_reassignment_signed(), agreed).await? {
        return Ok(Outcome::command(lost));
    }
    if let Some(known) = known(ports, payment, order).await? {
        return Ok(known);
    }
    match ports.chains.prepare_reassignment(order, attempt).await {
        Ok(transaction) => {
            if mutant!("broadcast-before-journal") {
                ports.chains.broadcast(&transaction).await?;
            }
            Ok(Outcome::command(Command::PrepareReassignment(transaction)))
        }
        Err(PrepareError::Transient(fault)) => Err(fault),
        Err(PrepareError::Waiting(_) | PrepareError::PayerSent { .. }) => Ok(Outcome::Nothing),
        // Most often the node is behind, or the escrow has ended in a block that is not deep yet.
        Err(PrepareError::Refused(refusal)) => Ok(Outcome::ReassignmentRefused(refusal)),
    }
}

/// Looks for what became of the reassignment under way.
pub(super) async fn follow(
    ports: &Ports,
    payment: &Payment,
    order: &ReassignmentOrder,
    versions: &[TransactionPrepared],
) -> Result<Outcome, Transient> {
    if mutant!("reassigned-taken-for-granted")
        && let Some(newest) = versions.last()
    {
        ports.chains.broadcast(newest).await?;
        return Ok(Outcome::command(Command::ObserveReassignment(unsettled(newest))));
    }
    if let Some(known) = known(ports, payment, order).await? {
        return Ok(known);
    }
    match ports.chains.transaction_state(versions).await? {
        TransactionState::Pending => keep_alive(ports, versions, Command::RepriceReassignment).await,
        // That it is in no block is the word of nodes that may not know the block yet; what the escrow has on record is read in
        // a settled block, which is not older than the one from which the transaction was judged.
        TransactionState::Dead { evidence } => match known(ports, payment, order).await? {
            Some(known) => Ok(known),
            None => Ok(Outcome::command(Command::AbandonReassignment { evidence, at: ports.clock.now() })),
        },
    }
}

/// Looks for what became of a reassignment of which none of the gateway's own transactions may land any more.
pub(super) async fn give_up(ports: &Ports, payment: &Payment, order: &ReassignmentOrder) -> Result<Outcome, Transient> {
    Ok(known(ports, payment, order).await?.unwrap_or(Outcome::Nothing))
}

/// What to record of a reassignment that is there, or cannot come any more. Of the latter the winner is told before it is journaled,
/// as nothing is driven for its award any more then.
async fn known(ports: &Ports, payment: &Payment, order: &ReassignmentOrder) -> Result<Option<Outcome>, Transient> {
    let at = ports.clock.now();
    let (command, evidence) = match ports.chains.reassignment_state(order).await? {
        ReassignmentState::Open => return Ok(None),
        ReassignmentState::Reassigned(inclusion) => {
            return Ok(Some(Outcome::command(Command::ObserveReassignment(inclusion))));
        }
        ReassignmentState::Missed { evidence } => (Command::GiveUpReassignment { at }, evidence),
        ReassignmentState::Lost { evidence } => (Command::ForgoReassignment { at }, evidence),
    };
    tracing::info!(payment_id = %order.payment_id, command = command.name(), evidence, "the escrow was not reassigned");
    if let Some(award) = payment.award.as_deref() {
        ports.auction.end(&award.ended(&order.payment_id, WithdrawalCause::NotDeposited.code())).await?;
    }
    Ok(Some(Outcome::command(command)))
}

/// A block that nobody looked for, for a broken variant.
fn unsettled(sent: &TransactionPrepared) -> Inclusion {
    Inclusion {
        chain_id: sent.chain_id.clone(),
        transaction_hash: sent.transaction_hash.clone(),
        block_number: 0,
        block_hash: Hash32::ZERO.to_string(),
        block_time: 0,
    }
}
