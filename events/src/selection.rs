//! The choice of a quote selector (spec 2.1, `quote_selector`): which of the quotes it was shown is to win, signed.
//!
//! What is signed is a text, the JSON object of a [`Choice`], and that text is kept as it came. An Ed25519 key signs its
//! bytes; a key that is known by its EVM address signs it as `personal_sign` does (EIP-191). So anyone can check a choice
//! with the text, the signature and the selector's key, and nothing has to be made canonical.
//!
//! A choice holds no time: it follows from what was shown, so a selector that is asked twice says the same twice. It cannot
//! be used for another auction, nor for another set of quotes, because it names both.

use std::{fmt, str::FromStr};

use ed25519_dalek::{Signature as Ed25519Signature, Signer, SigningKey, VerifyingKey};
use k256::ecdsa::{RecoveryId, Signature as EcdsaSignature, SigningKey as EcdsaKey, VerifyingKey as EcdsaPublic};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{Did, Hash32, ids::base32, is_reason, json::UniqueValue, text};

/// Largest text of a choice, in bytes.
pub const CHOICE_BYTES_MAX: usize = 2048;
/// What `type` of every choice is.
const KIND: &str = "GatewaySelection";
/// What the hash of a set of quotes begins with.
const QUOTES_DOMAIN: &[u8] = b"gw:quotes:v1";

/// Who a selector is: the address or public key that a request names it by, in one form for each key.
///
/// Read are an EVM address, and an Ed25519 public key as `did:key`, as Multikey (`z6Mk…`), in base58 or in hex. Written are
/// the address in lower case, and the `did:key`.
///
/// ```
/// use events::selection::SelectorKey;
///
/// let hex = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29";
/// let key: SelectorKey = hex.parse()?;
/// assert_eq!(key.to_string(), "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp");
/// # Ok::<(), events::selection::NotASelector>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectorKey {
    /// An Ed25519 public key.
    Ed25519([u8; 32]),
    /// An EVM address.
    Evm([u8; 20]),
}

/// A text that is neither an address nor a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an EVM address, or an Ed25519 public key as did:key, in base58 or in hex")]
pub struct NotASelector;

impl SelectorKey {
    /// The selector as one token of a NATS subject: base32 of the first 16 bytes of the SHA-256 of its written form.
    pub fn token(&self) -> String {
        base32(&Sha256::digest(self.to_string().as_bytes())[..16])
    }

    fn ed25519(bytes: &[u8]) -> Result<Self, NotASelector> {
        let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| NotASelector)?;
        // A point of small order would let a signature hold for every text.
        let key = VerifyingKey::from_bytes(&bytes).ok().filter(|key| !key.is_weak());
        key.map(|_| Self::Ed25519(bytes)).ok_or(NotASelector)
    }
}

impl FromStr for SelectorKey {
    type Err = NotASelector;

    fn from_str(text: &str) -> Result<Self, NotASelector> {
        // Nothing of any form is longer; decoding base58 takes time with the square of the length.
        if text.len() > 80 || !text.is_ascii() {
            return Err(NotASelector);
        }
        let bare = text.strip_prefix("0x").unwrap_or(text);
        match bare.len() {
            40 if bare.len() < text.len() => {
                let account = crate::Account::parse(crate::Family::Evm, text).map_err(|_| NotASelector)?;
                let bytes = hex::decode(account.as_str().trim_start_matches("0x")).map_err(|_| NotASelector)?;
                return bytes.try_into().map(Self::Evm).map_err(|_| NotASelector);
            }
            64 => return hex::decode(bare).map_err(|_| NotASelector).and_then(|bytes| Self::ed25519(&bytes)),
            _ => {}
        }
        if text.starts_with("did:key:") || text.starts_with("z6Mk") {
            let id = text.strip_prefix("did:key:").unwrap_or(text);
            let did: Did = format!("did:key:{id}").parse().map_err(|_| NotASelector)?;
            return Self::ed25519(did.ed25519_key().map_err(|_| NotASelector)?.as_bytes());
        }
        // Decoding is quadratic; 32 bytes take 44 digits at most.
        let encoded = Some(text).filter(|text| text.len() <= 44).ok_or(NotASelector)?;
        bs58::decode(encoded).into_vec().map_err(|_| NotASelector).and_then(|bytes| Self::ed25519(&bytes))
    }
}

impl fmt::Display for SelectorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Every key that is held was a point of the curve when it was read.
            Self::Ed25519(bytes) => match VerifyingKey::from_bytes(bytes) {
                Ok(key) => Did::from_ed25519(&key).fmt(f),
                Err(_) => Err(fmt::Error),
            },
            Self::Evm(address) => write!(f, "0x{}", hex::encode(address)),
        }
    }
}

impl fmt::Debug for SelectorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SelectorKey({self})")
    }
}

impl Serialize for SelectorKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SelectorKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer)
    }
}

/// What a selector decided: one of the quotes it was shown, or none of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Always `GatewaySelection`.
    #[serde(rename = "type")]
    kind: String,
    /// The auction.
    pub auction_id: String,
    /// Hash of the terms that were quoted for.
    pub terms_hash: Hash32,
    /// Hash of the set of quotes that were shown: [`quotes_hash`].
    pub quotes_hash: Hash32,
    /// Hash of the quote that is chosen; absent when none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_hash: Option<Hash32>,
    /// Why none is chosen, a SCREAMING_SNAKE_CASE code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why a choice does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a choice.
    #[error("the selector's choice is malformed: {0}")]
    Malformed(&'static str),
    /// The signature is not the selector's.
    #[error("the selector's signature does not verify for its key")]
    Signature,
    /// It answers something else than was asked.
    #[error("the selector's choice is {0}")]
    Foreign(&'static str),
}

/// What is chosen from: an auction with the eligible quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown<'a> {
    /// The auction.
    pub auction_id: &'a str,
    /// Hash of its terms.
    pub terms_hash: Hash32,
    /// Hashes of the quotes, in any order.
    pub quotes: &'a [Hash32],
}

impl Choice {
    /// The choice of the quote with `quote_hash`.
    pub fn of(shown: Shown<'_>, quote_hash: Hash32) -> Self {
        Self { quote_hash: Some(quote_hash), ..Self::none(shown, None) }
    }

    /// The choice of none of the quotes, for `reason`.
    pub fn none(shown: Shown<'_>, reason: Option<String>) -> Self {
        Self {
            kind: KIND.to_owned(),
            auction_id: shown.auction_id.to_owned(),
            terms_hash: shown.terms_hash,
            quotes_hash: quotes_hash(shown.quotes),
            quote_hash: None,
            reason,
        }
    }

    /// Signs the choice. The same choice has the same text and the same signature every time.
    pub fn sign(&self, signer: &SelectorSigner) -> SignedChoice {
        // Serialization cannot fail: it is an object of strings.
        let text = serde_json::to_string(self).unwrap_or_default();
        SignedChoice { signature: signer.sign(&text), text }
    }
}

/// A choice as its selector signed it, not yet believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedChoice {
    /// The JSON text that is signed, as it came.
    pub text: String,
    /// The signature, hex with 0x: 64 bytes of Ed25519, or the 65 of an EVM wallet.
    pub signature: String,
}

impl SignedChoice {
    /// The choice, when `selector` signed it about `shown` and it takes one of those quotes or none.
    ///
    /// # Errors
    /// See [`Error`]; nothing of the text may be believed then.
    pub fn verify(&self, selector: &SelectorKey, shown: Shown<'_>) -> Result<Choice, Error> {
        if self.text.len() > CHOICE_BYTES_MAX {
            return Err(Error::Malformed("it is too large"));
        }
        selector.check(&self.text, &self.signature)?;
        let value: UniqueValue =
            serde_json::from_str(&self.text).map_err(|_| Error::Malformed("it is not JSON with unique keys"))?;
        let choice: Choice = serde_json::from_value(value.into_inner())
            .map_err(|_| Error::Malformed("a member is missing or of the wrong form"))?;
        if choice.kind != KIND {
            return Err(Error::Malformed("type must be GatewaySelection"));
        }
        if choice.auction_id != shown.auction_id {
            return Err(Error::Foreign("about another auction"));
        }
        if choice.terms_hash != shown.terms_hash {
            return Err(Error::Foreign("about other terms"));
        }
        if choice.quotes_hash != quotes_hash(shown.quotes) {
            return Err(Error::Foreign("about other quotes than were shown"));
        }
        match (&choice.quote_hash, &choice.reason) {
            (Some(chosen), None) if shown.quotes.contains(chosen) => Ok(choice),
            (Some(_), None) => Err(Error::Foreign("a quote that was not shown")),
            (None, Some(reason)) if is_reason(reason) => Ok(choice),
            (None, Some(_)) => Err(Error::Malformed("reason must be a code in SCREAMING_SNAKE_CASE")),
            _ => Err(Error::Malformed("there must be exactly one of quote_hash and reason")),
        }
    }
}

/// SHA-256 of `gw:quotes:v1` and the quotes' hashes in ascending order, 32 bytes each.
pub fn quotes_hash(quotes: &[Hash32]) -> Hash32 {
    let mut sorted = quotes.to_vec();
    sorted.sort();
    Hash32::sha256([QUOTES_DOMAIN, &sorted.iter().flat_map(|hash| hash.0).collect::<Vec<u8>>()].concat())
}

/// The private key of a selector.
#[derive(Clone)]
pub enum SelectorSigner {
    /// An Ed25519 key.
    Ed25519(SigningKey),
    /// A secp256k1 key, known by its EVM address.
    Evm(EcdsaKey),
}

impl SelectorSigner {
    /// Who it signs as.
    pub fn key(&self) -> SelectorKey {
        match self {
            Self::Ed25519(key) => SelectorKey::Ed25519(key.verifying_key().to_bytes()),
            Self::Evm(key) => SelectorKey::Evm(address(key.verifying_key())),
        }
    }

    fn sign(&self, text: &str) -> String {
        let bytes = match self {
            Self::Ed25519(key) => key.sign(text.as_bytes()).to_bytes().to_vec(),
            Self::Evm(key) => match key.sign_prehash_recoverable(&personal(text).0) {
                Ok((signature, recovery)) => [&signature.to_bytes()[..], &[27 + recovery.to_byte()]].concat(),
                // Signing fails only for a hash of another length than 32.
                Err(_) => Vec::new(),
            },
        };
        format!("0x{}", hex::encode(bytes))
    }
}

impl SelectorKey {
    fn check(&self, text: &str, signature: &str) -> Result<(), Error> {
        let bytes = signature.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok()).ok_or(Error::Signature)?;
        let holds = match self {
            Self::Ed25519(key) => {
                let key = VerifyingKey::from_bytes(key).map_err(|_| Error::Signature)?;
                let signature = Ed25519Signature::from_slice(&bytes).map_err(|_| Error::Signature)?;
                key.verify_strict(text.as_bytes(), &signature).is_ok()
            }
            Self::Evm(own) => {
                let (v, rs) = bytes.split_last().filter(|(_, rs)| rs.len() == 64).ok_or(Error::Signature)?;
                let parity = match v {
                    0 | 27 => 0,
                    1 | 28 => 1,
                    _ => return Err(Error::Signature),
                };
                let signature = EcdsaSignature::from_slice(rs).map_err(|_| Error::Signature)?;
                let recovery = RecoveryId::from_byte(parity).ok_or(Error::Signature)?;
                // The upper half of the curve's order gives a second signature for the same text.
                signature.normalize_s().is_none()
                    && EcdsaPublic::recover_from_prehash(&personal(text).0, &signature, recovery)
                        .is_ok_and(|key| address(&key) == *own)
            }
        };
        if holds { Ok(()) } else { Err(Error::Signature) }
    }
}

/// What `personal_sign` hashes (EIP-191, version 0x45).
fn personal(text: &str) -> Hash32 {
    Hash32::keccak256(format!("\x19Ethereum Signed Message:\n{}{text}", text.len()))
}

fn address(key: &EcdsaPublic) -> [u8; 20] {
    let point = key.to_encoded_point(false);
    let digest = Hash32::keccak256(&point.as_bytes()[1..]);
    let mut address = [0; 20];
    address.copy_from_slice(&digest.0[12..]);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Hash32 = Hash32([1; 32]);
    const QUOTES: [Hash32; 2] = [Hash32([9; 32]), Hash32([2; 32])];

    fn shown(quotes: &[Hash32]) -> Shown<'_> {
        Shown { auction_id: "pay_x", terms_hash: TERMS, quotes }
    }

    fn signers() -> [SelectorSigner; 2] {
        let evm = EcdsaKey::from_slice(&[7; 32]).unwrap();
        [SelectorSigner::Ed25519(SigningKey::from_bytes(&[7; 32])), SelectorSigner::Evm(evm)]
    }

    #[test]
    fn every_form_of_a_key_is_one_selector() {
        let did = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
        let hex = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29";
        let base58 = bs58::encode(hex::decode(hex).unwrap()).into_string();
        for text in [did, &did["did:key:".len()..], hex, &format!("0x{hex}"), &hex.to_uppercase(), &base58] {
            assert_eq!(text.parse::<SelectorKey>().unwrap().to_string(), did, "{text}");
        }
        let address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
        let key: SelectorKey = address.parse().unwrap();
        assert_eq!(key.to_string(), address.to_lowercase());
        assert_eq!(address.to_lowercase().parse(), Ok(key));
        assert_eq!(key.token().len(), 26);
        let weak = format!("01{}", "0".repeat(62));
        for bad in
            ["", "trusted", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe", &address[2..], "did:web:a.example", &weak, "é"]
        {
            assert_eq!(bad.parse::<SelectorKey>(), Err(NotASelector), "{bad}");
        }
    }

    #[test]
    fn a_choice_verifies_for_its_signer_and_what_was_shown() {
        for signer in signers() {
            for choice in
                [Choice::of(shown(&QUOTES), QUOTES[1]), Choice::none(shown(&QUOTES), Some("ALL_TOO_SLOW".to_owned()))]
            {
                let signed = choice.sign(&signer);
                assert_eq!(signed.verify(&signer.key(), shown(&QUOTES)), Ok(choice.clone()));
                // The order in which quotes are shown has no meaning, and asking twice gives the same bytes.
                assert_eq!(signed.verify(&signer.key(), shown(&[QUOTES[1], QUOTES[0]])), Ok(choice.clone()));
                assert_eq!(choice.sign(&signer), signed);
            }
        }
    }

    #[test]
    fn a_choice_for_anything_else_is_refused_with_the_reason() {
        let [signer, stranger] = signers();
        let verify = |choice: Choice, quotes| choice.sign(&signer).verify(&signer.key(), shown(quotes));
        let good = Choice::of(shown(&QUOTES), QUOTES[0]);
        let foreign = |choice| verify(choice, &QUOTES);
        let cases = [
            (foreign(Choice { auction_id: "pay_y".into(), ..good.clone() }), "another auction"),
            (foreign(Choice { terms_hash: Hash32([3; 32]), ..good.clone() }), "other terms"),
            (verify(good.clone(), &QUOTES[..1]), "other quotes"),
            (foreign(Choice::of(shown(&QUOTES), Hash32([3; 32]))), "not shown"),
            (foreign(Choice { kind: "GatewayQuote".into(), ..good.clone() }), "type"),
            (foreign(Choice { reason: Some("WHY".into()), ..good.clone() }), "exactly one"),
            (foreign(Choice::none(shown(&QUOTES), None)), "exactly one"),
            (foreign(Choice::none(shown(&QUOTES), Some("because of that".into()))), "SCREAMING"),
            (foreign(Choice::none(shown(&QUOTES), Some("A".repeat(CHOICE_BYTES_MAX)))), "large"),
            (good.sign(&stranger).verify(&signer.key(), shown(&QUOTES)), "signature"),
            (good.sign(&signer).verify(&stranger.key(), shown(&QUOTES)), "signature"),
        ];
        for (outcome, reason) in cases {
            let error = outcome.expect_err(reason).to_string();
            assert!(error.contains(reason), "{error} does not say {reason}");
        }
    }

    #[test]
    fn every_altered_byte_breaks_the_signature() {
        for signer in signers() {
            let signed = Choice::of(shown(&QUOTES), QUOTES[0]).sign(&signer);
            for index in 0..signed.text.len() {
                let mut bytes = signed.text.clone().into_bytes();
                bytes[index] ^= 1;
                let Ok(text) = String::from_utf8(bytes) else { continue };
                let forged = SignedChoice { text, ..signed.clone() };
                assert_eq!(forged.verify(&signer.key(), shown(&QUOTES)), Err(Error::Signature), "byte {index}");
            }
            for index in 2..signed.signature.len() {
                let mut bytes = signed.signature.clone().into_bytes();
                bytes[index] = if bytes[index] == b'5' { b'6' } else { b'5' };
                let forged = SignedChoice { signature: String::from_utf8(bytes).unwrap(), ..signed.clone() };
                assert_eq!(forged.verify(&signer.key(), shown(&QUOTES)), Err(Error::Signature), "digit {index}");
            }
        }
    }

    #[test]
    fn repeated_keys_and_the_second_signature_of_a_text_are_refused() {
        let [ed25519, evm] = signers();
        let signed = Choice::of(shown(&QUOTES), QUOTES[0]).sign(&ed25519);
        let text = signed.text.replacen('{', r#"{"quote_hash":"0x00","#, 1);
        let doubled = SignedChoice { signature: ed25519.sign(&text), text };
        let refused = doubled.verify(&ed25519.key(), shown(&QUOTES));
        assert_eq!(refused, Err(Error::Malformed("it is not JSON with unique keys")));

        let signed = Choice::of(shown(&QUOTES), QUOTES[0]).sign(&evm);
        let bytes = hex::decode(&signed.signature[2..]).unwrap();
        let low = EcdsaSignature::from_slice(&bytes[..64]).unwrap();
        let (r, s) = low.split_scalars();
        let high = EcdsaSignature::from_scalars(*r, -*s).unwrap();
        let signature = format!("0x{}{:02x}", hex::encode(high.to_bytes()), bytes[64] ^ 7);
        let twin = SignedChoice { signature, ..signed };
        assert_eq!(twin.verify(&evm.key(), shown(&QUOTES)), Err(Error::Signature));
    }
}
