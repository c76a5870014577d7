//! One award, from the settler's answer to it over the reservation in escrow to the payout.
//!
//! Whether the settler stands by its quote is decided when it is awarded, and said to the gateway before any money moves. Every step is decided from what the chains say, so it does not matter where a settler was killed: the escrow says
//! whether it is due, the proxy whether it was delivered, and the proxy's once-only key keeps a delivery that was sent
//! twice from taking effect twice.

use std::{sync::Arc, time::Duration};

use chrono::Utc;
use tokio_util::sync::CancellationToken;

use events::{
    Hash32, PaymentId, SettlerToken,
    event::Inclusion,
    time::{from_unix_seconds, unix_seconds},
};

use crate::{
    balances::Balances,
    chain::{DeliveryChain, DeliveryState, EscrowState, Transient, Trial},
    config::Options,
    inventory::{Inventory, Refusal},
    job::{Job, refusal},
    protocol::{
        self, AttestationStatus, AwardAnswer, AwardReceipt, Report, Standing, Version, Word, answer_subject,
        report_subject,
    },
    quoting::Decline,
    trials::{Lane, Trials},
    verifier,
};

/// Pause after the first fault, doubled with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// Longest pause after faults.
const BACKOFF_MAX: Duration = Duration::from_secs(15);
/// Longest pause as long as the gateway waits for the answer to an award.
const ANSWER_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The chains are asked again after this long even when neither reports a block.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long the gateway may take to say what stands as the answer.
const RECEIPT_MAX: Duration = Duration::from_secs(3);
/// How often a balance is read again because a delivery was settled in between.
const BALANCE_READS_MAX: usize = 5;
/// Tokens that are owed are held so long beyond the last second of the delivery, in which a block may still come.
const OWED_BEYOND_SECONDS: u64 = 60;

/// How an award ended. From [`Outcome::Released`] on each is proven by a chain at the depth it requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The settler did not stand by its quote.
    Refused,
    /// The gateway gave the award up before the settler answered, or after, without a deposit.
    Withdrawn,
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
    #[error("the gateway does not say what stands: {0}")]
    Gateway(String),
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
    /// What the settler holds back.
    pub inventory: Arc<Inventory>,
    /// Deliveries tried out.
    pub trials: Arc<Trials>,
    /// For attestations.
    pub verifiers: verifier::Client,
    /// For answers and reports.
    pub client: async_nats::Client,
    /// The settler's token.
    pub token: SettlerToken,
}

impl Desk {
    /// Says `answer` to the gateway; what stands.
    async fn answer(&self, answer: &AwardAnswer) -> Result<Standing, Fault> {
        let unsaid = |why: String| Fault::Gateway(why);
        let subject = answer_subject(&self.token, &answer.payment_id);
        let said = self.client.request(subject, protocol::write(answer).into());
        let receipt = tokio::time::timeout(RECEIPT_MAX, said).await.map_err(|_| unsaid("no answer".to_owned()))?;
        let receipt = receipt.map_err(|error| unsaid(error.to_string()))?;
        let receipt: AwardReceipt = protocol::read(&receipt.payload).map_err(|error| unsaid(error.to_string()))?;
        if receipt.payment_id != answer.payment_id {
            return Err(unsaid("the receipt is for another payment".to_owned()));
        }
        Ok(receipt.standing)
    }

    /// Refuses an award that is none of this settler's to settle. A gateway that does not hear it gives up by itself.
    pub async fn refuse(&self, payment_id: &PaymentId, quote_hash: Hash32) {
        let answer = AwardAnswer {
            version: Version,
            payment_id: payment_id.clone(),
            quote_hash,
            word: Word::Refuse,
            reason: Some(refusal::AWARD_INVALID.to_owned()),
        };
        if let Err(error) = self.answer(&answer).await {
            tracing::debug!(%payment_id, %error, "a refusal was not taken");
        }
    }
}

/// One award that is worked on.
pub struct Settlement {
    desk: Arc<Desk>,
    job: Job,
    source: Arc<dyn DeliveryChain>,
    destination: Arc<dyn DeliveryChain>,
    /// The chain has to be looked at before anything is said: the award was given to this settler before.
    is_again: bool,
    /// What stands is that the settler accepted, or the escrow is reserved for it.
    is_agreed: bool,
    /// The reservation was seen.
    is_reserved: bool,
    /// Its tokens have left, or may have.
    is_settled: bool,
    /// The delivery that was reported last.
    reported: Option<String>,
    /// What the verifier gave, until the escrow refuses it.
    attestation: Option<String>,
}

impl Settlement {
    /// Work on `job`, paid on `source`, delivered on `destination`; `is_again` when the award was given to the settler before.
    pub fn new(
        desk: Arc<Desk>,
        job: Job,
        source: Arc<dyn DeliveryChain>,
        destination: Arc<dyn DeliveryChain>,
        is_again: bool,
    ) -> Self {
        Self {
            desk,
            job,
            source,
            destination,
            is_again,
            is_agreed: false,
            is_reserved: false,
            is_settled: false,
            reported: None,
            attestation: None,
        }
    }

    /// Works until the award has ended, by the chains or by `over`, the gateway's word that there is no deposit: it counts as
    /// long as none was seen. Faults are waited out, for as long as it takes.
    pub async fn run(mut self, over: CancellationToken) -> Outcome {
        let mut pause = BACKOFF_MIN;
        loop {
            if over.is_cancelled() && !self.is_reserved {
                self.let_go();
                return Outcome::Withdrawn;
            }
            let step = self.step().await;
            let is_reserved = self.is_reserved;
            let over = async {
                match is_reserved {
                    true => std::future::pending().await,
                    false => over.cancelled().await,
                }
            };
            match step {
                Ok(Step::Done(outcome)) => {
                    self.let_go();
                    return outcome;
                }
                Ok(Step::Wait) => {
                    pause = BACKOFF_MIN;
                    tokio::select! {
                        () = over => {}
                        () = self.source.next_block() => {}
                        () = self.destination.next_block() => {}
                        () = tokio::time::sleep(WAIT_MAX) => {}
                    }
                    continue;
                }
                Ok(Step::GoOn) => continue,
                Ok(Step::AskAgain) => {}
                Err(fault) => {
                    tracing::warn!(payment_id = %self.job.payment_id, %fault, "settlement is held up, trying again");
                }
            }
            let longest = if self.is_agreed { BACKOFF_MAX } else { ANSWER_PAUSE_MAX };
            tokio::select! {
                () = over => {}
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(longest);
        }
    }

    /// The award has ended: nothing is held for it any more.
    fn let_go(&mut self) {
        let key = self.job.need().key;
        match self.is_reserved && !self.is_settled {
            true => self.desk.inventory.settle(key),
            false => self.desk.inventory.release(key),
        }
    }

    async fn step(&mut self) -> Result<Step, Fault> {
        // An award that is new has nothing on chain, and its answer is waited for.
        if !self.is_again && !self.is_agreed {
            return self.agree().await;
        }
        let reservation = self.job.reservation();
        match self.source.escrow_state(&reservation).await? {
            EscrowState::Open if !self.is_agreed => return self.agree().await,
            EscrowState::Open => return Ok(Step::Wait),
            EscrowState::Lapsed => return Ok(Step::Done(Outcome::Lapsed)),
            EscrowState::Different { reason } => return Ok(Step::Done(Outcome::Different { reason })),
            EscrowState::Released => return Ok(Step::Done(Outcome::Released)),
            EscrowState::Refunded => return Ok(Step::Done(Outcome::Refunded)),
            EscrowState::Reserved => self.reserved(),
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

    /// The escrow holds the reservation: the tokens are owed until the delivery can no longer be made.
    fn reserved(&mut self) {
        self.is_agreed = true;
        if self.is_reserved {
            return;
        }
        self.is_reserved = true;
        let need = self.job.need();
        let until = self.job.delivery().fulfill_by.saturating_add(OWED_BEYOND_SECONDS);
        if let Some(until) = from_unix_seconds(until) {
            self.desk.inventory.owe(need, until);
        }
    }

    /// Decides whether the settler stands by its quote, and says so. What stands is the gateway's to say: the first answer
    /// that arrived in time.
    async fn agree(&mut self) -> Result<Step, Fault> {
        let refused = self.decide().await?;
        let (payment_id, quote_hash) = (self.job.payment_id.clone(), self.job.quote.hash());
        let answer = AwardAnswer {
            version: Version,
            payment_id,
            quote_hash,
            word: if refused.is_some() { Word::Refuse } else { Word::Accept },
            reason: refused.map(str::to_owned),
        };
        match self.desk.answer(&answer).await? {
            Standing::Accepted => {
                self.is_agreed = true;
                if refused.is_some() {
                    // Accepted in an earlier life. It is held until its deposit is to be given up, and no longer.
                    let until = self.job.deposit_awaited_until(&self.desk.options.limits);
                    self.desk.inventory.owe(self.job.need(), until);
                }
                Ok(Step::GoOn)
            }
            Standing::Refused => Ok(Step::Done(Outcome::Refused)),
            Standing::Withdrawn | Standing::Unknown => Ok(Step::Done(Outcome::Withdrawn)),
        }
    }

    /// Holds the tokens, or says why not: a reason code.
    async fn decide(&self) -> Result<Option<&'static str>, Fault> {
        let (job, desk) = (&self.job, &self.desk);
        let limits = &desk.options.limits;
        if let Err(reason) = job.check_times(limits, Utc::now()) {
            return Ok(Some(reason));
        }
        let (need, until) = (job.need(), job.deposit_awaited_until(limits));
        let mut held = desk.inventory.award(need, None, until, Utc::now());
        for _ in 0..BALANCE_READS_MAX {
            if held != Err(Refusal::Outdated) {
                break;
            }
            let funds = Balances::newest(&*self.destination, need.asset, &desk.inventory).await?;
            held = desk.inventory.award(need, Some(funds), until, Utc::now());
        }
        if held.is_err() {
            return Ok(Some(Decline::InsufficientLiquidity.code()));
        }
        match desk.trials.of(&*self.destination, &job.delivery(), Lane::Signed).await {
            Some(Trial::Refused { reason }) => {
                tracing::info!(payment_id = %job.payment_id, reason, "not deliverable");
                desk.inventory.release(need.key);
                Ok(Some(Decline::Undeliverable.code()))
            }
            Some(Trial::Delivers) | None => Ok(None),
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
        if !self.is_settled {
            self.is_settled = true;
            self.desk.inventory.settle(self.job.need().key);
        }
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
