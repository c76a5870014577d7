//! The search against a check that tries every order of small histories.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod objects;

use linearizability::{Call, Failure, Model, check, order};
use objects::{Access, Held, Queue, Register, Use, call};
use proptest::prelude::*;

const CONFIGURATIONS: usize = 1_000_000;

/// Whether the calls that are left, in any order that keeps to the times, lead on from `state`. Calls of unknown outcome
/// need not be among them.
fn has_order<M: Model>(state: &M::State, left: &[&Call<M::Op, M::Answer>]) -> bool {
    if left.iter().all(|call| call.returned.is_none()) {
        return true;
    }
    (0..left.len()).any(|n| {
        let (call, mut rest) = (left[n], left.to_vec());
        rest.remove(n);
        // None of the others had been answered when this one was made.
        let may_be_next = rest.iter().all(|other| other.returned.as_ref().is_none_or(|(at, _)| *at >= call.invoked));
        let after = match &call.returned {
            Some((_, answer)) => M::step(state, &call.op, answer),
            None => Some(M::effect(state, &call.op)),
        };
        may_be_next && after.is_some_and(|after| has_order::<M>(&after, &rest))
    })
}

/// The same verdict, the order one that there is, and of a contradiction a part that contradicts itself.
fn agrees<M: Model>(calls: &[Call<M::Op, M::Answer>]) -> Result<(), TestCaseError> {
    let all: Vec<_> = calls.iter().collect();
    let expected = has_order::<M>(&M::initial(), &all);
    let found = order::<M>(&all, CONFIGURATIONS).unwrap();
    prop_assert_eq!(found.is_some(), expected);
    match (found, check::<M>(calls, CONFIGURATIONS)) {
        (Some(found), Ok(checked)) => {
            prop_assert_eq!(checked.calls, calls.len());
            let mut state = M::initial();
            for (at, n) in found.iter().enumerate() {
                let call = &calls[*n];
                state = match &call.returned {
                    Some((_, answer)) => M::step(&state, &call.op, answer).unwrap(),
                    None => M::effect(&state, &call.op),
                };
                for later in &found[at + 1..] {
                    let returned = calls[*later].returned.as_ref().map_or(u64::MAX, |(at, _)| *at);
                    prop_assert!(returned >= call.invoked);
                }
            }
            let answered = calls.iter().enumerate().filter(|(_, call)| call.returned.is_some());
            prop_assert!(answered.map(|(n, _)| n).all(|n| found.contains(&n)));
        }
        (None, Err(Failure::Contradiction(part))) => {
            let part: Vec<_> = part.calls.iter().collect();
            prop_assert!(!has_order::<M>(&M::initial(), &part));
            prop_assert!(part.len() <= calls.len());
        }
        other => prop_assert!(false, "{:?}", other.1.map_err(|failure| failure.to_string())),
    }
    Ok(())
}

fn times() -> impl Strategy<Value = (u64, Option<u64>)> {
    (0..12_u64, prop::option::weighted(0.8, 0..8_u64)).prop_map(|(from, takes)| (from, takes.map(|takes| from + takes)))
}

fn accesses() -> impl Strategy<Value = (Access, Held)> {
    prop_oneof![
        (0..3_u64).prop_map(|value| (Access::Read, Held::Value(value))),
        (0..3_u64).prop_map(|value| (Access::Write(value), Held::Done)),
        (0..3_u64, 0..3_u64, any::<bool>())
            .prop_map(|(from, to, done)| { (Access::Swap(from, to), if done { Held::Done } else { Held::Refused }) }),
    ]
}

fn uses() -> impl Strategy<Value = (Use, Option<char>)> {
    prop_oneof![
        prop::char::range('a', 'c').prop_map(|item| (Use::Enqueue(item), None)),
        prop::char::range('a', 'c').prop_map(|item| (Use::Dequeue, Some(item))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_registers(calls in prop::collection::vec((times(), accesses()), 1..7)) {
        let calls = calls.into_iter().map(|((invoked, returned), (access, held))| {
            call("c", (0, access), invoked, returned.map(|at| (at, held)))
        });
        agrees::<Register>(&calls.collect::<Vec<_>>())?;
    }

    #[test]
    fn on_queues(calls in prop::collection::vec((times(), uses()), 1..7)) {
        let calls = calls.into_iter().map(|((invoked, returned), (op, answer))| {
            call("c", op, invoked, returned.map(|at| (at, answer)))
        });
        agrees::<Queue>(&calls.collect::<Vec<_>>())?;
    }
}
