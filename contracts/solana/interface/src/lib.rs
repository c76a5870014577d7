//! What the gateway's Solana program and everyone who talks to it must agree on.
//!
//! One program is escrow on the source side and fulfillment proxy on the destination side. Here are its instructions
//! ([`instruction`]), its accounts ([`account`]), the messages that payer and releaser sign ([`message`]), the seeds of
//! its addresses ([`seeds`]), its errors ([`error`]), what it writes to the log ([`log`]), and the verifier sets that stand
//! for a releaser ([`verifier_set`]). The program is compiled from the same definitions, so a layout cannot differ between
//! the two sides.
//!
//! Amounts are in the mint's smallest unit (lamports for native SOL), times in UNIX seconds, integers little endian.
//! A payment's id on chain is keccak256 of its text, as on EVM chains.
//!
//! With the feature `host` come addresses, digests and ready instructions; without it the crate has no dependencies.
//!
//! ```
//! use gateway_program::{Key, message::Domain};
//!
//! let domain = Domain { cluster_id: [7; 32], program_id: [9; 32] };
//! # let _: Key = domain.program_id;
//! # #[cfg(feature = "host")]
//! let escrow: Key = gateway_program::host::escrow_address(&domain.program_id, &[1; 32]).key;
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "host")]
extern crate alloc;

mod layout;

pub mod account;
pub mod ed25519;
pub mod error;
#[cfg(feature = "host")]
pub mod host;
pub mod ids;
pub mod instruction;
pub mod log;
pub mod message;
pub mod rules;
pub mod seeds;
pub mod token;
pub mod verifier_set;

pub use error::GatewayError;

/// An account's address or a public key: 32 bytes, shown as Base58.
pub type Key = [u8; 32];

/// A hash, or an id that is one.
pub type Hash = [u8; 32];

/// The key of 32 zero bytes: no key, native SOL where a mint is asked for, and the system program's address.
pub const ZERO_KEY: Key = [0; 32];
