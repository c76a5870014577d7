//! The saga engine: what happens to a payment or a quote-request batch, and who makes it happen.
//!
//! - [`payment`] is the pure state machine: [`payment::evolve`] folds events into a [`Payment`], [`payment::decide`] turns
//!   a command into the events that record it, or refuses; it has a file for each leg, too.
//! - [`handlers`] are pure functions from (state, now) to the next [`handlers::Action`]: one file for each leg of the
//!   saga (auction, escrow, settlement, reassignment, release, refund).
//! - [`auction`] judges bids and picks the winner, also purely.
//! - [`quote_request`] is the same for a batch, with [`quote_request::award`], by which a payment comes out of it.
//! - [`reassignment`] says for how many settlers in turn an escrow is reserved.
//! - [`release`] says when the gateway brings the release of a delivered payment itself.
//! - [`settler_record`] is what became of a settler's awards, and says until when one that missed is passed over.
//! - [`ports`] are the traits through which actions touch the world.
//! - [`runner`] drives payments and batches: load, perform, decide, append, until they are at rest.
//!
//! The crate knows no NATS, no HTTP and no chain library, so the same code runs under a simulation.

pub mod auction;
pub mod handlers;
pub mod payment;
pub mod ports;
pub mod quote_request;
pub mod reassignment;
pub mod release;
pub mod runner;
pub mod settler_record;

pub use payment::Payment;
pub use quote_request::QuoteRequest;
