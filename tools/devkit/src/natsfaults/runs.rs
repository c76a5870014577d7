//! Many small runs by seeds: which are to be played, playing them some at a time, what they broke, and the hunt for deliberately
//! broken variants.
//!
//! `NATS_SEED=n` plays one seed alone, `NATS_SEEDS=n` plays so many.

use std::{
    fmt,
    future::poll_fn,
    ops::RangeInclusive,
    panic::resume_unwind,
    task::{Context as Waker, Poll},
    thread,
};

use anyhow::{Context, Result, ensure};

use super::{Coverage, Fault};

/// Far longer than the runs of a hunt that are played at a time take.
#[cfg(debug_assertions)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(300);

/// What a run found wrong.
pub type Violation = String;

/// A deliberately broken variant.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// Its name in the code.
    pub name: &'static str,
    /// From seed 1 to this one it shows.
    pub within: u64,
    /// What a violation says that is the variant's.
    pub says: &'static str,
}

/// Fails with `what` unless `holds`.
///
/// # Errors
/// `what`.
pub fn require(holds: bool, what: impl FnOnce() -> Violation) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(what()) }
}

/// The seeds that are to be played, where `ordinarily` is how many are in the ordinary suite.
///
/// # Errors
/// When `NATS_SEED` or `NATS_SEEDS` is not a number, or no seed is left.
pub fn seeds(ordinarily: usize) -> Result<RangeInclusive<u64>> {
    let asked = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().context("a number")).transpose();
    let seeds = match (asked("NATS_SEED")?, asked("NATS_SEEDS")?) {
        (Some(seed), _) => seed..=seed,
        (None, seeds) => 1..=seeds.unwrap_or(ordinarily as u64),
    };
    ensure!(!seeds.is_empty(), "no seed");
    Ok(seeds)
}

/// Plays all the seeds in this task, `at_a_time` of them, and one at least; the violations, each with its seed.
pub async fn play(
    seeds: RangeInclusive<u64>,
    at_a_time: usize,
    run: impl AsyncFn(u64) -> Result<(), Violation>,
) -> Vec<(u64, Violation)> {
    let mut waiting = seeds.map(|seed| (seed, Box::pin(run(seed))));
    let (mut under_way, mut broken) = (Vec::new(), Vec::new());
    let step = |waker: &mut Waker<'_>| {
        loop {
            let room = at_a_time.max(1) - under_way.len();
            under_way.extend(waiting.by_ref().take(room));
            let before = under_way.len();
            under_way.retain_mut(|(seed, run)| match run.as_mut().poll(waker) {
                Poll::Ready(ended) => {
                    broken.extend(ended.err().map(|violation| (*seed, violation)));
                    false
                }
                Poll::Pending => true,
            });
            if before == 0 {
                return Poll::Ready(());
            }
            // Where some ended, others have room to begin.
            if under_way.len() == before {
                return Poll::Pending;
            }
        }
    };
    poll_fn(step).await;
    broken
}

/// Prints what broke, each with its seed and behind `prefix`.
///
/// # Panics
/// When anything broke.
#[track_caller]
pub fn nothing_broke(prefix: &str, broken: &[(u64, Violation)]) {
    for (seed, violation) in broken {
        eprintln!("{prefix}NATS_SEED={seed}: {violation}");
    }
    assert!(broken.is_empty(), "{prefix}{} seeds break something; the first: {:?}", broken.len(), broken[0]);
}

/// Requires that each of `faults` struck.
///
/// # Panics
/// When one did not.
#[track_caller]
pub fn everything_struck(coverage: &Coverage, faults: &[Fault]) {
    assert_eq!(coverage.missing(faults), [], "{coverage}");
}

/// The first of the seeds' violations that is the variant's, if there is one. The seeds are played `at_a_time` in a world that `open`
/// opens for so many runs; the variant is in force in this thread from then on.
///
/// # Errors
/// When runs hang, or there is nothing to run on.
#[cfg(debug_assertions)]
pub fn hunt<W>(
    mutant: Mutant,
    at_a_time: usize,
    open: impl AsyncFn(usize) -> W,
    run: impl AsyncFn(&W, u64) -> Result<(), Violation>,
) -> Result<Option<(u64, Violation)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let world = open(usize::try_from(mutant.within)?).await;
        events::mutants::choose(Some(mutant.name));
        for first in (1..=mutant.within).step_by(at_a_time) {
            let last = (first + at_a_time as u64 - 1).min(mutant.within);
            let played = play(first..=last, at_a_time, async |seed| run(&world, seed).await);
            let broken = tokio::time::timeout(PATIENCE, played).await.context("a hunt hangs")?;
            if let Some(found) = broken.into_iter().find(|(_, violation)| violation.contains(mutant.says)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    })
}

/// Goes on all hunts at once, each in a thread of its own and with the label of its variant, and prints what caught each variant.
///
/// # Panics
/// When a hunt does or fails, or nothing caught some variant.
#[track_caller]
pub fn all_caught<L, H>(hunts: impl IntoIterator<Item = (L, H)>)
where
    L: fmt::Debug + fmt::Display,
    H: FnOnce() -> Result<Option<(u64, Violation)>> + Send + 'static,
{
    let hunts: Vec<_> = hunts.into_iter().map(|(label, hunt)| (label, thread::spawn(hunt))).collect();
    let mut missed = Vec::new();
    for (label, hunt) in hunts {
        match hunt.join().unwrap_or_else(|panic| resume_unwind(panic)) {
            Ok(Some((seed, violation))) => eprintln!("{label}: seed {seed}: {violation:.200}"),
            Ok(None) => missed.push(label),
            Err(error) => panic!("{label}: {error:#}"),
        }
    }
    assert!(missed.is_empty(), "nothing caught {missed:?}");
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, collections::BTreeSet, panic::catch_unwind};

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn every_seed_is_played_once_and_no_more_at_a_time_than_asked() {
        for (last, at_a_time, most) in [(20, 6, 6), (3, 8, 3), (5, 0, 1)] {
            let (at_once, seen, played) = (Cell::new(0), Cell::new(0), Cell::new(0_u64));
            let run = async |seed: u64| {
                at_once.set(at_once.get() + 1);
                seen.set(at_once.get().max(seen.get()));
                for _ in 0..=seed % 4 {
                    yield_now().await;
                }
                at_once.set(at_once.get() - 1);
                played.set(played.get() + 1);
                require(!seed.is_multiple_of(3), || format!("broken by {seed}"))
            };
            let broken = play(1..=last, at_a_time, run).await;
            assert_eq!((at_once.get(), seen.get(), played.get()), (0, most, last));
            let expected: BTreeSet<_> = (1..=last).filter(|seed: &u64| seed.is_multiple_of(3)).collect();
            assert_eq!(broken.len(), expected.len());
            assert!(broken.iter().all(|(seed, said)| *said == format!("broken by {seed}")), "{broken:?}");
            assert_eq!(broken.into_iter().map(|(seed, _)| seed).collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn what_broke_fails() {
        nothing_broke("", &[]);
        assert!(catch_unwind(|| nothing_broke("", &[(1, "broken".to_owned())])).is_err());
        assert!(catch_unwind(|| everything_struck(&Coverage::default(), &[Fault::AckLost])).is_err());
    }

    #[cfg(debug_assertions)]
    #[test]
    fn a_variant_is_caught_by_what_is_said_of_it_and_within_its_seeds() {
        let caught = |name, within, says| {
            let run = async |runs: &usize, seed: u64| {
                let broken = events::mutants::is_active("some") && seed >= 7;
                require(!broken, || format!("{seed} of {runs} breaks"))
            };
            move || hunt(Mutant { name, within, says }, 3, async |runs| runs, run)
        };
        assert_eq!(caught("some", 8, "breaks")().unwrap(), Some((7, "7 of 8 breaks".to_owned())));
        assert_eq!(caught("some", 6, "breaks")().unwrap(), None);
        assert_eq!(caught("some", 8, "another")().unwrap(), None);
        assert_eq!(caught("none", 8, "breaks")().unwrap(), None);
        events::mutants::choose(None);
        all_caught([("some", caught("some", 8, "breaks")), ("again", caught("some", 7, "7 of 7"))]);
        assert!(catch_unwind(|| all_caught([("some", caught("some", 6, "breaks"))])).is_err());
    }
}
