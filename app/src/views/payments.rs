//! Payments as the routes see them: the read model, and the journal behind it for what the read model does not have (yet).

use std::time::Duration;

use async_trait::async_trait;

use events::PaymentId;
use journal::{ReadError, Recorded, StreamStore, envelope};
use projections::{PaymentView, Unavailable};

use crate::error::{Code, Error};

/// Payments as they are shown.
#[async_trait]
pub trait Payments: Send + Sync {
    /// The view of a payment, as new as any answer that was given before. `None` does not prove that there is no such
    /// payment: the journal does.
    ///
    /// # Errors
    /// [`Unavailable`] when the journal has to be asked.
    async fn view(&self, payment_id: &PaymentId) -> Result<Option<PaymentView>, Unavailable>;

    /// The view of a payment with at least `seen` commits, where there are so many, everything that this process was told or
    /// told anybody, and everything that any gateway told more than a bounded time ago: the read of who polls, for which
    /// nobody else need be asked. `None` as that of [`Payments::view`].
    ///
    /// # Errors
    /// As [`Payments::view`].
    async fn recent(&self, payment_id: &PaymentId, seen: u64) -> Result<Option<PaymentView>, Unavailable> {
        let view = self.view(payment_id).await?;
        Ok(view.filter(|view| view.version >= seen || view.at_rest))
    }

    /// Waits until the payment's view is beyond `seen_version`, at most for `wait_max`, and returns it.
    async fn changed(&self, payment_id: &PaymentId, seen_version: u64, wait_max: Duration) -> Option<PaymentView>;
}

/// The view of a payment as the journal has it; `None` proves that there is no such payment.
pub async fn from_journal(journal: &dyn StreamStore, payment_id: &PaymentId) -> Result<Option<PaymentView>, ReadError> {
    let commits = journal.load(&payment_id.into()).await?;
    let Some(first) = commits.first() else { return Ok(None) };
    PaymentView::fold(&commits).map(Some).ok_or_else(|| unreadable(first))
}

/// The fault of a stream whose first commit does not begin what its id names.
pub(crate) fn unreadable(first: &Recorded) -> ReadError {
    ReadError::Unreadable {
        shard: first.position.shard,
        sequence: first.position.sequence,
        subject: Some(envelope::subject(first.position.shard, &first.stream_id)),
        reason: "the stream's first commit does not begin it".to_owned(),
    }
}

/// The answer when the journal cannot be read and nothing was appended.
pub fn read_failed(error: &ReadError) -> Error {
    match error {
        ReadError::Unavailable(_) => {
            tracing::warn!(%error, "journal read failed");
            Code::SERVICE_UNAVAILABLE.into()
        }
        ReadError::Unreadable { .. } => {
            tracing::error!(%error, "journal read failed");
            let message = "What is stored about it cannot be read by this gateway; its operators have to look into it.";
            Error::new(Code::INTERNAL_ERROR, message)
        }
    }
}
