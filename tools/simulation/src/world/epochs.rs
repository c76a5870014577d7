//! Epochs of the journal, begun and sealed by an operator while payments are open. Each process learns of them at a time of its own.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::sleep;

use events::{Epochs, StreamId, mutant};
use journal::ShardLog;

use super::{World, gateway::Gateway};
use crate::{coverage, plan::EpochPlan, random::RandomSource};

/// The epochs that there were, and since when, from the start of the run.
#[derive(Default)]
pub struct EpochHistory(Mutex<Vec<(Duration, Epochs)>>);

impl EpochHistory {
    fn lock(&self) -> MutexGuard<'_, Vec<(Duration, Epochs)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that there were at `at`; `None` while there is the first alone.
    pub fn as_of(&self, at: Duration) -> Option<Epochs> {
        self.lock().iter().rev().find(|(since, _)| *since <= at).map(|(_, epochs)| epochs.clone())
    }
}

impl World {
    /// The shard in which the stream lies; where it lies in none, the one in which it would begin.
    pub fn shard_of(&self, stream_id: &StreamId) -> u16 {
        let begun = self.memory.shard_of(stream_id);
        begun.unwrap_or_else(|| self.memory.epochs().current().shard_of(stream_id))
    }

    fn change_epochs(&self, change: impl FnOnce()) {
        change();
        self.epochs.lock().push((self.elapsed(), self.memory.epochs()));
    }
}

/// Begins epochs as planned, and seals those before them.
pub async fn operate(world: Arc<World>, gateways: Arc<Vec<Gateway>>) {
    let random = world.random("operator of the journal");
    for (number, plan) in (0..).zip(world.plan.epochs.clone()) {
        sleep(plan.after.saturating_sub(world.elapsed())).await;
        begin(&world, &gateways, &random, &plan).await;
        tokio::spawn(seal(world.clone(), number, plan));
    }
}

async fn begin(world: &World, gateways: &[Gateway], random: &RandomSource, plan: &EpochPlan) {
    if plan.begins_twice && !world.faults_ended() {
        // An epoch exists once all of its shards do, so of this one nobody hears.
        coverage::fault("beginning of an epoch dies half-way");
        world.note("fault: the beginning of an epoch dies half-way".to_owned());
        sleep(Duration::from_millis(random.number(500..=20_000))).await;
    }
    world.change_epochs(|| world.memory.rotate(plan.shards));
    let open = world.invariants().open_streams(world).len();
    if open > 0 {
        coverage::fault("epoch begins while payments are open");
    }
    world.note(format!("an epoch of {} shards begins, with {open} streams open", plan.shards));
    if let Some(gateway) = plan.kills.filter(|_| !world.faults_ended()).and_then(|killed| gateways.get(killed)) {
        coverage::fault("gateway dies at the beginning of an epoch");
        gateway.kill();
    }
}

/// Seals epoch `number` as soon as everything in it is at rest, which the operator's own call makes sure of.
async fn seal(world: Arc<World>, number: u16, plan: EpochPlan) {
    sleep(plan.grace).await;
    let Some(epoch) = world.memory.epochs().all().get(usize::from(number)).copied() else { return };
    let mut is_half_way = false;
    loop {
        let open = world.invariants().open_streams(&world);
        // In a shard that is sealed already nothing can come to rest any more, and nothing is open.
        let is_in_it =
            |stream_id: &StreamId| world.memory.shard_of(stream_id).is_some_and(|shard| epoch.range().contains(&shard));
        if mutant!("sealed-while-open") || !open.iter().any(is_in_it) {
            if is_half_way || !plan.seals_twice || epoch.shards < 2 {
                break;
            }
            coverage::fault("sealing of an epoch dies half-way");
            world.note(format!("fault: the sealing of epoch {number} dies half-way"));
            world.memory.seal_shard(epoch.first);
            is_half_way = true;
        }
        sleep(Duration::from_secs(3)).await;
    }
    if !world.invariants().open_streams(&world).is_empty() {
        coverage::fault("epoch is sealed while others have open payments");
    }
    coverage::fault("epoch is sealed");
    world.change_epochs(|| world.memory.seal(number));
    world.note(format!("epoch {number} is sealed"));
}
