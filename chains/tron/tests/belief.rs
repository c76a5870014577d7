//! Untrusted nodes: what is not believed of a node of Tron's that lags, errs or lies.

mod deliveries;
mod records;
mod siblings;

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use alloy::{
    primitives::{B256, U256, keccak256},
    sol_types::SolEvent,
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use chains_tron::adapter::TronChain;
use escrow_abi::{contracts::GatewayEscrow, record::EscrowTerms};
use events::event::TransactionPrepared;
use sagas::ports::{Chains, DeliveryState, DepositOrder, DepositState, EscrowState, PrepareError, TransactionState};

use crate::support::{
    World,
    liar::Liar,
    payment::{reserved_terms, spend},
};

/// Places in what `recordAsOf` returns, in words of 32 bytes.
const STATE: usize = 0;
const ROUND: usize = 1;
const DEPOSITED_AT: usize = 2;
const RESERVED_AT: usize = 3;
const ENDED_AT: usize = 4;
const COMMITMENT: usize = 5;
const BLOCK_NUMBER: usize = 6;
const TIME: usize = 7;
const RECORD_WORDS: usize = 8;

/// What is told of a block's transactions, and how.
type Lie = (&'static str, fn(&mut Value));

/// A payment that is reserved at depth, and a port that sees the chain through a liar.
struct Secured {
    world: World,
    liar: Liar,
    chains: TronChain,
    order: DepositOrder,
    prepared: TransactionPrepared,
    state: DepositState,
}

/// The words that a constant call returned; none for what is not a call.
pub fn words(answer: &Value) -> Vec<String> {
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
pub fn calls(path: &str, request: &Value, signature: &str) -> bool {
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

    /// From now on the words of `recordAsOf` go through `change` with the number of the answer, from 0.
    fn on_record(&self, mut change: impl FnMut(usize, &mut Vec<String>) + Send + 'static) {
        let mut count = 0;
        self.liar.tell(move |path, request, mut truth| {
            let mut found = words(&truth);
            if calls(path, request, "recordAsOf(bytes32)") && found.len() == RECORD_WORDS {
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

    /// From now on the node tells of other terms, in the record's hash and in the events alike, where the answer's number is one
    /// for which `when` holds; `change` has the words after it.
    fn on_terms(
        &self,
        alter: impl FnOnce(&mut GatewayEscrow::Escrow),
        when: impl Fn(usize) -> bool + Send + 'static,
        change: impl Fn(&mut Vec<String>) + Send + 'static,
    ) -> Result<()> {
        let EscrowTerms(mut told) = reserved_terms(&self.order)?;
        alter(&mut told);
        let commitment = hex::encode(EscrowTerms(told.clone()).commitment());
        let deposited = GatewayEscrow::Deposited {
            paymentId: told.deposit.paymentId,
            quoteHash: told.deposit.quoteHash,
            payer: told.deposit.payer,
            deposit: told.deposit.clone(),
            token: told.token,
            amount: told.deposited,
        };
        let reserved = GatewayEscrow::Reserved {
            paymentId: told.deposit.paymentId,
            quoteHash: told.quoteHash,
            settler: told.settler,
            sourceAmount: told.sourceAmount,
            fulfillBy: told.fulfillBy,
        };
        let events = [deposited.encode_log_data(), reserved.encode_log_data()];
        let mut count = 0;
        self.liar.tell(move |path, request, mut truth| {
            let mut found = words(&truth);
            if calls(path, request, "recordAsOf(bytes32)") && found.len() == RECORD_WORDS {
                if when(count) {
                    found[COMMITMENT] = commitment.clone();
                    change(&mut found);
                    truth["constant_result"][0] = json!(found.concat());
                }
                count += 1;
            }
            // What is solidified stays as it is: only the terms are asked of what is not.
            if path == "wallet/gettransactioninfobyblocknum" {
                each_log(&mut truth, |log| {
                    let is = |topic: &B256| log["topics"][0] == hex::encode(topic);
                    if let Some(event) = events.iter().find(|event| is(&event.topics()[0])) {
                        log["topics"] = event.topics().iter().map(hex::encode).collect();
                        log["data"] = hex::encode(&event.data).into();
                    }
                });
            }
            truth
        });
        Ok(())
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
        let record = newest(&(selector("recordAsOf(bytes32)") + &id), &to).await?;
        assert_eq!(words(&record).len(), RECORD_WORDS, "{record}");
        liar.tell(move |path, request, truth| {
            let is = path.starts_with("walletsolidity") && calls(path, request, "recordAsOf(bytes32)");
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
    // What it would commit to then is known.
    assert_eq!(chains.deposit_secured(&late).await?, None);
    let commitment = hex::encode(reserved_terms(&late)?.commitment());
    liar.tell(move |path, request, mut truth| {
        let mut found = words(&truth);
        if calls(path, request, "recordAsOf(bytes32)") && found.len() == RECORD_WORDS {
            found[STATE] = format!("{:064x}", 2);
            found[ROUND] = format!("{:064x}", 1);
            found[COMMITMENT] = commitment.clone();
            found[BLOCK_NUMBER] = format!("{:064x}", number(&found[BLOCK_NUMBER]) + U256::ONE);
            found[RESERVED_AT] = found[BLOCK_NUMBER].clone();
            truth["constant_result"][0] = json!(found.concat());
        }
        truth
    });
    let fault = chains.stranded_deposit(&late.payer_deposit()).await.expect_err("believed");
    assert!(fault.to_string().contains("after its deadline"), "{fault}");
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
async fn nothing_is_prepared_on_a_record_that_is_older_than_what_is_settled() -> Result<()> {
    let secured = Secured::start().await?;
    // A node that lags has not seen the deposit; brought again, it would only cost the payer.
    secured.on_record(|_, words| {
        words[..BLOCK_NUMBER].fill("0".repeat(64));
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
    secured.on_record(|_, words| words[..BLOCK_NUMBER].fill("0".repeat(64)));
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
