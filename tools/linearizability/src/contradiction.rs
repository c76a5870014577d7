//! The part of a history that contradicts itself, made as small as it can be without a search through all parts.
//!
//! Two things make a history weaker and never stronger: leaving out what came after a moment, and forgetting an answer. So
//! what still has no order afterwards shows why the whole has none.

use std::{cell::Cell, fmt};

use crate::{
    Call, CallOf, Exhausted, Model,
    search::{Calls, effective, order},
};

/// How many smaller parts are tried at most.
const TRIALS: usize = 1_000;
/// How many configurations each of them may take, and how many more for each call: a part that takes longer is not taken.
const CONFIGURATIONS: usize = 20_000;
const CONFIGURATIONS_PER_CALL: usize = 10;

/// Calls of one object that no order explains.
#[derive(Debug, Clone)]
pub struct Contradiction<K, O, A> {
    /// The object.
    pub key: K,
    /// How many calls the history has of it.
    pub of: usize,
    /// Those whose answers cannot all be true, and those of unknown or forgotten outcome that change what the object holds,
    /// by time.
    pub calls: Vec<Call<O, A>>,
}

impl<K: fmt::Debug, O: fmt::Debug, A: fmt::Debug> fmt::Display for Contradiction<K, O, A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "no order explains these answers about {:?} (seconds; of {} calls):", self.key, self.of)?;
        self.calls.iter().try_for_each(|call| writeln!(out, "{call}"))
    }
}

/// The calls of an object that has no order, reduced.
pub(crate) fn reduce<M: Model>(key: M::Key, calls: &Calls<'_, M>) -> Contradiction<M::Key, M::Op, M::Answer> {
    let of = calls.len();
    let configurations_max = CONFIGURATIONS + CONFIGURATIONS_PER_CALL * of;
    let trials = Cell::new(TRIALS);
    let contradicts = |calls: &[CallOf<M>]| {
        trials.set(trials.get().saturating_sub(1));
        let calls: Vec<_> = calls.iter().collect();
        trials.get() > 0 && matches!(order::<M>(&calls, configurations_max), Ok(None))
    };
    let mut returns: Vec<u64> = calls.iter().filter_map(|call| Some(call.returned.as_ref()?.0)).collect();
    returns.sort_unstable();
    // What has an order until a moment has one until each moment before.
    let shortest = returns.partition_point(|moment| !contradicts(&until::<M>(calls, *moment)));
    let mut kept = match returns.get(shortest) {
        Some(moment) => until::<M>(calls, *moment),
        None => calls.iter().map(|call| (*call).clone()).collect(),
    };
    // Many answers at a time, then fewer.
    let mut size = kept.len().div_ceil(2);
    while size > 0 && trials.get() > 0 {
        for chunk in (0..kept.len().div_ceil(size)).rev() {
            let range = chunk * size..((chunk + 1) * size).min(kept.len());
            let answers: Vec<_> = kept[range.clone()].iter_mut().map(|call| call.returned.take()).collect();
            if answers.iter().any(Option::is_some) && !contradicts(&kept) {
                for (call, answer) in kept[range].iter_mut().zip(answers) {
                    call.returned = answer;
                }
            }
        }
        size /= 2;
    }
    let changing: Result<Vec<bool>, Exhausted> = effective::<M>(&kept.iter().collect::<Vec<_>>(), configurations_max);
    if let Ok(changing) = changing {
        let mut changing = changing.into_iter();
        kept.retain(|call| changing.next().unwrap_or(true) || call.returned.is_some());
    }
    kept.sort_by_key(|call| call.invoked);
    Contradiction { key, of, calls: kept }
}

/// What was known at a moment: an answer that came later was not.
fn until<M: Model>(calls: &Calls<'_, M>, moment: u64) -> Vec<CallOf<M>> {
    let made = calls.iter().filter(|call| call.invoked <= moment);
    let known = made.map(|call| {
        let returned = call.returned.clone().filter(|(at, _)| *at <= moment);
        Call { returned, ..(*call).clone() }
    });
    known.collect()
}
