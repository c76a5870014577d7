//! Faults around payments from Tron: processes, the node, transactions that are lost or starve or expire, tokens that
//! deny somebody, payers who send what they signed by themselves. Whatever happens, the balances fit to the unit.

mod broadcasts;
mod killed;
pub(crate) mod node;
mod node_away;
mod payer;
mod payer_deposit;
mod starved;
mod token;
mod token_denied;

use anyhow::Result;

use devkit::free_port;
use devnet::{network::Options, tron::TronOptions};

use self::node::LossyNode;
use crate::support::*;

/// A network whose gateways reach the Tron chain through a node that can be told to fail.
async fn with_lossy_node(choose: impl FnOnce(Options) -> Options) -> Result<(World, LossyNode)> {
    let port = free_port()?;
    let node = LossyNode::start(port).await?;
    let tron = TronOptions { port: Some(port), gateway_rpc_url: Some(node.url()), ..TronOptions::default() };
    Ok((World::with(|options| choose(Options { tron: Some(tron), ..options })).await?, node))
}

async fn restart_gateway(world: &mut World) -> Result<()> {
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await
}

/// What `count` payments of the ordinary amount move from Tron to the second EVM chain, besides what their payers pay.
fn delivered(count: u64) -> Moves {
    let (amount, price) = (i128::from(count * AMOUNT), i128::from(count * PRICE));
    Moves::from([("settlers", price), ("evm settlers' destination", -amount), ("evm recipient", amount)])
}
