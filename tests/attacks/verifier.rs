//! A stranger keeps the verifier from attesting, so that a delivered payment is refunded: with connections that say nothing,
//! with asks that never end, with answers that nobody reads, and with junk that has the chains read.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use ed25519_dalek::SigningKey;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
    process::Command,
    task::JoinSet,
};

use devkit::Process;
use events::{Account, Did, PaymentEvent, PaymentId, VerifierMember, VerifierSet, time::unix_seconds};
use protocol::{AttestationRequest, AttestationStatus, DELIVERY_ATTESTATION_PATH, Version, message_signature::Signer};

use crate::support::{overheard::Overheard, *};

/// An escrow that nobody configured.
const FAKE_ESCROW: &str = "0x00000000000000000000000000000000baadf00d";
/// More than the verifier takes, so that its bound is reached.
const IDLE_CONNECTIONS: usize = 1_500;
const JUNK_CONNECTIONS: usize = 160;
/// Between two asks of a connection: thousands in a second all together, and processor time is left for those who are to be
/// answered.
const FLOOD_PAUSE: Duration = Duration::from_millis(25);
/// After a connection that could not be opened, so that nobody spins while the verifier takes no more.
const RECONNECT_PAUSE: Duration = Duration::from_millis(25);
/// More than strangers may have under way.
const SLOW_BODIES: usize = 100;
/// Accounts that verify nothing.
const STRANGERS: [&str; 2] =
    ["0x1111111111111111111111111111111111111111", "0x2222222222222222222222222222222222222222"];
const UNREAD_CONNECTIONS: usize = 2;
const HONEST_ASKS: usize = 30;

/// A network whose verifier asks the source chain through [`Overheard`], and an honest case that it attests.
struct Environment {
    world: World,
    endpoint: String,
    chain: Overheard,
    honest: AttestationRequest,
    _verifier: Process,
}

impl Environment {
    async fn start() -> Result<Self> {
        // A thousand connections have two ends each, one of them here.
        rlimit::increase_nofile_limit(8_192)?;
        let mut world = World::start(1).await?;
        let chain = Overheard::before(world.network.source.anvil.url()).await?;
        world.network.kill_verifier(1).await?;
        let endpoint = world.network.verifier_endpoint(1);
        let verifier = verifier(&world, &chain.url).await?;
        // The control: without an attack a payment is delivered and its settler paid.
        let payment_id = world.submit(&world.spec("without-an-attack")?).await?;
        world.completed(&payment_id).await?;
        let honest = ask_of(&world, &payment_id).await?;
        let environment = Self { world, endpoint, chain, honest, _verifier: verifier };
        environment.attested(&signer(1)?, 1).await?;
        Ok(environment)
    }

    /// Asks for the attestation as this caller does, so many times; every one has to be answered with it.
    async fn attested(&self, caller: &Signer, times: usize) -> Result<()> {
        let client = settler::verifier::Client::new(caller.clone())?;
        for n in 0..times {
            let answer = client.attest_delivery(&self.endpoint, &self.honest).await;
            let answer = answer.with_context(|| format!("ask {n} of {times}"))?;
            ensure!(answer.signature.is_some(), "ask {n} of {times}: {answer:?}");
        }
        Ok(())
    }

    /// A whole payment, from submission to release.
    async fn paid(&self, request_id: &str) -> Result<()> {
        let payment_id = self.world.submit(&self.world.spec(request_id)?).await?;
        self.world.completed(&payment_id).await?;
        self.world.settled_once(&[payment_id]).await
    }
}

/// The network's verifier, with the files that a shell gives a process, and the source chain behind `url`.
async fn verifier(world: &World, url: &str) -> Result<Process> {
    let directory = &world.network.options().directory;
    let text = std::fs::read_to_string(directory.join("verifier.toml"))?;
    let mut config: Value = toml::from_str(&text)?;
    config["chains"][0]["rpc_url"] = json!(url);
    let path = directory.join("verifier-overheard.toml");
    std::fs::write(&path, toml::to_string(&config)?)?;
    let mut command = Command::new("sh");
    let script = r#"ulimit -Sn 1024 && exec "$0" verifier --config "$1""#;
    command.args(["-c", script]).arg(&world.network.options().gw).arg(&path);
    let mut process = Process::spawn("verifier-overheard", &mut command, &directory.join("verifier-overheard.log"))?;
    let port = world.network.verifier_endpoint(1).rsplit(':').next().and_then(|port| port.parse().ok());
    process.listening_on(port.context("the endpoint has a port")?).await?;
    Ok(process)
}

/// What a settler asks of the verifier for a payment.
async fn ask_of(world: &World, payment_id: &PaymentId) -> Result<AttestationRequest> {
    let submitted = match world.events(payment_id, "Submitted").await?.remove(0) {
        PaymentEvent::Submitted(submitted) => submitted,
        other => anyhow::bail!("{other:?}"),
    };
    let quote = match world.events(payment_id, "QuoteAwarded").await?.remove(0) {
        PaymentEvent::QuoteAwarded(awarded) => awarded.document,
        other => anyhow::bail!("{other:?}"),
    };
    let escrow = (&submitted.escrow).into();
    let (payment_id, payloads) = (payment_id.clone(), Vec::new());
    let (terms, verifier_set) = (submitted.terms, submitted.verifier.set);
    Ok(AttestationRequest { version: Version, payment_id, terms, escrow, quote, verifier_set, payloads })
}

/// The demo's settler `n`, whom the verifier knows.
fn signer(n: usize) -> Result<Signer> {
    Ok(Signer::new(settler::dev::key(n).context("the network has three settlers")?))
}

/// An ask in which everything fits together, by a settler that the attacker made up.
fn junk(honest: &AttestationRequest, n: usize) -> Result<AttestationRequest> {
    let key = SigningKey::from_bytes(&[0x66; 32]);
    let signed = events::quote::SignedQuote::parse(&honest.quote)?;
    let mut quote = signed.quote().clone();
    let mut ask = honest.clone();
    ask.payment_id = PaymentId::derive("attacker", &n.to_string());
    ask.escrow.contract = FAKE_ESCROW.parse().unwrap();
    quote.auction_id = ask.payment_id.to_string();
    quote.settler = Did::from_ed25519(&key.verifying_key());
    quote.escrow_contract = FAKE_ESCROW.parse().unwrap();
    ask.quote = quote.sign(&key, chrono::Utc::now())?.document().to_owned();
    Ok(ask)
}

/// An ask for the true escrow, of a payment that was never made, by a settler that the attacker made up.
fn made_up(honest: &AttestationRequest, n: usize) -> Result<AttestationRequest> {
    let mut ask = honest.clone();
    ask.payment_id = PaymentId::derive("attacker", &n.to_string());
    let mut quote = events::quote::SignedQuote::parse(&ask.quote)?.quote().clone();
    let key = SigningKey::from_bytes(&[0x66; 32]);
    (quote.auction_id, quote.settler) = (ask.payment_id.to_string(), Did::from_ed25519(&key.verifying_key()));
    ask.quote = quote.sign(&key, chrono::Utc::now())?.document().to_owned();
    Ok(ask)
}

/// The payment's id as calls to a node have it.
fn on_chain(payment_id: &PaymentId) -> String {
    payment_id.on_chain().to_string().trim_start_matches("0x").to_owned()
}

/// Clients that send what `make` gives them, one ask after the other over connections of their own, until they are dropped.
struct Flood {
    clients: JoinSet<()>,
    answered: Arc<AtomicUsize>,
}

impl Flood {
    fn begin(endpoint: &str, bodies: Vec<Vec<u8>>) -> Self {
        let answered = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        let url = format!("{endpoint}{DELIVERY_ATTESTATION_PATH}");
        for body in bodies {
            let (url, answered, body) = (url.clone(), Arc::clone(&answered), Bytes::from(body));
            clients.spawn(async move {
                let client = reqwest::Client::new();
                loop {
                    let sent = client.post(&url).header("content-type", "application/json").body(body.clone()).send();
                    if let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(30), sent).await {
                        let _ = answer.bytes().await;
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(FLOOD_PAUSE).await;
                }
            });
        }
        Self { clients, answered }
    }

    /// Waits until all of them have been at it.
    async fn under_way(&self) -> Result<()> {
        let begun = self.answered.load(Ordering::Relaxed);
        let enough = || async { self.answered.load(Ordering::Relaxed) >= begun + self.clients.len() };
        eventually(enough).await.context("the flood does not flow")
    }
}

/// As many connections as one process may have, of which none ever says anything; they are opened again when they are closed.
struct Idle {
    _holders: JoinSet<()>,
    open: Arc<AtomicUsize>,
}

impl Idle {
    async fn begin(endpoint: &str) -> Result<Self> {
        let address = endpoint.trim_start_matches("http://").to_owned();
        let open = Arc::new(AtomicUsize::new(0));
        let mut holders = JoinSet::new();
        for _ in 0..IDLE_CONNECTIONS {
            let (address, open) = (address.clone(), Arc::clone(&open));
            holders.spawn(async move {
                loop {
                    let Ok(stream) = TcpStream::connect(&address).await else {
                        tokio::time::sleep(RECONNECT_PAUSE).await;
                        continue;
                    };
                    open.fetch_add(1, Ordering::Relaxed);
                    // Until the server closes it.
                    let _ = stream.readable().await;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
        let this = Self { _holders: holders, open };
        eventually(|| async { this.open.load(Ordering::Relaxed) >= IDLE_CONNECTIONS }).await?;
        Ok(this)
    }
}

/// A thousand and more connections that say nothing, opened again as they are closed, leave every honest ask answered and a
/// payment released; so do bodies that come byte by byte and answers that are never read.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_keep_the_verifier_from_attesting() -> Result<()> {
    let environment = Environment::start().await?;
    let idle = Idle::begin(&environment.endpoint).await?;
    environment.attested(&signer(1)?, HONEST_ASKS).await?;
    environment.paid("under-idle-connections").await?;
    environment.attested(&devnet::keys::gateway_signer(), HONEST_ASKS).await?;
    drop(idle);

    // Bodies that never end, more than strangers may have under way, each begun again when it is broken off; and asks one
    // behind the other over connections from which nothing is read.
    let address = environment.endpoint.trim_start_matches("http://").to_owned();
    let stop = Arc::new(AtomicBool::new(false));
    let head = |length: usize, more: &str| {
        format!(
            "POST {DELIVERY_ATTESTATION_PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n{more}\r\n"
        )
    };
    let mut holders = JoinSet::new();
    let (begun, unread) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..SLOW_BODIES {
        let (address, stop, begun, head) = (address.clone(), Arc::clone(&stop), Arc::clone(&begun), head(60_000, ""));
        holders.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let Ok(mut stream) = TcpStream::connect(&address).await else {
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                    continue;
                };
                let mut sent = stream.write_all(head.as_bytes()).await;
                begun.fetch_add(1, Ordering::Relaxed);
                while sent.is_ok() && !stop.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(250)).await;
                    sent = stream.write_all(b" ").await;
                }
            }
        });
    }
    let bad = format!("{}{{", head(1, ""));
    for _ in 0..UNREAD_CONNECTIONS {
        let target: SocketAddr = address.parse()?;
        let (unread, bad) = (Arc::clone(&unread), bad.repeat(100));
        holders.spawn(async move {
            loop {
                let Ok(socket) = TcpSocket::new_v4() else {
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                    continue;
                };
                // The less room there is for answers the sooner they stand still.
                let _ = socket.set_recv_buffer_size(4_096);
                let Ok(mut stream) = socket.connect(target).await else {
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                    continue;
                };
                unread.fetch_add(1, Ordering::Relaxed);
                while stream.write_all(bad.as_bytes()).await.is_ok() {}
            }
        });
    }
    eventually(|| async {
        begun.load(Ordering::Relaxed) >= SLOW_BODIES && unread.load(Ordering::Relaxed) >= UNREAD_CONNECTIONS
    })
    .await?;
    environment.attested(&signer(2)?, HONEST_ASKS).await
}

/// Junk for an escrow that nobody trusts, over 160 connections, costs no chain a question, and whoever signs is answered
/// every time; so is a payment released under it. Junk for the true escrow is read for, at a stranger's pace.
#[tokio::test(flavor = "multi_thread")]
async fn junk_does_not_keep_the_verifier_from_attesting() -> Result<()> {
    let environment = Environment::start().await?;
    let body = |ask: &AttestationRequest| protocol::write(ask);
    let fakes = (0..JUNK_CONNECTIONS).map(|n| Ok(body(&junk(&environment.honest, n)?))).collect::<Result<Vec<_>>>()?;
    let flood = Flood::begin(&environment.endpoint, fakes);
    flood.under_way().await?;
    environment.attested(&signer(1)?, HONEST_ASKS).await?;
    environment.attested(&devnet::keys::gateway_signer(), HONEST_ASKS).await?;
    environment.paid("under-junk").await?;
    flood.under_way().await?;
    drop(flood);
    let fake = FAKE_ESCROW.trim_start_matches("0x");
    let asked = environment.chain.take();
    assert!(asked.iter().any(|call| call.contains("eth_call")), "nothing was overheard");
    let about_fake: Vec<_> = asked.iter().filter(|call| call.contains(fake)).collect();
    assert!(about_fake.is_empty(), "the chain was asked {} times for junk: {}", about_fake.len(), about_fake[0]);

    // The true escrow, payments that were never made: each of these reads the chain, and they are judged at a pace.
    let made_up = (0..JUNK_CONNECTIONS).map(|n| Ok(body(&made_up(&environment.honest, n)?)));
    let begun = tokio::time::Instant::now();
    let flood = Flood::begin(&environment.endpoint, made_up.collect::<Result<Vec<_>>>()?);
    flood.under_way().await?;
    environment.attested(&signer(1)?, HONEST_ASKS).await?;
    let seconds = begun.elapsed().as_secs() + 2;
    drop(flood);
    // `recordOf` of the made-up payments, by their ids on chain: eight judgements a second, a few calls each.
    let ids: Vec<String> =
        (0..JUNK_CONNECTIONS).map(|n| on_chain(&PaymentId::derive("attacker", &n.to_string()))).collect();
    let asked = environment.chain.take();
    let about_junk = asked.iter().filter(|call| ids.iter().any(|id| call.contains(id))).count() as u64;
    assert!(about_junk > 0, "none of the junk was judged: the control shows nothing");
    assert!(about_junk <= 8 * 4 * seconds, "{about_junk} calls for junk in {seconds} s");
    Ok(())
}

/// Who has stolen a signed ask, or makes one in another's name, gets nothing by it and takes nothing of anybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_signature_gains_nothing() -> Result<()> {
    let environment = Environment::start().await?;
    let victim = signer(1)?;
    let body = protocol::write(&environment.honest);
    let url = format!("{}{DELIVERY_ATTESTATION_PATH}", environment.endpoint);
    let created = unix_seconds(chrono::Utc::now());
    let stolen = HeaderMap::from_iter(victim.sign("POST", &url, &body, created));
    let other = protocol::write(&junk(&environment.honest, 1)?);
    let send = async |headers: HeaderMap, body: Vec<u8>| -> Result<(u16, Value)> {
        let request = reqwest::Client::new().post(&url).headers(headers).header("content-type", "application/json");
        let answer = request.body(body).send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    };
    // The control: it is a good signature, and its replay within the minute is the same ask.
    assert_eq!(send(stolen.clone(), body.clone()).await?.1["status"], "attested");
    assert_eq!(send(stolen.clone(), body.clone()).await?.1["status"], "attested");
    let elsewhere = victim.sign("POST", &format!("https://other.example{DELIVERY_ATTESTATION_PATH}"), &body, created);
    let old = victim.sign("POST", &url, &body, created - 3_600);
    for (headers, body) in
        [(stolen, other), (HeaderMap::from_iter(elsewhere), body.clone()), (HeaderMap::from_iter(old), body)]
    {
        let (status, problem) = send(headers, body).await?;
        assert_eq!((status, problem["code"].as_str()), (401, Some("SIGNATURE_INVALID")), "{problem}");
    }
    Ok(())
}

/// Who brings a verifier set of its own making has nothing read for it: neither where the escrow's releaser is not that set, nor
/// where the verifier is none of its members. As a member it is asked with good reason, and reads that there is no such payment.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_somebody_elses_costs_no_chain_a_question() -> Result<()> {
    let environment = Environment::start().await?;
    let own = environment.honest.escrow.releaser.clone();
    let set = |accounts: &[&str]| -> Result<VerifierSet> {
        let endpoint = || environment.endpoint.clone();
        let member = |account: &&str| Ok(VerifierMember { account: account.parse()?, endpoint: endpoint() });
        Ok(VerifierSet::new(1, accounts.iter().map(member).collect::<Result<_>>()?)?)
    };
    let (strangers, with_own) = (set(&STRANGERS)?, set(&[own.as_str(), STRANGERS[0]])?);
    let ask = |n: usize, set: &VerifierSet, releaser: Option<Account>| -> Result<AttestationRequest> {
        let mut ask = made_up(&environment.honest, n)?;
        ask.verifier_set = Some(set.clone());
        ask.escrow.releaser = releaser.context("a set has an id")?;
        Ok(ask)
    };
    let client = settler::verifier::Client::new(signer(1)?)?;
    environment.chain.take();

    let other_releaser = [ask(0, &strangers, Some(own.clone()))?, ask(1, &with_own, Some(own.clone()))?];
    for ask in &other_releaser {
        let answer = client.attest_delivery(&environment.endpoint, ask).await;
        ensure!(matches!(answer, Err(settler::verifier::Error::Status(400))), "{answer:?}");
    }
    let no_member = ask(2, &strangers, strangers.id())?;
    let answer = client.attest_delivery(&environment.endpoint, &no_member).await?;
    let reason = answer.reason.as_deref().unwrap_or_default();
    ensure!(answer.status == AttestationStatus::Refused && reason.contains("releaser"), "{answer:?}");

    // The control: it would be seen.
    let member = ask(3, &with_own, with_own.id())?;
    let answer = client.attest_delivery(&environment.endpoint, &member).await?;
    ensure!(answer.signature.is_none(), "{answer:?}");
    let asked = environment.chain.take();
    let is_about = |ask: &AttestationRequest| asked.iter().any(|call| call.contains(&on_chain(&ask.payment_id)));
    ensure!(is_about(&member), "nothing was overheard");
    for ask in other_releaser.iter().chain([&no_member]) {
        ensure!(!is_about(ask), "the chain was asked for {ask:?}");
    }
    // The honest ask of the true releaser is none the worse for it.
    environment.attested(&signer(1)?, 1).await
}
