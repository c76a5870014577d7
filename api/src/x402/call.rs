//! Reading a verify or settle call.

use app::x402::Call;
use events::time::Timestamp;

use super::{answer::Refused, outline::Outline};
use crate::body::RawBody;

/// Reads a call. `outline` is set as soon as there is one.
///
/// # Errors
/// What is wrong with its form.
pub(super) fn read(body: RawBody, now: Timestamp, outline: &mut Outline) -> Result<Call, Refused> {
    let deprecated = body.deprecated.clone();
    let body = body.json().map_err(|error| Refused::of_form(error.0))?;
    *outline = Outline::of(&body.members);
    let call = Call::read(&body, now).map_err(Refused::of_form)?;
    if let Some(buyer) = call.buyer() {
        outline.payer = Some(buyer.to_string());
    }
    deprecated.note(&call.request.members);
    Ok(call)
}
