//! Winners' answers to their awards: held against the award that is stored, and kept once, where every gateway finds them.
//!
//! A settler asks, and a gateway stores: so that no settler can fill a stream with answers to awards that it does not have,
//! and one answer of each award is final, whoever wrote it. The end of the wait is written into the same place, so that a
//! settler that answers late learns that it was too late, and no gateway can take its word after another gave it up.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_nats::{HeaderMap, jetstream::context::PublishErrorKind};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use events::{Hash32, PaymentId, SettlerToken, mutant};
use journal_jetstream::{headerless::Message, rate_limited::RateLimitedSubscription};
use protocol::{
    AWARDS_STREAM, AnswerStatus, AwardDecision, AwardMessage, AwardReceipt, AwardToken, Version, answer_subjects,
    award_subject, split_subject,
};
use sagas::{
    auction::reason_code,
    ports::{Award, AwardAnswer, Transient},
};

use super::{
    Inner, Options,
    awards::read_stored,
    streams::{ANSWERS_STREAM, answered_subject},
    wire,
};

/// How long the server may take to store or to find something.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a gateway that waits looks into the stream: another may have taken the answer.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Answers that are looked into at a time; more wait.
const LOOKED_INTO_MAX: usize = 256;
/// Of these, so many of one settler at most.
const LOOKED_INTO_OF_ONE_MAX: usize = 16;
/// Answers of one settler that cross to this gateway in a period; what is beyond is given again.
const ANSWERS_MAX: u64 = 256;
/// See [`ANSWERS_MAX`].
const ANSWERS_PERIOD: Duration = Duration::from_millis(500);
/// The gateways share the answers.
const QUEUE_GROUP: &str = "gateways";

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    version: Version,
    payment_id: PaymentId,
    quote_hash: Hash32,
    standing: AnswerStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl protocol::Message for Kept {}

/// An award, as its answer names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Named {
    /// Under which token it is stored, and its answer kept.
    token: AwardToken,
    payment_id: PaymentId,
    quote_hash: Hash32,
}

impl Named {
    fn of(award: &Award) -> Self {
        let (payment_id, quote_hash) = (award.case.payment_id.clone(), award.quote_hash);
        Self { token: wire::token(award), payment_id, quote_hash }
    }
}

impl Kept {
    fn of(award: &Named, standing: AnswerStatus, reason: Option<String>) -> Self {
        let (payment_id, quote_hash) = (award.payment_id.clone(), award.quote_hash);
        Self { version: Version, payment_id, quote_hash, standing, reason }
    }

    /// Whether it is an answer to this award: another's never counts for it.
    fn is_of(&self, award: &Named) -> bool {
        self.payment_id == award.payment_id && self.quote_hash == award.quote_hash
    }

    fn answer(&self) -> AwardAnswer {
        match self.standing {
            AnswerStatus::Accepted => AwardAnswer::Accepted,
            AnswerStatus::Refused => AwardAnswer::Refused(reason_code(self.reason.as_deref().unwrap_or_default())),
            AnswerStatus::Withdrawn | AnswerStatus::Unknown => AwardAnswer::Silent,
        }
    }
}

/// Who waits for an answer in this process.
#[derive(Default)]
pub(super) struct Waiting(Mutex<HashMap<Named, Waiter>>);

struct Waiter {
    settler: SettlerToken,
    kept: watch::Sender<Option<Kept>>,
    /// Tasks that wait; two may for a moment, when a shard changes hands.
    waiting: usize,
}

/// One that waits, as long as it lives.
struct Wait<'a> {
    waiting: &'a Waiting,
    award: Named,
    kept: watch::Receiver<Option<Kept>>,
}

impl Waiting {
    fn wait(&self, settler: &SettlerToken, award: Named) -> Wait<'_> {
        let mut waiters = self.waiters();
        let waiter = waiters.entry(award.clone()).or_insert_with(|| Waiter {
            settler: settler.clone(),
            kept: watch::Sender::new(None),
            waiting: 0,
        });
        waiter.waiting += 1;
        Wait { waiting: self, award, kept: waiter.kept.subscribe() }
    }

    /// Whether the award that an answer is for is stored: whoever waits here stored it.
    fn is_awarded(&self, settler: &SettlerToken, award: &Named) -> bool {
        self.waiters().get(award).is_some_and(|waiter| waiter.settler == *settler)
    }

    fn tell(&self, award: &Named, kept: &Kept) {
        if let Some(waiter) = self.waiters().get(award) {
            waiter.kept.send_replace(Some(kept.clone()));
        }
    }

    fn waiters(&self) -> MutexGuard<'_, HashMap<Named, Waiter>> {
        // No holder of the lock leaves the map half changed where it could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut waiters = self.waiting.waiters();
        if let Some(waiter) = waiters.get_mut(&self.award) {
            waiter.waiting -= 1;
            if waiter.waiting == 0 {
                waiters.remove(&self.award);
            }
        }
    }
}

impl Inner {
    /// See [`sagas::ports::Auction::answer`].
    pub(super) async fn answer(&self, award: &Award) -> Result<AwardAnswer, Transient> {
        let (settler, named) = (award.settler.token(), Named::of(award));
        let mut wait = self.waiting.wait(&settler, named.clone());
        let Options { answer_wait, replaceable_answer_wait, .. } = self.options;
        let is_replaceable = award.is_replaceable_after(self.clock.now(), replaceable_answer_wait);
        let ends = Instant::now() + if is_replaceable { replaceable_answer_wait } else { answer_wait };
        loop {
            if let Some(kept) = self.kept_answer(&settler, &named).await? {
                return Ok(kept.answer());
            }
            let heard = async {
                match wait.kept.wait_for(Option::is_some).await {
                    Ok(kept) => kept.clone(),
                    // The sender lives as long as `wait`.
                    Err(_) => None,
                }
            };
            tokio::select! {
                kept = heard => if let Some(kept) = kept { return Ok(kept.answer()) },
                () = sleep(LOOK_EVERY) => {}
                () = sleep_until(ends) => {
                    let silence = Kept::of(&named, AnswerStatus::Withdrawn, None);
                    return Ok(self.keep(&settler, &named, silence).await?.answer());
                }
            }
        }
    }

    /// Keeps `answer` to `award`, unless another is kept already; what is kept then.
    async fn keep(&self, settler: &SettlerToken, award: &Named, answer: Kept) -> Result<Kept, Transient> {
        let unknown = |reason: String| Transient::unreachable(format!("answer is not known to be stored: {reason}"));
        let subject = answered_subject(settler, &award.token);
        let mut headers = HeaderMap::new();
        if !mutant!("answer-overwritten") {
            headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
        }
        let payload = protocol::write(&answer).into();
        let store = async { self.jetstream.publish_with_headers(subject, headers, payload).await?.await };
        match tokio::time::timeout(STORE_TIMEOUT, store).await {
            Ok(Ok(_)) => return Ok(answer),
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => {}
            Ok(Err(error)) => {
                if error.kind() == PublishErrorKind::StreamNotFound {
                    self.restore_streams().await;
                }
                return Err(unknown(error.to_string()));
            }
            Err(_) => return Err(unknown("no acknowledgement in time".to_owned())),
        }
        let kept = self.kept_answer(settler, award).await?;
        kept.ok_or_else(|| unknown("another is said to be stored, and is not found".to_owned()))
    }

    /// The answer that is kept, read from the leader: a replica may not have it yet.
    async fn kept_answer(&self, settler: &SettlerToken, award: &Named) -> Result<Option<Kept>, Transient> {
        let found = self.last_under(ANSWERS_STREAM, &answered_subject(settler, &award.token)).await?;
        let Some((_, payload)) = found else { return Ok(None) };
        let kept: Kept = protocol::read(&payload).map_err(|error| unusable(&error.to_string()))?;
        if kept.is_of(award) { Ok(Some(kept)) } else { Err(unusable("it is of another award")) }
    }

    /// Follows answers, for ever: each settler's by a subscription of its own, so that nobody's flood is in another's way.
    pub(super) async fn follow_answers(self: &Arc<Self>) {
        let permits = Arc::new(Semaphore::new(LOOKED_INTO_MAX));
        let mut heard = HashSet::new();
        let mut following = JoinSet::new();
        let mut known = self.known.subscribe();
        loop {
            let new: Vec<SettlerToken> = known.borrow_and_update().difference(&heard).cloned().collect();
            for settler in new {
                heard.insert(settler.clone());
                let (inner, permits) = (self.clone(), permits.clone());
                following.spawn(async move { inner.follow_answers_of(&settler, &permits).await });
            }
            // The sender lives as long as `self`.
            let _ = known.changed().await;
        }
    }

    async fn follow_answers_of(self: &Arc<Self>, settler: &SettlerToken, permits: &Arc<Semaphore>) {
        let mut answers =
            RateLimitedSubscription::new(self.heard.clone(), answer_subjects(settler), ANSWERS_MAX, ANSWERS_PERIOD)
                .in_queue_group(QUEUE_GROUP);
        let of_settler = Arc::new(Semaphore::new(LOOKED_INTO_OF_ONE_MAX));
        let mut looked_into = JoinSet::new();
        loop {
            let message = answers.next().await;
            while looked_into.try_join_next().is_some() {}
            // They wait for their turn and are not dropped: a settler that wins much at once has a second for each award,
            // too little to send it again.
            let Ok(own_permit) = of_settler.clone().acquire_owned().await else { continue };
            let Ok(permit) = permits.clone().acquire_owned().await else { continue };
            let inner = self.clone();
            looked_into.spawn(async move {
                match inner.take_answer(&message).await {
                    Ok(()) => {}
                    Err(fault) if fault.is_misconfigured() => {
                        tracing::error!(subject = %message.subject, %fault, "an answer cannot be taken");
                    }
                    Err(fault) => {
                        tracing::debug!(subject = %message.subject, %fault, "an answer is not taken for now");
                    }
                }
                drop((own_permit, permit));
            });
        }
    }

    /// Takes one answer. What cannot be decided is not answered, and the settler says it again.
    async fn take_answer(&self, message: &Message) -> Result<(), Transient> {
        let Some((settler, id)) = split_subject(&message.subject, "answer") else { return Ok(()) };
        let Some(reply) = message.reply.clone() else { return Ok(()) };
        let answer: protocol::AwardAnswer = match protocol::read(&message.payload) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(subject = %message.subject, %error, "an answer to an award is unusable");
                return Ok(());
            }
        };
        let (payment_id, quote_hash) = (answer.payment_id, answer.quote_hash);
        let Some(token) = AwardToken::parse(id, &payment_id, quote_hash) else { return Ok(()) };
        let named = Named { token, payment_id, quote_hash };
        let standing = if self.is_awarded(&settler, &named).await? {
            let standing = match answer.word {
                AwardDecision::Accept => AnswerStatus::Accepted,
                AwardDecision::Refuse => AnswerStatus::Refused,
            };
            let kept = self.keep(&settler, &named, Kept::of(&named, standing, answer.reason)).await?;
            self.waiting.tell(&named, &kept);
            kept.standing
        } else {
            AnswerStatus::Unknown
        };
        let receipt = AwardReceipt { version: Version, payment_id: named.payment_id, standing };
        let replied = self.client.publish(reply, protocol::write(&receipt).into()).await;
        replied.map_err(Transient::unreachable)
    }

    async fn is_awarded(&self, settler: &SettlerToken, award: &Named) -> Result<bool, Transient> {
        if self.waiting.is_awarded(settler, award) {
            return Ok(true);
        }
        let found = self.last_under(AWARDS_STREAM, &award_subject(settler, &award.token)).await?;
        found.map_or(Ok(false), |(_, payload)| is_award_of(&payload, award))
    }
}

/// Whether `payload`, stored under an award's subject, is this award. One that cannot be read may be: the settler would take
/// [`AnswerStatus::Unknown`] as final, and free tokens that a deposit was promised.
fn is_award_of(payload: &[u8], award: &Named) -> Result<bool, Transient> {
    let AwardMessage::Award(notice) = read_stored(payload)? else { return Ok(false) };
    Ok(notice.quote_hash == award.quote_hash && notice.payment_id == award.payment_id)
}

fn unusable(why: &str) -> Transient {
    Transient::misconfigured(format!("a kept answer: {why}"))
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use serde_json::json;

    use events::Did;
    use protocol::AwardEnd;

    use super::*;

    #[test]
    fn a_stored_award_that_cannot_be_read_is_not_said_to_be_unknown() {
        let (quote_hash, payment_id) = (Hash32([7; 32]), PaymentId::derive("payer", "award-1"));
        let named = Named { token: AwardToken::of_payment(&payment_id), payment_id: payment_id.clone(), quote_hash };
        let unusable = [
            json!({"version": "1.0", "payment_id": payment_id, "quote_hash": quote_hash, "escrow": {"contract": "?"}}),
            json!({"version": "2.0", "payment_id": payment_id, "quote_hash": quote_hash}),
            json!({"version": "1.0", "payment_id": payment_id, "quote_hash": quote_hash, "ended": "not a code"}),
        ];
        let unusable = unusable.iter().map(|message| message.to_string().into_bytes()).chain([b"?".to_vec()]);
        for payload in unusable {
            let fault = is_award_of(&payload, &named).unwrap_err();
            assert!(fault.is_misconfigured(), "{fault:?}");
            assert!(fault.to_string().starts_with("a stored award: "), "{fault}");
        }
        let settler = Did::from_ed25519(&SigningKey::from_bytes(&[7; 32]).verifying_key());
        let (auction_id, ended) = (None, "NOT_DEPOSITED".to_owned());
        let end = AwardEnd { version: Version, settler, payment_id, quote_hash, auction_id, ended };
        assert_eq!(is_award_of(&protocol::write(&end), &named), Ok(false));
    }

    #[test]
    fn an_answer_counts_for_its_own_award_alone() {
        let (payment_id, other) = (PaymentId::derive("payer", "1"), PaymentId::derive("payer", "2"));
        let named = |payment_id: &PaymentId, quote: u8, is_reassignment| {
            let (payment_id, quote_hash) = (payment_id.clone(), Hash32([quote; 32]));
            Named { token: AwardToken::of(&payment_id, quote_hash, is_reassignment), payment_id, quote_hash }
        };
        let (first, next) = (named(&payment_id, 1, false), named(&payment_id, 2, true));
        let kept = Kept::of(&first, AnswerStatus::Accepted, None);
        assert!(kept.is_of(&first));
        for award in [&next, &named(&payment_id, 2, false), &named(&other, 1, false)] {
            assert!(!kept.is_of(award), "{award:?}");
        }
        // Whoever waits is told of no award but the one it waits for, under no other name either.
        let (waiting, settler) = (Waiting::default(), SettlerToken::from_subject("abc"));
        let wait = waiting.wait(&settler, next.clone());
        for award in [&first, &named(&payment_id, 2, false), &named(&other, 2, true)] {
            assert!(!waiting.is_awarded(&settler, award), "{award:?}");
            waiting.tell(award, &Kept::of(award, AnswerStatus::Accepted, None));
        }
        assert!(wait.kept.borrow().is_none());
        assert!(waiting.is_awarded(&settler, &next) && !waiting.is_awarded(&SettlerToken::from_subject("def"), &next));
        waiting.tell(&next, &Kept::of(&next, AnswerStatus::Refused, None));
        assert!(wait.kept.borrow().as_ref().is_some_and(|kept| kept.standing == AnswerStatus::Refused));
    }
}
