//! Three gateways on a cluster of three nats-servers: any of the six may be killed, and a gateway waits for its servers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};

use devnet::{
    network::Options,
    payer::{Answer, PaymentSpec},
};

use crate::{
    audit::stock_clients,
    support::{
        client::{Asked, Client, LastAnswer},
        outcome_tally::{holdings, tally_outcomes},
        *,
    },
};

/// Payers that submit at the same time.
const PAYERS: usize = 3;
/// Between two submissions of one payer.
const PACE: Duration = Duration::from_millis(1500);

fn three(options: Options) -> Options {
    Options { gateways: 3, nats_nodes: 3, ..options }
}

/// Pays on and on until told to stop.
async fn pay(
    client: Arc<Client>,
    spec: PaymentSpec,
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
) -> Result<()> {
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let spec = PaymentSpec { request_id: format!("{}-{n}", spec.request_id), ..spec.clone() };
        let one = client.pay(&spec).await?;
        asked.lock().expect("nothing panics with the lock held").push(one);
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}

/// What `/readyz` of gateway `n` says.
async fn readiness(world: &World, n: usize) -> Result<Answer> {
    let response = reqwest::get(format!("{}/readyz", world.base(n))).await?;
    Answer::of(response).await
}

fn accepted(asked: &Mutex<Vec<Asked>>) -> usize {
    let asked = asked.lock().expect("nothing panics with the lock held");
    asked.iter().filter(|asked| asked.last_answer == LastAnswer::Accepted).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn any_of_three_gateways_and_three_servers_is_killed_under_load_and_nothing_is_lost() -> Result<()> {
    let mut world = World::with(three).await?;
    let mut clients = Vec::new();
    for n in 0..PAYERS {
        clients.push(Arc::new(Client::endowed(&world.network, n).await?));
    }
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let everyone: Vec<Client> = clients.iter().map(|client| client.again()).collect();
    let before = holdings(&world, &everyone).await?;
    let mut payers = Vec::new();
    for (n, client) in clients.iter().enumerate() {
        // A payer repeats its submission past the death of a server, also where much else runs; past its own deadline it is
        // refused.
        let spec = PaymentSpec { quote_window: Duration::from_secs(60), ..world.spec(&format!("payer-{n}"))? };
        payers.push(tokio::spawn(pay(client.clone(), spec, stop.clone(), asked.clone())));
    }
    for victim in 0..6 {
        let more = accepted(&asked) + 3;
        eventually(|| async { accepted(&asked) >= more }).await.context("before the kill")?;
        let (gateway, server) = (victim / 2, victim / 2);
        if victim % 2 == 0 {
            world.network.kill_gateway(gateway).await?;
        } else {
            world.network.nats.cluster()?.kill(server).await?;
        }
        // The five that are left go on.
        let more = accepted(&asked) + 3;
        eventually(|| async { accepted(&asked) >= more }).await.with_context(|| format!("without victim {victim}"))?;
        if victim % 2 == 0 {
            world.network.start_gateway(gateway).await?;
            world.network.ready(gateway).await?;
        } else {
            world.network.nats.cluster()?.restart(server)?;
            world.network.nats.cluster()?.current(server).await?;
        }
    }
    stop.store(true, Ordering::SeqCst);
    for payer in payers {
        payer.await??;
    }
    let asked = std::mem::take(&mut *asked.lock().expect("nothing panics with the lock held"));
    let tally = tally_outcomes(&world, &everyone, &asked, &before, PATIENCE).await?;
    println!("{} payments: {tally:?}", asked.len());
    assert!(asked.iter().all(|asked| asked.last_answer == LastAnswer::Accepted), "{asked:?}");
    assert_eq!(tally.completed, asked.len(), "{tally:?}");
    stock_clients::each_server_replays(&world).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_gateways_refuse_and_wait_and_with_it_they_go_on() -> Result<()> {
    let mut world = World::with(|options| Options { gateways: 2, ..three(options) }).await?;
    let body = world.payer.sign(&world.base(0), &world.spec("refused")?).await?;
    world.network.nats.kill().await?;
    world.network.kill_gateway(1).await?;
    world.network.nats.cluster()?.restart(0)?;
    world.network.spawn_gateway(1)?;

    // One server of three elects no leader: nothing is accepted, and the gateway that starts waits.
    let waits = || async {
        let log = world.network.log("gateway-2").unwrap_or_default();
        log.matches("it is not there yet; trying again").count() >= 3
    };
    eventually(waits).await?;
    // The gateway that went on is connected to the one server, and says what is missing.
    let leaderless = || async {
        let readiness = readiness(&world, 0).await;
        readiness.is_ok_and(|answer| answer.status == 503 && answer.text("message").contains("has a leader"))
    };
    eventually(leaderless).await.context("/readyz does not tell that no stream has a leader")?;
    for _ in 0..3 {
        let answer = world.payer.submit(&world.base(0), &body, Duration::ZERO).await?;
        let classification = answer.text("retry_classification").to_owned();
        let allowed = [(503, "RETRY_AFTER_DELAY"), (500, "RECONCILE_THEN_DECIDE")];
        assert!(allowed.contains(&(answer.status, classification.as_str())), "{answer:?}");
    }
    assert!(world.network.gateway_runs(1)?, "a gateway ended because its servers have no leader");

    for n in [1, 2] {
        world.network.nats.cluster()?.restart(n)?;
    }
    for n in 0..3 {
        world.network.nats.cluster()?.ready(n).await?;
    }
    for n in 0..2 {
        world.network.ready(n).await?;
    }
    assert_eq!(readiness(&world, 0).await?.status, 200);
    let payment_id = world.submit(&world.spec("accepted")?).await?;
    assert_eq!(world.outcome(&payment_id).await?.text("status"), "completed");
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(&[payment_id]).await
}
