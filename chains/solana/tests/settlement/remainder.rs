//! Remainders: what the next settler asks less than was deposited is the payer's, and in no settler's way.

use anyhow::{Result, bail};

use chains::{auditor::Audit, settler::DeliveryChain};
use chains_solana::{auditor::Auditor, keys::account, program::key as program_key, settler::SettlerChain};
use events::event::Claim;
use gateway_program::host;
use sagas::ports::{Chains, EscrowState};

use super::{
    amount, ended,
    reassignment::{LESS, Lapsed, lapsed, next_settler, reassigned, releasing},
};
use crate::{
    evm_support::release::statement,
    support::{PRICE, TOKENS, World, until, wallet},
};

#[tokio::test]
async fn a_payer_without_an_account_holds_up_nobody_and_is_owed_the_rest() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let lapsed = lapsed(&world).await?;
    let Lapsed { first, next, .. } = &lapsed;
    let order = lapsed.order(&world);
    chain.broadcast(&chain.prepare_reassignment(&order, 1).await?).await?;
    reassigned(&chain, &order).await?;
    world.dev.close(&world.token, &world.payer).await?;

    let attestation = world.attest(&statement(&next.deposit()));
    chain.broadcast(&chain.prepare_release(&releasing(next, attestation), 1).await?).await?;
    let EscrowState::Released(release) = ended(&world, next).await? else { bail!("not released") };
    assert_eq!(world.tokens(&next_settler()).await?, 1 + PRICE - LESS);
    until(|| chain.escrow_state(&first.id, &first.plan), |state| matches!(state, EscrowState::Released(_))).await?;
    let owed = Claim { owner: wallet(&world.payer), amount: amount(LESS) };
    assert_eq!(chain.claims(&first.id, &first.plan, &release).await?, std::slice::from_ref(&owed));
    let auditor = Auditor::new(world.node());
    assert_eq!(auditor.claims(&first.id, &first.plan, &release).await?, [owed]);
    assert_eq!(auditor.audit_release(&next.audited(), &release, amount(PRICE)).await?, []);

    world.dev.mint(&world.token, &account(&world.payer), 5).await?;
    let escrow = host::EscrowAccounts {
        payment_id: first.id.on_chain().0,
        settler: next_settler().verifying_key().to_bytes(),
        payer: world.payer.verifying_key().to_bytes(),
        rent_payer: world.submitter_of(&first.deposit()).await?,
        mint: chains_solana::program::parse_key(&world.token.mint)?,
        token_program: gateway_program::ids::TOKEN_PROGRAM,
    };
    world.send(&[host::return_remainder(&program_key(&first.plan.contract)?, &escrow)]).await?;
    assert_eq!(world.tokens(&world.payer).await?, 5 + LESS);
    until(|| chain.claims(&first.id, &first.plan, &release), Vec::is_empty).await?;
    Ok(())
}

#[tokio::test]
async fn a_settler_that_brings_its_release_returns_the_rest() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let lapsed = lapsed(&world).await?;
    let order = lapsed.order(&world);
    chain.broadcast(&chain.prepare_reassignment(&order, 1).await?).await?;
    reassigned(&chain, &order).await?;
    let settler = SettlerChain::new(world.node(), next_settler());
    let attestation = world.attest(&statement(&lapsed.next.deposit()));
    let released_by = settler.release(&lapsed.first.id, &lapsed.first.plan, &attestation).await?;
    let EscrowState::Released(release) = ended(&world, &lapsed.next).await? else { bail!("not released") };
    assert_eq!(release.transaction_hash, released_by);
    assert_eq!(world.tokens(&next_settler()).await?, 1 + PRICE - LESS);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE + LESS);
    until(|| chain.claims(&lapsed.first.id, &lapsed.first.plan, &release), Vec::is_empty).await?;
    Ok(())
}
