//! Keys and documents of the tests.

use chrono::{DateTime, Utc};
use proofs::{
    contexts::{Contexts, QUOTE},
    did::{Did, Purpose},
    json::Document,
    suites::{Options, SigningKey, Suite, sign},
};
use serde_json::{Value, json};

/// The time it is in the tests.
pub fn now() -> DateTime<Utc> {
    "2027-01-01T12:00:00Z".parse().unwrap()
}

pub fn ed25519(seed: u8) -> SigningKey {
    SigningKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(&[seed; 32]))
}

pub fn secp256k1(seed: u8) -> SigningKey {
    SigningKey::Secp256k1(k256::ecdsa::SigningKey::from_slice(&[seed; 32]).unwrap())
}

pub fn p256(seed: u8) -> SigningKey {
    SigningKey::P256(p256::ecdsa::SigningKey::from_slice(&[seed; 32]).unwrap())
}

pub fn p384(seed: u8) -> SigningKey {
    SigningKey::P384(p384::ecdsa::SigningKey::from_slice(&[seed; 48]).unwrap())
}

/// The `did:key` of a key.
pub fn did(key: &SigningKey) -> Did {
    Did::from_key(&key.public()).unwrap()
}

/// What a proof by a `did:key` says.
pub fn options(key: &SigningKey, purpose: Purpose) -> Options {
    let verification_method = did(key).key_verification_method().unwrap();
    Options { verification_method, purpose, created: now(), expires: None }
}

pub fn document(value: Value) -> Document {
    Document::parse(&value.to_string()).unwrap()
}

pub fn signed(value: Value, suite: Suite, key: &SigningKey, purpose: Purpose) -> Document {
    sign(&document(value), suite, key, &options(key, purpose), Contexts::bundled()).unwrap()
}

/// A document like those settlers sign.
pub fn quote(settler: &Did) -> Value {
    json!({
        "@context": QUOTE,
        "type": "GatewayQuote",
        "auctionId": "pay_x7vq2kz3m5n6p7q2r3s4t5u6v7w2x3y4z5a6b7c2d3e4f5g6h7a2",
        "termsHash": "0x0101010101010101010101010101010101010101010101010101010101010101",
        "settler": settler.as_str(),
        "sourceChain": "eip155:1",
        "sourceAmount": "25250000",
        "payoutAccount": "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        "escrowContract": "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359",
        "destination": {
            "asset_identifier": "eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85",
            "account": "0xdbf03b407c01e7cd3cbea99509d93f8dddc8c6fb",
        },
        "fulfillmentAmount": "25000000",
        "deliveryAccount": "0xd1220a0cf47c7b9be7a2e6ba89f429762e7b9adb",
        "fulfillmentProxy": "0x52908400098527886e0f7030069857d2e4169ee7",
        "fulfillBy": "2027-01-01T12:05:00Z",
        "validUntil": "2027-01-01T12:01:00Z",
    })
}
