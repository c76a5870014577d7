//! Graphs: the last hour of some of the process's own metrics, a point every ten seconds.
//!
//! They take [`SERIES_MAX`] × [`POINTS`] × 4 bytes at most, 0.36 MiB, and the labels of each series.

mod reading;
mod series;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use chrono::Utc;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use events::time::Timestamp;

use self::series::DEFINITIONS;
pub(crate) use self::{
    reading::{Labels, Reading},
    series::Unit,
};

/// How far two points are apart.
const EVERY: Duration = Duration::from_secs(10);
/// Points of a series: an hour.
const POINTS: usize = 360;
/// Most series; more that come up are not kept.
const SERIES_MAX: usize = 256;
/// Metrics that are not kept, and of which the newest values are looked at: those of chains.
const LOOKED_AT: [&str; 8] = [
    "gw_chain_head",
    "gw_chain_settled",
    "gw_nonces_in_flight",
    "gw_submitter_balance",
    "gw_node_calls_total",
    "gw_node_lag_blocks",
    "gw_node_disagreements_total",
    "gw_node_up",
];

/// The graphs of this process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Graphs(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// By the place of its definition in the table, and its labels.
    series: BTreeMap<(usize, Labels), Points>,
    /// Where the next point is put in each.
    at: usize,
    last: Arc<Reading>,
    last_at: Option<(Instant, Timestamp)>,
}

/// The points of a series, in a ring; NaN where there is none.
struct Points(Box<[f32; POINTS]>);

/// `GET /api/graphs`.
#[derive(Debug, Serialize)]
pub(crate) struct GraphsBody {
    every_seconds: u64,
    points: usize,
    /// When the last of them was taken; absent before the first.
    ends_at: Option<Timestamp>,
    series: Vec<SeriesBody>,
}

#[derive(Debug, Serialize)]
struct SeriesBody {
    name: &'static str,
    labels: Labels,
    unit: Unit,
    /// Oldest first.
    values: Vec<Option<f32>>,
}

impl Graphs {
    /// Takes a point every ten seconds of what `render` gives, until `shutdown`: all metrics as text for Prometheus.
    pub async fn run(self, render: impl Fn() -> String, shutdown: CancellationToken) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            self.take(&render(), Instant::now(), Utc::now());
        }
    }

    fn take(&self, text: &str, now: Instant, at: Timestamp) {
        let reading = Reading::of(text, |name| series::is_read(name) || LOOKED_AT.contains(&name));
        self.kept().take(reading, now, at);
    }

    /// The last hour.
    pub(crate) fn body(&self) -> GraphsBody {
        let kept = self.kept();
        let series = kept.series.iter().map(|((definition, labels), points)| {
            let definition = &DEFINITIONS[*definition];
            let (newer, older) = points.0.split_at(kept.at);
            let values = older.iter().chain(newer).map(|value| Some(*value).filter(|value| value.is_finite()));
            SeriesBody {
                name: definition.name,
                labels: labels.clone(),
                unit: definition.unit,
                values: values.collect(),
            }
        });
        GraphsBody {
            every_seconds: EVERY.as_secs(),
            points: POINTS,
            ends_at: kept.last_at.map(|(_, at)| at),
            series: series.collect(),
        }
    }

    /// What was read last.
    pub(crate) fn last(&self) -> Arc<Reading> {
        self.kept().last.clone()
    }

    /// The newest point of a series that has these labels, of those of the last ten minutes.
    pub(crate) fn newest(&self, name: &str, labels: &[(&str, &str)]) -> Option<f32> {
        let kept = self.kept();
        let is_meant = |labels_of: &Labels| {
            labels.iter().all(|(label, value)| labels_of.get(*label).is_some_and(|found| found == value))
        };
        let mut all = kept.series.iter();
        let (_, points) = all.find(|((at, of), _)| DEFINITIONS[*at].name == name && is_meant(of))?;
        let back = (1..=POINTS / 6).map(|back| points.0[(kept.at + POINTS - back) % POINTS]);
        back.into_iter().find(|value| value.is_finite())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each point is put where it belongs before the next; a panic in between leaves one out.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, reading: Reading, now: Instant, at: Timestamp) {
        let seconds = self.last_at.map(|(before, _)| now.duration_since(before).as_secs_f64());
        for points in self.series.values_mut() {
            points.0[self.at] = f32::NAN;
        }
        // Of what grows nothing can be said before there are two readings.
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0.0) {
            for (number, definition) in DEFINITIONS.iter().enumerate() {
                for (labels, value) in definition.values(&reading, &self.last, seconds) {
                    self.put((number, labels), value);
                }
            }
        }
        self.series.retain(|_, points| points.0.iter().any(|value| value.is_finite()));
        self.at = (self.at + 1) % POINTS;
        (self.last, self.last_at) = (Arc::new(reading), Some((now, at)));
    }

    fn put(&mut self, series: (usize, Labels), value: f64) {
        if self.series.len() >= SERIES_MAX && !self.series.contains_key(&series) {
            return;
        }
        let points = self.series.entry(series).or_insert_with(|| Points(Box::new([f32::NAN; POINTS])));
        points.0[self.at] = value as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(graphs: &Graphs, texts: impl IntoIterator<Item = String>) {
        let (start, at) = (Instant::now(), "2030-01-01T00:00:00Z".parse().unwrap());
        for (n, text) in texts.into_iter().enumerate() {
            graphs.take(&text, start + EVERY * u32::try_from(n).unwrap(), at);
        }
    }

    fn series<'a>(body: &'a GraphsBody, name: &str) -> Vec<&'a SeriesBody> {
        body.series.iter().filter(|series| series.name == name).collect()
    }

    #[test]
    fn an_hour_is_kept_and_the_newest_point_is_the_last() {
        let graphs = Graphs::default();
        assert!(graphs.body().series.is_empty() && graphs.body().ends_at.is_none());
        taken(&graphs, (0..400).map(|n| format!("gw_payments_total{{event=\"submitted\"}} {}\n", n * n * 10)));
        let body = graphs.body();
        let [payments] = &series(&body, "payments")[..] else { panic!("one series") };
        assert_eq!((payments.values.len(), payments.unit), (POINTS, Unit::PerSecond));
        // From n − 1 to n it grew by 10 (2n − 1), in ten seconds.
        let expected: Vec<_> = (40..400).map(|n| Some((2 * n - 1) as f32)).collect();
        assert_eq!(payments.values, expected);
        assert_eq!(graphs.newest("payments", &[("event", "submitted")]), Some(797.0));
    }

    #[test]
    fn what_is_silent_leaves_gaps_and_is_forgotten_after_an_hour() {
        let graphs = Graphs::default();
        let text = |n: usize| if n < 2 { "gw_leases_held 3\n".to_owned() } else { String::new() };
        taken(&graphs, (0..5).map(text));
        let body = graphs.body();
        let [leases] = &series(&body, "leases_held")[..] else { panic!("one series") };
        assert_eq!(leases.values[POINTS - 5..], [None, Some(3.0), None, None, None]);
        assert_eq!(graphs.newest("leases_held", &[]), Some(3.0));
        let graphs = Graphs::default();
        taken(&graphs, (0..POINTS + 2).map(text));
        assert!(graphs.body().series.is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let graphs = Graphs::default();
        let text: String = (0..2 * SERIES_MAX)
            .map(|n| format!("gw_submitter_balance{{chain=\"eip155:{n}\",account=\"0x\"}} 1\n"))
            .collect();
        taken(&graphs, [text.clone(), text]);
        assert_eq!(graphs.body().series.len(), SERIES_MAX);
    }
}
