//! Reservers that were: a payment is admitted by the key of the account that it names, and by no other (ADR 133).

use std::slice::from_ref;

use alloy::{
    primitives::{Bytes, U256},
    sol_types::SolCall,
};
use anyhow::{Result, bail};
use serde_json::{Value, json};

use chains::setup::SetupError;
use chains_evm::{
    adapter::{EvmChain, Keys},
    authorization::{Choice, Scheme, authorize, prepare},
    node::Node,
};
use escrow_abi::contracts::{GatewayEscrow, parse_address};
use sagas::ports::{Chains, DepositState, PrepareError};

use crate::support::*;

/// The gateway of `world` with `next` as the configured reserver.
fn rotated(world: &World, next: u8, draining: &[u8]) -> Result<EvmChain> {
    let mut config = world.source.config.clone();
    config.common.reserver = text(&key(next)).parse()?;
    let keys = Keys {
        reserver: key(next).into(),
        draining_reservers: draining.iter().map(|seed| key(*seed).into()).collect(),
        submitters: vec![world.submitter.clone().into()],
        exit_submitters: Vec::new(),
        draining_submitters: Vec::new(),
    };
    let (ledger, budgets, clock) = (world.ledger.clone(), world.budgets.clone(), world.clock.clone());
    Ok(EvmChain::new(Node::connect(&config)?, Some(keys), ledger, budgets, clock)?)
}

/// Sends a call of the escrow as its guardian.
async fn guard(world: &World, call: impl SolCall) -> Result<()> {
    let (guardian, escrow) = (key(20).address(), parse_address(&world.source.contracts.escrow)?);
    let _: Value = world.source.dev.rpc("anvil_impersonateAccount", (guardian,)).await?;
    world.source.dev.fund(&text(&key(20)), U256::from(10_u64.pow(18))).await?;
    let data = Bytes::from(call.abi_encode());
    let _: Value =
        world.source.dev.rpc("eth_sendTransaction", (json!({"from": guardian, "to": escrow, "data": data}),)).await?;
    Ok(())
}

#[tokio::test]
async fn a_payment_is_admitted_by_the_reserver_that_it_names_or_not_at_all() -> Result<()> {
    let world = World::start().await?;
    let order = world.payment("before")?.deposit();

    // No nonce is taken and nothing is signed where the key is not there.
    let refused = rotated(&world, 63, &[64])?.prepare_deposit(&order, 1).await;
    let Err(PrepareError::Transient(fault)) = refused else { bail!("{refused:?}") };
    let told = fault.to_string();
    assert!(fault.is_misconfigured() && told.contains(order.escrow.reserver.as_str()), "{told}");
    assert!(told.contains("draining_reserver_keys"), "{told}");

    let gateway = rotated(&world, 63, &[64, 2])?;
    let prepared = gateway.prepare_deposit(&order, 1).await?;
    gateway.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let state = gateway.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    assert!(matches!(rotated(&world, 63, &[2, 2]).map(drop), Err(error) if error.is::<SetupError>()));
    Ok(())
}

/// An escrow has one reserver at a time: what names the earlier one goes in until the later one is installed, and not after.
#[tokio::test]
async fn the_escrow_admits_by_one_reserver_at_a_time() -> Result<()> {
    let world = World::start().await?;
    let gateway = rotated(&world, 63, &[2])?;
    let destination = format!("{}/erc20:{}", world.destination.config.common.chain_id, world.destination.token);
    let signed_for = |request_id: &str, reserver: u8| -> Result<_> {
        let mut spend = world.spend(request_id, Scheme::EvmPermit2Escrow, &destination)?;
        spend.escrow.reserver = text(&key(reserver)).parse()?;
        // Longer than the guardian's delay.
        spend.fulfillment_deadline += chrono::TimeDelta::days(3);
        let prepared = prepare(&spend, &Choice::default())?;
        let signed = sign(&world.payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
        let (authorization, escrow) = authorize(&spend, &signed)?;
        Ok(world.awarded(spend, authorization, escrow)?.deposit())
    };
    let reason = |refused| match refused {
        Err(PrepareError::Refused(refusal)) => Ok(format!("{:?}", refusal.context.revert_reason)),
        other => bail!("{other:?}"),
    };
    let (in_time, late, next) = (signed_for("in time", 2)?, signed_for("late", 2)?, signed_for("next", 63)?);
    let too_early = reason(gateway.prepare_deposit(&next, 1).await)?;
    assert!(too_early.contains("ReserverNotAdmitted"), "{too_early}");
    gateway.broadcast(&gateway.prepare_deposit(&in_time, 1).await?).await?;

    guard(&world, GatewayEscrow::proposeReserverCall { next: key(63).address() }).await?;
    world.source.pass(world.now().await? + 2 * 86_400).await?;
    guard(&world, GatewayEscrow::installReserverCall {}).await?;
    let too_late = reason(gateway.prepare_deposit(&late, 1).await)?;
    assert!(too_late.contains("ReserverNotAdmitted"), "{too_late}");
    let prepared = gateway.prepare_deposit(&next, 1).await?;
    gateway.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let state = gateway.deposit_state(&next, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}
