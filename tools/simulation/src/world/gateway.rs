//! The processes of the gateway: the real engine over the simulated ports, crashing and restarted.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use chains::registry::ChainRegistry;
use events::{PaymentId, time::Timestamp};
use sagas::{
    reassignment::ReassignmentRule,
    runner::{Engine, Options, Ports, Runner},
};

use super::{
    SetupError, World,
    auction::SimAuction,
    parking::SimParking,
    ports::{PortContext, SimAdapter, SimLedger, SimVerifier},
    projection::{ProjectionStore, SimOpenStreams, follow},
    rpc_faults::rpc_faults,
    sim_journal::SimJournal,
    thief,
};
use crate::{coverage, family::GatewayProcess, plan::LapsesPlan, process::Process, random::RandomSource};

/// A slot for one process at a time.
pub struct Gateway {
    index: usize,
    /// Its read model.
    pub store: Arc<ProjectionStore>,
    running: Mutex<Option<Running>>,
}

struct Running {
    process: Arc<Process>,
    journal: Arc<SimJournal>,
    engine: Engine,
}

impl Gateway {
    /// An empty slot.
    pub fn new(index: usize) -> Self {
        Self { index, store: Arc::default(), running: Mutex::default() }
    }

    /// The one of `gateways`, at least one, that a load balancer picks.
    pub fn any<'a>(gateways: &'a [Self], random: &RandomSource) -> &'a Self {
        &gateways[usize::try_from(random.number(0..=gateways.len() as u64 - 1)).unwrap_or_default()]
    }

    /// The journal of the process that runs here, if one does.
    pub fn journal(&self) -> Option<Arc<SimJournal>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().filter(|running| !running.process.is_dead()).map(|running| running.journal.clone())
    }

    /// Sends a wake hint for a payment to the process that runs here, if one does.
    pub fn hint(&self, payment_id: &PaymentId) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref().filter(|running| !running.process.is_dead()) {
            running.engine.hint(payment_id);
        }
    }

    /// Cancels the planned crash of the process that runs here.
    pub fn spare(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref() {
            running.process.spare();
        }
    }

    /// Ends the process that runs here, at once.
    pub fn kill(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref() {
            running.process.end();
        }
    }

    /// What the clock here says, by which clients are answered.
    pub fn now(&self, world: &World) -> Timestamp {
        world.gateway_time(self.index)
    }

    /// Calls of its ports that the process has made.
    pub fn steps(&self) -> u64 {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map_or(0, |running| running.process.steps())
    }
}

/// Runs a process in slot `index`, and another whenever it has crashed.
pub async fn keep(world: Arc<World>, gateways: Arc<Vec<Gateway>>, index: usize) {
    let gateway = &gateways[index];
    let random = world.random(&format!("gateway {index}"));
    let planned = world.plan.gateways[index].dies_after;
    for incarnation in 0u64.. {
        let drawn = (world.plan.crash_every > 0).then(|| random.number(1..=2 * world.plan.crash_every));
        let dies_after = if incarnation == 0 { planned.or(drawn) } else { drawn };
        let process = Process::new(dies_after.filter(|_| !world.faults_ended()));
        let has_successor = world.has_successor(index);
        let mut tasks = match start(&world, gateway, &process, &random, incarnation) {
            Ok(tasks) => tasks,
            Err(error) => {
                world.note(format!("gateway {index} does not start: {error}"));
                return;
            }
        };
        tokio::select! {
            biased;
            () = process.ended() => {
                coverage::fault("death of a process");
                world.note(format!("fault: gateway {index} is dead"));
            }
            () = thief::submitter::replaced(&world, index), if !has_successor => {
                process.end();
                world.note(format!("gateway {index} is restarted with another submitter"));
            }
        }
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        sleep(Duration::from_millis(random.number(1..=20_000))).await;
        if random.chance(200) {
            coverage::fault("read model is lost");
            gateway.store.lose();
        }
    }
}

fn start(
    world: &Arc<World>,
    gateway: &Gateway,
    process: &Arc<Process>,
    random: &RandomSource,
    incarnation: u64,
) -> Result<JoinSet<()>, SetupError> {
    let index = gateway.index;
    let context = PortContext { world: world.clone(), process: process.clone(), random: random.clone(), slot: index };
    let clock = Arc::new(context.clone());
    let brings = GatewayProcess {
        submitters: world.submitters_of(index),
        draining: world.draining_of(index),
        ledger: Arc::new(SimLedger(context.clone())),
        budgets: Arc::new(world.budgets.clone()),
        clock: clock.clone(),
    };
    let (mut upkeep, mut registry) = (Vec::new(), ChainRegistry::new(clock.clone()));
    for handle in &world.chains {
        let faults = rpc_faults(Arc::downgrade(world), Some(process.clone()), random.clone());
        let adapter = handle.adapter(Box::new(faults), &brings)?;
        upkeep.extend(adapter.upkeep);
        let adapter = SimAdapter { inner: adapter.chain, watch: adapter.watch, context: context.clone() };
        registry = registry.with(Arc::new(adapter)).map_err(|error| SetupError::Connect(error.to_string()))?;
    }
    let journal = Arc::new(SimJournal::new(world.clone(), process.clone(), random.clone()));
    let ports = Ports {
        journal: journal.clone(),
        chains: Arc::new(registry),
        auction: Arc::new(SimAuction(context.clone())),
        verifier: Arc::new(SimVerifier::new(context.clone())),
        selector: Arc::new(context.clone()),
        open_streams: Arc::new(SimOpenStreams(gateway.store.clone())),
        parking: Arc::new(SimParking(context.clone())),
        clock: clock.clone(),
    };
    let LapsesPlan { reassignments_max, window, .. } = world.plan.lapses;
    let reassignment = ReassignmentRule { reassignments_max, window, ..ReassignmentRule::DEFAULT };
    let engine = Engine::new(ports, Options { reassignment, ..Options::default() });
    let runner = Runner::new(engine.clone(), format!("gateway {index} process {incarnation}"));
    let mut tasks = JoinSet::new();
    tasks.spawn(runner.run(CancellationToken::new()));
    for task in upkeep {
        tasks.spawn(task);
    }
    tasks.spawn(follow(world.clone(), journal.clone(), gateway.store.clone(), random.clone()));
    let running = Running { process: process.clone(), journal, engine };
    *gateway.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
    Ok(tasks)
}
