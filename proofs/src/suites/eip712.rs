//! `EthereumEip712Signature2021`: the document and its proof as typed data.
//!
//! What is signed is the document with `proof` in it, without the signature and the typed data's own description. EIP-712
//! hashes what the types name and nothing else, and the types come with the proof; so they have to name every member, or
//! a member could be added or altered under a signature that still verifies.

use alloy_dyn_abi::TypedData;
use serde_json::{Map, Value, json};

use super::Error;
use crate::json::Document;

/// Most types that what is signed may be made of, each as often as it is used, and each dimension of a list another.
const USES_MAX: usize = 512;
/// Most types of structs.
const STRUCTS_MAX: usize = 64;
/// Most bytes of types that are hashed: the text of all that a struct depends on is hashed for every value of it.
const TYPE_BYTES_MAX: usize = 8 * 1024 * 1024;

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
    are_plain(types)?;
    let mut left = USES_MAX;
    expand(types, primary_type, &mut left).ok_or_else(|| wrong("has types of too many others"))?;
    let mut bounded = Bounded { types, type_bytes: text_bytes(types), left: TYPE_BYTES_MAX };
    bounded.covers(primary_type, &message, "message")?;
    if types.contains_key("EIP712Domain") {
        bounded.covers("EIP712Domain", domain, "domain")?;
    }
    let data = json!({"types": types, "domain": domain, "primaryType": primary_type, "message": message});
    let data: TypedData = serde_json::from_value(data).map_err(|error| Error::TypedData(error.to_string()))?;
    let digest = data.eip712_signing_hash().map_err(|error| Error::TypedData(error.to_string()))?;
    Ok(digest.0)
}

/// Refuses too many types, and those that are tuples, of which EIP-712 has none: they could be nested as deep as the document
/// is long.
fn are_plain(types: &Map<String, Value>) -> Result<(), Error> {
    if types.len() > STRUCTS_MAX {
        return Err(Error::TypedData(format!("has more than {STRUCTS_MAX} types")));
    }
    let fields = types.values().filter_map(Value::as_array).flatten();
    let names =
        fields.filter_map(|field| field.get("type").and_then(Value::as_str)).chain(types.keys().map(String::as_str));
    for name in names {
        if name.contains(['(', ')', ',']) {
            return Err(Error::TypedData("has a type that is a tuple".to_owned()));
        }
    }
    Ok(())
}

/// Counts the types that `name` stands for off `left`; `None` where there are more. Each use of a type is resolved by itself, so a
/// few that hold the next one twice are as many as the powers of two, and a list may be empty, so that nothing of the document
/// has to stand for them.
fn expand(types: &Map<String, Value>, name: &str, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(1 + name.matches('[').count())?;
    let stem = name.split('[').next().unwrap_or(name);
    let fields = types.get(stem).and_then(Value::as_array).into_iter().flatten();
    let mut names = fields.filter_map(|field| field.get("type").and_then(Value::as_str));
    names.try_for_each(|name| expand(types, name, left))
}

/// Bytes of the text of all types.
fn text_bytes(types: &Map<String, Value>) -> usize {
    let member = |field: &Value, name: &str| field.get(name).and_then(Value::as_str).map_or(0, str::len);
    let fields = types.values().filter_map(Value::as_array).flatten();
    let fields = fields.map(|field| member(field, "type") + member(field, "name") + 2);
    types.keys().map(|name| name.len() + 2).chain(fields).sum()
}

/// Types, and how much of their text may still be hashed.
struct Bounded<'a> {
    types: &'a Map<String, Value>,
    /// Bytes of all of them: the most that one value can depend on.
    type_bytes: usize,
    left: usize,
}

impl Bounded<'_> {
    /// Refuses a value of which a type does not name every member, each once and as what it is.
    fn covers(&mut self, name: &str, value: &Value, at: &str) -> Result<(), Error> {
        let wrong = |reason: &str| Error::TypedData(format!("{at} {reason}"));
        if let Some(item) = name.strip_suffix("[]") {
            let Value::Array(items) = value else { return Err(wrong("is not a list")) };
            return items
                .iter()
                .enumerate()
                .try_for_each(|(index, value)| self.covers(item, value, &format!("{at}/{index}")));
        }
        let Some(fields) = self.types.get(name) else {
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
        self.left = self.left.checked_sub(self.type_bytes).ok_or_else(|| wrong("has too many values of long types"))?;
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
            self.covers(field, value, &format!("{at}/{member}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a document with an empty list comes to under these types, of which the list's items are the first.
    fn digest_of(item: &str, types: Value) -> Result<[u8; 32], Error> {
        let Value::Object(mut types) = types else { panic!("types are an object") };
        types
            .insert("Document".to_owned(), json!([{"name": "list", "type": item}, {"name": "proof", "type": "Proof"}]));
        types.insert("Proof".to_owned(), json!([{"name": "type", "type": "string"}]));
        let document = Document::parse(r#"{"list": []}"#).unwrap();
        let options = json!({"type": "x", "eip712": {"types": types, "primaryType": "Document", "domain": {}}});
        let Value::Object(options) = options else { panic!("options are an object") };
        digest(&document, &options)
    }

    /// The types' text is hashed with each value, so neither is long where the other is many.
    #[test]
    fn values_of_long_types_are_bounded() {
        let digest_of = |name: &str, count: usize| {
            let types = json!({
                "Document": [{"name": "list", "type": "Item[]"}, {"name": "proof", "type": "Proof"}],
                "Item": [{"name": "b", "type": "B[]"}],
                "B": [{"name": name, "type": "string"}],
                "Proof": [{"name": "type", "type": "string"}],
            });
            let item = json!({"b": []});
            let document = Document::parse(&json!({"list": vec![item; count]}).to_string()).unwrap();
            let options = json!({"type": "x", "eip712": {"types": types, "primaryType": "Document", "domain": {}}});
            let Value::Object(options) = options else { panic!("options are an object") };
            digest(&document, &options)
        };
        assert!(digest_of("name", 3_000).is_ok());
        assert!(digest_of(&"a".repeat(30_000), 100).is_ok());
        assert!(matches!(digest_of(&"a".repeat(30_000), 300), Err(Error::TypedData(_))));
    }

    #[test]
    fn types_that_nothing_stands_for_are_bounded() {
        assert!(digest_of("string[]", json!({})).is_ok());
        assert!(digest_of("A[]", json!({"A": [{"name": "a", "type": "string[][2]"}]})).is_ok());
        // Each holds the next one twice.
        let pair = |next: &str| json!([{"name": "a", "type": next}, {"name": "b", "type": next}]);
        let chain: Map<String, Value> = (0..40).map(|n| (format!("T{n}"), pair(&format!("T{}", n + 1)))).collect();
        assert!(matches!(digest_of("T0[]", chain.into()), Err(Error::TypedData(_))));
        // As deep as a document is long, and around itself.
        assert!(matches!(digest_of(&format!("string{}", "[]".repeat(25_000)), json!({})), Err(Error::TypedData(_))));
        assert!(matches!(digest_of("A[]", json!({"A": [{"name": "a", "type": "A[]"}]})), Err(Error::TypedData(_))));
        let nested = format!("{}string{}", "(".repeat(20_000), ")".repeat(20_000));
        assert!(matches!(digest_of(&format!("{nested}[]"), json!({})), Err(Error::TypedData(_))));
        let unused = json!({"Unused": [{"name": "a", "type": nested}]});
        assert!(matches!(digest_of("string[]", unused), Err(Error::TypedData(_))));
    }
}
