//! Untrusted nodes: what is not believed of one that lags, errs or lies.

use std::{
    slice::from_ref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Result, bail};
use data_encoding::BASE64;
use serde_json::{Value, json};

use chains::config::{Depth, SolanaConfig};
use chains_solana::{
    adapter::SolanaChain,
    escrows::Escrows,
    node::{Commitment, ConnectError, Node},
    program,
};
use events::{ChainId, event::TransactionPrepared};
use gateway_program::host;
use sagas::ports::{Chains, DeliveryState, DepositOrder, DepositState, EscrowState};

use crate::{
    evm_support::liar::Liar,
    support::{World, settle, until},
};

/// A payment in escrow, and a port that sees the cluster through a liar.
struct Secured {
    world: World,
    liar: Liar,
    chain: SolanaChain,
    order: DepositOrder,
    prepared: TransactionPrepared,
    state: DepositState,
}

impl Secured {
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        let liar = Liar::before(&world.surfnet.url()).await?;
        let chain = world.chain_at(&liar.url);
        let order = world.order(600).await?;
        let prepared = chain.prepare_deposit(&order, 1).await?;
        let state = settle(&chain, &order, from_ref(&prepared)).await?;
        let DepositState::Secured(secured) = &state else { bail!("{state:?}") };
        // Final by the cluster's own word, which is asked apart from the record.
        let slot = world.surfnet.rpc("getSlot", json!([{"commitment": "finalized"}])).await?;
        assert!(slot.as_u64() >= Some(secured.inclusion.block_number), "{slot}");
        Ok(Self { world, liar, chain, order, prepared, state })
    }

    async fn look(&self) -> Result<DepositState, sagas::ports::Transient> {
        self.chain.deposit_state(&self.order, from_ref(&self.prepared)).await
    }

    /// The lie is not believed, and the truth is again.
    async fn is_not_believed(&self, lie: &str) -> Result<()> {
        match self.look().await {
            Err(_) => {}
            Ok(other) => bail!("{lie}: {other:?}"),
        }
        self.liar.be_honest();
        let again = until(|| self.look(), |_| true).await?;
        assert_eq!(again, self.state, "{lie}");
        Ok(())
    }
}

/// Changes the escrow's record in an answer.
fn tamper(answer: &mut Value, change: impl Fn(&mut Value)) {
    if let Some(record) = answer.pointer_mut("/result/value/0").filter(|record| record.is_object()) {
        change(record);
    }
}

#[tokio::test]
async fn a_node_of_another_cluster_is_asked_nothing() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.surfnet.url()).await?;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    liar.tell(move |request, mut truth| {
        seen.lock().unwrap().push(request["method"].as_str().unwrap_or_default().to_owned());
        if request["method"] == "getGenesisHash" {
            truth["result"] = json!("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d");
        }
        truth
    });
    let chain = world.chain_at(&liar.url);
    let order = world.order(600).await?;
    let fault = chain.escrow_state(&order.payment_id, &order.escrow).await.expect_err("believed");
    assert!(fault.to_string().contains("is of the cluster 5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"), "{fault}");
    chain.prepare_deposit(&order, 1).await.expect_err("prepared");
    assert!(asked.lock().unwrap().iter().all(|method| method == "getGenesisHash"));

    let connect = |change: fn(&mut SolanaConfig)| {
        let mut config = world.config();
        change(&mut config);
        Node::connect(&config).map(|_| ())
    };
    for other in ["5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", ""] {
        let config = SolanaConfig { signature_cluster_id: other.to_owned(), ..world.config() };
        assert!(matches!(Node::connect(&config), Err(ConnectError::Cluster { .. })));
    }
    let refused = connect(|config| config.signature_domain_version = 2);
    assert!(matches!(refused, Err(ConnectError::DomainVersion { .. })));
    let refused = connect(|config| config.common.required_depth = Depth::Confirmations(1));
    assert!(matches!(refused, Err(ConnectError::Depth { .. })));
    let refused = connect(|config| config.common.chain_id = ChainId::evm(1));
    assert!(matches!(refused, Err(ConnectError::Family(_))));
    Ok(())
}

#[tokio::test]
async fn a_record_that_is_not_the_programs_or_not_whole_is_no_record() -> Result<()> {
    let secured = Secured::start().await?;
    let on_accounts = |change: fn(&mut Value)| {
        secured.liar.tell(move |request, mut truth| {
            if request["method"] == "getMultipleAccounts" {
                change(&mut truth);
            }
            truth
        });
    };
    on_accounts(|truth| tamper(truth, |record| record["owner"] = json!("Stake11111111111111111111111111111111111111")));
    secured.is_not_believed("another owner").await?;
    on_accounts(|truth| tamper(truth, |record| record["data"] = json!(["AgE=", "base64"])));
    secured.is_not_believed("a record cut off").await?;
    on_accounts(|truth| {
        tamper(truth, |record| {
            let mut data = BASE64.decode(record["data"][0].as_str().unwrap().as_bytes()).unwrap();
            // The payment it is of.
            data[5] ^= 1;
            record["data"][0] = json!(BASE64.encode(&data));
        });
    });
    secured.is_not_believed("another payment's record").await?;
    on_accounts(|truth| truth["result"]["context"]["slot"] = json!(1));
    secured.is_not_believed("accounts of an old slot").await?;
    on_accounts(|truth| {
        let slot = truth["result"]["context"]["slot"].as_u64().unwrap();
        truth["result"]["context"]["slot"] = json!(slot + 1);
    });
    secured.is_not_believed("the clock of another slot").await?;
    on_accounts(|truth| truth["result"]["value"] = json!([null, null]));
    secured.is_not_believed("no clock").await?;
    on_accounts(|truth| truth["result"]["value"] = json!([]));
    secured.is_not_believed("no accounts").await?;
    Ok(())
}

#[tokio::test]
async fn a_deposit_under_another_quote_is_not_the_payments() -> Result<()> {
    let secured = Secured::start().await?;
    let mut other = secured.order.clone();
    other.reservation.quote_hash = events::Hash32([8; 32]);
    // Its transaction is final, and what it made is something else: that cannot be.
    secured.chain.deposit_state(&other, from_ref(&secured.prepared)).await.expect_err("concluded");
    assert_eq!(secured.chain.deposit_secured(&other).await?, None);
    let mut stranger = secured.order.escrow.clone();
    stranger.releaser = secured.world.program.parse()?;
    assert_eq!(secured.chain.escrow_state(&secured.order.payment_id, &stranger).await?, EscrowState::Absent);
    Ok(())
}

#[tokio::test]
async fn history_that_is_missing_or_wrong_proves_nothing() -> Result<()> {
    let secured = Secured::start().await?;
    secured.liar.say("getSignaturesForAddress", json!([]));
    secured.is_not_believed("no history").await?;
    secured.liar.say("getTransaction", Value::Null);
    secured.is_not_believed("no transaction").await?;
    secured.liar.say("getBlock", Value::Null);
    secured.is_not_believed("no block").await?;
    let on_transaction = |change: fn(&mut Value)| {
        secured.liar.tell(move |request, mut truth| {
            if request["method"] == "getTransaction" {
                change(&mut truth["result"]);
            }
            truth
        });
    };
    on_transaction(|found| found["transaction"]["signatures"][0] = json!("1111"));
    secured.is_not_believed("another transaction").await?;
    on_transaction(|found| found["slot"] = json!(1));
    secured.is_not_believed("another slot").await?;
    on_transaction(|found| found["meta"]["err"] = json!("AccountInUse"));
    secured.is_not_believed("a transaction that failed").await?;
    on_transaction(|found| found["transaction"]["message"]["instructions"] = json!([]));
    secured.is_not_believed("a transaction that did nothing").await?;
    on_transaction(|found| found["meta"] = Value::Null);
    secured.is_not_believed("a transaction without an outcome").await?;
    Ok(())
}

#[tokio::test]
async fn a_history_that_strangers_filled_is_read_from_the_block() -> Result<()> {
    let secured = Secured::start().await?;
    let DepositState::Secured(known) = &secured.state else { bail!("not secured") };
    let slot = known.inclusion.block_number;
    let asked = Arc::new(AtomicU64::new(0));
    let pages = asked.clone();
    secured.liar.tell(move |request, mut truth| {
        if request["method"] == "getSignaturesForAddress" {
            pages.fetch_add(1, Ordering::Relaxed);
            let junk = json!({"signature": secured_junk(), "slot": slot + 9, "err": null});
            truth["result"] = json!(vec![junk; 1_000]);
        }
        truth
    });
    assert_eq!(secured.look().await?, secured.state);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    Ok(())
}

fn secured_junk() -> String {
    "2".repeat(87)
}

#[tokio::test]
async fn finality_takes_two_answers_and_does_not_go_back() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.surfnet.url()).await?;
    let node = world.node_at(&liar.url);
    let known = node.settled().await?;

    // One answer that errs about its head.
    let answers = Arc::new(AtomicU64::new(0));
    let count = answers.clone();
    liar.tell(move |request, mut truth| {
        if request["method"] == "getSlot" && count.fetch_add(1, Ordering::Relaxed) == 0 {
            let slot = truth["result"].as_u64().unwrap();
            truth["result"] = json!(slot + 1_000_000);
        }
        truth
    });
    let fault = node.settled().await.expect_err("believed");
    assert!(fault.to_string().contains("contradicts itself"), "{fault}");
    assert!(answers.load(Ordering::Relaxed) >= 2);

    liar.tell(|request, mut truth| {
        if request["method"] == "getSlot" || request["method"] == "getBlockHeight" {
            truth["result"] = json!(1);
        }
        truth
    });
    node.settled().await.expect_err("went back");
    node.head().await.expect_err("went back");
    liar.be_honest();
    let again = node.settled().await?;
    assert!(again.slot >= known.slot && again.height >= known.height);
    Ok(())
}

#[tokio::test]
async fn a_blockhash_that_counts_for_no_plausible_time_is_not_signed_with() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.surfnet.url()).await?;
    let chain = world.chain_at(&liar.url);
    let order = world.order(600).await?;
    for height in [0, 1_u64 << 40] {
        liar.tell(move |request, mut truth| {
            if request["method"] == "getLatestBlockhash" {
                truth["result"]["value"]["lastValidBlockHeight"] = json!(height);
            }
            truth
        });
        chain.prepare_deposit(&order, 1).await.expect_err("signed");
    }
    liar.be_honest();
    chain.prepare_deposit(&order, 1).await?;
    Ok(())
}

#[tokio::test]
async fn that_nothing_is_in_escrow_takes_two_answers() -> Result<()> {
    let secured = Secured::start().await?;
    let answers = Arc::new(AtomicU64::new(0));
    let count = answers.clone();
    secured.liar.tell(move |request, mut truth| {
        if request["method"] == "getMultipleAccounts" && count.fetch_add(1, Ordering::Relaxed) == 0 {
            truth["result"]["value"][0] = Value::Null;
        }
        truth
    });
    assert!(!secured.chain.deposit_ruled_out(&secured.order.payment_id, &secured.order.escrow, 0).await?);
    assert!(answers.load(Ordering::Relaxed) >= 2);
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_a_fork_took_away_is_not_seen_any_more() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.surfnet.url()).await?;
    let chain = world.chain_at(&liar.url);
    let order = world.order(600).await?;
    let delivery = world.delivery(&order);
    let program = program::parse_key(&world.program)?;
    let terms = program::fulfillment(&delivery)?;
    let (hash, slot) = world.send(&[host::fulfill_native(&program, &terms)]).await?;
    let seen = until(|| chain.delivery_state(&delivery), |state| *state != DeliveryState::NotSeen).await?;
    let (DeliveryState::Seen(inclusion) | DeliveryState::Final(inclusion)) = &seen else { bail!("{seen:?}") };
    assert_eq!((&inclusion.transaction_hash, inclusion.block_number), (&hash, slot));

    liar.tell(|request, mut truth| {
        if request["method"] == "getMultipleAccounts" {
            truth["result"]["value"][0] = Value::Null;
        }
        truth
    });
    assert_eq!(chain.delivery_state(&delivery).await?, DeliveryState::NotSeen);
    // A record of other terms at this address cannot be.
    liar.tell(|request, mut truth| {
        if request["method"] == "getMultipleAccounts" {
            tamper(&mut truth, |record| {
                let mut data = BASE64.decode(record["data"][0].as_str().unwrap().as_bytes()).unwrap();
                let amount = data.len() - 24;
                data[amount] ^= 1;
                record["data"][0] = json!(BASE64.encode(&data));
            });
        }
        truth
    });
    chain.delivery_state(&delivery).await.expect_err("believed");
    liar.be_honest();
    let last = until(|| chain.delivery_state(&delivery), |state| matches!(state, DeliveryState::Final(_))).await?;
    assert_eq!(last, DeliveryState::Final(inclusion.clone()));
    Ok(())
}

#[tokio::test]
async fn lamports_sent_to_an_escrows_address_are_no_escrow() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let order = world.order(600).await?;
    let program = program::parse_key(&world.program)?;
    let address = host::escrow_address(&program, &order.payment_id.on_chain().0).key;
    world.surfnet.airdrop(&program::text(&address), 1_000_000).await?;
    let read = Escrows::of(&world.node()).record(&order.payment_id, &program, Commitment::Confirmed, 0).await?;
    assert_eq!(read.record, None);
    assert_eq!(chain.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Absent);
    let prepared = chain.prepare_deposit(&order, 1).await?;
    let state = settle(&chain, &order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    // A payment has one escrow for ever.
    let refused = chain.prepare_deposit(&order, 2).await.expect_err("prepared twice");
    assert!(refused.to_string().contains("PaymentIdUsed"), "{refused}");
    Ok(())
}
