//! The TVM's differences from the EVM, and the energy that calls cost.

use anyhow::{Context, Result};
use revm::primitives::keccak256;
use serde_json::{Value, json};

use trondev::{Address, Blocks, Options, deployed_at, proto};

use crate::support::{LAG, Network, Party, TRX};

/// Stores what is on the stack as the `n`-th word of memory.
fn store(word: u16) -> [u8; 4] {
    let [high, low] = (word * 32).to_be_bytes();
    [0x61, high, low, 0x52]
}

/// Code that returns what each of the pieces leaves on the stack.
fn returning(pieces: &[&[u8]]) -> Vec<u8> {
    let mut code = Vec::new();
    for (word, piece) in (0..).zip(pieces) {
        code.extend(*piece);
        code.extend(store(word));
    }
    // RETURN(0, 32 for each)
    let [high, low] = u16::try_from(pieces.len() * 32).unwrap().to_be_bytes();
    code.extend([0x61, high, low, 0x60, 0, 0xf3]);
    code
}

/// Init code that deploys `code`, which is shorter than 256 bytes.
fn init(code: &[u8]) -> Vec<u8> {
    let length = u8::try_from(code.len()).unwrap();
    let mut init = vec![0x60, length, 0x60, 12, 0x60, 0, 0x39, 0x60, length, 0x60, 0, 0xf3];
    init.extend(code);
    init
}

fn number(word: &[u8]) -> u64 {
    assert!(word[..24].iter().all(|byte| *byte == 0), "{}", hex::encode(word));
    u64::from_be_bytes(word[24..].try_into().unwrap())
}

fn word(address: Address) -> Vec<u8> {
    [&[0; 12], address.evm().as_slice()].concat()
}

fn hashed(parts: &[&[u8]]) -> Vec<u8> {
    [&[0; 12], &keccak256(parts.concat())[12..]].concat()
}

async fn put(network: &Network, seed: u8, code: &[u8]) -> Result<Address> {
    let at = Party::new(seed).address;
    network.dev("code", json!({ "address": at.to_base58(), "code": hex::encode(code) })).await?;
    Ok(at)
}

#[tokio::test]
async fn the_block_environment() -> Result<()> {
    let network = Network::with(Options {
        chain_id: 3_448_148_188,
        energy_price_sun: 420,
        blocks: Blocks::OnDemand,
        solidified_lag: LAG,
        ..Options::default()
    })
    .await?;
    let alice = network.funded(1, 7 * TRX).await?;
    let code = returning(&[
        &[0x46],       // CHAINID
        &[0x48],       // BASEFEE
        &[0x33],       // CALLER
        &[0x30],       // ADDRESS
        &[0x33, 0x31], // BALANCE of the caller
        &[0x3a],       // GASPRICE
        &[0x44],       // PREVRANDAO, which the TVM calls DIFFICULTY
    ]);
    let at = put(&network, 9, &code).await?;
    network.mine(4).await?;
    let (words, _) = network.ask(alice.address, at, &[]).await?;
    assert_eq!(number(&words[0]), 3_448_148_188);
    assert_eq!(number(&words[1]), 420);
    assert_eq!(words[2], word(alice.address));
    assert_eq!(words[3], word(at));
    assert_eq!(number(&words[4]), 7_000_000);
    assert_eq!(number(&words[5]), 0);
    assert_eq!(number(&words[6]), 0);
    // The first block's id ends in the chain id.
    let first = network.get("wallet/getblockbynum?num=0").await?;
    assert!(first["blockID"].as_str().is_some_and(|id| id.ends_with("cd8690dc")), "{first}");
    Ok(())
}

/// java-tron's `Wallet.callConstantContract` runs a question in the newest block that the asked state has, not in one to come.
#[tokio::test]
async fn a_question_is_answered_in_the_newest_block() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 1_000 * TRX).await?;
    let code = returning(&[
        &[0x43],                      // NUMBER
        &[0x42],                      // TIMESTAMP
        &[0x41],                      // COINBASE
        &[0x60, 1, 0x43, 0x03, 0x40], // BLOCKHASH of NUMBER - 1
        &[0x60, 2, 0x43, 0x03, 0x40], // BLOCKHASH of NUMBER - 2
        &[0x43, 0x40],                // BLOCKHASH of NUMBER, which code never sees
    ]);
    let at = put(&network, 9, &code).await?;
    network.dev("mine", json!({ "blocks": 6, "apart_ms": 3_000 })).await?;
    // Neither the clock nor what waits is the answer's.
    network.dev("time", json!({ "advance_ms": 60_000 })).await?;
    let answer = network.send(&alice, network.trigger(alice.address, at, 0, &[]).await?).await?;
    assert_eq!(answer["result"], true, "{answer}");
    let mut numbers = Vec::new();
    for root in ["wallet", "walletsolidity"] {
        let block = network.get(&format!("{root}/getnowblock")).await?;
        let raw = &block["block_header"]["raw_data"];
        let parent = raw["parentHash"].as_str().context("a parent")?;
        let before = network.get(&format!("wallet/getblockbyid?value={parent}")).await?;
        let (words, _) = network.ask_under(root, alice.address, at, &[]).await?;
        numbers.push(number(&words[0]));
        assert_eq!(raw["number"], number(&words[0]), "{root}");
        assert_eq!(raw["timestamp"].as_u64().context("a time")? / 1000, number(&words[1]), "{root}");
        let witness = raw["witness_address"].as_str().context("a witness")?;
        assert_eq!(witness.strip_prefix("41"), Some(&*hex::encode(&words[2][12..])), "{root}");
        assert_eq!(hex::encode(&words[3]), parent, "{root}");
        assert_eq!(hex::encode(&words[4]), before["block_header"]["raw_data"]["parentHash"].as_str().context("an id")?);
        assert_eq!(words[5], [0; 32], "{root}");
    }
    assert_eq!(numbers[0], numbers[1] + LAG);

    // A transaction's code runs in the block that has it.
    network.mine(1).await?;
    let info = network.post("wallet/gettransactioninfobyid", json!({ "value": answer["txid"] })).await?;
    let seen = hex::decode(info["contractResult"][0].as_str().context("a result")?)?;
    assert_eq!(info["blockNumber"], number(&seen[..32]));
    assert_eq!(number(&seen[..32]), numbers[0] + 1);
    assert_eq!(info["blockTimeStamp"].as_u64().context("a time")? / 1000, number(&seen[32..64]));
    Ok(())
}

#[tokio::test]
async fn the_first_block_answers_too() -> Result<()> {
    // It is the solidified one at the start.
    let network = Network::start().await?;
    let at = put(&network, 9, &returning(&[&[0x43], &[0x42], &[0x60, 0, 0x40]])).await?;
    let first = network.get("wallet/getblockbynum?num=0").await?;
    let (words, _) = network.ask_under("walletsolidity", Party::new(1).address, at, &[]).await?;
    assert_eq!(number(&words[0]), 0);
    let time = first["block_header"]["raw_data"]["timestamp"].as_u64().context("a time")?;
    assert_eq!(number(&words[1]), time / 1000);
    assert_eq!(words[2], [0; 32]);
    Ok(())
}

#[tokio::test]
async fn addresses_of_new_contracts() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 1_000 * TRX).await?;
    let code = returning(&[
        &[0x60, 0, 0x60, 0, 0x60, 0, 0xf0],          // CREATE(0, 0, 0)
        &[0x60, 0, 0x60, 0, 0x60, 0, 0xf0],          // CREATE again
        &[0x60, 5, 0x60, 0, 0x60, 0, 0x60, 0, 0xf5], // CREATE2(0, 0, 0, salt 5)
    ]);
    let at = put(&network, 9, &code).await?;
    let (words, answer) = network.ask(alice.address, at, &[]).await?;
    let id = hex::decode(answer["transaction"]["txID"].as_str().context("an id")?)?;
    assert_eq!(words[0], hashed(&[&id, &0_u64.to_be_bytes()]));
    assert_eq!(words[1], hashed(&[&id, &1_u64.to_be_bytes()]));
    let mut salt = [0; 32];
    salt[31] = 5;
    assert_eq!(words[2], hashed(&[&at.to_bytes(), &salt, keccak256([]).as_slice()]));

    let contract = proto::SmartContract {
        origin_address: alice.address.to_bytes().to_vec(),
        bytecode: init(&[0x60, 7]),
        call_value: 5,
        origin_energy_limit: 1,
        name: "seven".to_owned(),
        ..Default::default()
    };
    let info = network.done(&alice, network.deployment(alice.address, contract).await?).await?;
    let id = trondev::TxId(hex::decode(info["id"].as_str().context("an id")?)?.try_into().ok().context("32 bytes")?);
    let at = deployed_at(id, alice.address);
    assert_eq!(word(at), hashed(&[&id.0, &alice.address.to_bytes()]));
    assert_eq!(info["contract_address"], at.to_hex());
    assert_eq!(info["contractResult"], json!(["6007"]));
    // 200 for each byte of code, and little more: no gas for a transaction as such.
    let energy = info["receipt"]["energy_usage_total"].as_u64().context("energy")?;
    assert!((400..450).contains(&energy), "{energy}");
    assert_eq!(network.balance(at).await?, 5);
    let shown = network.get(&format!("wallet/getcontract?value={}&visible=true", at.to_base58())).await?;
    assert_eq!(shown["name"], "seven");
    assert_eq!(shown["origin_address"], alice.address.to_base58());
    assert_eq!(shown["contract_address"], at.to_base58());
    Ok(())
}

/// Runs code by a transaction, and gives what came of it.
async fn ran(network: &Network, by: &Party, seed: u8, code: &[u8], fee_limit: i64) -> Result<Value> {
    let at = put(network, seed, code).await?;
    let raw = network.trigger(by.address, at, 10, &[]).await?;
    network.done(by, proto::Raw { fee_limit, ..raw }).await
}

#[tokio::test]
async fn endings() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 1_000 * TRX).await?;
    for (seed, code, result, spends_all) in [
        (10, vec![0x00], "SUCCESS", false),
        (11, vec![0x60, 0, 0x60, 0, 0xfd], "REVERT", false),
        (12, vec![0x5b, 0x60, 0, 0x56], "OUT_OF_ENERGY", true),
        (13, vec![0xfe], "ILLEGAL_OPERATION", true),
        (14, vec![0x60, 9, 0x56], "BAD_JUMP_DESTINATION", true),
        (15, vec![0x50], "STACK_TOO_SMALL", true),
        (16, vec![0x5b, 0x60, 0, 0x60, 0, 0x56], "STACK_TOO_LARGE", true),
        // CALLTOKEN, which this node does not have.
        (17, vec![0xd0], "ILLEGAL_OPERATION", true),
    ] {
        let before = network.balance(alice.address).await?;
        let info = ran(&network, &alice, seed, &code, 10 * TRX).await?;
        let receipt = &info["receipt"];
        assert_eq!(receipt["result"], result, "{info}");
        let energy = receipt["energy_usage_total"].as_i64().unwrap_or(0);
        assert_eq!(energy == 100_000, spends_all, "{info}");
        assert_eq!(receipt["energy_fee"].as_i64().unwrap_or(0), energy * 100);
        let fee = info["fee"].as_i64().unwrap_or(0);
        assert_eq!(fee, energy * 100 + receipt["net_fee"].as_i64().unwrap_or(0));
        let sent = if result == "SUCCESS" { 10 } else { 0 };
        assert_eq!(network.balance(alice.address).await?, before - fee - sent);
        assert_eq!(network.balance(Party::new(seed).address).await?, sent);
        assert_eq!(info["result"], if result == "SUCCESS" { Value::Null } else { json!("FAILED") });
        assert_eq!(info["resMessage"].is_string(), result != "SUCCESS");
        let found = network.post("wallet/gettransactionbyid", json!({ "value": info["id"] })).await?;
        assert_eq!(found["ret"], json!([{ "contractRet": result }]));
    }
    Ok(())
}

#[tokio::test]
async fn energy_is_bounded_by_the_limit_and_by_the_balance() -> Result<()> {
    let network = Network::start().await?;
    let forever = [0x5b, 0x60, 0, 0x56];
    let alice = network.funded(1, 100 * TRX).await?;
    assert_eq!(ran(&network, &alice, 10, &forever, 0).await?["receipt"]["result"], "OUT_OF_ENERGY");
    let info = ran(&network, &alice, 10, &forever, 199).await?;
    assert_eq!(info["receipt"]["energy_usage_total"], 1);
    // A poor caller pays all it has above the value it sent, and not more.
    let poor = network.funded(2, 50_010).await?;
    let info = ran(&network, &poor, 10, &forever, 100 * TRX).await?;
    assert_eq!(info["receipt"]["energy_usage_total"], 500);
    assert_eq!(network.balance(poor.address).await?, 10);
    Ok(())
}

#[tokio::test]
async fn a_write_costs_as_much_as_was_estimated() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 100 * TRX).await?;
    // SSTORE(0, NUMBER), LOG1(0, 0, 3), and the word at 0 is returned.
    let code = [&[0x43, 0x60, 0, 0x55, 0x60, 3, 0x60, 0, 0x60, 0, 0xa1][..], &returning(&[&[0x60, 0, 0x54]])].concat();
    let at = put(&network, 9, &code).await?;
    let trigger = json!({ "owner_address": alice.address.to_hex(), "contract_address": at.to_hex(), "data": "" });
    let estimate = network.post("wallet/estimateenergy", trigger.clone()).await?;
    let energy = estimate["energy_required"].as_u64().context("energy")?;
    assert!(energy > 20_000, "{energy}");
    let asked = network.post("wallet/triggerconstantcontract", trigger).await?;
    assert_eq!(asked["energy_used"], energy);
    assert_eq!(asked["logs"][0]["topics"][0], format!("{:064x}", 3));
    let info = network.done(&alice, network.trigger(alice.address, at, 0, &[]).await?).await?;
    assert_eq!(info["receipt"]["energy_usage_total"], energy);
    assert_eq!(info["log"][0]["address"], hex::encode(at.evm()));
    let block = info["blockNumber"].as_u64().context("a number")?;
    assert_eq!(info["contractResult"][0], format!("{block:064x}"));
    // What was asked before changed nothing; what was sent did.
    network.mine(1).await?;
    let again = network.done(&alice, network.trigger(alice.address, at, 0, &[]).await?).await?;
    assert!(again["receipt"]["energy_usage_total"].as_u64().context("energy")? < energy);
    Ok(())
}
