//! Linearizability: whether the calls that clients made of a concurrent object, and the answers that they had, have an order
//! in which a sequential object gives these answers and no call comes before one that had been answered when it was made.
//!
//! A history is a list of [`Call`]s. What the object may answer is a [`Model`]. [`check`] looks at each of the model's
//! objects by itself, since a history is linearizable when it is so for each object (Herlihy and Wing, *Linearizability: A
//! Correctness Condition for Concurrent Objects*, 1990).

mod calls;
mod check;
mod contradiction;
pub mod gateway;
mod model;
mod search;

pub use calls::{Call, HistoryError, read, write};
pub use check::{Checked, Failure, FailureOf, check};
pub use contradiction::Contradiction;
pub use model::{CallOf, Model};
pub use search::{Exhausted, order};
