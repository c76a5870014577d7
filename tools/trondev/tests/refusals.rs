//! Refusals: the development node refuses what the network refuses, with the same codes and messages.

use anyhow::Result;
use prost::Message;
use serde_json::json;

use trondev::{Options, proto};

use crate::support::{Network, Party, TRX, contract, id, refusal, signed, transfer_message};

#[tokio::test]
async fn signatures() -> Result<()> {
    let network = Network::start().await?;
    let (alice, bob) = (network.funded(1, 10 * TRX).await?, network.funded(2, TRX).await?);
    let raw = network.transfer(alice.address, bob.address, 1).await?;

    let said = network.refused(&bob, raw.clone(), "SIGERROR").await?;
    assert!(said.contains(&format!("is signed by {} but it is not contained of permission.", bob.address)), "{said}");

    let good = signed(&alice, raw.clone())?;
    let mut none = good.clone();
    none.signature.clear();
    let said = refusal(&network.send_message(&none).await?, "SIGERROR")?;
    assert_eq!(said, "Validate signature error: miss sig or contract");

    let mut two = good.clone();
    two.signature.push(good.signature[0].clone());
    assert!(refusal(&network.send_message(&two).await?, "SIGERROR")?.contains("Signature count is 2"));

    let mut short = good.clone();
    short.signature[0].pop();
    assert!(refusal(&network.send_message(&short).await?, "SIGERROR")?.contains("Signature size is 64"));

    let mut header = good.clone();
    header.signature[0][64] = 29;
    assert!(refusal(&network.send_message(&header).await?, "SIGERROR")?.contains("out of range"));

    let mut zero = good.clone();
    zero.signature[0][..64].fill(0);
    assert!(refusal(&network.send_message(&zero).await?, "SIGERROR")?.contains("out of range"));

    let mut other = raw.clone();
    other.contract[0].permission_id = 2;
    assert!(network.refused(&alice, other, "SIGERROR").await?.contains("permission 2 is not known"));

    // Nothing of this was taken, and the good one is; so is the same with the recovery id as 0 or 1.
    let mut plain = signed(&alice, network.transfer(alice.address, bob.address, 2).await?)?;
    plain.signature[0][64] -= 27;
    assert_eq!(network.send_message(&plain).await?["result"], true);
    assert_eq!(network.send_message(&good).await?["result"], true);
    assert_eq!(network.get("wallet/getpendingsize").await?["pendingSize"], 2);
    Ok(())
}

#[tokio::test]
async fn the_upper_half_of_s_is_taken_as_on_the_network() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let mut message = signed(&alice, network.transfer(alice.address, Party::new(2).address, 1).await?)?;
    let signature = k256::ecdsa::Signature::from_slice(&message.signature[0][..64])?;
    let (r, s) = signature.split_scalars();
    let upper = k256::ecdsa::Signature::from_scalars(*r, -*s)?;
    message.signature[0][..64].copy_from_slice(&upper.to_bytes());
    message.signature[0][64] = 27 + 28 - message.signature[0][64];
    assert_eq!(network.send_message(&message).await?["result"], true);
    Ok(())
}

#[tokio::test]
async fn reference_blocks_and_expirations() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let raw = network.transfer(alice.address, Party::new(2).address, 1).await?;
    let head = raw.expiration - 60_000;

    let wrong_hash = proto::Raw { ref_block_hash: vec![0; 8], ..raw.clone() };
    assert_eq!(network.refused(&alice, wrong_hash, "TAPOS_ERROR").await?, "Tapos check error.");
    let not_yet = proto::Raw { ref_block_bytes: vec![0, 9], ..raw.clone() };
    network.refused(&alice, not_yet, "TAPOS_ERROR").await?;
    let short = proto::Raw { ref_block_bytes: vec![1], ..raw.clone() };
    network.refused(&alice, short, "TAPOS_ERROR").await?;

    for expiration in [0, head - 1, head, head + 86_400_001, i64::MAX, i64::MIN] {
        let said =
            network.refused(&alice, proto::Raw { expiration, ..raw.clone() }, "TRANSACTION_EXPIRATION_ERROR").await?;
        assert_eq!(said, "Transaction expired");
    }
    for expiration in [head + 1, head + 86_400_000] {
        assert_eq!(network.send(&alice, proto::Raw { expiration, ..raw.clone() }).await?["result"], true);
    }

    // A fork takes the reference away.
    network.mine(2).await?;
    let raw = network.transfer(alice.address, Party::new(2).address, 3).await?;
    network.dev("fork", json!({ "blocks": 1 })).await?;
    network.mine(1).await?;
    network.refused(&alice, raw, "TAPOS_ERROR").await?;
    Ok(())
}

#[tokio::test]
async fn what_waited_too_long_never_lands() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let message = signed(&alice, network.transfer(alice.address, Party::new(2).address, 1).await?)?;
    assert_eq!(network.send_message(&message).await?["result"], true);
    network.dev("drop", json!({})).await?;
    network.dev("mine", json!({ "blocks": 1, "apart_ms": 61_000 })).await?;
    refusal(&network.send_message(&message).await?, "TRANSACTION_EXPIRATION_ERROR")?;
    let found = network.post("wallet/gettransactionbyid", json!({ "value": id(&message)?.to_string() })).await?;
    assert_eq!(found, json!({}));
    Ok(())
}

#[tokio::test]
async fn duplicates() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let message = signed(&alice, network.transfer(alice.address, Party::new(2).address, 1).await?)?;
    assert_eq!(network.send_message(&message).await?["result"], true);
    assert_eq!(refusal(&network.send_message(&message).await?, "DUP_TRANSACTION_ERROR")?, "Dup transaction.");
    network.mine(1).await?;
    refusal(&network.send_message(&message).await?, "DUP_TRANSACTION_ERROR")?;
    // Taken away by a fork and dropped, it is new again.
    network.dev("fork", json!({ "blocks": 1, "drop_transactions": true })).await?;
    assert_eq!(network.send_message(&message).await?["result"], true);
    Ok(())
}

#[tokio::test]
async fn transfers() -> Result<()> {
    let network = Network::start().await?;
    let (alice, poor) = (network.funded(1, 10 * TRX).await?, network.funded(3, 1_000_000).await?);
    let bob = Party::new(2);
    let code = "CONTRACT_VALIDATE_ERROR";
    for (from, to, amount, said) in [
        (&alice, alice.address, 1, "Contract validate error : Cannot transfer TRX to yourself."),
        (&alice, poor.address, 0, "Contract validate error : Amount must be greater than 0."),
        (&alice, poor.address, -1, "Contract validate error : Amount must be greater than 0."),
        (
            &alice,
            poor.address,
            11 * TRX,
            "Contract validate error : Validate TransferContract error, balance is not sufficient.",
        ),
        (
            &alice,
            poor.address,
            i64::MAX,
            "Contract validate error : Validate TransferContract error, balance is not sufficient.",
        ),
        // Making an account costs 1.1 TRX.
        (
            &poor,
            bob.address,
            1,
            "Contract validate error : Validate TransferContract error, balance is not sufficient.",
        ),
    ] {
        let raw = network.transfer(from.address, to, amount).await?;
        assert_eq!(network.refused(from, raw, code).await?, said);
    }
    let nobody = network.transfer(bob.address, alice.address, 1).await?;
    assert!(network.refused(&bob, nobody, code).await?.contains("does not exist"));
    assert_eq!(network.balance(alice.address).await?, 10 * TRX);

    // Neither free bandwidth nor TRX: the third has used up both.
    for amount in [1, 500_000] {
        let raw = network.transfer(poor.address, alice.address, amount).await?;
        assert_eq!(network.send(&poor, raw).await?["result"], true);
    }
    let raw = network.transfer(poor.address, alice.address, 2).await?;
    let raw = proto::Raw { data: vec![7; 400], ..raw };
    assert_eq!(network.refused(&poor, raw, "BANDWITH_ERROR").await?, "Account resource insufficient error.");
    // What waits counts: together these are more than there is.
    let raw = network.transfer(alice.address, poor.address, 9 * TRX).await?;
    assert_eq!(network.send(&alice, raw).await?["result"], true);
    let raw = network.transfer(alice.address, poor.address, 2 * TRX).await?;
    network.refused(&alice, raw, code).await?;
    Ok(())
}

#[tokio::test]
async fn contracts() -> Result<()> {
    let network = Network::with(Options { blocks: trondev::Blocks::OnDemand, ..Options::default() }).await?;
    let alice = network.funded(1, 1_000 * TRX).await?;
    let code = "CONTRACT_VALIDATE_ERROR";
    let at = Party::new(9).address;
    let raw = network.trigger(alice.address, at, 0, &[]).await?;
    assert!(network.refused(&alice, raw, code).await?.ends_with("No contract or not a smart contract"));

    // A contract that does nothing.
    network.dev("code", json!({ "address": at.to_base58(), "code": "00" })).await?;
    let raw = network.trigger(alice.address, at, 0, &[]).await?;
    for fee_limit in [-1, 15_000 * TRX + 1] {
        let said = network.refused(&alice, proto::Raw { fee_limit, ..raw.clone() }, code).await?;
        assert!(said.ends_with("feeLimit must be >= 0 and <= 15000000000"), "{said}");
    }
    let negative = network.trigger(alice.address, at, -1, &[]).await?;
    assert!(network.refused(&alice, negative, code).await?.ends_with("callValue must be >= 0"));
    let rich = network.trigger(alice.address, at, 1_001 * TRX, &[]).await?;
    assert!(network.refused(&alice, rich, code).await?.contains("balance is not sufficient"));
    let to_contract = network.transfer(alice.address, at, 1).await?;
    assert!(network.refused(&alice, to_contract, code).await?.ends_with("Cannot transfer TRX to a smartContract."));

    let good = proto::SmartContract {
        origin_address: alice.address.to_bytes().to_vec(),
        bytecode: vec![0],
        consume_user_resource_percent: 100,
        origin_energy_limit: 1,
        ..Default::default()
    };
    for (contract, said) in [
        (proto::SmartContract { name: "n".repeat(33), ..good.clone() }, "cannot be greater than 32"),
        (
            proto::SmartContract { consume_user_resource_percent: 101, ..good.clone() },
            "percent must be >= 0 and <= 100",
        ),
        (proto::SmartContract { origin_energy_limit: 0, ..good.clone() }, "The originEnergyLimit must be > 0"),
        (
            proto::SmartContract { origin_address: at.to_bytes().to_vec(), ..good.clone() },
            "is not equals OriginAddress",
        ),
    ] {
        let raw = network.deployment(alice.address, contract).await?;
        let answer = network.refused(&alice, raw, code).await?;
        assert!(answer.contains(said), "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn what_this_node_does_not_do() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let bob = Party::new(2).address;
    let code = "CONTRACT_VALIDATE_ERROR";

    let freeze = proto::Raw {
        contract: vec![contract(54, "FreezeBalanceV2Contract", &transfer_message(alice.address, bob, 1))],
        ..network.header().await?
    };
    assert!(network.refused(&alice, freeze, code).await?.contains("type 54 are not supported"));
    let mut trc10 = network.trigger(alice.address, bob, 0, &[]).await?;
    let message = proto::TriggerSmartContract {
        owner_address: alice.address.to_bytes().to_vec(),
        contract_address: bob.to_bytes().to_vec(),
        call_token_value: 1,
        token_id: 1_000_001,
        ..Default::default()
    };
    trc10.contract = vec![contract(31, "TriggerSmartContract", &message)];
    assert!(network.refused(&alice, trc10, code).await?.contains("TRC-10 tokens are not supported"));

    let raw = network.transfer(alice.address, bob, 1).await?;
    let mut two = raw.clone();
    two.contract.push(raw.contract[0].clone());
    assert!(network.refused(&alice, two, code).await?.contains("act size should be exactly 1"));
    let mut wrong_name = raw.clone();
    wrong_name.contract[0] = contract(1, "TriggerSmartContract", &transfer_message(alice.address, bob, 1));
    assert!(network.refused(&alice, wrong_name, code).await?.contains("expected type [TransferContract]"));
    let mut wrong_address = raw.clone();
    let mut message = transfer_message(alice.address, bob, 1);
    message.to_address[0] = 0xa0;
    wrong_address.contract[0] = contract(1, "TransferContract", &message);
    assert!(network.refused(&alice, wrong_address, code).await?.contains("Invalid toAddress"));
    let empty = proto::Transaction { raw_data: None, signature: vec![vec![0; 65]] };
    refusal(&network.send_message(&empty).await?, "SIGERROR")?;
    Ok(())
}

#[tokio::test]
async fn bytes_that_say_more_than_was_read() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 10 * TRX).await?;
    let good = signed(&alice, network.transfer(alice.address, Party::new(2).address, 1).await?)?;
    let send =
        async |bytes: Vec<u8>| network.post("wallet/broadcasthex", json!({ "transaction": hex::encode(bytes) })).await;
    let mut unknown = good.encode_to_vec();
    unknown.extend([0xf8, 0x07, 1]);
    assert!(refusal(&send(unknown).await?, "OTHER_ERROR")?.contains("unknown fields"));
    assert!(refusal(&send(b"\x0a\xff".to_vec()).await?, "OTHER_ERROR")?.starts_with("Error: "));

    let mut hidden = network.transfer(alice.address, Party::new(2).address, 1).await?;
    if let Some(parameter) = &mut hidden.contract[0].parameter {
        parameter.value.extend([0xf8, 0x07, 1]);
    }
    assert!(network.refused(&alice, hidden, "CONTRACT_VALIDATE_ERROR").await?.contains("unknown fields"));

    let large = network.transfer(alice.address, Party::new(2).address, 1).await?;
    let large = proto::Raw { data: vec![0; 500 * 1024], ..large };
    assert_eq!(network.refused(&alice, large, "TOO_BIG_TRANSACTION_ERROR").await?, "Transaction size is too big.");
    let answer = network.post("wallet/broadcasthex", json!({ "transaction": "0g" })).await?;
    assert!(answer["Error"].as_str().is_some_and(|text| text.contains("INVALID hex String")), "{answer}");
    Ok(())
}

#[tokio::test]
async fn more_than_may_wait() -> Result<()> {
    let network = Network::start().await?;
    let alice = network.funded(1, 1_000_000 * TRX).await?;
    let mut raw = network.transfer(alice.address, Party::new(2).address, 1).await?;
    raw.data = vec![0; 490 * 1024];
    // 16 MiB of them fit.
    for sent in 0.. {
        raw.timestamp += 1;
        let answer = network.send(&alice, raw.clone()).await?;
        if answer["result"] != true {
            assert_eq!(sent, 33);
            assert_eq!(refusal(&answer, "SERVER_BUSY")?, "Server busy.");
            break;
        }
    }
    // A block has room for three; the rest goes on waiting.
    network.mine(1).await?;
    assert_eq!(network.get("wallet/getpendingsize").await?["pendingSize"], 30);
    Ok(())
}
