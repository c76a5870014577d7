//! What a sequential object may answer.

use std::{fmt::Debug, hash::Hash};

use crate::Call;

/// A call of a model's object.
pub type CallOf<M> = Call<<M as Model>::Op, <M as Model>::Answer>;

/// A sequential object: what each call does, and what it may be answered with.
///
/// Whatever `step` leads to has to be the state that the call found, or one of which no more can be said afterwards than of
/// it or of what `effect` leads to: else a call of unknown outcome could explain less than one that was answered.
pub trait Model {
    /// What the object holds.
    type State: Clone + Eq + Hash;
    /// What is asked of it.
    type Op: Clone + Debug;
    /// What it says.
    type Answer: Clone + Debug;
    /// Which of several independent objects a call is about.
    type Key: Clone + Ord + Debug;

    /// The object that a call is about; `None` for calls that this model has no rule for.
    fn key(op: &Self::Op) -> Option<Self::Key>;

    /// What the object holds at the beginning.
    fn initial() -> Self::State;

    /// What the object holds after a call that was answered so; `None` where that cannot be its answer.
    fn step(state: &Self::State, op: &Self::Op, answer: &Self::Answer) -> Option<Self::State>;

    /// What the object holds after a call of which nobody knows the answer, where it takes effect.
    fn effect(state: &Self::State, op: &Self::Op) -> Self::State;
}
