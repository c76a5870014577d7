//! The accounts that send: what waits is replaced, what is in nobody's way is used up, and coins run out.

mod key_services;
mod nonces;

use std::{slice::from_ref, sync::Arc};

use alloy::{
    consensus::{Transaction, TxEnvelope},
    eips::eip2718::Decodable2718,
    primitives::U256,
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use chains_evm::{
    adapter::{EvmChain, Keys},
    node::At,
};
use events::{
    event::{TransactionPrepared, Validity},
    time::unix_seconds,
};
use journal::ledger::{Ledger, Purpose, SignerAccount, memory::MemoryLedger};
use sagas::{
    payment::VERSIONS_MAX,
    ports::{Chains, Clock, DepositState, PrepareError, RefundOrder, TransactionState},
};

use crate::support::*;

const GWEI: u128 = 1_000_000_000;

fn decoded(transaction: &TransactionPrepared) -> Result<TxEnvelope> {
    let bytes = hex::decode(transaction.raw.trim_start_matches("0x"))?;
    Ok(TxEnvelope::decode_2718(&mut bytes.as_slice())?)
}

impl Chain {
    /// Puts the base fee of the next block to `wei`.
    async fn base_fee(&self, wei: u128) -> Result<()> {
        let _: Value = self.dev.rpc("anvil_setNextBlockBaseFeePerGas", (U256::from(wei),)).await?;
        Ok(())
    }

    /// The chain asks for many times what anything before was offered.
    async fn spike(&self) -> Result<()> {
        self.base_fee(100 * GWEI).await?;
        self.mine(1).await
    }

    async fn next_nonce(&self, signer: &PrivateKeySigner) -> Result<u64> {
        Ok(self.query().nonce(signer.address(), At::Latest).await?)
    }
}

impl World {
    /// Waits until the submitter's next nonce is `nonce`.
    async fn reaches(&self, nonce: u64) -> Result<()> {
        let what = format!("nonce {nonce}");
        eventually(&what, async || Ok(self.source.next_nonce(&self.submitter).await? == nonce)).await
    }
}

fn submitter_account(world: &World, signer: &PrivateKeySigner) -> SignerAccount {
    SignerAccount { chain_id: world.source.config.common.chain_id.clone(), address: text(signer).parse().unwrap() }
}

/// The engine's port over the source chain with these submitters, on the ledger and the clock of `world`.
fn with_submitters(world: &World, submitters: &[PrivateKeySigner]) -> Result<EvmChain> {
    let keys = Keys {
        reserver: key(2).into(),
        draining_reservers: Vec::new(),
        submitters: submitters.iter().cloned().map(Into::into).collect(),
        exit_submitters: Vec::new(),
        draining_submitters: Vec::new(),
    };
    source_chain(world, keys, world.ledger.clone())
}

fn source_chain(world: &World, keys: Keys, ledger: Arc<MemoryLedger>) -> Result<EvmChain> {
    let (budgets, clock) = (world.budgets.clone(), world.clock.clone());
    Ok(EvmChain::new(world.source.node.clone(), Some(keys), ledger, budgets, clock)?)
}

/// A deposit that was sent and that no block takes any more: the price has gone up.
async fn waiting(world: &World, payment: &Payment) -> Result<TransactionPrepared> {
    world.source.automine(false).await?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.spike().await?;
    ensure!(world.source.next_nonce(&world.submitter).await? == nonce_of(&prepared), "no block takes it");
    Ok(prepared)
}

#[tokio::test]
async fn a_deposit_that_no_block_takes_is_replaced_at_its_nonce() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let first = waiting(&world, &payment).await?;
    assert_eq!(world.chains.reprice(from_ref(&first)).await?, None, "it has not waited long");
    world.clock.advance(REPRICE_SECONDS as i64 + 1);
    let second = world.chains.reprice(from_ref(&first)).await?.context("repriced")?;
    assert_eq!(
        (second.attempt, &second.chain_id, &second.sender, second.validity),
        (first.attempt, &first.chain_id, &first.sender, first.validity)
    );
    assert_ne!(second.transaction_hash, first.transaction_hash);
    let (old, new) = (decoded(&first)?, decoded(&second)?);
    assert_eq!(new.tx_hash().to_string(), second.transaction_hash);
    assert_eq!(
        (new.kind(), new.input(), new.value(), new.nonce(), new.gas_limit(), new.chain_id()),
        (old.kind(), old.input(), old.value(), old.nonce(), old.gas_limit(), old.chain_id()),
        "the same call"
    );
    let raised = |old: u128, new: u128| new * 1000 >= old * 1125;
    assert!(raised(old.max_fee_per_gas(), new.max_fee_per_gas()));
    assert!(raised(old.max_priority_fee_per_gas().unwrap(), new.max_priority_fee_per_gas().unwrap()));

    world.chains.broadcast(&second).await?;
    world.source.mine(1 + DEPTH).await?;
    let versions = [first, second];
    let DepositState::Secured(secured) = world.chains.deposit_state(&payment.deposit(), &versions).await? else {
        bail!("not secured");
    };
    assert_eq!(secured.inclusion.transaction_hash, versions[1].transaction_hash);
    assert_eq!(world.chains.reprice(&versions).await?, None, "it is mined");
    Ok(())
}

#[tokio::test]
async fn any_version_may_be_the_one_that_landed() -> Result<()> {
    let world = World::start().await?;
    let source = &world.source;
    for reverts in [false, true] {
        let payment = world.payment(&format!("reverts {reverts}").replace(' ', "-"))?;
        let first = waiting(&world, &payment).await?;
        world.clock.advance(REPRICE_SECONDS as i64 + 1);
        let second = world.chains.reprice(from_ref(&first)).await?.context("repriced")?;
        // The new one is never sent; the price falls, and the old one lands.
        source.base_fee(GWEI / 10).await?;
        source.mine(1).await?;
        if reverts {
            source.dev.approve(&world.payer, &source.token, &source.contracts.permit2, U256::ZERO).await?;
        }
        world.chains.broadcast(&first).await?;
        source.automine(true).await?;
        source.mine(1 + DEPTH).await?;
        let versions = [first.clone(), second];
        let state = world.chains.deposit_state(&payment.deposit(), &versions).await?;
        if !reverts {
            let DepositState::Secured(secured) = state else { bail!("not secured: {state:?}") };
            assert_eq!(secured.inclusion.transaction_hash, first.transaction_hash);
            continue;
        }
        assert_eq!(state, DepositState::Pending, "a copy may still be sent");
        world.end_admissions().await?;
        let state = world.chains.deposit_state(&payment.deposit(), &versions).await?;
        let DepositState::Reverted(context) = state else { bail!("not reverted: {state:?}") };
        assert_eq!(context.transaction_hash, Some(first.transaction_hash));
        assert!(matches!(world.chains.transaction_state(&versions).await?, TransactionState::Dead { .. }));
    }
    Ok(())
}

#[tokio::test]
async fn all_versions_are_given_up_together_and_named() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let first = waiting(&world, &payment).await?;
    world.clock.advance(REPRICE_SECONDS as i64 + 1);
    let second = world.chains.reprice(from_ref(&first)).await?.context("repriced")?;
    let versions = [first, second];
    // Another transaction of the account takes the nonce.
    let _: Value = world.source.dev.rpc("anvil_dropAllTransactions", ()).await?;
    world.source.automine(true).await?;
    world.source.base_fee(GWEI / 10).await?;
    world.source.dev.approve(&world.submitter, &world.source.token, &text(&key(1)), U256::from(1)).await?;
    world.end_admissions().await?;
    let DepositState::Superseded { evidence } = world.chains.deposit_state(&payment.deposit(), &versions).await? else {
        bail!("not superseded");
    };
    for version in &versions {
        assert!(evidence.contains(&version.transaction_hash), "{evidence}");
    }
    let foreign = TransactionPrepared { validity: Validity::Nonce(nonce_of(&versions[0]) + 1), ..versions[1].clone() };
    assert!(world.chains.deposit_state(&payment.deposit(), &[versions[0].clone(), foreign]).await.is_err());
    assert!(world.chains.transaction_state(&[]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn what_offers_enough_is_given_time_and_then_a_higher_tip() -> Result<()> {
    let world = World::start().await?;
    world.source.automine(false).await?;
    let (one, other) = (world.payment("one")?, world.payment("other")?);
    let first = world.chains.prepare_deposit(&one.deposit(), 1).await?;
    let behind = world.chains.prepare_deposit(&other.deposit(), 1).await?;
    world.clock.advance(4 * REPRICE_SECONDS as i64 + 1);
    assert_eq!(world.chains.reprice(from_ref(&first)).await?, None, "the node has lost it: sending it again is enough");
    world.chains.broadcast(&first).await?;
    world.chains.broadcast(&behind).await?;
    assert_eq!(world.chains.reprice(from_ref(&behind)).await?, None, "it waits for the one before it");
    let second = world.chains.reprice(from_ref(&first)).await?.context("repriced")?;
    let tip = |transaction| Ok::<_, anyhow::Error>(decoded(transaction)?.max_priority_fee_per_gas().unwrap());
    assert!(tip(&second)? > tip(&first)?);
    Ok(())
}

#[tokio::test]
async fn prices_have_an_end() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let mut versions = vec![waiting(&world, &payment).await?];
    loop {
        world.clock.advance(4 * REPRICE_SECONDS as i64 + 1);
        let Some(next) = world.chains.reprice(&versions).await? else { break };
        world.chains.broadcast(&next).await?;
        versions.push(next);
    }
    assert!((2..=VERSIONS_MAX).contains(&versions.len()), "{}", versions.len());
    let fees = world.source.query().fees().await?;
    let last = decoded(versions.last().context("a version")?)?;
    assert!(last.max_fee_per_gas() <= 2 * fees.max, "{} for {fees:?}", last.max_fee_per_gas());
    assert!(last.max_priority_fee_per_gas().unwrap() <= 10 * fees.priority);
    Ok(())
}

#[tokio::test]
async fn a_price_that_the_sender_cannot_pay_is_not_offered() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let first = waiting(&world, &payment).await?;
    world.clock.advance(REPRICE_SECONDS as i64 + 1);
    world.source.dev.fund(&text(&world.submitter), U256::from(GWEI)).await?;
    assert_eq!(world.chains.reprice(from_ref(&first)).await?, None);
    world.source.dev.fund(&text(&world.submitter), U256::from(10).pow(U256::from(20))).await?;
    assert!(world.chains.reprice(from_ref(&first)).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_refund_that_no_block_takes_is_replaced_too() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    world.secure(&payment).await?;
    world.source.pass(payment.escrow.refund_after).await?;
    let order = RefundOrder { payment_id: payment.id().clone(), escrow: payment.escrow.clone(), non_delivery: None };
    world.source.automine(false).await?;
    let first = world.chains.prepare_refund(&order, 1).await?;
    world.chains.broadcast(&first).await?;
    world.source.spike().await?;
    assert_eq!(world.chains.transaction_state(from_ref(&first)).await?, TransactionState::Pending);
    world.clock.advance(REPRICE_SECONDS as i64 + 1);
    let second = world.chains.reprice(from_ref(&first)).await?.context("repriced")?;
    world.chains.broadcast(&second).await?;
    world.source.mine(1 + DEPTH).await?;
    match world.chains.escrow_state(payment.id(), &payment.escrow).await? {
        sagas::ports::EscrowState::Refunded(refunded) => {
            assert_eq!(refunded.inclusion.transaction_hash, second.transaction_hash);
        }
        other => bail!("not refunded: {other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn payments_go_on_when_one_of_three_accounts_runs_dry() -> Result<()> {
    let world = World::start().await?;
    let source = &world.source;
    let submitters = [key(60), key(61), key(62)];
    for signer in &submitters {
        source.dev.fund(&text(signer), U256::from(10).pow(U256::from(20))).await?;
    }
    let chains = with_submitters(&world, &submitters)?;
    let payments: Vec<_> = (0..9).map(|n| world.payment(&format!("order-{n}"))).collect::<Result<_>>()?;
    // What each payment prefers, told without taking a nonce.
    let spread: Vec<_> = {
        let keys = Keys {
            reserver: key(2).into(),
            draining_reservers: Vec::new(),
            submitters: submitters.iter().cloned().map(Into::into).collect(),
            exit_submitters: Vec::new(),
            draining_submitters: Vec::new(),
        };
        let probe = source_chain(&world, keys, Arc::default())?;
        let mut senders = Vec::new();
        for payment in &payments {
            senders.push(probe.prepare_deposit(&payment.deposit(), 1).await?.sender);
        }
        senders
    };
    let dry = spread[0].as_str();
    assert!(spread.iter().any(|sender| sender.as_str() != dry), "{spread:?}");
    source.dev.fund(dry, U256::ZERO).await?;
    for (payment, preferred) in payments.iter().zip(&spread) {
        let prepared = chains.prepare_deposit(&payment.deposit(), 1).await?;
        assert_ne!(prepared.sender.as_str(), dry);
        assert!(
            preferred.as_str() == dry || *preferred == prepared.sender,
            "the preferred one is taken where it can pay"
        );
        // Asked again for the same attempt, also when the preferred account has coins again: the same account and nonce.
        source.dev.fund(dry, U256::from(10).pow(U256::from(20))).await?;
        let again = chains.prepare_deposit(&payment.deposit(), 1).await?;
        assert_eq!((again.sender, again.validity), (prepared.sender.clone(), prepared.validity));
        source.dev.fund(dry, U256::ZERO).await?;
        chains.broadcast(&prepared).await?;
        source.mine(1 + DEPTH).await?;
        let state = chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?;
        assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    }
    let dry = submitters.iter().find(|signer| text(signer) == dry).context("one of the three")?;
    assert!(world.ledger.open(&submitter_account(&world, dry)).await?.is_empty(), "no nonce of it was taken");
    Ok(())
}

#[tokio::test]
async fn without_coins_no_nonce_is_taken() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    world.source.dev.fund(&text(&world.submitter), U256::from(GWEI)).await?;
    let Err(PrepareError::Transient(fault)) = world.chains.prepare_deposit(&payment.deposit(), 1).await else {
        bail!("nobody can pay for it");
    };
    assert!(fault.to_string().contains("has the coins"), "{fault}");
    assert!(world.ledger.open(&submitter_account(&world, &world.submitter)).await?.is_empty());
    world.source.dev.fund(&text(&world.submitter), U256::from(10).pow(U256::from(20))).await?;
    world.secure(&payment).await.map(drop)
}

#[tokio::test]
async fn deposits_never_spend_what_exits_need() -> Result<()> {
    let world = World::start().await?;
    let source = &world.source;
    let (coins, none) = (U256::from(10).pow(U256::from(20)), U256::ZERO);
    let held = world.payment("held")?;
    world.secure(&held).await?;
    let refund = RefundOrder { payment_id: held.id().clone(), escrow: held.escrow.clone(), non_delivery: None };
    let (usual, for_exits) = (key(60), key(61));
    let chains = |exit_submitters: Vec<PrivateKeySigner>| {
        let exit_submitters = exit_submitters.into_iter().map(Into::into).collect();
        let keys = Keys {
            reserver: key(2).into(),
            draining_reservers: Vec::new(),
            submitters: vec![usual.clone().into()],
            exit_submitters,
            draining_submitters: Vec::new(),
        };
        source_chain(&world, keys, world.ledger.clone())
    };
    let (separate, shared) = (chains(vec![for_exits.clone()])?, chains(Vec::new())?);

    // Coins that are for exits pay for no deposit.
    source.dev.fund(&text(&for_exits), coins).await?;
    let fresh = world.payment("order-1")?;
    let refused = separate.prepare_deposit(&fresh.deposit(), 1).await;
    assert!(matches!(refused, Err(PrepareError::Transient(_))), "{refused:?}");
    // Enough for a deposit and not for the exits besides, which are another account's affair in one case; the control has it all.
    let fees = source.query().fees().await?;
    let some = U256::from(source.config.gas.deposit_max) * U256::from(fees.max) * U256::from(2);
    let exits = U256::from(10 * 500_000) * U256::from(fees.base + fees.priority);
    source.dev.fund(&text(&usual), some).await?;
    assert_eq!(separate.prepare_deposit(&fresh.deposit(), 1).await?.sender.as_str(), text(&usual));
    let fresh = world.payment("order-2")?;
    source.dev.fund(&text(&usual), some / U256::from(2) + exits / U256::from(2)).await?;
    let refused = shared.prepare_deposit(&fresh.deposit(), 1).await;
    assert!(matches!(refused, Err(PrepareError::Transient(_))), "{refused:?}");
    source.dev.fund(&text(&usual), coins).await?;
    assert_eq!(shared.prepare_deposit(&fresh.deposit(), 1).await?.sender.as_str(), text(&usual));

    // What deposits left pays for an exit, that of the usual account also where its own cannot.
    source.pass(held.escrow.refund_after).await?;
    assert_eq!(separate.prepare_refund(&refund, 1).await?.sender.as_str(), text(&for_exits));
    source.dev.fund(&text(&for_exits), none).await?;
    source.dev.fund(&text(&usual), exits).await?;
    assert_eq!(separate.prepare_refund(&refund, 2).await?.sender.as_str(), text(&usual));
    assert_eq!(shared.prepare_refund(&refund, 3).await?.sender.as_str(), text(&usual));
    Ok(())
}

#[tokio::test]
async fn a_draining_account_ends_what_it_began_and_begins_nothing() -> Result<()> {
    let world = World::start().await?;
    let (began, fresh, next) = (world.payment("began")?, world.payment("fresh")?, key(62));
    let first = waiting(&world, &began).await?;
    assert_eq!(first.sender.as_str(), text(&world.submitter));
    world.source.dev.fund(&text(&next), U256::from(10).pow(U256::from(20))).await?;
    let keys = Keys {
        reserver: key(2).into(),
        draining_reservers: Vec::new(),
        submitters: vec![next.clone().into()],
        exit_submitters: Vec::new(),
        draining_submitters: vec![world.submitter.clone().into()],
    };
    let rotated = source_chain(&world, keys, world.ledger.clone())?;

    // A worker that was cut off asks again, and what waits is signed again by the account that it is of.
    let again = rotated.prepare_deposit(&began.deposit(), 1).await?;
    assert_eq!((&again.sender, again.validity), (&first.sender, first.validity));
    world.clock.advance(REPRICE_SECONDS as i64 + 1);
    let second = rotated.reprice(from_ref(&first)).await?.context("repriced")?;
    assert_eq!((&second.sender, second.validity), (&first.sender, first.validity));
    assert_eq!(rotated.prepare_deposit(&fresh.deposit(), 1).await?.sender.as_str(), text(&next));

    // Nobody sends it coins any more.
    world.source.dev.fund(&text(&world.submitter), U256::from(1)).await?;
    rotated.maintain_once().await;
    let health = rotated.signer_health();
    let told: Vec<_> = health.iter().map(|account| (account.account.clone(), account.low)).collect();
    assert!(told.contains(&(text(&world.submitter), false)), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn an_account_that_runs_low_is_told_before_it_is_dry() -> Result<()> {
    let world = World::start().await?;
    assert!(world.gateway.signer_health().is_empty(), "not looked at yet");
    world.gateway.maintain_once().await;
    let [healthy] = &world.gateway.signer_health()[..] else { bail!("one account") };
    assert_eq!((healthy.account.as_str(), healthy.low), (text(&world.submitter).as_str(), false));
    let fees = world.source.query().fees().await?;
    let deposit = U256::from(300_000 * (fees.base + fees.priority));
    world.source.dev.fund(&text(&world.submitter), deposit * U256::from(70)).await?;
    world.gateway.maintain_once().await;
    let [low] = &world.gateway.signer_health()[..] else { bail!("one account") };
    assert_eq!((low.low, low.deposits_left, low.balance), (true, 70, deposit * U256::from(70)));
    assert_eq!(low.chain_id, world.source.config.common.chain_id);
    // Such an account still pays, and has the coins for exits left.
    world.secure(&world.payment("order")?).await.map(drop)
}
