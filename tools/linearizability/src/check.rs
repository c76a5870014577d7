//! A whole history: each object of the model by itself.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{CallOf, Contradiction, Exhausted, Model, contradiction::reduce, search::order};

/// What was looked at of a history that is linearizable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checked {
    /// Objects.
    pub objects: usize,
    /// Calls of them.
    pub calls: usize,
    /// Of these, calls of unknown outcome.
    pub unknown: usize,
}

/// Why a history was not found to be linearizable.
#[derive(Debug, Error)]
pub enum Failure<K: std::fmt::Debug, O: std::fmt::Debug, A: std::fmt::Debug> {
    /// It is not.
    #[error("{0}")]
    Contradiction(Box<Contradiction<K, O, A>>),
    /// It could not be told.
    #[error("about {key:?}, {calls} calls: {source}")]
    Undecided {
        /// The object.
        key: K,
        /// How many calls there are of it.
        calls: usize,
        /// How far it was looked.
        source: Exhausted,
    },
}

/// Why a history of a model's objects was not found to be linearizable.
pub type FailureOf<M> = Failure<<M as Model>::Key, <M as Model>::Op, <M as Model>::Answer>;

/// Looks at each object that `history` has calls of.
///
/// # Errors
/// With the first object whose answers no order explains, or for which it takes more than `configurations_max`
/// configurations.
pub fn check<M: Model>(history: &[CallOf<M>], configurations_max: usize) -> Result<Checked, FailureOf<M>> {
    let mut objects: BTreeMap<M::Key, Vec<&CallOf<M>>> = BTreeMap::new();
    for call in history {
        if let Some(key) = M::key(&call.op) {
            objects.entry(key).or_default().push(call);
        }
    }
    let mut checked = Checked::default();
    for (key, mut calls) in objects {
        calls.sort_by_key(|call| call.invoked);
        checked.objects += 1;
        checked.calls += calls.len();
        checked.unknown += calls.iter().filter(|call| call.returned.is_none()).count();
        match order::<M>(&calls, configurations_max) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(Failure::Contradiction(Box::new(reduce::<M>(key, &calls)))),
            Err(source) => return Err(Failure::Undecided { key, calls: calls.len(), source }),
        }
    }
    Ok(checked)
}
