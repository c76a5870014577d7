//! Transaction status: transactions on Tron that expire, fail, get lost or cannot be paid for.

use std::{slice::from_ref, sync::Arc, time::Duration};

use alloy::primitives::U256;
use anyhow::{Context, Result, bail};
use serde_json::json;

use chains::{registry::ChainRegistry, setup::SetupError};
use chains_tron::{
    adapter::{Keys, TronChain},
    authorization::Choice,
    node::State,
    transaction::{Draft, read_signed},
};
use events::event::{PayerStep, PayerTransaction, TransactionPrepared, Validity};
use sagas::ports::{Chains, DepositOrder, DepositState, EscrowState, PrepareError, TransactionState};

use crate::support::{
    TOKENS, TRX, World, account, holder, key,
    payment::{CAP, TestClock, bytes, reason, refund, refusal, spend, spend_mut},
};

/// The transaction of `own` with another fee limit, signed by the payer.
fn with_fee_limit(world: &World, own: &PayerTransaction, fee_limit_sun: u64) -> Result<PayerTransaction> {
    let (decoded, _) = read_signed(&bytes(&own.raw)?)?;
    Ok(signed_by_payer(world, &Draft { fee_limit_sun, ..decoded.draft }))
}

fn signed_by_payer(world: &World, draft: &Draft) -> PayerTransaction {
    let signed = draft.sign(&world.payer);
    PayerTransaction {
        transaction_hash: signed.id.to_string(),
        raw: format!("0x{}", hex::encode(&signed.bytes)),
        expires_at: signed.expiration_ms,
    }
}

/// `prepared` with another fee limit, signed by the same submitter.
fn cheaper(world: &World, prepared: &TransactionPrepared, fee_limit_sun: u64) -> Result<TransactionPrepared> {
    let (decoded, _) = read_signed(&bytes(&prepared.raw)?)?;
    let owner = decoded.draft.call.owner;
    let key = world.submitters.iter().find(|key| key.address() == owner).context("no submitter")?;
    let signed = Draft { fee_limit_sun, ..decoded.draft }.sign(key);
    let (transaction_hash, raw) = (signed.id.to_string(), format!("0x{}", hex::encode(signed.bytes)));
    Ok(TransactionPrepared { transaction_hash, raw, ..prepared.clone() })
}

async fn superseded(chains: &TronChain, order: &DepositOrder, prepared: &TransactionPrepared) -> Result<String> {
    match chains.deposit_state(order, from_ref(prepared)).await? {
        DepositState::Superseded { evidence } => Ok(evidence),
        other => bail!("not superseded: {other:?}"),
    }
}

async fn is_secured(chains: &TronChain, order: &DepositOrder, prepared: &TransactionPrepared) -> Result<()> {
    match chains.deposit_state(order, from_ref(prepared)).await? {
        DepositState::Secured(secured) if secured.inclusion.transaction_hash == prepared.transaction_hash => Ok(()),
        other => bail!("not secured: {other:?}"),
    }
}

#[tokio::test]
async fn a_reservation_that_expired_is_given_up_and_made_again() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let first = world.reservation(&chains, &order).await?;
    chains.broadcast(&first).await?;
    // The network loses it.
    world.dev.control("drop", json!({})).await?;
    world.solidify().await?;
    assert_eq!(chains.deposit_state(&order, from_ref(&first)).await?, DepositState::Pending);
    world.advance(Duration::from_secs(61)).await?;
    // The newest block's time has reached the expiration, but no solidified one's: one before may hold it.
    assert_eq!(chains.deposit_state(&order, from_ref(&first)).await?, DepositState::Pending);
    world.solidify().await?;
    let evidence = superseded(&chains, &order, &first).await?;
    let expiration = first.validity.expiration_ms().context("on Tron")?;
    assert!(evidence.contains(&first.transaction_hash) && evidence.contains(&expiration.to_string()), "{evidence}");

    // A version without an expiration could land at any time, so that nothing is said of the others either.
    let endless = TransactionPrepared { validity: Validity::Nonce(1), ..first.clone() };
    assert!(matches!(chains.transaction_state(from_ref(&first)).await?, TransactionState::Dead { .. }));
    for versions in [[first.clone(), endless.clone()], [endless, first.clone()]] {
        let fault = chains.transaction_state(&versions).await.expect_err("given up");
        assert!(fault.is_misconfigured() && fault.to_string().contains("has no expiration"), "{fault}");
    }

    // The bytes that were given up have no effect any more.
    let refused = chains.broadcast(&first).await.expect_err("taken");
    assert!(refused.to_string().contains("TRANSACTION_EXPIRATION_ERROR"), "{refused}");
    let second = chains.prepare_deposit(&order, 2).await?;
    assert_ne!(second.transaction_hash, first.transaction_hash);
    assert!(second.validity > first.validity);
    world.settle(&chains, &second).await?;
    is_secured(&chains, &order, &second).await
}

#[tokio::test]
async fn a_reservation_in_the_last_block_that_could_hold_it_counts() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let prepared = world.reservation(&chains, &order).await?;
    chains.broadcast(&prepared).await?;
    // The block's own time is past the expiration, its parent's is not.
    world.advance(Duration::from_secs(90)).await?;
    let info = world.node().info(prepared.transaction_hash.parse()?, State::Newest).await?.context("in no block")?;
    assert!(Some(info.block_time_ms) > prepared.validity.expiration_ms() && info.failure.is_none(), "{info:?}");
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    world.solidify().await?;
    is_secured(&chains, &order, &prepared).await
}

#[tokio::test]
async fn a_reservation_whose_deposit_was_left_fails_and_all_is_brought_again() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let first = world.reservation(&chains, &order).await?;
    // The block of the deposit is left, and only the reservation comes into the new one.
    world.dev.control("fork", json!({"blocks": 1, "drop_transactions": true})).await?;
    world.settle(&chains, &first).await?;
    let evidence = superseded(&chains, &order, &first).await?;
    assert!(evidence.contains("StateNotAllowed") && evidence.contains(&first.transaction_hash), "{evidence}");
    let sent = chains.prepare_deposit(&order, 2).await;
    let Err(PrepareError::PayerSent { transaction_hash, .. }) = sent else { bail!("not sent: {sent:?}") };
    assert_eq!(transaction_hash, spend(&order).deposit.transaction_hash);
    world.mine(1).await?;
    let second = chains.prepare_deposit(&order, 2).await?;
    world.settle(&chains, &second).await?;
    is_secured(&chains, &order, &second).await
}

#[tokio::test]
async fn a_reservation_that_ran_out_of_energy_is_made_again() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let prepared = world.reservation(&chains, &order).await?;
    let cheap = cheaper(&world, &prepared, TRX)?;
    world.settle(&chains, &cheap).await?;
    let evidence = superseded(&chains, &order, &cheap).await?;
    assert!(evidence.contains("OUT_OF_ENERGY"), "{evidence}");
    // Of several versions each counts.
    let both = [cheap, prepared.clone()];
    assert_eq!(chains.deposit_state(&order, &both).await?, DepositState::Pending);
    world.settle(&chains, &prepared).await?;
    is_secured(&chains, &order, &prepared).await
}

#[tokio::test]
async fn a_window_that_closed_without_a_deposit_ends_the_attempt() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let prepared = world.reservation(&chains, &order).await?;
    world.dev.control("fork", json!({"blocks": 2, "drop_transactions": true})).await?;
    world.advance(Duration::from_secs(601)).await?;
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    world.solidify().await?;
    let DepositState::Expired { evidence } = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("not expired")
    };
    assert!(evidence.contains("past the reserve deadline"), "{evidence}");
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}

#[tokio::test]
async fn what_the_network_lost_of_the_payers_is_brought_again() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    for brought in [PayerStep::Approval, PayerStep::Deposit] {
        for lost in [true, false] {
            let sent = chains.prepare_deposit(&order, 1).await;
            assert!(matches!(sent, Err(PrepareError::PayerSent { step, .. }) if step == brought), "{sent:?}");
            if lost {
                world.dev.control("drop", json!({})).await?;
            }
            world.mine(1).await?;
        }
    }
    let prepared = chains.prepare_deposit(&order, 1).await?;
    world.settle(&chains, &prepared).await?;
    is_secured(&chains, &order, &prepared).await
}

#[tokio::test]
async fn what_cannot_be_paid_for_is_refused_and_burns_nothing() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let before = world.sun(&world.payer).await?;
    let price = world.node().prices().await?.energy_sun;

    // Too low for the deposit, which is seen before the approval is sent; and too low for the approval.
    let mut low = order.clone();
    spend_mut(&mut low).deposit = with_fee_limit(&world, &spend(&order).deposit, 54_000 * price)?;
    let refused = refusal(chains.prepare_deposit(&low, 1).await)?;
    let why = refused.context.revert_reason.context("no reason")?;
    assert!(why.contains("the payer's deposit") && why.contains("fee_limit"), "{why}");
    assert!(refused.context.estimated_gas_needed.is_some());
    assert_eq!(refused.valid_until, order.escrow.reserve_deadline);
    let mut low = order.clone();
    let approval = spend(&order).approval.clone().context("no approval")?;
    spend_mut(&mut low).approval = Some(with_fee_limit(&world, &approval, 1_000 * price)?);
    let why = reason(chains.prepare_deposit(&low, 1).await)?;
    assert!(why.contains("the payer's approval") && why.contains("fee_limit"), "{why}");

    // With the allowance in place the deposit's need is known.
    world.dev.approve(&world.payer, &world.token, &world.contracts.escrow, U256::from(CAP)).await?;
    world.solidify().await?;
    let after_approval = world.sun(&world.payer).await?;
    assert!(after_approval < before);
    let mut low = order.clone();
    spend_mut(&mut low).deposit = with_fee_limit(&world, &spend(&order).deposit, 100_000 * price)?;
    let why = reason(chains.prepare_deposit(&low, 1).await)?;
    assert!(why.contains("the payer's deposit") && why.contains("fee_limit"), "{why}");
    world.mine(1).await?;
    assert_eq!(world.sun(&world.payer).await?, after_approval);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}

#[tokio::test]
async fn a_payer_without_trx_or_tokens_is_told_so() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    // Enough for an approval, and for a deposit not.
    let poor = key(40);
    world.dev.fund(&account(&poor), 10 * TRX).await?;
    let order = world.order_by(&poor, 600, &Choice::default()).await?;
    let why = reason(chains.prepare_deposit(&order, 1).await)?;
    assert!(why.contains("of the token"), "{why}");
    world.dev.mint(&world.token, &account(&poor), U256::from(CAP)).await?;
    let why = reason(chains.prepare_deposit(&order, 1).await)?;
    assert!(why.contains("cannot be paid for") && why.contains("the account has 10000000 sun"), "{why}");
    world.mine(1).await?;
    assert_eq!(world.sun(&poor).await?, 10 * TRX);
    world.dev.fund(&account(&poor), 1_000 * TRX).await?;
    world.secured(&chains, &order).await?;
    assert_eq!(world.tokens(&poor).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_failed_on_chain_is_told_with_its_transaction() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    world.dev.approve(&world.payer, &world.token, &world.contracts.escrow, U256::from(CAP)).await?;
    let mut order = world.order(600).await?;
    let deposit = with_fee_limit(&world, &spend(&order).deposit, 10 * TRX)?;
    spend_mut(&mut order).deposit = deposit.clone();
    // The payer's wallet sent it, and burnt the limit.
    let info = world.bring(&deposit).await?;
    assert!(info.failure.is_some_and(|failure| failure.contains("OUT_OF_ENERGY")));
    let refused = refusal(chains.prepare_deposit(&order, 1).await)?;
    let context = refused.context;
    assert_eq!(context.transaction_hash.as_deref(), Some(deposit.transaction_hash.as_str()));
    assert_eq!(context.block_number, Some(info.block_number));
    assert_eq!(context.gas_used, Some(info.energy.to_string()));
    assert!(context.revert_reason.is_some_and(|reason| reason.contains("OUT_OF_ENERGY")));
    assert_eq!(refused.valid_until, order.escrow.reserve_deadline);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}

#[tokio::test]
async fn an_approval_that_failed_or_was_taken_back_is_a_refusal() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let mut order = world.order(600).await?;
    let approval = with_fee_limit(&world, spend(&order).approval.as_ref().context("no approval")?, TRX / 10)?;
    spend_mut(&mut order).approval = Some(approval.clone());
    world.bring(&approval).await?;
    let refused = refusal(chains.prepare_deposit(&order, 1).await)?;
    assert_eq!(refused.context.transaction_hash, Some(approval.transaction_hash));
    assert!(refused.context.revert_reason.is_some_and(|reason| reason.contains("OUT_OF_ENERGY")));

    let order = world.order(600).await?;
    world.bring(spend(&order).approval.as_ref().context("no approval")?).await?;
    world.dev.approve(&world.payer, &world.token, &world.contracts.escrow, U256::ZERO).await?;
    let sun = world.sun(&world.payer).await?;
    let why = reason(chains.prepare_deposit(&order, 1).await)?;
    assert!(why.contains("ReceivedNotExact"), "{why}");
    // The refusal passes when the payer mends it.
    world.dev.approve(&world.payer, &world.token, &world.contracts.escrow, U256::from(CAP)).await?;
    assert!(world.sun(&world.payer).await? < sun);
    world.secured(&chains, &order).await?;
    Ok(())
}

#[tokio::test]
async fn a_token_that_denies_the_payer_costs_nobody_anything() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    world.bring(spend(&order).approval.as_ref().context("no approval")?).await?;
    // From now on the token answers everything with this word and moves nothing.
    for (word, expected) in [("00", "ReceivedNotExact"), ("01", "ReceivedNotExact")] {
        let code = format!("60{word}60005260206000f3");
        world.dev.control("code", json!({"address": world.token, "code": code})).await?;
        let before = world.sun(&world.payer).await?;
        let why = reason(chains.prepare_deposit(&order, 1).await)?;
        assert!(why.contains(expected), "{why}");
        world.mine(1).await?;
        assert_eq!(world.sun(&world.payer).await?, before);
    }
    // One that reverts: neither balance nor transfer can be had.
    world.dev.control("code", json!({"address": world.token, "code": "60006000fd"})).await?;
    reason(chains.prepare_deposit(&order, 1).await)?;
    Ok(())
}

#[tokio::test]
async fn the_payers_transactions_are_not_sent_after_their_end() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let now = world.time().await?;
    let expiration_ms = Some((now + 330) * 1_000);
    let order = world.order_by(&world.payer, 600, &Choice { expiration_ms, ..Choice::default() }).await?;
    let sun = world.sun(&world.payer).await?;
    world.advance(Duration::from_secs(331)).await?;
    world.solidify().await?;
    let why = reason(chains.prepare_deposit(&order, 1).await)?;
    assert!(why.contains("expired"), "{why}");
    world.mine(1).await?;
    assert_eq!(world.sun(&world.payer).await?, sun);

    // Nor one that is of another chain, or is not what is journaled of it.
    let mut strange = world.order(600).await?;
    let (mut decoded, _) = read_signed(&bytes(&spend(&strange).deposit.raw)?)?;
    decoded.draft.reference.hash = [7; 8];
    world.dev.approve(&world.payer, &world.token, &world.contracts.escrow, U256::from(CAP)).await?;
    world.solidify().await?;
    spend_mut(&mut strange).deposit = signed_by_payer(&world, &decoded.draft);
    let why = reason(chains.prepare_deposit(&strange, 1).await)?;
    assert!(why.contains("TAPOS_ERROR"), "{why}");
    spend_mut(&mut strange).deposit.transaction_hash = order.terms_hash.to_string();
    let fault = chains.prepare_deposit(&strange, 1).await;
    assert!(matches!(fault, Err(PrepareError::Transient(_))), "{fault:?}");
    Ok(())
}

#[tokio::test]
async fn a_refund_that_never_landed_or_failed_is_dead_and_made_again() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    world.secured(&chains, &order).await?;
    let cancel = world.cancellation(&order);
    let first = chains.prepare_refund(&cancel, 1).await?;
    assert_eq!(chains.transaction_state(from_ref(&first)).await?, TransactionState::Pending);
    world.advance(Duration::from_secs(61)).await?;
    assert_eq!(chains.transaction_state(from_ref(&first)).await?, TransactionState::Pending);
    world.solidify().await?;
    let TransactionState::Dead { evidence } = chains.transaction_state(from_ref(&first)).await? else {
        bail!("not dead")
    };
    assert!(evidence.contains(&first.transaction_hash), "{evidence}");

    let second = chains.prepare_refund(&cancel, 2).await?;
    let starved = cheaper(&world, &second, 30 * TRX)?;
    world.settle(&chains, &starved).await?;
    let TransactionState::Dead { evidence } = chains.transaction_state(from_ref(&starved)).await? else {
        bail!("not dead")
    };
    // The escrow itself refuses to be starved.
    assert!(evidence.contains("GasTooLow"), "{evidence}");
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held);

    world.settle(&chains, &second).await?;
    assert_eq!(
        chains.transaction_state(from_ref(&second)).await?,
        TransactionState::Pending,
        "the escrow tells its end"
    );
    let state = chains.escrow_state(&order.payment_id, &order.escrow).await?;
    assert!(matches!(state, EscrowState::Refunded(_)), "{state:?}");
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}

#[tokio::test]
async fn who_cannot_pay_is_passed_over_and_nothing_is_signed_when_nobody_can() -> Result<()> {
    let world = World::start().await?;
    let chains_of = |submitters| world.chains_of(&world.tron.url(), submitters);
    let rich = world.submitters[0].clone();
    // Enough for a reservation and for the exits that it leaves the coins of; and for a reservation alone.
    world.dev.fund(&account(&key(32)), 300 * TRX).await?;
    world.dev.fund(&account(&key(31)), 30 * TRX).await?;
    for _ in 0..4 {
        // Whichever of them a payment prefers.
        let order = world.order(600).await?;
        let chains = chains_of(vec![key(30), rich.clone()]);
        let prepared = world.reservation(&chains, &order).await?;
        assert_eq!(prepared.sender, holder(&rich));
    }
    let order = world.order(600).await?;
    let prepared = world.reservation(&chains_of(vec![key(32)]), &order).await?;
    assert_eq!(prepared.sender, holder(&key(32)));
    let chains = chains_of(vec![key(30), key(31)]);
    let Err(PrepareError::Transient(fault)) = chains.prepare_deposit(&order, 1).await else { bail!("signed") };
    assert!(fault.to_string().contains("no submitter"), "{fault}");
    let refused = chains_of(vec![key(32)]).prepare_refund(&refund(&order), 1).await;
    assert!(matches!(refused, Err(PrepareError::Refused(_))), "{refused:?}");
    world.settle(&chains_of(vec![key(32)]), &prepared).await?;
    let cancel = world.cancellation(&order);
    let refused = chains_of(vec![key(31)]).prepare_refund(&cancel, 1).await;
    assert!(
        matches!(&refused, Err(PrepareError::Transient(fault)) if fault.to_string().contains("no submitter")),
        "{refused:?}"
    );

    let new = |keys| TronChain::new(world.node(), keys, Arc::new(TestClock));
    let nobody = Keys {
        reserver: world.reserver.clone().into(),
        draining_reservers: Vec::new(),
        submitters: Vec::new(),
        exit_submitters: Vec::new(),
    };
    assert!(matches!(new(Some(nobody)), Err(SetupError::NoSubmitter(_))));
    let other = new(Some(Keys {
        reserver: key(30).into(),
        draining_reservers: Vec::new(),
        submitters: vec![rich.into()],
        exit_submitters: Vec::new(),
    }));
    assert!(matches!(other, Err(SetupError::Reserver { key, .. }) if key == holder(&self::key(30))));
    let registry = ChainRegistry::new(Arc::new(TestClock)).with(Arc::new(new(None)?))?;
    assert!(matches!(registry.with(Arc::new(new(None)?)), Err(SetupError::Twice(_))));
    let destination_only = new(None)?;
    let refused = destination_only.prepare_deposit(&order, 1).await;
    assert!(
        matches!(&refused, Err(PrepareError::Transient(fault)) if fault.to_string().contains("no keys")),
        "{refused:?}"
    );
    destination_only.delivery_state(&world.delivery(&order)).await?;
    Ok(())
}

#[tokio::test]
async fn a_node_that_is_away_says_nothing_about_the_outcome() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let prepared = world.reservation(&chains, &order).await?;
    world.tron.stop();
    chains.deposit_state(&order, from_ref(&prepared)).await.expect_err("concluded");
    chains.deposit_secured(&order).await.expect_err("concluded");
    chains.deposit_ruled_out(&order.payment_id, &order.escrow, 0).await.expect_err("concluded");
    chains.escrow_state(&order.payment_id, &order.escrow).await.expect_err("concluded");
    chains.delivery_state(&world.delivery(&order)).await.expect_err("concluded");
    chains.transaction_state(from_ref(&prepared)).await.expect_err("concluded");
    chains.broadcast(&prepared).await.expect_err("sent");
    let refused = chains.prepare_deposit(&order, 2).await;
    assert!(matches!(refused, Err(PrepareError::Transient(_))), "{refused:?}");
    Ok(())
}
