//! A quote-request batch as JSON: the response that opens it (spec 2.13) and the status read, made from the view by pure
//! functions.

use events::{Amount, OwnedAsset, QuoteRequestId, time::Timestamp};
use projections::{OfferedQuote, QuoteRequestStatus, QuoteRequestView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    payment_body::{DeclineBody, signed_document},
    quote_requests::Turnout,
};

/// Body of `POST /v1/payments/quote-requests`.
#[derive(Debug, Serialize)]
pub struct QuoteRequestResponse {
    #[serde(flatten)]
    batch: QuoteRequestBody,
    idempotent_replay: bool,
}

/// Body of `GET /v1/payments/quote-requests/{id}`.
#[derive(Debug, Serialize)]
pub struct QuoteRequestBody {
    quote_request_id: QuoteRequestId,
    status: &'static str,
    #[serde(flatten)]
    corridor: Corridor,
    fulfillment_amount: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_source_amount: Option<Amount>,
    fulfillment_deadline: String,
    quote_deadline: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    quotes: Option<Vec<QuoteBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_summary: Option<Vec<DeclineBody>>,
}

/// Source and destinations as the caller wrote them, in the caller's order.
#[derive(Debug, Serialize, Deserialize)]
struct Corridor {
    source: OwnedAssetBody,
    destination: Vec<OwnedAssetBody>,
}

/// OwnedAsset (spec 2.2).
#[derive(Debug, Serialize, Deserialize)]
struct OwnedAssetBody {
    asset_identifier: String,
    account: String,
}

/// A collected quote.
#[derive(Debug, Serialize)]
struct QuoteBody {
    quote_id: String,
    /// The bytes that the settler signed.
    fulfillment_quote: Box<RawValue>,
}

impl QuoteRequestResponse {
    /// The response for a batch that this request opened, or found (`idempotent_replay`). It knows `collecting` and `ready`
    /// only: that a batch was awarded or has expired is for the status read to say (spec 2.13).
    pub fn new(view: &QuoteRequestView, turnout: Turnout, idempotent_replay: bool, base_url: &str) -> Self {
        let collected = view.quotes.is_some();
        let status = if collected { QuoteRequestStatus::Ready } else { QuoteRequestStatus::Collecting };
        Self { batch: QuoteRequestBody::with(view, status, turnout, base_url), idempotent_replay }
    }
}

impl QuoteRequestBody {
    /// The status read of a batch at `now`.
    pub fn new(view: &QuoteRequestView, turnout: Turnout, now: Timestamp, base_url: &str) -> Self {
        Self::with(view, view.status(now), turnout, base_url)
    }

    fn with(view: &QuoteRequestView, status: QuoteRequestStatus, turnout: Turnout, base_url: &str) -> Self {
        let quote = |offered: &OfferedQuote| {
            let fulfillment_quote = signed_document(&offered.document)?;
            Some(QuoteBody { quote_id: offered.quote_id.clone(), fulfillment_quote })
        };
        Self {
            quote_request_id: view.quote_request_id.clone(),
            status: status.as_str(),
            corridor: Corridor::of(view),
            fulfillment_amount: view.terms.fulfillment_amount,
            max_source_amount: view.terms.max_source_amount,
            fulfillment_deadline: view.fulfillment_deadline_text.clone(),
            quote_deadline: view.quote_deadline_text.clone(),
            quotes: view.quotes.as_ref().map(|quotes| quotes.iter().filter_map(quote).collect()),
            requested_count: turnout.requested_count,
            decline_summary: turnout.declines.map(|declines| DeclineBody::summary(&declines, base_url)),
        }
    }
}

impl Corridor {
    fn of(view: &QuoteRequestView) -> Self {
        // The body was read when the batch was opened; the terms say the same in their normal form.
        serde_json::from_str(&view.request).unwrap_or_else(|_| Self {
            source: (&view.terms.source).into(),
            destination: view.terms.destination().iter().map(OwnedAssetBody::from).collect(),
        })
    }
}

impl From<&OwnedAsset> for OwnedAssetBody {
    fn from(owned: &OwnedAsset) -> Self {
        Self { asset_identifier: owned.asset().to_string(), account: owned.account().to_string() }
    }
}
