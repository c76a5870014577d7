//! Backup: copies of all that the gateways keep in NATS, and their way back into empty servers (ADR 136).
//!
//! A copy is a directory. `journal/` holds what an auditor's export holds, the event streams and the signed checkpoints, so that
//! every tool for exports reads it; `gateway/` holds what is the gateways' own business; `backup.json`, the [`manifest`], is
//! written last and says up to where the copy is whole. [`mod@copy`] makes one and goes on with one, reading only what is new of the
//! streams that keep everything; [`check`] looks whether it is all there; [`restore`] puts it into empty servers, and [`adopt`] takes
//! what a server has left for a copy.
//!
//! | stream | what it holds | in the copy |
//! |---|---|---|
//! | `EVT_…` | payments and batches | every message, same sequences |
//! | `CHK` | signed checkpoints | the same |
//! | `PARK` | parked payments | the same |
//! | `SIG` | nonces | the same, and never older than the commits that name them |
//! | `X402` | owners of payment identifiers | the same |
//! | `OPERATOR_ACTS` | what operators ordered | the same |
//! | `WEBHOOKS` | webhooks | the same |
//! | `DELIVERIES` | their messages and what became of them | the same, and never newer than the commits that they are about |
//! | `AWARDS`, `ANSWERS` | awards and their answers | what is there, new sequences |
//! | all others | leases, registrations, bids, gas budgets, how far webhooks' queues are | left out: they are made anew |

pub mod adopt;
pub mod check;
pub mod copy;
mod error;
pub mod manifest;
mod plan;
pub mod restore;

pub use error::Error;
