//! Wake hints: words from outside that a payment should look at the world now. They cost a look and decide nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, broadcast};

use events::PaymentId;

/// Hints that may wait for a worker; one that is further behind misses some.
const HINTS_MAX: usize = 256;

type Waiting = HashMap<PaymentId, Arc<Notify>>;

/// Where hints go: to the task at work on a payment, or to the workers, for those that wait without one.
#[derive(Clone)]
pub(super) struct WakeHints {
    waiting: Arc<Mutex<Waiting>>,
    workers: broadcast::Sender<PaymentId>,
}

impl Default for WakeHints {
    fn default() -> Self {
        Self { waiting: Arc::default(), workers: broadcast::Sender::new(HINTS_MAX) }
    }
}

/// Where a payment receives its hints, until it is dropped.
pub(super) struct HintReceiver {
    payment_id: PaymentId,
    notify: Arc<Notify>,
    hints: WakeHints,
}

impl WakeHints {
    pub(super) fn receive(&self, payment_id: &PaymentId) -> HintReceiver {
        let notify = Arc::new(Notify::new());
        self.waiting().insert(payment_id.clone(), notify.clone());
        HintReceiver { payment_id: payment_id.clone(), notify, hints: self.clone() }
    }

    pub(super) fn give(&self, payment_id: &PaymentId) {
        match self.waiting().get(payment_id) {
            Some(notify) => notify.notify_waiters(),
            // Nobody listens when there is no worker.
            None => drop(self.workers.send(payment_id.clone())),
        }
    }

    /// The hints for all payments that no task is at work on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<PaymentId> {
        self.workers.subscribe()
    }

    // A panic while the map is held leaves it whole: each use is a single insertion, look-up or removal.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HintReceiver {
    /// The payment.
    pub(super) fn payment_id(&self) -> &PaymentId {
        &self.payment_id
    }

    /// Returns at the next hint. Hints that come while nobody waits are lost: whoever does not wait looks anyway.
    pub(super) async fn received(&self) {
        self.notify.notified().await;
    }
}

impl Drop for HintReceiver {
    fn drop(&mut self) {
        let mut waiting = self.hints.waiting();
        // Another task may have taken the payment's place in the meantime.
        if waiting.get(&self.payment_id).is_some_and(|notify| Arc::ptr_eq(notify, &self.notify)) {
            waiting.remove(&self.payment_id);
        }
    }
}
