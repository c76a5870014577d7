//! Mandates, end to end: a payer signs once what a merchant may ask for, each payment is delivered or its money stays, and the payer ends it
//! when it likes (ADR 159).

use std::time::Duration;

use alloy::{
    primitives::{B256, Bytes, U256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use devnet::payer::{Answer, Payer, PaymentSpec};
use events::PaymentId;

use crate::support::*;

/// What a payer has of the token.
const TOKENS: u64 = 1_000_000_000;
const WEI: u64 = 1_000_000_000_000_000_000;
const DAY: u64 = 86_400;

/// A payer whose tokens Permit2 may draw, and a merchant.
struct Parties {
    payer: Payer,
    signer: PrivateKeySigner,
    merchant: PrivateKeySigner,
}

impl Parties {
    async fn new(world: &World, seed: &str) -> Result<Self> {
        let signer = PrivateKeySigner::from_bytes(&keccak256(seed))?;
        let (chain, account) = (&world.network.source, signer.address().to_string());
        chain.dev.fund(&account, U256::from(WEI)).await?;
        chain.dev.mint(&chain.token, &account, U256::from(TOKENS)).await?;
        chain.dev.approve(&signer, &chain.token, &chain.contracts.permit2, U256::MAX).await?;
        let merchant = PrivateKeySigner::from_bytes(&keccak256(format!("{seed}'s merchant")))?;
        Ok(Self { payer: Payer::new(signer.clone())?, signer, merchant })
    }

    /// A mandate for so many payments like `spec` in each of three days.
    fn mandate(&self, spec: &PaymentSpec, payments: u64) -> Value {
        let all = |each: U256| (each * U256::from(payments)).to_string();
        json!({
            "merchant": self.merchant.address(),
            "amount": all(spec.cap.get()),
            "least": all(spec.amount.get()),
            "period_seconds": DAY,
            "periods": 3,
            "salt": keccak256(&spec.request_id),
        })
    }

    async fn held(&self, world: &World) -> Result<u64> {
        let chain = &world.network.source;
        Ok(chain.dev.token_balance(&chain.token, &self.payer.account()).await?.to())
    }

    /// Has the payer send one of the calls that the gateway shows.
    async fn send(&self, world: &World, call: &Value) -> Result<()> {
        let text = |name: &str| call[name].as_str().with_context(|| format!("{call}"));
        let data: Bytes = text("data")?.parse()?;
        Ok(world.network.source.dev.call(&self.signer, text("to")?, data.to_vec(), U256::ZERO).await?)
    }
}

fn accepted(answer: &Answer) -> Result<PaymentId> {
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer.text("payment_id").parse()?)
}

/// The merchant asks twice a day, and the gateway dies as soon as it has accepted the first. What is over goes back to the payer, and does not
/// refill the day.
#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_is_paid_what_the_payer_signed_for_once_and_no_more_in_a_period() -> Result<()> {
    let mut world = World::start(1).await?;
    let (base, parties) = (world.base(0), Parties::new(&world, "subscriber").await?);
    let Parties { payer, merchant, .. } = &parties;
    let spec = |n: usize| world.spec(&format!("month-{n}"));
    let (first, second, third) = (spec(0)?, spec(1)?, spec(2)?);
    let prepared = payer.prepare_mandate(&base, &first, &parties.mandate(&first, 2)).await?;
    assert!(prepared.body.get("approval").is_none(), "{prepared:?}");
    let payload = payer.sign_mandate(&base, &first, &prepared).await?;
    let body = payer.charge(&base, merchant, &first, &payload).await?;
    let payment_id = accepted(&payer.submit(&base, &body, Duration::ZERO).await?)?;
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let again = payer.submit(&base, &body, Duration::ZERO).await?;
    assert_eq!((accepted(&again)?, &again.body["idempotent_replay"]), (payment_id.clone(), &json!(true)));
    world.completed(&payment_id).await?;
    // The payer's signature was taken: who brings it again does no harm, and nobody needs it.
    let bare = json!({"mandate": payload["mandate"]});
    let body = payer.charge(&base, merchant, &second, &bare).await?;
    let next = accepted(&payer.submit(&base, &body, Duration::ZERO).await?)?;
    world.completed(&next).await?;
    assert_eq!(parties.held(&world).await?, TOKENS - 2 * PRICE);
    let full = payer.charge(&base, merchant, &third, &payload).await.unwrap_err().to_string();
    assert!(full.contains("INSUFFICIENT_ALLOWANCE") && full.contains("to draw now 0 of"), "{full}");
    world.settled_once(&[payment_id.clone(), next.clone()]).await?;
    for payment_id in [&payment_id, &next] {
        world.audited(payment_id).await?;
    }
    Ok(())
}

/// What the merchant did not ask for, or the payer did not allow, is refused.
async fn refused(world: &World, parties: &Parties) -> Result<()> {
    let (base, spec, Parties { payer, merchant, .. }) = (world.base(0), world.spec("strict")?, parties);
    let prepared = payer.prepare_mandate(&base, &spec, &parties.mandate(&spec, 1)).await?;
    let payload = payer.sign_mandate(&base, &spec, &prepared).await?;
    let body = payer.charge(&base, merchant, &spec, &payload).await?;
    let says = async |change: &dyn Fn(&mut Value), text: &str| -> Result<()> {
        let mut altered = body.clone();
        change(&mut altered);
        let answer = payer.submit(&base, &altered, Duration::ZERO).await?;
        ensure!(answer.status == 401 && answer.text("message").contains(text), "{text}: {answer:?}");
        Ok(())
    };
    let other = "0x00000000000000000000000000000000000000aa";
    let message = |body: &mut Value, name: &str, to: Value| body["sender_auth"]["signed_messages"][0][name] = to;
    let mandate = |body: &mut Value, name: &str, to: Value| {
        body["sender_auth"]["signed_messages"][0]["payload"]["mandate"][name] = to;
    };
    // Another recipient is another mandate, for which the payer has not signed.
    says(&|body| body["destination"][0]["account"] = other.into(), "message.mandate").await?;
    says(&|body| mandate(body, "amount", "99000000".into()), "message.mandate").await?;
    says(&|body| mandate(body, "periods", json!(4)), "message.mandate").await?;
    says(&|body| mandate(body, "merchant", other.into()), "message.mandate").await?;
    says(&|body| mandate(body, "least", "1".into()), "message.mandate").await?;
    // Within the mandate it is the merchant who says what is paid.
    says(&|body| body["fulfillment_amount"] = (AMOUNT + 1).to_string().into(), "message.fulfillmentAmount").await?;
    says(&|body| body["max_source_amount"] = spec.amount.to_string().into(), "message.amount").await?;
    says(&|body| body["request_id"] = "another".into(), "message.paymentId").await?;
    says(&|body| body["fulfillment_amount"] = (AMOUNT - 1).to_string().into(), "fulfillment_amount must not be less")
        .await?;
    says(&|body| body["max_source_amount"] = "25500001".into(), "max_source_amount must be at most").await?;
    says(&|body| mandate(body, "begins", json!(4_000_000_000_u64)), "begins at").await?;
    says(&|body| message(body, "payload", json!({})), "payload.mandate is required").await?;
    let by_stranger = PrivateKeySigner::random().sign_hash_sync(&digest(&body)?)?.to_string();
    says(&|body| message(body, "signature", by_stranger.clone().into()), "signature").await?;
    let by_payer = parties.signer.sign_hash_sync(&digest(&body)?)?.to_string();
    says(&|body| message(body, "signature", by_payer.clone().into()), "signature").await?;
    let permit = |body: &mut Value, to: Value| body["sender_auth"]["signed_messages"][0]["payload"]["permit"] = to;
    says(&|body| permit(body, by_stranger.clone().into()), "payload.permit is not that of").await?;
    says(&|body| permit(body, json!(7)), "payload.permit must be a string").await?;
    // Nobody can make up a mandate of somebody else's.
    says(&|body| message(body, "payload", json!({"mandate": payload["mandate"]})), "payload.permit is missing").await?;
    let held = json!({"lock_seconds": 30});
    let mut short = parties.mandate(&spec, 1);
    short.as_object_mut().context("no object")?.extend(held.as_object().cloned().unwrap_or_default());
    let prepared = payer.prepare_mandate(&base, &spec, &short).await?;
    let signed = payer.sign_mandate(&base, &spec, &prepared).await?;
    let too_long = payer.charge(&base, merchant, &spec, &signed).await.unwrap_err().to_string();
    ensure!(too_long.contains("payload.refund_after must be at most"), "{too_long}");
    // Nothing of it was kept.
    world.completed(&accepted(&payer.submit(&base, &body, Duration::ZERO).await?)?).await?;
    for (name, to, says) in [
        ("salt", json!("0x00"), "mandate.salt: must be 0x followed by 64"),
        ("amount", json!("0"), "mandate.amount: "),
        ("merchant", json!("nobody"), "mandate.merchant: "),
        ("period_seconds", json!(0), "mandate.period_seconds: must be 1 to"),
        ("least", json!("-1"), "mandate.least: "),
        ("periods", json!(u64::MAX), "mandate.periods: must be 1 to"),
    ] {
        let mut asked = parties.mandate(&spec, 1);
        asked[name] = to;
        let answer = payer.prepare_mandate(&base, &spec, &asked).await?;
        ensure!(answer.status == 400 && answer.text("message").contains(says), "{says}: {answer:?}");
    }
    Ok(())
}

fn digest(body: &Value) -> Result<B256> {
    Ok(body["sender_auth"]["signed_messages"][0]["message"].as_str().context("no message")?.parse()?)
}

/// A payer that signs nothing gives the allowance by its own call, and ends the mandate by another.
async fn by_calls(world: &World, parties: &Parties) -> Result<()> {
    let (base, Parties { payer, merchant, .. }) = (world.base(0), parties);
    let (first, late) = (world.spec("by-call-1")?, world.spec("by-call-2")?);
    let prepared = payer.prepare_mandate(&base, &first, &parties.mandate(&first, 2)).await?;
    let bare = json!({"mandate": prepared.body["mandate"]});
    let early = payer.charge(&base, merchant, &first, &bare).await.unwrap_err().to_string();
    ensure!(early.contains("INSUFFICIENT_ALLOWANCE"), "{early}");
    parties.send(world, &prepared.body["allowance"]).await?;
    // Who proved nothing is told for a moment what was so.
    eventually(|| async { payer.charge(&base, merchant, &first, &bare).await.is_ok() }).await?;
    let body = payer.charge(&base, merchant, &first, &bare).await?;
    let payment_id = accepted(&payer.submit(&base, &body, Duration::ZERO).await?)?;
    world.completed(&payment_id).await?;
    world.audited(&payment_id).await?;
    let body = payer.charge(&base, merchant, &late, &bare).await?;
    parties.send(world, &prepared.body["cancel"]["call"]).await?;
    let answer = payer.submit(&base, &body, Duration::ZERO).await?;
    ensure!(answer.status == 400 && answer.text("code") == "NONCE_ALREADY_USED", "{answer:?}");
    Ok(())
}

/// The payer ends the mandate after a payment was accepted: nothing is delivered, and nothing is drawn.
async fn ended_meanwhile(world: &World, parties: &Parties) -> Result<()> {
    let (base, spec, Parties { payer, merchant, .. }) = (world.base(0), world.spec("too-late")?, parties);
    let prepared = payer.prepare_mandate(&base, &spec, &parties.mandate(&spec, 1)).await?;
    let payload = payer.sign_mandate(&base, &spec, &prepared).await?;
    let body = payer.charge(&base, merchant, &spec, &payload).await?;
    let payment_id = accepted(&payer.submit(&base, &body, Duration::ZERO).await?)?;
    parties.send(world, &prepared.body["cancel"]["call"]).await?;
    let outcome = world.outcome(&payment_id).await?;
    ensure!(outcome.body["status"] == "failed", "{outcome:?}");
    ensure!(parties.held(world).await? == TOKENS, "something was drawn");
    world.audited(&payment_id).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_asked_for_or_not_allowed_is_refused_and_an_end_is_an_end() -> Result<()> {
    let world = World::start(1).await?;
    let (strict, by_call) = (Parties::new(&world, "strict").await?, Parties::new(&world, "by-call").await?);
    let fickle = Parties::new(&world, "fickle").await?;
    tokio::try_join!(refused(&world, &strict), by_calls(&world, &by_call), ended_meanwhile(&world, &fickle))?;
    Ok(())
}
