//! Every schema of the document, by name. The limits in them are the constants that the validators use.

mod errors;
mod payments;
mod quote_requests;
mod reads;
mod rehearsals;
mod requests;
mod x402;

use serde_json::{Map, Value, json};

/// A version of the contract (spec 2.1).
const VERSION_PATTERN: &str = r"^1\.[0-9]+$";
/// A CAIP-2 chain id (spec 2.7).
pub(super) const CHAIN_ID_PATTERN: &str = "^[a-z0-9]+:[a-zA-Z0-9_-]+$";
/// A CAIP-19 asset (spec 2.2).
const ASSET_PATTERN: &str = r"^[a-z0-9]+:[a-zA-Z0-9_-]+/[a-z0-9-]{3,8}:[-.%a-zA-Z0-9]{1,128}(/[-.%a-zA-Z0-9]{1,78})?$";
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
/// A transaction's hash (spec 2.7).
const TRANSACTION_HASH_PATTERN: &str = "^(0x[a-fA-F0-9]{64}|[1-9A-HJ-NP-Za-km-z]{32,88})$";
/// A contract's address (spec 2.9).
const CONTRACT_PATTERN: &str = "^(0x[a-fA-F0-9]{40}|[1-9A-HJ-NP-Za-km-z]{32,44})$";
/// An error code (spec 2.10).
const CODE_PATTERN: &str = "^[A-Z][A-Z0-9_]*$";
/// An id that the gateway derives (design: identity and idempotency).
pub(super) const PAYMENT_ID_PATTERN: &str = "^pay_[a-z2-7]{52}$";
/// The same for a batch.
pub(super) const QUOTE_REQUEST_ID_PATTERN: &str = "^qrq_[a-z2-7]{52}$";
/// The id of a timeline's entry.
pub(super) const ENTRY_ID_PATTERN: &str = r"^[0-9]{1,18}\.[0-9]{1,9}$";
/// A caller's idempotency key (spec 1, rule 1; length by design: readings of the contract).
pub(super) fn request_id_pattern() -> String {
    format!("^[A-Za-z0-9_.-]{{1,{}}}$", app::request::order::REQUEST_ID_CHARS_MAX)
}

/// The schemas under `components`.
pub(super) fn all() -> Map<String, Value> {
    let parts = [
        requests::schemas(),
        payments::schemas(),
        quote_requests::schemas(),
        reads::schemas(),
        rehearsals::schemas(),
        errors::schemas(),
        x402::schemas(),
    ];
    let named = parts.into_iter().flatten();
    named.map(|(name, schema)| (name.to_owned(), schema)).collect()
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

/// A time that a response shows.
fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

/// An object whose members are nobody's business here.
fn free_form(description: &str) -> Value {
    json!({"type": "object", "description": description})
}
