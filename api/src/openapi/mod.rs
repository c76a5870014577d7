//! `GET /openapi.json`: the API as an OpenAPI 3.1 document, made from the table of operations, the table of errors and the
//! schemas beside the limits they state.

mod examples;
mod operation;
mod operations;
mod parameters;
mod schemas;
mod settlers;
mod x402;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use app::error::Code;

pub use self::operations::OPERATIONS;

/// The document as the file that is in the repository, `protocol/openapi.json`, for whoever makes a client of it without a
/// gateway at hand: that of a service at an address that is not one (ADR 118).
pub fn file() -> String {
    // The alternate form of a value is its indented text.
    format!("{:#}\n", document(examples::BASE_URL))
}

/// The document for a service that is reached at `base_url`.
pub fn document(base_url: &str) -> Value {
    let answered_with = |code: &Code| {
        let status = code.status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        operation::error_response(status, &[code], base_url)
    };
    let mut document = json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Cross-chain payment gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "A payer signs once and asks for an exact amount on another chain, capped at the source.",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "externalDocs": {
            "url": format!("{base_url}/docs/errors"),
            "description": "Every error, and what to do about it.",
        },
        "tags": operations::TAGS.map(|(name, description)| json!({"name": name, "description": description})),
        "paths": paths(base_url),
        "components": {
            "schemas": schemas::all(),
            "parameters": {"RequestId": request_id_parameter()},
            "headers": headers(),
            "securitySchemes": {operation::SESSION: {
                "type": "http",
                "scheme": "bearer",
                "description": "The token of `POST /v1/sessions`. It goes into this header and nowhere else.",
            }},
            "responses": {
                "UnknownPath": answered_with(Code::NOT_FOUND),
                "UnknownMethod": answered_with(Code::METHOD_NOT_ALLOWED),
            },
        },
        // No operation of the contract needs an authorization header (spec 5); those that are for owners alone say so.
        "security": [],
    });
    widen(&mut document);
    document
}

/// Says of every integer that it has 64 bits: generators take 32 where nothing is said, and times in milliseconds, blocks and
/// budgets have more. A constant is left as it is: OpenAPI Generator would write one of 64 bits as a text.
fn widen(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.get("type").is_some_and(|kind| kind == "integer") && !members.contains_key("const") {
                members.entry("format").or_insert_with(|| "int64".into());
            }
            let schemas = members.iter_mut().filter(|(name, _)| !matches!(name.as_str(), "example" | "examples"));
            schemas.for_each(|(_, value)| widen(value));
        }
        Value::Array(items) => items.iter_mut().for_each(widen),
        _ => {}
    }
}

const DESCRIPTION: &str = "\
No key or token is needed to pay: a payment carries its own authorization, the payer's signature. The list of one's own \
payments asks for a session, which the same key opens.\n\n\
Writes are idempotent by `request_id`. After no answer, a 500 or a 503, send the same `request_id` again: it can never \
start a second payment. Every write says by `idempotent_replay` whether it created something.\n\n\
Each address has budgets for reads, for writes and for what nobody signed, and each account or DID that proved itself one \
for what is accepted; `RateLimit` tells what is left. What is above is answered with 429 `RATE_LIMITED` and `Retry-After`; \
repeating it then is safe. A replay of what was accepted costs a write and nothing else.\n\n\
Errors are an ErrorResponse; branch on its `code`. Members that are not known are ignored in requests and may be added \
to responses; an explicit `null` is refused.";

fn paths(base_url: &str) -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let item = paths.entry(operation.path).or_insert_with(|| json!({}));
        item[operation.method.as_str().to_ascii_lowercase()] = operation.object(base_url);
    }
    Value::Object(paths)
}

fn request_id_parameter() -> Value {
    json!({
        "name": "X-Request-Id",
        "in": "header",
        "required": false,
        "description": "Correlation id of your own; up to 128 letters, digits, `_`, `-`, `.` and `:`. Another value is \
                        replaced by one of the gateway's.",
        "schema": {"type": "string"},
    })
}

fn headers() -> Value {
    let text = |required: bool, description: &str| {
        let schema = json!({"type": "string"});
        json!({"required": required, "description": description, "schema": schema})
    };
    json!({
        "RequestId": text(true, "Correlation id of the request, yours or the gateway's; quote it to support."),
        "Deprecation": {
            "required": false,
            "description": "There when the request used a deprecated member: when it was deprecated, `@` and UNIX \
                            seconds (RFC 9745).",
            "schema": {"type": "string", "pattern": "^@[0-9]+$"},
        },
        "PAYMENT-RESPONSE": text(true, "Base64 of the body."),
        "X-Position": {
            "required": true,
            "description": "How much of the payment the answer was made from. Sent back with a later read of the payment it \
                            makes sure that no less is shown, whichever gateway is asked.",
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        },
        "RateLimitPolicy": text(
            false,
            "The budgets that this call took from: `q` units at most, which come back within `w` seconds. `reads`, `writes` \
             and `unsigned` are those of the caller's address, `accepted` is that of the account or DID that proved itself \
             (draft-ietf-httpapi-ratelimit-headers). Absent where the caller is not limited.",
        ),
        "RateLimit": text(false, "What is left of them: `r` units, and `t` seconds until all are back or the call can be repeated."),
        "RetryAfter": {
            "required": true,
            "description": "Seconds to wait before the same request is sent again.",
            "schema": {"type": "integer", "minimum": 1},
        },
    })
}
