//! The settler at work: registered, answering requests for quotes, settling awards.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_nats::jetstream::{
    self, AckKind,
    consumer::{self, PullConsumer},
    message::Acker,
};
use bytes::Bytes;
use chrono::Utc;
use ed25519_dalek::SigningKey;
use futures::StreamExt;
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use events::{Did, Hash32, PaymentId, SettlerToken, quote::auction_of};
use journal_jetstream::connection::{self, Identity};

use crate::{
    claims,
    config::{Config, Options},
    families,
    forgetful::Forgetful,
    inventory::Inventory,
    job::Job,
    message_signature::Signer,
    protocol::{
        self, AWARDS_STREAM, AuctionOver, AwardEnd, AwardMessage, AwardNotice, Bid, ChainAccounts, Corridor,
        REGISTRATION_RENEWAL, Registration, Rfq, Version, award_consumer, bid_subject, over_subjects,
        registration_subject, rfq_subjects, split_subject,
    },
    quoting::{Chains, Decline, Quoter},
    settlement::{Desk, Outcome, Settlement},
    stanza::inbox_prefix,
    trials::Trials,
    verifier,
};

/// Requests for signed payments that are answered at a time; more are dropped, and the gateway asks again.
const ANSWERING_SIGNED_MAX: usize = 64;
/// The same of requests that nobody signed, which take no place of the others.
const ANSWERING_UNSIGNED_MAX: usize = 32;
/// Auctions and awards whose end is remembered, for what was under way meanwhile.
const ENDS_MAX: usize = 4096;
/// How often an answer is tried before the settler declines or gives up, and the pause in between.
const ANSWER_ATTEMPTS: u32 = 4;
const ANSWER_PAUSE: Duration = Duration::from_millis(200);
/// Pause before awards are asked for again after a fault.
const AWARDS_PAUSE: Duration = Duration::from_secs(1);
/// How long one request for awards stands, and how often the server says meanwhile that it still does. An award has to be
/// answered in seconds, so a server that is lost with the request must be noticed at once.
const AWARDS_PULL: Duration = Duration::from_secs(5);
const AWARDS_HEARTBEAT: Duration = Duration::from_millis(1_000);
/// Awards fetched at a time.
const AWARDS_BATCH: usize = 32;
/// How often the server is told that an award is still worked on; well below the consumer's ack wait.
const PROGRESS_EVERY: Duration = Duration::from_secs(4);
/// How long a settler that ends waits to take its registration back.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often NATS is asked whether it is still there: a server that hangs leaves its connections open, and a settler that
/// waits for it hears of no auction.
const PING_EVERY: Duration = Duration::from_millis(1500);
/// How long a server may take to greet before another is tried.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Why a settler cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration breaks a rule.
    #[error("configuration: {0}")]
    Config(#[from] crate::config::Error),
    /// NATS cannot be reached.
    #[error("NATS: {0}")]
    Nats(#[from] async_nats::ConnectError),
    /// A chain cannot be used.
    #[error("{0}")]
    Chain(#[from] families::Error),
    /// The signing key is not the key of the DID in the options.
    #[error("the signing key is not the settler's")]
    Key,
    /// No HTTP client can be made.
    #[error("{0}")]
    Http(#[from] verifier::Error),
}

/// A settler.
pub struct Settler {
    agent: Arc<Agent>,
    claims: claims::Service,
}

struct Agent {
    options: Arc<Options>,
    token: SettlerToken,
    client: async_nats::Client,
    jetstream: jetstream::Context,
    chains: Chains,
    quoter: Quoter,
    desk: Arc<Desk>,
    claims: claims::Handle,
    work: Mutex<Work>,
    /// Auctions that are over; no quote is given or held for one.
    over: Mutex<Forgetful<String>>,
}

/// What is worked on.
struct Work {
    /// Payments with what ends the work on them; an award that is delivered again meanwhile is not begun twice.
    underway: HashMap<PaymentId, CancellationToken>,
    /// Payments whose award has ended: one that is delivered late is not begun.
    ended: Forgetful<PaymentId>,
}

impl Settler {
    /// Connects to NATS and the chains as the configuration says.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        let options = config.options()?;
        let key = config.signing_key()?;
        let chains = families::connect(config)?;
        let client = connect_nats(config, &key).await?;
        Self::new(options, client, key, chains)
    }

    /// A settler on a NATS client whose inbox prefix is [`inbox_prefix`] of its token, and on chains of the caller's.
    ///
    /// # Errors
    /// [`Error::Key`] and [`Error::Http`].
    pub fn new(options: Options, client: async_nats::Client, key: SigningKey, chains: Chains) -> Result<Self, Error> {
        if Did::from_ed25519(&key.verifying_key()) != options.settler {
            return Err(Error::Key);
        }
        let options = Arc::new(options);
        let token = options.settler.token();
        let inventory = Arc::new(Inventory::new(options.inventory_max.clone()));
        let trials = Arc::new(Trials::default());
        let desk = Desk {
            options: options.clone(),
            inventory: inventory.clone(),
            trials: trials.clone(),
            verifiers: verifier::Client::new(Signer::new(key.clone()))?,
            client: client.clone(),
            token: token.clone(),
        };
        let (service, claims) = claims::open(&options, chains.clone());
        let agent = Agent {
            quoter: Quoter::new(options.clone(), key, chains.clone(), inventory, trials),
            desk: Arc::new(desk),
            jetstream: jetstream::new(client.clone()),
            work: Mutex::new(Work { underway: HashMap::new(), ended: Forgetful::new(ENDS_MAX) }),
            over: Mutex::new(Forgetful::new(ENDS_MAX)),
            options,
            token,
            client,
            chains,
            claims,
        };
        Ok(Self { agent: Arc::new(agent), claims: service })
    }

    /// The settler's DID.
    pub fn did(&self) -> &Did {
        &self.agent.options.settler
    }

    /// Works until `shutdown`. Awards that are not settled by then are taken up again by the next run.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { agent, claims } = self;
        if !agent.options.deliver {
            tracing::warn!("development option: this settler will never deliver");
        }
        tracing::info!(settler = %agent.options.settler, token = %agent.token, "settler is at work");
        shutdown
            .run_until_cancelled(async {
                tokio::join!(
                    agent.clone().register(),
                    agent.clone().answer_requests(),
                    agent.hear_ends(),
                    agent.clone().settle_awards(),
                    claims.run()
                )
            })
            .await;
        agent.leave().await;
    }
}

async fn connect_nats(config: &Config, key: &SigningKey) -> Result<async_nats::Client, Error> {
    let settler = Did::from_ed25519(&key.verifying_key());
    let ca_file = config.nats.ca_file.as_deref();
    let servers = connection::servers(&config.nats.url, ca_file)
        .map_err(|error| crate::config::Error { key: "nats.url", rule: error.to_string() })?;
    let options = Identity::of(key)
        .options(ca_file)
        .name(format!("settler {settler}"))
        .custom_inbox_prefix(inbox_prefix(&settler.token()))
        .ping_interval(PING_EVERY)
        .connection_timeout(CONNECT_MAX)
        .retry_on_initial_connect()
        .event_callback(|event| async move { tracing::info!(%event, "NATS") });
    Ok(options.connect(servers).await?)
}

impl Agent {
    async fn register(self: Arc<Self>) {
        let registration: Bytes = protocol::write(&self.registration()).into();
        loop {
            if let Err(error) = self.publish(registration_subject(&self.token), registration.clone()).await {
                tracing::warn!(error, "registration was not stored, trying again");
                tokio::time::sleep(AWARDS_PAUSE).await;
                continue;
            }
            tokio::time::sleep(REGISTRATION_RENEWAL).await;
        }
    }

    fn registration(&self) -> Registration {
        let mut accounts: Vec<ChainAccounts> = self
            .chains
            .iter()
            .map(|(chain_id, chain)| ChainAccounts {
                chain_id: chain_id.clone(),
                payout_account: chain.account().to_owned(),
                delivery_account: chain.account().to_owned(),
            })
            .collect();
        accounts.sort_by(|one, other| one.chain_id.cmp(&other.chain_id));
        let corridors = self.options.corridors.keys().cloned();
        let mut corridors: Vec<Corridor> =
            corridors.map(|(source_asset, destination_asset)| Corridor { source_asset, destination_asset }).collect();
        corridors.sort();
        let mut policies: Vec<String> = self.options.policies.iter().cloned().collect();
        policies.sort();
        let credentials = self.options.credentials.clone();
        Registration {
            version: Version,
            settler: self.options.settler.clone(),
            accounts,
            corridors,
            policies,
            credentials,
        }
    }

    /// Takes the registration back, so that nobody asks a settler that is gone.
    async fn leave(&self) {
        let headers = async_nats::HeaderMap::from_iter([(
            async_nats::HeaderName::from_static("KV-Operation"),
            async_nats::HeaderValue::from("DEL"),
        )]);
        let subject = registration_subject(&self.token);
        let left = async {
            let sent = self.client.publish_with_headers(subject, headers, Bytes::new()).await.is_ok();
            sent && self.client.flush().await.is_ok()
        };
        if tokio::time::timeout(LEAVE_TIMEOUT, left).await != Ok(true) {
            tracing::debug!("registration was not taken back; it lapses by itself");
        }
    }

    async fn answer_requests(self: Arc<Self>) {
        let signed = Arc::new(Semaphore::new(ANSWERING_SIGNED_MAX));
        let unsigned = Arc::new(Semaphore::new(ANSWERING_UNSIGNED_MAX));
        let mut answers = JoinSet::new();
        loop {
            let mut requests = match self.client.subscribe(rfq_subjects(&self.token)).await {
                Ok(requests) => requests,
                Err(error) => {
                    tracing::warn!(%error, "cannot subscribe to requests for quotes, trying again");
                    tokio::time::sleep(AWARDS_PAUSE).await;
                    continue;
                }
            };
            while let Some(message) = requests.next().await {
                while answers.try_join_next().is_some() {}
                let Some(rfq) = request(&message) else { continue };
                let lane = if rfq.payment_id.is_some() { &signed } else { &unsigned };
                let Ok(permit) = lane.clone().try_acquire_owned() else {
                    tracing::warn!("too many requests for quotes at a time; one was dropped");
                    continue;
                };
                let (agent, fingerprint) = (self.clone(), Hash32::sha256(&message.payload));
                answers.spawn(async move {
                    agent.answer(&rfq, fingerprint).await;
                    drop(permit);
                });
            }
        }
    }

    async fn answer(&self, rfq: &Rfq, fingerprint: Hash32) {
        let bid = self.bid(rfq, fingerprint).await;
        if self.is_over(&rfq.auction_id) {
            self.desk.inventory.lose(&rfq.auction_id);
            return;
        }
        match (&bid.decline, &bid.quote) {
            (Some(reason), _) => tracing::info!(auction_id = rfq.auction_id, reason, "declined"),
            _ => tracing::info!(auction_id = rfq.auction_id, "quoted"),
        }
        let payload: Bytes = protocol::write(&bid).into();
        for attempt in 1..=ANSWER_ATTEMPTS {
            match self.publish(bid_subject(&self.token, &rfq.auction_id), payload.clone()).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(auction_id = rfq.auction_id, attempt, error, "bid was not stored"),
            }
            tokio::time::sleep(ANSWER_PAUSE).await;
        }
    }

    async fn bid(&self, rfq: &Rfq, fingerprint: Hash32) -> Bid {
        for _ in 0..ANSWER_ATTEMPTS {
            match self.quoter.answer(rfq, fingerprint, Utc::now()).await {
                Ok(bid) => return bid,
                Err(error) => tracing::warn!(auction_id = rfq.auction_id, %error, "cannot price at the moment"),
            }
            tokio::time::sleep(ANSWER_PAUSE).await;
        }
        Bid::decline(Decline::TemporarilyUnavailable.code())
    }

    /// Hears that auctions are over which this settler did not win.
    async fn hear_ends(&self) {
        loop {
            match self.client.subscribe(over_subjects(&self.token)).await {
                Ok(mut ends) => {
                    while let Some(message) = ends.next().await {
                        let Ok(over) = protocol::read::<AuctionOver>(&message.payload) else { continue };
                        if split_subject(&message.subject, "over").is_some_and(|(_, id)| id == over.auction_id) {
                            tracing::debug!(auction_id = over.auction_id, "auction is over");
                            self.overs().remember(over.auction_id.clone());
                            self.desk.inventory.lose(&over.auction_id);
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot listen to the ends of auctions, trying again"),
            }
            tokio::time::sleep(AWARDS_PAUSE).await;
        }
    }

    fn is_over(&self, auction_id: &str) -> bool {
        self.overs().remembers(&auction_id.to_owned())
    }

    fn overs(&self) -> MutexGuard<'_, Forgetful<String>> {
        // Inserting cannot panic half way.
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes and waits until the message is stored.
    async fn publish(&self, subject: String, payload: Bytes) -> Result<(), String> {
        let stored = self.jetstream.publish(subject, payload).await.map_err(|error| error.to_string())?;
        stored.await.map(drop).map_err(|error| error.to_string())
    }

    async fn settle_awards(self: Arc<Self>) {
        let mut settlements = JoinSet::new();
        loop {
            if let Err(error) = self.take_awards(&mut settlements).await {
                // A settler that has just registered for the first time has no consumer yet.
                tracing::debug!(error, "no awards to be had, trying again");
            }
            tokio::time::sleep(AWARDS_PAUSE).await;
        }
    }

    async fn take_awards(self: &Arc<Self>, settlements: &mut JoinSet<()>) -> Result<(), String> {
        let consumer = own_consumer(&self.token, &self.jetstream).map_err(|error| error.to_string())?;
        let mut awards = consumer
            .stream()
            .max_messages_per_batch(AWARDS_BATCH)
            .expires(AWARDS_PULL)
            .heartbeat(AWARDS_HEARTBEAT)
            .messages()
            .await
            .map_err(|error| error.to_string())?;
        while let Some(message) = awards.next().await {
            while settlements.try_join_next().is_some() {}
            let message = message.map_err(|error| error.to_string())?;
            // What cannot be told counts as given before.
            let is_again = message.info().map_or(true, |info| info.delivered > 1);
            let (message, acker) = message.split();
            match AwardMessage::read(&message.payload) {
                Ok(AwardMessage::Award(notice)) => {
                    settlements.spawn(self.clone().settle(*notice, is_again, acker));
                }
                Ok(AwardMessage::End(end)) => {
                    self.end(end);
                    settlements.spawn(async move { acknowledge(&acker, AckKind::Ack).await });
                }
                Err(error) => {
                    tracing::error!(%error, "award is unusable");
                    settlements.spawn(async move { acknowledge(&acker, AckKind::Term).await });
                }
            }
        }
        Ok(())
    }

    /// Lets go of an award that is over. What is in escrow is worked on all the same.
    fn end(&self, end: AwardEnd) {
        tracing::info!(payment_id = %end.payment_id, reason = end.ended, "award is over");
        let underway = {
            let mut work = self.work();
            work.ended.remember(end.payment_id.clone());
            work.underway.get(&end.payment_id).cloned()
        };
        match underway {
            Some(over) => over.cancel(),
            // Of a quote out of a batch nothing is held before its award.
            None => self.desk.inventory.lose(&auction_of(&end.payment_id)),
        }
    }

    async fn settle(self: Arc<Self>, notice: AwardNotice, is_again: bool, acker: Acker) {
        let (payment_id, quote_hash) = (notice.payment_id.clone(), notice.quote_hash);
        let (paid_in, escrow) = (notice.terms.source.asset().clone(), notice.escrow.contract.clone());
        let accepted = Job::accept(notice, &self.options).map_err(|rejected| rejected.to_string());
        let settlement = match accepted.and_then(|job| self.settlement(job, is_again)) {
            Ok(settlement) => settlement,
            Err(reason) => {
                tracing::error!(%payment_id, reason, "award is not this settler's to settle");
                self.desk.refuse(&payment_id, quote_hash).await;
                acknowledge(&acker, AckKind::Term).await;
                return;
            }
        };
        let working = match Working::begin(&self, &payment_id) {
            Begun::Work(working) => working,
            Begun::Underway => return,
            Begun::Ended => return acknowledge(&acker, AckKind::Ack).await,
        };
        tracing::info!(%payment_id, "award");
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
        if outcome == Outcome::Released {
            // The escrow says the same whether the payout went through or became a claim.
            self.claims.released(&paid_in, &escrow);
        }
        acknowledge(&acker, AckKind::Ack).await;
    }

    fn settlement(&self, job: Job, is_again: bool) -> Result<Settlement, String> {
        let quote = job.quote.quote();
        let (source_id, destination_id) = (&quote.source_chain, quote.destination.asset().chain());
        let chain = |id| self.chains.get(id).cloned().ok_or_else(|| format!("{id} is none of this settler's chains"));
        let (source, destination) = (chain(source_id)?, chain(destination_id)?);
        Ok(Settlement::new(self.desk.clone(), job, source, destination, is_again))
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        // Inserting cannot panic half way.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request for quotes that can be used.
fn request(message: &async_nats::Message) -> Option<Rfq> {
    let rfq: Rfq = match protocol::read(&message.payload) {
        Ok(rfq) => rfq,
        Err(error) => {
            tracing::warn!(subject = %message.subject, %error, "request for quotes is unusable");
            return None;
        }
    };
    if split_subject(&message.subject, "rfq").is_none_or(|(_, auction_id)| auction_id != rfq.auction_id) {
        tracing::warn!(subject = %message.subject, "request for quotes came under another auction's subject");
        return None;
    }
    Some(rfq)
}

/// The settler's consumer of awards, as far as asking it for messages needs. A settler may not ask what it is: such questions are
/// answered by what answers the gateway's, and a flood of them keeps it waiting.
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

/// An acknowledgement that is lost is made good by the next delivery of the same award.
async fn acknowledge(acker: &Acker, kind: AckKind) {
    if let Err(error) = acker.ack_with(kind).await {
        tracing::debug!(%error, "acknowledgement was not sent");
    }
}

/// Marks a payment as worked on for as long as it lives.
struct Working<'a> {
    agent: &'a Agent,
    payment_id: PaymentId,
    over: CancellationToken,
}

/// What comes of an award that is delivered.
enum Begun<'a> {
    /// It is worked on from here.
    Work(Working<'a>),
    /// It is worked on already.
    Underway,
    /// It has ended.
    Ended,
}

impl<'a> Working<'a> {
    fn begin(agent: &'a Agent, payment_id: &PaymentId) -> Begun<'a> {
        let mut work = agent.work();
        if work.ended.remembers(payment_id) {
            return Begun::Ended;
        }
        if work.underway.contains_key(payment_id) {
            return Begun::Underway;
        }
        let over = CancellationToken::new();
        work.underway.insert(payment_id.clone(), over.clone());
        Begun::Work(Self { agent, payment_id: payment_id.clone(), over })
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.agent.work().underway.remove(&self.payment_id);
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
