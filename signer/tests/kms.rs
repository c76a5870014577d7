//! AWS KMS: its API, spoken by a server that may lie. `moto` is none: it signs no digest (`MessageType: DIGEST`), and has no key of
//! Ed25519 (5.2.5).

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use alloy::{
    hex,
    primitives::{B256, keccak256},
    signers::{SignerSync, k256::ecdsa},
};
use anyhow::Result;
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use sagas::ports::Transient;
use signer::{AwsCredentials, Ed25519Key, Hash, Key, KmsPlace, Secp256k1Key, SignError};

use crate::support::{CALL_MAX, Mood, Service, key, serve};

const ACCESS_KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const REGION: &str = "eu-central-1";

/// The server, with what AWS would refuse.
#[derive(Clone)]
struct Kms {
    service: Service,
    /// The type of the refusal, with its status.
    refuses: Arc<Mutex<Option<(u16, &'static str)>>>,
    /// The id of credentials that are refused, and the type of that refusal.
    stale: Arc<Mutex<Option<(&'static str, &'static str)>>>,
    /// Whether signatures have the upper `s`, as AWS gives either.
    high: Arc<Mutex<bool>>,
    tokens: Arc<Mutex<Vec<String>>>,
}

fn ed25519() -> SigningKey {
    SigningKey::from_bytes(&[3; 32])
}

/// HMAC-SHA256 (RFC 2104), of keys that are no longer than a block.
fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    let padded = |pad: u8| (0..64).map(|i| key.get(i).copied().unwrap_or(0) ^ pad).collect::<Vec<_>>();
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

/// Whose credentials the request is signed with, where it is as AWS asks for, worked out from its documents and not by the library.
fn signed_by(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let value = |name: &str| headers[name].to_str().unwrap().trim().to_owned();
    let authorization = value("authorization");
    let part = |name: &str| authorization.split(name).nth(1).unwrap().split(',').next().unwrap().to_owned();
    let (credential, signed, signature) = (part("Credential="), part("SignedHeaders="), part("Signature="));
    let (id, scope) = credential.split_once('/').unwrap();
    let date = scope.split('/').next().unwrap();
    assert_eq!(scope, format!("{date}/{REGION}/kms/aws4_request"));
    for needed in ["host", "x-amz-date", "x-amz-target"] {
        assert!(signed.split(';').any(|name| name == needed), "{signed}");
    }
    let canonical_headers: BTreeMap<_, _> = signed.split(';').map(|name| (name.to_owned(), value(name))).collect();
    let lines: String = canonical_headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let canonical = format!("POST\n/\n\n{lines}\n{signed}\n{}", hex::encode(Sha256::digest(body)));
    let digest = hex::encode(Sha256::digest(canonical));
    let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{digest}", value("x-amz-date"));
    let mut signing = hmac(format!("AWS4{SECRET}").as_bytes(), date);
    for step in [REGION, "kms", "aws4_request"] {
        signing = hmac(&signing, step);
    }
    (hex::encode(hmac(&signing, &to_sign)) == signature).then(|| id.to_owned())
}

async fn answer(State(kms): State<Kms>, headers: HeaderMap, body: Bytes) -> Response {
    let refusal = |status: u16, kind: &str| {
        let body = json!({"__type": format!("com.amazonaws.kms#{kind}"), "message": "secret of the service"});
        Response::builder().status(status).body(body.to_string().into()).unwrap()
    };
    if let Some(refused) = kms.service.refusal().await {
        return refused;
    }
    if let Some(token) = headers.get("x-amz-security-token") {
        kms.tokens.lock().unwrap().push(token.to_str().unwrap().to_owned());
    }
    let Some(id) = signed_by(&headers, &body) else { return refusal(400, "IncompleteSignatureException") };
    if let Some((_, name)) = kms.stale.lock().unwrap().filter(|(stale, _)| *stale == id) {
        return refusal(400, name);
    }
    if let Some((status, kind)) = *kms.refuses.lock().unwrap() {
        return refusal(status, kind);
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    let (id, mood) = (body["KeyId"].as_str().unwrap(), kms.service.mood());
    let seed = if mood == Mood::WrongKey { 9 } else { 1 };
    match headers["x-amz-target"].to_str().unwrap() {
        "TrentService.GetPublicKey" => {
            let der = match id {
                "alias/evm" => {
                    let point = key(seed).credential().verifying_key().to_encoded_point(false);
                    let prefix = hex::decode("3056301006072a8648ce3d020106052b8104000a034200").unwrap();
                    [prefix, point.as_bytes().to_vec()].concat()
                }
                "alias/solana" => {
                    let key = if mood == Mood::WrongKey { SigningKey::from_bytes(&[9; 32]) } else { ed25519() };
                    [hex::decode("302a300506032b6570032100").unwrap(), key.verifying_key().to_bytes().to_vec()].concat()
                }
                _ => return refusal(400, "NotFoundException"),
            };
            Json(json!({"KeyId": id, "PublicKey": BASE64.encode(der), "KeyUsage": "SIGN_VERIFY"})).into_response()
        }
        "TrentService.Sign" => {
            kms.service.signed.fetch_add(1, Ordering::Relaxed);
            let message = BASE64.decode(body["Message"].as_str().unwrap()).unwrap();
            let message = if mood == Mood::OtherMessage { vec![7; 32] } else { message };
            let signature = match (id, body["MessageType"].as_str(), body["SigningAlgorithm"].as_str()) {
                ("alias/evm", Some("DIGEST"), Some("ECDSA_SHA_256")) => {
                    let signed = key(seed).sign_hash_sync(&B256::from_slice(&message)).unwrap();
                    let mut signed = ecdsa::Signature::from_slice(&signed.as_bytes()[..64]).unwrap();
                    if *kms.high.lock().unwrap() {
                        signed =
                            ecdsa::Signature::from_scalars(signed.r().to_bytes(), (-*signed.s()).to_bytes()).unwrap();
                    }
                    signed.to_der().as_bytes().to_vec()
                }
                ("alias/solana", Some("RAW"), Some("ED25519_SHA_512")) => {
                    let key = if mood == Mood::WrongKey { SigningKey::from_bytes(&[9; 32]) } else { ed25519() };
                    key.sign(&message).to_bytes().to_vec()
                }
                _ => return refusal(400, "ValidationException"),
            };
            Json(json!({"KeyId": id, "Signature": BASE64.encode(signature)})).into_response()
        }
        _ => refusal(400, "UnknownOperationException"),
    }
}

struct World {
    kms: Kms,
    url: url::Url,
}

impl World {
    async fn start() -> Self {
        let kms = Kms {
            service: Service::new(),
            refuses: Arc::default(),
            stale: Arc::default(),
            high: Arc::default(),
            tokens: Arc::default(),
        };
        let router = Router::new().route("/", post(answer)).with_state(kms.clone());
        Self { kms, url: serve(router).await }
    }

    fn place(&self, key_id: &str) -> KmsPlace {
        let endpoint = Some(self.url.clone());
        KmsPlace { key_id: key_id.to_owned(), region: REGION.to_owned(), endpoint, call_max: CALL_MAX }
    }

    fn evm(&self) -> Secp256k1Key {
        Key::<signer::Secp256k1>::kms(self.place("alias/evm"), key(1).address(), given(&[])).unwrap()
    }

    fn solana(&self) -> Ed25519Key {
        let account = ed25519().verifying_key().to_bytes();
        Key::<signer::Ed25519>::kms(self.place("alias/solana"), account, given(&[])).unwrap()
    }
}

/// The credentials, and what of them is different.
fn given(others: &[(&str, &str)]) -> AwsCredentials {
    let mut variables = BTreeMap::from([("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)]);
    variables.extend(others.iter().copied());
    AwsCredentials::of_variables(|name| variables.get(name).map(|value| (*value).to_owned()).filter(|v| !v.is_empty()))
}

#[tokio::test]
async fn both_hashes_and_either_s_come_out_as_one_signature() -> Result<()> {
    let world = World::start().await;
    let distant = world.evm();
    distant.check().await?;
    let message = b"a preimage";
    for (hash, digest) in
        [(Hash::Keccak256, keccak256(message)), (Hash::Sha256, B256::from_slice(&Sha256::digest(message)))]
    {
        for high in [false, true] {
            *world.kms.high.lock().unwrap() = high;
            let signature = distant.sign(hash, message).await?;
            assert_eq!(signature, key(1).sign_hash_sync(&digest)?, "{hash:?}, high {high}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_message_is_signed_as_it_is_on_ed25519() -> Result<()> {
    let world = World::start().await;
    let distant = world.solana();
    distant.check().await?;
    assert_eq!(distant.sign(b"a message").await?, ed25519().sign(b"a message").to_bytes());
    Ok(())
}

#[tokio::test]
async fn no_signature_of_another_key_is_given_out() -> Result<()> {
    let world = World::start().await;
    let (evm, solana) = (world.evm(), world.solana());
    for mood in [Mood::WrongKey, Mood::OtherMessage] {
        world.kms.service.is(mood);
        for refused in
            [evm.sign(Hash::Keccak256, b"a preimage").await.unwrap_err(), solana.sign(b"a message").await.unwrap_err()]
        {
            assert!(matches!(refused, SignError::OtherKey { .. }), "{mood:?}: {refused}");
            assert!(Transient::from(refused).is_misconfigured());
        }
    }
    world.kms.service.is(Mood::WrongKey);
    let told = evm.check().await.unwrap_err().to_string();
    assert!(told.contains(&format!("with that of {:#x}", key(9).address())), "{told}");
    assert!(matches!(solana.check().await, Err(SignError::OtherKey { .. })));
    Ok(())
}

#[tokio::test]
async fn a_refusal_has_its_kind_and_repeats_nothing() -> Result<()> {
    let world = World::start().await;
    let distant = world.evm();
    for (status, name, kind) in [
        (400, "ThrottlingException", "rate limited"),
        (400, "LimitExceededException", "rate limited"),
        (400, "AccessDeniedException", "misconfigured"),
        (400, "NotFoundException", "misconfigured"),
        (400, "DisabledException", "misconfigured"),
        (500, "KMSInternalException", "unreachable"),
        (500, "KeyUnavailableException", "unreachable"),
        (503, "DependencyTimeoutException", "unreachable"),
        (409, "ConflictException", "unreachable"),
    ] {
        *world.kms.refuses.lock().unwrap() = Some((status, name));
        let refused = distant.sign(Hash::Keccak256, b"a preimage").await.unwrap_err();
        assert!(refused.to_string().contains(name) && !refused.to_string().contains("secret"), "{refused}");
        assert_eq!(Transient::from(refused).kind(), kind, "{name}");
    }
    *world.kms.refuses.lock().unwrap() = None;
    for (mood, kind) in [
        (Mood::Slow, "unreachable"),
        (Mood::Status(502), "unreachable"),
        (Mood::Garbage, "contradiction"),
        (Mood::Endless, "contradiction"),
    ] {
        world.kms.service.is(mood);
        let refused = distant.sign(Hash::Keccak256, b"a preimage").await.unwrap_err();
        assert_eq!(Transient::from(refused).kind(), kind, "{mood:?}");
    }
    Ok(())
}

#[tokio::test]
async fn credentials_are_the_environments_or_the_containers() -> Result<()> {
    let world = World::start().await;
    let account = key(1).address();
    let with = |credentials| Key::<signer::Secp256k1>::kms(world.place("alias/evm"), account, credentials);
    let none = with(given(&[("AWS_ACCESS_KEY_ID", "")]))?.check().await.unwrap_err();
    assert!(matches!(&none, SignError::Unusable { reason, .. } if reason.contains("AWS_ACCESS_KEY_ID")), "{none}");
    let wrong = with(given(&[("AWS_SECRET_ACCESS_KEY", "another")]))?.check().await.unwrap_err();
    assert!(matches!(wrong, SignError::Unusable { .. }), "{wrong}");
    with(given(&[("AWS_SESSION_TOKEN", "session")]))?.check().await?;
    assert_eq!(*world.kms.tokens.lock().unwrap(), ["session"]);

    // A container's are asked for once, as long as they hold.
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let answers = |seconds: i64| {
        let asked = asked.clone();
        move |headers: HeaderMap| {
            let asked = asked.clone();
            async move {
                asked.lock().unwrap().push(headers["authorization"].to_str().unwrap().to_owned());
                let ends = chrono::Utc::now() + chrono::TimeDelta::seconds(seconds);
                Json(json!({
                    "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET, "Token": "container",
                    "Expiration": ends.to_rfc3339(),
                }))
            }
        }
    };
    let router = Router::new().route("/long", get(answers(3_600))).route("/short", get(answers(60)));
    let container = serve(router).await;
    for (path, calls) in [("long", 1), ("short", 3)] {
        asked.lock().unwrap().clear();
        let url = container.join(path)?;
        let variables = [
            ("AWS_ACCESS_KEY_ID", ""),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer pod"),
        ];
        let distant = with(given(&variables))?;
        for _ in 0..3 {
            distant.check().await?;
        }
        assert_eq!(*asked.lock().unwrap(), vec!["Bearer pod"; calls], "{path}");
    }
    assert!(!format!("{:?}", given(&[])).contains(SECRET));
    Ok(())
}

/// An endpoint of a container.
struct Container {
    url: url::Url,
    status: Arc<Mutex<u16>>,
    /// The id of the credentials that it gives.
    id: Arc<Mutex<&'static str>>,
    asked: Arc<AtomicUsize>,
}

impl Container {
    async fn start() -> Self {
        let (status, id) = (Arc::new(Mutex::new(200)), Arc::new(Mutex::new(ACCESS_KEY)));
        let asked = Arc::new(AtomicUsize::new(0));
        let answer = {
            let (status, id, asked) = (status.clone(), id.clone(), asked.clone());
            move || async move {
                asked.fetch_add(1, Ordering::Relaxed);
                let ends = chrono::Utc::now() + chrono::TimeDelta::hours(1);
                let id = *id.lock().unwrap();
                let body = json!({
                    "AccessKeyId": id, "SecretAccessKey": SECRET, "Token": "t", "Expiration": ends.to_rfc3339(),
                });
                let status = axum::http::StatusCode::from_u16(*status.lock().unwrap()).unwrap();
                (status, Json(body))
            }
        };
        let url = serve(Router::new().route("/", get(answer))).await;
        Self { url, status, id, asked }
    }

    fn credentials(&self) -> AwsCredentials {
        given(&[("AWS_ACCESS_KEY_ID", ""), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", self.url.as_str())])
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn one_failure_of_the_containers_endpoint_answers_all_who_wait() -> Result<()> {
    let (world, container) = (World::start().await, Container::start().await);
    *container.status.lock().unwrap() = 500;
    let credentials = container.credentials();
    let distant = Key::<signer::Secp256k1>::kms(world.place("alias/evm"), key(1).address(), credentials.clone())?;
    let other = Key::<signer::Ed25519>::kms(world.place("alias/solana"), [3; 32], credentials)?;
    let calls = futures::future::join_all((0..20).map(|_| distant.check()));
    let (calls, another) = tokio::join!(calls, other.check());
    for refused in calls {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, SignError::Unreachable { key, .. } if key.contains("alias/evm")), "{refused}");
    }
    let another = another.unwrap_err();
    assert!(matches!(&another, SignError::Unreachable { key, .. } if key.contains("alias/solana")), "{another}");
    assert_eq!(container.asked(), 1);
    Ok(())
}

#[tokio::test]
async fn credentials_that_are_taken_back_are_replaced_within_the_call() -> Result<()> {
    for name in ["ExpiredTokenException", "UnrecognizedClientException"] {
        let (world, container) = (World::start().await, Container::start().await);
        let distant =
            Key::<signer::Secp256k1>::kms(world.place("alias/evm"), key(1).address(), container.credentials())?;
        distant.check().await?;
        *world.kms.stale.lock().unwrap() = Some((ACCESS_KEY, name));
        *container.id.lock().unwrap() = "AKIDROTATED";
        distant.check().await?;
        distant.check().await?;
        assert_eq!(container.asked(), 2, "{name}");
    }
    Ok(())
}

/// The endpoint gives what AWS refuses, whenever it is asked.
#[tokio::test]
async fn credentials_that_are_refused_for_ever_are_an_operators_to_mend() -> Result<()> {
    let (world, container) = (World::start().await, Container::start().await);
    let distant = Key::<signer::Secp256k1>::kms(world.place("alias/evm"), key(1).address(), container.credentials())?;
    *world.kms.stale.lock().unwrap() = Some((ACCESS_KEY, "UnrecognizedClientException"));
    for _ in 0..5 {
        let refused = distant.check().await.unwrap_err();
        assert!(matches!(refused, SignError::Unusable { .. }), "{refused}");
    }
    assert_eq!(container.asked(), 2, "once, and once more for others");
    // Another refusal leaves the credentials alone, and so does one of what the environment gave.
    let container = Container::start().await;
    *world.kms.stale.lock().unwrap() = Some((ACCESS_KEY, "AccessDeniedException"));
    let distant = Key::<signer::Secp256k1>::kms(world.place("alias/evm"), key(1).address(), container.credentials())?;
    for _ in 0..3 {
        assert!(matches!(distant.check().await, Err(SignError::Unusable { .. })));
    }
    assert_eq!(container.asked(), 1);
    *world.kms.stale.lock().unwrap() = Some((ACCESS_KEY, "ExpiredTokenException"));
    assert!(matches!(world.evm().check().await, Err(SignError::Unusable { .. })));
    Ok(())
}
