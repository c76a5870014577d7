//! The vocabulary of the gateway and the journal it is kept in.
//!
//! Everything the rest of the system says about a payment is said in the types of this crate: identifiers
//! ([`PaymentId`], [`Did`]), CAIP chains, assets and accounts ([`caip`]), the [`Terms`] a payer agreed to, the
//! [`quote`] a settler signed, and the domain [`event`]s that make up a payment's life. The [`journal`] stores those
//! events in append-only streams on NATS JetStream; [`ledger`] is the smaller journal from which transaction
//! nonces are taken.
//!
//! The crate knows no HTTP, no chain library and no read model. All other crates of the workspace depend on it.

pub mod amount;
pub mod budget;
pub mod caip;
pub mod checkpoint;
pub mod codec;
pub mod connection;
pub mod did;
pub mod epoch;
pub mod event;
pub mod failure;
pub mod identity;
pub mod ids;
mod jetstream;
pub mod journal;
pub mod ledger;
pub mod mutants;
pub mod parking;
pub mod quote;
pub mod quote_request;
pub mod raw;
mod schema;
pub mod selection;
pub mod terms;
pub mod time;

pub use amount::Amount;
pub use caip::{Account, AssetId, ChainId, Family};
pub use did::{Did, SettlerToken};
pub use epoch::{Epoch, Epochs};
pub use event::{Event, PaymentEvent, QuoteRequestEvent};
pub use failure::Failure;
pub use ids::{CommitId, Hash32, PaymentId, QuoteRequestId, StreamId};
pub use terms::{OwnedAsset, Terms};
