//! Settler and verifier on a Tron development chain with the real contracts, and between it and EVM chains.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy::primitives::U256;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use chains::{
    auditor::Audit,
    escrow::{EscrowRecord, State},
    perform::PerformError,
    verifier::{Outcome, Verifier},
};
use chains_tron::{
    node,
    settler::{FEE_RESERVE_ENERGY, SettlerChain},
    transaction::{Decoded, read_signed},
    wallet::{Patience, Wallet},
};
use events::{Hash32, OwnedAsset, PaymentId, Terms, event::EscrowPlan, failure::BlockchainContext};
use sagas::ports::{
    Chains, DeliveryOrder, DeliveryState, DepositState, EscrowState, RefundOrder, Statement, VerificationCase,
};

use crate::{
    evm_support::{self, release::reason},
    support::{
        FUNDS, LAG, TOKENS, TRX, World, account, key,
        liar::Liar,
        payment::{CAP, DELIVERED, PRICE},
        quoted::{Payment, amount},
        until,
    },
};

/// Sun for a unit of energy and for a byte, as the development chain has them.
const ENERGY_SUN: u64 = 100;
const BYTE_SUN: u64 = 1_000;

fn verifier(world: &World) -> Verifier {
    Verifier::default().with_chains([world.node()], Some(world.releaser.clone()))
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
    assert_eq!(settler.account(), own);
    assert_eq!(settler.balance(destination.asset()).await?, U256::from(TOKENS));
    assert_eq!(settler.reservation(&payment.id, &payment.plan.contract).await?.1, None);
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));

    payment.secure(&world).await?;
    let (time, record) = settler.reservation(&payment.id, &payment.plan.contract).await?;
    let record: EscrowRecord = record.context("no reservation")?;
    assert!(time > 0 && record.is_of(&payment.plan));
    assert_eq!((record.state, record.quote_hash), (State::Reserved, payment.quote.hash()));
    assert_eq!((record.asset, record.source_amount), (payment.terms.source.asset().clone(), Some(amount(PRICE))));
    assert_eq!((record.settler.as_str(), record.deposited), (own.as_str(), Some(amount(CAP))));
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
    assert_eq!(world.tokens_of(&payment.plan.contract).await?, 0);
    // A verifier whose answer was lost is asked again, after the settler was paid.
    assert_eq!(verifier.attest_delivery(&payment.case()).await?, Outcome::Attested(attestation.clone()));
    let statement =
        Statement::Delivery { payment_id: payment.id.clone(), quote_hash: payment.quote.hash(), payout_account: own };
    assert!(world.node().attestation_holds(&statement, &payment.plan, &attestation));
    Ok(())
}

#[tokio::test]
async fn a_settler_that_was_killed_in_between_delivers_once() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let order = payment.delivery();
    let [before, after] = [world.settling(), world.settling()];
    let had = world.sun(&world.recipient).await?;
    // Two processes with the same key, as when one was killed with its transaction on its way.
    let both = async { tokio::join!(before.deliver(&order), after.deliver(&order)) };
    let (one, other) = world.mining(both).await?;
    let hash = payment.delivered(&world).await?.transaction_hash;
    for outcome in [one, other] {
        match outcome {
            Ok(sent) => assert_eq!(sent, hash),
            refused => assert!(reason(refused)?.contains("AlreadyFulfilled")),
        }
    }
    assert_eq!(after.deliver(&order).await?, hash);
    assert_eq!(world.sun(&world.recipient).await?, had + DELIVERED);
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_fails_in_a_block_is_told_with_its_reason() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let order = payment.delivery();
    let liar = Liar::before(&world.tron.url()).await?;
    let late = Arc::new(settler_behind(&world, &liar));
    swallow(&liar);
    let (held, sent) = (late.clone(), order.clone());
    let held = tokio::spawn(async move { held.deliver(&sent).await });
    let bytes =
        until(|| async { broadcast(&liar).map_err(sagas::ports::Transient::unreachable) }, |sent| !sent.is_empty())
            .await?;
    let (bytes, decoded) = bytes.into_iter().next().context("nothing was sent")?;
    // Another process of the same settler delivers meanwhile, in a later block and so with another transaction.
    world.advance(Duration::from_secs(3)).await?;
    let hash = world.mining(world.settling().deliver(&order)).await??;
    assert_ne!(hash, decoded.id.to_string());
    let had = world.sun(&world.recipient).await?;
    world.node().broadcast(&bytes).await?;
    world.mine(1).await?;
    match held.await? {
        Err(PerformError::Refused(context)) => {
            let BlockchainContext { transaction_hash, block_number, revert_reason, gas_used, .. } = *context;
            assert_eq!(transaction_hash, Some(decoded.id.to_string()));
            assert!(block_number.is_some() && gas_used.is_some());
            let reason = revert_reason.context("no reason")?;
            assert!(reason.starts_with("REVERT: AlreadyFulfilled(key: 0x"), "{reason}");
        }
        other => bail!("{other:?}"),
    }
    assert_eq!(world.sun(&world.recipient).await?, had);
    liar.be_honest();
    assert_eq!(late.deliver(&order).await?, hash);
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_ran_out_of_energy_is_made_again_once_that_is_settled() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let order = payment.delivery();
    let liar = Liar::before(&world.tron.url()).await?;
    let settler = settler_behind(&world, &liar);
    liar.tell(|path, _, mut truth| {
        if path == "wallet/triggerconstantcontract" {
            truth["energy_used"] = json!(1_000);
        }
        truth
    });
    let had = world.sun(&world.settler).await?;
    let failure = reason(world.mining(settler.deliver(&order)).await?)?;
    assert!(failure.starts_with("OUT_OF_ENERGY"), "{failure}");
    let burnt = had - world.sun(&world.settler).await?;
    assert_eq!(burnt, 1_500 * ENERGY_SUN, "all that was allowed for energy");
    liar.be_honest();
    let first = broadcast(&liar)?[0].1.id;
    // A fork may take the failure back, and then the same transaction may succeed.
    assert!(reason(settler.deliver(&order).await)?.starts_with("OUT_OF_ENERGY"));
    assert!(broadcast(&liar)?.is_empty());
    world.solidify().await?;
    assert!(reason(settler.deliver(&order).await)?.starts_with("OUT_OF_ENERGY"));
    let hash = world.mining(settler.deliver(&order)).await??;
    let again = broadcast(&liar)?;
    assert!(again.iter().all(|(_, decoded)| decoded.id != first && decoded.id.to_string() == hash));
    payment.delivered(&world).await?;
    assert_eq!(world.sun(&world.recipient).await?, DELIVERED);
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_differs_in_any_field_is_none() -> Result<()> {
    let world = World::start().await?;
    let recipient = account(&world.recipient);
    let payment = Payment::within_tron(&world, 600, world.trc20(&world.token, &recipient)).await?;
    let right = payment.delivery();
    let stranger = key(44);
    world.dev.fund(&account(&stranger), FUNDS).await?;
    world.dev.mint(&world.token, &account(&stranger), U256::from(TOKENS)).await?;
    let other_token = world.dev.deploy_token("Other Dollar", "OUSD", 6).await?;
    world.dev.mint(&other_token, &account(&world.settler), U256::from(TOKENS)).await?;
    world.solidify().await?;
    let own = world.settling();
    let theirs = SettlerChain::new(world.node(), stranger.clone());
    let wrong = [
        ("payment", &own, DeliveryOrder { payment_id: PaymentId::derive("tron:x", "other"), ..right.clone() }),
        ("quote", &own, DeliveryOrder { quote_hash: Hash32([5; 32]), ..right.clone() }),
        ("settler", &theirs, DeliveryOrder { delivery_account: account(&stranger), ..right.clone() }),
        ("token", &own, DeliveryOrder { destination: world.trc20(&other_token, &recipient), ..right.clone() }),
        ("coin", &own, DeliveryOrder { destination: world.trx(), ..right.clone() }),
        (
            "recipient",
            &own,
            DeliveryOrder { destination: world.trc20(&world.token, &account(&stranger)), ..right.clone() },
        ),
        ("amount", &own, DeliveryOrder { amount: amount(DELIVERED - 1), ..right.clone() }),
        ("time", &own, DeliveryOrder { fulfill_by: right.fulfill_by - 1, ..right.clone() }),
    ];
    for (field, settler, order) in &wrong {
        world.mining(settler.deliver(order)).await?.with_context(|| (*field).to_owned())?;
        world.solidify().await?;
        let state = settler.delivery_state(order).await?;
        assert!(matches!(state, DeliveryState::Final(_)), "{field}: {state:?}");
        assert_eq!(own.delivery_state(&right).await?, DeliveryState::NotSeen, "{field}");
    }
    // A quote for another account's delivery is not this settler's to make.
    assert!(transient(theirs.deliver(&right).await)?.contains("is not this settler's account"));
    let huge = DeliveryOrder { amount: "18446744073709551616".parse()?, destination: world.trx(), ..right.clone() };
    assert!(transient(own.deliver(&huge).await)?.contains("more than there are"));
    let dear = DeliveryOrder { amount: amount(2 * TOKENS), ..right.clone() };
    assert!(reason(own.deliver(&dear).await)?.starts_with("DeliveredNotExact("));
    world.mining(own.deliver(&right)).await??;
    payment.delivered(&world).await?;
    Ok(())
}

#[tokio::test]
async fn a_transaction_that_never_landed_is_made_again_and_counts_once() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let settler = Arc::new(settler_behind(&world, &liar));
    let had = world.sun(&world.recipient).await?;
    swallow(&liar);
    let (held, order) = (settler.clone(), payment.delivery());
    let held = tokio::spawn(async move { held.deliver(&order).await });
    let sent = || async { broadcast(&liar).map_err(sagas::ports::Transient::unreachable) };
    let first = until(sent, |sent| !sent.is_empty()).await?[0].1.clone();
    // Its time is over, but a block whose parent is older may still come to light: nothing is concluded.
    world.advance(Duration::from_secs(61)).await?;
    let head = world.node().head().await?;
    assert!(head.time_ms >= first.draft.expiration_ms);
    until(sent, |sent| !sent.is_empty()).await?;
    assert!(!held.is_finished());
    world.solidify().await?;
    let fault = transient(held.await?)?;
    assert!(fault.contains(&format!("{} did not land until {}", first.id, first.draft.expiration_ms)), "{fault}");
    liar.heard();

    liar.be_honest();
    let hash = world.mining(settler.deliver(&payment.delivery())).await??;
    let again = broadcast(&liar)?;
    assert!(again.iter().all(|(_, decoded)| decoded.id != first.id && decoded.id.to_string() == hash));
    payment.delivered(&world).await?;
    assert_eq!(world.sun(&world.recipient).await?, had + DELIVERED);
    Ok(())
}

#[tokio::test]
async fn what_a_node_forgot_is_sent_again_and_what_a_fork_took_back_lands_again() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let settler = Arc::new(settler_behind(&world, &liar));
    let (held, order) = (settler.clone(), payment.delivery());
    let held = tokio::spawn(async move { held.deliver(&order).await });
    let sent = || async { broadcast(&liar).map_err(sagas::ports::Transient::unreachable) };
    let first = until(sent, |sent| !sent.is_empty()).await?[0].1.id;
    world.dev.control("drop", json!({})).await?;
    until(sent, |sent| !sent.is_empty()).await?;
    let hash = world.mining(held).await???;
    assert_eq!(hash, first.to_string());

    let seen = settler.delivery_state(&payment.delivery()).await?;
    let DeliveryState::Seen(seen) = seen else { bail!("{seen:?}") };
    let blocks = world.node().head().await?.number - seen.block_number + 1;
    assert!(blocks <= LAG, "{blocks}");
    world.dev.control("fork", json!({"blocks": blocks, "drop_transactions": true})).await?;
    assert_eq!(settler.delivery_state(&payment.delivery()).await?, DeliveryState::NotSeen);
    // It is the same transaction as long as that one may land.
    assert_eq!(world.mining(settler.deliver(&payment.delivery())).await??, hash);
    assert_eq!(payment.delivered(&world).await?.transaction_hash, hash);
    Ok(())
}

#[tokio::test]
async fn no_transaction_can_land_after_its_time() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let settler = Arc::new(settler_behind(&world, &liar));
    // 20 seconds before the end: the transaction may not have a minute.
    let left = payment.fulfill_by() - world.time().await? - 20;
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await?;
    swallow(&liar);
    let (held, order) = (settler.clone(), payment.delivery());
    let held = tokio::spawn(async move { held.deliver(&order).await });
    let sent = || async { broadcast(&liar).map_err(sagas::ports::Transient::unreachable) };
    let (bytes, decoded) = until(sent, |sent| !sent.is_empty()).await?[0].clone();
    assert_eq!(decoded.draft.expiration_ms, payment.fulfill_by() * 1_000 - 3_000);
    // Whoever kept it brings it too late: the chain does not take it, nor would the contract.
    world.advance(Duration::from_secs(18)).await?;
    let refused = world.node().broadcast(&bytes).await;
    assert!(matches!(refused, Err(node::BroadcastError::Refused { .. })), "{refused:?}");
    held.abort();
    let other = world.settling();
    match other.deliver(&payment.delivery()).await {
        Err(PerformError::TooLate(what)) => assert!(what.contains("no block would be in time"), "{what}"),
        outcome => bail!("{outcome:?}"),
    }
    world.advance(Duration::from_secs(10)).await?;
    world.solidify().await?;
    assert_eq!(other.delivery_state(&payment.delivery()).await?, DeliveryState::Impossible);
    assert!(matches!(other.deliver(&payment.delivery()).await, Err(PerformError::TooLate(_))));
    assert_eq!(world.sun(&world.recipient).await?, 0);
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_or_promised_that_cannot_be_paid_for() -> Result<()> {
    let world = World::start().await?;
    let poor = key(45);
    let payment = {
        let destination = world.trc20(&world.token, &account(&world.recipient));
        Payment::from_tron(&world, 600, destination, &account(&poor), &world.contracts.proxy).await?
    };
    let (coin, token) = (world.trx(), payment.terms.destination()[0].clone());
    let liar = Liar::before(&world.tron.url()).await?;
    let settler = SettlerChain::new(world.node_at(&liar.url), poor.clone());
    world.dev.mint(&world.token, &account(&poor), U256::from(TOKENS)).await?;
    // An account that is not there, one with too little for an approval, one with what is kept for fees.
    let reserve = FEE_RESERVE_ENERGY * ENERGY_SUN + 1_500 * BYTE_SUN;
    assert_eq!(settler.balance(token.asset()).await?, U256::ZERO);
    world.dev.fund(&account(&poor), TRX).await?;
    liar.heard();
    assert_eq!(settler.balance(token.asset()).await?, U256::ZERO);
    assert_eq!(settler.balance(coin.asset()).await?, U256::ZERO);
    let fault = transient(settler.deliver(&payment.delivery()).await)?;
    assert!(fault.contains("nothing was sent") && fault.contains("sun beyond what is staked"), "{fault}");
    assert!(broadcast(&liar)?.is_empty());
    world.dev.fund(&account(&poor), reserve - TRX).await?;
    assert_eq!(world.sun(&poor).await?, reserve);
    assert_eq!(settler.balance(token.asset()).await?, U256::ZERO);
    world.dev.fund(&account(&poor), 7).await?;
    assert_eq!(settler.balance(token.asset()).await?, U256::from(TOKENS));
    assert_eq!(settler.balance(coin.asset()).await?, U256::from(7));
    // TRX that are to be delivered do not pay for it.
    let all = DeliveryOrder { destination: coin, amount: amount(reserve), ..payment.delivery() };
    let fault = transient(settler.deliver(&all).await)?;
    assert!(fault.contains("nothing was sent"), "{fault}");
    assert!(broadcast(&liar)?.is_empty());
    world.mining(settler.deliver(&payment.delivery())).await??;
    payment.delivered(&world).await?;
    let spent = reserve + 7 - world.sun(&poor).await?;
    assert!(spent < reserve / 3, "{spent} sun for an approval and a delivery");
    Ok(())
}

#[tokio::test]
async fn an_allowance_that_is_short_is_given_anew_from_none() -> Result<()> {
    let world = World::start().await?;
    let destination = world.trc20(&world.token, &account(&world.recipient));
    let payment = Payment::within_tron(&world, 600, destination).await?;
    let (settler, proxy) = (world.settling(), &world.contracts.proxy);
    world.dev.approve(&world.settler, &world.token, proxy, U256::from(DELIVERED - 1)).await?;
    let before = world.node().head().await?.number;
    world.mining(settler.deliver(&payment.delivery())).await??;
    let delivery = payment.delivered(&world).await?;
    let mut calls = Vec::new();
    for number in before + 1..=delivery.block_number {
        calls.extend(world.node().infos_of(number, node::State::Newest).await?.read);
    }
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(calls.iter().all(|info| info.failure.is_none()));
    let approved: Vec<&[u8]> = calls[..2].iter().map(|info| info.logs[0].data.as_slice()).collect();
    assert_eq!(approved, [&[0; 32], &[0xff; 32]]);
    // Used up or taken back, it is given again.
    world.dev.approve(&world.settler, &world.token, proxy, U256::ZERO).await?;
    let next = DeliveryOrder { quote_hash: Hash32([5; 32]), ..payment.delivery() };
    world.mining(settler.deliver(&next)).await??;
    assert_eq!(world.tokens(&world.recipient).await?, 2 * DELIVERED);
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
        assert!(transient(settler.release(&payment.id, &payment.plan, bad).await)?.contains("no hex"), "{bad}");
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
async fn a_verifier_refuses_whatever_does_not_match() -> Result<()> {
    let world = World::start().await?;
    let own = account(&world.settler);
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let other = Payment::within_tron(&world, 600, world.trx()).await?;
    payment.secure(&world).await?;
    world.mining(world.settling().deliver(&payment.delivery())).await??;
    payment.delivered(&world).await?;
    let verifier = verifier(&world);
    let right = payment.case();
    assert!(matches!(verifier.attest_delivery(&right).await?, Outcome::Attested(_)));

    let stranger = account(&key(99));
    let plan = |alter: fn(&mut EscrowPlan)| {
        let mut case = right.clone();
        alter(&mut case.escrow);
        case
    };
    let mut terms = right.clone();
    terms.terms.fulfillment_amount = amount(DELIVERED + 1);
    let tampered = right.quote_document.replace(&own, &stranger);
    assert!(tampered != right.quote_document);
    let cases = [
        ("another payment", VerificationCase { payment_id: other.id.clone(), ..right.clone() }),
        ("another quote", VerificationCase { quote_document: other.quote.document().to_owned(), ..right.clone() }),
        ("no quote", VerificationCase { quote_document: "{}".to_owned(), ..right.clone() }),
        ("a tampered quote", VerificationCase { quote_document: tampered, ..right.clone() }),
        ("other terms", terms),
        ("another reserver", plan(|plan| plan.reserver = account(&key(99)))),
        ("another releaser", plan(|plan| plan.releaser = account(&key(99)))),
        ("another reserve deadline", plan(|plan| plan.reserve_deadline += 1)),
        ("another fulfillment deadline", plan(|plan| plan.fulfillment_deadline += 1)),
        ("another refund window", plan(|plan| plan.refund_after += 1)),
        ("another escrow", plan(|plan| plan.contract = account(&key(99)))),
        ("no escrow", plan(|plan| plan.contract = "0x1".to_owned())),
        ("another chain", plan(|plan| plan.chain_id = "eip155:1".parse().unwrap())),
    ];
    for (name, case) in cases {
        for outcome in [verifier.attest_delivery(&case).await?, verifier.attest_non_delivery(&case).await?] {
            assert!(matches!(outcome, Outcome::Refused(_)), "{name}: {outcome:?}");
        }
    }
    let stranger = Verifier::default().with_chains([world.node()], Some(key(99)));
    assert!(matches!(stranger.attest_delivery(&right).await?, Outcome::Refused(_)));
    // Without the releaser's key a chain is a destination only.
    let blind = Verifier::default().with_chains([world.node()], None);
    assert!(blind.releasers().is_empty());
    assert!(matches!(blind.attest_delivery(&right).await?, Outcome::Refused(_)));
    Ok(())
}

/// A verifier behind nodes that lie about one thing each signs nothing that is not so.
#[tokio::test]
async fn a_verifier_behind_lying_nodes_signs_nothing() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    payment.secure(&world).await?;
    world.mining(world.settling().deliver(&payment.delivery())).await??;
    // Delivered, and not solidified yet.
    let liar = Liar::before(&world.tron.url()).await?;
    let verifier = Verifier::default().with_chains([world.node_at(&liar.url)], Some(world.releaser.clone()));
    let newest: Arc<Mutex<BTreeMap<String, Value>>> = Arc::default();
    let kept = newest.clone();
    liar.tell(move |path, request, truth| {
        if path == "wallet/triggerconstantcontract" {
            kept.lock().unwrap().insert(request["data"].to_string(), truth.clone());
        }
        truth
    });
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    // The newest state is passed off as the solidified one.
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    liar.tell(move |path, request, truth| {
        let newest = newest.lock().unwrap().get(&request["data"].to_string()).cloned();
        match newest {
            Some(newest) if path == "walletsolidity/triggerconstantcontract" => {
                count.fetch_add(1, Ordering::Relaxed);
                newest
            }
            _ => truth,
        }
    });
    let outcome = verifier.attest_delivery(&payment.case()).await?;
    assert!(matches!(outcome, Outcome::NotYet(_)), "{outcome:?}");
    assert!(told.load(Ordering::Relaxed) > 0);
    liar.be_honest();
    payment.delivered(&world).await?;
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Attested(_)));
    Ok(())
}

#[tokio::test]
async fn a_delivery_on_an_evm_chain_releases_on_tron() -> Result<()> {
    let (world, evm) = tokio::try_join!(World::start(), evm_support::World::start())?;
    let recipient = evm_support::text(&evm.recipient);
    let destination = OwnedAsset::new(evm.destination.asset().parse()?, &recipient)?;
    let delivery_account = evm_support::text(&evm.settler);
    let proxy = evm.destination.contracts.proxy.clone();
    let payment = Payment::from_tron(&world, 600, destination, &delivery_account, &proxy).await?;
    payment.secure(&world).await?;
    let verifier = Verifier::default()
        .with_chains([world.node()], Some(world.releaser.clone()))
        .with_chains([evm.destination.node.clone()], Some(evm_support::key(3)));
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    let deliverer = chains_evm::settler::SettlerChain::new(evm.destination.node.clone(), evm.settler.clone());
    let inclusion = deliverer.deliver(&payment.delivery()).await?;
    evm.destination.mine(evm_support::DEPTH).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    world.mining(world.settling().release(&payment.id, &payment.plan, &attestation)).await??;
    assert!(matches!(payment.ended(&world).await?, EscrowState::Released(_)));
    assert_eq!(world.tokens(&world.settler).await?, TOKENS + PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    assert_eq!(evm.destination.node.audit_delivery(&payment.audited(), &inclusion).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_delivery_on_tron_releases_on_an_evm_chain() -> Result<()> {
    let (world, evm) = tokio::try_join!(World::start(), evm_support::World::start())?;
    let mut spend = evm.spend("to tron", chains_evm::permit2::Scheme::EvmPermit2Escrow, &evm.destination.asset())?;
    let source = spend.terms.source.clone();
    spend.terms = Terms::new(source, vec![world.trx()], amount(DELIVERED), Some(amount(evm_support::CAP)));
    let prepared = chains_evm::permit2::prepare(&spend, &chains_evm::permit2::Choice::default())?;
    let signed = evm_support::sign(&evm.payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
    let (authorization, plan) = chains_evm::permit2::authorize(&spend, &signed)?;
    let payout = evm_support::text(&evm.settler);
    let id = spend.payment_id.clone();
    let (own, proxy) = (account(&world.settler), &world.contracts.proxy);
    let payment = Payment::quoted(id, spend.terms, authorization, plan, &payout, &own, proxy)?;
    let deposit = payment.deposit();
    let prepared = evm.chains.prepare_deposit(&deposit, 1).await?;
    evm.chains.broadcast(&prepared).await?;
    evm.source.mine(evm_support::DEPTH).await?;
    let secured = evm.chains.deposit_state(&deposit, std::slice::from_ref(&prepared)).await?;
    assert!(matches!(secured, DepositState::Secured(_)), "{secured:?}");

    let verifier = Verifier::default()
        .with_chains([evm.source.node.clone()], Some(evm_support::key(3)))
        .with_chains([world.node()], None);
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    world.mining(world.settling().deliver(&payment.delivery())).await??;
    let inclusion = payment.delivered(&world).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    let paid = chains_evm::settler::SettlerChain::new(evm.source.node.clone(), evm.settler.clone());
    paid.release(&payment.id, &payment.plan, &attestation).await?;
    assert_eq!(world.sun(&world.recipient).await?, DELIVERED);
    assert_eq!(world.node().audit_delivery(&payment.audited(), &inclusion).await?, []);
    Ok(())
}
