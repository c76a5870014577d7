//! Performing the settlement leg: the delivery is looked for, and attested.

use std::time::Duration;

use events::{
    Account,
    event::{Inclusion, VerifierRef},
    mutant,
    time::unix_seconds,
};

use super::{
    Options, Ports,
    outcome::{Outcome, ended, escrow_state},
};
use crate::{
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
    pub async fn follow(&self, ports: &Ports, options: &Options, payment: &Payment) -> Result<Outcome, Transient> {
        match ports.chains.delivery_state(self.order).await? {
            DeliveryState::NotSeen
                if mutant!("refund-before-evidence") && unix_seconds(ports.clock.now()) > self.order.fulfill_by =>
            {
                Ok(Outcome::command(Command::FailUndelivered { attestation: None, at: ports.clock.now() }))
            }
            DeliveryState::NotSeen if self.window_open => Err(Transient::unreachable(
                "the refund window is open, but the destination chain is not settled past the delivery's deadline",
            )),
            DeliveryState::NotSeen => Ok(Outcome::AwaitEvent),
            DeliveryState::Seen(inclusion) if payment.seen.as_ref() != Some(&inclusion) => {
                Ok(Outcome::command(Command::ObserveDelivery(inclusion)))
            }
            DeliveryState::Seen(_) => Ok(Outcome::AwaitEvent),
            DeliveryState::Final(inclusion) => Ok(self.settled(ports, options, inclusion).await),
            DeliveryState::Impossible => {
                let statement = Statement::NonDelivery {
                    payment_id: self.order.payment_id.clone(),
                    quote_hash: self.order.quote_hash,
                };
                let at = ports.clock.now();
                match attested(ports, self.verifier, self.case, &statement).await {
                    Ok(Some(attestation)) => {
                        Ok(Outcome::command(Command::FailUndelivered { attestation: Some(attestation), at }))
                    }
                    _ if self.window_open => Ok(Outcome::command(Command::FailUndelivered { attestation: None, at })),
                    Ok(None) => Ok(Outcome::Nothing),
                    Err(fault) => Err(fault),
                }
            }
        }
    }

    /// What to record of a delivery at its depth. It completes the payment, so that the verifier is waited for only as long as
    /// nobody notices: most often it has seen the same block, and one commit says both.
    async fn settled(&self, ports: &Ports, options: &Options, inclusion: Inclusion) -> Outcome {
        let at = ports.clock.now();
        let statement = Statement::Delivery {
            payment_id: self.order.payment_id.clone(),
            quote_hash: self.order.quote_hash,
            payout_account: self.payout_account.clone(),
        };
        // In this order, so that the same happenings always come to the same.
        let attested = tokio::select! {
            biased;
            attested = attested(ports, self.verifier, self.case, &statement) => attested.ok().flatten(),
            () = ports.clock.sleep(ATTESTED_AT_ONCE) => None,
        };
        let Some(attestation) = attested else {
            return Outcome::command(Command::FinalizeDelivery { inclusion, at });
        };
        let release_from = options.release.release_from(at, self.case.escrow.refund_after);
        Outcome::command(Command::ConfirmDelivery { inclusion, attestation, at, release_from })
    }
}

/// A delivery at its depth that is to be attested.
pub(super) struct Attesting<'a> {
    pub delivery: &'a Inclusion,
    pub statement: &'a Statement,
    pub case: &'a VerificationCase,
    pub verifier: &'a VerifierRef,
    pub is_late: bool,
}

impl Attesting<'_> {
    pub async fn follow(&self, ports: &Ports, options: &Options, payment: &Payment) -> Result<Outcome, Transient> {
        let attested = attested(ports, self.verifier, self.case, self.statement).await;
        let at = ports.clock.now();
        if let Ok(Some(attestation)) = attested {
            let release_from = options.release.release_from(at, self.case.escrow.refund_after);
            let inclusion = self.delivery.clone();
            return Ok(Outcome::command(Command::ConfirmDelivery { inclusion, attestation, at, release_from }));
        }
        let unattested = attested.map(|_| Outcome::Nothing);
        if !self.is_late {
            return unattested;
        }
        // A settler that was given the attestation may have released although the gateway is given none: the chain decides.
        match escrow_state(ports, payment).await {
            Ok(EscrowState::Lapsed) => Ok(Outcome::command(Command::MissAttestation { at })),
            Ok(state @ (EscrowState::Released(_) | EscrowState::Refunded(_))) => {
                ended(ports, &self.case.payment_id, &self.case.escrow, state).await
            }
            _ if !payment.unattested => Ok(Outcome::command(Command::AwaitAttestation { at })),
            Ok(EscrowState::Held | EscrowState::Absent) => unattested,
            Err(fault) => Err(fault),
        }
    }
}

/// The verifier's signature under `statement`, believed only when the escrow would believe it.
async fn attested(
    ports: &Ports,
    verifier: &VerifierRef,
    case: &VerificationCase,
    statement: &Statement,
) -> Result<Option<String>, Transient> {
    let answer = match statement {
        Statement::Delivery { .. } => ports.verifier.attest_delivery(verifier, case).await?,
        Statement::NonDelivery { .. } => ports.verifier.attest_non_delivery(verifier, case).await?,
    };
    let Some(signature) = answer else { return Ok(None) };
    if mutant!("attestation-not-checked") || ports.chains.attestation_holds(statement, &case.escrow, &signature).await?
    {
        Ok(Some(signature))
    } else {
        Err(Transient::contradiction("the verifier's signature is not the releaser's"))
    }
}
