//! The models are checked to their last state, their broken variants are caught, and their ways are gone again by the code.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod models;
