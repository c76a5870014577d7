//! An epoch is begun and the one before it sealed, by `gw admin epochs`, while gateways run.

use std::{path::Path, process::Output, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use devkit::{Signal, tools};
use devnet::{
    payer::{Answer, PaymentSpec},
    users::NatsUser,
};
use events::{Did, Hash32, PaymentId};

use crate::support::*;

/// Shards of the epoch that a journal is created with.
const FIRST: u16 = 8;
/// Shards of the epoch that is begun here.
const SECOND: u16 = 4;
/// Request ids that both gateways get at once.
const RACES: usize = 4;

/// Runs `gw admin epochs` with the configuration of the first gateway and the password of the user that may seal.
async fn run(world: &World, arguments: &[&str]) -> Result<Output> {
    let options = world.network.options();
    let mut command = Command::new(&options.gw);
    command.args(["admin", "--config"]).arg(options.directory.join("gateway-1.toml")).arg("epochs").args(arguments);
    command.env("GW_NATS_OPERATOR_SEED_FILE", options.directory.join(NatsUser::Operator.seed_file()));
    Ok(command.kill_on_drop(true).output().await?)
}

/// What one that succeeds prints.
async fn epochs(world: &World, arguments: &[&str]) -> Result<Value> {
    let output = run(world, &[&["--json"], arguments].concat()).await?;
    ensure!(output.status.success(), "{output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What one that fails says.
async fn refused(world: &World, arguments: &[&str]) -> Result<String> {
    let output = run(world, arguments).await?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    Ok(String::from_utf8(output.stderr)?)
}

/// The states of all epochs.
async fn states(world: &World) -> Result<Vec<String>> {
    let listed = epochs(world, &[]).await?;
    let listed = listed["epochs"].as_array().context("no epochs")?;
    Ok(listed.iter().map(|epoch| epoch["state"].as_str().unwrap_or_default().to_owned()).collect())
}

/// What a `gw audit` that finds nothing wrong prints.
async fn audit(world: &World, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
    command.args(["audit", "--config"]).arg(world.network.auditor_config()).args(arguments);
    let output = command.kill_on_drop(true).output().await?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_str(&said).unwrap_or_default())
}

/// The epoch in which a payment lies, and how many marks of it there are in others.
async fn lies(world: &World, payment_id: &PaymentId) -> Result<(u16, usize)> {
    let replay = audit(world, &["replay", payment_id.as_str(), "--json"]).await?;
    let stream = replay["stream"].as_str().and_then(|stream| stream.strip_prefix("EVT_")).context("no stream")?;
    let marks = replay["marks"].as_array().map_or(0, Vec::len);
    Ok((u16::from(stream.parse::<u16>()? >= FIRST), marks))
}

/// Sends a signed body to gateway `n`, without waiting for the outcome.
async fn submit(world: &World, n: usize, body: &Value) -> Result<Answer> {
    let answer = world.payer.submit(&world.base(n), body, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer)
}

/// A body that stays good while gateways hang and epochs are begun.
async fn signed(world: &World, request_id: &str) -> Result<Value> {
    let spec = PaymentSpec { quote_window: PATIENCE, fulfillment_window: 2 * PATIENCE, ..world.spec(request_id)? };
    world.payer.sign(&world.base(0), &spec).await
}

/// Everything from both epochs is proven: over NATS, from files, and by the example that uses none of our programs.
async fn proven(world: &World, directory: &Path, payments: &[&PaymentId]) -> Result<()> {
    let polled = async {
        loop {
            let whole = audit(world, &["verify", "--all", "--json"]).await?;
            if whole["unsigned"] == 0 && whole["counts"]["open"] == 0 {
                return anyhow::Ok(whole);
            }
        }
    };
    let whole = tokio::time::timeout(PATIENCE, polled).await.context("not everything is signed in time")??;
    assert_eq!(whole["verdict"], "proven");
    for output in [directory.join("files"), directory.join("one.jsonl")] {
        let output = output.to_str().context("not Unicode")?;
        // Twice: the second run goes on where the first one stopped.
        for _ in 0..2 {
            audit(world, &["export", "--output", output]).await?;
        }
        let exported = audit(world, &["verify", "--all", "--json", "--export", output]).await?;
        for member in ["verdict", "payments", "marks"] {
            assert_eq!(exported[member], whole[member], "{member} of {output}");
        }
    }
    let seed = Hash32::sha256("gw dev checkpoint key").0;
    let key = Did::from_ed25519(&ed25519_dalek::SigningKey::from_bytes(&seed).verifying_key());
    for payment_id in payments {
        world.audited(payment_id).await?;
        let seed_file = world.network.options().directory.join(NatsUser::Auditor.seed_file());
        let mut command = Command::new("python3");
        command.arg(tools::root().join("examples/auditor/audit.py")).args([payment_id.as_str(), key.as_str()]);
        command.env("PYTHONPATH", tools::root().join(".tools/settler"));
        command.env("NATS_URL", world.network.nats.url()).env("NATS_SEED_FILE", seed_file);
        let output = command.kill_on_drop(true).output().await?;
        ensure!(output.status.success(), "{output:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_go_on_over_a_new_epoch_and_the_old_one_is_sealed_when_they_are_done() -> Result<()> {
    let mut world = World::start(2).await?;
    let files = tempfile::tempdir()?;
    let old_body = signed(&world, "old").await?;
    let old: PaymentId = submit(&world, 0, &old_body).await?.text("payment_id").parse()?;
    world.completed(&old).await?;
    audit(&world, &["verify", "--all", "--offline"]).await?;
    audit(&world, &["export", "--output", files.path().join("one.jsonl").to_str().context("not Unicode")?]).await?;
    let newest = refused(&world, &["seal", "0", "--grace", "0s"]).await?;
    assert!(newest.contains("newest"), "{newest}");

    // A payment that cannot end while the verifier hangs, and a gateway that hangs while the epoch is begun.
    world.network.signal_verifier(1, Signal::Stop).await?;
    let open: PaymentId = submit(&world, 0, &signed(&world, "open").await?).await?.text("payment_id").parse()?;
    world.until(&open, "EscrowSecured").await?;
    let mut raced = Vec::new();
    for n in 0..RACES {
        raced.push(signed(&world, &format!("raced-{n}")).await?);
    }
    world.network.signal_gateway(1, Signal::Stop).await?;
    let begun = epochs(&world, &["begin", "--shards", &SECOND.to_string()]).await?;
    assert_eq!((&begun["epoch"], &begun["first_shard"], &begun["shards"]), (&1.into(), &FIRST.into(), &SECOND.into()));
    assert_eq!(states(&world).await?, ["draining", "current"]);

    // The one that runs learns of it by itself; the one that hung gets what the other gets at the same instant.
    let since = until_in_the_new_epoch(&world).await?;
    let new = since.last().context("no payment")?;
    for (n, body) in raced.iter().enumerate() {
        let (here, there) = tokio::join!(submit(&world, 0, body), async {
            if n == 0 {
                world.network.signal_gateway(1, Signal::Continue).await?;
            }
            submit(&world, 1, body).await
        });
        let (here, there) = (here?, there?);
        assert_eq!(here.text("payment_id"), there.text("payment_id"));
        let replays = [&here, &there].map(|answer| answer.body["idempotent_replay"] == true);
        assert!(replays[0] != replays[1], "{here:?} {there:?}");
    }

    // What is asked for again is the old payment, in the old epoch.
    for n in 0..2 {
        replayed(&world, n, &old_body, &old).await?;
    }
    let young = refused(&world, &["seal", "0"]).await?;
    assert!(young.contains("may not know it yet"), "{young}");
    let busy = refused(&world, &["seal", "0", "--grace", "0s"]).await?;
    // Ten are named.
    let named = since.iter().chain([&open]).any(|payment_id| busy.contains(payment_id.as_str()));
    assert!(busy.contains("not sealed") && named, "{busy}");
    assert_eq!(states(&world).await?, ["draining", "current"]);

    // A gateway dies in the middle of it.
    world.network.kill_gateway(0).await?;
    world.network.signal_verifier(1, Signal::Continue).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let raced: Vec<PaymentId> = (0..RACES).map(|n| world.payer.payment_id(&format!("raced-{n}"))).collect();
    let all: Vec<PaymentId> = [&old, &open].into_iter().chain(&since).chain(&raced).cloned().collect();
    for payment_id in &all {
        world.completed(payment_id).await?;
    }
    world.settled_once(&all).await?;
    assert_eq!((lies(&world, &old).await?, lies(&world, &open).await?), ((0, 0), (0, 0)));
    assert_eq!(lies(&world, new).await?, (1, 1));
    proven(&world, files.path(), &[&old, new]).await?;

    let sealed = epochs(&world, &["seal", "0", "--grace", "0s"]).await?;
    assert_eq!((&sealed["state"], &sealed["late_commits"]), (&"sealed".into(), &0.into()), "{sealed}");
    assert_eq!(epochs(&world, &["seal", "0", "--grace", "0s"]).await?["state"], "sealed");
    assert_eq!(states(&world).await?, ["sealed", "current"]);
    let acts: Value = serde_json::from_str(&world.gw(&["admin", "acts", "--json"]).await?)?;
    let acts = acts.as_array().context("no acts")?.iter().rev();
    let acts: Vec<_> = acts.map(|act| format!("{} {}", act["act"]["act"], act["end"]["outcome"])).collect();
    let (failed, done) = (r#""seal_epoch" "failed""#, r#""seal_epoch" "done""#);
    assert_eq!(acts, [failed, r#""begin_epoch" "done""#, failed, failed, done, done]);
    for n in 0..2 {
        replayed(&world, n, &old_body, &old).await?;
        let read = world.payer.status(&world.base(n), open.as_str()).await?;
        assert_eq!((read.status, read.text("status")), (200, "completed"), "{read:?}");
    }

    // Only the new epoch is written to, by the gateway that saw it all and by one that starts now.
    world.network.kill_gateway(1).await?;
    world.network.start_gateway(1).await?;
    world.network.ready(1).await?;
    replayed(&world, 1, &old_body, &old).await?;
    let mut last = Vec::new();
    for n in 0..2 {
        let body = signed(&world, &format!("last-{n}")).await?;
        last.push(submit(&world, n, &body).await?.text("payment_id").parse::<PaymentId>()?);
    }
    for payment_id in &last {
        world.completed(payment_id).await?;
        assert_eq!(lies(&world, payment_id).await?, (1, 0), "a sealed epoch needs no mark");
    }
    proven(&world, files.path(), &[&old, new, &last[0]]).await
}

/// Submits until the first gateway begins a payment in the new epoch; all that were submitted, this one last.
async fn until_in_the_new_epoch(world: &World) -> Result<Vec<PaymentId>> {
    let submitted = async {
        let mut payments = Vec::new();
        for n in 0.. {
            let body = signed(world, &format!("new-{n}")).await?;
            let payment_id: PaymentId = submit(world, 0, &body).await?.text("payment_id").parse()?;
            let (epoch, _) = lies(world, &payment_id).await?;
            payments.push(payment_id);
            if epoch == 1 {
                break;
            }
        }
        Ok(payments)
    };
    tokio::time::timeout(PATIENCE, submitted).await.context("no payment begins in the new epoch")?
}

/// Checks that gateway `n` gives the payment again for its body, and refuses other terms under its id.
async fn replayed(world: &World, n: usize, body: &Value, payment_id: &PaymentId) -> Result<()> {
    let again = submit(world, n, body).await?;
    assert_eq!((again.text("payment_id"), &again.body["idempotent_replay"]), (payment_id.as_str(), &true.into()));
    let request_id = body["request_id"].as_str().context("no request_id")?;
    let other = PaymentSpec { amount: (AMOUNT - 1).to_string().parse()?, ..world.spec(request_id)? };
    let other = world.payer.sign(&world.base(n), &other).await?;
    let other = world.payer.submit(&world.base(n), &other, Duration::ZERO).await?;
    assert_eq!(other.status, 409, "{other:?}");
    Ok(())
}
