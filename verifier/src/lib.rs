//! The fulfillment verifier: the service that attests deliveries, and the client through which the engine asks one.
//!
//! A verifier is shown a payment's terms, escrow and quote, checks every field against the chains itself, and signs what
//! it finds true: that the delivery is made, or that none can be made any more. The escrow pays or gives back on that
//! signature, so the service believes nothing it is told, and [`HttpVerifier`] returns a signature only when the escrow
//! would take it.

mod bulkhead;
mod callers;
mod client;
mod finishing;
mod judge;
pub mod observed;
mod service;
mod service_metrics;
mod single_flight;
#[cfg(test)]
mod tests;
mod under_way;

use async_trait::async_trait;

use sagas::ports::{Transient, VerificationCase};

pub use callers::CallerOptions;
pub use client::{HttpVerifier, Options, OptionsError};
pub use service::{ServiceOptions, serve};

/// The code of a service that has too much to do for its caller.
const BUSY: &str = "BUSY";

/// What a verifier makes of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Attested {
        /// The releaser's signature, hex with 0x.
        signature: String,
    },
    /// It does not hold yet and may later.
    Pending {
        /// What is missing, for humans.
        reason: String,
    },
    /// It does not hold and never will as it was put.
    Refused {
        /// What is wrong, for humans.
        reason: String,
    },
}

/// Judges cases by the chains and signs what holds.
#[async_trait]
pub trait Judge: Send + Sync {
    /// Whether the case is one that this judge signs for at all, by its configuration alone: no chain is asked.
    ///
    /// # Errors
    /// Why it is not, for humans.
    fn screen(&self, case: &VerificationCase) -> Result<(), String>;

    /// Whether the delivery is on the destination chain at depth, with every field right.
    ///
    /// # Errors
    /// [`Transient`] when the chains cannot be read; nothing may be concluded.
    async fn delivery(&self, case: &VerificationCase) -> Result<Verdict, Transient>;

    /// Whether no delivery was made and none can be made any more.
    ///
    /// # Errors
    /// [`Transient`] when the chains cannot be read; nothing may be concluded.
    async fn non_delivery(&self, case: &VerificationCase) -> Result<Verdict, Transient>;
}
