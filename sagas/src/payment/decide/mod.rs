//! Decisions: commands turned into events, one file for each leg of the saga as in [`crate::handlers`].

mod auction;
mod escrow;
mod funding;
mod reassignment;
mod refund;
mod release;
mod settlement;

use events::{PaymentEvent, failure::RetryClassification};

use super::{Command, Payment, Stage};

/// A command that the payment's state does not allow. The caller acted on a stale state, or is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{command} is not allowed in stage {stage:?}")]
pub struct Rejected {
    /// The command.
    pub command: &'static str,
    /// The stage the payment is in.
    pub stage: Stage,
}

/// What a leg decides on a command: the events that record it, or `None` when the payment's stage does not allow it.
type Decided = Option<Vec<PaymentEvent>>;

/// The events that record `command`; none when it says nothing new.
///
/// # Errors
/// [`Rejected`] when the payment's stage does not allow the command. Terminal states allow nothing that would change
/// them: a failed payment never completes and a completed one never fails.
pub fn decide(payment: &Payment, command: Command) -> Result<Vec<PaymentEvent>, Rejected> {
    let rejected = Rejected { command: command.name(), stage: payment.stage() };
    let decided = match command {
        Command::FundAddress { funds, quote_deadline, at } => funding::fund(payment, funds, quote_deadline, at),
        Command::MissFunds { funds, at } => funding::miss(payment, funds, at),
        Command::ObserveAddress { state, at } => funding::observe(payment, state, at),
        Command::CloseAuction { judgement, at } => auction::close(payment, *judgement, at),
        Command::TakeChoice { choice, at } => auction::take_choice(payment, choice, at),
        Command::MissChoice { at } => auction::miss_choice(payment, at),
        Command::LoseWinner { refusal, at } => auction::lose_winner(payment, refusal, at),
        Command::TellWinner { at } => auction::tell_winner(payment, at),
        Command::RecordPayerTransaction { step, transaction_hash, at } => {
            escrow::payer_sent(payment, step, transaction_hash, at)
        }
        Command::PrepareDeposit(transaction) => escrow::prepare(payment, transaction),
        Command::RepriceDeposit(transaction) => escrow::reprice(payment, transaction),
        Command::RefuseDeposit { context, at } => escrow::refuse(payment, *context, at),
        Command::StrandDeposit { opened, at } => escrow::strand(payment, opened, at),
        Command::MissDepositWindow { at } => escrow::miss_window(payment, at),
        Command::ForgoDeposit { at } => escrow::forgo(payment, at),
        Command::ExhaustDeposit { at } => escrow::exhaust(payment, at),
        Command::AdoptDeposit(secured) => escrow::adopt(payment, secured),
        Command::ObserveDeposit { state, at } => escrow::observe(payment, state, at),
        Command::ObserveMinedDeposit(inclusion) => escrow::observe_mined(payment, inclusion),
        Command::LapseReservation { given, attestation, quote_deadline, at } => {
            reassignment::lapse(payment, given, attestation, quote_deadline, at)
        }
        Command::PrepareReassignment(transaction) => reassignment::prepare(payment, transaction),
        Command::RepriceReassignment(transaction) => reassignment::reprice(payment, transaction),
        Command::AbandonReassignment { evidence, at } => reassignment::abandon(payment, evidence, at),
        Command::ObserveReassignment(inclusion) => reassignment::observe(payment, inclusion),
        Command::GiveUpReassignment { at } => reassignment::give_up(payment, at),
        Command::ForgoReassignment { at } => reassignment::forgo(payment, at),
        Command::ObserveDelivery(inclusion) => settlement::observe_delivery(payment, inclusion),
        Command::FinalizeDelivery { inclusion, given, at } => settlement::finalize(payment, inclusion, given, at),
        Command::AwaitAttestation { at } => settlement::await_attestation(payment, at),
        Command::ConfirmDelivery { inclusion, given, attestation, at, release_from } => {
            settlement::confirm(payment, inclusion, given, attestation, at, release_from)
        }
        Command::FailUndelivered { given, attestation, at } => {
            settlement::fail_undelivered(payment, given, attestation, at)
        }
        Command::RecordAttestations { given } => settlement::record_attestations(payment, given),
        Command::RecordNonDeliveries { given } => settlement::record_nondeliveries(payment, given),
        Command::MissAttestation { at } => settlement::miss_attestation(payment, at),
        Command::ObserveEscrow { state, claims } => release::observe_escrow(payment, state, claims),
        Command::PrepareRelease(transaction) => release::prepare(payment, transaction),
        Command::RepriceRelease(transaction) => release::reprice(payment, transaction),
        Command::AbandonRelease { evidence, at } => release::abandon(payment, evidence, at),
        Command::PrepareRefund(transaction) => refund::prepare(payment, transaction),
        Command::RepriceRefund(transaction) => refund::reprice(payment, transaction),
        Command::AbandonRefund { evidence, at } => refund::abandon(payment, evidence, at),
    };
    let mut decided = decided.ok_or(rejected)?;
    if payment.transfer.is_some() {
        decided.iter_mut().for_each(has_been_paid);
    }
    Ok(decided)
}

/// What a buyer has sent on Solana is its merchant's, whatever becomes of the payment, so nobody is told to pay anew (ADR 160).
fn has_been_paid(event: &mut PaymentEvent) {
    if let PaymentEvent::Failed(failed) = event
        && failed.failure.retry_classification == Some(RetryClassification::RetryWithNewRequestId)
    {
        failed.failure.retry_classification = Some(RetryClassification::ReconcileThenDecide);
    }
}
