//! Ten thousand calls by ten clients at a time, of one register, and of a hundred with some of unknown outcome.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod objects;

use std::time::Instant;

use linearizability::{Call, Failure, Model, check};
use objects::{Access, Held, Register, call};
use rand::{Rng, SeedableRng, rngs::StdRng};

const CALLS: usize = 10_000;
const CLIENTS: u64 = 10;
const CONFIGURATIONS: usize = 1_000_000;

/// Calls of so many registers, of which this share gets no answer, that took effect at a moment of their time, one after the other.
fn history(random: &mut StdRng, registers: u8, lost: f64) -> Vec<Call<(u8, Access), Held>> {
    let mut free = vec![0_u64; usize::try_from(CLIENTS).unwrap()];
    let mut spans: Vec<(u64, u64, u64)> = (0..CALLS)
        .map(|n| {
            let client = n % free.len();
            let invoked = free[client] + random.gen_range(1..50);
            let takes = random.gen_range(1..100);
            free[client] = invoked + takes;
            (invoked + random.gen_range(0..=takes), invoked, invoked + takes)
        })
        .collect();
    spans.sort_unstable();
    let mut states = vec![0; registers.into()];
    let effects = spans.into_iter().enumerate().map(|(n, (_, invoked, returned))| {
        let (value, register) = (u64::try_from(n).unwrap(), random.gen_range(0..registers));
        let state = states[usize::from(register)];
        let access = match random.gen_range(0..4) {
            0 => Access::Write(value),
            1 => Access::Swap(if random.gen_bool(0.5) { state } else { value }, value + 1),
            _ => Access::Read,
        };
        let held = match access {
            Access::Read => Held::Value(state),
            Access::Swap(from, _) if from != state => Held::Refused,
            Access::Write(_) | Access::Swap(..) => Held::Done,
        };
        states[usize::from(register)] = Register::effect(&state, &(register, access));
        let lost = random.gen_bool(lost);
        call("c", (register, access), invoked, (!lost).then_some((returned, held)))
    });
    effects.collect()
}

#[test]
fn ten_thousand_calls_of_one_register_have_an_order() {
    let history = history(&mut StdRng::seed_from_u64(1), 1, 0.0);
    let started = Instant::now();
    let checked = check::<Register>(&history, CONFIGURATIONS).unwrap();
    println!("{checked:?} in {:?}", started.elapsed());
    assert_eq!((checked.objects, checked.calls), (1, CALLS));
}

#[test]
fn one_wrong_answer_among_ten_thousand_is_shown() {
    let mut history = history(&mut StdRng::seed_from_u64(2), 100, 0.005);
    let started = Instant::now();
    let checked = check::<Register>(&history, CONFIGURATIONS).unwrap();
    println!("{checked:?} in {:?}", started.elapsed());
    assert_eq!((checked.objects, checked.calls), (100, CALLS));
    assert!(checked.unknown > 0, "no outcome was unknown");

    // A value that nobody has ever written.
    let wrong = history.iter_mut().skip(CALLS / 2).find(|call| matches!(call.returned, Some((_, Held::Value(_)))));
    let wrong = wrong.expect("half of the calls are reads");
    wrong.returned = wrong.returned.map(|(at, _)| (at, Held::Value(u64::MAX)));
    let wrong = wrong.clone();
    let started = Instant::now();
    let failure = check::<Register>(&history, CONFIGURATIONS).unwrap_err();
    println!("a wrong answer in {:?}", started.elapsed());
    let Failure::Contradiction(contradiction) = failure else { panic!("{failure}") };
    assert!(contradiction.calls.contains(&wrong), "{contradiction}");
    let answered: Vec<_> = contradiction.calls.iter().filter(|call| call.returned.is_some()).collect();
    assert_eq!(answered, [&wrong], "{contradiction}");
}
