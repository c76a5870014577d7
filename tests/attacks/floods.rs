//! Request floods: one address asks for more than one caller may, and opens quote-requests in other people's names. The
//! gateways of tests do not limit 127.0.0.1; here everybody calls from another address, under the limits a gateway has by
//! default.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use reqwest::{StatusCode, header::RETRY_AFTER};
use serde_json::{Value, json};
use tokio::{
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use config::LimitsConfig;
use events::Did;

use crate::support::*;

/// Clients of the attacker's at the same time.
const FLOODERS: usize = 24;
/// Calls of the honest caller, each of which has to be answered.
const ROUNDS: usize = 20;
/// What a quote-request that nobody signed costs.
const UNITS: f64 = 11.0;

/// A client with an IP address of its own.
struct Client {
    http: reqwest::Client,
    base: String,
}

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

impl Client {
    fn new(world: &World, last: u8) -> Result<Self> {
        let http = reqwest::Client::builder().local_address(address(last)).build()?;
        Ok(Self { http, base: world.base(0) })
    }

    async fn post(&self, path: &str, secret: Option<&str>, body: &Value) -> Result<(StatusCode, Value)> {
        let mut request = self.http.post(format!("{}{path}", self.base)).header("prefer", "wait=0").json(body);
        if let Some(secret) = secret {
            request = request.header("caller-secret", secret);
        }
        let response = request.send().await?;
        let status = response.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let after = header(RETRY_AFTER.as_str()).and_then(|seconds| seconds.parse::<u64>().ok());
            ensure!(after.is_some_and(|seconds| seconds >= 1), "{:?}", response.headers());
            let (policy, left) = (header("ratelimit-policy"), header("ratelimit"));
            ensure!(policy.is_some_and(|text| text.contains(";q=")), "{:?}", response.headers());
            ensure!(left.is_some_and(|text| text.contains(";r=0;t=")), "{:?}", response.headers());
        }
        let answer: Value = response.json().await?;
        ensure!(status != StatusCode::TOO_MANY_REQUESTS || answer["code"] == "RATE_LIMITED", "{answer}");
        Ok((status, answer))
    }

    /// An honest round: a quote-request, and a look at it.
    async fn round(&self, order: &Value, request_id: String) -> Result<bool> {
        let body = named(order, &request_id);
        let (status, opened) = self.post("/v1/payments/quote-requests", None, &body).await?;
        if status != StatusCode::OK {
            return Ok(false);
        }
        let id = opened["quote_request_id"].as_str().context("a batch has an id")?;
        let read = self.http.get(format!("{}/v1/payments/quote-requests/{id}", self.base)).send().await?;
        Ok(read.status() == StatusCode::OK)
    }

    async fn rounds(&self, order: &Value, name: &str) -> Result<usize> {
        let mut served = 0;
        for n in 0..ROUNDS {
            served += usize::from(self.round(order, format!("{name}-{n}")).await?);
        }
        Ok(served)
    }
}

fn named(order: &Value, request_id: &str) -> Value {
    let mut body = order.clone();
    body["request_id"] = request_id.into();
    body
}

/// A quote-request for more than anybody has, so that it costs no settler anything.
fn hopeless(world: &World) -> Result<Value> {
    let mut spec = world.spec("template")?;
    (spec.amount, spec.cap) = ("900000000000000".parse()?, "990000000000000".parse()?);
    // It is sent all the while.
    (spec.quote_window, spec.fulfillment_window) = (Duration::from_secs(300), Duration::from_secs(600));
    Ok(world.payer.quote_request(&spec))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_from_one_address_is_refused_and_everybody_else_is_served() -> Result<()> {
    let world = World::start(1).await?;
    let order = hopeless(&world)?;
    // The control: nobody attacks.
    let honest = Client::new(&world, 3)?;
    ensure!(honest.rounds(&order, "control").await? == ROUNDS, "not served without an attack");

    let begun = Instant::now();
    let (over, refused, taken) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let flood = Arc::new((over, refused, taken));
    let attacker = Arc::new(Client::new(&world, 2)?);
    let mut flooders = JoinSet::new();
    for flooder in 0..FLOODERS {
        let (flood, attacker, order) = (flood.clone(), attacker.clone(), order.clone());
        flooders.spawn(async move {
            let (over, refused, taken) = flood.as_ref();
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                // Every other call is a submission of junk.
                let (path, body) = match n % 2 {
                    0 => ("/v1/payments/quote-requests", named(&order, &format!("flood-{flooder}-{n}"))),
                    _ => ("/v1/payments", json!({"request_id": "junk"})),
                };
                match attacker.post(path, None, &body).await? {
                    (StatusCode::TOO_MANY_REQUESTS, _) => refused.fetch_add(1, Ordering::Relaxed),
                    (StatusCode::OK, _) => taken.fetch_add(1, Ordering::Relaxed),
                    _ => 0,
                };
            }
            anyhow::Ok(())
        });
    }
    eventually(|| async { flood.1.load(Ordering::Relaxed) > 200 }).await?;

    // Who calls from elsewhere is served whatever it asks for, and its payment is made.
    let other = Client::new(&world, 4)?;
    let spec = world.spec("honest-payment")?;
    let (status, accepted) = other.post("/v1/payments", None, &world.payer.sign(&world.base(0), &spec).await?).await?;
    ensure!(status == StatusCode::OK, "{accepted}");
    ensure!(other.rounds(&order, "honest").await? == ROUNDS, "an honest caller was not served");
    // Behind the attacker's own address a payment can be read.
    let payment_id = accepted["payment_id"].as_str().context("a payment has an id")?.parse()?;
    let status = format!("{}/v1/payments/{payment_id}/status", world.base(0));
    ensure!(attacker.http.get(&status).send().await?.status() == StatusCode::OK, "reads go with the flood");
    world.completed(&payment_id).await?;

    flood.0.store(true, Ordering::Relaxed);
    while let Some(ended) = flooders.join_next().await {
        ended??;
    }
    let budget = LimitsConfig::default().unsigned;
    let most = (f64::from(budget.burst) + begun.elapsed().as_secs_f64() * f64::from(budget.per_second)) / UNITS;
    let taken = flood.2.load(Ordering::Relaxed);
    ensure!(taken as f64 <= most + 1.0, "{taken} quote-requests of the flood were taken, {most} are in the budget");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_streams_of_one_address_leave_room_for_others() -> Result<()> {
    let world = World::start(1).await?;
    let limits = LimitsConfig::default();
    let listens: SocketAddr = world.base(0).trim_start_matches("http://").parse()?;
    let (most, tried) = (limits.connections_per_address_max, limits.connections_per_address_max + 100);
    let mut connections = Vec::with_capacity(tried);
    for _ in 0..tried {
        connections.push(connect(listens, 2).await?);
    }
    let open = || connections.iter().filter(|connection| is_open(connection)).count();
    eventually(|| async { open() <= most }).await?;
    let honest = Client::new(&world, 3)?;
    let order = hopeless(&world)?;
    ensure!(honest.rounds(&order, "beside").await? == ROUNDS, "an honest caller was not served");
    ensure!(open() <= most, "{} of {tried} connections are open, {most} may be", open());
    // With those that end, the address has room for others.
    drop(connections);
    let back = reqwest::Client::builder().local_address(address(2)).build()?;
    let health = format!("{}/healthz", world.base(0));
    eventually(|| async { back.get(&health).send().await.is_ok_and(|answer| answer.status() == StatusCode::OK) })
        .await?;

    let accepted = world.submit(&world.undeliverable_spec("followed")?).await?;
    let events = format!("{}/v1/payments/{accepted}/events", world.base(0));
    let attacker = Client::new(&world, 5)?;
    let mut streams = Vec::new();
    for n in 0..limits.event_streams_per_address_max + 10 {
        let stream = attacker.http.get(&events).send().await?;
        let expected = match n < limits.event_streams_per_address_max {
            true => StatusCode::OK,
            false => StatusCode::TOO_MANY_REQUESTS,
        };
        ensure!(stream.status() == expected, "stream {n}: {stream:?}");
        streams.push(stream);
    }
    let mut followed = honest.http.get(&events).send().await?;
    ensure!(followed.status() == StatusCode::OK && followed.chunk().await?.is_some(), "{followed:?}");
    Ok(())
}

async fn connect(to: SocketAddr, from: u8) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(address(from), 0))?;
    Ok(socket.connect(to).await?)
}

/// Whether the gateway keeps the connection; it says nothing over one on which nothing was asked.
fn is_open(connection: &TcpStream) -> bool {
    matches!(connection.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_a_squatter_opened_first_is_nobody_elses_batch() -> Result<()> {
    const SECRET: &str = "5p3m9xWq0TzvKd7LrB1c";
    const PATH: &str = "/v1/payments/quote-requests";
    let world = World::start(1).await?;
    let did = |n: usize| settler::dev::key(n).map(|key| Did::from_ed25519(&key.verifying_key()));
    let (dear, cheap) = (did(2).context("a second settler")?, did(1).context("a first settler")?);
    let (squatter, victim) = (Client::new(&world, 2)?, Client::new(&world, 3)?);

    // The squatter knows the order's number and the payer's account, and wants his own settler to win.
    let spec = world.spec("order-1001")?;
    let mut squatted = world.payer.quote_request(&spec);
    squatted["settler_requirements"] = json!({"whitelist": [dear]});
    let (status, squatters) = squatter.post(PATH, None, &squatted).await?;
    ensure!(status == StatusCode::OK, "{squatters}");

    // The victim requires something else, and is not served that batch.
    let mut wanted = world.payer.quote_request(&spec);
    wanted["settler_requirements"] = json!({"whitelist": [cheap]});
    let (status, refused) = victim.post(PATH, None, &wanted).await?;
    ensure!(status == StatusCode::CONFLICT && refused["code"] == "IDEMPOTENCY_TERMS_MISMATCH", "{refused}");
    ensure!(refused["message"].as_str().is_some_and(|text| text.contains("whitelist")), "{refused}");
    let mut stricter = world.payer.quote_request(&spec);
    stricter["settler_requirements"] = json!({"whitelist": [dear], "blacklist": [cheap]});
    let (status, refused) = victim.post(PATH, None, &stricter).await?;
    ensure!(status == StatusCode::CONFLICT, "{refused}");
    ensure!(refused["message"].as_str().is_some_and(|text| text.contains("blacklist")), "{refused}");

    // With a secret the id is the victim's own, for a retry whose first answer was lost, too.
    let (status, own) = victim.post(PATH, Some(SECRET), &wanted).await?;
    ensure!(status == StatusCode::OK && own["idempotent_replay"] == false, "{own}");
    let (status, retry) = victim.post(PATH, Some(SECRET), &wanted).await?;
    ensure!(status == StatusCode::OK && retry["idempotent_replay"] == true, "{retry}");
    ensure!(own["quote_request_id"] == retry["quote_request_id"], "{own} {retry}");
    ensure!(own["quote_request_id"] != squatters["quote_request_id"], "{own}");
    let id = own["quote_request_id"].as_str().context("a batch has an id")?.to_owned();
    let ready =
        || async { world.payer.batch(&world.base(0), &id).await.is_ok_and(|batch| batch.text("status") == "ready") };
    eventually(ready).await?;
    let batch = world.payer.batch(&world.base(0), &id).await?;
    let quotes = batch.body["quotes"].as_array().context("quotes")?;
    ensure!(quotes.len() == 1 && quotes[0].to_string().contains(cheap.as_str()), "{batch:?}");
    // The payer's signature awards it, and nothing else.
    let award = world.payer.sign_award(&world.base(0), &batch.body, 0, "order-1001").await?;
    let awarded = world.payer.award(&world.base(0), &id, &award, Duration::ZERO).await?;
    ensure!(awarded.status == 200, "{awarded:?}");
    world.completed(&awarded.text("payment_id").parse()?).await
}
