//! Sequential objects of the literature: a register and a FIFO queue.

#![allow(dead_code)] // Each test has the objects that it needs.

use std::collections::VecDeque;

use linearizability::{Call, Model};

/// A register with compare-and-swap, at 0 to begin with; one for each key.
#[derive(Debug)]
pub enum Register {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write(u64),
    /// From the first to the second, where it holds the first.
    Swap(u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Value(u64),
    Done,
    Refused,
}

impl Model for Register {
    type State = u64;
    type Op = (u8, Access);
    type Answer = Held;
    type Key = u8;

    fn key(op: &Self::Op) -> Option<u8> {
        Some(op.0)
    }

    fn initial() -> u64 {
        0
    }

    fn step(state: &u64, (_, access): &Self::Op, answer: &Held) -> Option<u64> {
        match (*access, *answer) {
            (Access::Read, Held::Value(value)) => (*state == value).then_some(value),
            (Access::Write(value), Held::Done) => Some(value),
            (Access::Swap(from, to), Held::Done) => (*state == from).then_some(to),
            (Access::Swap(from, _), Held::Refused) => (*state != from).then_some(*state),
            _ => None,
        }
    }

    fn effect(state: &u64, (_, access): &Self::Op) -> u64 {
        match *access {
            Access::Read => *state,
            Access::Write(value) => value,
            Access::Swap(from, to) => {
                if *state == from {
                    to
                } else {
                    *state
                }
            }
        }
    }
}

/// A FIFO queue.
#[derive(Debug)]
pub enum Queue {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Enqueue(char),
    Dequeue,
}

impl Model for Queue {
    type State = VecDeque<char>;
    type Op = Use;
    /// What was dequeued.
    type Answer = Option<char>;
    type Key = ();

    fn key(_: &Use) -> Option<()> {
        Some(())
    }

    fn initial() -> VecDeque<char> {
        VecDeque::new()
    }

    fn step(queue: &VecDeque<char>, op: &Use, answer: &Option<char>) -> Option<VecDeque<char>> {
        let is_right = match op {
            Use::Enqueue(_) => answer.is_none(),
            Use::Dequeue => answer.is_some() && queue.front() == answer.as_ref(),
        };
        is_right.then(|| Self::effect(queue, op))
    }

    fn effect(queue: &VecDeque<char>, op: &Use) -> VecDeque<char> {
        let mut queue = queue.clone();
        match op {
            Use::Enqueue(item) => queue.push_back(*item),
            Use::Dequeue => drop(queue.pop_front()),
        }
        queue
    }
}

pub fn call<O, A>(client: &str, op: O, invoked: u64, returned: Option<(u64, A)>) -> Call<O, A> {
    Call { client: client.to_owned(), op, invoked, returned }
}
