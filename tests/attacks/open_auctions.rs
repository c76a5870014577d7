//! Auctions that nobody pays for: thousands of unsigned quote-requests, which once stayed in memory for as long as their
//! sender liked, kept an epoch from being sealed, and had a restart take them all up again.

use std::{path::Path, process::Output, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::{process::Command, time::Instant};

use devkit::Signal;
use devnet::{payer::PaymentSpec, users::NatsUser};
use events::Did;

use crate::support::*;

/// Quote-requests of one flood.
const FLOOD: usize = 1_500;
/// Of those that are sent at a time.
const AT_A_TIME: usize = 32;
/// What a flood may leave in memory, in KiB: what the read model and the allocator keep of it, and not what its auctions took.
const LEFT_KIB_MAX: u64 = 40 * 1_024;
/// Quote-requests that may be open in the second test.
const OPEN_MAX: usize = 20;

/// The `n`th quote-request of a stranger, whom only `settler` may serve, within the longest window.
fn junk(world: &World, n: usize, settler: &Did, window: Duration) -> Result<Value> {
    let spec = PaymentSpec {
        whitelist: vec![settler.clone()],
        quote_window: window,
        fulfillment_window: Duration::from_secs(3_600),
        ..world.spec(&format!("junk-{n}"))?
    };
    let mut body = world.payer.quote_request(&spec);
    // Somebody else each time, as far as anybody can tell.
    body["source"]["account"] = json!(format!("0x{:040x}", n + 0x1_0000));
    Ok(body)
}

async fn open(client: &Client, base: &str, body: &Value) -> Result<(StatusCode, Value)> {
    let response = client.post(format!("{base}/v1/payments/quote-requests")).json(body).send().await?;
    Ok((response.status(), response.json().await?))
}

/// Memory of a process, in KiB.
fn resident_kib(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// Runs `gw admin epochs` for the first gateway.
async fn epochs(world: &World, arguments: &[&str]) -> Result<Output> {
    let options = world.network.options();
    let mut command = Command::new(&options.gw);
    command.args(["admin", "--config"]).arg(options.directory.join("gateway-1.toml")).arg("epochs").args(arguments);
    command.env("GW_NATS_OPERATOR_SEED_FILE", options.directory.join(NatsUser::Operator.seed_file()));
    Ok(command.kill_on_drop(true).output().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_unsigned_quote_requests_leave_nothing_behind() -> Result<()> {
    let mut world = World::start(1).await?;
    let (base, client) = (world.base(0), Client::new());
    let nobody: Did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".parse()?;
    // A payment before, so that what is loaded once is there.
    let payment_id = world.submit(&world.spec("before")?).await?;
    world.completed(&payment_id).await?;
    let process = world.network.gateways[0].id().context("the gateway runs")?;
    let before = resident_kib(process)?;

    let floods = (0..FLOOD).map(|n| {
        let (client, base, body) = (&client, &base, junk(&world, n, &nobody, Duration::from_secs(500)));
        async move {
            let body = body?;
            loop {
                let (status, answer) = open(client, base, &body).await?;
                match status {
                    StatusCode::OK => return anyhow::Ok(()),
                    // As many as there may be, for a moment.
                    StatusCode::SERVICE_UNAVAILABLE => tokio::time::sleep(Duration::from_millis(50)).await,
                    other => anyhow::bail!("{other}: {answer}"),
                }
            }
        }
    });
    stream::iter(floods).buffer_unordered(AT_A_TIME).try_collect::<Vec<()>>().await?;
    // Their windows would be open for minutes more; with nobody to ask they are over.
    let begun = epochs(&world, &["begin"]).await?;
    ensure!(begun.status.success(), "{begun:?}");
    let sealed =
        || async { epochs(&world, &["seal", "0", "--grace", "0s"]).await.is_ok_and(|output| output.status.success()) };
    eventually(sealed).await.context("the flood keeps its epoch from being sealed")?;
    let returned = || async { resident_kib(process).is_ok_and(|now| now < before + LEFT_KIB_MAX) };
    eventually(returned).await.with_context(|| format!("{before} KiB, and now {:?}", resident_kib(process)))?;

    // Nothing is taken up again.
    world.network.kill_gateway(0).await?;
    let restarted = Instant::now();
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let after = resident_kib(world.network.gateways[0].id().context("the gateway runs")?)?;
    ensure!(after < before + LEFT_KIB_MAX, "{before} KiB, and after the restart {after}");
    eprintln!("{before} KiB before, {after} after; ready again in {:?}", restarted.elapsed());
    let payment_id = world.submit(&world.spec("after")?).await?;
    world.completed(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_for_a_silent_settler_is_bounded_and_disturbs_no_payment() -> Result<()> {
    let mut world = World::start(1).await?;
    let config = world.network.options().directory.join("gateway-1.toml");
    let text = std::fs::read_to_string(&config)?;
    let bounds = format!("[http]\nquote_requests_open_max = {OPEN_MAX}\n");
    std::fs::write(&config, text.replacen("[http]\n", &bounds, 1))?;
    ensure!(std::fs::read_to_string(&config)?.contains(&bounds), "the gateway's configuration has another form");
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let (base, client) = (world.base(0), Client::new());

    // One that is there and never answers: its windows stay open to their end.
    let silent = Did::from_ed25519(&settler::dev::key(3).context("the network has three settlers")?.verifying_key());
    world.network.signal_settler(3, Signal::Stop).await?;
    let mut opened = 0;
    let mut refused = 0;
    for n in 0..3 * OPEN_MAX {
        let body = junk(&world, n, &silent, Duration::from_secs(8))?;
        let (status, answer) = open(&client, &base, &body).await?;
        match status {
            StatusCode::OK => opened += 1,
            StatusCode::SERVICE_UNAVAILABLE => {
                ensure!(answer["code"] == "TOO_MANY_QUOTE_REQUESTS", "{answer}");
                refused += 1;
            }
            other => anyhow::bail!("{other}: {answer}"),
        }
    }
    // A few more than the bound may be in before the read model has them.
    ensure!((OPEN_MAX..=2 * OPEN_MAX).contains(&opened) && refused > 0, "{opened} opened, {refused} refused");
    // Whoever pays is not kept waiting by those who do not.
    let payment_id = world.submit(&world.spec("honest")?).await?;
    world.completed(&payment_id).await?;
    world.network.signal_settler(3, Signal::Continue).await?;
    // What was never awarded is over at its horizon, and there is room again.
    let room = || async {
        // With a deadline that is ahead of each.
        let Ok(body) = junk(&world, 1_000, &silent, Duration::from_secs(5)) else { return false };
        open(&client, &base, &body).await.is_ok_and(|(status, _)| status == StatusCode::OK)
    };
    eventually(room).await.context("there is no room again")
}
