//! The table of operations: what the document says about each route.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::json;

use app::{error::Code, request::order::request_id_pattern, schema::CHAIN_ID_PATTERN};
use proofs::contexts::BUNDLED;

use super::{
    examples,
    operation::{Body, Operation},
    parameters::{
        caller_secret, context_parameters, last_event_id, own_payments_parameters, payment_id, position, prefer, query,
        quote_request_id, webhook_id,
    },
    settlers, x402,
};

/// The sections of the document.
pub(super) const TAGS: [(&str, &str); 8] = [
    (PAYMENT, "Submitting a payment, and following it to its end."),
    ("quote-requests", "The two-phase flow: collect quotes first, authorize the spend with the award of one."),
    (SESSIONS, "Proving who one is, for what is shown to owners of payments alone."),
    (WEBHOOKS, "Having an endpoint of one's own called with what becomes of one's payments."),
    (x402::TAG, "The gateway as a facilitator, for merchants who ask for payment with a 402."),
    (settlers::TAG, "Who delivers, and how each did so far."),
    ("corridors", "What the gateway serves."),
    ("operations", "Probes and this documentation."),
];

pub(super) const PAYMENT: &str = "payments";
const QUOTES: &str = "quote-requests";
const SESSIONS: &str = "sessions";
const WEBHOOKS: &str = "webhooks";
const CORRIDORS: &str = "corridors";
const OPERATION: &str = "operations";

/// What may be wrong with the order in a body.
pub(super) const ORDER: &[&Code] = &[
    Code::INVALID_REQUEST,
    Code::INVALID_REQUEST_ID,
    Code::INVALID_SOURCE_ASSET,
    Code::INVALID_DESTINATION_ACCOUNT,
    Code::UNSUPPORTED_ASSET,
    Code::INVALID_DEADLINE,
    Code::UNTRUSTED_VERIFIER,
    Code::UNTRUSTED_ESCROW,
    Code::UNTRUSTED_PROXY,
    Code::UNTRUSTED_SELECTOR,
    Code::REQUEST_TOO_LARGE,
];
/// What may be wrong with a signature.
const SIGNED: &[&Code] = &[Code::INVALID_SENDER_AUTH, Code::MESSAGE_SCHEME_NOT_SERVED, Code::REQUEST_TOO_LARGE];
/// What the payer may lack, or have used up.
const FUNDED: &[&Code] =
    &[Code::INSUFFICIENT_FUNDS, Code::INSUFFICIENT_ALLOWANCE, Code::NONCE_ALREADY_USED, Code::CONTRACT_PAYER_EXHAUSTED];
/// What keeps something from being prepared that needs neither signature nor allowance yet.
const PREPARED: &[&Code] = &[Code::INSUFFICIENT_FUNDS, Code::NONCE_ALREADY_USED, Code::MESSAGE_SCHEME_NOT_SERVED];
/// What may be wrong with who asks.
const PROVEN: &[&Code] = &[Code::INVALID_PROOF, Code::INVALID_CREDENTIAL];
/// What may be wrong with the quote that is to be awarded.
const QUOTED: &[&Code] = &[
    Code::QUOTE_REQUEST_NOT_FOUND,
    Code::QUOTE_NOT_FOUND,
    Code::QUOTE_REQUEST_COLLECTING,
    Code::AWARD_TERMS_MISMATCH,
    Code::QUOTE_REQUEST_ALREADY_AWARDED,
    Code::QUOTE_EXPIRED,
];
/// What may keep something new from being accepted.
const WRITTEN: &[&Code] = &[
    Code::PAYMENT_DECLINED,
    Code::IDEMPOTENCY_TERMS_MISMATCH,
    Code::REQUEST_ID_TAKEN,
    Code::JOURNAL_RESTORED,
    Code::OUTCOME_UNKNOWN,
    Code::SERVICE_PAUSED,
    Code::CHAIN_UNAVAILABLE,
];
/// What may be wrong with a session, where there is something to have one for.
const OWNERS: &[&Code] = &[Code::INVALID_TOKEN, Code::WEBHOOKS_NOT_SERVED];
/// What may go wrong with whatever needs the journal or a chain.
pub(super) const READ: &[&Code] = &[Code::INTERNAL_ERROR, Code::SERVICE_UNAVAILABLE];

/// Every operation, in the order in which the document has them: that of the table of routes.
pub const OPERATIONS: &[Operation] = &[
    Operation {
        method: Method::POST,
        path: "/v1/payments",
        id: "submitPayment",
        tag: PAYMENT,
        summary: "Submit a payment",
        description: "Accepts a signed payment, or finds the one that was accepted under the same `request_id`, and \
                      holds for its outcome for up to 30 seconds. If it completes meanwhile, the answer carries the \
                      confirmation; otherwise poll the status.\n\nA replay has the signatures that it was accepted \
                      with, or others that hold, and needs no deadlines in the future.",
        parameters: || vec![prefer()],
        request: Some(Body::Json("PaymentRequest", examples::payment_request)),
        response: Body::Json("PaymentResponse", examples::payment_response),
        no_content: None,
        headers: &["Deprecation", "X-Position"],
        errors: &[ORDER, PROVEN, SIGNED, FUNDED, WRITTEN, READ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/payments",
        id: "listOwnPayments",
        tag: PAYMENT,
        summary: "List one's own payments",
        description: "The payments of the session's owner, newest first: those that the account pays, or that were asked for in \
                      the name of the DID. A page at a time, by `cursor`, which stays where it is whatever is accepted \
                      meanwhile.\n\nWho prefers `text/csv` or `application/x-ndjson` gets all that the query takes, a line each, \
                      as a stream and without `limit`. It is whole if the transfer ends in order. In CSV a text that would be \
                      a formula has an apostrophe before it.\n\nWhat was accepted in the last moment may be missing.",
        parameters: own_payments_parameters,
        request: None,
        response: Body::JsonOrTable("OwnPayments", examples::own_payments),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INVALID_REQUEST, Code::INVALID_TOKEN, Code::TOO_MANY_STREAMS], READ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/payments/{paymentId}/status",
        id: "readPaymentStatus",
        tag: PAYMENT,
        summary: "Read a payment's status",
        description: "A read without side effects, to be polled until the status is `completed` or `failed`. Who prefers \
                      `text/html`, as browsers do, gets a page.\n\nWhat another gateway did within the last fifth of a \
                      second may be missing. Who sends back the `X-Position` of an earlier answer about the payment is \
                      shown no less than that answer was made from, whichever gateway gave it.",
        parameters: || vec![payment_id(), position()],
        request: None,
        response: Body::JsonOrPage("PaymentStatusRead", examples::status_read),
        no_content: None,
        headers: &["X-Position"],
        errors: &[&[Code::INVALID_REQUEST, Code::PAYMENT_NOT_FOUND], READ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/payments/{paymentId}/timeline",
        id: "readPaymentTimeline",
        tag: PAYMENT,
        summary: "Read everything that happened to a payment",
        description: "Every stage with its time, its transactions and, where there is one, its cause; release and refund \
                      included.",
        parameters: || vec![payment_id()],
        request: None,
        response: Body::Json("PaymentTimeline", examples::timeline),
        no_content: None,
        headers: &[],
        errors: &[&[Code::PAYMENT_NOT_FOUND], READ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/payments/{paymentId}/events",
        id: "followPayment",
        tag: PAYMENT,
        summary: "Follow a payment live",
        description: "The timeline as server-sent events: what happened, then what happens. The data of each event is \
                      a TimelineEntry. The stream ends by itself once nothing more will happen; a connection that \
                      broke is resumed with `Last-Event-ID`, as browsers do by themselves.",
        parameters: || vec![payment_id(), last_event_id()],
        request: None,
        response: Body::Events,
        no_content: Some("There is nothing behind `Last-Event-ID`, and never will be."),
        headers: &[],
        errors: &[&[Code::INVALID_REQUEST, Code::PAYMENT_NOT_FOUND, Code::TOO_MANY_STREAMS], READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/payments/verify",
        id: "verifyPayment",
        tag: PAYMENT,
        summary: "Rehearse a submission",
        description: "Makes every check of a submission and accepts nothing. A refusal is the error that the \
                      submission would be answered with; 200 means that it would be accepted, or is a replay.",
        parameters: Vec::new,
        request: Some(Body::Json("PaymentRequest", examples::payment_request)),
        response: Body::Json("Verification", examples::verification),
        no_content: None,
        headers: &["Deprecation"],
        errors: &[
            ORDER,
            PROVEN,
            SIGNED,
            FUNDED,
            &[Code::PAYMENT_DECLINED, Code::IDEMPOTENCY_TERMS_MISMATCH, Code::REQUEST_ID_TAKEN],
            READ,
        ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/payments/prepare",
        id: "preparePayment",
        tag: PAYMENT,
        summary: "Learn exactly what to sign",
        description: "Makes the messages that authorize the payment in the body, or the award of a collected quote. \
                      Where the payer's allowance is too small, `approval` is the call by which it gives it first; where it \
                      holds too little of a wrapped coin and enough of the coin, `wrap` is what wraps the rest. \
                      Nothing is kept.",
        parameters: Vec::new,
        request: Some(Body::OneOf(&["PrepareRequest", "PrepareAwardRequest"], examples::prepare_request)),
        response: Body::Json("PreparedPayment", examples::prepared_payment),
        no_content: None,
        headers: &["Deprecation"],
        errors: &[ORDER, PROVEN, PREPARED, QUOTED, READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/payments/batches",
        id: "submitPaymentBatch",
        tag: PAYMENT,
        summary: "Submit many payments for one signature",
        description: "Accepts the payments of a batch, each by itself, or finds those that were accepted before. Where the batch \
                      itself is in order and signed, the answer says of each payment what became of it; nobody waits for their \
                      outcomes, so poll their statuses.\n\nThe payer signs the message of `/v1/payments/batches/prepare`. A call \
                      whose answer is lost is repeated as it is. On EVM chains, from tokens alone.",
        parameters: Vec::new,
        request: Some(Body::Json("PaymentBatchRequest", examples::payment_batch_request)),
        response: Body::Json("PaymentBatchResponse", examples::payment_batch_response),
        no_content: None,
        headers: &["Deprecation"],
        errors: &[ORDER, SIGNED, FUNDED, WRITTEN, READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/payments/batches/prepare",
        id: "preparePaymentBatch",
        tag: PAYMENT,
        summary: "Learn exactly what to sign for many payments",
        description: "Makes the one message that authorizes all payments of the body, and says what the payer has to send to the \
                      chain before: `approvals`, where Permit2 may draw too little of a token, and `wraps`, where too little of a \
                      wrapped coin is there and enough of the coin. Nothing is kept.",
        parameters: Vec::new,
        request: Some(Body::Json("PreparePaymentBatchRequest", examples::prepare_payment_batch_request)),
        response: Body::Json("PreparedPaymentBatch", examples::prepared_payment_batch),
        no_content: None,
        headers: &["Deprecation"],
        errors: &[ORDER, PREPARED, READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/payments/mandates/prepare",
        id: "prepareMandate",
        tag: PAYMENT,
        summary: "Learn exactly what to sign once for what a merchant will ask for",
        description: "Makes the one message by which a payer allows a merchant to ask for payments: up to an amount in each period, \
                      to the recipients that it names, until a last period. The merchant then submits each payment under `EVM_PERMIT2_MANDATE`, \
                      whose message `/v1/payments/prepare` makes, with the mandate and the payer's signature in its `payload`. \
                      `cancel` is how the payer ends it; `approval` what it has to send to the chain before the first payment. \
                      Nothing is kept. On EVM chains, from tokens alone.",
        parameters: Vec::new,
        request: Some(Body::Json("PrepareMandateRequest", examples::prepare_mandate_request)),
        response: Body::Json("PreparedMandate", examples::prepared_mandate),
        no_content: None,
        headers: &["Deprecation"],
        errors: &[ORDER, PREPARED, READ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/payments/resolve",
        id: "resolvePayment",
        tag: PAYMENT,
        summary: "Find the payment of a request id",
        description: "The status of the payment that was accepted under a `request_id`. Exactly one of `account` and \
                      `originator` says whose it is.",
        parameters: || {
            vec![
                query(
                    "request_id",
                    true,
                    json!({"type": "string", "pattern": request_id_pattern()}),
                    "The payer's key.",
                ),
                query(
                    "account",
                    false,
                    json!({"type": "string"}),
                    "The source account of a payer without a proven DID.",
                ),
                query(
                    "originator",
                    false,
                    json!({"type": "string"}),
                    "The payer's DID, or `eip155:`, `solana:` or `tron:` followed by its account.",
                ),
                position(),
            ]
        },
        request: None,
        response: Body::Json("PaymentStatusRead", examples::status_read),
        no_content: None,
        headers: &["X-Position"],
        errors: &[&[Code::INVALID_REQUEST, Code::INVALID_REQUEST_ID, Code::PAYMENT_NOT_FOUND], READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/payments/quote-requests",
        id: "openQuoteRequest",
        tag: QUOTES,
        summary: "Open a quote-request",
        description: "Asks settlers for quotes; nothing is authorized to be spent. Answers with the batch at once, or \
                      with `wait=true` once its quotes are collected or the hold is over.\n\nA repeated `request_id` is \
                      answered with the batch that it opened, if that stands on the same economics, settler lists, \
                      policies, selector, verifier and contracts; else with 409. Nobody else can use a `request_id` of a \
                      caller that proves a DID or sends a `Caller-Secret`.",
        parameters: || {
            let wait = "Whether to hold the connection for the collected quotes.";
            vec![query("wait", false, json!({"type": "boolean", "default": false}), wait), prefer(), caller_secret()]
        },
        request: Some(Body::Json("QuoteRequest", examples::unsigned_request)),
        response: Body::Json("QuoteRequestResponse", examples::quote_request_response),
        no_content: None,
        headers: &["Deprecation"],
        errors: &[ORDER, PROVEN, WRITTEN, &[Code::TOO_MANY_QUOTE_REQUESTS], READ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/payments/quote-requests/{quoteRequestId}",
        id: "readQuoteRequest",
        tag: QUOTES,
        summary: "Read a quote-request",
        description: "The batch with its quotes, once they are collected, and with provisional declines before.",
        parameters: || vec![quote_request_id()],
        request: None,
        response: Body::Json("QuoteRequestRead", examples::quote_request_read),
        no_content: None,
        headers: &[],
        errors: &[&[Code::QUOTE_REQUEST_NOT_FOUND], READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/payments/quote-requests/{quoteRequestId}/award",
        id: "awardQuote",
        tag: QUOTES,
        summary: "Award a quote",
        description: "Takes one quote of the batch and authorizes the spend: a payment with the batch's corridor and \
                      deadlines. What is signed carries the hash of the quote. \
                      Holds for the outcome as a submission does.",
        parameters: || vec![quote_request_id(), prefer()],
        request: Some(Body::Json("AwardRequest", examples::award_request)),
        response: Body::Json("PaymentResponse", examples::payment_response),
        no_content: None,
        headers: &["Deprecation", "X-Position"],
        errors: &[
            &[Code::INVALID_REQUEST, Code::INVALID_REQUEST_ID, Code::INVALID_DEADLINE, Code::UNSUPPORTED_ASSET],
            PROVEN,
            SIGNED,
            FUNDED,
            QUOTED,
            WRITTEN,
            READ,
        ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/payments/quote-requests/{quoteRequestId}/address",
        id: "giveDepositAddress",
        tag: QUOTES,
        summary: "Get a deposit address",
        description: "Begins a payment of the batch's terms that nobody signs for: whoever sends `amount` of the source asset, a \
                      token on an EVM chain, Solana or Tron, to the answer's `deposit_address`, from a wallet, an exchange or another \
                      contract, has paid it. The address commits \
                      to all that a payer would sign, so what comes there goes into the escrow of this payment or back to the source \
                      account, and nowhere else. Once it is there settlers are asked for quotes up to the amount; the batch's own \
                      are for information. Too little, or what comes after `pay_by`, goes back. A batch has one address; asked again, \
                      the same payment is the answer.",
        parameters: || vec![quote_request_id(), caller_secret()],
        request: Some(Body::Json("DepositAddressRequest", examples::deposit_address_request)),
        response: Body::Json("PaymentResponse", examples::deposit_address_response),
        no_content: None,
        headers: &["X-Position"],
        errors: &[
            &[
                Code::INVALID_REQUEST,
                Code::INVALID_DEADLINE,
                Code::UNSUPPORTED_ASSET,
                Code::QUOTE_REQUEST_NOT_FOUND,
                Code::TOO_MANY_DEPOSIT_ADDRESSES,
                Code::IDEMPOTENCY_TERMS_MISMATCH,
                Code::REQUEST_TOO_LARGE,
            ],
            PROVEN,
            WRITTEN,
            READ,
        ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/sessions/challenges",
        id: "createSessionChallenge",
        tag: SESSIONS,
        summary: "Get a message to sign",
        description: "Makes the message by which an account or a DID proves who it is (CAIP-122; EIP-4361 on EVM chains). It \
                      names this service, the chain and the time in which it can be brought back. Nothing is kept.",
        parameters: Vec::new,
        request: Some(Body::Json("SessionChallengeRequest", examples::session_challenge_request)),
        response: Body::Json("SessionChallenge", examples::session_challenge),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INVALID_REQUEST, Code::CHAIN_NOT_SUPPORTED, Code::REQUEST_TOO_LARGE], READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/sessions",
        id: "openSession",
        tag: SESSIONS,
        summary: "Open a session",
        description: "Takes the message back with its signature, and answers with a token that counts for some minutes, at every \
                      gateway of this service. An account that is a contract is asked on the chain in the message (ERC-1271, \
                      ERC-6492), and its session shows payments of that chain alone.",
        parameters: Vec::new,
        request: Some(Body::Json("SessionRequest", examples::session_request)),
        response: Body::Json("Session", examples::session),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INVALID_REQUEST, Code::INVALID_PROOF, Code::REQUEST_TOO_LARGE], READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/webhooks",
        id: "registerWebhook",
        tag: WEBHOOKS,
        summary: "Register a webhook",
        description: "Has an endpoint called with each status that a payment of the session's owner comes to, or one of them. \
                      Messages are signed after Standard Webhooks: `v1a` (Ed25519) by `keys`, `v1` (HMAC-SHA256) by `secret`. \
                      They come at least once, in order for each payment, and are tried for up to three days.\n\nThe answer to a \
                      call that was repeated after no answer is a second webhook; the list shows both.",
        parameters: Vec::new,
        request: Some(Body::Json("WebhookRequest", examples::webhooks::request)),
        response: Body::Json("RegisteredWebhook", examples::webhooks::registered),
        no_content: None,
        headers: &[],
        errors: &[
            OWNERS,
            &[Code::INVALID_REQUEST, Code::PAYMENT_NOT_FOUND, Code::TOO_MANY_WEBHOOKS, Code::REQUEST_TOO_LARGE],
            READ,
        ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/webhooks",
        id: "listWebhooks",
        tag: WEBHOOKS,
        summary: "List one's own webhooks",
        description: "The webhooks of the session's owner.",
        parameters: Vec::new,
        request: None,
        response: Body::Json("Webhooks", examples::webhooks::list),
        no_content: None,
        headers: &[],
        errors: &[OWNERS, READ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/webhooks/keys",
        id: "listWebhookKeys",
        tag: WEBHOOKS,
        summary: "List the keys of messages",
        description: "The public keys that receivers verify messages with. Anybody may ask; who verifies by them should do so \
                      over TLS, and again when no signature holds any more.",
        parameters: Vec::new,
        request: None,
        response: Body::Json("WebhookKeys", examples::webhooks::keys),
        no_content: None,
        headers: &[],
        errors: &[&[Code::WEBHOOKS_NOT_SERVED], READ],
    },
    Operation {
        method: Method::GET,
        path: "/v1/webhooks/{webhookId}",
        id: "readWebhook",
        tag: WEBHOOKS,
        summary: "Read how a webhook stands",
        description: "A webhook of the session's owner: what waits for its endpoint, what that answered last, and which messages \
                      were given up.",
        parameters: || vec![webhook_id()],
        request: None,
        response: Body::Json("Webhook", examples::webhooks::webhook),
        no_content: None,
        headers: &[],
        errors: &[OWNERS, &[Code::WEBHOOK_NOT_FOUND], READ],
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/webhooks/{webhookId}",
        id: "deleteWebhook",
        tag: WEBHOOKS,
        summary: "Delete a webhook",
        description: "What waits for it is not delivered any more. A call that is under way may still come.",
        parameters: || vec![webhook_id()],
        request: None,
        response: Body::Json("DeletedWebhook", examples::webhooks::deleted),
        no_content: None,
        headers: &[],
        errors: &[OWNERS, &[Code::WEBHOOK_NOT_FOUND], READ],
    },
    Operation {
        method: Method::POST,
        path: "/v1/webhooks/{webhookId}/redeliver",
        id: "redeliverWebhook",
        tag: WEBHOOKS,
        summary: "Deliver messages again",
        description: "Puts messages into the webhook's queue again, with the `webhook-id`s that they had, and enables a webhook \
                      that is disabled. At most 100 at a time.",
        parameters: || vec![webhook_id()],
        request: Some(Body::Json("WebhookRedeliveryRequest", examples::webhooks::redelivery)),
        response: Body::Json("WebhookRedelivery", examples::webhooks::redelivered),
        no_content: None,
        headers: &[],
        errors: &[OWNERS, &[Code::INVALID_REQUEST, Code::WEBHOOK_NOT_FOUND, Code::REQUEST_TOO_LARGE], READ],
    },
    settlers::LIST,
    settlers::SHOW,
    Operation {
        method: Method::GET,
        path: "/v1/defaults",
        id: "readDefaults",
        tag: CORRIDORS,
        summary: "Read what is served, and with which contracts",
        description: "Per chain what a request gets that names nothing else; the members bear the names of the request \
                      fields they stand in for. With `chain_id` that one chain's object alone.",
        parameters: || {
            let schema = json!({"type": "string", "pattern": CHAIN_ID_PATTERN});
            vec![query("chain_id", false, schema, "CAIP-2 id of the one chain that is asked for.")]
        },
        request: None,
        response: Body::OneOf(&["Defaults", "ChainDefaults"], examples::defaults),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INVALID_REQUEST, Code::CHAIN_NOT_SUPPORTED, Code::INTERNAL_ERROR]],
    },
    x402::SUPPORTED,
    x402::VERIFY,
    x402::SETTLE,
    x402::OFFERS,
    Operation {
        method: Method::GET,
        path: "/healthz",
        id: "checkLiveness",
        tag: OPERATION,
        summary: "Whether the process lives",
        description: "Answers as long as the process does.",
        parameters: Vec::new,
        request: None,
        response: Body::Json("Health", examples::live),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INTERNAL_ERROR]],
    },
    Operation {
        method: Method::GET,
        path: "/readyz",
        id: "checkReadiness",
        tag: OPERATION,
        summary: "Whether the gateway can take payments",
        description: "NATS is connected and the read models are live. `chains` tells which chains new payments may go through: \
                      while one is not ready the answer stays 200, what goes through it is refused with 503 \
                      `CHAIN_UNAVAILABLE`, and all else goes on.",
        parameters: Vec::new,
        request: None,
        response: Body::Json("Health", examples::ready),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INTERNAL_ERROR, Code::NOT_READY]],
    },
    Operation {
        method: Method::GET,
        path: "/openapi.json",
        id: "readOpenApi",
        tag: OPERATION,
        summary: "This document",
        description: "The API as an OpenAPI 3.1 document.",
        parameters: Vec::new,
        request: None,
        response: Body::Object("application/json", "An OpenAPI document."),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INTERNAL_ERROR]],
    },
    Operation {
        method: Method::GET,
        path: "/asyncapi.json",
        id: "readAsyncApi",
        tag: OPERATION,
        summary: "The protocol of settlers and selectors",
        description: "What they and the gateway say to each other over NATS, as an AsyncAPI 3.0 document with the JSON Schema \
                      of every message.",
        parameters: Vec::new,
        request: None,
        response: Body::Object("application/json", "An AsyncAPI document."),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INTERNAL_ERROR]],
    },
    Operation {
        method: Method::GET,
        path: "/docs",
        id: "readDocumentation",
        tag: OPERATION,
        summary: "This document as a page",
        description: "One page that needs nothing from elsewhere.",
        parameters: Vec::new,
        request: None,
        response: Body::Text("text/html"),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INTERNAL_ERROR]],
    },
    Operation {
        method: Method::GET,
        path: "/docs/errors",
        id: "readErrorDocumentation",
        tag: OPERATION,
        summary: "Every error code, and what to do about it",
        description: "One page; each code is an anchor, which is where every `docs_url` leads.",
        parameters: Vec::new,
        request: None,
        response: Body::Text("text/html"),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INTERNAL_ERROR]],
    },
    Operation {
        method: Method::GET,
        path: "/docs/quote-hash",
        id: "readQuoteHashDocumentation",
        tag: OPERATION,
        summary: "How to recompute a quote's hash",
        description: "One page: from the bytes of a `fulfillment_quote` to the `quote_hash` on chain, with a worked example.",
        parameters: Vec::new,
        request: None,
        response: Body::Text("text/html"),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INTERNAL_ERROR]],
    },
    Operation {
        method: Method::GET,
        path: "/contexts",
        id: "listContexts",
        tag: OPERATION,
        summary: "Where the JSON-LD contexts are that signed documents name",
        description: "By the URL in a document's `@context`, the path under which this service has the context. What \
                      follows `/docs/quote-hash` loads contexts by it.",
        parameters: Vec::new,
        request: None,
        response: Body::Json("ContextIndex", || {
            let contexts = BUNDLED.iter().take(1).map(|context| (context.url, format!("/contexts/{}", context.path)));
            vec![("index", json!({"contexts": contexts.collect::<BTreeMap<_, _>>()}))]
        }),
        no_content: None,
        headers: &[],
        errors: &[&[Code::INTERNAL_ERROR]],
    },
    Operation {
        method: Method::GET,
        path: "/contexts/{vocabulary}/{version}",
        id: "readContext",
        tag: OPERATION,
        summary: "A JSON-LD context that signed documents name",
        description: "The bytes that every gateway has built in; `/contexts` is their index. What they say does not change \
                      under one name, so they may be kept for ever.",
        parameters: context_parameters,
        request: None,
        response: Body::Object("application/ld+json", "A JSON-LD context."),
        no_content: None,
        headers: &[],
        errors: &[&[Code::NOT_FOUND, Code::INTERNAL_ERROR]],
    },
];
