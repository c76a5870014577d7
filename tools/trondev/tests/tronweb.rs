//! tronweb, as it comes from npm: its addresses, ids and signatures agree with this crate's, and it does against the
//! development node what wallets do.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use k256::ecdsa::SigningKey;
use prost::Message;
use serde_json::Value;

use trondev::{Address, Blocks, Call, Options, Transaction, TronDev, deployed_at, proto, recover, sign};

const LAG: u64 = 3;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn modules() -> Result<PathBuf> {
    let modules = here().join("../../.tools/tronweb/node_modules");
    ensure!(modules.join("tronweb").is_dir(), "npm `tronweb` is missing; run scripts/tools.sh test");
    Ok(modules)
}

fn script(name: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("node");
    command.arg(here().join("tests/tronweb").join(name)).arg(modules()?).args(arguments);
    let output = command.output().context("node is needed; install Node.js 20 or later")?;
    let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr).into_owned());
    ensure!(output.status.success(), "{name} failed: {err}\n{out}");
    Ok(out)
}

fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap_or_else(|| panic!("{name} of {case}"))
}

/// All that one case says, by this crate's own means.
fn check(case: &Value) -> Result<()> {
    let key = SigningKey::from_slice(&hex::decode(text(case, "key"))?)?;
    let address = Address::of_key(key.verifying_key());
    assert_eq!(address.to_base58(), text(case, "base58"));
    assert_eq!(address.to_hex(), text(case, "hex").to_lowercase());
    assert_eq!(Address::from_base58(text(case, "base58"))?, address);
    assert_eq!(Address::from_hex(text(case, "hex"))?, address);

    let bytes = hex::decode(text(case, "message"))?;
    let transaction = Transaction::decode(&bytes)?;
    assert_eq!(transaction.message().encode_to_vec(), bytes);
    assert_eq!(hex::encode(transaction.raw.encode_to_vec()), text(case, "raw_data_hex"));
    assert_eq!(transaction.id.to_string(), text(case, "id"));
    assert_eq!(transaction.id.to_string(), text(case, "id_of_message"));
    assert_eq!(transaction.owner, address);
    assert_eq!(transaction.raw.data, text(case, "memo").as_bytes());
    let kind = match &transaction.call {
        Call::Transfer { .. } => "transfer",
        Call::Trigger { .. } => "trigger",
        Call::Create { .. } => "create",
    };
    assert_eq!(kind, text(case, "kind"));
    if let Some(contract) = case["contract_address"].as_str() {
        assert_eq!(deployed_at(transaction.id, address).to_hex(), contract.to_lowercase());
    }

    let signature = hex::decode(text(case, "signature"))?;
    assert_eq!(transaction.signatures, std::slice::from_ref(&signature));
    assert_eq!(recover(&transaction.id.0, &signature)?, address);
    assert_eq!(sign(&key, &transaction.id.0)?.to_vec(), signature);
    Ok(())
}

/// The fields that tronweb wrote in JSON are those that the bytes hold.
fn check_fields(case: &Value) -> Result<()> {
    let raw = &case["transaction"]["raw_data"];
    let value = &raw["contract"][0]["parameter"]["value"];
    let transaction = Transaction::decode(&hex::decode(text(case, "message"))?)?;
    assert_eq!(raw["expiration"], transaction.raw.expiration);
    assert_eq!(raw["timestamp"], transaction.raw.timestamp);
    assert_eq!(raw["fee_limit"].as_i64().unwrap_or(0), transaction.raw.fee_limit);
    assert_eq!(text(raw, "ref_block_bytes"), hex::encode(&transaction.raw.ref_block_bytes));
    assert_eq!(text(raw, "ref_block_hash"), hex::encode(&transaction.raw.ref_block_hash));
    let parameter = transaction.raw.contract[0].parameter.clone().context("a parameter")?;
    match &transaction.call {
        Call::Transfer { to, amount } => {
            assert_eq!(text(value, "to_address").to_lowercase(), to.to_hex());
            assert_eq!(value["amount"], *amount);
            let message = proto::TransferContract {
                owner_address: transaction.owner.to_bytes().to_vec(),
                to_address: to.to_bytes().to_vec(),
                amount: *amount,
            };
            assert_eq!(message.encode_to_vec(), parameter.value);
        }
        Call::Trigger { contract, value: sun, data } => {
            assert_eq!(text(value, "contract_address").to_lowercase(), contract.to_hex());
            assert_eq!(value["call_value"].as_i64().unwrap_or(0), *sun);
            assert_eq!(text(value, "data"), hex::encode(data));
            let message = proto::TriggerSmartContract {
                owner_address: transaction.owner.to_bytes().to_vec(),
                contract_address: contract.to_bytes().to_vec(),
                call_value: *sun,
                data: data.clone(),
                ..Default::default()
            };
            assert_eq!(message.encode_to_vec(), parameter.value);
        }
        Call::Create { contract } => {
            let new = &value["new_contract"];
            assert_eq!(text(new, "bytecode"), hex::encode(&contract.bytecode));
            assert_eq!(text(new, "name"), contract.name);
            assert_eq!(new["consume_user_resource_percent"], contract.consume_user_resource_percent);
            assert_eq!(new["origin_energy_limit"], contract.origin_energy_limit);
            let entries = contract.abi.as_ref().map(|abi| abi.entrys.len());
            assert_eq!(new["abi"]["entrys"].as_array().map(Vec::len), entries);
        }
    }
    Ok(())
}

#[test]
fn the_committed_vectors_are_read_and_written_again() -> Result<()> {
    let cases: Vec<Value> = serde_json::from_str(include_str!("tronweb/vectors.json"))?;
    assert_eq!(cases.len(), 9);
    for case in &cases {
        check(case)?;
        check_fields(case)?;
    }
    Ok(())
}

#[test]
fn tronweb_makes_the_committed_vectors() -> Result<()> {
    let made: Value = serde_json::from_str(&script("vectors.mjs", &["committed vectors", "9"])?)?;
    let committed: Value = serde_json::from_str(include_str!("tronweb/vectors.json"))?;
    assert_eq!(made, committed);
    Ok(())
}

#[test]
fn tronweb_agrees_on_random_cases() -> Result<()> {
    let seed = format!("{:032x}", rand::random::<u128>());
    println!("seed {seed}");
    let cases: Vec<Value> = serde_json::from_str(&script("vectors.mjs", &[&seed, "300"])?)?;
    assert_eq!(cases.len(), 300);
    for case in &cases {
        check(case).with_context(|| format!("seed {seed}: {case}"))?;
        check_fields(case).with_context(|| format!("seed {seed}: {case}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tronweb_does_what_wallets_do() -> Result<()> {
    let node = TronDev::start(Options { blocks: Blocks::OnDemand, solidified_lag: LAG, ..Options::default() }).await?;
    let artefact = here().join("../../contracts/artifacts/DevToken.json");
    let arguments = [node.url(), artefact.display().to_string(), LAG.to_string()];
    let said =
        tokio::task::spawn_blocking(move || script("wallet.mjs", &arguments.each_ref().map(String::as_str))).await??;
    ensure!(said.trim_end().ends_with("all as it should be"), "{said}");
    Ok(())
}
