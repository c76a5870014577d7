//! Credentials and their deprecated carrier (spec 2.5): their form. Whether they hold is judged in `identity`.

use serde_json::Value;

use super::fields::{self, Faults, Object, date_time};

pub const CREDENTIALS_CONTEXT: &str = "https://www.w3.org/2018/credentials/v1";
pub const CREDENTIAL_TYPE: &str = "VerifiableCredential";

/// Notes every fault of a VerifiableCredentialAuth.
pub fn check(auth: &Object<'_>, faults: &mut Faults) {
    let _: Option<&str> = auth.required("verification_method_id", faults);
    let _: Option<&str> = auth.required("signature", faults);
    if let Some(credential) = auth.required_object("verifiable_credential", faults) {
        check_credential(&credential, faults);
    }
}

/// Notes every fault of a VerifiableCredential.
pub fn check_credential(credential: &Object<'_>, faults: &mut Faults) {
    strings_with(credential, "@context", CREDENTIALS_CONTEXT, faults);
    let _: Option<&str> = credential.required("id", faults);
    strings_with(credential, "type", CREDENTIAL_TYPE, faults);
    if let Some(issuer) = credential.required::<&Value>("issuer", faults)
        && !(issuer.is_string() || issuer.is_object())
    {
        faults.invalid(&credential.path("issuer"), "must be a string or an object");
    }
    if let Some(text) = credential.required::<&str>("issuanceDate", faults) {
        time(credential, "issuanceDate", text, faults);
    }
    if let Some(text) = credential.optional::<&str>("expirationDate", faults) {
        time(credential, "expirationDate", text, faults);
    }
    let _ = credential.required_object("credentialSubject", faults);
    let _ = credential.optional_object("credentialStatus", faults);
    match credential.required::<&Value>("proof", faults) {
        None | Some(Value::Object(_)) => {}
        Some(Value::Array(proofs)) if !proofs.is_empty() && proofs.iter().all(Value::is_object) => {}
        Some(_) => faults.invalid(&credential.path("proof"), "must be an object, or an array of objects"),
    }
}

fn strings_with(credential: &Object<'_>, name: &str, needed: &str, faults: &mut Faults) {
    let Some(items) = credential.required::<&Vec<Value>>(name, faults) else { return };
    let path = credential.path(name);
    for (i, item) in items.iter().enumerate() {
        let _: Option<&str> = fields::read(&format!("{path}[{i}]"), item, faults);
    }
    if !items.iter().any(|item| item == needed) {
        faults.invalid(&path, format!("must include {needed}"));
    }
}

fn time(credential: &Object<'_>, name: &str, text: &str, faults: &mut Faults) {
    if let Err(rule) = date_time(text) {
        faults.invalid(&credential.path(name), rule);
    }
}
