//! The ports of EVM chains against real nodes; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod accounts;
mod authorize;
mod belief;
mod claims;
mod delivery;
mod deploy;
mod deposit;
mod head_feed;
mod mandates;
mod native_coins;
mod nodes;
mod payment_batches;
mod reassignment;
mod release;
mod reorganisations;
mod reservers;
mod submitters;
mod support;
mod token_signatures;
