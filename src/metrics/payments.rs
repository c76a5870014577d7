//! Metrics of payments: what they reached, how long each part of their way took, auctions, awards and failures.
//!
//! The engine tells of a commit once, when the journal has acknowledged it ([`Observer`]), so nothing is counted again by what is
//! loaded, replayed or taken over.

use std::{collections::HashMap, sync::Arc};

use ::metrics::{Counter, Histogram, counter, histogram};

use app::error::Code;
use events::{
    PaymentEvent,
    event::{AuctionClosed, WithdrawalCause},
};
use sagas::{
    payment::{Leg, Milestone, Passed},
    runner::{CommittedPayment, Observer, TransactionLeg},
};

use super::spending::Spending;

/// What stands for a code that is in no table.
const OTHER: &str = "other";

/// The handles, made once.
pub(crate) struct PaymentMetrics {
    reached: HashMap<Milestone, Counter>,
    failures: HashMap<&'static str, Counter>,
    other_failures: Counter,
    legs: HashMap<Leg, Histogram>,
    payment_seconds: Histogram,
    auctions: Auctions,
    accepted: Counter,
    refused: Counter,
    unanswered: Counter,
    replaced: Replaced,
    spending: Arc<Spending>,
}

/// Awards after which the next quote was awarded.
struct Replaced {
    refused: Counter,
    unanswered: Counter,
}

struct Auctions {
    awarded: Counter,
    offered: Counter,
    collected: Counter,
    no_quotes: Counter,
}

impl PaymentMetrics {
    /// Those of a gateway whose transactions' costs go to `spending`.
    pub(crate) fn new(spending: Arc<Spending>) -> Self {
        let auctions = |outcome: &'static str| counter!("gw_auctions_total", "outcome" => outcome);
        let awards = |answer: &'static str| counter!("gw_awards_total", "answer" => answer);
        let replaced = |answer: &'static str| counter!("gw_awards_replaced_total", "answer" => answer);
        let failures = |code: &'static str| counter!("gw_payment_failures_total", "code" => code);
        let reached = |milestone: Milestone| counter!("gw_payments_total", "event" => milestone.as_str());
        Self {
            reached: Milestone::ALL.into_iter().map(|milestone| (milestone, reached(milestone))).collect(),
            failures: Code::inside_payments(|_| true).into_iter().map(|code| (code, failures(code))).collect(),
            other_failures: failures(OTHER),
            legs: Leg::ALL
                .into_iter()
                .map(|leg| (leg, histogram!("gw_stage_seconds", "stage" => leg.as_str())))
                .collect(),
            payment_seconds: histogram!("gw_payment_seconds"),
            auctions: Auctions {
                awarded: auctions("awarded"),
                offered: auctions("offered"),
                collected: auctions("collected"),
                no_quotes: auctions("no_quotes"),
            },
            accepted: awards("accepted"),
            refused: awards("refused"),
            unanswered: awards("unanswered"),
            replaced: Replaced { refused: replaced("refused"), unanswered: replaced("unanswered") },
            spending,
        }
    }

    fn passed(&self, passed: Passed, event: &PaymentEvent) {
        for milestone in passed.reached.into_iter().flatten() {
            if let Some(reached) = self.reached.get(&milestone) {
                reached.increment(1);
            }
        }
        if let Some((leg, took)) = passed.leg {
            if let Some(seconds) = self.legs.get(&leg) {
                seconds.record(took.as_seconds_f64());
            }
            // The deposit begins when the winner stands by its quote, and not before.
            if leg == Leg::Award && !matches!(event, PaymentEvent::AwardLapsed(_) | PaymentEvent::AwardWithdrawn(_)) {
                self.accepted.increment(1);
            }
        }
        if let Some(took) = passed.completed_in {
            self.payment_seconds.record(took.as_seconds_f64());
        }
    }
}

impl Observer for PaymentMetrics {
    fn committed(&self, commit: &CommittedPayment<'_>) {
        let mut milestones = *commit.before;
        for event in commit.events {
            self.passed(milestones.pass(event, commit.stored_at), event);
            match event {
                PaymentEvent::AuctionClosed(closed) => {
                    let is_awarded = commit.events.iter().any(|event| matches!(event, PaymentEvent::QuoteAwarded(_)));
                    let outcome = match closed.quotes.is_empty() {
                        true => &self.auctions.no_quotes,
                        false if is_awarded => &self.auctions.awarded,
                        false => &self.auctions.offered,
                    };
                    outcome.increment(1);
                }
                PaymentEvent::AwardLapsed(lapsed) => {
                    let (answered, replaced) = match lapsed.refusal {
                        Some(_) => (&self.refused, &self.replaced.refused),
                        None => (&self.unanswered, &self.replaced.unanswered),
                    };
                    answered.increment(1);
                    replaced.increment(1);
                }
                PaymentEvent::AwardWithdrawn(withdrawn) => match withdrawn.cause {
                    WithdrawalCause::Refused { .. } => self.refused.increment(1),
                    WithdrawalCause::Unanswered => self.unanswered.increment(1),
                    WithdrawalCause::NotDeposited => {}
                },
                PaymentEvent::Failed(failed) => {
                    self.failures.get(failed.failure.code.as_str()).unwrap_or(&self.other_failures).increment(1);
                }
                PaymentEvent::DepositRepriced(version) => self.spending.replaced(version, TransactionLeg::Deposit),
                PaymentEvent::ReleaseRepriced(version) => self.spending.replaced(version, TransactionLeg::Release),
                PaymentEvent::RefundRepriced(version) => self.spending.replaced(version, TransactionLeg::Refund),
                _ => {}
            }
        }
        for ended in &commit.ended {
            self.spending.ended(ended.clone());
        }
    }

    fn collected(&self, auction: &AuctionClosed) {
        let outcome = match auction.quotes.is_empty() {
            true => &self.auctions.no_quotes,
            false => &self.auctions.collected,
        };
        outcome.increment(1);
    }
}
