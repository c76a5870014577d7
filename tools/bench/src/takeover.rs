//! Two gateways; the one that owns all shards is killed with `kill -9` while it has an open payment in each. The time
//! until the other's first decision about each of them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chrono::{DateTime, SubsecRound, Utc};

use journal::StreamStore;
use journal_jetstream::store::NatsJournal;

use crate::{
    context::{Context, SHARDS},
    environment::{Environment, eventually},
    http::Connection,
    load::Latencies,
    orders::Order,
    report::{Rows, Target},
};

/// Time from the submissions until the quotes' deadline: the decision is due when nobody is there to take it.
const WINDOW: Duration = Duration::from_secs(3);
/// How long before the deadline the owner is killed.
const BEFORE: Duration = Duration::from_millis(100);

/// The bench.
///
/// # Errors
/// When it cannot be measured, or nobody takes over.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let journal = environment.journal().await?;
    let mut owner = environment.gateway("gateway-1").await?;
    owns_all(&journal, None).await?;
    let mut other = environment.gateway("gateway-2").await?;
    let mut taken = Latencies::new();
    let mut first = Latencies::new();
    for round in 0..context.pick(1, 6) {
        let name = owns_all(&journal, None).await?;
        let deadline = (Utc::now() + WINDOW).trunc_subsecs(0) + Duration::from_secs(1);
        let orders = one_in_each_shard(context, round, deadline)?;
        let mut connection = Connection::open(other.port).await?;
        for order in &orders {
            let (status, body) = connection.submit(order.body.clone()).await?;
            ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        }
        let until = (deadline - BEFORE - Utc::now()).to_std().context("submitting took too long")?;
        tokio::time::sleep(until).await;
        let killed = Utc::now();
        owner.kill().await?;
        let mut decided = Vec::new();
        for order in &orders {
            decided.push(decision(&journal, order).await?);
        }
        let name_after = owns_all(&journal, Some(&name)).await?;
        ensure!(name_after != name, "the killed gateway still owns a shard");
        for decided in &decided {
            ensure!(*decided > killed, "a decision of the time before");
            taken.record((*decided - killed).to_std()?);
        }
        let earliest = decided.iter().min().context("there are shards")?;
        first.record((*earliest - killed).to_std()?);
        environment.restart(&mut owner).await?;
        std::mem::swap(&mut owner, &mut other);
    }
    rows.add("kill -9 to the first new decision, the longest", first.max_ms() / 1_000.0, "s")
        .target(Target::AtMost(1.0));
    rows.add("kill -9 to the first decision of each shard, p50", taken.ms(0.5) / 1_000.0, "s");
    rows.add("kill -9 to the first decision of each shard, the longest", taken.max_ms() / 1_000.0, "s")
        .target(Target::AtMost(2.0));
    Ok(())
}

/// Waits until one owner, another than `before`, has all shards.
async fn owns_all(journal: &NatsJournal, before: Option<&str>) -> Result<String> {
    let mut found = None;
    eventually("one gateway owns all shards", async || {
        let mut owners = Vec::new();
        for shard in 0..SHARDS {
            owners.push(journal.owner(shard).await?);
        }
        let first = owners[0].clone();
        let one = first.is_some() && first.as_deref() != before && owners.iter().all(|owner| *owner == first);
        found = first.filter(|_| one);
        Ok(one)
    })
    .await?;
    found.context("an owner")
}

fn one_in_each_shard(context: &Context, round: usize, deadline: DateTime<Utc>) -> Result<Vec<Order>> {
    let mut orders: Vec<Option<Order>> = (0..SHARDS).map(|_| None).collect();
    let mut salt = 0;
    while orders.iter().any(Option::is_none) {
        let request_id = format!("takeover-{round}-{salt}");
        let order = context.payer.sign_one(&request_id, deadline, deadline + Duration::from_secs(600))?;
        orders[usize::from(order.payment_id.shard(SHARDS))].get_or_insert(order);
        salt += 1;
    }
    Ok(orders.into_iter().flatten().collect())
}

/// When the first decision about a payment was stored.
async fn decision(journal: &NatsJournal, order: &Order) -> Result<DateTime<Utc>> {
    let mut stored_at = None;
    eventually("a payment is decided on", async || {
        let commits = journal.load(&order.payment_id.clone().into()).await?;
        stored_at = commits.get(1).map(|commit| commit.stored_at);
        Ok(stored_at.is_some())
    })
    .await?;
    stored_at.context("a decision")
}
