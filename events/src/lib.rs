//! The vocabulary of the gateway.
//!
//! Everything the rest of the system says about a payment is said in the types of this crate: identifiers
//! ([`PaymentId`], [`Did`]), CAIP chains, assets and accounts ([`caip`]), the [`Terms`] a payer agreed to, the
//! [`quote`] a settler signed, and the domain [`event`]s that make up a payment's life, with the [`codec`] that keeps
//! events of every schema version readable.
//!
//! The crate knows no store, no HTTP, no chain library and no read model. All other crates of the workspace depend on it.

pub mod amount;
pub mod caip;
pub mod codec;
pub mod did;
pub mod epoch;
pub mod event;
pub mod failure;
pub mod identity;
pub mod ids;
pub mod json;
pub mod mutants;
pub mod payload;
pub mod quote;
mod reason;
mod schema;
pub mod selection;
pub mod terms;
mod text;
pub mod time;
pub mod verifier_set;

pub use amount::Amount;
pub use caip::{Account, AssetId, ChainId, Family};
pub use did::{Did, SettlerToken};
pub use epoch::{Epoch, Epochs};
pub use event::{Event, PaymentEvent, QuoteRequestEvent, quote_request};
pub use failure::Failure;
pub use ids::{CommitId, Hash32, PaymentId, QuoteRequestId, StreamId};
pub use payload::Payload;
pub use reason::is_reason;
pub use terms::{OwnedAsset, Terms};
pub use verifier_set::{VerifierMember, VerifierSet};
