//! The gateway's own release on Solana: it pays the settler whatever has become of it, is refused where the escrow takes none, and
//! where somebody else's comes first its transaction is given up by proof.

use std::slice::from_ref;

use anyhow::{Result, bail, ensure};

use chains_solana::auditor::check_prepared;
use sagas::ports::{Chains, DepositOrder, EscrowState, ReleaseOrder, TransactionState};

use crate::{
    evm_support::release::{order, refused},
    support::*,
};

async fn ended(chains: &dyn Chains, deposit: &DepositOrder) -> Result<EscrowState> {
    let ask = || chains.escrow_state(&deposit.payment_id, &deposit.escrow);
    until(ask, |state| !matches!(state, EscrowState::Held)).await
}

#[tokio::test]
async fn the_gateway_pays_a_settler_that_is_gone_and_its_own_account_alone() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let deposit = world.order(600).await?;
    let release = order(&deposit, world.attest(&world.statement(&deposit)));
    assert!(refused(&chains, &release).await?.starts_with("nothing is in escrow"));
    let prepared = chains.prepare_deposit(&deposit, 1).await?;
    settle(&chains, &deposit, &[prepared]).await?;
    let before = world.tokens(&world.settler).await?;

    let wrong = ReleaseOrder { attestation: world.attest(&world.non_delivery(&deposit)), ..release.clone() };
    assert!(refused(&chains, &wrong).await?.contains("the Ed25519 signature does not hold"));
    let elsewhere = ReleaseOrder { payout_account: chains_solana::keys::account(&world.payer), ..release.clone() };
    assert!(refused(&chains, &elsewhere).await?.contains("under another quote"));

    let prepared = chains.prepare_release(&release, 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    assert_eq!(world.tokens(&world.settler).await?, before);
    chains.broadcast(&prepared).await?;
    chains.broadcast(&prepared).await?;
    let state = ended(&chains, &deposit).await?;
    let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(world.tokens(&world.settler).await?, before + PRICE);
    assert!(refused(&chains, &release).await?.contains("paid out already"));
    Ok(())
}

#[tokio::test]
async fn no_account_is_made_for_a_settler_that_could_close_it_for_its_rent() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let token = world.dev.create_token(&key(22), chains_solana::dev::TokenProgram::Token, 6).await?;
    let payer = chains_solana::keys::account(&world.payer);
    world.dev.mint(&token, &payer, CAP).await?;
    world.dev.approve(&world.payer, &token, &world.program, &payer, CAP).await?;
    let deposit = world.order_of(&token, &world.payer, 600).await?;
    let prepared = chains.prepare_deposit(&deposit, 1).await?;
    settle(&chains, &deposit, &[prepared]).await?;
    let release = order(&deposit, world.attest(&world.statement(&deposit)));
    assert!(refused(&chains, &release).await?.contains("the settler has no token account"));
    // A settler makes it before it delivers; then the gateway pays into it.
    let settling = chains_solana::settler::SettlerChain::new(world.node(), world.settler.clone());
    for _ in 0..2 {
        settling.make_payout_account(&world.program, deposit.terms.source.asset()).await?;
    }
    let prepared = chains.prepare_release(&release, 1).await?;
    chains.broadcast(&prepared).await?;
    let state = ended(&chains, &deposit).await?;
    ensure!(matches!(state, EscrowState::Released(_)), "{state:?}");
    let paid = world.dev.token_balance(&token, &chains_solana::keys::account(&world.settler)).await?;
    assert_eq!(paid, PRICE);
    Ok(())
}

#[tokio::test]
async fn one_that_the_settlers_overtook_expires_and_none_is_made_past_the_window() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let deposit = world.order(600).await?;
    let prepared = chains.prepare_deposit(&deposit, 1).await?;
    settle(&chains, &deposit, &[prepared]).await?;
    let ours = chains.prepare_release(&order(&deposit, world.attest(&world.statement(&deposit))), 1).await?;
    let before = world.tokens(&world.settler).await?;
    world.release(&deposit).await?;
    // What a node says of one that comes too late is no matter.
    drop(chains.broadcast(&ours).await);
    let state = ended(&chains, &deposit).await?;
    let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
    assert_ne!(inclusion.transaction_hash, ours.transaction_hash);
    assert_eq!(world.tokens(&world.settler).await?, before + PRICE);
    let dead = |state: &TransactionState| matches!(state, TransactionState::Dead { .. });
    until(|| chains.transaction_state(from_ref(&ours)), dead).await?;

    let late = world.order(600).await?;
    let prepared = chains.prepare_deposit(&late, 1).await?;
    settle(&chains, &late, &[prepared]).await?;
    world.surfnet.travel_to(late.escrow.refund_after + 1).await?;
    ensure!(ended(&chains, &late).await? == EscrowState::Lapsed);
    let release = order(&late, world.attest(&world.statement(&late)));
    assert!(refused(&chains, &release).await?.starts_with("ReleaseWindowClosed"));
    Ok(())
}
