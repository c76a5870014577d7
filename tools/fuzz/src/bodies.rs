//! Bodies of the HTTP API.

use std::sync::LazyLock;

use app::{
    error::Error,
    request::{
        award::AwardRequest, body::JsonBody, corridors::Corridors, payment::PaymentRequest, quote_request::QuoteRequest,
    },
    x402,
};
use config::{GatewayConfig, examples::with_tron};
use events::{payload::Payload, time::from_unix_seconds};

/// A gateway of the example with a chain of every family.
static CORRIDORS: LazyLock<Corridors> = LazyLock::new(|| Corridors::new(&example()));

/// The configuration of the example with a chain of every family.
pub fn example() -> GatewayConfig {
    let text = with_tron(include_str!("../../../config/gateway.example.toml"));
    let solana = "[verifier]\nsolana_account = \"8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe\"";
    let text = text.replacen("[verifier]", solana, 1);
    let text = format!("{text}{}", config::examples::solana_section(&text));
    match crate::files::load(&text) {
        Ok(config) => config,
        Err(error) => panic!("the example is refused: {error}"),
    }
}

/// What a refusal of a body has: a status that blames the client, or x402's 200 with a reason, and words that say where.
fn refused(error: &Error) {
    assert!(!error.status().is_server_error(), "{error:?}");
    assert!(!error.message().is_empty() && error.message().len() < 4_096, "{error:?}");
}

fn body(bytes: &[u8]) -> Option<JsonBody> {
    match JsonBody::parse(bytes.to_vec()) {
        Ok(body) => Some(body),
        Err(error) => {
            refused(&error);
            None
        }
    }
}

/// The same body in another spelling, in the order of its keys.
fn respelled(body: &JsonBody) -> JsonBody {
    let text = format!("{:#}", serde_json::Value::Object(body.members.clone()));
    match JsonBody::parse(text.into_bytes()) {
        Ok(body) => body,
        Err(error) => panic!("another spelling is refused: {error:?}"),
    }
}

/// A submission.
pub fn payment_requests(bytes: &[u8]) {
    let Some(body) = body(bytes) else { return };
    let read = PaymentRequest::read(&body.members, &CORRIDORS);
    let again = PaymentRequest::read(&respelled(&body).members, &CORRIDORS);
    match (read, again) {
        (Ok(read), Ok(again)) => {
            assert_eq!(read, again, "another spelling says something else");
            assert_eq!(read.order.terms.hash(), again.order.terms.hash());
            // What settlers are shown of a request is what was accepted.
            let shown = Payload::of_request(&body.text);
            let stated = read.sender_auth.signed_messages.iter().filter(|message| message.payload.is_some()).count();
            assert_eq!(shown.len(), stated, "payloads that are accepted are shown");
            assert!(read.order.quote_deadline < read.order.fulfillment_deadline);
        }
        (Err(error), Err(again)) => {
            refused(&error);
            assert_eq!((error.status(), error.message()), (again.status(), again.message()), "the fault that wins");
        }
        (read, again) => panic!("one spelling is taken and another is not: {read:?} {again:?}"),
    }
}

/// A quote-request and an award.
pub fn quote_requests(bytes: &[u8]) {
    let Some(body) = body(bytes) else { return };
    match QuoteRequest::read(&body.members, &CORRIDORS) {
        Ok(read) => assert_eq!(QuoteRequest::read(&respelled(&body).members, &CORRIDORS).ok(), Some(read)),
        Err(error) => refused(&error),
    }
    match AwardRequest::read(&body.members) {
        Ok(read) => assert_eq!(AwardRequest::read(&respelled(&body).members).ok(), Some(read)),
        Err(error) => refused(&error),
    }
}

/// A call of x402, with the payment request inside.
pub fn x402_calls(bytes: &[u8]) {
    let Some(body) = body(bytes) else { return };
    // In the life of what the corpus has signed.
    match x402::Call::read(&body, from_unix_seconds(1_800_000_000).unwrap_or_default()) {
        Ok(call) => {
            let inner = JsonBody::parse(call.request.text.clone().into_bytes());
            assert_eq!(inner.ok().map(|inner| inner.members), Some(call.request.members.clone()), "text and members");
            if let Err(error) = PaymentRequest::read(&call.request.members, &CORRIDORS) {
                refused(&error);
            }
        }
        Err(error) => refused(&error),
    }
}
