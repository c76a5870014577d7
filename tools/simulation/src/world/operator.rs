//! Poisoned streams, which are unreadable for a time, and the operator who replays them once they are parked.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use events::StreamId;
use journal::parking::{Parking, Replayed};

use super::{World, invariants::require};
use crate::{coverage, plan::Poison};

/// Makes the stream unreadable as planned. Its shard changes hands then, so that the new owner has to read it.
pub async fn poison(world: Arc<World>, stream_id: StreamId, plan: Poison) {
    sleep(plan.after).await;
    if world.faults_ended() {
        return;
    }
    world.note(format!("fault: {stream_id} is unreadable for {} s", plan.lasts.as_secs()));
    world.poison(&stream_id, plan.lasts);
    world.shards.usurp(world.shard_of(&stream_id));
}

/// Replays parked streams, for as long as it runs.
pub async fn look(world: Arc<World>) {
    let random = world.random("operator");
    loop {
        sleep(Duration::from_millis(random.number(5_000..=40_000))).await;
        for record in world.parking.parked().await.unwrap_or_default() {
            coverage::fault("stream is parked");
            let stream_id = record.stream_id;
            let held = require(world.was_poisoned(&stream_id), "only what is poisoned is parked", || {
                format!("{stream_id}: {:?}", record.entry)
            });
            world.judge(held);
            world.note(format!("{stream_id} is parked, and replayed"));
            // If another replay was first, it had the same effect.
            drop(world.parking.replay(&stream_id, &Replayed::new("operator", world.now())).await);
        }
    }
}
