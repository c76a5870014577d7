//! Reservers that were: a deposit is reserved by the key of the account that it names, and by no other (ADR 133).

use std::{slice::from_ref, sync::Arc, time::Duration};

use alloy::sol_types::SolCall;
use anyhow::{Result, bail, ensure};

use chains::setup::SetupError;
use chains_tron::{
    adapter::{Keys, TronChain},
    authorization::Choice,
    node::Node,
};
use escrow_abi::contracts::GatewayEscrow;
use sagas::ports::{Chains, DepositState, PrepareError};

use crate::support::{payment::TestClock, *};

const TWO_DAYS: Duration = Duration::from_secs(2 * 86_400);

/// The gateway of `world` with `next` as the configured reserver.
fn rotated(world: &World, next: u8, draining: &[u8]) -> Result<TronChain, SetupError> {
    let mut config = world.config();
    config.common.reserver = holder(&key(next));
    let keys = Keys {
        reserver: key(next).into(),
        draining_reservers: draining.iter().map(|seed| key(*seed).into()).collect(),
        submitters: world.submitters.iter().cloned().map(Into::into).collect(),
        exit_submitters: Vec::new(),
    };
    TronChain::new(Node::connect(&config).unwrap(), Some(keys), Arc::new(TestClock))
}

/// A deposit keeps the reserver that it names, also when the escrow has another one by the time of the reservation.
#[tokio::test]
async fn a_deposit_is_reserved_by_the_reserver_that_it_names_or_not_at_all() -> Result<()> {
    let world = World::start().await?;
    let guardian = key(20);
    world.dev.fund(&account(&guardian), FUNDS).await?;
    let propose = GatewayEscrow::proposeReserverCall { next: key(63).address() }.abi_encode();
    world.dev.execute(&guardian, &world.contracts.escrow, propose, 0).await?;
    world.advance(TWO_DAYS).await?;
    world.solidify().await?;
    let order = world.order(600).await?;

    // Nothing of the payer's is sent where its deposit could not be reserved.
    let refused = rotated(&world, 63, &[64])?.prepare_deposit(&order, 1).await;
    let Err(PrepareError::Transient(fault)) = refused else { bail!("{refused:?}") };
    let told = fault.to_string();
    assert!(fault.is_misconfigured() && told.contains(order.escrow.reserver.as_str()), "{told}");
    assert!(told.contains("draining_reserver_keys"), "{told}");
    assert_eq!((world.waiting().await?, world.tokens(&world.payer).await?), (0, TOKENS));

    world.deposit(&order).await?;
    let late = world.order_by(&world.payer, 600, &Choice::default()).await?;
    world
        .dev
        .execute(&guardian, &world.contracts.escrow, GatewayEscrow::installReserverCall {}.abi_encode(), 0)
        .await?;
    world.solidify().await?;
    let chains = rotated(&world, 63, &[64, 2])?;
    let prepared = world.reservation(&chains, &order).await?;
    world.settle(&chains, &prepared).await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    ensure!(matches!(state, DepositState::Secured(_)), "{state:?}");

    // What was signed for the earlier one and not deposited before does not go in any more.
    let PrepareError::Refused(refusal) = chains.prepare_deposit(&late, 1).await.unwrap_err() else { bail!("sent") };
    assert!(format!("{:?}", refusal.context.revert_reason).contains("ReserverNotAdmitted"), "{refusal:?}");
    assert!(matches!(rotated(&world, 63, &[2, 2]).map(drop), Err(SetupError::ReserverTwice { .. })));
    Ok(())
}
