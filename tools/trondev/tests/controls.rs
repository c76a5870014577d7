//! The development controls, the clock, forks, and the program.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use trondev::{Blocks, Options, TronDev};

use crate::support::{LAG, Network, Party, TRX};

async fn control_refused(network: &Network, name: &str, body: Value) -> Result<String> {
    let (status, body) = network.post_bytes(&format!("dev/{name}"), body.to_string().into_bytes()).await?;
    ensure!(status == 400, "{status}: {body}");
    let body: Value = serde_json::from_str(&body)?;
    Ok(body["error"].as_str().context("an error")?.to_owned())
}

#[tokio::test]
async fn what_is_given_out_is_seen_everywhere_and_bounded() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 5).await?;
    network.mine(2).await?;
    let (hex, base58) = (alice.address.to_hex(), alice.address.to_base58());
    for path in ["wallet", "walletsolidity"] {
        assert_eq!(network.get(&format!("{path}/getaccount?address={hex}")).await?["balance"], 5);
        let shown = network.get(&format!("{path}/getaccount?address={base58}&visible=true")).await?;
        assert_eq!(shown["address"], base58);
        assert_eq!(shown["owner_permission"]["keys"][0]["address"], base58);
    }
    let more = json!({ "address": base58, "sun": i64::MAX - 5 });
    network.dev("fund", more).await?;
    assert_eq!(network.balance(alice.address).await?, i64::MAX);
    let other = Party::new(2).address.to_base58();
    let said = control_refused(&network, "fund", json!({ "address": other, "sun": 1 })).await?;
    assert!(said.contains("may not have more than"), "{said}");
    for body in [
        json!({ "address": other }),
        json!({ "sun": 1 }),
        json!({ "address": "T", "sun": 1 }),
        json!({ "address": other, "sun": -1 }),
        json!({ "address": other, "sun": 1.5 }),
    ] {
        control_refused(&network, "fund", body).await?;
    }
    control_refused(&network, "code", json!({ "address": other, "code": "" })).await?;
    control_refused(&network, "code", json!({ "address": other, "code": "6" })).await?;
    assert_eq!(network.post_bytes("dev/nothing", Vec::new()).await?.0, 404);
    assert_eq!(network.post_bytes("dev/status", Vec::new()).await?.0, 405);
    Ok(())
}

#[tokio::test]
async fn the_clock() -> Result<()> {
    let network = Network::start().await?;
    let before = network.get("dev/status").await?["unix_ms"].as_i64().context("a time")?;
    network.dev("mine", json!({ "blocks": 3, "apart_ms": 3_000 })).await?;
    let head = network.get("wallet/getnowblock").await?["block_header"]["raw_data"]["timestamp"].clone();
    let head = head.as_i64().context("a time")?;
    assert!(head >= before + 9_000);
    // Back to the head, where blocks still follow one another.
    network.dev("time", json!({ "unix_ms": head })).await?;
    network.mine(5).await?;
    let mut times = Vec::new();
    for number in 0..10 {
        let block = network.get(&format!("wallet/getblockbynum?num={number}")).await?;
        times.push(block["block_header"]["raw_data"]["timestamp"].as_i64().context("a time")?);
    }
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    control_refused(&network, "time", json!({ "unix_ms": head - 1 })).await?;
    control_refused(&network, "time", json!({ "unix_ms": i64::MAX })).await?;
    control_refused(&network, "time", json!({ "advance_ms": i64::MAX })).await?;
    control_refused(&network, "time", json!({})).await?;
    control_refused(&network, "mine", json!({ "blocks": 1_001 })).await?;
    control_refused(&network, "mine", json!({ "apart_ms": i64::MAX })).await?;
    Ok(())
}

#[tokio::test]
async fn a_fork_takes_away_what_is_not_solidified_and_no_more() -> Result<()> {
    let network = Network::start().await?;
    let (alice, bob) = (network.funded(1, 10 * TRX).await?, network.funded(2, 1).await?);
    network.mine(4).await?;
    let status = network.get("dev/status").await?;
    assert_eq!((&status["head"], &status["solidified"]), (&json!(5), &json!(5 - LAG)));

    let info = network.done(&alice, network.transfer(alice.address, bob.address, 7).await?).await?;
    let by_id = json!({ "value": info["id"] });
    let old = network.get("dev/status").await?["head_id"].clone();
    network.mine(2).await?;
    assert_eq!(network.balance(bob.address).await?, 8);
    assert_eq!(network.post("walletsolidity/gettransactioninfobyid", by_id.clone()).await?, json!({}));
    let said = control_refused(&network, "fork", json!({ "blocks": LAG + 1 })).await?;
    assert!(said.contains("only 3 blocks"), "{said}");

    network.dev("fork", json!({ "blocks": LAG, "drop_transactions": true })).await?;
    assert_eq!(network.balance(bob.address).await?, 1);
    assert_eq!(network.post("wallet/gettransactioninfobyid", by_id.clone()).await?, json!({}));
    let status = network.get("dev/status").await?;
    // What is solidified stays so: it does not move back with the head.
    assert_eq!((&status["head"], &status["solidified"]), (&json!(5), &json!(5)));
    assert_eq!(status["pending"], 0);
    network.mine(LAG + 1).await?;
    assert_eq!(network.post("wallet/getblockbyid", json!({ "value": old })).await?, json!({}));
    assert_eq!(network.post("wallet/gettransactioninfobyid", by_id).await?, json!({}));
    assert_eq!(network.balance(bob.address).await?, 1);
    assert_eq!(network.balance(alice.address).await?, 10 * TRX);
    Ok(())
}

#[tokio::test]
async fn what_waits_can_be_lost() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let sent = network.send(&alice, network.transfer(alice.address, Party::new(2).address, 1).await?).await?;
    let waiting = network.post("wallet/gettransactionfrompending", json!({ "value": sent["txid"] })).await?;
    assert_eq!(waiting["txID"], sent["txid"]);
    assert_eq!(network.get("wallet/gettransactionlistfrompending").await?["txId"], json!([sent["txid"]]));
    let dropped = network.dev("drop", json!({})).await?;
    assert_eq!(dropped["dropped"], json!([sent["txid"]]));
    network.mine(1).await?;
    let found = network.post("wallet/gettransactionbyid", json!({ "value": sent["txid"] })).await?;
    assert_eq!(found, json!({}));
    assert_eq!(network.balance(alice.address).await?, 10 * TRX);
    Ok(())
}

#[tokio::test]
async fn what_waits_can_be_shown() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 1_000 * TRX).await?;
    let contract = Party::new(9).address;
    // Asked with nothing it answers with what it keeps; else it keeps the block's number and 5.
    let code = "36600f5760005460005260206000f35b4360050160005500";
    network.dev("code", json!({ "address": contract.to_base58(), "code": code })).await?;
    let kept = async || -> Result<u8> {
        let (answer, _) = network.ask(alice.address, contract, &[]).await?;
        answer.first().and_then(|word| word.last()).copied().context("an answer")
    };
    network.send(&alice, network.trigger(alice.address, contract, 0, &[1]).await?).await?;
    assert_eq!(kept().await?, 0);
    network.dev("pending", json!({ "shown": true })).await?;
    assert_eq!(kept().await?, 5, "what waits is in no block");
    network.dev("pending", json!({ "shown": false })).await?;
    assert_eq!(kept().await?, 0);
    network.dev("pending", json!({ "shown": true })).await?;
    network.mine(1).await?;
    let head = network.get("dev/status").await?["head"].as_u64().context("a head")?;
    assert_eq!(u64::from(kept().await?), head + 5);
    Ok(())
}

#[tokio::test]
async fn blocks_by_the_clock_and_an_end_with_the_handle() -> Result<()> {
    let blocks = Blocks::Every(Duration::from_millis(10));
    let network = Network::with(Options { blocks, solidified_lag: 2, ..Options::default() }).await?;
    loop {
        let status = network.get("dev/status").await?;
        let (head, solidified) = (status["head"].as_u64(), status["solidified"].as_u64());
        if head >= Some(5) {
            assert_eq!(solidified, head.map(|head| head - 2));
            break;
        }
        tokio::task::yield_now().await;
    }
    let address = network.node.address();
    drop(network);
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

#[tokio::test]
async fn more_sun_than_there_can_be() {
    let alice = Party::new(1).address;
    let half = i64::MAX.unsigned_abs();
    let started = TronDev::start(Options { accounts: vec![(alice, half), (alice, 1)], ..Options::default() }).await;
    assert!(matches!(started, Err(trondev::StartError::TooMuch)));
}

#[tokio::test]
async fn the_program() -> Result<()> {
    let alice = Party::new(1).address;
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_trondev"))
        .args(["--listen", "127.0.0.1:0", "--block-ms", "0", "--chain-id", "728126428", "--solidified-lag", "1"])
        .args(["--account", &format!("{alice}=12")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(program.stdout.take().context("its output")?).lines();
    let line = lines.next_line().await?.context("a line")?;
    assert!(line.starts_with("trondev: a development tool, no Tron node. Chain 728126428 at http://"), "{line}");
    let url = line.rsplit(' ').next().context("a URL")?;
    let client = reqwest::Client::new();
    let account: Value =
        client.get(format!("{url}/wallet/getaccount?address={}", alice.to_hex())).send().await?.json().await?;
    assert_eq!(account["balance"], 12_000_000);
    let status: Value = client.get(format!("{url}/dev/status")).send().await?.json().await?;
    assert_eq!(status["chain_id"], 728_126_428);
    program.kill().await?;
    Ok(())
}
