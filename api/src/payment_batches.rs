//! `POST /v1/payments/batches` and `/v1/payments/batches/prepare`: many payments for one signature (ADR 158).

use std::sync::Arc;

use axum::{Extension, Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;

use app::{
    error::ErrorResponse,
    payment_batches::{
        prepare::{self, PreparedPaymentBatch},
        submit::{self, Submitted},
    },
    views::payment_body::PaymentResponse,
};
use events::PaymentId;

use super::{error::ApiError, request_id::RequestId, state::HttpState, write::Write};

/// What became of each payment of a batch, in the order of the request.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PaymentBatchResponse {
    #[schemars(length(min = 1))]
    payments: Vec<BatchPaymentBody>,
}

/// One payment of a batch: either `payment` or `error` is there.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchPayment")]
struct BatchPaymentBody {
    /// Tracking id of the payment.
    payment_id: PaymentId,
    /// The payment, which was accepted now or before.
    #[serde(skip_serializing_if = "Option::is_none")]
    payment: Option<PaymentResponse>,
    /// Why it was refused. The others are accepted all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorResponse>,
}

/// Accepts the payments of a batch, or finds those that were accepted before. Nobody waits for their outcomes.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    write: Write,
) -> Result<Json<PaymentBatchResponse>, ApiError> {
    let Write { caller, body, permit, .. } = write;
    let accepting = submit::accept(&state, correlation.as_str(), caller, body.json()?, permit);
    let base_url = &state.http.base_url;
    let payments = Box::pin(accepting).await?.into_iter().map(|Submitted { payment_id, outcome }| match outcome {
        Ok((view, replay)) => {
            let payment = PaymentResponse::new(view, replay, base_url);
            BatchPaymentBody { payment_id, payment: Some(payment), error: None }
        }
        Err(error) => {
            let error = error.about(&payment_id).into_body(correlation.as_str(), base_url);
            BatchPaymentBody { payment_id, payment: None, error: Some(error) }
        }
    });
    Ok(Json(PaymentBatchResponse { payments: payments.collect() }))
}

/// Makes the message that is signed for a batch. Nothing is kept.
pub(super) async fn prepare(
    State(state): State<Arc<HttpState>>,
    write: Write,
) -> Result<Json<PreparedPaymentBatch>, ApiError> {
    let Write { body, permit: _permit, .. } = write;
    Ok(Json(prepare::prepare(&state, &body.json()?).await?))
}
