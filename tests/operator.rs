//! Operator service: what operators ask running gateways, and what gateways tell them unasked.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use async_nats::jetstream::{self, stream::Config};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::process::Command;

use devnet::users::NatsUser;
use journal::operator_acts::{Act, Entry, OperatorActs, Order, Origin, conformance};
use journal_jetstream::operator_acts::NatsOperatorActs;

use crate::support::*;

/// What a `gw admin` that succeeds prints.
async fn admin(world: &World, arguments: &[&str]) -> Result<String> {
    world.gw(&[&["admin"], arguments].concat()).await
}

/// What a `gw admin` that fails says.
async fn refused(world: &World, arguments: &[&str]) -> Result<String> {
    world.gw_refuses(&[&["admin"], arguments].concat()).await
}

async fn admin_json(world: &World, arguments: &[&str]) -> Result<Value> {
    Ok(serde_json::from_str(&admin(world, arguments).await?)?)
}

/// The answers of the gateways, once there are so many.
async fn gateways(world: &World, count: usize) -> Result<Vec<Value>> {
    let polled = async {
        loop {
            let status = admin_json(world, &["status", "--json"]).await?;
            let answers = status["gateways"].as_array().cloned().unwrap_or_default();
            if answers.len() == count {
                return Ok(answers);
            }
        }
    };
    tokio::time::timeout(PATIENCE, polled).await.context("the gateways do not all answer")?
}

/// The shards of an answer that its gateway drives.
fn driven(answer: &Value) -> BTreeSet<u64> {
    let shards = answer["result"]["shards"].as_array().into_iter().flatten();
    shards.filter(|shard| shard["owned"] == true).filter_map(|shard| shard["shard"].as_u64()).collect()
}

fn name(answer: &Value) -> String {
    answer["gateway"].as_str().unwrap_or_default().to_owned()
}

/// Generations, and markers of unfinished ones, in the read models' directory of a gateway.
fn generations(world: &World, gateway: usize) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&world.network.gateways[gateway].projections)? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("generation-")) {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_marker(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "building")
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_tell_how_they_stand_and_rebuild_their_read_models_under_way() -> Result<()> {
    let mut world = World::start(2).await?;
    let mut answers = gateways(&world, 2).await?;
    let complete = async {
        while driven(&answers[0]).len() + driven(&answers[1]).len() < 8 {
            answers = gateways(&world, 2).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    tokio::time::timeout(PATIENCE, complete).await.context("some shards are driven by nobody")??;
    assert!(driven(&answers[0]).is_disjoint(&driven(&answers[1])));
    for answer in &answers {
        let port = answer["result"]["listen"].as_str().and_then(|listen| listen.rsplit(':').next()).context("port")?;
        assert!(name(answer).ends_with(&format!("-{port}")), "{answer}");
        assert_eq!(answer["result"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(answer["result"]["journal_alarms"], serde_json::json!([]));
    }
    let text = admin(&world, &["status"]).await?;
    assert!(text.starts_with("accepting; never paused"), "{text}");
    for answer in &answers {
        assert!(text.contains(&name(answer)), "{text}");
    }

    // One gateway, then all, with payments on their way.
    let mut payments = Vec::new();
    for n in 0..3 {
        payments.push(world.submit(&world.spec(&format!("meanwhile-{n}"))?).await?);
    }
    let one = name(&answers[1]);
    let told = admin(&world, &["rebuild", "--gateway", &one]).await?;
    assert_eq!(told.matches(": equal at sequence").count(), 8, "{told}");
    assert!(told.contains(&format!("{one}: rebuild done")), "{told}");
    let told = admin(&world, &["rebuild"]).await?;
    assert_eq!(told.matches(": equal at sequence").count(), 16, "{told}");
    for gateway in 0..2 {
        assert_eq!(generations(&world, gateway)?.len(), 1);
        world.network.ready(gateway).await?;
    }
    for payment_id in &payments {
        assert_eq!(world.outcome(payment_id).await?.text("status"), "completed");
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(&payments).await?;

    let error = refused(&world, &["rebuild", "--gateway", "nobody"]).await?;
    assert!(error.contains("no gateway answers to the name `nobody`"), "{error}");
    let error = refused(&world, &["rebuild", "--gateway", "*"]).await?;
    assert!(error.contains("characters of a-z"), "{error}");
    let acts = admin_json(&world, &["acts", "--json"]).await?;
    let whom: Vec<_> = acts.as_array().into_iter().flatten().map(|act| &act["act"]["gateway"]).collect();
    assert_eq!(whom, [&json!("nobody"), &Value::Null, &json!(one)], "{acts}");
    let outcomes: Vec<_> = acts.as_array().into_iter().flatten().map(|act| &act["end"]["outcome"]).collect();
    assert_eq!(outcomes, ["failed", "done", "done"], "{acts}");
    assert_eq!(acts[2]["end"]["details"], format!("rebuilt: {one}"));

    killed_while_it_rebuilds(&mut world).await?;
    let outcome = world.payer.status(&world.base(0), payments[0].as_str()).await?;
    assert_eq!(outcome.text("status"), "completed");

    for gateway in 0..2 {
        world.network.kill_gateway(gateway).await?;
    }
    assert!(admin(&world, &["status"]).await?.contains("no gateway answers"));
    assert!(refused(&world, &["overdue"]).await?.contains("no gateway answers"));
    Ok(())
}

/// kill -9 in the midst of a rebuild: the next start serves the old copy, and the next rebuild goes on with what there is of the other,
/// after which nothing is left of either.
async fn killed_while_it_rebuilds(world: &mut World) -> Result<()> {
    for _ in 0..20 {
        let options = world.network.options();
        let mut rebuild = Command::new(&options.gw);
        rebuild.arg("admin").arg("--config").arg(options.directory.join("gateway-1.toml")).arg("rebuild");
        let mut rebuild = rebuild.kill_on_drop(true).stdout(std::process::Stdio::null()).spawn()?;
        let marked = || generations(world, 0).is_ok_and(|found| found.iter().any(|path| is_marker(path)));
        let under_way = async {
            // It is over within a moment.
            while !marked() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, under_way).await.context("nothing is rebuilt")?;
        world.network.kill_gateway(0).await?;
        let caught = generations(world, 0)?.iter().any(|path| is_marker(path));
        rebuild.kill().await?;
        world.network.start_gateway(0).await?;
        world.network.ready(0).await?;
        let left = generations(world, 0)?;
        // One that was marked and not begun is removed; one that was begun stays, with its marker.
        assert!(left.len() == 1 || left.len() == 3 && left.iter().any(|path| is_marker(path)), "{left:?}");
        if caught {
            let told = admin(world, &["rebuild"]).await?;
            assert_eq!(told.matches(": equal at sequence").count(), 16, "{told}");
            assert_eq!(generations(world, 0)?.len(), 1);
            return Ok(());
        }
    }
    anyhow::bail!("the rebuild was always over before the gateway was killed")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_whose_money_is_past_its_time_is_warned_of_and_listed() -> Result<()> {
    let mut world = World::start(2).await?;
    assert!(admin(&world, &["overdue"]).await?.contains("nothing is overdue"));
    let payment_id = world.submit(&world.undeliverable_spec("overdue")?).await?;
    world.until(&payment_id, "EscrowSecured").await?;
    // Without the destination chain nobody can prove that nothing was delivered there.
    world.network.destination.anvil.kill().await?;
    let listed = async {
        loop {
            let report = admin_json(&world, &["overdue", "--json"]).await?;
            if report["total"] != 0 {
                return Ok::<_, anyhow::Error>(report);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let report = tokio::time::timeout(PATIENCE, listed).await.context("the payment is never overdue")??;
    assert_eq!(report["total"], 1, "{report}");
    let overdue = &report["payments"][0];
    assert_eq!(overdue["payment_id"], payment_id.as_str());
    assert_eq!(overdue["stage"], "undelivered");
    assert_eq!(overdue["asset"], world.network.source.token()?.to_string());
    let secured = world.events(&payment_id, "EscrowSecured").await?;
    let Some(events::PaymentEvent::EscrowSecured(secured)) = secured.first() else { anyhow::bail!("not secured") };
    assert_eq!(overdue["amount"], secured.amount.to_string());
    assert_eq!(overdue["transaction_hash"], secured.inclusion.transaction_hash);
    let text = admin(&world, &["overdue"]).await?;
    assert!(text.contains(payment_id.as_str()) && text.contains("undelivered"), "{text}");

    // The gateway that drives it warns, once.
    let warnings = || {
        let logs = (1..=2).map(|n| world.network.options().directory.join(format!("gateway-{n}.log")));
        let text: String = logs.map(|log| std::fs::read_to_string(log).unwrap_or_default()).collect();
        text.lines().filter(|line| line.contains("OVERDUE") && line.contains(payment_id.as_str())).count()
    };
    eventually(|| async { warnings() > 0 }).await?;
    assert_eq!(warnings(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_lost_commits_is_an_alarm_until_it_is_acknowledged() -> Result<()> {
    let mut world = World::start(1).await?;
    let copy = world.network.options().directory.join("copy").to_string_lossy().into_owned();
    world.gw(&["backup", "create", "--directory", &copy]).await?;
    let payment_id = world.submit(&world.spec("lost")?).await?;
    world.outcome(&payment_id).await?;
    world.until(&payment_id, "EscrowReleased").await?;
    world.network.kill_gateway(0).await?;
    world.network.nats.kill().await?;
    // What an old copy, or a disk that lies about syncing, does to the streams.
    std::fs::remove_dir_all(world.network.options().directory.join("nats/jetstream"))?;
    world.network.nats.restart().await?;
    world.gw(&["backup", "restore", "--directory", &copy]).await?;
    world.network.start_gateway(0).await?;
    let alarm = async || {
        let ready = readiness(&world).await.ok()?;
        (ready.0 == 200).then(|| ready.1["alarms"][0].as_str().map(str::to_owned)).flatten()
    };
    eventually(async || alarm().await.is_some()).await?;
    let text = alarm().await.context("the alarm went away by itself")?;
    assert!(text.starts_with("journal shard") && text.contains("ends at 0, but had commits up to "), "{text}");
    // The stream is what is believed.
    assert_eq!(world.payer.status(&world.base(0), payment_id.as_str()).await?.status, 404);

    // It outlives the process, and is in the status.
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let answers = gateways(&world, 1).await?;
    let alarms = answers[0]["result"]["journal_alarms"].as_array().context("alarms")?;
    assert_eq!((alarms.len(), &alarms[0]["head"]), (1, &0.into()));
    // kill -9 left behind what had reached the disk by then.
    assert!(alarms[0]["checkpoint"].as_u64().is_some_and(|sequence| (1..=7).contains(&sequence)), "{alarms:?}");
    assert!(admin(&world, &["status"]).await?.contains("JOURNAL ALARM"));
    assert!(admin(&world, &["acknowledge"]).await?.contains("acknowledged: journal shard"));
    assert!(!admin(&world, &["status"]).await?.contains("JOURNAL ALARM"));
    let (status, ready) = readiness(&world).await?;
    assert!(status == 200 && ready["status"] == "ready" && ready.get("alarms").is_none(), "{ready}");
    assert!(admin(&world, &["acknowledge"]).await?.contains("no alarms"));
    // Which alarms somebody dropped is known for ever.
    let acts = admin_json(&world, &["acts", "--json"]).await?;
    assert_eq!(acts[1]["act"], json!({"act": "acknowledge"}));
    ensure!(acts[0]["end"]["details"].as_str().is_some_and(|text| text.ends_with(": no alarms")), "{acts}");
    let dropped = acts[1]["end"]["details"].as_str().context("details")?;
    assert!(dropped.contains("journal shard") && dropped.contains("ends at 0"), "{acts}");
    Ok(())
}

/// Who gave an order, and whether it had its effect, is known whatever became of whoever carried it out.
#[tokio::test(flavor = "multi_thread")]
async fn every_order_is_recorded_with_who_gave_it_and_how_it_ended() -> Result<()> {
    let world = World::start(1).await?;
    assert_eq!(admin(&world, &["acts"]).await?.trim(), "nothing was ever ordered");
    assert_eq!(admin_json(&world, &["acts", "--json"]).await?, json!([]));

    // A name that is none, and nothing is done.
    for by in ["", "al\u{1b}[2Jice", "\u{202e}ecila", &"a".repeat(101)] {
        let error = refused(&world, &["pause", "--by", by]).await?;
        assert!(error.contains("by: must "), "{by:?}: {error}");
    }
    let error = refused(&world, &["pause", "--reason", &"a".repeat(501)]).await?;
    assert!(error.contains("reason: must have at most 500 characters"), "{error}");
    assert!(admin(&world, &["status"]).await?.starts_with("accepting; never paused"));
    assert_eq!(admin_json(&world, &["acts", "--json"]).await?, json!([]));

    admin(&world, &["pause", "--by", "alice", "--reason", "fork\u{9b}2J"]).await?;
    admin(&world, &["resume"]).await?;
    let acts = admin_json(&world, &["acts", "--json"]).await?;
    assert_eq!(acts.as_array().map(Vec::len), Some(2), "{acts}");
    let (resume, pause) = (&acts[0], &acts[1]);
    assert_eq!(pause["act"], json!({"act": "pause", "reason": "fork\u{9b}2J"}));
    assert_eq!(
        (&pause["by"], &pause["origin"], &pause["entry"]),
        (&json!("alice"), &json!("command_line"), &json!("ordered"))
    );
    assert_eq!((&pause["end"]["outcome"], &resume["end"]["outcome"]), (&json!("done"), &json!("done")));
    // Nobody was named: the user and the machine.
    let by = resume["by"].as_str().context("by")?;
    assert!(by.split_once('@').is_some_and(|(user, machine)| !user.is_empty() && !machine.is_empty()), "{by}");

    // An order of one who was killed before its end, one of a newer version, and one that fails.
    let client = world.network.nats.connect(NatsUser::Gateway).await?;
    let record = NatsOperatorActs::open(client.clone(), 1).await?;
    let killed = Order::new(chrono::Utc::now(), "bob", Origin::Console, Some("gw-1"), Act::Resume { since: None })?;
    record.record(&Entry::Ordered(killed.clone())).await?;
    let newer = conformance::order("carol");
    let body = String::from_utf8(Entry::Ordered(newer.clone()).encode()?)?.replace("pause", "evict");
    jetstream::new(client).publish(format!("gw.acts.{}", newer.id), body.into()).await?.await?;
    refused(&world, &["acknowledge", "--gateway", "nobody", "--by", "dave"]).await?;

    let text = admin(&world, &["acts"]).await?;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("by dave, on a command line"), "{text}");
    assert_eq!(lines[1], "    acknowledge the alarms of nobody");
    assert!(lines[2].starts_with("    failed at ") && lines[2].contains("no gateway answers to the name"), "{text}");
    assert!(lines[3].contains(newer.id.as_str()) && lines[3].contains("does not know"), "{text}");
    assert!(lines[4].ends_with(&format!("{}  by bob, on the console of gw-1", killed.id)), "{text}");
    assert!(lines[6].starts_with("    end unknown"), "{text}");
    assert!(lines[11].starts_with("    pause: fork\\u{9b}2J"), "{text}");
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
    let newest = admin_json(&world, &["acts", "--json", "--limit", "1"]).await?;
    assert_eq!((newest.as_array().map(Vec::len), &newest[0]["by"]), (Some(1), &json!("dave")));
    let unknown = &admin_json(&world, &["acts", "--json", "--limit", "2"]).await?[1];
    assert_eq!((&unknown["entry"], &unknown["id"]), (&json!("unknown"), &json!(newer.id)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_recorded_is_not_carried_out() -> Result<()> {
    let world = World::start(1).await?;
    // A stream in the record's place that would forget.
    let client = world.network.nats.connect(NatsUser::Gateway).await?;
    let subjects = vec!["gw.acts.*".to_owned()];
    let config = Config { name: "OPERATOR_ACTS".to_owned(), subjects, max_messages: 1, ..Config::default() };
    jetstream::new(client).create_stream(config).await?;
    let never = world.payer.payment_id("never-submitted");
    for arguments in [&["pause"][..], &["resume"], &["rebuild"], &["acknowledge"], &["epochs", "begin"]] {
        let error = refused(&world, arguments).await?;
        assert!(error.contains("nothing was done") && error.contains("OPERATOR_ACTS has "), "{arguments:?}: {error}");
    }
    let error = refused(&world, &["park", "replay", never.as_str()]).await?;
    assert!(error.contains("nothing was done"), "{error}");
    let status = admin(&world, &["status"]).await?;
    assert!(status.starts_with("accepting; never paused") && !status.contains("rebuild"), "{status}");
    assert!(!admin(&world, &["epochs"]).await?.contains("epoch 1"));
    Ok(())
}

/// Gateways that were told and do not say what they did: no other is told to have failed, and where none says anything it is
/// not known.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_gateway_does_not_say_is_not_said_to_have_failed() -> Result<()> {
    let world = World::start(1).await?;
    let real = name(&gateways(&world, 1).await?[0]);
    let client = world.network.nats.connect(NatsUser::Gateway).await?;
    let silent = client.subscribe("gw.operator.ghost.*").await?;
    let (mut newer, mut all) =
        (client.subscribe("gw.operator.newer.*").await?, client.subscribe("gw.operator.all.*").await?);
    client.flush().await?;
    // One that answers as no build does, and to all how it stands alone.
    let answering = client.clone();
    let answers = tokio::spawn(async move {
        loop {
            let (question, to_all) = tokio::select! {
                Some(question) = newer.next() => (question, false),
                Some(question) = all.next() => (question, true),
                else => return Ok::<_, anyhow::Error>(()),
            };
            let reply = question.reply.context("no place for an answer")?;
            let is_status = question.subject.ends_with(".status");
            if is_status || !to_all {
                answering.publish(reply, r#"{"gateway": "newer", "result": 7}"#.into()).await?;
            }
        }
    });
    for gateway in ["ghost", "newer"] {
        let error = refused(&world, &["acknowledge", "--gateway", gateway]).await?;
        assert!(error.contains("whether it was done is not known"), "{error}");
        let acts = admin_json(&world, &["acts", "--json", "--limit", "1"]).await?;
        assert_eq!((&acts[0]["act"]["gateway"], &acts[0]["end"]), (&json!(gateway), &Value::Null), "{acts}");
    }
    let error = refused(&world, &["acknowledge"]).await?;
    let of_real = format!("{real}: no alarms");
    assert!(error.contains(&of_real) && error.contains("newer: whether it did is not known"), "{error}");
    let acts = admin_json(&world, &["acts", "--json", "--limit", "1"]).await?;
    let told = acts[0]["end"]["error"].as_str().context("no error")?;
    assert!(told.contains(&of_real) && told.contains("newer: whether it did is not known"), "{acts}");
    let text = admin(&world, &["status"]).await?;
    assert!(text.contains("newer: its answer cannot be read") && text.contains(&real), "{text}");
    answers.abort();
    drop(silent);
    Ok(())
}

async fn readiness(world: &World) -> Result<(u16, Value)> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
    let answer = client.get(format!("{}/readyz", world.base(0))).send().await?;
    Ok((answer.status().as_u16(), answer.json().await?))
}
