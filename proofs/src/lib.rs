//! Verifiable documents: canonical JSON-LD, Data Integrity proofs, DIDs and credentials.
//!
//! The crate knows what is signed and how: canonical forms of JSON-LD documents, W3C Data Integrity proofs over them, the
//! DIDs that sign, and the credentials they present. It fetches nothing: contexts are bundled, and what a `did:web`
//! answers comes in through a trait.

pub mod canonical;
pub mod contexts;
pub mod credential;
pub mod did;
pub mod envelope;
pub mod json;
pub mod key;
pub mod suites;
