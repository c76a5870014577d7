//! The series that are kept: what is read of which metrics, and how it becomes a value of a moment.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::{Labels, Reading};

/// What the values of a series are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    PerSecond,
    Seconds,
    Count,
    Ratio,
    Coins,
}

/// How values are read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Read {
    /// By how much counters grew, a second.
    Rate,
    /// Where gauges stand: their sum,
    Sum,
    /// or the largest.
    Max,
    /// The mean of what a histogram took in meanwhile.
    Mean,
    /// That value below which this part of it is, as Prometheus guesses it from the buckets.
    Quantile(f64),
}

/// Some series of one metric.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    metric: &'static str,
    read: Read,
    pub(super) unit: Unit,
    /// Labels by whose values there is a series each; over all others it is one.
    by: &'static [&'static str],
    /// A label, and its values that are passed over.
    without: Option<(&'static str, &'static [&'static str])>,
}

const fn of(
    name: &'static str,
    metric: &'static str,
    read: Read,
    unit: Unit,
    by: &'static [&'static str],
) -> Definition {
    Definition { name, metric, read, unit, by, without: None }
}

/// Them, in the order in which they are shown.
pub(super) const DEFINITIONS: &[Definition] = &[
    of("payments", "gw_payments_total", Read::Rate, Unit::PerSecond, &["event"]),
    of("payment_seconds", "gw_payment_seconds", Read::Mean, Unit::Seconds, &[]),
    of("payments_open", "gw_payments_open", Read::Sum, Unit::Count, &["stage"]),
    of("payments_overdue", "gw_payments_overdue", Read::Sum, Unit::Count, &[]),
    of("payments_parked", "gw_payments_parked", Read::Sum, Unit::Count, &[]),
    of("payments_unattested", "gw_payments_unattested", Read::Sum, Unit::Count, &[]),
    of("http_requests", "gw_http_requests_total", Read::Rate, Unit::PerSecond, &["status"]),
    of("http_seconds", "gw_http_request_seconds", Read::Mean, Unit::Seconds, &[]),
    of("http_seconds_p95", "gw_http_request_seconds", Read::Quantile(0.95), Unit::Seconds, &[]),
    of("refusals", "gw_refusals_total", Read::Rate, Unit::PerSecond, &[]),
    of("appends", "gw_journal_appends_total", Read::Rate, Unit::PerSecond, &["outcome"]),
    of("append_seconds", "gw_journal_append_seconds", Read::Mean, Unit::Seconds, &[]),
    of("append_seconds_p95", "gw_journal_append_seconds", Read::Quantile(0.95), Unit::Seconds, &[]),
    of("read_model_lag", "gw_read_model_lag", Read::Max, Unit::Count, &[]),
    of("leases_held", "gw_leases_held", Read::Sum, Unit::Count, &[]),
    of("ready", "gw_ready", Read::Sum, Unit::Ratio, &[]),
    of("chain_ready", "gw_chain_ready", Read::Sum, Unit::Ratio, &["chain"]),
    of("node_seconds", "gw_node_call_seconds", Read::Mean, Unit::Seconds, &["chain", "node"]),
    Definition {
        // A refusal is an answer.
        without: Some(("outcome", &["ok", "refused"])),
        ..of("node_errors", "gw_node_calls_total", Read::Rate, Unit::PerSecond, &["chain", "node"])
    },
    of("node_lag", "gw_node_lag_blocks", Read::Max, Unit::Count, &["chain", "node"]),
    of("submitter_coins", "gw_submitter_balance", Read::Sum, Unit::Coins, &["chain", "account"]),
];

/// Whether a series of this name, as it stands in the text, is read for any of them.
pub(super) fn is_read(name: &str) -> bool {
    let metric = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    DEFINITIONS.iter().any(|definition| match definition.read {
        Read::Mean | Read::Quantile(_) => metric == Some(definition.metric),
        Read::Rate | Read::Sum | Read::Max => name == definition.metric,
    })
}

/// A group of series over which one value is read, by the labels that tell it from others.
type Groups = BTreeMap<Labels, Vec<(Labels, f64)>>;

impl Definition {
    /// The values of a moment, by the labels that tell series apart; of what grows, since `before`, `seconds` ago.
    pub(super) fn values(&self, now: &Reading, before: &Reading, seconds: f64) -> BTreeMap<Labels, f64> {
        match self.read {
            Read::Sum => reduced(self.groups(now, ""), |values| values.sum()),
            Read::Max => reduced(self.groups(now, ""), |values| values.fold(f64::NEG_INFINITY, f64::max)),
            Read::Rate => {
                let before = reduced(self.groups(before, ""), |values| values.sum());
                let now = reduced(self.groups(now, ""), |values| values.sum());
                let grown = now.into_iter().map(|(labels, value)| {
                    // One that is new began at 0.
                    let since = before.get(&labels).copied().unwrap_or(0.0);
                    (labels, (value - since).max(0.0) / seconds)
                });
                grown.collect()
            }
            Read::Mean => {
                let grown = |end: &str| {
                    let before = reduced(self.groups(before, end), |values| values.sum());
                    let now = reduced(self.groups(now, end), |values| values.sum());
                    let grown = now.into_iter().map(|(labels, value)| {
                        let since = before.get(&labels).copied().unwrap_or(0.0);
                        (labels, value - since)
                    });
                    grown.collect::<BTreeMap<Labels, f64>>()
                };
                let (sums, counts) = (grown("_sum"), grown("_count"));
                let means = sums.into_iter().filter_map(|(labels, sum)| {
                    let count = counts.get(&labels).copied().filter(|count| *count > 0.0)?;
                    Some((labels, sum / count))
                });
                means.collect()
            }
            Read::Quantile(part) => {
                let before = self.groups(before, "_bucket");
                let found = self.groups(now, "_bucket").into_iter().filter_map(|(labels, series)| {
                    let before = before.get(&labels).map(Vec::as_slice).unwrap_or_default();
                    let value = quantile(part, &grown_buckets(&series, before))?;
                    Some((labels, value))
                });
                found.collect()
            }
        }
    }

    /// The series of the metric's name with `end`, in groups.
    fn groups(&self, reading: &Reading, end: &str) -> Groups {
        let mut groups = Groups::new();
        for (labels, value) in reading.all(&format!("{}{end}", self.metric)) {
            let is_passed_over = self
                .without
                .is_some_and(|(label, values)| labels.get(label).is_some_and(|found| values.contains(&found.as_str())));
            if is_passed_over {
                continue;
            }
            let by = self.by.iter().filter_map(|label| labels.get_key_value(*label));
            let group: Labels = by.map(|(label, value)| (label.clone(), value.clone())).collect();
            groups.entry(group).or_default().push((labels.clone(), *value));
        }
        groups
    }
}

fn reduced(groups: Groups, reduce: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> BTreeMap<Labels, f64> {
    let values = |series: Vec<(Labels, f64)>| reduce(&mut series.into_iter().map(|(_, value)| value));
    groups.into_iter().map(|(labels, series)| (labels, values(series))).collect()
}

/// By how much the buckets grew, by their upper bounds in order.
fn grown_buckets(now: &[(Labels, f64)], before: &[(Labels, f64)]) -> Vec<(f64, f64)> {
    let mut bounds: Vec<(f64, f64)> = Vec::new();
    let mut add = |series: &[(Labels, f64)], sign: f64| {
        for (labels, count) in series {
            let Some(bound) = labels.get("le").and_then(|le| le.parse::<f64>().ok()) else { continue };
            match bounds.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, sum)) => *sum += sign * count,
                None => bounds.push((bound, sign * count)),
            }
        }
    };
    add(now, 1.0);
    add(before, -1.0);
    bounds.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    bounds
}

/// As `histogram_quantile` of Prometheus: within a bucket values lie evenly; of what is above the last bound, that bound.
fn quantile(part: f64, buckets: &[(f64, f64)]) -> Option<f64> {
    let all = buckets.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
    let rank = part * all;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= rank {
            let is_open = bound.is_infinite() || *count <= below;
            return Some(if is_open { lower } else { lower + (bound - lower) * (rank - below) / (count - below) });
        }
        (lower, below) = (*bound, *count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(text: &str) -> Reading {
        Reading::of(text, is_read)
    }

    fn values(name: &str, now: &str, before: &str) -> Vec<(String, f64)> {
        let definition = DEFINITIONS.iter().find(|definition| definition.name == name).unwrap();
        let values = definition.values(&reading(now), &reading(before), 10.0);
        let text = |labels: Labels| labels.into_values().collect::<Vec<_>>().join(" ");
        values.into_iter().map(|(labels, value)| (text(labels), value)).collect()
    }

    #[test]
    fn counters_become_rates_and_what_is_new_began_at_zero() {
        let before = "gw_payments_total{event=\"submitted\"} 10\n";
        let now = "gw_payments_total{event=\"submitted\"} 60\ngw_payments_total{event=\"completed\"} 20\n";
        assert_eq!(values("payments", now, before), [("completed".into(), 2.0), ("submitted".into(), 5.0)]);
        let calls = |ok: u32, unreachable: u32| {
            let of = |outcome: &str, count: u32| {
                format!("gw_node_calls_total{{chain=\"c\",node=\"n\",outcome=\"{outcome}\"}} {count}\n")
            };
            of("ok", ok) + &of("refused", ok) + &of("unreachable", unreachable) + &of("rate_limited", unreachable)
        };
        assert_eq!(values("node_errors", &calls(900, 10), &calls(100, 0)), [("c n".into(), 2.0)]);
    }

    #[test]
    fn gauges_stand_where_they_stand() {
        let now =
            "gw_read_model_lag{shard=\"0\"} 3\ngw_read_model_lag{shard=\"1\"} 8\ngw_payments_open{stage=\"a\"} 4\n";
        assert_eq!(values("read_model_lag", now, ""), [(String::new(), 8.0)]);
        assert_eq!(values("payments_open", now, now), [("a".into(), 4.0)]);
        assert_eq!(values("leases_held", now, now), []);
    }

    #[test]
    fn histograms_become_means_and_quantiles_of_what_came_in_meanwhile() {
        let text = |low: u32, high: u32, sum: f64| {
            let all = low + high;
            format!(
                "gw_journal_append_seconds_bucket{{le=\"0.1\"}} {low}\ngw_journal_append_seconds_bucket{{le=\"0.2\"}} {all}\n\
                 gw_journal_append_seconds_bucket{{le=\"+Inf\"}} {all}\ngw_journal_append_seconds_sum {sum}\n\
                 gw_journal_append_seconds_count {all}\n"
            )
        };
        let (before, now) = (text(1_000, 0, 10.0), text(1_050, 50, 21.0));
        assert_eq!(values("append_seconds", &now, &before), [(String::new(), 0.11)]);
        let [(_, p95)] = &values("append_seconds_p95", &now, &before)[..] else { panic!("one series") };
        assert!((p95 - 0.19).abs() < 1e-9, "{p95}");
        // Nothing came in.
        assert_eq!(values("append_seconds", &now, &now), []);
        assert_eq!(values("append_seconds_p95", &now, &now), []);
        assert_eq!(quantile(0.95, &[(0.1, 0.0), (f64::INFINITY, 5.0)]), Some(0.1));
    }
}
