//! The wire to a node: what it is asked and told, and what is believed of it.

mod transactions;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::SolCall,
};
use anyhow::Result;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use chains_tron::{
    dev::DevError,
    node::{AccountResources, Answer, BroadcastError, State},
    transaction::Draft,
};
use escrow_abi::contracts::{DevToken, FulfillmentProxy, GatewayEscrow};
use sagas::ports::Transient;

use crate::support::{FUNDS, LAG, TRX, World, account, key, liar::Liar};

fn transfer(to: Address, amount: u64) -> Vec<u8> {
    DevToken::transferCall { to, value: U256::from(amount) }.abi_encode()
}

/// A transfer of one token by the payer.
async fn payers_transfer(world: &World) -> Result<Draft> {
    world.draft(&world.payer, world.token_address(), transfer(world.recipient.address(), 1)).await
}

fn refused(result: Result<(), BroadcastError>, code: &str) -> Result<String> {
    match result {
        Err(BroadcastError::Refused { code: told, message }) if told == code => Ok(message),
        other => anyhow::bail!("not {code}: {other:?}"),
    }
}

/// Shows the liar's callers the newest block as the solidified one, for as many answers as `times` says.
async fn settle_the_head(liar: &Liar, node_url: &str, times: Arc<AtomicU64>) -> Result<()> {
    let http = alloy::transports::http::reqwest::Client::new();
    let head = http.post(format!("{node_url}/wallet/getblock")).body("{}").send().await?.bytes().await?;
    let head: Value = serde_json::from_slice(&head)?;
    liar.tell(move |path, _, truth| {
        let lies = path == "walletsolidity/getblock"
            && times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if lies { head.clone() } else { truth }
    });
    Ok(())
}

#[tokio::test]
async fn contracts_answer_as_of_a_block() -> Result<()> {
    let world = World::start().await?;
    let node = world.node();
    world.dev.control("mine", json!({"blocks": LAG + 2, "apart_ms": 3_000})).await?;
    // An answer's time is its block's, not the clock's.
    world.dev.control("time", json!({"advance_ms": 60_000})).await?;
    let (head, settled) = (node.head().await?, node.settled().await?);
    assert_eq!(head.number - settled.number, LAG);
    let asked = GatewayEscrow::recordAsOfCall { paymentId: B256::repeat_byte(1) };
    let proxy = FulfillmentProxy::fulfilledAsOfCall { key: B256::ZERO };
    for (state, block) in [(State::Newest, head), (State::Solidified, settled)] {
        let expected = (U256::from(block.number), U256::from(block.time_ms / 1_000));
        let answer = node.call(None, world.escrow(), &asked, state).await?;
        let Answer::Returned { value, energy } = answer else { anyhow::bail!("{answer:?}") };
        assert_eq!(value.record.state, 0);
        assert!(energy > 0);
        assert_eq!((value.blockNumber, value.time), expected, "{state:?}");
        let answer = node.call(None, world.proxy(), &proxy, state).await?;
        let Answer::Returned { value, .. } = answer else { anyhow::bail!("{answer:?}") };
        assert_eq!(
            (value.fulfilledIn, value.blockNumber, value.time),
            (U256::ZERO, expected.0, expected.1),
            "{state:?}"
        );
        assert_eq!(node.block(block.number, state).await?, Some(block));
    }
    assert_eq!(node.block(head.number, State::Solidified).await?, None);
    assert_eq!(node.block(head.number + 1, State::Newest).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_call_without_a_contract_or_of_another_is_no_answer() -> Result<()> {
    let world = World::start().await?;
    let node = world.node();
    let asked = GatewayEscrow::recordAsOfCall { paymentId: B256::ZERO };
    let nobody = Address::repeat_byte(9);
    let fault = node.call(None, nobody, &asked, State::Newest).await.expect_err("answered");
    assert!(fault.to_string().contains("CONTRACT_VALIDATE_ERROR"), "{fault}");
    // A token's balance is not a record.
    world.dev.control("code", json!({"address": account(&key(99)), "code": "5f5f5260205ff3"})).await?;
    let fault = node.call(None, key(99).address(), &asked, State::Newest).await.expect_err("answered");
    assert!(fault.to_string().contains("recordAsOf(bytes32) answered"), "{fault}");
    Ok(())
}

#[tokio::test]
async fn a_trial_tells_the_energy_or_the_reason() -> Result<()> {
    let world = World::start().await?;
    let (node, payer, token) = (world.node(), world.payer.address(), world.token_address());
    let draft = payers_transfer(&world).await?;
    let trial = node.trial(payer, token, draft.call.data.clone(), 0).await?;
    let Answer::Returned { energy, value } = trial else { anyhow::bail!("{trial:?}") };
    assert!(DevToken::transferCall::abi_decode_returns(&value)?);
    let info = world.dev.execute(&world.payer, &world.token, draft.call.data, 0).await?;
    assert_eq!(info.energy, energy);
    assert_eq!(world.tokens(&world.recipient).await?, 1);

    let too_much = transfer(world.recipient.address(), u64::MAX);
    let trial = node.trial(payer, token, too_much, 0).await?;
    let Answer::Reverted { reason, data } = trial else { anyhow::bail!("{trial:?}") };
    assert!(reason.starts_with("ERC20InsufficientBalance(sender: 0x"), "{reason}");
    assert_eq!(data.len(), 100);
    let asked = DevToken::transferCall { to: Address::ZERO, value: U256::ZERO };
    let answer = node.call(Some(payer), token, &asked, State::Solidified).await?;
    assert!(matches!(&answer, Answer::Reverted { reason, .. } if reason.contains("Receiver")), "{answer:?}");

    // What cannot even be begun.
    for (to, value) in [(Address::repeat_byte(9), 0), (token, FUNDS + 1)] {
        let trial = node.trial(payer, to, Vec::new(), value).await?;
        let Answer::Reverted { reason, data } = trial else { anyhow::bail!("{trial:?}") };
        assert!(reason.starts_with("CONTRACT_VALIDATE_ERROR: ") && data.is_empty(), "{reason}");
    }
    Ok(())
}

/// The forms that Tron's nodes have and the development node has not.
#[tokio::test]
async fn the_vms_exceptions_are_told_from_the_nodes() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let node = world.node_at(&liar.url);
    let (payer, token) = (world.payer.address(), world.token_address());
    let thrown = |exception: &str| {
        let message = format!("class org.tron.core.vm.program.Program${exception} : words");
        liar.say(
            "wallet/triggerconstantcontract",
            json!({"result": {"code": "OTHER_ERROR", "message": hex::encode(message)}}),
        );
    };
    for exception in ["OutOfEnergyException", "IllegalOperationException", "StackTooSmallException"] {
        thrown(exception);
        let trial = node.trial(payer, token, Vec::new(), 0).await?;
        assert!(matches!(&trial, Answer::Reverted { reason, .. } if reason.contains(exception)), "{trial:?}");
        let asked = DevToken::totalSupplyCall {};
        node.call(None, token, &asked, State::Newest).await.expect_err("an answer");
    }
    thrown("OutOfTimeException");
    let fault = node.trial(payer, token, Vec::new(), 0).await.expect_err("an answer");
    assert!(fault.to_string().contains("OutOfTimeException"), "{fault}");
    liar.say("wallet/triggerconstantcontract", json!({"result": {"code": "SERVER_BUSY", "message": "no"}}));
    node.trial(payer, token, Vec::new(), 0).await.expect_err("an answer");
    Ok(())
}

#[tokio::test]
async fn a_fork_takes_newest_blocks_away_and_never_solidified_ones() -> Result<()> {
    let world = World::start().await?;
    let node = world.node();
    let settled = node.settled().await?;
    let signed = payers_transfer(&world).await?.sign(&world.payer);
    node.broadcast(&signed.bytes).await?;
    world.mine(1).await?;
    let head = node.head().await?;
    assert!(node.info(signed.id, State::Newest).await?.is_some());
    let settled_after = node.settled().await?;
    assert_eq!(settled_after.number, settled.number + 1);
    world.dev.control("fork", json!({"blocks": 1, "drop_transactions": true})).await?;
    world.mine(1).await?;
    assert_eq!(node.info(signed.id, State::Newest).await?, None);
    let other = node.head().await?;
    assert_eq!((other.number, other.parent), (head.number, head.parent));
    assert_ne!(other.id, head.id);
    assert_eq!(node.settled().await?, settled_after);
    Ok(())
}

#[tokio::test]
async fn a_settled_block_needs_two_answers() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let node = world.node_at(&liar.url);
    let times = Arc::new(AtomicU64::new(0));
    settle_the_head(&liar, &world.tron.url(), times.clone()).await?;
    // One answer of one that errs, before anything was seen and afterwards.
    for _ in 0..2 {
        times.store(1, Ordering::SeqCst);
        let fault = node.settled().await.expect_err("believed");
        assert!(fault.to_string().contains("is not found again"), "{fault}");
        node.settled().await?;
    }
    let settled = node.settled().await?;
    assert_eq!(settled.number + LAG, node.head().await?.number);

    // One that lags or is on another branch.
    let show = |change: fn(&mut Value)| {
        liar.tell(move |path, _, mut truth| {
            if path.ends_with("/getblock") {
                change(&mut truth);
            }
            truth
        });
    };
    show(|truth| {
        let number = truth["block_header"]["raw_data"]["number"].as_u64().unwrap().saturating_sub(LAG + 1);
        truth["block_header"]["raw_data"]["number"] = json!(number);
        let id = format!("{number:016x}{}", &truth["blockID"].as_str().unwrap()[16..]);
        truth["blockID"] = json!(id);
    });
    node.settled().await.expect_err("below what was seen");
    node.head().await.expect_err("below what was settled");
    show(|truth| {
        let id = truth["blockID"].as_str().unwrap();
        truth["blockID"] = json!(format!("{}{}", &id[..16], "11".repeat(24)));
    });
    node.settled().await.expect_err("another block at the height");
    node.block(settled.number, State::Solidified).await.expect_err("another block at the height");
    show(|truth| truth["blockID"] = json!("11".repeat(32)));
    node.head().await.expect_err("an id of another number");
    show(|truth| *truth = json!({}));
    node.head().await.expect_err("no head");
    node.block(settled.number, State::Newest).await.expect_err("missing though settled");
    liar.be_honest();
    assert_eq!(node.settled().await?, settled);

    // A later block that is not later in time.
    world.mine(1).await?;
    show(|truth| truth["block_header"]["raw_data"]["timestamp"] = json!(1));
    node.settled().await.expect_err("time goes back");
    liar.be_honest();
    assert_eq!(node.settled().await?.number, settled.number + 1);
    Ok(())
}

#[tokio::test]
async fn prices_and_resources_are_read() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let node = world.node_at(&liar.url);
    let prices = node.prices().await?;
    assert_eq!((prices.energy_sun, prices.bandwidth_sun), (100, 1_000));
    assert_eq!(prices.fee_limit_max_sun, Some(15_000 * TRX));
    let settler = world.settler.address();
    assert_eq!(node.resources(settler).await?, AccountResources { balance_sun: FUNDS, energy: 0, bandwidth: 600 });
    let nobody = AccountResources { balance_sun: 0, energy: 0, bandwidth: 0 };
    assert_eq!(node.resources(Address::repeat_byte(9)).await?, nobody);
    let info = world.dev.execute(&world.settler, &world.token, transfer(settler, 0), 0).await?;
    let resources = node.resources(settler).await?;
    assert_eq!(resources.balance_sun, FUNDS - info.fee_sun);
    assert!(resources.bandwidth < 600);

    let resources = |staked: u64| {
        json!({"freeNetUsed": 500, "freeNetLimit": 600, "NetLimit": staked, "NetUsed": 50,
            "EnergyLimit": 70_000, "EnergyUsed": 80_000})
    };
    for (staked, bandwidth) in [(400, 350), (60, 100)] {
        liar.say("wallet/getaccountresource", resources(staked));
        let resources = node.resources(settler).await?;
        assert_eq!((resources.bandwidth, resources.energy), (bandwidth, 0));
    }
    for parameters in [json!([]), json!([{"key": "getEnergyFee", "value": 100}]), json!("none")] {
        liar.say("wallet/getchainparameters", json!({"chainParameter": parameters}));
        node.prices().await.expect_err("no prices");
    }
    let negative = json!([{"key": "getEnergyFee", "value": -1}, {"key": "getTransactionFee", "value": 1}]);
    liar.say("wallet/getchainparameters", json!({"chainParameter": negative}));
    node.prices().await.expect_err("a negative price");
    // What is zero is left out.
    let free = json!([{"key": "getEnergyFee"}, {"key": "getTransactionFee"}]);
    liar.say("wallet/getchainparameters", json!({"chainParameter": free}));
    let prices = node.prices().await?;
    assert_eq!((prices.energy_sun, prices.bandwidth_sun, prices.fee_limit_max_sun), (0, 0, None));
    Ok(())
}

#[tokio::test]
async fn answers_that_are_none_are_faults() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let node = world.node_at(&liar.url);
    node.check().await?;
    let (payer, token) = (world.payer.address(), world.token_address());
    for answer in [
        json!(null),
        json!([]),
        json!(7),
        json!("text"),
        json!({"Error": "lack of computing resources"}),
        json!({"unknown": 1}),
    ] {
        let said = answer.clone();
        liar.answer(move |_, _| Some(axum::Json(said.clone()).into_response()));
        let faults: Vec<Option<Transient>> = vec![
            node.head().await.err(),
            node.settled().await.err(),
            node.prices().await.err(),
            node.trial(payer, token, Vec::new(), 0).await.err(),
            node.broadcast(&[1]).await.err().map(Transient::unreachable),
        ];
        assert!(faults.iter().all(Option::is_some), "{answer}: {faults:?}");
    }
    // A call without a result is none, and neither is one whose result is not hex.
    for result in [json!([]), json!(["xx"]), json!([7])] {
        let answer = json!({"result": {"result": true}, "energy_used": 1, "constant_result": result});
        liar.say("wallet/triggerconstantcontract", answer);
        node.trial(payer, token, Vec::new(), 0).await.expect_err("an answer");
    }
    Ok(())
}

#[tokio::test]
async fn a_new_block_wakes_whoever_waits() -> Result<()> {
    let world = World::start().await?;
    let node = world.node();
    let head = node.head().await?;
    let waiting = tokio::spawn({
        let node = node.clone();
        async move {
            while node.head().await? == head {
                node.next_block().await;
            }
            anyhow::Ok(())
        }
    });
    world.mine(1).await?;
    waiting.await??;
    Ok(())
}

#[tokio::test]
async fn development_chains_refuse_loudly() -> Result<()> {
    let world = World::start().await?;
    let too_much = transfer(world.recipient.address(), u64::MAX);
    let failed = world.dev.execute(&world.payer, &world.token, too_much, 0).await;
    assert!(matches!(&failed, Err(DevError::Failed(_, reason)) if reason.contains("ERC20Insufficient")), "{failed:?}");
    let unfunded = world.dev.execute(&key(88), &world.token, transfer(key(88).address(), 0), 0).await;
    assert!(matches!(unfunded, Err(DevError::Chain(_))), "{unfunded:?}");
    world.dev.mint(&world.token, "0x00", U256::ZERO).await.expect_err("minted");
    // The same twice is two transactions.
    let before = world.tokens(&world.recipient).await?;
    for _ in 0..2 {
        world.dev.mint(&world.token, &account(&world.recipient), U256::from(5)).await?;
    }
    assert_eq!(world.tokens(&world.recipient).await?, before + 10);
    world.dev.approve(&world.payer, &world.token, &world.contracts.escrow, U256::from(7)).await?;
    let asked = DevToken::allowanceCall { owner: world.payer.address(), spender: world.escrow() };
    let answer = world.node().call(None, world.token_address(), &asked, State::Newest).await?;
    assert!(matches!(answer, Answer::Returned { value, .. } if value == U256::from(7)), "{answer:?}");
    assert!(world.dev.balance(&account(&world.payer)).await? < FUNDS);
    Ok(())
}
