//! Shards change hands when a gateway dies, and when it is told to stop.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_nats::{
    Client,
    jetstream::{self, kv::Store},
};
use futures::future::{join_all, try_join_all};
use serde_json::Value;

use devkit::Signal;
use devnet::{payer::PaymentSpec, users::NatsUser};
use events::PaymentId;
use journal::{ShardLeases, ShardWorker, WakeUp};
use journal_jetstream::store::NatsJournal;

use crate::support::*;

const SHARDS: u16 = 8;

/// Who holds which shard, as the leases say.
struct Leases(Store);

impl Leases {
    async fn open(client: Client) -> Result<Self> {
        Ok(Self(jetstream::new(client).get_key_value("gw_leases").await?))
    }

    /// The owner of a shard with the revision of its lease.
    async fn of(&self, shard: u16) -> Result<(String, u64)> {
        let Some(entry) = self.0.entry(format!("{shard:02}")).await? else { return Ok(Default::default()) };
        let value: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        Ok((value["owner"].as_str().unwrap_or_default().to_owned(), entry.revision))
    }

    async fn all_are(&self, shards: impl IntoIterator<Item = u16>, owner: &str) -> Result<bool> {
        let owners = try_join_all(shards.into_iter().map(|shard| self.of(shard))).await?;
        Ok(owners.iter().all(|(of, _)| of == owner))
    }

    /// Waits until `owner` has all of `shards`.
    async fn until(&self, shards: std::ops::Range<u16>, owner: &str) -> Result<()> {
        let held = || async { self.all_are(shards.clone(), owner).await.unwrap_or_default() };
        eventually(held).await.with_context(|| format!("{owner} does not get {shards:?}"))
    }

    /// Waits until the lease of a shard is written anew, and says by whom.
    async fn next_of(&self, shard: u16) -> Result<String> {
        let (_, before) = self.of(shard).await?;
        eventually(|| async { self.of(shard).await.is_ok_and(|(_, revision)| revision > before) }).await?;
        Ok(self.of(shard).await?.0)
    }
}

async fn gateways_client(world: &World) -> Result<Client> {
    world.network.nats.connect(NatsUser::Gateway).await
}

/// The name under which gateway `n` owns shards since it was started last.
fn owner(world: &World, n: usize) -> Result<String> {
    let log = world.network.log(&format!("gateway-{}", n + 1))?;
    let line = log.lines().rfind(|line| line.contains("gateway listens")).context("it does not listen yet")?;
    let name = line.rsplit("owner=").next().context("the log names no owner")?;
    Ok(name.split_whitespace().next().unwrap_or_default().trim_matches('"').to_owned())
}

/// Holds a shard without driving anything in it.
async fn hold(journal: &NatsJournal, shard: u16) -> Result<Box<dyn ShardWorker>> {
    let mut worker = journal.work(shard, "the test").await;
    match tokio::time::timeout(PATIENCE, worker.next()).await?? {
        WakeUp::Acquired => Ok(worker),
        other => bail!("{other:?}"),
    }
}

/// Shares the shards out: 0 to 3 for the first gateway, 4 to 6 for the second. The last one is held by the worker that is
/// returned.
async fn share_out(world: &mut World, leases: &Leases) -> Result<Box<dyn ShardWorker>> {
    let journal =
        NatsJournal::connect(gateways_client(world).await?, journal_jetstream::store::Options::default()).await?;
    for _ in 0..5 {
        for n in 0..2 {
            world.network.kill_gateway(n).await?;
        }
        let mut held = try_join_all((0..SHARDS).map(|shard| hold(&journal, shard))).await?;
        world.network.start_gateway(0).await?;
        let last = held.pop().context("no shards")?;
        let second = held.split_off(4);
        join_all(held.into_iter().map(ShardWorker::release)).await;
        leases.until(0..4, &owner(world, 0)?).await?;
        world.network.start_gateway(1).await?;
        // The first one cannot compete for what is let go now; unless this takes so long that it loses what it has.
        world.network.signal_gateway(0, Signal::Stop).await?;
        join_all(second.into_iter().map(ShardWorker::release)).await;
        let taken = leases.until(4..7, &owner(world, 1)?).await;
        world.network.signal_gateway(0, Signal::Continue).await?;
        taken?;
        if leases.next_of(0).await? == owner(world, 0)? && leases.all_are(0..4, &owner(world, 0)?).await? {
            for n in 0..2 {
                world.network.ready(n).await?;
            }
            return Ok(last);
        }
        last.release().await;
    }
    bail!("the shards could not be shared out")
}

/// Submits a payment of one of `shards` through gateway `n`.
async fn submit(world: &World, n: usize, name: &str, shards: std::ops::Range<u16>) -> Result<PaymentId> {
    let names = (0..).map(|salt: u32| format!("{name}-{salt}"));
    let mut of_these = names.filter(|name| shards.contains(&world.payer.payment_id(name).shard(SHARDS)));
    // Time enough for a shard that changes hands while quotes are collected.
    let spec = world.spec(&of_these.next().context("endless")?)?;
    let spec = PaymentSpec { quote_window: PATIENCE, fulfillment_window: 2 * PATIENCE, ..spec };
    let body = world.payer.sign(&world.base(n), &spec).await?;
    let answer = world.payer.submit(&world.base(n), &body, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer.text("payment_id").parse()?)
}

async fn completes(world: &World, n: usize, payment_id: &PaymentId) -> Result<()> {
    let outcome = world.payer.outcome(&world.base(n), payment_id.as_str(), PATIENCE).await?;
    ensure!(outcome.text("status") == "completed", "{outcome:?}");
    world.until(payment_id, "EscrowReleased").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shards_of_a_killed_gateway_go_on_with_the_other_and_no_other_shard_stops() -> Result<()> {
    let mut world = World::start(2).await?;
    let leases = Leases::open(gateways_client(&world).await?).await?;
    let hung = share_out(&mut world, &leases).await?;
    let survivor = owner(&world, 1)?;

    let mut left_behind = Vec::new();
    for n in 0..3 {
        left_behind.push(submit(&world, 1, &format!("left-behind-{n}"), 0..4).await?);
    }
    let mut elsewhere = vec![submit(&world, 1, "elsewhere", 4..7).await?];
    let held_up = submit(&world, 1, "held-up", 7..8).await?;
    for payment_id in &left_behind {
        world.until(payment_id, "DepositPrepared").await?;
    }

    world.network.kill_gateway(0).await?;
    let killed = Instant::now();
    let fresh = submit(&world, 1, "after-the-kill", 0..4).await?;
    elsewhere.push(submit(&world, 1, "elsewhere-after-the-kill", 4..7).await?);
    let (taken, decided) = tokio::join!(
        async {
            leases.until(0..4, &survivor).await?;
            Ok::<_, anyhow::Error>(killed.elapsed())
        },
        async {
            world.until(&fresh, "AuctionClosed").await?;
            Ok::<_, anyhow::Error>(killed.elapsed())
        }
    );
    let (taken, decided) = (taken?, decided?);
    println!("after the kill: leases taken over in {taken:?}, first new payment awarded after {decided:?}");

    for payment_id in left_behind.iter().chain([&fresh]).chain(&elsewhere) {
        completes(&world, 1, payment_id).await?;
    }
    // Somebody held a shard all the while and did nothing in it: that stopped this shard alone.
    assert_eq!(world.types(&held_up).await?, ["Submitted"]);
    hung.release().await;
    completes(&world, 1, &held_up).await?;

    let all: Vec<PaymentId> = left_behind.into_iter().chain(elsewhere).chain([fresh, held_up]).collect();
    world.settled_once(&all).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_told_to_stop_answers_whoever_it_holds_and_hands_its_shards_over() -> Result<()> {
    let mut world = World::start(2).await?;
    let leases = Leases::open(gateways_client(&world).await?).await?;
    let owners = [owner(&world, 0)?, owner(&world, 1)?];
    let all_held = || async {
        let held = try_join_all((0..SHARDS).map(|shard| leases.of(shard))).await;
        held.is_ok_and(|held| held.iter().all(|(owner, _)| owners.contains(owner)))
    };
    eventually(all_held).await?;
    // Whoever holds the payment's shard is the one that stops.
    let request_id = "held";
    let payment_id = world.payer.payment_id(request_id);
    let (holder, _) = leases.of(payment_id.shard(SHARDS)).await?;
    let stops = usize::from(holder == owners[1]);
    let goes_on = 1 - stops;
    let held = try_join_all((0..SHARDS).map(|shard| leases.of(shard))).await?;
    let owned = held.iter().filter(|(owner, _)| *owner == owners[stops]).count();

    let body = world.payer.sign(&world.base(stops), &world.spec(request_id)?).await?;
    let base = world.base(stops);
    let submission = world.payer.submit(&base, &body, Duration::from_secs(30));
    let stopping = async {
        world.until(&payment_id, "DepositPrepared").await?;
        world.network.signal_gateway(stops, Signal::Terminate).await?;
        Ok::<_, anyhow::Error>(Instant::now())
    };
    let (answer, told) = tokio::join!(submission, stopping);
    let (answer, told) = (answer?, told?);
    let answered = told.elapsed();
    // What it says is true: accepted, this payment, and not at its end yet, or else at the end that it has.
    assert_eq!((answer.status, answer.text("payment_id")), (200, payment_id.as_str()), "{answer:?}");
    assert!(matches!(answer.text("status"), "pending" | "finalizing" | "completed"), "{answer:?}");

    leases.until(0..SHARDS, &owners[goes_on]).await?;
    println!("after SIGTERM: held client answered in {answered:?}, all shards handed over in {:?}", told.elapsed());
    let ended = async {
        while world.network.gateway_runs(stops)? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, anyhow::Error>(())
    };
    tokio::time::timeout(PATIENCE, ended).await.context("it does not end")??;
    // Handed over, not left to run out.
    let log = world.network.log(&format!("gateway-{}", stops + 1))?;
    let given_up = log.lines().filter(|line| line.contains("shard is given up") && line.contains("ended=true"));
    assert_eq!(given_up.count(), owned, "{log}");

    completes(&world, goes_on, &payment_id).await?;
    let replay = world.payer.submit(&world.base(goes_on), &body, Duration::ZERO).await?;
    assert_eq!(replay.body["idempotent_replay"], true, "{replay:?}");
    world.settled_once(&[payment_id]).await
}
