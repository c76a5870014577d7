//! Performing the settlement leg: the delivery is looked for, and attested.

use std::time::Duration;

use events::{
    Account,
    event::{Inclusion, VerifierRef},
    mutant,
    time::{Timestamp, unix_seconds},
};

use super::{
    Options, Ports,
    attestation::Gathering,
    learned::Learned,
    outcome::{Outcome, ended, escrow_state},
    reassignment,
};
use crate::{
    handlers::{ATTESTATION_PATIENCE, payer_deposit},
    payment::{Command, Payment},
    ports::{DeliveryOrder, DeliveryState, EscrowState, Statement, Transient, VerificationCase},
};

/// How long the completion of a payment waits for the attestation that mostly comes with it.
const ATTESTED_AT_ONCE: Duration = Duration::from_secs(1);

/// A delivery that is looked for.
pub(super) struct Delivery<'a> {
    pub order: &'a DeliveryOrder,
    pub case: &'a VerificationCase,
    pub verifier: &'a VerifierRef,
    pub payout_account: &'a Account,
    pub window_open: bool,
}

impl Delivery<'_> {
    pub async fn follow(
        &self,
        ports: &Ports,
        options: &Options,
        payment: &Payment,
        learned: &mut Learned,
    ) -> Result<Outcome, Transient> {
        match ports.chains.delivery_state(self.order).await? {
            DeliveryState::NotSeen
                if mutant!("refund-before-evidence") && unix_seconds(ports.clock.now()) > self.order.fulfill_by =>
            {
                Ok(Outcome::command(Command::FailUndelivered {
                    given: Vec::new(),
                    attestation: None,
                    at: ports.clock.now(),
                }))
            }
            DeliveryState::NotSeen
                if mutant!("reassigned-before-evidence") && unix_seconds(ports.clock.now()) > self.order.fulfill_by =>
            {
                Ok(reassignment::lapsed_without_evidence(ports, options, payment))
            }
            DeliveryState::NotSeen if self.window_open => Err(Transient::unreachable(
                "the refund window is open, but the destination chain is not settled past the delivery's deadline",
            )),
            DeliveryState::NotSeen => Ok(Outcome::AwaitEvent),
            DeliveryState::Seen(inclusion) if payment.seen.as_ref() != Some(&inclusion) => {
                Ok(Outcome::command(Command::ObserveDelivery(inclusion)))
            }
            DeliveryState::Seen(_) => Ok(Outcome::AwaitEvent),
            DeliveryState::Final(inclusion) => Ok(self.settled(ports, options, payment, learned, inclusion).await),
            DeliveryState::Impossible => {
                if let Some(lost) = self.lost_reassignment(ports, options, payment).await? {
                    return Ok(lost);
                }
                let statement = Statement::NonDelivery {
                    payment_id: self.order.payment_id.clone(),
                    quote_hash: self.order.quote_hash,
                };
                let at = ports.clock.now();
                let mut gathering =
                    Gathering::new(ports, self.verifier, self.case, &statement, &payment.nondelivery_by);
                gathering.ask().await;
                let (attestation, fault) = (gathering.attestation(), gathering.fault());
                let given = gathering.given();
                let at = if attestation.is_some() { ports.clock.now() } else { at };
                let quote_deadline = reassignment::quote_deadline(ports, options, payment, at);
                if let (Some(attestation), Some(quote_deadline), false) =
                    (&attestation, quote_deadline, self.window_open)
                {
                    let attestation = attestation.clone();
                    return Ok(Outcome::command(Command::LapseReservation { given, attestation, quote_deadline, at }));
                }
                if attestation.is_some() || self.window_open {
                    return Ok(Outcome::command(Command::FailUndelivered { given, attestation, at }));
                }
                match fault {
                    _ if !given.is_empty() => Ok(Outcome::command(Command::RecordNonDeliveries { given })),
                    Some(fault) => Err(fault),
                    None => Ok(Outcome::Nothing),
                }
            }
        }
    }

    /// What to record of an escrow that is reserved for another quote: it was reassigned, and a restored journal has lost that.
    async fn lost_reassignment(
        &self,
        ports: &Ports,
        options: &Options,
        payment: &Payment,
    ) -> Result<Option<Outcome>, Transient> {
        if options.restored.is_none() {
            return Ok(None);
        }
        let opened = ports.chains.escrow_found(&payer_deposit(payment)).await?;
        let reserved_for = opened.and_then(|opened| opened.reserved_for);
        let is_lost = reserved_for.is_some_and(|quote_hash| quote_hash != self.order.quote_hash);
        Ok(is_lost.then(|| Outcome::command(Command::ForgoReassignment { at: ports.clock.now() })))
    }

    /// What to record of a delivery at its depth. It completes the payment, so that the verifier is waited for only as long as
    /// nobody notices: most often it has seen the same block, and one commit says both.
    ///
    /// It rests on the nodes of one operator. A verifier that answers, and says that it does not see it, looks at others: it is
    /// heard for a while before the payment is completed all the same.
    async fn settled(
        &self,
        ports: &Ports,
        options: &Options,
        payment: &Payment,
        learned: &mut Learned,
        inclusion: Inclusion,
    ) -> Outcome {
        let at = ports.clock.now();
        if is_over(self.case, at) {
            return Outcome::command(Command::FinalizeDelivery { inclusion, given: Vec::new(), at });
        }
        let statement = Statement::Delivery {
            payment_id: self.order.payment_id.clone(),
            quote_hash: self.order.quote_hash,
            payout_account: self.payout_account.clone(),
        };
        let mut gathering = Gathering::new(ports, self.verifier, self.case, &statement, &payment.attested_by);
        // In this order, so that the same happenings always come to the same.
        tokio::select! {
            biased;
            () = gathering.ask() => {}
            () = ports.clock.sleep(ATTESTED_AT_ONCE) => {}
        };
        let (attestation, is_denied) = (gathering.attestation(), gathering.is_denied());
        let given = gathering.given();
        if let Some(attestation) = attestation {
            let release_from = options.release.release_from(at, self.case.escrow.refund_after);
            return Outcome::command(Command::ConfirmDelivery { inclusion, given, attestation, at, release_from });
        }
        if is_denied && at - learned.unconfirmed_since(&inclusion, at) < ATTESTATION_PATIENCE {
            return match payment.seen.as_ref() == Some(&inclusion) {
                true if !given.is_empty() => Outcome::command(Command::RecordAttestations { given }),
                true => Outcome::DeliveryDoubted,
                false => Outcome::command(Command::ObserveDelivery(inclusion)),
            };
        }
        if is_denied {
            let (payment_id, verifier) = (&self.order.payment_id, &self.verifier.account);
            tracing::error!(%payment_id, %verifier, ?inclusion,
                "a delivery completes its payment by its depth, and the verifier says that it does not see it");
        }
        Outcome::command(Command::FinalizeDelivery { inclusion, given, at })
    }
}

/// A delivery at its depth that is to be attested.
pub(super) struct Attesting<'a> {
    pub order: &'a DeliveryOrder,
    pub delivery: &'a Inclusion,
    pub statement: &'a Statement,
    pub case: &'a VerificationCase,
    pub verifier: &'a VerifierRef,
    pub is_late: bool,
}

impl Attesting<'_> {
    pub async fn follow(
        &self,
        ports: &Ports,
        options: &Options,
        payment: &Payment,
        learned: &mut Learned,
    ) -> Result<Outcome, Transient> {
        // What the escrow takes no more is not asked for: the money can only go back.
        let mut gathering = Gathering::new(ports, self.verifier, self.case, self.statement, &payment.attested_by);
        if !is_over(self.case, ports.clock.now()) {
            gathering.ask().await;
        }
        let at = ports.clock.now();
        let is_over = is_over(self.case, at);
        let (attestation, fault) = (gathering.attestation(), gathering.fault());
        let given = gathering.given();
        let unattested = match (attestation, fault) {
            (Some(attestation), _) if !is_over => {
                let release_from = options.release.release_from(at, self.case.escrow.refund_after);
                let inclusion = self.found_again(ports, learned).await;
                let confirmed = Command::ConfirmDelivery { inclusion, given, attestation, at, release_from };
                return Ok(Outcome::command(confirmed));
            }
            _ if !given.is_empty() => return Ok(Outcome::command(Command::RecordAttestations { given })),
            (None, Some(fault)) => Err(fault),
            _ => Ok(Outcome::Nothing),
        };
        if !self.is_late {
            return unattested;
        }
        self.found_again(ports, learned).await;
        // A settler that was given the attestation may have released although the gateway is given none: the chain decides.
        match escrow_state(ports, payment).await {
            // Both clocks, as it is for good: a node of the source chain alone must not end the settler's time.
            Ok(EscrowState::Lapsed) if is_over => Ok(Outcome::command(Command::MissAttestation { at })),
            Ok(state @ (EscrowState::Released(_) | EscrowState::Refunded(_))) => {
                ended(ports, &self.case.payment_id, &self.case.escrow, state).await
            }
            _ if !payment.attestation_awaited => Ok(Outcome::command(Command::AwaitAttestation { at })),
            Ok(EscrowState::Held | EscrowState::Lapsed | EscrowState::Absent) => unattested,
            Err(fault) => Err(fault),
        }
    }

    /// Where the delivery is now. It had its depth; where that is a number of confirmations, a reorganisation may have taken it
    /// elsewhere since, or away. That is an alarm, once for each place where it is found.
    async fn found_again(&self, ports: &Ports, learned: &mut Learned) -> Inclusion {
        let payment_id = &self.order.payment_id;
        let state = match ports.chains.delivery_state(self.order).await {
            Ok(state) => state,
            Err(fault) => {
                tracing::debug!(%payment_id, %fault, "where the delivery is now is not known");
                return self.delivery.clone();
            }
        };
        let found = match &state {
            DeliveryState::Seen(inclusion) | DeliveryState::Final(inclusion) => Some(inclusion.clone()),
            DeliveryState::NotSeen | DeliveryState::Impossible => None,
        };
        if found.as_ref() != Some(self.delivery) && learned.moved.as_ref() != Some(&state) {
            let delivery = self.delivery;
            tracing::error!(%payment_id, ?delivery, found = ?state,
                "the delivery that completed its payment is not where it had its depth");
            learned.moved = Some(state);
        }
        found.unwrap_or_else(|| self.delivery.clone())
    }
}

/// Whether the escrow takes no release any more, by the gateway's clock.
fn is_over(case: &VerificationCase, at: Timestamp) -> bool {
    unix_seconds(at) >= case.escrow.refund_after
}
