//! A Solana runtime in this process with the committed program in it, and the people of a payment.
//!
//! The program is the file that is committed, the token programs are the published ones. What goes wrong here is a
//! broken test, so it panics.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod addressed;
mod mint;
mod offered;
mod payment;
mod verifiers;
mod world;

pub use addressed::Addressed;
pub use mint::{DECIMALS, Extension, MintKind, transfer_checked};
pub use offered::Offered;
pub use payment::{Payment, sign, sign_digest};
pub use verifiers::{Verifiers, signature};
pub use world::{Outcome, World, custom_code, key, keypair, refused};
