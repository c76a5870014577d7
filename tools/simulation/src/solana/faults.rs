//! The faults of a cluster: forks, forgotten and stuck transactions, leaders who make no block, third parties who copy.

use super::{Dropped, Slots, begin::SolanaWorld};
use crate::{
    coverage,
    family::{FaultSource, Misuse, ed25519},
    random::RandomSource,
};

/// So many times as often as else a cluster is forked while that decides who is paid.
const MOMENT_FACTOR: u32 = 4;
/// What a transaction of one signature costs, at the price of everybody's but the gateway's.
const FEE_LAMPORTS: u64 = 9_000;

impl SolanaWorld {
    pub(super) fn suffer(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool) {
        let faults = world.faults();
        let chain_id = &self.config.common.chain_id;
        if world.draws(random, faults.reorganisation * if is_moment { MOMENT_FACTOR } else { 1 }) {
            self.fork(world, random, is_moment);
        }
        let pending = self.lock().pending();
        if !pending.is_empty() && world.strikes(random, "transaction is forgotten", faults.dropped) {
            let hash = &pending[at(random, pending.len())];
            self.lock().drop_transaction(hash);
            world.note(format!("fault: {hash} is forgotten"));
        }
        if !pending.is_empty() && world.strikes(random, "transaction is stuck", faults.stuck) {
            // For a few slots, or until its blockhash counts no more.
            let most = if random.chance(250) { self.blockhash_age + 4 } else { 12 };
            let hash = &pending[at(random, pending.len())];
            let until = self.lock().head().slot + random.number(2..=most);
            self.lock().delay(hash, until);
            world.note(format!("fault: {hash} is stuck until slot {until}"));
        }
        if world.strikes(random, "leaders make no block", faults.spike) {
            let slots = random.number(1..=8);
            self.lock().skip(slots);
            world.note(format!("fault: {slots} slots of {chain_id} have no block"));
        }
        if !pending.is_empty() && world.strikes(random, "third party copies a transaction", faults.third_party) {
            let hash = &pending[at(random, pending.len())];
            world.note(format!("a stranger copies {hash}"));
            self.copy(hash);
        }
    }

    fn fork(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool) {
        let mut cluster = self.lock();
        let depth_max = cluster.head().height - cluster.finalized().height;
        if depth_max == 0 {
            return;
        }
        let depth = random.number(1..=depth_max);
        if is_moment {
            coverage::fault("reorganisation about a reassignment or the end of a promise");
        }
        let dropped =
            random.pick(&[Dropped::Forgotten, Dropped::Pooled, Dropped::Again, Dropped::Reordered, Dropped::Halved]);
        coverage::fault(match dropped {
            Dropped::Forgotten => "reorganisation, transactions forgotten",
            Dropped::Pooled => "reorganisation, transactions pooled",
            Dropped::Again => "fork, the same transactions in other slots",
            Dropped::Reordered => "reorganisation, transactions reordered",
            Dropped::Halved => "fork, some of the transactions are forgotten",
        });
        let slots = if random.chance(300) { Slots::Same } else { Slots::Later };
        let depth = usize::try_from(depth).unwrap_or(1);
        let outcome = cluster.fork(depth, dropped, slots).map(|forked| forked.signatures.len());
        let chain_id = &self.config.common.chain_id;
        world.note(format!("fault: {chain_id} loses {depth} blocks, {dropped:?}, {slots:?}: {outcome:?}"));
    }

    /// A third party sends what it saw waiting, where nobody but the sender had to sign that.
    fn copy(&self, hash: &str) {
        // A refusal concerns the third party alone.
        drop(self.copy_as("stranger", hash));
    }

    fn copy_as(&self, name: &str, hash: &str) -> Result<(), String> {
        let waiting = super::world::signature(hash);
        let signed = waiting.and_then(|signature| Some(self.lock().pool.get(&signature)?.signed.clone()));
        let order = signed.and_then(|signed| self.copied(&signed, name));
        self.place(&order.ok_or_else(|| "somebody else has to sign it".to_owned())?)
    }

    /// What a thief does with the key of `name`, which pays for transactions: there are no nonces.
    pub(super) fn misused(&self, name: &str, way: Misuse, random: &RandomSource) -> Result<(), String> {
        match way {
            Misuse::Spend | Misuse::Gap | Misuse::Replace => Err("there are no nonces".to_owned()),
            Misuse::Copy => {
                let pending = self.lock().pending();
                match pending.is_empty() {
                    true => Err("nothing waits".to_owned()),
                    false => self.copy_as(name, &pending[at(random, pending.len())]),
                }
            }
            Misuse::Drain => {
                let has = self.lock().lamports(&ed25519(name).verifying_key().to_bytes());
                let taken = has.checked_sub(FEE_LAMPORTS).filter(|taken| *taken > 0);
                let taken = taken.ok_or_else(|| "nothing is left".to_owned())?;
                self.place(&Self::transfer(name, "stranger", taken))
            }
        }
    }
}

/// One of so many places, which are not none.
fn at(random: &RandomSource, count: usize) -> usize {
    let last = u64::try_from(count.saturating_sub(1)).unwrap_or_default();
    usize::try_from(random.number(0..=last)).unwrap_or_default()
}
