//! The node as wallets and clients see it: one program; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod api;
mod controls;
mod refusals;
mod support;
mod tronweb;
mod tvm;
