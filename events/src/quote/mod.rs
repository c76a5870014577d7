//! The quote: the document a settler signs, and the hash of it that is committed on chain.
//!
//! A quote is a JSON-LD document with one Data Integrity proof by a key of the settler. Its hash, `quote_hash`, is SHA-256
//! over the canonical N-Quads (URDNA2015) of the document without `proof`, so it does not depend on key order, white space
//! or escaping (spec 2.6). The document is kept as the text that came and never written anew. Making, signing, reading and
//! hashing a quote live in this module and nowhere else; what a proof is, and what canonical, is the crate `proofs`.
//!
//! What the gateway relies on is more than a proof that holds:
//! - the first context is the gateway's, whose terms no other context can redefine;
//! - the document has the members of [`Quote`] and no others, so that nothing was signed that nobody reads;
//! - the settler is a `did:key` or `did:pkh`, which say their key themselves: what was verified once verifies for ever;
//! - the proof does not expire. How long a quote binds is [`Quote::valid_until`].
//!
//! Nothing here asks for the time, so that a journal reads alike whenever it is read.

mod known;
mod superseded;

use ed25519_dalek::SigningKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use proofs::{
    canonical::{self, NQuads},
    contexts::{Contexts, GATEWAY_V1, QUOTE},
    did::{DidDocument, Purpose},
    json::{self, Document},
    suites::{self, Options, Secured, Suite},
};

use crate::{
    Account, Amount, ChainId, Did, Hash32, OwnedAsset, PaymentId, QuoteRequestId, ids::base32, time::Timestamp,
};

/// Largest quote document accepted, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024;
/// Most contexts a quote may name: the gateway's, and those its suite of proofs asks for.
pub const CONTEXTS_MAX: usize = 4;
const QUOTE_TYPE: &str = "GatewayQuote";

/// What a settler offers: to deliver the exact amount to one destination by a time, for an amount at the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    pub payout_account: Account,
    /// The escrow contract the settler expects the payer's funds in.
    pub escrow_contract: Account,
    /// The destination the settler chose.
    pub destination: OwnedAsset,
    /// Amount delivered, smallest unit of the destination asset.
    pub fulfillment_amount: Amount,
    /// Account on the destination chain that the settler delivers from.
    pub delivery_account: Account,
    /// The contract on the destination chain through which the settler delivers.
    pub fulfillment_proxy: Account,
    /// Latest time of delivery; whole seconds.
    pub fulfill_by: Timestamp,
    /// The quote may be awarded until then; whole seconds.
    pub valid_until: Timestamp,
}

/// The members of a quote document besides `@context`, `proof` and an `id` of the settler's own.
const MEMBERS: [&str; 14] = [
    "type",
    "auctionId",
    "termsHash",
    "settler",
    "sourceChain",
    "sourceAmount",
    "payoutAccount",
    "escrowContract",
    "destination",
    "fulfillmentAmount",
    "deliveryAccount",
    "fulfillmentProxy",
    "fulfillBy",
    "validUntil",
];
/// Those of them that are accounts.
const ACCOUNTS: [&str; 4] = ["payoutAccount", "escrowContract", "deliveryAccount", "fulfillmentProxy"];
const DESTINATION_MEMBERS: [&str; 2] = ["asset_identifier", "account"];

/// A quote with the document it came in, its signature verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedQuote {
    quote: Quote,
    document: String,
    hash: Hash32,
}

/// Why a document is not a valid quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The document exceeds [`DOCUMENT_BYTES_MAX`].
    #[error("quote is larger than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    /// The text is not a JSON object that may be signed.
    #[error("quote is not JSON that may be signed: {0}")]
    Json(#[from] json::Error),
    /// The first `@context` is not the gateway's, or there are more than [`CONTEXTS_MAX`].
    #[error("quote's @context is not a list of {GATEWAY_V1} and at most {} more", CONTEXTS_MAX - 1)]
    Context,
    /// The form that quotes had before they were JSON-LD, which is read where it is stored and nowhere else.
    #[error("quote has no @context; the form without one is superseded")]
    Superseded,
    /// A member that no quote has.
    #[error("quote has an unknown member `{0}`")]
    UnknownMember(String),
    /// A member is missing or of the wrong form.
    #[error("quote is malformed: {0}")]
    Malformed(String),
    /// The settler's DID is none that says its own key.
    #[error("quote's settler cannot sign: {0}")]
    Settler(#[from] proofs::did::Error),
    /// The proof does not hold.
    #[error("quote's proof does not hold: {0}")]
    Proof(#[from] suites::Error),
    /// The proof has an `expires`.
    #[error("quote's proof expires; how long a quote binds is its validUntil")]
    Expires,
    /// The document has no canonical form.
    #[error("quote has no canonical form: {0}")]
    Canonical(#[from] canonical::Error),
    /// The key that was to sign is not the settler's.
    #[error("quote is of another settler than the key")]
    Key,
}

impl Quote {
    /// The `type` of every quote.
    pub fn kind() -> String {
        QUOTE_TYPE.to_owned()
    }

    /// Whether the quote was asked for by `payment`, or by a quote-request batch, out of which any payment may come: which
    /// one does is known with the award, and on chain by the payer's signature over the quote's hash. An auction for an escrow that
    /// is to be reassigned has an id like a batch's; on chain the reserver's signature names the quote then.
    pub fn may_serve(&self, payment: &PaymentId) -> bool {
        self.auction_id == auction_of(payment) || self.auction_id.parse::<QuoteRequestId>().is_ok()
    }

    /// The document to be signed: the quote under its contexts ([`QUOTE`]), without a proof.
    ///
    /// For settlers whose key is not Ed25519, together with [`proofs::suites::sign`].
    ///
    /// # Errors
    /// [`Error::Json`] when a text has characters that cannot be signed.
    pub fn to_document(&self) -> Result<Document, Error> {
        let value = serde_json::to_value(self).map_err(|error| Error::Malformed(error.to_string()))?;
        let Value::Object(mut members) = value else { return Err(Error::Malformed("not an object".to_owned())) };
        members.insert("@context".to_owned(), QUOTE.as_slice().into());
        Ok(Document::from_members(members)?)
    }

    /// Signs the quote with the settler's key at `created`, as `DataIntegrityProof` with `eddsa-rdfc-2022`.
    ///
    /// # Errors
    /// [`Error::Key`] when `key` is not the key of [`Quote::settler`], and whatever [`SignedQuote::parse`] would refuse.
    pub fn sign(self, key: &SigningKey, created: Timestamp) -> Result<SignedQuote, Error> {
        if Did::from_ed25519(&key.verifying_key()) != self.settler {
            return Err(Error::Key);
        }
        let options = Options {
            verification_method: self.settler.key_verification_method(),
            purpose: Purpose::AssertionMethod,
            created,
            expires: None,
        };
        let key = suites::SigningKey::Ed25519(key.clone());
        let signed = suites::sign(&self.to_document()?, Suite::EddsaRdfc2022, &key, &options, Contexts::bundled())?;
        SignedQuote::parse(&signed.to_string())
    }
}

impl SignedQuote {
    /// Reads a quote and verifies its proof against the key in the settler's DID.
    ///
    /// # Errors
    /// See [`Error`]; nothing of the document may be believed then.
    pub fn parse(document: &str) -> Result<Self, Error> {
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        known::or_else(document, || Self::verify(document))
    }

    /// Reads a quote out of a journal, where it may have the form that quotes had before they were JSON-LD.
    ///
    /// # Errors
    /// As [`SignedQuote::parse`].
    pub fn parse_stored(document: &str) -> Result<Self, Error> {
        match Self::parse(document) {
            Err(Error::Superseded) => superseded::parse(document),
            read => read,
        }
    }

    fn verify(document: &str) -> Result<Self, Error> {
        let secured = Secured::of(&read(document)?)?;
        let quote = content(secured.document().members())?;
        let signer = signer(&quote)?;
        let proof = secured.proof();
        if proof.proof_purpose != Purpose::AssertionMethod.as_str() {
            let found = proof.proof_purpose.clone();
            return Err(suites::Error::Purpose { expected: Purpose::AssertionMethod, found }.into());
        }
        if proof.expires.is_some() {
            return Err(Error::Expires);
        }
        let method = signer.authorised(&proof.verification_method, Purpose::AssertionMethod);
        let verified = secured.verify_with_key(&method.map_err(suites::Error::from)?.key, Contexts::bundled())?;
        let nquads = match verified.nquads {
            Some(nquads) => nquads,
            // The suite signs another form than the one that is hashed.
            None => canonical::canonicalize(secured.document(), Contexts::bundled())?,
        };
        Ok(Self { quote, document: document.to_owned(), hash: Hash32(nquads.sha256()) })
    }

    /// What was offered.
    pub fn quote(&self) -> &Quote {
        &self.quote
    }

    /// The document as it came.
    pub fn document(&self) -> &str {
        &self.document
    }

    /// `quote_hash`: SHA-256 of the canonical N-Quads of the document without its proof.
    pub fn hash(&self) -> Hash32 {
        self.hash
    }

    /// The quote's id, derived from its hash.
    pub fn id(&self) -> String {
        format!("quo_{}", base32(&self.hash.0))
    }
}

/// The canonical N-Quads of a quote without its proof, which may be absent: the preimage of `quote_hash`.
///
/// The proof is not looked at, so this says nothing about who signed.
///
/// # Errors
/// What [`SignedQuote::parse`] would refuse whatever the proof: [`Error::TooLarge`], [`Error::Json`], [`Error::Context`],
/// [`Error::Superseded`], [`Error::UnknownMember`], [`Error::Malformed`], [`Error::Settler`], [`Error::Canonical`].
pub fn canonical(document: &str) -> Result<NQuads, Error> {
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(Error::TooLarge);
    }
    let document = read(document)?.without("/proof");
    signer(&content(document.members())?)?;
    Ok(canonical::canonicalize(&document, Contexts::bundled())?)
}

/// The keys that may sign a quote: those that its settler's DID itself says.
fn signer(quote: &Quote) -> Result<DidDocument, Error> {
    Ok(quote.settler.as_str().parse::<proofs::did::Did>()?.expand()?)
}

/// The auction of a payment in the one-call flow bears the payment's id.
pub fn auction_of(payment: &PaymentId) -> String {
    payment.to_string()
}

/// The auction of a payment whose escrow is to be reassigned, after its `round`-th lapsed reservation, counted from 1.
pub fn reassignment_auction_of(payment: &PaymentId, round: usize) -> String {
    QuoteRequestId::of_reassignment(payment, round).as_str().to_owned()
}

/// A document under the gateway's context.
fn read(text: &str) -> Result<Document, Error> {
    let document = Document::parse(text)?;
    match document.members().get("@context") {
        None => Err(Error::Superseded),
        Some(Value::Array(urls))
            if urls.len() <= CONTEXTS_MAX && urls.first().and_then(Value::as_str) == Some(GATEWAY_V1) =>
        {
            Ok(document)
        }
        Some(_) => Err(Error::Context),
    }
}

/// What a document without its proof says.
fn content(members: &Map<String, Value>) -> Result<Quote, Error> {
    let mut own = members.clone();
    own.remove("@context");
    if own.remove("id").is_some_and(|id| !id.is_string()) {
        return Err(Error::Malformed("id must be a string".to_owned()));
    }
    let unknown = own.keys().find(|name| !MEMBERS.contains(&name.as_str())).cloned();
    let inner = own.get("destination").and_then(Value::as_object);
    let inner = inner.and_then(|inner| inner.keys().find(|name| !DESTINATION_MEMBERS.contains(&name.as_str())));
    if let Some(name) = unknown.or_else(|| inner.map(|name| format!("destination/{name}"))) {
        return Err(Error::UnknownMember(name));
    }
    for name in ACCOUNTS {
        let read = own.get(name).and_then(Value::as_str).map_or(Ok(()), |text| text.parse::<Account>().map(drop));
        read.map_err(|error| Error::Malformed(format!("{name}: {error}")))?;
    }
    let quote: Quote =
        serde_json::from_value(Value::Object(own)).map_err(|error| Error::Malformed(error.to_string()))?;
    if quote.kind != QUOTE_TYPE {
        return Err(Error::Malformed(format!("type must be {QUOTE_TYPE}")));
    }
    Ok(quote)
}

#[cfg(test)]
mod tests;
