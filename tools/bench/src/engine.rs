//! Engine benchmark: whole payments through the runner and the real journal, with a stub world without latency.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use events::{Did, quote::auction_of};
use gateway::clock::SystemClock;
use journal::{Commit, Journal, ShardLog as _, StreamStore as _, parking::memory::MemoryParking};
use sagas::runner::{Engine, Options, Ports, Runner};

use crate::{
    baseline::{self, IN_FLIGHT},
    context::{Context, SHARDS},
    environment::{Environment, PATIENCE, eventually},
    load::{self, Answered, Bound, Caller, Load},
    machine::processor_time,
    orders::in_parallel,
    report::{Rows, Target},
    world::{SETTLER, WINDOW, World},
    world_alone,
};

/// Name under which the engine owns its shards.
const OWNER: &str = "bench-engine";
/// Payments a second that an event store on PostgreSQL with group commit drove with as many in flight, on a machine with 2 cores:
/// to be ahead of. `bench/peers` measures the two side by side.
const POSTGRES: [f64; 3] = [2_515.0, 2_954.0, 3_184.0];

/// A running engine in a world of its own.
pub struct EngineRun {
    /// Its world.
    pub world: World,
    /// Processor time of this process in the last load, in microseconds.
    used_us: AtomicU64,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

/// A client that submits payments to the journal, one after the other, and waits until each is at rest.
struct Client {
    world: World,
    commits: Arc<Vec<Mutex<Option<Commit>>>>,
}

impl Caller for Client {
    async fn call(&mut self, number: usize) -> Result<Answered> {
        let commit = self.commits[number].lock().map(|mut commit| commit.take()).ok().flatten();
        let commit = commit.context("a payment is submitted once")?;
        let payment_id = commit.stream_id.payment().context("a payment")?.clone();
        let at_rest = self.world.expect(payment_id);
        self.world.append(&commit).await?;
        timeout(PATIENCE, at_rest).await.context("a payment does not come to rest")??;
        Ok(Answered::Served)
    }
}

impl EngineRun {
    /// Starts the engine and waits until it owns all shards.
    ///
    /// # Errors
    /// When it does not get them.
    pub async fn start(journal: impl Journal + 'static) -> Result<Self> {
        let settler = settler::dev::key(SETTLER).context("the demo's settlers")?;
        let world = World::new(Arc::new(journal), Did::from_ed25519(&settler.verifying_key()));
        let port = Arc::new(world.clone());
        let ports = Ports {
            journal: port.clone(),
            chains: port.clone(),
            auction: port.clone(),
            selector: port.clone(),
            verifier: port.clone(),
            open_streams: port,
            parking: Arc::new(MemoryParking::default()),
            clock: Arc::new(SystemClock),
        };
        let runner = Runner::new(Engine::new(ports, Options::default()), OWNER.to_owned());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(runner.run(shutdown.clone()));
        let run = Self { world, used_us: AtomicU64::new(0), shutdown, task };
        eventually("the engine owns all shards", async || Ok(run.world.owned() == run.world.shards())).await?;
        Ok(run)
    }

    /// Drives the payments `{name}-0 …` to rest, so many at a time; at `per_second` where that is given.
    ///
    /// # Errors
    /// When one does not get there.
    pub async fn drive(
        &self,
        context: &Context,
        name: &str,
        bound: Bound,
        in_flight: usize,
        per_second: Option<f64>,
    ) -> Result<Load> {
        let settler = settler::dev::key(SETTLER).context("the demo's settlers")?;
        let orders = context.payer.sign(name, 0..bound.calls, WINDOW)?;
        let quotes = in_parallel(0..orders.len(), |number| {
            let order = &orders[number];
            Ok((auction_of(&order.payment_id), order.quote(&settler)?))
        })?;
        self.world.quotes(quotes);
        let commits = in_parallel(0..orders.len(), |number| Ok(Mutex::new(Some(orders[number].commit()?))))?;
        drop(orders);
        let commits = Arc::new(commits);
        let client = |_| Client { world: self.world.clone(), commits: commits.clone() };
        let clients = (0..in_flight).map(client).collect();
        self.world.take_times();
        self.world.take_counts();
        let before = processor_time(std::process::id())?;
        let (load, _) = match per_second {
            Some(per_second) => load::open(clients, per_second, bound).await?,
            None => load::closed(clients, bound).await?,
        };
        let used = processor_time(std::process::id())? - before;
        self.used_us.store(u64::try_from(used.as_micros())?, Ordering::Relaxed);
        Ok(load)
    }

    /// Processor time that engine, journal's client, world and load have used in the last load, without what was signed for
    /// it before.
    pub fn used(&self) -> Duration {
        Duration::from_micros(self.used_us.load(Ordering::Relaxed))
    }

    /// Stops the engine.
    ///
    /// # Errors
    /// When it panicked.
    pub async fn stop(self) -> Result<()> {
        self.shutdown.cancel();
        self.task.await.context("the engine panicked")
    }
}

/// The bench.
///
/// # Errors
/// When it cannot be measured, or a payment does not come to rest.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let baseline = baseline::of(context).await?.best();
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let engine = EngineRun::start(environment.journal().await?).await?;
    let warm_up = Bound { calls: context.pick(10, 300), time: Duration::from_secs(30) };
    engine.drive(context, "warm-up", warm_up, 16, None).await?;

    let world = world_alone::measure(context, context.pick(50, 10_000), IN_FLIGHT[1]).await?;
    rows.add("processor time of the simulated world and the load, by themselves", world.as_micros() as f64, "us each");

    let alone = Bound { calls: context.pick(10, 500), time: Duration::from_secs(context.pick(5, 15)) };
    engine.drive(context, "alone", alone, 1, None).await?;
    add_times(rows, "one payment at a time", &engine.world, false);

    let (mut best, mut stored_before) = (0.0_f64, environment.stored().await?);
    for (in_flight, postgres) in IN_FLIGHT.into_iter().zip(POSTGRES) {
        let nats_before = environment.nats_time()?;
        let load =
            engine.drive(context, &format!("closed-{in_flight}"), context.bound(80, 30_000), in_flight, None).await?;
        let (commits, loads) = engine.world.take_counts();
        let (used, nats) = (engine.used(), environment.nats_time()? - nats_before);
        let stored = environment.stored().await?;
        ensure!(stored.0 - stored_before.0 == commits, "{commits} commits were acknowledged, {stored:?} are stored");
        let name = format!("payments, {in_flight} in flight");
        rows.add(&name, load.rate(), "a second").target(Target::AtLeast(postgres));
        best = best.max(load.rate());
        rows.add(format!("{name}: commits"), commits as f64 / load.served as f64, "each").target(Target::AtMost(8.0));
        rows.add(format!("{name}: loads of the stream"), loads as f64 / load.served as f64, "each");
        let bytes = (stored.1 - stored_before.1) as f64 / load.served as f64;
        rows.add(format!("{name}: size in the streams"), bytes, "bytes each");
        rows.add(format!("{name}: appends"), commits as f64 / load.elapsed.as_secs_f64(), "a second")
            .of_baseline(baseline);
        let each = |used: Duration| used.as_micros() as f64 / load.served.max(1) as f64;
        rows.add(format!("{name}: processor time of the engine"), each(used) - world.as_micros() as f64, "us each")
            .target(Target::AtMost(350.0));
        rows.add(format!("{name}: processor time of nats-server"), each(nats), "us each").target(Target::AtMost(200.0));
        rows.add(format!("{name}: whole payment, p50"), load.latencies.ms(0.5), "ms");
        rows.add(format!("{name}: whole payment, p99"), load.latencies.ms(0.99), "ms");
        stored_before = stored;
    }
    rows.add("payments, the most", best, "a second");

    let time = Duration::from_secs(context.pick(1, 10));
    let bound = Bound { calls: (best / 2.0 * time.as_secs_f64()) as usize + 1, time };
    let load = engine.drive(context, "half", bound, IN_FLIGHT[1], Some(best / 2.0)).await?;
    rows.add("payments at half of that", load.rate(), "a second");
    add_times(rows, "payments at half of that", &engine.world, true);
    engine.stop().await
}

fn add_times(rows: &mut Rows, name: &str, world: &World, judged: bool) {
    let times = world.take_times();
    rows.add(format!("{name}: engine time between chain events, p50"), times.between_events.ms(0.5), "ms");
    if judged {
        rows.target(Target::AtMost(1.0));
    }
    rows.add(format!("{name}: engine time between chain events, p99"), times.between_events.ms(0.99), "ms");
    if judged {
        rows.target(Target::AtMost(20.0));
    }
    rows.add(format!("{name}: submission to deposit, p50"), times.to_deposit.ms(0.5), "ms");
    rows.add(format!("{name}: submission to deposit, p99"), times.to_deposit.ms(0.99), "ms");
}
