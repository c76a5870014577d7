//! Payments between Solana and EVM chains.

use anyhow::{Result, bail};

use chains::{
    auditor::Audit,
    settler::DeliveryChain,
    verifier::{Outcome, Verifier},
};
use chains_solana::{auditor::Auditor, keys::account, settler::SettlerChain};
use events::{OwnedAsset, Terms};
use sagas::ports::{Chains, DepositState, EscrowState};

use super::{DELIVERED, Payment, amount, delivered, ended, secure, tokens};
use crate::{
    evm_support,
    support::{PRICE, TOKENS, World},
};

#[tokio::test]
async fn a_delivery_on_an_evm_chain_releases_on_solana() -> Result<()> {
    let (world, evm) = tokio::try_join!(World::start(), evm_support::World::start())?;
    let recipient = evm_support::text(&evm.recipient);
    let destination = OwnedAsset::new(evm.destination.asset().parse()?, &recipient)?;
    let delivery_account = evm_support::text(&evm.settler);
    let proxy = evm.destination.contracts.proxy.clone();
    let payment = Payment::from_solana(&world, destination, &delivery_account, &proxy).await?;
    secure(&world, &payment).await?;
    let verifier = Verifier::default()
        .with_chains([world.node()], Some(world.releaser.clone().into()))
        .with_chains([evm.destination.node.clone()], Some(evm_support::key(3).into()));
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    let deliverer = chains_evm::settler::SettlerChain::new(evm.destination.node.clone(), evm.settler.clone());
    let inclusion = deliverer.deliver(&payment.delivery()).await?;
    evm.destination.mine(evm_support::DEPTH).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    settler.release(&payment.id, &payment.plan, &attestation).await?;
    assert!(matches!(ended(&world, &payment).await?, EscrowState::Released(_)));
    assert_eq!(world.tokens(&world.settler).await?, TOKENS + PRICE);
    let auditor = chains_evm::auditor::Auditor::new(evm.destination.node.clone());
    assert_eq!(auditor.audit_delivery(&payment.audited(), &inclusion).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_delivery_on_solana_releases_on_an_evm_chain() -> Result<()> {
    let (world, evm) = tokio::try_join!(World::start(), evm_support::World::start())?;
    let mut spend =
        evm.spend("to solana", chains_evm::authorization::Scheme::EvmPermit2Escrow, &evm.destination.asset())?;
    let destination = tokens(&world, &world.token.mint, &account(&world.recipient));
    let source = spend.terms.source.clone();
    spend.terms = Terms::new(source, vec![destination], amount(DELIVERED), Some(amount(evm_support::CAP)));
    let prepared = chains_evm::authorization::prepare(&spend, &chains_evm::authorization::Choice::default())?;
    let signed = evm_support::sign(&evm.payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
    let (authorization, plan) = chains_evm::authorization::authorize(&spend, &signed)?;
    let payout = evm_support::text(&evm.settler);
    let own = account(&world.settler);
    let id = spend.payment_id.clone();
    let payment = Payment::quoted(id, spend.terms, authorization, plan, &payout, &own, &world.program)?;
    let deposit = payment.deposit();
    let prepared = evm.chains.prepare_deposit(&deposit, 1).await?;
    evm.chains.broadcast(&prepared).await?;
    evm.source.mine(evm_support::DEPTH).await?;
    let secured = evm.chains.deposit_state(&deposit, std::slice::from_ref(&prepared)).await?;
    assert!(matches!(secured, DepositState::Secured(_)), "{secured:?}");

    let verifier = Verifier::default()
        .with_chains([evm.source.node.clone()], Some(evm_support::key(3).into()))
        .with_chains([world.node()], None);
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    settler.deliver(&payment.delivery()).await?;
    let inclusion = delivered(&settler, &payment).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    let paid = chains_evm::settler::SettlerChain::new(evm.source.node.clone(), evm.settler.clone());
    paid.release(&payment.id, &payment.plan, &attestation).await?;
    assert_eq!(world.tokens(&world.recipient).await?, DELIVERED);
    assert_eq!(Auditor::new(world.node()).audit_delivery(&payment.audited(), &inclusion).await?, []);
    Ok(())
}
