//! Clocks that are wrong: each process of the gateway and each settler has its own. Verifiers have none: they go by blocks.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use tokio::time::sleep;

use events::time::Timestamp;

use super::World;
use crate::{coverage, plan::ClockPlan};

impl World {
    /// What the clock of the gateway in this slot says.
    pub fn gateway_time(&self, slot: usize) -> Timestamp {
        let skew = TimeDelta::milliseconds(self.plan.gateways.get(slot).map_or(0, |gateway| gateway.skew_ms));
        self.now() + skew + self.plan.gateway_clocks.get(slot).map_or(TimeDelta::zero(), |clock| self.ahead(clock))
    }

    /// By how much a clock is ahead. Once all faults are over it is right again.
    pub fn ahead(&self, clock: &ClockPlan) -> TimeDelta {
        match self.faults_ended() {
            true => TimeDelta::zero(),
            false => TimeDelta::milliseconds(clock.ahead_ms(self.elapsed())),
        }
    }
}

/// Tells of every step of a clock as it happens.
pub async fn tell(world: Arc<World>) {
    let gateways = world.plan.gateway_clocks.iter().enumerate().map(|(slot, clock)| (format!("gateway {slot}"), clock));
    let settlers = world.plan.settler_clocks.iter().enumerate().map(|(at, clock)| (format!("settler {at}"), clock));
    let mut steps: Vec<(Duration, String, i64)> = Vec::new();
    for (whose, clock) in gateways.chain(settlers) {
        if clock.drift_ppm != 0 {
            coverage::fault("clock drifts");
            world.note(format!("fault: the clock of {whose} gains {} millionths", clock.drift_ppm));
        }
        steps.extend(clock.steps.iter().map(|step| (step.after, whose.clone(), step.by_ms)));
    }
    steps.sort();
    for (after, whose, by_ms) in steps {
        sleep(after.saturating_sub(world.elapsed())).await;
        if world.faults_ended() {
            return;
        }
        coverage::fault(match (whose.starts_with("gateway"), by_ms > 0) {
            (true, true) => "clock of a gateway steps forward",
            (true, false) => "clock of a gateway steps back",
            (false, true) => "clock of a settler steps forward",
            (false, false) => "clock of a settler steps back",
        });
        world.note(format!("fault: the clock of {whose} steps by {by_ms} ms"));
    }
}
