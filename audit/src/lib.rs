//! Auditing: the journal checked against itself and the chains, without trust in those who wrote it.
//!
//! - [`source`] is where messages come from: a server, or files that [`export`] made ([`json_lines`] is their format), in the
//!   epochs of the journal's [`layout`].
//! - [`replay`] shows one stream; `examine` and `consistency` check it by itself, [`onchain`] against the chains; `rounds` are the
//!   reservations of an escrow that it tells.
//! - [`verify`] does that for one payment or for all, with the signed `checkpoints`, which the [`audit_state`] of
//!   earlier runs guards in their turn; [`report`] is what it comes to.
//! - [`signing`] is the gateway's part: it signs the checkpoints.
//!
//! What is found is a [`Finding`]; what could not be asked is one too, so that silence never counts as proof.

pub mod adapters;
pub mod audit_state;
mod checkpoints;
pub mod connect;
mod consistency;
pub mod entry;
mod error;
mod examine;
pub mod export;
mod finding;
pub mod json_lines;
pub mod layout;
pub mod onchain;
pub mod progress;
pub mod replay;
pub mod report;
mod rounds;
pub mod signing;
pub mod source;
mod uniqueness;
pub mod verify;

pub use error::Error;
pub use finding::{Finding, JournalLocation, Severity};
