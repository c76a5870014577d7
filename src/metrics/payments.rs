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
    time::Timestamp,
};
use sagas::{
    payment::{Leg, Milestone, Milestones, Passed},
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
    reservations_lapsed: Counter,
    reassignments: Reassignments,
    spending: Arc<Spending>,
}

/// What became of escrows whose reservations lapsed.
struct Reassignments {
    reassigned: Counter,
    failed: Counter,
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
        let reassignments = |outcome: &'static str| counter!("gw_reassignments_total", "outcome" => outcome);
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
            reservations_lapsed: counter!("gw_reservations_lapsed_total"),
            reassignments: Reassignments { reassigned: reassignments("reassigned"), failed: reassignments("failed") },
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
            // The deposit, or the reassignment, begins when the winner stands by its quote, and not before.
            if leg == Leg::Award && !matches!(event, PaymentEvent::AwardLapsed(_) | PaymentEvent::AwardWithdrawn(_)) {
                self.accepted.increment(1);
            }
        }
        if let Some(took) = passed.completed_in {
            self.payment_seconds.record(took.as_seconds_f64());
        }
    }

    /// Counts events that were stored at `stored_at` in one commit of a payment which had reached `before`.
    fn count(&self, events: &[PaymentEvent], stored_at: Timestamp, before: Milestones) {
        let mut milestones = before;
        let is_awarded = events.iter().any(|event| matches!(event, PaymentEvent::QuoteAwarded(_)));
        for event in events {
            let is_reopened = milestones.is_reopened();
            self.passed(milestones.pass(event, stored_at), event);
            match event {
                PaymentEvent::AuctionClosed(closed) => {
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
                    // Of an escrow that was to be reassigned, the failure may follow instead.
                    if is_awarded {
                        replaced.increment(1);
                    }
                }
                PaymentEvent::AwardWithdrawn(withdrawn) => match withdrawn.cause {
                    WithdrawalCause::Refused { .. } => self.refused.increment(1),
                    WithdrawalCause::Unanswered => self.unanswered.increment(1),
                    WithdrawalCause::NotDeposited => {}
                },
                PaymentEvent::ReservationLapsed(_) => self.reservations_lapsed.increment(1),
                PaymentEvent::EscrowReassigned(_) => self.reassignments.reassigned.increment(1),
                PaymentEvent::Failed(failed) => {
                    if is_reopened {
                        self.reassignments.failed.increment(1);
                    }
                    self.failures.get(failed.failure.code.as_str()).unwrap_or(&self.other_failures).increment(1);
                }
                PaymentEvent::DepositRepriced(version) => self.spending.replaced(version, TransactionLeg::Deposit),
                PaymentEvent::ReassignmentRepriced(version) => {
                    self.spending.replaced(version, TransactionLeg::Reassignment);
                }
                PaymentEvent::ReleaseRepriced(version) => self.spending.replaced(version, TransactionLeg::Release),
                PaymentEvent::RefundRepriced(version) => self.spending.replaced(version, TransactionLeg::Refund),
                _ => {}
            }
        }
    }
}

impl Observer for PaymentMetrics {
    fn committed(&self, commit: &CommittedPayment<'_>) {
        self.count(commit.events, commit.stored_at, *commit.before);
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

#[cfg(test)]
mod tests {
    use ::metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use events::{
        Failure, Hash32,
        event::{
            AwardLapsed, EscrowReassigned, Failed, Inclusion, QuoteAwarded, RefundDue, ReservationLapsed,
            TransactionPrepared, Validity,
        },
        time::from_unix_seconds,
    };

    use super::*;

    fn at(second: u64) -> Timestamp {
        from_unix_seconds(1_800_000_000 + second).unwrap()
    }

    fn lapsed() -> PaymentEvent {
        PaymentEvent::ReservationLapsed(ReservationLapsed {
            settler: "did:web:a.example".parse().unwrap(),
            quote_hash: Hash32::ZERO,
            attestation: String::new(),
            quote_deadline: at(2),
            lapsed_at: at(0),
        })
    }

    fn awarded() -> PaymentEvent {
        let (quote_id, document) = (String::new(), String::new());
        let awarded = QuoteAwarded { quote_id, quote_hash: Hash32::ZERO, document, awarded_at: at(2) };
        PaymentEvent::QuoteAwarded(Box::new(awarded))
    }

    fn award_lapsed() -> PaymentEvent {
        let settler = "did:web:b.example".parse().unwrap();
        PaymentEvent::AwardLapsed(AwardLapsed { settler, quote_hash: Hash32::ZERO, refusal: None, lapsed_at: at(3) })
    }

    fn prepared() -> PaymentEvent {
        PaymentEvent::ReassignmentPrepared(TransactionPrepared {
            attempt: 1,
            chain_id: "eip155:1".parse().unwrap(),
            sender: "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".parse().unwrap(),
            validity: Validity::Nonce(1),
            transaction_hash: String::new(),
            raw: String::new(),
            prepared_at: at(4),
        })
    }

    fn reassigned() -> PaymentEvent {
        let inclusion = Inclusion {
            chain_id: "eip155:1".parse().unwrap(),
            transaction_hash: String::new(),
            block_number: 1,
            block_hash: String::new(),
            block_time: 1_800_000_005,
        };
        PaymentEvent::EscrowReassigned(EscrowReassigned { inclusion })
    }

    fn failed() -> PaymentEvent {
        let failure = Failure {
            code: Failure::SETTLEMENT_FAILED.to_owned(),
            message: String::new(),
            domain: None,
            retry_classification: None,
            blockchain_context: None,
        };
        let refund = RefundDue::ByNonDelivery { attestation: String::new() };
        PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at(9) }))
    }

    /// What is counted of these commits of one payment, a second apart.
    fn counted(commits: &[&[PaymentEvent]]) -> String {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        with_local_recorder(&recorder, || {
            let metrics = PaymentMetrics::new(Arc::new(Spending::new(&[])));
            let mut before = Milestones::default();
            for (events, second) in commits.iter().zip(0..) {
                metrics.count(events, at(second), before);
                for event in *events {
                    before.pass(event, at(second));
                }
            }
        });
        handle.render()
    }

    #[test]
    fn what_becomes_of_escrows_whose_settlers_did_not_deliver_is_counted() {
        let text = counted(&[&[lapsed()], &[awarded()], &[prepared()], &[reassigned()], &[lapsed()], &[failed()]]);
        for line in [
            "gw_reservations_lapsed_total 2",
            "gw_reassignments_total{outcome=\"reassigned\"} 1",
            "gw_reassignments_total{outcome=\"failed\"} 1",
            "gw_awards_total{answer=\"accepted\"} 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} of {text}");
        }
        // A failure of the settler that took its place is no reassignment's.
        let text = counted(&[&[lapsed()], &[awarded()], &[reassigned()], &[failed()]]);
        assert!(text.contains("gw_reassignments_total{outcome=\"failed\"} 0"), "{text}");
    }

    #[test]
    fn an_award_is_replaced_by_another_and_not_by_a_failure() {
        let text = counted(&[&[lapsed()], &[awarded()], &[award_lapsed(), awarded()], &[award_lapsed(), failed()]]);
        assert!(text.contains("gw_awards_total{answer=\"unanswered\"} 2"), "{text}");
        assert!(text.contains("gw_awards_replaced_total{answer=\"unanswered\"} 1"), "{text}");
    }
}
