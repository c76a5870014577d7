//! Batches, end to end: one signature for many payments, each of which is delivered, or whose money comes back (ADR 158).

use std::{collections::BTreeSet, time::Duration};

use alloy::{
    primitives::{B256, Bytes, U256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, ensure};
use chrono::Utc;
use serde_json::{Value, json};

use devnet::{
    keys::Role,
    payer::{Answer, Payer, PaymentSpec},
};
use events::{
    PaymentEvent, PaymentId,
    event::{Authorization, BatchPermit},
};

use crate::support::*;

/// What the payer has of the token.
const TOKENS: u64 = 1_000_000_000;
const WEI: u64 = 1_000_000_000_000_000_000;
/// Less than any settler takes.
const TOO_LITTLE: u64 = AMOUNT / 2;
/// Who takes its money away.
const FICKLE: &str = "fickle";

/// Somebody with tokens that Permit2 may draw, and with nothing under way.
async fn payer(world: &World, seed: &str) -> Result<Payer> {
    let signer = PrivateKeySigner::from_bytes(&keccak256(seed))?;
    let (chain, account) = (&world.network.source, signer.address().to_string());
    chain.dev.fund(&account, U256::from(WEI)).await?;
    chain.dev.mint(&chain.token, &account, U256::from(TOKENS)).await?;
    chain.dev.approve(&signer, &chain.token, &chain.contracts.permit2, U256::MAX).await?;
    Payer::new(signer)
}

async fn held(world: &World, account: &str) -> Result<u64> {
    let chain = &world.network.source;
    Ok(chain.dev.token_balance(&chain.token, account).await?.to())
}

/// A batch of these payments, which are deposited within so many seconds.
fn batch(payer: &Payer, specs: &[PaymentSpec], within: u64) -> Result<Value> {
    let payments: Vec<Value> = specs.iter().map(|spec| payer.quote_request(spec)).collect();
    let until = u64::try_from(Utc::now().timestamp())? + within;
    Ok(json!({"payments": payments, "reserve_deadline": until}))
}

fn ids(answer: &Answer) -> Result<Vec<PaymentId>> {
    ensure!(answer.status == 200, "{answer:?}");
    let payments = answer.body["payments"].as_array().context("no payments")?;
    payments.iter().map(|each| Ok(each["payment_id"].as_str().context("no id")?.parse()?)).collect()
}

/// Whether each payment was there before; an error where one was refused.
fn replays(answer: &Answer) -> Result<Vec<bool>> {
    let payments = answer.body["payments"].as_array().context("no payments")?;
    let replay = |each: &Value| each["payment"]["idempotent_replay"].as_bool();
    payments.iter().map(|each| replay(each).with_context(|| format!("{each}"))).collect()
}

async fn permit(world: &World, payment_id: &PaymentId) -> Result<BatchPermit> {
    match world.events(payment_id, "Submitted").await?.remove(0) {
        PaymentEvent::Submitted(submitted) => match submitted.authorization {
            Authorization::EvmPermit2Batch(permit) => Ok(permit),
            other => anyhow::bail!("{other:?}"),
        },
        other => anyhow::bail!("{other:?}"),
    }
}

async fn is_made(world: &World, at: &str) -> Result<bool> {
    let code: Bytes = world.network.source.dev.rpc("eth_getCode", (at, "latest")).await?;
    Ok(!code.is_empty())
}

/// Waits until a payment that failed has its money back, and says how much that was.
async fn given_back(world: &World, payment_id: &PaymentId) -> Result<u64> {
    if let Err(error) = world.until(payment_id, "EscrowRefunded").await {
        return Err(error.context(format!("{:?}", world.types(payment_id).await?)));
    }
    match world.events(payment_id, "EscrowRefunded").await?.remove(0) {
        PaymentEvent::EscrowRefunded(refunded) => Ok(refunded.amount.get().to()),
        other => anyhow::bail!("{other:?}"),
    }
}

/// Three are delivered, two find no settler. The gateway dies as soon as they are accepted.
#[tokio::test(flavor = "multi_thread")]
async fn one_signature_pays_many_and_what_is_not_delivered_comes_back_in_one_call() -> Result<()> {
    let mut world = World::start(1).await?;
    let (base, payer) = (world.base(0), payer(&world, "payroll").await?);
    let spec = |n: usize| world.spec(&format!("wage-{n}"));
    let unsold = |n: usize| anyhow::Ok(PaymentSpec { cap: TOO_LITTLE.to_string().parse()?, ..spec(n)? });
    let specs = [spec(0)?, unsold(1)?, spec(2)?, spec(3)?, unsold(4)?];
    let body = payer.sign_batch(&base, batch(&payer, &specs, 45)?).await?;
    let answer = payer.submit_batch(&base, &body).await?;
    let ids = ids(&answer)?;
    assert_eq!(replays(&answer)?, [false; 5]);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 5);
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let again = payer.submit_batch(&base, &body).await?;
    assert_eq!(replays(&again)?, [true; 5], "the answer may have been lost");
    let paid = [0, 2, 3].map(|n: usize| ids[n].clone());
    for payment_id in &paid {
        world.completed(payment_id).await?;
    }
    world.settled_once(&paid).await?;
    let address = permit(&world, &ids[0]).await?.address.to_string();
    for payment_id in [&ids[1], &ids[4]] {
        assert_eq!(given_back(&world, payment_id).await?, TOO_LITTLE);
        let failed = world.outcome(payment_id).await?;
        assert_eq!(failed.body["error"]["code"], "NO_QUOTES_RECEIVED");
    }
    // All but the price is back, and each payment says how.
    assert_eq!((held(&world, &address).await?, held(&world, &payer.account()).await?), (0, TOKENS - 3 * PRICE));
    for payment_id in &ids {
        world.audited(payment_id).await?;
    }
    Ok(())
}

/// A batch of which nobody takes anything is never drawn, and nobody pays for it.
async fn never_drawn(world: &World, payer: &Payer) -> Result<()> {
    let base = world.base(0);
    let spec = |id: &str| anyhow::Ok(PaymentSpec { cap: TOO_LITTLE.to_string().parse()?, ..world.spec(id)? });
    let body = payer.sign_batch(&base, batch(payer, &[spec("one")?, spec("other")?], 20)?).await?;
    let ids = ids(&payer.submit_batch(&base, &body).await?)?;
    for payment_id in &ids {
        world.until(payment_id, "DepositRuledOut").await?;
        let types = world.types(payment_id).await?;
        assert!(!types.contains(&"RefundPrepared") && !types.contains(&"DepositPrepared"), "{types:?}");
        world.audited(payment_id).await?;
    }
    let address = permit(world, &ids[0]).await?.address.to_string();
    assert!(!is_made(world, &address).await?);
    assert_eq!(held(world, &payer.account()).await?, TOKENS);
    Ok(())
}

/// The payer takes the money away before the batch is drawn: nothing is delivered and nothing is lost.
async fn ended_by_its_payer(world: &World, payer: &Payer) -> Result<()> {
    let base = world.base(0);
    let specs = [world.spec("taken-1")?, world.spec("taken-2")?];
    let body = payer.sign_batch(&base, batch(payer, &specs, 20)?).await?;
    let (chain, signer) = (&world.network.source, PrivateKeySigner::from_bytes(&keccak256(FICKLE))?);
    let ids = ids(&payer.submit_batch(&base, &body).await?)?;
    chain.dev.send_token(&signer, &chain.token, &Role::Recipient.account(), U256::from(TOKENS)).await?;
    for payment_id in &ids {
        world.until(payment_id, "DepositRuledOut").await?;
        world.audited(payment_id).await?;
    }
    assert!(!is_made(world, permit(world, &ids[0]).await?.address.as_str()).await?);
    Ok(())
}

/// What is not what the payer signed is refused, and nothing of it is accepted.
async fn refused(world: &World, payer: &Payer) -> Result<()> {
    let base = world.base(0);
    let specs = [world.spec("first")?, world.spec("second")?];
    let body = payer.sign_batch(&base, batch(payer, &specs, 60)?).await?;
    let says = async |change: &dyn Fn(&mut Value), status: u16, text: &str| -> Result<()> {
        let mut altered = body.clone();
        change(&mut altered);
        let answer = payer.submit_batch(&base, &altered).await?;
        ensure!(answer.status == status && answer.text("message").contains(text), "{text}: {answer:?}");
        Ok(())
    };
    let other = "0x00000000000000000000000000000000000000aa";
    let message = "message must be";
    says(&|body| body["payments"][1]["destination"][0]["account"] = other.into(), 401, message).await?;
    says(&|body| body["payments"][0]["fulfillment_amount"] = "1".into(), 401, message).await?;
    says(&|body| body["payments"][0]["max_source_amount"] = "25500001".into(), 401, message).await?;
    says(&|body| body["payments"][0]["request_id"] = "third".into(), 401, message).await?;
    says(&|body| drop(body["payments"].as_array_mut().unwrap().pop()), 401, message).await?;
    says(&|body| body["reserve_deadline"] = json!(body["reserve_deadline"].as_u64().unwrap() - 1), 401, message)
        .await?;
    says(&|body| body["payments"][1]["request_id"] = "first".into(), 400, "payments[1].request_id: is that of").await?;
    says(&|body| body["payments"][1]["fulfillment_amount"] = "-1".into(), 400, "payments[1].fulfillment_amount: ")
        .await?;
    says(
        &|body| drop(body["payments"][1].as_object_mut().unwrap().remove("max_source_amount")),
        400,
        "payments[1].max_source_amount",
    )
    .await?;
    says(&|body| body["payments"][1]["source"]["account"] = other.into(), 400, "payments[1].source").await?;
    says(&|body| body["payments"] = json!([]), 400, "payments: must have 1 to 256").await?;
    says(&|body| body["sender_auth"]["message_scheme"] = "EVM_PERMIT2_ESCROW".into(), 400, "for a batch").await?;
    // What stands beside the payments is read for each of them.
    let many: Vec<Value> = (0..256).map(|n| json!({"request_id": format!("many-{n}")})).collect();
    let wide = json!({"payments": many, "note": "x".repeat(8_192), "sender_auth": body["sender_auth"]});
    let answer = payer.submit_batch(&base, &wide).await?;
    ensure!(answer.status == 413 && answer.text("message").contains("stands beside them"), "{answer:?}");
    let answer = payer.submit_batch(&base, &signed_by(&PrivateKeySigner::random(), &body)?).await?;
    ensure!(answer.status == 401 && answer.text("code") == "INVALID_SENDER_AUTH", "{answer:?}");
    // Alone it lacks its place in the tree.
    let alone = answer_of_one(world, payer, &body).await?;
    ensure!(alone.status == 401 && alone.text("message").contains("payload.batch is required"), "{alone:?}");
    let accepted = payer.submit_batch(&base, &body).await?;
    assert_eq!(replays(&accepted)?, [false; 2], "nothing was accepted before");
    for payment_id in ids(&accepted)? {
        world.completed(&payment_id).await?;
    }
    Ok(())
}

/// The first payment of a batch as it would be submitted alone, with the signature of all.
async fn answer_of_one(world: &World, payer: &Payer, body: &Value) -> Result<Answer> {
    let mut one = body["payments"][0].clone();
    one["sender_auth"] = body["sender_auth"].clone();
    payer.submit(&world.base(0), &one, Duration::ZERO).await
}

/// The same batch with somebody else's signature.
fn signed_by(signer: &PrivateKeySigner, body: &Value) -> Result<Value> {
    let mut body = body.clone();
    let signed = &mut body["sender_auth"]["signed_messages"][0];
    let message: B256 = signed["message"].as_str().context("no message")?.parse()?;
    signed["signature"] = signer.sign_hash_sync(&message)?.to_string().into();
    Ok(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_signed_is_refused_and_what_is_not_taken_costs_nothing() -> Result<()> {
    let world = World::start(1).await?;
    let (unsold, fickle) = (payer(&world, "unsold").await?, payer(&world, FICKLE).await?);
    let careful = payer(&world, "careful").await?;
    tokio::try_join!(never_drawn(&world, &unsold), ended_by_its_payer(&world, &fickle), refused(&world, &careful))?;
    Ok(())
}
