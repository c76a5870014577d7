//! Deliveries of a settler: what is delivered once, paid for, refused, and made again.

use std::{sync::Arc, time::Duration};

use alloy::primitives::U256;
use anyhow::{Context, Result, bail};
use serde_json::json;

use chains::{perform::PerformError, settler::DeliveryChain};
use chains_tron::{
    node,
    settler::{FEE_RESERVE_ENERGY, SettlerChain},
};
use events::{Hash32, PaymentId, failure::BlockchainContext};
use sagas::ports::{DeliveryOrder, DeliveryState};

use super::{BYTE_SUN, ENERGY_SUN, broadcast, settler_behind, swallow, transient};
use crate::{
    evm_support::release::reason,
    support::{
        FUNDS, TOKENS, TRX, World, account, holder, key,
        liar::Liar,
        payment::DELIVERED,
        quoted::{Payment, amount},
        until,
    },
};

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
    let (fees, prices) = (own.usual_fees().await?, world.node().prices().await?);
    let energy = |units: u64| U256::from(units * prices.energy_sun);
    assert!(fees.coin_delivery > energy(70_000) && fees.token_delivery > energy(200_000), "{fees:?}");
    assert!((energy(170_000)..energy(300_000)).contains(&fees.release), "{fees:?}");
    let wrong = [
        ("payment", &own, DeliveryOrder { payment_id: PaymentId::derive("tron:x", "other"), ..right.clone() }),
        ("quote", &own, DeliveryOrder { quote_hash: Hash32([5; 32]), ..right.clone() }),
        ("settler", &theirs, DeliveryOrder { delivery_account: holder(&stranger), ..right.clone() }),
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
async fn nothing_is_sent_or_promised_that_cannot_be_paid_for() -> Result<()> {
    let world = World::start().await?;
    let poor = key(45);
    let payment = {
        let destination = world.trc20(&world.token, &account(&world.recipient));
        Payment::from_tron(&world, 600, destination, &holder(&poor), &world.contracts.proxy.parse()?).await?
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
