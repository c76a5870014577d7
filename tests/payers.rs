//! Payers of every kind that EVM chains have, end to end: each asks what to sign, signs it, and submits it.

use std::time::Duration;

use alloy::{
    primitives::{Address, U256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use anyhow::{Result, ensure};
use chrono::{SecondsFormat, Utc};
use reqwest::Client;
use serde_json::{Value, json};

use devnet::{keys::Role, payer::Payer};
use escrow_abi::{contracts::DevAccountFactory, signature::Wrapped};
use events::PaymentId;

use crate::support::*;

/// Who pays, by which scheme, and how it signs.
struct Case<'a> {
    request_id: &'a str,
    account: &'a str,
    scheme: &'a str,
    signer: &'a PrivateKeySigner,
    wrap: Option<&'a dyn Fn(Vec<u8>) -> Vec<u8>>,
}

async fn post(url: String, body: &Value) -> Result<Value> {
    let response = Client::new().post(url).header("prefer", "wait=0").json(body).send().await?;
    let (status, body): (_, Value) = (response.status(), response.json().await?);
    ensure!(status.is_success(), "{status}: {body}");
    Ok(body)
}

/// Prepares, signs, verifies and submits.
async fn pay(world: &World, case: Case<'_>) -> Result<PaymentId> {
    let (spec, now) = (world.spec(case.request_id)?, Utc::now());
    let after = |window: Duration| (now + window).to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut body = json!({
        "version": "1.0",
        "request_id": case.request_id,
        "source": {"asset_identifier": spec.source, "account": case.account},
        "destination": [{"asset_identifier": spec.destination, "account": spec.recipient}],
        "fulfillment_amount": spec.amount,
        "max_source_amount": spec.cap,
        "quote_deadline": after(spec.quote_window),
        "fulfillment_deadline": after(spec.fulfillment_window),
        "message_scheme": case.scheme,
    });
    let base = world.base(0);
    let prepared = post(format!("{base}/v1/payments/prepare"), &body).await?;
    let mut message = prepared["signed_messages"][0].clone();
    let digest = message["message"].as_str().unwrap_or_default().parse()?;
    let signature = case.signer.sign_hash_sync(&digest)?.as_bytes().to_vec();
    let signature = case.wrap.map_or(signature.clone(), |wrap| wrap(signature));
    message["signature"] = format!("0x{}", hex::encode(signature)).into();
    body["sender_auth"] = json!({"message_scheme": prepared["message_scheme"], "signed_messages": [message]});

    let verified = post(format!("{base}/v1/payments/verify"), &body).await?;
    assert_eq!((&verified["valid"], verified.get("status")), (&json!(true), None));
    let submitted = post(format!("{base}/v1/payments"), &body).await?;
    assert_eq!(submitted["payment_id"], prepared["payment_id"]);
    assert_eq!(submitted["payment_id"], verified["payment_id"]);
    Ok(submitted["payment_id"].as_str().unwrap_or_default().parse()?)
}

/// A world whose gateway takes permits without a witness, which is off unless the operator says so.
async fn trusting() -> Result<World> {
    let mut world = World::start(1).await?;
    world.network.kill_gateway(0).await?;
    let path = world.network.options().directory.join("gateway-1.toml");
    let mut config: Value = toml::from_str(&std::fs::read_to_string(&path)?)?;
    let is_evm = |chain: &&mut Value| chain["chain_id"].as_str().is_some_and(|id| id.starts_with("eip155:"));
    for chain in config["chains"].as_array_mut().into_iter().flatten().filter(is_evm) {
        chain["permit2_without_witness"] = true.into();
    }
    std::fs::write(&path, toml::to_string(&config)?)?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    Ok(world)
}

async fn completes(world: &World, payments: &[PaymentId]) -> Result<()> {
    for payment_id in payments {
        let outcome = world.outcome(payment_id).await?;
        assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(payments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_pays_under_both_schemes() -> Result<()> {
    let world = trusting().await?;
    let mut payments = Vec::new();
    for scheme in ["EVM_PERMIT2", "EVM_PERMIT2_ESCROW"] {
        let account = Role::Payer.account();
        let signer = &Role::Payer.signer();
        let case = Case { request_id: scheme, account: &account, scheme, signer, wrap: None };
        payments.push(pay(&world, case).await?);
    }
    completes(&world, &payments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn contract_accounts_pay_deployed_or_not() -> Result<()> {
    let world = trusting().await?;
    let source = &world.network.source;
    let (token, permit2) = (&source.token, &source.contracts.permit2);
    let factory = source.dev.deploy_account_factory().await?;
    let mut payments = Vec::new();
    for (scheme, deployed) in
        [("EVM_PERMIT2", true), ("EVM_PERMIT2", false), ("EVM_PERMIT2_ESCROW", true), ("EVM_PERMIT2_ESCROW", false)]
    {
        let signer = &PrivateKeySigner::random();
        let owner = format!("{:#x}", signer.address());
        let account = source.dev.account_of(&factory, &owner, token, permit2).await?;
        // The cap has to be there, though the price alone is drawn.
        let cap: U256 = world.spec("order-1")?.cap.get();
        source.dev.mint(token, &account, cap).await?;
        if deployed {
            source.dev.deploy_account(&factory, &owner, token, permit2).await?;
        }
        let (factory, token, spender): (Address, _, _) = (factory.parse()?, token.parse()?, permit2.parse()?);
        let factory_call = DevAccountFactory::deployCall { owner: signer.address(), token, spender }.abi_encode();
        let wrap = |signature: Vec<u8>| {
            Wrapped { factory, factory_call: factory_call.clone().into(), signature: signature.into() }.encode()
        };
        let wrap: Option<&dyn Fn(Vec<u8>) -> Vec<u8>> = if deployed { None } else { Some(&wrap) };
        let case = Case { request_id: "order-1", account: &account, scheme, signer, wrap };
        let payment_id = pay(&world, case).await?;
        completes(&world, std::slice::from_ref(&payment_id)).await?;
        assert_eq!(source.dev.token_balance(&source.token, &account).await?, cap - U256::from(PRICE));
        payments.push(payment_id);
    }
    world.settled_once(&payments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_can_be_read_at_once_at_every_gateway() -> Result<()> {
    let world = World::start(2).await?;
    let payer: &Payer = &world.payer;
    for n in 0..10 {
        let body = payer.sign(&world.base(0), &world.spec(&format!("read-{n}"))?).await?;
        let answer = payer.submit(&world.base(0), &body, Duration::ZERO).await?;
        ensure!(answer.status == 200, "{answer:?}");
        let payment_id = answer.text("payment_id");
        let (own, other) = (world.base(0), world.base(1));
        let (own, other) = tokio::join!(payer.status(&own, payment_id), payer.status(&other, payment_id));
        for read in [own?, other?] {
            assert_eq!(read.status, 200, "{read:?}");
            assert!(matches!(read.text("status"), "pending" | "finalizing"), "{read:?}");
        }
        for read in ["timeline", "events"] {
            let url = format!("{}/v1/payments/{payment_id}/{read}", world.base(1));
            assert_eq!(Client::new().get(url).send().await?.status(), 200, "{read}");
        }
        let resolved =
            format!("{}/v1/payments/resolve?request_id=read-{n}&account={}", world.base(1), Role::Payer.account());
        let resolved: Value = Client::new().get(resolved).send().await?.json().await?;
        assert_eq!(resolved["payment_id"], payment_id);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_stream_outlives_its_nats_server() -> Result<()> {
    let mut world = World::start(1).await?;
    let payment_id = world.submit(&world.spec("streamed")?).await?;
    let url = format!("{}/v1/payments/{payment_id}/events", world.base(0));
    let mut response = Client::new().get(url).send().await?;
    let mut text = String::new();
    let mut restarted = false;
    let streamed = async {
        while let Some(chunk) = response.chunk().await? {
            text += std::str::from_utf8(&chunk)?;
            if !restarted && text.contains("\"event\":\"DepositPrepared\"") {
                restarted = true;
                world.network.nats.kill().await?;
                world.network.nats.restart().await?;
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, streamed).await??;
    let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let types: Vec<String> = text
        .lines()
        .filter_map(|line| Some(serde_json::from_str::<Value>(line.strip_prefix("data: ")?)))
        .map(|entry| Ok(entry?["event"].as_str().unwrap_or_default().to_owned()))
        .collect::<Result<_>>()?;
    assert_eq!(types, world.types(&payment_id).await?);
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert_eq!(types.last().map(String::as_str), Some("EscrowReleased"));
    assert!(restarted);
    Ok(())
}
