//! The idempotency rules that need processes; the others are in `api/src/tests/idempotency_rules.rs`.

use std::time::Duration;

use crate::support::*;
use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};

/// Submissions under one id.
const SUBMISSIONS: usize = 1_000;
/// Of which so many are under way at a time, each with a connection of its own.
const AT_ONCE: usize = 250;

/// Rules 3 and 4.
#[tokio::test(flavor = "multi_thread")]
async fn rule_3_a_thousand_submissions_of_one_id_to_three_gateways_are_one_payment() -> Result<()> {
    let world = World::start(3).await?;
    let before = world.balances().await?;
    let body = world.payer.sign(&world.base(0), &world.spec("a-thousand-times")?).await?;
    let submissions = (0..SUBMISSIONS).map(|n| {
        let (payer, base, body) = (world.payer.clone(), world.base(n % 3), body.clone());
        async move { payer.submit(&base, &body, Duration::ZERO).await }
    });
    let answers: Vec<_> = stream::iter(submissions).buffer_unordered(AT_ONCE).try_collect().await?;
    assert!(answers.iter().all(|answer| answer.status == 200), "{:?}", answers.iter().find(|a| a.status != 200));
    assert!(answers.iter().all(|answer| answer.text("payment_id") == answers[0].text("payment_id")));
    let replays = answers.iter().filter(|answer| answer.body["idempotent_replay"] == true).count();
    let created = answers.iter().filter(|answer| answer.body["idempotent_replay"] == false).count();
    assert_eq!((created, replays), (1, SUBMISSIONS - 1));

    let payment_id = answers[0].text("payment_id").parse()?;
    assert_eq!(world.outcome(&payment_id).await?.text("status"), "completed");
    world.until(&payment_id, "EscrowReleased").await?;
    let types = world.types(&payment_id).await?;
    assert_eq!(types.iter().filter(|name| **name == "Submitted").count(), 1, "{types:?}");
    world.settled_once(&[payment_id]).await?;
    let after = world.balances().await?;
    assert_eq!(before["payer"] - after["payer"], alloy::primitives::U256::from(PRICE));
    Ok(())
}

/// Rule 8, at another gateway than the first.
#[tokio::test(flavor = "multi_thread")]
async fn rule_8_a_failed_payment_stays_failed_at_every_gateway() -> Result<()> {
    let world = World::start(2).await?;
    let mut spec = world.spec("too-much")?;
    (spec.amount, spec.cap) = ("900000000000000".parse()?, "990000000000000".parse()?);
    let body = world.payer.sign(&world.base(0), &spec).await?;
    let first = world.payer.submit(&world.base(0), &body, Duration::from_secs(30)).await?;
    let payment_id = first.text("payment_id").parse()?;
    assert_eq!(world.outcome(&payment_id).await?.text("status"), "failed");
    let events = world.types(&payment_id).await?;
    for gateway in 0..2 {
        let base = world.base(gateway);
        let shown = || async {
            let answer = world.payer.submit(&base, &body, Duration::ZERO).await;
            answer.is_ok_and(|answer| {
                assert_eq!((answer.status, &answer.body["idempotent_replay"]), (200, &true.into()), "{answer:?}");
                assert_eq!(answer.text("payment_id"), first.text("payment_id"));
                answer.text("status") == "failed" && answer.body["error"]["code"] == "NO_QUOTES_RECEIVED"
            })
        };
        eventually(shown).await?;
    }
    assert_eq!(world.types(&payment_id).await?, events);
    let again = world.payer.sign(&world.base(1), &world.spec("enough")?).await?;
    let again = world.payer.submit(&world.base(1), &again, Duration::from_secs(30)).await?;
    assert_eq!(again.body["idempotent_replay"], false);
    assert_ne!(again.text("payment_id"), first.text("payment_id"));
    Ok(())
}
