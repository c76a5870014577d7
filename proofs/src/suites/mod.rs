//! Data Integrity proofs: who signed a document, with what, and for what.
//!
//! [`Secured::all`] takes a document and its proofs apart, [`Secured::verify`] checks the proof against the DID document of the signer, and
//! [`sign`] makes one. The suites:
//!
//! | `type` | value in | signs | with |
//! |---|---|---|---|
//! | `Ed25519Signature2018` | `jws` | N-Quads | Ed25519 |
//! | `EcdsaSecp256k1Signature2019` | `jws` | N-Quads | secp256k1 |
//! | `EcdsaSecp256k1RecoverySignature2020` | `jws` | N-Quads | secp256k1, or an address |
//! | `JsonWebSignature2020` | `jws` | N-Quads | Ed25519, secp256k1, P-256, P-384 |
//! | `Ed25519Signature2020` | `proofValue` | N-Quads | Ed25519 |
//! | `EthereumEip712Signature2021` | `proofValue` | EIP-712 typed data | secp256k1, or an address |
//! | `DataIntegrityProof`, `eddsa-rdfc-2022` | `proofValue` | N-Quads | Ed25519 |
//! | `DataIntegrityProof`, `eddsa-jcs-2022` | `proofValue` | RFC 8785 | Ed25519 |
//! | `DataIntegrityProof`, `ecdsa-rdfc-2019` | `proofValue` | N-Quads | P-256, P-384 |
//! | `DataIntegrityProof`, `ecdsa-jcs-2019` | `proofValue` | RFC 8785 | P-256, P-384 |
//!
//! `ecdsa-sd-2023` and `bbs-2023`, whose proofs are derived anew for every reader, are not among them.

mod detached;
mod eip712;
mod jws;
mod proof;
mod sign;
mod verify;

pub use detached::verify_text;
pub use proof::{PROOFS_MAX, Proof, Secured, Suite};
pub use sign::{Options, SigningKey, sign};
pub use verify::Verified;

use crate::{canonical, did};

/// How far a proof's `created` may lie ahead of the verifier's clock, in seconds.
pub const CLOCK_SKEW_SECONDS_MAX: i64 = 300;

/// Why a proof does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no `proof`, or it is neither an object nor a list of one.
    #[error("there is not exactly one proof")]
    NotOneProof,
    /// There is no `proof`, or it is neither an object nor a list of one to [`PROOFS_MAX`].
    #[error("there is no proof, or more than {PROOFS_MAX}")]
    NoProofs,
    /// A suite that is not verified here.
    #[error("proof suite `{0}` is not supported")]
    UnknownSuite(String),
    /// The value stands in `jws` where the suite has `proofValue`, or the other way round, or in both.
    #[error("`{}` carries its signature in `{}` and nowhere else", suite.name(), suite.carrier())]
    WrongCarrier {
        /// The suite named.
        suite: Suite,
    },
    /// A member of the proof is missing, unknown or malformed.
    #[error("proof member `{member}` {reason}")]
    Member {
        /// Name of the member.
        member: String,
        /// The defect.
        reason: &'static str,
    },
    /// The header of a JWS is not the one of its suite and key.
    #[error("JWS header is not exactly {{\"alg\":\"{alg}\",\"b64\":false,\"crit\":[\"b64\"]}}")]
    JwsHeader {
        /// The algorithm it has to name.
        alg: &'static str,
    },
    /// The proof was made in the future.
    #[error("proof was created in the future")]
    NotYetCreated,
    /// The proof has expired.
    #[error("proof has expired")]
    Expired,
    /// The proof was made for something else.
    #[error("proof is for `{found}` and not for `{}`", expected.as_str())]
    Purpose {
        /// What it is needed for.
        expected: did::Purpose,
        /// What it says.
        found: String,
    },
    /// The verification method is not the signer's, or not for this.
    #[error(transparent)]
    Unauthorised(#[from] did::Unauthorised),
    /// The key is of another kind than the suite's.
    #[error("`{}` does not sign with this kind of key", suite.name())]
    KeyKind {
        /// The suite named.
        suite: Suite,
    },
    /// The proof was made over another `@context` than the document's.
    #[error("proof and document differ in @context")]
    Context,
    /// The document has no canonical form.
    #[error(transparent)]
    Canonical(#[from] canonical::Error),
    /// The proof's options have no canonical form.
    #[error("proof options: {0}")]
    CanonicalOptions(canonical::Error),
    /// EIP-712 types that do not cover the whole document, or no typed data.
    #[error("typed data {0}")]
    TypedData(String),
    /// The signature's `s` is in the upper half, so that anyone could have made it from the signer's.
    #[error("signature is not in low-s form")]
    HighS,
    /// The signature is not the key's over this document.
    #[error("signature does not verify")]
    Signature,
}
