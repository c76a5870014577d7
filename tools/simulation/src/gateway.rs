//! The processes of the gateway: the real engine over the world's ports, dying and being started again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use chains_evm::adapter::{EvmChain, EvmChains, Keys};
use events::PaymentId;
use sagas::runner::{Engine, Options, Ports, Runner};

use crate::{
    auction::SimAuction,
    census,
    dice::Dice,
    fate::fate,
    journal::SimJournal,
    life::Life,
    parking::SimParking,
    ports::{Process, SimChains, SimLedger, SimVerifier},
    projection::{Shelf, SimOpenStreams, follow},
    world::{SetupError, World, signer},
};

/// A place for one process at a time.
pub struct Gateway {
    index: usize,
    /// Its read model.
    pub shelf: Arc<Shelf>,
    running: Mutex<Option<Running>>,
}

struct Running {
    life: Arc<Life>,
    journal: Arc<SimJournal>,
    engine: Engine,
}

impl Gateway {
    /// A place that is still empty.
    pub fn new(index: usize) -> Self {
        Self { index, shelf: Arc::default(), running: Mutex::default() }
    }

    /// The one of `gateways`, which are not none, that a load balancer hits on.
    pub fn any<'a>(gateways: &'a [Self], dice: &Dice) -> &'a Self {
        &gateways[usize::try_from(dice.number(0..=gateways.len() as u64 - 1)).unwrap_or_default()]
    }

    /// The journal of the process that runs here, if one does.
    pub fn journal(&self) -> Option<Arc<SimJournal>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().filter(|running| !running.life.is_dead()).map(|running| running.journal.clone())
    }

    /// Tells the process that runs here, if one does, to look at a payment now.
    pub fn nudge(&self, payment_id: &PaymentId) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref().filter(|running| !running.life.is_dead()) {
            running.engine.nudge(payment_id);
        }
    }

    /// The process that runs here dies no more.
    pub fn spare(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref() {
            running.life.spare();
        }
    }

    /// Calls of its ports that the process has made.
    pub fn steps(&self) -> u64 {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map_or(0, |running| running.life.steps())
    }
}

/// Runs a process at `gateway`, and another whenever it has died.
pub async fn keep(world: Arc<World>, gateways: Arc<Vec<Gateway>>, index: usize) {
    let gateway = &gateways[index];
    let dice = world.dice(&format!("gateway {index}"));
    let planned = world.plan.gateways[index].dies_after;
    for lives in 0u64.. {
        let drawn = (world.plan.crash_every > 0).then(|| dice.number(1..=2 * world.plan.crash_every));
        let dies_after = if lives == 0 { planned.or(drawn) } else { drawn };
        let life = Life::new(dies_after.filter(|_| !world.is_calm()));
        let mut tasks = match start(&world, gateway, &life, &dice, lives) {
            Ok(tasks) => tasks,
            Err(error) => {
                world.note(format!("gateway {index} does not start: {error}"));
                return;
            }
        };
        life.ended().await;
        census::fault("death of a process");
        world.note(format!("fault: gateway {index} is dead"));
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        sleep(Duration::from_millis(dice.number(1..=20_000))).await;
        if dice.chance(200) {
            census::fault("read model is lost");
            gateway.shelf.lose();
        }
    }
}

fn start(
    world: &Arc<World>,
    gateway: &Gateway,
    life: &Arc<Life>,
    dice: &Dice,
    lives: u64,
) -> Result<JoinSet<()>, SetupError> {
    let index = gateway.index;
    let skew_ms = world.plan.gateways[index].skew_ms;
    let process = Process { world: world.clone(), life: life.clone(), dice: dice.clone(), skew_ms };
    let submitters: Vec<_> = (0..world.plan.submitters).map(|number| signer(&format!("submitter {number}"))).collect();
    let mut chains = Vec::new();
    for place in &world.places {
        let node = place.connect(fate(Arc::downgrade(world), Some(life.clone()), dice.clone()))?;
        let keys = Keys { reserver: signer("reserver"), submitters: submitters.clone(), exit_submitters: Vec::new() };
        chains.push(EvmChain { node, keys: Some(keys) });
    }
    let clock = Arc::new(process.clone());
    let inner =
        EvmChains::new(chains, Arc::new(SimLedger(process.clone())), Arc::new(world.budgets.clone()), clock.clone());
    let inner = Arc::new(inner.map_err(|error| SetupError::Connect(error.to_string()))?);
    let journal = Arc::new(SimJournal::new(world.clone(), life.clone(), dice.clone()));
    let impostor = signer("impostor");
    let ports = Ports {
        journal: journal.clone(),
        chains: Arc::new(SimChains { inner: inner.clone(), process: process.clone() }),
        auction: Arc::new(SimAuction(process.clone())),
        verifier: Arc::new(SimVerifier { service: world.verifier(), process: process.clone(), impostor }),
        selector: Arc::new(process.clone()),
        open_streams: Arc::new(SimOpenStreams(gateway.shelf.clone())),
        parking: Arc::new(SimParking(process.clone())),
        clock,
    };
    let engine = Engine::new(ports, Options::default());
    let runner = Runner::new(engine.clone(), format!("gateway {index} life {lives}"));
    let mut tasks = JoinSet::new();
    tasks.spawn(runner.run(CancellationToken::new()));
    tasks.spawn(async move { inner.maintain().await });
    tasks.spawn(follow(world.clone(), journal.clone(), gateway.shelf.clone(), dice.clone()));
    let running = Running { life: life.clone(), journal, engine };
    *gateway.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
    Ok(tasks)
}
