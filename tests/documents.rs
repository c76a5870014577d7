//! What the documents show a client, done against the running gateway: the examples of README.md and of the OpenAPI
//! document.

use std::{collections::BTreeMap, time::Duration};

use crate::support::*;
use alloy::{primitives::B256, signers::SignerSync};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};
use tokio::process::Command;

use devnet::{keys::Role, payer::Wish};

const README: &str = include_str!("../README.md");
/// The address that README.md writes for the gateway.
const WRITTEN: &str = "http://127.0.0.1:8080";

/// The fenced blocks of README.md in `language`.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    README.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// A body that has the members of `example` with this network's assets, signed by its payer.
async fn signed(world: &World, example: &Value, request_id: &str) -> Result<Value> {
    let text = |member: &str| example[member].as_str().with_context(|| format!("the example lacks {member}"));
    let wish = Wish {
        amount: text("fulfillment_amount")?.parse()?,
        cap: text("max_source_amount")?.parse()?,
        // The calls are made one after the other, and more than one of them has this body.
        quote_window: Duration::from_secs(60),
        ..world.wish(request_id)?
    };
    let signed = world.payer.sign(&world.base(0), &wish).await?;
    let names = |value: &Value| value.as_object().map(|members| members.keys().cloned().collect::<Vec<_>>());
    for pointer in ["", "/source", "/destination/0", "/sender_auth"] {
        let (shown, sent) = (example.pointer(pointer).and_then(names), signed.pointer(pointer).and_then(names));
        ensure!(shown == sent, "the example shows other members than a payer sends: {shown:?}, {sent:?}");
    }
    Ok(signed)
}

/// The `sender_auth` for what `prepare` answered.
fn signature(mut prepared: Value) -> Result<Value> {
    let members = prepared.as_object_mut().context("an object")?;
    members.remove("payment_id");
    for message in members["signed_messages"].as_array_mut().into_iter().flatten() {
        let digest: B256 = message["message"].as_str().context("message")?.parse()?;
        message["signature"] = Role::Payer.signer().sign_hash_sync(&digest)?.to_string().into();
    }
    Ok(prepared)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_openapi_document_is_a_payment() -> Result<()> {
    let world = World::start(1).await?;
    let document: Value = reqwest::get(format!("{}/openapi.json", world.base(0))).await?.json().await?;
    let body = &document["paths"]["/v1/payments"]["post"]["requestBody"]["content"]["application/json"];
    let body = signed(&world, &body["examples"]["plain"]["value"], "from-openapi").await?;
    let answer = world.payer.submit(&world.base(0), &body, Duration::from_secs(30)).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let outcome = world.outcome(&answer.text("payment_id").parse()?).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    // The documents that errors lead to are there, at the address that the errors give.
    let missing = reqwest::get(format!("{}/v1/payments/none/status", world.base(0))).await?;
    let error: Map<String, Value> = missing.json().await?;
    let page = reqwest::get(error["docs_url"].as_str().context("docs_url")?).await?.error_for_status()?;
    ensure!(page.text().await?.contains("id=\"PAYMENT_NOT_FOUND\""), "the page lacks the code");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_and_bodies_of_the_readme_work() -> Result<()> {
    let world = World::start(1).await?;
    let directory = tempfile::tempdir()?;
    let bodies: Vec<Value> = blocks("json").into_iter().filter_map(|block| serde_json::from_str(block).ok()).collect();
    let body = bodies.iter().find(|body| body.get("sender_auth").is_some()).context("README.md shows no payment")?;
    let body = signed(&world, body, "from-readme").await?;
    std::fs::write(directory.path().join("payment.json"), body.to_string())?;
    let mut quote_request = body;
    let members = quote_request.as_object_mut().context("a body")?;
    members.remove("sender_auth");
    std::fs::write(directory.path().join("quote-request.json"), quote_request.to_string())?;

    // What earlier calls answered last, by the words that stand for it.
    let mut known = BTreeMap::<&str, String>::new();
    let mut calls = 0;
    let commands = blocks("sh").into_iter().map(|block| block.replace("\\\n", " "));
    for line in commands.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()) {
        if !line.starts_with("curl ") {
            continue;
        }
        let mut call = line.replace(WRITTEN, &world.base(0));
        for (word, value) in &known {
            call = call.replace(word, value);
        }
        let output = Command::new("sh").args(["-c", &call]).current_dir(directory.path()).output().await?;
        let answer: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("`{call}`: {output:?}"))?;
        ensure!(answer.get("code").is_none(), "`{call}` is answered with {answer}");
        for (word, pointer) in
            [("pay_…", "/payment_id"), ("qrq_…", "/quote_request_id"), ("quo_…", "/quotes/0/quote_id")]
        {
            if let Some(value) = answer.pointer(pointer).and_then(Value::as_str) {
                known.insert(word, value.to_owned());
            }
        }
        if answer.get("signed_messages").is_some() {
            known.insert("{…}", signature(answer)?.to_string());
        }
        calls += 1;
    }
    ensure!(calls >= 3, "README.md shows {calls} calls");
    Ok(())
}
