//! The gateway's own release on Solana: it pays the settler whatever has become of it, is refused where the escrow takes none, and
//! where somebody else's comes first its transaction is given up by proof.

use std::slice::from_ref;

use anyhow::{Result, bail, ensure};

use chains::settler::DeliveryChain;
use chains_solana::{auditor::check_prepared, dev::TokenProgram, keys::account, settler::SettlerChain};
use sagas::ports::{Chains, DepositOrder, EscrowState, ReleaseOrder, TransactionState};

use crate::{
    evm_support::release::{order, refused},
    support::*,
};

async fn ended(chain: &dyn Chains, deposit: &DepositOrder) -> Result<EscrowState> {
    let ask = || chain.escrow_state(&deposit.payment_id, &deposit.escrow);
    until(ask, |state| !matches!(state, EscrowState::Held)).await
}

#[tokio::test]
async fn the_gateway_pays_a_settler_that_is_gone_and_its_own_account_alone() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let deposit = world.order(600).await?;
    let release = order(&deposit, world.attest(&world.statement(&deposit)));
    assert!(refused(&chain, &release).await?.starts_with("nothing is in escrow"));
    let prepared = chain.prepare_deposit(&deposit, 1).await?;
    settle(&chain, &deposit, &[prepared]).await?;
    let before = world.tokens(&world.settler).await?;

    let wrong = ReleaseOrder { attestation: world.attest(&world.non_delivery(&deposit)), ..release.clone() };
    assert!(refused(&chain, &wrong).await?.contains("the Ed25519 signature does not hold"));
    let elsewhere = ReleaseOrder { payout_account: wallet(&world.payer), ..release.clone() };
    assert!(refused(&chain, &elsewhere).await?.contains("under another quote"));

    let prepared = chain.prepare_release(&release, 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    assert_eq!(world.tokens(&world.settler).await?, before);
    chain.broadcast(&prepared).await?;
    chain.broadcast(&prepared).await?;
    let state = ended(&chain, &deposit).await?;
    let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(world.tokens(&world.settler).await?, before + PRICE);
    assert!(refused(&chain, &release).await?.contains("paid out already"));
    Ok(())
}

#[tokio::test]
async fn no_account_is_made_for_a_settler_that_could_close_it_for_its_rent() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let token = world.dev.create_token(&key(22), TokenProgram::Token, 6).await?;
    let payer = account(&world.payer);
    world.dev.mint(&token, &payer, CAP).await?;
    world.dev.approve(&world.payer, &token, &world.program, &payer, CAP).await?;
    let deposit = world.order_of(&token, &world.payer, 600).await?;
    let prepared = chain.prepare_deposit(&deposit, 1).await?;
    settle(&chain, &deposit, &[prepared]).await?;
    let release = order(&deposit, world.attest(&world.statement(&deposit)));
    assert!(refused(&chain, &release).await?.contains("the settler has no token account"));
    // A settler makes it before it delivers; then the gateway pays into it.
    let settling = SettlerChain::new(world.node(), world.settler.clone());
    for _ in 0..2 {
        settling.make_payout_account(&deposit.escrow.contract, deposit.terms.source.asset()).await?;
    }
    let prepared = chain.prepare_release(&release, 1).await?;
    chain.broadcast(&prepared).await?;
    let state = ended(&chain, &deposit).await?;
    ensure!(matches!(state, EscrowState::Released(_)), "{state:?}");
    let paid = world.dev.token_balance(&token, &account(&world.settler)).await?;
    assert_eq!(paid, PRICE);
    Ok(())
}

#[tokio::test]
async fn one_that_the_settlers_overtook_expires_and_none_is_made_past_the_window() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let deposit = world.order(600).await?;
    let prepared = chain.prepare_deposit(&deposit, 1).await?;
    settle(&chain, &deposit, &[prepared]).await?;
    let ours = chain.prepare_release(&order(&deposit, world.attest(&world.statement(&deposit))), 1).await?;
    let before = world.tokens(&world.settler).await?;
    world.release(&deposit).await?;
    // What a node says of one that comes too late does not matter.
    drop(chain.broadcast(&ours).await);
    let state = ended(&chain, &deposit).await?;
    let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
    assert_ne!(inclusion.transaction_hash, ours.transaction_hash);
    assert_eq!(world.tokens(&world.settler).await?, before + PRICE);
    let dead = |state: &TransactionState| matches!(state, TransactionState::Dead { .. });
    until(|| chain.transaction_state(from_ref(&ours)), dead).await?;

    let late = world.order(600).await?;
    let prepared = chain.prepare_deposit(&late, 1).await?;
    settle(&chain, &late, &[prepared]).await?;
    world.surfnet.travel_to(late.escrow.refund_after + 1).await?;
    ensure!(ended(&chain, &late).await? == EscrowState::Lapsed);
    let release = order(&late, world.attest(&world.statement(&late)));
    assert!(refused(&chain, &release).await?.starts_with("ReleaseWindowClosed"));
    Ok(())
}
