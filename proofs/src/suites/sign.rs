//! Creation of a proof.

use chrono::{DateTime, SecondsFormat, Utc};
use ed25519_dalek::Signer;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    Error, Suite, jws,
    verify::{Input, hash_algorithm, jws_algorithm},
};
use crate::{contexts::Contexts, did::Purpose, json::Document, key::Key};

/// A private key.
#[derive(Clone)]
pub enum SigningKey {
    /// Ed25519.
    Ed25519(ed25519_dalek::SigningKey),
    /// secp256k1.
    Secp256k1(k256::ecdsa::SigningKey),
    /// P-256.
    P256(p256::ecdsa::SigningKey),
    /// P-384.
    P384(p384::ecdsa::SigningKey),
}

/// The proof options: its members besides the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// DID URL of the key.
    pub verification_method: String,
    /// The purpose of the proof.
    pub purpose: Purpose,
    /// When it is made.
    pub created: DateTime<Utc>,
    /// Until when it holds.
    pub expires: Option<DateTime<Utc>>,
}

impl SigningKey {
    /// The public half.
    pub fn public(&self) -> Key {
        match self {
            Self::Ed25519(key) => Key::Ed25519(key.verifying_key()),
            Self::Secp256k1(key) => Key::Secp256k1(*key.verifying_key()),
            Self::P256(key) => Key::P256(*key.verifying_key()),
            Self::P384(key) => Key::P384(*key.verifying_key()),
        }
    }

    /// Signs bytes: Ed25519 as they are, ECDSA over their SHA-256, r and s in 64 bytes, on P-384 over their SHA-384, in 96.
    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.sign(bytes).to_bytes().to_vec(),
            Self::Secp256k1(key) => {
                let signature: k256::ecdsa::Signature = key.sign(bytes);
                signature.to_bytes().to_vec()
            }
            Self::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(bytes);
                signature.to_bytes().to_vec()
            }
            Self::P384(key) => {
                let signature: p384::ecdsa::Signature = key.sign(bytes);
                signature.to_bytes().to_vec()
            }
        }
    }
}

/// The document with a proof beside it.
///
/// `EthereumEip712Signature2021` is made by wallets and verified here, but not made.
///
/// # Errors
/// [`Error::NotOneProof`] when the document has a proof already, [`Error::KeyKind`], [`Error::Canonical`].
pub fn sign(
    document: &Document,
    suite: Suite,
    key: &SigningKey,
    options: &Options,
    contexts: &Contexts,
) -> Result<Document, Error> {
    if document.members().contains_key("proof") {
        return Err(Error::NotOneProof);
    }
    let time = |time: DateTime<Utc>| Value::from(time.to_rfc3339_opts(SecondsFormat::Secs, true));
    let mut proof = Map::new();
    suite.write(&mut proof);
    proof.insert("created".to_owned(), time(options.created));
    if let Some(expires) = options.expires {
        proof.insert("expires".to_owned(), time(expires));
    }
    proof.insert("verificationMethod".to_owned(), options.verification_method.as_str().into());
    proof.insert("proofPurpose".to_owned(), options.purpose.as_str().into());
    if suite.signs_jcs()
        && let Some(context) = document.members().get("@context")
    {
        proof.insert("@context".to_owned(), context.clone());
    }
    let wrong_key = || Error::KeyKind { suite };
    let input = || Input::of(document, &proof, suite, hash_algorithm(suite, &key.public()), contexts);
    let value = match (suite, key) {
        (Suite::EddsaRdfc2022 | Suite::EddsaJcs2022 | Suite::Ed25519Signature2020, SigningKey::Ed25519(_))
        | (Suite::EcdsaRdfc2019 | Suite::EcdsaJcs2019, SigningKey::P256(_) | SigningKey::P384(_)) => {
            format!("z{}", bs58::encode(key.sign(&input()?.bytes)).into_string())
        }
        _ => {
            let alg = jws_algorithm(suite, &key.public()).ok_or_else(wrong_key)?;
            let header = jws::encode(&jws::header(alg));
            let signed = jws::signing_input(&header, &input()?.bytes);
            let signature = match (suite, key) {
                (Suite::EcdsaSecp256k1RecoverySignature2020, SigningKey::Secp256k1(key)) => {
                    let signed = key.sign_prehash_recoverable(&Sha256::digest(&signed));
                    let (signature, recovery) = signed.map_err(|_| Error::Signature)?;
                    [&signature.to_bytes()[..], &[recovery.to_byte()]].concat()
                }
                _ => key.sign(&signed),
            };
            jws::close(&header, &signature)
        }
    };
    proof.insert(suite.carrier().to_owned(), value.into());
    let mut members = document.members().clone();
    members.insert("proof".to_owned(), Value::Object(proof));
    Ok(Document::from_checked(members))
}
