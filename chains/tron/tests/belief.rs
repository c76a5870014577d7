//! What is not believed of a node of Tron's that lags, errs or lies.

mod siblings;

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use alloy::primitives::{U256, keccak256};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use chains_tron::{adapter::TronChains, node::State};
use events::event::TransactionPrepared;
use sagas::ports::{Chains, DeliveryState, DepositOrder, DepositState, EscrowState, PrepareError, TransactionState};

use crate::support::{
    World,
    liar::Liar,
    payment::{reason, spend},
};

/// Places in what `escrowAsOf` returns, in words of 32 bytes.
const PAYER: usize = 1;
const RESERVED_AT: usize = 2;
const ENDED_AT: usize = 3;
const TOKEN: usize = 6;
const SETTLER: usize = 7;
const DEPOSITED: usize = 8;
const SOURCE_AMOUNT: usize = 9;
const TERMS_HASH: usize = 10;
const QUOTE_HASH: usize = 11;
const DEPOSITED_AT: usize = 16;
const BLOCK_NUMBER: usize = 17;
const TIME: usize = 18;
const ESCROW_WORDS: usize = 19;

/// What is told of a block's transactions, and how.
type Lie = (&'static str, fn(&mut Value));

/// A payment that is reserved at depth, and a port that sees the chain through a liar.
struct Secured {
    world: World,
    liar: Liar,
    chains: TronChains,
    order: DepositOrder,
    prepared: TransactionPrepared,
    state: DepositState,
}

/// The words that a constant call returned; none for what is not a call.
fn words(answer: &Value) -> Vec<String> {
    let output = answer.pointer("/constant_result/0").and_then(Value::as_str).unwrap_or_default();
    output.as_bytes().chunks(64).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Changes all that was logged by the transactions of a block.
fn each_log(infos: &mut Value, change: impl Fn(&mut Value)) {
    let infos = infos.as_array_mut().into_iter().flatten();
    infos.filter_map(|info| info["log"].as_array_mut()).flatten().for_each(change);
}

fn number(word: &str) -> U256 {
    U256::from_str_radix(word, 16).unwrap()
}

fn selector(signature: &str) -> String {
    hex::encode(&keccak256(signature)[..4])
}

/// Whether a request is a constant call of this function.
fn calls(path: &str, request: &Value, signature: &str) -> bool {
    path.ends_with("triggerconstantcontract")
        && request["data"].as_str().is_some_and(|data| data.starts_with(&selector(signature)))
}

impl Secured {
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        let liar = Liar::before(&world.tron.url()).await?;
        let chains = world.chains_at(&liar.url);
        let order = world.order(600).await?;
        let prepared = world.secured(&chains, &order).await?;
        let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
        Ok(Self { world, liar, chains, order, prepared, state })
    }

    async fn look(&self) -> Result<DepositState, sagas::ports::Transient> {
        self.chains.deposit_state(&self.order, from_ref(&self.prepared)).await
    }

    /// From now on the words of `escrowAsOf` go through `change` with the number of the answer, from 0.
    fn on_record(&self, mut change: impl FnMut(usize, &mut Vec<String>) + Send + 'static) {
        let mut count = 0;
        self.liar.tell(move |path, request, mut truth| {
            let mut found = words(&truth);
            if calls(path, request, "escrowAsOf(bytes32)") && found.len() == ESCROW_WORDS {
                change(count, &mut found);
                count += 1;
                truth["constant_result"][0] = json!(found.concat());
            }
            truth
        });
    }

    fn on_word(&self, place: usize, change: impl Fn(U256) -> U256 + Send + 'static) {
        self.on_record(move |_, words| words[place] = format!("{:064x}", change(number(&words[place]))));
    }

    /// The lie is not believed, and the truth is again.
    async fn is_not_believed(&self, lie: &str) -> Result<()> {
        if let Ok(other) = self.look().await {
            bail!("{lie}: {other:?}");
        }
        self.liar.be_honest();
        assert_eq!(self.look().await?, self.state, "{lie}");
        Ok(())
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_is_a_fault() -> Result<()> {
    let secured = Secured::start().await?;
    for (lie, place, change) in [
        ("an unknown state", 0, (|_| U256::from(9)) as fn(U256) -> U256),
        ("released in no block", 0, |_| U256::from(3)),
        ("refunded in no block", 0, |_| U256::from(4)),
        ("deposited, and reserved in a block", 0, |_| U256::from(1)),
        ("reserved in no block", RESERVED_AT, |_| U256::ZERO),
        ("reserved before the deposit", RESERVED_AT, |_| U256::ONE),
        ("reserved in a block to come", RESERVED_AT, |number| number + U256::from(1_000)),
        ("ended and reserved", ENDED_AT, |_| U256::from(1_000)),
        ("deposited in no block", DEPOSITED_AT, |_| U256::ZERO),
        ("deposited after the reservation", DEPOSITED_AT, |number| number + U256::from(2)),
        ("nothing deposited", DEPOSITED, |_| U256::ZERO),
        ("an answer of an old block", BLOCK_NUMBER, |number| number - U256::ONE),
        ("an answer of no block", BLOCK_NUMBER, |_| U256::MAX),
        ("an answer of an old time", TIME, |_| U256::ONE),
        ("an answer of the settled block and another time", TIME, |time| time + U256::ONE),
    ] {
        secured.on_word(place, change);
        secured.is_not_believed(lie).await?;
    }
    secured.on_record(|_, words| words.truncate(5));
    secured.is_not_believed("a record cut off").await?;
    Ok(())
}

#[tokio::test]
async fn somebody_elses_record_is_not_the_payments() -> Result<()> {
    let secured = Secured::start().await?;
    for place in [PAYER, 4, 5, TOKEN, SETTLER, SOURCE_AMOUNT, TERMS_HASH, QUOTE_HASH, 12, 13, 15] {
        // Reserver, releaser and the windows are 4, 5, 12, 13 and 15.
        secured.on_word(place, |word| word + U256::ONE);
        match secured.look().await {
            // Nothing of the order's is there, though its own reservation had its effect.
            Err(fault) => assert!(fault.to_string().contains("nothing is reserved"), "{place}: {fault}"),
            Ok(other) => bail!("word {place}: {other:?}"),
        }
        assert_eq!(secured.chains.deposit_secured(&secured.order).await?, None, "word {place}");
        let of_plan = ![4, 5, 12, 13, 15].contains(&place);
        let (payment_id, plan) = (&secured.order.payment_id, &secured.order.escrow);
        let held = secured.chains.escrow_state(payment_id, plan).await? == EscrowState::Held;
        assert_eq!(held, of_plan, "word {place}");
        let refused = reason(secured.chains.prepare_deposit(&secured.order, 2).await)?;
        let expected =
            if [SETTLER, SOURCE_AMOUNT, QUOTE_HASH].contains(&place) { "reserved" } else { "another deposit" };
        assert!(refused.contains(expected), "word {place}: {refused}");
        secured.liar.be_honest();
    }
    // How much there is, is proven by the deposit's event.
    secured.on_word(DEPOSITED, |amount| amount + U256::ONE);
    secured.look().await.expect_err("an event of another amount");
    Ok(())
}

#[tokio::test]
async fn a_record_without_its_transactions_is_a_fault() -> Result<()> {
    let secured = Secured::start().await?;
    let DepositState::Secured(escrow) = &secured.state else { bail!("not secured") };
    let deposit = spend(&secured.order).deposit.transaction_hash.parse()?;
    let deposit = secured.world.node().info(deposit, State::Solidified).await?.context("no deposit")?;
    for number in [deposit.block_number, escrow.inclusion.block_number] {
        let lies: [Lie; 9] = [
            ("no transactions", |truth| *truth = json!([])),
            ("a transaction of another time", |truth| truth[0]["blockTimeStamp"] = json!(1_000)),
            ("a transaction that failed", |truth| {
                truth[0]["receipt"]["result"] = json!("OUT_OF_ENERGY");
                truth[0]["result"] = json!("FAILED");
            }),
            ("another emitter", |truth| each_log(truth, |log| log["address"] = json!("00".repeat(20)))),
            ("another event", |truth| each_log(truth, |log| log["topics"][0] = json!("11".repeat(32)))),
            ("another payment", |truth| each_log(truth, |log| log["topics"][1] = json!("11".repeat(32)))),
            ("another quote", |truth| each_log(truth, |log| log["topics"][2] = json!("11".repeat(32)))),
            ("another party", |truth| {
                each_log(truth, |log| {
                    if let Some(topic) = log["topics"].get_mut(3) {
                        *topic = json!("11".repeat(32));
                    }
                });
            }),
            ("other terms and amounts", |truth| {
                each_log(truth, |log| {
                    let length = log["data"].as_str().unwrap_or_default().len();
                    log["data"] = json!("01".repeat(length / 2));
                });
            }),
        ];
        for (lie, change) in lies {
            secured.liar.tell(move |path, request, mut truth| {
                if path == "walletsolidity/gettransactioninfobyblocknum" && request["num"] == number {
                    change(&mut truth);
                }
                truth
            });
            secured.is_not_believed(lie).await?;
        }
    }

    // Two answers about the block.
    let mut asked = 0;
    secured.liar.tell(move |path, request, mut truth| {
        let is_block = path == "walletsolidity/getblock" && request.get("id_or_num").is_some();
        if is_block && truth["blockID"].is_string() {
            asked += 1;
            if asked % 2 == 0 {
                let id = truth["blockID"].as_str().unwrap_or_default();
                truth["blockID"] = json!(format!("{}{}", &id[..16], "00".repeat(24)));
            }
        }
        truth
    });
    secured.is_not_believed("two blocks of one number").await?;
    Ok(())
}

#[tokio::test]
async fn that_nothing_is_there_must_be_said_twice() -> Result<()> {
    let secured = Secured::start().await?;
    let empty = |words: &mut Vec<String>| words[..DEPOSITED_AT + 1].fill("0".repeat(64));
    // Whichever of two answers it is.
    for lies in 0..2 {
        secured.on_record(move |count, words| {
            if count % 2 == lies {
                empty(words);
            }
        });
        let (payment_id, plan) = (&secured.order.payment_id, &secured.order.escrow);
        secured.look().await.expect_err("one answer is believed");
        secured.chains.deposit_ruled_out(payment_id, plan, 0).await.expect_err("one answer is believed");
        secured.chains.escrow_state(payment_id, plan).await.expect_err("one answer is believed");
        secured.chains.deposit_secured(&secured.order).await.expect_err("one answer is believed");
    }
    // Both lie. The reservation's own transaction contradicts them.
    secured.on_record(move |_, words| empty(words));
    secured.is_not_believed("no record at all").await?;
    // That the deposit was not reserved is as serious.
    secured.on_record(move |count, words| {
        if count == 0 {
            words[0] = format!("{:064x}", 1);
            for place in [RESERVED_AT, SETTLER, SOURCE_AMOUNT, QUOTE_HASH, 14] {
                words[place] = "0".repeat(64);
            }
        }
    });
    secured.is_not_believed("not reserved").await?;
    Ok(())
}

#[tokio::test]
async fn that_what_is_there_is_anothers_must_be_said_twice() -> Result<()> {
    let secured = Secured::start().await?;
    let chains = &secured.chains;
    let (payment_id, plan) = (&secured.order.payment_id, &secured.order.escrow);
    let until_deadline = plan.reserve_deadline - secured.world.time().await?;
    secured.world.advance(Duration::from_secs(until_deadline + 1)).await?;
    secured.world.solidify().await?;
    // A record that is reserved, or refunded, under other windows or for another settler.
    for (place, ended) in [(15, false), (15, true), (SETTLER, false), (QUOTE_HASH, true)] {
        for lies in 0..2 {
            secured.on_record(move |count, words| {
                if count % 2 == lies {
                    words[place] = format!("{:064x}", number(&words[place]) + U256::ONE);
                    if ended {
                        words[0] = format!("{:064x}", 4);
                        words[ENDED_AT] = words[RESERVED_AT].clone();
                    }
                }
            });
            secured.look().await.expect_err("one answer is believed");
            chains.deposit_secured(&secured.order).await.expect_err("one answer is believed");
            let ruled_out = chains.deposit_ruled_out(payment_id, plan, plan.reserve_deadline).await;
            ruled_out.expect_err("one answer is believed");
            chains.escrow_state(payment_id, plan).await.expect_err("one answer is believed");
            chains.stranded_deposit(&secured.order.payer_deposit()).await.expect_err("one answer is believed");
        }
    }
    secured.liar.be_honest();
    assert_eq!(secured.look().await?, secured.state);
    assert!(!chains.deposit_ruled_out(payment_id, plan, plan.reserve_deadline).await?);
    assert_eq!(chains.escrow_state(payment_id, plan).await?, EscrowState::Held);
    Ok(())
}

#[tokio::test]
async fn what_came_after_the_solidified_block_does_not_count() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let chains = world.chains_at(&liar.url);
    let order = world.order(600).await?;
    let (payment_id, plan) = (&order.payment_id, &order.escrow);
    world.deposit(&order).await?;
    // A node that answers questions about the solidified state by its newest one.
    let newest = async |data: &str, to: &str| -> Result<Value> {
        let asked = json!({"owner_address": "41".to_owned() + &"00".repeat(20), "contract_address": to, "data": data});
        Ok(world.dev.control("../wallet/triggerconstantcontract", asked).await?)
    };
    let err_by_newest = async || -> Result<()> {
        let id = hex::encode(payment_id.on_chain().0);
        let to = chains_tron::address::api(world.escrow());
        let record = newest(&(selector("escrowAsOf(bytes32)") + &id), &to).await?;
        assert_eq!(words(&record).len(), ESCROW_WORDS, "{record}");
        liar.tell(move |path, request, truth| {
            let is = path.starts_with("walletsolidity") && calls(path, request, "escrowAsOf(bytes32)");
            if is { record.clone() } else { truth }
        });
        Ok(())
    };
    err_by_newest().await?;
    assert_eq!(chains.escrow_state(payment_id, plan).await?, EscrowState::Absent);
    assert_eq!(chains.deposit_secured(&order).await?, None);
    assert!(!chains.deposit_ruled_out(payment_id, plan, 0).await?, "there is a record, not yet solidified");

    let prepared = chains.prepare_deposit(&order, 1).await?;
    chains.broadcast(&prepared).await?;
    world.solidify().await?;
    err_by_newest().await?;
    // The deposit's block is solidified now, the reservation's is not.
    assert_eq!(chains.escrow_state(payment_id, plan).await?, EscrowState::Held);
    assert_eq!(chains.deposit_secured(&order).await?, None);
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    world.solidify().await?;
    assert!(chains.deposit_secured(&order).await?.is_some());

    world.release(&order).await?;
    err_by_newest().await?;
    assert_eq!(chains.escrow_state(payment_id, plan).await?, EscrowState::Held);
    world.solidify().await?;
    assert!(matches!(chains.escrow_state(payment_id, plan).await?, EscrowState::Released(_)));

    // A record that changed after the end of its window is a lie in any case.
    liar.be_honest();
    let late = world.order(600).await?;
    world.deposit(&late).await?;
    world.solidify().await?;
    world.advance(Duration::from_secs(601)).await?;
    world.solidify().await?;
    assert!(chains.stranded_deposit(&late.payer_deposit()).await?.is_some());
    liar.tell(|path, request, mut truth| {
        let mut found = words(&truth);
        if calls(path, request, "escrowAsOf(bytes32)") && found.len() == ESCROW_WORDS {
            found[0] = format!("{:064x}", 2);
            found[BLOCK_NUMBER] = format!("{:064x}", number(&found[BLOCK_NUMBER]) + U256::ONE);
            found[RESERVED_AT] = found[BLOCK_NUMBER].clone();
            truth["constant_result"][0] = json!(found.concat());
        }
        truth
    });
    chains.stranded_deposit(&late.payer_deposit()).await.expect_err("believed");
    Ok(())
}

#[tokio::test]
async fn a_younger_head_settles_nothing() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let chains = world.chains_at(&liar.url);
    let order = world.order(600).await?;
    let prepared = world.reservation(&chains, &order).await?;
    world.solidify().await?;
    // Nothing was sent, and a node claims a solidified block of a far time.
    let late = (order.escrow.refund_after + 10) * 1_000;
    let lie = Arc::new(AtomicU64::new(0));
    let told = lie.clone();
    liar.tell(move |path, request, mut truth| {
        // Only the first answer, as one of several nodes would.
        if path == "walletsolidity/getblock" && request.get("id_or_num").is_none() {
            told.fetch_add(1, Ordering::Relaxed);
            let id = truth["blockID"].as_str().unwrap_or_default().to_owned();
            truth["blockID"] = json!(format!("{:016x}{}", 1_000_000, &id[16..]));
            truth["block_header"]["raw_data"]["number"] = json!(1_000_000);
            truth["block_header"]["raw_data"]["timestamp"] = json!(late);
        }
        truth
    });
    chains.deposit_state(&order, from_ref(&prepared)).await.expect_err("believed");
    chains.stranded_deposit(&order.payer_deposit()).await.expect_err("believed");
    chains.escrow_state(&order.payment_id, &order.escrow).await.expect_err("believed");
    chains.transaction_state(from_ref(&prepared)).await.expect_err("believed");
    chains.delivery_state(&world.delivery(&order)).await.expect_err("believed");
    assert!(lie.load(Ordering::Relaxed) >= 5);
    liar.be_honest();
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    Ok(())
}

#[tokio::test]
async fn an_answer_of_a_later_time_ends_no_window() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let chains = world.chains_at(&liar.url);
    let order = world.order(600).await?;
    let delivery = world.delivery(&order);
    let prepared = world.reservation(&chains, &order).await?;
    world.solidify().await?;
    let late = order.escrow.refund_after + 10;
    liar.tell(move |path, _, mut truth| {
        let mut found = words(&truth);
        if path.ends_with("triggerconstantcontract") && found.len() > 2 {
            *found.last_mut().unwrap() = format!("{late:064x}");
            // Before the time is the block's number.
            let place = found.len() - 2;
            found[place] = format!("{:064x}", number(&found[place]) + U256::ONE);
            truth["constant_result"][0] = json!(found.concat());
        }
        truth
    });
    // The answers say when they are of; what is concluded rests on the block that two answers had.
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    assert_eq!(chains.stranded_deposit(&order.payer_deposit()).await?, None);
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held);
    assert!(!chains.deposit_ruled_out(&order.payment_id, &order.escrow, order.escrow.reserve_deadline).await?);
    assert_eq!(chains.delivery_state(&delivery).await?, DeliveryState::NotSeen);
    Ok(())
}

#[tokio::test]
async fn that_a_transaction_is_nowhere_must_be_said_twice_and_past_its_end() -> Result<()> {
    let secured = Secured::start().await?;
    let (chains, prepared) = (&secured.chains, from_ref(&secured.prepared));
    secured.world.advance(Duration::from_secs(61)).await?;
    secured.world.solidify().await?;
    assert_eq!(chains.transaction_state(prepared).await?, TransactionState::Pending, "it landed");
    let deny = |only: Option<usize>| {
        let mut count = 0;
        secured.liar.tell(move |path, _, truth| {
            if path != "walletsolidity/gettransactioninfobyid" {
                return truth;
            }
            count += 1;
            if only.is_none_or(|only| count == only) { json!({}) } else { truth }
        });
    };
    deny(Some(1));
    chains.transaction_state(prepared).await.expect_err("one answer is believed");
    // What the record shows stands above what a node says of a transaction.
    deny(None);
    assert_eq!(secured.look().await?, secured.state);
    assert!(matches!(chains.transaction_state(prepared).await?, TransactionState::Dead { .. }));
    Ok(())
}

#[tokio::test]
async fn a_delivery_is_proven_by_its_event_and_its_absence_twice() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let chains = world.chains_at(&liar.url);
    let order = world.order(600).await?;
    let delivery = world.delivery(&order);
    world.fulfill(&delivery).await?;
    world.solidify().await?;
    let DeliveryState::Final(inclusion) = chains.delivery_state(&delivery).await? else { bail!("not final") };
    let on_answer = |change: fn(usize, &mut Vec<String>)| {
        let mut count = 0;
        liar.tell(move |path, request, mut truth| {
            let mut found = words(&truth);
            if calls(path, request, "fulfilledAsOf(bytes32)") && found.len() == 3 {
                change(count, &mut found);
                count += 1;
                truth["constant_result"][0] = json!(found.concat());
            }
            truth
        });
    };
    for change in [
        (|_, words: &mut Vec<String>| words[0] = format!("{:064x}", 1)) as fn(usize, &mut Vec<String>),
        |_, words| words[0] = format!("{:064x}", 1_000_000),
        |_, words| words[1] = format!("{:064x}", 1),
        |_, words| words[2] = format!("{:064x}", 1),
    ] {
        on_answer(change);
        chains.delivery_state(&delivery).await.expect_err("believed");
    }
    // Whichever of two answers it is.
    on_answer(|count, words| {
        if count == 1 {
            words[0] = "0".repeat(64);
        }
    });
    chains.delivery_state(&delivery).await.expect_err("believed");
    // One node that knows of a delivery that is none: another has neither its record nor its transaction.
    for denied in ["fulfilledAsOf", "gettransactioninfobyid"] {
        let mut count = 0;
        liar.tell(move |path, request, mut truth| {
            if denied == "gettransactioninfobyid" && path == "walletsolidity/gettransactioninfobyid" {
                return json!({});
            }
            if denied == "fulfilledAsOf" && calls(path, request, "fulfilledAsOf(bytes32)") {
                count += 1;
                if count == 2 {
                    let found = words(&truth);
                    truth["constant_result"][0] = json!(format!("{:064x}{}{}", 2, found[1], found[2]));
                }
            }
            truth
        });
        chains.delivery_state(&delivery).await.expect_err(denied);
    }
    // Its transaction, asked for by itself, tells of another amount, another block, or that it failed.
    let of_itself: [fn(&mut Value); 4] = [
        |truth| truth["log"][0]["topics"][1] = json!("11".repeat(32)),
        |truth| truth["blockTimeStamp"] = json!(1_000),
        |truth| truth["blockNumber"] = json!(1),
        |truth| {
            truth["receipt"]["result"] = json!("REVERT");
            truth["result"] = json!("FAILED");
        },
    ];
    for change in of_itself {
        liar.tell(move |path, _, mut truth| {
            if path == "walletsolidity/gettransactioninfobyid" {
                change(&mut truth);
            }
            truth
        });
        chains.delivery_state(&delivery).await.expect_err("believed");
    }
    // Past its window, one answer that has nothing.
    world.advance(Duration::from_secs(601)).await?;
    world.solidify().await?;
    on_answer(|count, words| {
        if count == 0 {
            words[0] = "0".repeat(64);
        }
    });
    chains.delivery_state(&delivery).await.expect_err("believed");
    liar.tell(|path, _, mut truth| {
        if path.ends_with("gettransactioninfobyblocknum") {
            let data = truth[0]["log"][0]["data"].as_str().unwrap_or_default().to_owned();
            // The amount is the third word.
            truth[0]["log"][0]["data"] = json!(format!("{}{:064x}{}", &data[..128], 1, &data[192..]));
        }
        truth
    });
    chains.delivery_state(&delivery).await.expect_err("believed");
    liar.be_honest();
    assert_eq!(chains.delivery_state(&delivery).await?, DeliveryState::Final(inclusion));
    Ok(())
}

#[tokio::test]
async fn nothing_is_prepared_on_a_record_that_is_older_than_what_is_settled() -> Result<()> {
    let secured = Secured::start().await?;
    // A node that lags has not seen the deposit; brought again, it would only cost the payer.
    secured.on_record(|_, words| {
        words[..DEPOSITED_AT + 1].fill("0".repeat(64));
        words[BLOCK_NUMBER] = format!("{:064x}", 2);
    });
    let sun = secured.world.sun(&secured.world.payer).await?;
    for outcome in [
        secured.chains.prepare_deposit(&secured.order, 2).await,
        secured.chains.prepare_refund(&secured.world.cancellation(&secured.order), 1).await,
    ] {
        assert!(matches!(outcome, Err(PrepareError::Transient(_))), "{outcome:?}");
    }
    // Nor where it says that it is up to date: the deposit's transaction is in a block, and is not sent again.
    secured.on_record(|_, words| words[..DEPOSITED_AT + 1].fill("0".repeat(64)));
    let outcome = secured.chains.prepare_deposit(&secured.order, 2).await;
    let Err(PrepareError::Waiting(why)) = outcome else { bail!("{outcome:?}") };
    assert!(why.contains("not shown yet"), "{why}");
    secured.world.mine(1).await?;
    assert_eq!(secured.world.sun(&secured.world.payer).await?, sun);
    let heard = secured.liar.heard();
    let sent = heard.iter().filter(|heard| heard.path.ends_with("broadcasthex")).count();
    let own = [spend(&secured.order).approval.as_ref().context("no approval")?, &spend(&secured.order).deposit];
    assert_eq!(sent, own.len() + 1, "each of the payer's transactions and the reservation, once");
    Ok(())
}
