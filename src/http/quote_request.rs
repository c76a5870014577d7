//! The body of a quote-request (spec 2.12): what a payer asks for, without what would authorize spending on it.
//!
//! A W3C Data Integrity proof over the request is not verified by this gateway yet. A body with a `proof` is refused,
//! because answering it as an unproven one would give it another originator, and so another idempotency key, than it
//! will have once proofs are verified. `@context` and `verifiableCredential` are checked for their shape and otherwise
//! ignored.

use serde_json::{Map, Value};

use super::{
    corridors::Corridors,
    credential,
    error::{ApiError, Code},
    fields::{self, Faults, Object},
    order::Order,
};

/// Most JSON-LD contexts and most credentials; the contract names no bound, and everything that comes from outside
/// needs one.
pub(super) const ENVELOPE_ITEMS_MAX: usize = 32;

/// A quote-request in which every field keeps its rule. Deadlines against the clock, and idempotency, are judged later.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QuoteRequest {
    pub(super) order: Order,
    /// `quote_deadline` as it was written; it is echoed so (spec 2.12).
    pub(super) quote_deadline_text: String,
    /// `fulfillment_deadline` as it was written.
    pub(super) fulfillment_deadline_text: String,
}

impl QuoteRequest {
    /// Reads and checks a body.
    ///
    /// # Errors
    /// 400 with the fault that wins among all that were found.
    pub(super) fn read(members: &Map<String, Value>, corridors: &Corridors) -> Result<Self, ApiError> {
        let (body, mut faults) = (Object::root(members), Faults::default());
        let order = Order::read(&body, corridors, &mut faults);
        envelope(&body, &mut faults);
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        let texts = text("quote_deadline").zip(text("fulfillment_deadline"));
        faults.or(order.zip(texts).map(|(order, (quote_deadline_text, fulfillment_deadline_text))| Self {
            order,
            quote_deadline_text,
            fulfillment_deadline_text,
        }))
    }
}

fn envelope(body: &Object<'_>, faults: &mut Faults) {
    for (i, context) in items(body, "@context", faults).iter().enumerate() {
        let _: Option<&str> = fields::read(&format!("@context[{i}]"), context, faults);
    }
    for (i, item) in items(body, "verifiableCredential", faults).iter().enumerate() {
        if let Some(credential) = fields::item_object(&format!("verifiableCredential[{i}]"), item, faults) {
            credential::check_credential(&credential, faults);
        }
    }
    if body.contains("proof") {
        let rule = "is not verified by this gateway; send the request without it";
        faults.add(Code::PROOF_NOT_SUPPORTED, "proof", rule);
    }
}

fn items<'a>(body: &Object<'a>, name: &str, faults: &mut Faults) -> &'a [Value] {
    let Some(items) = body.optional::<&Vec<Value>>(name, faults) else { return &[] };
    if items.len() > ENVELOPE_ITEMS_MAX {
        faults.invalid(name, format!("must have at most {ENVELOPE_ITEMS_MAX} items"));
    }
    items
}
