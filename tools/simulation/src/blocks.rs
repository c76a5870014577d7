//! Block production, with the faults of chains: reorganisations, forgotten and stuck transactions, fee spikes.

use std::{sync::Arc, time::Duration};

use alloy::{
    primitives::{Address, B256, Bytes, U256},
    sol_types::SolCall,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use escrow_abi::{contracts::GatewayEscrow, record::EscrowTerms};

use crate::{
    chain::{BaseFee, Dropped, NodeKind},
    coverage,
    random::RandomSource,
    world::{ChainHandle, World, settlers},
};

/// Base fee of a quiet chain, wei.
const BASE_FEE: u64 = 1_000_000_000;
/// So many times as often as else a chain is reorganised while that decides who is paid.
const MOMENT_FACTOR: u32 = 4;

/// Makes the blocks of chain `index` for as long as it runs.
pub async fn produce(world: Arc<World>, index: usize) {
    let handle = world.chains[index].clone();
    let plan = world.plan.chains[index];
    let random = world.random(&format!("blocks {index}"));
    let mut spike = 0;
    loop {
        let late = if random.chance(100) { random.number(0..=plan.block) } else { 0 };
        sleep(Duration::from_millis((plan.block + late) * 1000)).await;
        let held = world.invariants().pending(&handle);
        world.judge(held);
        inject_faults(&world, &handle, &random, &mut spike);
        let mined = handle.lock().mine(world.seconds());
        match mined {
            Ok(block) => {
                let number = block.number;
                world.note(format!("block {} {number} {}", handle.chain_id, block.hash));
            }
            Err(error) => world.note(format!("no block: {error}")),
        }
        let held = world.invariants().block(&world, &handle);
        world.judge(held);
        sweep(&world, &handle);
        handle.blocks.notify_waiters();
    }
}

fn inject_faults(world: &World, handle: &ChainHandle, random: &RandomSource, spike: &mut u64) {
    let faults = world.plan.faults;
    let is_moment = world.plan.lapses.are_wanted && world.invariants().is_moment(world, handle);
    if world.draws(random, faults.reorganisation * if is_moment { MOMENT_FACTOR } else { 1 }) {
        let mut chain = handle.lock();
        let depth_max = chain.head().number - chain.finalized().number;
        if depth_max > 0 {
            let depth = random.number(1..=depth_max);
            if is_moment {
                coverage::fault("reorganisation about a reassignment or the end of a promise");
            }
            let dropped = random.pick(&[Dropped::Forgotten, Dropped::Pooled, Dropped::Reordered]);
            coverage::fault(match dropped {
                Dropped::Forgotten => "reorganisation, transactions forgotten",
                Dropped::Pooled => "reorganisation, transactions pooled",
                Dropped::Reordered => "reorganisation, transactions reordered",
            });
            let outcome = chain.reorganise(depth, dropped).map(|reorganised| reorganised.transactions.len());
            world.note(format!("fault: {} loses {depth} blocks, {dropped:?}: {outcome:?}", handle.chain_id));
        }
    }
    let pending = handle.lock().pending();
    if !pending.is_empty() && world.strikes(random, "transaction is forgotten", faults.dropped) {
        let hash = random.pick(&pending);
        handle.lock().drop_transaction(hash);
        world.note(format!("fault: {hash} is forgotten"));
    }
    if !pending.is_empty() && world.strikes(random, "transaction is stuck", faults.stuck) {
        let (hash, until) = (random.pick(&pending), handle.lock().head().number + random.number(2..=12));
        handle.lock().delay(hash, until);
        world.note(format!("fault: {hash} is stuck until {until}"));
    }
    if *spike > 0 {
        *spike -= 1;
        if *spike == 0 || world.faults_ended() {
            *spike = 0;
            handle.lock().set_base_fee(BaseFee::Pinned(BASE_FEE));
        }
    } else if world.strikes(random, "base fee rises", faults.spike * if pending.is_empty() { 1 } else { 5 }) {
        // A spike does most where something waits.
        *spike = random.number(2..=12);
        let fee = BASE_FEE * random.number(2..=60);
        handle.lock().set_base_fee(BaseFee::Pinned(fee));
        world.note(format!("fault: base fee of {} is {fee}", handle.chain_id));
    }
    if !pending.is_empty() && world.strikes(random, "third party copies a transaction", faults.third_party) {
        let hash = random.pick(&pending);
        if let Some((to, input)) = transaction(handle, hash) {
            settlers::meddle(world, handle, hash, &input, to);
        }
    }
}

/// The target and input of a pending transaction.
fn transaction(handle: &ChainHandle, hash: B256) -> Option<(Address, Bytes)> {
    let found = handle.lock().rpc(&NodeKind::Honest, "eth_getTransactionByHash", &json!([hash])).ok()?;
    let member = |name: &str| found.get(name).and_then(Value::as_str);
    Some((member("to")?.parse().ok()?, member("input")?.parse().ok()?))
}

/// Payers fetch money that a settler left in escrow past its window although it had delivered: past it the payer owns it.
fn sweep(world: &World, handle: &ChainHandle) {
    for payment_id in world.invariants().left_behind(world, handle) {
        let terms = match handle.lock().escrow_terms(&payment_id) {
            Ok(EscrowTerms(terms)) => terms,
            Err(error) => {
                world.note(format!("no terms of {payment_id}: {error}"));
                continue;
            }
        };
        let call = GatewayEscrow::refundCall { e: terms };
        world.note(format!("the payer of {payment_id} takes back what nobody fetched"));
        let escrow = handle.contracts.escrow;
        drop(handle.send(world.third_party(), escrow, U256::ZERO, call.abi_encode().into()));
    }
}
