//! The API's forms: GET and POST, `visible`, numbers as strings, solidified or not, transactions that the node builds.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use trondev::Transaction;

use crate::support::{LAG, Network, Party, TRX, id, signed};

/// Signs what the node built, as wallets do, and sends it in JSON.
async fn sign_and_send(network: &Network, by: &Party, mut transaction: Value) -> Result<Value> {
    let hash = hex::decode(transaction["txID"].as_str().context("an id")?)?;
    let signature = trondev::sign(&by.key, hash.as_slice().try_into()?)?;
    transaction["signature"] = json!([hex::encode(signature)]);
    let answer = network.post("wallet/broadcasttransaction", transaction).await?;
    assert_eq!(answer["result"], true, "{answer}");
    network.mine(1).await?;
    network.post("wallet/gettransactioninfobyid", json!({ "value": answer["txid"] })).await
}

#[tokio::test]
async fn both_methods_and_both_forms_of_addresses() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let (hex, base58) = (alice.address.to_hex(), alice.address.to_base58());
    for name in ["getaccount", "getaccountnet", "getaccountresource"] {
        for visible in [true, false] {
            let address = if visible { &base58 } else { &hex };
            let posted =
                network.post(&format!("wallet/{name}"), json!({ "address": address, "visible": visible })).await?;
            let got = network.get(&format!("wallet/{name}?address={address}&visible={visible}")).await?;
            assert_eq!(posted, got);
            assert!(posted.as_object().is_some_and(|object| !object.is_empty()), "{name}: {posted}");
            // The other form is none.
            let other = if visible { &hex } else { &base58 };
            let wrong = network.get(&format!("wallet/{name}?address={other}&visible={visible}")).await?;
            assert!(wrong["Error"].is_string(), "{name}: {wrong}");
        }
        let missing = network.get(&format!("wallet/{name}")).await?;
        assert!(missing["Error"].as_str().is_some_and(|text| text.contains("address")), "{missing}");
    }
    for (address, valid) in [(hex.as_str(), true), (base58.as_str(), true), ("T", false), ("41", false), ("", false)] {
        let said = network.post("wallet/validateaddress", json!({ "address": address })).await?;
        assert_eq!(said["result"], valid, "{address}: {said}");
    }
    for path in ["getchainparameters", "getenergyprices", "getbandwidthprices", "getnodeinfo", "listwitnesses"] {
        let posted = network.post(&format!("wallet/{path}"), json!({})).await?;
        assert_eq!(posted, network.get(&format!("wallet/{path}")).await?, "{path}");
        assert!(posted.as_object().is_some_and(|object| !object.is_empty()), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_transfer_in_both_forms() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let bob = Party::new(2).address;
    for visible in [true, false] {
        let shown = |address: trondev::Address| if visible { address.to_base58() } else { address.to_hex() };
        let memo = if visible { "thanks".to_owned() } else { hex::encode("thanks") };
        let built = network
            .post(
                "wallet/createtransaction",
                json!({
                    "owner_address": shown(alice.address), "to_address": shown(bob), "amount": TRX,
                    "extra_data": memo, "visible": visible,
                }),
            )
            .await?;
        let value = &built["raw_data"]["contract"][0]["parameter"]["value"];
        assert_eq!(value["to_address"], shown(bob));
        assert_eq!(built["raw_data"]["data"], memo);
        assert_eq!(built["visible"], visible);
        let info = sign_and_send(&network, &alice, built.clone()).await?;
        assert_eq!(info["id"], built["txID"]);
        let found =
            network.post("wallet/gettransactionbyid", json!({ "value": built["txID"], "visible": visible })).await?;
        assert_eq!(found["raw_data"], built["raw_data"]);
        assert_eq!(found["raw_data_hex"], built["raw_data_hex"]);
    }
    assert_eq!(network.balance(bob).await?, 2 * TRX);
    let wrong = json!({ "owner_address": alice.address.to_hex(), "to_address": bob.to_hex(), "amount": 100 * TRX });
    let said = network.post("wallet/createtransaction", wrong).await?;
    let said = said["Error"].as_str().context("an error")?;
    assert!(
        said.starts_with("class org.tron.core.exception.ContractValidateException : Validate TransferContract"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn contracts_in_both_forms() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 1_000 * TRX).await?;
    // The runtime returns one word, 7; the init code puts it there.
    let bytecode = "600a600c600039600a6000f3600760005260206000f3";
    let abi = json!([
        { "type": "function", "name": "seven", "stateMutability": "view", "outputs": [{ "type": "uint256" }] },
        { "type": "Function", "name": "touch", "stateMutability": "Nonpayable", "inputs": [{ "name": "a", "type": "address" }] },
    ]);
    for visible in [true, false] {
        let owner = if visible { alice.address.to_base58() } else { alice.address.to_hex() };
        let built = network
            .post(
                "wallet/deploycontract",
                json!({
                    "owner_address": owner, "bytecode": bytecode, "abi": abi.to_string(), "name": "Seven",
                    "fee_limit": 100 * TRX, "origin_energy_limit": 1, "consume_user_resource_percent": 100,
                    "visible": visible,
                }),
            )
            .await?;
        let info = sign_and_send(&network, &alice, built.clone()).await?;
        assert_eq!(info["receipt"]["result"], "SUCCESS", "{info}");
        let at = &built["contract_address"];
        let shown = network.post("wallet/getcontract", json!({ "value": at, "visible": visible })).await?;
        assert_eq!(shown["abi"]["entrys"][0]["stateMutability"], "View");
        assert_eq!(shown["abi"]["entrys"][1]["inputs"], json!([{ "name": "a", "type": "address" }]));
        assert_eq!(&shown["contract_address"], at);

        let mut trigger = json!({
            "owner_address": owner, "contract_address": at, "function_selector": "seven()", "visible": visible,
        });
        // The ABI says that it changes nothing: it is answered at once.
        let answer = network.post("wallet/triggersmartcontract", trigger.clone()).await?;
        assert_eq!(answer["constant_result"], json!([format!("{:064x}", 7)]));
        trigger["function_selector"] = json!("touch(address)");
        trigger["parameter"] = json!(format!("{:064x}", 1));
        trigger["fee_limit"] = json!(TRX.to_string());
        let answer = network.post("wallet/triggersmartcontract", trigger.clone()).await?;
        assert_eq!(answer["result"]["result"], true);
        assert_eq!(answer["transaction"]["raw_data"]["fee_limit"], TRX);
        let info = sign_and_send(&network, &alice, answer["transaction"].clone()).await?;
        assert_eq!(info["receipt"]["result"], "SUCCESS", "{info}");
        // Not yet solidified.
        let answer = network.post("walletsolidity/triggerconstantcontract", trigger.clone()).await?;
        assert_eq!(answer["result"]["code"], "CONTRACT_VALIDATE_ERROR", "{answer}");
        network.mine(LAG).await?;
        let answer = network.post("walletsolidity/triggerconstantcontract", trigger.clone()).await?;
        assert_eq!(answer["result"], json!({ "result": true }));
        assert!(network.post("walletsolidity/estimateenergy", trigger).await?["energy_required"].is_u64());
    }
    // A deployment can be asked about, too.
    let trigger = json!({ "owner_address": alice.address.to_hex(), "data": bytecode });
    let answer = network.post("wallet/triggerconstantcontract", trigger).await?;
    assert_eq!(answer["constant_result"][0], &bytecode[24..]);
    assert_eq!(network.get(&format!("wallet/getcontract?value={}", alice.address.to_hex())).await?, json!({}));
    Ok(())
}

#[tokio::test]
async fn what_counts_in_json_is_the_raw_data() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let body = json!({
        "owner_address": alice.address.to_hex(), "to_address": Party::new(2).address.to_hex(), "amount": 5,
    });
    let mut built = network.post("wallet/createtransaction", body).await?;
    built["raw_data"]["contract"][0]["parameter"]["value"]["amount"] = json!(6);
    let hash = hex::decode(built["txID"].as_str().context("an id")?)?;
    built["signature"] = json!([hex::encode(trondev::sign(&alice.key, hash.as_slice().try_into()?)?)]);
    let answer = network.post("wallet/broadcasttransaction", built.clone()).await?;
    assert_eq!(answer["code"], "SIGERROR", "{answer}");
    assert_ne!(answer["txid"], built["txID"]);
    built["visible"] = json!(true);
    let answer = network.post("wallet/broadcasttransaction", built).await?;
    assert!(answer["Error"].is_string(), "{answer}");
    for body in [json!({}), json!({ "raw_data": 5 }), json!({ "raw_data": { "contract": [{}] } })] {
        let answer = network.post("wallet/broadcasttransaction", body).await?;
        assert!(answer["Error"].is_string(), "{answer}");
    }
    let answer = network.post("wallet/broadcasttransaction", json!({ "raw_data": {} })).await?;
    assert_eq!(answer["code"], "CONTRACT_VALIDATE_ERROR", "{answer}");
    Ok(())
}

#[tokio::test]
async fn blocks_and_what_is_in_them() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let message = signed(&alice, network.transfer(alice.address, Party::new(2).address, 1).await?)?;
    network.send_message(&message).await?;
    network.mine(1).await?;
    let head = network.get("wallet/getblock?detail=true").await?;
    assert_eq!(head, network.get("wallet/getnowblock").await?);
    assert_eq!(head["transactions"][0]["txID"], id(&message)?.to_string());
    let header = network.post("wallet/getblock", json!({})).await?;
    assert!(header.get("transactions").is_none());
    assert_eq!(header["blockID"], head["blockID"]);
    for asked in [json!(2), json!("2"), head["blockID"].clone()] {
        let found = network.post("wallet/getblock", json!({ "id_or_num": asked, "detail": true })).await?;
        assert_eq!(found, head);
    }
    let strings = network.get("wallet/getblock?detail=true&int64_as_string=true").await?;
    assert_eq!(strings["block_header"]["raw_data"]["number"], "2");
    assert!(strings["block_header"]["raw_data"]["version"].is_number());
    assert_eq!(network.get("walletsolidity/getblockbynum?num=2").await?, json!({}));
    assert_eq!(network.get("walletsolidity/gettransactioninfobyblocknum?num=2").await?, json!([]));
    let infos = network.get("wallet/gettransactioninfobyblocknum?num=2").await?;
    assert_eq!(infos[0]["id"], id(&message)?.to_string());
    network.mine(LAG).await?;
    assert_eq!(network.get("walletsolidity/getnowblock").await?, head);
    assert_eq!(network.get("walletsolidity/getblockbynum?num=2").await?, head);
    assert_eq!(network.get("walletsolidity/gettransactioninfobyblocknum?num=2").await?, infos);
    let latest = network.get("wallet/getblockbylatestnum?num=2").await?;
    assert_eq!(latest["block"].as_array().map(Vec::len), Some(2));
    let range = network.get("wallet/getblockbylimitnext?startNum=2&endNum=4").await?;
    assert_eq!(range["block"][0], head);
    for nothing in ["getblockbylimitnext?startNum=0&endNum=101", "getblockbylatestnum?num=0", "getblockbynum?num=-1"] {
        assert_eq!(network.get(&format!("wallet/{nothing}")).await?, json!({}), "{nothing}");
    }
    // The parents' ids chain up, and the transactions can be read as they were sent.
    let next = network.get("wallet/getblockbynum?num=3").await?;
    assert_eq!(next["block_header"]["raw_data"]["parentHash"], head["blockID"]);
    assert_eq!(Transaction::from_message(message)?.raw.encode(), head["transactions"][0]["raw_data_hex"]);
    Ok(())
}

trait Encode {
    fn encode(&self) -> Value;
}

impl Encode for trondev::proto::Raw {
    fn encode(&self) -> Value {
        json!(hex::encode(prost::Message::encode_to_vec(self)))
    }
}

#[tokio::test]
async fn what_is_not_offered_and_what_is_too_much() -> Result<()> {
    let network = Network::start().await?;
    for path in
        ["wallet/freezebalancev2", "walletsolidity/broadcasthex", "walletsolidity/createtransaction", "jsonrpc", ""]
    {
        let (status, body) = network.post_bytes(path, b"{}".to_vec()).await?;
        assert_eq!(status, 404, "{path}: {body}");
        assert!(body.contains("is not offered by this development node"), "{body}");
    }
    let response = reqwest::get(format!("{}/wallet/broadcasthex?transaction=00", network.node.url())).await?;
    assert_eq!(response.status(), 405);
    let (status, body) = network.post_bytes("wallet/getnowblock", vec![b' '; 4 * 1024 * 1024 + 1]).await?;
    assert_eq!(status, 200);
    assert!(body.contains("body size is too big, the limit is 4194304"), "{body}");
    assert_eq!(network.post_bytes("dev/mine", vec![b' '; 4 * 1024 * 1024 + 1]).await?.0, 413);
    for body in [b"{".as_slice(), b"[]", b"\xff", b"null"] {
        let (status, answer) = network.post_bytes("wallet/getnowblock", body.to_vec()).await?;
        assert_eq!(status, 200);
        assert!(answer.contains("\"Error\""), "{answer}");
    }
    Ok(())
}
