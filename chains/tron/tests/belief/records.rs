//! Records of the escrow that a node tells wrong: none is believed that cannot be, is another's, or was said once.

use std::time::Duration;

use alloy::primitives::U256;
use anyhow::{Context, Result, bail};
use serde_json::json;

use chains_tron::node::State;
use sagas::ports::{Chains, DepositState, EscrowState};

use super::{
    BLOCK_NUMBER, DEPOSITED, DEPOSITED_AT, ENDED_AT, Lie, PAYER, QUOTE_HASH, RESERVED_AT, SETTLER, SOURCE_AMOUNT,
    Secured, TERMS_HASH, TIME, TOKEN, each_log, number,
};
use crate::support::payment::{reason, spend};

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
    // The escrow would else be held, or another settler's.
    let (payment_id, plan) = (&secured.order.payment_id, &secured.order.escrow);
    for (lie, place) in [("nobody's money", PAYER), ("reserved for nobody", SETTLER)] {
        secured.on_word(place, |_| U256::ZERO);
        let fault = secured.chains.escrow_state(payment_id, plan).await.expect_err(lie);
        assert!(fault.to_string().contains("that cannot be"), "{lie}: {fault}");
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
