//! Two gateways on the same streams.

use std::time::Duration;

use crate::support::*;
use anyhow::Result;

#[tokio::test(flavor = "multi_thread")]
async fn one_request_id_at_two_gateways_at_the_same_instant_is_one_payment() -> Result<()> {
    let world = World::start(2).await?;
    let mut payments = Vec::new();
    for n in 0..5 {
        let body = world.payer.sign(&world.base(0), &world.spec(&format!("twice-{n}"))?).await?;
        let (one, two) = (world.base(0), world.base(1));
        let hold = Duration::ZERO;
        let (one, two) = tokio::join!(world.payer.submit(&one, &body, hold), world.payer.submit(&two, &body, hold));
        let (one, two) = (one?, two?);
        assert_eq!((one.status, two.status), (200, 200), "{one:?} {two:?}");
        assert_eq!(one.text("payment_id"), two.text("payment_id"));
        let replays = [&one, &two].map(|answer| answer.body["idempotent_replay"].as_bool());
        assert!(replays == [Some(true), Some(false)] || replays == [Some(false), Some(true)], "{replays:?}");
        payments.push(one.text("payment_id").parse()?);
    }
    for payment_id in &payments {
        assert_eq!(world.outcome(payment_id).await?.text("status"), "completed");
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(&payments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_gateway_dies_the_other_finishes_its_payments() -> Result<()> {
    let mut world = World::start(2).await?;
    let mut payments = Vec::new();
    for n in 0..4 {
        payments.push(world.submit(&world.spec(&format!("left-behind-{n}"))?).await?);
    }
    for payment_id in &payments {
        world.until(payment_id, "DepositPrepared").await?;
    }
    world.network.kill_gateway(0).await?;
    let survivor = world.base(1);
    for payment_id in &payments {
        let outcome = world.payer.outcome(&survivor, payment_id.as_str(), PATIENCE).await?;
        assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(&payments).await
}
