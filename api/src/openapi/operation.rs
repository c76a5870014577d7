//! One operation: what the document says about a route.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use app::error::{Code, docs_url};

use super::{schemas::schema, x402};

/// The security scheme of what is for owners of payments alone.
pub(super) const SESSION: &str = "session";

/// One operation of the API. Method and path are those of the route table.
pub struct Operation {
    /// Method.
    pub method: Method,
    /// Path as the route table writes it.
    pub path: &'static str,
    /// `operationId`.
    pub(super) id: &'static str,
    /// Section of the document.
    pub(super) tag: &'static str,
    /// One line.
    pub(super) summary: &'static str,
    /// What there is to know.
    pub(super) description: &'static str,
    /// Parameters besides the `X-Request-Id` that every operation takes.
    pub(super) parameters: fn() -> Vec<Value>,
    /// The body that has to be sent.
    pub(super) request: Option<Body>,
    /// The body of a 200.
    pub(super) response: Body,
    /// When it answers with 204 instead.
    pub(super) no_content: Option<&'static str>,
    /// Headers of a 200 besides those of every response.
    pub(super) headers: &'static [&'static str],
    /// Every error it answers with, in groups.
    pub(super) errors: &'static [&'static [&'static Code]],
}

/// A body, with examples by name.
pub(super) enum Body {
    /// JSON of this schema.
    Json(&'static str, fn() -> Vec<(&'static str, Value)>),
    /// JSON of exactly one of these schemas.
    OneOf(&'static [&'static str], fn() -> Vec<(&'static str, Value)>),
    /// JSON of this schema, or a page for browsers.
    JsonOrPage(&'static str, fn() -> Vec<(&'static str, Value)>),
    /// JSON of this schema, or a table: CSV, or JSON lines.
    JsonOrTable(&'static str, fn() -> Vec<(&'static str, Value)>),
    /// Any JSON object, of this media type.
    Object(&'static str, &'static str),
    /// A stream of server-sent events, whose form is not one of JSON Schema's.
    Events,
    /// Another media type, as text.
    Text(&'static str),
}

impl Body {
    fn content(&self) -> Value {
        let examples = |examples: &fn() -> Vec<(&'static str, Value)>| -> Map<String, Value> {
            examples().into_iter().map(|(name, value)| (name.to_owned(), json!({"value": value}))).collect()
        };
        match self {
            Self::Json(name, values) => json!({
                "application/json": {"schema": schema(name), "examples": examples(values)},
            }),
            Self::JsonOrPage(name, values) => json!({
                "application/json": {"schema": schema(name), "examples": examples(values)},
                "text/html": {"schema": {"type": "string"}},
            }),
            Self::JsonOrTable(name, values) => json!({
                "application/json": {"schema": schema(name), "examples": examples(values)},
                "text/csv": {"schema": {"type": "string"}},
                "application/x-ndjson": {"schema": {"type": "string"}},
            }),
            Self::OneOf(names, values) => {
                let schemas: Vec<Value> = names.iter().map(|name| schema(name)).collect();
                json!({"application/json": {"schema": {"oneOf": schemas}, "examples": examples(values)}})
            }
            Self::Object(media_type, description) => json!({
                *media_type: {"schema": {"type": "object", "description": description}},
            }),
            Self::Events => json!({"text/event-stream": {"example": super::examples::EVENTS}}),
            Self::Text(media_type) => json!({*media_type: {"schema": {"type": "string"}}}),
        }
    }
}

impl Operation {
    /// The operation object of OpenAPI.
    pub(super) fn object(&self, base_url: &str) -> Value {
        let mut parameters = (self.parameters)();
        parameters.push(json!({"$ref": "#/components/parameters/RequestId"}));
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description,
            "parameters": parameters,
            "responses": self.responses(base_url),
        });
        if let Some(body) = &self.request {
            operation["requestBody"] = json!({"required": true, "content": body.content()});
        }
        if self.codes().any(|code| code == Code::INVALID_TOKEN) {
            operation["security"] = json!([{SESSION: []}]);
        }
        operation
    }

    /// Every error it answers with, once each, though groups have some in common; whoever calls can call too often.
    fn codes(&self) -> impl Iterator<Item = &'static Code> {
        let mut seen = BTreeSet::new();
        let codes = self.errors.iter().copied().flatten().copied().chain([Code::RATE_LIMITED]);
        codes.filter(move |code| seen.insert(code.code))
    }

    fn responses(&self, base_url: &str) -> Value {
        let mut headers = every_response();
        for name in self.headers {
            headers[*name] = header(name);
        }
        let mut responses = Map::new();
        let mut ok = json!({"description": "Success.", "headers": headers, "content": self.response.content()});
        if let Body::Json(name, _) = &self.response
            && let Some(links) = links(name)
        {
            ok["links"] = links;
        }
        responses.insert("200".to_owned(), ok);
        if let Some(description) = self.no_content {
            let headers = every_response();
            responses.insert("204".to_owned(), json!({"description": description, "headers": headers}));
        }
        let mut statuses: Vec<StatusCode> = self.codes().filter_map(|code| code.status).collect();
        statuses.sort_unstable();
        statuses.dedup();
        for status in statuses {
            let codes = self.codes().filter(|code| code.status == Some(status)).collect::<Vec<_>>();
            let response = match self.response {
                Body::Json(own, _) if x402::answers_so(own) => x402::error_response(own, status, &codes, base_url),
                _ => error_response(status, &codes, base_url),
            };
            responses.insert(status.as_str().to_owned(), response);
        }
        Value::Object(responses)
    }
}

/// Where the id in an answer leads.
fn links(answer: &str) -> Option<Value> {
    let (member, parameter, operations): (&str, &str, &[&str]) = match answer {
        "PaymentResponse" => {
            ("payment_id", "paymentId", &["readPaymentStatus", "readPaymentTimeline", "followPayment"])
        }
        "QuoteRequestResponse" => ("quote_request_id", "quoteRequestId", &["readQuoteRequest", "awardQuote"]),
        _ => return None,
    };
    let link = |operation: &&str| {
        let value = format!("$response.body#/{member}");
        ((*operation).to_owned(), json!({"operationId": operation, "parameters": {parameter: value}}))
    };
    Some(operations.iter().map(link).collect::<Map<_, _>>().into())
}

/// The headers of every response.
pub(super) fn every_response() -> Value {
    json!({
        "X-Request-Id": header("RequestId"),
        "RateLimit-Policy": header("RateLimitPolicy"),
        "RateLimit": header("RateLimit"),
    })
}

/// The headers of an answer with this status.
pub(super) fn of_error(status: StatusCode) -> Value {
    let mut headers = every_response();
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        headers["Retry-After"] = header("RetryAfter");
    }
    headers
}

/// A reference to the header `name`.
pub(super) fn header(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}

/// The answer with one of `codes`, all of one status.
pub(super) fn error_response(status: StatusCode, codes: &[&Code], base_url: &str) -> Value {
    let names: Vec<&str> = codes.iter().map(|code| code.code).collect();
    let codes_schema = json!({"type": "string", "enum": names});
    let description: Vec<String> = codes.iter().map(|code| format!("`{}`: {}", code.code, code.message)).collect();
    let examples: Map<String, Value> =
        codes.iter().map(|code| (code.code.to_owned(), json!({"value": example(code, base_url)}))).collect();
    json!({
        "description": description.join("\n\n"),
        "headers": of_error(status),
        "content": {"application/json": {
            "schema": {"allOf": [schema("ErrorResponse"), {"type": "object", "properties": {"code": codes_schema}}]},
            "examples": examples,
        }},
    })
}

fn example(code: &Code, base_url: &str) -> Value {
    let mut body = json!({
        "code": code.code,
        "message": code.message,
        "request_id": "req_5f2b8c0d9e7a4613",
        "docs_url": docs_url(base_url, code.code),
        "domain": code.domain,
        "retry_classification": code.retry_classification,
    });
    if let Some(reusable) = code.request_id_reusable {
        body["request_id_reusable"] = reusable.into();
    }
    body
}
