//! x402, version 2 (spec 2.14, 4.4): the gateway as a facilitator of the schemes `gw-escrow` and, for stock clients, `exact`.
//!
//! A settle is a submission of the payment request inside the payload, with two things besides: the request has to be what
//! the merchant's requirement asks for, and a payment identifier belongs to one payload for ever
//! ([`crate::payment_identifiers`]). Everything else is the submission's own code.

mod checks;
mod exact;
mod fault;
mod matching;
mod message;
mod offer;
mod requirement;
mod settle;
mod told;
mod verify;

pub use self::{
    message::Call,
    offer::{DELIVERY_SECONDS, OfferBody, TIMEOUT_SECONDS, TIMEOUT_SECONDS_MIN, offer},
    settle::{SettleOutcome, settle},
    told::{Telling, tell_once},
    verify::{Verified, verify},
};
use crate::error::{Code, Error};

/// The scheme of payments that are signed for the gateway's own.
pub const SCHEME: &str = "gw-escrow";
/// The scheme that every client of x402 knows (ADR 154, 160).
pub const EXACT: &str = "exact";
/// The version of x402.
pub const VERSION: u64 = 2;
/// The extension that names a payment.
pub const PAYMENT_IDENTIFIER: &str = "payment-identifier";
/// Fewest characters of a payment identifier (design: x402).
pub const IDENTIFIER_CHARS_MIN: usize = 16;
/// Most characters of a payment identifier (design: x402).
pub const IDENTIFIER_CHARS_MAX: usize = 128;

/// Why a call is not followed.
#[derive(Debug)]
pub enum Refusal {
    /// The payment request inside is not of the right form, or who asks is not proven.
    Form(Error),
    /// The payment is not taken, or cannot be judged.
    Payment(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Payment(error)
    }
}

impl From<&'static Code> for Refusal {
    fn from(code: &'static Code) -> Self {
        Self::Payment(code.into())
    }
}
