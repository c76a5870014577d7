//! How long an input may take.

use std::{
    fs,
    time::{Duration, Instant},
};

/// What an input of no bytes may take. Signatures over P-384 without optimisation are the slowest thing that a small input
/// asks for.
const BASE: Duration = Duration::from_millis(500);
/// What each byte may add. Whatever is quadratic in its input takes longer than this before it is as long as a body may be.
const PER_BYTE: Duration = Duration::from_micros(20);
/// How often an input that took too long is tried again.
const TRIALS: u32 = 3;

/// Runs a target on an input; where it took long, again, and by the time of the processor: the machine may be busy with
/// something else.
///
/// # Panics
/// Where every trial took longer than the input's length allows, and where the target panics.
pub fn within_bounds(run: fn(&[u8]), bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let allowed = BASE + PER_BYTE * length;
    let begun = Instant::now();
    run(bytes);
    let mut fastest = begun.elapsed();
    for _ in 0..TRIALS {
        if fastest <= allowed {
            return;
        }
        let (begun, worked) = (Instant::now(), of_processor());
        run(bytes);
        let took = of_processor().zip(worked).map_or_else(|| begun.elapsed(), |(after, before)| after - before);
        fastest = fastest.min(took);
    }
    assert!(fastest <= allowed, "{length} bytes took {fastest:?} at best, and may take {allowed:?}");
}

/// The time that this thread had a processor, where the system tells it.
fn of_processor() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
