//! Wake hints: words from outside that a payment should look at the world now. They cost a look and decide nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use events::PaymentId;

type Waiting = HashMap<PaymentId, Arc<Notify>>;

/// The payments that take hints.
#[derive(Clone, Default)]
pub(super) struct WakeHints(Arc<Mutex<Waiting>>);

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
        if let Some(notify) = self.waiting().get(payment_id) {
            notify.notify_waiters();
        }
    }

    // A panic while the map is held leaves it whole: each use is a single insertion, look-up or removal.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HintReceiver {
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
