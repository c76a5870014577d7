//! The envelope of a request: `proof`, `@context` and `verifiableCredential` beside the members of the body (spec 2.12), and
//! what it proves together with the deprecated carriers (spec 2.5).
//!
//! The form is checked with the body and answered with 400; whether the proofs hold is a question of authentication, and
//! answered with 401.

use serde_json::Value;

use events::{Terms, time::Timestamp};
use identity::{Identities, Proven, Refusal};

use super::{
    body::JsonBody,
    credential,
    fields::{self, Faults, Object},
};
use crate::error::{Code, Error};

/// Most JSON-LD contexts; the contract names no bound, and everything that comes from outside needs one.
pub const CONTEXTS_MAX: usize = 32;
/// Most credentials.
pub const CREDENTIALS_MAX: usize = proofs::envelope::CREDENTIALS_MAX;

/// Notes every fault in the form of an envelope, and contexts that come without a proof: they say what the proof means, so
/// they would be dropped unread. An empty list is absence.
pub fn check(body: &Object<'_>, faults: &mut Faults) {
    check_form(body, faults);
    let is_given =
        |name: &str| body.optional::<&Vec<Value>>(name, &mut Faults::default()).is_some_and(|items| !items.is_empty());
    // Credentials without a proof are a question of authentication: it is not proven whose they are.
    if is_given("@context") && !is_given("verifiableCredential") && !body.has("proof") {
        faults.invalid("@context", "must not be given without a proof, whose envelope it is part of");
    }
}

/// Notes every fault in the form of an envelope, whose proof may be still to be made.
pub fn check_form(body: &Object<'_>, faults: &mut Faults) {
    for (i, context) in items(body, "@context", CONTEXTS_MAX, faults).iter().enumerate() {
        let _: Option<&str> = fields::read(&format!("@context[{i}]"), context, faults);
    }
    for (i, item) in items(body, "verifiableCredential", CREDENTIALS_MAX, faults).iter().enumerate() {
        if let Some(credential) = fields::item_object(&format!("verifiableCredential[{i}]"), item, faults) {
            credential::check_credential(&credential, faults);
        }
    }
    match body.optional::<&Value>("proof", faults) {
        None | Some(Value::Object(_)) => {}
        Some(Value::Array(items)) if items.iter().all(Value::is_object) => {}
        Some(_) => faults.invalid("proof", "must be an object, or an array of objects"),
    }
}

fn items<'a>(body: &Object<'a>, name: &str, most: usize, faults: &mut Faults) -> &'a [Value] {
    let Some(items) = body.optional::<&Vec<Value>>(name, faults) else { return &[] };
    if items.len() > most {
        faults.invalid(name, format!("must have at most {most} items"));
    }
    items
}

/// Verifies what a body whose form was checked claims about who asks.
///
/// # Errors
/// 401 `INVALID_PROOF`, or 503. Credentials that do not count are told by [`credentials_count`].
pub async fn prove(body: &JsonBody, identities: &Identities, base_url: &str, now: Timestamp) -> Result<Proven, Error> {
    identities.of_request(&body.text, &body.members, base_url, now).await.map_err(answer)
}

/// Whether the credentials of something new count.
///
/// # Errors
/// 401 `INVALID_CREDENTIAL`, or 503.
pub fn credentials_count(proven: &Proven) -> Result<(), Error> {
    proven.credentials_count().map_err(answer)
}

/// The answer to a claim that is not believed.
pub(crate) fn answer(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Proof(reason) => Error::new(Code::INVALID_PROOF, reason),
        Refusal::Credential(reason) => Error::new(Code::INVALID_CREDENTIAL, reason),
        Refusal::Unavailable(reason) => {
            tracing::warn!(reason, "an identity cannot be verified for now");
            Code::SERVICE_UNAVAILABLE.into()
        }
    }
}

/// Who asks (design: identity and idempotency): the proven DID, else the source account.
pub fn originator(proven: &Proven, terms: &Terms) -> String {
    proven.originator().map_or_else(|| terms.source.account().originator(), ToString::to_string)
}
