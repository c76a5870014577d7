//! Canonical forms, proofs and credentials against published vectors: one program; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod canonical;
mod credentials;
mod forgeries;
mod interop;
mod rdfc10;
mod support;
mod vectors;
