//! The gateway's own release on Tron: it pays the settler whatever has become of it, is refused where the escrow takes none, and
//! where somebody else's comes first its transaction is given up by proof.

use std::{slice::from_ref, time::Duration};

use anyhow::{Result, bail, ensure};

use chains::{auditor::Audit, settler::DeliveryChain};
use chains_tron::auditor::check_prepared;
use events::event::{EscrowPlan, TransactionPrepared};
use sagas::ports::{Chains, EscrowState, RefundOrder, ReleaseOrder, TransactionState};

use crate::{
    evm_support::release::{order, refused},
    support::{
        payment::{CAP, DELIVERED, PRICE},
        quoted::Payment,
        *,
    },
};

fn release(world: &World, payment: &Payment) -> ReleaseOrder {
    let deposit = payment.deposit();
    order(&deposit, world.attest(&world.statement(&deposit)))
}

#[tokio::test]
async fn the_gateway_pays_a_settler_that_is_gone_with_the_remainder_for_the_payer() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let payment = Payment::within_tron(&world, 600, world.trc20(&world.token, &account(&world.recipient))).await?;
    assert!(refused(&chains, &release(&world, &payment)).await?.contains("nothing is in escrow"));
    let (_, secured) = payment.secure(&world).await?;
    world.mining(world.settling().deliver(&payment.delivery())).await??;
    payment.delivered(&world).await?;
    let forged = ReleaseOrder {
        attestation: world.attest(&world.non_delivery(&payment.deposit())),
        ..release(&world, &payment)
    };
    refused(&chains, &forged).await?;

    let prepared = chains.prepare_release(&release(&world, &payment), 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    assert_eq!(world.tokens_of(&payment.plan.contract.to_string()).await?, CAP);
    world.settle(&chains, &prepared).await?;
    let EscrowState::Released(inclusion) = payment.ended(&world).await? else { bail!("not released") };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(world.tokens(&world.settler).await?, TOKENS - DELIVERED + PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    assert_eq!(world.tokens_of(&payment.plan.contract.to_string()).await?, 0);
    assert_eq!(world.auditor().audit_release(&payment.audited(), &inclusion, secured.amount).await?, []);
    assert!(refused(&chains, &release(&world, &payment)).await?.contains("paid out already"));
    Ok(())
}

#[tokio::test]
async fn one_that_the_settlers_overtook_is_given_up_and_none_is_made_past_the_window() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    payment.secure(&world).await?;
    let ours = chains.prepare_release(&release(&world, &payment), 1).await?;
    world.release(&payment.deposit()).await?;
    drop(chains.broadcast(&ours).await);
    let EscrowState::Released(inclusion) = payment.ended(&world).await? else { bail!("not released") };
    assert_ne!(inclusion.transaction_hash, ours.transaction_hash);
    given_up(&world, &ours).await?;

    let late = Payment::within_tron(&world, 600, world.trx()).await?;
    late.secure(&world).await?;
    past(&world, &late.plan).await?;
    let reason = refused(&chains, &release(&world, &late)).await?;
    ensure!(reason.starts_with("ReleaseWindowClosed"), "{reason}");
    let refund = RefundOrder { payment_id: late.id.clone(), escrow: late.plan.clone(), non_delivery: None };
    world.settle(&chains, &chains.prepare_refund(&refund, 1).await?).await?;
    Ok(())
}

async fn given_up(world: &World, ours: &TransactionPrepared) -> Result<()> {
    let chains = world.chains();
    let dead = |state: &TransactionState| matches!(state, TransactionState::Dead { .. });
    world.mining(until(|| chains.transaction_state(from_ref(ours)), dead)).await??;
    Ok(())
}

async fn past(world: &World, plan: &EscrowPlan) -> Result<()> {
    let left = (plan.refund_after + 1).saturating_sub(world.time().await?);
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await
}
