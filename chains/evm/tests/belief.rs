//! Untrusted nodes: those that lag, contradict themselves, are of another chain, or do not answer.

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy::{
    primitives::{B256, Bytes, U256},
    sol_types::{SolCall, SolEvent},
};
use anyhow::{Result, bail};
use serde_json::{Value, json};

use chains::{config::Depth, settler::DeliveryChain};
use chains_evm::{
    deliveries::Deliveries, escrows::Escrows, node::Node, query::Query, settler::SettlerChain,
    transaction_status::Transactions,
};
use escrow_abi::contracts::{GatewayEscrow, parse_address};
use events::ChainId;
use sagas::ports::{Chains, DeliveryState, DepositState, EscrowState};

use crate::support::{liar::Liar, *};

async fn lying(chain: &Chain) -> Result<(Liar, Node)> {
    let liar = Liar::before(&chain.anvil.url()).await?;
    let mut config = chain.config.clone();
    config.common.rpc_url = liar.url.clone();
    Ok((liar, Node::connect(&config)?))
}

#[tokio::test]
async fn a_node_of_another_chain_is_refused_until_it_is_the_right_one() -> Result<()> {
    let world = World::start().await?;
    let (liar, node) = lying(&world.source).await?;
    liar.say("eth_chainId", json!("0x1"));
    assert!(node.head().await.unwrap_err().to_string().contains("is of chain 1"));
    liar.be_honest();
    assert!(node.head().await.is_ok());
    let mut config = world.source.config.clone();
    config.common.chain_id = ChainId::evm(5);
    assert!(Node::connect(&config)?.settled().await.is_err());
    Ok(())
}

#[tokio::test]
async fn silence_and_refusals_conclude_nothing() -> Result<()> {
    let mut world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let (liar, node) = lying(&world.source).await?;
    for method in
        ["eth_getBlockByNumber", "eth_call", "eth_getTransactionCount", "eth_getTransactionReceipt", "eth_getCode"]
    {
        liar.tell(move |request, truth| match request["method"] == method {
            true => {
                json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32005, "message": "rate limited"}})
            }
            false => truth,
        });
        // Without a contract's answer the code is not asked for.
        let state = Transactions::of(&node).deposit_state(&payment.deposit(), from_ref(&prepared)).await;
        assert!(state.is_err() || method == "eth_getCode", "{method}: {state:?}");
    }
    world.source.anvil.kill().await?;
    assert!(world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await.is_err());
    assert!(world.chains.broadcast(&prepared).await.is_err());
    assert!(world.chains.escrow_state(payment.id(), &payment.escrow).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_settled_block_never_goes_back() -> Result<()> {
    let world = World::start().await?;
    let (liar, node) = lying(&world.source).await?;
    let earlier = node.settled().await?;
    world.source.mine(3).await?;
    let later = node.settled().await?;
    assert_eq!(later.number, earlier.number + 3);
    let lagging = world.source.node.block(later.number - 1).await?.unwrap();
    liar.tell(move |request, mut truth| {
        if request["method"] == "eth_getBlockByNumber" && request["params"][0] == "latest" {
            truth["result"]["number"] = json!(format!("{:#x}", lagging.number));
            truth["result"]["hash"] = json!(lagging.hash);
        }
        truth
    });
    assert!(node.head().await.is_err());
    assert!(node.settled().await.is_err());
    liar.be_honest();
    assert_eq!(node.settled().await?, later);
    Ok(())
}

#[tokio::test]
async fn a_block_is_settled_only_when_a_second_answer_reaches_it() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let order = payment.deposit();
    let prepared = world.chains.prepare_deposit(&order, 1).await?;
    world.chains.broadcast(&prepared).await?;
    let (liar, node) = lying(&world.source).await?;
    // It names a head once that is DEPTH blocks ahead, and has all the blocks in between to show for it.
    let mut invented: Vec<Value> = Vec::new();
    liar.tell(move |request, mut truth| {
        let (method, block) = (&request["method"], &request["params"][0]);
        if method == "eth_getBlockByNumber" && block == "latest" && invented.is_empty() {
            let head = u64::from_str_radix(truth["result"]["number"].as_str().unwrap().trim_start_matches("0x"), 16);
            invented.push(truth["result"].clone());
            for ahead in 1..=DEPTH {
                let mut next = invented.last().unwrap().clone();
                next["parentHash"] = next["hash"].take();
                next["hash"] = json!(B256::with_last_byte(u8::try_from(ahead).unwrap()));
                next["number"] = json!(format!("{:#x}", *head.as_ref().unwrap() + ahead));
                invented.push(next);
            }
            truth["result"] = invented.last().unwrap().clone();
        } else if method == "eth_getBlockByHash"
            && let Some(known) = invented.iter().find(|known| known["hash"] == *block)
        {
            truth["result"] = known.clone();
        }
        truth
    });
    // By its word the deposit's block, the newest, has the depth.
    let fault = Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await.unwrap_err();
    assert!(fault.to_string().contains("settled block"), "{fault}");
    // It erred once, and what it said then is not kept either.
    assert_eq!(Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    world.source.mine(DEPTH).await?;
    assert!(matches!(
        Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await?,
        DepositState::Secured(_)
    ));
    Ok(())
}

#[tokio::test]
async fn a_settled_block_is_an_ancestor_of_the_head() -> Result<()> {
    let world = World::start().await?;
    world.source.mine(DEPTH + 1).await?;
    let settled = Node::connect(&world.source.config)?.settled().await?;
    let (liar, node) = lying(&world.source).await?;
    // One of several nodes is on a branch that was left, and is the one that is asked for blocks by number.
    liar.tell(|request, mut truth| {
        if request["method"] == "eth_getBlockByNumber" && request["params"][0] != "latest" {
            truth["result"]["hash"] = json!(B256::repeat_byte(7));
        }
        truth
    });
    assert_eq!(node.settled().await?, settled);
    Ok(())
}

#[tokio::test]
async fn the_block_of_an_event_is_one_of_the_settled_branch() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let order = payment.deposit();
    let prepared = world.chains.prepare_deposit(&order, 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(DEPTH + 1).await?;
    let DepositState::Secured(secured) = world.chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("not secured");
    };
    let (liar, node) = lying(&world.source).await?;
    // One of several nodes is on a branch that was left, which had the deposit in another block. It gives two answers.
    let number = format!("{:#x}", secured.inclusion.block_number);
    let mut answers = 0;
    liar.tell(move |request, mut truth| {
        let left = B256::repeat_byte(7);
        if request["method"] == "eth_getLogs" && answers == 0 {
            truth["result"].as_array_mut().unwrap().iter_mut().for_each(|log| log["blockHash"] = json!(left));
            answers += 1;
        } else if request["method"] == "eth_getBlockByNumber" && request["params"][0] == number && answers == 1 {
            truth["result"]["hash"] = json!(left);
            answers += 1;
        }
        truth
    });
    assert!(Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await.is_err());
    assert_eq!(
        Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await?,
        DepositState::Secured(secured)
    );
    Ok(())
}

#[tokio::test]
async fn a_finalized_block_that_changes_is_not_believed() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.source.anvil.url()).await?;
    let mut config = world.source.config.clone();
    (config.common.rpc_url, config.common.required_depth) = (liar.url.clone(), Depth::Finalized);
    let node = Node::connect(&config)?;
    let _: Value = world.source.dev.rpc("anvil_mine", (U256::from(100),)).await?;
    let settled = node.settled().await?;
    assert!(settled.number > 0, "anvil finalizes 64 blocks back");
    liar.tell(|request, mut truth| {
        if request["method"] == "eth_getBlockByNumber" {
            truth["result"]["hash"] = json!(B256::repeat_byte(7));
        }
        truth
    });
    assert!(node.settled().await.is_err());
    Ok(())
}

#[tokio::test]
async fn lagging_receipts_and_logs_never_give_a_false_end() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let order = payment.deposit();
    let prepared = world.chains.prepare_deposit(&order, 1).await?;
    world.source.dev.approve(&world.payer, &world.source.token, &world.source.contracts.permit2, U256::ZERO).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let (liar, node) = lying(&world.source).await?;

    // The deposit reverted, but the receipt does not come: it was not superseded.
    liar.say("eth_getTransactionReceipt", Value::Null);
    assert!(Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await.is_err());
    assert!(Transactions::of(&node).state(from_ref(&prepared)).await.is_err());
    // A receipt from a block that is not canonical proves nothing.
    liar.tell(|request, mut truth| {
        if request["method"] == "eth_getTransactionReceipt" {
            truth["result"]["blockHash"] = json!(B256::repeat_byte(7));
        }
        truth
    });
    assert!(Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await.is_err());
    // Nor does one that claims success where nothing is in escrow.
    liar.tell(|request, mut truth| {
        if request["method"] == "eth_getTransactionReceipt" {
            truth["result"]["status"] = json!("0x1");
        }
        truth
    });
    assert!(Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await.is_err());
    liar.be_honest();
    assert_eq!(Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    world.end_admissions().await?;
    assert!(matches!(
        Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await?,
        DepositState::Reverted(_)
    ));
    Ok(())
}

#[tokio::test]
async fn an_effect_without_its_event_is_waited_for() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let (liar, node) = lying(&world.source).await?;
    liar.say("eth_getLogs", json!([]));
    assert!(Transactions::of(&node).deposit_state(&payment.deposit(), from_ref(&prepared)).await.is_err());
    liar.be_honest();
    assert!(matches!(
        Transactions::of(&node).deposit_state(&payment.deposit(), from_ref(&prepared)).await?,
        DepositState::Secured(_)
    ));

    SettlerChain::new(world.destination.node.clone(), world.settler.clone()).deliver(&payment.delivery()).await?;
    let (liar, node) = lying(&world.destination).await?;
    liar.tell(|request, mut truth| {
        if request["method"] == "eth_getLogs" {
            for log in truth["result"].as_array_mut().unwrap() {
                log["address"] = json!("0x00000000000000000000000000000000000000ff");
            }
        }
        truth
    });
    assert!(Deliveries::of(&node).state(&payment.delivery()).await.is_err(), "an event of another contract");
    liar.tell(|request, mut truth| {
        if request["method"] == "eth_getLogs" {
            for log in truth["result"].as_array_mut().unwrap() {
                log["blockHash"] = json!(B256::repeat_byte(7));
            }
        }
        truth
    });
    assert!(Deliveries::of(&node).state(&payment.delivery()).await.is_err(), "an event of another fork");
    liar.be_honest();
    assert!(matches!(Deliveries::of(&node).state(&payment.delivery()).await?, DeliveryState::Seen(_)));
    Ok(())
}

/// A contract stores a hash. Who does not know what was hashed asks for the events; what the node tells counts when it has that
/// hash, and where it tells nothing, nothing is concluded: neither that there is no escrow nor that it is another's.
#[tokio::test]
async fn terms_that_nobody_tells_or_that_are_not_the_stored_ones_conclude_nothing() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let (id, plan) = (payment.id(), &payment.escrow);
    let settled = world.source.node.settled().await?;
    type Lie = fn(&mut Value);
    let lies: [(&str, Lie); 6] = [
        ("no events", |logs| *logs = json!([])),
        ("no deposit", |logs| logs.as_array_mut().unwrap().retain(|log| log["topics"][0] != deposited())),
        ("no reservation", |logs| logs.as_array_mut().unwrap().retain(|log| log["topics"][0] == deposited())),
        ("another token", |logs| {
            each(logs, |log| {
                let data = log["data"].as_str().unwrap_or_default().to_owned();
                if log["topics"][0] == deposited() {
                    log["data"] = format!("{}{}{}", &data[..2 + 9 * 64], "11".repeat(32), &data[2 + 10 * 64..]).into();
                }
            });
        }),
        ("another settler", |logs| {
            each(logs, |log| {
                if log["topics"][0] != deposited() {
                    log["topics"][3] = json!(B256::with_last_byte(7));
                }
            });
        }),
        ("another contract's events", |logs| {
            each(logs, |log| log["address"] = json!("0x00000000000000000000000000000000000000ff"));
        }),
    ];
    for (lie, change) in lies {
        let (liar, node) = lying(&world.source).await?;
        liar.tell(move |request, mut truth| {
            if request["method"] == "eth_getLogs" {
                change(&mut truth["result"]);
            }
            truth
        });
        Escrows::of(&node).state(id, plan).await.expect_err(lie);
        Transactions::of(&node).deposit_ruled_out(id, plan, 0).await.expect_err(lie);
        Escrows::of(&node).settled(id, &plan.contract).await.expect_err(lie);
        let settler = SettlerChain::new(node.clone(), world.settler.clone());
        settler.reservation(id, &plan.contract).await.expect_err(lie);
        settler.release(id, plan, "0x").await.expect_err(lie);
        liar.be_honest();
        assert_eq!(Escrows::of(&node).state(id, plan).await?, EscrowState::Held, "{lie}");
    }

    // A hash of nothing that is known, by a node that tells the truth of the events.
    let (liar, node) = lying(&world.source).await?;
    assert_eq!(Escrows::of(&node).state(id, plan).await?, EscrowState::Held);
    liar.tell(move |request, mut truth| {
        if calls::<GatewayEscrow::recordOfCall>(request) {
            let record = truth["result"].as_str().unwrap_or_default().to_owned();
            truth["result"] = format!("{}{}", &record[..record.len() - 64], "22".repeat(32)).into();
        }
        truth
    });
    Escrows::of(&node).state(id, plan).await.expect_err("a hash of nothing");
    Transactions::of(&node)
        .deposit_state(&payment.deposit(), from_ref(&prepared))
        .await
        .expect_err("a hash of nothing");
    liar.be_honest();
    assert_eq!(world.source.node.settled().await?, settled);
    Ok(())
}

/// The topic of a deposit's event.
fn deposited() -> Value {
    json!(GatewayEscrow::Deposited::SIGNATURE_HASH)
}

fn each(logs: &mut Value, change: impl Fn(&mut Value)) {
    logs.as_array_mut().into_iter().flatten().for_each(change);
}

/// Whether it is a call of `C`.
fn calls<C: SolCall>(request: &Value) -> bool {
    let data = request["params"][0]["data"].as_str().or(request["params"][0]["input"].as_str()).unwrap_or_default();
    request["method"] == "eth_call" && data.starts_with(&Bytes::from(C::SELECTOR).to_string())
}

/// Puts `number` in place of words of what a call returned.
fn put(answer: &mut Value, places: &[usize], number: &str) {
    let mut words = answer["result"].as_str().unwrap_or_default().to_owned();
    for place in places {
        words.replace_range(2 + place * 64..2 + (place + 1) * 64, &format!("{number:0>64}"));
    }
    answer["result"] = words.into();
}

/// Where the contract counts blocks as another chain does, its record names none of the node's: the events are searched for,
/// also when the node cannot be asked about such a block.
#[tokio::test]
async fn blocks_that_another_chain_counts_name_no_place() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    for (number, is_told) in [("1".to_owned(), true), ("1".to_owned(), false), ("f".repeat(10), true)] {
        let (liar, node) = lying(&world.source).await?;
        liar.tell(move |request, mut truth| {
            if calls::<GatewayEscrow::recordOfCall>(request) {
                put(&mut truth, &[2, 3], &number);
            }
            if calls::<GatewayEscrow::recordAsOfCall>(request) {
                put(&mut truth, &[2, 3, 6], &number);
            }
            let filter = &request["params"][0];
            let is_named = request["method"] == "eth_getLogs" && filter["fromBlock"] == filter["toBlock"];
            if is_named && !is_told { json!({}) } else { truth }
        });
        assert_eq!(Escrows::of(&node).state(payment.id(), &payment.escrow).await?, EscrowState::Held);
    }
    Ok(())
}

/// Where it counts them as the node does, the events are in those blocks or the node's logs lag behind its state.
#[tokio::test]
async fn a_node_whose_logs_lag_is_not_searched() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    world.secure(&payment).await?;
    let (liar, node) = lying(&world.source).await?;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    liar.tell(move |request, mut truth| {
        if request["method"] == "eth_getLogs" {
            count.fetch_add(1, Ordering::SeqCst);
            truth["result"] = json!([]);
        }
        truth
    });
    Escrows::of(&node).state(payment.id(), &payment.escrow).await.expect_err("no events");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "deposit and reservation are in one block");
    liar.be_honest();
    assert_eq!(Escrows::of(&node).state(payment.id(), &payment.escrow).await?, EscrowState::Held);
    Ok(())
}

#[tokio::test]
async fn nodes_that_allow_short_ranges_only_are_asked_for_short_ranges() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(600).await?;
    let (liar, node) = lying(&world.source).await?;
    liar.tell(|request, truth| {
        let number = |value: &Value| u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
        let filter = &request["params"][0];
        if request["method"] == "eth_getLogs" && number(&filter["toBlock"]) - number(&filter["fromBlock"]) > 100 {
            return json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "range too large"}});
        }
        truth
    });
    let DepositState::Secured(secured) =
        Transactions::of(&node).deposit_state(&payment.deposit(), from_ref(&prepared)).await?
    else {
        bail!("not secured");
    };
    assert_eq!(secured.inclusion.transaction_hash, prepared.transaction_hash);
    Ok(())
}

#[tokio::test]
async fn what_a_node_has_already_is_sent() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let raw: alloy::primitives::Bytes = prepared.raw.parse()?;
    let (liar, node) = lying(&world.source).await?;
    for (message, sent) in [
        ("already known", true),
        ("ALREADY_EXISTS: already known", true),
        ("nonce too low: next nonce 5, tx nonce 4", true),
        ("insufficient funds for gas * price + value", false),
        ("replacement transaction underpriced", false),
    ] {
        liar.tell(move |request, truth| match request["method"] == "eth_sendRawTransaction" {
            true => json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": message}}),
            false => truth,
        });
        assert_eq!(Query::of(&node).send(&raw).await.is_ok(), sent, "{message}");
    }
    Ok(())
}

#[tokio::test]
async fn all_who_wait_for_a_block_share_one_poller() -> Result<()> {
    let world = World::start().await?;
    let (liar, node) = lying(&world.source).await?;
    let polls = Arc::new(AtomicUsize::new(0));
    let counter = polls.clone();
    liar.tell(move |_, truth| {
        counter.fetch_add(1, Ordering::Relaxed);
        truth
    });
    let waiters: Vec<_> = (0..50)
        .map(|_| {
            let node = node.clone();
            tokio::spawn(async move {
                // Once for the first block that the poller sees, then for new ones.
                for _ in 0..3 {
                    node.next_block().await;
                }
            })
        })
        .collect();
    for waiter in waiters {
        while !waiter.is_finished() {
            world.source.mine(1).await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        waiter.await?;
    }
    let polled = polls.load(Ordering::Relaxed);
    assert!(polled < 150, "{polled} requests for 50 waiters and 3 blocks each");
    Ok(())
}

#[tokio::test]
async fn a_contract_account_is_asked_for_its_word() -> Result<()> {
    use chains_evm::authorization::{Choice, OnchainError, Scheme, authorize, authorize_onchain, prepare};
    let world = World::start().await?;
    let spend = world.spend("contract", Scheme::EvmPermit2Escrow, &world.destination.asset())?;
    let prepared = prepare(&spend, &Choice::default())?;
    let signed = sign(&key(77), prepared.digest, Some(prepared.typed_data.to_string()))?;
    assert!(authorize(&spend, &signed).unwrap_err().may_be_contract());
    let payers = world.source.payers();
    // That there was no code is remembered for a moment, by those who share it.
    assert!(
        matches!(authorize_onchain(&spend, &signed, &world.source.payers()).await, Err(OnchainError::Denied(_))),
        "no code there"
    );

    // A contract that answers every call with ERC-1271's magic value.
    let yes = "0x631626ba7e60e01b60005260206000f3";
    let no = "0x60006000f3";
    let payer = parse_address(&text(&world.payer))?;
    let _: Value = world.source.dev.rpc("anvil_setCode", (payer, no)).await?;
    assert!(matches!(authorize_onchain(&spend, &signed, &payers).await, Err(OnchainError::Denied(_))));
    let _: Value = world.source.dev.rpc("anvil_setCode", (payer, yes)).await?;
    let (authorization, escrow) = authorize_onchain(&spend, &signed, &payers).await?;
    // And Permit2 asks the same.
    let payment = world.awarded(spend, authorization, escrow)?;
    world.secure(&payment).await?;
    Ok(())
}
