//! The header `X-Position`: how much of a payment an answer was made from. A client that sends it back is shown no less, at
//! whichever gateway it asks (ADR 124).

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use app::error::Code;
use projections::PaymentView;

use crate::error::ApiError;

/// The header.
pub(super) const POSITION: HeaderName = HeaderName::from_static("x-position");
/// Most digits that a position may have.
pub(super) const POSITION_DIGITS_MAX: usize = 15;

/// The header with its value.
pub(super) type Position = [(HeaderName, HeaderValue); 1];

/// The header of an answer that was made from `view`.
pub(super) fn of(view: &PaymentView) -> Position {
    [(POSITION, view.version.into())]
}

/// What the caller says that it has seen; 0 where it says nothing.
///
/// # Errors
/// 400 with the rule.
pub(super) fn seen(headers: &HeaderMap) -> Result<u64, ApiError> {
    let mut values = headers.get_all(POSITION).iter();
    let (first, second) = (values.next(), values.next());
    let Some(value) = first else { return Ok(0) };
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|c| c.is_ascii_digit()));
    let digits = digits.filter(|text| text.len() <= POSITION_DIGITS_MAX && second.is_none());
    digits.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let rule = format!("X-Position: must be what an answer had, up to {POSITION_DIGITS_MAX} digits, once");
        ApiError::new(Code::INVALID_REQUEST, rule)
    })
}
