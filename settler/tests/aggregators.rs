//! Prices of Chainlink's aggregators, on a real chain.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use devkit::anvil::{Anvil, Mining};
use events::time::unix_seconds;
use settler::{
    Config,
    pricing::market::{FeedError, SourceId},
};

use crate::quoting::config;

const GOOD: &str = "0x00000000000000000000000000000000000000a1";
const NEGATIVE: &str = "0x00000000000000000000000000000000000000a2";
const NOTHING: &str = "0x00000000000000000000000000000000000000a3";

/// Code that answers `decimals()` with 8 and `latestRoundData()` with this answer of this UNIX second.
fn aggregator(answer: i64, updated_at: u64) -> String {
    let sign = if answer < 0 { "ff" } else { "00" };
    let answer = format!("{}{answer:016x}", sign.repeat(24));
    // CALLDATALOAD(0) >> 224 == decimals() leads to the end.
    let head = "5f3560e01c63313ce5671460";
    let stores =
        format!("5760015f527f{answer}60205267{updated_at:016x}60405267{updated_at:016x}6060526001608052{}", "60a05ff3");
    let end = "5b60085f5260205ff3";
    let at = head.len() / 2 + 1 + stores.len() / 2;
    format!("0x{head}{at:02x}{stores}{end}")
}

async fn rpc(anvil: &Anvil, method: &str, params: Value) -> Result<Value> {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer: Value = reqwest::Client::new().post(anvil.url()).json(&call).send().await?.json().await?;
    ensure!(answer.get("error").is_none(), "{answer}");
    Ok(answer["result"].clone())
}

#[tokio::test]
async fn aggregators_are_read_and_one_that_is_unusable_holds_up_no_other() -> Result<()> {
    let anvil = Anvil::start(1, Mining::Instant).await?;
    let updated_at = unix_seconds(chrono::Utc::now()) - 100;
    for (at, code) in [(GOOD, aggregator(300_512_000_000, updated_at)), (NEGATIVE, aggregator(-1, updated_at))] {
        rpc(&anvil, "anvil_setCode", json!([at, code])).await?;
    }
    let mut config = config();
    config["chains"][0]["rpc_url"] = anvil.url().into();
    config["feeds"] = json!([{"name": "chainlink", "kind": "chainlink", "chain_id": "eip155:1"}]);
    let price = |asset: &str, id: &str| json!({"asset": asset, "sources": [{"feed": "chainlink", "id": id}], "stale_seconds": 3_600});
    config["prices"] = json!([
        price("eip155:1/slip44:60", GOOD),
        price("eip155:10/slip44:60", NEGATIVE),
        price("eip155:10/erc20:0x2222222222222222222222222222222222222222", NOTHING),
    ]);
    let book = serde_json::from_value::<Config>(config)?.book()?;
    let [follower] = book.followers.as_slice() else { anyhow::bail!("{:?}", book.followers) };
    let error = follower.read(&book.board).await.unwrap_err();
    assert!(matches!(error, FeedError::Unusable(_) | FeedError::Unreachable(_)), "{error}");
    let latest = |id: &str| book.board.latest(&SourceId { feed: "chainlink".to_owned(), id: id.to_owned() });
    let observed = latest(GOOD).unwrap();
    assert_eq!((observed.price.to_string().as_str(), unix_seconds(observed.at)), ("3005.12", updated_at));
    assert_eq!((latest(NEGATIVE), latest(NOTHING)), (None, None));
    Ok(())
}
