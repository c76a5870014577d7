//! Quotes as they were before they became JSON-LD: a plain JSON object with an `eddsa-jcs-2022` proof, hashed over its
//! RFC 8785 (JCS) form. Journals hold them for ever; no settler can offer one any more.

use ed25519_dalek::Signature;
use proofs::suites;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Error, QUOTE_TYPE, Quote, SignedQuote};
use crate::{Hash32, json::UniqueValue, time::Timestamp};

/// Most Base58 digits of 64 bytes.
const SIGNATURE_CHARS_MAX: usize = 88;

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

/// Reads such a quote and verifies its proof. The caller has bounded its size.
pub(super) fn parse(document: &str) -> Result<SignedQuote, Error> {
    let malformed = |error: serde_json::Error| Error::Malformed(error.to_string());
    let value: UniqueValue = serde_json::from_str(document).map_err(malformed)?;
    let Value::Object(mut members) = value.into_inner() else {
        return Err(Error::Malformed("not an object".to_owned()));
    };
    let Some(Value::Object(mut proof)) = members.remove("proof") else {
        return Err(suites::Error::NotOneProof.into());
    };
    let hash = canonical_hash(&members)?;
    let quote: Quote = serde_json::from_value(Value::Object(members)).map_err(malformed)?;
    let stated: Proof = serde_json::from_value(Value::Object(proof.clone())).map_err(malformed)?;
    let right = quote.kind == QUOTE_TYPE
        && stated.kind == "DataIntegrityProof"
        && stated.cryptosuite == "eddsa-jcs-2022"
        && stated.proof_purpose == "assertionMethod"
        && stated.verification_method == quote.settler.key_verification_method();
    if !right {
        return Err(Error::Malformed("not the superseded form of a quote".to_owned()));
    }
    proof.remove("proofValue");
    let key = quote.settler.ed25519_key().map_err(|error| Error::Malformed(error.to_string()))?;
    let signature = stated.proof_value.strip_prefix('z').filter(|value| value.len() <= SIGNATURE_CHARS_MAX);
    let signature = signature.and_then(|value| bs58::decode(value).into_vec().ok());
    let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok()).ok_or(suites::Error::Signature)?;
    let signed = [canonical_hash(&proof)?.0, hash.0].concat();
    key.verify_strict(&signed, &signature).map_err(|_| suites::Error::Signature)?;
    Ok(SignedQuote { quote, document: document.to_owned(), hash })
}

fn canonical_hash(object: &Map<String, Value>) -> Result<Hash32, Error> {
    let canonical = serde_json_canonicalizer::to_vec(object).map_err(|error| Error::Malformed(error.to_string()))?;
    Ok(Hash32::sha256(canonical))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with Node's own Ed25519; never edited.
    const STORED: &str = include_str!("../../tests/quotes/jcs.json");

    #[test]
    fn a_stored_quote_of_the_superseded_form_stays_readable() {
        let signed = SignedQuote::parse_stored(STORED).unwrap();
        assert_eq!(signed.hash().to_string(), "0xb370714a26471963e45dc78639ba15fd7eaa5558d7d8b45c71666d024b35a8c4");
        assert_eq!(signed.quote().source_amount.to_string(), "25250000");
        assert_eq!(signed.document(), STORED);
        // Reading it once does not make it acceptable from a settler.
        assert_eq!(SignedQuote::parse(STORED), Err(Error::Superseded));
    }

    #[test]
    fn an_altered_one_is_refused() {
        let refused = |from: &str, to: &str| {
            let altered = STORED.replacen(from, to, 1);
            assert_ne!(altered, STORED);
            SignedQuote::parse_stored(&altered).unwrap_err()
        };
        let signature = Error::Proof(suites::Error::Signature);
        assert_eq!(refused("25250000", "25250001"), signature);
        assert_eq!(refused("12:00:00Z", "12:00:01Z"), signature);
        assert_eq!(refused("z5Xpi7", "z5Xpi8"), signature);
        assert_eq!(refused("GatewayQuote\"", "GatewayQuote\",\"discount\":\"1\""), signature);
        assert!(matches!(refused("assertionMethod", "authentication"), Error::Malformed(_)));
        assert!(matches!(refused("eddsa-jcs-2022", "eddsa-rdfc-2022"), Error::Malformed(_)));
        assert!(matches!(refused("\"proof\"", "\"proof2\""), Error::Proof(suites::Error::NotOneProof)));
    }
}
