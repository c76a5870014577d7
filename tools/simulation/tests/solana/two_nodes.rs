//! Two simulated nodes of one cluster: one that lies about its head settles nothing, and the same calls are made each time.

use std::sync::{Arc, Mutex};

use anyhow::Result;

use chains_solana::node::Node;
use simulation::solana::{NodeKind, RpcOutcome, SharedCluster, SimTransport};

use crate::support::*;

/// What was asked of which node, in order.
type Calls = Arc<Mutex<Vec<(usize, String)>>>;

/// A connection to nodes of these kinds.
fn connect(cluster: &SharedCluster, kinds: [NodeKind; 2], calls: &Calls) -> Result<Node> {
    let nodes = kinds.into_iter().enumerate().map(|(number, kind)| {
        let calls = calls.clone();
        SimTransport::new(cluster.clone(), RPC_TIMEOUT, move |method| {
            calls.lock().unwrap().push((number, method.to_owned()));
            RpcOutcome::Deliver(kind)
        })
    });
    let config = lock(cluster).config(REFUND_DELAY)?;
    Ok(SimTransport::connect_all(nodes.collect::<Vec<_>>(), &config)?)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lies_about_its_head_settles_nothing_beside_an_honest_one() -> Result<()> {
    let mut logs = Vec::new();
    for _ in 0..2 {
        let cluster = cluster(0)?.shared();
        produce(&cluster, 40)?;
        let config = lock(&cluster).config(REFUND_DELAY)?;
        let alone =
            |kind| SimTransport::new(cluster.clone(), RPC_TIMEOUT, move |_| RpcOutcome::Deliver(kind)).connect(&config);
        let (honest, liar) = (NodeKind::Honest, NodeKind::LyingHead { ahead: 3 });
        let (settled, head) = (alone(honest)?.settled().await?, alone(honest)?.head().await?);
        let newest = lock(&cluster).head();
        assert_eq!(alone(liar)?.settled().await?.slot, newest.slot, "one node is believed");
        assert_ne!(settled.slot, newest.slot);
        let calls = Calls::default();
        for kinds in [[honest, liar], [liar, honest]] {
            let node = connect(&cluster, kinds, &calls)?;
            assert_eq!((node.settled().await?, node.head().await?), (settled, head));
        }
        let lagging = NodeKind::Lagging { blocks: 2 };
        let node = connect(&cluster, [honest, lagging], &calls)?;
        assert_eq!(node.settled().await?.slot, settled.slot - 2);
        logs.push(calls.lock().unwrap().clone());
    }
    assert!(!logs[0].is_empty());
    assert_eq!(logs[0], logs[1], "the same calls in the same order");
    Ok(())
}
