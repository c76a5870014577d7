//! A payment in a list: as its owner is shown it, and what operators are shown besides.

use std::time::Duration;

use serde::Serialize;

use app::own_payments::{body::OwnPaymentBody, parked::Parked};
use events::time::Timestamp;
use projections::PaymentView;

/// A payment.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    payment: OwnPaymentBody,
    /// Where it lies.
    shard: u16,
    /// Whether it is parked; absent while the parking cannot be read.
    parked: Option<bool>,
    /// Commits that are shown.
    version: u64,
}

/// By what rows are made.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    /// The time by which something is overdue.
    pub(super) now: Timestamp,
    /// What a chain may take until a deadline that has passed can be acted on with proof.
    pub(super) grace: Duration,
    /// What is parked, where that is known.
    pub(super) parked: Option<&'a Parked>,
}

impl Row {
    pub(super) fn new(view: &PaymentView, shard: u16, moment: Moment<'_>) -> Self {
        Self {
            payment: OwnPaymentBody::at(view, shard, moment.now, moment.grace),
            shard,
            parked: moment.parked.map(|parked| parked.payments.contains(&view.payment_id)),
            version: view.version,
        }
    }
}
