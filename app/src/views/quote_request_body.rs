//! A quote-request batch as JSON: the response that opens it (spec 2.13) and the status read, made from the view by pure
//! functions.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use events::{Amount, OwnedAsset, PaymentId, QuoteRequestId, time::Timestamp};
use projections::{
    OfferedQuote,
    QuoteRequestStatus::{self, Awarded, Collecting, Expired, Ready},
    QuoteRequestView,
};

use super::{
    payment_body::{DeclineBody, signed_document},
    quote_requests::AuctionStatistics,
};
use crate::schema;

/// What quotes can be ordered by.
const BY_SELECTOR: &str = "selector";
const BY_PRICE: &str = "price";

/// The batch, with the corridor that the award is built from.
// Body of `POST /v1/payments/quote-requests`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(transform = knows_two_statuses)]
pub struct QuoteRequestResponse {
    #[serde(flatten)]
    batch: QuoteRequestBody,
    /// `true`: the batch that was there before is returned. `false`: this request created it.
    idempotent_replay: bool,
}

/// The batch as it stands.
// Body of `GET /v1/payments/quote-requests/{id}`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "QuoteRequestRead")]
pub struct QuoteRequestBody {
    /// Id of the batch.
    #[schemars(with = "String", regex(pattern = schema::QUOTE_REQUEST_ID_PATTERN))]
    quote_request_id: QuoteRequestId,
    /// `collecting`, `ready` with `quotes`, `awarded` once one of them was, or `expired` when the quotes have lapsed.
    #[schemars(extend("enum" = [Collecting, Ready, Awarded, Expired].map(|status| status.as_str())))]
    status: &'static str,
    #[serde(flatten)]
    corridor: Corridor,
    /// As it was asked for.
    #[schemars(with = "String")]
    fulfillment_amount: Amount,
    /// As it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    max_source_amount: Option<Amount>,
    /// The original batch's, on a replay too.
    #[schemars(with = "Timestamp")]
    fulfillment_deadline: String,
    /// The original batch's, on a replay too.
    #[schemars(with = "Timestamp")]
    quote_deadline: String,
    /// There once collection is complete; empty when no settler offered a usable quote. In the order that `quotes_ordered_by`
    /// says.
    #[serde(skip_serializing_if = "Option::is_none")]
    quotes: Option<Vec<QuoteBody>>,
    /// `selector`: the quote that the request's `quote_selector` chose comes first, the others behind it by price. `price`: the
    /// cheapest comes first; no selector was named, or it chose none in time. There with `quotes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [BY_SELECTOR, BY_PRICE]))]
    quotes_ordered_by: Option<&'static str>,
    /// The quote that was awarded. Only in the status read, once it is `awarded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    awarded_quote_id: Option<String>,
    /// The payment that it was awarded to. Only in the status read, once it is `awarded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<PaymentId>,
    /// Settlers asked. Absent means unknown, never zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_count: Option<u64>,
    /// Why settlers declined; provisional while `collecting`. Absent means unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_summary: Option<Vec<DeclineBody>>,
}

// Source and destinations as the caller wrote them, in the caller's order.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Corridor {
    source: OwnedAssetBody,
    destination: Vec<OwnedAssetBody>,
}

/// An asset and the account that holds or receives it.
// Spec 2.2.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OwnedAsset")]
struct OwnedAssetBody {
    /// CAIP-19 identifier, `{chain_id}/{asset_namespace}:{asset_reference}`; `/v1/defaults` lists those that are served.
    #[schemars(regex(pattern = schema::ASSET_PATTERN))]
    asset_identifier: String,
    /// Wallet address that owns the asset. EVM: 0x and 40 hex digits, with a valid EIP-55 checksum when in mixed case. Solana:
    /// Base58, as a destination never a token account. Tron: Base58 that begins with T. Never the zero address.
    #[schemars(length(min = 1, max = 128))]
    account: String,
}

/// A quote that may be awarded.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CollectedQuote")]
struct QuoteBody {
    /// What the award names.
    quote_id: String,
    // The bytes that the settler signed.
    #[schemars(schema_with = "schema::fulfillment_quote")]
    fulfillment_quote: Box<RawValue>,
}

/// What [`QuoteRequestResponse::new`] says of the status.
fn knows_two_statuses(schema: &mut Schema) {
    let statuses = [Collecting, Ready];
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !matches!(name.as_str(), "awarded_quote_id" | "payment_id"));
        properties["status"] = json!({
            "type": "string",
            "enum": statuses.map(|status| status.as_str()),
            "description": "`ready`: collection is complete and `quotes` is there. `collecting`: read the batch later. That it \
                            was awarded or has expired is for that read to say.",
        });
    }
}

impl QuoteRequestResponse {
    /// The response for a batch that this request opened, or found (`idempotent_replay`). It knows `collecting` and `ready`
    /// only: that a batch was awarded or has expired is for the status read to say (spec 2.13).
    pub fn new(
        view: &QuoteRequestView,
        statistics: AuctionStatistics,
        idempotent_replay: bool,
        base_url: &str,
    ) -> Self {
        let collected = view.quotes.is_some();
        let status = if collected { QuoteRequestStatus::Ready } else { QuoteRequestStatus::Collecting };
        Self { batch: QuoteRequestBody::with(view, status, statistics, base_url), idempotent_replay }
    }
}

impl QuoteRequestBody {
    /// The status read of a batch at `now`.
    pub fn new(view: &QuoteRequestView, statistics: AuctionStatistics, now: Timestamp, base_url: &str) -> Self {
        Self::with(view, view.status(now), statistics, base_url)
    }

    fn with(
        view: &QuoteRequestView,
        status: QuoteRequestStatus,
        statistics: AuctionStatistics,
        base_url: &str,
    ) -> Self {
        let award = view.award.as_ref().filter(|_| status == Awarded);
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
            quotes_ordered_by: view
                .quotes
                .as_ref()
                .map(|_| if view.ordered_by_selector { BY_SELECTOR } else { BY_PRICE }),
            awarded_quote_id: award.map(|award| award.quote_id.clone()),
            payment_id: award.map(|award| award.payment_id.clone()),
            quotes: view.quotes.as_ref().map(|quotes| quotes.iter().filter_map(quote).collect()),
            requested_count: statistics.requested_count,
            decline_summary: statistics.declines.map(|declines| DeclineBody::summary(&declines, base_url)),
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
