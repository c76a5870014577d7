//! Several nodes of one chain: one that lies moves no money, one that fails stops none.

use std::slice::from_ref;

use alloy::primitives::U256;
use anyhow::{Context, Result, bail};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use chains::{
    config::{ApiKey, NodeConfig, TronConfig},
    nodes::NodeOutcome,
};
use chains_tron::{
    adapter::{Keys, TronChain},
    deposit_addresses::served_from,
    node::Node,
};
use sagas::ports::{Chains, DepositState, Transient};

use crate::{
    belief::{calls, words},
    support::{
        World,
        liar::Liar,
        payment::{CAP, TestClock},
    },
};

fn through(world: &World, urls: &[&str]) -> TronConfig {
    let mut config = world.config();
    config.common.rpc_urls = urls.iter().map(|url| NodeConfig::new(*url)).collect();
    config.common.rpc_timeout_ms = 2_000;
    config
}

fn chains(world: &World, urls: &[&str]) -> Result<TronChain> {
    let keys = Keys {
        reserver: world.reserver.clone().into(),
        draining_reservers: Vec::new(),
        submitters: world.submitters.iter().cloned().map(Into::into).collect(),
        exit_submitters: Vec::new(),
    };
    Ok(TronChain::new(Node::connect(&through(world, urls))?, Some(keys), std::sync::Arc::new(TestClock))?)
}

/// A way to change an answer: (path, request, answer).
type Lie = fn(&str, &Value, &mut Value);

/// What can be said of what money rests on that is not so.
const LIES: [(&str, Lie); 4] = [
    ("record", |path, request, answer| {
        let mut found = words(answer);
        if calls(path, request, "recordAsOf(bytes32)") && found.len() > 2 {
            let last = found.len() - 2;
            found[..last].iter_mut().for_each(|word| *word = "0".repeat(64));
            answer["constant_result"][0] = json!(found.concat());
        }
    }),
    ("receipt", |path, _, answer| {
        if path.ends_with("gettransactioninfobyid") {
            *answer = json!({});
        }
    }),
    ("receipts", |path, _, answer| {
        if path.ends_with("gettransactioninfobyblocknum") {
            *answer = json!([]);
        }
    }),
    ("block", |path, request, answer| {
        if path.ends_with("getblock") && request["id_or_num"] != "0" && !request["id_or_num"].is_null() {
            answer["block_header"]["raw_data"]["timestamp"] = json!(1);
        }
    }),
];

/// The money is there: a node that says otherwise ends no payment, and one that is a block ahead of another contradicts nobody.
#[tokio::test]
async fn what_one_of_two_nodes_says_of_a_deposit_address_is_not_believed() -> Result<()> {
    let world = World::start().await?;
    let (order, given) = world.addressed().await?;
    let deposit = order.payer_deposit();
    world.send_to(&given, CAP).await?;
    world.solidify().await?;
    let (liar, own) = (Liar::before(&world.tron.url()).await?, world.tron.url());
    for urls in [[liar.url.as_str(), &own], [&own, &liar.url]] {
        let chains = chains(&world, &urls)?;
        liar.tell(|path, request, mut answer| {
            let mut found = words(&answer);
            if calls(path, request, "heldAsOf(address,address)") && found.len() == 4 {
                found[..2].iter_mut().for_each(|word| *word = "0".repeat(64));
                answer["constant_result"][0] = json!(found.concat());
            }
            answer
        });
        for _ in 0..4 {
            let funds = chains.address_funds(&deposit).await;
            assert!(matches!(funds, Err(Transient::Contradiction(_))), "{funds:?}");
        }
        // One that is a block ahead.
        liar.tell(|path, request, mut answer| {
            let mut found = words(&answer);
            if calls(path, request, "heldAsOf(address,address)") && found.len() == 4 {
                let more = |word: &str, by: u64| {
                    format!("{:064x}", U256::from_str_radix(word, 16).unwrap_or_default() + U256::from(by))
                };
                (found[2], found[3]) = (more(&found[2], 1), more(&found[3], 3));
                answer["constant_result"][0] = json!(found.concat());
            }
            answer
        });
        let mut told = None;
        for _ in 0..4 {
            told = told.or(chains.address_funds(&deposit).await.ok());
        }
        assert_eq!(told.and_then(|funds| funds.amount), Some(CAP.to_string().parse()?));
        liar.be_honest();
    }
    Ok(())
}

/// Whose addresses are given out, and what an auditor proves, rests on the factory's code. How much it is in use may differ.
#[tokio::test]
async fn what_one_of_two_nodes_says_of_a_contracts_code_is_not_believed() -> Result<()> {
    let world = World::start().await?;
    let (liar, own) = (Liar::before(&world.tron.url()).await?, world.tron.url());
    let proxy: Value = world
        .dev
        .control("../wallet/getcontractinfo", json!({"value": world.contracts.proxy, "visible": true}))
        .await?;
    let escrow = world.contracts.escrow.parse()?;
    for urls in [[liar.url.as_str(), &own], [&own, &liar.url]] {
        let mut config = through(&world, &urls);
        let served = async |config: &TronConfig| {
            served_from(&Node::connect(config)?, &escrow).await.map_err(anyhow::Error::from)
        };
        let original: Value = proxy.clone();
        liar.tell(move |path, _, mut answer| {
            if path == "wallet/getcontractinfo" {
                answer["runtimecode"] = original["runtimecode"].clone();
            }
            answer
        });
        let said = served(&config).await;
        assert!(said.as_ref().is_err_and(|fault| fault.to_string().contains("do not say the same")), "{said:?}");
        liar.tell(|path, _, mut answer| {
            if path == "wallet/getcontractinfo" {
                answer["contract_state"] = json!({"energy_usage": 7, "update_cycle": 8});
            }
            answer
        });
        assert!(served(&config).await?.is_some());
        config.deposit_address_factory = None;
        assert!(served(&config).await?.is_none());
    }
    Ok(())
}

#[tokio::test]
async fn what_one_of_two_nodes_says_alone_is_not_believed_and_with_three_it_stops_nothing() -> Result<()> {
    let world = World::start().await?;
    let own = world.chains();
    let order = world.order(600).await?;
    let prepared = world.secured(&own, &order).await?;
    let truth = own.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(truth, DepositState::Secured(_)), "{truth:?}");
    let (liar, honest) = (Liar::before(&world.tron.url()).await?, Liar::before(&world.tron.url()).await?);
    let own = world.tron.url();
    for (name, lie) in LIES {
        for urls in [vec![liar.url.as_str(), &own], vec![&own, &liar.url], vec![&liar.url, &own, &honest.url]] {
            let three = urls.len() == 3;
            let chains = chains(&world, &urls)?;
            liar.tell(move |path, request, mut truth| {
                lie(path, request, &mut truth);
                truth
            });
            let mut believed = None;
            for _ in 0..4 {
                match chains.deposit_state(&order, from_ref(&prepared)).await {
                    Ok(state) => {
                        assert_eq!(state, truth, "{name}");
                        believed = Some(state);
                    }
                    Err(fault) => assert!(matches!(fault, Transient::Contradiction(_)), "{name}: {fault:?}"),
                }
            }
            assert!(believed.is_some() || !three, "{name}: the two others say the same");
            assert!(believed.is_none() || three || name != "record", "{name}: nobody else says so");
            liar.be_honest();
            assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, truth, "{name}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_payment_goes_on_when_one_of_three_nodes_fails() -> Result<()> {
    let world = World::start().await?;
    let (bad, honest) = (Liar::before(&world.tron.url()).await?, Liar::before(&world.tron.url()).await?);
    for fault in ["dead", "limited", "another chain"] {
        let dead = {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            format!("http://{}", listener.local_addr()?)
        };
        let first = if fault == "dead" { &dead } else { &bad.url };
        let own = world.tron.url();
        let chains = chains(&world, &[first, &honest.url, &own])?;
        match fault {
            "limited" => bad.answer(|_, _| Some(StatusCode::TOO_MANY_REQUESTS.into_response())),
            "another chain" => bad.tell(|path, request, mut truth| {
                if path.ends_with("getblock") && request["id_or_num"] == "0" {
                    truth["blockID"] = json!(format!("{:064x}", U256::from(7)));
                }
                truth
            }),
            _ => {}
        }
        let order = world.order(600).await?;
        let prepared = world.secured(&chains, &order).await?;
        let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
        assert!(matches!(state, DepositState::Secured(_)), "{fault}: {state:?}");
        bad.be_honest();
    }
    Ok(())
}

/// A node that lags says what was so a while ago: where two others are ahead of it nobody waits for it, and where they are not,
/// nothing is concluded from what it says.
#[tokio::test]
async fn one_of_three_nodes_that_lags_delays_nothing_and_one_of_two_is_not_believed() -> Result<()> {
    let world = World::start().await?;
    let (lagging, honest) = (Liar::before(&world.tron.url()).await?, Liar::before(&world.tron.url()).await?);
    let own = world.tron.url();
    let with_three = Node::connect(&through(&world, &[&lagging.url, &honest.url, &own]))?;
    let with_two = Node::connect(&through(&world, &[&lagging.url, &own]))?;
    let now = world.node_at(&own);
    let (settled, head) = (now.settled().await?, now.head().await?);
    world.mine(30).await?;
    for node in [&with_three, &with_two] {
        assert_eq!((node.settled().await?.number, node.head().await?.number), (settled.number + 30, head.number + 30));
    }

    lagging.tell(move |path, request, mut truth| {
        if path.ends_with("getblock") && request["id_or_num"].is_null() {
            let stopped_at = if path.starts_with("walletsolidity") { &settled } else { &head };
            truth["blockID"] = json!(hex::encode(stopped_at.id));
            truth["block_header"]["raw_data"]["parentHash"] = json!(hex::encode(stopped_at.parent));
            truth["block_header"]["raw_data"]["number"] = json!(stopped_at.number);
            truth["block_header"]["raw_data"]["timestamp"] = json!(stopped_at.time_ms);
        }
        truth
    });
    for blocks in 31..37 {
        world.mine(1).await?;
        // Each time another one of the three is asked first.
        let found = (with_three.settled().await?.number, with_three.head().await?.number);
        assert_eq!(found, (settled.number + blocks, head.number + blocks));
        for found in [with_two.settled().await, with_two.head().await] {
            assert!(matches!(found, Err(Transient::Contradiction(_))), "{found:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn each_node_has_its_own_key_and_is_reported_for_itself() -> Result<()> {
    let world = World::start().await?;
    let (first, second) = (Liar::before(&world.tron.url()).await?, Liar::before(&world.tron.url()).await?);
    let mut config = through(&world, &[&first.url, &second.url]);
    config.api_key = Some(ApiKey::new("key-of-the-first"));
    let node = Node::connect(&config)?;
    node.settled().await?;
    let key = |liar: &Liar| liar.heard().pop().map(|heard| heard.headers.get("TRON-PRO-API-KEY").cloned());
    assert_eq!(key(&first).flatten().context("no key")?, "key-of-the-first");
    assert_eq!(key(&second).context("not asked")?, None, "one provider's key is not another's");
    config.common.rpc_urls[1].api_key = Some(ApiKey::new("key-of-the-second"));
    let node = Node::connect(&config)?;
    node.settled().await?;
    assert_eq!(key(&second).flatten().context("no key")?, "key-of-the-second");
    assert!(!format!("{config:?} {node:?}").contains("key-of-the"));

    first.answer(|_, _| Some(StatusCode::BAD_GATEWAY.into_response()));
    let reports = node.node_reports().await;
    let [one, other] = &reports[..] else { bail!("{reports:?}") };
    assert!(matches!(one.outcome, NodeOutcome::Silent(_)), "{one:?}");
    assert!(matches!(other.outcome, NodeOutcome::Answers { lag_blocks: 0, .. }), "{other:?}");
    assert_eq!(other.origin, second.url);
    assert!(matches!(node.settled().await, Err(Transient::Unreachable(_))), "one of two is not enough");
    Ok(())
}
