//! The settler of examples/settler, in another language and with nothing of this workspace's: it wins auctions, delivers and
//! is paid, and what it says is what the published schemas say.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use async_nats::jetstream::{self, consumer::PullConsumer};
use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use futures::StreamExt;
use jsonschema::Validator;
use serde_json::{Value, json};
use tokio::{net::TcpListener, process::Command, sync::Mutex};
use tokio_util::task::AbortOnDropHandle;

use devkit::{Process, tools};
use devnet::{payer::PaymentSpec, users::NatsUser};
use events::{Did, Hash32, PaymentId};
use protocol::{
    AWARDS_STREAM, AttestationRequest, AwardAnswer, AwardDecision, DELIVERY_ATTESTATION_PATH, answer_subjects,
    award_consumer, award_subject, message_signature::Signer,
};
use protocol_documents::MESSAGES;

use crate::support::*;

/// The demo's settler in whose place the example stands: it has its keys, its account in nats.conf and its tokens.
const NUMBER: u8 = 1;

/// A network in which the example stands in for the demo's first settler.
struct Environment {
    world: World,
    client: async_nats::Client,
    /// The configuration of the settler it replaces.
    config: PathBuf,
    starts: usize,
}

impl Environment {
    async fn start() -> Result<Self> {
        let mut world = World::start(1).await?;
        world.network.kill_settler(NUMBER).await?;
        let client = world.network.nats.connect(NatsUser::Gateway).await?;
        let config = world.network.options().directory.join(format!("settler-{NUMBER}.toml"));
        Ok(Self { world, client, config, starts: 0 })
    }

    /// Has it ask the verifier through one that remembers what it was asked.
    async fn overhear(&mut self) -> Result<Overheard> {
        let overheard = Overheard::before(self.world.network.verifier_endpoint(1)).await?;
        let mut config: Value = toml::from_str(&std::fs::read_to_string(&self.config)?)?;
        let verifiers = config["verifiers"].as_array_mut().context("verifiers")?;
        verifiers.iter_mut().for_each(|verifier| verifier["endpoint"] = overheard.url.as_str().into());
        self.config.set_file_name(format!("settler-{NUMBER}-overheard.toml"));
        std::fs::write(&self.config, toml::to_string(&config)?)?;
        Ok(overheard)
    }

    /// Starts the example on the configuration of the settler it replaces, and waits until it hears requests.
    async fn start_settler(&mut self) -> Result<Process> {
        self.starts += 1;
        let directory = self.world.network.options().directory.clone();
        let name = format!("python-settler-{}", self.starts);
        let log = directory.join(format!("{name}.log"));
        let process = Process::spawn(&name, &mut self.command(), &log)?;
        eventually(|| said(&log, "at work as")).await.with_context(|| format!("{name} does not start"))?;
        Ok(process)
    }

    /// The example on the configuration of the settler it replaces.
    fn command(&self) -> Command {
        let mut command = Command::new("python3");
        command
            .arg(tools::root().join("examples/settler/settler.py"))
            .arg(&self.config)
            .env("PYTHONPATH", tools::root().join(".tools/settler"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// A payment that nobody else may win.
    fn spec(&self, request_id: &str) -> Result<PaymentSpec> {
        Ok(PaymentSpec { whitelist: vec![did()?], ..self.world.spec(request_id)? })
    }

    /// Waits until the settler has acknowledged every award.
    async fn acknowledged(&self) -> Result<()> {
        let context = jetstream::new(self.client.clone());
        let name = award_consumer(&did()?.token());
        let nothing_open = || async {
            let consumer: Result<PullConsumer, _> = context.get_consumer_from_stream(&name, AWARDS_STREAM).await;
            consumer.is_ok_and(|consumer| {
                let info = consumer.cached_info();
                info.num_ack_pending == 0 && info.num_pending == 0
            })
        };
        eventually(nothing_open).await.context("an award was not acknowledged")
    }
}

/// A verifier that asks the real one as the settler does, and remembers what it was asked.
struct Overheard {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    _serving: AbortOnDropHandle<()>,
}

/// Who asks, whom, and what it was asked.
type Repeater = (settler::verifier::Client, String, Arc<Mutex<Vec<String>>>);

impl Overheard {
    async fn before(verifier: String) -> Result<Self> {
        let (asked, client) = (Arc::default(), settler::verifier::Client::new(Signer::new(key()?))?);
        let state: Repeater = (client, verifier, Arc::clone(&asked));
        let router = Router::new().route(DELIVERY_ATTESTATION_PATH, post(repeat)).with_state(state);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, asked, _serving: AbortOnDropHandle::new(serving) })
    }
}

async fn repeat(State((client, verifier, asked)): State<Repeater>, body: Bytes) -> Result<Vec<u8>, StatusCode> {
    asked.lock().await.push(String::from_utf8_lossy(&body).into_owned());
    let request: AttestationRequest = protocol::read(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let answer = client.attest_delivery(&verifier, &request).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(protocol::write(&answer))
}

fn key() -> Result<ed25519_dalek::SigningKey> {
    settler::dev::key(usize::from(NUMBER)).context("the network has three settlers")
}

fn did() -> Result<Did> {
    Ok(Did::from_ed25519(&key()?.verifying_key()))
}

async fn said(log: &Path, text: &str) -> bool {
    tokio::fs::read_to_string(log).await.is_ok_and(|found| found.contains(text))
}

/// The schema of what travels under a subject.
fn schema_of(subject: &str) -> Option<&'static str> {
    let kinds = [
        ("auction.rfq.", "RequestForQuotes"),
        ("auction.bid.", "Bid"),
        ("auction.award.", "Award"),
        ("auction.answer.", "AwardAnswer"),
        ("auction.over.", "AuctionOver"),
        ("auction.report.", "Report"),
        ("$KV.settlers.", "Registration"),
    ];
    kinds.into_iter().find(|(prefix, _)| subject.starts_with(prefix)).map(|(_, name)| name)
}

/// Everything the gateway's account hears of the protocol, judged by the schemas: how often each message came, and what was
/// wrong with it.
#[derive(Default)]
struct Heard {
    counts: BTreeMap<&'static str, usize>,
    faults: Vec<String>,
}

async fn listen(client: &async_nats::Client) -> Result<(Arc<Mutex<Heard>>, AbortOnDropHandle<()>)> {
    let mut validators = BTreeMap::<&str, Validator>::new();
    for message in MESSAGES {
        validators.insert(message.name, jsonschema::draft202012::new(&message.schema())?);
    }
    let mut messages =
        futures::stream::select(client.subscribe("auction.>").await?, client.subscribe("$KV.settlers.>").await?);
    client.flush().await?;
    let heard = Arc::new(Mutex::new(Heard::default()));
    let judged = heard.clone();
    let task = tokio::spawn(async move {
        while let Some(message) = messages.next().await {
            let mut heard = judged.lock().await;
            let subject = message.subject.as_str();
            // Nobody but gateways reads who was asked and what stands; a registration that is taken back is empty.
            let own = ["auction.asked.", "auction.answered."].iter().any(|own| subject.starts_with(own));
            if own || (message.payload.is_empty() && subject.starts_with("$KV.")) {
                continue;
            }
            let validator = schema_of(subject).and_then(|name| Some((name, validators.get(name)?)));
            let (Some((name, validator)), Ok(value)) = (validator, serde_json::from_slice::<Value>(&message.payload))
            else {
                heard.faults.push(format!("{subject}: {:?}", message.payload));
                continue;
            };
            let (name, validator) = match validators.get("AwardEnd") {
                Some(ends) if name == "Award" && value.get("ended").is_some() => ("AwardEnd", ends),
                _ => (name, validator),
            };
            *heard.counts.entry(name).or_default() += 1;
            heard.faults.extend(validator.iter_errors(&value).map(|error| format!("{subject}: {error}")));
        }
    });
    Ok((heard, AbortOnDropHandle::new(task)))
}

/// What a payer says of its message, with what is easily lost on the way.
const PAYLOAD: &str = r#"{"order":12345678901234567890123,"rate":1.50,"note":"\u00fc \" x","more":[{},null]}"#;

/// Submits a payment whose signed message has a payload; it is not part of what EVM payers sign.
async fn submit_with_payload(environment: &Environment) -> Result<PaymentId> {
    let (payer, base) = (&environment.world.payer, environment.world.base(0));
    let mut body = payer.sign(&base, &environment.spec("python")?).await?;
    body["sender_auth"]["signed_messages"][0]["payload"] = "HERE".into();
    let request = reqwest::Client::new().post(format!("{base}/v1/payments"));
    let request = request.header("content-type", "application/json").header("prefer", "wait=0");
    let answer = request.body(body.to_string().replace("\"HERE\"", PAYLOAD)).send().await?;
    let answer: Value = answer.error_for_status()?.json().await?;
    Ok(answer["payment_id"].as_str().with_context(|| answer.to_string())?.parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_wins_delivers_and_is_paid_and_all_that_is_said_is_of_the_schemas() -> Result<()> {
    let mut environment = Environment::start().await?;
    let (heard, _listening) = listen(&environment.client).await?;
    let overheard = environment.overhear().await?;
    let mut settler = environment.start_settler().await?;
    // What its operator shows, and what the gateway's makes of it.
    let shown = String::from_utf8(environment.command().arg("id").output().await?.stdout)?;
    assert_eq!(shown.trim(), format!("{} {}", did()?, did()?.token()));
    let admitted =
        Command::new(env!("CARGO_BIN_EXE_gw")).args(["settler", "id", "--did", did()?.as_str()]).output().await?;
    ensure!(String::from_utf8(admitted.stdout)?.contains(&settler::nats_account(&did()?)?), "no account for it");
    let before = environment.world.balances().await?;

    let payment_id = submit_with_payload(&environment).await?;
    let outcome = environment.world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    environment.world.until(&payment_id, "EscrowReleased").await?;
    environment.world.settled_once(&[payment_id]).await?;
    environment.acknowledged().await?;
    // What the payer says of its message reaches the verifier, and no number of it has lost a digit on the way.
    let asked = overheard.asked.lock().await.clone();
    let schema = MESSAGES.iter().find(|message| message.name == "AttestationRequest").context("no such message")?;
    let schema = jsonschema::draft202012::new(&schema.schema())?;
    ensure!(!asked.is_empty(), "the verifier is not asked");
    for asked in asked {
        ensure!(asked.contains(&format!(r#""payloads":[{PAYLOAD}]"#)), "{asked}");
        let request = serde_json::from_str(&asked)?;
        ensure!(schema.is_valid(&request), "{asked}");
    }
    let after = environment.world.balances().await?;
    assert_eq!(after["recipient"] - before["recipient"], U256::from(AMOUNT));
    assert_eq!(before["payer"] - after["payer"], U256::from(PRICE));

    // In an open auction it declines what it cannot do, and its price is the lowest where it can.
    let too_much = PaymentSpec { cap: "25000001".parse()?, ..environment.spec("too-cheap")? };
    let declined = environment.world.submit(&too_much).await?;
    let declined = environment.world.outcome(&declined).await?;
    assert_eq!(declined.text("status"), "failed", "{declined:?}");
    let open = environment.world.submit(&environment.world.spec("open")?).await?;
    environment.world.until(&open, "EscrowReleased").await?;
    environment.acknowledged().await?;
    let awarded = environment.world.events(&open, "QuoteAwarded").await?;
    ensure!(format!("{awarded:?}").contains(did()?.as_str()), "another settler won: {awarded:?}");

    // A two-phase award.
    let (payer, base) = (&environment.world.payer, environment.world.base(0));
    let batch = payer.open(&base, &payer.quote_request(&environment.spec("batch")?), true).await?;
    let award = payer.sign_award(&base, &batch.body, 0, "awarded").await?;
    let awarded = payer.award(&base, batch.text("quote_request_id"), &award, Duration::ZERO).await?;
    ensure!(awarded.status == 200, "{awarded:?}");
    environment.world.until(&awarded.text("payment_id").parse()?, "EscrowReleased").await?;

    // Told to end, it takes its registration back.
    settler.signal(devkit::Signal::Terminate).await?;
    ensure!(settler.wait().await?.success(), "it did not end in order");
    let heard = heard.lock().await;
    assert!(heard.faults.is_empty(), "{:#?}", heard.faults);
    let kinds: Vec<&str> = heard.counts.keys().copied().collect();
    assert_eq!(kinds, ["AuctionOver", "Award", "AwardAnswer", "Bid", "Registration", "Report", "RequestForQuotes"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_it_delivers_it_delivers_once() -> Result<()> {
    let mut environment = Environment::start().await?;
    let mut settler = environment.start_settler().await?;

    // Its award accepted, and killed while the escrow is not deep enough to deliver on.
    let first = environment.world.submit(&environment.spec("killed-before")?).await?;
    environment.world.until(&first, "DepositPrepared").await?;
    settler.kill().await?;
    environment.world.until(&first, "EscrowSecured").await?;
    assert_eq!(
        logs(&environment.world.network.destination, FULFILLED, &first).await?,
        0,
        "it delivered before the escrow"
    );
    let mut settler = environment.start_settler().await?;
    let outcome = environment.world.outcome(&first).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");

    // Killed with the delivery on chain and the money not collected.
    let second = environment.world.submit(&environment.spec("killed-after")?).await?;
    eventually(|| async {
        logs(&environment.world.network.destination, FULFILLED, &second).await.is_ok_and(|count| count > 0)
    })
    .await?;
    settler.kill().await?;
    let _settler = environment.start_settler().await?;
    for payment_id in [&first, &second] {
        environment.world.until(payment_id, "EscrowReleased").await?;
    }
    environment.world.settled_once(&[first, second]).await?;
    environment.acknowledged().await?;

    // What it cannot use it refuses where that says what was awarded, and keeps nothing of it.
    let mut answers = environment.client.subscribe(answer_subjects(&did()?.token())).await?;
    environment.client.flush().await?;
    let (payment_id, quote_hash) = (PaymentId::derive("payer", "unusable"), Hash32([7; 32]));
    let anothers = json!({"version": "1.0", "payment_id": payment_id, "quote_hash": quote_hash, "quote": "{}"});
    for (request_id, award) in [("unreadable", "[".to_owned()), ("unusable", anothers.to_string())] {
        let subject = award_subject(&did()?.token(), &PaymentId::derive("payer", request_id));
        jetstream::new(environment.client.clone()).publish(subject, award.into()).await?.await?;
    }
    let message = tokio::time::timeout(PATIENCE, answers.next()).await?.context("an answer")?;
    let answer: AwardAnswer = protocol::read(&message.payload)?;
    assert_eq!((&answer.payment_id, answer.quote_hash, answer.word), (&payment_id, quote_hash, AwardDecision::Refuse));
    assert_eq!(answer.reason.as_deref(), Some("AWARD_INVALID"));
    environment.acknowledged().await
}
