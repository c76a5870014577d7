//! Reports of settlers: hints that there is something to see, true or not, which find their way to a gateway or do not.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use events::PaymentId;
use tokio::{sync::Notify, time::sleep};

use crate::{census, gateway::Gateway, world::World};

/// Reports on their way.
#[derive(Default)]
pub struct Reports {
    queue: Mutex<VecDeque<PaymentId>>,
    filled: Notify,
}

impl Reports {
    /// A settler claims to have delivered.
    pub fn claim(&self, payment_id: &PaymentId) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(payment_id.clone());
        self.filled.notify_one();
    }

    async fn next(&self) -> PaymentId {
        loop {
            let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(payment_id) => return payment_id,
                None => self.filled.notified().await,
            }
        }
    }
}

/// Brings reports to the gateways for as long as it runs. Nobody knows which of them drives the payment, so all get them.
pub async fn bring(world: Arc<World>, gateways: Arc<Vec<Gateway>>) {
    let dice = world.dice("reports");
    loop {
        let payment_id = world.reports.next().await;
        let mut times = 1;
        if world.draws(&dice, world.plan.faults.reports) {
            let lost = dice.chance(500);
            census::fault(if lost { "report is lost" } else { "report comes twice" });
            times = if lost { 0 } else { 2 };
        }
        for _ in 0..times {
            sleep(Duration::from_millis(dice.number(1..=3_000))).await;
            world.note(format!("report of {payment_id}"));
            gateways.iter().for_each(|gateway| gateway.nudge(&payment_id));
        }
    }
}
