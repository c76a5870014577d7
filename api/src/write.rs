//! A write as a handler gets it: admitted, received and paid for.

use std::sync::Arc;

use axum::{
    extract::{FromRequest, MatchedPath, Request},
    http::HeaderMap,
};
use tokio::time::Instant;

use app::admission::write_permits::Permit;
use net::callers::{self, Caller, Kind, Refusal, price};

use super::{
    body::{self, RawBody, Unread},
    error::ApiError,
    long_poll::Arrival,
    state::HttpState,
};

/// The writes that anybody may send, because nothing hangs on a signature in them, with what each costs before its body is
/// there, in units of the budget for what nobody signed. They take nothing of the budget for writes.
const UNSIGNED: &[(&str, u32)] = &[
    ("/v1/payments/quote-requests", price::WRITE),
    ("/v1/payments/quote-requests/{quoteRequestId}/address", price::PREPARE),
    ("/v1/payments/verify", price::VERIFY),
    ("/v1/payments/prepare", price::PREPARE),
    ("/v1/payments/batches/prepare", price::PREPARE_BATCH),
    ("/v1/payments/mandates/prepare", price::PREPARE),
    ("/v1/sessions/challenges", price::WRITE),
    ("/v1/sessions", price::VERIFY),
    ("/v1/webhooks", price::VERIFY),
    ("/v1/webhooks/{webhookId}/redeliver", price::WRITE),
    ("/x402/v1/verify", price::X402_VERIFY),
    ("/x402/v1/offers", price::PREPARE),
];

/// What a write to the route costs that anybody may send; `None` for those that somebody has to sign.
fn unsigned_price(path: &str) -> Option<u32> {
    UNSIGNED.iter().find(|(unsigned, _)| *unsigned == path).map(|(_, units)| *units)
}

/// A write that may be worked on.
#[derive(Debug)]
pub(super) struct Write {
    /// Who sent it.
    pub(super) caller: Caller,
    /// When it came.
    pub(super) arrival: Arrival,
    /// The request's headers.
    pub(super) headers: HeaderMap,
    /// Its body, as it came.
    pub(super) body: RawBody,
    /// Its permit to be at work.
    pub(super) permit: Permit,
}

impl FromRequest<Arc<HttpState>> for Write {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<HttpState>) -> Result<Self, ApiError> {
        let caller = request.extensions().get::<Caller>().cloned();
        let caller = caller.unwrap_or_else(|| state.callers.identify(None, request.headers()));
        let unsigned = request.extensions().get::<MatchedPath>().and_then(|path| unsigned_price(path.as_str()));
        let of_caller = match admit(&caller, unsigned) {
            Ok(of_caller) if !state.writes.is_full(unsigned.is_some()) => of_caller,
            refused => {
                let unread = Unread::of(&request);
                body::drain(request.into_body().into_data_stream(), &unread).await;
                return Err(refused.map_or_else(ApiError::from, |_| state.writes.turn_away(unsigned.is_some()).into()));
            }
        };
        let arrival = request.extensions().get::<Arrival>().copied().unwrap_or_else(|| Arrival(Instant::now()));
        let headers = request.headers().clone();
        let (body, memory) = RawBody::receive(request, &caller, state).await?;
        caller.spend(budget(unsigned), price::length(body.len()))?;
        let permit = state.writes.permit(unsigned.is_some(), memory, of_caller).await?;
        Ok(Self { caller, arrival, headers, body, permit })
    }
}

/// Takes what a write costs before its body is there, and its permit among those of its caller.
fn admit(caller: &Caller, unsigned: Option<u32>) -> Result<Option<callers::Permit>, Refusal> {
    caller.spend(budget(unsigned), unsigned.unwrap_or(price::WRITE))?;
    caller.work()
}

/// What a write is paid from.
fn budget(unsigned: Option<u32>) -> Kind {
    if unsigned.is_some() { Kind::Unsigned } else { Kind::Writes }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;
    use crate::routes::ROUTES;

    /// A path that no write has would leave one without its price, and let it take what signed writes have.
    #[test]
    fn what_anybody_may_send_are_writes_of_the_table_of_routes() {
        for (path, units) in UNSIGNED {
            assert!(ROUTES.iter().any(|route| route.method == Method::POST && route.path == *path), "{path}");
            assert!(*units > 0, "{path}");
        }
        let signed = |path| (unsigned_price(path), ROUTES.iter().any(|route| route.path == path));
        for path in [
            "/v1/payments",
            "/v1/payments/batches",
            "/v1/payments/quote-requests/{quoteRequestId}/award",
            "/x402/v1/settle",
        ] {
            assert_eq!(signed(path), (None, true), "{path}");
        }
        let writes = ROUTES.iter().filter(|route| route.method == Method::POST).count();
        assert_eq!(writes, UNSIGNED.len() + 4, "a write is signed, or has a price here");
    }
}
