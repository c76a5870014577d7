//! A payment by the real adapters, settler and verifier, without any network.

use alloy::primitives::B256;
use anyhow::{Result, bail};

use chains::{escrow::State, verifier::Outcome};
use sagas::ports::{Chains, DeliveryState, DepositState, EscrowState};
use simulation::chain::PaymentEvents;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_payment_goes_all_the_way() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    assert_eq!(lock(&world.source).payment_events(payment.id()), PaymentEvents::default());
    world.chains.broadcast(&prepared).await?;
    assert_eq!(lock(&world.source).pending(), [prepared.transaction_hash.parse::<B256>()?]);
    let versions = [prepared];
    eventually("the deposit", || async {
        match world.chains.deposit_state(&payment.deposit(), &versions).await? {
            DepositState::Secured(_) => Ok(Some(())),
            DepositState::Pending => Ok(None),
            other => bail!("{other:?}"),
        }
    })
    .await?;
    let escrow = lock(&world.source).contracts().escrow;
    assert_eq!(balance(&world.source, escrow), PRICE);

    let delivered = world.destination_settler.deliver(&payment.delivery()).await?;
    let settled = eventually("the delivery's depth", || async {
        match world.chains.delivery_state(&payment.delivery()).await? {
            DeliveryState::Final(inclusion) => Ok(Some(inclusion)),
            DeliveryState::Seen(_) => Ok(None),
            other => bail!("{other:?}"),
        }
    })
    .await?;
    assert_eq!(settled, delivered);
    let Outcome::Attested(attestation) = world.verifier.attest_delivery(&payment.case()).await? else {
        bail!("not attested")
    };
    let released = world.source_settler.release(payment.id(), &payment.escrow, &attestation).await?;
    let settled = eventually("the release's depth", || async {
        match world.chains.escrow_state(payment.id(), &payment.escrow).await? {
            EscrowState::Released(inclusion) => Ok(Some(inclusion)),
            EscrowState::Held => Ok(None),
            other => bail!("{other:?}"),
        }
    })
    .await?;
    assert_eq!(settled, released);

    assert_eq!(balance(&world.source, escrow), 0);
    assert_eq!(balance(&world.source, key(10).address()), 10 * CAP - PRICE);
    assert_eq!(balance(&world.source, key(12).address()), 10 * CAP + PRICE);
    assert_eq!(balance(&world.destination, key(11).address()), DELIVERED);
    assert_eq!(balance(&world.destination, key(12).address()), 10 * CAP - DELIVERED);
    let (source, destination) = (lock(&world.source), lock(&world.destination));
    assert_conserved(&source);
    assert_conserved(&destination);
    let events = PaymentEvents { deposited: 1, reserved: 1, released: 1, ..PaymentEvents::default() };
    assert_eq!(source.payment_events(payment.id()), events);
    assert_eq!(destination.payment_events(payment.id()), PaymentEvents { fulfilled: 1, ..PaymentEvents::default() });
    assert_eq!(source.escrow_record(payment.id())?.map(|record| record.state), Some(State::Released));
    assert_eq!(destination.escrow_record(payment.id())?, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deposit_that_nobody_delivers_comes_back() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    eventually("the refund window", || async {
        let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
        Ok((state == EscrowState::Lapsed).then_some(()))
    })
    .await?;
    assert_eq!(balance(&world.source, key(10).address()), 10 * CAP - PRICE);
    let order = payment.refund(None);
    let refund = world.chains.prepare_refund(&order, 1).await?;
    world.chains.broadcast(&refund).await?;
    eventually("the refund", || async {
        let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
        Ok(matches!(state, EscrowState::Refunded(_)).then_some(()))
    })
    .await?;
    assert_eq!(balance(&world.source, key(10).address()), 10 * CAP);
    assert_conserved(&lock(&world.source));
    assert_eq!(lock(&world.source).payment_events(payment.id()).refunded, 1);
    Ok(())
}
