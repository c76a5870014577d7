//! The committed program in a real Solana runtime: one program of tests; a file is a subject.

mod accounts;
mod conservation;
mod fulfillment;
mod life;
mod limits;
mod mints;
mod setup;
mod signatures;
mod vectors;
