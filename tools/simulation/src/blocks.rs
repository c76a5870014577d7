//! Block production, with the faults of chains, and what is done after each block.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::world::{ChainHandle, THIRD_PARTY, World};

/// Makes the blocks of chain `index` for as long as it runs.
pub async fn produce(world: Arc<World>, index: usize) {
    let handle = world.chains[index].clone();
    let plan = world.plan.chains[index];
    let random = world.random(&format!("blocks {index}"));
    loop {
        let late = if random.chance(100) { random.number(0..=plan.block) } else { 0 };
        sleep(Duration::from_millis((plan.block + late) * 1000)).await;
        let held = world.invariants().pending(&world, &handle);
        world.judge(held);
        let is_moment = world.plan.lapses.are_wanted && world.invariants().is_moment(&world, &handle);
        handle.inject_faults(&*world, &random, is_moment);
        match handle.make_block(world.seconds()) {
            Ok(block) => world.note(format!("block {} {block}", handle.chain_id)),
            Err(error) => world.note(format!("no block: {error}")),
        }
        let held = world.invariants().block(&world, &handle);
        world.judge(held);
        sweep(&world, &handle);
        handle.blocks.notify_waiters();
    }
}

/// Payers fetch money that is theirs: what a settler left in escrow past its window although it had delivered, for past it the payer
/// owns it; what they deposited for no payment; and what a release left over.
fn sweep(world: &World, handle: &ChainHandle) {
    let left = world.invariants().left_behind(world, handle);
    for (payment_id, call) in left {
        world.note(format!("the payer of {payment_id} takes what is left: {call:?}"));
        if let Err(error) = handle.send(THIRD_PARTY, &payment_id, &call) {
            world.note(format!("nothing is taken of {payment_id}: {error}"));
        }
    }
}
