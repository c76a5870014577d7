//! Milestones: when a payment reached each part of its way, by the times at which the journal stored its commits.
//!
//! They are for measuring alone. They follow from the journal, so that whoever takes a payment over measures from the same
//! times, and no clock of a process matters.

use chrono::TimeDelta;

use events::{PaymentEvent, time::Timestamp};

/// A part of a payment's way that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// From the submission, or from the reservation's lapse, to the end of the auction.
    Auction,
    /// From the award to the beginning of the deposit or of the reassignment, or to the award's withdrawal: the winner's answer.
    Award,
    /// From its beginning to the money in escrow at its depth.
    Deposit,
    /// From the money in escrow, or from its reassignment, to the delivery on chain.
    Delivery,
    /// From the reservation's lapse to the escrow's reassignment at its depth.
    Reassignment,
    /// From the delivery on chain to its depth.
    Finality,
    /// From the delivery at its depth to the settler's payment.
    Release,
    /// From when the money is owed to the payer to its return.
    Refund,
}

impl Leg {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Auction,
        Self::Award,
        Self::Deposit,
        Self::Delivery,
        Self::Reassignment,
        Self::Finality,
        Self::Release,
        Self::Refund,
    ];

    /// The leg as operators see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auction => "auction",
            Self::Award => "award",
            Self::Deposit => "deposit",
            Self::Delivery => "delivery",
            Self::Reassignment => "reassignment",
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
    /// Whether the winner is yet to answer.
    is_award_open: bool,
    deposit_begun: Option<Timestamp>,
    /// When the escrow was secured for the settler that it is reserved for, or reassigned to it.
    secured: Option<Timestamp>,
    /// When the reservation lapsed, while the escrow is to be reassigned.
    lapsed: Option<Timestamp>,
    delivered: Option<Timestamp>,
    /// Whether a delivery was on chain before, which counts once whatever became of it.
    was_delivered: bool,
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

    /// Whether the escrow is to be reassigned.
    pub fn is_reopened(&self) -> bool {
        self.lapsed.is_some()
    }

    /// The milestone of a delivery, where there was none before.
    fn first_delivery(&mut self) -> Option<Milestone> {
        let is_first = !std::mem::replace(&mut self.was_delivered, true);
        is_first.then_some(Milestone::Delivered)
    }

    /// Takes in an event that was stored at `at`, and says what it brought.
    pub fn pass(&mut self, event: &PaymentEvent, at: Timestamp) -> Passed {
        let since = |leg, from: Option<Timestamp>| Some((leg, (at - from?).max(TimeDelta::zero())));
        match event {
            PaymentEvent::Submitted(_) => {
                self.submitted = Some(at);
                Passed::default()
            }
            // How long a payer takes is not the gateway's time.
            PaymentEvent::AddressFunded(_) => {
                self.submitted = Some(at);
                Passed::default()
            }
            PaymentEvent::AuctionClosed(_) => Passed::leg(since(Leg::Auction, self.lapsed.or(self.submitted))),
            PaymentEvent::QuoteAwarded(_) => {
                self.is_award_open = true;
                match self.awarded.replace(at) {
                    None => Passed::to(Milestone::Awarded, None),
                    Some(_) => Passed::default(),
                }
            }
            PaymentEvent::PayerTransactionSent(_) | PaymentEvent::DepositPrepared(_)
                if self.deposit_begun.is_none() =>
            {
                self.deposit_begun = Some(at);
                self.is_award_open = false;
                Passed::leg(since(Leg::Award, self.awarded))
            }
            PaymentEvent::ReassignmentPrepared(_) | PaymentEvent::AwardLapsed(_) | PaymentEvent::AwardWithdrawn(_)
                if std::mem::take(&mut self.is_award_open) =>
            {
                Passed::leg(since(Leg::Award, self.awarded))
            }
            PaymentEvent::EscrowSecured(_) => {
                self.secured = Some(at);
                Passed::to(Milestone::Secured, since(Leg::Deposit, self.deposit_begun))
            }
            PaymentEvent::ReservationLapsed(_) => {
                (self.lapsed, self.delivered, self.is_award_open) = (Some(at), None, false);
                Passed::default()
            }
            PaymentEvent::EscrowReassigned(_) => {
                self.secured = Some(at);
                self.is_award_open = false;
                Passed::leg(since(Leg::Reassignment, self.lapsed.take()))
            }
            PaymentEvent::FulfillmentSeen(_) if self.delivered.is_none() => {
                self.delivered = Some(at);
                let reached = [self.first_delivery(), None];
                Passed { reached, leg: since(Leg::Delivery, self.secured), completed_in: None }
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
                        ([self.first_delivery(), Some(Milestone::Completed)], since(Leg::Delivery, self.secured))
                    }
                };
                Passed { reached, leg, completed_in }
            }
            PaymentEvent::EscrowReleased(_) => Passed::to(Milestone::Released, since(Leg::Release, self.completed)),
            PaymentEvent::Failed(_) => {
                (self.owed, self.lapsed) = (Some(at), None);
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
        event::{
            AuctionClosed, AwardLapsed, EscrowReassigned, EscrowSecured, FulfillmentConfirmed, FulfillmentFinalized,
            FulfillmentSeen, Inclusion, QuoteAwarded, ReservationLapsed, TransactionPrepared, Validity,
        },
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

    fn awarded() -> PaymentEvent {
        PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
            quote_id: String::new(),
            quote_hash: events::Hash32::ZERO,
            document: String::new(),
            awarded_at: at(0),
        }))
    }

    #[test]
    fn what_is_not_known_is_not_measured() {
        let (mut milestones, reached) = (Milestones::default(), [Some(Milestone::Awarded), None]);
        assert_eq!(milestones.pass(&awarded(), at(1)).reached, reached);
        assert_eq!(milestones.pass(&seen(), at(2)).leg, None);
    }

    fn closed() -> PaymentEvent {
        PaymentEvent::AuctionClosed(AuctionClosed {
            addressed: Vec::new(),
            quotes: Vec::new(),
            declines: Vec::new(),
            dropped: Vec::new(),
            held_policies: Vec::new(),
            passed_over: Vec::new(),
            alternates: Vec::new(),
            closed_at: at(0),
        })
    }

    fn prepared() -> TransactionPrepared {
        TransactionPrepared {
            attempt: 1,
            chain_id: "eip155:1".parse().unwrap(),
            sender: "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".parse().unwrap(),
            validity: Validity::Nonce(1),
            transaction_hash: String::new(),
            raw: String::new(),
            prepared_at: at(0),
        }
    }

    fn secured() -> PaymentEvent {
        let amount = "1".parse().unwrap();
        PaymentEvent::EscrowSecured(EscrowSecured { inclusion: inclusion(), amount, deposit: None })
    }

    fn reservation_lapsed() -> PaymentEvent {
        PaymentEvent::ReservationLapsed(ReservationLapsed {
            settler: "did:web:a".parse().unwrap(),
            quote_hash: events::Hash32::ZERO,
            attestation: String::new(),
            quote_deadline: at(0),
            lapsed_at: at(0),
        })
    }

    fn award_lapsed() -> PaymentEvent {
        let settler = "did:web:b".parse().unwrap();
        let quote_hash = events::Hash32::ZERO;
        PaymentEvent::AwardLapsed(AwardLapsed { settler, quote_hash, refusal: None, lapsed_at: at(0) })
    }

    fn reassigned() -> PaymentEvent {
        PaymentEvent::EscrowReassigned(EscrowReassigned { inclusion: inclusion() })
    }

    /// Each part of the way of a second settler is measured from where it begins, and what was reached before counts no more.
    #[test]
    fn a_second_settler_takes_its_own_time() {
        let took = |leg, seconds| Some((leg, TimeDelta::seconds(seconds)));
        let reassignment = || PaymentEvent::ReassignmentPrepared(prepared());
        let mut milestones = Milestones { submitted: Some(at(0)), ..Milestones::default() };
        let course = [
            (closed(), 2, None, took(Leg::Auction, 2)),
            (awarded(), 2, Some(Milestone::Awarded), None),
            (PaymentEvent::DepositPrepared(prepared()), 3, None, took(Leg::Award, 1)),
            (secured(), 10, Some(Milestone::Secured), took(Leg::Deposit, 7)),
            (seen(), 20, Some(Milestone::Delivered), took(Leg::Delivery, 10)),
            (reservation_lapsed(), 100, None, None),
            (closed(), 101, None, took(Leg::Auction, 1)),
            (awarded(), 101, None, None),
            (award_lapsed(), 103, None, took(Leg::Award, 2)),
            (awarded(), 103, None, None),
            (reassignment(), 104, None, took(Leg::Award, 1)),
            // Another attempt is no other answer.
            (reassignment(), 110, None, None),
            (reassigned(), 120, None, took(Leg::Reassignment, 20)),
            (seen(), 125, None, took(Leg::Delivery, 5)),
        ];
        for (event, second, reached, leg) in course {
            let passed = milestones.pass(&event, at(second));
            assert_eq!(passed, Passed { reached: [reached, None], leg, completed_in: None }, "{}", event.type_name());
        }
        assert!(!milestones.is_reopened());
        let completed = milestones.pass(&confirmed(), at(130));
        assert_eq!(completed.reached, [Some(Milestone::Completed), None]);
        assert_eq!(completed.leg, took(Leg::Finality, 5));
        assert_eq!(completed.completed_in, Some(TimeDelta::seconds(130)));
    }

    #[test]
    fn a_second_delivery_that_is_found_at_its_depth_is_none_that_was_first_reached() {
        let mut milestones = begun();
        for (event, second, is_reopened) in
            [(seen(), 23, false), (reservation_lapsed(), 30, true), (awarded(), 31, true), (reassigned(), 40, false)]
        {
            milestones.pass(&event, at(second));
            assert_eq!(milestones.is_reopened(), is_reopened, "{}", event.type_name());
        }
        let completed = milestones.pass(&confirmed(), at(44));
        assert_eq!(completed.reached, [None, Some(Milestone::Completed)]);
        assert_eq!(completed.leg, Some((Leg::Delivery, TimeDelta::seconds(4))));
    }
}
