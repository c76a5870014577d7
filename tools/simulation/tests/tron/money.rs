//! Energy, fee limits and TRX: what cannot be paid for is not sent, and what fails for want of it is not believed to have landed.

use std::time::Duration;

use alloy::sol_types::SolCall;
use anyhow::{Context, Result, bail};

use chains_tron::{authorization::Choice, node::State, transaction::Call};
use escrow_abi::contracts::DevToken;
use sagas::ports::{Chains, DepositState, PrepareError, TransactionState};
use simulation::family::secp256k1;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_transaction_that_runs_out_of_energy_costs_its_limit_and_does_nothing() -> Result<()> {
    let chain = chain(0)?.shared();
    let node = honest(&chain)?;
    let (poor, token) = (secp256k1("poor"), lock(&chain).contracts().token);
    let call = |key: &alloy::signers::local::PrivateKeySigner| Call {
        owner: key.address(),
        contract: token,
        data: DevToken::approveCall { spender: recipient(), value: alloy::primitives::U256::from(1) }.abi_encode(),
        value_sun: 0,
    };
    let expiration = lock(&chain).head().time_ms.unsigned_abs() + 60_000;
    let refused = lock(&chain).send(&poor, call(&poor), 10 * TRX, expiration).unwrap_err();
    assert!(refused.to_string().contains("does not exist"), "{refused}");
    lock(&chain).fund(poor.address(), TRX);
    // A thousand sun for energy is less than an approval takes.
    let cheap = lock(&chain).send(&payer(), call(&payer()), 1_000, expiration)?;
    let before = lock(&chain).sun(poor.address());
    let broke = lock(&chain).send(&poor, call(&poor), 10 * TRX, expiration)?;
    mine(&chain, 1)?;
    for id in [cheap, broke] {
        let found = lock(&chain).transaction(id).cloned().context("in no block")?;
        assert_eq!((found.result, found.succeeded()), ("OUT_OF_ENERGY", false));
        let info = node.info(id, State::Newest).await?.context("not told")?;
        assert!(info.failure.as_deref().is_some_and(|failure| failure.contains("OUT_OF_ENERGY")), "{info:?}");
    }
    assert!(lock(&chain).sun(poor.address()) < before, "it has paid all the same");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_payer_without_trx_and_one_whose_fee_limit_is_too_low_burn_nothing() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    // All that the payer has is spent between the signature and the award.
    let sun = lock(&world.source).sun(payer().address());
    spend_all(&world, sun)?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let Err(PrepareError::Refused(refusal)) = world.chains.prepare_deposit(&payment.deposit(), 1).await else {
        bail!("not refused")
    };
    let reason = refusal.context.revert_reason.clone().unwrap_or_default();
    assert!(reason.contains("cannot be paid for"), "{reason}");
    assert_eq!(refusal.valid_until, payment.escrow.reserve_deadline);
    assert!(lock(&world.source).pending().is_empty(), "nothing of the payer's is sent");

    lock(&world.source).fund(payer().address(), FUNDS);
    // Energy is dearer than it was when the payer signed.
    lock(&world.source).set_energy_price(400);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let Err(PrepareError::Refused(refusal)) = world.chains.prepare_deposit(&payment.deposit(), 1).await else {
        bail!("not refused")
    };
    let reason = refusal.context.revert_reason.clone().unwrap_or_default();
    assert!(reason.contains("fee_limit"), "{reason}");
    assert!(lock(&world.source).pending().is_empty(), "nothing of the payer's is sent");
    lock(&world.source).set_energy_price(100);
    tokio::time::sleep(Duration::from_secs(4)).await;
    secure(&world.chains, &payment.deposit()).await?;
    Ok(())
}

fn spend_all(world: &World, sun: u64) -> Result<()> {
    let mut source = lock(&world.source);
    let expiration = source.head().time_ms.unsigned_abs() + 60_000;
    // To a contract that takes coins for nothing: the proxy delivers to whom it is told.
    let fulfill = escrow_abi::contracts::FulfillmentProxy::fulfillCall {
        paymentId: alloy::primitives::B256::repeat_byte(5),
        quoteHash: alloy::primitives::B256::repeat_byte(6),
        token: alloy::primitives::Address::ZERO,
        recipient: recipient(),
        amount: alloy::primitives::U256::from(sun - 20 * TRX),
        fulfillBy: alloy::primitives::aliases::U48::from(BEGIN + 10_000),
    };
    let call = Call {
        owner: payer().address(),
        contract: source.contracts().proxy,
        data: fulfill.abi_encode(),
        value_sun: sun - 20 * TRX,
    };
    source.send(&payer(), call, 19 * TRX, expiration)?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_submitter_without_trx_signs_nothing() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    // Energy at this price costs more than a submitter has; the deposit is held back, too, for it would only be locked up.
    lock(&world.source).set_energy_price(100);
    let chains = {
        let node = honest(&world.source)?;
        let keys = chains_tron::adapter::Keys {
            reserver: secp256k1("reserver").into(),
            draining_reservers: Vec::new(),
            submitters: vec![secp256k1("poor submitter").into()],
            exit_submitters: Vec::new(),
        };
        chains_tron::adapter::TronChain::new(node, Some(keys), std::sync::Arc::new(world.clock))?
    };
    lock(&world.source).fund(secp256k1("poor submitter").address(), TRX);
    for _ in 0..3 {
        match chains.prepare_deposit(&payment.deposit(), 1).await {
            Err(PrepareError::Transient(fault)) => {
                assert_eq!(fault.kind(), "rate limited", "{fault}")
            }
            other => bail!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    assert_eq!(lock(&world.source).payment_events(payment.id()).deposited, 0);
    lock(&world.source).fund(secp256k1("poor submitter").address(), FUNDS);
    secure(&chains, &payment.deposit()).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_ran_out_of_energy_is_given_up_and_made_anew() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    let prepared = reservation(&world.chains, &payment.deposit(), 1).await?;
    // What was priced covers half of it at the price of the block that has it.
    lock(&world.source).set_energy_price(400);
    world.chains.broadcast(&prepared).await?;
    let versions = [prepared.clone()];
    let ended = eventually("an end", || async {
        Ok(match world.chains.deposit_state(&payment.deposit(), &versions).await? {
            DepositState::Pending => None,
            other => Some(other),
        })
    })
    .await?;
    let DepositState::Superseded { evidence } = ended else { bail!("{ended:?}") };
    assert!(evidence.contains("OUT_OF_ENERGY"), "{evidence}");
    assert!(matches!(world.chains.transaction_state(&versions).await?, TransactionState::Dead { .. }));
    // A fee limit of what energy costs now.
    let again = reservation(&world.chains, &payment.deposit(), 2).await?;
    world.chains.broadcast(&again).await?;
    eventually("the deposit", || async {
        match world.chains.deposit_state(&payment.deposit(), std::slice::from_ref(&again)).await? {
            DepositState::Secured(_) => Ok(Some(())),
            DepositState::Pending => Ok(None),
            other => bail!("{other:?}"),
        }
    })
    .await?;
    assert_eq!(lock(&world.source).payment_events(payment.id()).reserved, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_payer_signs_a_fee_limit_of_its_own() -> Result<()> {
    let world = World::new()?;
    let choice = Choice { fee_limit_sun: Some(200 * TRX), ..Choice::default() };
    let payment = world.payment_by("order", &choice).await?;
    lock(&world.source).set_energy_price(300);
    let refused = world.chains.prepare_deposit(&payment.deposit(), 1).await;
    // The approval's limit is the estimate's, and covers no price three times as high.
    assert!(matches!(refused, Err(PrepareError::Refused(_) | PrepareError::PayerSent { .. })), "{refused:?}");
    lock(&world.source).set_energy_price(100);
    secure(&world.chains, &payment.deposit()).await?;
    Ok(())
}
