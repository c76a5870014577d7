//! What can go wrong, to whom, and how it ends.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use alloy::primitives::U256;
use anyhow::{Context, Result};
use rand::{
    Rng,
    rngs::StdRng,
    seq::{IteratorRandom, SliceRandom},
};
use serde_json::Value;
use tokio::process::Command;

use devkit::{Process, Signal};
use devnet::network::{Chain, Network};

use super::{
    clocks::Clocks,
    sandbox::{Cut, GATEWAYS, SERVERS, Sandbox, has, others},
};
use crate::tron_faults::node::{LossyNode, Mode};

/// Most faults at a time; two may take the cluster's majority.
const FAULTS_MAX: usize = 3;
/// Longest time most faults last, longest time that one in four lasts, and longest time between faults, in milliseconds.
const FAULT_MS_MAX: u64 = 5_000;
const LONG_FAULT_MS_MAX: u64 = 12_000;
const CALM_MS_MAX: u64 = 2_500;
/// What a unit of gas costs once a chain is dear, in wei: fifty times what it costs when a chain begins. It goes down by an
/// eighth with each block that is not half full.
const DEAR_WEI: u64 = 50_000_000_000;
/// How far off a clock is set, in seconds. Verifiers take signatures that are up to a minute off.
const CLOCK_STEPS: [i64; 8] = [-90, -30, -5, -1, 1, 5, 30, 90];
/// How long each write of a slow disk to the medium takes longer, in microseconds.
const SLOW_SYNC_MICROS: u64 = 150_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Gateway(usize),
    Server(usize),
    Settler(u8),
    Verifier(u8),
    Source,
    Destination,
    Solana,
    Tron,
}

const VICTIMS: [Victim; 16] = [
    Victim::Gateway(0),
    Victim::Gateway(1),
    Victim::Gateway(2),
    Victim::Server(0),
    Victim::Server(1),
    Victim::Server(2),
    Victim::Settler(1),
    Victim::Settler(2),
    Victim::Settler(3),
    Victim::Verifier(1),
    Victim::Verifier(2),
    Victim::Verifier(3),
    Victim::Source,
    Victim::Destination,
    Victim::Solana,
    Victim::Tron,
];

/// What is done to a victim. A chain is ended in order and not by `kill -9`: anvil keeps its blocks in memory, and a
/// network whose blocks are gone for good is none that money can be on. What waited in its pool is lost either way. Of Solana
/// and Tron, the node that gateways ask is what fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It ends, and is started again.
    Killed(Victim),
    /// It stands still, and goes on where it was.
    Hung(Victim),
    /// A chain makes no blocks, and then dear ones: what was signed before is too cheap for them.
    Dear(Victim),
    /// The node says that it took a transaction, and loses it.
    Losing,
    /// Packets are lost, all of them.
    Cut(Cut),
    /// What a server sends is late, and some of it is lost.
    Narrow(usize),
    /// A server's disk is full, and the server is started again once there is room.
    DiskFull(usize),
    /// A server's disk takes its time.
    DiskSlow(usize),
    /// A gateway's clock is so many seconds off.
    Clock(usize, i64),
}

impl Fault {
    /// Its name without whom it befalls.
    fn name(self) -> &'static str {
        match self {
            Self::Killed(_) => "killed",
            Self::Hung(_) => "hung",
            Self::Dear(_) => "dear blocks",
            Self::Losing => "lost transactions",
            Self::Cut(Cut::Server(_)) => "server without the others",
            Self::Cut(Cut::Island(_)) => "server without anybody",
            Self::Cut(Cut::OneWay(..)) => "server not heard by another",
            Self::Cut(Cut::Pair(..)) => "two servers apart",
            Self::Cut(Cut::Gateway(_)) => "gateway without servers",
            Self::Cut(Cut::Link { .. }) => "gateway without one server",
            Self::Narrow(_) => "narrow link",
            Self::DiskFull(_) => "full disk",
            Self::DiskSlow(_) => "slow disk",
            Self::Clock(..) => "clock step",
        }
    }
}

/// What faults are made with.
pub struct Faults {
    /// Where there are namespaces.
    pub sandbox: Option<Sandbox>,
    /// Where there is libfaketime.
    pub clocks: Option<Clocks>,
    /// What gateways ask about Tron.
    pub tron: LossyNode,
    /// Whether a process can be slowed down at its writes.
    slows: bool,
    slowing: BTreeMap<usize, Process>,
    counts: BTreeMap<&'static str, usize>,
}

impl Faults {
    pub async fn new(sandbox: Option<Sandbox>, clocks: Option<Clocks>, tron: LossyNode) -> Self {
        let slows = has("strace", "-V").await;
        let missing = [
            (sandbox.is_none(), "no namespaces: no partitions, narrow links and full disks"),
            (clocks.is_none(), "no libfaketime: no clock steps"),
            (!slows, "no strace: no slow disks"),
        ];
        for (_, said) in missing.into_iter().filter(|(is_missing, _)| *is_missing) {
            println!("{said}");
        }
        Self { sandbox, clocks, tron, slows, slowing: BTreeMap::new(), counts: BTreeMap::new() }
    }

    /// How often each kind of fault came.
    pub fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    /// Faults until the time is over; afterwards everything runs.
    pub async fn rage(&mut self, network: &mut Network, random: &mut StdRng, lasts: Duration) -> Result<()> {
        let started = Instant::now();
        // One that is sure to come while deposits are under way.
        self.round(network, &[Fault::Dear(Victim::Source)], FAULT_MS_MAX).await?;
        while started.elapsed() < lasts {
            let number = random.gen_range(1..=FAULTS_MAX);
            let victims: Vec<Victim> = VICTIMS.choose_multiple(random, number).copied().collect();
            let faults: Vec<Fault> = victims.into_iter().map(|victim| self.draw(random, victim)).collect();
            let longest = if random.gen_ratio(1, 4) { LONG_FAULT_MS_MAX } else { FAULT_MS_MAX };
            let fault_ms = random.gen_range(200..longest);
            let calm_ms = random.gen_range(0..CALM_MS_MAX);
            println!("{:6.1} s: {faults:?} for {fault_ms} ms", started.elapsed().as_secs_f32());
            self.round(network, &faults, fault_ms).await?;
            tokio::time::sleep(Duration::from_millis(calm_ms)).await;
        }
        Ok(())
    }

    async fn round(&mut self, network: &mut Network, faults: &[Fault], fault_ms: u64) -> Result<()> {
        for fault in faults {
            self.begin(*fault, network).await.with_context(|| format!("{fault:?}"))?;
            *self.counts.entry(fault.name()).or_default() += 1;
        }
        tokio::time::sleep(Duration::from_millis(fault_ms)).await;
        for fault in faults {
            self.end(*fault, network).await.with_context(|| format!("end of {fault:?}"))?;
        }
        Ok(())
    }

    /// One of the victim's faults. The same is drawn on every machine; where one cannot do it, the victim is killed.
    fn draw(&self, random: &mut StdRng, victim: Victim) -> Fault {
        let mut faults = vec![Fault::Killed(victim), Fault::Hung(victim)];
        let other = others(0).chain([0]).choose(random).unwrap_or_default();
        let (server, step) = (random.gen_range(0..SERVERS), *CLOCK_STEPS.choose(random).unwrap_or(&1));
        match victim {
            Victim::Source | Victim::Destination => faults.push(Fault::Dear(victim)),
            Victim::Tron => faults.push(Fault::Losing),
            Victim::Server(n) => {
                let other = if other == n { (n + 1) % SERVERS } else { other };
                let cuts = [Cut::Server(n), Cut::Island(n), Cut::OneWay(n, other), Cut::Pair(n, other)];
                faults.extend(cuts.map(Fault::Cut));
                faults.extend([Fault::Narrow(n), Fault::DiskFull(n), Fault::DiskSlow(n)]);
            }
            Victim::Gateway(gateway) => {
                faults.extend([Cut::Gateway(gateway), Cut::Link { gateway, server }].map(Fault::Cut));
                faults.push(Fault::Clock(gateway, step));
            }
            Victim::Settler(_) | Victim::Verifier(_) | Victim::Solana => {}
        }
        let fault = faults[random.gen_range(0..faults.len())];
        if self.can(fault) { fault } else { Fault::Killed(victim) }
    }

    /// Whether this machine can do it.
    fn can(&self, fault: Fault) -> bool {
        match fault {
            Fault::Cut(_) | Fault::Narrow(_) | Fault::DiskFull(_) => self.sandbox.is_some(),
            Fault::DiskSlow(_) => self.slows,
            Fault::Clock(..) => self.clocks.is_some(),
            Fault::Killed(_) | Fault::Hung(_) | Fault::Dear(_) | Fault::Losing => true,
        }
    }

    fn sandbox(&mut self) -> Result<&mut Sandbox> {
        self.sandbox.as_mut().context("no sandbox")
    }

    async fn begin(&mut self, fault: Fault, network: &mut Network) -> Result<()> {
        match fault {
            Fault::Killed(Victim::Gateway(n)) => network.kill_gateway(n).await,
            Fault::Killed(Victim::Server(n)) => network.nats.cluster()?.kill(n).await,
            Fault::Killed(Victim::Settler(n)) => network.kill_settler(n).await,
            Fault::Killed(Victim::Verifier(n)) => network.kill_verifier(n).await,
            Fault::Killed(victim @ (Victim::Source | Victim::Destination)) => chain(network, victim).anvil.stop().await,
            Fault::Killed(Victim::Solana) => network.solana.as_mut().context("Solana")?.surfnet.stop().await,
            Fault::Killed(Victim::Tron) => self.node(Mode::Away),
            Fault::Hung(Victim::Tron) => self.node(Mode::Silent),
            Fault::Losing => self.node(Mode::Losing),
            Fault::Hung(victim) => hang(network, victim, Signal::Stop).await,
            Fault::Dear(victim) => blocks_every(chain(network, victim), 0).await,
            Fault::Cut(cut) => self.sandbox()?.cut(cut).await,
            Fault::Narrow(n) => self.sandbox()?.narrow(n).await,
            Fault::DiskFull(n) => self.sandbox()?.fill(n),
            Fault::DiskSlow(n) => self.slow_down(n, network),
            Fault::Clock(n, seconds) => self.clocks.as_ref().context("no clocks")?.set(n, seconds),
        }
    }

    async fn end(&mut self, fault: Fault, network: &mut Network) -> Result<()> {
        match fault {
            Fault::Killed(Victim::Gateway(n)) => network.spawn_gateway(n),
            Fault::Killed(Victim::Server(n)) => network.nats.cluster()?.restart(n),
            Fault::Killed(Victim::Settler(n)) => network.start_settler(n),
            Fault::Killed(Victim::Verifier(n)) => network.start_verifier(n).await,
            Fault::Killed(victim @ (Victim::Source | Victim::Destination)) => {
                chain(network, victim).anvil.restart().await
            }
            Fault::Killed(Victim::Solana) => network.solana.as_mut().context("Solana")?.surfnet.restart().await,
            Fault::Killed(Victim::Tron) | Fault::Hung(Victim::Tron) | Fault::Losing => self.node(Mode::Passing),
            Fault::Hung(victim) => hang(network, victim, Signal::Continue).await,
            Fault::Dear(victim) => {
                let seconds = network.options().block_seconds;
                let chain = chain(network, victim);
                let _: Value = chain.dev.rpc("anvil_setNextBlockBaseFeePerGas", (U256::from(DEAR_WEI),)).await?;
                blocks_every(chain, seconds).await
            }
            Fault::Cut(cut) => self.sandbox()?.heal(cut).await,
            Fault::Narrow(n) => self.sandbox()?.widen(n).await,
            Fault::DiskFull(n) => {
                // A server that could not write gives its streams up until it is started again.
                network.nats.cluster()?.kill(n).await?;
                self.sandbox()?.empty(n)?;
                network.nats.cluster()?.restart(n)
            }
            Fault::DiskSlow(n) => match self.slowing.remove(&n) {
                Some(mut strace) => {
                    strace.signal(Signal::Terminate).await?;
                    strace.wait().await.map(drop)
                }
                None => Ok(()),
            },
            Fault::Clock(n, _) => self.clocks.as_ref().context("no clocks")?.set(n, 0),
        }
    }

    fn node(&self, mode: Mode) -> Result<()> {
        self.tron.set(mode);
        Ok(())
    }

    /// Has each write of a server to its medium take longer.
    fn slow_down(&mut self, server: usize, network: &mut Network) -> Result<()> {
        let id = network.nats.cluster()?.id_of(server).context("the server does not run")?;
        let log = network.options().directory.join(format!("strace-{}.log", server + 1));
        let mut command = Command::new("strace");
        command.args(["-f", "-q", "-o", "/dev/null", "-e", "trace=fsync,fdatasync,sync_file_range"]);
        command.args(["-e", &format!("inject=fsync,fdatasync,sync_file_range:delay_enter={SLOW_SYNC_MICROS}")]);
        command.args(["-p", &id.to_string()]);
        self.slowing.insert(server, Process::spawn("strace", &mut command, &log)?);
        Ok(())
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
        (Victim::Verifier(n), _) => network.signal_verifier(n, signal).await,
        (Victim::Solana, Signal::Stop) => network.solana.as_ref().context("Solana")?.surfnet.pause().await,
        (Victim::Solana, _) => network.solana.as_ref().context("Solana")?.surfnet.resume().await,
        (Victim::Tron, _) => anyhow::bail!("the Tron node is in this process"),
    }
}

/// Both counts of what the faults need.
const _: () = assert!(GATEWAYS == 3 && SERVERS == 3, "the victims are three and three");
