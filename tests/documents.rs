//! Examples of the documents, run against the gateway: those of README.md, of the manual in `docs/`, and
//! of the OpenAPI document.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use alloy::{primitives::B256, signers::SignerSync};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use devkit::tools;
use devnet::{keys::Role, payer::PaymentSpec};

use crate::support::*;

/// The address that the documents write for the gateway.
const WRITTEN: &str = "http://127.0.0.1:8080";
/// Where they have what is not the gateway: the tool that speaks Tron's API, which has tests of its own, nodes and verifiers of
/// operators, and services that sign.
const OTHERS: [&str; 4] = ["http://127.0.0.1:9090", "$RPC_URL", "$VERIFIER_ENDPOINT", "https://signer.internal"];

/// A document that shows calls or bodies.
struct Page {
    name: String,
    text: String,
}

/// README.md, then the pages of the manual in the order in which they are read.
fn pages() -> Result<Vec<Page>> {
    let docs = tools::root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md"))?;
    let named = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(page, _)| docs.join(page));
    let pages: Vec<PathBuf> = [tools::root().join("README.md")].into_iter().chain(named).collect();
    let read = |path: PathBuf| -> Result<Page> {
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        Ok(Page { name: path.display().to_string(), text })
    };
    pages.into_iter().map(read).collect()
}

impl Page {
    /// The fenced blocks in `language`.
    fn blocks(&self, language: &str) -> Vec<&str> {
        let fence = format!("```{language}\n");
        self.text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
    }

    /// The calls of the gateway, each in one line.
    fn calls(&self) -> Vec<String> {
        let commands = self.blocks("sh").into_iter().map(|block| block.replace("\\\n", " "));
        let lines = commands.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| line.starts_with("curl ") && !OTHERS.iter().any(|other| line.contains(other))).collect()
    }

    /// The payments that the page shows.
    fn payments(&self) -> Vec<Value> {
        let bodies = self.blocks("json").into_iter().filter_map(|block| serde_json::from_str::<Value>(block).ok());
        bodies.filter(|body| body.get("sender_auth").is_some()).collect()
    }
}

/// A body that has the members of `example` with this network's assets, signed by its payer.
async fn signed(world: &World, example: &Value, request_id: &str) -> Result<Value> {
    let text = |member: &str| example[member].as_str().with_context(|| format!("the example lacks {member}"));
    let spec = PaymentSpec {
        amount: text("fulfillment_amount")?.parse()?,
        cap: text("max_source_amount")?.parse()?,
        // The calls are made one after the other, and more than one of them has this body.
        quote_window: Duration::from_secs(60),
        // A deposit address takes its time.
        fulfillment_window: Duration::from_secs(600),
        ..world.spec(request_id)?
    };
    let signed = world.payer.sign(&world.base(0), &spec).await?;
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
async fn the_calls_and_bodies_of_the_documents_work() -> Result<()> {
    let world = World::start(1).await?;
    let directory = tempfile::tempdir()?;
    let pages = pages()?;
    // Every page shows the members that a payer sends; the calls are made with one of them.
    let mut body = None;
    for page in &pages {
        for shown in page.payments() {
            let signed = signed(&world, &shown, "from-the-documents").await.with_context(|| page.name.clone())?;
            body.get_or_insert(signed);
        }
    }
    let body = body.context("no page shows a payment")?;
    fs::write(directory.path().join("payment.json"), body.to_string())?;
    let mut quote_request = body;
    let members = quote_request.as_object_mut().context("a body")?;
    members.remove("sender_auth");
    fs::write(directory.path().join("quote-request.json"), quote_request.to_string())?;
    let mandate = json!({
        "version": quote_request["version"],
        "source": quote_request["source"],
        "destination": quote_request["destination"],
        "mandate": {
            "merchant": Role::Recipient.account(),
            "amount": "25500000",
            "least": "25000000",
            "period_seconds": 2_592_000,
            "periods": 12,
            "salt": B256::repeat_byte(7),
        },
    });
    fs::write(directory.path().join("mandate.json"), mandate.to_string())?;
    let (source, destination) = (&world.network.source, &world.network.destination);
    let recipient = Role::Recipient.account();
    let offer = json!({
        "network": source.id(),
        "asset": source.stablecoin,
        "destination": {"network": destination.id(), "asset": destination.token, "address": recipient},
        "fulfillmentAmount": "1500000",
        "amount": "1520000",
    });
    fs::write(directory.path().join("offer.json"), offer.to_string())?;

    // What earlier calls answered last, by the words that stand for it.
    let mut known = BTreeMap::<&str, String>::new();
    let mut calls = BTreeMap::<&str, usize>::new();
    for (page, line) in pages.iter().flat_map(|page| page.calls().into_iter().map(move |line| (page, line))) {
        let mut call = line.replace(WRITTEN, &world.base(0));
        for (word, value) in &known {
            call = call.replace(word, value);
        }
        let output = Command::new("sh").args(["-c", &call]).current_dir(directory.path()).output().await?;
        let answer: Value =
            serde_json::from_slice(&output.stdout).with_context(|| format!("{}: `{call}`: {output:?}", page.name))?;
        ensure!(answer.get("code").is_none(), "{}: `{call}` is answered with {answer}", page.name);
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
        *calls.entry(page.name.rsplit('/').next().unwrap_or_default()).or_default() += 1;
    }
    for page in
        ["README.md", "clients.md", "clients-tron.md", "clients-quotes.md", "clients-address.md", "merchants.md"]
    {
        ensure!(calls.contains_key(page), "{page} shows no call; these do: {calls:?}");
    }
    // The first page is README.md at the root; others have its name, too.
    let shown = pages[0].calls().len();
    ensure!(shown >= 3, "README.md shows {shown} calls");
    Ok(())
}
