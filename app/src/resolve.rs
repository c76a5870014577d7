//! Resolving a payment or a batch: finding it by its id, or a payment by who asked for it under which request id.

use std::time::Duration;

use events::{Account, Did, PaymentId, QuoteRequestId};
use journal::ReadError;
use net::callers::Caller;
use projections::{PaymentView, QuoteRequestView};

use crate::{
    App,
    error::{Code, Error},
    families,
    views::{
        payments::{from_journal, read_failed},
        quote_requests::{self, AuctionStatistics},
    },
};

/// The payment's view, however lately it was accepted and by whichever gateway.
///
/// # Errors
/// 404 when there is no such payment, 503 when that cannot be said, 500 when what is stored of it cannot be read.
pub async fn find(state: &App, payment_id: &PaymentId) -> Result<PaymentView, Error> {
    match state.services.payments.view(payment_id).await {
        Ok(Some(view)) => Ok(view),
        Ok(None) | Err(_) => find_in_journal(state, payment_id, 0).await,
    }
}

/// The payment as the journal has it; while that is away as the read model has it, if it has `seen` commits of it.
async fn find_in_journal(state: &App, payment_id: &PaymentId, seen: u64) -> Result<PaymentView, Error> {
    let services = &state.services;
    let view = match from_journal(services.journal.as_ref(), payment_id).await {
        // A view that may be behind says more than none; what is not in it may well exist.
        Err(error @ ReadError::Unavailable(_)) => {
            let behind = services.payments.changed(payment_id, seen.saturating_sub(1), Duration::ZERO).await;
            return behind.ok_or_else(|| read_failed(&error));
        }
        read => read.map_err(|error| read_failed(&error).about(payment_id))?,
    };
    view.ok_or_else(|| Code::PAYMENT_NOT_FOUND.into())
}

/// The payment's view for who polls, however lately it was accepted and by whichever gateway, with at least `seen` commits
/// where there are so many, and with what an auction that is open has come to so far: who was asked, and who declined. What
/// another gateway did in the last moment may be missing (ADR 124).
///
/// # Errors
/// As [`find`].
pub async fn find_recent(
    state: &App,
    caller: &Caller,
    payment_id: &PaymentId,
    seen: u64,
) -> Result<PaymentView, Error> {
    let view = match state.services.payments.recent(payment_id, seen).await {
        Ok(Some(view)) => view,
        Ok(None) | Err(_) => find_in_journal(state, payment_id, seen).await?,
    };
    let (reads, auctions) = (state.services.reads.as_ref(), state.services.auctions.as_ref());
    Ok(state.auction_progress.complete(reads, auctions, caller, view).await)
}

/// The batch's view, however lately it was opened and by whichever gateway, with who was asked for quotes and who declined.
///
/// # Errors
/// 404 when there is no such batch, 503 when that cannot be said, 500 when what is stored of it cannot be read.
pub async fn find_batch(
    state: &App,
    caller: &Caller,
    id: &QuoteRequestId,
) -> Result<(QuoteRequestView, AuctionStatistics), Error> {
    let services = &state.services;
    let view = match services.quote_requests.view(id).await {
        Ok(Some(view)) => Some(view),
        Ok(None) | Err(_) => {
            let read = quote_requests::from_journal(services.journal.as_ref(), id).await;
            read.map_err(|error| read_failed(&error))?
        }
    };
    let view = view.ok_or(Code::QUOTE_REQUEST_NOT_FOUND)?;
    let (journal, auctions) = (services.journal.as_ref(), services.auctions.as_ref());
    let statistics = state.auction_progress.of_batch(journal, auctions, caller, &view).await;
    Ok((view, statistics))
}

/// The originator that an account is by itself. Its family shows in its form.
///
/// # Errors
/// 400 `INVALID_REQUEST`.
pub fn of_account(text: &str) -> Result<String, Error> {
    text.parse::<Account>().map(|account| account.originator()).map_err(|_| {
        invalid("account: must be an EVM address, a Tron address or a Solana account, with a right checksum")
    })
}

/// The originator as it is stored: a DID and an account behind its namespace normalised.
///
/// # Errors
/// 400 `INVALID_REQUEST`.
pub fn of_originator(text: &str) -> Result<String, Error> {
    if let Ok(did) = text.parse::<Did>() {
        return Ok(did.to_string());
    }
    families::account_of(text).map(|account| account.originator()).ok_or_else(|| {
        invalid("originator: must be a DID, or eip155:, solana: or tron: followed by an account of that family")
    })
}

fn invalid(message: &str) -> Error {
    Error::new(Code::INVALID_REQUEST, message)
}
