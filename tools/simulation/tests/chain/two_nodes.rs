//! Two simulated nodes of one chain: one that lies about its head settles nothing, and the same calls are made each time.

use std::sync::{Arc, Mutex};

use alloy::rpc::client::RpcClient;
use anyhow::Result;

use chains::config::Depth;
use chains_evm::node::Node;
use simulation::chain::{NodeKind, RpcOutcome, SharedChain, SimTransport};

use crate::support::*;

/// What was asked of which node, in order.
type Calls = Arc<Mutex<Vec<(usize, String)>>>;

/// A connection to nodes of these kinds.
fn connect(chain: &SharedChain, kinds: [NodeKind; 2], calls: &Calls) -> Result<Node> {
    let config = lock(chain).config(Depth::Finalized, REFUND_DELAY);
    let nodes = kinds.into_iter().enumerate().map(|(number, kind)| {
        let calls = calls.clone();
        let transport = SimTransport::new(chain.clone(), RPC_TIMEOUT, move |method| {
            calls.lock().unwrap().push((number, method.to_owned()));
            RpcOutcome::Deliver(kind)
        });
        (format!("simulation:{number}"), RpcClient::new(transport, true))
    });
    Ok(Node::over_all(&config, nodes)?)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lies_about_its_head_settles_nothing_beside_an_honest_one() -> Result<()> {
    let mut logs = Vec::new();
    for _ in 0..2 {
        let chain = chain(31_337)?.shared();
        for _ in 0..100 {
            let time = lock(&chain).head().time + BLOCK_SECONDS;
            lock(&chain).mine(time)?;
        }
        let config = lock(&chain).config(Depth::Finalized, REFUND_DELAY);
        let alone =
            |kind| SimTransport::new(chain.clone(), RPC_TIMEOUT, move |_| RpcOutcome::Deliver(kind)).connect(&config);
        let (honest, liar) = (NodeKind::Honest, NodeKind::LyingHead { ahead: 3 });
        let (settled, head) = (alone(honest)?.settled().await?, alone(honest)?.head().await?);
        assert_eq!(alone(liar)?.settled().await?, head, "one node is believed");
        assert_ne!(settled, head);
        let calls = Calls::default();
        for kinds in [[honest, liar], [liar, honest]] {
            let node = connect(&chain, kinds, &calls)?;
            assert_eq!((node.settled().await?, node.head().await?), (settled, head));
        }
        let lagging = NodeKind::Lagging { blocks: 2 };
        let node = connect(&chain, [honest, lagging], &calls)?;
        assert_eq!(node.settled().await?.number, settled.number - 2);
        logs.push(calls.lock().unwrap().clone());
    }
    assert!(!logs[0].is_empty());
    assert_eq!(logs[0], logs[1], "the same calls in the same order");
    Ok(())
}
