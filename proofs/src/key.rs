//! Public keys and accounts that signatures are checked against.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::VerifyingKey as Ed25519;
use k256::ecdsa::VerifyingKey as Secp256k1;
use p256::ecdsa::VerifyingKey as P256;
use p384::ecdsa::VerifyingKey as P384;
use serde_json::{Map, Value};
use sha3::{Digest, Keccak256};

/// Multicodec prefixes of public keys.
const ED25519_PREFIX: [u8; 2] = [0xed, 0x01];
const SECP256K1_PREFIX: [u8; 2] = [0xe7, 0x01];
const P256_PREFIX: [u8; 2] = [0x80, 0x24];
const P384_PREFIX: [u8; 2] = [0x81, 0x24];

/// The public key of a verification method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// An Ed25519 public key.
    Ed25519(Ed25519),
    /// A secp256k1 public key.
    Secp256k1(Secp256k1),
    /// A P-256 public key.
    P256(P256),
    /// A P-384 public key.
    P384(P384),
    /// The 20 bytes of an EVM address: a secp256k1 key known only by its Keccak-256.
    Address([u8; 20]),
    /// The 20 bytes of a Tron address behind its 0x41: made from the key as on EVM, but its wallets sign texts otherwise.
    TronAddress([u8; 20]),
}

/// A text or JSON object is not a key that is verified here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not an Ed25519, secp256k1, P-256 or P-384 public key")]
pub struct NotAKey;

impl Key {
    /// The key in a Multikey or `did:key` value: `z`, then base58btc of multicodec prefix and key.
    ///
    /// # Errors
    /// [`NotAKey`] for other bases, other kinds of key and points that are not on their curve.
    pub fn from_multibase(text: &str) -> Result<Self, NotAKey> {
        // The longest is 'z' and base58 of 51 bytes; decoding is quadratic, so nothing longer is tried.
        let encoded = text.strip_prefix('z').filter(|encoded| encoded.len() <= 72).ok_or(NotAKey)?;
        let bytes = bs58::decode(encoded).into_vec().map_err(|_| NotAKey)?;
        let (prefix, key) = bytes.split_first_chunk::<2>().ok_or(NotAKey)?;
        match *prefix {
            ED25519_PREFIX => Self::from_ed25519(key),
            SECP256K1_PREFIX if key.len() == 33 => {
                Secp256k1::from_sec1_bytes(key).map(Self::Secp256k1).map_err(|_| NotAKey)
            }
            P256_PREFIX if key.len() == 33 => P256::from_sec1_bytes(key).map(Self::P256).map_err(|_| NotAKey),
            P384_PREFIX if key.len() == 49 => P384::from_sec1_bytes(key).map(Self::P384).map_err(|_| NotAKey),
            _ => Err(NotAKey),
        }
    }

    /// The 32 bytes of an Ed25519 key.
    ///
    /// # Errors
    /// [`NotAKey`] for another length, a point that is not on the curve, or one of small order.
    pub fn from_ed25519(bytes: &[u8]) -> Result<Self, NotAKey> {
        let bytes: &[u8; 32] = bytes.try_into().map_err(|_| NotAKey)?;
        let key = Ed25519::from_bytes(bytes).map_err(|_| NotAKey)?;
        if key.is_weak() { Err(NotAKey) } else { Ok(Self::Ed25519(key)) }
    }

    /// A public JWK (RFC 7517): `OKP` with `Ed25519`, `EC` with `secp256k1`, `P-256` or `P-384`.
    ///
    /// # Errors
    /// [`NotAKey`] for anything else, and for a JWK with a private part.
    pub fn from_jwk(jwk: &Map<String, Value>) -> Result<Self, NotAKey> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str).ok_or(NotAKey);
        let coordinate = |name: &str, length: usize| {
            let bytes = URL_SAFE_NO_PAD.decode(text(name)?).map_err(|_| NotAKey)?;
            if bytes.len() == length { Ok(bytes) } else { Err(NotAKey) }
        };
        if jwk.contains_key("d") {
            return Err(NotAKey);
        }
        let point = |length| Ok([&[4][..], &coordinate("x", length)?, &coordinate("y", length)?].concat());
        match (text("kty")?, text("crv")?) {
            ("OKP", "Ed25519") => Self::from_ed25519(&coordinate("x", 32)?),
            ("EC", "secp256k1") => Secp256k1::from_sec1_bytes(&point(32)?).map(Self::Secp256k1).map_err(|_| NotAKey),
            ("EC", "P-256") => P256::from_sec1_bytes(&point(32)?).map(Self::P256).map_err(|_| NotAKey),
            ("EC", "P-384") => P384::from_sec1_bytes(&point(48)?).map(Self::P384).map_err(|_| NotAKey),
            _ => Err(NotAKey),
        }
    }

    /// The key as a Multikey value; `None` for an address, which is not a key.
    pub fn to_multibase(&self) -> Option<String> {
        let bytes = match self {
            Self::Ed25519(key) => [&ED25519_PREFIX[..], key.as_bytes()].concat(),
            Self::Secp256k1(key) => [&SECP256K1_PREFIX[..], key.to_encoded_point(true).as_bytes()].concat(),
            Self::P256(key) => [&P256_PREFIX[..], key.to_encoded_point(true).as_bytes()].concat(),
            Self::P384(key) => [&P384_PREFIX[..], key.to_encoded_point(true).as_bytes()].concat(),
            Self::Address(_) | Self::TronAddress(_) => return None,
        };
        Some(format!("z{}", bs58::encode(bytes).into_string()))
    }

    /// Whether a secp256k1 key is this one, or has this address.
    pub(crate) fn is_of(&self, key: &Secp256k1) -> bool {
        match self {
            Self::Secp256k1(own) => own == key,
            Self::Address(address) | Self::TronAddress(address) => *address == address_of(key),
            Self::Ed25519(_) | Self::P256(_) | Self::P384(_) => false,
        }
    }
}

/// The address of a secp256k1 key: the last 20 bytes of the Keccak-256 of its point.
pub fn address_of(key: &Secp256k1) -> [u8; 20] {
    let point = key.to_encoded_point(false);
    let digest: [u8; 32] = Keccak256::digest(&point.as_bytes()[1..]).into();
    let mut address = [0; 20];
    address.copy_from_slice(&digest[12..]);
    address
}

/// The 20 bytes of a `0x` address, in one case or with a right EIP-55 checksum.
pub(crate) fn parse_evm_address(text: &str) -> Option<[u8; 20]> {
    let digits = text.strip_prefix("0x")?;
    let bytes: [u8; 20] = hex::decode(digits).ok()?.try_into().ok()?;
    let lower = hex::encode(bytes);
    let hash = hex::encode(Keccak256::digest(lower.as_bytes()));
    let checksummed = lower.chars().zip(hash.chars()).map(|(c, h)| if h >= '8' { c.to_ascii_uppercase() } else { c });
    let one_case = digits == lower || digits == lower.to_ascii_uppercase();
    (one_case || checksummed.eq(digits.chars())).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multikeys_of_the_did_key_specification() {
        for text in [
            "z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
            "zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
            "zDnaerx9CtbPJ1q36T5Ln5wYt3MQYeGRG5ehnPAmxcf5mDZpv",
            "z82Lm1MpAkeJcix9K8TMiLd5NMAhnwkjjCBeWHXyu3U4oT2MVJJKXkcVBgjGhnLBn2Kaau9",
        ] {
            assert_eq!(Key::from_multibase(text).unwrap().to_multibase().as_deref(), Some(text));
        }
        for bad in [
            "",
            "z",
            "6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
            "z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooW",
            "z82Lm1MpAkeJcix9K8TMiLd5NMAhnwkjjCBeWHXyu3U4oT2MVJJKXkcVBgjGhnLBn2Kaau6",
            "zXwpPGC8JoVmDGyGcY8dXxCcVnZiMSiLKiRTu1f5dNfNFRGSx",
        ] {
            assert_eq!(Key::from_multibase(bad), Err(NotAKey), "{bad}");
        }
        // The neutral element signs everything.
        assert_eq!(Key::from_ed25519(&[&[1][..], &[0; 31]].concat()), Err(NotAKey));
    }

    #[test]
    fn addresses_need_their_checksum_when_cases_are_mixed() {
        let good = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
        assert!(parse_evm_address(good).is_some() && parse_evm_address(&good.to_lowercase()).is_some());
        assert_eq!(parse_evm_address(&good.replacen("aA", "AA", 1)), None);
        assert_eq!(parse_evm_address("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe"), None);
    }
}
