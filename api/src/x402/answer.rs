//! Answers of verify and settle (spec 2.14): one shape each, whatever the status.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::BASE64;
use schemars::JsonSchema;
use serde::Serialize;

use app::{
    error::{Code, Error, docs_url},
    schema,
    views::payment_body::{ConfirmationBody, FailureBody, TransactionsBody, confirmation, failure, transactions},
    x402::{Refusal, Telling},
};
use events::{PaymentId, failure::RetryClassification};
use projections::{PaymentStatus, PaymentView};

use super::outline::Outline;
use crate::{
    error::ApiError,
    request_id::{OwnBody, RetryAfter},
};

const PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("payment-response");

/// A call that is not followed, with the status that says so.
#[derive(Debug)]
pub(super) struct Refused {
    error: Error,
    status: StatusCode,
}

impl Refused {
    /// Refuses something for its form: 400, unless the fault has nothing to do with it.
    pub(super) fn of_form(error: Error) -> Self {
        let status = match error.status() {
            StatusCode::OK => StatusCode::BAD_REQUEST,
            StatusCode::UNAUTHORIZED => StatusCode::OK,
            status => status,
        };
        Self { error, status }
    }
}

impl From<Refusal> for Refused {
    /// A judgement is answered with 200; conflicts, who asks for too much, and what could not be judged keep their status.
    fn from(refusal: Refusal) -> Self {
        let error = match refusal {
            Refusal::Form(error) => return Self::of_form(error),
            Refusal::Payment(error) => error,
        };
        let status = match error.status() {
            status @ (StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS) => status,
            status if status.is_server_error() => status,
            _ => StatusCode::OK,
        };
        Self { error, status }
    }
}

/// Whether the payment would be settled.
// Body of verify.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "X402VerifyResponse")]
pub(crate) struct VerifyBody {
    /// Whether settle would take it, or has taken it.
    is_valid: bool,
    /// Why not: the error's code in lower case, or x402's own word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = own_reasons()))]
    invalid_reason: Option<String>,
    /// For humans. Names the member that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid_message: Option<String>,
    /// The source account; of the scheme `exact` on Solana the buyer. Absent where it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    payer: Option<String>,
    /// What the gateway says besides.
    extensions: Extensions,
}

/// What came of the payment.
// Body of settle.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "X402SettleResponse")]
pub(crate) struct SettleBody {
    /// Whether the merchant was paid.
    success: bool,
    /// Why not, or `settlement_pending`: not yet. The error's code in lower case, or x402's own word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = own_reasons()))]
    error_reason: Option<String>,
    /// For humans. Names the member that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    /// The delivery's hash, once the merchant is paid; empty before. Of the scheme `exact` the deposit's, on Solana that of the buyer's
    /// transfer, as soon as there is one and unless the payment failed. `extensions.gw.transactions` has delivery and deposit.
    transaction: String,
    /// CAIP-2 id of the destination's chain; of the scheme `exact` the source's. Empty where it could not be read.
    network: String,
    /// The source account; of the scheme `exact` on Solana the buyer. Absent where it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    payer: Option<String>,
    /// What the gateway says besides.
    extensions: Extensions,
    /// The receipt, once the payment is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_confirmation: Option<ConfirmationBody>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(inline)]
struct Extensions {
    gw: Gw,
}

/// The payment, and what to do about an answer that is no success.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "X402Extension")]
struct Gw {
    /// The payment's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<PaymentId>,
    /// The payment's status; `rejected` where there is no payment, `unknown` where that cannot be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["pending", "finalizing", "completed", "failed", REJECTED, UNKNOWN]))]
    state: Option<&'static str>,
    /// Where the payment is read: JSON for programs, a page for browsers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(url)]
    status_url: Option<String>,
    /// Whether the payment was there before this call. A merchant sells once for each `paymentId`.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotent_replay: Option<bool>,
    /// For how many seconds the call was held, where that is less than `maxTimeoutSeconds` of the requirement (of the scheme `exact` with
    /// `deliverySeconds` added) and the payment is not over: the gateway has a bound of its own, and places for so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_seconds: Option<u64>,
    /// The error's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::CODE_PATTERN), extend("examples" = own_codes().collect::<Vec<_>>()))]
    code: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::retry_classification")]
    retry_classification: Option<RetryClassification>,
    /// Page that describes the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(url)]
    docs_url: Option<String>,
    /// Only when `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<TransactionsBody>,
    /// The same as at the top, where stock clients drop it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_confirmation: Option<ConfirmationBody>,
}

/// The states of what is not a payment's status.
const REJECTED: &str = "rejected";
const UNKNOWN: &str = "unknown";

/// The codes that answer x402 and nothing else, at a status that the others do not have.
fn own_codes() -> impl Iterator<Item = &'static str> {
    Code::ALL.iter().filter(|code| code.status == Some(StatusCode::OK)).map(|code| code.code)
}

fn own_reasons() -> Vec<String> {
    own_codes().map(str::to_ascii_lowercase).collect()
}

impl Gw {
    /// What there is to say of a payment that exists.
    fn of(view: &PaymentView, idempotent_replay: bool, base_url: &str) -> Self {
        let code = match view.status {
            PaymentStatus::Completed => None,
            PaymentStatus::Failed if view.is_paid_at_source() => None,
            PaymentStatus::Failed if has_failed(view) => view.failure.as_ref().map(|failure| failure.code.clone()),
            PaymentStatus::Failed | PaymentStatus::Pending | PaymentStatus::Finalizing => {
                Some(Code::SETTLEMENT_PENDING.code.to_owned())
            }
        };
        let entry = code.as_deref().and_then(Code::find);
        let stated = view.failure.as_ref().filter(|_| has_failed(view));
        let stated = stated.and_then(|failure| failure.retry_classification);
        Self {
            payment_id: Some(view.payment_id.clone()),
            state: Some(view.status.as_str()),
            status_url: Some(format!("{base_url}/v1/payments/{}/status", view.payment_id)),
            idempotent_replay: Some(idempotent_replay),
            held_seconds: None,
            retry_classification: code.is_some().then(|| {
                let of_code = entry.map(|entry| entry.retry_classification);
                stated.or(of_code).unwrap_or(RetryClassification::ReconcileThenDecide)
            }),
            docs_url: code.as_deref().map(|code| docs_url(base_url, code)),
            code,
            error: failure(view, base_url),
            transactions: transactions(view),
            fulfillment_confirmation: confirmation(view),
        }
    }

    /// The same of a payment that is completed, where the merchant is not told so for all that.
    fn objecting(self, error: &Error, base_url: &str) -> Self {
        Self {
            code: Some(error.code.code.to_owned()),
            retry_classification: Some(error.code.retry_classification),
            docs_url: Some(docs_url(base_url, error.code.code)),
            ..self
        }
    }

    /// What there is to say of a refusal.
    fn refused(error: &Error, status: StatusCode, base_url: &str) -> Self {
        // With a 500 it is not known whether there is a payment.
        let unknown = status == StatusCode::INTERNAL_SERVER_ERROR;
        Self {
            payment_id: error.payment_id().cloned(),
            state: Some(if unknown { UNKNOWN } else { REJECTED }),
            code: Some(error.code.code.to_owned()),
            retry_classification: Some(error.code.retry_classification),
            docs_url: Some(docs_url(base_url, error.code.code)),
            ..Self::default()
        }
    }
}

/// The reason that goes with `code`: its lower case, but where x402 has a word of its own. `unexpected` is x402's word for a
/// defect in this call.
fn reason(code: &str, unexpected: &str) -> String {
    match code {
        "INVALID_REQUEST" => "invalid_payload".to_owned(),
        "INTERNAL_ERROR" => unexpected.to_owned(),
        code => code.to_ascii_lowercase(),
    }
}

/// The payment would be settled, and is new.
pub(super) fn valid(payment_id: PaymentId, outline: Outline) -> Response {
    let gw = Gw { payment_id: Some(payment_id), idempotent_replay: Some(false), ..Gw::default() };
    verified(true, None, outline, gw, StatusCode::OK)
}

/// What verifying a payload comes to that was settled before.
pub(super) fn known(view: &PaymentView, outline: Outline, base_url: &str) -> Response {
    let gw = Gw::of(view, true, base_url);
    let failed = view.failure.as_ref().filter(|_| has_failed(view));
    let why = failed.map(|failure| (failure.code.clone(), failure.message.clone()));
    verified(failed.is_none(), why, outline, gw, StatusCode::OK)
}

/// Whether the merchant is not paid, and will not be: neither where it asked to be, nor on the chain that was paid on.
fn has_failed(view: &PaymentView) -> bool {
    view.status == PaymentStatus::Failed && !view.is_paid_at_source() && !view.may_be_paid_at_source()
}

/// What verifying a payload comes to whose payment a merchant was told of.
pub(super) fn told(view: &PaymentView, outline: Outline, base_url: &str) -> Response {
    let error = Error::from(Code::DUPLICATE_SETTLEMENT);
    let gw = Gw::of(view, true, base_url).objecting(&error, base_url);
    verified(false, Some((error.code.code.to_owned(), error.message())), outline, gw, StatusCode::OK)
}

/// The payment would not be settled.
pub(super) fn not_valid(refused: Refused, outline: Outline, base_url: &str) -> Response {
    let Refused { error, status } = refused;
    let gw = Gw::refused(&error, status, base_url);
    let why = Some((error.code.code.to_owned(), error.message()));
    come_again(verified(false, why, outline, gw, status), &error)
}

fn verified(is_valid: bool, why: Option<(String, String)>, outline: Outline, gw: Gw, status: StatusCode) -> Response {
    let (invalid_reason, invalid_message) =
        why.map(|(code, message)| (reason(&code, "unexpected_verify_error"), message)).unzip();
    let extensions = Extensions { gw };
    let body = VerifyBody { is_valid, invalid_reason, invalid_message, payer: outline.payer, extensions };
    keep_body((status, Json(body)).into_response())
}

/// The payment as it stands when it is final or the long poll is over.
pub(super) struct Held {
    pub(super) view: PaymentView,
    /// Whether it was there before.
    pub(super) replay: bool,
    /// Of a payment of a stock client whose merchant is paid: whether this call is the one that tells the merchant.
    pub(super) telling: Option<Telling>,
    /// For how many seconds the call was held, where the payment is not over and the requirement allows for longer.
    pub(super) cut_to_seconds: Option<u64>,
}

/// What settling a payment came to so far, and for how many seconds the call was held where it was cut short.
pub(super) fn settle_outcome(held: &Held, outline: Outline, base_url: &str) -> Response {
    let Held { view, replay, telling, cut_to_seconds } = held;
    let objection: Option<Error> = match telling {
        Some(Telling::Again) => Some(Code::DUPLICATE_SETTLEMENT.into()),
        Some(Telling::Unknown) => Some(Code::SERVICE_UNAVAILABLE.into()),
        Some(Telling::First) | None => None,
    };
    let is_paid = view.is_merchant_paid();
    let why = match (&objection, &view.failure) {
        (objection, _) if is_paid => objection.as_ref().map(|error| (error.code.code.to_owned(), error.message())),
        (_, Some(failure)) if has_failed(view) => Some((failure.code.clone(), failure.message.clone())),
        _ => {
            let pending = Code::SETTLEMENT_PENDING;
            Some((pending.code.to_owned(), pending.message.to_owned()))
        }
    };
    let success = is_paid && objection.is_none();
    // It is the settlement's on the destination's chain (spec 2.14), and nothing before there is one. Of the scheme `exact` it is the one that
    // carried out what the client signed; while that is there and the payment pending, a stock server asks again by itself.
    let transaction = match outline.is_exact {
        true => view.transfer.as_deref().or(view.deposit.as_ref()).filter(|_| !has_failed(view)),
        false => view.fulfillment.as_ref().filter(|_| success),
    };
    let gw = Gw { held_seconds: *cut_to_seconds, ..Gw::of(view, *replay, base_url) };
    let gw = match &objection {
        Some(error) => gw.objecting(error, base_url),
        None => gw,
    };
    let body = SettleBody {
        success,
        transaction: transaction.map(|transaction| transaction.transaction_hash.clone()).unwrap_or_default(),
        network: transaction.map_or(outline.network, |transaction| transaction.chain_id.to_string()),
        payer: outline.payer,
        fulfillment_confirmation: confirmation(view),
        ..SettleBody::of(why, gw)
    };
    match objection {
        Some(error) => come_again(body.respond(error.status()), &error),
        None => body.respond(StatusCode::OK),
    }
}

/// Nothing was settled by this call.
pub(super) fn settle_refused(refused: Refused, outline: Outline, base_url: &str) -> Response {
    let Refused { error, status } = refused;
    let why = Some((error.code.code.to_owned(), error.message()));
    let body = SettleBody {
        network: outline.network,
        payer: outline.payer,
        ..SettleBody::of(why, Gw::refused(&error, status, base_url))
    };
    come_again(body.respond(status), &error)
}

impl SettleBody {
    /// Says why there is no success, where there is none.
    fn of(why: Option<(String, String)>, gw: Gw) -> Self {
        let (error_reason, error_message) =
            why.map(|(code, message)| (reason(&code, "unexpected_settle_error"), message)).unzip();
        Self { error_reason, error_message, extensions: Extensions { gw }, ..Self::default() }
    }

    /// The body, and the same in the header.
    fn respond(self, status: StatusCode) -> Response {
        let Ok(text) = serde_json::to_string(&self) else {
            return ApiError::from(Code::INTERNAL_ERROR).into_response();
        };
        // Base64 is legal in a header.
        let encoded = HeaderValue::try_from(BASE64.encode(text.as_bytes())).ok();
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = (status, json, text).into_response();
        response.headers_mut().extend(encoded.map(|encoded| (PAYMENT_RESPONSE, encoded)));
        keep_body(response)
    }
}

/// Says when to come again, where the error says it.
fn come_again(mut response: Response, error: &Error) -> Response {
    if let Some(seconds) = error.retry_after_seconds() {
        response.extensions_mut().insert(RetryAfter(seconds));
    }
    response
}

/// Keeps the body from being replaced by an ErrorResponse.
fn keep_body(mut response: Response) -> Response {
    response.extensions_mut().insert(OwnBody);
    response
}
