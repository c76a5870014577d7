//! Settlement of one award, from the settler's answer over the reservation in escrow to the payout.
//!
//! The settler decides whether it stands by its quote when it is awarded, and tells the gateway before any money moves.
//! Every step follows from what the chains show, so it does not matter where a settler was killed: the escrow shows
//! whether a delivery is due, the proxy whether it was made, and the proxy's once-only key keeps a delivery that was
//! sent twice from taking effect twice.

use std::{sync::Arc, time::Duration};

use chrono::Utc;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, field::Empty, info_span};

use chains::{
    perform::PerformError,
    settler::{DeliveryChain, ReservationState},
};
use events::{
    Account, ChainId, Hash32, PaymentId, VerifierMember,
    event::Inclusion,
    time::{from_unix_seconds, unix_seconds},
};
use protocol::{
    AnswerStatus, AttestationStatus, AwardAnswer, AwardDecision, AwardReceipt, AwardToken, Report, Version,
    answer_subject, report_subject,
};
use sagas::ports::{DeliveryState, Transient};
use trace::TraceParent;

use crate::{
    attestations::{Attestations, Missing},
    balances::Balances,
    config::Options,
    inventory::{Inventory, Refusal},
    job::{Job, refusal},
    nats::Nats,
    outcome::Outcome,
    quoting::Decline,
    trials::{Bulkhead, Trial, Trials},
    verifier,
};

/// First pause of the back-off, doubled with each further fault.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// Longest pause of the back-off.
const BACKOFF_MAX: Duration = Duration::from_secs(15);
/// Longest pause of the back-off while the gateway waits for the answer to an award.
const ANSWER_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The chains are read again after this time even when neither reports a block.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long the gateway may take to confirm which answer counts before it is told again: at first little, as a winner has a second
/// where another quote waits, and then long enough for a gateway whose stores are slow.
const RECEIPT_FIRST: Duration = Duration::from_millis(400);
/// See [`RECEIPT_FIRST`].
const RECEIPT_MAX: Duration = Duration::from_secs(3);
/// Attempts to read a balance that a delivery has outdated meanwhile.
const BALANCE_READS_MAX: usize = 5;
/// Tokens that are owed are held this long beyond the last second of the delivery, in which a block may still come.
const OWED_BEYOND_SECONDS: u64 = 60;

/// A transient fault: the step is tried again.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Chain(#[from] Transient),
    #[error(transparent)]
    Perform(#[from] PerformError),
    #[error(transparent)]
    Attestation(#[from] Missing),
    #[error("the gateway does not say what stands: {0}")]
    Gateway(String),
}

impl Fault {
    /// What it is called in spans.
    fn kind(&self) -> &'static str {
        match self {
            Self::Chain(fault) => fault.kind(),
            Self::Perform(_) => "chain",
            Self::Attestation(Missing::Refused(_)) => "refused",
            Self::Attestation(Missing::Verifier(_) | Missing::Forged(_)) => "verifier",
            Self::Gateway(_) => "gateway",
        }
    }
}

enum Step {
    Done(Outcome),
    /// Nothing can be done before the next block.
    Wait,
    /// The verifiers have seen too little yet.
    AskAgain,
    /// The next step can be taken at once.
    GoOn,
}

/// The settlement context: what all settlements of an agent share.
pub struct SettlementContext {
    /// The checked configuration.
    pub options: Arc<Options>,
    /// Tokens that are held.
    pub inventory: Arc<Inventory>,
    /// Simulated deliveries.
    pub trials: Arc<Trials>,
    /// For attestations.
    pub verifiers: verifier::Client,
    /// For answers and reports.
    pub nats: Nats,
}

impl SettlementContext {
    /// Sends `answer` to the award under `token` to the gateway and returns which answer counts, within `longest`.
    async fn answer(&self, token: &AwardToken, answer: &AwardAnswer, longest: Duration) -> Result<AnswerStatus, Fault> {
        let unsaid = |why: String| Fault::Gateway(why);
        let subject = answer_subject(&self.nats.token, token);
        let said = self.nats.client.request(subject, protocol::write(answer).into());
        let receipt = tokio::time::timeout(longest, said).await.map_err(|_| unsaid("no answer".to_owned()))?;
        let receipt = receipt.map_err(|error| unsaid(error.to_string()))?;
        let receipt: AwardReceipt = protocol::read(&receipt.payload).map_err(|error| unsaid(error.to_string()))?;
        if receipt.payment_id != answer.payment_id {
            return Err(unsaid("the receipt is for another payment".to_owned()));
        }
        Ok(receipt.standing)
    }

    /// Refuses the award under `token`, which does not belong to this settler. A gateway that does not receive the refusal gives up
    /// by itself.
    pub async fn refuse(&self, token: &AwardToken, payment_id: &PaymentId, quote_hash: Hash32) {
        let answer = AwardAnswer {
            version: Version,
            payment_id: payment_id.clone(),
            quote_hash,
            word: AwardDecision::Refuse,
            reason: Some(refusal::AWARD_INVALID.to_owned()),
        };
        if let Err(error) = self.answer(token, &answer, RECEIPT_MAX).await {
            tracing::debug!(%payment_id, %error, "a refusal was not taken");
        }
    }
}

/// Notes a fault in its span.
fn note<T>(span: &Span, step: Result<T, Fault>) -> Result<T, Fault> {
    if let Err(fault) = &step {
        span.record("error", fault.kind());
    }
    step
}

/// One award under way.
pub struct Settlement {
    context: Arc<SettlementContext>,
    job: Job,
    /// The span that the gateway awarded in.
    said: Option<TraceParent>,
    source: Arc<dyn DeliveryChain>,
    destination: Arc<dyn DeliveryChain>,
    /// The award's message came before: the chain has to be read before the settler answers.
    is_redelivery: bool,
    /// The gateway was told the answer once.
    was_told: bool,
    /// The settler's acceptance counts, or the escrow holds its reservation.
    is_agreed: bool,
    /// The reservation was seen in escrow.
    is_reserved: bool,
    /// The delivery is final: its tokens have left the account.
    has_delivered: bool,
    /// The delivery that was last reported to the gateway.
    reported: Option<String>,
    /// What the verifiers have signed, until the escrow refuses it.
    attestations: Attestations,
}

impl Settlement {
    /// The settlement of `job`, paid on `source`, delivered on `destination`; `is_redelivery` when the
    /// award's message came to this settler before.
    pub fn new(
        context: Arc<SettlementContext>,
        job: Job,
        source: Arc<dyn DeliveryChain>,
        destination: Arc<dyn DeliveryChain>,
        is_redelivery: bool,
    ) -> Self {
        let attestations = Attestations::new(job.verifier.clone());
        Self {
            context,
            job,
            said: None,
            source,
            destination,
            is_redelivery,
            was_told: false,
            is_agreed: false,
            is_reserved: false,
            has_delivered: false,
            reported: None,
            attestations,
        }
    }

    /// The settlement with the span that the gateway awarded in, which its own spans follow.
    pub fn said_in(self, said: Option<TraceParent>) -> Self {
        Self { said, ..self }
    }

    /// The chain that is delivered on.
    pub fn destination(&self) -> &ChainId {
        self.job.quote.quote().destination.asset().chain()
    }

    /// The span of one step, in the payment's trace.
    fn span(&self, step: &'static str, kind: &'static str, chain: &ChainId) -> Span {
        let (payment_id, chain) = (self.job.payment_id.as_str(), chain.as_str());
        let span = info_span!(
            target: trace::TARGET, parent: None, "settlement",
            otel.name = step, otel.kind = kind, payment_id, chain, hash = Empty, answer = Empty, error = Empty,
        );
        trace::join(&span, payment_id, self.said);
        span
    }

    /// Works until the award has ended, by what the chains show or by `over`, the gateway's notice that there is no
    /// deposit, which counts only while no reservation was seen. Faults are retried with back-off, without limit.
    pub async fn run(mut self, over: CancellationToken) -> Outcome {
        let mut pause = BACKOFF_MIN;
        loop {
            if over.is_cancelled() && !self.is_reserved {
                self.release_allocation();
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
                    self.release_allocation();
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

    /// Releases the allocation of an award that has ended.
    fn release_allocation(&mut self) {
        let key = self.job.need().key;
        match self.is_reserved && !self.has_delivered {
            true => self.context.inventory.spend(key),
            false => self.context.inventory.release(key),
        }
    }

    async fn step(&mut self) -> Result<Step, Fault> {
        // A new award has nothing on chain, and the gateway waits for its answer.
        if !self.is_redelivery && !self.is_agreed {
            return self.agree().await;
        }
        let reservation = self.job.reservation();
        match self.source.reservation_state(&reservation).await? {
            ReservationState::Open if !self.is_agreed => return self.agree().await,
            ReservationState::Open => return Ok(Step::Wait),
            ReservationState::Lapsed => return Ok(Step::Done(Outcome::Lapsed)),
            ReservationState::Different { reason } => return Ok(Step::Done(self.different(reason))),
            ReservationState::Released => return Ok(Step::Done(Outcome::Released)),
            ReservationState::Refunded => return Ok(Step::Done(Outcome::Refunded)),
            ReservationState::Reserved => self.reserved(),
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

    /// The escrow holds another reservation.
    fn different(&self, reason: String) -> Outcome {
        let (payment_id, fulfill_by) = (&self.job.payment_id, self.job.delivery().fulfill_by);
        let outcome = Outcome::of_different(reason, self.is_reserved, fulfill_by, unix_seconds(Utc::now()));
        if outcome == Outcome::Reassigned {
            let why = "nothing was delivered in the time that was promised, and the escrow is another settler's now";
            tracing::warn!(%payment_id, fulfill_by, why, "award is lost");
        }
        outcome
    }

    /// The escrow holds the reservation: the tokens are owed until a delivery is impossible.
    fn reserved(&mut self) {
        self.is_agreed = true;
        if self.is_reserved {
            return;
        }
        self.is_reserved = true;
        let need = self.job.need();
        let until = self.job.delivery().fulfill_by.saturating_add(OWED_BEYOND_SECONDS);
        if let Some(until) = from_unix_seconds(until) {
            self.context.inventory.owe(need, until);
        }
    }

    /// Decides whether the settler stands by its quote, and answers the gateway. The gateway says which answer counts:
    /// the first that arrived in time.
    async fn agree(&mut self) -> Result<Step, Fault> {
        let span = self.span("answer_award", "consumer", &self.job.quote.quote().source_chain);
        let step = self.agree_in(&span).instrument(span.clone()).await;
        note(&span, step)
    }

    async fn agree_in(&mut self, span: &Span) -> Result<Step, Fault> {
        let refused = self.decide().await?;
        let (payment_id, quote_hash) = (self.job.payment_id.clone(), self.job.quote.hash());
        let answer = AwardAnswer {
            version: Version,
            payment_id,
            quote_hash,
            word: if refused.is_some() { AwardDecision::Refuse } else { AwardDecision::Accept },
            reason: refused.map(str::to_owned),
        };
        let longest = if std::mem::replace(&mut self.was_told, true) { RECEIPT_MAX } else { RECEIPT_FIRST };
        let standing = self.context.answer(&self.job.token(), &answer, longest).await?;
        span.record("answer", tracing::field::debug(standing));
        match standing {
            AnswerStatus::Accepted => {
                self.is_agreed = true;
                if refused.is_some() {
                    // The settler accepted before it was restarted. The tokens are held until the deposit is given up,
                    // and no longer.
                    let until = self.job.deposit_awaited_until(&self.context.options.limits);
                    self.context.inventory.owe(self.job.need(), until);
                }
                Ok(Step::GoOn)
            }
            AnswerStatus::Refused => Ok(Step::Done(Outcome::Refused)),
            AnswerStatus::Withdrawn | AnswerStatus::Unknown => Ok(Step::Done(Outcome::Withdrawn)),
        }
    }

    /// Holds the tokens, or returns the reason code of a refusal.
    async fn decide(&self) -> Result<Option<&'static str>, Fault> {
        let (job, context) = (&self.job, &self.context);
        let limits = &context.options.limits;
        let checked = job.check_escrow(&context.options).and_then(|()| job.check_times(limits, Utc::now()));
        if let Err(reason) = checked {
            return Ok(Some(reason));
        }
        let (need, until) = (job.need(), job.deposit_awaited_until(limits));
        let mut held = context.inventory.award(need, None, until, Utc::now());
        for _ in 0..BALANCE_READS_MAX {
            if held != Err(Refusal::Outdated) {
                break;
            }
            let funds = Balances::newest(&*self.destination, need.asset, &context.inventory).await?;
            held = context.inventory.award(need, Some(funds), until, Utc::now());
        }
        if held.is_err() {
            return Ok(Some(Decline::InsufficientLiquidity.code()));
        }
        match context.trials.of(&*self.destination, &job.delivery(), Bulkhead::Signed).await {
            Some(Trial::Refused { reason }) => {
                tracing::info!(payment_id = %job.payment_id, reason, "not deliverable");
                context.inventory.release(need.key);
                Ok(Some(Decline::Undeliverable.code()))
            }
            Some(Trial::Delivers) | None => Ok(None),
        }
    }

    async fn deliver(&mut self) -> Result<Step, Fault> {
        let order = self.job.delivery();
        let margin = self.context.options.quoting.delivery_margin_seconds;
        // The contract decides by its own clock; this check only saves a transaction that would come too late.
        let in_time = unix_seconds(chrono::Utc::now()).saturating_add(margin) <= order.fulfill_by;
        let reverts = self.context.trials.reverts();
        // Nor is what the escrow would not pay for delivered, whatever was agreed.
        let is_paid = self.job.check_escrow(&self.context.options).is_ok();
        if !self.context.options.deliver || !in_time || !is_paid || reverts.is_exhausted(&order.destination) {
            return Ok(Step::Wait);
        }
        let job = &self.job;
        self.source.make_payout_account(&job.escrow.contract, job.terms.source.asset()).await?;
        let span = self.span("deliver", "client", order.destination.asset().chain());
        let delivered = self.destination.deliver(&order).instrument(span.clone()).await;
        match &delivered {
            Ok(hash) => span.record("hash", hash.as_str()),
            Err(_) => span.record("error", "not delivered"),
        };
        let transaction_hash = delivered.inspect_err(|error| reverts.count(&order.destination, error))?;
        self.report(&transaction_hash).await;
        Ok(Step::Wait)
    }

    /// The delivery is final: asks for the attestation and sends it to the escrow.
    async fn collect(&mut self, inclusion: &Inclusion) -> Result<Step, Fault> {
        self.report(&inclusion.transaction_hash).await;
        if !self.has_delivered {
            self.has_delivered = true;
            self.context.inventory.spend(self.job.need().key);
        }
        let Some(attestation) = self.attestations.word() else { return self.ask_verifiers().await };
        let Job { payment_id, escrow, .. } = &self.job;
        let span = self.span("release", "client", &escrow.chain_id);
        let released = self.source.release(payment_id, escrow, &attestation).instrument(span.clone()).await;
        match &released {
            Ok(hash) => span.record("hash", hash.as_str()),
            Err(_) => span.record("error", "not released"),
        };
        let transaction_hash = released.inspect_err(|error| self.attestations.release_failed(error))?;
        tracing::debug!(%payment_id, transaction_hash, "release is on its way");
        Ok(Step::Wait)
    }

    async fn ask_verifiers(&mut self) -> Result<Step, Fault> {
        let span = self.span("attest", "client", self.job.quote.quote().destination.asset().chain());
        let (job, source, verifiers) = (&self.job, &self.source, &self.context.verifiers);
        let (request, statement) = (Arc::new(job.attestation_request()), job.statement());
        let ask = |member: VerifierMember| {
            let (verifiers, request) = (verifiers.clone(), Arc::clone(&request));
            async move { verifiers.attest_delivery(&member.endpoint, &request).await }
        };
        let is_own = |member: &Account, signature: &str| source.signed_by(&statement, &job.escrow, member, signature);
        let gathered = self.attestations.gather(ask, is_own).instrument(span.clone()).await;
        let step = match note(&span, gathered.map_err(Fault::from))? {
            Some(_) => (Step::GoOn, AttestationStatus::Attested),
            None => (Step::AskAgain, AttestationStatus::Pending),
        };
        span.record("answer", tracing::field::debug(step.1));
        Ok(step.0)
    }

    /// Reports the delivery's transaction to the gateway. The report is a hint: without it the gateway finds the
    /// delivery by itself.
    async fn report(&mut self, transaction_hash: &str) {
        if self.reported.as_deref() == Some(transaction_hash) {
            return;
        }
        self.reported = Some(transaction_hash.to_owned());
        let payment_id = self.job.payment_id.clone();
        let subject = report_subject(&self.context.nats.token, &payment_id);
        let report = Report { version: Version, payment_id, transaction_hash: transaction_hash.to_owned() };
        if let Err(error) = self.context.nats.client.publish(subject, protocol::write(&report).into()).await {
            tracing::debug!(%error, "report was not sent");
        }
    }
}

#[cfg(test)]
mod tests;
