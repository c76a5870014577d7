//! `POST /v1/payments/prepare`: what exactly a payer has to sign (design: HTTP).
//!
//! The body is a PaymentRequest (spec 2.1) without `sender_auth`. Besides, `message_scheme` chooses among the schemes of
//! the source's chain, and `payload` holds the numbers that are the payer's to choose, as in a SignedMessage. With a
//! `signature` added to each message the answer is the `sender_auth` of a submission that differs in nothing else.
//!
//! Who is going to prove an originator names it as `originator`, a DID, or sends the proof: the payment id is made of it,
//! and so what the payer signs. A payer on Tron has to send the proof.
//!
//! Where the payer's allowance is too small, `approval` is the call by which it gives it; where it holds too little of a wrapped
//! coin and enough of the coin, `wrap` is what wraps the rest. What cannot be paid at all is refused as the submission would be.
//! On Tron the approval is one of the messages.
//!
//! For an award the body is `version`, `request_id`, `quote_request_id` and `quote_id`, with the same two members besides.

use std::sync::Arc;

use axum::{Json, extract::State};

use app::prepare::{PreparedBody, prepare};

use super::{error::ApiError, state::HttpState, write::Write};

/// Makes the messages. Nothing is kept.
pub(super) async fn handle(State(state): State<Arc<HttpState>>, write: Write) -> Result<Json<PreparedBody>, ApiError> {
    let Write { caller, body, permit: _permit, .. } = write;
    Ok(Json(prepare(&state, &caller, body.json()?).await?))
}
