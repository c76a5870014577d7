//! Transactions of a settler that do not land, land late, or are taken back by a fork.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, bail};
use serde_json::json;

use chains::{perform::PerformError, settler::DeliveryChain};
use chains_tron::node;
use sagas::ports::DeliveryState;

use super::{broadcast, settler_behind, swallow, transient};
use crate::support::{LAG, World, liar::Liar, payment::DELIVERED, quoted::Payment, until};

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
