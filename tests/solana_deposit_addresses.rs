//! Payers on Solana who sign nothing, end to end: they have an exchange send the money to an address, and whatever comes there is
//! delivered or comes back.

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::Result;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use devnet::{
    keys::Role,
    payer::{Payer, PaymentSpec},
};
use gateway_program::host;

use crate::support::{deposit_addresses::*, solana::solana_key, *};

/// What the answer says is what the client computes by itself.
async fn verified(world: &World, customer: &Customer, given: &Given, spec: &PaymentSpec) -> Result<()> {
    let (solana, terms) = (world.solana()?, given.solana_terms()?);
    let program = solana_key(&solana.program)?;
    let address = given.text("/address")?;
    assert_eq!(address, bs58::encode(host::deposit_address(&program, &terms).key).into_string());
    for member in ["/factory", "/terms/escrow"] {
        assert_eq!(given.text(member)?, solana.program, "{member}");
    }
    assert_eq!(given.text("/refund_account")?, customer.payer.account());
    assert_eq!(terms.payer, solana_key(&customer.payer.account())?);
    assert_eq!(U256::from(terms.amount), spec.cap.get());
    assert_eq!(terms.payment_id, given.payment_id.on_chain().0);
    assert_eq!(terms.reserver, solana_key(&Role::Reserver.solana_account())?);
    assert_eq!(given.text("/uri")?, format!("solana:{address}?spl-token={}", solana.token.mint));
    assert_eq!(given.text("/chain_id")?, solana.id()?.as_str());
    page_says(world, given, &["(SPL) and nothing else", "refuses an address off the curve"]).await
}

async fn slot(world: &World) -> Result<Option<u64>> {
    Ok(world.solana()?.surfnet.rpc("getSlot", json!([{"commitment": "processed"}])).await?.as_u64())
}

async fn what_fits_no_address_is_refused(world: &World) -> Result<()> {
    let solana = world.solana()?;
    let payer = Payer::on_solana(SigningKey::from_bytes(&PrivateKeySigner::random().to_bytes().0))?;
    let to = |account: &str, request_id: &str| -> Result<Value> {
        let mut request = payer.quote_request(&world.spec_from_solana(request_id)?);
        request["source"]["account"] = account.into();
        Ok(request)
    };
    // Money could come back to none of them.
    refused(world, &to(&payer.account(), "no-token-account")?, "it has no token account").await?;
    refused(world, &to(&solana.program, "program")?, "source.account: is").await?;
    refused(world, &to(&solana.token.mint, "mint")?, "source.account: is a token contract").await?;
    let mint = solana_key(&solana.token.mint)?;
    let owner = solana_key(&Role::Payer.solana_account())?;
    let tokens = host::associated_token_address(&owner, &gateway_program::ids::TOKEN_PROGRAM, &mint).key;
    let tokens = bs58::encode(tokens).into_string();
    refused(world, &to(&tokens, "token-account")?, "is no wallet").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_to_a_deposit_address_on_solana_is_delivered_or_comes_back() -> Result<()> {
    let world = World::with_solana(|options| options).await?;
    let (paid, more, less, unsold, none, ()) = tokio::try_join!(
        in_two_transfers(&world, Source::Solana, async |customer: &Customer, given: &Given, spec: &PaymentSpec| {
            verified(&world, customer, given, spec).await
        }),
        too_much_and_twice(&world, Source::Solana),
        too_little(&world, Source::Solana),
        no_quotes(&world, Source::Solana),
        nothing(&world, Source::Solana),
        what_fits_no_address_is_refused(&world)
    )?;
    let recipient = world.network.destination.balance(Role::Recipient).await?;
    assert_eq!(recipient, U256::from(2 * AMOUNT), "each was delivered once");
    for payment_id in [paid, more, less, unsold, none] {
        world.audited(&payment_id).await?;
    }
    Ok(())
}

/// No record tells of what a stranger gave back while the gateway was dead; the gateway finds it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_dies_finds_what_others_gave_back_on_solana() -> Result<()> {
    let mut world = World::with_solana(|options| options).await?;
    // Nodes of the development network tell no order of what is in one slot.
    let next_slot = async |world: &World| {
        let returned_in = slot(world).await?;
        eventually(|| async { slot(world).await.is_ok_and(|slot| slot > returned_in) }).await
    };
    dies(&mut world, Source::Solana, next_slot).await
}
