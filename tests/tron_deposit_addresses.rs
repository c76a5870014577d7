//! Payers on Tron who sign nothing, end to end: they have an exchange send the money to an address, and whatever comes there is delivered
//! or comes back.

use alloy::{
    primitives::{Address, U256, keccak256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use chains_tron::{
    address::{parse_address, text},
    deposit_addresses::address_for,
};
use devnet::{
    keys::Role,
    payer::{Payer, PaymentSpec},
};
use escrow_abi::deposit_addresses::DepositAddresses;

use crate::support::{deposit_addresses::*, *};

/// What the answer says is what the client computes by itself, and what the contract commits to.
async fn verified(world: &World, customer: &Customer, given: &Given, spec: &PaymentSpec) -> Result<()> {
    let (tron, terms) = (world.tron()?, given.terms()?);
    assert_eq!(given.text("/factory")?, tron.contracts.deposit_address_factory);
    let factory = parse_address(&tron.contracts.deposit_address_factory)?;
    let address = given.text("/address")?;
    assert_eq!(address, text(address_for(factory, &terms)));
    let ask = DepositAddresses::addressOfCall { t: terms.clone() };
    let question = json!({
        "owner_address": customer.payer.account(),
        "contract_address": tron.contracts.deposit_address_factory,
        "data": hex::encode(ask.abi_encode()),
        "visible": true,
    });
    let url = format!("{}/wallet/triggerconstantcontract", tron.node.url());
    let said: Value = reqwest::Client::new().post(url).json(&question).send().await?.json().await?;
    let said = hex::decode(said["constant_result"][0].as_str().with_context(|| said.to_string())?)?;
    assert_eq!(text(Address::from_slice(&said[12..])), address, "the contract says so, too");
    assert_eq!(terms.escrow, parse_address(&tron.contracts.escrow)?);
    assert_eq!(given.text("/refund_account")?, customer.payer.account());
    assert_eq!(terms.deposit.payer, parse_address(&customer.payer.account())?);
    assert_eq!(terms.amount, spec.cap.get());
    assert_eq!(terms.deposit.paymentId, keccak256(given.payment_id.as_str()));
    assert_eq!(given.text("/uri")?, format!("tron:{address}"));
    assert_eq!(given.text("/chain_id")?, tron.id()?.as_str());
    page_says(world, given, &["(TRC-20) and nothing else"]).await
}

async fn what_fits_no_address_is_refused(world: &World) -> Result<()> {
    let tron = world.tron()?;
    let payer = Payer::on_tron(PrivateKeySigner::random())?;
    let to = |account: &str, request_id: &str| -> Result<Value> {
        let spec = world.spec_from_tron(request_id)?;
        let mut request = payer.quote_request(&spec);
        request["source"]["account"] = account.into();
        Ok(request)
    };
    // Money cannot come back from any of them.
    refused(
        world,
        &to(&tron.contracts.deposit_address_factory, "factory")?,
        "source.account: is a factory of deposit addresses",
    )
    .await?;
    refused(world, &to(&tron.contracts.escrow, "escrow")?, "source.account: is an escrow contract").await?;
    refused(world, &to(&tron.token, "token")?, "source.account: is a token contract").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_to_a_deposit_address_on_tron_is_delivered_or_comes_back() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (paid, more, less, unsold, none, ()) = tokio::try_join!(
        in_two_transfers(&world, Source::Tron, async |customer: &Customer, given: &Given, spec: &PaymentSpec| {
            verified(&world, customer, given, spec).await
        }),
        too_much_and_twice(&world, Source::Tron),
        too_little(&world, Source::Tron),
        no_quotes(&world, Source::Tron),
        nothing(&world, Source::Tron),
        what_fits_no_address_is_refused(&world)
    )?;
    let recipient = world.network.destination.balance(Role::Recipient).await?;
    assert_eq!(recipient, U256::from(2 * AMOUNT), "each was delivered once");
    for payment_id in [&paid, &more] {
        for event in [DEPOSITED, RELEASED] {
            assert_eq!(world.tron_logs(event, payment_id).await?, 1, "{payment_id}: {event}");
        }
    }
    for payment_id in [paid, more, less, unsold, none] {
        world.audited(&payment_id).await?;
    }
    Ok(())
}

/// No node searches for what a stranger gave back while the gateway was dead; the gateway finds it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_dies_finds_what_others_gave_back_on_tron() -> Result<()> {
    let mut world = World::with_tron(|options| options).await?;
    dies(&mut world, Source::Tron, async |_: &World| Ok(())).await
}
