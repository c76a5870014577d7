//! One award, from the reservation in escrow to the payout.
//!
//! Every step is decided from what the chains say, so it does not matter where a settler was killed: the escrow says
//! whether it is due, the proxy whether it was delivered, and the proxy's once-only key keeps a delivery that was sent
//! twice from taking effect twice.

use std::{sync::Arc, time::Duration};

use events::{SettlerToken, event::Inclusion, time::unix_seconds};

use crate::{
    chain::{DeliveryChain, DeliveryState, EscrowState, Transient},
    config::Options,
    inventory::Inventory,
    job::Job,
    protocol::{self, AttestationStatus, Report, Version, report_subject},
    verifier,
};

/// Pause after the first fault, doubled with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// Longest pause after faults.
const BACKOFF_MAX: Duration = Duration::from_secs(15);
/// The chains are asked again after this long even when neither reports a block.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How an award ended. Each is proven by a chain at the depth it requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The escrow paid.
    Released,
    /// The money went back to the payer.
    Refunded,
    /// Nothing was reserved in time.
    Lapsed,
    /// Nothing was delivered in time.
    NotDelivered,
    /// The escrow holds another reservation than the one that was quoted.
    Different {
        /// Which field differs.
        reason: String,
    },
}

/// A fault that passes.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Chain(#[from] Transient),
    #[error(transparent)]
    Verifier(#[from] verifier::Error),
    #[error("the verifier refuses: {0}")]
    Refused(String),
}

enum Step {
    Done(Outcome),
    /// Nothing can be done before the next block.
    Wait,
    /// The verifier has seen too little yet.
    AskAgain,
    /// The next step can be taken at once.
    GoOn,
}

/// What settlements share.
pub struct Desk {
    /// The checked configuration.
    pub options: Arc<Options>,
    /// The settler's promises.
    pub inventory: Arc<Inventory>,
    /// For attestations.
    pub verifiers: verifier::Client,
    /// For reports.
    pub client: async_nats::Client,
    /// The settler's token.
    pub token: SettlerToken,
}

/// One award that is worked on.
pub struct Settlement {
    desk: Arc<Desk>,
    job: Job,
    source: Arc<dyn DeliveryChain>,
    destination: Arc<dyn DeliveryChain>,
    /// The delivery that was reported last.
    reported: Option<String>,
    /// What the verifier gave, until the escrow refuses it.
    attestation: Option<String>,
}

impl Settlement {
    /// Work on `job`, paid on `source`, delivered on `destination`.
    pub fn new(desk: Arc<Desk>, job: Job, source: Arc<dyn DeliveryChain>, destination: Arc<dyn DeliveryChain>) -> Self {
        Self { desk, job, source, destination, reported: None, attestation: None }
    }

    /// Works until the award has ended. Faults are waited out, for as long as it takes.
    pub async fn run(mut self) -> Outcome {
        let quote = self.job.quote.quote();
        self.desk.inventory.award(self.job.inventory_key(), quote.destination.asset(), quote.fulfillment_amount);
        let mut pause = BACKOFF_MIN;
        loop {
            match self.step().await {
                Ok(Step::Done(outcome)) => {
                    self.desk.inventory.settle(self.job.inventory_key());
                    return outcome;
                }
                Ok(Step::Wait) => {
                    pause = BACKOFF_MIN;
                    tokio::select! {
                        () = self.source.next_block() => {}
                        () = self.destination.next_block() => {}
                        () = tokio::time::sleep(WAIT_MAX) => {}
                    }
                }
                Ok(Step::GoOn) => {}
                Ok(Step::AskAgain) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BACKOFF_MAX);
                }
                Err(fault) => {
                    tracing::warn!(payment_id = %self.job.payment_id, %fault, "settlement is held up, trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BACKOFF_MAX);
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Step, Fault> {
        let reservation = self.job.reservation();
        match self.source.escrow_state(&reservation).await? {
            EscrowState::Open => return Ok(Step::Wait),
            EscrowState::Lapsed => return Ok(Step::Done(Outcome::Lapsed)),
            EscrowState::Different { reason } => return Ok(Step::Done(Outcome::Different { reason })),
            EscrowState::Released => return Ok(Step::Done(Outcome::Released)),
            EscrowState::Refunded => return Ok(Step::Done(Outcome::Refunded)),
            EscrowState::Reserved => {}
        }
        match self.destination.delivery_state(&self.job.delivery()).await? {
            DeliveryState::Impossible => Ok(Step::Done(Outcome::NotDelivered)),
            DeliveryState::NotSeen => self.deliver().await,
            DeliveryState::Seen(inclusion) => {
                self.report(&inclusion.transaction_hash).await;
                Ok(Step::Wait)
            }
            DeliveryState::Final(inclusion) => self.collect(&inclusion).await,
        }
    }

    async fn deliver(&mut self) -> Result<Step, Fault> {
        let order = self.job.delivery();
        let margin = self.desk.options.quoting.delivery_margin_seconds;
        // The contract judges by its own clock; this one only avoids paying for a transaction that comes too late.
        let in_time = unix_seconds(chrono::Utc::now()).saturating_add(margin) <= order.fulfill_by;
        if !self.desk.options.deliver || !in_time {
            return Ok(Step::Wait);
        }
        self.source.ready_to_be_paid(&self.job.reservation()).await?;
        let transaction_hash = self.destination.deliver(&order).await?;
        self.report(&transaction_hash).await;
        Ok(Step::Wait)
    }

    /// The delivery is final: gets the attestation and brings it to the escrow.
    async fn collect(&mut self, inclusion: &Inclusion) -> Result<Step, Fault> {
        self.report(&inclusion.transaction_hash).await;
        self.desk.inventory.settle(self.job.inventory_key());
        let Some(attestation) = self.attestation.take() else { return self.ask_verifier().await };
        let transaction_hash = self.source.release(&self.job.reservation(), &attestation).await?;
        tracing::debug!(payment_id = %self.job.payment_id, transaction_hash, "release is on its way");
        self.attestation = Some(attestation);
        Ok(Step::Wait)
    }

    async fn ask_verifier(&mut self) -> Result<Step, Fault> {
        let request = self.job.attestation_request();
        let answer = self.desk.verifiers.attest_delivery(&self.job.verifier_endpoint, &request).await?;
        match answer.status {
            AttestationStatus::Attested => {
                self.attestation = answer.signature;
                Ok(Step::GoOn)
            }
            AttestationStatus::Pending => Ok(Step::AskAgain),
            AttestationStatus::Refused => {
                let reason = answer.reason.unwrap_or_default().chars().take(protocol::TEXT_CHARS_MAX).collect();
                Err(Fault::Refused(reason))
            }
        }
    }

    /// Tells the gateway where to look. A hint: when it is lost, the gateway finds the delivery by itself.
    async fn report(&mut self, transaction_hash: &str) {
        if self.reported.as_deref() == Some(transaction_hash) {
            return;
        }
        self.reported = Some(transaction_hash.to_owned());
        let payment_id = self.job.payment_id.clone();
        let subject = report_subject(&self.desk.token, &payment_id);
        let report = Report { version: Version, payment_id, transaction_hash: transaction_hash.to_owned() };
        if let Err(error) = self.desk.client.publish(subject, protocol::write(&report).into()).await {
            tracing::debug!(%error, "report was not sent");
        }
    }
}
