//! `EthereumEip712Signature2021`: the document and its proof as typed data.
//!
//! What is signed is the document with `proof` in it, without the signature and the typed data's own description. EIP-712
//! hashes what the types name and nothing else, and the types come with the proof; so they have to name every member, or
//! a member could be added or altered under a signature that still verifies.

use alloy_dyn_abi::TypedData;
use serde_json::{Map, Value, json};

use super::Error;
use crate::json::Document;

/// The digest that a wallet signed.
pub(super) fn digest(document: &Document, options: &Map<String, Value>) -> Result<[u8; 32], Error> {
    let wrong = |reason: &str| Error::TypedData(reason.to_owned());
    let (description, types) = match (options.get("eip712"), options.get("eip712Domain")) {
        (Some(description), None) => (description, description.get("types")),
        (None, Some(description)) => (description, description.get("messageSchema")),
        _ => return Err(wrong("is not described by exactly one of `eip712` and `eip712Domain`")),
    };
    let Some(Value::Object(types)) = types else { return Err(wrong("types are not an object in the proof")) };
    let primary_type = description.get("primaryType").and_then(Value::as_str);
    let primary_type = primary_type.ok_or_else(|| wrong("has no primaryType"))?;
    let empty = json!({});
    let domain = description.get("domain").unwrap_or(&empty);
    let mut message = document.members().clone();
    let mut proof = options.clone();
    proof.retain(|name, _| name != "eip712" && name != "eip712Domain");
    message.insert("proof".to_owned(), Value::Object(proof));
    let message = Value::Object(message);
    covers(types, primary_type, &message, "message")?;
    if types.contains_key("EIP712Domain") {
        covers(types, "EIP712Domain", domain, "domain")?;
    }
    let data = json!({"types": types, "domain": domain, "primaryType": primary_type, "message": message});
    let data: TypedData = serde_json::from_value(data).map_err(|error| Error::TypedData(error.to_string()))?;
    let digest = data.eip712_signing_hash().map_err(|error| Error::TypedData(error.to_string()))?;
    Ok(digest.0)
}

/// Refuses a value of which a type does not name every member, each once and as what it is.
fn covers(types: &Map<String, Value>, name: &str, value: &Value, at: &str) -> Result<(), Error> {
    let wrong = |reason: &str| Error::TypedData(format!("{at} {reason}"));
    if let Some(item) = name.strip_suffix("[]") {
        let Value::Array(items) = value else { return Err(wrong("is not a list")) };
        return items
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| covers(types, item, value, &format!("{at}/{index}")));
    }
    let Some(fields) = types.get(name) else {
        // Everything that is not a struct is text: what reads as a number or bytes could be written in several ways.
        let domain = at.starts_with("domain");
        return match value {
            Value::String(_) if name == "string" || domain => Ok(()),
            Value::Bool(_) if name == "bool" => Ok(()),
            _ => Err(wrong("is of another type than the text or truth value it is")),
        };
    };
    let (Value::Array(fields), Value::Object(members)) = (fields, value) else {
        return Err(wrong("is not an object of its type"));
    };
    if fields.len() != members.len() {
        return Err(wrong("has members that its type does not name"));
    }
    for (member, value) in members {
        let named = |field: &&Value| field.get("name").and_then(Value::as_str) == Some(member);
        let mut fields = fields.iter().filter(named);
        let (Some(field), None) = (fields.next(), fields.next()) else {
            return Err(wrong("has members that its type does not name"));
        };
        let field = field.get("type").and_then(Value::as_str).ok_or_else(|| wrong("has a type without types"))?;
        covers(types, field, value, &format!("{at}/{member}"))?;
    }
    Ok(())
}
