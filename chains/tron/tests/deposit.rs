//! A payment's life on Tron through the engine's port, against a development chain with the real contracts.

mod ends;

use std::{slice::from_ref, time::Duration};

use alloy::{primitives::U256, sol_types::SolCall};
use anyhow::{Context, Result, bail};
use axum::{http::StatusCode, response::IntoResponse};
use serde_json::json;

use chains_tron::{
    adapter::TronChain,
    authorization::Choice,
    node::{Answer, State},
    transaction::{read_signed, signer},
};
use escrow_abi::contracts::GatewayEscrow;
use events::event::{PayerStep, PayerTransaction, Validity};
use sagas::ports::{Chains, DepositOrder, DepositState, EscrowState, PrepareError};

use crate::support::{
    LAG, REFUND_DELAY, TOKENS, World, holder,
    liar::Liar,
    payment::{CAP, PRICE, bytes, reason, refund, refusal, spend},
};

/// What tells whether a transaction waits.
const PENDING: &str = "wallet/gettransactionfrompending";

/// The payer's own transaction is with the node.
async fn is_sent(chains: &TronChain, order: &DepositOrder, step: PayerStep, own: &PayerTransaction) -> Result<()> {
    let sent = chains.prepare_deposit(order, 1).await;
    let expected = PrepareError::PayerSent { step, transaction_hash: own.transaction_hash.clone() };
    assert_eq!(sent, Err(expected));
    Ok(())
}

#[tokio::test]
async fn the_payers_transactions_are_brought_in_order_and_the_deposit_is_reserved() -> Result<()> {
    let world = World::start().await?;
    let (chains, node) = (world.chains(), world.node());
    let order = world.order(600).await?;
    let (approval, deposit) = (spend(&order).approval.clone().context("no approval")?, spend(&order).deposit.clone());
    let (approval_id, deposit_id) = (approval.transaction_hash.parse()?, deposit.transaction_hash.parse()?);

    for _ in 0..2 {
        // As often as one looks: what waits already is not a fault.
        is_sent(&chains, &order, PayerStep::Approval, &approval).await?;
    }
    world.mine(1).await?;
    let info = node.info(approval_id, State::Newest).await?.context("the approval is in no block")?;
    assert_eq!((info.failure, node.info(deposit_id, State::Newest).await?), (None, None));

    is_sent(&chains, &order, PayerStep::Deposit, &deposit).await?;
    world.mine(1).await?;
    let info = node.info(deposit_id, State::Newest).await?.context("the deposit is in no block")?;
    assert_eq!(info.failure, None);
    // The first deposit in a token writes the sum that is owed in it, too.
    assert!((90_000..=150_000).contains(&info.energy), "a deposit takes {} energy", info.energy);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - CAP);
    assert_eq!(chains.deposit_secured(&order).await?, None);
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Absent, "not solidified");

    let prepared = chains.prepare_deposit(&order, 3).await?;
    let (decoded, signature) = read_signed(&bytes(&prepared.raw)?)?;
    assert_eq!(prepared.attempt, 3);
    assert_eq!(prepared.transaction_hash, decoded.id.to_string());
    assert_eq!(prepared.validity, Validity::Expiration(decoded.draft.expiration_ms));
    let sent_by = signer(decoded.id, &signature).context("no signer")?;
    assert_eq!(sent_by, decoded.draft.call.owner);
    let submitter = world.submitters.iter().find(|key| key.address() == sent_by).context("no submitter")?;
    assert_eq!(prepared.sender, holder(submitter));
    let reserve = GatewayEscrow::reserveCall::abi_decode(&decoded.draft.call.data)?;
    assert_eq!(reserve.r.sourceAmount, U256::from(PRICE));
    assert_eq!(reserve.r.settler, world.settler.address());
    assert_eq!(decoded.draft.call.contract, world.escrow());
    let head = node.head().await?;
    assert!(decoded.draft.expiration_ms > head.time_ms && decoded.draft.expiration_ms <= head.time_ms + 60_000);
    assert_eq!(node.info(decoded.id, State::Newest).await?, None, "nothing of the gateway's is sent before its time");

    chains.broadcast(&prepared).await?;
    chains.broadcast(&prepared).await?;
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    // The payer's own deposit is what is shown to be mined, and not the reservation.
    let mined = chains.deposit_mined(&order, from_ref(&prepared)).await?.context("not shown to be mined")?;
    let deposited = node.info(deposit_id, State::Newest).await?.context("the deposit is in no block")?;
    assert_eq!((&mined.transaction_hash, mined.block_number), (&deposit.transaction_hash, deposited.block_number));
    world.mine(1).await?;
    let info = node.info(decoded.id, State::Newest).await?.context("the reservation is in no block")?;
    assert_eq!(info.failure, None);
    // What the port counts with.
    assert!(info.energy * 3 / 2 <= 150_000, "a reservation takes {} energy", info.energy);
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending, "not solidified");
    assert_eq!(chains.deposit_mined(&order, from_ref(&prepared)).await?.as_ref(), Some(&mined));
    world.solidify().await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("not secured")
    };
    assert_eq!(secured.amount.to_string(), CAP.to_string());
    assert_eq!(secured.inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(secured.inclusion.block_number, info.block_number);
    assert_eq!(secured.deposit.as_deref(), Some(&mined));
    let block = node.block(info.block_number, State::Solidified).await?.context("no block")?;
    assert_eq!(secured.inclusion.block_hash, block.id.to_string());
    assert_eq!(secured.inclusion.block_time, block.time_ms / 1_000);
    assert_eq!(chains.deposit_secured(&order).await?, Some(secured));
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held);
    assert_eq!(chains.reprice(&[prepared]).await?, None);
    Ok(())
}

/// Whether constant calls see what waits, as a full node shows it.
async fn shows_what_waits(world: &World) -> Result<()> {
    world.dev.control("pending", json!({"shown": true})).await?;
    Ok(())
}

async fn waits_for(chains: &TronChain, order: &DepositOrder, what: &str) -> Result<()> {
    match chains.prepare_deposit(order, 1).await {
        Err(why @ (PrepareError::Waiting(_) | PrepareError::PayerSent { .. })) if why.to_string().contains(what) => {
            Ok(())
        }
        other => bail!("not waiting for {what}: {other:?}"),
    }
}

#[tokio::test]
async fn a_deposit_is_not_sent_while_its_approval_only_waits() -> Result<()> {
    let world = World::start().await?;
    let (chains, node) = (world.chains(), world.node());
    shows_what_waits(&world).await?;
    let order = world.order(600).await?;
    let (approval, deposit) = (spend(&order).approval.clone().context("no approval")?, spend(&order).deposit.clone());
    let deposit_id = deposit.transaction_hash.parse()?;
    // The second look already finds that the deposit fits.
    for _ in 0..3 {
        waits_for(&chains, &order, &approval.transaction_hash).await?;
        assert_eq!(world.waiting().await?, 1, "the deposit may get into a block before its approval");
    }
    let deposited = read_signed(&bytes(&deposit.raw)?)?.0.draft.call;
    let trial = node.trial(deposited.owner, deposited.contract, deposited.data, 0).await?;
    assert!(matches!(trial, Answer::Returned { .. }), "the node does not show what waits");
    world.mine(1).await?;

    // What waits is not a record yet, and no contradiction.
    waits_for(&chains, &order, &deposit.transaction_hash).await?;
    for _ in 0..2 {
        waits_for(&chains, &order, "waits for a block").await?;
    }
    let refunding = chains.prepare_refund(&refund(&order), 1).await;
    assert!(matches!(refunding, Err(PrepareError::Waiting(_))), "{refunding:?}");
    assert_eq!(node.info(deposit_id, State::Newest).await?, None);
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Absent);
    world.mine(1).await?;
    assert_eq!(node.info(deposit_id, State::Newest).await?.context("in no block")?.failure, None);

    // Nor is a reservation that waits, whoever sent it.
    let prepared = chains.prepare_deposit(&order, 1).await?;
    chains.broadcast(&prepared).await?;
    waits_for(&chains, &order, "waits for a block").await?;
    world.mine(1).await?;
    world.solidify().await?;
    assert!(chains.deposit_secured(&order).await?.is_some());
    let cancel = world.cancellation(&order);
    chains.broadcast(&chains.prepare_refund(&cancel, 1).await?).await?;
    let refunding = chains.prepare_refund(&cancel, 2).await;
    assert!(matches!(refunding, Err(PrepareError::Waiting(_))), "{refunding:?}");
    Ok(())
}

#[tokio::test]
async fn an_allowance_that_may_only_wait_is_none() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let chains = world.chains_at(&liar.url);
    shows_what_waits(&world).await?;
    // A node that does not tell what waits: nothing is sent before the approval is in a block.
    let order = world.order(600).await?;
    waits_for(&chains, &order, "approval").await?;
    liar.answer(|path, _| (path == PENDING).then(|| StatusCode::NOT_FOUND.into_response()));
    let outcome = chains.prepare_deposit(&order, 1).await;
    assert!(
        matches!(&outcome, Err(PrepareError::Transient(fault)) if fault.to_string().contains("404")),
        "{outcome:?}"
    );
    assert_eq!(world.waiting().await?, 1);
    world.mine(1).await?;
    waits_for(&chains, &order, "deposit").await?;
    world.mine(1).await?;

    // One of several nodes that has not heard of it, while the one that tries it out has.
    liar.be_honest();
    let order = world.order(600).await?;
    waits_for(&chains, &order, "approval").await?;
    liar.say(PENDING, json!({}));
    waits_for(&chains, &order, "no other is settled").await?;
    assert_eq!(world.waiting().await?, 1);
    liar.say(PENDING, json!({"txID": order.terms_hash.to_string().trim_start_matches("0x")}));
    let outcome = chains.prepare_deposit(&order, 1).await;
    assert!(matches!(outcome, Err(PrepareError::Transient(_))), "another transaction: {outcome:?}");
    world.dev.control("drop", json!({})).await?;

    // The allowance stands without the approval: once that is settled, the approval is not needed.
    liar.be_honest();
    world.dev.approve(&world.payer, &world.token, &world.contracts.escrow, U256::from(CAP)).await?;
    waits_for(&chains, &order, "no other is settled").await?;
    world.solidify().await?;
    // It would not be proof while the approval waits, either: another payment may have used it up since.
    let approval = spend(&order).approval.clone().context("no approval")?;
    world.node().broadcast(&bytes(&approval.raw)?).await?;
    waits_for(&chains, &order, &approval.transaction_hash).await?;
    world.dev.control("drop", json!({})).await?;
    let deposit = spend(&order).deposit.transaction_hash.clone();
    waits_for(&chains, &order, &deposit).await?;
    world.mine(1).await?;
    assert_eq!(world.node().info(approval.transaction_hash.parse()?, State::Newest).await?, None);
    let info = world.node().info(deposit.parse()?, State::Newest).await?.context("in no block")?;
    assert_eq!(info.failure, None);
    Ok(())
}

#[tokio::test]
async fn where_the_allowance_stands_the_deposit_alone_is_brought() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    world.dev.approve(&world.payer, &world.token, &world.contracts.escrow, U256::from(CAP)).await?;
    let order = world.order(600).await?;
    assert_eq!(spend(&order).approval, None);
    // A block that is left could take the allowance with it, and the deposit would fail at the payer's cost.
    for _ in 0..LAG {
        waits_for(&chains, &order, "not settled").await?;
        assert_eq!(world.waiting().await?, 0);
        world.mine(1).await?;
    }
    world.secured(&chains, &order).await?;
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - CAP);
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_the_payers_wallet_sent_is_reserved() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    // Before the award nobody looks; the money is there, and nothing is concluded.
    world.deposit(&order).await?;
    world.solidify().await?;
    assert_eq!(chains.deposit_secured(&order).await?, None);
    assert_eq!(chains.stranded_deposit(&order.payer_deposit()).await?, None);
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held);
    assert!(!chains.deposit_ruled_out(&order.payment_id, &order.escrow, 0).await?);
    let prepared = chains.prepare_deposit(&order, 1).await?;
    world.settle(&chains, &prepared).await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn a_copied_reservation_is_adopted() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let prepared = world.reservation(&chains, &order).await?;
    // A stranger takes the call out of our transaction and is faster.
    let (decoded, _) = read_signed(&bytes(&prepared.raw)?)?;
    let info = world.dev.execute(&world.settler, &world.contracts.escrow, decoded.draft.call.data, 0).await?;
    let refused = refusal(chains.prepare_deposit(&order, 2).await)?;
    assert!(refused.context.revert_reason.is_some_and(|reason| reason.contains("reserved already")));
    assert_eq!(refused.valid_until, order.escrow.reserve_deadline);
    world.settle(&chains, &prepared).await?;
    let ours =
        world.node().info(prepared.transaction_hash.parse()?, State::Solidified).await?.context("in no block")?;
    assert!(ours.failure.is_some_and(|failure| failure.contains("StateNotAllowed")));
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("not secured")
    };
    assert_eq!(secured.inclusion.transaction_hash, info.id.to_string());
    assert_eq!(chains.deposit_secured(&order).await?, Some(secured));
    Ok(())
}

#[tokio::test]
async fn a_deposit_of_other_terms_under_the_same_id_is_not_the_payments_and_comes_back() -> Result<()> {
    other_terms(false).await
}

#[tokio::test]
async fn a_deposit_of_other_terms_that_is_reserved_comes_back_too() -> Result<()> {
    other_terms(true).await
}

async fn other_terms(reserved: bool) -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    // The payer prepared twice under one id, submitted one and broadcasts the other.
    let (quote, end) = (order.escrow.fulfillment_deadline - 300, order.escrow.fulfillment_deadline);
    let other =
        world.order_for(&world.payer, order.payment_id.clone(), CAP - 1, quote, end, &Choice::default()).await?;
    world.deposit(&other).await?;
    world.solidify().await?;
    let refused = reason(chains.prepare_deposit(&order, 1).await)?;
    assert!(refused.contains("another deposit"), "{refused}");
    assert_eq!(chains.deposit_secured(&order).await?, None);
    let deadline = order.escrow.reserve_deadline;
    assert_eq!(chains.stranded_deposit(&order.payer_deposit()).await?, None, "it is not too late");
    let prepared = chains.prepare_deposit(&other, 1).await?;
    if reserved {
        // Under the same quote, too: the reservation does not name the terms.
        world.settle(&chains, &prepared).await?;
        let refused = reason(chains.prepare_deposit(&order, 1).await)?;
        assert!(refused.contains("another deposit"), "{refused}");
        chains.deposit_state(&order, from_ref(&prepared)).await.expect_err("another payment's reservation counts");
    }
    world.advance(Duration::from_secs(601)).await?;
    world.solidify().await?;
    assert_eq!(chains.deposit_secured(&order).await?, None);
    // The payer's money is under the payment's id, and goes back.
    let opened = chains.stranded_deposit(&order.payer_deposit()).await?.context("not stranded")?;
    assert_eq!(opened.amount.to_string(), (CAP - 1).to_string());
    assert_eq!(opened.inclusion.transaction_hash, spend(&other).deposit.transaction_hash);
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert_eq!(state, DepositState::Stranded(opened.clone()));
    assert!(!chains.deposit_ruled_out(&order.payment_id, &order.escrow, deadline).await?);
    if reserved {
        let mine = chains.stranded_deposit(&other.payer_deposit()).await?;
        assert_eq!((mine, chains.deposit_secured(&other).await?.is_some()), (None, true));
    }
    world.advance(Duration::from_secs(REFUND_DELAY)).await?;
    world.solidify().await?;
    let refunding = chains.prepare_refund(&refund(&order), 1).await?;
    world.settle(&chains, &refunding).await?;
    let state = chains.escrow_state(&order.payment_id, &order.escrow).await?;
    assert!(matches!(state, EscrowState::Refunded(_)), "{state:?}");
    assert_eq!(chains.stranded_deposit(&order.payer_deposit()).await?, Some(opened));
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    // A record with other windows is nobody's here.
    let mut plan = order.escrow.clone();
    plan.refund_after += 1;
    assert_eq!(chains.escrow_state(&order.payment_id, &plan).await?, EscrowState::Absent);
    assert!(chains.deposit_ruled_out(&order.payment_id, &plan, order.escrow.reserve_deadline).await?);
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_nobody_reserved_in_time_is_stranded_and_comes_back() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let prepared = world.reservation(&chains, &order).await?;
    world.solidify().await?;
    // The reservation is never sent.
    let refused = reason(chains.prepare_refund(&refund(&order), 1).await)?;
    assert!(refused.contains("RefundWindowNotOpen"), "{refused}");
    let until_deadline = order.escrow.reserve_deadline - world.time().await?;
    world.advance(Duration::from_secs(until_deadline + 1)).await?;
    assert_eq!(chains.stranded_deposit(&order.payer_deposit()).await?, None, "not solidified");
    world.solidify().await?;
    let opened = chains.stranded_deposit(&order.payer_deposit()).await?.context("not stranded")?;
    assert_eq!(opened.inclusion.transaction_hash, spend(&order).deposit.transaction_hash);
    assert_eq!(opened.amount.to_string(), CAP.to_string());
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Stranded(opened.clone()));
    assert!(!chains.deposit_ruled_out(&order.payment_id, &order.escrow, order.escrow.reserve_deadline).await?);
    let refused = reason(chains.prepare_deposit(&order, 2).await)?;
    assert!(refused.contains("ReserveWindowClosed"), "{refused}");

    let until_refund = order.escrow.refund_after - world.time().await?;
    world.advance(Duration::from_secs(until_refund + 1)).await?;
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held);
    world.solidify().await?;
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Lapsed);
    let refunding = chains.prepare_refund(&refund(&order), 1).await?;
    let (decoded, _) = read_signed(&bytes(&refunding.raw)?)?;
    let energy = decoded.draft.fee_limit_sun / world.node().prices().await?.energy_sun;
    assert!(energy >= 1_000_000, "{energy} energy starve a payout");
    world.settle(&chains, &refunding).await?;
    let EscrowState::Refunded(refunded) = chains.escrow_state(&order.payment_id, &order.escrow).await? else {
        bail!("not refunded")
    };
    assert_eq!(refunded.inclusion.transaction_hash, refunding.transaction_hash);
    assert_eq!(refunded.amount, opened.amount);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    // Whoever looks only now finds the same.
    assert_eq!(chains.stranded_deposit(&order.payer_deposit()).await?, Some(opened));
    let refused = reason(chains.prepare_refund(&refund(&order), 2).await)?;
    assert!(refused.contains("paid out"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_window_in_which_nothing_came_is_ruled_out() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let deadline = order.escrow.reserve_deadline;
    assert!(!chains.deposit_ruled_out(&order.payment_id, &order.escrow, deadline).await?);
    world.advance(Duration::from_secs(601)).await?;
    assert!(!chains.deposit_ruled_out(&order.payment_id, &order.escrow, deadline).await?, "not solidified");
    world.solidify().await?;
    assert!(chains.deposit_ruled_out(&order.payment_id, &order.escrow, deadline).await?);
    assert_eq!(chains.stranded_deposit(&order.payer_deposit()).await?, None);
    assert_eq!(chains.deposit_secured(&order).await?, None);
    let nothing = reason(chains.prepare_refund(&refund(&order), 1).await)?;
    assert!(nothing.contains("nothing is in escrow"), "{nothing}");
    // The contract takes it no more, and nothing of the payer's is burnt to find that out.
    let sun = world.sun(&world.payer).await?;
    let refused = reason(chains.prepare_deposit(&order, 1).await)?;
    assert!(refused.contains("ReserveWindowClosed"), "{refused}");
    world.mine(1).await?;
    assert_eq!(world.sun(&world.payer).await?, sun);
    Ok(())
}
