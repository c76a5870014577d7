//! Verification of a proof.

use chrono::{DateTime, TimeDelta, Utc};
use ed25519_dalek::Signature as Ed25519Signature;
use k256::ecdsa::{RecoveryId, Signature as Secp256k1Signature, VerifyingKey as Secp256k1};
use p256::ecdsa::{Signature as P256Signature, signature::hazmat::PrehashVerifier};
use p384::ecdsa::Signature as P384Signature;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256, Sha384};

use super::{CLOCK_SKEW_SECONDS_MAX, Error, Secured, Suite, eip712, jws, proof::member};
use crate::{
    canonical::{self, HashAlgorithm, NQuads, Reason, canonicalize, canonicalize_members_by},
    contexts::Contexts,
    did::{DidDocument, Purpose},
    json::Document,
    key::Key,
};

/// The result of a successful verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The canonical N-Quads (RDFC-1.0 with SHA-256) of what the proof covers, of suites that sign N-Quads. Of a quote,
    /// their SHA-256 is the `quote_hash`.
    pub nquads: Option<NQuads>,
}

impl Secured {
    /// Checks everything: form, times, purpose, whose key it is, and the signature.
    ///
    /// `signer` is the document of the DID that has to have signed, resolved by the caller.
    ///
    /// # Errors
    /// See [`Error`]. The order is: purpose, times, authorisation, key, canonical form, signature.
    pub fn verify(
        &self,
        signer: &DidDocument,
        purpose: Purpose,
        now: DateTime<Utc>,
        contexts: &Contexts,
    ) -> Result<Verified, Error> {
        let proof = &self.proof;
        if proof.proof_purpose != purpose.as_str() {
            return Err(Error::Purpose { expected: purpose, found: proof.proof_purpose.clone() });
        }
        let latest = now + TimeDelta::seconds(CLOCK_SKEW_SECONDS_MAX);
        if proof.created.is_some_and(|created| created > latest) {
            return Err(Error::NotYetCreated);
        }
        if proof.expires.is_some_and(|expires| expires <= now) {
            return Err(Error::Expired);
        }
        let method = signer.authorised(&proof.verification_method, purpose)?;
        self.verify_with_key(&method.key, contexts)
    }

    /// Checks the signature alone. Whose key it is, and whether it may be used so, the caller has to know.
    ///
    /// # Errors
    /// [`Error::KeyKind`], what keeps the document from a canonical form, and faults of the signature.
    pub fn verify_with_key(&self, key: &Key, contexts: &Contexts) -> Result<Verified, Error> {
        let suite = self.proof.suite;
        let wrong_key = || Error::KeyKind { suite };
        let input = || Input::of(&self.document, &self.proof.options, suite, hash_algorithm(suite, key), contexts);
        match (suite, key) {
            (Suite::EddsaRdfc2022 | Suite::EddsaJcs2022 | Suite::Ed25519Signature2020, Key::Ed25519(_))
            | (Suite::EcdsaRdfc2019 | Suite::EcdsaJcs2019, Key::P256(_) | Key::P384(_)) => {
                let input = input()?;
                verify_bytes(key, &input.bytes, &multibase(&self.proof.value)?)?;
                Ok(input.verified())
            }
            (Suite::EthereumEip712Signature2021, Key::Secp256k1(_) | Key::Address(_) | Key::TronAddress(_)) => {
                let signature = self.proof.value.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
                let signature = signature.ok_or_else(|| member("proofValue", "is not hex digits after 0x"))?;
                let digest = eip712::digest(&self.document, &self.proof.options)?;
                verify_recoverable(key, &digest, &signature)?;
                Ok(Verified { nquads: None })
            }
            (Suite::EcdsaSecp256k1RecoverySignature2020, Key::Secp256k1(_) | Key::Address(_) | Key::TronAddress(_)) => {
                let input = input()?;
                let (signed, signature) = jws::open(&self.proof.value, "ES256K-R", &input.bytes)?;
                verify_recoverable(key, &Sha256::digest(signed).into(), &signature)?;
                Ok(input.verified())
            }
            (
                Suite::Ed25519Signature2018 | Suite::EcdsaSecp256k1Signature2019 | Suite::JsonWebSignature2020,
                Key::Ed25519(_) | Key::Secp256k1(_) | Key::P256(_) | Key::P384(_),
            ) => {
                let alg = jws_algorithm(suite, key).ok_or_else(wrong_key)?;
                let input = input()?;
                let (signed, signature) = jws::open(&self.proof.value, alg, &input.bytes)?;
                verify_bytes(key, &signed, &signature)?;
                Ok(input.verified())
            }
            _ => Err(wrong_key()),
        }
    }
}

/// The algorithm a suite's JWS names for a key; `None` when the suite has no such keys.
pub(super) fn jws_algorithm(suite: Suite, key: &Key) -> Option<&'static str> {
    match (suite, key) {
        (Suite::Ed25519Signature2018 | Suite::JsonWebSignature2020, Key::Ed25519(_)) => Some("EdDSA"),
        (Suite::EcdsaSecp256k1Signature2019 | Suite::JsonWebSignature2020, Key::Secp256k1(_)) => Some("ES256K"),
        (Suite::JsonWebSignature2020, Key::P256(_)) => Some("ES256"),
        (Suite::JsonWebSignature2020, Key::P384(_)) => Some("ES384"),
        (Suite::EcdsaSecp256k1RecoverySignature2020, Key::Secp256k1(_) | Key::Address(_) | Key::TronAddress(_)) => {
            Some("ES256K-R")
        }
        _ => None,
    }
}

/// The hash of what is signed: SHA-384 for P-384 in the suites of Data Integrity ECDSA Cryptosuites 1.0, SHA-256 else.
pub(super) fn hash_algorithm(suite: Suite, key: &Key) -> HashAlgorithm {
    match (suite, key) {
        (Suite::EcdsaRdfc2019 | Suite::EcdsaJcs2019, Key::P384(_)) => HashAlgorithm::Sha384,
        _ => HashAlgorithm::Sha256,
    }
}

/// The input that a suite signs.
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    nquads: Option<NQuads>,
}

impl Input {
    /// Hash of the proof's options, then hash of the document.
    pub(super) fn of(
        document: &Document,
        options: &Map<String, Value>,
        suite: Suite,
        hash: HashAlgorithm,
        contexts: &Contexts,
    ) -> Result<Self, Error> {
        match suite {
            Suite::EthereumEip712Signature2021 => Ok(Self { bytes: Vec::new(), nquads: None }),
            Suite::EddsaJcs2022 | Suite::EcdsaJcs2019 => {
                let mut members = document.members().clone();
                if let Some(context) = options.get("@context") {
                    if !begins_with(members.get("@context"), context) {
                        return Err(Error::Context);
                    }
                    members.insert("@context".to_owned(), context.clone());
                }
                let bytes = [jcs_hash(options, hash)?, jcs_hash(&members, hash)?].concat();
                Ok(Self { bytes, nquads: None })
            }
            _ => {
                let nquads = canonicalize(document, contexts)?;
                let options_hash = options_hash(document, options, suite, hash, contexts)?;
                let document_hash = match hash {
                    HashAlgorithm::Sha256 => nquads.sha256().to_vec(),
                    other => digest_nquads(document.members(), other, contexts)?,
                };
                Ok(Self { bytes: [options_hash, document_hash].concat(), nquads: Some(nquads) })
            }
        }
    }

    fn verified(self) -> Verified {
        Verified { nquads: self.nquads }
    }
}

/// Hash of the options' canonical N-Quads under the document's contexts, or the suite's own where those do not map them.
fn options_hash(
    document: &Document,
    options: &Map<String, Value>,
    suite: Suite,
    hash: HashAlgorithm,
    contexts: &Contexts,
) -> Result<Vec<u8>, Error> {
    let context = document.members().get("@context").cloned().unwrap_or_default();
    if options.get("@context").is_some_and(|stated| *stated != context) {
        return Err(Error::Context);
    }
    let mut members = options.clone();
    members.insert("@context".to_owned(), context);
    let digest = match digest_nquads(&members, hash, contexts) {
        Err(canonical::Error::Refused {
            reason: Reason::UnmappedTerm(_) | Reason::UnmappedType | Reason::RelativeId(_),
            ..
        }) => {
            members.insert("@context".to_owned(), suite.contexts().into());
            digest_nquads(&members, hash, contexts)
        }
        result => result,
    };
    digest.map_err(Error::CanonicalOptions)
}

/// Hash of the canonical N-Quads, in which the same hash told the blank nodes apart.
fn digest_nquads(
    members: &Map<String, Value>,
    hash: HashAlgorithm,
    contexts: &Contexts,
) -> Result<Vec<u8>, canonical::Error> {
    Ok(hash.digest(canonicalize_members_by(members, contexts, hash)?.as_str().as_bytes()))
}

fn as_list(context: &Value) -> Vec<Value> {
    match context {
        Value::Array(urls) => urls.clone(),
        other => vec![other.clone()],
    }
}

/// Whether the document's contexts begin with the proof's (section 3.3.2 of both, eddsa-jcs-2022 and ecdsa-jcs-2019).
fn begins_with(document: Option<&Value>, proof: &Value) -> bool {
    document.is_some_and(|document| as_list(document).starts_with(&as_list(proof)))
}

fn jcs_hash(members: &Map<String, Value>, hash: HashAlgorithm) -> Result<Vec<u8>, Error> {
    let bytes =
        serde_json_canonicalizer::to_vec(members).map_err(|error| canonical::Error::JsonLd(error.to_string()))?;
    Ok(hash.digest(&bytes))
}

/// `z`, then base58btc of the 64 bytes of a signature, of P-384 the 96.
fn multibase(text: &str) -> Result<Vec<u8>, Error> {
    let malformed = || member("proofValue", "is not the base58btc multibase of a signature");
    let encoded = text.strip_prefix('z').filter(|encoded| encoded.len() <= 136).ok_or_else(malformed)?;
    bs58::decode(encoded).into_vec().map_err(|_| malformed())
}

/// Verifies a signature over bytes: Ed25519 strictly, ECDSA over their SHA-256, on P-384 over their SHA-384.
pub(super) fn verify_bytes(key: &Key, bytes: &[u8], signature: &[u8]) -> Result<(), Error> {
    let verified = match key {
        Key::Ed25519(key) => {
            let signature = Ed25519Signature::from_slice(signature).map_err(|_| Error::Signature)?;
            key.verify_strict(bytes, &signature).is_ok()
        }
        Key::Secp256k1(key) => {
            let signature = low_s(signature)?;
            key.verify_prehash(&Sha256::digest(bytes), &signature).is_ok()
        }
        // WebCrypto and most P-256 signers make high s as often as low, and nothing is keyed by these signatures.
        Key::P256(key) => {
            let signature = P256Signature::from_slice(signature).map_err(|_| Error::Signature)?;
            key.verify_prehash(&Sha256::digest(bytes), &signature).is_ok()
        }
        Key::P384(key) => {
            let signature = P384Signature::from_slice(signature).map_err(|_| Error::Signature)?;
            key.verify_prehash(&Sha384::digest(bytes), &signature).is_ok()
        }
        Key::Address(_) | Key::TronAddress(_) => false,
    };
    if verified { Ok(()) } else { Err(Error::Signature) }
}

/// Verifies 65 bytes r, s, v by the key they recover to.
pub(super) fn verify_recoverable(key: &Key, digest: &[u8; 32], signature: &[u8]) -> Result<(), Error> {
    let (signature, v) = match signature {
        [signature @ .., v] if signature.len() == 64 => (signature, *v),
        _ => return Err(Error::Signature),
    };
    let v = match v {
        0 | 27 => 0,
        1 | 28 => 1,
        _ => return Err(Error::Signature),
    };
    let signature = low_s(signature)?;
    let recovery = RecoveryId::try_from(v).map_err(|_| Error::Signature)?;
    let recovered = Secp256k1::recover_from_prehash(digest, &signature, recovery).map_err(|_| Error::Signature)?;
    if key.is_of(&recovered) { Ok(()) } else { Err(Error::Signature) }
}

fn low_s(signature: &[u8]) -> Result<Secp256k1Signature, Error> {
    let signature = Secp256k1Signature::from_slice(signature).map_err(|_| Error::Signature)?;
    if signature.normalize_s().is_some() { Err(Error::HighS) } else { Ok(signature) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vector of EcdsaSecp256k1RecoverySignature2020: hashes of its options and document, made with npm
    /// `jsonld` because it names its contexts inline, and its signatures under a key, the same key's address, and another
    /// address.
    #[test]
    fn the_published_recovery_signatures_verify() {
        const DOCUMENT: &str = "a08f201fcd06922ff1af8fc1b8aad301ef838ff6b45bebe33fe9904698e09d42";
        const HEADER: &str = "eyJhbGciOiJFUzI1NkstUiIsImI2NCI6ZmFsc2UsImNyaXQiOlsiYjY0Il19";
        let bytes = |text: &str| hex::decode(text).unwrap();
        let address = |text: &str| Key::Address(bytes(text).try_into().unwrap());
        let public = "027560af3387d375e3342a6968179ef3c6d04f5d33b2b611cf326d4708badd7770";
        let public = Key::Secp256k1(Secp256k1::from_sec1_bytes(&bytes(public)).unwrap());
        let vectors = [
            (
                public.clone(),
                "59034708adea5bf6f9b6dd1cc75a2b7ec97fe089703f456857b7d2d13bf89c67",
                "1QW7BWzMMHZNCF1-Asv3ot05ewi_7syYLuyi4LzzhcIEDGjphuizLkB-14rgnlKK1vlfqhnglchZyvrCGfSTwQE",
            ),
            (
                public,
                "fb16aeefdacfe225c758755df82628cf64e835203e03eaea8450fc129f46fb13",
                "U3SFhgj1G12FlWFDddkFdHZ8ktuVwGyOmhYDc2MccFgK9CtnN_9gsVPvNp-CV4X3vHWAUttgp1DUOt0ilRmiCgA",
            ),
            (
                address("f3beac30c498d9e26865f34fcaa57dbb935b0d74"),
                "24c4bee94e48314aac77fbdde5c10c14b53fd9e03e5623df0ce42b9702a00329",
                "wt1hzqcSx654YaqdCx-6bp6_bkzMbjZc9-071-SRsJsQfUvG_U9ZBWUoCvEtv68Kas10AIvFU6siKw8XZi7knwE",
            ),
            (
                address("a136d6b820e41858b57b0136514e75f4174cea5f"),
                "080f5a9bdf1fa24ffd0236a078e694a510c6666a9dc4cae16efad8657d20154f",
                "fWzq2GBZQBPPyZZfbDCVYz3TI0s0RivTuNakTDyJaAN77i3esHOvzXPSZsy45_zbW3ANSdck_d1bauA94CdQ3AE",
            ),
        ];
        for (key, options, signature) in vectors {
            let payload = [bytes(options), bytes(DOCUMENT)].concat();
            let jws = format!("{HEADER}..{signature}");
            let (signed, signature) = jws::open(&jws, "ES256K-R", &payload).unwrap();
            let digest = Sha256::digest(&signed).into();
            assert_eq!(verify_recoverable(&key, &digest, &signature), Ok(()));
            assert_eq!(verify_recoverable(&address(&"11".repeat(20)), &digest, &signature), Err(Error::Signature));
        }
    }
}
