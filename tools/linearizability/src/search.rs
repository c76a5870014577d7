//! The search for an order: that of Wing and Gong (*Testing and Verifying Concurrent Objects*, 1993), with the memoization of
//! Lowe (*Testing for Linearizability*, 2017), as porcupine has it. The order is called a linearization.
//!
//! Invocations and returns stand in a list by time. The search goes along it: an invocation may be the next of the order,
//! where the model allows its answer; then both its entries leave the list, and the search begins at the front. A
//! return in the way means that its call should have been placed before: the last placement is taken back, and the search
//! goes on behind it. Which calls are placed and what the object then holds is all that the rest depends on, so no such
//! configuration is looked at twice. Calls of unknown outcome are tried after those that were answered, since few of them
//! explain anything.

use std::collections::HashSet;

use thiserror::Error;

use crate::{CallOf, Model};

/// The search was given up: too many configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no order was found, nor that there is none, in {0} configurations")]
pub struct Exhausted(pub usize);

/// Calls of one object, as the search takes them.
pub(crate) type Calls<'a, M> = [&'a CallOf<M>];

/// An order of the calls of one object that explains the answers, as indexes; `None` where there is none. Calls of unknown
/// outcome are in it where they are needed.
///
/// # Errors
/// When it takes more than `configurations_max` configurations.
pub fn order<M: Model>(calls: &Calls<'_, M>, configurations_max: usize) -> Result<Option<Vec<usize>>, Exhausted> {
    Search::<M>::new(calls).run(configurations_max)
}

/// Which calls of unknown outcome would change what the object holds in any configuration that the search meets, where there
/// is no order.
///
/// # Errors
/// As [`order`].
pub(crate) fn effective<M: Model>(calls: &Calls<'_, M>, configurations_max: usize) -> Result<Vec<bool>, Exhausted> {
    let mut search = Search::<M>::new(calls);
    search.run(configurations_max)?;
    Ok(search.effective)
}

/// What stands in the list; the number is that of the call.
#[derive(Clone, Copy)]
enum Entry {
    Invoked(usize),
    Returned(usize),
}

struct Search<'a, M: Model> {
    calls: &'a Calls<'a, M>,
    entries: Vec<Entry>,
    /// The list: entry `n` is place `n + 1`; place 0 is the front, and leads to the front again from the end.
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The places of each call's invocation and return.
    places: Vec<(usize, Option<usize>)>,
    placed: Vec<u64>,
    effective: Vec<bool>,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(calls: &'a Calls<'a, M>) -> Self {
        let invoked = calls.iter().enumerate().map(|(n, call)| (call.invoked, false, n));
        let returned = calls.iter().enumerate().filter_map(|(n, call)| Some((call.returned.as_ref()?.0, true, n)));
        let mut times: Vec<(u64, bool, usize)> = invoked.chain(returned).collect();
        // At the same time, an invocation comes first: the calls overlap, which allows more.
        times.sort_unstable();
        let entry =
            |(_, is_return, n): (u64, bool, usize)| if is_return { Entry::Returned(n) } else { Entry::Invoked(n) };
        let entries: Vec<Entry> = times.into_iter().map(entry).collect();
        let count = entries.len() + 1;
        let mut places = vec![(0, None); calls.len()];
        for (index, entry) in entries.iter().enumerate() {
            match entry {
                Entry::Invoked(n) => places[*n].0 = index + 1,
                Entry::Returned(n) => places[*n].1 = Some(index + 1),
            }
        }
        Self {
            calls,
            entries,
            next: (0..count).map(|place| (place + 1) % count).collect(),
            previous: (0..count).map(|place| (place + count - 1) % count).collect(),
            places,
            placed: vec![0; calls.len().div_ceil(64)],
            effective: vec![false; calls.len()],
        }
    }

    fn run(&mut self, configurations_max: usize) -> Result<Option<Vec<usize>>, Exhausted> {
        let mut seen: HashSet<(usize, Vec<u64>, M::State)> = HashSet::new();
        let mut state = M::initial();
        let mut placements: Vec<(usize, M::State)> = Vec::new();
        let mut open = self.calls.iter().filter(|call| call.returned.is_some()).count();
        let mut place = self.next[0];
        let mut tries_answered = true;
        while open > 0 {
            let entry = place.checked_sub(1).map(|index| self.entries[index]);
            if let Some(Entry::Invoked(n)) = entry {
                let is_tried = self.calls[n].returned.is_some() == tries_answered;
                if let Some(after) = if is_tried { self.after(&state, n) } else { None } {
                    self.mark(n);
                    let (full, rest) = self.placed_compactly();
                    if seen.insert((full, rest, after.clone())) {
                        if seen.len() > configurations_max {
                            return Err(Exhausted(configurations_max));
                        }
                        placements.push((n, std::mem::replace(&mut state, after)));
                        open -= usize::from(self.calls[n].returned.is_some());
                        self.lift(n);
                        (place, tries_answered) = (self.next[0], true);
                        continue;
                    }
                    self.mark(n);
                }
                place = self.next[place];
                continue;
            }
            // A return, or the end of the list.
            if tries_answered {
                (place, tries_answered) = (self.next[0], false);
                continue;
            }
            // What was placed last was wrong.
            let Some((n, before)) = placements.pop() else { return Ok(None) };
            state = before;
            self.mark(n);
            open += usize::from(self.calls[n].returned.is_some());
            self.unlift(n);
            (place, tries_answered) = (self.next[self.places[n].0], self.calls[n].returned.is_some());
        }
        Ok(Some(placements.into_iter().map(|(n, _)| n).collect()))
    }

    /// What the object holds when call `n` is the next; `None` where it cannot be, or need not.
    fn after(&mut self, state: &M::State, n: usize) -> Option<M::State> {
        let call = self.calls[n];
        if let Some((_, answer)) = &call.returned {
            return M::step(state, &call.op, answer);
        }
        let after = M::effect(state, &call.op);
        let changes = after != *state;
        self.effective[n] |= changes;
        changes.then_some(after)
    }

    /// Marks a call as placed, or no more so.
    fn mark(&mut self, n: usize) {
        self.placed[n / 64] ^= 1 << (n % 64);
    }

    /// Which calls are placed: how many words at the front are full, and those that follow up to the last that is not empty.
    /// Calls that stand by the time of their invocation make this short.
    fn placed_compactly(&self) -> (usize, Vec<u64>) {
        let full = self.placed.iter().take_while(|word| **word == u64::MAX).count();
        let end = self.placed.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        (full, self.placed.get(full..end).unwrap_or_default().to_vec())
    }

    /// Takes a call's entries out of the list.
    fn lift(&mut self, n: usize) {
        let (invoked, returned) = self.places[n];
        for place in [Some(invoked), returned].into_iter().flatten() {
            let (previous, next) = (self.previous[place], self.next[place]);
            self.next[previous] = next;
            self.previous[next] = previous;
        }
    }

    /// Puts them back; the last to go out comes first.
    fn unlift(&mut self, n: usize) {
        let (invoked, returned) = self.places[n];
        for place in [returned, Some(invoked)].into_iter().flatten() {
            let (previous, next) = (self.previous[place], self.next[place]);
            self.next[previous] = place;
            self.previous[next] = place;
        }
    }
}
