//! Delivery reports of settlers: wake hints, true or not, which are delivered, lost or duplicated.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};

use events::PaymentId;

use super::{World, gateway::Gateway};
use crate::coverage;

/// Reports on their way.
#[derive(Default)]
pub struct Reports {
    queue: Mutex<VecDeque<PaymentId>>,
    filled: Notify,
}

impl Reports {
    /// A settler reports that it has delivered.
    pub fn report_delivery(&self, payment_id: &PaymentId) {
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
    let random = world.random("reports");
    loop {
        let payment_id = world.reports.next().await;
        let mut times = 1;
        if world.draws(&random, world.plan.faults.reports) {
            let lost = random.chance(500);
            coverage::fault(if lost { "report is lost" } else { "report comes twice" });
            times = if lost { 0 } else { 2 };
        }
        for _ in 0..times {
            sleep(Duration::from_millis(random.number(1..=3_000))).await;
            world.note(format!("report of {payment_id}"));
            gateways.iter().for_each(|gateway| gateway.hint(&payment_id));
        }
    }
}
