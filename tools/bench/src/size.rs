//! The size of payments: memory of gateway and nats-server, and disk, as they become more. Open ones, whose auction the
//! gateway itself keeps open; open ones, whose delivery it waits for on a chain in which nothing happens; open ones that come
//! to rest, which shows what a gateway keeps of them; and ones at rest, which it only shows.

use std::{ops::Range, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use events::{Event, PaymentId};
use journal::StreamStore;

use crate::{
    baseline::IN_FLIGHT,
    context::{Context, SHARDS, Size},
    engine::EngineRun,
    environment::{Environment, Gateway, eventually},
    http::Connection,
    load::Bound,
    orders::in_parallel,
    payment_commits::after_submission,
    report::{Rows, Target},
    status::{path, submit_orders},
};

/// Payments made at a time.
const CHUNK: usize = 10_000;
/// How long quotes are collected: longer than the bench takes.
const WINDOW: Duration = Duration::from_secs(6 * 3_600);
/// How long it may take until auctions that are over have ended.
const ENDING_MAX: Duration = Duration::from_secs(600);
/// Decisions after the submission of a payment whose escrow is secured and whose delivery was not seen.
const UNDELIVERED: usize = 3;
/// Time between two looks at what an allocator has given back.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Looks at the most until that has come to an end.
const LOOKS_MAX: usize = 15;
const MIB: f64 = 1024.0 * 1024.0;

/// The bench.
///
/// # Errors
/// When it cannot be measured.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let steps: &[usize] = match context.size {
        Size::Brief => &[50, 100],
        Size::Usual => &[10_000, 50_000, 100_000],
        Size::Full => &[10_000, 50_000, 100_000, 1_000_000],
    };
    open(context, rows, steps).await?;
    undelivered(context, rows, steps).await?;
    ending(context, rows).await?;
    at_rest(context, rows, steps).await
}

async fn open(context: &Context, rows: &mut Rows, steps: &[usize]) -> Result<()> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let gateway = environment.gateway("gateway").await?;
    let empty = Taken::now(&environment, &gateway)?;
    rows.add("no payments: memory of the gateway", empty.gateway / MIB, "MiB");
    rows.add("no payments: of that backed by no file", empty.anonymous / MIB, "MiB");
    rows.add("no payments: memory of nats-server", empty.nats / MIB, "MiB");
    let mut made = 0;
    for &payments in steps {
        let last = submit(context, &gateway, "open", made..payments, WINDOW).await?;
        made = payments;
        shown(&gateway, &last, "pending").await?;
        Taken::settled(&environment, &gateway).await?.add_open(rows, &format!("{payments} open"), payments, &empty);
    }
    Ok(())
}

/// Payments in escrow that are not delivered.
async fn undelivered(context: &Context, rows: &mut Rows, steps: &[usize]) -> Result<()> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let (gateway, journal) = (environment.gateway("gateway").await?, environment.journal().await?);
    let settler = settler::dev::key(1).context("the demo's settlers")?;
    let empty = Taken::now(&environment, &gateway)?;
    let mut made = 0;
    for &payments in steps {
        let mut last = None;
        while made < payments {
            let numbers = made..payments.min(made + CHUNK);
            let orders = context.payer.sign("undelivered", numbers.clone(), WINDOW)?;
            let commits = in_parallel(0..orders.len(), |number| {
                let mut commit = orders[number].commit()?;
                let events = after_submission(&orders[number], &settler)?.into_iter().take(UNDELIVERED).flatten();
                commit.events.extend(events.map(Event::from));
                Ok(commit)
            })?;
            last = orders.last().map(|order| order.payment_id.clone());
            made = numbers.end;
            let appends = stream::iter(&commits).map(|commit| journal.append(commit));
            appends.buffer_unordered(IN_FLIGHT[1]).try_for_each(async |_| Ok(())).await?;
        }
        shown(&gateway, &last.context("no payment to append")?, "pending").await?;
        Taken::settled(&environment, &gateway).await?.add_open(
            rows,
            &format!("{payments} undelivered"),
            payments,
            &empty,
        );
    }
    Ok(())
}

/// Payments that nobody offers a quote for: open first, then failed.
async fn ending(context: &Context, rows: &mut Rows) -> Result<()> {
    let (payments, window) = (context.pick(100, 50_000), Duration::from_secs(context.pick(10, 240)));
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let gateway = environment.gateway("gateway").await?;
    let last = submit(context, &gateway, "ending", 0..payments, window).await?;
    shown(&gateway, &last, "pending").await?;
    let open = Taken::now(&environment, &gateway)?;
    let (stored, _) = environment.stored().await?;
    ensure!(stored == payments as u64, "some of {payments} payments ended before all were there: {stored} commits");
    // An auction without quotes is over with one commit more.
    let begun = Instant::now();
    while environment.stored().await?.0 < 2 * payments as u64 {
        ensure!(begun.elapsed() < window + ENDING_MAX, "{payments} auctions have not ended");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    shown(&gateway, &last, "failed").await?;
    let at_rest = Taken::settled(&environment, &gateway).await?;
    for (when, taken) in [("open", open), ("failed since", at_rest)] {
        rows.add(format!("{payments} without quotes, {when}: memory of the gateway"), taken.gateway / MIB, "MiB");
        rows.add(format!("{payments} without quotes, {when}: backed by no file"), taken.anonymous / MIB, "MiB");
        rows.add(format!("{payments} without quotes, {when}: memory of nats-server"), taken.nats / MIB, "MiB");
    }
    Ok(())
}

/// Submits the payments `{name}-{number}`, whose quotes are collected for `window`; the last one's id.
async fn submit(
    context: &Context,
    gateway: &Gateway,
    name: &str,
    numbers: Range<usize>,
    window: Duration,
) -> Result<PaymentId> {
    let mut last = None;
    for start in numbers.clone().step_by(CHUNK) {
        let orders = context.payer.sign(name, start..numbers.end.min(start + CHUNK), window)?;
        last = orders.last().map(|order| order.payment_id.clone());
        submit_orders(gateway, &orders.into()).await?;
    }
    last.context("no payment to submit")
}

async fn at_rest(context: &Context, rows: &mut Rows, steps: &[usize]) -> Result<()> {
    let environment = Environment::start(&context.paths, SHARDS).await?;
    // It comes first to the shards, so the gateway only follows.
    let engine = EngineRun::start(environment.journal().await?).await?;
    let gateway = environment.gateway("gateway").await?;
    let empty = Taken::now(&environment, &gateway)?;
    let mut made = 0;
    for &payments in steps {
        while made < payments {
            let chunk = (payments - made).min(CHUNK);
            let bound = Bound { calls: chunk, time: Duration::from_secs(600) };
            engine.drive(context, &format!("rest-{made}"), bound, IN_FLIGHT[1], None).await?;
            made += chunk;
            let last = context.payer.sign(&format!("rest-{}", made - chunk), chunk - 1..chunk, WINDOW)?;
            shown(&gateway, &last[0].payment_id, "completed").await?;
        }
        let taken = Taken::now(&environment, &gateway)?;
        taken.add(rows, &format!("{payments} at rest"), payments, &empty);
    }
    engine.stop().await
}

/// Bytes taken at some moment.
struct Taken {
    gateway: f64,
    /// What of it no file backs.
    anonymous: f64,
    nats: f64,
    streams: f64,
    views: f64,
}

impl Taken {
    fn now(environment: &Environment, gateway: &Gateway) -> Result<Self> {
        Ok(Self {
            gateway: gateway.memory()? as f64,
            anonymous: gateway.anonymous_memory()? as f64,
            nats: environment.nats_memory()? as f64,
            streams: environment.nats_disk()? as f64,
            views: gateway.disk()? as f64,
        })
    }

    /// The same once what is over is given back.
    async fn settled(environment: &Environment, gateway: &Gateway) -> Result<Self> {
        let mut taken = Self::now(environment, gateway)?;
        for _ in 0..LOOKS_MAX {
            tokio::time::sleep(LOOK_EVERY).await;
            let next = Self::now(environment, gateway)?;
            let over = (next.gateway - taken.gateway).abs() < MIB;
            taken = next;
            if over {
                break;
            }
        }
        Ok(taken)
    }

    /// Open payments, and what they may take.
    fn add_open(&self, rows: &mut Rows, name: &str, payments: usize, empty: &Self) {
        self.add(rows, name, payments, empty);
        rows.add(format!("{name}: memory of the gateway, in all"), self.gateway / MIB, "MiB")
            .target(Target::AtMost(64.0 + payments as f64 / 1024.0));
        rows.add(format!("{name}: of that backed by no file"), self.anonymous / MIB, "MiB");
        rows.add(format!("{name}: memory of nats-server, in all"), self.nats / MIB, "MiB");
    }

    fn add(&self, rows: &mut Rows, name: &str, payments: usize, empty: &Self) {
        let each = |now: f64, before: f64| (now - before) / payments as f64;
        rows.add(format!("{name}: memory of the gateway"), each(self.gateway, empty.gateway), "bytes each");
        rows.add(format!("{name}: memory of nats-server"), each(self.nats, empty.nats), "bytes each");
        rows.add(format!("{name}: streams on the disk"), each(self.streams, empty.streams), "bytes each");
        rows.add(format!("{name}: read models on the disk"), each(self.views, empty.views), "bytes each");
    }
}

/// Waits until the gateway shows the payment with this status.
async fn shown(gateway: &Gateway, payment_id: &PaymentId, status: &str) -> Result<()> {
    let mut connection = Connection::open(gateway.port).await?;
    let (path, wanted) = (path(payment_id), format!(r#""status":"{status}""#));
    eventually("the gateway shows a payment", async || {
        let (_, body) = connection.get(&path).await?;
        Ok(String::from_utf8_lossy(&body).contains(&wanted))
    })
    .await
    .with_context(|| format!("{payment_id} is not {status}"))
}
