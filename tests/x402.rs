//! The gateway as an x402 facilitator: merchants settle what payers signed, over real chains, and what is said about it
//! stands whatever happens to the gateways.

use std::{process::Stdio, time::Duration};

use alloy::{
    primitives::U256,
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

use devkit::tools;
use devnet::{
    keys::Role,
    payer::{Payer, PaymentSpec},
};
use escrow_abi::{contracts::DevAccountFactory, signature::Wrapped};
use events::{Did, PaymentId};

use crate::support::*;

const IDENTIFIER: &str = "pay_7d5d747be160e280504c099d984bcfe0";

/// A merchant who is paid on the destination chain.
struct Merchant {
    http: reqwest::Client,
    supported: Value,
}

/// What a facilitator answered.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    fn gw(&self, member: &str) -> &Value {
        &self.body["extensions"]["gw"][member]
    }

    fn payment_id(&self) -> Result<PaymentId> {
        Ok(self.gw("paymentId").as_str().context("no payment id")?.parse()?)
    }

    fn reason(&self) -> &str {
        self.body["errorReason"].as_str().unwrap_or_default()
    }
}

impl Merchant {
    async fn at(base: &str) -> Result<Self> {
        let http = reqwest::Client::builder().timeout(PATIENCE).build()?;
        let supported = http.get(format!("{base}/x402/v1/supported")).send().await?.error_for_status()?.json().await?;
        Ok(Self { http, supported })
    }

    /// What the merchant asks of a payer with `spec`, made of nothing but what the facilitator publishes.
    fn requirement(&self, spec: &PaymentSpec, timeout_seconds_max: u64) -> Result<Value> {
        let (source, destination) = (&spec.source, &spec.destination);
        let kinds = self.supported["kinds"].as_array().context("kinds")?;
        let kind = kinds.iter().find(|kind| kind["network"] == source.chain().as_str()).context("no such source")?;
        let gw = &kind["extra"]["gw"];
        let targets = gw["destinations"].as_array().context("destinations")?;
        let target =
            targets.iter().find(|to| to["network"] == destination.chain().as_str()).context("no such target")?;
        Ok(json!({
            "scheme": kind["scheme"],
            "network": kind["network"],
            "asset": source.reference(),
            "payTo": spec.recipient,
            "amount": spec.cap,
            "maxTimeoutSeconds": timeout_seconds_max,
            "extra": {"gw": {
                "destination": {
                    "network": target["network"],
                    "asset": destination.reference(),
                    "address": spec.recipient,
                },
                "fulfillmentAmount": spec.amount,
                "escrow": gw["escrow"],
                "fulfillmentProxy": target["fulfillmentProxy"],
                "reserver": gw["reserver"],
                "releaser": gw["releaser"],
                "fulfillmentVerifierEndpoint": gw["fulfillmentVerifierEndpoint"],
                "quoteDeadlineSeconds": spec.quote_window.as_secs(),
                "fulfillmentDeadlineSeconds": spec.fulfillment_window.as_secs(),
            }},
        }))
    }

    /// What the payer sends for `spec`, and the merchant passes on.
    async fn message(&self, world: &World, spec: &PaymentSpec, timeout_seconds_max: u64) -> Result<Value> {
        let requirement = self.requirement(spec, timeout_seconds_max)?;
        Ok(json!({
            "x402Version": 2,
            "paymentPayload": {
                "x402Version": 2,
                "resource": {"url": "https://shop.example/article"},
                "accepted": requirement,
                "payload": {"paymentRequest": world.payer.sign(&world.base(0), spec).await?},
            },
            "paymentRequirements": requirement,
        }))
    }

    async fn call(&self, base: &str, call: &str, message: &Value) -> Result<Answer> {
        let response = self.http.post(format!("{base}/x402/v1/{call}")).json(message).send().await?;
        let status = response.status().as_u16();
        let header = response.headers().get("payment-response").map(|value| BASE64.decode(value.as_bytes()));
        let text = response.text().await?;
        if let Some(header) = header {
            ensure!(header? == text.as_bytes(), "PAYMENT-RESPONSE is not the body: {text}");
        } else {
            ensure!(call != "settle", "no PAYMENT-RESPONSE: {text}");
        }
        Ok(Answer { status, body: serde_json::from_str(&text)? })
    }

    async fn settle(&self, base: &str, message: &Value) -> Result<Answer> {
        self.call(base, "settle", message).await
    }

    async fn verify(&self, base: &str, message: &Value) -> Result<Answer> {
        self.call(base, "verify", message).await
    }

    /// Settles the same again and again until it is settled one way or the other.
    async fn outcome(&self, base: &str, message: &Value) -> Result<Answer> {
        let asked = async {
            loop {
                let answer = self.settle(base, message).await?;
                if answer.status == 200 && answer.reason() != "settlement_pending" {
                    return Ok(answer);
                }
            }
        };
        timeout(PATIENCE, asked).await.context("no outcome")?
    }
}

fn identified(mut message: Value, identifier: &str) -> Value {
    message["paymentPayload"]["extensions"] =
        json!({"payment-identifier": {"info": {"required": true, "id": identifier}}});
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_is_paid_once_whatever_happens() -> Result<()> {
    let mut world = World::start(2).await?;
    let (one, two) = (world.base(0), world.base(1));
    let merchant = Merchant::at(&one).await?;
    let before = world.balances().await?;

    // Verified, and nothing came of it.
    let message = identified(merchant.message(&world, &world.spec("article-1")?, 60).await?, IDENTIFIER);
    let valid = merchant.verify(&one, &message).await?;
    assert_eq!((valid.status, &valid.body["isValid"]), (200, &json!(true)), "{valid:?}");
    assert_eq!(valid.body["payer"], world.payer.account());

    // Settled twice at the same instant, at two gateways.
    let (first, second) = tokio::join!(merchant.settle(&one, &message), merchant.settle(&two, &message));
    let (first, second) = (first?, second?);
    for answer in [&first, &second] {
        assert_eq!((answer.status, &answer.body["success"]), (200, &json!(true)), "{answer:?}");
        assert_eq!(answer.gw("state"), "completed");
        assert_eq!(answer.body["network"], world.network.destination.id().as_str());
    }
    let mut replays = [&first, &second].map(|answer| answer.gw("idempotentReplay") == true);
    replays.sort_unstable();
    assert_eq!(replays, [false, true]);
    assert_eq!(first.body["transaction"], second.body["transaction"]);
    assert_eq!(first.body["fulfillmentConfirmation"], first.gw("fulfillmentConfirmation").clone());
    let payment_id = first.payment_id()?;
    assert_eq!(second.payment_id()?, payment_id);
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(std::slice::from_ref(&payment_id)).await?;
    let after = world.balances().await?;
    assert_eq!(after["recipient"] - before["recipient"], U256::from(AMOUNT));

    // The confirmation is the payment's own, and the page opens.
    let url = first.gw("statusUrl").as_str().context("no statusUrl")?;
    let status: Value = merchant.http.get(url).send().await?.error_for_status()?.json().await?;
    assert_eq!(status["fulfillment_confirmation"], first.body["fulfillmentConfirmation"]);
    assert_eq!(status["transactions"]["fulfillment"]["transaction_hash"], first.body["transaction"]);
    let page = merchant.http.get(url).header("accept", "text/html,*/*;q=0.8").send().await?.error_for_status()?;
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    assert!(page.text().await?.contains(payment_id.as_str()));

    // Two payloads under one identifier at the same instant: one payment.
    let fresh = "pay_0123456789abcdef";
    let rivals = [
        identified(merchant.message(&world, &world.spec("article-2")?, 60).await?, fresh),
        identified(merchant.message(&world, &world.spec("article-3")?, 60).await?, fresh),
    ];
    let (left, right) = tokio::join!(merchant.settle(&one, &rivals[0]), merchant.settle(&two, &rivals[1]));
    let answers = [left?, right?];
    let winner = answers.iter().position(|answer| answer.status == 200).context("nobody won")?;
    assert_eq!((answers[winner].status, answers[1 - winner].status), (200, 409), "{answers:?}");
    assert_eq!(answers[1 - winner].reason(), "payment_identifier_conflict");
    assert_eq!(answers[1 - winner].body["transaction"], "");
    let paid = merchant.outcome(&two, &rivals[winner]).await?;
    assert_eq!(paid.body["success"], true, "{paid:?}");

    // Both stand when the gateway that answered is another process.
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let again = merchant.settle(&one, &message).await?;
    assert_eq!(again.body["fulfillmentConfirmation"], first.body["fulfillmentConfirmation"]);
    assert_eq!((again.gw("idempotentReplay"), again.payment_id()?), (&json!(true), payment_id));
    let conflict = merchant.settle(&one, &rivals[1 - winner]).await?;
    assert_eq!((conflict.status, conflict.reason()), (409, "payment_identifier_conflict"));
    let other = identified(merchant.message(&world, &world.spec("article-4")?, 60).await?, IDENTIFIER);
    assert_eq!(merchant.settle(&one, &other).await?.status, 409);
    assert!(world.types(&world.payer.payment_id("article-4")).await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_delivered_is_pending_and_then_failed() -> Result<()> {
    let world = World::start(1).await?;
    let base = world.base(0);
    let merchant = Merchant::at(&base).await?;
    let before = world.balances().await?;

    // A settler wins that never delivers, so that the money is in escrow and comes back.
    let stuck = PaymentSpec { fulfillment_window: Duration::from_secs(30), ..world.undeliverable_spec("stuck")? };
    let stuck = merchant.message(&world, &stuck, 1).await?;
    let pending = merchant.settle(&base, &stuck).await?;
    assert_eq!((pending.status, pending.reason()), (200, "settlement_pending"), "{pending:?}");
    let payment_id = pending.payment_id()?;
    world.until(&payment_id, "EscrowSecured").await?;
    let funded = merchant.settle(&base, &stuck).await?;
    assert_eq!((funded.reason(), &funded.body["transaction"]), ("settlement_pending", &json!("")), "{funded:?}");
    let status = world.payer.status(&base, payment_id.as_str()).await?;
    let deposit = &status.body["transactions"]["deposit"]["transaction_hash"];
    assert!(deposit.is_string(), "{status:?}");
    assert_eq!(&funded.gw("transactions")["deposit"]["transaction_hash"], deposit);
    assert_eq!(funded.gw("transactions")["deposit"]["chain_id"], world.network.source.id().as_str());
    let failed = merchant.outcome(&base, &stuck).await?;
    assert_eq!(failed.reason(), "settlement_failed", "{failed:?}");
    assert_eq!((&failed.body["success"], &failed.body["transaction"]), (&json!(false), &json!("")));
    assert_eq!(
        (failed.gw("state"), failed.gw("error")["code"].as_str()),
        (&json!("failed"), Some("SETTLEMENT_FAILED"))
    );
    let known = merchant.verify(&base, &stuck).await?;
    assert_eq!((&known.body["isValid"], &known.body["invalidReason"]), (&json!(false), &json!("settlement_failed")));
    world.until(&payment_id, "EscrowRefunded").await?;
    assert_eq!(world.balances().await?, before);

    // Nobody may quote.
    let stranger: Did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".parse()?;
    let unserved =
        PaymentSpec { whitelist: vec![stranger], quote_window: Duration::from_secs(3), ..world.spec("unserved")? };
    let unserved = merchant.message(&world, &unserved, 60).await?;
    let failed = merchant.outcome(&base, &unserved).await?;
    assert_eq!(failed.reason(), "no_quotes_received", "{failed:?}");
    assert_eq!(failed.gw("retryClassification"), "RETRY_WITH_NEW_REQUEST_ID");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_is_judged_by_what_it_holds_and_signed() -> Result<()> {
    let world = World::start(1).await?;
    let base = world.base(0);
    let merchant = Merchant::at(&base).await?;
    let source = &world.network.source;

    let reason = async |message: &Value| -> Result<String> {
        let answer = merchant.verify(&base, message).await?;
        ensure!(answer.status == 200 && answer.body["isValid"] == false, "{answer:?}");
        Ok(answer.body["invalidReason"].as_str().unwrap_or_default().to_owned())
    };
    // An account that was never used.
    let poor = Payer::new(PrivateKeySigner::random())?;
    let spec = world.spec("poor")?;
    let mut message = merchant.message(&world, &spec, 60).await?;
    message["paymentPayload"]["payload"]["paymentRequest"] = poor.sign(&base, &spec).await?;
    assert_eq!(reason(&message).await?, "insufficient_funds");
    source.dev.mint(&source.token, &poor.account(), "25499999".parse()?).await?;
    assert_eq!(reason(&message).await?, "insufficient_funds");
    source.dev.mint(&source.token, &poor.account(), "1".parse()?).await?;
    assert_eq!(reason(&message).await?, "insufficient_allowance");

    // A payment that the merchant did not ask for, well signed.
    let mut cheaper = merchant.message(&world, &world.spec("cheaper")?, 60).await?;
    let less = PaymentSpec { amount: "24999999".parse()?, ..world.spec("cheaper")? };
    cheaper["paymentPayload"]["payload"]["paymentRequest"] = world.payer.sign(&base, &less).await?;
    assert_eq!(reason(&cheaper).await?, "payment_requirements_mismatch");
    let answer = merchant.settle(&base, &cheaper).await?;
    assert_eq!((answer.status, answer.reason()), (200, "payment_requirements_mismatch"));
    // Changed after it was signed, on both sides.
    let mut forged = merchant.message(&world, &world.spec("forged")?, 60).await?;
    let other = Role::Settler(1).account();
    for at in ["/paymentPayload/accepted", "/paymentRequirements"] {
        let requirement = forged.pointer_mut(at).context("no requirement")?;
        requirement["payTo"] = json!(other);
        requirement["extra"]["gw"]["destination"]["address"] = json!(other);
    }
    forged["paymentPayload"]["payload"]["paymentRequest"]["destination"][0]["account"] = json!(other);
    assert_eq!(reason(&forged).await?, "invalid_sender_auth");
    assert_eq!(merchant.settle(&base, &forged).await?.reason(), "invalid_sender_auth");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn contract_accounts_are_judged_deployed_or_not() -> Result<()> {
    let world = World::start(1).await?;
    let base = world.base(0);
    let merchant = Merchant::at(&base).await?;
    let source = &world.network.source;
    let (token, permit2) = (&source.token, &source.contracts.permit2);
    let factory = source.dev.deploy_account_factory().await?;
    let spec = world.spec("by-contract")?;
    for deployed in [true, false] {
        let signer = PrivateKeySigner::random();
        let owner = format!("{:#x}", signer.address());
        let account = source.dev.account_of(&factory, &owner, token, permit2).await?;
        if deployed {
            source.dev.deploy_account(&factory, &owner, token, permit2).await?;
        }
        let mut body = Payer::new(signer.clone())?.quote_request(&spec);
        body["source"]["account"] = json!(account);
        // Nothing is prepared for whoever could not pay it.
        source.dev.mint(&source.token, &account, spec.cap.get()).await?;
        let prepared: Value =
            merchant.http.post(format!("{base}/v1/payments/prepare")).json(&body).send().await?.json().await?;
        let mut signed = prepared["signed_messages"][0].clone();
        let digest = signed["message"].as_str().context("nothing to sign")?.parse()?;
        let signature = signer.sign_hash_sync(&digest)?.as_bytes().to_vec();
        let (factory, token, spender) = (factory.parse()?, token.parse()?, permit2.parse()?);
        let call = DevAccountFactory::deployCall { owner: signer.address(), token, spender }.abi_encode();
        let wrap = || Wrapped { factory, factory_call: call.into(), signature: signature.clone().into() }.encode();
        let signature = if deployed { signature.clone() } else { wrap() };
        signed["signature"] = json!(format!("0x{}", hex::encode(signature)));
        body["sender_auth"] = json!({"message_scheme": prepared["message_scheme"], "signed_messages": [signed]});
        let mut message = merchant.message(&world, &spec, 60).await?;
        message["paymentPayload"]["payload"]["paymentRequest"] = body;

        let answer = merchant.verify(&base, &message).await?;
        assert_eq!((&answer.body["isValid"], &answer.body["payer"]), (&json!(true), &json!(account)), "{answer:?}");
        let paid = merchant.outcome(&base, &message).await?;
        assert_eq!(paid.body["success"], true, "{paid:?}");
    }
    Ok(())
}

/// The independent judge of facilitators, as `scripts/tools.sh test` provides it.
#[tokio::test(flavor = "multi_thread")]
async fn x402_conformance_finds_nothing() -> Result<()> {
    let world = World::start(1).await?;
    let directory = tempfile::tempdir()?;
    let mut command = Command::new("python3");
    command
        .args(["-m", "x402conf", "live", &format!("{}/x402/v1", world.base(0))])
        .env("PYTHONPATH", tools::root().join(".tools/x402-conformance"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.context("x402conf does not end")??;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&said)?;
    let checks = report["results"][0]["checks"].as_array().context("checks")?;
    let names: Vec<&str> = checks.iter().filter_map(|check| check["check"].as_str()?.split(' ').next()).collect();
    assert_eq!(names, ["S1", "S2", "S3", "S4"], "{said}");
    for check in checks.iter().filter(|check| check["pass"] != true) {
        // It knows two clusters of Solana, and a test's own is neither; its id is the chain's all the same.
        let own = |id: &Value| id.as_str().is_some_and(|id| id.starts_with("solana:") && id.len() == 39);
        let detail = &check["detail"];
        let unknown = detail["unrecognised_solana_ids"].as_array();
        let excused = check["check"].as_str().is_some_and(|name| name.starts_with("S3 "))
            && detail["v1_names_in_v2"] == json!([])
            && unknown.is_some_and(|ids| ids.iter().all(own));
        ensure!(excused, "{said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_is_paid_on_tron_in_tokens_and_in_trx() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (base, tron) = (world.base(0), world.tron()?);
    let merchant = Merchant::at(&base).await?;
    let kinds = merchant.supported["kinds"].as_array().context("kinds")?;
    assert!(kinds.iter().any(|kind| kind["network"] == tron.id().unwrap().as_str()), "{kinds:?}");
    let before = world.tron_holdings().await?;
    for spec in [world.spec_to_tron("tokens")?, world.spec_to_trx("trx")?] {
        let message = merchant.message(&world, &spec, 60).await?;
        let valid = merchant.verify(&base, &message).await?;
        assert_eq!((valid.status, &valid.body["isValid"]), (200, &json!(true)), "{valid:?}");
        let answer = merchant.outcome(&base, &message).await?;
        assert_eq!(
            (&answer.body["success"], answer.body["network"].as_str()),
            (&json!(true), Some(tron.id()?.as_str()))
        );
        world.until(&answer.payment_id()?, "EscrowReleased").await?;
        world.audited(&answer.payment_id()?).await?;
    }
    let moved = moves(&before, &world.tron_holdings().await?);
    let received = ["recipient", "recipient's sun"].map(|name| moved[name]);
    assert_eq!(received, [i128::from(AMOUNT), i128::from(tron::TRX_AMOUNT)]);
    Ok(())
}
