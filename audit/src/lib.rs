//! Auditing: the journal read by somebody who believes neither it nor those who wrote it.
//!
//! - [`source`] is where messages come from: a server, or files that [`export`] made ([`line`] is their format), in the
//!   epochs of the journal's [`layout`].
//! - [`replay`] shows one stream; [`examine`] and [`claims`] check it by itself, [`onchain`] against the chains.
//! - [`verify`] does that for one payment or for all, with the signed [`checkpoints`], which a [`memory`] of earlier
//!   runs guards in their turn; [`report`] is what it comes to.
//! - [`signing`] is the gateway's part: it signs the checkpoints.
//!
//! What is found is a [`Finding`]; what could not be asked is one too, so that silence never counts as proof.

pub mod checkpoints;
pub mod claims;
pub mod connect;
pub mod entry;
pub mod examine;
pub mod export;
mod finding;
pub mod layout;
pub mod line;
pub mod memory;
pub mod onchain;
pub mod progress;
pub mod replay;
pub mod report;
pub mod signing;
pub mod source;
mod uniqueness;
pub mod verify;

pub use finding::{Finding, Place, Severity};
