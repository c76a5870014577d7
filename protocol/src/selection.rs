//! Wire protocol between the gateway and a quote selector.
//!
//! The gateway sends a [`SelectionRequest`] to `selector.{token}`, where the token is that of the selector's key, and gets a
//! [`SelectionAnswer`] as the reply. The same request may come more than once; the answer follows from it alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use events::{
    Hash32, Terms,
    quote::DOCUMENT_BYTES_MAX,
    selection::{CHOICE_BYTES_MAX, SelectorKey, SignedChoice},
    time::Timestamp,
};

use super::{Error, Message, Version, is_token};

/// Largest request, in bytes: the quotes of one auction, which the gateway bounds to three quarters of this, and room for
/// everything around them.
pub const SELECTION_BYTES_MAX: usize = 512 * 1024;
/// Longest signature of a choice, in characters.
const SIGNATURE_CHARS_MAX: usize = 256;

/// Subject at which the selector with `key` is asked.
pub fn selector_subject(key: &SelectorKey) -> String {
    format!("selector.{}", key.token())
}

/// The eligible quotes of an auction, gateway → selector: every one of them was verified and keeps the payer's conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectionRequest {
    /// Version of the protocol.
    pub version: Version,
    /// The auction; bears the id of the payment, or of the quote-request.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,128}$"))]
    pub auction_id: String,
    /// What was quoted for, in the form whose hash is `terms_hash`.
    pub terms: Terms,
    /// SHA-256 of the canonical terms.
    pub terms_hash: Hash32,
    /// When quotes could come in at the latest.
    pub quote_deadline: Timestamp,
    /// When the choice has to be there; without it a payment fails, and the quotes of a quote-request are ordered by price.
    pub answer_by: Timestamp,
    /// The signed quote documents, as JSON texts; at least one.
    #[schemars(length(min = 1), inner(length(max = DOCUMENT_BYTES_MAX)))]
    pub quotes: Vec<String>,
}

impl Message for SelectionRequest {
    fn check(&self) -> Result<(), Error> {
        if !is_token(&self.auction_id) {
            return Err(Error::malformed("auction_id must be one token of a subject"));
        }
        if self.terms.hash() != self.terms_hash {
            return Err(Error::malformed("terms_hash is not the hash of the terms"));
        }
        if self.quotes.is_empty() || self.quotes.iter().any(|quote| quote.len() > DOCUMENT_BYTES_MAX) {
            return Err(Error::malformed("there must be quotes, none of them too large"));
        }
        Ok(())
    }
}

impl SelectionRequest {
    /// Reads a request, which is larger than other messages may be.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn read(payload: &[u8]) -> Result<Self, Error> {
        if payload.len() > SELECTION_BYTES_MAX {
            return Err(Error::malformed("the request is too large"));
        }
        let request: Self = serde_json::from_slice(payload).map_err(|error| Error::Malformed(error.to_string()))?;
        request.check()?;
        Ok(request)
    }
}

/// A selector's signed choice, in reply to a [`SelectionRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectionAnswer {
    /// Version of the protocol.
    pub version: Version,
    /// The text that is signed: a JSON object with `type` (`GatewaySelection`), `auction_id`, `terms_hash`, `quotes_hash`, and
    /// either `quote_hash` or `reason`. `quotes_hash` is SHA-256 of `gw:quotes:v1` and the hashes of the quotes in ascending
    /// order, 32 bytes each.
    #[schemars(length(max = CHOICE_BYTES_MAX))]
    pub choice: String,
    /// Hex with 0x: of an Ed25519 key, its signature over the bytes of `choice`; of an EVM address, that of `personal_sign`.
    #[schemars(length(max = SIGNATURE_CHARS_MAX))]
    pub signature: String,
}

impl Message for SelectionAnswer {
    fn check(&self) -> Result<(), Error> {
        if self.choice.len() > CHOICE_BYTES_MAX || self.signature.len() > SIGNATURE_CHARS_MAX {
            return Err(Error::malformed("choice or signature is too large"));
        }
        Ok(())
    }
}

impl From<SignedChoice> for SelectionAnswer {
    fn from(SignedChoice { text, signature }: SignedChoice) -> Self {
        Self { version: Version, choice: text, signature }
    }
}

impl From<SelectionAnswer> for SignedChoice {
    fn from(answer: SelectionAnswer) -> Self {
        Self { text: answer.choice, signature: answer.signature }
    }
}
