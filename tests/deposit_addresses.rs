//! Payers who sign nothing, end to end: they have an exchange send the money to an address, and whatever comes there is delivered or
//! comes back.

use std::time::Duration;

use alloy::{
    primitives::{Address, B256, U256, keccak256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use anyhow::{Context, Result, ensure};
use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

use chains_evm::{deposit_addresses, minimal_proxy::implementation};
use devnet::payer::{Answer, Payer, PaymentSpec};
use escrow_abi::deposit_addresses::{DepositAddresses, GatewayEscrow};
use events::{PaymentEvent, PaymentId};

use crate::support::*;

/// The most that a payment may cost, which is what has to be sent.
const CAP: u64 = 25_500_000;
/// What an exchange has of the token.
const TOKENS: u64 = 1_000_000_000;

/// Somebody whose money lies at an exchange, which sends it where it is told to.
struct Customer {
    payer: Payer,
    exchange: PrivateKeySigner,
}

/// A payment that waits for its money.
struct Given {
    payment_id: PaymentId,
    quote_request_id: String,
    body: Value,
}

impl Given {
    fn of(quote_request_id: &str, answer: &Answer) -> Result<Self> {
        ensure!(answer.status == 200, "{answer:?}");
        let payment_id = answer.text("payment_id").parse()?;
        let body = answer.body["deposit_address"].clone();
        Ok(Self { payment_id, quote_request_id: quote_request_id.to_owned(), body })
    }

    fn text(&self, pointer: &str) -> Result<&str> {
        self.body.pointer(pointer).and_then(Value::as_str).with_context(|| format!("{pointer} of {}", self.body))
    }

    fn terms(&self) -> Result<DepositAddresses::Terms> {
        let seconds = |name: &str| self.body["terms"]["deposit"][name].as_u64().unwrap_or_default();
        Ok(DepositAddresses::Terms {
            escrow: self.text("/terms/escrow")?.parse()?,
            token: self.text("/terms/token")?.parse()?,
            amount: self.text("/terms/amount")?.parse()?,
            deposit: GatewayEscrow::GatewayDeposit {
                paymentId: self.text("/terms/deposit/payment_id")?.parse()?,
                termsHash: self.text("/terms/deposit/terms_hash")?.parse()?,
                quoteHash: self.text("/terms/deposit/quote_hash")?.parse()?,
                payer: self.text("/terms/deposit/payer")?.parse()?,
                reserver: self.text("/terms/deposit/reserver")?.parse()?,
                releaser: self.text("/terms/deposit/releaser")?.parse()?,
                reserveDeadline: seconds("reserve_deadline").try_into()?,
                fulfillmentDeadline: seconds("fulfillment_deadline").try_into()?,
                refundAfter: seconds("refund_after").try_into()?,
            },
        })
    }
}

impl Customer {
    async fn new(world: &World) -> Result<Self> {
        // All are endowed by one account, whose transactions have to follow each other.
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _turn = TURN.lock().await;
        let (exchange, source) = (PrivateKeySigner::random(), &world.network.source);
        let account = exchange.address().to_string();
        source.dev.mint(&source.token, &account, U256::from(TOKENS)).await?;
        source.dev.fund(&account, U256::from(10).pow(U256::from(18))).await?;
        Ok(Self { payer: Payer::new(PrivateKeySigner::random())?, exchange })
    }

    async fn open(&self, world: &World, spec: &PaymentSpec) -> Result<String> {
        let answer = self.payer.open(&world.base(0), &self.payer.quote_request(spec), false).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.text("quote_request_id").to_owned())
    }

    async fn given(&self, world: &World, spec: &PaymentSpec, options: Value) -> Result<Given> {
        let id = self.open(world, spec).await?;
        Given::of(&id, &self.payer.deposit_address(&world.base(0), &id, &options).await?)
    }

    async fn send(&self, world: &World, given: &Given, amount: u64) -> Result<()> {
        let source = &world.network.source;
        let (to, amount) = (given.text("/address")?, U256::from(amount));
        Ok(source.dev.send_token(&self.exchange, &source.token, to, amount).await?)
    }

    /// What has come back to the refund account.
    async fn returned(&self, world: &World) -> Result<u64> {
        let source = &world.network.source;
        Ok(source.dev.token_balance(&source.token, &self.payer.account()).await?.to())
    }

    async fn at(&self, world: &World, given: &Given) -> Result<u64> {
        let source = &world.network.source;
        Ok(source.dev.token_balance(&source.token, given.text("/address")?).await?.to())
    }
}

fn after(seconds: u64) -> String {
    (Utc::now() + Duration::from_secs(seconds)).to_rfc3339_opts(SecondsFormat::Secs, true)
}

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

/// Exactly what was asked for, in two transfers, from an account that nobody knows.
async fn in_two_transfers(world: &World) -> Result<PaymentId> {
    let (customer, spec) = (Customer::new(world).await?, world.spec("two-transfers")?);
    let given = customer.given(world, &spec, json!({})).await?;
    verified(world, &customer, &given, &spec).await?;
    let waiting = customer.payer.status(&world.base(0), given.payment_id.as_str()).await?;
    assert_eq!((waiting.text("status"), &waiting.body["deposit_address"]), ("pending", &given.body), "{waiting:?}");
    customer.send(world, &given, CAP - 1).await?;
    // The same question has the same answer.
    let again = customer.payer.deposit_address(&world.base(0), &given.quote_request_id, &json!({})).await?;
    assert_eq!((&again.body["idempotent_replay"], &again.body["deposit_address"]), (&json!(true), &given.body));
    customer.send(world, &given, 1).await?;
    world.completed(&given.payment_id).await?;
    assert_eq!((customer.returned(world).await?, customer.at(world, &given).await?), (CAP - PRICE, 0));
    let ended = customer.payer.status(&world.base(0), given.payment_id.as_str()).await?;
    assert_eq!(ended.body["deposit_address"]["received"], CAP.to_string(), "{ended:?}");
    Ok(given.payment_id)
}

/// More than was asked for goes into escrow, and what is over comes back with the release; what comes after that anybody sends back.
async fn too_much_and_twice(world: &World) -> Result<PaymentId> {
    let (customer, spec) = (Customer::new(world).await?, world.spec("too-much")?);
    let given = customer.given(world, &spec, json!({"amount": CAP.to_string(), "pay_by": after(60)})).await?;
    customer.send(world, &given, 2 * CAP).await?;
    world.completed(&given.payment_id).await?;
    let Some(PaymentEvent::EscrowSecured(secured)) = world.events(&given.payment_id, "EscrowSecured").await?.pop()
    else {
        anyhow::bail!("{} was not deposited", given.payment_id)
    };
    assert_eq!(secured.amount.get(), U256::from(2 * CAP));
    assert_eq!(customer.returned(world).await?, 2 * CAP - PRICE);
    customer.send(world, &given, CAP).await?;
    let source = &world.network.source;
    let give_back = DepositAddresses::giveBackCall { t: given.terms()?, token: source.token.parse()? }.abi_encode();
    let factory = deposit_addresses::factory().to_string();
    source.dev.call(&customer.exchange, &factory, give_back, U256::ZERO).await?;
    assert_eq!((customer.returned(world).await?, customer.at(world, &given).await?), (3 * CAP - PRICE, 0));
    Ok(given.payment_id)
}

/// Waits until the gateway has brought back what is at the address.
async fn given_back(world: &World, customer: &Customer, given: &Given, amount: u64, code: &str) -> Result<PaymentId> {
    let outcome = world.outcome(&given.payment_id).await?;
    assert_eq!((outcome.text("status"), &outcome.body["error"]["code"]), ("failed", &json!(code)), "{outcome:?}");
    assert_eq!(customer.at(world, given).await?, amount);
    world.until(&given.payment_id, "EscrowRefunded").await?;
    assert_eq!((customer.returned(world).await?, customer.at(world, given).await?), (amount, 0));
    let types = world.types(&given.payment_id).await?;
    assert_eq!(types.iter().filter(|event| **event == "AddressHeld").count(), 1, "{types:?}");
    Ok(given.payment_id.clone())
}

async fn too_little(world: &World) -> Result<PaymentId> {
    let (customer, spec) = (Customer::new(world).await?, world.spec("too-little")?);
    let given = customer.given(world, &spec, json!({"pay_by": after(12)})).await?;
    customer.send(world, &given, CAP - 1).await?;
    given_back(world, &customer, &given, CAP - 1, "DEPOSIT_NOT_RECEIVED").await
}

/// The money is there, and nobody delivers for it.
async fn no_quotes(world: &World) -> Result<PaymentId> {
    let customer = Customer::new(world).await?;
    // Less than any settler takes.
    let spec = PaymentSpec { cap: (AMOUNT / 2).to_string().parse()?, ..world.spec("no-quotes")? };
    let given = customer.given(world, &spec, json!({"pay_by": after(12)})).await?;
    customer.send(world, &given, AMOUNT / 2).await?;
    given_back(world, &customer, &given, AMOUNT / 2, "NO_QUOTES_RECEIVED").await
}

/// Nobody pays, and so nothing happens.
async fn nothing(world: &World) -> Result<PaymentId> {
    let (customer, spec) = (Customer::new(world).await?, world.spec("nothing")?);
    let given = customer.given(world, &spec, json!({"pay_by": after(12)})).await?;
    world.until(&given.payment_id, "DepositRuledOut").await?;
    let types = world.types(&given.payment_id).await?;
    assert_eq!(types, ["Submitted", "Failed", "DepositRuledOut"]);
    Ok(given.payment_id)
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
        in_two_transfers(&world),
        too_much_and_twice(&world),
        too_little(&world),
        no_quotes(&world),
        nothing(&world),
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
    let customer = Customer::new(&world).await?;
    let given = customer.given(&world, &world.spec("died")?, json!({})).await?;
    world.network.kill_gateway(0).await?;
    customer.send(&world, &given, CAP).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    world.completed(&given.payment_id).await?;
    assert_eq!(customer.returned(&world).await?, CAP - PRICE);
    world.settled_once(std::slice::from_ref(&given.payment_id)).await
}
