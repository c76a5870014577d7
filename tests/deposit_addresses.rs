//! Payers who sign nothing, end to end: they have an exchange send the money to an address, and whatever comes there is delivered or
//! comes back.

use std::time::Duration;

use alloy::{
    primitives::{Address, B256, keccak256},
    sol_types::SolCall,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use chains_evm::{deposit_addresses, minimal_proxy::implementation};
use devnet::payer::{Answer, PaymentSpec};
use escrow_abi::deposit_addresses::DepositAddresses;

use crate::support::{deposit_addresses::*, *};

/// What the answer says is what the contract commits to, and the client computes by itself.
async fn verified(world: &World, customer: &Customer, given: &Given, spec: &PaymentSpec) -> Result<()> {
    let (source, terms) = (&world.network.source, given.terms()?);
    let address: Address = given.text("/address")?.parse()?;
    let factory = deposit_addresses::factory();
    assert_eq!(given.text("/factory")?.parse::<Address>()?, factory);
    let computed = deposit_addresses::address_for(factory, implementation(factory), &terms);
    assert_eq!(address, computed);
    let ask = DepositAddresses::addressOfCall { t: terms.clone() };
    let call = json!({"to": factory, "data": alloy::primitives::Bytes::from(ask.abi_encode())});
    let said: B256 = source.dev.rpc("eth_call", (call, "latest")).await?;
    assert_eq!(Address::from_word(said), address, "the contract says so, too");
    assert_eq!(terms.escrow, source.contracts.escrow.parse::<Address>()?);
    assert_eq!(terms.token, source.token.parse::<Address>()?);
    assert_eq!(terms.deposit.payer, customer.payer.account().parse::<Address>()?);
    assert_eq!(terms.amount, spec.cap.get());
    assert_eq!(terms.deposit.paymentId, keccak256(given.payment_id.as_str()));
    let uri =
        format!("ethereum:{}@{}/transfer?address={address:#x}&uint256={CAP}", source.token, source.id().reference());
    assert_eq!(given.text("/uri")?, uri);
    Ok(())
}

async fn refused(world: &World, id: &str, options: Value, status: u16, says: &str) -> Result<()> {
    let answer = world.payer.deposit_address(&world.base(0), id, &options).await?;
    ensure!(answer.status == status, "{options}: {answer:?}");
    ensure!(answer.text("message").contains(says), "{options}: {answer:?}");
    Ok(())
}

async fn what_fits_no_address_is_refused(world: &World) -> Result<()> {
    let (base, spec) = (world.base(0), world.spec("refusals")?);
    let opened = world.payer.open(&base, &world.payer.quote_request(&spec), false).await?;
    let id = opened.text("quote_request_id");
    refused(world, id, json!({"amount": "1"}), 400, "amount: must be the max_source_amount").await?;
    refused(world, id, json!({"amount": "-1"}), 400, "amount: ").await?;
    refused(world, id, json!({"pay_by": "soon"}), 400, "pay_by: ").await?;
    refused(world, id, json!({"pay_by": after(1)}), 400, "pay_by: must be at least").await?;
    refused(world, id, json!({"pay_by": after(3_600)}), 400, "seconds before fulfillment_deadline").await?;
    refused(world, "qr_unknown", json!({}), 404, "").await?;
    // Money cannot come back from the escrow, and settlers know the id of a batch.
    let mut to_escrow = world.payer.quote_request(&PaymentSpec { request_id: "escrow".to_owned(), ..spec.clone() });
    to_escrow["source"]["account"] = world.network.source.contracts.escrow.as_str().into();
    let opened = world.payer.open(&base, &to_escrow, false).await?;
    refused(world, opened.text("quote_request_id"), json!({}), 400, "source.account: is an escrow contract").await?;
    let secret = "a-secret-of-the-callers-own";
    let kept = world.payer.quote_request(&PaymentSpec { request_id: "secret".to_owned(), ..spec.clone() });
    let http = reqwest::Client::new();
    let open = http.post(format!("{base}/v1/payments/quote-requests")).header("caller-secret", secret).json(&kept);
    let opened = Answer::of(open.send().await?).await?;
    let kept = opened.text("quote_request_id").to_owned();
    refused(world, &kept, json!({}), 401, "Caller-Secret: ").await?;
    let url = format!("{base}/v1/payments/quote-requests/{kept}/address");
    let given = Answer::of(http.post(url).header("caller-secret", secret).json(&json!({})).send().await?).await?;
    ensure!(given.status == 200, "{given:?}");
    let mut uncapped = world.payer.quote_request(&PaymentSpec { request_id: "uncapped".to_owned(), ..spec.clone() });
    uncapped.as_object_mut().context("no object")?.remove("max_source_amount");
    let opened = world.payer.open(&base, &uncapped, false).await?;
    let id = opened.text("quote_request_id");
    refused(world, id, json!({}), 400, "amount: must be given").await?;
    let given = world.payer.deposit_address(&base, id, &json!({"amount": CAP.to_string()})).await?;
    ensure!(given.status == 200, "{given:?}");
    refused(world, id, json!({"amount": (CAP + 1).to_string()}), 409, "for another amount").await?;
    let short = PaymentSpec { request_id: "short".to_owned(), fulfillment_window: Duration::from_secs(60), ..spec };
    let opened = world.payer.open(&base, &world.payer.quote_request(&short), false).await?;
    refused(world, opened.text("quote_request_id"), json!({}), 400, "fulfillment_deadline: is too near").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_to_a_deposit_address_is_delivered_or_comes_back() -> Result<()> {
    let world = World::start(1).await?;
    let (paid, more, less, unsold, none, ()) = tokio::try_join!(
        in_two_transfers(&world, Source::Evm, async |customer: &Customer, given: &Given, spec: &PaymentSpec| {
            verified(&world, customer, given, spec).await
        }),
        too_much_and_twice(&world, Source::Evm),
        too_little(&world, Source::Evm),
        no_quotes(&world, Source::Evm),
        nothing(&world, Source::Evm),
        what_fits_no_address_is_refused(&world)
    )?;
    world.settled_once(&[paid.clone(), more.clone()]).await?;
    for payment_id in [paid, more, less, unsold, none] {
        world.audited(&payment_id).await?;
    }
    Ok(())
}

/// The gateway dies while it waits for the money, which comes meanwhile, and goes on where it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_dies_while_it_waits_finds_the_money_afterwards() -> Result<()> {
    let mut world = World::start(1).await?;
    let customer = Customer::new(&world, Source::Evm).await?;
    let given = customer.given(&world, &world.spec("died")?, json!({})).await?;
    world.network.kill_gateway(0).await?;
    customer.send(&world, &given, CAP).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    world.completed(&given.payment_id).await?;
    assert_eq!(customer.returned(&world).await?, CAP - PRICE);
    world.settled_once(std::slice::from_ref(&given.payment_id)).await
}
