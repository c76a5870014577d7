//! Chaos under load: gateways, nats-servers, chains of every family, settlers and verifiers are killed and hung, cut off from each
//! other and set to other times, disks are full and slow, and blocks become dear, while payers on three families submit,
//! submit twice, choose quotes and meet a settler that never delivers. Afterwards every accepted payment has ended, the
//! chains' balances add up, the audit passes, and the history of all calls is linearizable.
//!
//! `GW_CHAOS_SECONDS` says for how long, `GW_CHAOS_SEED` which faults; the seed is printed. It fixes what is done to whom
//! and in which order. How the processes take it is theirs, so a seed that failed is worth running more than once.
//! `GW_CHAOS_HISTORY` names the file that the history is kept in. What this machine does not allow is said, and left out.

mod clocks;
mod faults;
mod load;
mod sandbox;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rand::{SeedableRng, rngs::StdRng};
use tokio::{process::Command, time::timeout};

use devkit::free_port;
use devnet::{
    network::{Options, Verifiers},
    solana::SolanaOptions,
    tron::TronOptions,
};

use self::{
    clocks::Clocks,
    faults::Faults,
    load::{FULFILLMENT_WINDOW, Load},
    sandbox::{GATEWAYS, SERVERS, Sandbox, Where},
};
use crate::{
    support::{
        client::LastAnswer,
        outcome_tally::{holdings, tally_outcomes},
        recorder::Recorder,
        *,
    },
    tron_faults::node::LossyNode,
};

/// How long faults come when nothing else is said.
const CHAOS_SECONDS: u64 = 45;
const REFUND_DELAY_SECONDS: u64 = 45;
/// What must have ended this long after its windows has not.
const MARGIN: Duration = Duration::from_secs(90);
/// How many payments are audited in a second, at least.
const AUDITED_PER_SECOND: u64 = 2;
/// This test, as its program knows it.
const NAME: &str = "chaos::whatever_dies_under_load_nothing_is_lost_and_nothing_is_paid_twice";

fn number(variable: &str) -> Result<Option<u64>> {
    match std::env::var(variable) {
        Ok(text) => Ok(Some(text.parse().with_context(|| format!("{variable} must be a number"))?)),
        Err(_) => Ok(None),
    }
}

/// A network of every family, with what faults are made with.
async fn start(inside: bool) -> Result<(World, Faults)> {
    let sandbox = if inside { Some(Sandbox::build().await?) } else { None };
    let places = sandbox.as_ref().map(Sandbox::places).unwrap_or_default();
    let clocks = Clocks::of(GATEWAYS, Path::new(env!("CARGO_BIN_EXE_gw")))?;
    let port = free_port()?;
    let node = LossyNode::start(port).await?;
    let tron = TronOptions { port: Some(port), gateway_rpc_url: Some(node.url()), ..TronOptions::default() };
    let options = |options: Options| Options {
        gw: clocks.as_ref().map_or(options.gw, Clocks::program),
        gateways: GATEWAYS,
        nats_nodes: SERVERS,
        nats_places: places,
        refund_delay_seconds: REFUND_DELAY_SECONDS,
        solana: Some(SolanaOptions::default()),
        tron: Some(tron),
        verifiers: Verifiers { members: 3, threshold: 2 },
        ..options
    };
    let world = World::with(options).await?;
    Ok((world, Faults::new(sandbox, clocks, node).await))
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_dies_under_load_nothing_is_lost_and_nothing_is_paid_twice() -> Result<()> {
    let inside = match sandbox::enter(NAME).await? {
        Where::Done => return Ok(()),
        Where::Inside => true,
        Where::Outside => false,
    };
    let lasts = Duration::from_secs(number("GW_CHAOS_SECONDS")?.unwrap_or(CHAOS_SECONDS));
    let seed = number("GW_CHAOS_SEED")?.unwrap_or_else(rand::random);
    println!("GW_CHAOS_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let kept = std::env::var_os("GW_CHAOS_HISTORY").map(PathBuf::from);
    let path = kept.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("gw-chaos-{seed}.jsonl")));

    let (mut world, mut faults) = start(inside).await?;
    let recorder = Arc::new(Recorder::create(&path)?);
    let clients = load::payers(&world, &recorder).await?;
    let before = holdings(&world, &clients).await?;
    let load = Load::start(&world, &clients, &mut random)?;
    faults.rage(&mut world.network, &mut random, lasts).await?;
    let asked = load.stop().await?;
    for n in 0..SERVERS {
        world.network.nats.cluster()?.current(n).await?;
    }
    for n in 0..GATEWAYS {
        ensure!(world.network.gateway_runs(n)?, "gateway {n} has ended by itself");
        world.network.ready(n).await?;
    }

    let judged = recorder.judge();
    println!("{judged:?}");
    let patience = FULFILLMENT_WINDOW + Duration::from_secs(REFUND_DELAY_SECONDS) + MARGIN;
    let tally = tally_outcomes(&world, &clients, &asked, &before, patience).await?;
    println!("{} payments through {:?}: {tally:?}", asked.len(), faults.counts());
    judged?;
    let accepted = asked.iter().filter(|asked| asked.last_answer == LastAnswer::Accepted).count();
    assert!(accepted > 0 && tally.completed > 0, "the load was none: {tally:?}");
    assert!(tally.refunded > 0, "no money came back: {tally:?}");
    assert!(tally.repriced > 0, "no transaction was too cheap: {tally:?}");
    audited(&world, asked.len()).await?;
    if kept.is_none() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// The auditor's own program, with its read-only credentials, proves every payment from the streams and the chains.
async fn audited(world: &World, payments: usize) -> Result<()> {
    let started = Instant::now();
    let mut audit = Command::new(env!("CARGO_BIN_EXE_gw"));
    audit.arg("audit").arg("--config").arg(world.network.auditor_config()).args(["verify", "--all", "--json"]);
    let patience = PATIENCE + Duration::from_secs(u64::try_from(payments)? / AUDITED_PER_SECOND);
    let output = timeout(patience, audit.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.context("the audit does not end")??;
    let report = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the audit ended with {}: {report}\n{errors}", output.status);
    println!("audited in {:?}", started.elapsed());
    Ok(())
}
