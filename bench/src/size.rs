//! What payments take: memory of gateway and nats-server, and disk, as they become more. Open ones, whose auction the
//! gateway itself keeps open; and ones at rest, which it only shows.

use std::time::Duration;

use anyhow::{Context as _, Result};
use events::PaymentId;

use crate::{
    context::{Context, SHARDS, Size},
    engine::EngineRun,
    floor::IN_FLIGHT,
    http::Connection,
    load::Bound,
    report::{Rows, Target},
    stage::{Gateway, Stage, eventually},
    status::{path, submit_orders},
};

/// Payments made at a time.
const CHUNK: usize = 10_000;
/// How long quotes are collected: longer than the bench takes.
const WINDOW: Duration = Duration::from_secs(6 * 3_600);
const MIB: f64 = 1024.0 * 1024.0;

/// The bench.
///
/// # Errors
/// When it cannot be measured.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let steps: &[usize] = match context.size {
        Size::Brief => &[50, 100],
        Size::Usual => &[10_000, 100_000],
        Size::Full => &[10_000, 100_000, 1_000_000],
    };
    open(context, rows, steps).await?;
    at_rest(context, rows, steps).await
}

async fn open(context: &Context, rows: &mut Rows, steps: &[usize]) -> Result<()> {
    let stage = Stage::start(&context.place, SHARDS).await?;
    let gateway = stage.gateway("gateway").await?;
    let empty = Taken::now(&stage, &gateway)?;
    rows.add("no payments: memory of the gateway", empty.gateway / MIB, "MiB");
    rows.add("no payments: memory of nats-server", empty.nats / MIB, "MiB");
    let mut made = 0;
    for &payments in steps {
        while made < payments {
            let chunk = (payments - made).min(CHUNK);
            let orders = context.payer.sign("open", made..made + chunk, WINDOW)?;
            submit_orders(&gateway, &orders.into()).await?;
            made += chunk;
        }
        let last = context.payer.sign("open", made - 1..made, WINDOW)?;
        shown(&gateway, &last[0].payment_id, "pending").await?;
        let taken = Taken::now(&stage, &gateway)?;
        taken.add(rows, &format!("{payments} open"), payments, &empty);
        rows.add(format!("{payments} open: memory of the gateway, in all"), taken.gateway / MIB, "MiB")
            .target(Target::AtMost(100.0 + payments as f64 / 1024.0));
    }
    Ok(())
}

async fn at_rest(context: &Context, rows: &mut Rows, steps: &[usize]) -> Result<()> {
    let stage = Stage::start(&context.place, SHARDS).await?;
    // It comes first to the shards, so the gateway only follows.
    let engine = EngineRun::start(stage.journal().await?).await?;
    let gateway = stage.gateway("gateway").await?;
    let empty = Taken::now(&stage, &gateway)?;
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
        let taken = Taken::now(&stage, &gateway)?;
        taken.add(rows, &format!("{payments} at rest"), payments, &empty);
    }
    engine.stop().await
}

/// Bytes taken at some moment.
struct Taken {
    gateway: f64,
    nats: f64,
    streams: f64,
    views: f64,
}

impl Taken {
    fn now(stage: &Stage, gateway: &Gateway) -> Result<Self> {
        Ok(Self {
            gateway: gateway.memory()? as f64,
            nats: stage.nats_memory()? as f64,
            streams: stage.nats_disk()? as f64,
            views: gateway.disk()? as f64,
        })
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
