//! Broken variants of the payment protocol, each of which breaks one rule. Tests show that a property catches each.

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The escrow refunds from the end of the last promise on, while it still releases.
    RefundBeforeReleaseMargin,
    /// The escrow releases without an end.
    ReleaseWithoutEnd,
    /// The escrow takes more than one deposit for a payment.
    DepositTwice,
    /// The escrow cancels by a non-delivery that names no quote.
    NonDeliveryWithoutQuote,
    /// Verifiers attest a non-delivery by the clock, without a settled block of the destination chain.
    NonDeliveryByClock,
    /// Verifiers attest a delivery in a block that is not settled.
    DeliveryNotSettled,
    /// Verifiers take a delivery under the quote from whomever.
    ImpostorCounts,
    /// One member speaks for the set.
    ThresholdOfOne,
    /// The gateway believes an escrow in a block that is not settled.
    EscrowNotSettled,
    /// The gateway fails a payment by its clock, before a settled block of the destination chain is past the promise.
    FailedBeforeEvidence,
    /// The gateway takes a deposit that has no receipt for one that can't come any more.
    TimeOutIsFailure,
    /// The gateway fails a payment whose deposit reverted, while anyone may still bring its call.
    AdmissionNotWaitedOut,
    /// The gateway sends a transaction before it is journaled.
    BroadcastBeforeJournal,
    /// The gateway takes an append whose outcome is unknown for stored.
    UnknownIsStored,
    /// The escrow takes a reservation without an end.
    ReserveWithoutEnd,
    /// The gateway takes a failed payment for one that no transaction of the payer's can reach any more.
    NotWatched,
    /// The gateway never refunds.
    RefundLeftToOthers,
    /// The gateway awards the next quote after a deposit was shown for the winner.
    AnswerNotFinal,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::RefundBeforeReleaseMargin,
        Self::ReleaseWithoutEnd,
        Self::DepositTwice,
        Self::NonDeliveryWithoutQuote,
        Self::NonDeliveryByClock,
        Self::DeliveryNotSettled,
        Self::ImpostorCounts,
        Self::ThresholdOfOne,
        Self::EscrowNotSettled,
        Self::FailedBeforeEvidence,
        Self::TimeOutIsFailure,
        Self::AdmissionNotWaitedOut,
        Self::BroadcastBeforeJournal,
        Self::UnknownIsStored,
        Self::ReserveWithoutEnd,
        Self::NotWatched,
        Self::RefundLeftToOthers,
        Self::AnswerNotFinal,
    ];
}
