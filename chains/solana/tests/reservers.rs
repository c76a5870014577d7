//! Reservers that were: a deposit is signed by the key of the account that it names, and by no other (ADR 133).

use std::sync::Arc;

use anyhow::{Result, bail};

use chains::setup::SetupError;
use chains_solana::{
    adapter::{Keys, SolanaChain},
    node::Node,
};
use sagas::ports::{Chains, PrepareError};

use crate::support::*;

/// The gateway of `world` with `next` as the configured reserver.
fn rotated(world: &World, next: u8, draining: &[u8]) -> Result<SolanaChain, SetupError> {
    let mut config = world.config();
    config.common.reserver = wallet(&key(next));
    let keys = Keys {
        reserver: key(next).into(),
        draining_reservers: draining.iter().map(|seed| key(*seed).into()).collect(),
        submitters: world.submitters.iter().cloned().map(Into::into).collect(),
        exit_submitters: Vec::new(),
    };
    SolanaChain::new(Node::connect(&config).unwrap(), Some(keys), Arc::new(TestClock))
}

/// A program has one reserver for ever: payments of it are signed by that key, however the gateway is configured by now.
#[tokio::test]
async fn a_deposit_is_signed_by_the_reserver_that_it_names_or_not_at_all() -> Result<()> {
    let world = World::start().await?;
    let order = world.order(600).await?;

    let refused = rotated(&world, 63, &[64])?.prepare_deposit(&order, 1).await;
    let Err(PrepareError::Transient(fault)) = refused else { bail!("{refused:?}") };
    let told = fault.to_string();
    assert!(fault.is_misconfigured() && told.contains(order.escrow.reserver.as_str()), "{told}");
    assert!(told.contains("draining_reserver_keys"), "{told}");

    let chain = rotated(&world, 63, &[64, 2])?;
    let deposit = chain.prepare_deposit(&order, 1).await?;
    settle(&chain, &order, &[deposit]).await?;
    assert!(matches!(rotated(&world, 63, &[63]).map(drop), Err(SetupError::ReserverTwice { .. })));
    Ok(())
}
