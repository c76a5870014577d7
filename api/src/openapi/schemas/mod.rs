//! Every schema of the document, by name. Those of response bodies come from the types. Those of requests are written here,
//! because they carry rules that no type has; the limits in them are the constants that the validators use.

mod mandates;
mod payment_batches;
mod quote_requests;
mod rehearsals;
mod requests;
mod responses;
mod sessions;
mod webhooks;
mod x402;

use serde_json::{Map, Value, json};

/// A version of the contract (spec 2.1).
const VERSION_PATTERN: &str = r"^1\.[0-9]+$";
/// A canonical decimal above zero (design: readings of the contract).
const AMOUNT_PATTERN: &str = "^[1-9][0-9]*$";
/// Digits of the widest amount, 256 bits.
const AMOUNT_DIGITS_MAX: usize = 78;
/// A settler's DID (spec 2.1).
const DID_PATTERN: &str = "^did:[a-z][a-z0-9]*:[a-zA-Z0-9._:%-]+$";
/// Hex with its prefix, whole bytes (spec 2.4).
const HEX_PATTERN: &str = "^0x([0-9a-fA-F]{2})+$";
/// Hex with or without its prefix, as Tron writes it (spec 2.4).
const BARE_HEX_PATTERN: &str = "^(0x)?([0-9a-fA-F]{2})+$";

/// The schemas under `components`.
pub(super) fn all() -> Map<String, Value> {
    let mut schemas = responses::schemas();
    let requests = [
        requests::schemas(),
        quote_requests::schemas(),
        rehearsals::schemas(),
        payment_batches::schemas(),
        mandates::schemas(),
        sessions::schemas(),
        webhooks::schemas(),
        x402::schemas(),
    ];
    schemas.extend(requests.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema)));
    schemas
}

/// A reference to the schema `name`.
pub(super) fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A reference with words of its own.
fn described(name: &str, description: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}"), "description": description})
}

/// An object with these members, of which `required` are always there.
fn object(description: &str, required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "description": description, "required": required, "properties": properties})
}

/// A text.
fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// A text of this form.
fn matching(pattern: &str, description: &str) -> Value {
    json!({"type": "string", "pattern": pattern, "description": description})
}

/// A count or a height.
fn whole(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

/// An object whose members are nobody's business here.
fn free_form(description: &str) -> Value {
    json!({"type": "object", "description": description})
}
