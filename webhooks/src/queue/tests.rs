//! The queue of an endpoint: given messages and outcomes, when a time comes, then an attempt; and what holds whatever comes.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use proptest::prelude::*;

use events::{PaymentId, time::Timestamp};

use super::*;
use crate::webhook::WebhookId;

const LIMITS: Limits = Limits { at_once: 2, ready: 4, backing_off: 4, failures_overlooked: 2, dead_listed: 3 };

fn at(seconds: i64) -> Timestamp {
    "2030-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + TimeDelta::seconds(seconds)
}

fn payment(number: usize) -> PaymentId {
    PaymentId::derive("payer", &number.to_string())
}

fn due(payment_number: usize, version: u64) -> Due {
    let (payment_id, commit_id) = (payment(payment_number), format!("commit-{payment_number}-{version}"));
    let webhook: WebhookId = "whk_aaaaaaaaaaaaaaaaaaaaaaaaaa".parse().unwrap();
    Due {
        id: MessageId::derive(&webhook, &payment_id, version, &commit_id),
        payment_id,
        version,
        commit_id,
        kind: EventType::Pending,
        occurred_at: at(0),
        redelivery: 0,
        newest: None,
    }
}

/// A timetable of 10, 20 and 40 seconds.
fn timetable() -> Timetable {
    Timetable::new([10, 20, 40].map(Duration::from_secs).to_vec())
}

/// A queue with a message for each of these payments, at sequences 1, 2, 3 …
fn given(payments: &[usize]) -> Queue {
    let mut queue = Queue::new(LIMITS, timetable());
    for (sequence, number) in (1..).zip(payments) {
        queue.take(sequence, due(*number, sequence));
    }
    queue
}

fn failed() -> Answer {
    Answer::Failed { error: "answered 500".to_owned(), retry_after: None }
}

fn taken() -> Answer {
    Answer::Taken { status: 200 }
}

/// Attempts what is next, and records the answer right away; the sequence.
fn attempt(queue: &mut Queue, stored: u64, now: i64, answer: Answer) -> u64 {
    let Next::Attempt(sequence) = queue.next(at(now)) else { panic!("{:?} at {now}", queue.next(at(now))) };
    queue.start(sequence);
    finish(queue, sequence, stored, now, answer);
    sequence
}

fn finish(queue: &mut Queue, sequence: u64, stored: u64, now: i64, answer: Answer) -> Judgement {
    let judgement = queue.judge(sequence, answer, at(now), 0.0).unwrap();
    queue.record(stored, &judgement.outcome);
    judgement
}

#[test]
fn messages_of_one_payment_go_one_after_the_other_and_of_two_side_by_side() {
    let mut queue = given(&[1, 1, 2]);
    assert_eq!(queue.next(at(0)), Next::Attempt(1));
    queue.start(1);
    assert_eq!(queue.next(at(0)), Next::Attempt(3));
    queue.start(3);
    assert_eq!(queue.next(at(0)), Next::Nothing, "two at a time");
    finish(&mut queue, 3, 101, 0, taken());
    assert_eq!(queue.next(at(0)), Next::Nothing, "the first of payment 1 is not delivered");
    finish(&mut queue, 1, 102, 0, taken());
    assert_eq!(queue.next(at(0)), Next::Attempt(2));
}

#[test]
fn a_later_message_waits_until_the_earlier_one_is_delivered_or_dead() {
    let mut queue = given(&[1, 1]);
    attempt(&mut queue, 101, 0, failed());
    assert_eq!(queue.next(at(0)), Next::Wait(at(10)));
    attempt(&mut queue, 102, 10, failed());
    attempt(&mut queue, 103, 30, failed());
    assert_eq!(queue.message(1).map(|(_, attempt)| attempt), Some(4));
    // Three in a row: from here on the endpoint is probed.
    assert_eq!(queue.next(at(70)), Next::Attempt(1));
    attempt(&mut queue, 104, 70, failed());
    assert_eq!(queue.message(1), None);
    let (mut dead, more) = queue.dead();
    assert_eq!((dead.len(), more), (1, 0));
    let letter = dead.next().unwrap();
    assert_eq!((letter.attempts, letter.error.as_str(), letter.at), (4, "answered 500", at(70)));
    drop(dead);
    assert!(matches!(queue.next(at(500)), Next::Attempt(2)));
}

#[test]
fn an_endpoint_that_fails_is_probed_and_one_success_ends_it() {
    let mut queue = given(&[1, 2, 3, 4]);
    for (stored, now) in [(101, 0), (102, 0), (103, 0)] {
        attempt(&mut queue, stored, now, failed());
    }
    // The fourth was never attempted, and waits with the others.
    assert_eq!(queue.next(at(0)), Next::Wait(at(10)));
    let probe = attempt(&mut queue, 104, 10, failed());
    assert_eq!(probe, 4, "what is new is the probe");
    assert_eq!(queue.health().failing_since, Some(at(0)));
    assert_eq!(queue.next(at(10)), Next::Wait(at(30)));
    queue.start(1);
    assert_eq!(queue.next(at(30)), Next::Nothing, "one at a time");
    finish(&mut queue, 1, 105, 30, taken());
    assert_eq!((queue.health().failures, queue.health().resume_at), (0, None));
    assert_eq!(queue.health().last_success_at, Some(at(30)));
    assert_eq!(queue.next(at(30)), Next::Attempt(2));
}

#[test]
fn an_endpoint_that_takes_nothing_for_three_days_is_disabled() {
    let mut queue = given(&[1, 2]);
    attempt(&mut queue, 101, 0, failed());
    let over = 3 * 24 * 3_600;
    queue.start(2);
    let judgement = finish(&mut queue, 2, 102, over - 1, failed());
    assert_eq!(judgement.disable, None);
    queue.start(1);
    let judgement = finish(&mut queue, 1, 103, over, failed());
    assert!(judgement.disable.is_some() && matches!(judgement.outcome, Outcome::Dead { .. }), "{judgement:?}");
    // Enabled again, it begins anew, at once.
    queue.enabled(at(over + 60));
    assert_eq!((queue.health().failures, queue.health().failing_since), (0, None));
    assert_eq!(queue.next(at(over + 60)), Next::Attempt(2));
    let before = queue.clone();
    queue.enabled(at(0));
    assert_eq!(queue, before, "an earlier order changes nothing");
}

#[test]
fn gone_is_believed_at_once_and_what_cannot_be_sent_says_nothing_of_the_endpoint() {
    let mut queue = given(&[1, 2]);
    queue.start(1);
    let judgement = finish(&mut queue, 1, 101, 0, Answer::Gone);
    assert!(judgement.disable.is_some());
    queue.start(2);
    let judgement = finish(&mut queue, 2, 102, 0, Answer::Unsendable { error: "unreadable".to_owned() });
    assert_eq!((judgement.disable, queue.health().failures), (None, 1));
    assert_eq!(queue.dead().0.len(), 2);
}

#[test]
fn dead_letters_are_listed_within_bounds_and_leave_when_they_are_asked_for_again() {
    let mut queue = given(&[1, 2, 3, 4]);
    for sequence in 1..=4 {
        queue.start(sequence);
        finish(&mut queue, sequence, 100 + sequence, 0, Answer::Unsendable { error: "x".to_owned() });
    }
    let ids: Vec<MessageId> = queue.dead().0.map(|letter| letter.id.clone()).collect();
    assert_eq!((ids.len(), queue.dead().1), (3, 1));
    let again = Due { id: ids[1].clone(), redelivery: 1, ..due(3, 3) };
    queue.take(5, again);
    assert_eq!(queue.dead().0.len(), 2);
    assert_eq!(queue.next(at(0)), Next::Attempt(5));
}

#[test]
fn memory_is_bounded() {
    let mut queue = Queue::new(LIMITS, timetable());
    let mut sequence = 0;
    let mut fill = |queue: &mut Queue| {
        while queue.wanted() > 0 {
            sequence += 1;
            queue.take(sequence, due(usize::try_from(sequence).unwrap(), sequence));
        }
    };
    fill(&mut queue);
    assert_eq!(queue.outstanding(), 4);
    // One in two fails, so the endpoint is not suspended: others are read beside those that back off.
    for stored in 101..=140 {
        let answer = if stored % 2 == 0 { failed() } else { taken() };
        if let Next::Attempt(_) = queue.next(at(0)) {
            attempt(&mut queue, stored, 0, answer);
        }
        fill(&mut queue);
        assert!(queue.outstanding() <= LIMITS.ready + LIMITS.backing_off, "{}", queue.outstanding());
    }
    assert_eq!(queue.wanted(), 0);
}

#[test]
fn what_was_not_attempted_for_our_own_reasons_costs_no_attempt() {
    let mut queue = given(&[1]);
    queue.start(1);
    queue.put_back(1, at(5));
    assert_eq!(queue.next(at(0)), Next::Wait(at(5)));
    assert_eq!((queue.message(1).unwrap().1, queue.health().failures), (1, 0));
}

#[test]
fn outcomes_of_messages_that_are_not_read_yet_count() {
    let mut queue = Queue::new(LIMITS, timetable());
    let retry_at = at(50);
    queue.record(11, &Outcome::Delivered { due: 2, attempt: 1, at: at(0), status: 200 });
    queue.record(12, &Outcome::Refused { due: 3, attempt: 2, at: at(1), error: "x".to_owned(), retry_at });
    queue.record(13, &Outcome::Dead { due: 4, attempt: 7, at: at(2), error: "y".to_owned() });
    let stored = serde_json::to_string(&queue.snapshot()).unwrap();
    let mut queue = Queue::restore(serde_json::from_str(&stored).unwrap(), LIMITS, timetable());
    for sequence in 1..=4 {
        queue.take(sequence, due(usize::try_from(sequence).unwrap(), sequence));
    }
    assert_eq!((queue.outstanding(), queue.message(2)), (2, None));
    assert_eq!(queue.dead().0.map(|letter| (letter.attempts, letter.at)).collect::<Vec<_>>(), [(7, at(2))]);
    assert_eq!(queue.message(3).unwrap().1, 3);
    assert_eq!(queue.next(at(0)), Next::Attempt(1));
}

#[test]
fn a_snapshot_keeps_its_form() {
    let mut queue = given(&[1]);
    attempt(&mut queue, 101, 0, failed());
    let stored = serde_json::to_string(&queue.snapshot()).unwrap();
    let read: Snapshot = serde_json::from_str(&stored).unwrap();
    assert_eq!(Queue::restore(read.clone(), LIMITS, timetable()), queue);
    assert!(read.is_within(101) && !read.is_within(100));
    let empty: Snapshot = serde_json::from_str(r#"{"read_up_to":7,"recorded_up_to":9}"#).unwrap();
    assert_eq!(Queue::restore(empty, LIMITS, timetable()).read_up_to(), 7);
}

/// What happens to an endpoint, in whatever order.
#[derive(Debug, Clone)]
enum Step {
    /// Messages come about these payments.
    Come(Vec<usize>),
    /// So many seconds pass.
    Pass(i64),
    /// What may be attempted is started.
    Start,
    /// The oldest call ends so.
    End(Fate),
    /// The courier dies, and another takes over from the stream, with or without a snapshot.
    TakeOver { from_snapshot: bool },
    /// A snapshot is kept.
    Keep,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Taken,
    Failed,
    /// It was taken, and the courier died before that was recorded.
    TakenUnrecorded,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![3 => Just(Fate::Taken), 3 => Just(Fate::Failed), 1 => Just(Fate::TakenUnrecorded)];
    let step = prop_oneof![
        2 => prop::collection::vec(0..4_usize, 1..4).prop_map(Step::Come),
        3 => (0..60_i64).prop_map(Step::Pass),
        6 => Just(Step::Start),
        6 => fate.prop_map(Step::End),
        1 => any::<bool>().prop_map(|from_snapshot| Step::TakeOver { from_snapshot }),
        1 => Just(Step::Keep),
    ];
    prop::collection::vec(step, 1..120)
}

/// The streams and the world around a queue.
#[derive(Default)]
struct World {
    sequence: u64,
    dues: Vec<(u64, Due)>,
    outcomes: Vec<(u64, Outcome)>,
    kept: Option<Snapshot>,
    calls: Vec<u64>,
    /// Sequences of messages as the endpoint took them.
    received: Vec<u64>,
}

impl World {
    fn store(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn open(&self, snapshot: Option<Snapshot>) -> Queue {
        let mut queue = Queue::restore(snapshot.unwrap_or_default(), LIMITS, timetable());
        let from = queue.recorded_up_to();
        for (sequence, outcome) in self.outcomes.iter().filter(|(sequence, _)| *sequence > from) {
            queue.record(*sequence, outcome);
        }
        self.fill(&mut queue);
        queue
    }

    fn fill(&self, queue: &mut Queue) {
        while queue.wanted() > 0 {
            let next = self.dues.iter().find(|(sequence, _)| *sequence > queue.read_up_to());
            let Some((sequence, due)) = next else { return };
            queue.take(*sequence, due.clone());
        }
    }

    fn finished(&self) -> BTreeSet<u64> {
        let is_final = |outcome: &Outcome| !matches!(outcome, Outcome::Refused { .. });
        self.outcomes.iter().filter(|(_, outcome)| is_final(outcome)).map(|(_, outcome)| outcome.due()).collect()
    }

    fn end(&mut self, queue: &mut Queue, sequence: u64, answer: Answer, now: i64) {
        let judgement = queue.judge(sequence, answer, at(now), 0.5).unwrap();
        let stored = self.store();
        queue.record(stored, &judgement.outcome);
        self.outcomes.push((stored, judgement.outcome));
    }
}

proptest! {
    /// Whatever comes, dies and is taken over: a payment's messages are called for in their order, nothing is finished twice, bounds
    /// hold, and in the end everything is delivered or dead.
    #[test]
    fn nothing_is_lost_and_order_is_kept(steps in steps()) {
        let (mut world, mut now) = (World::default(), 0_i64);
        let mut queue = world.open(None);
        for step in steps {
            match step {
                Step::Come(payments) => for number in payments {
                    let sequence = world.store();
                    world.dues.push((sequence, due(number, sequence)));
                },
                Step::Pass(seconds) => now += seconds,
                Step::Keep => world.kept = Some(queue.snapshot()),
                Step::Start => {
                    world.fill(&mut queue);
                    if let Next::Attempt(sequence) = queue.next(at(now)) {
                        let finished = world.finished();
                        let (_, this) = world.dues.iter().find(|(at, _)| *at == sequence).unwrap();
                        let earlier = world.dues.iter().filter(|(at, due)| *at < sequence && due.payment_id == this.payment_id);
                        for (at, _) in earlier {
                            prop_assert!(finished.contains(at), "{sequence} is attempted before {at}");
                        }
                        prop_assert!(!finished.contains(&sequence));
                        queue.start(sequence);
                        world.calls.push(sequence);
                        prop_assert!(world.calls.len() <= LIMITS.at_once);
                    }
                }
                Step::End(fate) => {
                    if world.calls.is_empty() {
                        continue;
                    }
                    let sequence = world.calls.remove(0);
                    match fate {
                        Fate::Taken => {
                            world.received.push(sequence);
                            world.end(&mut queue, sequence, taken(), now);
                        }
                        Fate::Failed => world.end(&mut queue, sequence, failed(), now),
                        Fate::TakenUnrecorded => {
                            world.received.push(sequence);
                            world.calls.clear();
                            queue = world.open(world.kept.clone());
                        }
                    }
                }
                Step::TakeOver { from_snapshot } => {
                    world.calls.clear();
                    let taken_over = world.open(world.kept.clone().filter(|_| from_snapshot));
                    // With a snapshot or without one, it comes to the same, but for how far it has read.
                    prop_assert_eq!(taken_over.health(), queue.health());
                    let dead = |queue: &Queue| {
                        let (listed, more) = queue.dead();
                        let mut ids: Vec<_> = listed.map(|letter| letter.id.clone()).collect();
                        ids.sort();
                        (ids.len(), more, if more == 0 { ids } else { Vec::new() })
                    };
                    world.fill(&mut queue);
                    prop_assert_eq!(dead(&taken_over), dead(&queue));
                    queue = taken_over;
                }
            }
            prop_assert!(queue.outstanding() <= LIMITS.ready + LIMITS.backing_off);
        }
        // The endpoint recovers: everything that is not dead is delivered.
        world.calls.clear();
        queue = world.open(world.kept.clone());
        for _ in 0..10_000 {
            world.fill(&mut queue);
            match queue.next(at(now)) {
                Next::Attempt(sequence) => {
                    queue.start(sequence);
                    world.received.push(sequence);
                    world.end(&mut queue, sequence, taken(), now);
                }
                Next::Wait(until) => now = (until - at(0)).num_seconds() + 1,
                Next::Nothing => break,
            }
        }
        let finished = world.finished();
        let mut first_received = BTreeMap::new();
        for (index, sequence) in world.received.iter().enumerate() {
            first_received.entry(*sequence).or_insert(index);
        }
        let mut last_of_payment = BTreeMap::<PaymentId, usize>::new();
        for (sequence, due) in &world.dues {
            prop_assert!(finished.contains(sequence), "{sequence} is lost");
            // What the endpoint hears of for the first time comes in order.
            if let Some(index) = first_received.get(sequence) {
                let last = last_of_payment.entry(due.payment_id.clone()).or_default();
                prop_assert!(*index >= *last, "{sequence} came before an earlier one of its payment");
                *last = *index;
            }
        }
    }
}
