//! Bad signatures: bodies with something wrong in the form of signatures and credentials.

use serde_json::{Value, json};

use super::{BadBody, breaking, credential, missing};

/// Bodies that break one rule each.
pub(super) fn bad_bodies() -> Vec<BadBody> {
    [sender_auth(), credentials()].into_iter().flatten().collect()
}

fn sender_auth() -> Vec<BadBody> {
    [
        missing("/sender_auth", "sender_auth"),
        breaking("/sender_auth", "INVALID_REQUEST", "sender_auth", json!([null, [], "0x"])),
        missing("/sender_auth/message_scheme", "sender_auth.message_scheme"),
        breaking(
            "/sender_auth/message_scheme",
            "INVALID_REQUEST",
            "sender_auth.message_scheme",
            json!(["EVM", "SOLANA", "TRON", null, 1, "evm_permit2_escrow"]),
        ),
        missing("/sender_auth/signed_messages", "sender_auth.signed_messages"),
        breaking(
            "/sender_auth/signed_messages",
            "INVALID_REQUEST",
            "sender_auth.signed_messages",
            json!([[], {}, null, "x", vec![json!({"message": "0x11", "signature": "0x22"}); 17]]),
        ),
        breaking("/sender_auth/signed_messages", "INVALID_REQUEST", "sender_auth.signed_messages[0]", json!([[1]])),
        missing("/sender_auth/signed_messages/0/message", "sender_auth.signed_messages[0].message"),
        breaking(
            "/sender_auth/signed_messages/0/message",
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message",
            json!(["11", "0x1", "0xzz", 17, "0x"]),
        ),
        missing("/sender_auth/signed_messages/0/signature", "sender_auth.signed_messages[0].signature"),
        breaking(
            "/sender_auth/signed_messages/0/signature",
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].signature",
            json!(["", "0x", "2222", "0x222", "0xgg", null]),
        ),
        breaking(
            "/sender_auth/signed_messages/0/message_prehash",
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message_prehash",
            json!([null, {}]),
        ),
        breaking(
            "/sender_auth/signed_messages/0/payload",
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].payload",
            json!([null, "x", []]),
        ),
        breaking("/sender_auth/signed_messages/1", "INVALID_REQUEST", "sender_auth.signed_messages[1]", json!([null])),
        breaking(
            "/sender_auth/signed_messages/1",
            "INVALID_REQUEST",
            "sender_auth.signed_messages[1].signature",
            json!([{"message": "0x11"}]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn credentials() -> Vec<BadBody> {
    let broken = |pointer: &str, value: Value, field: &'static str| {
        breaking("/originator_auth", "INVALID_REQUEST", field, json!([credential(pointer, value)]))
    };
    let of_sender = "/sender_auth/verifiable_credential";
    let no_proof = json!([credential("/verifiable_credential/proof", json!("x"))]);
    [
        breaking("/originator_auth", "INVALID_REQUEST", "originator_auth", json!([null, "x"])),
        breaking("/originator_auth", "INVALID_REQUEST", "originator_auth.verification_method_id", json!([{}])),
        broken("/verification_method_id", json!(1), "originator_auth.verification_method_id"),
        broken("/signature", json!(null), "originator_auth.signature"),
        broken("/verifiable_credential", json!(null), "originator_auth.verifiable_credential"),
        in_credential("@context", json!(["https://x.example"]), "originator_auth.verifiable_credential.@context"),
        in_credential("@context", json!("x"), "originator_auth.verifiable_credential.@context"),
        in_credential("type", json!(["Other"]), "originator_auth.verifiable_credential.type"),
        in_credential("type", json!(["VerifiableCredential", 1]), "originator_auth.verifiable_credential.type[1]"),
        in_credential("issuer", json!(1), "originator_auth.verifiable_credential.issuer"),
        in_credential("issuanceDate", json!("today"), "originator_auth.verifiable_credential.issuanceDate"),
        in_credential("expirationDate", json!(null), "originator_auth.verifiable_credential.expirationDate"),
        in_credential("credentialSubject", json!([]), "originator_auth.verifiable_credential.credentialSubject"),
        in_credential("credentialStatus", json!(null), "originator_auth.verifiable_credential.credentialStatus"),
        breaking(of_sender, "INVALID_REQUEST", "sender_auth.verifiable_credential", json!([null])),
        breaking(
            of_sender,
            "INVALID_REQUEST",
            "sender_auth.verifiable_credential.verifiable_credential.proof",
            no_proof,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A credential with the member of its document replaced.
fn in_credential(member: &str, value: Value, field: &'static str) -> Vec<BadBody> {
    let broken = credential(&format!("/verifiable_credential/{member}"), value);
    breaking("/originator_auth", "INVALID_REQUEST", field, json!([broken]))
}
