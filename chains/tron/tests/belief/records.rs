//! Records of the escrow that a node tells wrong: none is believed that cannot be, is another's, or was said once.

use std::time::Duration;

use alloy::primitives::{Address, B256, U256, aliases::U48};
use anyhow::{Context, Result, bail};
use serde_json::json;

use chains_tron::node::State;
use escrow_abi::contracts::GatewayEscrow;
use sagas::ports::{Chains, DepositState, EscrowState};

use super::{
    BLOCK_NUMBER, COMMITMENT, DEPOSITED_AT, ENDED_AT, Lie, RESERVED_AT, ROUND, STATE, Secured, TIME, each_log,
};
use crate::support::payment::{deposited_terms, reason, spend};

/// Nobody's account.
const OTHER: Address = Address::repeat_byte(0x77);

/// How terms are made others.
type Alter = fn(&mut GatewayEscrow::Escrow);

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
        ("reserved, and no settler ever named", ROUND, |_| U256::ZERO),
        ("other terms than any event tells", COMMITMENT, |hash| hash ^ U256::ONE),
        ("no terms", COMMITMENT, |_| U256::ZERO),
        ("an answer of an old block", BLOCK_NUMBER, |number| number - U256::ONE),
        ("an answer of no block", BLOCK_NUMBER, |_| U256::MAX),
        ("an answer of an old time", TIME, |_| U256::ONE),
        ("an answer of the settled block and another time", TIME, |time| time + U256::ONE),
    ] {
        secured.on_word(place, change);
        secured.is_not_believed(lie).await?;
    }
    // The terms of one state with another: each hash is one that the contract has stored.
    let (payment_id, plan) = (&secured.order.payment_id, &secured.order.escrow);
    let unreserved = U256::from_be_bytes(deposited_terms(&secured.order)?.commitment().0);
    secured.on_word(COMMITMENT, move |_| unreserved);
    let fault = secured.chains.escrow_state(payment_id, plan).await.expect_err("reserved for nobody");
    assert!(fault.to_string().contains("that cannot be"), "{fault}");
    secured.is_not_believed("reserved for nobody").await?;
    secured.on_record(|_, words| {
        words[STATE] = format!("{:064x}", 1);
        for place in [ROUND, RESERVED_AT] {
            words[place] = "0".repeat(64);
        }
    });
    let fault = secured.chains.escrow_state(payment_id, plan).await.expect_err("a settler before the reservation");
    assert!(fault.to_string().contains("that cannot be"), "{fault}");
    secured.is_not_believed("a settler before the reservation").await?;
    // Nobody's money, or nothing, by all that the node tells.
    let lies: [(&str, Alter); 2] = [
        ("nobody's money", |terms| terms.deposit.payer = Address::ZERO),
        ("nothing deposited", |terms| terms.deposited = U256::ZERO),
    ];
    for (lie, alter) in lies {
        secured.on_terms(alter, |_| true, |_| {})?;
        let fault = secured.chains.escrow_state(payment_id, plan).await.expect_err(lie);
        assert!(fault.to_string().contains("that cannot be"), "{lie}: {fault}");
        secured.is_not_believed(lie).await?;
    }
    secured.on_record(|_, words| words.truncate(5));
    secured.is_not_believed("a record cut off").await?;
    Ok(())
}

/// A node that tells of somebody else's escrow under the payment's id, with the events for it. Told of the hash alone it is not
/// believed at all.
#[tokio::test]
async fn somebody_elses_record_is_not_the_payments() -> Result<()> {
    let secured = Secured::start().await?;
    let (of_plan, of_award) = (true, true);
    let lies: [(&str, Alter, bool, bool); 11] = [
        ("payer", |terms| terms.deposit.payer = OTHER, of_plan, !of_award),
        ("token", |terms| terms.token = OTHER, of_plan, !of_award),
        ("terms", |terms| terms.deposit.termsHash = B256::ZERO, of_plan, !of_award),
        ("settler", |terms| terms.settler = OTHER, of_plan, of_award),
        ("amount", |terms| terms.sourceAmount -= U256::ONE, of_plan, of_award),
        ("quote", |terms| terms.quoteHash = B256::repeat_byte(0x55), of_plan, of_award),
        ("reserver", |terms| terms.deposit.reserver = OTHER, !of_plan, !of_award),
        ("releaser", |terms| terms.deposit.releaser = OTHER, !of_plan, !of_award),
        ("reserve deadline", |terms| terms.deposit.reserveDeadline += U48::from(1), !of_plan, !of_award),
        ("fulfillment deadline", |terms| terms.deposit.fulfillmentDeadline += U48::from(1), !of_plan, !of_award),
        ("refund window", |terms| terms.deposit.refundAfter += U48::from(1), !of_plan, !of_award),
    ];
    for (lie, alter, is_of_plan, is_award) in lies {
        secured.on_word(COMMITMENT, |hash| hash ^ U256::ONE);
        let fault = secured.look().await.expect_err(lie);
        assert!(fault.to_string().contains("terms with the hash"), "{lie}: {fault}");
        secured.on_terms(alter, |_| true, |_| {})?;
        match secured.look().await {
            // Nothing of the order's is there, though its own reservation had its effect.
            Err(fault) => assert!(fault.to_string().contains("nothing is reserved"), "{lie}: {fault}"),
            Ok(other) => bail!("another {lie}: {other:?}"),
        }
        assert_eq!(secured.chains.deposit_secured(&secured.order).await?, None, "another {lie}");
        let (payment_id, plan) = (&secured.order.payment_id, &secured.order.escrow);
        let held = secured.chains.escrow_state(payment_id, plan).await? == EscrowState::Held;
        assert_eq!(held, is_of_plan, "another {lie}");
        let refused = reason(secured.chains.prepare_deposit(&secured.order, 2).await)?;
        let expected = if is_award { "reserved" } else { "another deposit" };
        assert!(refused.contains(expected), "another {lie}: {refused}");
        secured.liar.be_honest();
    }
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
    let empty = |words: &mut Vec<String>| words[..BLOCK_NUMBER].fill("0".repeat(64));
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
    let unreserved = hex::encode(deposited_terms(&secured.order)?.commitment());
    secured.on_record(move |count, words| {
        if count == 0 {
            words[STATE] = format!("{:064x}", 1);
            words[COMMITMENT] = unreserved.clone();
            for place in [ROUND, RESERVED_AT] {
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
    let window: Alter = |terms| terms.deposit.refundAfter += U48::from(1);
    let settler: Alter = |terms| terms.settler = OTHER;
    let quote: Alter = |terms| terms.quoteHash = B256::repeat_byte(0x55);
    for (alter, ended) in [(window, false), (window, true), (settler, false), (quote, true)] {
        for lies in 0..2 {
            let change = move |words: &mut Vec<String>| {
                if ended {
                    words[STATE] = format!("{:064x}", 4);
                    words[ENDED_AT] = words[RESERVED_AT].clone();
                }
            };
            secured.on_terms(alter, move |count| count % 2 == lies, change)?;
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
