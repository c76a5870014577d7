//! The message of a verify or settle call (spec 2.14), read up to what it says about the payment.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use events::{Account, Hash32, time::Timestamp};

use super::{
    IDENTIFIER_CHARS_MAX, IDENTIFIER_CHARS_MIN, PAYMENT_IDENTIFIER, VERSION, exact,
    requirement::{Requirement, Scheme},
};
use crate::{
    error::{Code, Error},
    request::{
        body::JsonBody,
        fields::{Faults, Object},
    },
};

/// A verify or settle call of the right form.
#[derive(Debug)]
pub struct Call {
    /// The payment request in the payload, as it came; of the scheme `exact` the one that the payload comes to.
    pub request: JsonBody,
    /// Who pays, where the request's source is the merchant's account.
    buyer: Option<Account>,
    pub(super) message: Message,
}

/// What a call says besides.
#[derive(Debug)]
pub(super) struct Message {
    /// What the merchant asked for.
    pub(super) requirement: Requirement,
    /// The payment identifier, where there is one.
    pub(super) identifier: Option<String>,
    /// Tells this payload from another under the same identifier.
    pub(super) fingerprint: Hash32,
    accepted: Map<String, Value>,
    requirements: Map<String, Value>,
}

/// The way to the payment request, whose text is kept as it came: a proof in it is over that.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outer<'a> {
    #[serde(borrow)]
    payment_payload: Middle<'a>,
}

#[derive(Deserialize)]
struct Middle<'a> {
    #[serde(borrow)]
    payload: Inner<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inner<'a> {
    #[serde(borrow)]
    payment_request: &'a RawValue,
}

impl Call {
    /// Who pays, where the request's source is the merchant's account.
    pub fn buyer(&self) -> Option<&Account> {
        self.buyer.as_ref()
    }

    /// Reads a body that came at `now`.
    ///
    /// # Errors
    /// What is wrong with its form.
    pub fn read(body: &JsonBody, now: Timestamp) -> Result<Self, Error> {
        let root = Object::root(&body.members);
        version(&root)?;
        let mut faults = Faults::default();
        let payload = root.required_object("paymentPayload", &mut faults);
        let requirements: Option<&Map<String, Value>> = root.required("paymentRequirements", &mut faults);
        let (payload, requirements) = faults.or(payload.zip(requirements))?;
        version(&payload)?;
        let mut faults = Faults::default();
        let accepted: Option<&Map<String, Value>> = payload.required("accepted", &mut faults);
        let whole: Option<&Map<String, Value>> = payload.required("payload", &mut faults);
        let (accepted, whole) = faults.or(accepted.zip(whole))?;
        let inner = Object::at(&payload.path("payload"), whole);
        let requirement = Requirement::read(requirements)?;
        let (request, buyer, bound) = match &requirement.scheme {
            Scheme::Exact(offer) => {
                let (request, buyer) = exact::request(&requirement, offer, &inner, now)?;
                (request, buyer, json!({"accepted": accepted, "payload": whole}))
            }
            Scheme::GwEscrow | Scheme::Other => {
                let mut faults = Faults::default();
                let request: Option<&Map<String, Value>> = inner.required("paymentRequest", &mut faults);
                let request = faults.or(request)?;
                // The path was just walked, so the text has it.
                let outer: Outer<'_> = serde_json::from_str(&body.text).map_err(|_| Code::INVALID_REQUEST)?;
                let text = outer.payment_payload.payload.payment_request.get().to_owned();
                let bound = json!({"accepted": accepted, "paymentRequest": request});
                (JsonBody { text, members: request.clone() }, None, bound)
            }
        };
        let identifier = identifier(&payload)?;
        // What was read from JSON has an RFC 8785 form.
        let canonical = serde_json_canonicalizer::to_vec(&bound).map_err(|_| Code::INVALID_REQUEST)?;
        let message = Message {
            requirement,
            identifier,
            fingerprint: Hash32::sha256(canonical),
            accepted: accepted.clone(),
            requirements: requirements.clone(),
        };
        Ok(Self { request, buyer, message })
    }
}

impl Message {
    /// Whether it is of a stock client.
    pub(super) fn is_exact(&self) -> bool {
        matches!(self.requirement.scheme, Scheme::Exact(_))
    }

    /// Whether what the payer accepted is what the merchant asks for; `extra` may hold more. What a server writes anew into each requirement
    /// for its clients' convenience may differ.
    ///
    /// # Errors
    /// `PAYMENT_REQUIREMENTS_MISMATCH` naming the member.
    pub(super) fn check_accepted(&self) -> Result<(), Error> {
        let differs = |name: &str| {
            let message = format!("paymentPayload.accepted.{name}: differs from paymentRequirements.{name}");
            Error::new(Code::PAYMENT_REQUIREMENTS_MISMATCH, message)
        };
        for (name, value) in &self.requirements {
            let accepted = self.accepted.get(name);
            let same = match name.as_str() {
                "extra" => accepted.is_some_and(|accepted| contains(accepted, &lasting(value))),
                _ => accepted == Some(value),
            };
            if !same {
                return Err(differs(plain(name)));
            }
        }
        match self.accepted.keys().find(|name| !self.requirements.contains_key(*name)) {
            Some(name) => Err(differs(plain(name))),
            None => Ok(()),
        }
    }
}

/// Members of `extra` that servers of `exact` on Solana write anew into each requirement (`@x402/svm`).
const DYNAMIC: [&str; 2] = ["recentBlockhash", "lastValidBlockHeight"];

/// What of `extra` is the same each time.
fn lasting(extra: &Value) -> Cow<'_, Value> {
    match extra {
        Value::Object(members) if DYNAMIC.iter().any(|name| members.contains_key(*name)) => {
            let lasting = members.iter().filter(|(name, _)| !DYNAMIC.contains(&name.as_str()));
            Cow::Owned(lasting.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        extra => Cow::Borrowed(extra),
    }
}

/// A member's name as it may stand in a message.
fn plain(name: &str) -> &str {
    let is_plain = (1..=64).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric());
    if is_plain { name } else { "*" }
}

/// Whether `whole` has everything that `part` has.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| contains(whole, part)))
        }
        (whole, part) => whole == part,
    }
}

fn version(object: &Object<'_>) -> Result<(), Error> {
    let mut faults = Faults::default();
    let version: Option<u64> = object.required("x402Version", &mut faults);
    match faults.or(version) {
        Ok(VERSION) => Ok(()),
        Ok(_) => Err(Error::new(Code::INVALID_X402_VERSION, format!("{}: must be 2", object.path("x402Version")))),
        Err(fault) => Err(Error::new(Code::INVALID_X402_VERSION, fault.message())),
    }
}

/// The payment identifier, where the payload carries one.
fn identifier(payload: &Object<'_>) -> Result<Option<String>, Error> {
    let invalid = |message: String| Err(Error::new(Code::INVALID_PAYMENT_IDENTIFIER, message));
    let mut faults = Faults::default();
    let extensions = payload.optional_object("extensions", &mut faults);
    let extension = extensions.and_then(|extensions| extensions.optional_object(PAYMENT_IDENTIFIER, &mut faults));
    let info = extension.and_then(|extension| extension.required_object("info", &mut faults));
    let Some(info) = info else {
        return match faults.answer() {
            Some(fault) => invalid(fault.message()),
            None => Ok(None),
        };
    };
    let required: Option<bool> = info.required("required", &mut faults);
    let id: Option<&str> = info.optional("id", &mut faults);
    if let Some(fault) = faults.answer() {
        return invalid(fault.message());
    }
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    match id {
        Some(id) if (IDENTIFIER_CHARS_MIN..=IDENTIFIER_CHARS_MAX).contains(&id.len()) && id.bytes().all(legal) => {
            Ok(Some(id.to_owned()))
        }
        Some(_) => invalid(format!(
            "{}: must have {IDENTIFIER_CHARS_MIN} to {IDENTIFIER_CHARS_MAX} characters out of letters, digits, _ -",
            info.path("id")
        )),
        None if required == Some(true) => {
            let message = format!("{}: is required by the merchant", info.path("id"));
            Err(Error::new(Code::PAYMENT_IDENTIFIER_REQUIRED, message))
        }
        None => Ok(None),
    }
}
