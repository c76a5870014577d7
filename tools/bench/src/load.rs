//! Load: calls in a closed loop (the next one when the last is answered) or an open one (by a timetable, whoever is
//! slow), and what they took.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use tokio::{sync::Semaphore, task::JoinSet};

/// Times between a microsecond and [`LATENCY_MAX`] are told apart to three digits; longer ones count as that.
const LATENCY_MAX: Duration = Duration::from_secs(600);

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// It was served.
    Served,
    /// It was refused, as under overload, and nothing was done.
    Refused,
    /// Nobody could say what became of it.
    Unknown,
}

/// Somebody who makes one call at a time.
pub trait Caller: Send + 'static {
    /// Makes call `number`, counted from 0 over all callers of a load.
    ///
    /// # Errors
    /// When the answer is none that a healthy service gives; the load ends.
    fn call(&mut self, number: usize) -> impl Future<Output = Result<Answered>> + Send;
}

/// How far a load goes: it ends with whichever comes first.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// Most calls.
    pub calls: usize,
    /// Time after which no call is begun.
    pub time: Duration,
}

/// How long calls took.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_max(LATENCY_MAX.as_micros() as u64, 3);
        #[expect(clippy::expect_used, reason = "fails only for bounds out of order, or more than five digits")]
        Self(histogram.expect("1 to 600,000,000 with three digits is a valid range"))
    }

    /// Adds one.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        // Fails only where `other` reaches further, and all have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that a share of `quantile` (0 to 1) does not exceed, in milliseconds; 0 when there are none.
    pub fn ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1_000.0
    }

    /// The longest, in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1_000.0
    }
}

/// The result of a load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Calls that were served.
    pub served: u64,
    /// Calls that were refused for now.
    pub refused: u64,
    /// Calls of which nobody could say what became of them.
    pub unknown: u64,
    /// Calls of the timetable that were never begun, because the time was over.
    pub unsent: u64,
    /// From the start until the last answer.
    pub elapsed: Duration,
    /// Of the calls that were served: from when the call was due (open loop) or begun (closed loop) until its answer.
    pub latencies: Latencies,
    /// The same of the calls that were refused.
    pub refusals: Latencies,
}

impl Load {
    /// Calls served a second.
    pub fn rate(&self) -> f64 {
        rate(self.served, self.elapsed)
    }
}

/// So many a second.
pub fn rate(count: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}

/// When the calls of an open loop are due.
#[derive(Debug, Clone, Copy)]
struct Timetable {
    start: Instant,
    per_second: f64,
}

impl Timetable {
    fn due(&self, number: usize) -> Instant {
        self.start + Duration::from_secs_f64(number as f64 / self.per_second)
    }
}

/// What one caller saw.
struct Part {
    served: u64,
    refused: u64,
    unknown: u64,
    last: Instant,
    latencies: Latencies,
    refusals: Latencies,
}

impl Part {
    fn new(start: Instant) -> Self {
        let (latencies, refusals) = (Latencies::new(), Latencies::new());
        Self { served: 0, refused: 0, unknown: 0, last: start, latencies, refusals }
    }
}

/// Every caller makes its next call as soon as its last one is answered.
///
/// # Errors
/// The first call's that fails.
pub async fn closed<C: Caller>(callers: Vec<C>, bound: Bound) -> Result<(Load, Vec<C>)> {
    run(callers, bound, None).await
}

/// Calls are due at `per_second`, whether the ones before are answered or not; a call that finds no caller free
/// waits, and its latency counts from when it was due. So nobody's slowness hides another's (coordinated omission).
///
/// # Errors
/// The first call's that fails.
pub async fn open<C: Caller>(callers: Vec<C>, per_second: f64, bound: Bound) -> Result<(Load, Vec<C>)> {
    ensure!(per_second.is_finite() && per_second > 0.0, "{per_second} calls a second cannot be made");
    run(callers, bound, Some(per_second)).await
}

async fn run<C: Caller>(callers: Vec<C>, bound: Bound, per_second: Option<f64>) -> Result<(Load, Vec<C>)> {
    let start = Instant::now();
    let end = start + bound.time;
    let next = Arc::new(AtomicUsize::new(0));
    let timetable = per_second.map(|per_second| Timetable { start, per_second });
    let due = timetable.map(|timetable| dispatch(timetable, bound.calls, end, callers.len()));
    let mut tasks = JoinSet::new();
    for mut caller in callers {
        let (next, due) = (next.clone(), due.clone());
        tasks.spawn(async move {
            let mut part = Part::new(start);
            loop {
                if let Some(due) = &due {
                    due.acquire().await.context("the timetable is never closed")?.forget();
                }
                let begun = Instant::now();
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= bound.calls || begun >= end {
                    return Ok::<_, anyhow::Error>((part, caller));
                }
                let from = timetable.map_or(begun, |timetable| timetable.due(number));
                let answered = caller.call(number).await?;
                part.last = Instant::now();
                match answered {
                    Answered::Served => {
                        part.served += 1;
                        part.latencies.record(part.last - from);
                    }
                    Answered::Refused => {
                        part.refused += 1;
                        part.refusals.record(part.last - from);
                    }
                    Answered::Unknown => part.unknown += 1,
                }
            }
        });
    }
    let mut load = Load {
        served: 0,
        refused: 0,
        unknown: 0,
        unsent: 0,
        elapsed: Duration::ZERO,
        latencies: Latencies::new(),
        refusals: Latencies::new(),
    };
    let mut callers = Vec::new();
    // The first error drops the set, and with it the other callers.
    while let Some(ended) = tasks.join_next().await {
        let (part, caller) = ended.context("a caller panicked")??;
        load.served += part.served;
        load.refused += part.refused;
        load.unknown += part.unknown;
        load.elapsed = load.elapsed.max(part.last - start);
        load.latencies.add(&part.latencies);
        load.refusals.add(&part.refusals);
        callers.push(caller);
    }
    if let Some(timetable) = timetable {
        let planned = planned(timetable.per_second, bound);
        load.unsent = planned.saturating_sub(load.served + load.refused + load.unknown);
    }
    Ok((load, callers))
}

/// Calls that are due within `bound`.
fn planned(per_second: f64, bound: Bound) -> u64 {
    ((per_second * bound.time.as_secs_f64()).ceil() as u64).min(bound.calls as u64)
}

/// Gives a permit for each call when it is due, and one more for each caller at the end. A thread of its own, because
/// the runtime's timers count in milliseconds.
fn dispatch(timetable: Timetable, calls: usize, end: Instant, callers: usize) -> Arc<Semaphore> {
    let permits = Arc::new(Semaphore::new(0));
    let given = permits.clone();
    thread::spawn(move || {
        for number in 0..calls {
            let due = timetable.due(number);
            if due >= end {
                break;
            }
            let wait = due.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                thread::sleep(wait);
            }
            given.add_permits(1);
        }
        // Whoever still waits finds that there is nothing left; after the end of time, if that is what ended it.
        if timetable.due(calls) >= end {
            thread::sleep(end.saturating_duration_since(Instant::now()));
        }
        given.add_permits(callers);
    });
    permits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers at once, except for one call that takes long.
    struct Stalls {
        at: usize,
        pause: Duration,
    }

    impl Caller for Stalls {
        async fn call(&mut self, number: usize) -> Result<Answered> {
            if number == self.at {
                tokio::time::sleep(self.pause).await;
            }
            Ok(Answered::Served)
        }
    }

    struct Refuses;

    impl Caller for Refuses {
        async fn call(&mut self, number: usize) -> Result<Answered> {
            ensure!(number < 30, "call {number} was not to be made");
            Ok(match number % 3 {
                0 if number < 6 => Answered::Unknown,
                0 => Answered::Refused,
                _ => Answered::Served,
            })
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stall_counts_for_every_call_that_was_due_meanwhile() {
        let pause = Duration::from_millis(300);
        let bound = Bound { calls: 500, time: LONG };
        // One caller, a call each millisecond: some 300 are due while the 100th is not answered.
        let (load, _) = open(vec![Stalls { at: 100, pause }], 1_000.0, bound).await.unwrap();
        assert_eq!((load.served, load.refused, load.unsent), (500, 0, 0));
        assert!(load.latencies.ms(0.5) > 20.0, "{}", load.latencies.ms(0.5));
        assert!(load.latencies.max_ms() >= 299.0);
        // The same in a closed loop hides it: one call in five hundred is slow.
        let (load, _) = closed(vec![Stalls { at: 100, pause }], bound).await.unwrap();
        assert_eq!(load.served, 500);
        assert!(load.latencies.ms(0.99) < 20.0, "{}", load.latencies.ms(0.99));
        assert!(load.latencies.max_ms() >= 299.0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_open_loop_keeps_to_its_timetable() {
        let callers = (0..4).map(|_| Stalls { at: usize::MAX, pause: LONG }).collect();
        let (load, _) = open(callers, 400.0, Bound { calls: 200, time: LONG }).await.unwrap();
        // 199 intervals of 2.5 ms.
        assert!(load.elapsed >= Duration::from_millis(497), "{:?}", load.elapsed);
        assert_eq!(load.served, 200);
        assert!(load.rate() <= 403.0, "{}", load.rate());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_the_time_did_not_suffice_for_is_counted() {
        let bound = Bound { calls: 1_000, time: Duration::from_millis(200) };
        let (load, _) = open(vec![Stalls { at: 0, pause: Duration::from_millis(250) }], 100.0, bound).await.unwrap();
        assert_eq!((load.served, load.unsent), (1, 19));
    }

    #[tokio::test]
    async fn no_more_calls_are_made_than_asked_for_and_refusals_are_told_apart() {
        let callers = (0..7).map(|_| Refuses).collect();
        let (load, callers) = closed(callers, Bound { calls: 30, time: LONG }).await.unwrap();
        assert_eq!((load.served, load.refused, load.unknown, callers.len()), (20, 8, 2, 7));
        assert_eq!((load.latencies.count(), load.refusals.count()), (20, 8));
    }

    #[tokio::test]
    async fn a_failing_call_ends_the_load() {
        let callers = (0..7).map(|_| Refuses).collect();
        assert!(closed(callers, Bound { calls: 31, time: LONG }).await.is_err());
        assert!(open(vec![Refuses], 0.0, Bound { calls: 1, time: LONG }).await.is_err());
    }

    #[test]
    fn quantiles_are_in_milliseconds() {
        let mut latencies = Latencies::new();
        (1..=1_000u64).for_each(|n| latencies.record(Duration::from_micros(n * 10)));
        assert!((latencies.ms(0.5) - 5.0).abs() < 0.01, "{}", latencies.ms(0.5));
        assert!((latencies.ms(0.99) - 9.9).abs() < 0.01, "{}", latencies.ms(0.99));
        latencies.record(LATENCY_MAX * 2);
        assert!(latencies.max_ms() >= LATENCY_MAX.as_secs_f64() * 1_000.0 * 0.999);
        assert_eq!(rate(500, Duration::from_millis(250)), 2_000.0);
        assert_eq!(rate(1, Duration::ZERO), 0.0);
    }
}
