//! Chaos under load: gateways, nats-servers, chains, settlers and the verifier are killed and hung at random, and blocks
//! become dear, while payers submit, choose quotes, and meet a settler that never delivers. Afterwards every accepted
//! payment has ended, the chains' balances add up, and the audit passes.
//!
//! `GW_CHAOS_SECONDS` says for how long, `GW_CHAOS_SEED` which faults; the seed is printed. It fixes what is done to whom
//! and in which order. How the processes take it is theirs, so a seed that failed is worth running more than once.

use std::{
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::Value;
use tokio::{process::Command, time::timeout};

use devkit::Signal;
use devnet::{
    network::{Chain, Network, Options},
    payer::PaymentSpec,
};

use crate::support::{
    client::{Asked, Client, LastAnswer},
    outcome_tally::{holdings, tally_outcomes},
    *,
};

/// How long faults come when nothing else is said.
const CHAOS_SECONDS: u64 = 45;
const PAYERS: usize = 3;
/// Longest pause between two submissions of one payer, in milliseconds.
const PACE_MS_MAX: u64 = 4000;
/// Most faults at a time; two may take the cluster's majority.
const FAULTS_MAX: usize = 3;
/// Longest time a fault lasts, and longest time between faults, in milliseconds.
const FAULT_MS_MAX: u64 = 5000;
const CALM_MS_MAX: u64 = 2500;
/// Windows of the payments: long enough that most are delivered, short enough that refunds can be waited for.
const FULFILLMENT_WINDOW: Duration = Duration::from_secs(60);
const REFUND_DELAY_SECONDS: u64 = 45;
/// Windows of a payment that leaves no time for trouble.
const SHORT_QUOTE_WINDOW: Duration = Duration::from_secs(3);
const SHORT_FULFILLMENT_WINDOW: Duration = Duration::from_secs(12);
/// What a unit of gas costs once a chain is dear, in wei: fifty times what it costs when a chain begins. It goes down by an
/// eighth with each block that is not half full.
const DEAR_WEI: u64 = 50_000_000_000;
/// What must have ended this long after its windows has not.
const MARGIN: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Gateway(usize),
    Server(usize),
    Settler(u8),
    Verifier,
    Source,
    Destination,
}

const VICTIMS: [Victim; 12] = [
    Victim::Gateway(0),
    Victim::Gateway(1),
    Victim::Gateway(2),
    Victim::Server(0),
    Victim::Server(1),
    Victim::Server(2),
    Victim::Settler(1),
    Victim::Settler(2),
    Victim::Settler(3),
    Victim::Verifier,
    Victim::Source,
    Victim::Destination,
];

/// What is done to a victim. A chain is ended in order and not by `kill -9`: anvil keeps its blocks in memory, and a
/// network whose blocks are gone for good is none that money can be on. What waited in its pool is lost either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It ends, and is started again.
    Killed(Victim),
    /// It stands still, and goes on where it was.
    Hung(Victim),
    /// A chain makes no blocks, and then dear ones: what was signed before is too cheap for them.
    Dear(Victim),
}

impl Fault {
    fn draw(random: &mut StdRng, victim: Victim) -> Self {
        let faults = [Self::Killed(victim), Self::Hung(victim), Self::Dear(victim)];
        let fitting = if matches!(victim, Victim::Source | Victim::Destination) { 3 } else { 2 };
        faults[random.gen_range(0..fitting)]
    }

    async fn begin(self, network: &mut Network) -> Result<()> {
        match self {
            Self::Killed(Victim::Gateway(n)) => network.kill_gateway(n).await,
            Self::Killed(Victim::Server(n)) => network.nats.cluster()?.kill(n).await,
            Self::Killed(Victim::Settler(n)) => network.kill_settler(n).await,
            Self::Killed(Victim::Verifier) => network.kill_verifier(1).await,
            Self::Killed(victim @ (Victim::Source | Victim::Destination)) => chain(network, victim).anvil.stop().await,
            Self::Hung(victim) => hang(network, victim, Signal::Stop).await,
            Self::Dear(victim) => blocks_every(chain(network, victim), 0).await,
        }
    }

    async fn end(self, network: &mut Network) -> Result<()> {
        match self {
            Self::Killed(Victim::Gateway(n)) => network.spawn_gateway(n),
            Self::Killed(Victim::Server(n)) => network.nats.cluster()?.restart(n),
            Self::Killed(Victim::Settler(n)) => network.start_settler(n),
            Self::Killed(Victim::Verifier) => network.start_verifier(1).await,
            Self::Killed(victim @ (Victim::Source | Victim::Destination)) => {
                chain(network, victim).anvil.restart().await
            }
            Self::Hung(victim) => hang(network, victim, Signal::Continue).await,
            Self::Dear(victim) => {
                let seconds = network.options().block_seconds;
                let chain = chain(network, victim);
                let _: Value = chain.dev.rpc("anvil_setNextBlockBaseFeePerGas", (U256::from(DEAR_WEI),)).await?;
                blocks_every(chain, seconds).await
            }
        }
    }
}

fn chain(network: &mut Network, victim: Victim) -> &mut Chain {
    if victim == Victim::Source { &mut network.source } else { &mut network.destination }
}

/// Sets the pace of the chain's blocks; 0 for none.
async fn blocks_every(chain: &Chain, seconds: u64) -> Result<()> {
    let _: Value = chain.dev.rpc("evm_setIntervalMining", (seconds,)).await?;
    Ok(())
}

async fn hang(network: &mut Network, victim: Victim, signal: Signal) -> Result<()> {
    match (victim, signal) {
        (Victim::Gateway(n), _) => network.signal_gateway(n, signal).await,
        (Victim::Server(n), Signal::Stop) => network.nats.cluster()?.pause(n).await,
        (Victim::Server(n), _) => network.nats.cluster()?.resume(n).await,
        (Victim::Source | Victim::Destination, Signal::Stop) => chain(network, victim).anvil.pause().await,
        (Victim::Source | Victim::Destination, _) => chain(network, victim).anvil.resume().await,
        (Victim::Settler(n), _) => network.signal_settler(n, signal).await,
        (Victim::Verifier, _) => network.signal_verifier(1, signal).await,
    }
}

/// What a payer may want.
struct PaymentSpecs {
    ordinary: PaymentSpec,
    undeliverable: PaymentSpec,
}

impl PaymentSpecs {
    fn of(world: &World, payer: usize) -> Result<Self> {
        let name = format!("payer-{payer}");
        let ordinary = PaymentSpec { fulfillment_window: FULFILLMENT_WINDOW, ..world.spec(&name)? };
        Ok(Self { ordinary, undeliverable: world.undeliverable_spec(&name)? })
    }

    /// Pays what is drawn, under the `n`th request id.
    async fn pay_one(&self, client: &Client, random: &mut StdRng, n: usize) -> Result<Asked> {
        let named = |spec: &PaymentSpec| PaymentSpec { request_id: format!("{}-{n}", spec.request_id), ..spec.clone() };
        match random.gen_range(0..8) {
            0 | 1 => client.pay(&named(&self.undeliverable)).await,
            2 => {
                let (quote_window, fulfillment_window) = (SHORT_QUOTE_WINDOW, SHORT_FULFILLMENT_WINDOW);
                client.pay(&PaymentSpec { quote_window, fulfillment_window, ..named(&self.ordinary) }).await
            }
            3 | 4 => client.choose(&named(&self.ordinary)).await,
            _ => client.pay(&named(&self.ordinary)).await,
        }
    }
}

/// Pays on and on until told to stop.
async fn pay(
    client: Arc<Client>,
    specs: PaymentSpecs,
    mut random: StdRng,
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
) -> Result<()> {
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let one = specs.pay_one(&client, &mut random, n).await?;
        asked.lock().expect("nothing panics with the lock held").push(one);
        tokio::time::sleep(Duration::from_millis(random.gen_range(0..PACE_MS_MAX))).await;
    }
    Ok(())
}

/// Faults until the time is over; afterwards everything runs.
async fn rage(network: &mut Network, random: &mut StdRng, lasts: Duration) -> Result<usize> {
    let started = Instant::now();
    // One that is sure to come while deposits are under way.
    let dear = Fault::Dear(Victim::Source);
    dear.begin(network).await?;
    tokio::time::sleep(Duration::from_millis(FAULT_MS_MAX)).await;
    dear.end(network).await?;
    let mut count = 1;
    while started.elapsed() < lasts {
        let number = random.gen_range(1..=FAULTS_MAX);
        let victims: Vec<Victim> = VICTIMS.choose_multiple(random, number).copied().collect();
        let faults: Vec<Fault> = victims.into_iter().map(|victim| Fault::draw(random, victim)).collect();
        let fault_ms = random.gen_range(200..FAULT_MS_MAX);
        let calm_ms = random.gen_range(0..CALM_MS_MAX);
        println!("{:6.1} s: {faults:?} for {fault_ms} ms", started.elapsed().as_secs_f32());
        for fault in &faults {
            fault.begin(network).await.with_context(|| format!("{fault:?}"))?;
        }
        tokio::time::sleep(Duration::from_millis(fault_ms)).await;
        for fault in &faults {
            fault.end(network).await.with_context(|| format!("end of {fault:?}"))?;
        }
        count += faults.len();
        tokio::time::sleep(Duration::from_millis(calm_ms)).await;
    }
    Ok(count)
}

fn number(variable: &str) -> Result<Option<u64>> {
    match std::env::var(variable) {
        Ok(text) => Ok(Some(text.parse().with_context(|| format!("{variable} must be a number"))?)),
        Err(_) => Ok(None),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_dies_under_load_nothing_is_lost_and_nothing_is_paid_twice() -> Result<()> {
    let lasts = Duration::from_secs(number("GW_CHAOS_SECONDS")?.unwrap_or(CHAOS_SECONDS));
    let seed = number("GW_CHAOS_SEED")?.unwrap_or_else(rand::random);
    println!("GW_CHAOS_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);

    let options =
        |options| Options { gateways: 3, nats_nodes: 3, refund_delay_seconds: REFUND_DELAY_SECONDS, ..options };
    let mut world = World::with(options).await?;
    let mut clients = Vec::new();
    for n in 0..PAYERS {
        clients.push(Client::endowed(&world.network, n).await?);
    }
    let before = holdings(&world, &clients).await?;

    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let mut payers = Vec::new();
    for (n, client) in clients.iter().enumerate() {
        let specs = PaymentSpecs::of(&world, n)?;
        let random = StdRng::seed_from_u64(random.r#gen());
        payers.push(tokio::spawn(pay(Arc::new(client.again()), specs, random, stop.clone(), asked.clone())));
    }
    let faults = rage(&mut world.network, &mut random, lasts).await?;
    stop.store(true, Ordering::SeqCst);
    for payer in payers {
        payer.await??;
    }
    for n in 0..3 {
        world.network.nats.cluster()?.current(n).await?;
        ensure!(world.network.gateway_runs(n)?, "gateway {n} has ended by itself");
        world.network.ready(n).await?;
    }

    let asked = std::mem::take(&mut *asked.lock().expect("nothing panics with the lock held"));
    let patience = FULFILLMENT_WINDOW + Duration::from_secs(REFUND_DELAY_SECONDS) + MARGIN;
    let tally = tally_outcomes(&world, &clients, &asked, &before, patience).await?;
    println!("{} payments through {faults} faults: {tally:?}", asked.len());
    let accepted = asked.iter().filter(|asked| asked.last_answer == LastAnswer::Accepted).count();
    assert!(accepted > 0 && tally.completed > 0, "the load was none: {tally:?}");
    assert!(tally.refunded > 0, "no money came back: {tally:?}");
    assert!(tally.repriced > 0, "no transaction was too cheap: {tally:?}");
    audited(&world).await
}

/// The auditor's own program, with its read-only credentials, proves every payment from the streams and the chains.
async fn audited(world: &World) -> Result<()> {
    let mut audit = Command::new(env!("CARGO_BIN_EXE_gw"));
    audit.arg("audit").arg("--config").arg(world.network.auditor_config()).args(["verify", "--all", "--json"]);
    let output = timeout(PATIENCE, audit.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.context("the audit does not end")??;
    let report = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the audit ended with {}: {report}\n{errors}", output.status);
    Ok(())
}
