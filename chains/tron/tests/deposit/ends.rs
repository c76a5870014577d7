//! Ends of a deposit: the delivery, the releaser's statement, the release and the cancellation.

use std::time::Duration;

use alloy::{primitives::U256, signers::SignerSync};
use anyhow::{Result, bail, ensure};

use chains_tron::transaction::read_signed;
use sagas::ports::{Chains, DeliveryState, EscrowState, Statement};

use crate::support::{
    TOKENS, World, account, key,
    payment::{CAP, DELIVERED, PRICE, bytes},
};

#[tokio::test]
async fn the_settler_is_paid_and_the_remainder_comes_back() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    world.secured(&chains, &order).await?;
    let info = world.release(&order).await?;
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held, "not solidified");
    world.solidify().await?;
    let EscrowState::Released(inclusion) = chains.escrow_state(&order.payment_id, &order.escrow).await? else {
        bail!("not released")
    };
    assert_eq!(inclusion.transaction_hash, info.id.to_string());
    assert_eq!(world.tokens(&world.settler).await?, TOKENS + PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    assert_eq!(world.tokens_of(&world.contracts.escrow).await?, 0);
    Ok(())
}

#[tokio::test]
async fn the_verifiers_word_brings_the_money_back_at_once() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    world.secured(&chains, &order).await?;
    let prepared = chains.prepare_refund(&world.cancellation(&order), 1).await?;
    let (decoded, _) = read_signed(&bytes(&prepared.raw)?)?;
    assert!(decoded.draft.expiration_ms <= order.escrow.refund_after * 1_000);
    world.settle(&chains, &prepared).await?;
    let state = chains.escrow_state(&order.payment_id, &order.escrow).await?;
    assert!(
        matches!(&state, EscrowState::Refunded(refunded) if refunded.amount.to_string() == CAP.to_string()),
        "{state:?}"
    );
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    // It was reserved, so it stays what it was to whoever looks for the deposit.
    assert!(chains.deposit_secured(&order).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_delivery_is_seen_final_or_impossible() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let delivery = world.delivery(&order);
    assert_eq!(chains.delivery_state(&delivery).await?, DeliveryState::NotSeen);
    let info = world.fulfill(&delivery).await?;
    let DeliveryState::Seen(seen) = chains.delivery_state(&delivery).await? else { bail!("not seen") };
    assert_eq!((&seen.transaction_hash, seen.block_number), (&info.id.to_string(), info.block_number));
    world.solidify().await?;
    assert_eq!(chains.delivery_state(&delivery).await?, DeliveryState::Final(seen));
    assert_eq!(world.sun(&world.recipient).await?, DELIVERED);

    // Another amount is another delivery.
    let mut short = delivery.clone();
    short.amount = (DELIVERED + 1).to_string().parse()?;
    assert_eq!(chains.delivery_state(&short).await?, DeliveryState::NotSeen);
    let mut token = world.delivery(&world.order(600).await?);
    token.destination = events::OwnedAsset::new(world.asset(&format!("trc20:{}", world.token)), &account(&key(9)))?;
    world.dev.approve(&world.settler, &world.token, &world.contracts.proxy, U256::from(DELIVERED)).await?;
    world.fulfill(&token).await?;
    world.solidify().await?;
    assert!(matches!(chains.delivery_state(&token).await?, DeliveryState::Final(_)));

    world.advance(Duration::from_secs(601)).await?;
    assert_eq!(chains.delivery_state(&short).await?, DeliveryState::NotSeen, "not solidified");
    world.solidify().await?;
    assert_eq!(chains.delivery_state(&short).await?, DeliveryState::Impossible);
    assert!(matches!(chains.delivery_state(&delivery).await?, DeliveryState::Final(_)));
    Ok(())
}

#[tokio::test]
async fn a_fork_takes_a_delivery_that_was_seen() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let delivery = world.delivery(&world.order(600).await?);
    world.fulfill(&delivery).await?;
    assert!(matches!(chains.delivery_state(&delivery).await?, DeliveryState::Seen(_)));
    world.dev.control("fork", serde_json::json!({"blocks": 1, "drop_transactions": true})).await?;
    world.mine(1).await?;
    assert_eq!(chains.delivery_state(&delivery).await?, DeliveryState::NotSeen);
    Ok(())
}

#[tokio::test]
async fn a_statement_counts_when_the_releaser_signed_it_about_this_payment() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.order(600).await?;
    let (delivery, non_delivery) = (world.statement(&order), world.non_delivery(&order));
    let holds = async |statement: &Statement, signature: &str| {
        chains.attestation_holds(statement, &order.escrow, signature).await
    };
    let attested = world.attest(&delivery);
    ensure!(holds(&delivery, &attested).await?);
    ensure!(holds(&non_delivery, &world.attest(&non_delivery)).await?);
    ensure!(!holds(&non_delivery, &attested).await?);
    ensure!(!holds(&world.statement(&world.order(600).await?), &attested).await?);
    let digest = alloy::primitives::B256::ZERO;
    let strange = format!("0x{}", hex::encode(world.payer.sign_hash_sync(&digest)?.as_bytes()));
    for bad in [strange.as_str(), "", "0x", "0xzz", &attested[..130]] {
        ensure!(!holds(&delivery, bad).await?, "{bad}");
    }
    let mut elsewhere = order.escrow.clone();
    elsewhere.contract = world.contracts.proxy.parse()?;
    ensure!(!chains.attestation_holds(&delivery, &elsewhere, &attested).await?);
    Ok(())
}
