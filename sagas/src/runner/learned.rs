//! Observations of one drive: facts that are not journaled and are learned again.

use events::{Hash32, event::Inclusion, time::Timestamp};

use crate::ports::{DeliveryState, OpenWindow};

/// Observations of one drive of a payment. None of it is on record: another process learns it again.
#[derive(Default)]
pub(super) struct Learned {
    /// The collection window that is open, in which quotes are gathered from time to time.
    pub window: Option<OpenWindow>,
    /// The quote whose settler is known to stand by it. Its answer is final, and asked for once.
    pub agreed: Option<Hash32>,
    /// The delivery that has its depth here and that the verifier says it does not see, with since when it says so.
    pub unconfirmed: Option<(Inclusion, Timestamp)>,
    /// Where the delivery that completed the payment was found when it was not where it had been, to be said once.
    pub moved: Option<DeliveryState>,
}

impl Learned {
    /// Since when the verifier has said that it does not see this delivery; from `now` on when it says so first.
    pub fn unconfirmed_since(&mut self, inclusion: &Inclusion, now: Timestamp) -> Timestamp {
        match &self.unconfirmed {
            Some((unconfirmed, since)) if unconfirmed == inclusion => *since,
            _ => {
                self.unconfirmed = Some((inclusion.clone(), now));
                now
            }
        }
    }
}
