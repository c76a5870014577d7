//! Milestones: when a payment reached each part of its way, by the times at which the journal stored its commits.
//!
//! They are for measuring alone. They follow from the journal, so that whoever takes a payment over measures from the same
//! times, and no clock of a process matters.

use chrono::TimeDelta;

use events::{PaymentEvent, time::Timestamp};

/// A part of a payment's way that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// From the submission to the end of the auction.
    Auction,
    /// From the award to the deposit's beginning, or to the award's withdrawal: the winner's answer.
    Award,
    /// From its beginning to the money in escrow at its depth.
    Deposit,
    /// From the money in escrow to the delivery on chain.
    Delivery,
    /// From the delivery on chain to its depth.
    Finality,
    /// From the delivery at its depth to the settler's payment.
    Release,
    /// From when the money is owed to the payer to its return.
    Refund,
}

impl Leg {
    /// All of them, in order.
    pub const ALL: [Self; 7] =
        [Self::Auction, Self::Award, Self::Deposit, Self::Delivery, Self::Finality, Self::Release, Self::Refund];

    /// The leg as operators see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auction => "auction",
            Self::Award => "award",
            Self::Deposit => "deposit",
            Self::Delivery => "delivery",
            Self::Finality => "finality",
            Self::Release => "release",
            Self::Refund => "refund",
        }
    }
}

/// What a payment reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Milestone {
    /// A quote won.
    Awarded,
    /// The money is in escrow.
    Secured,
    /// The delivery is on chain.
    Delivered,
    /// The delivery has its depth.
    Completed,
    /// It failed.
    Failed,
    /// The settler is paid.
    Released,
    /// The payer has the money back.
    Refunded,
}

impl Milestone {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Awarded, Self::Secured, Self::Delivered, Self::Completed, Self::Failed, Self::Released, Self::Refunded];

    /// The milestone as operators see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Awarded => "awarded",
            Self::Secured => "secured",
            Self::Delivered => "delivered",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Released => "released",
            Self::Refunded => "refunded",
        }
    }
}

/// What one event brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// What was reached by it, for the first time.
    pub reached: [Option<Milestone>; 2],
    /// The leg that it ended, and how long that took; never less than nothing.
    pub leg: Option<(Leg, TimeDelta)>,
    /// From submission to completion, where it completed the payment.
    pub completed_in: Option<TimeDelta>,
}

impl Passed {
    fn to(milestone: Milestone, leg: Option<(Leg, TimeDelta)>) -> Self {
        Self { reached: [Some(milestone), None], leg, completed_in: None }
    }

    fn leg(leg: Option<(Leg, TimeDelta)>) -> Self {
        Self { leg, ..Self::default() }
    }
}

/// When a payment reached what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Milestones {
    submitted: Option<Timestamp>,
    awarded: Option<Timestamp>,
    deposit_begun: Option<Timestamp>,
    secured: Option<Timestamp>,
    delivered: Option<Timestamp>,
    completed: Option<Timestamp>,
    owed: Option<Timestamp>,
}

impl Milestones {
    /// What the events of commits say, each with the time at which it was stored.
    pub fn of<'a, E: IntoIterator<Item = &'a PaymentEvent>>(commits: impl IntoIterator<Item = (Timestamp, E)>) -> Self {
        let mut milestones = Self::default();
        for (at, events) in commits {
            for event in events {
                milestones.pass(event, at);
            }
        }
        milestones
    }

    /// Takes in an event that was stored at `at`, and says what it brought.
    pub fn pass(&mut self, event: &PaymentEvent, at: Timestamp) -> Passed {
        let since = |leg, from: Option<Timestamp>| Some((leg, (at - from?).max(TimeDelta::zero())));
        match event {
            PaymentEvent::Submitted(_) => {
                self.submitted = Some(at);
                Passed::default()
            }
            PaymentEvent::AuctionClosed(_) => Passed::leg(since(Leg::Auction, self.submitted)),
            PaymentEvent::QuoteAwarded(_) => match self.awarded.replace(at) {
                None => Passed::to(Milestone::Awarded, None),
                Some(_) => Passed::default(),
            },
            PaymentEvent::PayerTransactionSent(_) | PaymentEvent::DepositPrepared(_)
                if self.deposit_begun.is_none() =>
            {
                self.deposit_begun = Some(at);
                Passed::leg(since(Leg::Award, self.awarded))
            }
            PaymentEvent::AwardLapsed(_) | PaymentEvent::AwardWithdrawn(_) if self.deposit_begun.is_none() => {
                Passed::leg(since(Leg::Award, self.awarded))
            }
            PaymentEvent::EscrowSecured(_) => {
                self.secured = Some(at);
                Passed::to(Milestone::Secured, since(Leg::Deposit, self.deposit_begun))
            }
            PaymentEvent::FulfillmentSeen(_) if self.delivered.is_none() => {
                self.delivered = Some(at);
                Passed::to(Milestone::Delivered, since(Leg::Delivery, self.secured))
            }
            PaymentEvent::FulfillmentFinalized(_) | PaymentEvent::FulfillmentConfirmed(_)
                if self.completed.is_none() =>
            {
                self.completed = Some(at);
                let completed_in = self.submitted.map(|submitted| (at - submitted).max(TimeDelta::zero()));
                let (reached, leg) = match self.delivered {
                    Some(_) => ([Some(Milestone::Completed), None], since(Leg::Finality, self.delivered)),
                    None => {
                        self.delivered = Some(at);
                        ([Some(Milestone::Delivered), Some(Milestone::Completed)], since(Leg::Delivery, self.secured))
                    }
                };
                Passed { reached, leg, completed_in }
            }
            PaymentEvent::EscrowReleased(_) => Passed::to(Milestone::Released, since(Leg::Release, self.completed)),
            PaymentEvent::Failed(_) => {
                self.owed = Some(at);
                Passed::to(Milestone::Failed, None)
            }
            PaymentEvent::AttestationMissed(_) => {
                self.owed = Some(at);
                Passed::default()
            }
            PaymentEvent::EscrowRefunded(_) => {
                Passed::to(Milestone::Refunded, since(Leg::Refund, self.owed.or(self.completed)))
            }
            _ => Passed::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use events::{
        ChainId,
        event::{FulfillmentConfirmed, FulfillmentFinalized, FulfillmentSeen, Inclusion, QuoteAwarded},
    };

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn inclusion() -> Inclusion {
        Inclusion {
            chain_id: "eip155:1".parse::<ChainId>().unwrap(),
            transaction_hash: "0x1".into(),
            block_number: 1,
            block_hash: "0x2".into(),
            block_time: 1,
        }
    }

    fn seen() -> PaymentEvent {
        PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion() })
    }

    fn confirmed() -> PaymentEvent {
        PaymentEvent::FulfillmentConfirmed(FulfillmentConfirmed {
            inclusion: inclusion(),
            attestation: String::new(),
            confirmed_at: at(0),
            release_from: None,
        })
    }

    fn begun() -> Milestones {
        Milestones { submitted: Some(at(10)), secured: Some(at(20)), ..Milestones::default() }
    }

    #[test]
    fn what_is_seen_again_counts_once() {
        let mut milestones = begun();
        let first = milestones.pass(&seen(), at(23));
        assert_eq!(first.reached, [Some(Milestone::Delivered), None]);
        assert_eq!(first.leg, Some((Leg::Delivery, TimeDelta::seconds(3))));
        assert_eq!(milestones.pass(&seen(), at(25)), Passed::default());
        let finalized = FulfillmentFinalized { inclusion: inclusion(), finalized_at: at(0) };
        let completed = milestones.pass(&PaymentEvent::FulfillmentFinalized(finalized), at(30));
        assert_eq!(completed.reached, [Some(Milestone::Completed), None]);
        assert_eq!(completed.leg, Some((Leg::Finality, TimeDelta::seconds(7))));
        assert_eq!(completed.completed_in, Some(TimeDelta::seconds(20)));
        // The attestation that comes later completes nothing a second time.
        assert_eq!(milestones.pass(&confirmed(), at(31)), Passed::default());
    }

    #[test]
    fn a_delivery_that_is_found_at_its_depth_was_delivered_too() {
        let mut milestones = begun();
        let completed = milestones.pass(&confirmed(), at(24));
        assert_eq!(completed.reached, [Some(Milestone::Delivered), Some(Milestone::Completed)]);
        assert_eq!(completed.leg, Some((Leg::Delivery, TimeDelta::seconds(4))));
    }

    #[test]
    fn a_clock_that_goes_back_takes_no_time() {
        let mut milestones = begun();
        assert_eq!(milestones.pass(&seen(), at(5)).leg, Some((Leg::Delivery, TimeDelta::zero())));
    }

    #[test]
    fn what_is_not_known_is_not_measured() {
        let awarded = QuoteAwarded {
            quote_id: String::new(),
            quote_hash: events::Hash32::ZERO,
            document: String::new(),
            awarded_at: at(0),
        };
        let (mut milestones, reached) = (Milestones::default(), [Some(Milestone::Awarded), None]);
        assert_eq!(milestones.pass(&PaymentEvent::QuoteAwarded(Box::new(awarded)), at(1)).reached, reached);
        assert_eq!(milestones.pass(&seen(), at(2)).leg, None);
    }
}
