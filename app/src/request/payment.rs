//! The body of a submission (spec 2.1).

use serde_json::{Map, Value};

use super::{
    corridors::Corridors,
    fields::{Faults, Object},
    order::Order,
    sender_auth::SenderAuth,
};
use crate::{error::Error, request::envelope};

/// A submission in which every field keeps its rule. Signature, deadlines against the clock, and idempotency are
/// judged later.
#[derive(Debug, Clone, PartialEq)]
pub struct PaymentRequest {
    pub order: Order,
    pub sender_auth: SenderAuth,
}

impl PaymentRequest {
    /// Reads and checks a body.
    ///
    /// # Errors
    /// 400 with the fault that wins among all that were found.
    pub fn read(body: &Map<String, Value>, corridors: &Corridors) -> Result<Self, Error> {
        let (body, mut faults) = (Object::root(body), Faults::default());
        let order = Order::read(&body, corridors, &mut faults);
        envelope::check(&body, &mut faults);
        let sender_auth = SenderAuth::read(&body, &mut faults);
        if let (Some(order), Some(sender_auth)) = (&order, &sender_auth) {
            sender_auth.check_family(order.terms.source.family(), &mut faults);
        }
        faults.or(order.zip(sender_auth).map(|(order, sender_auth)| Self { order, sender_auth }))
    }
}
