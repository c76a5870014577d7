//! Writes that are refused and may be repeated: an operator's pause, and nats-server away.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use app::admission::pause::{ChangeError, ControlBucket};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::Command,
};
use tokio_util::task::AbortOnDropHandle;

use devkit::NatsServer;

use crate::support::*;

/// An answer with the header of interest.
struct Refusal {
    status: u16,
    retry_after: Option<String>,
    body: Value,
}

async fn post(base: &str, body: &Value) -> Result<Refusal> {
    let http = reqwest::Client::builder().timeout(PATIENCE).build()?;
    let answer = http.post(format!("{base}/v1/payments")).header("prefer", "wait=0").json(body).send().await?;
    let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Refusal { status: answer.status().as_u16(), retry_after, body: answer.json().await? })
}

async fn status_of(base: &str, path: &str) -> Result<u16> {
    Ok(reqwest::get(format!("{base}{path}")).await?.status().as_u16())
}

/// Runs `gw admin` with the configuration of the first gateway, and returns what it prints.
async fn admin(world: &World, arguments: &[&str]) -> Result<String> {
    let options = world.network.options();
    let mut command = Command::new(&options.gw);
    command.arg("admin").arg("--config").arg(options.directory.join("gateway-1.toml")).args(arguments);
    let output = command.output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Waits until the gateway refuses what is new; what it accepts before that are ordinary payments.
async fn refuses(world: &World, gateway: usize) -> Result<Refusal> {
    let base = world.base(gateway);
    let mut count = 0;
    let refused = async {
        loop {
            count += 1;
            let body = world.payer.sign(&base, &world.spec(&format!("probe-{gateway}-{count}"))?).await?;
            let answer = post(&base, &body).await?;
            if answer.status != 200 {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.context("the gateway goes on accepting")?
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_reaches_every_gateway_outlives_them_and_stops_nothing_in_flight() -> Result<()> {
    let mut world = World::start(2).await?;
    assert!(admin(&world, &["status"]).await?.contains("never paused"));
    let in_flight = world.submit(&world.spec("in-flight")?).await?;
    let body = world.payer.sign(&world.base(0), &world.spec("while-paused")?).await?;

    let said = admin(&world, &["pause", "--reason", "the chain is forking"]).await?;
    assert!(said.starts_with("paused since") && said.contains("the chain is forking"), "{said}");
    for gateway in 0..2 {
        let refusal = refuses(&world, gateway).await?;
        assert_eq!((refusal.status, &refusal.body["code"]), (503, &"SERVICE_PAUSED".into()), "{}", refusal.body);
        assert!(refusal.retry_after.is_some());
        assert_eq!(refusal.body["request_id_reusable"], true);
        assert!(!refusal.body.to_string().contains("forking"));
        assert_eq!(post(&world.base(gateway), &body).await?.status, 503);
        assert_eq!(status_of(&world.base(gateway), "/v1/defaults").await?, 200);
        assert_eq!(status_of(&world.base(gateway), "/readyz").await?, 200);
    }
    assert!(world.types(&world.payer.payment_id("while-paused")).await?.is_empty());

    // A gateway that is started now, on a server that was started now, knows of it too.
    world.network.kill_gateway(1).await?;
    world.network.nats.kill().await?;
    world.network.nats.restart().await?;
    world.network.start_gateway(1).await?;
    world.network.ready(0).await?;
    world.network.ready(1).await?;
    for gateway in 0..2 {
        let refusal = post(&world.base(gateway), &body).await?;
        assert_eq!(refusal.body["code"], "SERVICE_PAUSED", "{}", refusal.body);
    }
    assert_eq!(world.outcome(&in_flight).await?.text("status"), "completed");
    world.until(&in_flight, "EscrowReleased").await?;
    assert!(admin(&world, &["status"]).await?.contains("the chain is forking"));

    assert!(admin(&world, &["resume"]).await?.starts_with("accepting since"));
    let body = world.payer.sign(&world.base(0), &world.spec("while-paused")?).await?;
    let base = world.base(1);
    eventually(|| async { post(&base, &body).await.is_ok_and(|answer| answer.status == 200) }).await?;
    let payment_id = world.payer.payment_id("while-paused");
    assert_eq!(world.outcome(&payment_id).await?.text("status"), "completed");
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(&[in_flight, payment_id]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_nats_writes_are_refused_and_reads_go_on() -> Result<()> {
    let mut world = World::start(1).await?;
    let base = world.base(0);
    let known = world.submit(&world.spec("before")?).await?;
    world.outcome(&known).await?;
    world.until(&known, "EscrowReleased").await?;
    let body = world.payer.sign(&base, &world.spec("while-away")?).await?;
    let replayed = world.payer.sign(&base, &world.spec("before")?).await?;

    world.network.nats.kill().await?;
    eventually(|| async { status_of(&base, "/readyz").await.is_ok_and(|status| status == 503) }).await?;
    assert_eq!(status_of(&base, "/healthz").await?, 200);
    for _ in 0..3 {
        let refusal = post(&base, &body).await?;
        assert_eq!((refusal.status, &refusal.body["code"]), (503, &"SERVICE_UNAVAILABLE".into()), "{}", refusal.body);
        assert!(refusal.retry_after.is_some());
        // Only the journal makes an id free, and it is away.
        assert!(refusal.body.get("request_id_reusable").is_none(), "{}", refusal.body);
    }
    let shown = world.payer.status(&base, known.as_str()).await?;
    assert_eq!((shown.status, shown.text("status")), (200, "completed"), "{shown:?}");
    let replay = post(&base, &replayed).await?;
    assert_eq!((replay.status, &replay.body["idempotent_replay"]), (200, &true.into()), "{}", replay.body);
    // Nobody can say that there is no such payment.
    let unknown = world.payer.status(&base, world.payer.payment_id("never").as_str()).await?;
    assert_eq!((unknown.status, unknown.text("code")), (503, "SERVICE_UNAVAILABLE"));

    world.network.nats.restart().await?;
    world.network.ready(0).await?;
    let payment_id = world.payer.payment_id("while-away");
    let journal = || async { world.types(&payment_id).await.is_ok_and(|types| types.is_empty()) };
    eventually(journal).await.context("a 503 was accepted after all")?;
    let unknown = world.payer.status(&base, world.payer.payment_id("never").as_str()).await?;
    assert_eq!((unknown.status, unknown.text("code")), (404, "PAYMENT_NOT_FOUND"));
    let body = world.payer.sign(&base, &world.spec("while-away")?).await?;
    let accepted = post(&base, &body).await?;
    assert_eq!((accepted.status, &accepted.body["idempotent_replay"]), (200, &false.into()), "{}", accepted.body);
    assert_eq!(world.outcome(&payment_id).await?.text("status"), "completed");
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(&[known, payment_id]).await
}

/// A server that is there but silent may have stored what it was sent: never a 503.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_may_be_stored_is_not_said_to_be_refused() -> Result<()> {
    let world = World::start(1).await?;
    let base = world.base(0);
    let mut spec = world.spec("who-knows")?;
    // The time that the server is silent counts.
    spec.quote_window = Duration::from_secs(60);
    let body = world.payer.sign(&base, &spec).await?;
    signal(&world, "STOP").await?;
    let answer = post(&base, &body).await;
    signal(&world, "CONT").await?;
    let answer = answer?;
    assert_eq!((answer.status, &answer.body["code"]), (500, &"OUTCOME_UNKNOWN".into()), "{}", answer.body);
    assert_eq!(answer.body["retry_classification"], "RECONCILE_THEN_DECIDE");
    let payment_id = world.payer.payment_id("who-knows");
    assert_eq!(answer.body["payment_id"], payment_id.as_str());

    // The same request again finds out, and is one payment.
    eventually(|| async { post(&base, &body).await.is_ok_and(|answer| answer.status == 200) }).await?;
    assert_eq!(world.outcome(&payment_id).await?.text("status"), "completed");
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(&[payment_id]).await
}

async fn signal(world: &World, signal: &str) -> Result<()> {
    let id = world.network.nats.id().context("nats-server runs")?;
    let status = Command::new("kill").arg(format!("-{signal}")).arg(id.to_string()).status().await?;
    ensure!(status.success(), "kill -{signal} {id}");
    Ok(())
}

/// What a [`Relay`] loses of what the server says.
const NOTHING: u8 = 0;
/// The next acknowledgement of what was stored.
const ONE_ACKNOWLEDGEMENT: u8 = 1;
/// That, and all that comes after it.
const ALL_FROM_THEN: u8 = 2;
const ALL: u8 = 3;

/// A way to a server on which something of what it says is lost.
struct Relay {
    url: String,
    loses: Arc<AtomicU8>,
    _task: AbortOnDropHandle<()>,
}

impl Relay {
    async fn start(server: &str) -> Result<Self> {
        let server = server.strip_prefix("nats://").context("no address")?.to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (url, loses) = (format!("nats://{}", listener.local_addr()?), Arc::new(AtomicU8::new(NOTHING)));
        let lost = loses.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(&server).await else { continue };
                let ((mut asked, told), (answers, mut questions)) = (client.into_split(), upstream.into_split());
                tokio::spawn(async move { tokio::io::copy(&mut asked, &mut questions).await });
                tokio::spawn(pass(answers, told, lost.clone()));
            }
        });
        Ok(Self { url, loses, _task: AbortOnDropHandle::new(task) })
    }
}

async fn pass(mut answers: OwnedReadHalf, mut told: OwnedWriteHalf, loses: Arc<AtomicU8>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = answers.read(&mut buffer).await {
        let acknowledges = String::from_utf8_lossy(&buffer[..read]).contains(r#"{"stream":"#);
        match loses.load(Ordering::SeqCst) {
            ONE_ACKNOWLEDGEMENT if acknowledges => loses.store(NOTHING, Ordering::SeqCst),
            ALL_FROM_THEN if acknowledges => loses.store(ALL, Ordering::SeqCst),
            ALL => {}
            _ => {
                if told.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// What is stored though nobody heard so is found, and what nobody can find is not said to have failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_whose_acknowledgement_is_lost_is_looked_for() -> Result<()> {
    let server = NatsServer::open().await?;
    let direct = ControlBucket::open(async_nats::connect(server.url()).await?, 1).await?;
    let relay = Relay::start(&server.url()).await?;
    let bucket = ControlBucket::open(async_nats::connect(&relay.url).await?, 1).await?;
    relay.loses.store(ONE_ACKNOWLEDGEMENT, Ordering::SeqCst);
    let paused = bucket.pause(Some("a fork".to_owned())).await?;
    assert_eq!(relay.loses.load(Ordering::SeqCst), NOTHING);
    assert_eq!(direct.read().await?.as_ref(), Some(&paused));

    relay.loses.store(ALL_FROM_THEN, Ordering::SeqCst);
    let unclear = bucket.resume(Some(paused.since)).await;
    assert!(matches!(unclear, Err(ChangeError::Unclear(_))), "{unclear:?}");
    let stands = direct.read().await?.context("nothing was ever said")?;
    assert!(!stands.paused, "the gateways accept");
    relay.loses.store(NOTHING, Ordering::SeqCst);
    assert_eq!(bucket.resume(Some(paused.since)).await?, Some(stands), "ordered again, it is found to be done");
    Ok(())
}
