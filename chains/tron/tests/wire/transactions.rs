//! Transactions on the wire: which are taken, what became of them, and what a failure looks like.

use alloy::{
    primitives::{Address, U256},
    sol_types::SolEvent,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use chains_tron::{
    node::{BroadcastError, Info, State},
    transaction::{self, Draft},
};
use escrow_abi::contracts::DevToken;

use super::{payers_transfer, refused, transfer};
use crate::support::{LAG, World, account, key, liar::Liar};

#[tokio::test]
async fn a_transaction_is_taken_once_and_known_from_then_on() -> Result<()> {
    let world = World::start().await?;
    let node = world.node();
    let signed = payers_transfer(&world).await?.sign(&world.payer);
    node.broadcast(&signed.bytes).await?;
    node.broadcast(&signed.bytes).await?;
    assert_eq!(node.info(signed.id, State::Newest).await?, None);
    world.mine(1).await?;
    node.broadcast(&signed.bytes).await?;
    world.mine(1).await?;
    assert_eq!(world.tokens(&world.recipient).await?, 1);
    // What a network forgot is taken again.
    let other = payers_transfer(&world).await?.sign(&world.payer);
    node.broadcast(&other.bytes).await?;
    world.dev.control("drop", json!({})).await?;
    world.mine(1).await?;
    assert_eq!(node.info(other.id, State::Newest).await?, None);
    node.broadcast(&other.bytes).await?;
    world.mine(1).await?;
    assert!(node.info(other.id, State::Newest).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn what_the_network_refuses_is_told_by_its_code() -> Result<()> {
    let world = World::start().await?;
    let node = world.node();
    let draft = payers_transfer(&world).await?;
    let message = refused(node.broadcast(&draft.sign(&world.settler).bytes).await, "SIGERROR")?;
    assert!(message.contains("Validate signature error"), "{message}");
    let mut elsewhere = draft.clone();
    elsewhere.reference.hash = [7; 8];
    refused(node.broadcast(&elsewhere.sign(&world.payer).bytes).await, "TAPOS_ERROR")?;
    let past = Draft { expiration_ms: node.head().await?.time_ms, ..draft.clone() };
    refused(node.broadcast(&past.sign(&world.payer).bytes).await, "TRANSACTION_EXPIRATION_ERROR")?;
    let far = Draft { expiration_ms: draft.expiration_ms + 2 * 24 * 60 * 60 * 1000, ..draft.clone() };
    refused(node.broadcast(&far.sign(&world.payer).bytes).await, "TRANSACTION_EXPIRATION_ERROR")?;
    let mut nowhere = draft.clone();
    nowhere.call.contract = Address::repeat_byte(9);
    refused(node.broadcast(&nowhere.sign(&world.payer).bytes).await, "CONTRACT_VALIDATE_ERROR")?;
    // Somebody without an account.
    let mut poor = draft.clone();
    poor.call.owner = key(77).address();
    refused(node.broadcast(&poor.sign(&key(77)).bytes).await, "CONTRACT_VALIDATE_ERROR")?;
    world.dev.fund(&account(&key(77)), 1).await?;
    let long = Draft { call: transaction::Call { data: vec![0; 2_000], ..poor.call.clone() }, ..poor };
    refused(node.broadcast(&long.sign(&key(77)).bytes).await, "BANDWITH_ERROR")?;
    // What is said of the node is not a refusal of the transaction.
    let fault = node.broadcast(&[1, 2, 3]).await.expect_err("taken");
    assert!(matches!(fault, BroadcastError::Transient(_)), "{fault:?}");
    let liar = Liar::before(&world.tron.url()).await?;
    let node = world.node_at(&liar.url);
    let signed = draft.sign(&world.payer);
    for answer in [
        json!({"result": false, "code": "SERVER_BUSY", "message": "Server busy."}),
        json!({"code": "NOT_ENOUGH_EFFECTIVE_CONNECTION"}),
        json!({"Error": "class java.lang.NullPointerException : null"}),
        json!({}),
    ] {
        liar.say("wallet/broadcasthex", answer);
        let fault = node.broadcast(&signed.bytes).await.expect_err("taken");
        assert!(matches!(fault, BroadcastError::Transient(_)), "{fault:?}");
    }
    // Words come in hex or as they are, and never in any length.
    for message in [hex::encode("x".repeat(1_000)), "x".repeat(1_001)] {
        liar.say("wallet/broadcasthex", json!({"code": "TAPOS_ERROR", "message": message}));
        assert_eq!(refused(node.broadcast(&signed.bytes).await, "TAPOS_ERROR")?, "x".repeat(400));
    }
    Ok(())
}

#[tokio::test]
async fn what_became_of_a_transaction_is_told_with_its_logs() -> Result<()> {
    let world = World::start().await?;
    let (node, token) = (world.node(), world.token_address());
    let good = payers_transfer(&world).await?.sign(&world.payer);
    let data = transfer(world.recipient.address(), u64::MAX);
    let reverting = world.draft(&world.payer, token, data).await?.sign(&world.payer);
    let starved = Draft { fee_limit_sun: 100_000, ..payers_transfer(&world).await? }.sign(&world.payer);
    for signed in [&good, &reverting, &starved] {
        node.broadcast(&signed.bytes).await?;
    }
    world.mine(1).await?;
    let head = node.head().await?;
    let infos = node.infos_of(head.number, State::Newest).await?.read;
    assert_eq!(infos.iter().map(|info| info.id).collect::<Vec<_>>(), [good.id, reverting.id, starved.id]);
    let mut told = Vec::new();
    for info in &infos {
        assert_eq!((info.block_number, info.block_time_ms), (head.number, head.time_ms));
        assert_eq!(info.contract, Some(token));
        assert!(info.energy > 0 && info.fee_sun >= info.energy * node.prices().await?.energy_sun);
        let single = node.info(info.id, State::Newest).await?.context("no transaction")?;
        // Of a whole block nothing is kept of what contracts returned, where the reason is.
        assert_eq!(single.failure.is_some(), info.failure.is_some());
        assert_eq!(Info { failure: info.failure.clone(), ..single.clone() }, *info);
        told.push(single);
    }
    let [done, reverted, starved] = told.as_slice() else { anyhow::bail!("{told:?}") };
    assert_eq!(done.failure, None);
    let [log] = done.logs.as_slice() else { anyhow::bail!("{done:?}") };
    assert_eq!(log.address, token);
    let event = DevToken::Transfer::decode_raw_log(log.topics.iter().copied(), &log.data)?;
    assert_eq!((event.from, event.to, event.value), (world.payer.address(), world.recipient.address(), U256::from(1)));
    let reason = reverted.failure.as_deref().context("no failure")?;
    assert!(reason.starts_with("REVERT: ERC20InsufficientBalance("), "{reason}");
    let reason = starved.failure.as_deref().context("no failure")?;
    assert!(reason.starts_with("OUT_OF_ENERGY: Not enough energy"), "{reason}");
    assert!(reverted.logs.is_empty() && starved.logs.is_empty());

    // Solidified later, and then for good.
    for _ in 0..LAG {
        assert_eq!(node.info(good.id, State::Solidified).await?, None);
        assert_eq!(node.infos_of(head.number, State::Solidified).await?.read, []);
        world.mine(1).await?;
    }
    assert_eq!(node.info(good.id, State::Solidified).await?.as_ref(), Some(done));
    assert_eq!(node.infos_of(head.number, State::Solidified).await?.read, infos);
    assert_eq!(node.infos_of(head.number + 100, State::Newest).await?.read, []);
    Ok(())
}

#[tokio::test]
async fn a_failure_is_never_read_as_a_success() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let node = world.node_at(&liar.url);
    let info = world.dev.execute(&world.payer, &world.token, payers_transfer(&world).await?.call.data, 0).await?;
    let change = |change: fn(&mut Value)| {
        liar.tell(move |path, _, mut truth| {
            if path.ends_with("gettransactioninfobyid") {
                change(&mut truth);
            }
            truth
        });
    };
    for (lie, told) in [
        ("a contract without a result", (|truth| drop(truth["receipt"].take())) as fn(&mut Value)),
        ("failed and succeeded", |truth| truth["result"] = json!("FAILED")),
        ("another transaction", |truth| truth["id"] = json!("11".repeat(32))),
        ("no id", |truth| truth["id"] = json!("11")),
        ("a topic that is none", |truth| truth["log"][0]["topics"][0] = json!("11")),
        ("a log of nobody", |truth| truth["log"][0]["address"] = json!("11")),
        ("data that is none", |truth| truth["log"][0]["data"] = json!("xx")),
        ("a negative fee", |truth| truth["fee"] = json!(-1)),
        ("a list", |truth| *truth = json!([1])),
        ("nothing at all", |truth| *truth = Value::Null),
    ] {
        change(told);
        let answer = node.info(info.id, State::Newest).await;
        assert!(answer.is_err(), "{lie}: {answer:?}");
    }
    change(|truth| truth["receipt"]["result"] = json!("OUT_OF_TIME"));
    let failed = node.info(info.id, State::Newest).await?.context("no transaction")?;
    assert!(failed.failure.is_some_and(|reason| reason.starts_with("OUT_OF_TIME")) && failed.logs.is_empty());
    // What ran no code has no result of its own.
    for (result, failure) in [(None, None), (Some("FAILED"), Some("FAILED: "))] {
        let mut plain = json!({"id": hex::encode(info.id), "blockNumber": 5, "receipt": {"net_usage": 267}});
        if let Some(result) = result {
            plain["result"] = json!(result);
        }
        liar.say("wallet/gettransactioninfobyid", plain);
        let read = node.info(info.id, State::Newest).await?.context("no transaction")?;
        assert_eq!(read.failure.as_deref(), failure);
    }
    liar.say("wallet/gettransactioninfobyblocknum", json!([{"id": hex::encode(info.id), "blockNumber": 5}]));
    node.infos_of(6, State::Newest).await.expect_err("of another block");
    assert_eq!(node.infos_of(5, State::Newest).await?.read.len(), 1);
    // One that cannot be read hides no other, and is counted.
    let sibling = json!({"id": hex::encode(info.id), "blockNumber": 5, "log": [{"address": "11"}], "fee": "x"});
    let plain = json!({"id": hex::encode(info.id), "blockNumber": 5});
    liar.say("wallet/gettransactioninfobyblocknum", json!([sibling, plain, null, {"id": 7}]));
    let infos = node.infos_of(5, State::Newest).await?;
    assert_eq!((infos.read.len(), infos.unread), (1, 3));
    Ok(())
}
