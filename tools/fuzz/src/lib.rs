//! Fuzz targets: each drives a reader of the product with bytes as they may come from outside, and asks more of it than
//! that it does not panic.
//!
//! [`TARGETS`] is the table of them. The binary `fuzz` runs one under an engine, by coverage with libFuzzer when it was
//! built by `scripts/fuzz`; the tests run each over its committed corpus and over inputs that are made of it by a seed.

mod addresses;
mod answers;
mod bodies;
mod bounds;
mod bus;
pub mod corpus;
mod evm;
mod files;
mod input;
pub mod mutation;
pub mod seeds;
mod signed;
mod solana;
pub mod sources;
mod store;
mod targets;
mod tron;
mod vocabulary;

pub use self::{
    bounds::within_bounds,
    targets::{TARGETS, Target, named},
};
