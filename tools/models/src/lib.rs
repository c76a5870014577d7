//! Models of the gateway's protocols, checked exhaustively at small size.
//!
//! - [`payment`]: gateways, settlers, verifiers and both chains; the journal in it is folded by the engine itself.
//! - [`journal`]: writers, streams with conditions, epochs and batches.
//! - [`check`]: runs a check to its end and says what it came to.

pub mod check;
pub mod journal;
pub mod payment;
