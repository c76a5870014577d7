//! The committed program in a real Solana runtime: one program of tests; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod accounts;
mod collections;
mod conservation;
mod deposit_addresses;
mod escrow_states;
mod fulfillment;
mod hostile;
mod limits;
mod mints;
mod offer_paths;
mod offers;
mod reassignment;
mod remainder;
mod returns;
mod setup;
mod signatures;
mod vectors;
mod verifier_sets;
mod wrapped_sol;
