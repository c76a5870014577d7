//! Awarding a collected quote: how a payment comes out of a batch.
//!
//! Two streams are written, the batch's first: [`QuoteRequestAwarded`] names the payment and, fenced by the batch's
//! position, lets one award of several win. Then the payment begins with `Submitted` and `QuoteAwarded` in one commit.
//! When the process dies in between, the batch is awarded to a payment that does not exist yet, and nothing was taken
//! from anybody. The same call, repeated, finds itself named in the batch and begins the payment. The engine cannot do
//! that for the caller: the payer's authorization is in the call alone, and a batch never holds the right to spend.

use events::{
    CommitId, Event, PaymentEvent, PaymentId, QuoteRequestEvent, QuoteRequestId, StreamId,
    event::{Authorization, CollectedQuote, CounterpartyDecision, EscrowPlan, QuoteAwarded, Submitted},
    identity::ProvenIdentity,
    quote_request::{CollectedDocument, QuoteRequestAwarded},
    time::Timestamp,
};
use journal::{AppendError, Commit, Position, ReadError, Recorded, StreamStore};

use super::{QuoteRequest, Stage, evolve, fold};
use crate::payment;

/// How often an append that failed, or whose outcome is unknown, is repeated. The same commit can be stored only once.
const APPENDS_MAX: u32 = 3;
/// How often the batch is read anew because somebody else appended to it. It takes two events after its first.
const ROUNDS_MAX: u32 = 4;

/// Why a quote of a batch is not awarded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AwardRefusal {
    /// The batch still collects quotes.
    #[error("the batch is still collecting quotes")]
    StillCollecting,
    /// The batch holds no such quote.
    #[error("the batch holds no such quote")]
    UnknownQuote,
    /// A quote of the batch was awarded before.
    #[error("the batch was awarded to {payment_id}")]
    AlreadyAwarded {
        /// To this payment.
        payment_id: PaymentId,
    },
    /// The quote's own validity has ended, or the time for its delivery.
    #[error("the quote has lapsed")]
    Expired,
}

/// Whether quote `quote_id` of `batch` may be awarded to `payment_id` at `now`, and the quote. It may be again when it was
/// awarded to this very payment before, however late: then the award was in time.
///
/// # Errors
/// See [`AwardRefusal`].
pub fn may_award<'a>(
    batch: &'a QuoteRequest,
    quote_id: &str,
    payment_id: &PaymentId,
    now: Timestamp,
) -> Result<&'a CollectedDocument, AwardRefusal> {
    if batch.stage() == Stage::Collecting {
        return Err(AwardRefusal::StillCollecting);
    }
    let quote = batch.quote(quote_id).ok_or(AwardRefusal::UnknownQuote)?;
    match &batch.awarded {
        Some(awarded) if awarded.payment_id == *payment_id && awarded.quote_id == quote_id => Ok(quote),
        Some(awarded) => Err(AwardRefusal::AlreadyAwarded { payment_id: awarded.payment_id.clone() }),
        None if now > quote.valid_until || now >= batch.opened.fulfillment_deadline => Err(AwardRefusal::Expired),
        None => Ok(quote),
    }
}

/// An award call whose signature was verified; everything else of the payment comes from the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwardCall {
    /// The batch.
    pub quote_request_id: QuoteRequestId,
    /// The quote.
    pub quote_id: String,
    /// The award's own idempotency key, in the key space of payments.
    pub request_id: String,
    /// Who awards (design: identity and idempotency).
    pub originator: String,
    /// What the payer signed.
    pub authorization: Authorization,
    /// The escrow the payer signed for, with its windows.
    pub escrow: EscrowPlan,
    /// What the counterparty authorization rested on.
    pub counterparty: Option<CounterpartyDecision>,
    /// Who was proven to award.
    pub identities: Vec<ProvenIdentity>,
    /// The body of the call as it came.
    pub request: String,
    /// What set the work off, for the envelopes.
    pub correlation: String,
}

impl AwardCall {
    /// The payment that the call makes.
    pub fn payment_id(&self) -> PaymentId {
        PaymentId::derive(&self.originator, &self.request_id)
    }

    /// The payment's submission, with the batch's economics and deadlines.
    fn submission(&self, batch: &QuoteRequest, now: Timestamp) -> Submitted {
        let opened = &batch.opened;
        Submitted {
            payment_id: self.payment_id(),
            request_id: self.request_id.clone(),
            originator: self.originator.clone(),
            terms: opened.terms.clone(),
            terms_hash: opened.terms_hash,
            quote_deadline: opened.quote_deadline,
            fulfillment_deadline: opened.fulfillment_deadline,
            authorization: self.authorization.clone(),
            escrow: self.escrow.clone(),
            fulfillment_proxies: opened.fulfillment_proxies.clone(),
            verifier: opened.verifier.clone(),
            whitelist: opened.whitelist.clone(),
            blacklist: opened.blacklist.clone(),
            required_policies: opened.required_policies.clone(),
            collected_quote: Some(CollectedQuote {
                quote_request_id: batch.id().clone(),
                quote_id: self.quote_id.clone(),
            }),
            // The caller chooses itself, whoever the batch named.
            selector: None,
            counterparty: self.counterparty.clone(),
            identities: self.identities.clone(),
            submitted_at: now,
            request: self.request.clone(),
        }
    }
}

/// What came of an award call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwardOutcome {
    /// The call made the payment; its first commit.
    Created(Box<Recorded>),
    /// The payment was there before; all its commits. Whether the call is a replay of the one that made it, by its
    /// source account, terms and quote, is the caller's to judge.
    Existing(Vec<Recorded>),
    /// The quote is not awarded, and no payment was made.
    Refused(AwardRefusal),
}

/// Why an award call has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AwardError {
    /// There is no such batch.
    #[error("there is no such batch")]
    NoSuchBatch,
    /// What the payer signed does not go with the quote; nothing is stored. The text names the rule.
    #[error("the authorization does not go with the quote: {0}")]
    Unfit(String),
    /// The journal cannot be reached; nothing is stored.
    #[error("journal is unavailable, nothing was stored: {0}")]
    Unavailable(String),
    /// It is not known how far the award got. Repeating the same call finds out and completes it.
    #[error("outcome of the award is unknown: {0}")]
    Unknown(String),
    /// What is stored cannot be read, or will never be taken; only an operator can help. Nothing was added.
    #[error("the streams are at fault: {0}")]
    Broken(String),
}

/// Awards a quote of a batch to the payment of the call, and begins the payment.
///
/// # Errors
/// See [`AwardError`].
pub async fn award(journal: &dyn StreamStore, call: &AwardCall, now: Timestamp) -> Result<AwardOutcome, AwardError> {
    let payment = StreamId::from(call.payment_id());
    let existing = journal.load(&payment).await.map_err(unread)?;
    if !existing.is_empty() {
        return Ok(AwardOutcome::Existing(existing));
    }
    for _ in 0..ROUNDS_MAX {
        let Fence { first, caused_by, commit } = match fence(journal, call, now).await? {
            Ok(fence) => fence,
            Err(refusal) => return Ok(AwardOutcome::Refused(refusal)),
        };
        if let Some(commit) = commit
            && !append_fence(journal, &commit).await?
        {
            continue;
        }
        let commit = Commit {
            stream_id: payment,
            expected: Position::START,
            commit_id: CommitId::random(),
            events: first,
            correlation: call.correlation.clone(),
            causation: caused_by.to_string(),
        };
        return begin(journal, &commit).await;
    }
    Err(AwardError::Unavailable("the batch does not come to rest".to_owned()))
}

/// What makes the award, once it is known that it may be made.
struct Fence {
    /// The payment's first events.
    first: Vec<Event>,
    /// The commit that awards the batch.
    caused_by: CommitId,
    /// The same, when it is not stored yet.
    commit: Option<Commit>,
}

/// Reads the batch and decides. Everything is folded before anything is stored, so a batch is never awarded to a payment
/// that could not follow.
async fn fence(
    journal: &dyn StreamStore,
    call: &AwardCall,
    now: Timestamp,
) -> Result<Result<Fence, AwardRefusal>, AwardError> {
    let broken = |error: payment::IllegalTransition| AwardError::Broken(error.to_string());
    let commits = journal.load(&call.quote_request_id.clone().into()).await.map_err(unread)?;
    let batch = fold(commits.iter().flat_map(Recorded::quote_request_events)).map_err(broken)?;
    let (Some(batch), Some(last)) = (batch, commits.last()) else { return Err(AwardError::NoSuchBatch) };
    let payment_id = call.payment_id();
    let quote = match may_award(&batch, &call.quote_id, &payment_id, now) {
        Ok(quote) => quote.clone(),
        Err(refusal) => return Ok(Err(refusal)),
    };
    batch.check_plan(&call.escrow).map_err(|rule| AwardError::Unfit(rule.to_owned()))?;
    // When the award that stands was made; and not before the quotes were there, whatever the clocks of the gateways say that
    // collected them and that award one.
    let at = batch.awarded.as_ref().map_or(now, |awarded| awarded.awarded_at);
    let at = batch.collected.as_ref().map_or(at, |collected| collected.auction.closed_at.max(at));
    let first = [
        PaymentEvent::Submitted(Box::new(call.submission(&batch, at))),
        PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
            quote_id: quote.quote_id,
            quote_hash: quote.quote_hash,
            document: quote.document,
            awarded_at: at,
        })),
    ];
    payment::fold(&first).map_err(|error| AwardError::Unfit(error.reason))?;
    let first = first.map(Event::from).to_vec();
    if batch.awarded.is_some() {
        // Nothing follows an award, so it is the last commit.
        return Ok(Ok(Fence { first, caused_by: last.commit_id.clone(), commit: None }));
    }
    let awarded = QuoteRequestAwarded { quote_id: call.quote_id.clone(), payment_id, awarded_at: at };
    let awarded = QuoteRequestEvent::Awarded(awarded);
    evolve(Some(batch), &awarded).map_err(broken)?;
    let commit = Commit {
        stream_id: call.quote_request_id.clone().into(),
        expected: last.position,
        commit_id: CommitId::random(),
        events: vec![awarded.into()],
        correlation: call.correlation.clone(),
        causation: call.correlation.clone(),
    };
    Ok(Ok(Fence { first, caused_by: commit.commit_id.clone(), commit: Some(commit) }))
}

/// Awards the batch; `false` when another commit came first.
async fn append_fence(journal: &dyn StreamStore, commit: &Commit) -> Result<bool, AwardError> {
    match append(journal, commit).await {
        Ok(_) => Ok(true),
        Err(AppendError::Conflict) => Ok(false),
        Err(AppendError::Unavailable(reason)) => Err(AwardError::Unavailable(reason)),
        Err(AppendError::Unknown(reason)) => Err(AwardError::Unknown(reason)),
        Err(AppendError::Unacceptable(reason)) => Err(AwardError::Broken(reason)),
    }
}

/// Begins the payment. The batch is awarded to it already, so what fails here must be completed by the same call.
async fn begin(journal: &dyn StreamStore, commit: &Commit) -> Result<AwardOutcome, AwardError> {
    let unfinished =
        |reason: String| AwardError::Unknown(format!("the batch is awarded, the payment not begun: {reason}"));
    match append(journal, commit).await {
        Ok(recorded) => Ok(AwardOutcome::Created(Box::new(recorded))),
        Err(AppendError::Conflict) => {
            let commits = journal.load(&commit.stream_id).await.map_err(|error| unfinished(error.to_string()))?;
            match commits.first() {
                // An append of unknown outcome that was stored after all, and the engine has gone on from it.
                Some(first) if first.commit_id == commit.commit_id => {
                    Ok(AwardOutcome::Created(Box::new(first.clone())))
                }
                Some(_) => Ok(AwardOutcome::Existing(commits)),
                None => Err(unfinished("it cannot be read".to_owned())),
            }
        }
        Err(AppendError::Unavailable(reason) | AppendError::Unknown(reason) | AppendError::Unacceptable(reason)) => {
            Err(unfinished(reason))
        }
    }
}

/// Appends the same commit until its outcome is known, a few times. [`AppendError::Unavailable`] only when no attempt can
/// have stored it.
async fn append(journal: &dyn StreamStore, commit: &Commit) -> Result<Recorded, AppendError> {
    let mut unknown = None;
    let mut last = AppendError::Conflict;
    for _ in 0..APPENDS_MAX {
        match journal.append(commit).await {
            Err(AppendError::Unknown(reason)) => {
                last = AppendError::Unknown(reason.clone());
                unknown = Some(reason);
            }
            Err(AppendError::Unavailable(reason)) => last = AppendError::Unavailable(reason),
            outcome => return outcome,
        }
    }
    Err(unknown.map_or(last, AppendError::Unknown))
}

fn unread(error: ReadError) -> AwardError {
    match error {
        ReadError::Unavailable(reason) => AwardError::Unavailable(reason),
        unreadable @ ReadError::Unreadable { .. } => AwardError::Broken(unreadable.to_string()),
    }
}
