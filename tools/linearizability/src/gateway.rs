//! What a gateway promises its clients, as sequential objects: a `request_id` names one payment, a batch has one winner, and
//! what was once shown of a payment holds.

mod awards;
mod idempotency;
mod statuses;

pub use awards::Awards;
pub use idempotency::Idempotency;
use serde::{Deserialize, Serialize};
pub use statuses::Statuses;

/// A call of the HTTP API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// A payment is submitted.
    Submit {
        /// Its id, which the payer and the `request_id` make.
        payment: String,
        /// What is asked for: texts that differ are other terms.
        terms: String,
        /// Whose positions go with the calls: see [`Statuses`].
        session: String,
    },
    /// A quote of a batch is awarded to a payment.
    Award {
        /// The payment's id.
        payment: String,
        /// The batch.
        batch: String,
        /// The quote's id.
        quote: String,
        /// As in a submission.
        session: String,
    },
    /// A payment's status is read, with the position of the session's last answer where it had one.
    Read {
        /// The payment's id.
        payment: String,
        /// As in a submission.
        session: String,
    },
}

/// What a gateway said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The payment is accepted.
    Accepted {
        /// Its id.
        payment: String,
        /// Whether it was so before this call (`idempotent_replay`).
        replay: bool,
        /// What is shown of it.
        status: Status,
    },
    /// This call accepted nothing.
    Refused {
        /// The error's code.
        code: String,
        /// What the answer says about a payment under the same id (`request_id_reusable`), where it says so.
        exists: Option<bool>,
    },
    /// The payment's status.
    Shown(Status),
    /// There is no such payment.
    Absent,
}

/// A payment's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not delivered yet.
    Pending,
    /// Delivered, and not settled yet.
    Finalizing,
    /// Delivered for good.
    Completed,
    /// Ended without a delivery.
    Failed,
}

impl Status {
    /// How far it is along; nothing comes after 2.
    fn rank(self) -> u8 {
        match self {
            Self::Pending => 0,
            Self::Finalizing => 1,
            Self::Completed | Self::Failed => 2,
        }
    }
}
