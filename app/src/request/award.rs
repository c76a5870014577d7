//! The body of an award: which quote of a batch the payer takes, and what authorizes the spend (design: HTTP). Corridor
//! and deadlines are the batch's.

use serde_json::{Map, Value};

use super::{
    credential,
    fields::{Faults, Object},
    order,
    sender_auth::SenderAuth,
};
use crate::{error::Error, request::envelope};

/// Longest `quote_id` that is looked for.
pub const QUOTE_ID_CHARS_MAX: usize = 128;

/// An award in which every field keeps its rule.
#[derive(Debug, Clone, PartialEq)]
pub struct AwardRequest {
    /// Idempotency key of the payment, in the key space of payments.
    pub request_id: String,
    /// The quote that is taken.
    pub quote_id: String,
    pub sender_auth: SenderAuth,
}

impl AwardRequest {
    /// Reads and checks a body.
    ///
    /// # Errors
    /// 400 with the fault that wins among all that were found.
    pub fn read(body: &Map<String, Value>) -> Result<Self, Error> {
        let (body, mut faults) = (Object::root(body), Faults::default());
        order::version(&body, &mut faults);
        let request_id = order::request_id(&body, &mut faults);
        let quote_id = body.required("quote_id", &mut faults).filter(|text: &&str| {
            let good = (1..=QUOTE_ID_CHARS_MAX).contains(&text.len());
            if !good {
                faults.invalid("quote_id", format!("must have 1 to {QUOTE_ID_CHARS_MAX} characters"));
            }
            good
        });
        if let Some(auth) = body.optional_object("originator_auth", &mut faults) {
            credential::check(&auth, &mut faults);
        }
        envelope::check(&body, &mut faults);
        let sender_auth = SenderAuth::read(&body, &mut faults);
        let read = request_id.zip(quote_id).zip(sender_auth);
        faults.or(read.map(|((request_id, quote_id), sender_auth)| Self {
            request_id: request_id.to_owned(),
            quote_id: quote_id.to_owned(),
            sender_auth,
        }))
    }
}
