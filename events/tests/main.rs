//! Golden tests: the bytes of the vocabulary stay as they are. One program; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod golden;
mod quotes;
