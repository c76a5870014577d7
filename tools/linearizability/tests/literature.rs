//! Histories whose verdict is known: of Herlihy and Wing's paper, of porcupine's documentation, and the usual anomalies.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod objects;

use linearizability::{Call, Failure, Model, check};

use objects::{Access, Held, Queue, Register, Use, call};

const CONFIGURATIONS: usize = 100_000;

fn is_linearizable<M: Model>(history: &[Call<M::Op, M::Answer>]) -> bool
where
    M::Key: std::fmt::Debug,
{
    match check::<M>(history, CONFIGURATIONS) {
        Ok(_) => true,
        Err(Failure::Contradiction(_)) => false,
        Err(failure @ Failure::Undecided { .. }) => panic!("{failure}"),
    }
}

/// Events in the order of the paper: a process invokes, or is answered.
fn queue(events: &[(&str, Event)]) -> Vec<Call<Use, Option<char>>> {
    let mut calls: Vec<Call<Use, Option<char>>> = Vec::new();
    for (time, (process, event)) in (0..).zip(events) {
        match event {
            Event::Call(op) => calls.push(call(process, *op, time, None)),
            Event::Answer(answer) => {
                let pending = calls.iter_mut().find(|call| call.client == *process && call.returned.is_none());
                pending.expect("a process is answered after it called").returned = Some((time, *answer));
            }
        }
    }
    calls
}

enum Event {
    Call(Use),
    Answer(Option<char>),
}
use Event::{Answer, Call as Asks};

const OK: Event = Answer(None);

/// Figure 1 of Herlihy and Wing.
#[test]
fn queues_of_the_paper() {
    let enqueue = |item| Asks(Use::Enqueue(item));
    let dequeue = || Asks(Use::Dequeue);
    // (a): the enqueues overlap, and so do the dequeues.
    let a = queue(&[
        ("A", enqueue('x')),
        ("B", enqueue('y')),
        ("B", OK),
        ("A", OK),
        ("B", dequeue()),
        ("A", dequeue()),
        ("A", Answer(Some('y'))),
        ("B", Answer(Some('x'))),
        ("A", enqueue('z')),
    ]);
    assert!(is_linearizable::<Queue>(&a));
    // (b): x is there before y, and y comes out first.
    let b = queue(&[
        ("A", enqueue('x')),
        ("A", OK),
        ("B", enqueue('y')),
        ("A", dequeue()),
        ("B", OK),
        ("A", Answer(Some('y'))),
    ]);
    assert!(!is_linearizable::<Queue>(&b));
    // (c): x comes out while its enqueue is still under way.
    let c = queue(&[("A", enqueue('x')), ("B", dequeue()), ("B", Answer(Some('x')))]);
    assert!(is_linearizable::<Queue>(&c));
    // (d): y comes out twice.
    let d = queue(&[
        ("A", enqueue('x')),
        ("B", enqueue('y')),
        ("A", OK),
        ("B", OK),
        ("A", dequeue()),
        ("C", dequeue()),
        ("A", Answer(Some('y'))),
        ("C", Answer(Some('y'))),
    ]);
    assert!(!is_linearizable::<Queue>(&d));
}

/// Client, access, and when it was made and answered.
type Made<'a> = (&'a str, Access, u64, Option<(u64, Held)>);

fn register(calls: &[Made<'_>]) -> Vec<Call<(u8, Access), Held>> {
    calls.iter().map(|(client, access, invoked, returned)| call(client, (0, *access), *invoked, *returned)).collect()
}

/// The two histories that porcupine's documentation explains.
#[test]
fn registers_of_porcupine() {
    let good = register(&[
        ("0", Access::Write(100), 0, Some((100, Held::Done))),
        ("1", Access::Read, 25, Some((75, Held::Value(100)))),
        ("2", Access::Read, 30, Some((60, Held::Value(0)))),
    ]);
    assert!(is_linearizable::<Register>(&good));
    let bad = register(&[
        ("0", Access::Write(200), 0, Some((100, Held::Done))),
        ("1", Access::Read, 10, Some((30, Held::Value(200)))),
        ("2", Access::Read, 40, Some((90, Held::Value(0)))),
    ]);
    assert!(!is_linearizable::<Register>(&bad));
}

#[test]
fn stale_reads_lost_updates_and_dirty_reads_have_no_order() {
    let written = ("a", Access::Write(1), 0, Some((1, Held::Done)));
    let stale = register(&[written, ("b", Access::Read, 2, Some((3, Held::Value(0))))]);
    assert!(!is_linearizable::<Register>(&stale));
    // Both believe that they took 0 to something else.
    let lost = register(&[
        ("a", Access::Swap(0, 1), 0, Some((10, Held::Done))),
        ("b", Access::Swap(0, 2), 1, Some((9, Held::Done))),
    ]);
    assert!(!is_linearizable::<Register>(&lost));
    let dirty = register(&[
        ("a", Access::Swap(5, 7), 0, Some((1, Held::Refused))),
        ("b", Access::Read, 2, Some((3, Held::Value(7)))),
    ]);
    assert!(!is_linearizable::<Register>(&dirty));
}

#[test]
fn a_call_of_unknown_outcome_takes_effect_late_or_never_but_not_before_it_was_made() {
    let lost = ("a", Access::Write(1), 5, None);
    let read = |at, value| ("b", Access::Read, at, Some((at + 1, Held::Value(value))));
    for (reads, verdict) in [
        (vec![read(6, 0), read(100, 1)], true),
        (vec![read(6, 0), read(100, 0)], true),
        (vec![read(6, 1), read(100, 0)], false),
        (vec![read(2, 1)], false),
    ] {
        let calls: Vec<_> = std::iter::once(lost).chain(reads).collect();
        assert_eq!(is_linearizable::<Register>(&register(&calls)), verdict, "{calls:?}");
    }
}

#[test]
fn objects_are_looked_at_one_by_one_and_what_is_shown_is_what_contradicts() {
    let mut history = Vec::new();
    for n in 0..50 {
        let at = u64::from(n) * 10;
        history.push(call("a", (n % 5, Access::Write(at)), at, Some((at + 1, Held::Done))));
        history.push(call("b", (n % 5, Access::Read), at + 2, Some((at + 3, Held::Value(at)))));
    }
    assert!(is_linearizable::<Register>(&history));
    // The writes before the last one do not matter, nor do other keys; the read of what was overwritten does.
    history.push(call("c", (3, Access::Read), 1_000, Some((1_001, Held::Value(430)))));
    let failure = check::<Register>(&history, CONFIGURATIONS).unwrap_err();
    let Failure::Contradiction(contradiction) = failure else { panic!("{failure}") };
    assert_eq!((contradiction.key, contradiction.of), (3, 21));
    let answered: Vec<_> = contradiction.calls.iter().filter(|call| call.returned.is_some()).collect();
    assert!(answered.len() <= 3, "{contradiction}");
    assert!(answered.iter().any(|call| call.client == "c"), "{contradiction}");
    assert!(contradiction.to_string().contains("(3, Read) -> Value(430)"), "{contradiction}");
}

#[test]
fn a_search_that_is_too_long_says_so() {
    // Every subset of the writes is a configuration.
    let mut calls: Vec<_> = (0..20).map(|n| ("w", Access::Write(n + 1), 0, Some((100, Held::Done)))).collect();
    calls.push(("r", Access::Read, 200, Some((201, Held::Value(0)))));
    let failure = check::<Register>(&register(&calls), 1_000).unwrap_err();
    assert!(matches!(failure, Failure::Undecided { calls: 21, .. }), "{failure}");
}
