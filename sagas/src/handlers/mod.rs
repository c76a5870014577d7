//! The saga handlers: from (state, now) to what is to be done next. Pure; one file for each leg of the saga.
//!
//! An action is one attempt at, or one look at, something in the world. Its outcome becomes a
//! [`crate::payment::Command`], or nothing when there is nothing to report yet; then the handler is asked again.

mod auction;
mod escrow;
mod funding;
mod reassignment;
mod refund;
mod release;
mod restored;
mod settlement;

pub(crate) use settlement::ATTESTATION_PATIENCE;

use std::time::Duration;

use events::{
    Account, ChainId, Payload, PaymentId,
    event::{EscrowPlan, Inclusion, TransactionPrepared, VerifierRef},
    time::{Timestamp, from_unix_seconds, unix_seconds},
};

use crate::{
    payment::{Awarded, Payment, Stage},
    ports::{
        Award, AwardEnd, DeliveryOrder, DepositOrder, ExpectedTerms, PayerDeposit, ReassignmentOrder, RefundOrder,
        ReleaseOrder, RequestForQuotes, Reservation, SelectionRequest, Statement, VerificationCase,
    },
};

/// What is to be done for a payment now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Do this.
    Do(Box<Action>),
    /// Nothing before this time.
    WaitUntil(Timestamp),
    /// Nothing, ever again.
    Rest,
}

/// One attempt at something, or one look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// See whether enough is at the deposit address.
    AwaitFunds {
        /// The deposit.
        deposit: PayerDeposit,
    },
    /// Ask the settlers and collect their answers.
    GatherBids(RequestForQuotes),
    /// Ask the payer's selector which of the quotes is to win.
    AskSelector(SelectionRequest),
    /// End a payment whose selector gave no valid choice in time.
    GiveUpSelector,
    /// Tell the winner, hear that it stands by its quote, then sign the deposit.
    SecureDeposit {
        /// The notice.
        award: Box<Award>,
        /// The deposit.
        order: DepositOrder,
        /// Its attempt.
        attempt: u32,
    },
    /// Tell the winner that its award is over.
    TellWinner(AwardEnd),
    /// See whether it is proven that the deposit, which can't be made any more, was not made by anyone.
    RuleOutDeposit {
        /// The deposit.
        order: DepositOrder,
    },
    /// See whether a deposit that was tried as often as it may be, each time in vain, was made by somebody all the same.
    GiveUpDeposit {
        /// The deposit.
        order: DepositOrder,
    },
    /// See whether the chain holds a deposit of which the copy that the journal was restored from knows nothing.
    FindDeposit {
        /// The deposit.
        deposit: PayerDeposit,
        /// The deposit with its award, where the copy has one.
        order: Option<Box<DepositOrder>>,
    },
    /// Broadcast the deposit and see where it stands.
    FollowDeposit {
        /// The deposit.
        order: DepositOrder,
        /// Its signed transaction in all its versions, oldest first.
        versions: Vec<TransactionPrepared>,
    },
    /// Tell the winner of an escrow whose reservation lapsed, hear that it stands by its quote, then sign the reassignment.
    SecureReassignment {
        /// The notice.
        award: Box<Award>,
        /// The reassignment.
        order: ReassignmentOrder,
        /// Its attempt.
        attempt: u32,
    },
    /// Broadcast the reassignment and see where it stands.
    FollowReassignment {
        /// The reassignment.
        order: ReassignmentOrder,
        /// Its signed transaction in all its versions, oldest first.
        versions: Vec<TransactionPrepared>,
    },
    /// See whether a reassignment that was tried as often as it may be, each time in vain, was made by somebody all the same.
    GiveUpReassignment {
        /// The reassignment.
        order: ReassignmentOrder,
    },
    /// End a payment whose escrow the copy that the journal was restored from has before its reassignment.
    ForgoReassignment,
    /// Look for the delivery, and have it attested.
    FollowDelivery {
        /// The delivery.
        order: DeliveryOrder,
        /// What the verifier is shown.
        case: VerificationCase,
        /// Who attests.
        verifier: VerifierRef,
        /// Account on the source chain that the attestation is about.
        payout_account: Account,
        /// Whether the refund window is open, so that no attestation can be used any more.
        window_open: bool,
    },
    /// Have the delivery attested, which has its depth.
    FollowAttestation {
        /// The delivery.
        order: DeliveryOrder,
        /// Where it had its depth.
        delivery: Inclusion,
        /// What the releaser is to sign.
        statement: Statement,
        /// What the verifier is shown.
        case: VerificationCase,
        /// Who attests.
        verifier: VerifierRef,
        /// Whether the attestation has been missing for so long that the escrow itself is looked at, too.
        is_late: bool,
    },
    /// See whether the escrow has paid out.
    FollowEscrow {
        /// The payment.
        payment_id: PaymentId,
        /// Its escrow.
        escrow: EscrowPlan,
        /// Where no event of the chain can be awaited, the least time before the next look; its next block when `None`.
        patience: Option<Duration>,
        /// The UNIX second past which the gateway brings the release itself, and then that past which it brings the refund.
        until: u64,
    },
    /// Sign the release, unless the escrow has paid out already.
    SecureRelease {
        /// The release.
        order: ReleaseOrder,
        /// Its attempt.
        attempt: u32,
    },
    /// Broadcast the release and see where it stands.
    FollowRelease {
        /// The release.
        order: ReleaseOrder,
        /// Its signed transaction in all its versions, oldest first.
        versions: Vec<TransactionPrepared>,
    },
    /// After a failure, see whether the payer's own transaction has deposited all the same, or can't any more.
    WatchDeposit {
        /// The deposit.
        deposit: PayerDeposit,
    },
    /// After a failure, see whether money is at the deposit address that nobody can deposit any more.
    WatchAddress {
        /// The deposit.
        deposit: PayerDeposit,
    },
    /// Sign what gives the money at the deposit address back, unless it went back already.
    SecureGiveBack {
        /// The deposit.
        deposit: PayerDeposit,
        /// Its attempt.
        attempt: u32,
    },
    /// Broadcast that and see where it stands.
    FollowGiveBack {
        /// The deposit.
        deposit: PayerDeposit,
        /// Its signed transaction in all its versions, oldest first.
        versions: Vec<TransactionPrepared>,
    },
    /// Sign the refund, unless the escrow has paid out already.
    SecureRefund {
        /// The refund.
        order: RefundOrder,
        /// Its attempt.
        attempt: u32,
    },
    /// Broadcast the refund and see where it stands.
    FollowRefund {
        /// The refund.
        order: RefundOrder,
        /// Its signed transaction in all its versions, oldest first.
        versions: Vec<TransactionPrepared>,
    },
}

impl Action {
    /// The chain whose blocks decide when it makes sense to look again.
    pub fn chain(&self) -> Option<&ChainId> {
        match self {
            Self::GatherBids(_)
            | Self::AskSelector(_)
            | Self::GiveUpSelector
            | Self::TellWinner(_)
            | Self::ForgoReassignment => None,
            Self::SecureDeposit { order, .. }
            | Self::RuleOutDeposit { order }
            | Self::GiveUpDeposit { order }
            | Self::FollowDeposit { order, .. } => Some(&order.escrow.chain_id),
            Self::SecureReassignment { order, .. }
            | Self::FollowReassignment { order, .. }
            | Self::GiveUpReassignment { order } => Some(&order.escrow.chain_id),
            Self::FollowDelivery { order, .. } => Some(order.destination.asset().chain()),
            Self::FollowAttestation { delivery, .. } => Some(&delivery.chain_id),
            Self::FollowEscrow { escrow, .. } => Some(&escrow.chain_id),
            Self::FindDeposit { deposit, .. }
            | Self::WatchDeposit { deposit }
            | Self::AwaitFunds { deposit }
            | Self::WatchAddress { deposit }
            | Self::SecureGiveBack { deposit, .. }
            | Self::FollowGiveBack { deposit, .. } => Some(&deposit.escrow.chain_id),
            Self::SecureRelease { order, .. } | Self::FollowRelease { order, .. } => Some(&order.escrow.chain_id),
            Self::SecureRefund { order, .. } | Self::FollowRefund { order, .. } => Some(&order.escrow.chain_id),
        }
    }
}

/// The wake condition of an action: what tells that it makes sense to look again, where not every block does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeCondition<'a> {
    /// The chain.
    pub chain_id: &'a ChainId,
    /// The payment.
    pub payment_id: &'a PaymentId,
    /// The contract there whose events tell.
    pub contract: &'a Account,
    /// A settled block past this UNIX second tells, too.
    pub deadline: u64,
    /// A transaction of ours has to get into a block first, and until then every block tells.
    pub is_pushed: bool,
    /// The UNIX second past which something else is to be done, whatever the chain says.
    pub until: u64,
}

impl Action {
    /// What wakes the action after a look that showed nothing new; `None` where only the next block does.
    pub fn wake_condition(&self) -> Option<WakeCondition<'_>> {
        match self {
            // The port tells a transfer to the address as it tells an event of the escrow.
            Self::AwaitFunds { deposit } => {
                let address = deposit.authorization.deposit_address();
                let pay_by = address.map_or(0, |address| unix_seconds(address.pay_by));
                Some(WakeCondition {
                    chain_id: &deposit.escrow.chain_id,
                    payment_id: &deposit.payment_id,
                    contract: &deposit.escrow.contract,
                    deadline: pay_by,
                    is_pushed: false,
                    until: pay_by,
                })
            }
            Self::WatchAddress { deposit } => Some(WakeCondition {
                chain_id: &deposit.escrow.chain_id,
                payment_id: &deposit.payment_id,
                contract: &deposit.escrow.contract,
                deadline: deposit.escrow.reserve_deadline,
                is_pushed: false,
                until: u64::MAX,
            }),
            // Before one of ours is sent, another payment of the batch may give back what is left of all of them.
            Self::SecureGiveBack { deposit, .. } | Self::FollowGiveBack { deposit, .. } => Some(WakeCondition {
                chain_id: &deposit.escrow.chain_id,
                payment_id: &deposit.payment_id,
                contract: &deposit.escrow.contract,
                deadline: u64::MAX,
                is_pushed: matches!(self, Self::FollowGiveBack { .. }),
                until: u64::MAX,
            }),
            Self::FollowDelivery { order, case, window_open: false, .. } => Some(WakeCondition {
                chain_id: order.destination.asset().chain(),
                payment_id: &order.payment_id,
                contract: &order.proxy,
                deadline: order.fulfill_by,
                is_pushed: false,
                until: case.escrow.refund_after,
            }),
            Self::FollowDeposit { order, .. } => Some(WakeCondition {
                chain_id: &order.escrow.chain_id,
                payment_id: &order.payment_id,
                contract: &order.escrow.contract,
                deadline: order.escrow.reserve_deadline,
                is_pushed: true,
                until: u64::MAX,
            }),
            Self::FollowReassignment { order, .. } => Some(WakeCondition {
                chain_id: &order.escrow.chain_id,
                payment_id: &order.payment_id,
                contract: &order.escrow.contract,
                deadline: order.reservation.fulfill_by,
                is_pushed: true,
                until: u64::MAX,
            }),
            Self::FollowRefund { order, .. } => Some(WakeCondition {
                chain_id: &order.escrow.chain_id,
                payment_id: &order.payment_id,
                contract: &order.escrow.contract,
                deadline: u64::MAX,
                is_pushed: true,
                until: u64::MAX,
            }),
            Self::FollowEscrow { payment_id, escrow, until, .. } => Some(WakeCondition {
                chain_id: &escrow.chain_id,
                payment_id,
                contract: &escrow.contract,
                deadline: u64::MAX,
                is_pushed: false,
                until: *until,
            }),
            // Refused: somebody else's release is most often on its way to being settled.
            Self::SecureRelease { order, .. } => Some(WakeCondition {
                chain_id: &order.escrow.chain_id,
                payment_id: &order.payment_id,
                contract: &order.escrow.contract,
                deadline: u64::MAX,
                is_pushed: false,
                until: order.escrow.refund_after,
            }),
            Self::FollowRelease { order, .. } => Some(WakeCondition {
                chain_id: &order.escrow.chain_id,
                payment_id: &order.payment_id,
                contract: &order.escrow.contract,
                deadline: u64::MAX,
                is_pushed: true,
                until: u64::MAX,
            }),
            _ => None,
        }
    }
}

/// What is to be done for `payment` at `now`.
pub fn next(payment: &Payment, now: Timestamp) -> Step {
    match (payment.stage(), payment.award.as_deref()) {
        (Stage::Funding, _) => funding::next(payment),
        (Stage::Auction, _) => auction::next(payment, now),
        (Stage::Awarded, Some(award)) => escrow::next_awarded(payment, award, now),
        (Stage::Depositing, Some(award)) => escrow::next_depositing(payment, award),
        (Stage::Secured | Stage::Finalizing, Some(award)) => settlement::next(payment, award, now),
        (Stage::Reopened, _) => reassignment::next_reopened(payment),
        (Stage::Reawarded, Some(award)) => reassignment::next_reawarded(payment, award),
        (Stage::Reassigning, Some(award)) => reassignment::next_reassigning(payment, award),
        (Stage::Attesting, Some(award)) => settlement::next_attesting(payment, award, now),
        (Stage::Completed, award) => release::next(payment, award, now),
        (Stage::Withdrawn, Some(award)) => escrow::next_withdrawn(payment, award),
        (Stage::Watching, _) if is_at_address(payment) => funding::next_watching(payment, now),
        (Stage::Watching, _) => refund::next_watching(payment, now),
        (Stage::Refunding, _) if payment.held.is_some() => funding::next_held(payment),
        (Stage::Refunding, _) => refund::next(payment, now),
        (Stage::Rest, _) => Step::Rest,
        // `evolve` lets a payment into these stages only with an award.
        (
            Stage::Awarded
            | Stage::Withdrawn
            | Stage::Depositing
            | Stage::Reawarded
            | Stage::Reassigning
            | Stage::Secured
            | Stage::Finalizing
            | Stage::Attesting,
            None,
        ) => Step::Rest,
    }
}

/// As [`next`], for a payment that `is_copied`: it came out of the copy that the journal was restored from (ADR 136).
///
/// It may have gone further than the copy knows. Where that can be read on chain, [`next`] goes on from there; a payment of
/// which the copy knows no deposit is not deposited for any more: it may have failed before the loss, and whoever was told so
/// may have paid anew.
pub fn next_of(payment: &Payment, now: Timestamp, is_copied: bool) -> Step {
    match payment.stage() {
        Stage::Funding | Stage::Auction | Stage::Awarded if is_copied => restored::next(payment),
        // Its escrow may be reassigned already, to a settler that the copy does not know.
        Stage::Reopened | Stage::Reawarded if is_copied => Step::Do(Box::new(Action::ForgoReassignment)),
        _ => next(payment, now),
    }
}

/// Whether money of the payment may lie outside of its escrow.
fn is_at_address(payment: &Payment) -> bool {
    payment.leaves_money_outside()
}

/// Whether `now` lies beyond the UNIX second `seconds`.
fn is_past(now: Timestamp, seconds: u64) -> bool {
    from_unix_seconds(seconds).is_some_and(|at| now > at)
}

/// What the escrow of `payment` commits to once something is in it; `None` while nothing can be.
pub(crate) fn expected_terms(payment: &Payment) -> Option<ExpectedTerms<'_>> {
    let submitted = &payment.submitted;
    // While it is to be reassigned, what is on chain is the reservation that lapsed; the order tells of the other.
    let reserved = payment.reopened().map(|lapsed| &*lapsed.award).or(payment.award.as_deref());
    let reservation = reserved.map(reservation);
    (reservation.is_some() || submitted.authorization.is_payer_deposit()).then_some(ExpectedTerms {
        payment_id: &submitted.payment_id,
        terms: &submitted.terms,
        terms_hash: submitted.terms_hash,
        escrow: &submitted.escrow,
        authorization: &submitted.authorization,
        reservation,
        deposited: match (&payment.secured, payment.award.as_deref()) {
            (Some(secured), _) => Some(secured.amount),
            (None, Some(award)) if !submitted.authorization.is_payer_deposit() => Some(payment.deposit_up_to(award)),
            (None, _) => None,
        },
    })
}

fn reservation(award: &Awarded) -> Reservation {
    Reservation {
        quote_hash: award.event.quote_hash,
        payout_account: award.quote.payout_account.clone(),
        source_amount: award.quote.source_amount,
        fulfill_by: events::time::unix_seconds(award.quote.fulfill_by),
    }
}

fn deposit_order(payment: &Payment, award: &Awarded) -> DepositOrder {
    let submitted = &payment.submitted;
    DepositOrder {
        payment_id: submitted.payment_id.clone(),
        terms: submitted.terms.clone(),
        terms_hash: submitted.terms_hash,
        escrow: submitted.escrow.clone(),
        authorization: submitted.authorization.clone(),
        reservation: reservation(award),
        transfer: payment.transfer.clone(),
    }
}

pub(crate) fn payer_deposit(payment: &Payment) -> PayerDeposit {
    PayerDeposit { transfer: payment.transfer.clone(), ..PayerDeposit::from(&*payment.submitted) }
}

fn case(payment: &Payment, award: &Awarded) -> VerificationCase {
    VerificationCase {
        payment_id: payment.submitted.payment_id.clone(),
        terms: payment.submitted.terms.clone(),
        escrow: payment.submitted.escrow.clone(),
        verifier_set: payment.submitted.verifier.set.clone(),
        quote_document: award.event.document.clone(),
        payloads: Payload::of_request(&payment.submitted.request),
    }
}
