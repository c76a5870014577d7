//! Simulation run: a seed, from the start until all payments are at rest.

use std::{
    cell::Cell,
    sync::{Arc, Once},
    time::Duration,
};

use tokio::{runtime::Builder, task::JoinSet, time::sleep};

use events::Hash32;
use journal::parking::Parking;

use crate::{
    blocks,
    coverage::{self, FaultCoverage},
    plan::Plan,
    world::{
        BEGIN, SetupError, World, client, clocks, epochs,
        gateway::{self, Gateway},
        invariants::{Violation, require},
        operator, reports, sim_journal, stranger, thief,
    },
};

/// How long a run goes on after everything is at rest, to see that it stays so: first with faults, then without.
const AFTER_REST: Duration = Duration::from_secs(45);

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// SHA-256 over everything that happened.
    pub digest: Hash32,
    /// Lines of the trace.
    pub lines: u64,
    /// Payments that were completed.
    pub completed: usize,
    /// Payments that failed.
    pub failed: usize,
    /// Simulated seconds.
    pub seconds: u64,
    /// Calls that each gateway's last process made.
    pub steps: Vec<u64>,
    /// Which faults struck, and how often.
    pub coverage: FaultCoverage,
    /// The violated invariant.
    pub violation: Option<Violation>,
    /// The end of the trace, of a run with a violation.
    pub tail: Vec<String>,
}

/// Runs `plan` with the random source of `seed`, in this thread; prints its trace when `print`.
///
/// # Errors
/// [`SetupError`] when there is nothing to run on.
pub fn run(seed: u64, plan: Plan, print: bool) -> Result<Report, SetupError> {
    count_panics();
    PANICS.set(0);
    // Counts that an earlier run in this thread left, if it ended in an error.
    drop(coverage::take());
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| SetupError::Connect(error.to_string()))?;
    let report = runtime.block_on(live(seed, plan, print));
    drop(runtime);
    report
}

/// A panic is a violation, wherever it is; tokio would keep it to its task.
fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

async fn live(seed: u64, plan: Plan, print: bool) -> Result<Report, SetupError> {
    let world = World::new(seed, plan, print)?;
    let gateways: Arc<Vec<Gateway>> = Arc::new((0..world.plan.gateways.len()).map(Gateway::new).collect());
    let mut tasks = JoinSet::new();
    for index in 0..world.chains.len() {
        tasks.spawn(blocks::produce(world.clone(), index));
    }
    tasks.spawn(sim_journal::keep_shards(world.clone()));
    tasks.spawn(operator::look(world.clone()));
    tasks.spawn(reports::bring(world.clone(), gateways.clone()));
    tasks.spawn(thief::steal(world.clone()));
    tasks.spawn(thief::reserver::usurp(world.clone()));
    tasks.spawn(thief::submitter::misuse(world.clone()));
    tasks.spawn(stranger::meddle(world.clone()));
    tasks.spawn(clocks::tell(world.clone()));
    tasks.spawn(epochs::operate(world.clone(), gateways.clone()));
    for index in 0..gateways.len() {
        tasks.spawn(gateway::keep(world.clone(), gateways.clone(), index));
    }
    for number in 0..world.plan.payments.len() {
        tasks.spawn(client::pay(world.clone(), gateways.clone(), number));
    }
    let faults_end_at = world.plan.faults_end_after;
    tasks.spawn({
        let (world, gateways) = (world.clone(), gateways.clone());
        async move {
            sleep(faults_end_at).await;
            world.end_faults();
            gateways.iter().for_each(Gateway::spare);
        }
    });

    let calm = BEGIN + faults_end_at.as_secs();
    let finished = async {
        loop {
            // Polled in this order: only the seed decides what is random.
            tokio::select! {
                biased;
                () = world.changed.notified() => {}
                () = sleep(Duration::from_secs(5)) => {}
            }
            if world.violation().is_some() {
                return;
            }
            if world.invariants().is_done(&world) {
                sleep(AFTER_REST).await;
                // Read models that were lost have to be whole again in the end.
                world.end_faults();
                gateways.iter().for_each(Gateway::spare);
                sleep(AFTER_REST).await;
                return;
            }
            if world.seconds() > world.invariants().rest_by(calm) {
                return;
            }
        }
    };
    finished.await;
    let views: Vec<_> = gateways.iter().map(|gateway| gateway.store.views()).collect();
    let parked = world.parking.parked().await.unwrap_or_default();
    world.judge(require(parked.is_empty(), "nothing needs an operator", || format!("{parked:?}")));
    if world.violation().is_none() {
        let held = world.invariants().closed(&world, &views);
        world.judge(held);
    }
    world.judge(require(PANICS.get() == 0, "nothing panics", || format!("{} panics", PANICS.get())));
    let (digest, lines, tail) = world.traced();
    let (completed, failed) = world.invariants().ends();
    let violation = world.violation();
    tasks.abort_all();
    Ok(Report {
        seed,
        digest,
        lines,
        completed,
        failed,
        seconds: world.elapsed().as_secs(),
        steps: gateways.iter().map(Gateway::steps).collect(),
        tail: if violation.is_some() { tail } else { Vec::new() },
        violation,
        coverage: coverage::take(),
    })
}
