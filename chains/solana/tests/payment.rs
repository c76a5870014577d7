//! Payments through the engine's port against a real Solana runtime with the real program.

use anyhow::{Context, Result, bail};

use chains_solana::{dev::TokenProgram, keys::account, program};
use gateway_program::{host, ids::TOKEN_2022_PROGRAM};
use sagas::ports::{Chains, DeliveryState, DepositState, EscrowState, PrepareError, RefundOrder, TransactionState};

use crate::support::{CAP, DELIVERED, PRICE, REFUND_DELAY, TOKENS, World, key, settle, until};

#[tokio::test]
async fn a_payment_is_secured_delivered_and_released() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let plan = &order.escrow;

    let prepared = chain.prepare_deposit(&order, 1).await?;
    // Nothing is sent before it is journaled.
    assert_eq!(chain.deposit_state(&order, std::slice::from_ref(&prepared)).await?, DepositState::Pending);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);

    chain.broadcast(&prepared).await?;
    // The same bytes again are not a fault, and have no second effect.
    chain.broadcast(&prepared).await?;
    let versions = std::slice::from_ref(&prepared);
    let mined = until(|| chain.deposit_mined(&order, versions), Option::is_some).await?;
    let DepositState::Secured(secured) = settle(&chain, &order, versions).await? else {
        bail!("not secured");
    };
    assert_eq!(mined.as_ref(), Some(&secured.inclusion));
    chain.broadcast(&prepared).await?;
    assert_eq!(secured.inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(secured.inclusion.chain_id, plan.chain_id);
    assert_eq!(secured.amount.to_string(), PRICE.to_string());
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    assert_eq!(chain.deposit_secured(&order).await?, Some(secured.clone()));
    assert_eq!(chain.escrow_state(&order.payment_id, plan).await?, EscrowState::Held);
    assert!(!chain.deposit_ruled_out(&order.payment_id, plan, 0).await?);

    let delivery = world.delivery(&order);
    assert_eq!(chain.delivery_state(&delivery).await?, DeliveryState::NotSeen);
    let program = program::parse_key(&world.program)?;
    let terms = program::fulfillment(&delivery)?;
    let (hash, slot) = world.send(&[host::fulfill_native(&program, &terms)]).await?;
    let seen = until(|| chain.delivery_state(&delivery), |state| *state != DeliveryState::NotSeen).await?;
    let (DeliveryState::Seen(inclusion) | DeliveryState::Final(inclusion)) = seen else { bail!("{seen:?}") };
    assert_eq!((inclusion.transaction_hash.as_str(), inclusion.block_number), (hash.as_str(), slot));
    let last = until(|| chain.delivery_state(&delivery), |state| matches!(state, DeliveryState::Final(_))).await?;
    assert_eq!(last, DeliveryState::Final(inclusion));
    // Another amount is another delivery, and that one was not made.
    let other = sagas::ports::DeliveryOrder { amount: (DELIVERED + 1).to_string().parse()?, ..delivery.clone() };
    assert_eq!(chain.delivery_state(&other).await?, DeliveryState::NotSeen);

    let statement = world.statement(&order);
    let attestation = world.attest(&statement);
    assert!(chain.attestation_holds(&statement, plan, &attestation).await?);
    assert!(!chain.attestation_holds(&world.non_delivery(&order), plan, &attestation).await?);
    let before = world.tokens(&world.settler).await?;
    // The settler's account must be there to be paid.
    world.release(&order).await?;
    let state =
        until(|| chain.escrow_state(&order.payment_id, plan), |state| !matches!(state, EscrowState::Held)).await?;
    let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
    assert!(inclusion.block_number > secured.inclusion.block_number);
    assert!(inclusion.block_time >= secured.inclusion.block_time);
    assert_eq!(world.tokens(&world.settler).await?, before + PRICE);
    // What was secured is still found, by its own transaction.
    assert_eq!(chain.deposit_secured(&order).await?, Some(secured));
    Ok(())
}

#[tokio::test]
async fn a_delegate_signer_pays_with_token_2022_and_the_refund_waits_for_a_closed_account() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let token = world.dev.create_token(&key(22), TokenProgram::Token2022, 6).await?;
    let (payer, signer) = (account(&world.payer), key(23));
    world.dev.mint(&token, &payer, PRICE).await?;
    let order = world.order_of(&token, &signer, 600).await?;
    // The payer has appointed nobody.
    let Err(PrepareError::Refused(refusal)) = chain.prepare_deposit(&order, 1).await else { bail!("not refused") };
    let reason = refusal.context.revert_reason.context("no reason")?;
    assert!(reason.starts_with("AllowanceMissing"), "{reason}");

    world.dev.approve(&world.payer, &token, &world.program, &account(&signer), CAP).await?;
    let prepared = chain.prepare_deposit(&order, 1).await?;
    let state = settle(&chain, &order, &[prepared]).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    world.close_payers(&token, TOKEN_2022_PROGRAM).await?;

    let non_delivery = Some(world.attest(&world.non_delivery(&order)));
    let cancel = RefundOrder { payment_id: order.payment_id.clone(), escrow: order.escrow.clone(), non_delivery };
    // Nobody makes it at the gateway's cost (its owner could close it again and keep the rent), and nothing is lost by waiting.
    let Err(PrepareError::Transient(waits)) = chain.prepare_refund(&cancel, 1).await else { bail!("not waited for") };
    assert!(waits.to_string().contains("has closed its token account"), "{waits}");
    let state = chain.escrow_state(&order.payment_id, &order.escrow).await?;
    assert!(matches!(state, EscrowState::Held), "{state:?}");

    world.dev.mint(&token, &payer, 1).await?;
    chain.broadcast(&chain.prepare_refund(&cancel, 1).await?).await?;
    let state =
        until(|| chain.escrow_state(&order.payment_id, &order.escrow), |state| !matches!(state, EscrowState::Held))
            .await?;
    assert!(matches!(state, EscrowState::Refunded(_)), "{state:?}");
    assert_eq!(world.dev.token_balance(&token, &payer).await?, PRICE + 1);
    Ok(())
}

#[tokio::test]
async fn a_refund_waits_for_its_window() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let prepared = chain.prepare_deposit(&order, 1).await?;
    let state = settle(&chain, &order, &[prepared]).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");

    let refund = RefundOrder { payment_id: order.payment_id.clone(), escrow: order.escrow.clone(), non_delivery: None };
    let Err(PrepareError::Refused(refusal)) = chain.prepare_refund(&refund, 1).await else { bail!("not refused") };
    let reason = refusal.context.revert_reason.context("no reason")?;
    assert!(reason.starts_with("RefundWindowNotOpen"), "{reason}");

    world.surfnet.travel_to(order.escrow.refund_after + 1).await?;
    let state =
        until(|| chain.escrow_state(&order.payment_id, &order.escrow), |state| !matches!(state, EscrowState::Held))
            .await?;
    assert_eq!(state, EscrowState::Lapsed);
    assert_eq!(chain.delivery_state(&world.delivery(&order)).await?, DeliveryState::Impossible);
    let prepared = chain.prepare_refund(&refund, 1).await?;
    assert_eq!(chain.transaction_state(std::slice::from_ref(&prepared)).await?, TransactionState::Pending);
    chain.broadcast(&prepared).await?;
    let state =
        until(|| chain.escrow_state(&order.payment_id, &order.escrow), |state| !matches!(state, EscrowState::Lapsed))
            .await?;
    let EscrowState::Refunded(refunded) = state else { bail!("{state:?}") };
    assert_eq!(refunded.inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(refunded.amount.to_string(), PRICE.to_string());
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}

#[tokio::test]
async fn the_releasers_non_delivery_gives_the_money_back_at_once() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let prepared = chain.prepare_deposit(&order, 1).await?;
    settle(&chain, &order, &[prepared]).await?;

    let cancel = |signature: String| RefundOrder {
        payment_id: order.payment_id.clone(),
        escrow: order.escrow.clone(),
        non_delivery: Some(signature),
    };
    // The releaser's word for a delivery is not its word against one.
    let wrong = cancel(world.attest(&world.statement(&order)));
    let Err(PrepareError::Refused(refusal)) = chain.prepare_refund(&wrong, 1).await else { bail!("not refused") };
    let reason = refusal.context.revert_reason.context("no reason")?;
    assert!(reason.contains("the Ed25519 signature does not hold"), "{reason}");

    let prepared = chain.prepare_refund(&cancel(world.attest(&world.non_delivery(&order))), 1).await?;
    chain.broadcast(&prepared).await?;
    let state =
        until(|| chain.escrow_state(&order.payment_id, &order.escrow), |state| !matches!(state, EscrowState::Held))
            .await?;
    assert!(matches!(state, EscrowState::Refunded(_)), "{state:?}");
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_the_chain_would_refuse_says_why_and_is_not_signed() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let refusal = async |order: &sagas::ports::DepositOrder| -> Result<String> {
        match chain.prepare_deposit(order, 1).await {
            Err(PrepareError::Refused(refusal)) => {
                assert_eq!(refusal.context.contract_address.as_deref(), Some(world.program.as_str()));
                refusal.context.revert_reason.context("no reason")
            }
            other => bail!("{other:?}"),
        }
    };

    let mut order = world.order(600).await?;
    order.reservation.source_amount = (CAP + 1).to_string().parse()?;
    let reason = refusal(&order).await?;
    assert!(reason.starts_with("AmountAboveCap"), "{reason}");

    let mut order = world.order(600).await?;
    order.terms_hash = events::Hash32([1; 32]);
    let reason = refusal(&order).await?;
    assert!(reason.contains("the Ed25519 signature does not hold"), "{reason}");

    world.dev.approve(&world.payer, &world.token, &world.program, &account(&world.payer), 5).await?;
    let order = world.order(600).await?;
    let reason = refusal(&order).await?;
    assert!(reason.starts_with("AllowanceTooSmall") && reason.ends_with("5 of 900000"), "{reason}");

    world.dev.approve(&world.payer, &world.token, &world.program, &account(&world.settler), CAP).await?;
    let reason = refusal(&order).await?;
    assert!(reason.starts_with("AllowanceMissing"), "{reason}");

    world.surfnet.travel_to(order.escrow.reserve_deadline + 1).await?;
    world.dev.approve(&world.payer, &world.token, &world.program, &account(&world.payer), CAP).await?;
    let reason = refusal(&order).await?;
    assert!(reason.starts_with("ReserveWindowClosed"), "{reason}");
    // Nothing was made, and now nothing can be.
    until(|| chain.deposit_ruled_out(&order.payment_id, &order.escrow, order.escrow.reserve_deadline), |out| *out)
        .await?;
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    assert!(order.escrow.refund_after >= order.escrow.fulfillment_deadline + REFUND_DELAY);
    Ok(())
}
