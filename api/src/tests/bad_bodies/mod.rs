//! Bodies of a submission that break one rule each, and bodies that break none.

mod order;
mod signed;
mod trusted;

use serde_json::{Value, json};

use super::{Answer, DESTINATION_ASSET, ESCROW, PAYER, PROXY, RECIPIENT, SOURCE_ASSET, TRUSTED, VERIFIER, set};

/// What is done to the good body.
pub enum Edit {
    Set(&'static str, Value),
    Remove(&'static str),
}
use Edit::{Remove, Set};

impl Edit {
    /// Checks what the answer to the edited body says of the id. Where the edit is of what the id is made of, it may be that
    /// nothing can be looked for.
    #[track_caller]
    pub fn check_flag(&self, answer: &Answer) {
        let (Set(pointer, _) | Remove(pointer)) = self;
        let of_key = ["/request_id", "/source", "/originator_auth", "/proof", "/verifiableCredential"];
        match answer.body.get("request_id_reusable") {
            None => assert!(of_key.iter().any(|of_key| pointer.starts_with(of_key)), "{pointer}: {answer:?}"),
            flag => assert_eq!(flag, Some(&json!(true)), "{pointer}: {answer:?}"),
        }
    }
}

pub const DID: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";

/// An edit that breaks one rule, with the code and the field of the answer.
pub type BadBody = (Edit, &'static str, &'static str);

/// Bodies that break one rule each.
pub fn bad_bodies() -> Vec<BadBody> {
    [order::bad_bodies(), signed::bad_bodies(), trusted::bad_bodies()].into_iter().flatten().collect()
}

/// A body without a member that is required.
fn missing(pointer: &'static str, field: &'static str) -> Vec<BadBody> {
    vec![(Remove(pointer), "INVALID_REQUEST", field)]
}

/// Bodies with each of `values` where `pointer` says.
fn breaking(pointer: &'static str, code: &'static str, field: &'static str, values: Value) -> Vec<BadBody> {
    let Value::Array(values) = values else { panic!("{values}") };
    values.into_iter().map(|value| (Set(pointer, value), code, field)).collect()
}

const ZERO: &str = "0x0000000000000000000000000000000000000000";
const WRONG_CHECKSUM: &str = "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

fn owned(asset: &str, account: &str) -> Value {
    json!({"asset_identifier": asset, "account": account})
}

fn destinations(count: usize) -> Value {
    (0..count).map(|i| owned(DESTINATION_ASSET, &format!("0x{:040x}", i + 1))).collect()
}

fn dids(count: usize) -> Value {
    (0..count).map(|i| json!(format!("did:web:{i}.example"))).collect()
}

/// [`credential_auth`] with the value at a pointer replaced.
fn credential(pointer: &str, value: Value) -> Value {
    let mut auth = credential_auth();
    set(&mut auth, pointer, value);
    auth
}

/// A deprecated credential of the right shape.
pub fn credential_auth() -> Value {
    json!({
        "verifiable_credential": {
            "@context": ["https://www.w3.org/2018/credentials/v1", "https://x.example"],
            "id": "urn:uuid:1",
            "type": ["VerifiableCredential"],
            "issuer": "did:web:issuer.example",
            "issuanceDate": "2025-01-01T00:00:00Z",
            "credentialSubject": {},
            "proof": {},
        },
        "verification_method_id": "did:web:issuer.example#1",
        "signature": "anything",
    })
}

/// Changes to the good body after which it is still one.
pub fn good_edits() -> Vec<(&'static str, Value)> {
    vec![
        ("/version", json!("1.37")),
        ("/request_id", json!("a")),
        ("/request_id", json!("A-z_0.9".repeat(18))),
        ("/source/account", json!("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")),
        ("/source/account", json!(PAYER.to_uppercase().replace("0X", "0x"))),
        (
            "/source/asset_identifier",
            json!(
                SOURCE_ASSET
                    .replace("9fe46736679d2d9a65f0992f2272de9f3c7fa6e0", "9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0")
            ),
        ),
        ("/source/asset_identifier", json!(SOURCE_ASSET.replace("31337", "031337"))),
        (
            "/fulfillment_amount",
            json!("115792089237316195423570985008687907853269984665640564039457584007913129639935"),
        ),
        ("/quote_deadline", json!("2030-01-01T01:01:00+01:00")),
        ("/quote_deadline", json!("2030-01-01t00:01:00.123456z")),
        ("/fulfillment_deadline", json!("2030-01-02T00:00:00Z")),
        ("/settler_auth_required", json!({})),
        ("/settler_auth_required", json!({"kyc": true, "any name, really": false})),
        // A repeated destination, in other letters, too.
        ("/destination/1", owned(DESTINATION_ASSET, RECIPIENT)),
        (
            "/destination/1",
            owned(&DESTINATION_ASSET.replace("9fe", "9FE"), "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"),
        ),
        // Before the other deadline by 1 ns, 1 ms, 400 ms and 999 ms, in the second before its own.
        ("/quote_deadline", json!("2030-01-01T00:09:59.999999999Z")),
        ("/quote_deadline", json!("2030-01-01T00:09:59.999Z")),
        ("/quote_deadline", json!("2030-01-01T00:09:59.6Z")),
        ("/quote_deadline", json!("2030-01-01T00:09:59.001Z")),
        ("/settler_requirements", json!({"whitelist": [format!("did:web:{}.example", "a".repeat(300))]})),
        ("/settler_requirements", json!({"blacklist": [format!("did:web:{}.example", "a".repeat(20_000))]})),
        ("/sender_auth/signed_messages/1", json!({"message": "0x33", "signature": "0x44", "payload": {"note": 1}})),
        ("/verifiableCredential", json!([])),
        ("/@context", json!([])),
        ("/fulfillment_proxies", json!({})),
        ("/fulfillment_proxies", json!({"eip155:31338": ""})),
        ("/fulfillment_proxies", json!({"eip155:31338": TRUSTED})),
        ("/fulfillment_proxies", json!({"eip155:031338": PROXY})),
        ("/quote_selector", json!("")),
        ("/fulfillment_verifier", json!({})),
        ("/fulfillment_verifier", json!({"account": "", "endpoint": ""})),
        ("/fulfillment_verifier", json!({"account": "", "other": 1})),
        ("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "http://127.0.0.1:8090"})),
        ("/fulfillment_verifier", json!({"account": TRUSTED, "endpoint": "https://verifier.example:443"})),
        ("/escrow_contract_address", json!("")),
        ("/escrow_contract_address", json!(ESCROW)),
        ("/escrow_contract_address", json!(TRUSTED)),
        ("/fulfillment_proxy", json!("")),
        ("/fulfillment_proxy", json!(PROXY)),
        ("/fulfillment_proxy", json!(TRUSTED)),
        ("/settler_requirements", json!({})),
        ("/settler_requirements", json!({"whitelist": [DID], "blacklist": [DID]})),
        ("/unknown", json!(null)),
        ("/source/unknown", json!({"a": [1.5e300]})),
    ]
}
