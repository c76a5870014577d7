//! A token that denies somebody: the payer before it pays, the settler when it is paid, the payer when it is paid back.

use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use anyhow::{Context, Result};
use serde_json::json;

use chains_tron::address::parse_address;
use devnet::keys::Role;
use escrow_abi::contracts::GatewayEscrow;
use events::{PaymentEvent, PaymentId};

use super::{
    delivered,
    payer::{CAP, SUN, TronPayer, escrow_moves, fees, info, soon},
    token::Deniable,
};
use crate::support::*;

async fn escrowed(world: &World) -> Result<u64> {
    let tron = world.tron()?;
    Ok(tron.dev.token_balance(&tron.token, &tron.contracts.escrow).await?.to())
}

/// The settler that won the payment.
async fn winner(world: &World, payment_id: &PaymentId) -> Result<Role> {
    let PaymentEvent::QuoteAwarded(award) = world.events(payment_id, "QuoteAwarded").await?.remove(0) else {
        anyhow::bail!("no award of {payment_id}");
    };
    let quote = award.signed_quote()?;
    let paid = quote.quote().payout_account.as_str();
    [1, 2, 3].map(Role::Settler).into_iter().find(|role| role.tron_account() == paid).context("a settler of ours")
}

/// `owner` takes from the escrow what it is owed.
async fn claim(world: &World, owner: &alloy::signers::local::PrivateKeySigner, to: Address) -> Result<()> {
    let tron = world.tron()?;
    let claim = GatewayEscrow::claimCall { token: parse_address(&tron.token)?, to };
    tron.dev.execute(owner, &tron.contracts.escrow, claim.abi_encode(), 0).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_the_token_denies_holds_nobody_up_and_loses_nothing() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let token = Deniable::of(&world).await?;
    let before = world.tron_holdings().await?;
    let denied = TronPayer::endowed(&world, "a payer whom the token denies").await?;
    let payer = TronPayer::endowed(&world, "a payer whom it does not deny").await?;
    let late = TronPayer::endowed(&world, "a payer whom it denies later").await?;
    let settlers = [1, 2, 3].map(|n| Role::Settler(n).tron_account());
    let [one, two, three] = settlers.each_ref().map(String::as_str);
    token.deny(&world, &[&denied.account, one, two, three]).await?;

    let (refused, refused_transactions) =
        denied.submit(&world, &soon(world.spec_from_tron("denied")?), json!({})).await?;
    let (paid, _) = payer.submit(&world, &world.spec_from_tron("settler-denied")?, json!({})).await?;
    let (returned, _) = late.submit(&world, &world.undeliverable_from_tron("refund-denied")?, json!({})).await?;
    world.until(&returned, "EscrowSecured").await?;
    token.deny(&world, &[&denied.account, one, two, three, &late.account]).await?;

    // Nothing comes of the deposit that the token refuses, and it is not sent.
    let outcome = world.outcome(&refused).await?;
    assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
    let error = &outcome.body["error"];
    assert!(error.get("blockchain_context").is_none(), "nothing reached a chain: {outcome:?}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("ReceivedNotExact")), "{outcome:?}");
    assert!(info(&world, refused_transactions[1].id).await?.is_none());
    assert_eq!(denied.tokens(&world).await?, CAP);
    assert_eq!(denied.sun(&world).await?, SUN - fees(&world, &refused_transactions[..1]).await?);
    assert_eq!(escrow_moves(&world, &refused).await?, [0, 0, 0]);

    // The delivery counts and the remainder is back; what the token does not hand over stays the settler's.
    world.completed(&paid).await?;
    assert_eq!(escrow_moves(&world, &paid).await?, [1, 1, 0]);
    assert_eq!(payer.tokens(&world).await?, CAP - PRICE);
    world.until(&returned, "EscrowRefunded").await?;
    assert_eq!(escrow_moves(&world, &returned).await?, [1, 0, 1]);
    assert_eq!(late.tokens(&world).await?, 0);
    assert_eq!(escrowed(&world).await?, PRICE + CAP);
    let mut expected = delivered(1);
    expected.insert("settlers", 0);
    expected.insert("escrow", i128::from(PRICE + CAP));
    expected.retain(|_, moved| *moved != 0);
    assert_eq!(moves(&before, &world.tron_holdings().await?), expected);

    // Denied still, the settler takes it to another account; the payer waits until it is denied no more.
    let settler = winner(&world, &paid).await?;
    let elsewhere = Role::Recipient;
    claim(&world, &settler.signer(), elsewhere.address()).await?;
    assert_eq!(world.tron()?.balance(elsewhere).await?, U256::from(PRICE));
    assert!(claim(&world, &late.key, late.key.address()).await.is_err(), "the token denies it");
    token.deny(&world, &[]).await?;
    claim(&world, &late.key, late.key.address()).await?;
    assert_eq!(late.tokens(&world).await?, CAP);
    assert_eq!(escrowed(&world).await?, 0);
    for payment_id in [&refused, &paid, &returned] {
        world.audited(payment_id).await?;
    }
    Ok(())
}
