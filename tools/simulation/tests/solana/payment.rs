//! Payments by the real adapter, settler and verifier, without any network.

use anyhow::{Result, bail};

use chains::{
    escrow::State,
    settler::DeliveryChain,
    verifier::{Outcome, Verifier},
};
use chains_solana::{escrows::Escrows, settler::SettlerChain};
use events::event::{Inclusion, TransactionPrepared};
use sagas::ports::{
    Chains, DeliveryState, DepositState, EscrowState, PrepareError, ReassignmentOrder, ReassignmentState, ReleaseOrder,
};
use simulation::chain::PaymentEvents;

use crate::support::*;

/// Deposits, and waits until that is settled.
async fn secure(world: &World, payment: &Payment) -> Result<TransactionPrepared> {
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    assert_eq!(lock(&world.source).pending(), std::slice::from_ref(&prepared.transaction_hash));
    let versions = [prepared];
    eventually("the deposit", || async {
        match world.chains.deposit_state(&payment.deposit(), &versions).await? {
            DepositState::Secured(secured) => Ok(Some(secured)),
            DepositState::Pending => Ok(None),
            other => bail!("{other:?}"),
        }
    })
    .await?;
    let [prepared] = versions;
    Ok(prepared)
}

async fn delivered(world: &World, settler: &SettlerChain, payment: &Payment) -> Result<Inclusion> {
    let transaction = settler.deliver(&payment.delivery()).await?;
    let settled = eventually("the delivery's depth", || async {
        match world.chains.delivery_state(&payment.delivery()).await? {
            DeliveryState::Final(inclusion) => Ok(Some(inclusion)),
            // The settler has seen it in a block that is not confirmed.
            DeliveryState::NotSeen | DeliveryState::Seen(_) => Ok(None),
            other => bail!("{other:?}"),
        }
    })
    .await?;
    assert_eq!(settled.transaction_hash, transaction);
    Ok(settled)
}

async fn attested(verifier: &Verifier, payment: &Payment) -> Result<String> {
    match verifier.attest_delivery(&payment.case()).await? {
        Outcome::Attested(attestation) => Ok(attestation),
        other => bail!("not attested: {other:?}"),
    }
}

async fn non_delivery(world: &World, payment: &Payment) -> Result<String> {
    eventually("the word that nothing was delivered", || async {
        match world.verifier.attest_non_delivery(&payment.case()).await? {
            Outcome::Attested(attestation) => Ok(Some(attestation)),
            Outcome::NotYet(_) => Ok(None),
            Outcome::Refused(why) => bail!("{why:?}"),
        }
    })
    .await
}

async fn ended(world: &World, payment: &Payment) -> Result<EscrowState> {
    eventually("the escrow's end", || async {
        let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
        Ok((!matches!(state, EscrowState::Held | EscrowState::Lapsed)).then_some(state))
    })
    .await
}

fn record(world: &World, payment: &Payment) -> Result<Option<State>> {
    let escrow = lock(&world.source).escrow(payment.id());
    Ok(escrow.map(|escrow| Escrows::of(&world.source_node).to_record(&escrow)).transpose()?.map(|record| record.state))
}

#[tokio::test(start_paused = true)]
async fn a_payment_goes_all_the_way() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order")?;
    assert_eq!(lock(&world.source).payment_events(payment.id()), PaymentEvents::default());
    secure(&world, &payment).await?;
    assert_eq!(lock(&world.source).vault(payment.id()), PRICE);

    delivered(&world, &world.destination_settler, &payment).await?;
    let attestation = attested(&world.verifier, &payment).await?;
    let released = world.source_settler.release(payment.id(), &payment.escrow, &attestation).await?;
    match ended(&world, &payment).await? {
        EscrowState::Released(inclusion) => assert_eq!(inclusion.transaction_hash, released),
        other => bail!("{other:?}"),
    }

    assert_eq!(world.balances(), [10 * CAP - PRICE, 10 * CAP + PRICE, 10 * CAP - DELIVERED, DELIVERED]);
    assert_eq!(record(&world, &payment)?, Some(State::Released));
    let (source, destination) = (lock(&world.source), lock(&world.destination));
    assert_eq!(source.vault(payment.id()), 0);
    assert_conserved(&source);
    assert_conserved(&destination);
    let events = PaymentEvents { deposited: 1, reserved: 1, released: 1, ..PaymentEvents::default() };
    assert_eq!(source.payment_events(payment.id()), events);
    assert_eq!(destination.payment_events(payment.id()), PaymentEvents { fulfilled: 1, ..PaymentEvents::default() });
    assert!(destination.escrow(payment.id()).is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_gateway_brings_a_release_that_the_settler_leaves() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order")?;
    secure(&world, &payment).await?;
    delivered(&world, &world.destination_settler, &payment).await?;
    let reservation = payment.reservation();
    let order = ReleaseOrder {
        payment_id: payment.id().clone(),
        escrow: payment.escrow.clone(),
        quote_hash: reservation.quote_hash,
        payout_account: reservation.payout_account,
        attestation: attested(&world.verifier, &payment).await?,
    };
    let release = world.chains.prepare_release(&order, 1).await?;
    world.chains.broadcast(&release).await?;
    assert!(matches!(ended(&world, &payment).await?, EscrowState::Released(_)));
    assert_eq!(world.balances(), [10 * CAP - PRICE, 10 * CAP + PRICE, 10 * CAP - DELIVERED, DELIVERED]);
    // A release of what is released is refused before anybody signs it.
    assert!(matches!(world.chains.prepare_release(&order, 2).await, Err(PrepareError::Refused(_))));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deposit_that_nobody_delivers_comes_back() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order")?;
    secure(&world, &payment).await?;
    let order = payment.refund(None);
    // Not before its window.
    assert!(matches!(world.chains.prepare_refund(&order, 1).await, Err(PrepareError::Refused(_))));
    eventually("the refund window", || async {
        let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
        Ok((state == EscrowState::Lapsed).then_some(()))
    })
    .await?;
    assert_eq!(world.balances()[0], 10 * CAP - PRICE);
    let refund = world.chains.prepare_refund(&order, 1).await?;
    world.chains.broadcast(&refund).await?;
    assert!(matches!(ended(&world, &payment).await?, EscrowState::Refunded(_)));
    assert_eq!(world.balances()[0], 10 * CAP);
    assert_conserved(&lock(&world.source));
    assert_eq!(lock(&world.source).payment_events(payment.id()).refunded, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_settler_that_fades_is_followed_by_another_who_asks_less() -> Result<()> {
    let world = World::new()?;
    let (first, now) = (world.payment("order")?, BEGIN);
    let next = first.next(now)?;
    let first = first.promising(now + 60)?;
    secure(&world, &first).await?;

    let non_delivery = non_delivery(&world, &first).await?;
    let order = ReassignmentOrder {
        payment_id: first.id().clone(),
        terms: first.terms.clone(),
        terms_hash: first.terms.hash(),
        escrow: first.escrow.clone(),
        authorization: first.authorization.clone(),
        deposited: PRICE.to_string().parse()?,
        lapsed: first.reservation(),
        non_delivery: non_delivery.clone(),
        reservation: next.reservation(),
    };
    let prepared = world.chains.prepare_reassignment(&order, 1).await?;
    world.chains.broadcast(&prepared).await?;
    let reassigned = eventually("the reassignment", || async {
        match world.chains.reassignment_state(&order).await {
            Ok(ReassignmentState::Reassigned(inclusion)) => Ok(Some(inclusion)),
            Ok(ReassignmentState::Open) | Err(_) => Ok(None),
            Ok(other) => bail!("{other:?}"),
        }
    })
    .await?;
    assert_eq!(reassigned.transaction_hash, prepared.transaction_hash);
    // The word about the reservation before ends nothing any more.
    let cancel = first.refund(Some(non_delivery));
    assert!(matches!(world.chains.prepare_refund(&cancel, 1).await, Err(PrepareError::Refused(_))));

    let settler = SettlerChain::new(world.destination_node.clone(), key(14));
    delivered(&world, &settler, &next).await?;
    let attestation = attested(&world.verifier, &next).await?;
    let settler = SettlerChain::new(world.source_node.clone(), key(14));
    settler.release(next.id(), &next.escrow, &attestation).await?;
    assert!(matches!(ended(&world, &next).await?, EscrowState::Released(_)));
    let source = lock(&world.source);
    assert_eq!(source.token_balance(0, &public(14)), 10 * CAP + PRICE - 1_000);
    assert_eq!(source.token_balance(0, &public(10)), 10 * CAP - PRICE + 1_000, "what the second did not ask is back");
    assert_conserved(&source);
    let events = PaymentEvents { deposited: 1, reserved: 2, reassigned: 1, released: 1, ..PaymentEvents::default() };
    assert_eq!(source.payment_events(first.id()), events);
    Ok(())
}
