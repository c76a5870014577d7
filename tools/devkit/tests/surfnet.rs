//! The Solana runtime as a development chain.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use devkit::Surfnet;

const ADDRESS: &str = "Stake11111111111111111111111111111111111112";
const PROGRAM: &str = "Gateway111111111111111111111111111111111111";
const WITHIN: Duration = Duration::from_secs(60);

async fn slot(chain: &Surfnet, commitment: &str) -> Result<u64> {
    let slot = chain.rpc("getSlot", json!([{"commitment": commitment}])).await?;
    slot.as_u64().context("a slot that is not a number")
}

/// Slot and UNIX second of the chain's clock.
async fn clock(chain: &Surfnet) -> Result<(u64, u64)> {
    let how = json!(["SysvarC1ock11111111111111111111111111111111", {"encoding": "jsonParsed"}]);
    let account = chain.rpc("getAccountInfo", how).await?;
    let number = |name: &str| account.pointer(&format!("/value/data/parsed/info/{name}")).and_then(Value::as_u64);
    number("slot").zip(number("unixTimestamp")).context("no clock")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Keeps the chain busy until its clock is within two seconds of the system's, and `ahead` of it. It never goes back.
async fn catches_up(chain: &Surfnet, ahead: u64, last: &mut (u64, u64)) -> Result<()> {
    let started = Instant::now();
    loop {
        chain.rpc("requestAirdrop", json!([ADDRESS, 1_000_000])).await?;
        let at = clock(chain).await?;
        ensure!(at.0 >= last.0 && at.1 >= last.1, "{last:?} became {at:?}");
        *last = at;
        if at.1.abs_diff(now() + ahead) <= 2 {
            return Ok(());
        }
        ensure!(started.elapsed() < WITHIN, "the clock shows {}, and it is {} and {ahead}", at.1, now());
    }
}

/// Stops the runtime until its clock is six seconds behind.
async fn stand_still(chain: &Surfnet, ahead: u64) -> Result<()> {
    let (_, at) = clock(chain).await?;
    chain.pause().await?;
    while now() + ahead < at + 6 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    chain.resume().await
}

#[tokio::test]
async fn each_chain_is_a_cluster_of_its_own_and_makes_slots() -> Result<()> {
    let (one, other) = tokio::try_join!(Surfnet::start(20), Surfnet::start(20))?;
    assert_ne!(one.genesis_hash(), other.genesis_hash());
    assert_ne!(one.url(), other.url());
    assert_eq!(one.chain_id().len(), "solana:".len() + 32);
    let before = slot(&one, "finalized").await?;
    let started = Instant::now();
    while slot(&one, "finalized").await? <= before + 3 {
        ensure!(started.elapsed() < WITHIN, "no slots are made");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test]
async fn it_goes_on_after_more_slots_than_it_keeps_events() -> Result<()> {
    let chain = Surfnet::start(5).await?;
    let started = Instant::now();
    // Slots may be skipped, and blocks are not.
    while chain.rpc("getBlockHeight", json!([{"commitment": "processed"}])).await?.as_u64() < Some(2_000) {
        ensure!(started.elapsed() < WITHIN, "it stands still");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test]
async fn money_programs_and_time_are_given_to_it() -> Result<()> {
    let chain = Surfnet::start(20).await?;
    chain.airdrop(ADDRESS, 5_000_000_000).await?;
    chain.write_program(PROGRAM, b"\x7fELF", ADDRESS).await?;
    let program = chain.rpc("getAccountInfo", json!([PROGRAM, {"encoding": "jsonParsed"}])).await?;
    let data = program.pointer("/value/data/parsed/info/programData").context("no program data")?.clone();
    let data = chain.rpc("getAccountInfo", json!([data, {"encoding": "jsonParsed"}])).await?;
    assert_eq!(data.pointer("/value/data/parsed/info/authority"), Some(&json!(ADDRESS)));

    let (_, now) = clock(&chain).await?;
    chain.travel_to(now + 3_600).await?;
    let (_, later) = clock(&chain).await?;
    assert!((now + 3_600..now + 3_660).contains(&later), "{now} became {later}");
    Ok(())
}

#[tokio::test]
async fn its_clock_keeps_pace_with_the_systems() -> Result<()> {
    let chain = Surfnet::start(20).await?;
    let mut last = clock(&chain).await?;
    stand_still(&chain, 0).await?;
    catches_up(&chain, 0, &mut last).await?;

    // What nobody meant to be ahead waits for its time: a chain that went on would stay as far ahead.
    chain.rpc("surfnet_timeTravel", json!([{"absoluteTimestamp": (now() + 6) * 1_000}])).await?;
    catches_up(&chain, 0, &mut last).await?;

    // What was, keeps its lead.
    chain.travel_to(now() + 3_600).await?;
    stand_still(&chain, 3_600).await?;
    catches_up(&chain, 3_600, &mut last).await?;
    let slot = slot(&chain, "processed").await?;
    let started = Instant::now();
    while clock(&chain).await?.0 <= slot {
        ensure!(started.elapsed() < WITHIN, "the chain stands still");
    }
    Ok(())
}

#[tokio::test]
async fn an_endpoint_that_is_stopped_refuses_and_the_chain_goes_on() -> Result<()> {
    let mut chain = Surfnet::start(20).await?;
    let client = reqwest::Client::new();
    let ask = || async {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "getGenesisHash"});
        anyhow::Ok(client.post(chain.url()).json(&body).send().await?.json::<Value>().await?)
    };
    assert_eq!(ask().await?.get("result"), Some(&json!(chain.genesis_hash())));
    let before = slot(&chain, "processed").await?;
    chain.stop().await?;
    let asked = client.post(chain.url()).send().await;
    assert!(asked.is_err(), "{asked:?}");
    let started = Instant::now();
    while slot(&chain, "processed").await? <= before {
        ensure!(started.elapsed() < WITHIN, "the chain stands still");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    chain.restart().await?;
    let answer: Value = client
        .post(chain.url())
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "getGenesisHash"}))
        .send()
        .await?
        .json()
        .await?;
    assert_eq!(answer.get("result"), Some(&json!(chain.genesis_hash())));
    Ok(())
}
