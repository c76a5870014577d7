//! New blocks as a node tells of them over WebSocket.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, timeout};

use chains::{
    diagnosis::{Verdict, head_feed},
    head_feed::{Dialect, HeadFeed, WsUrl},
};
use chains_evm::node::Node;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_block_is_told_long_before_the_node_is_asked_again() -> Result<()> {
    let world = World::start().await?;
    let mut config = world.source.config.clone();
    config.common.ws_url = Some(WsUrl(world.source.anvil.url().replacen("http", "ws", 1)));
    config.common.poll_ms = 8_000;
    let feed = |url: String| HeadFeed::new(config.common.chain_id.clone(), WsUrl(url), Dialect::Evm);
    let of_anvil = feed(world.source.anvil.url().replacen("http", "ws", 1));
    assert_eq!(head_feed(Some(&of_anvil)).await.map(|one| one.verdict), Some(Verdict::Ok));
    let of_nobody = feed("ws://127.0.0.1:1".to_owned());
    assert_eq!(head_feed(Some(&of_nobody)).await.map(|one| one.verdict), Some(Verdict::Warning));
    let node = Node::connect(&config)?;
    // The first look says which block there is; each of the others takes half of the time at least.
    node.next_block().await;
    let begun = Instant::now();
    let (waiting, mining) = (timeout(Duration::from_secs(60), node.next_block()), async {
        // The feed may be connecting still, so that the first blocks are not told.
        while begun.elapsed() < Duration::from_secs(30) {
            world.source.mine(1).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok::<_, anyhow::Error>(())
    });
    tokio::select! {
        waited = waiting => waited.context("nobody tells of blocks")?,
        mined = mining => mined.and_then(|()| anyhow::bail!("nobody tells of blocks"))?,
    }
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
    Ok(())
}
