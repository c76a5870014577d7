//! Credentials in the form in which policies can ask for them.
//!
//! Cedar cannot look through a set for something that fits, only for what it is given whole. So what issuers say is laid out
//! in small records that a policy can write down.

use serde_json::Value;

use identity::Proven;
use proofs::credential::Credential;

/// The type that every credential has, and that says nothing.
const COMMON_TYPE: &str = "VerifiableCredential";

/// Names and values of a record.
pub type Record = Vec<(&'static str, String)>;

/// One record for each credential and type.
pub fn credentials(proven: &Proven) -> Vec<Record> {
    typed(proven).map(|(credential, kind)| head(credential, kind)).collect()
}

/// One record for each credential, type, and text or truth value in its subject.
pub fn claims(proven: &Proven) -> Vec<Record> {
    let claims = typed(proven).flat_map(|(credential, kind)| {
        let mut leaves = Vec::new();
        for (name, value) in &credential.claims {
            collect(name, value, &mut leaves);
        }
        leaves.into_iter().map(move |(name, value)| {
            let mut record = head(credential, kind);
            record.extend([("name", name), ("value", value)]);
            record
        })
    });
    claims.collect()
}

fn typed(proven: &Proven) -> impl Iterator<Item = (&Credential, &str)> {
    let credentials = proven.holders().iter().flat_map(|holder| &holder.credentials);
    credentials.flat_map(|(_, credential)| {
        let kinds = credential.types.iter().map(String::as_str).filter(|kind| *kind != COMMON_TYPE);
        kinds.map(move |kind| (credential, kind))
    })
}

fn head(credential: &Credential, kind: &str) -> Record {
    vec![("issuer", credential.issuer.to_string()), ("type", kind.to_owned())]
}

fn collect(path: &str, value: &Value, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => leaves.push((path.to_owned(), text.clone())),
        Value::Bool(value) => leaves.push((path.to_owned(), value.to_string())),
        Value::Array(items) => items.iter().for_each(|item| collect(path, item, leaves)),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| collect(&format!("{path}.{name}"), value, leaves));
        }
        // Neither stands in a document that was signed.
        Value::Null | Value::Number(_) => {}
    }
}
