//! Awards: pulled from the settler's consumer, each settled once at a time, and acknowledged when it has ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_nats::jetstream::{
    self, AckKind,
    consumer::{self, PullConsumer, StreamError, pull::MessagesError},
    message::Acker,
};
use futures::StreamExt;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use events::{ChainId, Hash32, PaymentId, SettlerToken, quote::auction_of};
use protocol::{AWARDS_STREAM, AwardEnd, AwardMessage, AwardNotice, AwardToken, award_consumer, split_subject};
use trace::TraceParent;

use super::{ENDS_MAX, RETRY_PAUSE};
use crate::{
    agent_metrics::award_ended,
    chain_registry::Chains,
    claims,
    job::{Job, Rejected},
    nats::traceparent,
    outcome::Outcome,
    recent::RecentSet,
    settlement::{Settlement, SettlementContext},
};

/// How long one pull request for awards stands, and the interval of the server's heartbeats. An award has to be answered
/// within seconds, so a server that is lost with the request must be noticed at once.
const AWARDS_PULL: Duration = Duration::from_secs(5);
const AWARDS_HEARTBEAT: Duration = Duration::from_millis(1_000);
/// Most awards fetched by one pull request.
const AWARDS_BATCH: usize = 32;
/// Interval of the progress acknowledgements for an award that is worked on; well below the consumer's ack wait.
const PROGRESS_EVERY: Duration = Duration::from_secs(4);

/// Why no awards can be had for now.
#[derive(Debug, thiserror::Error)]
enum PullError {
    #[error("consumer: {0}")]
    Consumer(#[from] serde_json::Error),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Messages(#[from] MessagesError),
}

/// Settles awards.
pub(super) struct Awards {
    chains: Chains,
    context: Arc<SettlementContext>,
    claims: claims::Handle,
    work: Mutex<Work>,
}

/// An award: a payment, and which of the settler's quotes. The same payment may be awarded to the settler again, by another quote.
type AwardKey = (PaymentId, Hash32);

/// Awards that are worked on, and those that have ended.
struct Work {
    /// Awards under way, each with the token that cancels it; one that is redelivered meanwhile is not begun twice.
    underway: HashMap<AwardKey, CancellationToken>,
    /// Awards that have ended; a late redelivery is not begun.
    ended: RecentSet<AwardKey>,
}

impl Awards {
    pub(super) fn new(chains: Chains, context: Arc<SettlementContext>, claims: claims::Handle) -> Self {
        let work = Mutex::new(Work { underway: HashMap::new(), ended: RecentSet::new(ENDS_MAX) });
        Self { chains, context, claims, work }
    }

    /// Settles awards until it is dropped.
    pub(super) async fn run(self: Arc<Self>) {
        let mut settlements = JoinSet::new();
        loop {
            if let Err(error) = self.pull(&mut settlements).await {
                // A settler that has just registered for the first time has no consumer yet.
                tracing::debug!(%error, "no awards to be had, trying again");
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn pull(self: &Arc<Self>, settlements: &mut JoinSet<()>) -> Result<(), PullError> {
        let consumer = own_consumer(&self.context.nats.token, &self.context.nats.jetstream)?;
        let mut awards = consumer
            .stream()
            .max_messages_per_batch(AWARDS_BATCH)
            .expires(AWARDS_PULL)
            .heartbeat(AWARDS_HEARTBEAT)
            .messages()
            .await?;
        while let Some(message) = awards.next().await {
            while settlements.try_join_next().is_some() {}
            let message = message?;
            // An unknown count is treated as a redelivery.
            let is_redelivery = message.info().map_or(true, |info| info.delivered > 1);
            let (message, acker) = message.split();
            match AwardMessage::read(&message.payload) {
                Ok(AwardMessage::Award(notice)) => {
                    let said = traceparent(message.headers.as_ref());
                    let token = token_of(&message.subject, &notice.payment_id, notice.quote_hash);
                    settlements.spawn(self.clone().settle(*notice, token, is_redelivery, said, acker));
                }
                Ok(AwardMessage::End(end)) => {
                    self.end(end);
                    settlements.spawn(async move { acknowledge(&acker, AckKind::Ack).await });
                }
                Err(error) => {
                    tracing::error!(%error, "award is unusable");
                    let awards = self.clone();
                    settlements.spawn(async move {
                        if let Some((payment_id, quote_hash)) = AwardMessage::awarded(&message.payload) {
                            let token = token_of(&message.subject, &payment_id, quote_hash);
                            awards.context.refuse(&token, &payment_id, quote_hash).await;
                        }
                        acknowledge(&acker, AckKind::Term).await;
                    });
                }
            }
        }
        Ok(())
    }

    /// Ends the work on an award that is over. An award whose reservation is in escrow is worked on all the same.
    fn end(&self, end: AwardEnd) {
        tracing::info!(payment_id = %end.payment_id, reason = end.ended, "award is over");
        let AwardEnd { payment_id, quote_hash, auction_id, .. } = end;
        // Gateways of older versions do not name the auction. For a quote from a batch nothing is held before its award.
        let auction_id = auction_id.unwrap_or_else(|| auction_of(&payment_id));
        let award = (payment_id, quote_hash);
        let underway = {
            let mut work = self.work();
            work.ended.insert(award.clone(), ());
            work.underway.get(&award).cloned()
        };
        match underway {
            Some(over) => over.cancel(),
            None => self.context.inventory.lose(&auction_id),
        }
    }

    async fn settle(
        self: Arc<Self>,
        notice: AwardNotice,
        token: AwardToken,
        is_redelivery: bool,
        said: Option<TraceParent>,
        acker: Acker,
    ) {
        let (payment_id, quote_hash) = (notice.payment_id.clone(), notice.quote_hash);
        let (paid_in, escrow) = (notice.terms.source.asset().clone(), notice.escrow.contract.clone());
        let accepted = Job::accept(notice, &self.context.options);
        let settlement = match accepted.and_then(|job| self.settlement(job, is_redelivery, said)) {
            Ok(settlement) => settlement,
            Err(Rejected(reason)) => {
                tracing::error!(%payment_id, reason, "award is not this settler's to settle");
                self.context.refuse(&token, &payment_id, quote_hash).await;
                acknowledge(&acker, AckKind::Term).await;
                return;
            }
        };
        let working = match Working::begin(&self, (payment_id.clone(), quote_hash)) {
            Begun::Work(working) => working,
            Begun::Underway => return,
            Begun::Ended => return acknowledge(&acker, AckKind::Ack).await,
        };
        tracing::info!(%payment_id, "award");
        let delivered_on = settlement.destination().clone();
        let settled = settlement.run(working.over.clone());
        tokio::pin!(settled);
        let mut progress = tokio::time::interval(PROGRESS_EVERY);
        let outcome = loop {
            tokio::select! {
                outcome = &mut settled => break outcome,
                _ = progress.tick() => acknowledge(&acker, AckKind::Progress).await,
            }
        };
        tracing::info!(%payment_id, ?outcome, "award has ended");
        award_ended(&delivered_on, outcome.as_str());
        if outcome == Outcome::Released {
            // The escrow shows the same state whether the payout went through or became a claim.
            self.claims.released(&paid_in, &escrow);
        }
        acknowledge(&acker, AckKind::Ack).await;
    }

    fn settlement(&self, job: Job, is_redelivery: bool, said: Option<TraceParent>) -> Result<Settlement, Rejected> {
        let quote = job.quote.quote();
        let (source_id, destination_id) = (&quote.source_chain, quote.destination.asset().chain());
        let chain = |id: &ChainId| {
            let chain = self.chains.get(id).cloned();
            chain.ok_or_else(|| Rejected(format!("{id} is none of this settler's chains")))
        };
        let (source, destination) = (chain(source_id)?, chain(destination_id)?);
        Ok(Settlement::new(self.context.clone(), job, source, destination, is_redelivery).said_in(said))
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        // Inserting cannot panic half way.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard: the award counts as under way until it is dropped.
struct Working<'a> {
    awards: &'a Awards,
    award: AwardKey,
    over: CancellationToken,
}

/// What to do with an award's message.
enum Begun<'a> {
    /// Work on it.
    Work(Working<'a>),
    /// It is under way already.
    Underway,
    /// It has ended.
    Ended,
}

impl<'a> Working<'a> {
    fn begin(awards: &'a Awards, award: AwardKey) -> Begun<'a> {
        let mut work = awards.work();
        if work.ended.contains(&award) {
            return Begun::Ended;
        }
        if work.underway.contains_key(&award) {
            return Begun::Underway;
        }
        let over = CancellationToken::new();
        work.underway.insert(award.clone(), over.clone());
        Begun::Work(Self { awards, award, over })
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.awards.work().underway.remove(&self.award);
    }
}

/// The last token of an award's subject, under which it is answered; the payment's where it is none of the two that there are.
fn token_of(subject: &str, payment_id: &PaymentId, quote_hash: Hash32) -> AwardToken {
    let said = split_subject(subject, "award").and_then(|(_, id)| AwardToken::parse(id, payment_id, quote_hash));
    said.unwrap_or_else(|| AwardToken::of_payment(payment_id))
}

/// A handle to the settler's consumer of awards that is good for pulling messages, and that is made without asking the
/// server. A settler may not ask for the consumer's state: such questions are answered by what answers the gateway's, and a
/// flood of them would delay those.
fn own_consumer(token: &SettlerToken, jetstream: &jetstream::Context) -> Result<PullConsumer, serde_json::Error> {
    let nothing = json!({"consumer_seq": 0, "stream_seq": 0});
    let info = serde_json::from_value(json!({
        "stream_name": AWARDS_STREAM,
        "name": award_consumer(token),
        "created": "1970-01-01T00:00:00Z",
        "config": consumer::Config::default(),
        "delivered": nothing,
        "ack_floor": nothing,
        "num_ack_pending": 0,
        "num_redelivered": 0,
        "num_waiting": 0,
        "num_pending": 0,
    }))?;
    Ok(PullConsumer::new(consumer::pull::Config::default(), info, jetstream.clone()))
}

/// A lost acknowledgement is harmless: the same award is redelivered.
async fn acknowledge(acker: &Acker, kind: AckKind) {
    if let Err(error) = acker.ack_with(kind).await {
        tracing::debug!(%error, "acknowledgement was not sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_consumer_is_addressed_without_asking_for_it() {
        // Nobody listens there: nothing is asked.
        let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
        let client = options.connect("127.0.0.1:1").await.unwrap();
        let token = SettlerToken::from_subject("abc");
        let consumer = own_consumer(&token, &jetstream::new(client)).unwrap();
        let info = consumer.cached_info();
        assert_eq!((info.stream_name.as_str(), info.name.as_str()), (AWARDS_STREAM, "settler_abc"));
    }
}
