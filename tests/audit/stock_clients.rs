//! Stock NATS clients with an auditor's credentials: one that replays, and one that asks without measure.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use async_nats::{
    Client, Request,
    jetstream::{
        self,
        consumer::{pull, push},
    },
};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::tools;
use devnet::users::NatsUser;
use events::{PaymentId, StreamId};
use journal_jetstream::connection::nkey_seed;

use crate::support::*;

/// Shards of the network.
const SHARDS: u16 = 8;
/// The document with an example in Python, which is run as it stands there.
const DOCUMENT: &str = include_str!("../../docs/auditors.md");

/// The documented replay prints what lies in a shard, in order. It is run on the shard of `payment`.
pub async fn the_documented_replay_reads_a_whole_shard(world: &World, payment: &PaymentId) -> Result<()> {
    let (_, program) = DOCUMENT.split_once("```python\n").context("no example")?;
    let (program, _) = program.split_once("```").context("no end of the example")?;
    let shard = format!("{:02}", StreamId::from(payment.clone()).shard(SHARDS));
    let stream = format!("EVT_{shard}");
    ensure!(program.contains("EVT_00") && program.contains("gw.evt.00."), "the example reads another shard");
    let program = program.replace("EVT_00", &stream).replace("gw.evt.00.", &format!("gw.evt.{shard}."));
    let seed = world.network.options().directory.join("auditor-of-the-document.seed");
    std::fs::write(&seed, nkey_seed(&NatsUser::Auditor.key()))?;
    let gateway = world.network.nats.connect(NatsUser::Gateway).await?;
    let stored = jetstream::new(gateway).get_stream(&stream).await?.cached_info().state.messages;
    ensure!(stored > 0, "nothing in the shard of {payment}");

    let mut command = Command::new("python3");
    command.args(["-c", &program]).env("PYTHONPATH", tools::root().join(".tools/settler"));
    command.env("NATS_URL", world.network.nats.url()).env("NATS_SEED_FILE", seed);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for (line, number) in said.lines().zip(1..) {
        ensure!(line.starts_with(&format!("{number} gw.evt.{shard}.")), "{line} is not message {number}");
    }
    // What is at work meanwhile may add to it.
    ensure!(said.lines().count() as u64 >= stored, "{said}");
    Ok(())
}

/// An auditor of each server of a cluster replays what is stored in a shard, whichever gateway it is that has its consumer
/// made.
pub async fn each_server_replays(world: &World) -> Result<()> {
    let nats = &world.network.nats;
    for url in nats.urls() {
        let auditor = NatsUser::Auditor.options_with(nats.ca_file()).connect(&url).await?;
        let jetstream = jetstream::new(auditor);
        let mut replayed = 0;
        for shard in 0..SHARDS {
            let stream = jetstream.get_stream(format!("EVT_{shard:02}")).await?;
            let stored = stream.cached_info().state.messages;
            let mut messages = stream.create_consumer(pull::OrderedConfig::default()).await?.messages().await?;
            for number in 1..=stored {
                let message = tokio::time::timeout(PATIENCE, messages.next()).await?.context("closed")??;
                let info = message.info().map_err(anyhow::Error::msg)?;
                ensure!(info.stream_sequence == number, "{url}: {} of shard {shard}", info.stream_sequence);
            }
            replayed += stored;
        }
        ensure!(replayed > 0, "{url}: nothing is stored");
    }
    Ok(())
}

/// Payments complete while an auditor asks for consumers without end and has everything delivered over and over, and
/// what it leaves at the server is bounded.
pub async fn an_auditor_without_measure_stops_no_payment(world: &World) -> Result<()> {
    let (asks, reads) = (auditor(world).await?, auditor(world).await?);
    let paying = async {
        let paid = world.submit(&world.spec("beside-an-auditor-without-measure")?).await?;
        world.until(&paid, "EscrowReleased").await
    };
    tokio::select! {
        ended = asks_without_end(&asks) => ended?,
        ended = reads_without_end(&reads) => ended?,
        paid = paying => drop(paid?),
    }

    let gateway = jetstream::new(world.network.nats.connect(NatsUser::Gateway).await?);
    let mut streams = gateway.stream_names();
    let mut shards = 0;
    while let Some(name) = streams.next().await {
        let name = name?;
        if !name.starts_with("EVT_") {
            continue;
        }
        shards += 1;
        let stream = gateway.get_stream(&name).await?;
        let mut names = stream.consumer_names();
        let mut auditors = 0;
        while let Some(name) = names.next().await {
            auditors += usize::from(!name?.starts_with("scan_"));
        }
        ensure!(auditors <= 8, "{name}: {auditors} of the auditor");
    }
    ensure!(shards > 0, "no streams");
    Ok(())
}

async fn auditor(world: &World) -> Result<Client> {
    world.network.nats.connect(NatsUser::Auditor).await
}

async fn asks_without_end(auditor: &Client) -> Result<()> {
    let inbox = auditor.new_inbox();
    for number in 0_u64.. {
        let (stream, name) = (format!("EVT_{:02}", number % u64::from(SHARDS)), format!("many_{number}"));
        let config = json!({"name": name, "ack_policy": "none", "inactive_threshold": i64::MAX});
        let body = json!({"stream_name": stream, "config": config}).to_string();
        let subject = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}");
        auditor.publish_with_reply(subject, inbox.clone(), body.into()).await?;
        // Pulls from the gateways' consumers, by the names that older ones had.
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.saga_{:02}", number % u64::from(SHARDS));
        auditor.publish_with_reply(next, inbox.clone(), "".into()).await?;
        // At the server before the next: what is measured is the server, not this client's buffer.
        if number % 64 == 0 {
            auditor.flush().await?;
        }
    }
    Ok(())
}

async fn reads_without_end(auditor: &Client) -> Result<()> {
    loop {
        for shard in 0..SHARDS {
            let name = format!("EVT_{shard:02}");
            let config = push::OrderedConfig { deliver_subject: auditor.new_inbox(), ..Default::default() };
            let Ok(stream) = jetstream::new(auditor.clone()).get_stream(&name).await else { continue };
            let Ok(consumer) = stream.create_consumer(config).await else { continue };
            let made = consumer.cached_info().name.clone();
            let Ok(mut messages) = consumer.messages().await else { continue };
            for _ in 0..stream.cached_info().state.messages {
                let next = tokio::time::timeout(Duration::from_secs(1), messages.next()).await;
                if !matches!(next, Ok(Some(Ok(_)))) {
                    break;
                }
            }
            // As a client does that is done with it, so that it may have another.
            let subject = format!("$JS.API.CONSUMER.DELETE.{name}.{made}");
            let deleted = auditor.send_request(subject, Request::new().timeout(Some(Duration::from_secs(1)))).await;
            drop(deleted.map(|answer| serde_json::from_slice::<Value>(&answer.payload)));
        }
    }
}
