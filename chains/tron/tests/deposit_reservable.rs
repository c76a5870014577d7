//! Nothing of a payer's is sent on Tron that no reservation could follow, and no node's clock makes a transaction last.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use chains_tron::node::State;
use events::{Hash32, event::Validity};
use sagas::ports::{Chains, DepositOrder, PrepareError};

use crate::support::{
    LAG, TRX, World, account, key,
    liar::Liar,
    payment::{CAP, refund, refusal, spend, spend_mut},
};

/// Refused for the reason `why`, and nothing is sent.
async fn is_not_sent(world: &World, order: &DepositOrder, why: &str) -> Result<()> {
    let refused = refusal(world.chains().prepare_deposit(order, 1).await)?;
    assert_eq!(refused.valid_until, order.escrow.reserve_deadline);
    let reason = refused.context.revert_reason.context("no reason")?;
    ensure!(reason.contains(why), "{reason}");
    assert_eq!(world.waiting().await?, 0);
    Ok(())
}

/// The payer's transaction was sent.
async fn is_sent(world: &World, order: &DepositOrder, name: &str) -> Result<()> {
    match world.chains().prepare_deposit(order, 1).await {
        Err(PrepareError::PayerSent { step, .. }) if step.as_str() == name => {}
        other => bail!("not sent: {other:?}"),
    }
    assert_eq!(world.waiting().await?, 1);
    Ok(())
}

#[tokio::test]
async fn what_comes_too_late_to_be_reserved_is_not_sent() -> Result<()> {
    let world = World::start().await?;
    let order = world.order(600).await?;
    let with_end = |fulfill_by| {
        let mut order = order.clone();
        order.reservation.fulfill_by = fulfill_by;
        order
    };
    // However fast the blocks come, three seconds are needed.
    is_not_sent(&world, &with_end(world.time().await? + 3), "too late for the payer's approval").await?;

    // Blocks as far apart as the network's; three transactions take nine of them.
    world.advance(Duration::from_secs(577 - 3 * LAG)).await?;
    for _ in 0..LAG {
        world.advance(Duration::from_secs(3)).await?;
    }
    is_not_sent(&world, &order, "too late for the payer's approval").await?;
    let sun = world.sun(&world.payer).await?;
    world.mine(1).await?;
    assert_eq!(world.sun(&world.payer).await?, sun);

    // Two transactions take six.
    world.bring(spend(&order).approval.as_ref().context("no approval")?).await?;
    is_not_sent(&world, &with_end(world.time().await? + 3), "too late for the payer's deposit").await?;
    is_sent(&world, &order, "deposit").await
}

#[tokio::test]
async fn what_could_be_reserved_at_no_time_is_not_sent() -> Result<()> {
    let world = World::start().await?;
    let order = world.order(600).await?;
    let altered = |alter: &dyn Fn(&mut DepositOrder)| {
        let mut order = order.clone();
        alter(&mut order);
        order
    };
    // The contract would refuse the settler, and the money would be locked up until the refund.
    let own = world.contracts.escrow.as_str();
    is_not_sent(&world, &altered(&|order| order.reservation.payout_account = own.parse().unwrap()), own).await?;
    let more = (CAP + 1).to_string();
    is_not_sent(&world, &altered(&|order| order.reservation.source_amount = more.parse().unwrap()), &more).await?;
    let later = altered(&|order| order.reservation.fulfill_by = order.escrow.fulfillment_deadline + 1);
    is_not_sent(&world, &later, "past the escrow's deadline").await?;
    let agreed = altered(&|order| spend_mut(order).quote_hash = Hash32([8; 32]));
    is_not_sent(&world, &agreed, "to no other").await?;

    let agreed = altered(&|order| spend_mut(order).quote_hash = order.reservation.quote_hash);
    is_sent(&world, &agreed, "approval").await
}

#[tokio::test]
async fn nothing_is_sent_before_somebody_can_pay_for_the_reservation() -> Result<()> {
    let world = World::start().await?;
    let order = world.order(600).await?;
    let poor = key(30);
    let chains = world.chains_of(&world.tron.url(), vec![poor.clone()]);
    for name in ["approval", "deposit"] {
        let outcome = chains.prepare_deposit(&order, 1).await;
        let Err(PrepareError::Transient(fault)) = &outcome else { bail!("{name}: {outcome:?}") };
        assert!(fault.to_string().contains("no submitter") && fault.to_string().contains(name), "{fault}");
        assert_eq!(world.waiting().await?, 0);
        if name == "approval" {
            world.bring(spend(&order).approval.as_ref().context("no approval")?).await?;
        }
    }
    // A reservation, and what exits are left.
    world.dev.fund(&account(&poor), 300 * TRX).await?;
    world.secured(&chains, &order).await?;
    Ok(())
}

#[tokio::test]
async fn a_reservation_ends_before_the_settlers_time_does() -> Result<()> {
    let world = World::start().await?;
    let mut order = world.order(600).await?;
    order.reservation.fulfill_by = world.time().await? + 40;
    let prepared = world.reservation(&world.chains(), &order).await?;
    // The contract takes it no more in that second.
    assert_eq!(prepared.validity, Validity::Expiration((order.reservation.fulfill_by - 1) * 1_000));
    Ok(())
}

#[tokio::test]
async fn a_newest_block_that_is_far_ahead_makes_nothing_last() -> Result<()> {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let chains = world.chains_at(&liar.url);
    let order = world.order(600).await?;
    let ahead = |ms: u64| {
        liar.tell(move |path, request, mut truth| {
            if path == "wallet/getblock" && request.get("id_or_num").is_none() {
                let time = &mut truth["block_header"]["raw_data"]["timestamp"];
                *time = json!(time.as_u64().unwrap() + ms);
            }
            truth
        });
    };
    let is_fault = |outcome: Result<_, PrepareError>| match outcome {
        Err(PrepareError::Transient(fault)) if fault.to_string().contains("is settled") => Ok(()),
        other => bail!("believed: {other:?}"),
    };
    // Nor does it make the payer's transactions seem over.
    ahead(DAY_MS);
    is_fault(chains.prepare_deposit(&order, 1).await)?;
    liar.be_honest();
    let prepared = world.reservation(&chains, &order).await?;
    let head = world.node().head().await?;
    assert!(prepared.validity <= Validity::Expiration(head.time_ms + 60_000));
    for ms in [6 * 60 * 1_000, DAY_MS] {
        ahead(ms);
        is_fault(chains.prepare_deposit(&order, 1).await)?;
    }

    let until_refund = order.escrow.refund_after - world.time().await?;
    liar.be_honest();
    world.advance(Duration::from_secs(until_refund + 1)).await?;
    // The clock went on, and no block has settled since.
    is_fault(chains.prepare_refund(&refund(&order), 1).await)?;
    world.solidify().await?;
    ahead(DAY_MS);
    is_fault(chains.prepare_refund(&refund(&order), 1).await)?;
    // What a chain that settles slowly could show is believed.
    ahead(4 * 60 * 1_000);
    let prepared = chains.prepare_refund(&refund(&order), 1).await?;
    let node = world.node();
    assert!(prepared.validity <= Validity::Expiration(node.settled().await?.time_ms + 6 * 60 * 1_000));
    liar.be_honest();
    world.settle(&chains, &prepared).await?;
    let info = node.info(prepared.transaction_hash.parse()?, State::Solidified).await?.context("in no block")?;
    assert_eq!(info.failure, None);
    Ok(())
}
