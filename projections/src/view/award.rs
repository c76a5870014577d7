//! A winner's way with its award, of which settlers' records are made.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use events::{
    Did, PaymentEvent,
    event::{Inclusion, QuoteAwarded, WithdrawalCause},
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use journal::Recorded;

/// How far the settler that won a payment is with its award.
///
/// Its serde form is the one that is stored, and no wire format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwardProgress {
    /// The winner.
    pub settler: Did,
    /// By when it promised to deliver, UNIX seconds.
    pub fulfill_by: u64,
    /// Whether a deposit, or the escrow's reassignment, was signed for it, or found.
    pub is_acknowledged: bool,
    /// The time of the block that secured the escrow for it, or reassigned it to it, UNIX seconds; absent before.
    pub secured_at: Option<u64>,
    /// Whether the award ended: delivered, missed, refused or not answered.
    pub is_over: bool,
    /// When it was awarded.
    pub awarded_at: Timestamp,
    /// Quotes that were kept to follow it, at most. Where there were, its silence may have been a short one.
    pub followers: usize,
    /// Settlers of the same auction whose awards lapsed before without an answer. That they missed it is shown by another that
    /// acknowledges its award, with which they are gone from here: where none does, what carries awards may have stood still.
    pub silent: Vec<Did>,
}

/// A refusal that is decided on later than this may be of a quote whose time was over, for which the settler is not to blame.
const PROMPT: TimeDelta = TimeDelta::seconds(5);
/// The reason code of a settler whose delivery the chain refuses when it is tried out. Payers can bring that about.
const UNDELIVERABLE: &str = "UNDELIVERABLE";

/// What became of an award.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwardStep {
    /// The settler won.
    Won {
        /// When.
        at: Timestamp,
    },
    /// A deposit, or the escrow's reassignment, was signed for it.
    Acknowledged,
    /// It refused.
    Refused {
        /// When that was decided.
        at: Timestamp,
        /// Whether it missed its award: its quote was bound to hold, it refused within [`PROMPT`], and not as [`UNDELIVERABLE`].
        is_missed: bool,
    },
    /// It did not answer in time.
    Unanswered {
        /// When that was decided.
        at: Timestamp,
        /// Whether it is known by that alone that it missed its award.
        is_missed: bool,
    },
    /// It did not answer in time, and another did.
    Overtaken {
        /// When the other won.
        at: Timestamp,
    },
    /// It delivered.
    Delivered {
        /// The time of the block that holds the delivery.
        at: Timestamp,
        /// Seconds since the block that secured the escrow, or reassigned it; absent where that is not known.
        seconds: Option<u32>,
        /// Whether the last quarter was used of the time from there to its promise.
        is_late: bool,
    },
    /// It did not deliver what was in escrow for it.
    Missed {
        /// When that was decided.
        at: Timestamp,
        /// Whether it had the time: half at least of what lay between award and promise.
        is_missed: bool,
    },
}

impl AwardProgress {
    /// That of a new award; `None` where its quote cannot be read. The bid that stands in the same commit spares a look
    /// at the quote's document and its proof.
    pub(super) fn begin(awarded: &QuoteAwarded, commit: &Recorded, before: Option<Self>) -> Option<Self> {
        let bids = commit.payment_events().filter_map(|event| match event {
            PaymentEvent::AuctionClosed(closed) => Some(&closed.quotes),
            _ => None,
        });
        let bid = bids.flatten().find(|bid| bid.quote_hash == awarded.quote_hash);
        let (settler, fulfill_by) = match bid {
            Some(bid) => (bid.settler.clone(), bid.fulfill_by),
            None => {
                let signed = awarded.signed_quote().ok()?;
                (signed.quote().settler.clone(), signed.quote().fulfill_by)
            }
        };
        let (fulfill_by, awarded_at) = (unix_seconds(fulfill_by), awarded.awarded_at);
        let kept = commit.payment_events().find_map(|event| match event {
            PaymentEvent::AuctionClosed(closed) => Some(closed.alternates.len()),
            _ => None,
        });
        // Another auction of the same payment has nothing of what was kept and left silent in the one before.
        let (left, silent) = before
            .filter(|_| kept.is_none())
            .map_or((0, Vec::new()), |before| (before.followers.saturating_sub(1), before.silent));
        Some(Self {
            settler,
            fulfill_by,
            is_acknowledged: false,
            secured_at: None,
            is_over: false,
            awarded_at,
            followers: kept.unwrap_or(left),
            silent,
        })
    }

    /// Takes in what happened since. `is_bound` says whether the settler's quote had to hold until it was answered, and
    /// `is_reopened` whether it won an escrow that is to be reassigned, of which nothing is its own before it is.
    pub(super) fn take_in(&mut self, event: &PaymentEvent, is_bound: bool, is_reopened: bool) -> Option<AwardStep> {
        if self.is_over {
            return None;
        }
        match event {
            PaymentEvent::DepositPrepared(_) | PaymentEvent::ReassignmentPrepared(_) => self.acknowledge(),
            PaymentEvent::EscrowSecured(secured) => self.secure(&secured.inclusion),
            PaymentEvent::EscrowReassigned(reassigned) => self.secure(&reassigned.inclusion),
            PaymentEvent::AwardLapsed(lapsed) => {
                let at = lapsed.lapsed_at;
                Some(match &lapsed.refusal {
                    Some(reason) => self.refuse(at, reason, is_bound),
                    // Nobody follows it where the escrow is to be reassigned and no other quote was kept.
                    None if is_reopened && self.followers == 0 => self.unanswered(at, is_bound),
                    None => {
                        self.silent.push(self.settler.clone());
                        self.end(AwardStep::Unanswered { at, is_missed: false })
                    }
                })
            }
            PaymentEvent::AwardWithdrawn(withdrawn) => {
                let at = withdrawn.withdrawn_at;
                match &withdrawn.cause {
                    WithdrawalCause::Refused { reason } => Some(self.refuse(at, reason, is_bound)),
                    WithdrawalCause::Unanswered => Some(self.unanswered(at, is_bound)),
                    WithdrawalCause::NotDeposited => None,
                }
            }
            PaymentEvent::FulfillmentFinalized(finalized) => self.deliver(&finalized.inclusion),
            PaymentEvent::FulfillmentConfirmed(confirmed) => self.deliver(&confirmed.inclusion),
            PaymentEvent::ReservationLapsed(lapsed) => self.miss(lapsed.lapsed_at),
            PaymentEvent::Failed(failed) => self.miss(failed.failed_at),
            _ => None,
        }
    }

    fn secure(&mut self, inclusion: &Inclusion) -> Option<AwardStep> {
        self.secured_at = Some(inclusion.block_time);
        self.acknowledge()
    }

    /// What ends before the escrow is reserved for the settler is not the settler's.
    fn miss(&mut self, at: Timestamp) -> Option<AwardStep> {
        let secured_at = self.secured_at?;
        let (left, whole) =
            (self.fulfill_by.saturating_sub(secured_at), self.fulfill_by.saturating_sub(unix_seconds(self.awarded_at)));
        let is_missed = left.saturating_mul(2) >= whole;
        Some(self.end(AwardStep::Missed { at, is_missed }))
    }

    fn unanswered(&mut self, at: Timestamp, is_bound: bool) -> AwardStep {
        let is_missed = is_bound && self.followers == 0;
        self.end(AwardStep::Unanswered { at, is_missed })
    }

    fn refuse(&mut self, at: Timestamp, reason: &str, is_bound: bool) -> AwardStep {
        let is_missed = is_bound && reason != UNDELIVERABLE && at - self.awarded_at <= PROMPT;
        self.end(AwardStep::Refused { at, is_missed })
    }

    fn acknowledge(&mut self) -> Option<AwardStep> {
        let is_first = !std::mem::replace(&mut self.is_acknowledged, true);
        is_first.then_some(AwardStep::Acknowledged)
    }

    fn deliver(&mut self, inclusion: &Inclusion) -> Option<AwardStep> {
        let delivered_at = inclusion.block_time;
        let seconds = self.secured_at.map(|secured_at| delivered_at.saturating_sub(secured_at));
        let is_late = self.secured_at.zip(seconds).is_some_and(|(secured_at, seconds)| {
            let promised = self.fulfill_by.saturating_sub(secured_at);
            seconds.saturating_mul(4) > promised.saturating_mul(3)
        });
        let seconds = seconds.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
        let at = from_unix_seconds(delivered_at)?;
        Some(self.end(AwardStep::Delivered { at, seconds, is_late }))
    }

    fn end(&mut self, step: AwardStep) -> AwardStep {
        self.is_over = true;
        step
    }
}
