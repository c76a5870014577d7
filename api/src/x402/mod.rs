//! The wire of x402 (spec 2.14, 4.4); the use cases are [`app::x402`]. `examples/x402/PROTOCOL.md` shows every body.

mod answer;
mod call;
pub(crate) mod offers;
mod outline;
pub(crate) mod settle;
pub(crate) mod supported;
pub(crate) mod verify;

pub(crate) use self::answer::{SettleBody, VerifyBody};
