//! A thief with the key of a submitter: it uses up nonces, takes the place of what waits, sends what was published, takes the coins.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::reserver::few;
use crate::{
    coverage,
    family::{EscrowCall, Misuse},
    random::RandomSource,
    world::{ChainHandle, TREASURY, World, invariants::require},
};

/// Between the restarts of two processes of the gateway with another key.
const RESTARTED_EVERY: Duration = Duration::from_secs(7);
/// Between two gifts of the operator.
const GIVEN_EVERY: Duration = Duration::from_secs(45);
const WAYS: [Misuse; 9] = [
    Misuse::Spend,
    Misuse::Spend,
    Misuse::Gap,
    Misuse::Replace,
    Misuse::Replace,
    Misuse::Replace,
    Misuse::Copy,
    Misuse::Copy,
    Misuse::Drain,
];

impl World {
    /// The submitter whose key is stolen.
    fn stolen_submitter(&self) -> Option<&str> {
        let theft = self.plan.theft?;
        self.parties.submitters.get(theft.submitter).map(String::as_str)
    }

    /// When the process in this slot of the gateway is restarted with another key, from the start of the run.
    fn replaced_after(&self, slot: usize) -> Option<Duration> {
        let first = self.plan.theft?.replaced_after?;
        Some(first + RESTARTED_EVERY * u32::try_from(slot).unwrap_or_default())
    }

    /// Whether processes that are started in this slot have the other key.
    pub fn has_successor(&self, slot: usize) -> bool {
        self.replaced_after(slot).is_some_and(|after| self.elapsed() >= after)
    }

    /// Those that a process sends from which is started in this slot of the gateway.
    pub fn submitters_of(&self, slot: usize) -> Vec<String> {
        let (stolen, parties) = (self.stolen_submitter().filter(|_| self.has_successor(slot)), &self.parties);
        let kept = parties.submitters.iter().filter(|name| stolen != Some(name.as_str()));
        kept.chain(parties.successor.iter().filter(|_| stolen.is_some())).cloned().collect()
    }

    /// Those whose transactions it sees to their end.
    pub fn draining_of(&self, slot: usize) -> Vec<String> {
        self.stolen_submitter().filter(|_| self.has_successor(slot)).map(str::to_owned).into_iter().collect()
    }

    /// Whether a transaction was sent with a stolen key of a submitter, and not by the gateway.
    pub fn is_thiefs(&self, transaction: &str) -> bool {
        self.stolen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains(transaction)
    }

    /// Does `act`, and remembers what waits since as the thief's.
    fn as_thief<T>(&self, handle: &ChainHandle, act: impl FnOnce() -> T) -> T {
        let before: BTreeSet<_> = handle.waiting().into_iter().map(|waits| waits.hash).collect();
        let done = act();
        let sent = handle.waiting().into_iter().map(|waits| waits.hash).filter(|hash| !before.contains(hash));
        self.stolen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(sent);
        done
    }
}

/// Returns when the process in this slot of the gateway is to be restarted with another key; never where it is not.
pub async fn replaced(world: &World, slot: usize) {
    match world.replaced_after(slot) {
        Some(after) => sleep(after.saturating_sub(world.elapsed())).await,
        None => std::future::pending().await,
    }
    coverage::fault("key of a submitter is replaced");
}

/// Misuses the key until faults end. Then the operator sends coins to its account, so that its open nonces can be used.
pub async fn misuse(world: Arc<World>) {
    let (Some(theft), Some(name)) = (world.plan.theft, world.stolen_submitter().map(str::to_owned)) else { return };
    let random = world.random("thief of a submitter");
    sleep(theft.after).await;
    while !world.faults_ended() {
        for handle in &world.chains {
            let way = random.pick(&WAYS);
            if world.as_thief(handle, || handle.misuse(&name, way, &random)).is_ok() {
                coverage::fault(match way {
                    Misuse::Spend => "stolen key of a submitter uses up a nonce",
                    Misuse::Gap => "stolen key of a submitter takes a nonce ahead of its turn",
                    Misuse::Replace => "stolen key of a submitter takes the place of a transaction",
                    Misuse::Copy => "stolen key of a submitter sends what was published",
                    Misuse::Drain => "stolen key of a submitter takes its coins",
                });
                world.note(format!("a thief with the key of {name} on {}: {way:?}", handle.chain_id));
            }
        }
        rob(&world, &random, &name).await;
        sleep(Duration::from_millis(random.number(1_000..=15_000))).await;
    }
    for _ in 0..2 {
        for handle in &world.chains {
            if let Err(error) = handle.give_coins(TREASURY, &name) {
                world.note(format!("an operator's transaction is refused: {error}"));
            }
        }
        sleep(GIVEN_EVERY).await;
    }
}

/// Tries to have an escrow returned, by a word of too few: whoever sends a call has no right by that.
async fn rob(world: &World, random: &RandomSource, name: &str) {
    let prey = world.invariants().prey(world);
    let Some(last) = (prey.len() as u64).checked_sub(1) else { return };
    let prey = &prey[usize::try_from(random.number(0..=last)).unwrap_or_default()];
    let Ok(Some(record)) = prey.source.escrow_record(&prey.payment_id) else { return };
    let Some(non_delivery) = few(world, random, prey, record.quote_hash).await else { return };
    let call = EscrowCall::Cancel { non_delivery };
    let answer = prey.source.attempt(name, &prey.payment_id, &call);
    coverage::fault("stolen key of a submitter is tried on an escrow");
    world.judge(require(answer.is_err(), "too few keys move nothing", || {
        format!("{} is cancelled for a submitter by {call:?}", prey.payment_id)
    }));
}
