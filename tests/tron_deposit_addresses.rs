//! Payers on Tron who sign nothing, end to end: they have an exchange send the money to an address, and whatever comes there is delivered
//! or comes back.

use std::time::Duration;

use alloy::{
    primitives::{Address, U256, keccak256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use anyhow::{Context, Result, ensure};
use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

use chains_tron::{
    address::{parse_address, text},
    deposit_addresses,
};
use devnet::{
    keys::Role,
    payer::{Answer, Payer, PaymentSpec},
};
use escrow_abi::deposit_addresses::{DepositAddresses, GatewayEscrow};
use events::{PaymentEvent, PaymentId};

use crate::support::*;

/// The most that a payment may cost, which is what has to be sent.
const CAP: u64 = 25_500_000;
/// What an exchange has of the token, and of TRX in sun.
const TOKENS: u64 = 1_000_000_000;
const SUN: u64 = 10_000_000_000;

/// Somebody whose money lies at an exchange, which sends it where it is told to.
struct Customer {
    payer: Payer,
    exchange: PrivateKeySigner,
}

/// A payment that waits for its money.
struct Given {
    payment_id: PaymentId,
    body: Value,
}

impl Given {
    fn text(&self, pointer: &str) -> Result<&str> {
        self.body.pointer(pointer).and_then(Value::as_str).with_context(|| format!("{pointer} of {}", self.body))
    }

    fn terms(&self) -> Result<DepositAddresses::Terms> {
        let seconds = |name: &str| self.body["terms"]["deposit"][name].as_u64().unwrap_or_default();
        let account = |pointer: &str| anyhow::Ok(parse_address(self.text(pointer)?)?);
        Ok(DepositAddresses::Terms {
            escrow: account("/terms/escrow")?,
            token: account("/terms/token")?,
            amount: self.text("/terms/amount")?.parse()?,
            deposit: GatewayEscrow::GatewayDeposit {
                paymentId: self.text("/terms/deposit/payment_id")?.parse()?,
                termsHash: self.text("/terms/deposit/terms_hash")?.parse()?,
                quoteHash: self.text("/terms/deposit/quote_hash")?.parse()?,
                payer: account("/terms/deposit/payer")?,
                reserver: account("/terms/deposit/reserver")?,
                releaser: account("/terms/deposit/releaser")?,
                reserveDeadline: seconds("reserve_deadline").try_into()?,
                fulfillmentDeadline: seconds("fulfillment_deadline").try_into()?,
                refundAfter: seconds("refund_after").try_into()?,
            },
        })
    }
}

impl Customer {
    async fn new(world: &World) -> Result<Self> {
        let (exchange, tron) = (PrivateKeySigner::random(), world.tron()?);
        let account = text(exchange.address());
        tron.dev.fund(&account, SUN).await?;
        tron.dev.mint(&tron.token, &account, U256::from(TOKENS)).await?;
        Ok(Self { payer: Payer::on_tron(PrivateKeySigner::random())?, exchange })
    }

    async fn open(&self, world: &World, spec: &PaymentSpec) -> Result<String> {
        let answer = self.payer.open(&world.base(0), &self.payer.quote_request(spec), false).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.text("quote_request_id").to_owned())
    }

    async fn given(&self, world: &World, spec: &PaymentSpec, options: Value) -> Result<Given> {
        let id = self.open(world, spec).await?;
        let answer = self.payer.deposit_address(&world.base(0), &id, &options).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(Given { payment_id: answer.text("payment_id").parse()?, body: answer.body["deposit_address"].clone() })
    }

    async fn send(&self, world: &World, given: &Given, amount: u64) -> Result<()> {
        let tron = world.tron()?;
        let (to, amount) = (given.text("/address")?, U256::from(amount));
        Ok(tron.dev.send_token(&self.exchange, &tron.token, to, amount).await?)
    }

    /// Has what is at the address given back, as anyone can.
    async fn give_back(&self, world: &World, given: &Given) -> Result<()> {
        let tron = world.tron()?;
        let call = DepositAddresses::giveBackCall { t: given.terms()?, token: parse_address(&tron.token)? };
        tron.dev.execute(&self.exchange, &tron.contracts.deposit_address_factory, call.abi_encode(), 0).await?;
        Ok(())
    }

    /// What has come back to the refund account.
    async fn returned(&self, world: &World) -> Result<u64> {
        let tron = world.tron()?;
        Ok(tron.dev.token_balance(&tron.token, &self.payer.account()).await?.to())
    }

    async fn at(&self, world: &World, given: &Given) -> Result<u64> {
        let tron = world.tron()?;
        Ok(tron.dev.token_balance(&tron.token, given.text("/address")?).await?.to())
    }
}

fn after(seconds: u64) -> String {
    (Utc::now() + Duration::from_secs(seconds)).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// What the answer says is what the client computes by itself, and what the contract commits to.
async fn verified(world: &World, customer: &Customer, given: &Given, spec: &PaymentSpec) -> Result<()> {
    let (tron, terms) = (world.tron()?, given.terms()?);
    assert_eq!(given.text("/factory")?, tron.contracts.deposit_address_factory);
    let factory = parse_address(&tron.contracts.deposit_address_factory)?;
    let address = given.text("/address")?;
    assert_eq!(address, text(deposit_addresses::address_for(factory, &terms)));
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
    Ok(())
}

/// Exactly what was asked for, in two transfers, from an account that nobody knows.
async fn in_two_transfers(world: &World) -> Result<PaymentId> {
    let (customer, spec) = (Customer::new(world).await?, world.spec_from_tron("two-transfers")?);
    let given = customer.given(world, &spec, json!({})).await?;
    verified(world, &customer, &given, &spec).await?;
    customer.send(world, &given, CAP - 1).await?;
    let waiting = customer.payer.status(&world.base(0), given.payment_id.as_str()).await?;
    assert_eq!((waiting.text("status"), &waiting.body["deposit_address"]), ("pending", &given.body), "{waiting:?}");
    customer.send(world, &given, 1).await?;
    world.completed(&given.payment_id).await?;
    eventually(|| async { customer.returned(world).await.is_ok_and(|back| back == CAP - PRICE) }).await?;
    assert_eq!(customer.at(world, &given).await?, 0);
    let ended = customer.payer.status(&world.base(0), given.payment_id.as_str()).await?;
    assert_eq!(ended.body["deposit_address"]["received"], CAP.to_string(), "{ended:?}");
    Ok(given.payment_id)
}

/// More than was asked for goes into escrow, and what is over comes back with the release; what comes after that anybody sends back.
async fn too_much_and_twice(world: &World) -> Result<PaymentId> {
    let (customer, spec) = (Customer::new(world).await?, world.spec_from_tron("too-much")?);
    let given = customer.given(world, &spec, json!({"pay_by": after(60)})).await?;
    customer.send(world, &given, 2 * CAP).await?;
    world.completed(&given.payment_id).await?;
    let Some(PaymentEvent::EscrowSecured(secured)) = world.events(&given.payment_id, "EscrowSecured").await?.pop()
    else {
        anyhow::bail!("{} was not deposited", given.payment_id)
    };
    assert_eq!(secured.amount.get(), U256::from(2 * CAP));
    eventually(|| async { customer.returned(world).await.is_ok_and(|back| back == 2 * CAP - PRICE) }).await?;
    customer.send(world, &given, CAP).await?;
    customer.give_back(world, &given).await?;
    assert_eq!((customer.returned(world).await?, customer.at(world, &given).await?), (3 * CAP - PRICE, 0));
    Ok(given.payment_id)
}

/// Waits until the payment failed for this, and what was at the address is back.
async fn given_back(world: &World, customer: &Customer, given: &Given, amount: u64, code: &str) -> Result<PaymentId> {
    let outcome = world.outcome(&given.payment_id).await?;
    assert_eq!((outcome.text("status"), &outcome.body["error"]["code"]), ("failed", &json!(code)), "{outcome:?}");
    world.until(&given.payment_id, "EscrowRefunded").await?;
    assert_eq!((customer.returned(world).await?, customer.at(world, given).await?), (amount, 0));
    let types = world.types(&given.payment_id).await?;
    assert_eq!(types.iter().filter(|event| **event == "AddressHeld").count(), 1, "{types:?}");
    Ok(given.payment_id.clone())
}

async fn too_little(world: &World) -> Result<PaymentId> {
    let (customer, spec) = (Customer::new(world).await?, world.spec_from_tron("too-little")?);
    let given = customer.given(world, &spec, json!({"pay_by": after(12)})).await?;
    customer.send(world, &given, CAP - 1).await?;
    given_back(world, &customer, &given, CAP - 1, "DEPOSIT_NOT_RECEIVED").await
}

/// The money is there, and nobody delivers for it.
async fn no_quotes(world: &World) -> Result<PaymentId> {
    let customer = Customer::new(world).await?;
    // Less than any settler takes.
    let spec = PaymentSpec { cap: (AMOUNT / 2).to_string().parse()?, ..world.spec_from_tron("no-quotes")? };
    let given = customer.given(world, &spec, json!({"pay_by": after(12)})).await?;
    customer.send(world, &given, AMOUNT / 2).await?;
    given_back(world, &customer, &given, AMOUNT / 2, "NO_QUOTES_RECEIVED").await
}

/// Nobody pays, and so nothing happens.
async fn nothing(world: &World) -> Result<PaymentId> {
    let (customer, spec) = (Customer::new(world).await?, world.spec_from_tron("nothing")?);
    let given = customer.given(world, &spec, json!({"pay_by": after(12)})).await?;
    world.until(&given.payment_id, "DepositRuledOut").await?;
    assert_eq!(world.types(&given.payment_id).await?, ["Submitted", "Failed", "DepositRuledOut"]);
    Ok(given.payment_id)
}

async fn what_fits_no_address_is_refused(world: &World) -> Result<()> {
    let tron = world.tron()?;
    let refused = async |request: &Value, says: &str| -> Result<()> {
        let opened = world.payer.open(&world.base(0), request, false).await?;
        ensure!(opened.status == 200, "{opened:?}");
        let id = opened.text("quote_request_id");
        let answer: Answer = world.payer.deposit_address(&world.base(0), id, &json!({})).await?;
        ensure!(answer.status == 400 && answer.text("message").contains(says), "{answer:?}");
        Ok(())
    };
    let payer = Payer::on_tron(PrivateKeySigner::random())?;
    let to = |account: &str, request_id: &str| -> Result<Value> {
        let spec = world.spec_from_tron(request_id)?;
        let mut request = payer.quote_request(&spec);
        request["source"]["account"] = account.into();
        Ok(request)
    };
    // Money cannot come back from any of them.
    refused(
        &to(&tron.contracts.deposit_address_factory, "factory")?,
        "source.account: is a factory of deposit addresses",
    )
    .await?;
    refused(&to(&tron.contracts.escrow, "escrow")?, "source.account: is an escrow contract").await?;
    refused(&to(&tron.token, "token")?, "source.account: is a token contract").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_to_a_deposit_address_on_tron_is_delivered_or_comes_back() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (paid, more, less, unsold, none, ()) = tokio::try_join!(
        in_two_transfers(&world),
        too_much_and_twice(&world),
        too_little(&world),
        no_quotes(&world),
        nothing(&world),
        what_fits_no_address_is_refused(&world)
    )?;
    let recipient = world.network.destination.balance(Role::Recipient).await?;
    assert_eq!(recipient, U256::from(2 * AMOUNT), "each was delivered once");
    for payment_id in [paid, more, less, unsold, none] {
        world.audited(&payment_id).await?;
    }
    Ok(())
}

/// The gateway dies before the money comes back, which a stranger brings about meanwhile, and hides behind returns of dust. No node
/// searches for it; the gateway finds it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_dies_finds_what_others_gave_back_on_tron() -> Result<()> {
    let mut world = World::with_tron(|options| options).await?;
    let (customer, spec) = (Customer::new(&world).await?, world.spec_from_tron("died")?);
    let given = customer.given(&world, &spec, json!({"pay_by": after(12)})).await?;
    customer.send(&world, &given, CAP - 1).await?;
    let ends = given.terms()?.deposit.reserveDeadline.to::<i64>();
    let outcome = world.outcome(&given.payment_id).await?;
    assert_eq!(outcome.body["error"]["code"], "DEPOSIT_NOT_RECEIVED", "{outcome:?}");
    world.network.kill_gateway(0).await?;
    eventually(|| async { Utc::now().timestamp() > ends + 1 }).await?;
    customer.give_back(&world, &given).await?;
    for _ in 0..2 {
        customer.send(&world, &given, 1).await?;
        customer.give_back(&world, &given).await?;
    }
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    world.until(&given.payment_id, "EscrowRefunded").await?;
    let Some(PaymentEvent::EscrowRefunded(refunded)) = world.events(&given.payment_id, "EscrowRefunded").await?.pop()
    else {
        anyhow::bail!("{} was not given back", given.payment_id)
    };
    assert_eq!(refunded.amount.get(), U256::from(CAP - 1), "not the dust");
    assert_eq!(customer.returned(&world).await?, CAP + 1);
    world.audited(&given.payment_id).await?;

    // The money comes while nobody looks.
    let given = customer.given(&world, &world.spec_from_tron("came-meanwhile")?, json!({})).await?;
    world.network.kill_gateway(0).await?;
    customer.send(&world, &given, CAP).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    world.completed(&given.payment_id).await?;
    world.audited(&given.payment_id).await
}
