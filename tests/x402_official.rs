//! x402 with the official packages of examples/x402: a shop is paid across chains by a buyer and by people with a browser,
//! the facilitator client understands every answer, and nothing is paid twice.

use std::{fs, process::Stdio};

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use devkit::{Process, free_port, tools};
use devnet::{
    keys::Role,
    shop::{self, PRICE_UNITS, Purchase, Shop},
};
use events::PaymentId;

use crate::support::*;

/// Runs a test file of examples/x402 on this network, in which as many tests as `count` have to pass.
async fn node_tests(world: &World, file: &str, count: usize, environment: &[(&str, &str)]) -> Result<()> {
    let mut command = shop::node(&world.network, &Purchase::new(&world.network));
    command
        // What hangs is named.
        .args(["--test", "--test-reporter=tap", "--test-timeout=300000"])
        .arg(shop::home().join(file))
        .env("BUYER_KEY", Role::Payer.secret_hex())
        .envs(environment.iter().copied());
    passed(command, count).await
}

/// Runs Node's test runner and checks that as many tests as there are have passed.
async fn passed(mut command: Command, count: usize) -> Result<()> {
    let output = command.output().await?;
    let report = String::from_utf8_lossy(&output.stdout);
    let all = report.lines().any(|line| line == format!("# pass {count}"));
    ensure!(
        output.status.success() && all,
        "not {count} passed:\n{report}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[tokio::test]
async fn neither_the_scheme_nor_the_buyer_believes_a_liar() -> Result<()> {
    let mut command = Command::new("node");
    let files =
        ["client", "server", "express", "solana", "store", "types", "paywall", "page", "deliver", "install", "readme"];
    let tests = shop::home().join("packages/gw-escrow/test");
    command
        .args(["--test", "--test-reporter=tap"])
        .args(files.map(|file| tests.join(format!("{file}.test.js"))))
        .args(["buyer", "stock"].map(|file| shop::home().join(format!("test/{file}.test.js"))))
        .kill_on_drop(true);
    passed(command, 76).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_facilitator_client_understands_every_answer() -> Result<()> {
    let world = World::start(1).await?;
    let directory = TempDir::new()?;
    let made = directory.path().join("made");
    let before = world.balances().await?;
    x402_conforms("live", &format!("{}/x402/v1", world.base(0))).await?;
    let made_at = made.to_str().context("a path is not a text")?;
    node_tests(&world, "test/facilitator.test.js", 8, &[("MADE", made_at)]).await?;

    let payments: Vec<PaymentId> = fs::read_to_string(made)?.lines().map(str::parse).collect::<Result<_, _>>()?;
    ensure!(payments.len() == 4, "{payments:?}");
    for payment_id in &payments {
        world.until(payment_id, "EscrowReleased").await?;
    }
    world.settled_once(&payments).await?;
    let after = world.balances().await?;
    assert_eq!(after["recipient"] - before["recipient"], U256::from(PRICE_UNITS) * U256::from(payments.len()));
    assert_eq!(after["escrow"], before["escrow"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_pays_on_one_chain_and_the_shop_is_paid_on_another() -> Result<()> {
    let world = World::start(1).await?;
    let purchase = Purchase::new(&world.network);
    let shop = Shop::start(&world.network, &purchase).await?;
    let ledger = world.network.options().directory.join("buyer.jsonl");
    let before = world.balances().await?;
    x402_conforms("resource", &shop.url).await?;

    let bought = shop::buy(&world.network, &purchase, &shop.url, &ledger).await?;
    assert_eq!(bought.status, 200, "{bought:?}");
    assert_eq!(bought.title, "Paid across chains");
    assert_eq!(bought.receipt["network"], world.network.destination.id().as_str());
    let after = world.balances().await?;
    assert_eq!(after["recipient"] - before["recipient"], U256::from(PRICE_UNITS));
    world.until(&bought.payment_id, "EscrowReleased").await?;
    world.settled_once(&[bought.payment_id]).await?;

    node_tests(&world, "test/shop.test.js", 2, &[("SHOP_URL", &shop.url)]).await?;
    let end = world.balances().await?;
    assert_eq!(end["recipient"] - after["recipient"], U256::from(PRICE_UNITS));

    // People with a browser, whose screenshots are in target/browser: seven purchases, and a payment that fails.
    let rpc = world.network.source.anvil.url();
    let environment = [("SHOP_URL", shop.url.as_str()), ("EVM_RPC_URL", rpc.as_str())];
    let paywall = node_tests(&world, "test/paywall.test.js", 10, &environment).await;
    paywall.context("see target/browser for what the page showed last")?;
    let paid = world.balances().await?;
    assert_eq!(paid["recipient"] - end["recipient"], U256::from(PRICE_UNITS) * U256::from(7));
    Ok(())
}

/// The shop that a document shows.
fn shop_of(document: &str) -> Result<&str> {
    let (_, shown) = document.split_once("```js\n").context("no shop is shown")?;
    Ok(shown.split_once("```").context("the block does not end")?.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_of_the_documents_is_paid() -> Result<()> {
    let world = World::start(1).await?;
    let purchase = Purchase::new(&world.network);
    // The merchants' page shows the shop of the example, to the letter.
    let readme = fs::read_to_string(shop::home().join("README.md"))?;
    let page = fs::read_to_string(tools::root().join("docs/merchants.md"))?;
    let shown = shop_of(&readme)?;
    ensure!(shop_of(&page)? == shown, "docs/merchants.md shows another shop than examples/x402/README.md");
    let (directory, port) = (&world.network.options().directory, free_port()?);
    let payments = directory.join("payments.jsonl");
    let changes = [
        ("http://127.0.0.1:8080", world.base(0)),
        ("payments.jsonl", payments.to_string_lossy().into_owned()),
        ("\"0x…\"", format!("\"{}\"", Role::Recipient.account())),
        ("4021", port.to_string()),
    ];
    let mut script = shown.to_owned();
    for (written, here) in &changes {
        ensure!(script.contains(written), "the shop of the documents lacks {written}");
        script = script.replace(written, here);
    }
    let mut command = Command::new("node");
    command.args(["--input-type=module", "--eval", &script]).current_dir(shop::home());
    let mut shop = Process::spawn("readme", &mut command, &directory.join("readme.log"))?;
    shop.listening_on(port).await?;

    let before = world.balances().await?;
    let url = format!("http://127.0.0.1:{port}/article");
    shop::buy(&world.network, &purchase, &url, &directory.join("buyer.jsonl")).await?;
    let after = world.balances().await?;
    assert_eq!(after["recipient"] - before["recipient"], U256::from(PRICE_UNITS));
    ensure!(fs::read_to_string(payments)?.contains("servedAt"), "the shop does not remember the payment");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_and_a_shop_that_are_killed_go_on_with_the_same_payment() -> Result<()> {
    let world = World::start(1).await?;
    let purchase = Purchase::new(&world.network);
    let mut shop = Shop::start(&world.network, &purchase).await?;
    let ledger = world.network.options().directory.join("buyer.jsonl");
    let before = world.balances().await?;

    let mut buyer = shop::buyer(&world.network, &purchase, &shop.url, &ledger).stdout(Stdio::null()).spawn()?;
    let signed = || async { fs::read_to_string(&ledger).is_ok_and(|text| text.ends_with('\n')) };
    eventually(signed).await?;
    let record: Value = serde_json::from_str(fs::read_to_string(&ledger)?.trim())?;
    let payment_id: PaymentId = record["value"]["paymentId"].as_str().context("a payment")?.parse()?;
    world.until(&payment_id, "Submitted").await?;
    buyer.kill().await?;
    shop.kill().await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");

    shop.restart(&world.network).await?;
    let bought = shop::buy(&world.network, &purchase, &shop.url, &ledger).await?;
    assert_eq!(bought.payment_id, payment_id);
    assert_eq!(bought.receipt["extensions"]["gw"]["idempotentReplay"], true);
    let after = world.balances().await?;
    assert_eq!(after["recipient"] - before["recipient"], U256::from(PRICE_UNITS));
    // It is settled now, so the next page costs again.
    let next = shop::buy(&world.network, &purchase, &shop.url, &ledger).await?;
    ensure!(next.payment_id != payment_id, "one payment was taken for two pages");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_buyer_or_the_shop_may_be_on_solana() -> Result<()> {
    let world = World::with_solana(|options| options).await?;
    let solana = world.solana()?;
    let purchases = [Purchase::from_solana(&world.network, solana)?, Purchase::to_solana(&world.network, solana)?];
    let before = world.holdings().await?;
    for (n, purchase) in purchases.iter().enumerate() {
        let shop = Shop::start(&world.network, purchase).await?;
        let ledger = world.network.options().directory.join(format!("buyer-{n}.jsonl"));
        let bought = shop::buy(&world.network, purchase, &shop.url, &ledger).await?;
        assert_eq!(bought.receipt["network"], purchase.receive_network.as_str());
        world.until(&bought.payment_id, "EscrowReleased").await?;
    }
    // Ten basis points more than the price are the cheapest settler's.
    let (price, charged) = (i128::from(PRICE_UNITS), 1_501_500);
    let moved = moves(&before, &world.holdings().await?);
    assert_eq!((moved["payer"], moved["evm recipient"]), (-charged, price));
    assert_eq!((moved["evm payer"], moved["recipient"]), (-charged, price));
    Ok(())
}
