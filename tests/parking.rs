//! A payment whose stream was damaged is parked with its cause, and nothing else is touched by it.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use async_nats::{Client, HeaderMap, jetstream};
use serde_json::Value;
use tokio::process::Command;

use devnet::users::NatsUser;
use events::{CommitId, PaymentId};
use journal::{ShardLog, StreamStore, envelope};

use crate::support::*;

/// Runs `gw admin park` with the configuration of the first gateway.
async fn park(world: &World, arguments: &[&str]) -> Result<Output> {
    let options = world.network.options();
    let mut command = Command::new(&options.gw);
    command.arg("admin").arg("--config").arg(options.directory.join("gateway-1.toml")).arg("park").args(arguments);
    Ok(command.output().await?)
}

async fn done(world: &World, arguments: &[&str]) -> Result<String> {
    let output = park(world, arguments).await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Exit code and standard error of a command that does not succeed.
async fn refused(world: &World, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = park(world, arguments).await?;
    ensure!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

async fn gateways_client(world: &World) -> Result<Client> {
    world.network.nats.connect(NatsUser::Gateway).await
}

/// Appends to the payment's stream, as whoever has the gateway's credentials could, an event that no gateway knows: in
/// the right place, and with the right hash of the message before it. Returns its sequence.
pub async fn poison(world: &World, payment_id: &PaymentId) -> Result<u64> {
    let client = gateways_client(world).await?;
    let journal =
        journal_jetstream::store::NatsJournal::connect(client.clone(), journal_jetstream::store::Options::default())
            .await?;
    let shard = payment_id.shard(journal.shards());
    let poisoned = async {
        loop {
            let commits = journal.load(&payment_id.into()).await?;
            let at = commits.last().context("no such payment")?.position;
            let mut headers = HeaderMap::new();
            headers.insert("Gw-Type", "Pardoned");
            headers.insert("Gw-Schema", "1");
            headers.insert("Gw-Version", (at.version + 1).to_string());
            headers.insert("Gw-Correlation", "test");
            headers.insert("Gw-Causation", "test");
            headers.insert("Gw-Prev", at.hash.to_string());
            headers.insert("Nats-Msg-Id", CommitId::random().as_str());
            headers.insert("Nats-Expected-Last-Subject-Sequence", at.sequence.to_string());
            let subject = envelope::subject(shard, &payment_id.into());
            let body = r#"[{"type":"Pardoned","data":{"by":"nobody"}}]"#;
            let jetstream = jetstream::new(client.clone());
            // The gateway may append at the same moment.
            if let Ok(stored) = jetstream.publish_with_headers(subject, headers, body.into()).await?.await {
                return Ok(stored.sequence);
            }
        }
    };
    tokio::time::timeout(PATIENCE, poisoned).await.context("there was always another in front")?
}

/// The entries of the payment's history in the parking, by name.
async fn history(world: &World, payment_id: &PaymentId) -> Result<Vec<String>> {
    let shown: Value = serde_json::from_str(&done(world, &["show", payment_id.as_str(), "--json"]).await?)?;
    let entries = shown["history"].as_array().context("no history")?;
    Ok(entries.iter().map(|entry| entry["entry"].as_str().unwrap_or_default().to_owned()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_payment_is_parked_until_it_is_replayed_and_the_others_complete() -> Result<()> {
    let mut world = World::start(1).await?;
    assert_eq!(done(&world, &["list"]).await?.trim(), "nothing is parked");
    assert_eq!(done(&world, &["list", "--json"]).await?.trim(), "[]");
    assert_eq!(done(&world, &["replay", "--all"]).await?.trim(), "nothing is parked");

    let bad = world.submit(&world.spec("damaged")?).await?;
    world.until(&bad, "DepositPrepared").await?;
    let sequence = poison(&world, &bad).await?;
    // In all shards, that of the damaged one among them.
    let mut good = Vec::new();
    for n in 0..3 {
        good.push(world.submit(&world.spec(&format!("beside-{n}"))?).await?);
    }
    let same_shard = (0..).map(|n| format!("same-shard-{n}"));
    let shard = |id: &PaymentId| id.shard(8);
    let mut same_shard = same_shard.filter(|request_id| shard(&world.payer.payment_id(request_id)) == shard(&bad));
    good.push(world.submit(&world.spec(&same_shard.next().context("endless")?)?).await?);

    let listed = || async { done(&world, &["list"]).await.is_ok_and(|list| list.contains(bad.as_str())) };
    eventually(listed).await.context("it is not parked")?;
    for payment_id in &good {
        assert_eq!(world.outcome(payment_id).await?.text("status"), "completed");
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(&good).await?;

    // The operator sees what is wrong and what to do.
    let list: Value = serde_json::from_str(&done(&world, &["list", "--json"]).await?)?;
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(list[0]["id"], bad.as_str());
    assert_eq!(list[0]["cause"]["kind"], "unreadable");
    assert_eq!(list[0]["cause"]["sequence"], sequence);
    let shown = done(&world, &["show", bad.as_str()]).await?;
    for part in ["is parked since", "unknown event Pardoned", "Gw-Type: Pardoned", r#"{"by":"nobody"}"#, "what to do"] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    let log = world.network.log("gateway-1")?;
    assert!(log.lines().any(|line| line.contains("PARKED") && line.contains(bad.as_str())), "{log}");

    // Clients are told that this one cannot be shown, and everything else goes on.
    let base = world.base(0);
    assert_eq!(reqwest::get(format!("{base}/readyz")).await?.status(), 200);
    let answer = world.payer.status(&base, bad.as_str()).await?;
    assert_eq!((answer.status, answer.text("code"), answer.text("payment_id")), (500, "INTERNAL_ERROR", bad.as_str()));

    // A replay finds the same cause, and it is parked again.
    assert!(done(&world, &["replay", bad.as_str(), "--by", "alice"]).await?.contains("replayed"));
    let again = || async { history(&world, &bad).await.is_ok_and(|names| names == ["parked", "replayed", "parked"]) };
    eventually(again).await.context("it is not parked again")?;
    assert!(done(&world, &["show", bad.as_str()]).await?.contains("by alice"));
    let acts: Value = serde_json::from_str(&world.gw(&["admin", "acts", "--json"]).await?)?;
    assert_eq!((&acts[0]["by"], &acts[0]["end"]["outcome"]), (&"alice".into(), &"done".into()), "{acts}");
    assert_eq!(acts[0]["act"], serde_json::json!({"act": "replay", "streams": [bad.as_str()]}));
    assert_eq!(acts.as_array().map(Vec::len), Some(1), "nothing was parked before, so nothing was ordered: {acts}");

    // It stays so when the gateway is started again, and is not tried again.
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let later = world.submit(&world.spec(&same_shard.next().context("endless")?)?).await?;
    assert_eq!(world.outcome(&later).await?.text("status"), "completed");
    let tries = world.network.log("gateway-1")?;
    let tries = tries.rsplit("gateway listens").next().context("no log")?;
    assert!(!tries.lines().any(|line| line.contains("stream cannot be driven")), "{tries}");
    assert_eq!(history(&world, &bad).await?.len(), 3);
    assert_eq!(world.payer.status(&base, bad.as_str()).await?.status, 500);

    assert!(done(&world, &["replay", "--all"]).await?.contains(bad.as_str()));
    let third = || async { history(&world, &bad).await.is_ok_and(|names| names.len() == 5) };
    eventually(third).await.context("it is not parked for the third time")
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_make_no_sense_are_refused_with_their_reason() -> Result<()> {
    let mut world = World::start(1).await?;
    let unknown = world.payer.payment_id("never-submitted");
    let (code, reason) = refused(&world, &["show", unknown.as_str()]).await?;
    assert!(code == Some(1) && reason.contains("was never parked"), "{code:?} {reason}");
    let (code, reason) = refused(&world, &["replay", unknown.as_str()]).await?;
    assert!(code == Some(1) && reason.contains("is not parked"), "{code:?} {reason}");
    for arguments in [&["show", "pay_1"][..], &["replay"], &["replay", unknown.as_str(), "--all"]] {
        let (code, reason) = refused(&world, arguments).await?;
        assert_eq!(code, Some(2), "{arguments:?}: {reason}");
    }
    world.network.nats.kill().await?;
    let (code, reason) = refused(&world, &["list"]).await?;
    assert!(code == Some(1) && reason.contains("connect to NATS"), "{code:?} {reason}");
    Ok(())
}
