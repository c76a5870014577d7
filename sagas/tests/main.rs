//! The pure core by given/when/then, and the engine in a small world: one program; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod auction;
mod boundaries;
mod engine;
mod given;
mod quote_requests;
mod state_machine;
