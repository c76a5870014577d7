//! The quote: the document a settler signs, and the hash of it that is committed on chain.
//!
//! A quote is a JSON object with a Data Integrity proof by the settler's key (`DataIntegrityProof`, cryptosuite
//! `eddsa-jcs-2022`). [`SignedQuote::hash`] is SHA-256 over the RFC 8785 (JCS) form of the document without `proof`, so
//! it does not depend on key order, white space or escaping. The document is kept as the text that came and never
//! written anew. Making, signing and hashing a quote live in this module and nowhere else.

use ed25519_dalek::{Signature, Signer, SigningKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Amount, ChainId, Did, Hash32, OwnedAsset, PaymentId, QuoteRequestId, ids::base32, time::Timestamp};

/// Largest quote document accepted, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024;
const PROOF_TYPE: &str = "DataIntegrityProof";
const CRYPTOSUITE: &str = "eddsa-jcs-2022";
const PROOF_PURPOSE: &str = "assertionMethod";
const QUOTE_TYPE: &str = "GatewayQuote";

/// What a settler offers: to deliver the exact amount to one destination by a time, for an amount at the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quote {
    /// Always `GatewayQuote`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The auction this answers: the payment's id in the one-call flow, that of the quote-request batch in the two-phase
    /// flow.
    pub auction_id: String,
    /// Hash of the terms the settler offers to fulfil.
    pub terms_hash: Hash32,
    /// Who signs.
    pub settler: Did,
    /// Chain of the source asset.
    pub source_chain: ChainId,
    /// What the settler is paid from the escrow, smallest unit of the source asset.
    pub source_amount: Amount,
    /// Account on the source chain that the escrow pays.
    pub payout_account: String,
    /// The escrow contract the settler expects the payer's funds in.
    pub escrow_contract: String,
    /// The destination the settler chose.
    pub destination: OwnedAsset,
    /// Amount delivered, smallest unit of the destination asset.
    pub fulfillment_amount: Amount,
    /// Account on the destination chain that the settler delivers from.
    pub delivery_account: String,
    /// The contract on the destination chain through which the settler delivers.
    pub fulfillment_proxy: String,
    /// Latest time of delivery; whole seconds.
    pub fulfill_by: Timestamp,
    /// The quote may be awarded until then; whole seconds.
    pub valid_until: Timestamp,
}

/// A quote with the document it came in, its signature verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedQuote {
    quote: Quote,
    document: String,
    hash: Hash32,
}

/// Why a document is no valid quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The document exceeds [`DOCUMENT_BYTES_MAX`].
    #[error("quote is larger than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    /// The document is no JSON object, or repeats a key.
    #[error("quote is not a JSON object with unique keys")]
    NotAnObject,
    /// A member is missing, of the wrong form or unknown.
    #[error("quote is malformed: {0}")]
    Malformed(String),
    /// The `proof` member is missing or of a kind this gateway does not verify.
    #[error("quote proof is unusable: {0}")]
    Proof(&'static str),
    /// The signature is not the settler's.
    #[error("quote signature does not verify for its settler")]
    Signature,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Proof {
    #[serde(rename = "type")]
    kind: String,
    cryptosuite: String,
    created: Timestamp,
    verification_method: String,
    proof_purpose: String,
    proof_value: String,
}

impl Quote {
    /// The `type` of every quote.
    pub fn kind() -> String {
        QUOTE_TYPE.to_owned()
    }

    /// Whether the quote was asked for by `payment`, or by a quote-request batch, out of which any payment may come: which
    /// one does is known with the award, and on chain by the payer's signature over the quote's hash.
    pub fn may_serve(&self, payment: &PaymentId) -> bool {
        self.auction_id == auction_of(payment) || self.auction_id.parse::<QuoteRequestId>().is_ok()
    }

    /// Signs the quote with the settler's key at `created`.
    ///
    /// # Errors
    /// [`Error::Signature`] when `key` is not the key of [`Quote::settler`].
    pub fn sign(self, key: &SigningKey, created: Timestamp) -> Result<SignedQuote, Error> {
        if Did::from_ed25519(&key.verifying_key()) != self.settler {
            return Err(Error::Signature);
        }
        let Ok(Value::Object(mut document)) = serde_json::to_value(&self) else {
            return Err(Error::NotAnObject);
        };
        let hash = canonical_hash(&document)?;
        let mut proof = Map::from_iter([
            ("type".to_owned(), PROOF_TYPE.into()),
            ("cryptosuite".to_owned(), CRYPTOSUITE.into()),
            ("created".to_owned(), created.to_rfc3339_opts(chrono::SecondsFormat::Secs, true).into()),
            ("verificationMethod".to_owned(), self.settler.key_verification_method().into()),
            ("proofPurpose".to_owned(), PROOF_PURPOSE.into()),
        ]);
        let signature = key.sign(&signing_input(&proof, hash)?);
        let value = format!("z{}", bs58::encode(signature.to_bytes()).into_string());
        proof.insert("proofValue".to_owned(), value.into());
        document.insert("proof".to_owned(), Value::Object(proof));
        let document = Value::Object(document).to_string();
        Ok(SignedQuote { quote: self, document, hash })
    }
}

impl SignedQuote {
    /// Reads a quote and verifies its proof against the key in the settler's `did:key`.
    ///
    /// # Errors
    /// Each variant of [`Error`]; nothing of the document may be believed then.
    pub fn parse(document: &str) -> Result<Self, Error> {
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        let UniqueKeys(mut members) = serde_json::from_str(document).map_err(|_| Error::NotAnObject)?;
        let Some(Value::Object(mut proof)) = members.remove("proof") else {
            return Err(Error::Proof("no proof object"));
        };
        let hash = canonical_hash(&members)?;
        let quote: Quote =
            serde_json::from_value(Value::Object(members)).map_err(|error| Error::Malformed(error.to_string()))?;
        if quote.kind != QUOTE_TYPE {
            return Err(Error::Malformed(format!("type must be {QUOTE_TYPE}")));
        }
        let stated: Proof = serde_json::from_value(Value::Object(proof.clone()))
            .map_err(|_| Error::Proof("members are missing, unknown or of the wrong form"))?;
        if stated.kind != PROOF_TYPE || stated.cryptosuite != CRYPTOSUITE {
            return Err(Error::Proof("only DataIntegrityProof with eddsa-jcs-2022 is verified"));
        }
        if stated.proof_purpose != PROOF_PURPOSE {
            return Err(Error::Proof("purpose must be assertionMethod"));
        }
        if stated.verification_method != quote.settler.key_verification_method() {
            return Err(Error::Proof("verification method is not the settler's"));
        }
        proof.remove("proofValue");
        let key = quote.settler.ed25519_key().map_err(|_| Error::Proof("settler is no did:key with Ed25519"))?;
        let signature = stated.proof_value.strip_prefix('z').and_then(|value| bs58::decode(value).into_vec().ok());
        let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok()).ok_or(Error::Signature)?;
        key.verify_strict(&signing_input(&proof, hash)?, &signature).map_err(|_| Error::Signature)?;
        Ok(Self { quote, document: document.to_owned(), hash })
    }

    /// What was offered.
    pub fn quote(&self) -> &Quote {
        &self.quote
    }

    /// The document as it came.
    pub fn document(&self) -> &str {
        &self.document
    }

    /// `quote_hash`: SHA-256 of the canonical document without its proof.
    pub fn hash(&self) -> Hash32 {
        self.hash
    }

    /// The quote's id, derived from its hash.
    pub fn id(&self) -> String {
        format!("quo_{}", base32(&self.hash.0))
    }
}

/// The auction of a payment in the one-call flow bears the payment's id.
pub fn auction_of(payment: &PaymentId) -> String {
    payment.to_string()
}

/// What `eddsa-jcs-2022` signs: SHA-256 of the canonical proof options, then SHA-256 of the canonical document.
fn signing_input(proof_options: &Map<String, Value>, document: Hash32) -> Result<Vec<u8>, Error> {
    Ok([canonical_hash(proof_options)?.0, document.0].concat())
}

fn canonical_hash(object: &Map<String, Value>) -> Result<Hash32, Error> {
    let canonical = serde_json_canonicalizer::to_vec(object).map_err(|error| Error::Malformed(error.to_string()))?;
    Ok(Hash32::sha256(canonical))
}

/// A JSON object in which no key stands twice at any depth: two readers that resolve a repeated key differently would
/// see two different quotes under one signature.
struct UniqueKeys(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match crate::codec::UniqueValue::deserialize(deserializer)?.into_inner() {
            Value::Object(map) => Ok(Self(map)),
            _ => Err(serde::de::Error::custom("not an object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::from_unix_seconds;

    fn key() -> SigningKey {
        SigningKey::from_bytes(&[7; 32])
    }

    fn quote() -> Quote {
        let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        Quote {
            kind: Quote::kind(),
            auction_id: "pay_x".to_owned(),
            terms_hash: Hash32([1; 32]),
            settler: Did::from_ed25519(&key().verifying_key()),
            source_chain: ChainId::evm(1),
            source_amount: "105".parse().unwrap(),
            payout_account: account.to_owned(),
            escrow_contract: account.to_owned(),
            destination: OwnedAsset::new("eip155:10/slip44:60".parse().unwrap(), account).unwrap(),
            fulfillment_amount: "100".parse().unwrap(),
            delivery_account: account.to_owned(),
            fulfillment_proxy: account.to_owned(),
            fulfill_by: from_unix_seconds(1_800_000_000).unwrap(),
            valid_until: from_unix_seconds(1_700_000_000).unwrap(),
        }
    }

    fn signed() -> SignedQuote {
        quote().sign(&key(), from_unix_seconds(1_600_000_000).unwrap()).unwrap()
    }

    #[test]
    fn a_signed_quote_reads_back_the_same() {
        assert_eq!(SignedQuote::parse(signed().document()), Ok(signed()));
    }

    #[test]
    fn a_quote_serves_its_own_payment_or_one_out_of_its_batch() {
        let payment = PaymentId::derive("a", "b");
        let serves = |auction_id: &str| Quote { auction_id: auction_id.to_owned(), ..quote() }.may_serve(&payment);
        assert!(serves(payment.as_str()) && serves(QuoteRequestId::derive("a", "b").as_str()));
        assert!(!serves(PaymentId::derive("a", "c").as_str()) && !serves("qrq_") && !serves(""));
    }

    #[test]
    fn the_hash_ignores_order_white_space_and_escapes() {
        let signed = signed();
        let value: Map<String, Value> = serde_json::from_str(signed.document()).unwrap();
        let mut shuffled = String::from("{\n");
        for (i, (name, member)) in value.iter().rev().enumerate() {
            let comma = if i == 0 { "" } else { " ,\t" };
            let escaped = name.replace('s', "\\u0073");
            shuffled.push_str(&format!("{comma}\"{escaped}\" : {member}\n"));
        }
        shuffled.push('}');
        let other = SignedQuote::parse(&shuffled).unwrap();
        assert_eq!(other.hash(), signed.hash());
        assert_eq!(other.id(), signed.id());
        assert_ne!(other.document(), signed.document());
    }

    #[test]
    fn every_altered_member_breaks_the_signature() {
        let value: Map<String, Value> = serde_json::from_str(signed().document()).unwrap();
        let altered = [
            ("auctionId", "pay_y"),
            ("termsHash", "0x0202020202020202020202020202020202020202020202020202020202020202"),
            ("sourceChain", "eip155:2"),
            ("sourceAmount", "106"),
            ("payoutAccount", "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359"),
            ("fulfillmentAmount", "99"),
            ("fulfillBy", "2030-01-01T00:00:00Z"),
            ("validUntil", "2030-01-01T00:00:00Z"),
        ];
        for (name, text) in altered {
            let mut forged = value.clone();
            assert!(forged.insert(name.to_owned(), text.into()).is_some(), "{name}");
            assert_eq!(SignedQuote::parse(&Value::Object(forged).to_string()), Err(Error::Signature), "{name}");
        }
    }

    #[test]
    fn unusable_documents_are_refused_with_the_reason() {
        let document = signed().document().to_owned();
        assert_eq!(SignedQuote::parse("[]"), Err(Error::NotAnObject));
        assert_eq!(SignedQuote::parse(&" ".repeat(DOCUMENT_BYTES_MAX + 1)), Err(Error::TooLarge));
        let doubled = document.replacen('{', r#"{"sourceAmount":"1","#, 1);
        assert_eq!(SignedQuote::parse(&doubled), Err(Error::NotAnObject));
        let other_suite = document.replace("eddsa-jcs-2022", "eddsa-rdfc-2022");
        assert!(matches!(SignedQuote::parse(&other_suite), Err(Error::Proof(_))));
        let foreign = Did::from_ed25519(&SigningKey::from_bytes(&[8; 32]).verifying_key());
        let own = Did::from_ed25519(&key().verifying_key());
        let impersonated = document.replacen(own.as_str(), foreign.as_str(), 1);
        assert!(SignedQuote::parse(&impersonated).is_err());
        let stranger = SigningKey::from_bytes(&[9; 32]);
        assert_eq!(quote().sign(&stranger, from_unix_seconds(0).unwrap()), Err(Error::Signature));
    }
}
