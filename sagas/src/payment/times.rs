//! Timestamps of events: when each happened by the clock of whoever wrote it, in an order that clocks which differ don't upset.

use events::{PaymentEvent, time::Timestamp};

use super::Command;

/// When `event` happened, by the clock of the gateway that wrote it; `None` where it only says what stands on a chain.
pub(crate) fn written_at(event: &PaymentEvent) -> Option<Timestamp> {
    match event {
        PaymentEvent::Submitted(submitted) => Some(submitted.submitted_at),
        PaymentEvent::AddressFunded(funded) => Some(funded.funded_at),
        PaymentEvent::AddressHeld(held) => Some(held.held_at),
        PaymentEvent::AuctionClosed(closed) => Some(closed.closed_at),
        PaymentEvent::SelectorAsked(asked) => Some(asked.asked_at),
        PaymentEvent::SelectorAnswered(answered) => Some(answered.answered_at),
        PaymentEvent::QuoteAwarded(awarded) => Some(awarded.awarded_at),
        PaymentEvent::AwardLapsed(lapsed) => Some(lapsed.lapsed_at),
        PaymentEvent::AwardWithdrawn(withdrawn) => Some(withdrawn.withdrawn_at),
        PaymentEvent::WinnerTold(told) => Some(told.told_at),
        PaymentEvent::PayerTransactionSent(sent) => Some(sent.sent_at),
        PaymentEvent::DepositPrepared(transaction)
        | PaymentEvent::DepositRepriced(transaction)
        | PaymentEvent::ReassignmentPrepared(transaction)
        | PaymentEvent::ReassignmentRepriced(transaction)
        | PaymentEvent::ReleasePrepared(transaction)
        | PaymentEvent::ReleaseRepriced(transaction)
        | PaymentEvent::RefundPrepared(transaction)
        | PaymentEvent::RefundRepriced(transaction) => Some(transaction.prepared_at),
        PaymentEvent::DepositAbandoned(abandoned)
        | PaymentEvent::ReassignmentAbandoned(abandoned)
        | PaymentEvent::ReleaseAbandoned(abandoned)
        | PaymentEvent::RefundAbandoned(abandoned) => Some(abandoned.abandoned_at),
        PaymentEvent::DepositRuledOut(ruled_out) => Some(ruled_out.ruled_out_at),
        PaymentEvent::ReservationLapsed(lapsed) => Some(lapsed.lapsed_at),
        PaymentEvent::FulfillmentFinalized(finalized) => Some(finalized.finalized_at),
        PaymentEvent::DeliveryAttested(attested) | PaymentEvent::NonDeliveryAttested(attested) => {
            Some(attested.attested_at)
        }
        PaymentEvent::AttestationAwaited(awaited) => Some(awaited.awaited_at),
        PaymentEvent::FulfillmentConfirmed(confirmed) => Some(confirmed.confirmed_at),
        PaymentEvent::AttestationMissed(missed) => Some(missed.missed_at),
        PaymentEvent::Failed(failed) => Some(failed.failed_at),
        PaymentEvent::DepositMined(_)
        | PaymentEvent::EscrowSecured(_)
        | PaymentEvent::EscrowOpened(_)
        | PaymentEvent::EscrowReassigned(_)
        | PaymentEvent::FulfillmentSeen(_)
        | PaymentEvent::EscrowReleased(_)
        | PaymentEvent::EscrowRefunded(_) => None,
    }
}

impl Command {
    /// The same command, which happened no earlier than `earliest`: what is recorded follows from what was recorded before, whatever
    /// the clocks of the two gateways said. Where the decision itself goes by the time, which quote still lasts or how long quotes are
    /// collected, it stays as it is; and so does that of a transaction, which is its nonce's.
    pub(crate) fn not_before(mut self, earliest: Timestamp) -> Self {
        for time in self.times() {
            *time = earliest.max(*time);
        }
        self
    }

    /// The times at which it says that something happened.
    fn times(&mut self) -> Vec<&mut Timestamp> {
        match self {
            Self::FundAddress { at, .. }
            | Self::MissFunds { at, .. }
            | Self::ObserveAddress { at, .. }
            | Self::CloseAuction { at, .. }
            | Self::TakeChoice { at, .. }
            | Self::MissChoice { at }
            | Self::TellWinner { at }
            | Self::RecordPayerTransaction { at, .. }
            | Self::RefuseDeposit { at, .. }
            | Self::StrandDeposit { at, .. }
            | Self::MissDepositWindow { at }
            | Self::ForgoDeposit { at }
            | Self::ExhaustDeposit { at }
            | Self::ObserveDeposit { at, .. }
            | Self::AbandonReassignment { at, .. }
            | Self::GiveUpReassignment { at }
            | Self::ForgoReassignment { at }
            | Self::AwaitAttestation { at }
            | Self::MissAttestation { at }
            | Self::AbandonRelease { at, .. }
            | Self::AbandonRefund { at, .. } => vec![at],
            Self::FinalizeDelivery { given, at, .. }
            | Self::ConfirmDelivery { given, at, .. }
            | Self::FailUndelivered { given, at, .. } => {
                given.iter_mut().map(|attested| &mut attested.attested_at).chain([at]).collect()
            }
            Self::RecordAttestations { given } | Self::RecordNonDeliveries { given } => {
                given.iter_mut().map(|attested| &mut attested.attested_at).collect()
            }
            Self::PrepareDeposit(_)
            | Self::RepriceDeposit(_)
            | Self::PrepareReassignment(_)
            | Self::RepriceReassignment(_)
            | Self::PrepareRelease(_)
            | Self::RepriceRelease(_)
            | Self::PrepareRefund(_)
            | Self::RepriceRefund(_)
            | Self::LoseWinner { .. }
            | Self::LapseReservation { .. }
            | Self::AdoptDeposit(_)
            | Self::ObserveMinedDeposit(_)
            | Self::ObserveDelivery(_)
            | Self::ObserveReassignment(_)
            | Self::ObserveEscrow { .. } => Vec::new(),
        }
    }
}
