//! The operators' console over many payments: lists that an index answers, lists that look at as many payments as they may, search,
//! one payment with its commits, and a survey, each over HTTP by one operator after the other.

use std::{io::Write, time::Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use hyper::StatusCode;

use devkit::free_port;
use events::Event;
use journal::StreamStore;

use crate::{
    baseline::IN_FLIGHT,
    context::{Context, SHARDS},
    environment::{Environment, eventually},
    http::Connection,
    load::Latencies,
    orders::in_parallel,
    payment_commits::after_submission,
    report::Rows,
};

/// Payments made at a time.
const CHUNK: usize = 5_000;
/// How long quotes are collected.
const WINDOW: std::time::Duration = std::time::Duration::from_secs(6 * 3_600);
/// The token, and the digest of it that the configuration has.
const TOKEN: &str = "gwc_benchbenchbenchbenchbenchbenchbenchbenchben";
const DIGEST: &str = "1f49bb719e00fd9288b8b4196b98880e886d7ae165fc6169860bc82cc05dfde1";

/// The bench.
///
/// # Errors
/// When it cannot be measured.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let (payments, calls) = (context.pick(200, 100_000), context.pick(10, 400));
    let environment = Environment::start(&context.paths, SHARDS).await?;
    let journal = environment.journal().await?;
    let settler = settler::dev::key(1).context("the demo's settlers")?;
    let (mut made, mut middle) = (0, None);
    while made < payments {
        let orders = context.payer.sign("console", made..payments.min(made + CHUNK), WINDOW)?;
        let commits = in_parallel(0..orders.len(), |number| {
            let mut commit = orders[number].commit()?;
            commit.events.extend(after_submission(&orders[number], &settler)?.into_iter().flatten().map(Event::from));
            Ok(commit)
        })?;
        made += orders.len();
        middle = middle.or(orders.last().map(|order| order.payment_id.to_string()).filter(|_| made >= payments / 2));
        let appends = stream::iter(&commits).map(|commit| journal.append(commit));
        appends.buffer_unordered(IN_FLIGHT[1]).try_for_each(async |_| Ok(())).await?;
    }
    let middle = middle.context("no payment was made")?;

    let mut gateway = environment.gateway("console").await?;
    gateway.kill().await?;
    let port = free_port()?;
    let mut file =
        std::fs::OpenOptions::new().append(true).open(environment.directory().join("console/gateway.toml"))?;
    write!(file, "\n[console]\nlisten = \"127.0.0.1:{port}\"\n[[console.operators]]\nname = \"bench\"\n")?;
    writeln!(file, "token_sha256 = \"{DIGEST}\"")?;
    environment.restart(&mut gateway).await?;
    let mut connection = None;
    eventually("the console listens", async || {
        connection = Connection::open(port).await.ok();
        Ok(connection.is_some())
    })
    .await?;
    let mut operator = connection.context("no connection")?;

    for (name, path) in [
        ("the first page of 50", "/api/payments".to_owned()),
        ("a page of 200", "/api/payments?limit=200".to_owned()),
        (
            "the page behind the first",
            behind(&mut operator, "/api/payments?submitted_from=2020-01-01T00:00:00Z").await?,
        ),
        ("a filter that takes none of 2,000", "/api/payments?status=failed".to_owned()),
        ("what is in flight: none", "/api/payments?in_flight=true".to_owned()),
        ("a payment by its id", format!("/api/search?q={middle}")),
        ("payments by the beginning of a request's id", "/api/search?q=console-99".to_owned()),
        ("one with its commits", format!("/api/payments/{middle}")),
    ] {
        let mut latencies = Latencies::new();
        for _ in 0..calls {
            let begun = Instant::now();
            let (status, body) = operator.get_as(&path, TOKEN).await?;
            latencies.record(begun.elapsed());
            ensure!(status == StatusCode::OK, "{path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        rows.add(format!("{payments} payments, {name}: p50"), latencies.ms(0.5), "ms");
        rows.add(format!("{payments} payments, {name}: p99"), latencies.ms(0.99), "ms");
    }
    let begun = Instant::now();
    let (status, body) = operator.get_as("/api/settlers", TOKEN).await?;
    ensure!(status == StatusCode::OK, "{status}: {}", String::from_utf8_lossy(&body));
    rows.add(format!("{payments} payments, a survey"), begun.elapsed().as_secs_f64() * 1_000.0, "ms");
    Ok(())
}

/// The path of the page behind the first one.
async fn behind(operator: &mut Connection, path: &str) -> Result<String> {
    let (status, body) = operator.get_as(path, TOKEN).await?;
    ensure!(status == StatusCode::OK, "{path}: {status}: {}", String::from_utf8_lossy(&body));
    let page: serde_json::Value = serde_json::from_slice(&body)?;
    let cursor = page["next_cursor"].as_str().context("there is no page behind the first")?;
    Ok(format!("{path}&cursor={cursor}"))
}
