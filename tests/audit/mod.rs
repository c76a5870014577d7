//! `gw audit` as a process, with read-only credentials, on a network of real payments, and on what attackers made of it.

mod attacker;
pub mod stock_clients;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use attacker::{Attacker, Stored, edit_line};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use devkit::tools;
use devnet::payer::PaymentSpec;
use events::{Did, PaymentId, StreamId};

use crate::support::*;

/// What `gw audit` did.
#[derive(Debug)]
struct Audit {
    code: i32,
    said: String,
    report: Value,
}

impl Audit {
    /// The findings that say that something is wrong.
    fn faults(&self) -> Vec<&Value> {
        let findings = self.report["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
        findings.iter().filter(|finding| finding["severity"] != "open").collect()
    }

    /// Whether `check` found something of `severity` at the message `sequence` of `stream`.
    fn found(&self, severity: &str, check: &str, stream: &str, sequence: u64) -> bool {
        self.faults().iter().any(|finding| {
            finding["severity"] == severity
                && finding["check"] == check
                && finding["stream"] == stream
                && finding["sequence"] == sequence
        })
    }

    fn checks(&self) -> Vec<&str> {
        self.faults().iter().filter_map(|finding| finding["check"].as_str()).collect()
    }
}

/// Runs `gw audit` with the network's auditor's configuration; `nats` is another server than the network's.
async fn audit(world: &World, nats: Option<&str>, args: &[&str]) -> Result<Audit> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
    command.arg("audit").arg("--config").arg(world.network.auditor_config()).args(args);
    if let Some(url) = nats {
        command.env("GW_AUDITOR_NATS__URL", url);
    }
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok(Audit { code: output.status.code().context("ended by a signal")?, said, report })
}

/// Verifies everything until all of it is proven and signed, and no more is under way than `open`.
async fn settled(world: &World, open: u64) -> Result<Audit> {
    let polled = async {
        loop {
            let audit = audit(world, None, &["verify", "--all", "--json"]).await?;
            ensure!(audit.code == 0, "{}", audit.said);
            if audit.report["unsigned"] == 0 && audit.report["counts"]["open"] == open {
                return Ok(audit);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, polled).await.context("not everything is signed in time")?
}

/// A payment of each kind.
struct Paid {
    completed: PaymentId,
    awarded: PaymentId,
    batch: StreamId,
    refunded: PaymentId,
    failed: PaymentId,
    open: PaymentId,
}

async fn pay(world: &World) -> Result<Paid> {
    let refunded = world.submit(&world.undeliverable_spec("refunded")?).await?;
    let open = PaymentSpec { fulfillment_window: Duration::from_secs(900), ..world.undeliverable_spec("open")? };
    let open = world.submit(&open).await?;
    let failed = world.submit(&PaymentSpec { cap: AMOUNT.to_string().parse()?, ..world.spec("failed")? }).await?;
    let completed = world.submit(&world.spec("completed")?).await?;

    let base = world.base(0);
    let cart = world.payer.quote_request(&world.spec("cart")?);
    let ready = world.payer.open(&base, &cart, true).await?;
    let batch: StreamId = ready.text("quote_request_id").parse()?;
    let award = world.payer.sign_award(&base, &ready.body, 0, "awarded").await?;
    let answer = world.payer.award(&base, batch.as_str(), &award, Duration::ZERO).await?;
    let awarded = answer.text("payment_id").parse()?;

    for (payment_id, event) in [
        (&completed, "EscrowReleased"),
        (&awarded, "EscrowReleased"),
        (&refunded, "EscrowRefunded"),
        (&failed, "Failed"),
        (&open, "EscrowSecured"),
    ] {
        world.until(payment_id, event).await?;
    }
    Ok(Paid { completed, awarded, batch, refunded, failed, open })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_is_proven_and_what_was_tampered_with_is_named() -> Result<()> {
    let world = World::start(1).await?;
    let directory = tempfile::tempdir()?;
    let paid = pay(&world).await?;
    let all = settled(&world, 1).await?;
    assert_eq!((&all.report["payments"], &all.report["batches"]), (&5.into(), &1.into()), "{}", all.said);

    each_stream_is_proven_and_shown(&world, &paid).await?;
    let exported = exports_are_resumed_and_prove_the_same(&world, &directory, &all).await?;
    an_edited_line_is_named(&world, &directory, &exported, &paid).await?;
    a_rebuilt_journal_is_found(&world, &directory, &exported, &paid).await?;
    a_gateway_that_lies_is_found_by_the_chains(&world, &directory, &exported, &paid).await?;
    what_cannot_be_asked_is_not_called_proven(&world, &paid).await?;
    a_plain_nats_client_sees_the_same(&world, &paid).await?;
    stock_clients::the_documented_replay_reads_a_whole_shard(&world, &paid.completed).await?;
    stock_clients::an_auditor_without_measure_stops_no_payment(&world).await
}

async fn each_stream_is_proven_and_shown(world: &World, paid: &Paid) -> Result<()> {
    for id in [&paid.completed, &paid.awarded, &paid.refunded, &paid.failed, &paid.open] {
        let proven = audit(world, None, &["verify", id.as_str(), "--json"]).await?;
        let open = u64::from(*id == paid.open);
        assert_eq!((proven.code, &proven.report["counts"]["open"]), (0, &open.into()), "{}", proven.said);
    }
    let proven = audit(world, None, &["verify", paid.batch.as_str()]).await?;
    assert!(proven.code == 0 && proven.said.contains("PROVEN"), "{}", proven.said);
    let unknown = PaymentId::derive("nobody", "nothing");
    for command in ["verify", "replay"] {
        assert_eq!(audit(world, None, &[command, unknown.as_str()]).await?.code, 1);
    }
    assert_eq!(audit(world, None, &["verify", "pay_x"]).await?.code, 2);
    assert_eq!(audit(world, None, &["verify"]).await?.code, 2);

    let text = audit(world, None, &["replay", paid.refunded.as_str()]).await?;
    let json = audit(world, None, &["replay", paid.refunded.as_str(), "--json"]).await?;
    assert_eq!((text.code, json.code), (0, 0), "{}", text.said);
    let messages = json.report["messages"].as_array().context("no messages")?;
    assert_eq!(messages[0]["events"][0]["type"], "Submitted");
    for message in messages {
        let hash = message["hash"].as_str().context("no hash")?;
        assert!(text.said.contains(hash), "{hash} is not in {}", text.said);
        for event in message["events"].as_array().context("no events")? {
            assert!(text.said.contains(event["type"].as_str().context("no type")?));
            for transaction in event["transactions"].as_array().context("no transactions")? {
                assert!(text.said.contains(transaction["transaction_hash"].as_str().context("no hash")?));
            }
        }
    }
    let last = &messages.last().context("no messages")?["events"][0];
    assert_eq!(last["type"], "EscrowRefunded");
    assert_eq!(last["transactions"].as_array().map(Vec::len), Some(1), "{last}");
    Ok(())
}

async fn exports_are_resumed_and_prove_the_same(world: &World, directory: &TempDir, all: &Audit) -> Result<PathBuf> {
    let path = |name: &str| directory.path().join(name);
    let export = async |name: &str, args: &[&str]| {
        let output = path(name);
        let args = [&["export", "--output", output.to_str().context("not Unicode")?], args].concat();
        let exported = audit(world, None, &args).await?;
        ensure!(exported.code == 0, "{}", exported.said);
        anyhow::Ok(output)
    };
    let whole = export("whole", &[]).await?;
    let one = export("one.jsonl", &[]).await?;
    for (output, count) in [(&whole, 9), (&one, 1)] {
        let files = if output.is_dir() { std::fs::read_dir(output)?.count() } else { 1 };
        assert_eq!(files, count);
        let proven = audit(world, None, &["verify", "--all", "--json", "--export", &output.to_string_lossy()]).await?;
        assert_eq!(proven.code, 0, "{}", proven.said);
        for member in ["payments", "batches", "messages"] {
            assert_eq!(proven.report[member], all.report[member], "{member}");
        }
    }

    // As a killed run leaves it: in the middle of a line, and with a stream that it did not come to.
    let (torn, gone) = (path("whole/EVT_00.jsonl"), path("whole/EVT_01.jsonl"));
    let (first, second) = (std::fs::read(&torn)?, std::fs::read(&gone)?);
    std::fs::write(&torn, &first[..first.len() / 2])?;
    std::fs::remove_file(&gone)?;
    export("whole", &[]).await?;
    assert_eq!((std::fs::read(&torn)?, std::fs::read(&gone)?), (first.clone(), second));
    export("whole", &[]).await?;
    assert_eq!(std::fs::read(&torn)?, first);

    let part = export("part.jsonl", &["--shard", "0", "--from-sequence", "2"]).await?;
    let lines = first.split_inclusive(|byte| *byte == b'\n').skip(1).collect::<Vec<_>>().concat();
    assert_eq!(std::fs::read(part)?, lines);
    Ok(whole)
}

/// One byte of one line of an exported journal.
async fn an_edited_line_is_named(world: &World, directory: &TempDir, exported: &Path, paid: &Paid) -> Result<()> {
    let copy = directory.path().join("edited");
    let stored = Stored::read(exported)?;
    for id in [&paid.completed, &paid.refunded, &paid.open] {
        let own = stored.of(id.as_str());
        for message in [own[0], own[own.len() / 2]] {
            let (stream, sequence) = (message.stream.as_str(), message.sequence);
            // A digit of a time or an amount: still JSON, still an event.
            edit_line(exported, &copy, stream, sequence, |body| {
                let at = body.rfind(|c: char| c.is_ascii_digit()).context("no digit")?;
                let digit = if &body[at..=at] == "7" { "8" } else { "7" };
                body.replace_range(at..=at, digit);
                Ok(())
            })?;
            let args = ["verify", "--all", "--json", "--offline", "--export", &copy.to_string_lossy()];
            let found = audit(world, None, &args).await?;
            assert_eq!(found.code, 1, "{}", found.said);
            assert!(found.found("tampered", "hash-chain", stream, sequence), "{stream} {sequence}: {}", found.said);
            assert!(found.checks().contains(&"checkpoint"), "{}", found.said);
        }
    }
    Ok(())
}

/// A server with a journal that somebody wrote anew with care.
async fn a_rebuilt_journal_is_found(world: &World, directory: &TempDir, exported: &Path, paid: &Paid) -> Result<()> {
    let stored = Stored::read(exported)?;
    let state = directory.path().join("state.json");
    let state = state.to_str().context("not Unicode")?;
    let remembered = audit(world, None, &["verify", "--all", "--json", "--state", state]).await?;
    assert_eq!(remembered.code, 0, "{}", remembered.said);
    let verify = ["verify", "--all", "--json", "--state", state];

    // A copy of everything proves the same.
    let attacker = Attacker::rebuild(&stored).await?;
    let found = audit(world, Some(&attacker.url()), &verify).await?;
    assert_eq!(found.code, 0, "{}", found.said);

    // The last message of a payment: no other message knows its hash.
    let mut forged = stored.clone();
    let last = forged.last_of(paid.completed.as_str())?;
    let (stream, sequence) = (last.stream.clone(), last.sequence);
    last.replace("\"block_number\":", "\"block_number\":1")?;
    let attacker = Attacker::rebuild(&forged).await?;
    let found = audit(world, Some(&attacker.url()), &verify).await?;
    assert_eq!(found.code, 1, "{}", found.said);
    assert!(found.found("contradiction", "release", &stream, sequence), "{}", found.said);
    assert!(found.checks().contains(&"checkpoint"), "{}", found.said);

    // A whole payment with all its hashes made anew; what is changed, no chain knows.
    let mut forged = stored.clone();
    let stream = forged.rehash(paid.refunded.as_str(), |message| message.header("Gw-Correlation", "nobody"))?;
    let attacker = Attacker::rebuild(&forged).await?;
    let found = audit(world, Some(&attacker.url()), &verify).await?;
    assert_eq!(found.code, 1, "{}", found.said);
    assert!(found.checks().iter().all(|check| *check == "checkpoint"), "{}", found.said);
    assert!(found.faults().iter().all(|fault| fault["stream"] == stream.as_str()), "{}", found.said);

    // The end of a shard cut off, with checkpoints that say otherwise.
    let mut forged = stored.clone();
    let (stream, cut) = forged.cut(paid.completed.as_str())?;
    let attacker = Attacker::rebuild(&forged).await?;
    let found = audit(world, Some(&attacker.url()), &verify).await?;
    assert_eq!(found.code, 1, "{}", found.said);
    assert!(found.found("missing", "truncated", &stream, cut), "{}", found.said);

    // With its checkpoints: only who saw them knows, and the chain, on which the payment goes on.
    forged.drop_checkpoints_beyond(&stream);
    let attacker = Attacker::rebuild(&forged).await?;
    let found = audit(world, Some(&attacker.url()), &verify).await?;
    assert!(found.code == 1 && found.checks().contains(&"checkpoint-gone"), "{}", found.said);
    let found = audit(world, Some(&attacker.url()), &["verify", "--all", "--json"]).await?;
    assert!(!found.checks().contains(&"checkpoint-gone"), "{}", found.said);

    // Checkpoints signed anew, by a stranger and with the gateway's own key.
    for (key, check) in [([9; 32], "checkpoint-signer"), (attacker::checkpoint_seed(), "checkpoint-fork")] {
        let mut forged = stored.clone();
        forged.rehash(paid.refunded.as_str(), |message| message.header("Gw-Correlation", "nobody"))?;
        forged.sign_again(&key)?;
        let attacker = Attacker::rebuild(&forged).await?;
        let found = audit(world, Some(&attacker.url()), &verify).await?;
        assert!(found.code == 1 && found.checks().contains(&check), "{check}: {}", found.said);
    }

    // None of this made the auditor forget what it saw.
    let again = audit(world, None, &verify).await?;
    assert_eq!(again.code, 0, "{}", again.said);
    Ok(())
}

/// A journal written by the gateway itself: hashes, checkpoints and signatures on them are right.
async fn a_gateway_that_lies_is_found_by_the_chains(
    world: &World,
    directory: &TempDir,
    exported: &Path,
    paid: &Paid,
) -> Result<()> {
    let stored = Stored::read(exported)?;
    let payload = |id: &PaymentId, event: &str| stored.payload(id.as_str(), event);
    let deposit = payload(&paid.refunded, "EscrowSecured")?["inclusion"]["transaction_hash"].clone();
    let release = payload(&paid.completed, "EscrowReleased")?["inclusion"]["transaction_hash"].clone();
    let attestation = payload(&paid.awarded, "FulfillmentConfirmed")?["attestation"].clone();
    let raw = payload(&paid.awarded, "DepositPrepared")?["raw"].clone();
    let terms = payload(&paid.awarded, "Submitted")?["terms_hash"].clone();
    let nowhere = Value::from(format!("0x{}", "11".repeat(32)));
    let lies = [
        (&paid.completed, "Submitted", "/request_id", "another".into(), "contradiction", "id"),
        (&paid.completed, "Submitted", "/terms/fulfillment_amount", "24000000".into(), "contradiction", "terms-hash"),
        (&paid.completed, "Submitted", "/terms_hash", nowhere.clone(), "contradiction", "terms-hash"),
        (
            &paid.completed,
            "Submitted",
            "/escrow/refund_after",
            4_000_000_000u64.into(),
            "contradiction",
            "authorization",
        ),
        (&paid.completed, "Submitted", "/authorization/nonce", terms, "contradiction", "authorization"),
        (&paid.completed, "AuctionClosed", "/quotes/1/source_amount", "1".into(), "contradiction", "selection"),
        (&paid.completed, "DepositPrepared", "/raw", raw, "contradiction", "prepared"),
        (&paid.completed, "EscrowSecured", "/amount", "25025001".into(), "contradiction", "conservation"),
        (&paid.completed, "EscrowSecured", "/inclusion/transaction_hash", nowhere.clone(), "missing", "deposit"),
        (&paid.completed, "EscrowSecured", "/inclusion/transaction_hash", release, "contradiction", "deposit"),
        (&paid.completed, "FulfillmentConfirmed", "/inclusion/block_number", 1.into(), "contradiction", "delivery"),
        (
            &paid.completed,
            "FulfillmentConfirmed",
            "/inclusion/transaction_hash",
            nowhere.clone(),
            "missing",
            "delivery",
        ),
        (&paid.completed, "FulfillmentConfirmed", "/attestation", attestation, "contradiction", "attestation"),
        (&paid.completed, "EscrowReleased", "/inclusion/transaction_hash", nowhere, "missing", "release"),
        (&paid.refunded, "EscrowRefunded", "/inclusion/transaction_hash", deposit, "missing", "refund"),
        (&paid.refunded, "EscrowRefunded", "/amount", "25025000000".into(), "contradiction", "refund"),
    ];
    for (n, (id, event, pointer, value, severity, check)) in lies.into_iter().enumerate() {
        let mut forged = stored.clone();
        forged.rewrite(id.as_str(), event, pointer, value)?;
        forged.rehash(id.as_str(), |_| ())?;
        forged.sign_again(&attacker::checkpoint_seed())?;
        let path = directory.path().join(format!("lie-{n}"));
        forged.write(&path)?;
        let found = audit(world, None, &["verify", "--all", "--json", "--export", &path.to_string_lossy()]).await?;
        let named = found.faults().iter().any(|fault| {
            fault["severity"] == severity
                && fault["check"] == check
                && fault["subject"].as_str().is_some_and(|subject| subject.ends_with(id.as_str()))
        });
        ensure!(found.code == 1 && named, "{event} {pointer}: {}", found.said);
        ensure!(!found.checks().iter().any(|check| check.starts_with("checkpoint")), "{}", found.said);
    }

    // A payment that the gateway no longer wants to have ended: the chains go on telling.
    for (id, word) in [(&paid.completed, "released"), (&paid.refunded, "refunded")] {
        let mut forged = stored.clone();
        let (stream, _) = forged.cut(id.as_str())?;
        forged.drop_checkpoints_beyond(&stream);
        forged.sign_again(&attacker::checkpoint_seed())?;
        let path = directory.path().join(format!("untold-{id}"));
        forged.write(&path)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
        command.args(["audit", "verify", "--json", id.as_str(), "--export"]).arg(&path);
        command.arg("--config").arg(world.network.auditor_config()).env("GW_AUDITOR_LAG_SECONDS", "0");
        let output = command.output().await?;
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let what = report["findings"][0]["what"].as_str().context("nothing is found")?;
        assert_eq!((output.status.code(), &report["findings"][0]["check"]), (Some(1), &"tail".into()), "{report}");
        assert!(what.contains(word), "{what}");
    }
    Ok(())
}

async fn what_cannot_be_asked_is_not_called_proven(world: &World, paid: &Paid) -> Result<()> {
    let offline = audit(world, None, &["verify", paid.completed.as_str(), "--offline", "--json"]).await?;
    assert_eq!(offline.code, 0, "{}", offline.said);
    let not_checked = offline.report["not_checked"].to_string();
    assert!(not_checked.contains("chain"), "{not_checked}");

    let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
    command.args(["audit", "verify", paid.completed.as_str(), "--json", "--config"]);
    command.arg(world.network.auditor_config());
    // A node that is not there.
    let nowhere = format!("http://127.0.0.1:{}", devkit::free_port()?);
    let output = command.env("GW_AUDITOR_CHAINS__0__RPC_URL", &nowhere).output().await?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((output.status.code(), &report["verdict"]), (Some(3), &"incomplete".into()), "{report}");
    assert!(report["findings"].as_array().is_some_and(|found| found.iter().all(|f| f["severity"] == "unverifiable")));

    // A depth at which the chain has nothing of it yet.
    let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
    command.args(["audit", "verify", paid.completed.as_str(), "--json", "--config"]);
    command.arg(world.network.auditor_config()).env("GW_AUDITOR_CHAINS__0__REQUIRED_DEPTH", "1000000");
    let output = command.output().await?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((output.status.code(), &report["counts"]["open"]), (Some(0), &1.into()), "{report}");

    let nowhere = format!("nats://127.0.0.1:{}", devkit::free_port()?);
    assert_eq!(audit(world, Some(&nowhere), &["verify", "--all"]).await?.code, 3);
    Ok(())
}

/// The example for auditors who use none of our programs.
async fn a_plain_nats_client_sees_the_same(world: &World, paid: &Paid) -> Result<()> {
    let root = tools::root();
    let key = Did::from_ed25519(&ed25519_dalek::SigningKey::from_bytes(&attacker::checkpoint_seed()).verifying_key());
    let run = async |args: Vec<String>| {
        let mut command = Command::new("python3");
        command.arg(root.join("examples/auditor/audit.py")).args(args);
        command.env("PYTHONPATH", root.join(".tools/settler"));
        command
            .env("NATS_URL", world.network.nats.url())
            .env("NATS_SEED_FILE", world.network.options().directory.join("nats/auditor.seed"));
        anyhow::Ok(command.stdin(Stdio::null()).kill_on_drop(true).output().await?)
    };
    let output = run(vec![paid.completed.to_string(), key.to_string()]).await?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{said}");
    let replay = audit(world, None, &["replay", paid.completed.as_str(), "--json"]).await?;
    for message in replay.report["messages"].as_array().context("no messages")? {
        let hash = message["hash"].as_str().context("no hash")?;
        ensure!(said.contains(hash), "{hash} is not in {said}");
    }
    ensure!(said.contains("checkpoints agree"), "{said}");
    // A key that signed nothing.
    let stranger = Did::from_ed25519(&ed25519_dalek::SigningKey::from_bytes(&[9; 32]).verifying_key());
    let output = run(vec![paid.completed.to_string(), stranger.to_string()]).await?;
    ensure!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}
