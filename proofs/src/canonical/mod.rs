//! Canonicalization: from a document to canonical N-Quads and their SHA-256.
//!
//! [`canonicalize`] is what everything that signs RDF uses: expansion of the JSON-LD with bundled contexts, RDF, and
//! RDFC-1.0, which for what [`Document`] lets pass is URDNA2015 to the letter. Nothing of the document may get lost on
//! the way: a member that says nothing in RDF is an error and never left out.

mod expand;
mod plain;
mod quad;
mod rdfc10;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256, Sha384};

pub use quad::{Quad, Term};

use crate::{contexts::Contexts, json::Document};

/// Most statements in one document.
pub const QUADS_MAX: usize = 2_048;

/// A document in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NQuads(String);

impl NQuads {
    /// The statements, sorted, each ended by a line feed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the text; of a quote without its proof, the `quote_hash`.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl HashAlgorithm {
    /// The hash of `bytes`.
    pub(crate) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
        }
    }
}

/// Why a document has no canonical form here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A value would be lost, or its meaning is not fixed by the document and the bundled contexts.
    #[error("{pointer}: {reason}")]
    Refused {
        /// JSON pointer of the value; of its first occurrence where only its text is known.
        pointer: String,
        /// The defect.
        reason: Reason,
    },
    /// The contexts contradict each other or the document.
    #[error("document is not valid JSON-LD: {0}")]
    JsonLd(String),
    /// More than [`QUADS_MAX`] statements.
    #[error("document makes more than {QUADS_MAX} statements")]
    TooManyStatements,
    /// The graph asks for more work than a document is granted: a poison graph.
    #[error("document's blank nodes are too entangled to be told apart with bounded work")]
    TooComplex,
}

/// Why a value cannot be canonicalized.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// There is no `@context`, or it is neither a URL nor a non-empty list of URLs.
    #[error("must be a context URL or a list of them")]
    NoContext,
    /// A context that is written into the document.
    #[error("is an inline context; only bundled ones are read")]
    InlineContext,
    /// A context that is not bundled.
    #[error("context `{0}` is not bundled")]
    UnknownContext(String),
    /// No context maps the key, so it would vanish from the hash.
    #[error("key `{0}` is mapped by no context and would vanish")]
    UnmappedTerm(String),
    /// No context maps the type, so it would vanish from the hash.
    #[error("type is mapped by no context and would vanish")]
    UnmappedType,
    /// A key that is not a term of a context: a keyword, an IRI or a blank node. It says in RDF what a term says, so a reader
    /// who looks for the term would miss it. The rule holds inside JSON literals as well.
    #[error("key is not a term of a context")]
    NotATerm,
    /// An identifier that is relative, or no IRI.
    #[error("`{0}` is not an absolute IRI")]
    RelativeId(String),
    /// A compact IRI, a second spelling of what it stands for.
    #[error("compact IRI stands for `{0}`, which has to be written out")]
    CompactId(String),
    /// `null` says nothing in RDF.
    #[error("null would vanish")]
    Null,
    /// An empty list says nothing in RDF.
    #[error("empty list would vanish")]
    EmptyList,
    /// A set in RDF has an item once.
    #[error("list repeats an item")]
    RepeatedItem,
    /// The same node is described in two places, which RDF does not tell from one.
    #[error("node `{0}` is described twice")]
    DescribedTwice(String),
    /// A language tag whose case or form tools treat differently, or a base direction, which RDF drops.
    #[error("language tag or direction that not all tools keep")]
    Language,
    /// `@index`, `@included`, `@reverse` and the like.
    #[error("uses a JSON-LD feature that hides members")]
    Feature,
    /// Nothing is left.
    #[error("says nothing")]
    Empty,
}

/// The canonical form of a document under its own `@context`.
///
/// # Errors
/// See [`Error`]; the bounds hold for any document.
pub fn canonicalize(document: &Document, contexts: &Contexts) -> Result<NQuads, Error> {
    canonicalize_members(document.members(), contexts)
}

pub(crate) fn canonicalize_members(members: &Map<String, Value>, contexts: &Contexts) -> Result<NQuads, Error> {
    canonicalize_members_by(members, contexts, HashAlgorithm::Sha256)
}

/// As [`canonicalize_members`], blank nodes told apart by `hash`: proofs by keys of P-384 sign the form of SHA-384.
pub(crate) fn canonicalize_members_by(
    members: &Map<String, Value>,
    contexts: &Contexts,
    hash: HashAlgorithm,
) -> Result<NQuads, Error> {
    label_dataset(&expand::to_quads(members, contexts)?, hash).map(|labelled| labelled.nquads)
}

/// The canonical form of an RDF dataset (RDFC-1.0 with SHA-256).
///
/// # Errors
/// [`Error::TooManyStatements`] and [`Error::TooComplex`].
pub fn canonicalize_dataset(quads: &[Quad]) -> Result<NQuads, Error> {
    label_dataset(quads, HashAlgorithm::Sha256).map(|labelled| labelled.nquads)
}

/// The hash that tells blank nodes apart, and of what is signed. Everything the gateway signs uses SHA-256; what keys of
/// P-384 sign, SHA-384.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// SHA-256, the default of RDFC-1.0.
    Sha256,
    /// SHA-384.
    Sha384,
}

/// A dataset in canonical form, with the names of its blank nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    /// The statements.
    pub nquads: NQuads,
    /// "Issued identifiers map": canonical label by label in the input, both without `_:`.
    pub labels: BTreeMap<String, String>,
}

/// The canonical form of an RDF dataset with the names of its blank nodes.
///
/// # Errors
/// As [`canonicalize_dataset`].
pub fn label_dataset(quads: &[Quad], hash: HashAlgorithm) -> Result<Labelled, Error> {
    if quads.len() > QUADS_MAX {
        return Err(Error::TooManyStatements);
    }
    rdfc10::canonicalize(quads, hash, rdfc10::WORK_MAX)
}
