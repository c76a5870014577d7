//! Decentralized identifiers of settlers and payers.

use std::{fmt, str::FromStr};

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{ids::base32, text};

/// Multicodec prefix of an Ed25519 public key.
const ED25519_MULTICODEC: [u8; 2] = [0xed, 0x01];

/// A DID of the form `^did:[a-z][a-z0-9]*:[a-zA-Z0-9._:%-]+$` (spec 2.1). It may be as long as what it stands in; where a name
/// has to be short, as in a subject, its hash is used.
///
/// The EVM account in a `did:pkh:eip155` is written in lower case and the chain in a `did:pkh:tron` in decimal digits, so that
/// one account is one DID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Did(String);

/// Why a text is not a usable DID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text breaks the pattern.
    #[error("must match ^did:[a-z][a-z0-9]*:[a-zA-Z0-9._:%-]+$")]
    Pattern,
    /// Not a `did:key` that carries an Ed25519 key.
    #[error("must be a did:key of an Ed25519 public key")]
    NotEd25519Key,
}

impl Did {
    /// The `did:key` of an Ed25519 public key.
    pub fn from_ed25519(key: &VerifyingKey) -> Self {
        let mut bytes = ED25519_MULTICODEC.to_vec();
        bytes.extend_from_slice(key.as_bytes());
        Self(format!("did:key:z{}", bs58::encode(bytes).into_string()))
    }

    /// The Ed25519 key in a `did:key`.
    ///
    /// # Errors
    /// [`Error::NotEd25519Key`] for another method, another key type or a point that is not on the curve.
    pub fn ed25519_key(&self) -> Result<VerifyingKey, Error> {
        // Decoding is quadratic, and a DID may be long; 34 bytes take 47 digits at most.
        let encoded = self.0.strip_prefix("did:key:z").filter(|encoded| encoded.len() <= 47);
        let encoded = encoded.ok_or(Error::NotEd25519Key)?;
        let bytes = bs58::decode(encoded).into_vec().map_err(|_| Error::NotEd25519Key)?;
        let key = bytes.strip_prefix(&ED25519_MULTICODEC).ok_or(Error::NotEd25519Key)?;
        let key: &[u8; 32] = key.try_into().map_err(|_| Error::NotEd25519Key)?;
        VerifyingKey::from_bytes(key).map_err(|_| Error::NotEd25519Key)
    }

    /// The verification method of a `did:key`: the DID, `#`, and its method-specific id.
    pub fn key_verification_method(&self) -> String {
        let fragment = self.0.rsplit(':').next().unwrap_or_default();
        format!("{}#{fragment}", self.0)
    }

    /// The DID as one token of a NATS subject.
    pub fn token(&self) -> SettlerToken {
        let digest = Sha256::digest(self.0.as_bytes());
        SettlerToken(base32(&digest[..16]))
    }

    /// The DID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Did {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let did: proofs::did::Did = text.parse().map_err(|_| Error::Pattern)?;
        Ok(Self(did.as_str().to_owned()))
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Did {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Did {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer)
    }
}

/// A settler as one token of a NATS subject: base32 of the first 16 bytes of the SHA-256 of its DID.
///
/// A DID contains `:` and `.`, which a subject token may not. NATS permissions are written in terms of this token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SettlerToken(String);

impl SettlerToken {
    /// A token as it stands in a subject or key; compared with [`Did::token`] before anything is believed.
    pub fn from_subject(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SettlerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_of_the_contract() {
        for good in ["did:key:z6Mk", "did:web:example.com%3A8080:user", "did:pkh:eip155:1:0xab"] {
            assert!(good.parse::<Did>().is_ok(), "{good}");
        }
        for bad in ["", "did:", "did:key", "did:key:", "did:Key:z", "did:1key:z", "key:z", "did:key:z/1", "did:key:z#a"]
        {
            assert_eq!(bad.parse::<Did>(), Err(Error::Pattern), "{bad}");
        }
    }

    #[test]
    fn a_did_of_any_length_has_a_short_token() {
        let long: Did = format!("did:web:{}.example", "a".repeat(60_000)).parse().unwrap();
        assert_eq!(long.token().as_str().len(), "did:web:a.example".parse::<Did>().unwrap().token().as_str().len());
        // What only looks like a key costs nothing to refuse.
        let key: Did = format!("did:key:z6Mk{}", "k".repeat(60_000)).parse().unwrap();
        assert_eq!(key.ed25519_key(), Err(Error::NotEd25519Key));
    }

    #[test]
    fn one_evm_account_is_one_did() {
        let did = |text: &str| text.parse::<Did>().unwrap();
        let lower = did("did:pkh:eip155:1:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed");
        assert_eq!(did("did:pkh:eip155:1:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"), lower);
        assert_eq!(did("did:pkh:eip155:1:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed").token(), lower.token());
        let wrong = "did:pkh:eip155:1:0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
        assert_eq!(did(wrong).as_str(), wrong);
    }

    #[test]
    fn did_key_carries_its_ed25519_key() {
        // From the did:key specification's Ed25519 test vectors.
        let did: Did = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp".parse().unwrap();
        let key = did.ed25519_key().unwrap();
        assert_eq!(hex::encode(key.as_bytes()), "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29");
        assert_eq!(Did::from_ed25519(&key), did);
        // A secp256k1 did:key is a key, but not one of these.
        let other: Did = "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme".parse().unwrap();
        assert_eq!(other.ed25519_key(), Err(Error::NotEd25519Key));
    }
}
