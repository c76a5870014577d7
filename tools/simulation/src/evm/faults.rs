//! The faults of an EVM chain: reorganisations, forgotten and stuck transactions, fee spikes, third parties who copy.

use std::sync::PoisonError;

use alloy::{
    primitives::{Address, B256, Bytes, U256},
    sol_types::SolCall,
};
use serde_json::{Value, json};

use escrow_abi::contracts::FulfillmentProxy;

use super::EvmWorld;
use crate::{
    chain::{BaseFee, Dropped},
    coverage,
    family::{FaultSource, secp256k1},
    random::RandomSource,
};

/// Base fee of a quiet chain, wei.
const BASE_FEE: u64 = 1_000_000_000;
/// So many times as often as else a chain is reorganised while that decides who is paid.
const MOMENT_FACTOR: u32 = 4;

impl EvmWorld {
    pub(super) fn suffer(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool) {
        let faults = world.faults();
        let chain_id = &self.config.common.chain_id;
        if world.draws(random, faults.reorganisation * if is_moment { MOMENT_FACTOR } else { 1 }) {
            let mut chain = self.lock();
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
                world.note(format!("fault: {chain_id} loses {depth} blocks, {dropped:?}: {outcome:?}"));
            }
        }
        let pending = self.lock().pending();
        if !pending.is_empty() && world.strikes(random, "transaction is forgotten", faults.dropped) {
            let hash = random.pick(&pending);
            self.lock().drop_transaction(hash);
            world.note(format!("fault: {hash} is forgotten"));
        }
        if !pending.is_empty() && world.strikes(random, "transaction is stuck", faults.stuck) {
            let (hash, until) = (random.pick(&pending), self.lock().head().number + random.number(2..=12));
            self.lock().delay(hash, until);
            world.note(format!("fault: {hash} is stuck until {until}"));
        }
        self.price(world, random, !pending.is_empty());
        if !pending.is_empty() && world.strikes(random, "third party copies a transaction", faults.third_party) {
            let hash = random.pick(&pending);
            if let Some((to, input)) = self.call_of(hash) {
                world.note(format!("a stranger copies {hash}"));
                self.copy(&input, to);
            }
        }
    }

    fn price(&self, world: &dyn FaultSource, random: &RandomSource, is_busy: bool) {
        let mut spike = self.spike.lock().unwrap_or_else(PoisonError::into_inner);
        if *spike > 0 {
            *spike -= 1;
            if *spike == 0 || world.faults_ended() {
                *spike = 0;
                self.lock().set_base_fee(BaseFee::Pinned(BASE_FEE));
            }
        } else if world.strikes(random, "base fee rises", world.faults().spike * if is_busy { 5 } else { 1 }) {
            // A spike does most where something waits.
            *spike = random.number(2..=12);
            let fee = BASE_FEE * random.number(2..=60);
            self.lock().set_base_fee(BaseFee::Pinned(fee));
            world.note(format!("fault: base fee of {} is {fee}", self.config.common.chain_id));
        }
    }

    /// The target and input of a pending transaction.
    fn call_of(&self, hash: B256) -> Option<(Address, Bytes)> {
        let found = self.ask("eth_getTransactionByHash", json!([hash]));
        let member = |name: &str| found.get(name).and_then(Value::as_str);
        Some((member("to")?.parse().ok()?, member("input")?.parse().ok()?))
    }

    /// Front-running: a third party sends a transaction that it saw in the pool; a delivery it copies with an amount of one
    /// unit, to spend the key that it takes for the delivery's.
    fn copy(&self, input: &Bytes, to: Address) {
        let burnt = FulfillmentProxy::fulfillCall::abi_decode(input).ok().map(|call| {
            let value = if call.token.is_zero() { U256::from(1) } else { U256::ZERO };
            (value, FulfillmentProxy::fulfillCall { amount: U256::from(1), ..call }.abi_encode().into())
        });
        let (value, data) = burnt.unwrap_or_else(|| (U256::ZERO, input.clone()));
        // A refusal concerns the third party alone.
        drop(self.send_data(&secp256k1("stranger"), to, value, data));
    }
}
