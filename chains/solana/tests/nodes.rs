//! Several nodes of one cluster: one that lies moves no money, one that fails stops none.

use std::{slice::from_ref, sync::Arc};

use anyhow::{Result, bail};
use data_encoding::BASE64;
use serde_json::{Value, json};

use chains::{config::NodeConfig, nodes::NodeOutcome};
use chains_solana::{
    adapter::{Keys, SolanaChain},
    broadcaster::Broadcaster,
    node::Node,
};
use sagas::ports::{Chains, DepositState, Transient};

use crate::{
    evm_support::liar::{Failure, Liar},
    support::{TestClock, World, settle, until},
};

fn node(world: &World, urls: &[&str]) -> Result<Node> {
    let mut config = world.config();
    config.common.rpc_urls = urls.iter().map(|url| NodeConfig::new(*url)).collect();
    config.common.rpc_timeout_ms = 2_000;
    Ok(Node::connect(&config)?)
}

fn chain(world: &World, urls: &[&str]) -> Result<SolanaChain> {
    let keys = Keys {
        reserver: world.reserver.clone().into(),
        draining_reservers: Vec::new(),
        submitters: world.submitters.iter().cloned().map(Into::into).collect(),
        exit_submitters: Vec::new(),
    };
    Ok(SolanaChain::new(node(world, urls)?, Some(keys), Arc::new(TestClock))?)
}

/// A way to change what was answered: (request, answer).
type Lie = fn(&Value, &mut Value);

/// What can be said of what money rests on that is not so.
const LIES: [(&str, Lie); 5] = [
    ("getMultipleAccounts", |_, result| result["value"][0] = Value::Null),
    ("getMultipleAccounts", |_, result| {
        let accounts = result["value"].as_array_mut().into_iter().flatten();
        // The clock is a year ahead.
        for clock in accounts.filter(|account| account["owner"] == "Sysvar1111111111111111111111111111111111111") {
            let mut data = BASE64.decode(clock["data"][0].as_str().unwrap_or_default().as_bytes()).unwrap_or_default();
            if let Some(seconds) = data.get_mut(32..40) {
                let ahead = i64::from_le_bytes(<[u8; 8]>::try_from(&*seconds).unwrap()) + 31_536_000;
                seconds.copy_from_slice(&ahead.to_le_bytes());
            }
            clock["data"][0] = json!(BASE64.encode(&data));
        }
    }),
    ("getSignatureStatuses", |_, result| result["value"][0] = Value::Null),
    ("getTransaction", |_, result| result["meta"]["err"] = json!("AccountInUse")),
    ("getBlock", |_, result| result["blockhash"] = json!("11111111111111111111111111111111")),
];

fn tell(liar: &Liar, method: &'static str, lie: Lie) {
    liar.tell(move |request, mut truth| {
        if request["method"] == method {
            lie(request, &mut truth["result"]);
        }
        truth
    });
}

#[tokio::test]
async fn what_one_of_two_nodes_says_alone_is_not_believed_and_with_three_it_stops_nothing() -> Result<()> {
    let world = World::start().await?;
    let own = world.chain();
    let order = world.order(600).await?;
    let prepared = own.prepare_deposit(&order, 1).await?;
    let truth = settle(&own, &order, from_ref(&prepared)).await?;
    assert!(matches!(truth, DepositState::Secured(_)), "{truth:?}");
    let liar = Liar::before(&world.surfnet.url()).await?;
    let honest = Liar::before(&world.surfnet.url()).await?;
    let own = world.surfnet.url();
    for (method, lie) in LIES {
        for urls in [vec![liar.url.as_str(), &own], vec![&own, &liar.url], vec![&liar.url, &own, &honest.url]] {
            let three = urls.len() == 3;
            let chain = chain(&world, &urls)?;
            let look = || chain.deposit_state(&order, from_ref(&prepared));
            tell(&liar, method, lie);
            if three {
                assert_eq!(until(look, |_| true).await?, truth, "{method}: the two others say the same");
                continue;
            }
            for _ in 0..3 {
                match look().await {
                    Ok(state) => {
                        assert_eq!(state, truth, "{method}");
                        assert_ne!(method, "getMultipleAccounts", "nobody else says so");
                    }
                    Err(fault) => assert!(matches!(fault, Transient::Contradiction(_)), "{method}: {fault:?}"),
                }
            }
            liar.be_honest();
            assert_eq!(until(look, |_| true).await?, truth, "{method}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_payment_goes_on_when_one_of_three_nodes_fails() -> Result<()> {
    let world = World::start().await?;
    let (bad, honest) = (Liar::before(&world.surfnet.url()).await?, Liar::before(&world.surfnet.url()).await?);
    for fault in ["hangs", "too many requests", "endless", "another cluster"] {
        let own = world.surfnet.url();
        let chain = chain(&world, &[&bad.url, &honest.url, &own])?;
        match fault {
            "hangs" => bad.fail(Failure::Hangs),
            "too many requests" => bad.fail(Failure::TooManyRequests(30)),
            "endless" => bad.fail(Failure::Endless),
            _ => bad.say("getGenesisHash", json!("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d")),
        }
        let order = world.order(600).await?;
        let prepared = until(
            || async {
                let prepared = chain.prepare_deposit(&order, 1).await;
                prepared.map_err(|fault| Transient::contradiction(format!("{fault:?}")))
            },
            |_| true,
        )
        .await?;
        let state = settle(&chain, &order, from_ref(&prepared)).await?;
        assert!(matches!(state, DepositState::Secured(_)), "{fault}: {state:?}");
        bad.be_honest();
    }
    Ok(())
}

/// Who says that a blockhash ends soon would have the transaction that lands later paid twice.
#[tokio::test]
async fn no_node_alone_makes_a_transaction_seem_lost() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.surfnet.url()).await?;
    let own = world.surfnet.url();
    let honest = node(&world, &[&own])?;
    let node = node(&world, &[&liar.url, &own])?;
    let settled = node.settled().await?;
    tell(&liar, "getLatestBlockhash", |_, result| {
        let height = result["value"]["lastValidBlockHeight"].as_u64().unwrap_or_default();
        result["value"]["lastValidBlockHeight"] = json!(height - 140);
    });
    for _ in 0..4 {
        let truth = Broadcaster::of(&honest).blockhash(settled).await?;
        let lied_to = Broadcaster::of(&node).blockhash(settled).await?;
        assert!(lied_to.last_valid_height >= truth.last_valid_height, "{lied_to:?} {truth:?}");
    }
    Ok(())
}

#[tokio::test]
async fn each_node_is_reported_for_itself() -> Result<()> {
    let world = World::start().await?;
    let foreign = Liar::before(&world.surfnet.url()).await?;
    foreign.say("getGenesisHash", json!("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"));
    let own = world.surfnet.url();
    let reports = node(&world, &[&foreign.url, &own])?.node_reports().await;
    let [other, right] = &reports[..] else { bail!("{reports:?}") };
    assert!(matches!(&other.outcome, NodeOutcome::Unusable(why) if why.contains("is of the cluster")), "{other:?}");
    assert!(matches!(right.outcome, NodeOutcome::Answers { lag_blocks: 0, .. }), "{right:?}");
    Ok(())
}
