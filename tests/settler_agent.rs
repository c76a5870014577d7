//! The settler agent over a real nats-server, with a chain that does as the test says.

mod reassignment;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use async_nats::jetstream::{self, consumer::PullConsumer};
use async_trait::async_trait;
use axum::{Router, body::Bytes, extract::State, routing::post};
use futures::StreamExt;
use ruint::aliases::U256;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use auction::{self, NatsAuction};
use chains::{
    escrow::EscrowRecord,
    perform::PerformError,
    settler::{DeliveryChain, ReservationOrder, ReservationState},
};
use devkit::NatsServer;
use events::{
    Account, AssetId, ChainId, Hash32, PaymentId, VerifierMember, VerifierSet,
    event::{EscrowPlan, Inclusion, VerifierRef},
    quote::SignedQuote,
};
use identity::SettlerPolicies;
use protocol::{
    AWARDS_STREAM, AttestationRequest, AwardDecision, DELIVERY_ATTESTATION_PATH, answer_subjects, award_consumer,
    award_subject,
};
use sagas::ports::{
    Answer, Auction, Award, AwardAnswer, DeliveryOrder, DeliveryState, RequestForQuotes, Statement, Transient,
    VerificationCase,
};
use settler::{Config, Settler, chain_registry::Chains, trials::Trial};

use crate::nats_roles::{
    ACCOUNT, DESTINATION, PATIENCE, RELEASER, Role, SOURCE, connect, did, headerless, payment_of, request, server,
    token, until,
};

const ATTESTATION: &str = "0xa77e57";
/// How long an auction waits for a settler to be there.
const SETTLER_START_MAX: Duration = Duration::from_secs(10);

/// Both chains in one.
pub struct World {
    escrow: Mutex<ReservationState>,
    delivery: Mutex<DeliveryState>,
    deliveries: AtomicU32,
    releases: AtomicU32,
    /// What a delivery that is tried out comes to.
    pub trial: Mutex<Trial>,
    pub trials: AtomicU32,
    pub balances: AtomicU32,
    /// Every call up to this number fails, counted over all calls.
    faults: AtomicU32,
    /// How often it was looked for a delivery.
    looks: AtomicU32,
    /// The last reservation that was looked for, and the last delivery that was made.
    looked_for: Mutex<Option<ReservationOrder>>,
    delivered: Mutex<Option<DeliveryOrder>>,
    /// What the escrow takes for the word of its releaser.
    word: Mutex<String>,
    account: Account,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            escrow: Mutex::new(ReservationState::Open),
            delivery: Mutex::new(DeliveryState::NotSeen),
            deliveries: AtomicU32::new(0),
            releases: AtomicU32::new(0),
            trial: Mutex::new(Trial::Delivers),
            trials: AtomicU32::new(0),
            balances: AtomicU32::new(0),
            faults: AtomicU32::new(0),
            looks: AtomicU32::new(0),
            looked_for: Mutex::new(None),
            delivered: Mutex::new(None),
            word: Mutex::new(ATTESTATION.to_owned()),
            account: ACCOUNT.parse().unwrap(),
        })
    }

    pub fn set_escrow(&self, state: ReservationState) {
        *self.escrow.lock().unwrap() = state;
    }

    pub fn set_delivery(&self, state: DeliveryState) {
        *self.delivery.lock().unwrap() = state;
    }

    pub fn deliver_finally(&self) {
        self.set_delivery(DeliveryState::Final(inclusion()));
    }

    pub fn deliveries(&self) -> u32 {
        self.deliveries.load(Ordering::SeqCst)
    }

    pub fn releases(&self) -> u32 {
        self.releases.load(Ordering::SeqCst)
    }

    fn fault(&self) -> Result<(), Transient> {
        let left = self.faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() { Err(Transient::unreachable("the node is away")) } else { Ok(()) }
    }
}

fn inclusion() -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(10),
        transaction_hash: format!("0x{}", "de".repeat(32)),
        block_number: 7,
        block_hash: format!("0x{}", "b0".repeat(32)),
        block_time: 0,
    }
}

#[async_trait]
impl DeliveryChain for World {
    fn account(&self) -> &Account {
        &self.account
    }

    async fn balance(&self, _: &AssetId) -> Result<U256, Transient> {
        self.fault()?;
        self.balances.fetch_add(1, Ordering::SeqCst);
        Ok(U256::from(1_000_000))
    }

    async fn reservation(&self, _: &PaymentId, _: &Account) -> Result<(u64, Option<EscrowRecord>), Transient> {
        unreachable!("the test says where the reservation stands")
    }

    async fn reservation_state(&self, order: &ReservationOrder) -> Result<ReservationState, Transient> {
        self.fault()?;
        *self.looked_for.lock().unwrap() = Some(order.clone());
        Ok(self.escrow.lock().unwrap().clone())
    }

    async fn delivery_state(&self, _: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.fault()?;
        self.looks.fetch_add(1, Ordering::SeqCst);
        Ok(self.delivery.lock().unwrap().clone())
    }

    async fn try_delivery(&self, _: &DeliveryOrder) -> Result<(), PerformError> {
        self.trials.fetch_add(1, Ordering::SeqCst);
        match self.trial.lock().unwrap().clone() {
            Trial::Delivers => Ok(()),
            Trial::Refused { reason } => Err(PerformError::TooLate(reason)),
        }
    }

    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, PerformError> {
        self.fault()?;
        *self.delivered.lock().unwrap() = Some(order.clone());
        self.deliveries.fetch_add(1, Ordering::SeqCst);
        self.set_delivery(DeliveryState::Seen(inclusion()));
        Ok(inclusion().transaction_hash)
    }

    fn signed_by(&self, _: &Statement, _: &EscrowPlan, member: &Account, signature: &str) -> bool {
        signature == signature_of(member)
    }

    async fn release(&self, _: &PaymentId, _: &EscrowPlan, attestation: &str) -> Result<String, PerformError> {
        self.fault()?;
        assert_eq!(attestation, *self.word.lock().unwrap());
        self.releases.fetch_add(1, Ordering::SeqCst);
        self.set_escrow(ReservationState::Released);
        Ok(inclusion().transaction_hash)
    }

    async fn next_block(&self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a member of a set signs: its own name, as long as a signature.
fn signature_of(member: &Account) -> String {
    format!("0x{}{}", "00".repeat(45), member.as_str().trim_start_matches("0x"))
}

/// A verifier that is asked twice before it attests.
async fn verifier() -> Result<(String, AbortOnDropHandle<()>)> {
    async fn attest(State(asked): State<Arc<AtomicU32>>, body: Bytes) -> String {
        let _: AttestationRequest = protocol::read(&body).unwrap();
        let answer = match asked.fetch_add(1, Ordering::SeqCst) {
            0 => json!({"version": "1.0", "status": "pending", "reason": "not deep enough"}),
            1 => json!({"version": "1.0", "status": "attested"}),
            _ => json!({"version": "1.0", "status": "attested", "signature": ATTESTATION}),
        };
        answer.to_string()
    }
    serving(Router::new().route(DELIVERY_ATTESTATION_PATH, post(attest)).with_state(Arc::new(AtomicU32::new(0)))).await
}

/// A member of a set that gives this signature, or never answers without one.
async fn member(signature: Option<String>) -> Result<(String, AbortOnDropHandle<()>)> {
    let attest = move |body: Bytes| {
        let signature = signature.clone();
        async move {
            let request: AttestationRequest = protocol::read(&body).unwrap();
            assert!(request.verifier_set.is_some());
            match signature {
                Some(signature) => json!({"version": "1.0", "status": "attested", "signature": signature}).to_string(),
                None => std::future::pending().await,
            }
        }
    };
    serving(Router::new().route(DELIVERY_ATTESTATION_PATH, post(attest))).await
}

async fn serving(routes: Router) -> Result<(String, AbortOnDropHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let task = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    Ok((endpoint, AbortOnDropHandle::new(task)))
}

/// A gateway's part in auctions, a settler and a verifier.
pub struct Environment {
    pub server: NatsServer,
    pub auction: NatsAuction,
    hints: mpsc::Receiver<PaymentId>,
    /// Those that the settler trusts, as its configuration has them.
    verifiers: Value,
    pub world: Arc<World>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Environment {
    pub async fn start() -> Result<Self> {
        Self::with(auction::Options::default()).await
    }

    pub async fn with(options: auction::Options) -> Result<Self> {
        // The settler of a test is only just starting.
        let options = auction::Options { grace: SETTLER_START_MAX, ..options };
        let server = server().await?;
        let (client, heard) = tokio::try_join!(connect(&server, Role::Gateway), headerless(&server, Role::Gateway))?;
        let (auction, service, hints) = auction::open(client, heard, options, SettlerPolicies::default(), None).await?;
        let service = AbortOnDropHandle::new(tokio::spawn(service.run(CancellationToken::new())));
        let (endpoint, verifier) = verifier().await?;
        let verifiers = json!([{"chain_id": "eip155:1", "account": RELEASER, "endpoint": endpoint}]);
        Ok(Self { server, auction, hints, verifiers, world: World::new(), _tasks: [service, verifier] })
    }

    /// The demo's first settler, until it is dropped, as by `kill -9`.
    pub async fn settler(&self, deliver: bool) -> Result<AbortOnDropHandle<()>> {
        let chain = |id: u64, asset: &str| {
            json!({
                "chain_id": format!("eip155:{id}"), "rpc_url": "http://127.0.0.1:1", "escrow_contract": ACCOUNT,
                "fulfillment_proxy": ACCOUNT, "reserver": ACCOUNT, "releaser": RELEASER, "required_depth": 1,
                "refund_delay_seconds": 60,
                "assets": [{"asset_identifier": asset, "symbol": "USD", "decimals": 6}],
            })
        };
        let config: Config = serde_json::from_value(json!({
            "nats": {"url": self.server.url()},
            "seed": hex::encode(settler::dev::SEEDS[0]),
            "evm_private_key": "11".repeat(32),
            "chains": [chain(1, SOURCE), chain(10, DESTINATION)],
            "verifiers": self.verifiers,
            "corridors": [{"source_asset": SOURCE, "destination_asset": DESTINATION, "spread_bps": 10}],
            "deliver": deliver,
        }))?;
        let chains: Chains =
            HashMap::from([1, 10].map(|id| (ChainId::evm(id), self.world.clone() as Arc<dyn DeliveryChain>)));
        let client = connect(&self.server, Role::Settler(1)).await?;
        let settler = Settler::new(config.options()?, client, config.signing_key()?, chains)?;
        assert_eq!(*settler.did(), did(1));
        Ok(AbortOnDropHandle::new(tokio::spawn(settler.run(CancellationToken::new()))))
    }

    /// Auctions a payment; the settler's quote.
    pub async fn quoted(&self, request: &RequestForQuotes) -> Result<SignedQuote> {
        let gathered = tokio::time::timeout(PATIENCE, self.auction.gather(request)).await??;
        let [bid] = &gathered.bids[..] else { anyhow::bail!("not one bid: {gathered:?}") };
        let Answer::Quote(document) = &bid.answer else { anyhow::bail!("no quote: {bid:?}") };
        Ok(SignedQuote::parse(document)?)
    }

    /// Awards a quote, and waits for the settler's answer.
    pub async fn award(&self, request: &RequestForQuotes, quote: &SignedQuote) -> Result<AwardAnswer> {
        let award = self.store(request, quote).await?;
        Ok(self.auction.answer(&award).await?)
    }

    /// Stores an award.
    pub async fn store(&self, request: &RequestForQuotes, quote: &SignedQuote) -> Result<Award> {
        let case = VerificationCase {
            payment_id: paid_by(request),
            terms: request.terms.clone(),
            escrow: request.escrow.clone(),
            verifier_set: None,
            quote_document: quote.document().to_owned(),
            payloads: Vec::new(),
        };
        // The endpoint came from a payer; the settler asks the one it is configured with.
        let verifier = VerifierRef::single(request.escrow.releaser.clone(), "http://127.0.0.1:1");
        let award = Award {
            settler: did(1),
            case,
            quote_hash: quote.hash(),
            verifier,
            replaceable_until: None,
            escrowed: request.escrowed,
        };
        self.auction.award(&award).await?;
        Ok(award)
    }

    /// Awards that the settler has been given and not acknowledged, and awards it was not given yet.
    pub async fn open_awards(&self) -> Result<(usize, u64)> {
        let jetstream = jetstream::new(connect(&self.server, Role::Gateway).await?);
        let consumer: PullConsumer =
            jetstream.get_consumer_from_stream(award_consumer(&token(1)), AWARDS_STREAM).await?;
        Ok((consumer.cached_info().num_ack_pending, consumer.cached_info().num_pending))
    }

    pub async fn until_awards_are(&self, what: &str, open: (usize, u64)) -> Result<()> {
        until(what, || async { self.open_awards().await.is_ok_and(|awards| awards == open) }).await
    }
}

/// The payment that comes of a request, out of a batch too.
pub fn paid_by(request: &RequestForQuotes) -> PaymentId {
    request.payment_id.clone().unwrap_or_else(|| PaymentId::derive("award of", &request.auction_id))
}

#[tokio::test]
async fn a_payment_is_quoted_delivered_once_and_collected_through_faults() -> Result<()> {
    let mut environment = Environment::start().await?;
    environment.world.faults.store(2, Ordering::SeqCst);
    let _settler = environment.settler(true).await?;
    let request = request(Duration::from_secs(600));
    let quote = environment.quoted(&request).await?;
    assert_eq!(quote.quote().source_amount.to_string(), "1001000");
    environment.award(&request, &quote).await?;
    environment.until_awards_are("the award is taken", (1, 0)).await?;
    assert_eq!(environment.world.deliveries(), 0, "nothing is in escrow");

    environment.world.faults.store(3, Ordering::SeqCst);
    environment.world.set_escrow(ReservationState::Reserved);
    let hint = tokio::time::timeout(PATIENCE, environment.hints.recv()).await?;
    assert_eq!(hint.as_ref(), Some(&payment_of(&request)));
    assert_eq!((environment.world.deliveries(), environment.world.releases()), (1, 0), "the delivery is not final");

    environment.world.faults.store(2, Ordering::SeqCst);
    environment.world.set_delivery(DeliveryState::Final(inclusion()));
    environment.until_awards_are("the award is settled", (0, 0)).await?;
    assert_eq!((environment.world.deliveries(), environment.world.releases()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn two_verifiers_of_a_set_release_beside_one_that_is_silent_and_one_that_lies() -> Result<()> {
    let accounts = [1, 2, 3, 4].map(|n| format!("0x{n:040x}").parse::<Account>().unwrap());
    let own = |number: usize| Some(signature_of(&accounts[number]));
    let (mut members, mut tasks) = (Vec::new(), Vec::new());
    for (account, signature) in accounts.iter().zip([None, own(0), own(2), own(3)]) {
        let (endpoint, task) = member(signature).await?;
        members.push(VerifierMember { account: account.clone(), endpoint });
        tasks.push(task);
    }
    let set = VerifierSet::new(2, members)?;
    let signed = [2, 3].map(|number| (&accounts[number], signature_of(&accounts[number])));
    let word = set.attestation(signed.iter().map(|(member, signature)| (*member, signature.as_str())));

    let mut environment = Environment::start().await?;
    let id = set.id().context("an id")?;
    environment.verifiers = json!([{"chain_id": "eip155:1", "account": id, "threshold": 2, "members": set.members()}]);
    *environment.world.word.lock().unwrap() = word.context("a word")?;
    let _settler = environment.settler(true).await?;
    let mut request = request(Duration::from_secs(600));
    request.escrow.releaser = id;
    let quote = environment.quoted(&request).await?;
    environment.award(&request, &quote).await?;
    environment.world.set_escrow(ReservationState::Reserved);
    until("it has delivered", || async { environment.world.deliveries() == 1 }).await?;
    environment.world.deliver_finally();
    environment.until_awards_are("the award is settled", (0, 0)).await?;
    assert_eq!(environment.world.releases(), 1);
    Ok(())
}

#[tokio::test]
async fn a_settler_that_was_killed_goes_on_without_delivering_twice() -> Result<()> {
    let environment = Environment::start().await?;
    environment.world.set_escrow(ReservationState::Reserved);
    let settler = environment.settler(true).await?;
    let request = request(Duration::from_secs(600));
    let quote = environment.quoted(&request).await?;
    environment.award(&request, &quote).await?;
    until("it has delivered", || async { environment.world.deliveries() == 1 }).await?;
    drop(settler);

    let again = environment.settler(true).await?;
    environment.world.set_delivery(DeliveryState::Final(inclusion()));
    environment.until_awards_are("the award is settled", (0, 0)).await?;
    assert_eq!((environment.world.deliveries(), environment.world.releases()), (1, 1));
    drop(again);
    Ok(())
}

#[tokio::test]
async fn a_settler_that_was_away_finds_its_award() -> Result<()> {
    let environment = Environment::start().await?;
    let settler = environment.settler(true).await?;
    let request = request(Duration::from_secs(600));
    let quote = environment.quoted(&request).await?;
    drop(settler);
    let award = environment.store(&request, &quote).await?;
    let answer = tokio::spawn({
        let auction = environment.auction.clone();
        async move { auction.answer(&award).await }
    });
    let _settler = environment.settler(true).await?;
    assert_eq!(tokio::time::timeout(PATIENCE, answer).await???, AwardAnswer::Accepted);
    environment.world.set_escrow(ReservationState::Reserved);
    until("it has delivered", || async { environment.world.deliveries() == 1 }).await
}

#[tokio::test]
async fn awards_that_end_otherwise_are_let_go_without_a_delivery() -> Result<()> {
    let different = ReservationState::Different { reason: "token".to_owned() };
    for end in [ReservationState::Lapsed, ReservationState::Refunded, different] {
        let environment = Environment::start().await?;
        let _settler = environment.settler(true).await?;
        let request = request(Duration::from_secs(600));
        let quote = environment.quoted(&request).await?;
        environment.award(&request, &quote).await?;
        environment.until_awards_are("the award is taken", (1, 0)).await?;
        environment.world.set_escrow(end.clone());
        environment.until_awards_are("the award is let go", (0, 0)).await?;
        assert_eq!((environment.world.deliveries(), environment.world.releases()), (0, 0), "{end:?}");
        // The tokens are free again: this needs all of them.
        environment.quoted(&self::request(Duration::from_secs(600))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_award_of_anothers_quote_is_refused() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    environment.world.set_escrow(ReservationState::Reserved);
    let (mine, other) = (request(Duration::from_secs(600)), request(Duration::from_secs(600)));
    let quote = environment.quoted(&mine).await?;
    let mut foreign = quote.quote().clone();
    foreign.settler = did(2);
    let key = settler::dev::key(2).unwrap();
    let invalid = AwardAnswer::Refused("AWARD_INVALID".to_owned());
    assert_eq!(environment.award(&mine, &foreign.sign(&key, chrono::Utc::now())?).await?, invalid);
    // And its own quote under terms that were not quoted.
    let mut altered = other.clone();
    altered.terms.max_source_amount = None;
    assert_eq!(environment.award(&altered, &quote).await?, invalid);
    environment.until_awards_are("both are refused", (0, 0)).await?;
    assert_eq!(environment.world.deliveries(), 0);
    Ok(())
}

#[tokio::test]
async fn an_award_that_cannot_be_read_is_refused_at_once() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    // Whoever has quoted is there for awards.
    environment.quoted(&request(Duration::from_secs(600))).await?;
    let gateway = connect(&environment.server, Role::Gateway).await?;
    let mut answers = gateway.subscribe(answer_subjects(&token(1))).await?;
    gateway.flush().await?;
    let (payment_id, quote_hash) = (PaymentId::derive("payer", "unreadable"), Hash32([7; 32]));
    let unreadable = [
        // Nothing says what is refused; it is not kept all the same.
        json!({"version": "1.0", "escrow": {"contract": "nobody's"}}),
        json!({
            "version": "1.0", "payment_id": payment_id, "quote_hash": quote_hash, "escrow": {"contract": "nobody's"},
        }),
    ];
    for award in unreadable {
        let subject = award_subject(&token(1), &PaymentId::derive("payer", &award.to_string()));
        jetstream::new(gateway.clone()).publish(subject, award.to_string().into()).await?.await?;
    }
    let message = tokio::time::timeout(PATIENCE, answers.next()).await?.context("an answer")?;
    let answer: protocol::AwardAnswer = protocol::read(&message.payload)?;
    assert_eq!((&answer.payment_id, answer.quote_hash, answer.word), (&payment_id, quote_hash, AwardDecision::Refuse));
    assert_eq!(answer.reason.as_deref(), Some("AWARD_INVALID"));
    environment.until_awards_are("neither is kept", (0, 0)).await
}

#[tokio::test]
async fn the_faulty_settler_wins_and_never_delivers() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(false).await?;
    environment.world.set_escrow(ReservationState::Reserved);
    let request = request(Duration::from_secs(600));
    let quote = environment.quoted(&request).await?;
    environment.award(&request, &quote).await?;
    environment.until_awards_are("the award is taken", (1, 0)).await?;
    environment.world.set_delivery(DeliveryState::Impossible);
    environment.until_awards_are("the award is over", (0, 0)).await?;
    assert_eq!(environment.world.deliveries(), 0);
    Ok(())
}
