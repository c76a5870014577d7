//! x402, version 2 (spec 2.14, 4.4): the gateway as a facilitator of the scheme `gw-escrow`.
//!
//! A settle is a submission of the payment request inside the payload, with two things besides: the request has to be what
//! the merchant's requirement asks for, and a `payment-identifier` belongs to one payload for ever ([`identifiers`]). Everything
//! else is the submission's own code. `examples/x402/PROTOCOL.md` shows every
//! body.

mod answer;
pub mod matching;
mod message;
mod requirement;
pub(super) mod settle;
pub(super) mod supported;
pub(super) mod verify;

use events::Family;

pub(super) use self::answer::{SettleBody, VerifyBody};
pub use app::x402::{Claim, Identifiers, IdentifiersError, MemoryIdentifiers, NatsIdentifiers};

/// Whether payments come from chains of this family. A payer on Tron signs a transaction with the reserver's signature in it,
/// which it gets by preparing the payment; no 402 holds that.
pub(super) fn is_source(family: Family) -> bool {
    matches!(family, Family::Evm | Family::Solana)
}

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
