//! A write as a handler gets it: admitted, received and paid for.

use std::sync::Arc;

use axum::{
    extract::{FromRequest, MatchedPath, Request},
    http::HeaderMap,
};

use app::admission::writes::Permit;
use net::callers::{self, Caller, Kind, Refusal, price};

use super::{
    body::{self, RawBody, Unread},
    error::ApiError,
    state::HttpState,
};

/// The writes that anybody may send, because nothing hangs on a signature in them, with what each costs before its body is
/// there, in units of the budget for what nobody signed. They take nothing of the budget for writes.
const UNSIGNED: &[(&str, u32)] = &[
    ("/v1/payments/quote-requests", price::WRITE),
    ("/v1/payments/verify", price::VERIFY),
    ("/v1/payments/prepare", price::PREPARE),
    ("/x402/v1/verify", price::X402_VERIFY),
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
                return Err(refused.map_or_else(ApiError::from, |_| state.writes.refuse().into()));
            }
        };
        let headers = request.headers().clone();
        let (body, room) = RawBody::receive(request, &caller, state).await?;
        caller.spend(budget(unsigned), price::length(body.len()))?;
        let permit = state.writes.permit(unsigned.is_some(), room, of_caller).await?;
        Ok(Self { caller, headers, body, permit })
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
