//! The faults of a Tron chain: forks of what is not solidified, missed slots, late solidification, forgotten and expired
//! transactions, energy that becomes dearer, third parties who copy, payers who send what they signed.

use std::sync::PoisonError;

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::SolCall,
};

use escrow_abi::contracts::FulfillmentProxy;
use trondev::Call;

use super::family::{ENERGY_PRICE_SUN, TronWorld};
use crate::{
    chain::Dropped,
    coverage,
    family::{FaultSource, Misuse, secp256k1},
    random::RandomSource,
};

/// So many times as often as else a chain forks while that decides who is paid.
const MOMENT_FACTOR: u32 = 4;
/// Blocks within which a transaction expires that was valid for a minute.
const EXPIRES_WITHIN: u64 = 24;

/// What lasts for some blocks.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// Blocks that energy stays dear.
    dear: u64,
    /// Blocks that solidification stays late.
    late: u64,
    /// Slots to be missed.
    pub missed: u64,
    /// Who has lost its TRX, how much that was in sun, and for how many blocks.
    poor: Option<(Address, u64, u64)>,
}

impl TronWorld {
    pub(super) fn suffer(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool) {
        self.forks(world, random, is_moment);
        self.loses(world, random);
        let is_busy = !self.lock().pending().is_empty();
        self.changes_pace(world, random, is_busy);
        let rate = world.faults().third_party;
        if is_busy && world.strikes(random, "third party copies a transaction", rate) {
            self.copy_one(world, random);
        }
        if world.draws(random, rate) {
            self.send_signed(world, random);
        }
    }

    fn forks(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool) {
        let rate = world.faults().reorganisation * if is_moment { MOMENT_FACTOR } else { 1 };
        if !world.draws(random, rate) {
            return;
        }
        let mut chain = self.lock();
        let depth_max = chain.head().number - chain.solidified().number;
        if depth_max == 0 {
            return;
        }
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
        let chain_id = &self.config.common.chain_id;
        world.note(format!("fault: {chain_id} loses {depth} blocks, {dropped:?}: {outcome:?}"));
    }

    fn loses(&self, world: &dyn FaultSource, random: &RandomSource) {
        let pending: Vec<_> = self.lock().pending().iter().map(|one| B256::from(one.id.0)).collect();
        if pending.is_empty() {
            return;
        }
        if world.strikes(random, "transaction is forgotten", world.faults().dropped) {
            let id = random.pick(&pending);
            self.lock().forget(id);
            world.note(format!("fault: {id} is forgotten"));
        }
        if world.draws(random, world.faults().stuck) {
            let (id, blocks) = (random.pick(&pending), random.number(2..=EXPIRES_WITHIN + 12));
            coverage::fault(match blocks > EXPIRES_WITHIN {
                true => "transaction is stuck until it has expired",
                false => "transaction is stuck",
            });
            let mut chain = self.lock();
            let until = chain.head().number + blocks;
            chain.delay(id, until);
            world.note(format!("fault: {id} is stuck until {until}"));
        }
    }

    /// Prices, slots and solidification.
    fn changes_pace(&self, world: &dyn FaultSource, random: &RandomSource, is_busy: bool) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let chain_id = &self.config.common.chain_id;
        let rate = world.faults().spike;
        if troubles.dear > 0 {
            troubles.dear -= 1;
            if troubles.dear == 0 || world.faults_ended() {
                troubles.dear = 0;
                self.lock().set_energy_price(ENERGY_PRICE_SUN);
            }
        } else if world.strikes(random, "energy becomes dearer", rate * if is_busy { 5 } else { 1 }) {
            // It does most where something waits.
            troubles.dear = random.number(2..=12);
            let price = ENERGY_PRICE_SUN * random.number(2..=8);
            self.lock().set_energy_price(price);
            world.note(format!("fault: energy of {chain_id} costs {price} sun"));
        }
        if troubles.late > 0 {
            troubles.late -= 1;
            if troubles.late == 0 || world.faults_ended() {
                troubles.late = 0;
                self.lock().set_solidified_lag(self.depth);
            }
        } else if world.strikes(random, "blocks are solidified late", rate) {
            troubles.late = random.number(2..=8);
            let lag = self.depth + troubles.late;
            self.lock().set_solidified_lag(lag);
            world.note(format!("fault: {chain_id} solidifies {lag} blocks behind"));
        }
        self.impoverishes(world, random, &mut troubles);
        if world.strikes(random, "slots are missed", rate) {
            troubles.missed = random.number(1..=4);
            world.note(format!("fault: {chain_id} misses {} slots", troubles.missed));
        }
    }

    /// Somebody has no TRX for a time, and so neither energy nor bandwidth.
    fn impoverishes(&self, world: &dyn FaultSource, random: &RandomSource, troubles: &mut Troubles) {
        if let Some((account, sun, blocks)) = troubles.poor.take() {
            if blocks > 0 && !world.faults_ended() {
                troubles.poor = Some((account, sun, blocks - 1));
            } else {
                self.lock().fund(account, sun);
            }
            return;
        }
        if self.rich.is_empty() || !world.strikes(random, "an account runs out of TRX", world.faults().spike) {
            return;
        }
        let name = &self.rich[usize::try_from(random.number(0..=self.rich.len() as u64 - 1)).unwrap_or_default()];
        let account = secp256k1(name).address();
        let sun = self.lock().drain(account);
        troubles.poor = Some((account, sun, random.number(2..=15)));
        world.note(format!("fault: {name} has no TRX on {}", self.config.common.chain_id));
    }

    /// Front-running: a third party sends a call that it saw waiting; a delivery it copies with an amount of one unit, to spend the
    /// key that it takes for the delivery's.
    fn copy_one(&self, world: &dyn FaultSource, random: &RandomSource) {
        let pending = self.lock().pending();
        let calls: Vec<_> = pending.iter().filter(|one| matches!(one.call, Call::Trigger { .. })).collect();
        if calls.is_empty() {
            return;
        }
        let one = random.pick(&calls);
        let Call::Trigger { contract, data, .. } = &one.call else { return };
        world.note(format!("a stranger copies {}", one.id));
        let burnt = FulfillmentProxy::fulfillCall::abi_decode(data).ok().map(|call| {
            let sun = if call.token.is_zero() { 1 } else { 0 };
            (sun, FulfillmentProxy::fulfillCall { amount: U256::from(1), ..call }.abi_encode())
        });
        let (sun, data) = burnt.unwrap_or_else(|| (0, data.clone()));
        // A refusal concerns the third party alone.
        drop(self.send_data(&secp256k1("stranger"), contract.evm(), sun, data));
    }

    /// What a thief does with the key of `name`, which pays for transactions: there are no nonces.
    pub(super) fn misused(&self, name: &str, way: Misuse, random: &RandomSource) -> Result<(), String> {
        let signer = secp256k1(name);
        match way {
            Misuse::Spend | Misuse::Gap | Misuse::Replace => Err("there are no nonces".to_owned()),
            Misuse::Copy => {
                let pending = self.lock().pending();
                let calls = pending.iter().filter_map(|one| match &one.call {
                    Call::Trigger { contract, data, .. } if contract.evm() == self.contracts.escrow => Some(data),
                    _ => None,
                });
                let calls: Vec<_> = calls.collect();
                match calls.is_empty() {
                    true => Err("nothing waits".to_owned()),
                    false => self.send_data(&signer, self.contracts.escrow, 0, random.pick(&calls).clone()),
                }
            }
            Misuse::Drain => {
                let mut chain = self.lock();
                let sun = chain.drain(signer.address());
                chain.fund(secp256k1("stranger").address(), sun);
                if sun > 0 { Ok(()) } else { Err("nothing is left".to_owned()) }
            }
        }
    }

    /// A payer, or whoever has seen what it signed, sends it.
    fn send_signed(&self, world: &dyn FaultSource, random: &RandomSource) {
        let signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if signed.is_empty() {
            return;
        }
        let one = &signed[usize::try_from(random.number(0..=signed.len() as u64 - 1)).unwrap_or_default()];
        coverage::fault("payer sends what it signed itself");
        // At times the deposit alone, which then fails at the payer's cost where the approval is missing.
        let first = if random.chance(250) { one.len() - 1 } else { 0 };
        let mut chain = self.lock();
        let told: Vec<_> =
            one[first..].iter().map(|bytes| chain.hand_over(bytes).map_err(|error| error.to_string())).collect();
        world.note(format!("a payer sends what it signed: {told:?}"));
    }
}
