//! Total loss of NATS: a copy is put into empty servers, and what it lacks is found on the chains.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use app::admission::{
    pause::{self, ControlBucket},
    restore_mark::{RestoreMark, RestoreState},
};
use devkit::Signal;
use devnet::{payer::Answer, timeline::Auditor, users::NatsUser};
use events::{PaymentEvent, PaymentId};
use serde_json::Value;
use tokio::process::Command;

use crate::support::*;

/// NATS loses all it had, and comes back.
async fn lose_everything(world: &mut World) -> Result<()> {
    world.network.kill_gateway(0).await?;
    world.network.nats.kill().await?;
    std::fs::remove_dir_all(world.network.options().directory.join("nats/jetstream"))?;
    world.network.nats.restart().await
}

async fn status(world: &World, payment_id: &PaymentId) -> Result<Answer> {
    world.payer.status(&world.base(0), payment_id.as_str()).await
}

/// Payments at different stages when the copy was made, and the one that came later.
struct Payments {
    done: PaymentId,
    delivered: PaymentId,
    auctioned: PaymentId,
    unsold: PaymentId,
    later: PaymentId,
}

impl Payments {
    /// Makes a copy in between, and lets all of them come to their ends afterwards.
    async fn made(world: &World, copy: &str) -> Result<(Self, Value)> {
        let done = world.submit(&world.spec("done")?).await?;
        world.completed(&done).await?;
        world.network.signal_verifier(1, Signal::Stop).await?;
        let delivered = world.submit(&world.spec("delivered")?).await?;
        world.until(&delivered, "FulfillmentSeen").await?;
        for settler in 1..=3 {
            world.network.signal_settler(settler, Signal::Stop).await?;
        }
        let brief = |spec| devnet::payer::PaymentSpec { fulfillment_window: Duration::from_secs(30), ..spec };
        let auctioned = world.submit(&brief(world.spec("auctioned")?)).await?;
        let unsold = world.submit(&brief(world.undeliverable_spec("unsold")?)).await?;
        world.gw(&["admin", "acknowledge", "--by", "alice"]).await?;
        let made = world.gw(&["backup", "create", "--directory", copy]).await?;
        ensure!(made.starts_with("copied: "), "{made}");
        for payment_id in [&auctioned, &unsold] {
            ensure!(world.types(payment_id).await? == ["Submitted"], "the copy was to be made before");
        }
        for settler in 1..=2 {
            world.network.signal_settler(settler, Signal::Continue).await?;
        }
        world.network.signal_verifier(1, Signal::Continue).await?;
        for payment_id in [&delivered, &auctioned] {
            world.completed(payment_id).await?;
        }
        world.until(&unsold, "Failed").await?;
        world.network.signal_settler(3, Signal::Continue).await?;
        let body = world.payer.sign(&world.base(0), &world.spec("later")?).await?;
        let answer = world.payer.submit(&world.base(0), &body, Duration::ZERO).await?;
        ensure!(answer.status == 200, "{answer:?}");
        let later = answer.text("payment_id").parse()?;
        world.completed(&later).await?;
        Ok((Self { done, delivered, auctioned, unsold, later }, body))
    }

    fn paid(&self) -> Vec<PaymentId> {
        [&self.done, &self.delivered, &self.auctioned, &self.later].map(Clone::clone).into()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_total_loss_payments_go_on_from_the_copy_and_the_chains_and_nothing_is_paid_twice() -> Result<()> {
    let mut world = World::with(|options| devnet::network::Options { refund_delay_seconds: 15, ..options }).await?;
    let copy = world.network.options().directory.join("copy");
    let copy = copy.to_str().context("a path")?;
    let before = world.balances().await?;
    let (payments, body) = Payments::made(&world, copy).await?;
    let after = world.balances().await?;
    let message = world.gw_refuses(&["backup", "restore", "--directory", copy]).await?;
    assert!(message.contains("gateways are running: "), "{message}");

    lose_everything(&mut world).await?;
    // It does not begin a journal beside the one that is lost.
    world.network.spawn_gateway(0)?;
    ended(&mut world).await.context("the gateway began anew")?;
    let log = world.network.log("gateway-1")?;
    assert!(log.contains("the journal is gone") && log.contains("gw backup restore"), "{log}");

    let verified = Command::new(&world.network.options().gw).args(["backup", "verify", "--directory", copy]).output();
    let verified = String::from_utf8(verified.await?.stdout)?;
    assert!(verified.contains("whole: "), "{verified}");
    restore_in_two_goes(&world, copy).await?;
    let message = world.gw_refuses(&["backup", "create", "--directory", "/proc/no"]).await?;
    assert!(message.contains("/proc/no"), "{message}");

    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    world.auditor = Auditor::connect(&world.network).await?;
    // What came after the copy is an alarm, as it was seen here.
    let status_text = world.gw(&["admin", "status"]).await?;
    assert!(status_text.contains("JOURNAL ALARM") && status_text.contains("restored from a copy of"), "{status_text}");
    assert_eq!(status(&world, &payments.done).await?.text("status"), "completed");
    // Delivered before the loss, and released after the copy.
    world.completed(&payments.delivered).await?;
    assert_eq!(status(&world, &payments.later).await?.status, 404);
    // The deposit of the one and the missing deposit of the other are found on the chain.
    world.until(&payments.auctioned, "EscrowReleased").await?;
    let types = world.types(&payments.auctioned).await?;
    assert_eq!(types, ["Submitted", "EscrowOpened", "Failed", "EscrowReleased"]);
    let opened = world.events(&payments.auctioned, "EscrowOpened").await?;
    assert!(matches!(&opened[..], [PaymentEvent::EscrowOpened(opened)] if opened.reserved_for.is_some()));
    let answer = status(&world, &payments.auctioned).await?;
    assert_eq!(answer.body["error"]["retry_classification"], "RECONCILE_THEN_DECIDE", "{answer:?}");
    world.until(&payments.unsold, "Failed").await?;
    assert_eq!(world.types(&payments.unsold).await?, ["Submitted", "Failed"]);
    assert_eq!(logs(&world.network.source, DEPOSITED, &payments.unsold).await?, 0);
    for payment_id in [&payments.done, &payments.delivered, &payments.auctioned, &payments.unsold] {
        world.audited(payment_id).await?;
    }

    // Paused until somebody has looked; then as ever. What was signed before the loss has had its time.
    let signed = world.payer.sign(&world.base(0), &world.spec("paused")?).await?;
    let answer = world.payer.submit(&world.base(0), &signed, Duration::ZERO).await?;
    assert_eq!(answer.status, 503, "{answer:?}");
    world.gw(&["admin", "acknowledge"]).await?;
    world.gw(&["admin", "resume"]).await?;
    // What operators had ordered before is known, and what they order goes on behind it.
    let acts: Value = serde_json::from_str(&world.gw(&["admin", "acts", "--json"]).await?)?;
    let acts = acts.as_array().context("no acts")?;
    let sequences: Vec<_> = acts.iter().map(|act| format!("{} {}", act["sequence"], act["end"]["outcome"])).collect();
    assert_eq!(sequences, [5, 3, 1].map(|sequence| format!("{sequence} \"done\"")), "{acts:?}");
    assert_eq!(acts[2]["by"], "alice");
    let accepts = async || world.payer.submit(&world.base(0), &body, Duration::ZERO).await.map(|answer| answer.status);
    eventually(async || accepts().await.is_ok_and(|status| status != 503)).await?;
    assert_eq!(accepts().await?, 400);
    assert_eq!(world.balances().await?, after);
    let fresh = world.submit(&world.spec("fresh")?).await?;
    world.completed(&fresh).await?;
    world.settled_once(&[payments.paid(), vec![fresh]].concat()).await?;
    let now = world.balances().await?;
    assert_eq!(before["payer"] - now["payer"], alloy::primitives::U256::from(PRICE * 5));
    assert!(now["escrow"].is_zero());

    // The next copy goes on elsewhere, as the journal is another one now.
    let message = world.gw_refuses(&["backup", "restore", "--directory", copy]).await?;
    assert!(message.contains("gateways are running"), "{message}");
    let second = world.network.options().directory.join("second");
    let second = second.to_str().context("a path")?;
    world.gw(&["backup", "create", "--directory", second]).await?;
    let again = world.gw(&["backup", "create", "--directory", second]).await?;
    assert!(again.contains("copied: "), "{again}");
    world.network.kill_gateway(0).await?;
    let message = world.gw_refuses(&["backup", "restore", "--directory", copy]).await?;
    assert!(message.contains("a copy is put into empty servers"), "{message}");
    let message = world.gw_refuses(&["backup", "restore", "--directory", second]).await?;
    assert!(message.contains("a restore of another copy"), "{message}");

    // What a server has left is taken for a copy; nobody decides so under a gateway.
    let text = world.gw(&["backup", "adopt"]).await?;
    assert!(text.contains("taken for a copy: ") && text.contains("the gateways are paused"), "{text}");
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let message = world.gw_refuses(&["backup", "adopt"]).await?;
    assert!(message.contains("gateways are running"), "{message}");
    a_gateway_ends_under_which_a_restore_begins(&mut world).await
}

async fn a_gateway_ends_under_which_a_restore_begins(world: &mut World) -> Result<()> {
    let client = world.network.nats.connect(NatsUser::Gateway).await?;
    let stored = RestoreMark::read(&client).await?.context("the mark that was set")?;
    let mark = RestoreMark { state: RestoreState::UnderWay, ..stored.mark };
    let bucket = ControlBucket::open(client, 1).await?;
    assert!(matches!(mark.set(&bucket, Some(stored.revision - 1)).await, Err(pause::Error::Changed)));
    mark.set(&bucket, Some(stored.revision)).await?;
    ended(world).await.context("it runs on")?;
    let log = world.network.log("gateway-1")?;
    assert!(log.contains("a restore of the journal was begun while this gateway ran"), "{log}");
    a_gateway_that_waits_says_so(world).await
}

/// Started again, it waits for the end of the restore.
async fn a_gateway_that_waits_says_so(world: &mut World) -> Result<()> {
    world.network.spawn_gateway(0)?;
    let (http, base) = (reqwest::Client::new(), world.base(0));
    let alive = async || match http.get(format!("{base}/healthz")).send().await {
        Ok(answer) => answer.text().await.is_ok_and(|text| text.contains("\"starting\"")),
        Err(_) => false,
    };
    eventually(async || alive().await).await?;
    let payment = http.post(format!("{base}/v1/payments")).body("{}");
    for (request, code) in [(http.get(format!("{base}/readyz")), "NOT_READY"), (payment, "SERVICE_UNAVAILABLE")] {
        let answer = request.send().await?;
        assert_eq!(answer.status(), 503);
        assert!(answer.headers().contains_key("retry-after") && answer.headers().contains_key("x-request-id"));
        let error: Value = answer.json().await?;
        assert_eq!(error["code"], code);
        assert!(error["message"].as_str().is_some_and(|text| text.contains("the end of a restore")), "{error}");
    }
    Ok(())
}

/// Waits until the first gateway's process has ended.
async fn ended(world: &mut World) -> Result<()> {
    let ended = async {
        while world.network.gateway_runs(0)? {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, ended).await?
}

/// Kills a restore as soon as some of the streams are there, and begins it again.
async fn restore_in_two_goes(world: &World, copy: &str) -> Result<()> {
    let options = world.network.options();
    let (config, streams) = (options.directory.join("gateway-1.toml"), options.directory.join("nats/jetstream"));
    let mut first = Command::new(&options.gw);
    first.args(["backup", "restore", "--wait-seconds", "0", "--directory", copy, "--config"]).arg(config);
    let mut first = first.kill_on_drop(true).spawn()?;
    let begun = async {
        while walk(&streams, "EVT_02").is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.context("nothing is restored")?;
    first.kill().await?;
    let text = world.gw(&["backup", "restore", "--wait-seconds", "0", "--directory", copy]).await?;
    assert!(text.contains("in place: ") && text.contains("the gateways are paused"), "{text}");
    // Nothing is there twice, and it says so.
    let text = world.gw(&["backup", "restore", "--wait-seconds", "0", "--directory", copy]).await?;
    assert!(text.contains("in place: "), "{text}");
    Ok(())
}

/// A directory of this name below `root`.
fn walk(root: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(root).ok()?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .find_map(|path| if path.file_name().is_some_and(|file| file == name) { Some(path) } else { walk(&path, name) })
}
