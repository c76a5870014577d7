//! Stock clients of x402, end to end: what they sign for one chain pays a merchant on another.

use std::time::Duration;

use alloy::{
    primitives::{Address, B256, U256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use anyhow::{Context, Result, bail, ensure};
use chrono::Utc;
use serde_json::{Value, json};

use chains_evm::offers;
use devnet::{
    keys::Role,
    payer::Answer,
    stock_shop::{self, Language, PAID, PaidOn, StockShop, TOKENS},
};
use escrow_abi::{
    contracts::DevStablecoin,
    eip712::{self, TransferWithAuthorization, token_domain},
    offers::OfferAddresses,
};
use events::{PaymentEvent, PaymentId};

use crate::support::*;

/// All buyers are endowed by one account, whose transactions have to follow each other.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Somebody with a key and some of a token that takes signatures, and nothing else.
struct Buyer(PrivateKeySigner);

impl Buyer {
    async fn endowed(world: &World) -> Result<Self> {
        let _turn = TURN.lock().await;
        let (signer, source) = (PrivateKeySigner::random(), &world.network.source);
        source.dev.mint(&source.stablecoin, &signer.address().to_string(), U256::from(TOKENS)).await?;
        Ok(Self(signer))
    }

    async fn held(&self, world: &World) -> Result<u64> {
        let (source, account) = (&world.network.source, self.0.address().to_string());
        ensure!(source.dev.balance(&account).await?.is_zero(), "it has coins");
        Ok(source.dev.token_balance(&source.stablecoin, &account).await?.to())
    }

    /// What a stock client sends for a requirement, with what `change` makes of what it signs.
    fn pays_otherwise(
        &self,
        requirement: &Value,
        change: impl FnOnce(&mut TransferWithAuthorization),
    ) -> Result<Value> {
        let text = |pointer: &str| requirement.pointer(pointer).and_then(Value::as_str).context("no text");
        let now = u64::try_from(Utc::now().timestamp())?;
        let seconds = requirement["maxTimeoutSeconds"].as_u64().context("no time")?;
        let mut message = TransferWithAuthorization {
            from: self.0.address(),
            to: text("/payTo")?.parse()?,
            value: text("/amount")?.parse()?,
            validAfter: U256::ZERO,
            validBefore: U256::from(now + seconds),
            nonce: PrivateKeySigner::random().to_bytes(),
        };
        change(&mut message);
        let (_, reference) = text("/network")?.split_once(':').context("no chain")?;
        let domain = token_domain(
            text("/extra/name")?.to_owned(),
            text("/extra/version")?.to_owned(),
            reference.parse()?,
            text("/asset")?.parse()?,
        );
        let signature = self.0.sign_hash_sync(&eip712::digest(&message, &domain))?;
        let payload = json!({
            "signature": format!("0x{}", alloy::primitives::hex::encode(signature.as_bytes())),
            "authorization": {
                // As clients write them.
                "from": message.from.to_string(),
                "to": message.to.to_string(),
                "value": message.value.to_string(),
                "validAfter": message.validAfter.to_string(),
                "validBefore": message.validBefore.to_string(),
                "nonce": message.nonce.to_string(),
            },
        });
        let paid = json!({"x402Version": 2, "accepted": requirement, "payload": payload});
        Ok(json!({"x402Version": 2, "paymentPayload": paid, "paymentRequirements": requirement}))
    }

    fn pays(&self, requirement: &Value) -> Result<Value> {
        self.pays_otherwise(requirement, |_| ())
    }
}

/// A merchant's question for an offer.
fn asked(world: &World) -> Value {
    let (source, destination) = (&world.network.source, &world.network.destination);
    json!({
        "network": source.id(),
        "asset": source.stablecoin,
        "destination": {"network": destination.id(), "asset": destination.token, "address": Role::Recipient.account()},
        "fulfillmentAmount": AMOUNT.to_string(),
        "amount": PAID.to_string(),
    })
}

async fn post(world: &World, path: &str, body: &Value) -> Result<Answer> {
    let url = format!("{}/x402/v1/{path}", world.base(0));
    Answer::of(reqwest::Client::new().post(url).json(body).send().await?).await
}

async fn requirement(world: &World) -> Result<Value> {
    let answer = post(world, "offers", &asked(world)).await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer.body["requirement"].clone())
}

fn payment_id(answer: &Answer) -> Result<PaymentId> {
    let id = answer.body.pointer("/extensions/gw/paymentId").and_then(Value::as_str);
    Ok(id.with_context(|| format!("no payment in {answer:?}"))?.parse()?)
}

/// A shop of the stock packages alone, and buyers of them in two languages.
async fn stock_packages(world: &World) -> Result<Vec<PaymentId>> {
    let shop = StockShop::start(&world.network, PaidOn::Evm).await?;
    x402_conforms("resource", &shop.url).await?;
    let mut bought = Vec::new();
    for language in [Language::JavaScript, Language::Python] {
        bought.push(stock_buyer(world, &shop, language).await?);
    }
    Ok(bought)
}

async fn stock_buyer(world: &World, shop: &StockShop, language: Language) -> Result<PaymentId> {
    let (source, destination) = (&world.network.source, &world.network.destination);
    let bought = {
        let _turn = TURN.lock().await;
        stock_shop::buy(&world.network, PaidOn::Evm, &shop.url, language).await?
    };
    assert_eq!(bought.title, "Paid across chains");
    let receipt = &bought.receipt;
    let gw = &receipt["extensions"]["gw"];
    assert_eq!((&receipt["network"], &receipt["success"]), (&json!(source.id()), &json!(true)), "{receipt}");
    assert_eq!(receipt["transaction"], gw["transactions"]["deposit"]["transaction_hash"], "{receipt}");
    assert_eq!(gw["transactions"]["fulfillment"]["chain_id"], json!(destination.id()));
    world.completed(&bought.payment_id).await?;
    // What the settler left of it came back to the buyer by itself.
    let left = source.dev.token_balance(&source.stablecoin, &bought.account).await?;
    assert_eq!(left, U256::from(TOKENS - PRICE));
    Ok(bought.payment_id)
}

/// Two buyers of one offer at once: what they pay is told apart, and the same message twice is one payment.
async fn two_buyers(world: &World, requirement: &Value) -> Result<Vec<PaymentId>> {
    let (one, other) = (Buyer::endowed(world).await?, Buyer::endowed(world).await?);
    let (first, second) = (one.pays(requirement)?, other.pays(requirement)?);
    let verified = post(world, "verify", &first).await?;
    assert_eq!(verified.body["isValid"], true, "{verified:?}");
    assert_eq!(verified.body["payer"], format!("{:#x}", one.0.address()));
    let (settled, again, beside) =
        tokio::try_join!(post(world, "settle", &first), post(world, "settle", &first), post(world, "settle", &second))?;
    let ids = [payment_id(&settled)?, payment_id(&again)?, payment_id(&beside)?];
    assert_eq!((beside.status, &beside.body["success"]), (200, &json!(true)), "{beside:?}");
    // One signature buys once: what else is sent with it is told that it was used.
    let (told, not): (Vec<_>, Vec<_>) = [settled, again].into_iter().partition(|answer| answer.body["success"] == true);
    assert_eq!((told.len(), not.len()), (1, 1), "{told:?} {not:?}");
    assert_eq!(not[0].body["errorReason"], "duplicate_settlement", "{not:?}");
    let gw = &not[0].body["extensions"]["gw"];
    assert_eq!((&gw["state"], &gw["code"]), (&json!("completed"), &json!("DUPLICATE_SETTLEMENT")), "{not:?}");
    assert_eq!(ids[0], payment_id(&verified)?);
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
    for id in &ids {
        world.completed(id).await?;
    }
    assert_eq!((one.held(world).await?, other.held(world).await?), (TOKENS - PRICE, TOKENS - PRICE));
    refused(world, &first, "duplicate_settlement", "told before").await?;
    let verified = post(world, "verify", &first).await?;
    assert_eq!(verified.body["extensions"]["gw"]["state"], "completed", "{verified:?}");
    // Nor does it go by the payments API, where nobody would have signed whom to ask and for how long.
    let Some(PaymentEvent::Submitted(submitted)) = world.events(&ids[0], "Submitted").await?.pop() else {
        bail!("{} was not submitted", ids[0])
    };
    let mut request: Value = serde_json::from_str(&submitted.request)?;
    request["request_id"] = "another".into();
    let direct = reqwest::Client::new().post(format!("{}/v1/payments", world.base(0))).json(&request).send().await?;
    let direct = Answer::of(direct).await?;
    assert_eq!(direct.text("code"), "MESSAGE_SCHEME_NOT_SERVED", "{direct:?}");
    Ok(vec![ids[0].clone(), ids[2].clone()])
}

/// A merchant on the chain that is paid on is paid in the same way, so that one facilitator serves a shop wholly.
async fn on_one_chain(world: &World) -> Result<PaymentId> {
    let (buyer, source) = (Buyer::endowed(world).await?, &world.network.source);
    let (shop, mut here) = (format!("{:#x}", PrivateKeySigner::random().address()), asked(world));
    here["destination"] = json!({"network": source.id(), "asset": source.token, "address": shop});
    let mut offer = post(world, "offers", &here).await?;
    // Beside what the gateway reads there may stand what others do: by this a stock server settles before it makes the page.
    offer.body["requirement"]["extra"]["paymentFlow"] = "upfront".into();
    let settled = post(world, "settle", &buyer.pays(&offer.body["requirement"])?).await?;
    assert_eq!(settled.body["success"], true, "{settled:?}");
    assert_eq!(source.dev.token_balance(&source.token, &shop).await?, U256::from(AMOUNT));
    payment_id(&settled)
}

/// A merchant that asks after the signature's end, and was not told before, is told what became of it.
async fn asked_late(world: &World) -> Result<PaymentId> {
    let (buyer, mut short) = (Buyer::endowed(world).await?, asked(world));
    short["maxTimeoutSeconds"] = 10.into();
    let offer = post(world, "offers", &short).await?;
    let message = buyer.pays(&offer.body["requirement"])?;
    let url = format!("{}/x402/v1/settle", world.base(0));
    let request = reqwest::Client::new().post(url).header("prefer", "wait=0").json(&message);
    let pending = Answer::of(request.send().await?).await?;
    assert_eq!(pending.body["errorReason"], "settlement_pending", "{pending:?}");
    let payment_id = payment_id(&pending)?;
    world.completed(&payment_id).await?;
    let text = message["paymentPayload"]["payload"]["authorization"]["validBefore"].as_str().context("no end")?;
    let end: i64 = text.parse()?;
    eventually(|| async move { Utc::now().timestamp() > end }).await?;
    let settled = post(world, "settle", &message).await?;
    assert_eq!(settled.body["success"], true, "{settled:?}");
    Ok(payment_id)
}

/// Nobody delivers for so little, and so nothing is taken.
async fn no_quotes(world: &World) -> Result<PaymentId> {
    let buyer = Buyer::endowed(world).await?;
    let mut cheap = asked(world);
    cheap["amount"] = (AMOUNT / 2).to_string().into();
    let offer = post(world, "offers", &cheap).await?;
    let settled = post(world, "settle", &buyer.pays(&offer.body["requirement"])?).await?;
    assert_eq!(settled.body["errorReason"], "no_quotes_received", "{settled:?}");
    assert_eq!((&settled.body["success"], &settled.body["transaction"]), (&json!(false), &json!("")));
    assert_eq!(buyer.held(world).await?, TOKENS);
    payment_id(&settled)
}

async fn refused(world: &World, message: &Value, reason: &str, says: &str) -> Result<()> {
    for (path, named) in [("verify", ["invalidReason", "invalidMessage"]), ("settle", ["errorReason", "errorMessage"])]
    {
        let answer = post(world, path, message).await?;
        let [found, text] = named.map(|name| answer.text(name).to_owned());
        ensure!(found == reason && text.contains(says), "{reason}, {says}: {answer:?}");
    }
    Ok(())
}

/// What is not just what the merchant offered, or not just what the buyer signed.
async fn what_does_not_fit_is_refused(world: &World, requirement: &Value) -> Result<()> {
    let buyer = Buyer::endowed(world).await?;
    let stranger = format!("{:#x}", PrivateKeySigner::random().address());
    // The offer's address commits to each of its members, so what changes one of them asks for payment to another.
    for (pointer, value) in [
        ("/amount", json!("25250001")),
        ("/extra/gw/fulfillmentAmount", json!("1")),
        ("/extra/gw/destination/address", json!(stranger)),
        ("/extra/gw/merchant", json!(stranger)),
        ("/extra/gw/deliverySeconds", json!(61)),
        ("/extra/gw/refundSeconds", json!(1_000_000)),
        ("/payTo", json!(stranger)),
    ] {
        let mut other = requirement.clone();
        *other.pointer_mut(pointer).context("no such member")? = value;
        refused(world, &buyer.pays(&other)?, "invalid_payment_requirements", "payTo: must be").await?;
    }
    for (pointer, value, says) in [
        ("/extra/gw/escrow", json!(stranger), "escrow"),
        ("/extra/gw/reserver", json!(stranger), "reserver"),
        ("/extra/gw/releaser", json!(stranger), "releaser"),
        ("/extra/gw/refundSeconds", json!(1), "refundSeconds: must be at least"),
        ("/extra/name", json!(null), "extra.name"),
    ] {
        let mut other = requirement.clone();
        *other.pointer_mut(pointer).context("no such member")? = value;
        let mut message = buyer.pays(requirement)?;
        message["paymentPayload"]["accepted"] = other.clone();
        message["paymentRequirements"] = other;
        refused(world, &message, "invalid_payment_requirements", says).await?;
    }
    let signed = |change: fn(&mut TransferWithAuthorization)| buyer.pays_otherwise(requirement, change);
    let less = signed(|message| message.value -= U256::from(1))?;
    refused(world, &less, "invalid_sender_auth", "message.value").await?;
    let elsewhere = signed(|message| message.to = Address::repeat_byte(7))?;
    refused(world, &elsewhere, "invalid_sender_auth", "message.to").await?;
    let another = signed(|message| message.from = Address::repeat_byte(7))?;
    refused(world, &another, "invalid_sender_auth", "signature is not that of").await?;
    let over = signed(|message| message.validBefore = U256::from(1_600_000_000))?;
    refused(world, &over, "invalid_deadline", "quote_deadline").await?;
    let far = signed(|message| message.validBefore += U256::from(100_000_000))?;
    refused(world, &far, "invalid_deadline", "fulfillment_deadline").await?;
    let not_yet = signed(|message| message.validAfter = message.validBefore - U256::from(5))?;
    refused(world, &not_yet, "invalid_sender_auth", "validAfter").await?;
    let poor = Buyer(PrivateKeySigner::random()).pays(requirement)?;
    refused(world, &poor, "insufficient_funds", "source").await?;
    // A name that the token has not is signed in a domain that it does not know.
    let mut renamed = requirement.clone();
    renamed["extra"]["name"] = "Another".into();
    refused(world, &buyer.pays(&renamed)?, "invalid_sender_auth", "domain").await?;
    let mut broken = buyer.pays(requirement)?;
    broken["paymentPayload"]["payload"]["authorization"]["nonce"] = "0x12".into();
    refused(world, &broken, "invalid_payload", "nonce: must be").await?;
    assert_eq!(buyer.held(world).await?, TOKENS);
    Ok(())
}

/// Somebody brings what the buyer signed to the token, past the gateway: the merchant is paid on the chain that was paid on.
async fn brought_past_the_gateway(world: &World, requirement: &Value) -> Result<()> {
    let (buyer, source) = (Buyer::endowed(world).await?, &world.network.source);
    let message = buyer.pays(requirement)?;
    let authorization = &message["paymentPayload"]["payload"]["authorization"];
    let text = |name: &str| authorization[name].as_str().context("no text");
    let brought = DevStablecoin::transferWithAuthorization_0Call {
        from: text("from")?.parse()?,
        to: text("to")?.parse()?,
        value: text("value")?.parse()?,
        validAfter: text("validAfter")?.parse()?,
        validBefore: text("validBefore")?.parse()?,
        nonce: text("nonce")?.parse()?,
        signature: message["paymentPayload"]["payload"]["signature"].as_str().context("none")?.parse()?,
    };
    let stranger = PrivateKeySigner::random();
    source.dev.fund(&stranger.address().to_string(), U256::from(10).pow(U256::from(18))).await?;
    source.dev.call(&stranger, &source.stablecoin, brought.abi_encode(), U256::ZERO).await?;
    assert_eq!(buyer.held(world).await?, TOKENS - PAID);
    let settled = post(world, "settle", &message).await?;
    refused(world, &message, "nonce_already_used", "used up").await?;
    assert_eq!((&settled.body["success"], &settled.body["transaction"]), (&json!(false), &json!("")), "{settled:?}");
    let merchant = source.dev.token_balance(&source.stablecoin, &Role::Recipient.account()).await?;
    let collect =
        OfferAddresses::collectCall { o: offer(requirement)?, token: source.stablecoin.parse()? }.abi_encode();
    source.dev.call(&stranger, &offers::factory().to_string(), collect, U256::ZERO).await?;
    let collected = source.dev.token_balance(&source.stablecoin, &Role::Recipient.account()).await? - merchant;
    assert_eq!(collected, U256::from(PAID));
    Ok(())
}

/// The offer of a requirement, put together from what stands in it.
fn offer(requirement: &Value) -> Result<OfferAddresses::Offer> {
    let text = |pointer: &str| {
        requirement.pointer(pointer).and_then(Value::as_str).with_context(|| format!("{pointer} in {requirement}"))
    };
    let gw = |name: &str| text(&format!("/extra/gw/{name}"));
    let asset = |network: &str, asset: &str| format!("{network}/erc20:{}", asset.to_lowercase());
    let before = format!(
        r#"{{"destination":[{{"account":"{}","asset_identifier":"{}"}}],"fulfillment_amount":"{}","max_source_amount":"{}","source":{{"account":""#,
        gw("destination/address")?.to_lowercase(),
        asset(gw("destination/network")?, gw("destination/asset")?),
        gw("fulfillmentAmount")?,
        text("/amount")?,
    );
    let behind = format!(r#"","asset_identifier":"{}"}}}}"#, asset(text("/network")?, text("/asset")?));
    let seconds = |name: &str| -> Result<u32> {
        Ok(requirement["extra"]["gw"][name].as_u64().with_context(|| name.to_owned())?.try_into()?)
    };
    Ok(OfferAddresses::Offer {
        escrow: gw("escrow")?.parse()?,
        token: text("/asset")?.parse()?,
        amount: text("/amount")?.parse()?,
        reserver: gw("reserver")?.parse()?,
        releaser: gw("releaser")?.parse()?,
        merchant: gw("merchant")?.parse()?,
        deliverySeconds: seconds("deliverySeconds")?,
        refundSeconds: seconds("refundSeconds")?,
        termsBefore: before.into_bytes().into(),
        termsAfter: behind.into_bytes().into(),
    })
}

async fn not_offered(world: &World, change: impl FnOnce(&mut Value), says: &str) -> Result<()> {
    let mut asked = asked(world);
    change(&mut asked);
    let answer = post(world, "offers", &asked).await?;
    ensure!(answer.status == 400 && answer.text("message").contains(says), "{says}: {answer:?}");
    Ok(())
}

/// What the gateway says an offer's address is, the contract says and whoever asked computes.
async fn offers_are_what_their_addresses_commit_to(world: &World, requirement: &Value) -> Result<()> {
    let source = &world.network.source;
    let call = OfferAddresses::addressOfCall { o: offer(requirement)? }.abi_encode();
    let call = json!({"to": offers::factory(), "data": alloy::primitives::Bytes::from(call)});
    let said: B256 = source.dev.rpc("eth_call", (call, "latest")).await?;
    assert_eq!(requirement["payTo"], format!("{:#x}", Address::from_word(said)));
    assert_eq!(self::requirement(world).await?, *requirement, "the same question has the same answer");
    not_offered(world, |asked| asked["asset"] = source.token.as_str().into(), "takes no signed transfers").await?;
    not_offered(world, |asked| asked["asset"] = "0x01".into(), "asset: ").await?;
    not_offered(world, |asked| asked["network"] = "eip155:7".into(), "network: is not served").await?;
    not_offered(world, |asked| asked["destination"]["address"] = "me".into(), "destination.address: ").await?;
    not_offered(world, |asked| asked["fulfillmentAmount"] = "-1".into(), "fulfillmentAmount: ").await?;
    not_offered(world, |asked| asked["refundSeconds"] = 1.into(), "refundSeconds: must be at least").await?;
    not_offered(world, |asked| asked["maxTimeoutSeconds"] = 0.into(), "maxTimeoutSeconds: must be at least 10").await?;
    not_offered(world, |asked| asked["maxTimeoutSeconds"] = 9.into(), "maxTimeoutSeconds: must be at least 10").await?;
    not_offered(world, |asked| asked["maxTimeoutSeconds"] = 10_000_000.into(), "maxTimeoutSeconds: ").await?;
    not_offered(world, |asked| asked["deliverySeconds"] = 10_000_000.into(), "deliverySeconds: ").await?;
    not_offered(world, |asked| asked["refundSeconds"] = 4_000_000_000_u64.into(), "refundSeconds: ").await?;
    let proxy = world.network.destination.contracts.proxy.clone();
    let to_a_contract = |asked: &mut Value| {
        asked["merchant"] = Role::Recipient.account().into();
        asked["destination"]["address"] = proxy.into();
    };
    not_offered(world, to_a_contract, "destination.address: is ").await?;
    let escrow = source.contracts.escrow.as_str();
    not_offered(world, |asked| asked["merchant"] = escrow.into(), "merchant: is an escrow contract").await?;
    let no_price = |asked: &mut Value| drop(asked.as_object_mut().map(|members| members.remove("amount")));
    not_offered(world, no_price, "amount: is required").await
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_clients_pay_merchants_on_another_chain() -> Result<()> {
    let world = World::start(1).await?;
    let requirement = requirement(&world).await?;
    let before = world.balances().await?;
    let (bought, both, here, late, unsold, (), (), ()) = tokio::try_join!(
        stock_packages(&world),
        two_buyers(&world, &requirement),
        on_one_chain(&world),
        asked_late(&world),
        no_quotes(&world),
        what_does_not_fit_is_refused(&world, &requirement),
        brought_past_the_gateway(&world, &requirement),
        offers_are_what_their_addresses_commit_to(&world, &requirement),
    )?;
    let paid = [bought, vec![late], both].concat();
    world.settled_once(&paid).await?;
    let after = world.balances().await?;
    assert_eq!(after["recipient"] - before["recipient"], U256::from(AMOUNT * 5));
    for payment_id in paid.iter().chain([&here, &unsold]) {
        world.audited(payment_id).await?;
    }
    Ok(())
}

/// The gateway dies while a merchant waits: the payment goes on, and the identical call tells what came of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_dies_while_a_merchant_waits_goes_on_with_the_purchase() -> Result<()> {
    let mut world = World::start(1).await?;
    let (requirement, buyer) = (requirement(&world).await?, Buyer::endowed(&world).await?);
    let message = buyer.pays(&requirement)?;
    let verified = post(&world, "verify", &message).await?;
    let payment_id = payment_id(&verified)?;
    let (url, body) = (format!("{}/x402/v1/settle", world.base(0)), message.clone());
    let waiting = tokio::spawn(async move { reqwest::Client::new().post(url).json(&body).send().await.map(drop) });
    world.until(&payment_id, "QuoteAwarded").await?;
    world.network.kill_gateway(0).await?;
    ensure!(tokio::time::timeout(Duration::from_secs(30), waiting).await??.is_err(), "it was answered");
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let settled = post(&world, "settle", &message).await?;
    assert_eq!(settled.body["success"], true, "{settled:?}");
    assert_eq!(settled.body["extensions"]["gw"]["idempotentReplay"], true, "{settled:?}");
    world.completed(&payment_id).await?;
    assert_eq!(buyer.held(&world).await?, TOKENS - PRICE);
    world.settled_once(std::slice::from_ref(&payment_id)).await
}
