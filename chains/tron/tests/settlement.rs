//! Settler and verifier on a Tron development chain with the real contracts, and between it and EVM chains.

mod deliveries;
mod landing;
mod verifier;

use std::time::Duration;

use alloy::primitives::U256;
use anyhow::{Context, Result, bail};
use serde_json::json;

use chains::{
    auditor::Audit,
    escrow::{EscrowRecord, State},
    perform::PerformError,
    settler::DeliveryChain,
    verifier::{Outcome, Verifier},
};
use chains_tron::{
    settler::SettlerChain,
    transaction::{Decoded, read_signed},
    wallet::{Patience, Wallet},
};
use events::{OwnedAsset, Terms};
use sagas::ports::{Chains, DeliveryState, DepositState, EscrowState, RefundOrder, Statement};

use crate::{
    evm_support::{self, release::reason},
    support::{
        TOKENS, World, account, holder,
        liar::Liar,
        payment::{CAP, DELIVERED, PRICE},
        quoted::{Payment, amount},
    },
};

/// Sun for a unit of energy and for a byte, as the development chain has them.
const ENERGY_SUN: u64 = 100;
const BYTE_SUN: u64 = 1_000;

fn verifier(world: &World) -> Verifier {
    Verifier::default().with_chains([world.node()], Some(world.releaser.clone().into()))
}

fn transient(outcome: Result<String, PerformError>) -> Result<String> {
    match outcome {
        Err(PerformError::Transient(fault)) => Ok(fault.to_string()),
        other => bail!("{other:?}"),
    }
}

/// What the node was asked to broadcast.
fn broadcast(liar: &Liar) -> Result<Vec<(Vec<u8>, Decoded)>> {
    let sent = liar.heard().into_iter().filter(|heard| heard.path == "wallet/broadcasthex");
    sent.map(|heard| {
        let bytes = hex::decode(heard.body["transaction"].as_str().context("no bytes")?)?;
        let (decoded, _) = read_signed(&bytes)?;
        Ok((bytes, decoded))
    })
    .collect()
}

/// The settler behind `liar`.
fn settler_behind(world: &World, liar: &Liar) -> SettlerChain {
    let patience = Patience { wait_max: Duration::from_secs(30), resend_after: Duration::from_millis(50) };
    SettlerChain::over(Wallet::new(world.node_at(&liar.url), world.settler.clone()).with_patience(patience))
}

/// No node passes on what is sent through `liar`, though it says so.
fn swallow(liar: &Liar) {
    liar.say("wallet/broadcasthex", json!({"result": true, "code": "SUCCESS", "txid": "", "message": ""}));
}

#[tokio::test]
async fn tokens_are_delivered_attested_and_released_with_the_remainder() -> Result<()> {
    let world = World::start().await?;
    let own = account(&world.settler);
    let destination = world.trc20(&world.token, &account(&world.recipient));
    let payment = Payment::within_tron(&world, 600, destination.clone()).await?;
    let (settler, verifier) = (world.settling(), verifier(&world));
    assert_eq!(settler.account().to_string(), own);
    assert_eq!(settler.balance(destination.asset()).await?, U256::from(TOKENS));
    assert_eq!(settler.reservation(&payment.id, &payment.plan.contract).await?.1, None);
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));

    payment.secure(&world).await?;
    let (time, record) = settler.reservation(&payment.id, &payment.plan.contract).await?;
    let record: EscrowRecord = record.context("no reservation")?;
    assert!(time > 0 && record.is_of(&payment.plan));
    assert_eq!((record.state, record.quote_hash), (State::Reserved, payment.quote.hash()));
    assert_eq!((record.asset, record.source_amount), (payment.terms.source.asset().clone(), Some(amount(PRICE))));
    assert_eq!((record.settler, record.deposited), (Some(settler.account().clone()), Some(amount(CAP))));
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));

    let hash = world.mining(settler.deliver(&payment.delivery())).await??;
    assert_eq!(world.tokens(&world.recipient).await?, DELIVERED);
    assert!(matches!(settler.delivery_state(&payment.delivery()).await?, DeliveryState::Seen(_)));
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    assert!(matches!(verifier.attest_non_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    let delivery = payment.delivered(&world).await?;
    assert_eq!(delivery.transaction_hash, hash);
    assert_eq!(settler.deliver(&payment.delivery()).await?, hash);
    assert_eq!(world.settling().deliver(&payment.delivery()).await?, hash);

    assert!(matches!(verifier.attest_non_delivery(&payment.case()).await?, Outcome::Refused(_)));
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    let released = world.mining(settler.release(&payment.id, &payment.plan, &attestation)).await??;
    assert_eq!(settler.release(&payment.id, &payment.plan, &attestation).await?, released);
    assert_eq!(world.settling().release(&payment.id, &payment.plan, &attestation).await?, released);
    let EscrowState::Released(release) = payment.ended(&world).await? else { bail!("not released") };
    assert_eq!(release.transaction_hash, released);
    assert_eq!(world.tokens(&world.settler).await?, TOKENS - DELIVERED + PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    assert_eq!(world.tokens_of(&payment.plan.contract.to_string()).await?, 0);
    // A verifier whose answer was lost is asked again, after the settler was paid.
    assert_eq!(verifier.attest_delivery(&payment.case()).await?, Outcome::Attested(attestation.clone()));
    let statement = Statement::Delivery {
        payment_id: payment.id.clone(),
        quote_hash: payment.quote.hash(),
        payout_account: settler.account().clone(),
    };
    assert!(world.chains().attestation_holds(&statement, &payment.plan, &attestation).await?);
    Ok(())
}

#[tokio::test]
async fn a_release_has_the_energy_that_the_escrow_asks_for() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    payment.secure(&world).await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let settler = settler_behind(&world, &liar);
    let attestation = world.attest(&world.statement(&payment.deposit()));
    for bad in ["", "0x", "0xzz", "12"] {
        assert!(transient(settler.release(&payment.id, &payment.plan, bad).await)?.contains("not hex"), "{bad}");
    }
    let wrong = world.attest(&world.non_delivery(&payment.deposit()));
    let refused = reason(settler.release(&payment.id, &payment.plan, &wrong).await)?;
    assert!(refused.starts_with("ReleaserSignatureInvalid("), "{refused}");
    liar.heard();
    let had = world.sun(&world.settler).await?;
    world.mining(settler.release(&payment.id, &payment.plan, &attestation)).await??;
    let sent = broadcast(&liar)?;
    assert!(sent.iter().all(|(_, decoded)| decoded.draft.fee_limit_sun == 1_000_000 * ENERGY_SUN));
    let spent = had - world.sun(&world.settler).await?;
    assert!(spent < 300_000 * ENERGY_SUN, "what is not used is not paid: {spent} sun");
    assert_eq!(world.tokens(&world.settler).await?, TOKENS + PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    Ok(())
}

#[tokio::test]
async fn past_its_time_a_delivery_is_impossible_and_the_deposit_is_cancelled() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    payment.secure(&world).await?;
    let (settler, verifier) = (world.settling(), verifier(&world));
    assert!(matches!(verifier.attest_non_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    let left = payment.fulfill_by() + 1 - world.time().await?;
    world.advance(Duration::from_secs(left)).await?;
    assert!(matches!(settler.deliver(&payment.delivery()).await, Err(PerformError::TooLate(_))));
    assert!(matches!(verifier.attest_non_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    world.solidify().await?;
    assert_eq!(settler.delivery_state(&payment.delivery()).await?, DeliveryState::Impossible);
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Refused(_)));
    let Outcome::Attested(signed) = verifier.attest_non_delivery(&payment.case()).await? else { bail!("refused") };

    let chains = world.chains();
    let cancel =
        RefundOrder { payment_id: payment.id.clone(), escrow: payment.plan.clone(), non_delivery: Some(signed) };
    world.settle(&chains, &chains.prepare_refund(&cancel, 1).await?).await?;
    let EscrowState::Refunded(refunded) = payment.ended(&world).await? else { bail!("not refunded") };
    assert_eq!(refunded.amount, amount(CAP));
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Refused(_)));
    let attestation = world.attest(&world.statement(&payment.deposit()));
    let released = settler.release(&payment.id, &payment.plan, &attestation).await;
    assert!(matches!(released, Err(PerformError::TooLate(_))), "{released:?}");
    Ok(())
}

#[tokio::test]
async fn a_delivery_on_an_evm_chain_releases_on_tron() -> Result<()> {
    let (world, evm) = tokio::try_join!(World::start(), evm_support::World::start())?;
    let recipient = evm_support::text(&evm.recipient);
    let destination = OwnedAsset::new(evm.destination.asset().parse()?, &recipient)?;
    let delivery_account = evm_support::text(&evm.settler).parse()?;
    let proxy = evm.destination.contracts.proxy.parse()?;
    let payment = Payment::from_tron(&world, 600, destination, &delivery_account, &proxy).await?;
    payment.secure(&world).await?;
    let verifier = Verifier::default()
        .with_chains([world.node()], Some(world.releaser.clone().into()))
        .with_chains([evm.destination.node.clone()], Some(evm_support::key(3).into()));
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    let deliverer = chains_evm::settler::SettlerChain::new(evm.destination.node.clone(), evm.settler.clone());
    let inclusion = deliverer.deliver(&payment.delivery()).await?;
    evm.destination.mine(evm_support::DEPTH).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    world.mining(world.settling().release(&payment.id, &payment.plan, &attestation)).await??;
    assert!(matches!(payment.ended(&world).await?, EscrowState::Released(_)));
    assert_eq!(world.tokens(&world.settler).await?, TOKENS + PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    let auditor = chains_evm::auditor::Auditor::new(evm.destination.node);
    assert_eq!(auditor.audit_delivery(&payment.audited(), &inclusion).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_delivery_on_tron_releases_on_an_evm_chain() -> Result<()> {
    let (world, evm) = tokio::try_join!(World::start(), evm_support::World::start())?;
    let mut spend =
        evm.spend("to tron", chains_evm::authorization::Scheme::EvmPermit2Escrow, &evm.destination.asset())?;
    let source = spend.terms.source.clone();
    spend.terms = Terms::new(source, vec![world.trx()], amount(DELIVERED), Some(amount(evm_support::CAP)));
    let prepared = chains_evm::authorization::prepare(&spend, &chains_evm::authorization::Choice::default())?;
    let signed = evm_support::sign(&evm.payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
    let (authorization, plan) = chains_evm::authorization::authorize(&spend, &signed)?;
    let payout = evm_support::text(&evm.settler).parse()?;
    let id = spend.payment_id.clone();
    let (own, proxy) = (holder(&world.settler), world.contracts.proxy.parse()?);
    let payment = Payment::quoted(id, spend.terms, authorization, plan, &payout, &own, &proxy)?;
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
    world.mining(world.settling().deliver(&payment.delivery())).await??;
    let inclusion = payment.delivered(&world).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    let paid = chains_evm::settler::SettlerChain::new(evm.source.node.clone(), evm.settler.clone());
    paid.release(&payment.id, &payment.plan, &attestation).await?;
    assert_eq!(world.sun(&world.recipient).await?, DELIVERED);
    assert_eq!(world.auditor().audit_delivery(&payment.audited(), &inclusion).await?, []);
    Ok(())
}
