//! x402, version 2 (spec 2.14, 4.4): the gateway as a facilitator of the scheme `gw-escrow`.
//!
//! A settle is a submission of the payment request inside the payload, with two things besides: the request has to be what
//! the merchant's requirement asks for, and a `payment-identifier` belongs to one payload for ever ([`identifiers`]). Verify
//! reads the payer's [`funds`], too. Everything else is the submission's own code. `examples/x402/PROTOCOL.md` shows every
//! body.

mod answer;
mod evm_funds;
pub mod funds;
pub mod identifiers;
mod matching;
mod message;
mod nats_identifiers;
mod requirement;
pub(super) mod settle;
mod solana_funds;
pub(super) mod supported;
pub(super) mod verify;

pub use self::{
    evm_funds::EvmFunds,
    funds::{Funds, FundsError, Spend, Standing},
    identifiers::{Claim, Identifiers, IdentifiersError, MemoryIdentifiers},
    nats_identifiers::NatsIdentifiers,
    solana_funds::SolanaFunds,
};

/// The scheme.
pub(super) const SCHEME: &str = "gw-escrow";
/// The version of x402.
pub(super) const VERSION: u64 = 2;
/// The extension that names a payment.
pub(super) const PAYMENT_IDENTIFIER: &str = "payment-identifier";
/// Fewest characters of a payment identifier (design: x402).
pub(super) const IDENTIFIER_CHARS_MIN: usize = 16;
/// Most characters of a payment identifier (design: x402).
pub(super) const IDENTIFIER_CHARS_MAX: usize = 128;
