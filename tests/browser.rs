//! The pages in a browser: Chromium with wallets of three families pays from the link to the receipt, through everything that can
//! come in between. The steps are the scripts in `web/test`; screenshots are in `target/browser`.

use std::path::Path;

use alloy::{
    primitives::{U256, keccak256},
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::tools;
use devnet::{
    keys::{self, Role},
    network::Options,
    solana::SolanaOptions,
    tron::TronOptions,
};
use events::Hash32;

use crate::support::*;

/// Tokens of each purse, smallest unit: for many payments.
const TOKENS: u64 = 10_000_000_000;
/// Coins of each purse, smallest unit: one, ten and ten thousand.
const WEI: u64 = 1_000_000_000_000_000_000;
const LAMPORTS: u64 = 10_000_000_000;
const SUN: u64 = 10_000_000_000;
/// Where Chromium is as a package; `CHROMIUM` names another.
const CHROMIUMS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// What is paid for: the body of a payment without what belongs to one attempt.
fn order(world: &World, source: &impl ToString, account: &str) -> Result<Value> {
    Ok(json!({
        "version": "1.0",
        "source": {"asset_identifier": source.to_string(), "account": account},
        "destination": [{
            "asset_identifier": world.network.destination.token()?,
            "account": Role::Recipient.account(),
        }],
        "fulfillment_amount": AMOUNT.to_string(),
        "max_source_amount": "25500000",
    }))
}

/// Node.js in a place where Chromium and what drives it are.
fn node() -> Result<Command> {
    let named = std::env::var("CHROMIUM").ok();
    let is_there = named.iter().map(String::as_str).chain(CHROMIUMS).any(|path| Path::new(path).exists());
    ensure!(is_there, "there is no Chromium: apt-get install chromium, or name one by CHROMIUM");
    let web = tools::root().join("web");
    let driver = web.join("node_modules/playwright-core");
    ensure!(driver.is_dir(), "the packages of web/ are missing; run web/build.sh --check");
    let mut command = Command::new("node");
    command.current_dir(web.join("test")).env("ARTEFACTS", tools::root().join("target/browser")).kill_on_drop(true);
    Ok(command)
}

/// Its test runner for these files, with what it needs to know of the network.
async fn node_tests(world: &World, files: &[&str]) -> Result<Command> {
    let chain = &world.network.source;
    let purse = PrivateKeySigner::from_bytes(&keccak256("a purse for browsers"))?;
    let account = purse.address().to_string();
    chain.dev.fund(&account, U256::from(WEI)).await?;
    chain.dev.mint(&chain.token, &account, U256::from(TOKENS)).await?;
    let mut command = node()?;
    command
        .args(["--test", "--test-reporter=tap"])
        .args(files)
        .env("GATEWAY_URL", world.base(0))
        .env("EVM_RPC_URL", chain.anvil.url())
        .env("EVM_KEY", purse.to_bytes().to_string())
        .env("EVM_ORDER", order(world, &chain.token()?, &account)?.to_string());
    Ok(command)
}

/// Runs them and checks that as many tests as there are have passed.
async fn passed(mut command: Command, count: usize) -> Result<()> {
    let output = command.output().await?;
    let report = String::from_utf8_lossy(&output.stdout);
    let all = report.lines().any(|line| line == format!("# pass {count}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && all, "not {count} passed:\n{report}\n{errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_pays_in_a_browser_through_everything_that_comes_in_between() -> Result<()> {
    let world = World::start(1).await?;
    passed(node_tests(&world, &["evm.test.mjs"]).await?, 15).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_show_a_payment_with_and_without_a_script_and_so_does_the_console() -> Result<()> {
    let world = World::with(|options| Options { console: true, ..options }).await?;
    passed(node_tests(&world, &["pages.test.mjs"]).await?, 4).await?;
    let ((url, token), mut looking) = (world.network.console("gateway-1")?, node()?);
    let looked = looking.arg("console.mjs").env("CONSOLE_URL", url).env("CONSOLE_TOKEN", token).output().await?;
    ensure!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
    Ok(())
}

/// Of what a gateway says in its own words: a hundred thousand payments, and everything that can go wrong.
#[tokio::test(flavor = "multi_thread")]
async fn operators_go_through_a_hundred_thousand_payments() -> Result<()> {
    let mut command = node()?;
    command.args(["--test", "--test-reporter=tap", "console.parts.test.mjs", "console.test.mjs"]);
    passed(command, 38).await
}

/// What the pages are made of, before gateways that the tests play.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_pages_are_made_of_does_as_it_says() -> Result<()> {
    let mut command = node()?;
    command.args([
        "--test",
        "--test-reporter=tap",
        "page.parts.test.mjs",
        "signatures.test.mjs",
        "address.test.mjs",
        "tron.test.mjs",
        "entrances.parts.test.mjs",
        "entrances.test.mjs",
    ]);
    passed(command, 56).await
}

#[tokio::test(flavor = "multi_thread")]
async fn wallets_on_solana_and_tron_pay_in_a_browser() -> Result<()> {
    let world = World::with(|options| Options {
        solana: Some(SolanaOptions::default()),
        tron: Some(TronOptions::default()),
        ..options
    })
    .await?;
    let mut command = node_tests(&world, &["families.test.mjs"]).await?;
    let (solana, key) = (world.solana()?, SigningKey::from_bytes(&Hash32::sha256("a purse for browsers").0));
    let account = keys::solana_account(&key);
    solana.surfnet.airdrop(&account, LAMPORTS).await?;
    solana.dev.mint(&solana.token, &account, TOKENS).await?;
    command
        .env("SOLANA_RPC_URL", solana.surfnet.url())
        .env("SOLANA_ESCROW", &solana.program)
        .env("SOLANA_KEY", json!(key.to_keypair_bytes().to_vec()).to_string())
        .env("SOLANA_ORDER", order(&world, &solana.token()?, &account)?.to_string());

    let (tron, key) = (world.tron()?, PrivateKeySigner::from_bytes(&keccak256("a purse for browsers"))?);
    let account = chains_tron::address::text(key.address());
    tron.dev.fund(&account, SUN).await?;
    tron.dev.mint(&tron.token, &account, U256::from(TOKENS)).await?;
    command
        .env("TRON_API_URL", tron.node.url())
        .env("TRON_KEY", hex::encode(key.to_bytes()))
        .env("TRON_ORDER", order(&world, &tron.token()?, &account)?.to_string());
    passed(command, 5).await.context("see target/browser for what the page showed last")
}
