//! The body of a quote-request (spec 2.12): what a payer asks for, without what would authorize spending on it.

use serde_json::{Map, Value};

use super::{
    corridors::Corridors,
    fields::{Faults, Object},
    order::Order,
};
use crate::{error::Error, request::envelope};

/// A quote-request in which every field keeps its rule. Deadlines against the clock, and idempotency, are judged later.
#[derive(Debug, Clone, PartialEq)]
pub struct QuoteRequest {
    pub order: Order,
    /// `quote_deadline` as it was written; it is echoed so (spec 2.12).
    pub quote_deadline_text: String,
    /// `fulfillment_deadline` as it was written.
    pub fulfillment_deadline_text: String,
}

impl QuoteRequest {
    /// Reads and checks a body.
    ///
    /// # Errors
    /// 400 with the fault that wins among all that were found.
    pub fn read(members: &Map<String, Value>, corridors: &Corridors) -> Result<Self, Error> {
        let (body, mut faults) = (Object::root(members), Faults::default());
        let order = Order::read(&body, corridors, &mut faults);
        envelope::check(&body, &mut faults);
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        let texts = text("quote_deadline").zip(text("fulfillment_deadline"));
        faults.or(order.zip(texts).map(|(order, (quote_deadline_text, fulfillment_deadline_text))| Self {
            order,
            quote_deadline_text,
            fulfillment_deadline_text,
        }))
    }
}
