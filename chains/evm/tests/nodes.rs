//! Several nodes of one chain: one that lies moves no money, one that fails stops none.

use std::{slice::from_ref, time::Duration};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::Instant};

use chains::{
    config::{Depth, EvmConfig, NodeConfig},
    nodes::NodeOutcome,
    verifier::{Outcome, Verifier},
};
use chains_evm::{
    adapter::{EvmChain, Keys},
    deliveries::Deliveries,
    node::Node,
    query::Query,
    settler::SettlerChain,
    transaction_status::Transactions,
};
use sagas::ports::{Chains, DeliveryState, DepositState, Transient};

use crate::support::{
    liar::{Failure, Liar},
    *,
};

/// A way to change what was answered: (request, answer).
type Lie = fn(&Value, &mut Value);

fn through(config: &EvmConfig, urls: &[&str]) -> EvmConfig {
    let mut config = config.clone();
    config.common.rpc_urls = urls.iter().map(|url| NodeConfig::new(*url)).collect();
    config.common.rpc_timeout_ms = 2_000;
    config
}

fn connect(chain: &Chain, urls: &[&str]) -> Result<Node> {
    Ok(Node::connect(&through(&chain.config, urls))?)
}

/// Honest nodes before the chain's own, each of an origin of its own.
async fn proxies<const COUNT: usize>(chain: &Chain) -> Result<[Liar; COUNT]> {
    let mut proxies = Vec::new();
    for _ in 0..COUNT {
        proxies.push(Liar::before(&chain.anvil.url()).await?);
    }
    proxies.try_into().map_err(|_| anyhow::anyhow!("so many proxies"))
}

/// The address of a node that is dead.
async fn dead() -> Result<String> {
    Ok(format!("http://{}", TcpListener::bind("127.0.0.1:0").await?.local_addr()?))
}

fn tell(liar: &Liar, method: &'static str, lie: Lie) {
    liar.tell(move |request, mut truth| {
        if request["method"] == method {
            lie(request, &mut truth["result"]);
        }
        truth
    });
}

/// What can be said of what money rests on that is not so.
const LIES: [(&str, Lie); 7] = [
    ("eth_getLogs", |_, logs| *logs = json!([])),
    ("eth_call", |_, returned| {
        let zeros = "0".repeat(returned.as_str().unwrap_or_default().len().saturating_sub(2));
        *returned = json!(format!("0x{zeros}"));
    }),
    ("eth_getTransactionReceipt", |_, receipt| receipt["status"] = json!("0x0")),
    ("eth_getTransactionReceipt", |_, receipt| *receipt = Value::Null),
    ("eth_getTransactionCount", |_, count| *count = json!("0x7fff")),
    ("eth_getBlockByHash", |_, block| block["timestamp"] = json!("0x7fffffff")),
    ("eth_getBlockByNumber", |request, block| {
        if request["params"][0] != "latest" {
            block["hash"] = json!(format!("0x{}", "5".repeat(64)));
        }
    }),
];

#[tokio::test]
async fn what_one_of_two_nodes_says_alone_is_not_believed() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let order = payment.deposit();
    let prepared = world.chains.prepare_deposit(&order, 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let truth = world.chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(truth, DepositState::Secured(_)), "{truth:?}");

    let [liar] = proxies(&world.source).await?;
    let honest = world.source.anvil.url();
    for (method, lie) in LIES {
        for urls in [[liar.url.as_str(), &honest], [&honest, &liar.url]] {
            // Nothing is known to a connection that was just made.
            let node = connect(&world.source, &urls)?;
            tell(&liar, method, lie);
            for _ in 0..3 {
                match Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await {
                    // Not every lie is about what is asked; what is said is what both say.
                    Ok(state) => assert_eq!(state, truth, "{method}"),
                    Err(fault) => assert!(matches!(fault, Transient::Contradiction(_)), "{method}: {fault:?}"),
                }
            }
            liar.be_honest();
            assert_eq!(Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await?, truth, "{method}");
        }
    }
    // Who lies about the record is not believed at all.
    let node = connect(&world.source, &[&liar.url, &honest])?;
    tell(&liar, LIES[1].0, LIES[1].1);
    assert!(Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_one_of_two_nodes_shows_is_not_attested() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    world.secure(&payment).await?;
    let settler = SettlerChain::new(world.destination.node.clone(), world.settler.clone());
    settler.deliver(&payment.delivery()).await?;
    world.destination.mine(DEPTH).await?;
    // To the other node nothing was delivered; which of the two lies cannot be known.
    let [other] = proxies(&world.destination).await?;
    let honest = world.destination.anvil.url();
    for (method, lie) in LIES {
        let node = connect(&world.destination, &[&honest, &other.url])?;
        let verifier = Verifier::default().with_chains([world.source.node.clone(), node.clone()], Some(key(3).into()));
        tell(&other, method, lie);
        let outcome = verifier.attest_delivery(&payment.case()).await;
        let needs_it = matches!(method, "eth_getLogs" | "eth_call");
        match outcome {
            Ok(Outcome::Attested(_)) => assert!(!needs_it, "{method}"),
            Ok(Outcome::NotYet(_)) | Err(_) => {}
            Ok(other) => bail!("{method}: {other:?}"),
        }
        assert!(!matches!(verifier.attest_non_delivery(&payment.case()).await, Ok(Outcome::Attested(_))), "{method}");
        other.be_honest();
        let state = Deliveries::of(&node).state(&payment.delivery()).await?;
        assert!(matches!(state, DeliveryState::Final(_)), "{method}: {state:?}");
        assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Attested(_)), "{method}");
    }
    Ok(())
}

#[tokio::test]
async fn an_origin_that_is_given_twice_has_one_vote() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let order = payment.deposit();
    let prepared = world.chains.prepare_deposit(&order, 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let [liar] = proxies(&world.source).await?;
    let again = format!("{}/?key=another", liar.url);
    let node = connect(&world.source, &[&liar.url, &again, &world.source.anvil.url()])?;
    tell(&liar, LIES[1].0, LIES[1].1);
    for _ in 0..4 {
        let state = Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await;
        assert!(state.is_err(), "{state:?}");
    }
    Ok(())
}

/// The whole way, with a fault at each step at another one of three nodes.
#[tokio::test]
async fn a_payment_goes_on_when_one_of_three_nodes_fails_or_lies() -> Result<()> {
    let world = World::start().await?;
    let faults = ["dead", "hangs", "too many requests", "endless", "lies", "another chain"];
    for (number, fault) in faults.into_iter().enumerate() {
        let [bad, good] = proxies(&world.source).await?;
        let honest = world.source.anvil.url();
        let dead = dead().await?;
        let first = if fault == "dead" { &dead } else { &bad.url };
        let node = connect(&world.source, &[first, &good.url, &honest])?;
        let (ledger, budgets, clock) = (world.ledger.clone(), world.budgets.clone(), world.clock.clone());
        let keys = Keys {
            reserver: key(2).into(),
            draining_reservers: Vec::new(),
            submitters: vec![world.submitter.clone().into()],
            exit_submitters: Vec::new(),
            draining_submitters: Vec::new(),
        };
        let gateway = EvmChain::new(node, Some(keys), ledger, budgets, clock)?;
        let payment = world.payment(&format!("order-{number}"))?;
        let order = payment.deposit();
        match fault {
            "hangs" => bad.fail(Failure::Hangs),
            "too many requests" => bad.fail(Failure::TooManyRequests(30)),
            "endless" => bad.fail(Failure::Endless),
            "lies" => tell(&bad, LIES[1].0, LIES[1].1),
            "another chain" => bad.say("eth_chainId", json!("0x1")),
            _ => {}
        }
        let begun = Instant::now();
        let prepared = retried(|| gateway.prepare_deposit(&order, 1)).await?;
        retried(|| gateway.broadcast(&prepared)).await?;
        world.source.mine(1 + DEPTH).await?;
        let state = retried(|| gateway.deposit_state(&order, from_ref(&prepared))).await?;
        assert!(matches!(state, DepositState::Secured(_)), "{fault}: {state:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{fault}: {:?}", begun.elapsed());
    }
    Ok(())
}

/// Looks again as a payment does, which no transient fault ends.
async fn retried<T, E, F>(mut ask: impl FnMut() -> F) -> Result<T>
where
    E: std::fmt::Debug,
    F: Future<Output = Result<T, E>>,
{
    let mut last = None;
    for _ in 0..20 {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(fault) => last = Some(fault),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("{last:?}")
}

#[tokio::test]
async fn with_two_nodes_money_waits_for_the_one_that_is_away() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let order = payment.deposit();
    let prepared = world.chains.prepare_deposit(&order, 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let [away] = proxies(&world.source).await?;
    let node = connect(&world.source, &[&away.url, &world.source.anvil.url()])?;
    away.fail(Failure::Hangs);
    let look = || async { Transactions::of(&node).deposit_state(&order, from_ref(&prepared)).await };
    assert!(matches!(look().await, Err(Transient::Unreachable(_))));
    // What harms nobody goes on.
    assert!(Query::of(&node).fees().await.is_ok());
    away.be_honest();
    assert!(matches!(retried(look).await?, DepositState::Secured(_)));
    Ok(())
}

#[tokio::test]
async fn a_settled_block_is_one_that_two_nodes_have() -> Result<()> {
    let world = World::start().await?;
    let chain = &world.source;
    chain.mine(20).await?;
    let truth = chain.node.settled().await?;
    let [other] = proxies(chain).await?;
    let urls = [other.url.clone(), chain.anvil.url()];
    let urls = [urls[0].as_str(), urls[1].as_str()];
    // A node that claims to be ahead settles nothing, one that lags holds back.
    let behind = chain.node.block(truth.number - 3).await?.unwrap();
    let old =
        chain.dev.rpc::<_, Value>("eth_getBlockByNumber", (format!("0x{:x}", behind.number + DEPTH), false)).await?;
    let latest = |result: Value| {
        move |request: &Value, mut truth: Value| {
            if request["method"] == "eth_getBlockByNumber" && request["params"][0] == "latest" {
                truth["result"] = result.clone();
            }
            truth
        }
    };
    let mut ahead = old.clone();
    ahead["number"] = json!("0x7fff");
    other.tell(latest(ahead));
    let node = connect(chain, &urls)?;
    assert_eq!(node.settled().await?, truth);
    other.tell(latest(old));
    let node = connect(chain, &urls)?;
    assert_eq!(node.settled().await?, behind);
    // What two nodes had settled stays so, whoever lags later.
    other.be_honest();
    assert_eq!(node.settled().await?, truth);
    other.tell(latest(Value::Null));
    assert!(node.settled().await.is_err());
    // Nor is a block settled that the other has not.
    other.be_honest();
    tell(&other, LIES[6].0, LIES[6].1);
    assert!(connect(chain, &urls)?.settled().await.is_err());
    let mut config = through(&chain.config, &urls);
    config.common.required_depth = Depth::Finalized;
    other.be_honest();
    let finalized = Node::connect(&config)?.settled().await?;
    other.tell(|request, mut truth| {
        if request["params"][0] == "finalized" {
            truth["result"]["hash"] = json!(format!("0x{}", "6".repeat(64)));
        }
        truth
    });
    let lied_to = Node::connect(&config)?;
    assert!(lied_to.settled().await.is_err());
    other.be_honest();
    assert!(lied_to.settled().await?.number >= finalized.number);
    Ok(())
}

#[tokio::test]
async fn a_node_that_asks_to_be_left_alone_is_asked_nothing_meanwhile() -> Result<()> {
    let world = World::start().await?;
    let [limited] = proxies(&world.source).await?;
    let node = connect(&world.source, &[&limited.url])?;
    node.head().await?;
    limited.fail(Failure::TooManyRequests(2));
    assert!(matches!(node.head().await, Err(Transient::RateLimited(_))));
    limited.be_honest();
    limited.asked();
    let fault = node.head().await.expect_err("asked too soon");
    assert!(matches!(fault, Transient::RateLimited(_)) && fault.to_string().contains("paused for "), "{fault}");
    assert_eq!(limited.asked(), 0);
    eventually("the end of the pause", async || Ok(node.head().await.is_ok())).await?;
    // Providers say it in the answer as well, with a time of their own.
    let refusal = json!({"code": -32005, "message": "daily request count exceeded, request rate limited",
        "data": {"rate": {"backoff_seconds": 1.5}}});
    limited.tell(move |request, _| json!({"jsonrpc": "2.0", "id": request["id"], "error": refusal.clone()}));
    assert!(matches!(node.head().await, Err(Transient::RateLimited(_))));
    limited.be_honest();
    assert!(node.head().await.expect_err("asked too soon").to_string().contains("paused for "));
    eventually("the end of the pause", async || Ok(node.head().await.is_ok())).await
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read() -> Result<()> {
    let world = World::start().await?;
    let [endless] = proxies(&world.source).await?;
    let node = connect(&world.source, &[&endless.url])?;
    endless.fail(Failure::Endless);
    let fault = node.head().await.expect_err("read");
    assert!(fault.to_string().ends_with("more than 33554432 bytes"), "{fault}");
    Ok(())
}

#[tokio::test]
async fn each_node_is_reported_for_itself_and_by_its_origin_alone() -> Result<()> {
    let world = World::start().await?;
    world.source.mine(10).await?;
    let [foreign, behind] = proxies(&world.source).await?;
    foreign.say("eth_chainId", json!("0x1"));
    let head = world.source.node.head().await?.number;
    let old = world.source.dev.rpc::<_, Value>("eth_getBlockByNumber", (format!("0x{:x}", head - 4), false)).await?;
    behind.say("eth_getBlockByNumber", old);
    let dead = dead().await?;
    let keyed = format!("{}/?key=KEY", world.source.anvil.url());
    let node = connect(&world.source, &[&keyed, &foreign.url, &behind.url, &dead])?;
    let reports = node.node_reports().await;
    let outcomes: Vec<_> = reports.iter().map(|report| &report.outcome).collect();
    let [NodeOutcome::Answers { head: first, lag_blocks: 0 }, unusable, lagging, silent] = outcomes[..] else {
        bail!("{reports:?}")
    };
    assert_eq!(*first, head);
    assert!(matches!(unusable, NodeOutcome::Unusable(why) if why.contains("is of chain 1")), "{unusable:?}");
    assert_eq!(*lagging, NodeOutcome::Answers { head: head - 4, lag_blocks: 4 });
    assert!(matches!(silent, NodeOutcome::Silent(_)), "{silent:?}");
    let shown = format!("{reports:?} {node:?} {:?}", node.config().common.rpc_urls);
    assert!(!shown.contains("KEY"), "{shown}");
    Ok(())
}
