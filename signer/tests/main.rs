//! Keys that services keep, against servers that speak their APIs, honest and not; a file is a service.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod kms;
mod support;
mod web3signer;
