//! Blocks, and what happens to transactions before and after they are in one.

use std::{sync::Arc, time::Duration};

use alloy::primitives::{Address, B256, Bytes, U256};
use serde_json::{Value, json};
use tokio::time::sleep;

use alloy::sol_types::SolCall;

use escrow_abi::contracts::{GatewayEscrow, word};

use crate::{
    census,
    chain::{BaseFee, Dropped, View},
    dice::Dice,
    settlers,
    world::{Place, World},
};

/// Base fee of a quiet chain, wei.
const BASE_FEE: u64 = 1_000_000_000;

/// Makes the blocks of chain `index` for as long as it runs.
pub async fn produce(world: Arc<World>, index: usize) {
    let place = world.places[index].clone();
    let plan = world.plan.chains[index];
    let dice = world.dice(&format!("blocks {index}"));
    let mut spike = 0;
    loop {
        let late = if dice.chance(100) { dice.number(0..=plan.block) } else { 0 };
        sleep(Duration::from_millis((plan.block + late) * 1000)).await;
        let held = world.books().pending(&place);
        world.judge(held);
        weather(&world, &place, &dice, &mut spike);
        let mined = place.lock().mine(world.seconds());
        match mined {
            Ok(block) => {
                let number = block.number;
                world.note(format!("block {} {number} {}", place.chain_id, block.hash));
            }
            Err(error) => world.note(format!("no block: {error}")),
        }
        let held = world.books().block(&world, &place);
        world.judge(held);
        sweep(&world, &place);
        place.blocks.notify_waiters();
    }
}

fn weather(world: &World, place: &Place, dice: &Dice, spike: &mut u64) {
    let faults = world.plan.faults;
    if world.draws(dice, faults.reorganisation) {
        let mut chain = place.lock();
        let depth_max = chain.head().number - chain.finalized().number;
        if depth_max > 0 {
            let depth = dice.number(1..=depth_max);
            let dropped = dice.pick(&[Dropped::Forgotten, Dropped::Pooled, Dropped::Reordered]);
            census::fault(match dropped {
                Dropped::Forgotten => "reorganisation, transactions forgotten",
                Dropped::Pooled => "reorganisation, transactions pooled",
                Dropped::Reordered => "reorganisation, transactions reordered",
            });
            let outcome = chain.reorganise(depth, dropped).map(|reorganised| reorganised.transactions.len());
            world.note(format!("fault: {} loses {depth} blocks, {dropped:?}: {outcome:?}", place.chain_id));
        }
    }
    let pending = place.lock().pending();
    if !pending.is_empty() && world.strikes(dice, "transaction is forgotten", faults.dropped) {
        let hash = dice.pick(&pending);
        place.lock().drop_transaction(hash);
        world.note(format!("fault: {hash} is forgotten"));
    }
    if !pending.is_empty() && world.strikes(dice, "transaction is stuck", faults.stuck) {
        let (hash, until) = (dice.pick(&pending), place.lock().head().number + dice.number(2..=12));
        place.lock().hold(hash, until);
        world.note(format!("fault: {hash} is stuck until {until}"));
    }
    if *spike > 0 {
        *spike -= 1;
        if *spike == 0 || world.is_calm() {
            *spike = 0;
            place.lock().set_base_fee(BaseFee::Pinned(BASE_FEE));
        }
    } else if world.strikes(dice, "base fee rises", faults.spike * if pending.is_empty() { 1 } else { 5 }) {
        // A spike does most where something waits.
        *spike = dice.number(2..=12);
        let fee = BASE_FEE * dice.number(2..=60);
        place.lock().set_base_fee(BaseFee::Pinned(fee));
        world.note(format!("fault: base fee of {} is {fee}", place.chain_id));
    }
    if !pending.is_empty() && world.strikes(dice, "stranger meddles", faults.stranger) {
        let hash = dice.pick(&pending);
        if let Some((to, input)) = transaction(place, hash) {
            settlers::meddle(world, place, hash, &input, to);
        }
    }
}

/// What a waiting transaction calls.
fn transaction(place: &Place, hash: B256) -> Option<(Address, Bytes)> {
    let found = place.lock().rpc(&View::Honest, "eth_getTransactionByHash", &json!([hash])).ok()?;
    let member = |name: &str| found.get(name).and_then(Value::as_str);
    Some((member("to")?.parse().ok()?, member("input")?.parse().ok()?))
}

/// Payers fetch money that a settler left in escrow past its window although it had delivered: from then on it is theirs.
fn sweep(world: &World, place: &Place) {
    for payment_id in world.books().left_behind(world, place) {
        let call = GatewayEscrow::refundCall { paymentId: word(payment_id.on_chain()) };
        world.note(format!("the payer of {payment_id} takes back what nobody fetched"));
        let escrow = place.contracts.escrow;
        drop(place.send(world.stranger(), escrow, U256::ZERO, call.abi_encode().into()));
    }
}
