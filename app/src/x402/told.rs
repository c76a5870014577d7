//! Which merchants were told that a stock client has paid. Stock servers give what was bought for every success of a settle, so of each
//! payment there is one, at whichever gateway: a client that sends its signature twice, or to two of a merchant's pages, has bought once.
//!
//! The record is kept where payment identifiers are, since it is of their kind: the first message under a key, for ever.

use events::{CommitId, Hash32, PaymentId};
use projections::PaymentView;

use crate::{
    App,
    error::{Code, Error},
    payment_identifiers::{Binding, IdentifiersError},
};

/// Whether the call that asks is the one that tells a merchant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// It is.
    First,
    /// The merchant was told before.
    Again,
    /// It cannot be said. The identical call may be sent again; where the record was made all the same, that is told [`Telling::Again`],
    /// and the payment's status has to be read.
    Unknown,
}

/// Makes the record that this call tells the merchant.
pub async fn tell_once(state: &App, view: &PaymentView) -> Telling {
    let call = Hash32::sha256(CommitId::random().to_string());
    let told = Binding { payload: call, payment_id: view.payment_id.clone(), terms_hash: view.terms_hash };
    match state.services.identifiers.bind(&key(&view.payment_id), &told).await {
        Ok(bound) if bound.payload == call => Telling::First,
        Ok(_) => Telling::Again,
        Err(error) => {
            warn(&view.payment_id, &error);
            Telling::Unknown
        }
    }
}

/// Whether a merchant was told.
///
/// # Errors
/// 503 where that cannot be said.
pub(super) async fn was_told(state: &App, payment_id: &PaymentId) -> Result<bool, Error> {
    let bound = state.services.identifiers.bound(&key(payment_id)).await.map_err(|error| {
        warn(payment_id, &error);
        Error::from(Code::SERVICE_UNAVAILABLE).about(payment_id)
    })?;
    Ok(bound.is_some())
}

/// No payment identifier: those have no colon.
fn key(payment_id: &PaymentId) -> String {
    format!("told:{payment_id}")
}

fn warn(payment_id: &PaymentId, error: &IdentifiersError) {
    tracing::warn!(%payment_id, %error, "it cannot be said whether a merchant was told of a payment");
}
