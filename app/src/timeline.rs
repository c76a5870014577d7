//! Reading a payment's timeline: everything that happened to it, at once or as it goes on. The journal tells it; the read
//! model only says that there may be news.

use std::time::Duration;

use tokio::time::sleep;

use events::PaymentId;
use journal::ReadError;

use crate::{
    App,
    error::{Code, Error},
    views::{
        payments::{read_failed, unreadable},
        timeline_body::History,
    },
};

/// Longest time between two looks at the journal, should the read model have stopped.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(20);
/// Pause after the journal did not answer.
const JOURNAL_PAUSE: Duration = Duration::from_secs(1);

/// The payment's history.
///
/// # Errors
/// 404 when there is no such payment, 503 when that cannot be said, 500 when what is stored of it cannot be read.
pub async fn read(state: &App, payment_id: &PaymentId) -> Result<History, Error> {
    let history = load(state, payment_id).await.map_err(|error| read_failed(&error))?;
    history.ok_or_else(|| Code::PAYMENT_NOT_FOUND.into())
}

/// The history of a payment that is to be followed; `None` where the journal is away and the read model knows the payment, so
/// that it can be waited for.
///
/// # Errors
/// As [`read`].
pub async fn begin(state: &App, payment_id: &PaymentId) -> Result<Option<History>, Error> {
    let error = match load(state, payment_id).await {
        Ok(history) => return history.map(Some).ok_or_else(|| Code::PAYMENT_NOT_FOUND.into()),
        Err(error) => error,
    };
    match state.services.payments.view(payment_id).await {
        Ok(Some(_)) if matches!(error, ReadError::Unavailable(_)) => Ok(None),
        _ => Err(read_failed(&error)),
    }
}

/// What following a payment comes to next.
pub enum News {
    /// Its history as it stands now.
    History(Box<History>),
    /// The journal is away.
    Away,
    /// The gateway is to stop, or what is stored of the payment cannot be read.
    Over,
}

/// Waits until there may be more of a payment than `seen_version`, and reads it; `None` where it was not read before.
pub async fn news(state: &App, payment_id: &PaymentId, seen_version: Option<u64>) -> News {
    let services = &state.services;
    let news = async {
        match seen_version {
            None => sleep(JOURNAL_PAUSE).await,
            Some(version) => {
                services.payments.changed(payment_id, version, LOOK_AGAIN_AFTER).await;
            }
        }
    };
    if services.stopping.run_until_cancelled(news).await.is_none() {
        return News::Over;
    }
    match load(state, payment_id).await {
        Ok(Some(history)) => News::History(Box::new(history)),
        Err(ReadError::Unavailable(reason)) => {
            tracing::debug!(%payment_id, reason, "who follows a payment waits for the journal");
            News::Away
        }
        Ok(None) | Err(ReadError::Unreadable { .. }) => {
            tracing::error!(%payment_id, "a payment that is followed cannot be read");
            News::Over
        }
    }
}

/// The history as the journal has it; `None` proves that there is no such payment.
async fn load(state: &App, payment_id: &PaymentId) -> Result<Option<History>, ReadError> {
    let commits = state.services.journal.load(&payment_id.into()).await?;
    let Some(first) = commits.first() else { return Ok(None) };
    History::of(&commits, &state.http.base_url).map(Some).ok_or_else(|| unreadable(first))
}
