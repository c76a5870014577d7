//! Twice as many submissions as the gateway can take, from many clients that do not wait for each other: it stays up,
//! takes what it can, refuses the rest with 503, answers reads meanwhile, and its memory stays bounded.

use std::{sync::Arc, time::Duration};

use anyhow::Result;

use crate::{
    context::{Context, SHARDS},
    floor::IN_FLIGHT,
    load::{self, Bound, rate},
    report::Rows,
    stage::Stage,
    status::{Reader, path},
    submissions,
};

/// Reads a second meanwhile, and connections they are spread over.
const READS: f64 = 100.0;
const READERS: usize = 32;
/// How long quotes are collected for the payment that is read.
const WINDOW: Duration = Duration::from_secs(900);
const MIB: f64 = 1024.0 * 1024.0;

/// The bench.
///
/// # Errors
/// When it cannot be measured, or something that was accepted is not stored.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let stage = Stage::start(&context.place, SHARDS).await?;
    let journal = stage.journal().await?;
    let _leases = stage.hold_shards(&journal).await?;
    let gateways = [stage.gateway("gateway").await?];
    let [gateway] = &gateways;
    let warm = submissions::warm_up(context, &gateways).await?;
    let most = submissions::closed(context, &gateways, "capacity", IN_FLIGHT[1]).await?;
    rows.add("capacity: closed loop", most.rate(), "a second");

    let read = context.payer.sign("warm-up", 0..1, WINDOW)?.remove(0);
    let paths = Arc::new(vec![path(&read.payment_id)]);
    let readers = async || Reader::several(gateway, READERS, &paths, r#""status":"pending""#).await;
    let time = Duration::from_secs(context.pick(2, 20));
    let reads = Bound { calls: (READS * time.as_secs_f64()) as usize, time };
    let (calm, _) = load::open(readers().await?, READS, reads).await?;
    rows.add("reads without a load: p99", calm.latencies.ms(0.99), "ms");
    rows.add("memory before", gateway.memory()? as f64 / MIB, "MiB");

    let demand = most.rate() * 2.0;
    let bound = Bound { calls: (demand * time.as_secs_f64()) as usize + 1, time };
    let clients = context.pick(256, 4_096);
    let callers = submissions::submitters(context, &gateways, "overload", bound.calls, clients).await?;
    let readers = readers().await?;
    let (loaded, meanwhile) = tokio::join!(load::open(callers, demand, bound), load::open(readers, READS, reads));
    let ((load, _), (reads, _)) = (loaded?, meanwhile?);
    let memory = gateway.memory()?;

    let name = format!("twice that from {clients} clients");
    rows.add(format!("{name}: accepted"), load.rate(), "a second");
    rows.add(format!("{name}: refused with 503"), rate(load.refused, load.elapsed), "a second");
    rows.add(format!("{name}: answered that the outcome is unknown"), load.unknown as f64, "submissions");
    rows.add(format!("{name}: accepted, p50"), load.latencies.ms(0.5), "ms");
    rows.add(format!("{name}: accepted, p99"), load.latencies.ms(0.99), "ms");
    rows.add(format!("{name}: reads meanwhile, p50"), reads.latencies.ms(0.5), "ms");
    rows.add(format!("{name}: reads meanwhile, p99"), reads.latencies.ms(0.99), "ms");
    let without = reads.refused + reads.unsent;
    rows.add(format!("{name}: reads refused or not begun"), without as f64, "reads");
    rows.add(format!("{name}: memory at its end"), memory as f64 / MIB, "MiB");
    stage.still_held(&journal).await?;
    let accepted = warm + most.served + load.served;
    submissions::ensure_stored(stage.stored().await?.0, accepted, most.unknown + load.unknown)
}
