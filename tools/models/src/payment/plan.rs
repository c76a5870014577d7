//! What `handlers::next` says is to be done, as far as the model has to know.

use sagas::{
    handlers::{Action, Step},
    payment::Payment,
};

use super::documents::Documents;

/// The action of the same name, with the quote that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what the action of its name in sagas says")]
pub enum Plan {
    /// Nothing now, or ever.
    Rest,
    GatherBids {
        round: usize,
    },
    SecureDeposit {
        quote: u8,
        attempt: u32,
        amount: u16,
    },
    RuleOutDeposit {
        quote: u8,
    },
    FollowDeposit {
        quote: u8,
    },
    FollowDelivery {
        quote: u8,
        window_open: bool,
    },
    FollowAttestation {
        quote: u8,
        is_late: bool,
    },
    SecureReassignment {
        quote: u8,
        attempt: u32,
    },
    FollowReassignment {
        quote: u8,
    },
    FollowEscrow,
    SecureRelease {
        quote: u8,
        attempt: u32,
    },
    FollowRelease,
    SecureRefund {
        attempt: u32,
        is_cancellation: bool,
    },
    FollowRefund,
    TellWinner,
    WatchDeposit,
    /// An action that the model does not lead to.
    Unexpected,
}

impl Plan {
    /// The plan of a step.
    pub fn of(step: &Step, payment: &Payment, documents: &Documents) -> Self {
        let Step::Do(action) = step else { return Self::Rest };
        Self::of_action(action, payment, documents).unwrap_or(Self::Unexpected)
    }

    /// `None` for a quote that is none of the model's.
    fn of_action(action: &Action, payment: &Payment, documents: &Documents) -> Option<Self> {
        Some(match action {
            Action::GatherBids(_) => Self::GatherBids { round: payment.lapsed_reservations.len() },
            Action::SecureDeposit { order, attempt, .. } => Self::SecureDeposit {
                quote: documents.quote_of(order.reservation.quote_hash)?,
                attempt: *attempt,
                amount: u16::try_from(payment.deposit_up_to(payment.award.as_deref()?).get()).ok()?,
            },
            Action::RuleOutDeposit { order } => {
                Self::RuleOutDeposit { quote: documents.quote_of(order.reservation.quote_hash)? }
            }
            Action::FollowDeposit { order, .. } => {
                Self::FollowDeposit { quote: documents.quote_of(order.reservation.quote_hash)? }
            }
            Action::FollowDelivery { order, window_open, .. } => {
                Self::FollowDelivery { quote: documents.quote_of(order.quote_hash)?, window_open: *window_open }
            }
            Action::FollowAttestation { order, is_late, .. } => {
                Self::FollowAttestation { quote: documents.quote_of(order.quote_hash)?, is_late: *is_late }
            }
            Action::SecureReassignment { order, attempt, .. } => {
                Self::SecureReassignment { quote: documents.quote_of(order.reservation.quote_hash)?, attempt: *attempt }
            }
            Action::FollowReassignment { order, .. } => {
                Self::FollowReassignment { quote: documents.quote_of(order.reservation.quote_hash)? }
            }
            Action::FollowEscrow { .. } => Self::FollowEscrow,
            Action::SecureRelease { order, attempt } => {
                Self::SecureRelease { quote: documents.quote_of(order.quote_hash)?, attempt: *attempt }
            }
            Action::FollowRelease { .. } => Self::FollowRelease,
            Action::SecureRefund { order, attempt } => {
                Self::SecureRefund { attempt: *attempt, is_cancellation: order.non_delivery.is_some() }
            }
            Action::FollowRefund { .. } => Self::FollowRefund,
            Action::TellWinner(_) => Self::TellWinner,
            Action::WatchDeposit { .. } => Self::WatchDeposit,
            Action::AskSelector(_)
            | Action::AwaitFunds { .. }
            | Action::WatchAddress { .. }
            | Action::SecureGiveBack { .. }
            | Action::FollowGiveBack { .. }
            | Action::GiveUpSelector
            | Action::GiveUpDeposit { .. }
            | Action::FindDeposit { .. }
            | Action::GiveUpReassignment { .. }
            | Action::ForgoReassignment => Self::Unexpected,
        })
    }
}
