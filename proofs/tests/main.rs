//! Canonical forms, proofs and credentials against published vectors: one program; a file is a subject.

mod canonical;
mod credentials;
mod forgeries;
mod interop;
mod rdfc10;
mod support;
mod vectors;
