//! Web3Signer: its API for `eth1`, spoken by a server that may lie.

use std::sync::atomic::Ordering;

use alloy::{
    hex,
    primitives::keccak256,
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::Result;
use axum::{
    Json, Router,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use sagas::ports::Transient;
use signer::{Hash, Key, Secp256k1Key, SignError};

use crate::support::{CALL_MAX, Mood, Service, key, serve};

/// The keys that the server keeps.
fn kept() -> [PrivateKeySigner; 2] {
    [key(1), key(2)]
}

fn identifier(key: &PrivateKeySigner) -> String {
    let point = key.credential().verifying_key().to_encoded_point(false);
    format!("0x{}", hex::encode(&point.as_bytes()[1..]))
}

async fn public_keys(State(service): State<Service>) -> Response {
    if let Some(refusal) = service.refusal().await {
        return refusal;
    }
    Json(kept().iter().map(identifier).collect::<Vec<_>>()).into_response()
}

async fn sign(State(service): State<Service>, Path(asked): Path<String>, Json(body): Json<Value>) -> Response {
    service.signed.fetch_add(1, Ordering::Relaxed);
    if let Some(refusal) = service.refusal().await {
        return refusal;
    }
    let Some(own) = kept().into_iter().find(|key| identifier(key) == asked) else {
        return Response::builder().status(404).body("".into()).unwrap();
    };
    let data = hex::decode(body["data"].as_str().unwrap()).unwrap();
    let (own, data) = match service.mood() {
        Mood::WrongKey => (key(9), data),
        Mood::OtherMessage => (own, b"pay the thief".to_vec()),
        _ => (own, data),
    };
    hex::encode_prefixed(own.sign_hash_sync(&keccak256(data)).unwrap().as_bytes()).into_response()
}

async fn start() -> (Service, url::Url) {
    let service = Service::new();
    let router = Router::new()
        .route("/signer/api/v1/eth1/publicKeys", get(public_keys))
        .route("/signer/api/v1/eth1/sign/{identifier}", post(sign))
        .with_state(service.clone());
    (service, serve(router).await.join("signer/").unwrap())
}

async fn held(seed: u8) -> Result<(Service, Secp256k1Key)> {
    let (service, url) = start().await;
    Ok((service, Key::web3signer(&url, key(seed).address(), CALL_MAX)?))
}

#[tokio::test]
async fn it_signs_what_it_hashes_by_itself() -> Result<()> {
    let (_, distant) = held(2).await?;
    distant.check().await?;
    assert_eq!(distant.address(), key(2).address());
    for message in [&b"\x19\x01 a preimage"[..], &[0; 3_000]] {
        let signature = distant.sign(Hash::Keccak256, message).await?;
        assert_eq!(signature, key(2).sign_hash_sync(&keccak256(message))?, "as with the key itself");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_not_hashed_with_keccak_is_not_even_asked_for() -> Result<()> {
    let (service, distant) = held(1).await?;
    let refused = distant.sign(Hash::Sha256, b"raw_data of Tron").await.unwrap_err();
    assert!(matches!(refused, SignError::Unsuited { .. }), "{refused}");
    assert_eq!(service.asked(), 0);
    Ok(())
}

#[tokio::test]
async fn no_signature_of_another_key_is_given_out() -> Result<()> {
    let (service, distant) = held(1).await?;
    for mood in [Mood::WrongKey, Mood::OtherMessage] {
        service.is(mood);
        let refused = distant.sign(Hash::Keccak256, b"a preimage").await.unwrap_err();
        assert!(matches!(refused, SignError::OtherKey { .. }), "{refused}");
        assert!(refused.to_string().contains(&format!("{:#x}", key(1).address())), "{refused}");
        assert!(Transient::from(refused).is_misconfigured());
    }
    service.is(Mood::Honest);
    distant.sign(Hash::Keccak256, b"a preimage").await?;

    let (service, stranger) = held(7).await?;
    // It may be brought there later.
    assert!(matches!(stranger.check().await, Err(SignError::Unusable { .. })), "it is not listed");
    assert!(matches!(stranger.sign(Hash::Keccak256, b"").await, Err(SignError::Unusable { .. })));
    assert_eq!(service.asked(), 0);
    Ok(())
}

#[tokio::test]
async fn a_service_that_is_away_is_asked_again() -> Result<()> {
    let (service, distant) = held(1).await?;
    for known in [false, true] {
        for (mood, kind) in [
            (Mood::Slow, "unreachable"),
            (Mood::Status(500), "unreachable"),
            (Mood::Status(503), "unreachable"),
            (Mood::Status(429), "rate limited"),
            (Mood::Status(403), "misconfigured"),
            (Mood::Status(302), "misconfigured"),
            (Mood::Garbage, "contradiction"),
            (Mood::Endless, "contradiction"),
        ] {
            service.is(mood);
            let began = std::time::Instant::now();
            let refused = distant.sign(Hash::Keccak256, b"a preimage").await.unwrap_err();
            assert_eq!(Transient::from(refused.clone()).kind(), kind, "{mood:?}, known {known}: {refused}");
            assert!(began.elapsed() < CALL_MAX * 3, "{mood:?}");
        }
        service.is(Mood::Honest);
        distant.sign(Hash::Keccak256, b"a preimage").await?;
    }
    Ok(())
}

#[tokio::test]
async fn its_address_is_shown_without_what_it_holds() -> Result<()> {
    let (_, url) = start().await;
    let address: url::Url = url.as_str().replace("http://", "http://user:secret@").parse()?;
    let gone: Secp256k1Key = Key::web3signer(&"http://user:secret@127.0.0.1:1/".parse()?, key(1).address(), CALL_MAX)?;
    let refused = gone.sign(Hash::Keccak256, b"").await.unwrap_err();
    assert!(refused.to_string().contains("127.0.0.1:1") && !refused.to_string().contains("secret"), "{refused}");
    assert!(!format!("{gone:?}").contains("secret"));
    let distant: Secp256k1Key = Key::web3signer(&address, key(1).address(), CALL_MAX)?;
    distant.check().await?;
    assert_eq!(json!(distant.address()), json!(key(1).address()));
    Ok(())
}
