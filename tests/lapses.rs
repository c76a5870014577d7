//! A settler that bids the best and answers no award: it costs payers a second each, and after three awards it is not asked.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use devnet::{network::Options, silent_settler::SilentSettler};
use events::{PaymentEvent, PaymentId, event::AuctionClosed};

use crate::support::{World, client::Client, eventually};

/// Awards that may be missed.
const MISSES: usize = 3;
/// Payments until the gateway has heard of the settler.
const UNHEARD_MAX: usize = 20;

/// The payment's auction, and whether the silent settler's award lapsed, once its deposit is signed. A busy machine may keep one of the
/// others from answering in time, too.
async fn auction(world: &World, payment_id: &PaymentId) -> Result<(AuctionClosed, bool)> {
    world.until(payment_id, "DepositPrepared").await?;
    let closed = world.events(payment_id, "AuctionClosed").await?.pop();
    let Some(PaymentEvent::AuctionClosed(closed)) = closed else { anyhow::bail!("{payment_id}: {closed:?}") };
    let lapsed = world.events(payment_id, "AwardLapsed").await?;
    let is_silent = |event: &PaymentEvent| {
        let PaymentEvent::AwardLapsed(lapsed) = event else { unreachable!() };
        lapsed.settler == SilentSettler::did() && lapsed.refusal.is_none()
    };
    Ok((closed, lapsed.first().is_some_and(is_silent)))
}

async fn record(world: &World) -> Result<Value> {
    let url = format!("{}/v1/settlers/{}", world.base(0), SilentSettler::did());
    Ok(reqwest::get(url).await?.json().await?)
}

#[tokio::test]
async fn who_answers_no_award_loses_it_and_after_three_is_passed_over() -> Result<()> {
    let world = World::with(|options| Options { award_ack_ms: 1_000, ..options }).await?;
    let silent = SilentSettler::start(&world.network).await?;
    let (mut missed, mut others) = (Vec::new(), Vec::new());
    for number in 0..UNHEARD_MAX {
        // Of one payer a single miss counts.
        let payer = Client::endowed(&world.network, number).await?.payer;
        let payment_id = world.submit_by(&payer, &world.spec(&format!("silent-{number}"))?).await?;
        match auction(&world, &payment_id).await? {
            (closed, true) => {
                ensure!(closed.alternates.len() == 3, "{closed:?}");
                missed.push(payment_id);
            }
            (closed, false) => {
                ensure!(!closed.addressed.contains(&SilentSettler::did()), "{closed:?}");
                others.push(payment_id);
            }
        }
        if missed.len() == MISSES {
            break;
        }
    }
    ensure!(missed.len() == MISSES, "it was asked {} times", missed.len());
    eventually(|| async { record(&world).await.is_ok_and(|record| record["passed_over_until"].is_string()) }).await?;
    let told = record(&world).await?;
    ensure!(
        told["won"] == MISSES && told["unanswered"] == MISSES && told["acknowledged"] == 0 && told["delivered"] == 0,
        "{told}"
    );
    let until = told["passed_over_until"].as_str().with_context(|| told.to_string())?;
    let mut settlers = Command::new(env!("CARGO_BIN_EXE_gw"));
    let printed = settlers.args(["settlers", "--gateway", &world.base(0)]).kill_on_drop(true).output().await?;
    let printed = String::from_utf8(printed.stdout)?;
    ensure!(printed.contains(SilentSettler::did().as_str()), "{printed}");

    let spared = world.submit(&world.spec("spared")?).await?;
    let (closed, lapsed) = auction(&world, &spared).await?;
    ensure!(!lapsed && !closed.addressed.contains(&SilentSettler::did()), "{closed:?}");
    let passed_over: Vec<_> = closed.passed_over.iter().map(|over| &over.settler).collect();
    assert_eq!(passed_over, [&SilentSettler::did()], "until {until}");
    silent.stop().await?;

    // Each of them is delivered once, by the settler whose quote was next.
    others.extend(missed.iter().cloned());
    others.push(spared);
    for payment_id in &others {
        world.completed(payment_id).await?;
    }
    world.settled_once(&others).await?;
    world.audited(&missed[0]).await
}
